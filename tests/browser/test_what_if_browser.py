"""What if, with real pictures: the training in the browser is that of LPS, and its scores are the app's."""

import json
import re

import numpy as np
import pytest
import scipy.optimize
from playwright.sync_api import expect

from lps.data import sources
from lps.scores import protocols
from lps.ui.explain import digit_features, what_if

IMPORT = 'await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })))'
STEP = f"""async ([source, one]) => {{
  const own = {IMPORT};
  const model = {{ weights: one.weights, past: one.past, scale: one.settings.cosine_scale }};
  const {{ total, kl, margins }} = own.step(model, one.views, one.targets, 5 / 20, one.settings);
  return JSON.stringify({{ total, kl, margins, weights: model.weights }});
}}"""
TRAIN = f"""async ([source, pictures, settings, seed]) => {{
  const own = {IMPORT};
  const training = own.trainingOf(pictures, seed, settings);
  while (!own.isOver(training)) own.advanceTraining(training);
  const {{ guesses }} = own.judge(training.model, training.world, settings);
  return {{ guesses, points: training.points, labeled: training.world.map((one) => one.isLabeled) }};
}}"""
SUMS = f"async ([source, tables]) => {{ const own = {IMPORT}; return tables.map(own.bestSum); }}"


@pytest.mark.parametrize("changes", [{}, {"margin_scale": 20.0, "temperature": 0.1}, {"entropy_weight": 1.0}], ids=str)
@pytest.mark.parametrize("novel", [1, 5, 8])
def test_a_step_of_the_head_is_the_step_of_training(blank, novel, changes):
    from tests.browser import steps_in_python

    one = steps_in_python.features(novel, novel, **changes)
    found = json.loads(blank.evaluate(STEP, [what_if.TRAINING, one]))
    for name, expected in steps_in_python.step_of_features(one).items():
        pair = np.float32(found[name]), np.float32(expected)
        np.testing.assert_allclose(*pair, rtol=2e-5, atol=2e-5, equal_nan=False)


@pytest.mark.parametrize("seed, novel", [(0, 5), (3, 8), (4, 1)])
def test_split_and_scores_are_those_of_the_app(blank, seed, novel):
    from benchmarks.digit_features import split_of  # torch, which every worker would import

    settings = what_if.training_settings() | {"seen": 10 - novel, "steps": 40}
    found = blank.evaluate(TRAIN, [what_if.TRAINING, digit_features.pack_features(), settings, seed])
    split, truth = split_of(seed, 10 - novel), sources.load("digits").labels
    assert np.flatnonzero(found["labeled"]).tolist() == split.labeled.tolist()
    guesses = np.array(found["guesses"])[split.unlabeled]
    ours = protocols.score(guesses, split.targets(truth)[split.unlabeled], split.classes, "orca", False)
    end = found["points"][-1]
    assert (end["seen"], end["novel"]) == pytest.approx((ours.seen, ours.novel), abs=1e-12)
    assert found["points"][0]["kl"] is None and len(found["points"]) == settings["epochs"] + 1
    assert found == blank.evaluate(TRAIN, [what_if.TRAINING, digit_features.pack_features(), settings, seed])


def test_the_best_matching_is_scipys(blank):
    random = np.random.default_rng(0)
    shapes = [(rows, columns) for rows in range(1, 9) for columns in (rows, 10)] * 5
    tables = [random.integers(0, 30, shape) for shape in shapes]
    expected = [table[scipy.optimize.linear_sum_assignment(table, maximize=True)].sum() for table in tables]
    assert blank.evaluate(SUMS, [what_if.TRAINING, [table.tolist() for table in tables]]) == expected


def ended(page) -> str:
    """What is said once a training is over."""
    page.wait_for_function("() => document.querySelector('.lps-whatif-said').textContent.startsWith('After')")
    return page.locator(".lps-whatif-said").inner_text()


def test_a_slider_trains_again_beside_what_was_and_the_address_says_it(open_page):
    page = open_page("explain", "dark", 390)
    page.locator(".lps-whatif-charts").scroll_into_view_if_needed()
    first = ended(page)
    assert re.fullmatch(r"After 120 steps, in \d+ ms: seen .* KL [\d.]+\. .*\(C 0\).*: seen .*", first)
    gaps = re.findall(r"seen (\d+) %, novel (\d+) %, gap (-?\d+) ", first)
    assert len(gaps) == 2 and all(int(seen) - int(novel) == int(gap) for seen, novel, gap in gaps)
    rows = page.locator(".lps-whatif tbody tr")
    expect(rows).to_have_count(4)  # its own, and the three recorded runs of LPS
    now = page.locator("polyline.lps-whatif-now.lps-whatif-novel")
    curve = now.get_attribute("points")
    assert len(curve.split()) == 21
    page.get_by_label("Novel classes (of 10)").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("(old) => document.querySelector('.lps-whatif-said').textContent !== old", arg=first)
    assert "(novel classes 5)" in ended(page)
    assert page.locator("polyline.lps-whatif-before.lps-whatif-novel").get_attribute("points") == curve
    assert "if_novel=4" in page.url
    for wide in (390, 1280, 1920):
        page.set_viewport_size({"width": wide, "height": 900})
        page.wait_for_timeout(300)
        box = page.locator(".lps-whatif").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= wide
    page.get_by_role("button", name="Usual values").click()
    page.wait_for_function(
        "(end) => document.querySelector('.lps-whatif-said').textContent.includes('novel classes 4')"
    )
    assert now.get_attribute("points") == curve and "if_" not in page.url
