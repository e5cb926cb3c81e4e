"""python -m benchmarks.decisions FILE.npz: how much a user's decisions improve a run, with simulated users.

Rounds of decisions, each followed by a run that continues with them, afresh: start and number of epochs are the
parent's, so that only the labels make the difference. The *guided* user names every cluster after the class of most of
its most confident pictures (one decision each; a second cluster of a class is merged, a mixed one is skipped), then
labels the pictures that come first in the review order (`lps.analysis.review_order`), one decision each; the confident
pictures of named clusters count as labeled. The *random* user labels pictures drawn at random, and these count.
Accuracy is measured on test images, which nobody can label: the same for all rounds and users. One matching of ids and
classes over all of them is used for the classes that were seen and novel before any decision.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.report import section
from lps.analysis import labels, naming, review_order
from lps.inference import continued_training
from lps.scores.estimates import of_pairs
from lps.scores.protocols import score
from lps.settings.config import configure, parse_settings
from lps.store import inherited_files
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, stored_epochs
from lps.training.loop import train

_SHEET = 12  # pictures of a cluster that the person looks at before naming it
_AGREE = 0.5  # share of them that must be of one class
_SHOWN = ("all", "novel", "seen")


class Person:
    """Knows what every picture shows, and says it of one epoch of a run until `left` decisions are used up."""

    def __init__(self, run: Run, decisions: int, seed: int):
        self.run, self.left, self.random = run, decisions, np.random.default_rng([seed, 17])
        self.epoch = labels.read_clusters(run).epoch
        split, targets = read_split(run.folder)
        self.shown = {int(image): split.class_names[targets[image]] for image in split.unlabeled}

    def look(self) -> labels.LabelCheck:
        return labels.read_clusters(self.run, self.epoch)

    def say(self, *steps: dict) -> None:
        naming.record_steps(self.run, self.epoch, list(steps))
        self.left -= 1

    def name_clusters(self) -> None:
        """One look at every cluster that has no name, the largest first."""
        looked = self.look()
        waiting = [cluster for cluster in looked.ids if not looked.name(cluster) and looked.size(cluster)]
        for cluster in sorted(waiting, key=lambda cluster: -looked.size(cluster)):
            rows = np.flatnonzero(looked.cluster == cluster)
            rows = rows[np.argsort(-looked.network.confidence[rows], kind="stable")][:_SHEET]
            name, count = Counter(self.shown[image] for image in looked.split.unlabeled[rows].tolist()).most_common(1)[
                0
            ]
            if count < _AGREE * len(rows):
                self.left -= 1  # looked at, and nothing said
            elif (known := self.cluster_of(name)) is not None:
                self.say({"do": "merge", "id": cluster, "into": known})
            else:
                self.say({"do": "name", "id": cluster, "name": name})
            if not self.left:
                return

    def cluster_of(self, name: str) -> int | None:
        """The cluster of this name; None where there is none yet."""
        looked = self.look()
        return next((cluster for cluster in looked.ids if looked.name(cluster) == name), None)

    def label(self, image: int) -> None:
        """Say what a picture shows."""
        name = self.shown[image]
        cluster = self.cluster_of(name)
        if cluster is not None:
            self.say({"do": "assign", "images": [image], "to": cluster})
            return
        looked = self.look()
        new = looked.decisions.next_id(int(max(looked.ids)) + 1)
        whole = [{"do": "split", "images": [image], "new": new}, {"do": "name", "id": new, "name": name}]
        self.say(*whole, {"do": "assign", "images": [image], "to": new})

    def label_in_order(self) -> None:
        """The pictures that a person's word helps most, asked anew after every one."""
        desk = review_order.read_review_session(self.run, self.epoch)
        while self.left:
            doubts = review_order.assess_doubts(desk, self.look().decisions)
            row = doubts.next(desk.around, desk.split.validation.tolist(), 1)
            if not len(row):
                return
            self.label(int(desk.around.images[row[0]]))

    def label_at_random(self) -> None:
        free = np.setdiff1d(list(self.shown), self.look().split.validation)
        for image in self.random.permutation(free)[: self.left].tolist():
            self.label(image)


def guided(person: Person) -> str:
    person.name_clusters()
    person.label_in_order()
    return "confident"


def at_random(person: Person) -> str:
    person.label_at_random()
    return "looked-at"


WAYS = {"guided": guided, "random": at_random}


