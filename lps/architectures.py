"""Which backbones there are and which stages they can be frozen by, as far as that is known without importing torch."""

import difflib
import importlib.util
import os
import re
from functools import cache
from pathlib import Path

from lps.parameters import ConfigError, shorten

OWN = ("digits_resnet", "cifar_resnet18", "resnet50")
PREFIX = "torchvision:"
STAGES = ("stem", "layer1", "layer2", "layer3", "layer4")  # of every residual network
RESIDUAL = re.compile(r"(wide_)?resne(x)?t[0-9]+")
REGISTERED = re.compile(r"^@register_model\(.*\)\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)


@cache
def torchvision_names() -> tuple[str, ...]:
    """torchvision's classification models, read from its source; () where that is not at hand."""
    found = importlib.util.find_spec("torchvision")
    if found is None or not found.submodule_search_locations:
        return ()
    names = set()
    for folder in found.submodule_search_locations:
        for path in Path(folder, "models").glob("*.py"):
            names.update(REGISTERED.findall(path.read_text(encoding="utf-8")))
    return tuple(sorted(names))


def torchvision_name(name: str) -> str | None:
    """torchvision's own word for a backbone that is one of its models, None for the others."""
    return "resnet50" if name == "resnet50" else name.removeprefix(PREFIX) if name.startswith(PREFIX) else None


def check_name(name: str) -> None:
    """Raise `ConfigError` where `network.name` is no backbone; the sentence says which ones come close."""
    known = torchvision_names()
    if name in OWN or (name.startswith(PREFIX) and (not known or name.removeprefix(PREFIX) in known)):
        return
    meant = name.removeprefix(PREFIX)
    close = difflib.get_close_matches(meant, dict.fromkeys((*OWN, *known)), n=4, cutoff=0.5)
    near = ", ".join(word if word in OWN else PREFIX + word for word in close)
    raise ConfigError(
        "network.name",
        f"{shorten(name)} is not one of {', '.join(OWN)} or {PREFIX}NAME with a classification model of torchvision"
        + (f"; close to it: {near}" if near else ""),
    )


def stages(name: str) -> tuple[str, ...] | None:
    """Names of the stages of a backbone, first to last; None where only the built network tells."""
    return STAGES if name in OWN or RESIDUAL.match(torchvision_name(name) or "") else None


def check_stage(name: str, last_frozen: str, known: tuple[str, ...] | None) -> None:
    """Raise `ConfigError` where `network.freeze_until` is neither "none" nor a stage of the backbone `name`."""
    if known is not None and last_frozen not in ("none", *known):
        choices = ", ".join(("none", *known))
        raise ConfigError("network.freeze_until", f"{shorten(last_frozen)} is no stage of {name}; choices: {choices}")


def check_start(name: str, start: str, checkpoint: str | None) -> None:
    """Raise `ConfigError` where `network.start` lacks what it needs, or something is given that it does not read."""
    if start == "checkpoint" and not checkpoint:
        raise ConfigError("network.checkpoint", "is missing; network.start=checkpoint needs the path of a file")
    if start != "checkpoint" and checkpoint:
        raise ConfigError(
            "network.start", f"{start} does not read network.checkpoint; choose checkpoint, or leave the file out"
        )
    if start == "torchvision" and torchvision_name(name) is None:
        raise ConfigError(
            "network.start",
            f"torchvision has no weights for {name}; choose simclr, checkpoint or random, or a network.name of resnet50"
            f" or {PREFIX}NAME",
        )


def check_file(checkpoint: str | None) -> None:
    """Raise `ConfigError` where `network.checkpoint` is given and no file; what is in it only torch can tell."""
    if checkpoint is not None and not os.path.isfile(checkpoint):
        words = "a folder, not a file" if os.path.isdir(checkpoint) else "not a file"
        raise ConfigError("network.checkpoint", f"{shorten(checkpoint, 120)} is {words}")
