"""Start weights that were made elsewhere: a checkpoint file in any of the usual layouts, or torchvision's own.

A file is a dictionary of tensors, nested or flat. What stands before the backbone's names ("module.", "backbone.",
"encoder_q.", "state_dict", ...) is the beginning under which most names fit; residual networks may call their stem
conv1 and bn1, and their shortcuts downsample, as torchvision, ORCA and most others do.
"""

import hashlib
import re
import warnings
import zipfile
from pathlib import Path

import torch
import torchvision
from torch import Tensor, nn

from lps import architectures, backbones
from lps.config import Config
from lps.parameters import ConfigError, shorten

OTHER_NAMES = (("stem.0.", "conv1."), ("stem.1.", "bn1."))  # of the stem; ours first
SHOWN = 10  # keys that an error names
PICKLE = b"\x80"  # how files of torch.save begin that are no archives


def load(config: Config, backbone: nn.Module) -> str:
    """Put the weights that `network.start` (checkpoint or torchvision) names into `backbone`.

    Gives a line that says what was read and what was not used; raises `ConfigError` where the weights cannot be had or
    do not fit.
    """
    if config.network_start == "torchvision":
        name = architectures.torchvision_name(config.network_name)
        published = torchvision_weights(name)
        backbone.load_state_dict({key: published[key.removeprefix("model.")] for key in backbone.state_dict()})
        return f"start weights of {name} from torchvision"
    weights, unused = matched(read_tensors(Path(config.network_checkpoint)), backbone, config.network_name)
    backbone.load_state_dict(weights)
    rest = f"; {len(unused)} in the file are not used: {_some(unused, 10)}" if unused else ""
    return f"{len(weights)} start weights from {config.network_checkpoint}{rest}"


def check(config: Config, channels: int, height: int, width: int) -> None:
    """Raise `ConfigError` where backbone, frozen stage, pictures and checkpoint file do not fit together.

    Downloads nothing. For pictures of `height` x `width` pixels.
    """
    backbones.check_images(config.network_name, channels, height, width)
    with torch.random.fork_rng(devices=[]):
        backbone = backbones.build(config.network_name, channels)
    backbones.freeze(config.network_name, backbone, config.network_freeze_until)
    if config.network_start == "checkpoint":
        matched(read_tensors(Path(config.network_checkpoint)), backbone, config.network_name)


def torchvision_weights(name: str) -> dict[str, Tensor]:
    """The newest published weights of a model under its own names, downloaded once; raises `ConfigError`."""
    weights = torchvision.models.get_model_weights(name).DEFAULT
    file = weights.url.rpartition("/")[2]
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    _check_download(folder / file)
    options = {key: value for key, value in backbones.OPTIONS.get(name, {}).items() if key != "init_weights"}
    try:
        with torch.random.fork_rng(devices=[]):
            return torchvision.models.get_model(name, weights=weights, progress=False, **options).state_dict()
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        reason = getattr(error, "reason", None) or _first_line(error)
        raise ConfigError(
            "network.start",
            f"torchvision's weights of {name} could not be downloaded ({reason}); connect, or put {file} into {folder}",
        ) from None


