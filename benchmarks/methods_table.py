"""python -m benchmarks.methods_table FILE.npz: compare methods, and their costs, on the stored features of a data set.

FILE.npz is of the data set `arrays`, with truth. Every method trains with its own defaults on one split, in which the
first --seen classes have half of their pictures labeled. LPS is the reference: differences are paired by seed. k-means
and semi-supervised k-means (GCD's) cluster the stored features and train nothing. One seed of every method runs before
the next seed. Existing runs and clusterings are reused. --tables: train nothing, write the tables of the finished runs.
"""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.in_process import finished_runs, key_of, train_here
from benchmarks.natural import clusterings
from benchmarks.report import section
from lps.analysis import differences
from lps.files.atomic import write_json
from lps.settings import catalog
from lps.settings.config import Config, configure, parse_settings
from lps.settings.recipes import LOWER_THRESHOLDS
from lps.store.events import read_history
from lps.store.runs import Run

FIRST: dict[str, dict[str, object]] = {  # trained before the other methods
    "LPS": {"method": "lps"},
    "LPS, no margin": {"method": "lps", "use_margin": False},
    "LPS, lower thresholds": {"method": "lps"} | LOWER_THRESHOLDS,
    "ORCA": {"method": "orca"},
    "SimGCD": {"method": "simgcd"},
    "BaCon": {"method": "bacon"},
}
SCORES = {"seen": "accuracy/seen", "novel": "accuracy/novel", "all": "accuracy/all"}
COST = "processor.json"  # in the folder of a run: what its training took of a processor

Scores = dict[str, float]  # fractions by the name of a measurement; "minutes" of a processor
Found = dict[str, dict[int, Scores]]  # by title of a method, seed


def others() -> dict[str, dict[str, object]]:
    """The other methods that train."""
    known = {str(settings["method"]) for settings in FIRST.values()} | {"simclr"}  # whose k-means is a row of its own
    return {catalog.method_info(name).title: {"method": name} for name in catalog.method_names() if name not in known}


def config_of(file: Path, seen: int, epochs: int, seed: int, more: Mapping[str, object]) -> Config:
    """What a run of the table asks for; seeds share the split."""
    settings = {"dataset": "arrays", "dataset.path": str(file), "features": "stored", "split.num_seen": seen}
    settings |= {"split.labeled_ratio": 0.5, "epochs": epochs, "seed": seed, "threads": 1}
    return configure(settings | more)


def planned(methods: Mapping[str, dict], seeds: Sequence[int]) -> Iterator[tuple[str, int, dict]]:
    """Title, seed and settings of every run: all seeds of `FIRST`, then those of the others."""
    for group in (FIRST, others()):
        for seed in seeds:
            yield from ((title, seed, settings) for title, settings in group.items() if title in methods)


def timed(runs: Path, config: Config, name: str) -> Run:
    """Train a run here, and keep beside it what it took of a processor."""
    began = time.process_time()
    run = train_here(runs, config, name)
    write_json(run.folder / COST, {"seconds": time.process_time() - began})
    return run


def clustered(runs: Path, config: Config) -> dict[str, Scores]:
    """The scores of both clusterings, and the minutes that they took together; stored beside the runs."""
    path = runs / f"clusterings-{hashlib.sha256(key_of(config).encode()).hexdigest()[:16]}.json"
    if not path.exists():
        began = time.process_time()
        found = clusterings(config)
        minutes = {"minutes": (time.process_time() - began) / 60}
        write_json(path, {way: {key: one[key] for key in SCORES.values()} | minutes for way, one in found.items()})
    return json.loads(path.read_text())


def scores_of(run: Run) -> Scores:
    """The scores of the last epoch, and the minutes of a processor if they are known."""
    last = [event["values"] for event in read_history(run.events) if event["kind"] == "eval"][-1]
    cost = run.folder / COST
    seconds = json.loads(cost.read_text())["seconds"] if cost.exists() else np.nan
    return {name: last[name] for name in SCORES.values()} | {"minutes": seconds / 60}


def rows(found: Found, matched: set[str]) -> list[dict]:
    """A row a method, LPS first, then by accuracy over all: means, differences from LPS (Holm), minutes."""
    gains = {
        title: differences.compare_samples(
            *({s: v["accuracy/all"] for s, v in found[one].items()} for one in (title, "LPS"))
        )
        for title in found
        if title != "LPS"
    }
    gains = differences.correct_for_multiplicity(gains)
    order = sorted(found, key=lambda title: (title != "LPS", -_mean(found[title], "accuracy/all")))
    return [_row(title, found[title], gains.get(title), title in matched) for title in order]


def _row(title: str, by_seed: dict[int, Scores], gain: differences.Difference | None, is_matched: bool) -> dict:
    row: dict[str, object] = {"method": title}
    for name, key in SCORES.items():
        values = [100 * scores[key] for scores in by_seed.values()]
        star = r"\*" if is_matched and name == "seen" else ""
        row[name] = f"{np.mean(values):.1f} ± {np.std(values, ddof=min(1, len(values) - 1)):.1f}{star}"
    text = differences.format_difference(gain).replace("[", r"\[").replace("]", r"\]") if gain else ""
    row["from LPS"] = f"**{text}**" if gain and gain.has_interval and gain.is_distinguishable else text
    return row | {"n": len(by_seed), "minutes": f"{_mean(by_seed, 'minutes'):.1f}"}


def _mean(by_seed: dict[int, Scores], name: str) -> float:
    return float(np.mean([scores[name] for scores in by_seed.values()]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods_table", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seen", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", metavar="TITLE", choices=[*FIRST, *others()], help="without it all")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE", help="for all")
    parser.add_argument("--tables", action="store_true", help="train nothing")
    parser.add_argument("--runs", type=Path, default=Path(os.environ.get("LPS_RUNS") or "runs"))
    asked = parser.parse_args()
    file, found = asked.file.absolute(), {}
    known = finished_runs(asked.runs)
    for title, seed, settings in planned(asked.methods or FIRST | others(), asked.seeds):
        more = parse_settings(asked.settings, str(settings["method"])) | settings
        config = config_of(file, asked.seen, asked.epochs, seed, more)
        if key_of(config) not in known and not asked.tables:
            try:
                known[key_of(config)] = run = timed(asked.runs, config, f"{title}, seed {seed}")
            except SystemExit as failure:  # as where a method diverges; the others go on
                print(title, seed, failure, flush=True)
                continue
            print(title, seed, scores_of(run), flush=True)
        if key_of(config) in known:
            found.setdefault(title, {})[seed] = scores_of(known[key_of(config)])
    methods = FIRST | others()
    matched = {title for title in found if not catalog.method_info(str(methods[title]["method"])).seen_is_aligned}
    for seed in asked.seeds:
        plain = config_of(file, asked.seen, asked.epochs, seed, parse_settings(asked.settings, "lps"))
        for title, values in clustered(asked.runs, plain).items():
            matched.add(title)
            found.setdefault(title, {})[seed] = values
    print(
        section(file.stem, "Per cent of the unlabeled pictures; minutes of a processor per run.", rows(found, matched))
    )


if __name__ == "__main__":
    main()
