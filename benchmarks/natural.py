"""python -m benchmarks.natural FILE.npz: natural pictures on a laptop, by stored features: duration and accuracy.

By default: one split per seed, seen classes drawn again, half of their pictures labeled; LPS at its last epoch, and for
comparison k-means and semi-supervised k-means (GCD's) on the same features. --time: from a file to labels of all its
pictures, in an empty cache folder, and again with another seed. FILE.npz is of the data set `arrays`, with truth.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import section
from lps.data import features
from lps.data.training_data import prepare
from lps.methods.parts.clustering import kmeans, semi_supervised_kmeans, unit_rows
from lps.scores.protocols import open_world
from lps.settings.config import Config, configure, parse_settings
from lps.store.events import read_events
from lps.store.run_folders import create_run
from lps.training.loop import train

_SHOWN = {"all": "accuracy/all", "seen": "accuracy/seen", "novel": "accuracy/novel"}


def drawn(file: Path, classes: int, each: int, seed: int, folder: Path) -> Path:
    """A file with `classes` of the classes of `file`, drawn by `seed`, and at most `each` pictures of every one."""
    with np.load(file) as arrays:
        x, y = (np.concatenate([arrays[key] for key in arrays if key.startswith(name)]) for name in ("x_", "y_"))
    draws = np.random.default_rng([seed, 98])
    kept = np.sort(draws.choice(np.unique(y[y >= 0]), classes, replace=False))
    rows = np.concatenate([draws.permutation(np.flatnonzero(y == one))[:each] for one in kept])
    path = folder / f"{classes}-classes-{seed}.npz"
    np.savez(path, x_train=x[rows], y_train=np.searchsorted(kept, y[rows]))
    return path


def scores(config: Config, runs: Path) -> dict[str, dict[str, float]]:
    """Per cent by way and measure, on the unlabeled pictures of the split that `config` asks for."""
    run = create_run(runs, config)
    if train(run) != 0:
        raise SystemExit(f"{run.folder} failed")
    found = {"LPS": _last_eval(run)} | clusterings(config)
    return {way: {name: 100 * values[key] for name, key in _SHOWN.items()} for way, values in found.items()}


def clusterings(config: Config) -> dict[str, dict[str, float]]:
    """Fractions by way and measure, on the unlabeled pictures: two ways to cluster the stored features."""
    material = prepare(config)
    points, split = unit_rows(features.plain_features(config)), material.split
    free, pinned = points[split.unlabeled], points[split.labeled]
    pins, total = torch.from_numpy(material.truth[split.labeled]), split.classes.total
    ways = {
        "k-means": kmeans(free, total, config.seed),
        "semi-supervised k-means": semi_supervised_kmeans(
            torch.from_numpy(free), torch.from_numpy(pinned), pins, total, config.seed
        ).ids.numpy(),
    }
    truth = split.judged(material.truth)
    return {way: open_world(ids, truth, split.classes, seen_is_aligned=False) for way, ids in ways.items()}


def _last_eval(run) -> dict[str, float]:
    events, _ = read_events(run.events, 0)
    return [event["values"] for event in events if event["kind"] == "eval"][-1]


def table(found: list[dict[str, dict[str, float]]]) -> list[dict]:
    """A row a way: mean ± standard deviation over the seeds."""

    def told(values: list[float]) -> str:
        return f"{np.mean(values):.1f} ± {np.std(values, ddof=min(1, len(values) - 1)):.1f}"

    ways = found[0]
    return [{"": way} | {name: told([one[way][name] for one in found]) for name in _SHOWN} for way in ways]


def durations(file: Path, seen: int, settings: list[str]) -> list[dict]:
    """A row for the first run and one for the next: seconds by the clock, processor seconds, accuracy."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        own = os.environ | {"LPS_CACHE": f"{folder}/cache", "LPS_RUNS": f"{folder}/runs"}
        asked = ["dataset.path=" + str(file), "features=stored", f"split.num_seen={seen}", *settings]
        for seed, title in enumerate(("first, makes the store", "another seed")):
            began, before = time.perf_counter(), _processor_s()
            arguments = ["train", "--dataset", "arrays", "--seed", str(seed), *(f"--set={one}" for one in asked)]
            run = _command(arguments, own).splitlines()[-1]
            _command(["export", Path(run).name, "--to", f"{folder}/labels-{seed}.csv"], own)
            seconds, used = time.perf_counter() - began, _processor_s() - before
            rows.append({"run": title, "seconds": round(seconds, 1), "processor s": round(used, 1)})
    return rows


def _command(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, "-m", "lps", *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return done.stdout.strip()


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.natural", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--time", action="store_true", help="how long it takes instead of how good it is")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--seen", type=int, default=5, help="classes with labels")
    parser.add_argument("--classes", type=int, help="so many of the file's classes, drawn by the seed; else all")
    parser.add_argument("--each", type=int, default=150, help="pictures of each of them, with --classes")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any setting of LPS")
    asked = parser.parse_args()
    if asked.time:
        print(section("Time", "", durations(asked.file.absolute(), asked.seen, asked.set)))
        return
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in asked.seeds:
            file = asked.file
            if asked.classes:
                file = drawn(file, asked.classes, asked.each, seed, Path(folder))
            usual = {"dataset": "arrays", "dataset.path": str(file), "features": "stored", "seed": seed}
            usual |= {"split.seed": seed, "split.num_seen": asked.seen, "split.seen_classes": "random", "threads": 1}
            found.append(scores(configure(usual | parse_settings(asked.set, "lps")), Path(folder)))
            print(seed, found[-1], file=sys.stderr, flush=True)
    print(section("Accuracy", "Per cent of the unlabeled pictures.", table(found)))


if __name__ == "__main__":
    main()
