"""Provide light trainings for machines without a GPU (minutes, not hours) in place of a data set's recipe, which needs
one.

stored: features of the included backbone are computed once, and a small head is trained on them; only for users' own
pictures, since that backbone learned from ImageNet's labels (`backbone_names.ABOUT_LABELS`). light: smaller pictures,
fewer epochs and a small network that is trained from the pictures alone. The command line and scripts use them on
request; forms choose them if there is no GPU.
"""

from collections.abc import Mapping
from functools import cache

from lps.settings.backbone_names import GIVEN, LITE0
from lps.settings.catalog import dataset_info
from lps.settings.config import derive_settings, protocol_parameters, recipe

LIGHT = {
    "dataset.image_size": 32,
    "network.name": "digits_resnet",
    "network.freeze_until": "none",
    "epochs": 40,
    "batch_size": 128,
    "lr": 0.05,
    "pretrain.epochs": 40,
    "pretrain.batch_size": 128,
    "pretrain.optimizer": "adamw",
    "pretrain.lr": 5e-3,
    "pretrain.weight_decay": 1e-4,
}
STORED = {"features": "stored", "network.name": LITE0}
# LPS on stored features: over so many classes, too few predictions reach the usual thresholds of pseudo-labels
# (docs/results.md, CIFAR-100). With 20 classes no difference was seen.
MANY_CLASSES = 50
LOWER_THRESHOLDS = {"threshold_seen": 0.5, "threshold_novel_start": 0.1, "threshold_novel_end": 0.3}
_NETWORK_GROUPS = ("network.", "pretrain.")


def training_efforts(dataset: str) -> dict[str, dict[str, object]]:
    """Return the trainings offered in place of the recipe, by name: settings by key. Digits need nothing lighter."""
    base, efforts = recipe(dataset), {}
    if base.get("network.name") == GIVEN:  # a head on vectors is light already
        return {}
    if dataset_info(dataset).is_own:
        efforts["stored"] = STORED | ({"dataset.image_size": _side()} if "dataset.image_size" in base else {})
    if base.get("network.name", LIGHT["network.name"]) != LIGHT["network.name"]:
        # The views of gcd would enlarge pictures to 224 pixels
        small_views = {"views": "cifar"} if base.get("views") == "gcd" else {}
        efforts["light"] = LIGHT | small_views
    return efforts


@cache
def _side() -> int:
    """Return the backbone's side in pixels, so that the data set does not shrink pictures below it."""
    plain = {key: parameter.default for key, parameter in protocol_parameters().items()}
    return derive_settings(plain, plain["method"], STORED)["network.image_size"]


def lighter_effort(dataset: str, *, is_coloured: bool, has_gpu: bool, settings: Mapping[str, object]) -> str:
    """Return which effort a light training is: "stored", "light", or "full" if there is none.

    is_coloured: of users' own pictures; has_gpu: of the machine. settings: given by the user; features=live, or a
    setting of the network or its pretraining, excludes stored features.
    """
    offered = training_efforts(dataset)
    features = settings.get(
        "features", "live" if any(key.startswith(_NETWORK_GROUPS) for key in settings) else "stored"
    )
    if "stored" in offered and is_coloured and not has_gpu and features == "stored":
        return "stored"
    return "light" if "light" in offered else "full"