def _check_download(path: Path) -> None:
    """Raise `ConfigError` where a file that torch keeps is not the one that its name ends with the sha256 of."""
    digest = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if digest is None or not path.is_file():
        return
    with open(path, "rb") as file:
        if not hashlib.file_digest(file, "sha256").hexdigest().startswith(digest.group(1)):
            raise ConfigError("network.start", f"{shorten(str(path), 120)} is damaged; remove it to download it again")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint file by their names, nested ones joined by dots; raises `ConfigError`.

    Nothing in the file is run: one that holds more than tensors, numbers and text is refused.
    """
    shown = shorten(str(path), 120)
    architectures.check_file(str(path))
    try:
        _check_archive(path)
        _check_beginning(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise ConfigError("network.checkpoint", f"{shown} may not be read by this user") from None
    except ConfigError:
        raise
    except Exception as error:  # a damaged pickle can raise any of them
        if type(error).__name__ == "UnpicklingError" or "weights_only" in str(error):
            raise ConfigError(
                "network.checkpoint",
                f"{shown} holds more than tensors{_culprit(error)} and was not loaded, since that could run a program;"
                " save its state dict alone",
            ) from None
        raise ConfigError(
            "network.checkpoint", f"{shown} is damaged or no checkpoint of PyTorch ({_first_line(error)})"
        ) from None
    tensors = dict(_tensors(state))
    if not tensors:
        raise ConfigError("network.checkpoint", f"{shown} holds no tensors by name; a state dict is expected")
    return tensors


def matched(tensors: dict[str, Tensor], backbone: nn.Module, name: str) -> tuple[dict[str, Tensor], list[str]]:
    """(weights under the backbone's own names, names of tensors that are not the backbone's).

    `ConfigError` where a weight is missing, has another shape or is not finite, or where a stage of the file has more
    layers than the backbone's.
    """
    expected = backbone.state_dict()
    prefix = _beginning(tensors, expected)
    inside = {_canonical(key.removeprefix(prefix)): key for key in tensors if key.startswith(prefix)}
    found, missing, misshapen = {}, [], []
    for key, value in expected.items():
        source = tensors.get(inside.pop(_canonical(key), None))
        if source is None and key.endswith("num_batches_tracked"):  # files of PyTorch 0.4 and before
            found[key] = value
        elif source is None:
            missing.append(key)
        elif source.shape != value.shape:
            misshapen.append(f"{key} is {_shape(source)}, not {_shape(value)}")
        else:
            found[key] = source.to(value.dtype)
    parts = {_part(_canonical(key)) for key in expected}
    surplus = [key for key in inside if _part(key) in parts and not key.startswith(_head(backbone))]
    _refuse(name, len(expected), missing, misshapen, surplus)
    spoiled = [key for key, value in found.items() if not value.isfinite().all()]
    if spoiled:
        raise ConfigError("network.checkpoint", f"has values that are not finite numbers in {_some(spoiled)}")
    used = {key for key in tensors if key.startswith(prefix) and _canonical(key.removeprefix(prefix)) not in inside}
    return found, [key for key in tensors if key not in used]


def _refuse(name: str, total: int, missing: list[str], misshapen: list[str], surplus: list[str]) -> None:
    """Raise `ConfigError` with the keys that do not fit, where there are some."""
    lists = (("missing", missing), ("of another shape", misshapen), ("too many", surplus))
    faults = [f"{len(keys)} {words} ({_some(keys)})" for words, keys in lists if keys]
    if faults:
        raise ConfigError("network.checkpoint", f"does not fit the {total} keys of {name}: {', '.join(faults)}")


def _check_archive(path: Path) -> None:
    """Raise `zipfile.BadZipFile` where a part of an archive is not what was written; torch does not look."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken:
            raise zipfile.BadZipFile(f"{broken} is not what was written")


def _check_beginning(path: Path) -> None:
    """Raise `ConfigError` for a file that begins as no file of PyTorch does; what torch says of it misleads."""
    with open(path, "rb") as file:
        first = file.read(2)
    if first[:1] != PICKLE and not zipfile.is_zipfile(path):
        what = "it is cut short" if first == b"PK" else "it begins as none does" if first else "it is empty"
        shown = shorten(str(path), 120)
        raise ConfigError("network.checkpoint", f"{shown} is damaged or no checkpoint of PyTorch ({what})")


def _tensors(state, path: str = "", depth: int = 0):
    """(name, tensor) of everything in nested dictionaries."""
    if isinstance(state, Tensor):
        yield path, state
    elif isinstance(state, dict) and depth < 8:
        for key, value in state.items():
            yield from _tensors(value, f"{path}.{key}" if path else str(key), depth + 1)


def _canonical(key: str) -> str:
    """One name for the names that different codes give to a weight of a residual network."""
    key = key.removeprefix("model.")
    for ours, theirs in OTHER_NAMES:
        if key.startswith(ours):
            key = theirs + key.removeprefix(ours)
    return re.sub(r"^(layer[0-9]+\.[0-9]+)\.shortcut\.", r"\1.downsample.", key)


def _beginning(tensors: dict[str, Tensor], expected: dict[str, Tensor]) -> str:
    """What stands before the backbone's names in the file: the beginning under which most of them are found."""
    known = {_canonical(key) for key in expected}
    counts: dict[str, int] = {}
    for key in tensors:
        words = key.split(".")
        for cut in range(len(words)):
            if _canonical(".".join(words[cut:])) in known:
                prefix = "".join(f"{word}." for word in words[:cut])
                counts[prefix] = counts.get(prefix, 0) + 1
    return max(counts, key=counts.get, default="")


def _part(key: str) -> str:
    return key.partition(".")[0]


def _head(backbone: nn.Module) -> str:
    """How the names of the last layer begin, which the backbone has no more."""
    return f"{getattr(backbone, 'classifier', '?')}."


def _some(keys: list[str], count: int = SHOWN) -> str:
    return ", ".join(keys[:count]) + (", ..." if len(keys) > count else "")


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


def _culprit(error: Exception) -> str:
    """Which Python object a refused file holds, as far as torch says."""
    found = re.search(r"GLOBAL ([\w.]+)", str(error)) or re.search(r"Unsupported \w+[^\w]+([\w.]+)", str(error))
    return f" ({found.group(1)})" if found else ""


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:120]}".rstrip(": ")
