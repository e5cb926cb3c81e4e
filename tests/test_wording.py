"""Amounts in words (counts, sizes, durations, ages), and that all code uses these functions."""

import re
from pathlib import Path

import pytest

from lps.wording import (
    ago,
    counted,
    data_size,
    duration,
    estimated,
    estimated_range,
    first_of,
    listed,
    part_of,
    points_between,
    share_of,
    with_minus,
)

ROOT = Path(__file__).resolve().parents[1]
BY_HAND = re.compile(r"\{'e?s' (?:\*|if)|else 'e?s'\}")  # a plural


def test_things_are_counted_in_the_right_number():
    said = [counted(*of) for of in ((0, "run"), (1, "class"), (2, "class"), (2000, "epoch"))]
    assert said == ["0 runs", "1 class", "2 classes", "2,000 epochs"]


def test_of_many_texts_the_first_are_named_with_a_mark():
    assert [first_of((1, 2, 3), most) for most in (2, 3)] == ["1, 2, …", "1, 2, 3"] and first_of([], 2) == ""


def test_negative_numbers_have_a_minus_and_settings_a_hyphen():
    text = with_minus("-4.8 points [-5.0, -4.6] of seed-1 with lr=-2 (-)")
    assert text == "−4.8 points [−5.0, −4.6] of seed-1 with lr=-2 (-)"


def test_a_difference_is_the_one_of_the_numbers_as_displayed():
    first, second = 0.98487, 0.62054
    assert (f"{100 * first:.1f}", f"{100 * second:.1f}") == ("98.5", "62.1")
    assert points_between(first, second) == 36.4 and points_between(second, first) == -36.4
    assert f"{points_between(0.5, 0.50001):+.1f}" == "+0.0"


def test_sizes_are_powers_of_ten():
    assert [data_size(n) for n in (10, 2_400_000, 1_250_000_000)] == ["1 MB", "2 MB", "1.2 GB"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(-3, "0 s"), (0, "0 s"), (119, "119 s"), (300, "5 min"), (9_000, "2 h"), (200_000, "2 d")]
)
def test_a_measured_time_is_said_in_its_largest_fitting_unit(seconds, words):
    assert duration(seconds) == words and ago(seconds) == f"{words} ago"


def test_an_estimate_is_no_more_exact_than_it_deserves():
    assert [estimated(s) for s in (1, 15, 18, 48, 300, 9000)] == ["5 s", "20 s", "20 s", "50 s", "5 min", "2.5 h"]
    ranges = [estimated_range(*ends) for ends in ((60, 600), (240, 1200), (1, 5), (3000, 30_000))]
    assert ranges == ["60 s to 10 min", "4 to 20 min", "5 s", "50 min to 8.3 h"]


@pytest.mark.parametrize("room", ["lps", "pages", "benchmarks"])
def test_no_plural_is_made_by_hand(room):
    files = [path for path in (ROOT / room).rglob("*.py") if BY_HAND.search(path.read_text(encoding="utf-8"))]
    assert files == []


def test_texts_are_listed_with_and():
    assert [listed("abc"[:count]) for count in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_a_share_of_a_handful_says_how_many():
    assert share_of(0.625, 8) == "5 of 8" and share_of(2 / 3, 29) == "19 of 29"
    assert part_of(0.625, 8) == "5" and part_of(0.954, 2400) == "95.4 %"
    assert share_of(0.625, 30) == "62.5 % of 30" and share_of(0.954, 2400) == "95.4 % of 2,400"
