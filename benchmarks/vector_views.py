"""python -m benchmarks.vector_views FILE.npz: compare views of vectors by noise and dropout with real views of
pictures.

FILE.npz is of the data set `arrays`, with truth. Every run has the same stored features of the pictures as its plain
view. Its weak and strong views are features of augmented pictures, or the plain ones with noise and dropout
(`lps.data.vectors`), whose runs are of the data set `embeddings` with the same labels and split.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.report import section
from lps.data import features, sources
from lps.settings.config import Config, configure
from lps.store.events import read_history
from lps.store.run_folders import create_run
from lps.training import loop

SCORES = ("accuracy/all", "accuracy/seen", "accuracy/novel")
VIEWS = ((0.0, 0.0), (0.1, 0.1), (0.25, 0.1), (0.5, 0.1), (1.0, 0.1), (0.5, 0.0), (0.5, 0.3))  # noise, dropout


def scores_of(config: Config, root: Path) -> list[float]:
    """The scores of the last epoch of a run, which is trained here."""
    run = create_run(root, config)
    assert loop.RunTraining(run).carry_out() == 0
    last = [event for event in read_history(run.events) if event["kind"] == "eval"][-1]
    return [100 * last["values"][name] for name in SCORES]


def row(views: str, found: list[list[float]]) -> dict:
    """One row of the report: mean and standard deviation over seeds."""
    mean, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) if len(found) > 1 else np.zeros(len(SCORES))
    told = {name.partition("/")[2]: f"{m:.1f} ± {s:.1f}" for name, m, s in zip(SCORES, mean, spread)}
    return {"views": views, "seeds": len(found)} | told


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vector_views", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--method", default="lps")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--side", type=int, default=64, help="of the pictures that the backbone sees")
    parser.add_argument("--images-per-class", type=int, default=200)
    parser.add_argument(
        "--views", nargs="+", metavar="NOISE,DROPOUT", help="these rows alone, without that of pictures"
    )
    asked = parser.parse_args()
    views = [tuple(map(float, text.split(","))) for text in asked.views] if asked.views else VIEWS
    shared = {"method": asked.method, "device": "cpu", "split.labeled_ratio": 0.5, "split.validation_ratio": 0.0}
    pictures = shared | {
        **{"dataset": "arrays", "dataset.path": str(asked.file.absolute()), "features": "stored"},
        **{"network.image_size": asked.side, "dataset.images_per_class": asked.images_per_class},
    }
    images = sources.images_of(configure(pictures))
    with tempfile.TemporaryDirectory() as folder:
        path, root = Path(folder, "vectors.npz"), Path(folder, "runs")
        rows = []
        if not asked.views:
            found = [scores_of(configure(pictures | {"seed": seed}), root) for seed in range(asked.seeds)]
            rows.append(row("of pictures", found))
        plain = np.asarray(features.plain_features(configure(pictures)), np.float32)
        training = len(plain) - images.num_test
        np.savez(path, vectors=plain[:training], labels=images.labels[:training], class_names=images.class_names)
        vectors = shared | {"dataset": "embeddings", "dataset.path": str(path)}
        for noise, dropout in views:
            own = vectors | {"features.noise": noise, "features.dropout": dropout}
            found = [scores_of(configure(own | {"seed": seed}), root) for seed in range(asked.seeds)]
            rows.append(row(f"noise {noise:g}, dropout {dropout:g}", found))
            print(rows[-1], file=sys.stderr, flush=True)
    note = f"{asked.method}, {training:,} items, features at {asked.side} pixels, mean ± standard deviation over seeds."
    print(section("Views of vectors", note, rows))


if __name__ == "__main__":
    main()
