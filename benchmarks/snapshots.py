"""python -m benchmarks.snapshots: write and read the features of a large snapshot, with and without compression.

Made-up vectors of length 1 around 100 centres, as float16. Reading is the same as on Clusters: `read_snapshot` with
`thinned`, at most 50,000 rows. Processor seconds, the best of --rounds; other programs on the machine hardly change
them.

    python -m benchmarks.snapshots                   775,000 images with 128 numbers each
    python -m benchmarks.snapshots --images 100000 --width 256
"""

import argparse
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from benchmarks.clocks import best_of
from benchmarks.report import section
from lps.analysis.projection import unit_rows
from lps.store import snapshots
from lps.store.snapshots import Snapshot

_CENTRES, _BLOCK = 100, 50_000
_NEVER = 1 << 62  # bytes: no features are that large, so all are compressed


def make_snapshot(images: int, width: int) -> Snapshot:
    """Return a snapshot with `width` features of every image."""
    random = np.random.default_rng(0)
    classes = random.integers(0, _CENTRES, images)
    centres = random.normal(0, 0.4, (_CENTRES, width)).astype(np.float32)
    features = np.empty((images, width), np.float16)
    for start in range(0, images, _BLOCK):
        block = centres[classes[start : start + _BLOCK]]
        features[start : start + len(block)] = unit_rows(block + random.normal(0, 0.8, block.shape).astype(np.float32))
    confidence = random.uniform(0.5, 1, images).astype(np.float16)
    return Snapshot(classes.astype(np.int16), confidence, features, np.arange(images, dtype=np.int32))


def measure(snapshot: Snapshot, folder: Path, rounds: int) -> list[dict]:
    """Return one row for compressed features and one for features as the program stores them."""
    rows = []
    for kind, limit in (("compressed", _NEVER), ("as stored", snapshots._LARGE)):
        with mock.patch.object(snapshots, "_LARGE", limit):
            seconds = best_of(
                rounds,
                {
                    "write": lambda: snapshots.write_snapshot(folder, 1, snapshot),
                    "read": lambda: snapshots.read_snapshot(folder, 1, thinned=True),
                },
                torch.device("cpu"),
            )
        size = (folder / "epoch-0001.npz").stat().st_size / 2**20
        times = {f"{name} s": cost.processor for name, cost in seconds.items()}
        rows.append({"features": kind} | times | {"file MB": size})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshots", description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=775_000)
    parser.add_argument("--width", type=int, default=128, help="numbers per image")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(make_snapshot(options.images, options.width), Path(folder), options.rounds)
    note = f"{options.images:,} images, {options.width} features each, processor seconds, best of {options.rounds}."
    print(section("Snapshots", note, rows))


if __name__ == "__main__":
    main()