def trained(run: Run, root: Run) -> dict[str, float]:
    """Accuracies on test images at the last epoch of a run, after it was trained here. root: the first of its chain."""
    if train(run) != 0:
        raise SystemExit(f"{run.folder} failed")
    split, targets = read_split(root.folder)
    predicted = read_snapshot(run.snapshots, stored_epochs(run)[-1]).test_predicted
    found = score(predicted, targets[split.test], split.classes, "gcd_v2", True)
    return {name: getattr(found, name) for name in _SHOWN}


def next_run(run: Run, way: str, decisions: int, seed: int, confidence: float) -> tuple[Run, dict[str, float]]:
    """The run after a round of decisions, and how many labels that were said are right and wrong."""
    person = Person(run, decisions, seed)
    rule = WAYS[way](person)
    planned = continued_training.plan_continued_training(
        run, person.epoch, rule=rule, threshold=confidence, from_weights=False
    )
    names = [*read_split(run.folder)[0].class_names[: planned.confirmed.given.max() + 1]]
    names[len(names) - len(planned.new_classes) :] = planned.new_classes
    own = [image in person.shown for image in planned.confirmed.images.tolist()]
    said = zip(planned.confirmed.images[own].tolist(), planned.confirmed.given[own].tolist())
    right = [names[given] == person.shown[image] for image, given in said]

    def bring(folder: Path) -> None:
        inherited_files.write_inherited(folder, planned.confirmed, None)

    child = create_run(run.root, planned.config, f"{way}, seed {seed}", copy_files=bring)
    return child, {"labeled": len(right), "right": float(np.mean(right))}


def chain(config, way: str, rounds: int, decisions: int, first: tuple[Run, dict], confidence: float) -> list[dict]:
    """The scores of a seed before any decision, and after every round of them."""
    run, values = first
    found = [values]
    for _ in range(rounds):
        run, about = next_run(run, way, decisions, config.seed, confidence)
        found.append(trained(run, first[0]) | about)
        print(config.seed, way, {key: round(value, 3) for key, value in found[-1].items()}, flush=True)
    return found


def table(found: dict[str, list[list[dict]]], decisions: int) -> list[dict]:
    """A row for every way and round: mean over the seeds, and what it is above no decision and above random ones."""

    def over(way: str, round_: int, name: str) -> np.ndarray:
        return np.array([100 * one[round_][name] for one in found[way]])

    def told(first: np.ndarray, second: np.ndarray) -> str:
        if len(first) < 2:
            return f"{(first - second).mean():+.1f}"
        pair = of_pairs(first, second)
        return f"{pair.mean:+.1f} ({pair.mean - pair.half_width:+.1f} to {pair.mean + pair.half_width:+.1f})"

    rows = []
    for way in WAYS:
        for number in range(len(found[way][0])):
            row = {"person": way, "decisions": number * decisions, "n": len(found[way])}
            row |= {name: f"{over(way, number, name).mean():.1f}" for name in _SHOWN}
            here = over(way, number, _SHOWN[0])
            row["all, above none"] = told(here, over(way, 0, _SHOWN[0])) if number else ""
            row["all, above random"] = (
                told(here, over("random", number, _SHOWN[0])) if number and way == "guided" else ""
            )
            row["new labels"] = f"{np.mean([one[number]['labeled'] for one in found[way]]):.0f}" if number else ""
            row["right %"] = f"{over(way, number, 'right').mean():.0f}" if number else ""
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--decisions", type=int, default=50, help="in a round")
    parser.add_argument("--confidence", type=float, default=continued_training.CONFIDENCE)
    parser.add_argument("--runs", type=Path, help="keep the runs in this folder")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any setting of LPS")
    asked = parser.parse_args()
    own = {"dataset": "arrays", "dataset.path": str(asked.file.absolute()), "features": "stored", "split.num_seen": 5}
    own |= {"split.seen_classes": "random", "split.test_ratio": 0.25, "epochs": 20}
    found: dict[str, list] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for seed in asked.seeds:
            config = configure(own | {"seed": seed, "split.seed": seed} | parse_settings(asked.set, "lps"))
            run = create_run(asked.runs or Path(folder), config, f"no decision, seed {seed}")
            first = run, trained(run, run)
            print(seed, {name: round(value, 3) for name, value in first[1].items()}, flush=True)
            for way in WAYS:
                if run.folder.joinpath(naming.FILE).exists():
                    run.folder.joinpath(naming.FILE).unlink()  # every person begins with a clean page
                found[way].append(chain(config, way, asked.rounds, asked.decisions, first, asked.confidence))
    about = f"{asked.decisions} decisions a round, {len(asked.seeds)} seeds, means of per cent of test images"
    print(section("Decisions", about, table(found, asked.decisions)))


if __name__ == "__main__":
    main()
