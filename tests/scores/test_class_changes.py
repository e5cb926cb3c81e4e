"""What training on changed, class by class."""

import numpy as np

from lps.scores.class_changes import changes_in_words, compare_classes

TRUTH = np.array(["cat", "cat", "cat", "dog", "", "", ""])
BEFORE = np.array(["cat", "cat", "dog", "dog", "owl", "owl", "owl"])


def test_right_predictions_and_pictures_that_stay_are_counted_by_class():
    after = np.array(["cat", "dog", "dog", "dog", "owl", "cat", "owl"])
    cat, dog, owl = compare_classes(["cat", "dog", "owl"], BEFORE, after, TRUTH)
    assert (cat.withheld, cat.right_before, cat.right_after) == (3, 2, 1) and (cat.before, cat.stayed) == (2, 1)
    assert (dog.withheld, dog.right_before, dog.right_after) == (1, 1, 1)
    assert (owl.withheld, owl.before, owl.stayed) == (0, 3, 2)
    words = changes_in_words([cat, dog, owl])
    assert "cat (2 → 1 of 3)" in words and "owl (1 of 3)" in words and "dog" not in words


def test_where_nothing_got_worse_it_says_so_with_the_number_of_classes():
    words = changes_in_words(compare_classes(["cat", "dog", "owl"], BEFORE, BEFORE, TRUTH))
    assert "(2 checked)" in words and "→" not in words
    assert changes_in_words([]) == ""
