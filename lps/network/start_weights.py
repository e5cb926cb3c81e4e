"""Pretrained start weights: a checkpoint file in any of the usual layouts, or torchvision's own.

A file is a dictionary of tensors, nested or flat. The prefix of the backbone's names ("module.", "backbone.",
"encoder_q.", "state_dict", ...) is the one under which most names fit; residual networks may call their stem
conv1 and bn1, and their shortcuts downsample, as torchvision, ORCA and most others do.
"""

import hashlib
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from lps.errors import UserError
from lps.network import backbones, shipped_weights, timm_models
from lps.network.shipped_weights import sha256
from lps.network.weight_files import read_tensors
from lps.settings import backbone_names
from lps.settings.config import Config

_OTHER_NAMES = (("stem.0.", "conv1."), ("stem.1.", "bn1."))  # of the stem; ours first
_SHOWN = 10  # keys that an error names
ELSEWHERE = ("checkpoint", "published", "torchvision")  # values of `network.start` that `load` knows


def load(config: Config, backbone: nn.Module) -> str:
    """Load the weights that `network.start` (one of `ELSEWHERE`) names into `backbone`.

    Returns a line about loaded and unused tensors; raises `UserError` if the weights are missing or do not fit.
    """
    if config.network_start in ("published", "torchvision"):
        return _load_published(config, backbone)
    weights, unused = _of_file(config, backbone)
    backbone.load_state_dict(weights)
    unused_note = f"; tensors of the file that are not used ({len(unused)}): {_some(unused, 10)}" if unused else ""
    return f"{len(weights)} tensors of {config.network_checkpoint} are the start weights{unused_note}"


