"""What if, with real pictures: the training in the browser is that of LPS, and its scores are the app's."""

import json
import re

import numpy as np
import pytest
import scipy.optimize
import torch
from playwright.sync_api import expect
from torch import nn

from benchmarks.digit_features import split_of
from lps.data import sources
from lps.data.batches import Batch
from lps.data.classes import Classes
from lps.methods import Progress
from lps.methods.lps import LPS
from lps.network.network import CosineClassifier, Outputs
from lps.scores import protocols
from lps.ui.explain import digit_features, what_if

LABELED, ROWS, WIDTH = 16, 64, 16
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


class Head(nn.Module):
    """The classifier of the app on features as they are, each view by itself."""

    def __init__(self, weights, scale):
        super().__init__()
        self.classifier = CosineClassifier(WIDTH, len(weights), scale)
        self.classifier.weight.data = torch.tensor(weights)

    def forward_views(self, views):
        return [Outputs(view, self.classifier(view)) for view in views]


def asked(seed: int, novel: int, **changes) -> dict:
    """A batch of three views, a head with a past, and settings, that both languages get."""
    random = torch.Generator().manual_seed(seed)
    settings = what_if.training_settings() | {"seen": 10 - novel} | changes
    views = torch.randn(3, ROWS, WIDTH, generator=random).tolist()
    targets = torch.randint(settings["seen"], (LABELED,), generator=random).tolist()
    weights, past = (torch.randn(10, WIDTH, generator=random).tolist() for _ in range(2))
    return {"views": views, "targets": targets, "weights": weights, "past": past, "settings": settings}


def in_python(one: dict) -> dict:
    """The loss of `lps.methods.lps` on the batch, and the weights after a step of torch's SGD."""
    settings = one["settings"]
    network = Head(one["weights"], settings["cosine_scale"])
    names = ("margin_scale", "entropy_weight", "temperature")
    method = LPS(network, Classes(settings["seen"], 10), **{name: settings[name] for name in names})
    views = [torch.tensor(view) for view in one["views"]]
    labeled, unlabeled = (tuple(view[part] for view in views) for part in (slice(LABELED), slice(LABELED, None)))
    batch = Batch(labeled, torch.tensor(one["targets"]), unlabeled, torch.arange(ROWS - LABELED))
    loss, measured = method.loss(batch, Progress(5, 20, 0, 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=settings["lr"], momentum=settings["momentum"])
    weights = network.classifier.weight
    optimizer.state[weights]["momentum_buffer"] = torch.tensor(one["past"])
    loss.backward()
    optimizer.step()
    kl, margins = float(measured["kl/margin"]), measured["margin"].tolist()
    return {"total": float(loss), "kl": kl, "margins": margins, "weights": weights.tolist()}


@pytest.mark.parametrize("changes", [{}, {"margin_scale": 20.0, "temperature": 0.1}, {"entropy_weight": 1.0}], ids=str)
@pytest.mark.parametrize("novel", [1, 5, 8])
def test_a_step_of_the_head_is_the_step_of_training(blank, novel, changes):
    one = asked(novel, novel, **changes)
    theirs, ours = json.loads(blank.evaluate(STEP, [what_if.TRAINING, one])), in_python(one)
    for name, value in ours.items():
        found, expected = (torch.tensor(numbers, dtype=torch.float32) for numbers in (theirs[name], value))
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("seed, novel", [(0, 5), (3, 8), (4, 1)])
def test_split_and_scores_are_those_of_the_app(blank, seed, novel):
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
