"""The race in the plane: the browser trains with the objective of LPS, by itself, for every theme, width and key."""

import json

import numpy as np
import pytest

from benchmarks.plane import race
from lps.ui.explain import plane
from tests.browser.looks import watched_tab

IN_BROWSER = """async ([source, one]) => {
  const plane = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const model = { weights: one.weights, past: one.past };
  const found = plane.step(model, one.views, one.targets, 5 / 20, one.settings);
  const { margin, clustered, apart, entropy } = found.terms;
  const { total, piHat, margins } = found;
  return JSON.stringify({ terms: [margin, clustered, apart, entropy], total, piHat, margins, weights: model.weights });
}"""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "changes",
    [{}, {"margin_scale": 0.0}, {"entropy_weight": 0.0}, {"margin_scale": 20.0, "entropy_weight": 1.0}]
    + [{"temperature": 0.1, "pseudo_label_weight": 2.0, "unsupervised_weight": 0.5}, {"seen": 2, "total": 7}],
    ids=str,
)
def test_a_step_in_the_browser_is_the_step_of_training(blank, seed, changes):
    from tests.browser import steps_in_python

    one = steps_in_python.points(seed, **changes)
    found = json.loads(blank.evaluate(IN_BROWSER, [plane.TRAINING, one]))
    for name, expected in steps_in_python.step_of_points(one).items():
        pair = np.float32(found[name]), np.float32(expected)
        np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-5, equal_nan=False)


@pytest.mark.slow
def test_the_margin_frees_novel_points_where_the_entropy_term_is_weak(blank):
    pairs = np.array(race(blank, list(range(8))))
    assert (pairs[:, 1] - pairs[:, 0]).mean() > 0.2 and (pairs[:, 1] >= pairs[:, 0] - 0.05).all()


def test_the_race_runs_by_itself_and_by_keys_and_nothing_is_cut(open_page):
    page = open_page("explain?present=1")
    page.get_by_text("A simulation in the plane, not your run.").wait_for()
    plot = page.locator(".lps-plane-canvas")
    plot.scroll_into_view_if_needed()
    said = page.locator(".lps-plane-said")
    page.wait_for_function("() => document.querySelector('.lps-plane-said').textContent", timeout=90_000)
    assert said.inner_text().startswith("After 400 steps") and "without the margin" in said.inner_text()
    novel = page.locator(".lps-plane-novel output").inner_text()
    assert f"novel accuracy is {novel} (" in said.inner_text()
    for wide in (1440, 1280, 1920, 390):
        page.set_viewport_size({"width": wide, "height": 900})
        page.wait_for_timeout(300)
        box = page.locator(".lps-plane").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= wide
        assert box["height"] < 800 or wide == 390  # plot, results and sliders are in sight together
        assert page.evaluate(CUT) == []
    page.get_by_label("Strength of the margin, C").focus()
    page.keyboard.press("Home")
    page.wait_for_function("() => document.querySelector('.lps-plane-step').textContent !== 'step 400 of 400'")
    assert page.get_by_label("Strength of the margin, C").input_value() == "0"
    page.locator(".lps-plane-play").press("Enter")
    page.wait_for_function("() => document.querySelector('.lps-plane-play').textContent === 'Play'")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(PAINTED)


CUT = """() => [...document.querySelectorAll('.lps-plane *')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
  .map((one) => one.className)"""


PAINTED = """() => {
  const canvas = document.querySelector('.lps-plane-canvas');
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  return new Set(new Uint32Array(pixels.buffer)).size > 20;
}"""


def test_whoever_wants_no_motion_starts_it_by_hand(profile, studio):
    with watched_tab(profile, studio.address) as watch:
        watch.page.emulate_media(reduced_motion="reduce")
        page = watch.open("explain")
        page.locator(".lps-plane-canvas").scroll_into_view_if_needed()
        page.wait_for_timeout(1500)
        assert page.locator(".lps-plane-step").inner_text() == "step 0 of 400"
        page.get_by_role("button", name="Play", exact=True).click()
        page.wait_for_function("() => document.querySelector('.lps-plane-step').textContent !== 'step 0 of 400'")
