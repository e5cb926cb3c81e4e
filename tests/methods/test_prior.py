"""Priors other than equal shares: what each is, where it enters the losses, and that the uniform one changes none."""

import math
import os

import numpy as np
import pytest
import torch

from lps.data.class_shares import first_prior, true_shares
from lps.data.classes import Classes
from lps.data.split import Split
from lps.errors import UserError
from lps.files.atomic import SMALL_FILE
from lps.methods import Inference, Method, Prediction
from lps.methods.nach import logit_adjusted_cross_entropy
from lps.methods.parts import prior
from lps.methods.parts.losses import negative_entropy_of_mean
from lps.methods.parts.pseudo_labels import PseudoLabels, kl_from_estimate, kl_from_prior
from lps.network.network import Outputs
from lps.settings import catalog
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.training import loop as training
from lps.training.loop import build
from tests.scenes import scene, value
from tests.short_runs import FEW, SHORT, events

VIEWS = {"lps": 3, "orca": 2, "nach": 3}
WITH_PRIOR = [name for name in catalog.method_names() if catalog.method_info(name).uses_prior]
UNEQUAL = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])


def test_these_methods_use_a_prior():
    assert WITH_PRIOR == ["legogcd", "lps", "nach", "openncd", "orca", "simgcd"]


def test_the_entropy_term_is_the_divergence_from_the_prior_up_to_a_constant():
    logits = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)) * 3
    mean, shares = logits.double().softmax(dim=1).mean(dim=0).numpy(), UNEQUAL.double().numpy()
    divergence = (mean * np.log(mean / shares)).sum()
    assert negative_entropy_of_mean(logits, UNEQUAL).item() == pytest.approx(divergence - math.log(6), abs=1e-6)
    even = torch.full((6,), 1 / 6)
    assert negative_entropy_of_mean(logits, even).item() == pytest.approx(negative_entropy_of_mean(logits).item())


def test_the_divergences_of_the_margin_are_from_the_prior():
    estimate = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.1, 0.1])
    p, q = estimate.double().numpy(), UNEQUAL.double().numpy()
    assert kl_from_prior(estimate, UNEQUAL).item() == pytest.approx((q * np.log(q / p)).sum(), rel=1e-5)
    assert kl_from_estimate(estimate, UNEQUAL).item() == pytest.approx((p * np.log(p / q)).sum(), rel=1e-5)
    assert kl_from_prior(UNEQUAL, UNEQUAL).item() == pytest.approx(0, abs=1e-7)
    with_empty = torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0, 0.0])
    assert torch.isfinite(kl_from_estimate(estimate, with_empty)) and torch.isfinite(kl_from_prior(with_empty, UNEQUAL))


def test_the_adjusted_logits_of_nach_are_relative_to_the_prior():
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
    labels = PseudoLabels(torch.tensor([0, 1, 4, 5]), torch.ones(4), torch.tensor([True, True, True, False]))
    estimate = torch.tensor([0.1, 0.2, 0.3, 0.2, 0.1, 0.1])
    raised = (logits + (estimate / UNEQUAL).log()).log_softmax(dim=1)
    expected = -(raised[0, 0] + raised[1, 1] + raised[2, 4]) / 4
    found = logit_adjusted_cross_entropy(logits, labels, estimate, UNEQUAL)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", VIEWS)
def test_a_method_is_pulled_towards_its_prior(name):
    """The gradient of the loss with respect to the logits differs between two priors as the terms say."""
    found = {}
    for key, shares in {"even": torch.full((6,), 1 / 6), "none": None, "unequal": UNEQUAL}.items():
        method, batch = scene(name, VIEWS[name])
        method.class_prior = shares
        loss, measured = method.loss(batch, training.Progress(0, 4, 0, 10))
        loss.backward()
        found[key] = loss.item(), method.network.logits.grad, measured
    torch.testing.assert_close(found["even"][1], found["none"][1], atol=1e-6, rtol=1e-4)
    assert found["even"][0] == pytest.approx(found["none"][0], rel=1e-5)
    assert not torch.allclose(found["unequal"][1], found["none"][1], atol=1e-4)
    mean, kl = (value(found["unequal"][2][key]) for key in ("pi_hat", "kl"))
    assert kl.item() == pytest.approx(kl_from_prior(mean, UNEQUAL).item(), rel=1e-5)