def _of_file(config: Config, backbone: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Return `match_weights` for the file that the config names; values are read once the shapes fit."""
    path = Path(config.network_checkpoint)
    for shapes_alone in (True, False):
        tensors = _fitted(read_tensors(path, shapes_alone), backbone)
        matched_tensors = match_weights(tensors, backbone, config.network_name)
    return matched_tensors


def _fitted(tensors: dict[str, Tensor], backbone: nn.Module) -> dict[str, Tensor]:
    """Convert tensors to the backbone's names and shapes, if it can; reads values and executes nothing."""
    return backbone.fitted(tensors) if hasattr(backbone, "fitted") else tensors


def check_start_weights(config: Config, channels: int, height: int, width: int) -> None:
    """Raise `UserError` if backbone, frozen stage, pictures and checkpoint file do not fit together.

    Downloads nothing. For pictures of `height` x `width` pixels.
    """
    backbones.check_backbone(config, channels, height, width)
    with torch.random.fork_rng(devices=[]):
        backbone = backbones.build_backbone(config, channels)
    backbones.freeze(config.network_name, backbone, config.network_freeze_until)
    if config.network_start == "checkpoint":
        _of_file(config, backbone)
    if config.network_start == "published" and config.network_name == backbone_names.LITE0:
        shipped_weights.shipped_file()


def digest(config: Config) -> str | None:
    """Return an identifier of a backbone's start weights, for names of files and stores.

    It covers backbone, feature head and weights, with the sha256 of the file if there is one. None if a
    pretraining makes them. Reads a checkpoint file once, and downloads nothing; raises `UserError` if it is missing.
    """
    if config.network_start == "simclr" and config.pretrain_epochs:
        return None
    parts = [config.network_name, config.network_tokens, _weights_identity(config)]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def _weights_identity(config: Config) -> str:
    """Return a text that distinguishes the start weights of a backbone from others of its name."""
    if config.network_start == "checkpoint":
        backbone_names.check_file(config.network_checkpoint)
        return sha256(Path(config.network_checkpoint))
    if config.network_start in ("published", "torchvision"):
        if config.network_name == backbone_names.LITE0:
            return shipped_weights.DIGEST
        if name := backbone_names.timm_name(config.network_name):
            return timm_models.source(name)
        from lps.network import torchvision_models

        return torchvision_models.source(backbone_names.torchvision_name(config.network_name))
    return f"random {config.seed}"


def _load_published(config: Config, backbone: nn.Module) -> str:
    """Load the weights published with a backbone, as `load` does."""
    name = config.network_name
    if name == backbone_names.LITE0:
        weights, _ = match_weights(read_tensors(shipped_weights.shipped_file()), backbone, name)
        backbone.load_state_dict(weights)
        return f"{len(weights)} start weights of {name}, trained with ImageNet's labels, from {shipped_weights.PACKAGE}"
    if timm_name := backbone_names.timm_name(name):
        side = backbone_names.preparation(name, config.network_image_size).size
        backbone.model.load_state_dict(timm_models.published(timm_name, side))
        return f"start weights of {timm_name} from timm"
    from lps.network import torchvision_models

    name = backbone_names.torchvision_name(name)
    published = _fitted(torchvision_models.published(name), backbone)
    backbone.load_state_dict({key: published[key.removeprefix("model.")] for key in backbone.state_dict()})
    return f"start weights of {name} from torchvision"


def match_weights(tensors: dict[str, Tensor], backbone: nn.Module, name: str) -> tuple[dict[str, Tensor], list[str]]:
    """Return (weights under the backbone's own names, names of tensors that are not the backbone's).

    Raises `UserError` if a weight is missing, has another shape or is not finite, or if a stage of the file has more
    layers than the backbone's.
    """
    expected = backbone.state_dict()
    prefix = _find_prefix(tensors, expected)
    key_by_name = {_canonical(key.removeprefix(prefix)): key for key in tensors if key.startswith(prefix)}
    matched_tensors, missing, misshapen = {}, [], []
    for key, value in expected.items():
        source = tensors.get(key_by_name.pop(_canonical(key), None))
        if source is None and key.endswith("num_batches_tracked"):  # files of PyTorch up to 0.4 lack it
            matched_tensors[key] = value
        elif source is None:
            missing.append(key)
        elif source.shape != value.shape:
            misshapen.append(f"{key} is {_shape(source)}, not {_shape(value)}")
        else:
            matched_tensors[key] = source.to(value.dtype)
    parts = {_part(_canonical(key)) for key in expected}
    surplus = [key for key in key_by_name if _part(key) in parts and not key.startswith(_head(backbone))]
    _refuse(name, len(expected), missing, misshapen, surplus)
    spoiled = [key for key, value in matched_tensors.items() if not value.is_meta and not value.isfinite().all()]
    if spoiled:
        raise UserError("network.checkpoint", f"has values that are not finite numbers in {_some(spoiled)}")
    is_used = {
        key: key.startswith(prefix) and _canonical(key.removeprefix(prefix)) not in key_by_name for key in tensors
    }
    return matched_tensors, [key for key in tensors if not is_used[key]]


def _refuse(name: str, total: int, missing: list[str], misshapen: list[str], surplus: list[str]) -> None:
    """Raise `UserError` with the keys that do not fit, if there are any."""
    lists = (("missing", missing), ("of another shape", misshapen), ("too many", surplus))
    faults = [f"{len(keys)} {kind} ({_some(keys)})" for kind, keys in lists if keys]
    if faults:
        raise UserError("network.checkpoint", f"does not fit the {total} keys of {name}: {', '.join(faults)}")


def _canonical(key: str) -> str:
    """Return the common name of a weight of a residual network, which other code bases name differently."""
    key = re.sub(r"(^|\.)_", r"\1", key.removeprefix("model."))  # prefix of the published EfficientNets
    for own_name, other_name in _OTHER_NAMES:
        if key.startswith(own_name):
            key = other_name + key.removeprefix(own_name)
    return re.sub(r"^(layer[0-9]+\.[0-9]+)\.shortcut\.", r"\1.downsample.", key)


def _find_prefix(tensors: dict[str, Tensor], expected: dict[str, Tensor]) -> str:
    """Return the prefix in the file under which most of the backbone's names are found."""
    known_names = {_canonical(key) for key in expected}
    counts: dict[str, int] = {}
    for key in tensors:
        words = key.split(".")
        for num_words in range(len(words)):
            if _canonical(".".join(words[num_words:])) in known_names:
                prefix = "".join(f"{word}." for word in words[:num_words])
                counts[prefix] = counts.get(prefix, 0) + 1
    return max(counts, key=counts.get, default="")


def _part(key: str) -> str:
    return key.partition(".")[0]


def _head(backbone: nn.Module) -> str:
    """Return the prefix of the last layer's names, which the backbone no longer has."""
    return f"{getattr(backbone, 'classifier', '?')}."


def _some(keys: list[str], count: int = _SHOWN) -> str:
    return ", ".join(keys[:count]) + (", ..." if len(keys) > count else "")


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
