"""Advice on the prior, from the labels that a user has sorted."""

import numpy as np
import pytest

from lps.data.class_shares import ADVISED, advise_prior
from lps.settings.config import configure

USUAL = configure({"dataset": "digits", "method": "lps"})


def test_unequal_labels_are_told_with_their_factor_and_the_prior_to_choose():
    advice = advise_prior([100, 40, 5], USUAL)
    assert advice.factor == 20 and advice.prior == ADVISED
    assert "20 times" in advice.words and f"prior = {ADVISED}" in advice.words
    assert "3.5 times" in advise_prior([70, 20], USUAL).words


@pytest.mark.parametrize("counts", [[100, 90, 34], [50], [], [0, 30], [6, 2, 3, 4]])
def test_nothing_is_said_of_sizes_that_are_alike_or_may_be_so_by_chance(counts):
    assert advise_prior(counts, USUAL) is None


def test_labels_of_equal_classes_look_unequal_by_chance_in_less_than_one_of_a_hundred_draws():
    random = np.random.default_rng(0)
    draws = [random.multinomial(labels, np.full(classes, 1 / classes)) for labels in (20, 60, 200)
             for classes in (3, 10) for _ in range(300)]  # fmt: skip
    assert np.mean([advise_prior(counts, USUAL) is not None for counts in draws]) < 0.01


def test_a_prior_is_advised_only_where_equal_shares_are_set_and_the_method_gained_from_it():
    for settings in ({"method": "lps", "prior": "labeled"}, {"method": "fixmatch"}, {"method": "orca"}):
        assert advise_prior([100, 5], configure({"dataset": "digits"} | settings)) is None
