"""Files of tensors that are whole or absent: written atomically, verified by sha256 before they are read."""

import io
from pathlib import Path

import torch

from lps import disk
from lps.files import read_checked, write_checked


def save(folder: Path, name: str, state: dict) -> Path:
    """Write `name.pt`, then `name.json` with its size and sha256; a checkpoint counts once the second file exists."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_checked(folder / f"{name}.pt", buffer.getvalue())
    return folder / f"{name}.pt"


def load(folder: Path, name: str) -> dict | None:
    """The state saved as `name` on the CPU, None where it is missing or does not verify."""
    data = read_checked(folder / f"{name}.pt")
    return None if data is None else torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def load_newest(folder: Path) -> tuple[str | None, dict | None, list[str]]:
    """(name, state) of the newest `step-*` checkpoint that verifies, and the names of newer ones that do not.

    One without a record was never finished, which is no damage.
    """
    damaged = []
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        state = load(folder, path.stem)
        if state is not None:
            return path.stem, state, damaged
        if path.with_suffix(".json").exists():
            damaged.append(path.stem)
    return None, None, damaged


def set_aside(folder: Path, name: str) -> None:
    """Rename a damaged checkpoint, so that it neither counts as new nor pushes a good one out."""
    disk.rename(folder / f"{name}.pt", folder / f"damaged-{name}.pt")
    disk.remove(folder / f"{name}.json")


def keep_as_best(folder: Path, name: str) -> None:
    """Make `name` the checkpoint called best (hard links: no bytes are copied)."""
    for suffix in (".pt", ".json"):
        temporary = folder / f".best{suffix}.link.tmp"
        disk.remove(temporary)
        try:
            disk.link(folder / f"{name}{suffix}", temporary)
            disk.rename(temporary, folder / f"best{suffix}")
        finally:
            disk.remove(temporary)  # a rename between two names of one file does nothing


def prune(folder: Path, keep: int = 2) -> None:
    """Remove all `step-*` checkpoints but the `keep` newest finished ones.

    The record goes first, so that no half is ever trusted. Only for whoever writes checkpoints here, between two.
    """
    paths = sorted(folder.glob("step-*.pt"), reverse=True)
    kept = [path for path in paths if path.with_suffix(".json").exists()][:keep]
    for path in paths:
        if path not in kept:
            disk.remove(path.with_suffix(".json"))
            disk.remove(path)
