"""python -m benchmarks.long_tail_folder FILE.npz: does the advised prior help on own pictures with a long tail?

Each seed draws eight of the classes of FILE.npz (of the data set `arrays`, with truth) and writes a folder as a user
would have it: 200 pictures of the largest class, 10 of the smallest one, sizes along an exponential curve in a drawn
order. Four drawn classes have half of their pictures sorted into sub-folders. All other pictures are in `unlabeled`.
Every prior then trains as the form does on a machine without a GPU (`--light`), with the true number of novel classes.
Only the pictures in `unlabeled` are scored, at the last epoch.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.in_process import train_here
from benchmarks.report import section
from lps.analysis import differences
from lps.data import sources
from lps.data.split import imbalanced_counts
from lps.scheduler import submit
from lps.scores.protocols import open_world
from lps.settings.config import Config, configure, parse_settings
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, stored_epochs

CLASSES, SEEN, LARGEST, SMALLEST = 8, 4, 200, 10
SCORES = {"all": "accuracy/all", "seen": "accuracy/seen", "novel": "accuracy/novel", "balanced": "accuracy/balanced"}


def class_sizes() -> np.ndarray:
    """Pictures of the classes, the largest first: 200 ... 10."""
    return imbalanced_counts(np.full(CLASSES, LARGEST), LARGEST / SMALLEST)


def write_folder(file: Path, into: Path, seed: int) -> dict[str, int]:
    """Write the pictures of a seed; give the class of every picture in `unlabeled`, seen classes first, by file name.

    Sub-folders of seen classes are called "class 0", "class 1", ... A folder that exists is not written again.
    """
    draws = np.random.default_rng([seed, 8])
    is_new, truth = not into.exists(), {}
    with np.load(file) as arrays:
        pixels, labels = arrays["x_train"], arrays["y_train"]
    of_size = draws.permutation(CLASSES)  # class -> place on the curve
    for label, original in enumerate(draws.choice(np.unique(labels), CLASSES, replace=False)):
        count = class_sizes()[of_size[label]]
        for place, row in enumerate(draws.permutation(np.flatnonzero(labels == original))[:count].tolist()):
            is_sorted = label < SEEN and place < count // 2
            folder = into / (f"class {label}" if is_sorted else "unlabeled")
            if is_new:
                folder.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels[row]).save(folder / f"{row:05d}.png")
            if not is_sorted:
                truth[f"{row:05d}.png"] = label
    return truth


def settings_of(folder: Path, seed: int, prior: str, more: Sequence[str]) -> Config:
    """What `python -m lps train --dataset folder --light` asks for."""
    asked = {"dataset.path": str(folder), "split.num_novel": CLASSES - SEEN, "prior": prior}
    asked |= parse_settings(list(more), "lps")
    return configure(submit.light_settings("folder", asked, True) | {"dataset": "folder", "seed": seed} | asked)


def scores_of(run: Run, truth: dict[str, int]) -> dict[str, float]:
    """Per cent on the pictures in `unlabeled`; balanced: the mean of the accuracies of the classes."""
    split, _ = read_split(run.folder)
    predicted = read_snapshot(run.snapshots, stored_epochs(run)[-1]).predicted
    names = [Path(name).name for name in np.array(sources.images_of(run.config()).file_names)[split.unlabeled]]
    target = np.array([truth.get(name, -1) for name in names])
    sizes = np.bincount(target[target >= 0], minlength=CLASSES)
    values = open_world(predicted, target, split.classes, sizes=sizes)
    return {name: 100 * values[key] for name, key in SCORES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_tail_folder", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--priors", nargs="+", default=["uniform", "estimated"], help="the first one is the reference")
    parser.add_argument("--pictures", type=Path, default=Path("long-tail"), help="where the folders are written")
    parser.add_argument("--runs", type=Path, default=Path(os.environ.get("LPS_RUNS") or "runs"))
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    asked = parser.parse_args()
    found: dict[str, dict[int, dict[str, float]]] = {prior: {} for prior in asked.priors}
    for seed in asked.seeds:
        folder = asked.pictures / f"seed-{seed}"
        truth = write_folder(asked.file, folder, seed)
        for prior in asked.priors:
            config = settings_of(folder, seed, prior, asked.settings)
            run = train_here(asked.runs, config, f"{prior}, seed {seed}")
            found[prior][seed] = scores_of(run, truth)
            print(prior, seed, {name: round(value, 1) for name, value in found[prior][seed].items()}, flush=True)
    print(report(found))


def report(found: dict[str, dict[int, dict[str, float]]]) -> str:
    """Means with standard deviations; then the paired differences from the first prior with confidence intervals."""
    rows, reference = [], next(iter(found))
    for prior, by_seed in found.items():
        columns = {name: [scores[name] for scores in by_seed.values()] for name in SCORES}
        spread = {n: f"{np.mean(v):.1f} ± {np.std(v, ddof=min(1, len(v) - 1)):.1f}" for n, v in columns.items()}
        rows.append({"prior": prior, "n": len(by_seed)} | spread)
    for prior in list(found)[1:]:
        gains = {
            name: differences.format_difference(
                differences.compare_samples(
                    *({s: v[name] / 100 for s, v in found[p].items()} for p in (prior, reference))
                )
            )
            for name in SCORES
        }
        rows.append({"prior": f"{prior} minus {reference}", "n": len(found[prior])} | gains)
    sizes = ", ".join(map(str, class_sizes()))
    return section("Own pictures with a long tail", f"Pictures of the classes: {sizes}.", rows)


if __name__ == "__main__":
    main()
