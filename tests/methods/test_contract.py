"""What every method of the catalog holds: finite on batches at the edge, terms that add up, and runs that resume."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from lps.data.classes import Classes
from lps.methods import Progress
from lps.settings import catalog
from tests.extremes import ALL, FEW_CLASSES, FEW_LABELS, FEW_ROWS, SCALES
from tests.methods.test_ds3l import image_scene
from tests.methods.test_dtc import transferred
from tests.methods.test_fixmatch import fixmatch
from tests.methods.test_openncd import openncd
from tests.methods.test_rankstats import rankstats
from tests.scenes import WIDTH, Recorded, scene
from tests.shares import OFFSET, in_turn, share
from tests.short_runs import (
    assert_numbers_documented,
    assert_same_end,
    events,
    finished_run,
    numbers,
    resumed_run,
    state,
)

TEMPERATURES = (0.05, 0.1, 0.4)
CONTRASTS = [{"supervised_temperature": t, "unsupervised_temperature": t} for t in TEMPERATURES]
NO_PSEUDO_LABEL = dict(threshold_seen=1.0, threshold_novel_start=1.0, threshold_novel_end=1.0, scale=0.1)
GROUPS = [0, 1, 2, 3, 4, 5] * 2


@dataclass(frozen=True)
class Learner:
    """How a method learns in these tests, from which batches, and what is 0 in some of them."""

    scene: Callable
    epochs: tuple[int, ...] = (10,)  # of 20
    cases: dict = field(default_factory=lambda: ALL)
    variants: list[dict] = field(default_factory=lambda: [{}])
    zeros: dict = field(default_factory=dict)  # by case: a measurement that is 0 there


def recorded(name: str, views=2, **usual) -> Callable:
    return lambda **options: scene(name, views, **(usual | options))


LEARNERS = {
    "bacon": Learner(recorded("bacon", outputs=16), (19,)),
    "ds3l": Learner(
        image_scene,
        cases=FEW_ROWS | FEW_CLASSES | {"a step far too long": dict(virtual_lr=100.0)},
        zeros={"one seen class": "loss/total"},  # it is certain of everything, and learns nothing
    ),
    "dtc": Learner(
        lambda **options: transferred(**options)[:2],
        (0, 6, 8, 15),
        cases=FEW_ROWS
        | FEW_LABELS
        | FEW_CLASSES
        | {
            "more classes than features": dict(classes=Classes(3, WIDTH + 4)),
            "as many images as clusters": dict(features=9, classes=Classes(3, 9)),
            "images far apart": dict(scale=1e4),
        },
        variants=[{"consistency": "PI"}, {"consistency": "TE"}, {"consistency": "TEP"}],
    ),
    "fixmatch": Learner(
        fixmatch,
        cases=FEW_ROWS
        | FEW_CLASSES
        | SCALES
        | {"no row is confident": dict(threshold=1.0, scale=0.1), "every row is confident": dict(threshold=0.0)},
        zeros={"no row is confident": "loss/pseudo_label", "one seen class": "loss/total"},
    ),
    "gcd": Learner(recorded("gcd", outputs=16), variants=CONTRASTS),
    "legogcd": Learner(recorded("legogcd", known_threshold=0.0, known_temperature=0.01), (19,)),
    "lps": Learner(
        recorded("lps", views=3),
        cases=FEW_ROWS
        | {
            "no row is confident": NO_PSEUDO_LABEL,
            "every row is confident": dict(threshold_seen=0.0, threshold_novel_start=0.0, threshold_novel_end=0.0),
            "outputs far apart": dict(scale=60.0),
        },
        variants=[
            {"temperature": t, "contrast_normalizer": each} for t in TEMPERATURES for each in ("batch", "subset")
        ],
        zeros={"every row is confident": "loss/unsupervised_contrastive"},
    ),
    "nach": Learner(
        recorded("nach", views=3),
        cases=ALL
        | {
            "no row is confident": dict(threshold_seen=1.0, gap_start=0.0, scale=0.1),
            "every row is confident": dict(threshold_seen=0.0),
            "one labeled row, fewer than the filter's rank": dict(labeled=1, filter_rank=5),
        },
        zeros={"no row is confident": "loss/logit_adjusted"},
    ),
    "openncd": Learner(
        lambda **options: openncd(**({"groups": GROUPS} | options)),
        (0, 10),
        cases=FEW_ROWS
        | FEW_LABELS
        | SCALES
        | {
            "a small temperature": dict(temperature=0.01),
            "all prototypes in one group": dict(groups=[4] * 12),
            "a seen class without a prototype": dict(groups=[0, 0, 2, 3, 4, 5] * 2),
        },
    ),
    "orca": Learner(recorded("orca")),
    "rankstats": Learner(
        rankstats,
        cases=FEW_ROWS
        | FEW_LABELS
        | SCALES
        | {
            "one seen class": dict(classes=Classes(1, 6), outputs=7),
            "one novel class": dict(classes=Classes(5, 6), outputs=11),
            "more entries asked for than there are": dict(top_k=1000),
        },
    ),
    "simgcd": Learner(
        recorded("simgcd"),
        (0, 19),
        cases=ALL | {"one class of each kind": dict(classes=Classes(1, 2))},
        variants=CONTRASTS,
    ),
}


def test_every_method_that_learns_is_here():
    assert LEARNERS.keys() == set(catalog.method_names()) - {"simclr"}


CASES = [(name, case, torch.float32) for name in LEARNERS for case in LEARNERS[name].cases]


@pytest.mark.parametrize("name, case, precision", [*CASES, *in_turn([(*c[:2], torch.bfloat16) for c in CASES], 4)])
def test_loss_and_gradient_stay_finite_and_the_terms_add_up(name, case, precision):
    learner = LEARNERS[name]
    for variant in learner.variants:
        method, batch = learner.scene(**(variant | learner.cases[case]))
        if isinstance(method.network, Recorded):
            method.network.features.data[0, 0] = 0  # no direction at all
            method.network.to(precision)
        for epoch in learner.epochs:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == torch.bfloat16):
                loss, measured = method.loss(batch, Progress(epoch, 20, 0, 10))
            loss.backward()
            terms = [value.item() for key, value in measured.items() if key.startswith("loss/") and key != "loss/total"]
            assert loss.dtype == torch.float32 and loss.item() == pytest.approx(sum(terms), rel=1e-4, abs=1e-5)
            assert measured.get("loss/total", loss).item() == loss.item()
            parts = [part for value in measured.values() for part in (value if isinstance(value, tuple) else (value,))]
            assert all(torch.isfinite(torch.as_tensor(part)).all() for part in parts)
        gradients = [parameter.grad for parameter in method.parameters() if parameter.grad is not None]
        assert gradients and all(torch.isfinite(gradient).all() for gradient in gradients)
        if case in learner.zeros:
            assert measured[learner.zeros[case]] == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_a_stored_state_goes_on_with_the_same_losses(name):
    learner = LEARNERS[name]
    now = Progress(learner.epochs[-1], 20, 0, 10)
    for variant in learner.variants:
        method, batch = learner.scene(**variant)
        other, _ = learner.scene(seed=9, **variant)
        method.loss(batch, now)
        method.after_step()
        file = io.BytesIO()
        torch.save(method.state_dict(), file)
        other.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
        for _ in range(2):
            assert other.loss(batch, now)[0].item() == method.loss(batch, now)[0].item()
        ours, theirs = method.state_dict(), other.state_dict()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours if isinstance(ours[key], torch.Tensor))


def own_prior(run):
    shares = [event["values"]["class/prior"] for event in events(run) if event["kind"] == "train"]
    assert len(shares) == 2 and all(sum(row) == pytest.approx(1, abs=1e-5) and len(row) == 10 for row in shares)
    assert max(shares[-1]) > 0.11


def begins_after_one_epoch(term: str):
    def check(run):
        assert term not in numbers(run)["train", 1] and term in numbers(run)["train", 2]

    return check


def dtc_run(run):
    begins_after_one_epoch("loss/clustering")(run)
    tensors = state(run)
    assert len(tensors["targets"]) == len(tensors["past"]) == len(tensors["visits"]) > 400


def ds3l_run(run):
    assert numbers(run)["eval", 2]["accuracy/seen"] > 0.4
    steps = [entry["step"] for entry in state(run)["_extra_state"]["state"].values()]
    assert len(steps) == 4 and min(steps) == max(steps) > 20


def fixmatch_run(run):
    tensors, last = state(run), numbers(run)["eval", 2]
    assert tensors["updates"] == events(run)[-1]["step"]
    assert not torch.equal(tensors["average.classifier.weight"], tensors["network.classifier.weight"])
    assert last["accuracy/seen"] > 0.4 and 0 < last["rejected/share"] < 1


def gcd_run(run):
    last = numbers(run)["eval", 2]
    assert 0 < last["cluster/inertia"] < 1 and last["accuracy/all"] > 0.4


def nach_run(run):
    first, second = (numbers(run)["train", epoch] for epoch in (1, 2))
    assert first["pace_gap"] == 1 and first["threshold/novel"] == pytest.approx(0.45) and second["pace_gap"] < 1


def openncd_run(run):
    begins_after_one_epoch("loss/cross_entropy")(run)
    assert len(numbers(run)["train", 2]["pi_hat"]) == 10 and sum(numbers(run)["eval", 2]["group/prototypes"]) == 50
    assert state(run)["is_grouped"] and state(run)["groups"].max() < 10


def orca_run(run):
    first, second = (numbers(run)["train", epoch] for epoch in (1, 2))
    assert 0 < second["uncertainty"] < first["uncertainty"] < 1
    assert first["margin"][5:] == [0] * 5 and first["margin"][0] == pytest.approx(10 * min(0.5, first["uncertainty"]))


# By method: settings of a short run, and what must hold of it alone. Methods with a prior estimate it.
PRIOR = {"prior": "estimated", "prior.every": 1, "split.imbalance": 4.0, "split.rule": "stratified"}
PRIOR |= {"dataset.images_per_class": 120, "batch_size": 64}
FROZEN = {"network.freeze_until": "layer3", "dataset.images_per_class": None}  # all digits, or it learns nothing yet
RUNS = {
    "bacon": ({}, own_prior),
    "ds3l": (FROZEN, ds3l_run),
    "dtc": ({"consistency": "TE"}, dtc_run),
    "fixmatch": ({}, fixmatch_run),
    "gcd": ({}, gcd_run),
    "nach": (PRIOR, nach_run),
    "openncd": (PRIOR, openncd_run),
    "orca": (PRIOR, orca_run),
    "rankstats": ({"supervised_share": 0.33}, begins_after_one_epoch("loss/pairwise")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lps", *share([name for name in LEARNERS if name != "lps"], OFFSET, 4)])
def test_a_short_run_is_well_told_and_resumes_to_the_same_end(name, tmp_path, monkeypatch):
    settings, check = RUNS.get(name, (PRIOR, own_prior))
    run = finished_run(tmp_path / "whole", name, **settings)
    assert_numbers_documented(run)
    check(run)
    if "prior" in settings:
        own_prior(run)
    assert_same_end(resumed_run(tmp_path / "parts", monkeypatch, name, **settings), run)
