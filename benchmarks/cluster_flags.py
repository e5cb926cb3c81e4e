"""python -m benchmarks.cluster_flags PICTURES: how often each flag of a cluster is right, on runs whose truth is known.

PICTURES: an .npz file with CIFAR-10 (`x_train`, `y_train`, ...). Every seed splits digits and CIFAR-10 again, each with
few and with many pictures per class: five of the ten classes are seen, and half of their pictures have a label. LPS is
trained for 20 epochs on each split: on digits with their recipe, on CIFAR-10 with stored features. Existing runs are
reused. Flags are computed as on the page Clusters: those that need true classes with 8 % of these hidden, the others
without any. `--only 'arrays, own'` measures small collections instead: every seed draws other pictures (300 to 600),
and LPS is trained as on own pictures; `--only 'arrays, own 75x8 half'` those of two users, 8 classes of 75 pictures, 4
of them half labeled, for 50 epochs and for 20 ("short"). Seeds 0 to 9 are for the report; thresholds were chosen on
seeds from 100 on, which use other pictures of CIFAR-10. The newest rule of "looks mixed" was chosen with both in sight.

looks mixed, and unsure, unstable, close (which are no flags): right if less than 80 % of a cluster's pictures are of
its most frequent class; close: if two clusters have the same most frequent class. alike (what Clusters points out):
two clusters without a flag are each other's nearest, and one at least is novel; right if they have the same most
frequent class, or if both are mixed. "as before": looks mixed by its
earlier rule, 28 % of the neighbours elsewhere and no limit of a third. `--split`: the three purest clusters of every
run are cut in two first, as if it had too many clusters; flags should not fall on such parts. part of a class, mixes
classes: right if the flag is also set with all true classes known.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.report import section
from lps.analysis.clusters import (
    FLAGS,
    WINDOW,
    Assignment,
    Cluster,
    describe_clusters,
    find_mixed_ids,
    read_assignment,
    read_first_features,
    unflagged_twin,
)
from lps.analysis.mixed_clusters import FEWEST, PARTS, leading_components, split_points
from lps.analysis.projection import nearest_rows
from lps.scores.estimates import INTERVAL, INTERVAL_CONFIDENCE
from lps.settings.config import Config, configure
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, snapshot_epochs
from lps.training.loop import train

DATA = {"digits": "digits", "arrays": "CIFAR-10"}
SIZES = {"few": 40, "many": 150}  # pictures of a class
OWN = {  # small collections: pictures of a class, classes, share of the seen classes' pictures with a label, epochs
    "own 30x10": (30, 10, 0.4, 50),
    "own 50x10": (50, 10, 0.4, 50),
    "own 75x8": (75, 8, 0.4, 50),
    "own 75x8 half": (75, 8, 0.47, 50),
    "own 75x8 half short": (75, 8, 0.47, 20),
}
MIXED = 0.8  # share of one class below which a cluster is mixed
_HIDDEN = 0.08  # share of the true classes that the flags which need them do not know
_EPOCHS = 20
_CHOSEN = 100  # from this seed on the splits are those that thresholds were chosen on


def draw(file: Path, each: int, is_report: bool, path: Path) -> Path:
    """A file with `each` pictures of every class of those in `file`, written once; none are in both roles."""
    if not path.exists():
        with np.load(file) as arrays:
            ends = [key[1:] for key in arrays if key.startswith("x_")]
            pixels, labels = (np.concatenate([arrays[name + end] for end in ends]) for name in "xy")
        draws, first = np.random.default_rng(25), 0 if is_report else max(SIZES.values())
        rows = [draws.permutation(np.flatnonzero(labels == one))[first : first + each] for one in np.unique(labels)]
        np.savez(path, x_train=pixels[np.concatenate(rows)], y_train=labels[np.concatenate(rows)])
    return path


def draw_own(file: Path, each: int, classes: int, seed: int, path: Path) -> Path:
    """A file with `each` pictures of some classes, other ones for every seed, written once."""
    if not path.exists():
        with np.load(file) as arrays:
            pixels, labels = (np.concatenate([arrays[f"{name}_{part}"] for part in ("train", "test")]) for name in "xy")
        draws = np.random.default_rng(1000 + seed)
        chosen = np.sort(draws.permutation(np.unique(labels))[:classes])
        rows = np.concatenate([draws.permutation(np.flatnonzero(labels == one))[:each] for one in chosen])
        np.savez(path, x_train=pixels[rows], y_train=np.searchsorted(chosen, labels[rows]))
    return path


def epochs_of(name: str) -> int:
    """How long the run "data, size, seed" is trained."""
    size = name.split(", ")[1]
    return OWN[size][-1] if size in OWN else _EPOCHS


def settings(data: str, size: str, seed: int, root: Path, file: Path) -> Config:
    """Of one run; `root` keeps the drawn pictures."""
    if size in OWN:
        each, classes, labeled, epochs = OWN[size]
        path = draw_own(file, each, classes, seed, root / f"own-{each}x{classes}-{seed}.npz")
        own = {"seed": seed, "split.seed": seed, "threads": 1, "epochs": epochs, "batch_size": 256}
        own |= {"split.num_seen": classes // 2, "split.seen_classes": "random", "split.labeled_ratio": labeled}
        own |= {"split.validation_ratio": 0.1, "features": "stored", "network.image_size": 160}
        return configure(own | {"dataset": data, "dataset.path": str(path)})
    own: dict = {"seed": seed, "split.seed": seed, "threads": 1, "epochs": _EPOCHS}
    own |= {"split.num_seen": 5, "split.seen_classes": "random", "dataset": data}
    if data == "digits":
        return configure(own | ({"dataset.images_per_class": SIZES[size]} if size == "few" else {}))
    role = "report" if seed < _CHOSEN else "chosen"
    path = draw(file, SIZES[size], seed < _CHOSEN, root / f"{size}-{role}.npz")
    return configure(own | {"dataset.path": str(path), "features": "stored", "batch_size": 64})


def make(root: Path, file: Path, seeds: Sequence[int], only: str = "") -> dict[str, Run]:
    """The runs by "data, size, seed", those that begin with `only`; those that are missing are trained."""
    made = [(run.meta()["name"], run) for run in list_runs(root)]
    done = {name: run for name, run in made if snapshot_epochs(run.snapshots)[-1:] == [epochs_of(name)]}
    wanted = [(data, size, seed) for data in DATA for size in SIZES for seed in seeds]
    if only.startswith("arrays, own"):
        wanted = [("arrays", size, seed) for seed in seeds for size in OWN]
    wanted = [one for one in wanted if ", ".join(map(str, one)).startswith(only)]
    for data, size, seed in wanted:
        name = f"{data}, {size}, {seed}"
        if name not in done:
            done[name] = create_run(root, settings(data, size, seed, root, file), name)
            if train(done[name]):
                raise SystemExit(f"{name} failed")
    return {name: done[name] for name in (f"{data}, {size}, {seed}" for data, size, seed in wanted)}


def clusters_of(name: str, run: Run, is_split: bool = False) -> list[dict]:
    """What was said of every cluster with pictures at the last epoch, and what is true of it."""
    split, targets = read_split(run.folder)
    last = epochs_of(name)
    snapshot, truth = read_snapshot(run.snapshots, last), targets[split.unlabeled]
    earlier = [read_assignment(run, epoch, split).predicted for epoch in range(last - WINDOW, last)]
    predicted, ids = snapshot.predicted.astype(np.int64), np.arange(split.classes.total)
    rows = np.searchsorted(split.unlabeled, snapshot.feature_index)
    if is_split:
        predicted = split_purest(predicted, truth, snapshot.features, rows)
        ids = np.arange(predicted.max() + 1)
    first = read_first_features(run, split.unlabeled)
    mixed = find_mixed_ids(Assignment(predicted, snapshot.confidence), first)
    more = {"earlier": earlier, "features": snapshot.features, "feature_rows": rows, "mixed": mixed}

    def described(known: np.ndarray) -> list[Cluster]:
        return describe_clusters(predicted, snapshot.confidence, known, ids, len(split.class_names), **more)

    whole, none = described(truth), described(np.full(len(truth), -1))
    hidden = np.random.default_rng(0).random(len(truth)) < _HIDDEN
    part = described(np.where(hidden, -1, truth))
    known_of, found = {c.id: c for c in whole}, []
    around = np.zeros(len(ids))
    if first is not None:
        places = predicted[first[1]]
        elsewhere = (places[nearest_rows(first[0], 5)] != places[:, None]).mean(axis=1)
        around = np.bincount(places, elsewhere, len(ids)) / np.maximum(1, np.bincount(places, minlength=len(ids)))
    for full, seen, some in zip(whole, none, part, strict=True):
        if not full.size:
            continue
        said = {"looks mixed": "mixed" in seen.flags, "unsure": seen.confidence < 0.5}
        said |= {"as before": full.size >= FEWEST and full.confidence < 0.9 and around[full.id] >= 0.28}
        said |= {"unstable": seen.stability < 0.5, "close": seen.similarity > 0.9}
        near, twin = known_of.get(seen.nearest), unflagged_twin(none, seen.id)
        is_mixed, is_same = full.purity < MIXED, near is not None and near.majority == full.majority
        said["alike, one class"] = twin is not None and max(twin.id, seen.id) >= split.classes.seen
        said["alike, both mixed"] = said["alike, one class"]
        right = {
            "looks mixed": is_mixed,
            "as before": is_mixed,
            "unsure": is_mixed,
            "unstable": is_mixed,
            "close": is_same,
            "alike, one class": is_same,
            "alike, both mixed": is_mixed and near is not None and near.purity < MIXED,
        }
        for flag in ("split", "merge"):
            said[FLAGS[flag].text], right[FLAGS[flag].text] = flag in some.flags, flag in full.flags
        data, size, _ = name.split(", ")
        found.append(
            {"run": run, "data": DATA[data], "size": size, "pictures": full.size, "said": said, "right": right}
        )
        members = predicted[rows] == full.id
        features, classes = snapshot.features[members], truth[rows][members]
        points = leading_components(features)
        found[-1] |= {"purity": full.purity, "parts": [purity(classes, split_points(points, n)) for n in (1, *PARTS)]}
    return found


def split_purest(predicted: np.ndarray, truth: np.ndarray, features: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The clusters `predicted` (n,), with the three purest of at least 20 pictures cut in two."""
    clusters = [c for c in np.unique(predicted) if (predicted == c).sum() >= 20]
    known = {c: purity(truth[predicted == c], np.zeros((predicted == c).sum())) for c in clusters}
    predicted = predicted.copy()
    for cluster in sorted(clusters, key=known.get, reverse=True)[:3]:
        members = predicted[rows] == cluster
        predicted[rows[members][split_points(leading_components(features[members]), 2) == 1]] = predicted.max() + 1
    return predicted