def test_the_margin_of_lps_is_zero_where_the_estimate_meets_the_prior():
    method, _ = scene("lps", 3)
    method.class_prior = UNEQUAL
    assert method.margins(UNEQUAL).abs().max() < 1e-5 < method.margins(torch.full((6,), 1 / 6)).min()
    other = torch.full((6,), 1 / 6)
    method.kl_direction = "est_to_uniform"
    expected = 10 * kl_from_estimate(other, UNEQUAL) * (1 / UNEQUAL) / (1 / UNEQUAL).max()
    torch.testing.assert_close(method.margins(other), expected)
    assert method.margins(other).argmax() == 5, "the smallest class is predicted too often by the largest factor"


def test_the_factor_of_the_margin_is_the_papers_where_the_prior_is_equal():
    method, _ = scene("lps", 3)
    papers = method.margin_scale * method.kl(UNEQUAL) * UNEQUAL / UNEQUAL.max()
    assert torch.equal(method.margins(UNEQUAL), papers), "bit by bit"
    method.class_prior = torch.full((6,), 1 / 6)
    torch.testing.assert_close(method.margins(UNEQUAL), papers)


def test_the_groups_of_openncd_have_the_mass_of_their_class():
    method, _ = scene("openncd", 2, outputs=32)
    even = method.prototype_prior()
    method.class_prior = UNEQUAL
    assert torch.equal(method.prototype_prior(), even)  # while no prototype belongs to a class
    method.groups.copy_(torch.arange(30) % 6)
    method.is_grouped.fill_(True)
    mass = torch.zeros(6).index_add(0, method.groups, method.prototype_prior())
    torch.testing.assert_close(mass, UNEQUAL)
    method.groups.copy_(torch.arange(30) % 3)  # three classes have no prototype
    mass = torch.zeros(6).index_add(0, method.groups, method.prototype_prior())
    torch.testing.assert_close(mass[:3], UNEQUAL[:3] / UNEQUAL[:3].sum())


def _split(truth: np.ndarray, labeled: np.ndarray, seen=2, total=4) -> Split:
    unlabeled = np.setdiff1d(np.arange(len(truth)), labeled)
    return Split(labeled, unlabeled, Classes(seen, total), np.arange(total), tuple("abcd"), 0)


TRUTH = np.repeat([0, 1, 2, 3], [40, 10, 30, 20])
LABELED = np.array([*range(9), 40, 41, 42])  # nine of class 0, three of class 1


@pytest.mark.parametrize(
    "settings, shares",
    [
        ({"prior": "labeled"}, [0.375, 0.125, 0.25, 0.25]),
        ({"prior": "oracle"}, [0.4, 0.1, 0.3, 0.2]),
        ({"prior": "estimated"}, [0.25] * 4),  # until there is an estimate
        ({"prior": "given", "prior.shares": "0.7,0.1 0.1  0.1"}, [0.7, 0.1, 0.1, 0.1]),
        ({"prior": "given", "prior.shares": "0.333 0.333 0.333 0"}, [1 / 3, 1 / 3, 1 / 3, 0]),
    ],
)
def test_what_a_run_begins_with(settings, shares):
    found = first_prior(configure(settings), _split(TRUTH, LABELED), TRUTH)
    np.testing.assert_allclose(found, shares, atol=1e-12)


def test_the_uniform_prior_is_none_and_hidden_labels_reach_the_oracle_alone():
    split, hidden = _split(TRUTH, LABELED), TRUTH.copy()
    hidden[split.unlabeled] = -1
    assert first_prior(configure(), split, hidden) is None
    labeled = configure({"prior": "labeled"})
    np.testing.assert_array_equal(first_prior(labeled, split, hidden), first_prior(labeled, split, TRUTH))
    with pytest.raises(UserError, match="prior: oracle needs the class of every training image, and 88 are unknown"):
        first_prior(configure({"prior": "oracle"}), split, hidden)
    assert true_shares(split, hidden) is None


