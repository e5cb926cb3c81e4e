"""Cards of numbers: the line under a number, and what a name may hold."""

import numpy as np

from lps.ui.live import cards


def places(path: str) -> np.ndarray:
    return np.array([[float(number) for number in corner.split()] for corner in path.removeprefix("M").split("L")])


def test_a_line_reaches_from_edge_to_edge_and_from_bottom_to_top():
    found = places(cards.line_path([3.0, 1.0, 5.0, 2.0]))
    expected = [[0, 20], [200 / 3, 40], [400 / 3, 0], [200, 30]]
    np.testing.assert_allclose(found, expected, atol=0.05)
    assert places(cards.line_path([2.0, 2.0, 2.0]))[:, 1].tolist() == [20, 20, 20], "in the middle, without a change"


def test_a_long_line_keeps_every_spike():
    values = np.zeros(10_000)
    values[[123, 4567, 9998]] = 1
    values[777] = -1
    found = places(cards.line_path(values))
    assert len(found) <= cards.MAX_POINTS
    assert (found[:, 1] == 0).sum() == 3 and (found[:, 1] == 40).sum() == 1
    np.testing.assert_allclose(found[found[:, 1] == 0, 0], 200 * np.array([123, 4567, 9998]) / 9999, atol=0.05)


def test_no_name_becomes_an_element():
    assert "<b>" not in cards._render_card("<b>x", "<b>1", [1.0])


def test_room_for_a_line_is_kept_from_the_first_value_on():
    one, two, none = (cards._render_card("Seen", "90 %", values) for values in ([0.9], [0.9, 0.8], []))
    assert "<img" in one and "<img" in two and "<img" not in none
    assert "%3Cpath" in two and "%3Cpath" not in one
