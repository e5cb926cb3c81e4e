"""python -m benchmarks.mixtures RUN [RUN ...]: how often the warning of a mixed cluster is right, what a split gives.

RUN: folders of finished runs on data of known classes. A cluster is pure with over 90 % of one class,
mixed with less than 70 %; those between are neither. The thresholds (`lps.analysis.mixtures`) were chosen on the runs
whose rates stand in README.md beside this file.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import section
from lps.analysis import mixtures
from lps.analysis.clusters import places
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, stored_epochs

_PURE, _MIXED = 0.9, 0.7


def clusters_of(run: Run) -> list[dict]:
    """What is measured of every cluster of a run at its last epoch that has enough images."""
    split, targets = read_split(run.folder)
    snapshot = read_snapshot(run.snapshots, stored_epochs(run)[-1])
    rows = places(snapshot.feature_index.astype(np.int64), split.unlabeled)
    truth = targets[snapshot.feature_index]
    ids, here = np.unique(snapshot.predicted[rows], return_inverse=True)
    warned = mixtures.suspected(snapshot.features, here, len(ids))
    elsewhere = mixtures.elsewhere(snapshot.features, here, len(ids))
    found = []
    for place in range(len(ids)):
        own = here == place
        if own.sum() < mixtures.FEWEST:
            continue
        features, classes = snapshot.features[own], truth[own]
        values = {"purity": purity(classes, np.zeros(len(classes), int)), "warned": bool(warned[place])}
        values |= {"elsewhere": elsewhere[place], "surplus": mixtures.surplus(features)}
        parts = {f"in {count}": purity(classes, mixtures.split(features, count)) for count in mixtures.PARTS}
        found.append({"data": run.config().dataset} | values | parts)
    return found


def purity(classes: np.ndarray, parts: np.ndarray) -> float:
    """The share of images that are of the most frequent class of their part."""
    return sum(np.bincount(classes[parts == part]).max() for part in np.unique(parts)) / len(classes)


def area(mixed: np.ndarray, pure: np.ndarray) -> float:
    """How often a mixed cluster has the larger value of the two, ties half: the area under the ROC curve."""
    differences = mixed[:, None] - pure
    return float((differences > 0).mean() + (differences == 0).mean() / 2) if differences.size else float("nan")


def rates(found: Sequence[dict]) -> list[dict]:
    """A row for every data set, and one for all."""
    rows = []
    for data in [*sorted({one["data"] for one in found}), "all"]:
        some = [one for one in found if data in ("all", one["data"])]
        pure, mixed = [one for one in some if one["purity"] > _PURE], [one for one in some if one["purity"] < _MIXED]
        row: dict = {"data": data, "pure": len(pure), "warned": _share(pure, "warned")}
        row |= {"mixed": len(mixed), "caught": _share(mixed, "warned")}
        for sign in ("elsewhere", "surplus"):
            values = [np.array([one[sign] for one in part]) for part in (mixed, pure)]
            row[f"{sign}, AUC"] = f"{area(*values):.2f}"
        row |= {f"purity, {name}": _share(mixed, name) for name in ("purity", "in 2", "in 3")}
        rows.append(row)
    return rows


def _share(found: Sequence[dict], name: str) -> str:
    return f"{100 * np.mean([one[name] for one in found]):.0f} %" if found else "-"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixtures", description=__doc__)
    parser.add_argument("run", type=Path, nargs="+")
    runs = [Run(path) for path in parser.parse_args().run]
    found = [one for run in runs for one in clusters_of(run)]
    about = f"{len(found)} clusters of {len(runs)} runs; purity: of mixed ones, whole and in parts"
    print(section("Mixed clusters", about, rates(found)))


if __name__ == "__main__":
    main()
