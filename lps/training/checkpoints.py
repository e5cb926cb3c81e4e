"""Checkpoint files that are complete or absent: written atomically, verified by sha256 before they are read."""

import io
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from lps.files import disk, limited_process
from lps.files.atomic import read_checked, write_checked

_ASIDE = "damaged-"  # prefix of damaged checkpoints
DAMAGED = "is damaged"
_UNFIT = "belongs to a run with other settings, or to another version of LPS Studio,"
FOREIGN = "has the right checksum but contains more than weights, as if another program had written it,"


def save_checkpoint(folder: Path, name: str, state: dict) -> Path:
    """Write `name.pt`, then `name.json` with its size and sha256; a checkpoint is valid once the second file exists."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_checked(folder / f"{name}.pt", buffer.getvalue())
    return folder / f"{name}.pt"


def load_checkpoint(folder: Path, name: str) -> dict | None:
    """Load the state `name` to the CPU; None if it is missing, fails verification, or contains more than tensors."""
    return _read(folder, name)[0]


def _read(folder: Path, name: str) -> tuple[dict | None, str]:
    """Return (state, error); never retries without `weights_only`, which would execute the file."""
    data = read_checked(folder / f"{name}.pt")
    if data is None:
        return None, DAMAGED
    try:
        limited_process.run_limited(lambda: _load(data), len(data))
        state = _load(data)
    except (MemoryError, torch.OutOfMemoryError):
        raise  # the file itself may be intact
    except Exception:  # a malicious file can make any layer of the reader fail
        return None, FOREIGN
    return (state, "") if isinstance(state, dict) else (None, FOREIGN)


def _load(data: bytes) -> object:
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def load_newest(
    folder: Path, fits: Callable[[dict], bool] = lambda state: True
) -> tuple[str | None, dict | None, dict[str, str]]:
    """Return (name, state) of the newest usable `step-*` checkpoint, and the errors of newer ones by name.

    fits: whether an intact one belongs to this training. One without a record was never finished, which is no error.
    """
    damaged = {}
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        state, damage = _read(folder, path.stem)
        if state is not None and not fits(state):
            state, damage = None, _UNFIT
        if state is not None:
            return path.stem, state, damaged
        if path.with_suffix(".json").exists():
            damaged[path.stem] = damage
    return None, None, damaged


def is_state_of(stored: object, own_state: dict) -> bool:
    """Return whether a module accepts `stored` as its state: the same keys as own_state, tensors of the same shapes."""
    if not isinstance(stored, dict) or stored.keys() != own_state.keys():
        return False
    return all(isinstance(stored[key], type(value)) for key, value in own_state.items()) and all(
        stored[key].shape == value.shape for key, value in own_state.items() if isinstance(value, torch.Tensor)
    )


def is_optimizer_state_of(stored: object, own_state: dict) -> bool:
    """Return whether an optimizer accepts `stored` as its state: as many groups as own_state, of as many parameters."""

    def counts(state) -> list[int]:
        return [len(group["params"]) for group in state["param_groups"]]

    try:
        return counts(stored) == counts(own_state)
    except (KeyError, TypeError):
        return False


def set_aside(folder: Path, names: Iterable[str]) -> None:
    """Rename damaged checkpoints, so that they neither count as new nor displace intact ones.

    Only the newest renamed one is kept, for inspection: they are as large as intact ones.
    """
    for name in names:
        disk.rename(folder / f"{name}.pt", folder / f"{_ASIDE}{name}.pt")
        disk.remove(folder / f"{name}.json")
    for path in sorted(folder.glob(f"{_ASIDE}*.pt"))[:-1]:
        disk.remove(path)


def keep_as_best(folder: Path, name: str) -> None:
    """Mark `name` as the best checkpoint (hard links: no bytes are copied)."""
    for suffix in (".pt", ".json"):
        temporary = folder / f".best{suffix}.link.tmp"
        disk.remove(temporary)
        try:
            disk.link(folder / f"{name}{suffix}", temporary)
            disk.rename(temporary, folder / f"best{suffix}")
        finally:
            disk.remove(temporary)  # renaming between two hard links of one file does nothing


def prune_checkpoints(folder: Path, num_kept: int = 2) -> None:
    """Remove all `step-*` checkpoints except the `num_kept` newest finished ones.

    The record is removed first, so that half a checkpoint is never trusted. Call only from the process that writes.
    """
    paths = sorted(folder.glob("step-*.pt"), reverse=True)
    kept_checkpoints = [path for path in paths if path.with_suffix(".json").exists()][:num_kept]
    for path in paths:
        if path not in kept_checkpoints:
            disk.remove(path.with_suffix(".json"))
            disk.remove(path)
