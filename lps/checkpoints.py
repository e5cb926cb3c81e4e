"""Files of tensors that are whole or absent: written atomically, verified by sha256 before they are read."""

import hashlib
import io
import json
import os
from pathlib import Path

import torch

from lps.files import write_json, write_whole


def save(folder: Path, name: str, state: dict) -> Path:
    """Write `name.pt`, then `name.json` with its size and sha256; a checkpoint counts once the second file exists."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    write_whole(folder / f"{name}.pt", data)
    write_json(folder / f"{name}.json", {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    return folder / f"{name}.pt"


def load(folder: Path, name: str) -> dict | None:
    """The state saved as `name` on the CPU, None where it is missing or does not verify."""
    try:
        data = (folder / f"{name}.pt").read_bytes()
        record = json.loads((folder / f"{name}.json").read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(record, dict) or hashlib.sha256(data).hexdigest() != record.get("sha256"):
        return None
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def load_newest(folder: Path) -> tuple[str | None, dict | None, list[str]]:
    """(name, state) of the newest `step-*` checkpoint that verifies, and the names of newer ones that do not."""
    damaged = []
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        state = load(folder, path.stem)
        if state is not None:
            return path.stem, state, damaged
        damaged.append(path.stem)
    return None, None, damaged


def set_aside(folder: Path, name: str) -> None:
    """Rename a damaged checkpoint, so that it neither counts as new nor pushes a good one out."""
    (folder / f"{name}.pt").rename(folder / f"damaged-{name}.pt")
    (folder / f"{name}.json").unlink(missing_ok=True)


def keep_as_best(folder: Path, name: str) -> None:
    """Make `name` the checkpoint called best (hard links: no bytes are copied)."""
    for suffix in (".pt", ".json"):
        temporary = folder / f".best{suffix}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        os.link(folder / f"{name}{suffix}", temporary)
        os.replace(temporary, folder / f"best{suffix}")


def prune(folder: Path, keep: int = 2) -> None:
    """Remove all but the `keep` newest `step-*` checkpoints; the record goes first, so no half is ever trusted."""
    for path in sorted(folder.glob("step-*.pt"), reverse=True)[keep:]:
        path.with_suffix(".json").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
