"""Every method on a GPU that is not there: no step waits for it, mixes devices or adds up in half the bits.

`LPS_PRETENCE_VERBOSE=1` prints what raised in a rehearsal, whole.
"""

import json
import os
import subprocess
import sys

import pytest

from lps.settings import catalog
from tests.gpu import pretence
from tests.gpu.spoils import SPOILS
from tests.shares import OFFSET, in_turn, share

pytestmark = pytest.mark.slow

if pretence.blocked_by():
    reason = f"nothing can be rehearsed here: {pretence.blocked_by()}"
    if os.environ.get("CI"):
        pytest.fail(f"These tests must run in CI, but {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)

# What else than its usual settings a method has to be tried with, and in which of its 20 epochs it does other things.
USUAL = {name: {"kmeans_restarts": 1} for name in ("bacon", "gcd", "dtc")}
EPOCHS = {"dtc": [0, 6, 7, 8], "rankstats": [0, 7], "openncd": [0, 2], "nach": [0, 1]}
OTHERWISE = [
    ("lps", {"network.name": "cifar_resnet18", "network.start": "simclr"}),
    ("lps", {"contrast_space": "raw_logits", "contrast_normalizer": "subset", "contrast_variant": "out"}),
    ("lps", {"weak_views": "1", "kl_direction": "est_to_uniform", "threshold_clock": "iteration"}),
    ("lps", {"network.fused_views": True, "network.frozen_batchnorm": "eval", "views": "digits"}),
    ("lps", {"network.freeze_until": "layer3", "network.head": "linear", "views": "grey", "pictures": [1, 28]}),
    ("lps", {"contrast_space": "features", "views": "imagenet", "pictures": [3, 64]}),
    ("lps", {"network.name": "efficientnet_lite0", "network.image_size": 64, "network.freeze_until": "last_but_one"}),
    ("lps", {"features": "stored", "network.image_size": None}),
    ("dtc", {"kmeans_restarts": 1, "consistency": "TE"}),
    ("dtc", {"kmeans_restarts": 1, "consistency": "TEP"}),
    ("dtc", {"kmeans_restarts": 1, "consistency": "Baseline", "kl_reduction": "batchmean"}),
    ("dtc", {"kmeans_restarts": 1, "init_linear_from_pca": True}),
    ("rankstats", {"supervised_share": 0.3}),
    ("ds3l", {"rejection": "weight"}),
    ("ds3l", {"rejection": "novel_share", "network.freeze_until": "none"}),
    ("openncd", {"prediction": "largest_group"}),
    ("fixmatch", {"head": "network", "use_average": False}),
    ("orca", {"optimizer": "adam", "split.validation_ratio": 0.2}),
]

# Where the host waits between epochs, how often an epoch at most, and why it has to.
WAITS = {
    "lps/methods/parts/measurements.py Averages.result": (1, "the means of an epoch's steps are logged"),
    "lps/training/step_measurements.py _stretches": (4, "so is what is kept of every step, a curve each"),
    "lps/training/evaluate.py infer_features": (2, "features of the start are judged by scikit-learn"),
    "lps/training/evaluate.py evaluate": (3, "classes, confidence and features of a snapshot go to a file"),
    "lps/training/evaluate.py _predict_test": (1, "so do the classes of test images"),
    "lps/training/feature_quality.py feature_quality": (2, "features of a pretraining are judged by scikit-learn"),
    "lps/training/pretrain.py train_simclr": (130, "once: the loss, and the weights that are kept"),
    "lps/data/batches.py Pictures.pieces": (8, "once: the digest of all pixels"),
    "lps/network/network.py FeatureHead.begin_at": (1, "once: whether features differ, for a sentence in the log"),
    "lps/data/extraction.py _digest_of_weights": (200, "once: the name of a store"),
    "lps/data/extraction.py Extraction.compute": (28, "once: features go to a file"),
    "lps/data/extraction.py extract_float16": (14, "once: they are checked"),
    "lps/methods/gcd.py GCD.predict": (1, "the inertia is logged"),
    "lps/methods/bacon.py BaCon.predict": (1, "the inertia is logged"),
    "lps/methods/bacon.py estimated_sizes": (3, "clusters are assigned to classes on the host"),
    "lps/methods/parts/clustering.py semi_supervised_kmeans": (6, "which clusters have no labels; which try is best"),
    "lps/methods/parts/clustering.py _lloyd": (26, "whether k-means is over, every 16 rounds"),
    "lps/methods/parts/clustering.py nearest_centres": (2, "which clusters there are"),
    "lps/methods/_closed_set.py predict_with_rejection": (4, "the rejected rows are clustered by scikit-learn"),
    "lps/methods/simclr.py SimCLR.predict": (1, "k-means of scikit-learn"),
    "lps/methods/ds3l.py DS3L.predict": (1, "the heaviest of the rejected rows, where there are some"),
    "lps/methods/openncd.py OpenNCD._grouping": (8, "groups are found by scikit-learn"),
    "lps/methods/openncd.py OpenNCD.predict": (12, "sizes of groups, and how many are in use, are logged"),
}


class Rehearsals:
    """The server of `tests.gpu.rehearsal`, which makes a process for every rehearsal."""

    def __init__(self, environment: dict[str, str]):
        command = [sys.executable, "-m", "tests.gpu.rehearsal"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._server = subprocess.Popen(command, env=environment, **pipes)

    def of(self, method: str, settings: dict, epochs: list[int], **more) -> dict:
        job = {"settings": {"method": method} | settings, "epochs": epochs} | more
        for _ in range(4):  # torch itself dies of its stand-ins now and then, which says nothing about us
            self._server.stdin.write(json.dumps(job) + "\n")
            self._server.stdin.flush()
            found = json.loads(self._server.stdout.readline())
            if "died" not in found:
                return found
        pytest.fail(f"four rehearsals of {job} died")

    def end(self) -> None:
        self._server.stdin.close()
        self._server.wait(20)


@pytest.fixture(scope="module")
def rehearsals(tmp_path_factory):
    served = Rehearsals(pretence.environment(tmp_path_factory.mktemp("pretence")))
    yield served
    served.end()


def complaints(found: dict) -> list[str]:
    """What nobody wants in a step: all but what its first one makes for the others."""
    wrong = [f"raised: {line}" for line in found["raised"]]
    for kind, counts in found.items():
        if kind.endswith((" waits", " faults", " halves", " copies")) and not kind.startswith("between"):
            wrong += [] if kind == "first step copies" else [f"{kind}: {what}" for what in counts]
    return wrong + [f"between faults: {what}" for what in found.get("between faults", {})]


def unexpected_waits(found: dict, epochs: int) -> list[str]:
    """Waits between epochs that have no reason above, or are too many."""
    counts = {}
    for what, count in found.get("between waits", {}).items():
        place = what.partition(": ")[2].partition(", line")[0]
        counts[place] = counts.get(place, 0) + count
    return [f"{place} x{count}" for place, count in counts.items() if count > WAITS.get(place, (0, ""))[0] * epochs]


def check(found: dict, epochs: int) -> None:
    assert complaints(found) == []
    assert unexpected_waits(found, epochs) == []


def test_lps_waits_for_nothing_in_a_step(rehearsals):
    check(rehearsals.of("lps", {}, [0]), 1)


@pytest.mark.parametrize("method", share([name for name in catalog.method_names() if name != "lps"], OFFSET, 4))
def test_no_method_waits_in_a_step(method, rehearsals):
    epochs = EPOCHS.get(method, [0])
    check(rehearsals.of(method, USUAL.get(method, {}), epochs), len(epochs))


@pytest.mark.parametrize(
    "method", share([name for name in catalog.method_names() if name not in ("bacon", "ds3l")], 1, 6)
)
def test_no_step_of_two_ranks_waits(method, rehearsals):
    epochs = EPOCHS.get(method, [0])
    found = rehearsals.of(method, USUAL.get(method, {}) | {"processes": 2}, epochs)
    assert found["ranks"] == 2
    check(found, len(epochs))


@pytest.mark.parametrize("method, settings", share(OTHERWISE, OFFSET, 9), ids=lambda value: str(value)[:60])
def test_no_variant_waits_in_a_step(method, settings, rehearsals):
    epochs = EPOCHS.get(method, [0])
    check(rehearsals.of(method, settings, epochs), len(epochs))


@pytest.mark.parametrize(
    "settings", in_turn([{}, {"features": "stored", "network.image_size": None}], 2), ids=["live", "stored"]
)
def test_data_that_stay_on_the_host_are_brought_without_waiting(settings, rehearsals):
    check(rehearsals.of("lps", settings, [0], on_host=True), 1)


@pytest.mark.parametrize("name", share(list(SPOILS), OFFSET, 8))
def test_what_a_gpu_would_mind_is_seen(name, rehearsals):
    _, kind, word = SPOILS[name]
    assert any(kind in line and word in line for line in complaints(rehearsals.of("lps", {}, [0], spoil=name)))
