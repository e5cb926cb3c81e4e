"""python -m benchmarks.class_numbers: estimate or vary the number of classes on ten classes, also of unequal size.

--count: the result of `count-classes`, where ten is right. --train: results of methods that look for 0.8, 1, 1.2, 1.5
and 2 times the true number of classes, with each prior; existing runs are reused. The data are digits, or with
--pictures the stored features of an .npz file of the data set `arrays` with ten classes. Every seed draws the seen
classes, the order of the sizes, the labels and the start. Per cent of the unlabeled images at the last epoch; "named":
each cluster counts as its most frequent class, which is the result of naming and merging clusters.
"""

import argparse
import itertools
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks.in_process import finished_runs, key_of, train_here
from benchmarks.priors import last_scores
from benchmarks.report import section
from lps.analysis import differences
from lps.settings.config import Config, configure
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, stored_epochs
from lps.studies.class_search import search_count

CLASSES, SEEN = 10, 5
FACTORS = (1.0, 0.8, 1.2, 1.5, 2.0)
SCORES = ("all", "seen", "novel", "balanced", "named")


def config_of(
    imbalance: float, seed: int, total: int, prior: str = "uniform", method: str = "lps", pictures: Path | None = None
) -> Config:
    """A run that looks for `total` classes, on digits or on the stored features of `pictures`."""
    data = {"dataset": "digits"}
    if pictures:
        data = {"dataset": "arrays", "dataset.path": str(pictures), "features": "stored", "split.num_seen": SEEN}
    return configure(
        {
            **data,
            **{"method": method, "epochs": 20, "prior": prior, "prior.every": 5, "threads": 1, "seed": seed},
            **{"split.seed": seed, "split.seen_classes": "random", "split.rule": "stratified"},
            **{"split.imbalance": imbalance, "split.num_novel": total - SEEN},
        }
    )


def named(run: Run) -> float:
    """Share of the unlabeled images whose class is the most frequent one of their cluster."""
    split, targets = read_split(run.folder)
    truth, predicted = targets[split.unlabeled], read_snapshot(run.snapshots, stored_epochs(run)[-1]).predicted
    return sum(np.bincount(truth[predicted == cluster]).max() for cluster in np.unique(predicted)) / len(truth)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def counted(runs: Path, imbalances: list[float], seeds: list[int]) -> list[dict]:
    """A row for each imbalance."""
    rows = []
    for imbalance in imbalances:
        found = [search_count(config_of(imbalance, seed, SEEN + 1), runs, None, _say) for seed in seeds]
        totals, ranges = [count.total for count in found], [count.plausible for count in found]
        rows.append(
            {
                **{"imbalance": f"{imbalance:g}", "seeds": len(seeds), "chosen": ", ".join(map(str, sorted(totals)))},
                "off by, on average": float(np.mean(np.abs(np.array(totals) - CLASSES))),
                "10 is called plausible": sum(least <= CLASSES <= most for least, most in ranges),
            }
        )
        print(rows[-1], flush=True)
    return rows


def trained(
    runs: Path, imbalances: list[float], seeds: list[int], priors: list[str], methods: list[str], pictures: Path | None
) -> list[dict]:
    """A row for each method, imbalance, prior and number of classes: means, and the gain of "named" over ten."""
    rows, known = [], finished_runs(runs)
    for method, imbalance in itertools.product(methods, imbalances):
        for prior in priors:
            right: dict[int, float] = {}
            for factor in FACTORS:
                total, scores = round(CLASSES * factor), {}
                for seed in seeds:
                    config = config_of(imbalance, seed, total, prior, method, pictures)
                    run = known.get(key_of(config)) or train_here(runs, config, f"{total} classes, {method}, {prior}")
                    last = {name.removeprefix("accuracy/"): value for name, value in last_scores(run).items()}
                    scores[seed] = last | {"named": named(run)}
                own = {seed: values["named"] for seed, values in scores.items()}
                right = right or own
                means = {name: [100 * values[name] for values in scores.values()] for name in SCORES}
                rows.append(
                    {
                        **{"method": method, "imbalance": f"{imbalance:g}", "prior": prior},
                        **{"classes": str(total), "n": len(seeds)},
                        **{n: f"{np.mean(v):.1f} ± {np.std(v, ddof=min(1, len(v) - 1)):.1f}" for n, v in means.items()},
                        "named, above 10": ""
                        if own is right
                        else differences.format_difference(differences.compare_samples(own, right)),
                    }
                )
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.class_numbers", description=__doc__)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--imbalances", type=float, nargs="+", default=[1.0, 10.0, 50.0])
    parser.add_argument("--priors", nargs="+", default=["uniform", "confident"])
    parser.add_argument("--methods", nargs="+", default=["lps"])
    parser.add_argument("--pictures", type=Path, help="an .npz file of ten classes, for --train; without it digits")
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22, 23, 24])
    parser.add_argument("--runs", type=Path, default=Path(os.environ.get("LPS_RUNS") or "runs"))
    asked = parser.parse_args()
    if asked.count:
        print(section("The number of classes", "", counted(asked.runs, asked.imbalances, asked.seeds)))
    if asked.train:
        pictures = asked.pictures and asked.pictures.absolute()
        rows = trained(asked.runs, asked.imbalances, asked.seeds, asked.priors, asked.methods, pictures)
        print(section("More and fewer classes than there are", "", rows))


if __name__ == "__main__":
    main()