@pytest.mark.parametrize(
    "shares, words",
    [
        ("0.5 0.4", "prior.shares: the shares add up to 0.9; expected 1"),
        ("1.5 -0.5", "prior.shares: -0.5 is negative; expected shares from 0 to 1"),
        ("nan 1", "prior.shares: nan is not a finite number"),
        ("inf 0", "prior.shares: inf is not a finite number"),
        ("0 0", "prior.shares: the shares add up to 0; expected 1"),
        (
            "/nowhere/shares.txt",
            "prior.shares: '/nowhere/shares.txt' is not a list of shares such as 0.5 0.3 0.2, and cannot be",
        ),
        ("0.5 half", "prior.shares: '0.5 half' is not a list of shares .* .'half' is not a number., and"),
        (" ", "prior.shares: is empty; expected a share for each class"),
        (0.5, "prior.shares: 0.5 is not a share for each class, .*such as 0.5 0.3 0.2"),
        ([0.5, "x"], "prior.shares: .* is not a share for each class"),
        (None, "prior.shares: nothing is given"),
    ],
)
def test_shares_that_are_none_get_one_sentence(shares, words):
    with pytest.raises(UserError, match=words) as raised:
        configure({"prior": "given", "prior.shares": shares})
    assert "\n" not in str(raised.value)


def test_shares_have_to_be_as_many_as_classes():
    config = configure({"prior": "given", "prior.shares": "0.5 0.5"})
    with pytest.raises(UserError, match="prior.shares: has 2 shares for 4 classes; expected one for each"):
        first_prior(config, _split(TRUTH, LABELED), TRUTH)


@pytest.mark.parametrize("shares", [[0.5, 0.25, 0.25], (0.5, 0.25, 0.25), np.array([0.5, 0.25, 0.25])])
def test_shares_may_be_a_list_of_numbers(shares):
    assert configure({"prior": "given", "prior.shares": shares}).prior_shares == "0.5 0.25 0.25"


def test_a_file_of_shares_is_read_once_and_kept_as_numbers(tmp_path):
    path = tmp_path / "shares.txt"
    path.write_text("0.5\n0.25,\n0.25\n")
    config = configure({"prior": "given", "prior.shares": str(path)})
    path.write_text("0.5 0.25 0.25", encoding="utf-8-sig")
    assert configure({"prior": "given", "prior.shares": str(path)}) == config
    path.unlink()
    assert config.prior_shares == "0.5 0.25 0.25"
    assert type(config).from_json(config.to_json()) == config
    with pytest.raises(UserError, match="shares.txt' is not a list of numbers; expected shares such as"):
        type(config).from_json(config.to_json().replace("0.5 0.25 0.25", str(path)))
    (tmp_path / "link.txt").symlink_to(path)
    path.write_text("0.5 0.25 0.25")
    assert configure({"prior": "given", "prior.shares": str(tmp_path / "link.txt")}) == config
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UserError, match="cannot be read as a file .it is not a regular file"):
        configure({"prior": "given", "prior.shares": str(tmp_path / "pipe.txt")})
    for content, words in (
        (b"0.5 half", "has 'half', which is not a number"),
        (b"\xff\xfe", "not text"),
        (b"", "is empty"),
        (b" " * (SMALL_FILE + 1), "too large"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=words):
            configure({"prior": "given", "prior.shares": str(path)})
    with pytest.raises(UserError, match="not a list of shares"):
        configure({"prior": "given", "prior.shares": "/dev/zero"})
    many = " ".join(["0.001"] * 1000)
    assert len(configure({"prior": "given", "prior.shares": many}).prior_shares) > 4096


def test_a_prior_is_refused_where_nothing_would_use_it():
    with pytest.raises(
        UserError, match="prior: oracle has no effect with GCD; choose prior=uniform, or .*: LegoGCD, LPS"
    ):
        configure({"method": "gcd", "prior": "oracle"})
    with pytest.raises(UserError, match="prior.shares: can only be used with prior=given"):
        configure({"prior.shares": "0.5 0.5"})


def test_names_of_stored_results_stay():
    assert not [key for key in configure().identifying() if key.startswith("prior")]
    assert configure({"prior": "labeled"}).identifying()["prior"] == "labeled"


class _Believing(Method):
    """Predicts what it is told."""

    def __init__(self, ids, confidence, classes):
        super().__init__(torch.nn.Identity(), classes)
        self.class_prior = torch.full((classes.total,), 1 / classes.total)
        self.prediction = Prediction(torch.as_tensor(ids), torch.as_tensor(confidence))

    def predict(self, inference):
        return self.prediction


def _four_heaps(sizes=(40, 10, 30, 20)):
    """Features of four distant heaps, whose first images of the first two are labeled; the model mixes up 2 and 3."""
    generator = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), sizes)
    points = torch.from_numpy(np.eye(4)[truth] * 9 + generator.normal(size=(len(truth), 4))).float()
    is_labeled = np.zeros(len(truth), bool)
    is_labeled[[*range(9), 40, 41, 42]] = True
    ids = np.array([1, 0, 3, 2])[truth[~is_labeled]]  # all four wrong; what is wrong of the seen ones does not count
    outputs = [Outputs(points[rows], torch.zeros(int(rows.sum()), 4)) for rows in (is_labeled, ~is_labeled)]
    found = Inference(lambda: outputs[0], lambda: outputs[1], torch.from_numpy(truth[is_labeled]), 0)
    return _Believing(ids, torch.ones(len(ids)), Classes(2, 4)), found


