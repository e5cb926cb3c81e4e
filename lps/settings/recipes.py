"""Light trainings for machines without a GPU, in place of a data set's recipe, which needs one: minutes, not hours.

stored: features of the backbone that is shipped are computed once, and a small head learns on them; for a person's own
pictures alone, since that backbone learned from ImageNet's labels (`backbone_names.ABOUT_LABELS`). light: smaller
pictures, a small network that is trained whole, and fewer epochs; nothing but the pictures themselves is learned from.
On the command line and in scripts a person asks for it; forms choose it where they find no GPU.
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
_OF_THE_NETWORK = ("network.", "pretrain.")


def training_efforts(dataset: str) -> dict[str, dict[str, object]]:
    """What may be trained in place of the recipe, by name: settings by key. Digits need nothing lighter."""
    base, efforts_found = recipe(dataset), {}
    if base.get("network.name") == GIVEN:  # a head on vectors is light already
        return {}
    if dataset_info(dataset).is_own:
        efforts_found["stored"] = STORED | ({"dataset.image_size": _side()} if "dataset.image_size" in base else {})
    if base.get("network.name", LIGHT["network.name"]) != LIGHT["network.name"]:
        small_views = {"views": "cifar"} if base.get("views") == "gcd" else {}  # which makes 224 pixels of any size
        efforts_found["light"] = LIGHT | small_views
    return efforts_found


@cache
def _side() -> int:
    """The side in pixels at which the backbone sees pictures: a data set shall not make them smaller before."""
    plain = {key: parameter.default for key, parameter in protocol_parameters().items()}
    return derive_settings(plain, plain["method"], STORED)["network.image_size"]


def lighter_effort(dataset: str, *, is_coloured: bool, has_gpu: bool, settings: Mapping[str, object]) -> str:
    """Which of the efforts a light training is; "full" where there is none.

    is_coloured: of a person's own pictures; has_gpu: of the machine. settings: those that the user has given already;
    features=live, or a setting of the network or its pretraining, excludes stored features.
    """
    offered = training_efforts(dataset)
    features = settings.get(
        "features", "live" if any(key.startswith(_OF_THE_NETWORK) for key in settings) else "stored"
    )
    if "stored" in offered and is_coloured and not has_gpu and features == "stored":
        return "stored"
    return "light" if "light" in offered else "full"
