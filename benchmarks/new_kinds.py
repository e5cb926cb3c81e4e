"""python -m benchmarks.new_kinds FILE.npz: how often a possible novel class is proposed, with and without a novel
class.

FILE.npz is of the data set `arrays`, with truth. In each trial, half of the pictures of the known classes are known and
the other half arrives; of the class that was left out, some pictures arrive too, or none. Features are the stored
features that predictions compare. A proposal is right if at least nine tenths of its pictures are of the class left
out.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.report import section
from lps.data import features
from lps.inference import novel_proposals, rejection
from lps.methods.parts.clustering import unit_rows
from lps.settings.config import configure

PURE = 0.9
FIRST = 2  # draws 0 and 1 were used to choose the rule


def trial(points: np.ndarray, truth: np.ndarray, foreign: int, count: int, seed: int) -> list[float]:
    """Of every proposal the share of pictures of the class `foreign`, of which `count` arrive."""
    draws = np.random.default_rng([seed, foreign])
    known = [one for one in np.unique(truth).tolist() if one != foreign]
    shuffled = [draws.permutation(np.flatnonzero(truth == one)) for one in known]
    own = np.concatenate([rows[: len(rows) // 2] for rows in shuffled])
    new = np.concatenate([rows[len(rows) // 2 :] for rows in shuffled])
    new = np.concatenate([new, draws.permutation(np.flatnonzero(truth == foreign))[:count]])
    nobody = np.zeros(0, np.int64)
    curve = rejection.measure_trade_off(points[own], nobody, nobody.astype(bool))
    distance = rejection.nearest_images(points[new], points[own])[0].mean(axis=1)
    kinds = novel_proposals.propose_classes(points[new][novel_proposals.is_far(distance, curve)], distance, curve)
    return [float((truth[new[list(kind)]] == foreign).mean()) for kind in kinds]


def row(points: np.ndarray, truth: np.ndarray, count: int, draws: int) -> dict:
    """One row of the report: `count` pictures of a class that nobody knows, every class in its turn."""
    classes = np.unique(truth).tolist()
    trials = [trial(points, truth, one, count, seed) for one in classes for seed in range(FIRST, FIRST + draws)]
    right = [any(share >= PURE for share in found) for found in trials]
    wrong = [any(share < PURE for share in found) for found in trials]
    by_class = np.reshape(right, (len(classes), draws)).mean(axis=1)
    return {
        "pictures of an unknown class": count,
        "trials": len(trials),
        "proposed rightly": f"{100 * np.mean(right):.0f} %",
        "by class": f"{100 * by_class.min():.0f} to {100 * by_class.max():.0f} %",
        "something else proposed": f"{100 * np.mean(wrong):.0f} %",
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.new_kinds", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--draws", type=int, default=5, help="trials of each class and number")
    parser.add_argument("--counts", type=int, nargs="+", default=[0, 25, 50, 100, 200])
    asked = parser.parse_args()
    config = configure({"dataset": "arrays", "dataset.path": str(asked.file.absolute()), "features": "stored"})
    points = unit_rows(features.plain_features(config)).astype(np.float32)
    with np.load(asked.file) as arrays:
        truth = arrays["y_train"].astype(np.int64)
    rows = [row(points, truth, count, asked.draws) for count in asked.counts]
    known = (len(truth) - len(truth) // len(np.unique(truth))) // 2
    note = f"{known:,} known pictures of all classes but one, as many of theirs arrive."
    print(section("Possible novel classes", note, rows))


if __name__ == "__main__":
    main()