def test_clusters_are_aligned_by_labels_first_and_predictions_then():
    method, looked_at = _four_heaps()
    assert prior.cluster_counts(method, looked_at).tolist() == [40, 10, 20, 30]
    config = configure({"prior": "estimated", "prior.every": 5})
    prior.refresh_prior(method, looked_at, config, 3)  # not due
    assert method.class_prior.tolist() == [0.25] * 4
    prior.refresh_prior(method, looked_at, config, 5)
    torch.testing.assert_close(method.class_prior, torch.tensor([41, 11, 21, 31]) / 104)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_a_class_without_a_cluster_keeps_a_share():
    same = torch.ones(3, 4)
    looked_at = Inference(
        lambda: Outputs(torch.eye(4)[:2], same[:2]), lambda: Outputs(same, same), torch.tensor([0, 1]), 0
    )
    method = _Believing([2, 2, 2], torch.ones(3), Classes(2, 4))
    prior.refresh_prior(method, looked_at, configure({"prior": "estimated"}), 0)
    torch.testing.assert_close(method.class_prior, torch.tensor([2, 2, 4, 1]) / 9)


def test_confident_predictions_speak_for_all_unlabeled_images():
    _, looked_at = _four_heaps()
    ids = torch.tensor([0] * 20 + [1] * 8 + [2] * 40 + [3] * 20)
    confidence = torch.tensor([0.9] * 20 + [0.9] * 8 + [0.9] * 10 + [0.4] * 30 + [0.9] * 2 + [0.1] * 18)
    method = _Believing(ids, confidence, Classes(2, 4))
    counts = prior.confident_counts(method, looked_at, 0.5)
    np.testing.assert_allclose(counts, np.array([9, 3, 0, 0]) + 88 * np.array([20, 8, 10, 2]) / 40)
    nobody = prior.confident_counts(method, looked_at, 0.95)
    np.testing.assert_allclose(nobody, np.array([9, 3, 0, 0]) + 22)
    config = configure({"prior": "confident", "prior.every": 2})
    prior.refresh_prior(method, looked_at, config, 0)  # predictions of a random head are not believed
    assert method.class_prior.tolist() == [0.25] * 4
    prior.refresh_prior(method, looked_at, config, 2)
    assert method.class_prior[0] > method.class_prior[3] > 0


@pytest.mark.parametrize("name", ["given", "oracle"])
def test_known_novel_shares_go_to_the_ids_that_are_predicted_most(name):
    _, looked_at = _four_heaps()
    shares = torch.tensor([0.3, 0.1, 0.1, 0.2, 0.3])
    method = _Believing([0] * 9 + [2] * 5 + [3] + [4] * 3, torch.ones(18), Classes(2, 5))
    method.class_prior = shares.clone()
    settings = {"prior": name, "prior.every": 2} | ({"prior.shares": "0.3 0.1 0.1 0.2 0.3"} if name == "given" else {})
    for epoch in (0, 3):  # no predictions yet; not due
        prior.refresh_prior(method, looked_at, configure(settings), epoch)
        assert torch.equal(method.class_prior, shares)
    prior.refresh_prior(method, looked_at, configure(settings), 4)
    torch.testing.assert_close(method.class_prior, torch.tensor([0.3, 0.1, 0.3, 0.1, 0.2]))


@pytest.mark.slow
def test_the_recorded_prior_is_the_one_that_was_asked_for(tmp_path):
    run = create_run(tmp_path, configure(SHORT | FEW | {"prior": "oracle", "epochs": 1}))
    assert training.train(run) == 0
    (event,) = [event for event in events(run) if event["kind"] == "train"]
    config = run.config()
    material = training.prepare(config)
    np.testing.assert_allclose(event["values"]["class/prior"], true_shares(material.split, material.truth), atol=1e-6)
    method, _ = build(config, material)
    assert "class_prior" in method.state_dict()