def purity(classes: np.ndarray, parts: np.ndarray) -> float:
    """The share of pictures that are of the most frequent class of their part."""
    return sum(np.bincount(classes[parts == part]).max() for part in np.unique(parts)) / max(1, len(classes))


def rates(found: Sequence[dict]) -> list[dict]:
    """Precision and recall of every flag, by data and together; intervals by runs drawn anew."""
    rows = []
    for flag in found[0]["said"]:
        for data in (*DATA.values(), "both"):
            some = [one for one in found if data in (one["data"], "both")]
            if not some:
                continue
            said, right = (np.array([one[key][flag] for one in some], bool) for key in ("said", "right"))
            _, runs = np.unique([one["run"].id for one in some], return_inverse=True)
            row = {"flag": flag, "data": data, "clusters": len(some), "true of": int(right.sum())}
            row |= {"said of": int(said.sum()), "right": int((said & right).sum())}
            row |= {"of the others": int((right & ~said).sum())}
            if "purity" in some[0]:
                pure = np.array([one["purity"] for one in some])
                row |= {"purity": pure[said].mean() if said.any() else np.nan, "purity, others": pure[~said].mean()}
            row |= {"precision": share(said & right, said, runs), "recall": share(said & right, right, runs)}
            rows.append(row)
    return rows


