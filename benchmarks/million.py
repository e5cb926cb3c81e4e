"""python -m benchmarks.million [COUNT]: start, evaluation, Clusters and labels.csv of a million pictures, in a minute.

Nothing is decoded and no backbone is at work: decoded pictures of 16 x 16 pixels and stored features of 128 numbers are
written as the program would have left them. Each stage is a process of its own, measured as in `benchmarks.scale`.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.report import section
from benchmarks.scale import CLASSES, SEEN, export, measure

_SIDE, _WIDTH, _PIECE = 16, 128, 10_000


def _config(path: Path):
    from lps.settings.config import configure

    return configure(
        {
            "dataset": "shards",
            "dataset.path": str(path / "pictures"),
            "dataset.image_size": _SIDE,
            "method": "lps",
            "split.num_novel": CLASSES - SEEN,
            "features": "stored",
            "network.name": "digits_resnet",
            "network.start": "random",
            "network.image_size": None,
        }  # fmt: skip
    )


def prepare(path: Path, count: int) -> None:
    """Leave decoded pictures for one shard, which is empty."""
    from lps.data import sources
    from lps.datasets import Images, shards

    (path / "pictures").mkdir()
    (path / "pictures" / "train.tar").touch()
    numbers = np.arange(count)
    labels = np.where((numbers % CLASSES < SEEN) & (numbers // CLASSES % 2 == 0), numbers % CLASSES, -1)

    def stored(found, names, size, writer) -> Images:
        for start in range(0, count, _PIECE):
            writer.add(np.full((min(_PIECE, count - start), size, size, 3), start % 251, np.uint8))
        names = tuple(f"class {label}" for label in range(SEEN))
        return Images(np.zeros(0), labels, names, file_names=tuple(f"train.tar/{i:07d}.jpg" for i in range(count)))

    shards._stored = stored
    sources.images_of(_config(path))
    table = np.random.default_rng(0).normal(0, 1, (_PIECE, _WIDTH)).astype(np.float16)
    with open(path / "plain.f16", "wb") as file:
        for start in range(0, count, _PIECE):
            file.write(table[: count - start].tobytes())


def start(path: Path) -> None:
    """What a run does before its first step, where everything is there."""
    from lps.data import material

    found = material.prepare(_config(path))
    assert found.digest == found.digest


def evaluate(path: Path) -> None:
    """A run with the evaluation of one epoch, untrained."""
    import torch

    from lps.data import material
    from lps.data.features import StoredFeatures
    from lps.store import snapshots
    from lps.store.run_folders import create_run
    from lps.training import evaluate
    from lps.training.loop import build

    config = _config(path)
    found = material.prepare(config)
    table = np.memmap(path / "plain.f16", np.float16, "c", shape=(len(found.truth), _WIDTH))
    features = StoredFeatures({"plain": (torch.from_numpy(table),)}, "planted", torch.device("cpu"))
    ours = material.Material(features, found.truth, found.split, found.plan)
    method, _ = build(config, ours)
    run = create_run(path / "runs", config, name="lps")
    run.snapshots.mkdir()
    snapshots.write_split(run.folder, ours.split, ours.truth)
    snapshots.write_snapshot(run.snapshots, 1, evaluate.evaluate(method, ours, config)[1])


def clusters(path: Path) -> None:
    """What the page Clusters computes of an epoch."""
    from lps.store.run_folders import list_runs
    from lps.ui.pictures import predictions

    (run,) = list_runs(path / "runs")
    assert sum(cluster.size for cluster in predictions.view(run, 1).clusters) == len(predictions.view(run, 1).assigned)


STAGES = {
    "start, pixels read for their digest": start,
    "start again, nothing changed": start,
    "evaluation and snapshot": evaluate,
    "clusters": clusters,
    "export labels.csv": export,
}


def main(arguments: list[str]) -> None:
    if len(arguments) == 2:
        STAGES[arguments[0]](Path(arguments[1]))
        return
    count = int(arguments[0]) if arguments else 1_000_000
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"LPS_CACHE": f"{place}/cache", "LPS_DECISIONS": f"{place}/decisions"}
        prepare(Path(place), count)
        rows = []
        for name in STAGES:
            command = [sys.executable, "-m", "benchmarks.million", name, place]
            rows.append({"stage": name, "pictures": count} | measure(command, dict(os.environ)))
            print(rows[-1], file=sys.stderr, flush=True)
        snapshot = next(Path(place).glob("runs/*/snapshots/epoch-0001.npz"))
        print(section("A million", f"A snapshot takes {snapshot.stat().st_size / 1e6:.1f} MB.", rows))


if __name__ == "__main__":
    main(sys.argv[1:])
