"""Read files of weights: all tensors of one by name, or a one-sentence error; nothing in a file is executed."""

import re
import warnings
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from lps.errors import UserError, shorten
from lps.files import limited_process
from lps.settings import backbone_names

_SHARED = 16  # how often the values of a file may occur under other names
_MAX_ENTRIES = 100_000  # in all dictionaries of a file, counting repetitions
_DEEPEST = 8  # nesting of dictionaries
_LONGEST_NAME = 250  # characters
_PICKLE = b"\x80"  # first byte of torch.save files that are not archives


def read_tensors(path: Path, shapes_alone: bool = False) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint file by their names, nested ones joined by dots; raises `UserError`.

    Nothing in the file is executed: one with more than tensors, numbers and text is refused. shapes_alone: tensors on
    the meta device, whose values are not read and not checked.
    """
    path_text = shorten(str(path), 120)
    backbone_names.check_file(str(path))
    try:
        _check_beginning(path)
        if not shapes_alone:
            _check_archive(path)
        limited_process.run_limited(lambda: _load(path, shapes_alone), path.stat().st_size)
        state = _load(path, shapes_alone)
    except PermissionError:
        raise UserError("network.checkpoint", f"{path_text} cannot be read by this user") from None
    except UserError:
        raise
    except limited_process.ResourceLimitExceeded as error:
        raise UserError("network.checkpoint", f"{path_text} was not loaded: {error}") from None
    except Exception as error:  # a damaged pickle can raise any exception
        if _kind(error) == "UnpicklingError" or "weights_only" in str(error):
            raise UserError(
                "network.checkpoint",
                f"{path_text} has objects other than tensors{_culprit(error)} and was not loaded because it could run "
                "a program; save only the state dict",
            ) from None
        raise UserError(
            "network.checkpoint", f"{path_text} is damaged or not a PyTorch checkpoint ({first_line(error)})"
        ) from None
    tensors = _tensors(state, path_text)
    if not tensors:
        raise UserError("network.checkpoint", f"{path_text} has no named tensors; expected a state dict")
    claimed = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if claimed > _SHARED * max(path.stat().st_size, 1_000_000):
        raise UserError(
            "network.checkpoint", f"{path_text} is damaged: its tensors are larger than the file, {claimed:,} bytes"
        )
    return tensors


def _load(path: Path, shapes_alone: bool) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.load(path, map_location="meta" if shapes_alone else "cpu", weights_only=True)


def _check_archive(path: Path) -> None:
    """Raise `zipfile.BadZipFile` if a part of an archive is damaged; torch does not check."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            broken_member = archive.testzip()
        if broken_member:
            raise zipfile.BadZipFile(f"{broken_member} does not match its checksum")


def _check_beginning(path: Path) -> None:
    """Raise `UserError` for a file that does not begin as a PyTorch file; torch's own message misleads."""
    with open(path, "rb") as file:
        first = file.read(2)
    if first[:1] != _PICKLE and not zipfile.is_zipfile(path):
        reason = (
            "it is cut short" if first == b"PK" else "it does not start like a checkpoint" if first else "it is empty"
        )
        path_text = shorten(str(path), 120)
        raise UserError("network.checkpoint", f"{path_text} is damaged or not a PyTorch checkpoint ({reason})")


def _tensors(state: object, path_text: str) -> dict[str, Tensor]:
    """Return every tensor in nested dictionaries by its name; raises `UserError` for excessive nesting or repetition.

    A file may refer to one dictionary from many places, so that a few dictionaries can be endless to traverse.
    """
    tensors, entries, remaining = {}, 0, [("", state, 0)]
    while remaining:
        path, value, depth = remaining.pop()
        if isinstance(value, Tensor) and path:
            tensors[path] = value
        elif isinstance(value, dict) and depth < _DEEPEST:
            entries += len(value)
            inner = [(f"{path}.{key}" if path else str(key), part, depth + 1) for key, part in reversed(value.items())
                     if isinstance(part, Tensor | dict) and isinstance(key, str | int)]  # fmt: skip
            if entries > _MAX_ENTRIES or any(len(name) > _LONGEST_NAME for name, *_ in inner):
                raise UserError(
                    "network.checkpoint",
                    f"{path_text} has more than {_MAX_ENTRIES:,} entries in its dictionaries, or one whose name is "
                    f"longer than {_LONGEST_NAME} characters; save only the state dict",
                )
            remaining += inner
    return tensors


def _culprit(error: Exception) -> str:
    """Return which Python object a refused file holds, as far as torch reports it."""
    match = re.search(r"GLOBAL ([\w.]+)", str(error)) or re.search(r"Unsupported \w+[^\w]+([\w.]+)", str(error))
    return f" ({match.group(1)})" if match else ""


def first_line(error: Exception) -> str:
    """Return a library's error message, on one line."""
    return f"{_kind(error)}: {str(error).partition(chr(10))[0][:120]}".rstrip(": ")


def _kind(error: Exception) -> str:
    """Return the name of an error's class, also of one that was raised in a fork."""
    return error.kind if isinstance(error, limited_process.Failed) else type(error).__name__
