"""Small files of vectors like those of users: three kinds of items, two of them with labels."""

from pathlib import Path

import numpy as np

WIDTH = 12
KINDS = ("owl", "robin", "heron")


def items(count: int = 90, seed: int = 0, views: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (vectors float32 (n, 12) or (n, views, 12), kind of each). The kinds are well separated and take turns."""
    generator = np.random.default_rng(seed)
    kinds = np.arange(count) % len(KINDS)
    centres = np.random.default_rng(7).normal(size=(len(KINDS), WIDTH)) * 3
    vectors = centres[kinds][:, None] + generator.normal(size=(count, views or 1, WIDTH))
    return vectors.astype(np.float32) if views else vectors[:, 0].astype(np.float32), kinds


def labels_of(kinds: np.ndarray) -> list[str]:
    """Return labels: every second owl and robin has one; herons are novel."""
    return [KINDS[kind] if kind < 2 and row % 2 == 0 else "" for row, kind in enumerate(kinds.tolist())]


def npz(path: Path, **changes) -> Path:
    """Write a valid file; changes: arrays by name, None for one to leave out."""
    vectors, kinds = items()
    arrays = {
        "vectors": vectors,
        "ids": [f"bird-{row}" for row in range(len(kinds))],
        "labels": labels_of(kinds),
        "titles": [f"Bird number {row} sings a long song of its own in the garden" for row in range(len(kinds))],
    }
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})
    return path