def share(part: np.ndarray, whole: np.ndarray, runs: np.ndarray) -> str:
    """Per cent of `whole` that is `part`, with a bootstrap interval over runs (n,); "-" of nothing."""
    if not whole.any():
        return "-"
    counts = [np.bincount(runs, weights=each) for each in (part, whole)]
    draws = np.random.default_rng(0).integers(0, len(counts[0]), (2000, len(counts[0])))
    parts, wholes = (each[draws].sum(axis=1) for each in counts)
    tail = (1 - INTERVAL_CONFIDENCE) / 2
    low, high = np.quantile(100 * parts[wholes > 0] / wholes[wholes > 0], (tail, 1 - tail))
    return f"{100 * part.sum() / whole.sum():.0f} % ({low:.0f} to {high:.0f})"


def splits(found: Sequence[dict]) -> list[dict]:
    """What a split in two or three parts gives the clusters that are mixed."""
    rows = []
    for data in DATA.values():
        mixed = [one for one in found if one["data"] == data and one["right"]["looks mixed"]]
        if not mixed:
            continue
        row = {"data": data, "mixed clusters": len(mixed), "purity, whole": np.mean([one["parts"][0] for one in mixed])}
        rows.append(row | {f"in {n}": np.mean([one["parts"][i] for one in mixed]) for i, n in enumerate(PARTS, 1)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_flags", description=__doc__)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/cluster-flags"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--only", default="", help="such as 'digits, few'; arrays are CIFAR-10")
    parser.add_argument("--split", action="store_true", help="cut the three purest clusters in two first")
    asked = parser.parse_args()
    root = asked.runs.absolute()
    root.mkdir(parents=True, exist_ok=True)
    runs = make(root, asked.pictures.absolute(), asked.seeds, asked.only)
    found = [one for name, run in runs.items() for one in clusters_of(name, run, asked.split)]
    about = f"{len(found)} clusters of {len(runs)} runs, seeds {asked.seeds[0]} to {asked.seeds[-1]}"
    print(section("Flags of clusters", f"{about}; {INTERVAL}s over the runs.", rates(found)))
    print(section("Mixed clusters in parts", about, splits(found)))


if __name__ == "__main__":
    main()
