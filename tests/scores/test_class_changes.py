"""What training on changed, class by class."""

import numpy as np

from lps.scores import class_changes
from lps.scores.class_changes import changes_in_words, compare_in_words, growth_in_words

TRUTH = np.array(["cat", "cat", "cat", "dog", "", "", ""])
BEFORE = np.array(["cat", "cat", "dog", "dog", "owl", "owl", "owl"])


def compare_classes(names, before, after, truth):
    """Without decisions of a user: the names are what the models predict."""
    return class_changes.compare_classes(names, before, after, truth, (before == truth, after == truth))


def test_right_predictions_and_pictures_that_stay_are_counted_by_class():
    after = np.array(["cat", "dog", "dog", "dog", "owl", "cat", "owl"])
    cat, dog, owl = compare_classes(["cat", "dog", "owl"], BEFORE, after, TRUTH)
    assert (cat.withheld, cat.right_before, cat.right_after) == (3, 2, 1) and (cat.before, cat.stayed) == (2, 1)
    assert (dog.withheld, dog.right_before, dog.right_after) == (1, 1, 1)
    assert (owl.withheld, owl.before, owl.stayed) == (0, 3, 2)
    words = changes_in_words([cat, dog, owl])
    assert compare_in_words([cat, dog, owl]) == (
        "That run predicts 3 of 4 withheld labels correctly; this run predicts 2. The difference may be chance."
    )
    assert "cat (2 → 1 of 3)" in words and "owl (1 of 3)" in words and "dog" not in words


def test_what_a_user_corrected_is_no_prediction_of_the_model():
    was_right, still_right = TRUTH == BEFORE, np.array([True, False, False, True, False, False, False])
    (cat,) = class_changes.compare_classes(["cat"], TRUTH, TRUTH, TRUTH, (was_right, still_right))
    assert (cat.withheld, cat.right_before, cat.right_after, cat.lost) == (3, 2, 1, 1)


def test_where_nothing_got_worse_it_says_so_with_the_number_of_classes():
    words = changes_in_words(compare_classes(["cat", "dog", "owl"], BEFORE, BEFORE, TRUTH))
    assert "(2 checked)" in words and "→" not in words
    better = changes_in_words(compare_classes(["cat", "dog"], BEFORE, np.where(TRUTH == "", BEFORE, TRUTH), TRUTH))
    assert better.endswith("(2 checked); better: cat (2 → 3 of 3).")


def test_classes_that_got_worse_and_better_are_one_sentence_and_an_equal_total_comes_first():
    truth = np.array(["cat", "cat", "dog", "dog"])
    before, after = np.array(["cat", "cat", "cat", "dog"]), np.array(["cat", "dog", "dog", "dog"])
    changes = compare_classes(["cat", "dog"], before, after, truth)
    assert compare_in_words(changes) == "No difference in total: both runs predict 3 of 4 withheld labels correctly."
    words = "Correct predictions of withheld labels: fewer for cat (2 → 1 of 2), and more for dog (1 → 2 of 2)."
    assert changes_in_words(changes) == words
    assert changes_in_words([]) == ""


def test_the_numbers_of_two_runs_are_said_to_differ_by_chance_only_where_a_sign_test_allows_it():
    truth = np.array(["cat"] * 20)
    worse = np.array(["cat"] * 12 + ["dog"] * 8)  # eight lost, none gained: p = 2 / 256
    (cat,) = compare_classes(["cat"], truth, worse, truth)
    assert compare_in_words([cat]).endswith("predicts 20 of 20 withheld labels correctly; this run predicts 12.")
    assert "chance" not in compare_in_words(compare_classes(["cat"], truth, truth, truth))
    assert "cannot be compared" in compare_in_words([])


def test_only_clear_growth_is_named():
    before = {"cat": 45, "dog": 50, "ship": 10, "frog": 3, "gone": 9}
    after = {"cat": 63, "dog": 59, "ship": 15, "frog": 7, "new": 40}
    assert growth_in_words(before, after) == "cat grew from 45 to 63 pictures and ship grew from 10 to 15 pictures"
    assert growth_in_words(before, before) == growth_in_words({}, after) == ""
