"""Name the available backbones, their image preparation and the stages that can be frozen, without importing torch."""

import difflib
import importlib.util
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lps.errors import shorten
from lps.settings.parameters import BadSetting

LITE0 = "efficientnet_lite0"
GIVEN = "given"  # no backbone: the user's data are already features
_OWN = ("digits_resnet", "cifar_resnet18", "resnet50", LITE0, GIVEN)
_PREFIX, _TIMM, _VIT = "torchvision:", "timm:", "vit:"
_LAYOUTS = ("dino", "dinov2", "mae", "clip")  # layouts of weight files of vision transformers
TOKENS = ("class", "mean", "both")  # tokens of a vision transformer that make its features
STAGES = ("stem", "layer1", "layer2", "layer3", "layer4")  # of every residual network
_LITE0_STAGES = ("stem", *(f"layer{number}" for number in range(1, 8)))
LAST_BUT_ONE = "last_but_one"  # for `network.freeze_until`: freeze all but the last stage
RESIDUAL = re.compile(r"(wide_)?resne(x)?t[0-9]+")
ABOUT_LABELS = (  # of a run whose start weights know classes that may be novel in its data set
    "The network starts from weights that were trained with ImageNet's labels, so it already knows ImageNet's classes."
    " This helps with your own pictures. Do not compare such runs with those of the paper"
)
_LABELED = re.compile(r"(?<!mim_)(?<!mae_)in[0-9]+k")  # in timm's tags: ImageNet with its labels, not only its pictures
_REGISTERED = re.compile(r"^@register_model\(.*\)\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)


@dataclass(frozen=True)
class Preparation:
    """How a backbone wants its pictures: square, `size` pixels a side, values in [0, 1] minus `mean`, over `std`.

    It replaces the data set's own constants. `lps.data.views.views_of` applies it to every view after its random
    changes: resize to `size`, bilinear and antialiased, on the view's device, then normalize; grey pictures use the
    means of `mean` and `std`. mean, std: per channel, red first.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_TENSORFLOW = (127 / 255,) * 3, (128 / 255,) * 3  # the published (x - 127) / 128
_CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_SIDE = 224


def preparation(name: str, size: int | None = None) -> Preparation | None:
    """Return how the backbone `name` wants its pictures; None: as the data set and the views provide them.

    size: `network.image_size`; None for the backbone's own side. torchvision's models have none: they take pictures as
    they are unless a size is set. Models of timm get ImageNet's constants here and replace them by their own when they
    are built. Raises `UserError` if the backbone cannot use `size`.
    """
    if usual_start(name):
        constants = _TENSORFLOW if name == LITE0 else _CLIP if weight_layout(name) == "clip" else _IMAGENET
        return Preparation(size or _SIDE, *constants)
    if size is None:
        return None
    if torchvision_name(name) is not None:
        return Preparation(size, *_IMAGENET)
    raise BadSetting(
        "network.image_size",
        f"{name} uses pictures at the size of the data set; set this to none, and set dataset.image_size instead",
    )


@cache
def torchvision_names() -> tuple[str, ...]:
    """Return the names of torchvision's classification models, read from its source; () if it is not installed."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return ()
    names = set()
    for folder in spec.submodule_search_locations:
        for path in Path(folder, "models").glob("*.py"):
            names.update(_REGISTERED.findall(path.read_text(encoding="utf-8")))
    return tuple(sorted(names))


def torchvision_name(name: str) -> str | None:
    """Return torchvision's name of a backbone that is one of its models, else None."""
    return "resnet50" if name == "resnet50" else name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def timm_name(name: str) -> str | None:
    """Return timm's name of a backbone that is one of its models, else None."""
    return name.removeprefix(_TIMM) if name.startswith(_TIMM) else None


def weight_layout(name: str) -> str | None:
    """Return the layout of a vision transformer's weight file (dino, dinov2, mae, clip), None for other backbones."""
    return name.removeprefix(_VIT) if name.startswith(_VIT) else None


def check_name(name: str) -> None:
    """Raise `UserError` with close matches if `network.name` is no backbone. timm checks its own names later."""
    available = torchvision_names()
    if re.fullmatch(r"[a-zA-Z0-9_.]+", timm_name(name) or "") or weight_layout(name) in _LAYOUTS:
        return
    if name in _OWN or (name.startswith(_PREFIX) and (not available or name.removeprefix(_PREFIX) in available)):
        return
    vits = tuple(_VIT + layout for layout in _LAYOUTS)
    plain_name = name.removeprefix(_PREFIX)
    close = difflib.get_close_matches(plain_name, dict.fromkeys((*_OWN, *vits, *available)), n=4, cutoff=0.5)
    suggestions = ", ".join(word if word in _OWN + vits else _PREFIX + word for word in close)
    raise BadSetting(
        "network.name",
        f"{shorten(name)} is not a backbone; choices: {', '.join(_OWN + vits)}, {_PREFIX}NAME (a classification model"
        f" of torchvision), {_TIMM}NAME (a model of timm)" + (f"; close to it: {suggestions}" if suggestions else ""),
    )


def stage_names(name: str) -> tuple[str, ...] | None:
    """Return the names of a backbone's stages, first to last; None if only the built network knows them."""
    if name == LITE0:
        return _LITE0_STAGES
    return STAGES if name in _OWN or RESIDUAL.match(torchvision_name(name) or "") else None


def check_stage(name: str, last_frozen: str, stages: tuple[str, ...] | None) -> None:
    """Raise `UserError` if `network.freeze_until` is neither "none", "last_but_one" nor a stage of `name`."""
    if stages is not None and last_frozen not in ("none", *stages, LAST_BUT_ONE):
        choices = ", ".join(("none", *stages, LAST_BUT_ONE))
        raise BadSetting("network.freeze_until", f"{shorten(last_frozen)} is not a stage of {name}; choices: {choices}")


def check_start(name: str, start: str, checkpoint: str | None) -> None:
    """Raise `UserError` if `network.start` lacks what it needs or does not use a setting that was given."""
    if start == "checkpoint" and not checkpoint:
        raise BadSetting("network.checkpoint", "nothing is given; network.start=checkpoint needs the path of a file")
    if start != "checkpoint" and checkpoint:
        raise BadSetting(
            "network.start", f"{start} does not use network.checkpoint; choose checkpoint, or leave it empty"
        )
    if weight_layout(name) and start != "checkpoint":
        raise BadSetting(
            "network.start", f"{start} is not possible with {name}, whose weights come from a file; choose checkpoint"
        )
    if start == "simclr" and usual_start(name):
        raise BadSetting(
            "network.start",
            f"simclr is not possible with {name}, which has published weights; choose published, checkpoint or random",
        )
    if start == "published" and not usual_start(name) and torchvision_name(name) is None:
        raise BadSetting(
            "network.start",
            f"there are no published weights of {name}; set network.start to simclr, checkpoint or random, or"
            f" set network.name to {LITE0}, resnet50, {_PREFIX}NAME or {_TIMM}NAME",
        )
    if start == "torchvision" and torchvision_name(name) is None:
        raise BadSetting(
            "network.start",
            f"torchvision has no weights for {name}; set network.start to simclr, checkpoint or random, or set"
            f" network.name to resnet50 or {_PREFIX}NAME",
        )


def usual_start(name: str) -> str | None:
    """Return the default `network.start` of a backbone that is used for its weights; None for one pretrained here."""
    if name == LITE0 or timm_name(name):
        return "published"
    return "checkpoint" if weight_layout(name) else None


def rests_on_labels(name: str, start: str) -> bool:
    """Return whether a run begins with weights that were trained with ImageNet's labels (see `ABOUT_LABELS`).

    timm's tag behind the dot says it; models without a tag used labels, except DINO's. Of a file it is unknown: False.
    """
    if start not in ("published", "torchvision"):
        return False
    model, _, tag = (timm_name(name) or "").partition(".")
    return bool(_LABELED.search(tag)) if tag else "dino" not in model


def check_tokens(name: str, tokens: str) -> None:
    """Raise `UserError` if `tokens` needs a vision transformer and the backbone is none. timm's are checked later."""
    if tokens != "class" and not (weight_layout(name) or timm_name(name) or is_torchvision_transformer(name)):
        raise BadSetting(
            "network.tokens", f"{tokens} is not possible with {name}, which is not a vision transformer; choose class"
        )


def is_torchvision_transformer(name: str) -> bool:
    """Return whether a backbone is one of torchvision's models with a class token."""
    return (torchvision_name(name) or "").startswith("vit_")


def check_file(checkpoint: str | None) -> None:
    """Raise `UserError` if `network.checkpoint` is given but is not a file; checking its content needs torch."""
    if checkpoint is not None and not os.path.isfile(checkpoint):
        kind = "a folder, not a file" if os.path.isdir(checkpoint) else "not a file"
        raise BadSetting("network.checkpoint", f"{shorten(checkpoint, 120)} is {kind}")
