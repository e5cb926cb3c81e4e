"""Make up runs in the files that a trainer would write: many small ones, and one of a large data set."""

import json
import time
from pathlib import Path

import numpy as np

from lps.data.split import open_world_split
from lps.datasets import digits as digits_set
from lps.files.atomic import write_json
from lps.settings.config import Config, configure
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.store.snapshots import Snapshot, write_snapshot, write_split

EPOCH_S = 30.0  # seconds that an epoch seems to have taken
STEPS = 31  # of an epoch
WIDTH = 32  # of the features
SIZE = 8  # pixels of a side


def make_many(root: Path, count: int, epochs: int = 20, is_stored: bool = False) -> list[Run]:
    """`count` finished runs of ten digits, of four margins and as many seeds as that takes.

    is_stored: with what they predict in the last epoch, which pages score and draw.
    """
    runs = []
    digits = digits_set.load() if is_stored else None
    for number in range(count):
        config = configure({"seed": number // 4, "epochs": epochs, "margin_scale": (0.0, 1.0, 5.0, 10.0)[number % 4]})
        run = create_run(root, config, f"margin {number % 4}, seed {number // 4}")
        if digits:
            _store(run, digits.labels, digits.class_names, [epochs])
        runs.append(_finish(run, config, classes=10, seen=5))
    return runs


def make_large(root: Path, pictures: Path, images: int = 50_000, classes: int = 100, epochs: int = 200) -> Run:
    """A finished run over `classes` classes of `images` small pictures, all of which keep their features."""
    draw = np.random.default_rng(0)
    labels = np.arange(images + images // 2) % classes  # half of the seen ones are labeled: `images` are left
    names = np.array([f"class {number}" for number in range(classes)])
    noise = draw.integers(0, 256, (len(labels), SIZE, SIZE), np.uint8)
    np.savez(pictures, x_train=noise, y_train=labels, class_names=names)
    settings = {"dataset": "arrays", "dataset.path": str(pictures), "epochs": epochs, "split.num_seen": classes // 2}
    config = configure(settings | {"split.labeled_ratio": 2 / 3})
    run = create_run(root, config, f"{classes} classes, {epochs} epochs")
    _store(run, labels, tuple(names), [1, epochs // 2, epochs])
    return _finish(run, config, classes, classes // 2)


def _store(run: Run, labels: np.ndarray, names: tuple[str, ...], epochs: list[int]) -> None:
    """The split of images with these labels, and what is predicted of the unlabeled ones in these epochs."""
    split = open_world_split(labels, names, run.config())
    draw, truth = np.random.default_rng(run.config().seed), split.targets(labels)
    write_split(run.folder, split, truth)
    run.snapshots.mkdir()
    centres = draw.normal(size=(len(names), WIDTH))
    for epoch in epochs:
        write_snapshot(run.snapshots, epoch, _snapshot(draw, truth[split.unlabeled], split.unlabeled, centres, epoch))


def _snapshot(draw, truth: np.ndarray, ids: np.ndarray, centres: np.ndarray, epoch: int) -> Snapshot:
    """Nine of ten predictions are right; the clusters part with the epochs."""
    predicted = np.where(draw.random(len(truth)) < 0.9, truth, draw.integers(0, len(centres), len(truth)))
    features = centres[predicted] * (1 + epoch / 50) + draw.normal(size=(len(truth), WIDTH))
    confidence = draw.uniform(0.3, 1, len(truth)).astype(np.float16)
    return Snapshot(predicted.astype(np.int16), confidence, features.astype(np.float16), ids.astype(np.int32))


def _finish(run: Run, config: Config, classes: int, seen: int) -> Run:
    """Events of all epochs, and the records of a run that has ended well."""
    began = time.time() - EPOCH_S * config.epochs
    draw = np.random.default_rng(config.seed)
    about = {"classes/seen": seen, "classes/total": classes}
    lines = [json.dumps({"kind": "start", "step": 0, "epoch": 0, "time": began, "values": about})]
    for epoch in range(1, config.epochs + 1):
        for kind, values in (("train", _training(draw, epoch, classes)), ("eval", _scores(draw, epoch, classes, seen))):
            event = {"kind": kind, "step": epoch * STEPS, "epoch": epoch, "time": began + EPOCH_S * epoch}
            lines.append(json.dumps(event | {"values": values}))
    lines.append(json.dumps({"kind": "finish", "step": 0, "epoch": config.epochs, "time": time.time(), "values": {}}))
    run.events.write_text("\n".join(lines) + "\n")
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": began})
    write_json(run.folder / "process.json", {"attempt": 1, "slot": "cpu-0", "started": began})
    write_json(
        run.folder / "exit.json", {"attempt": 1, "state": "finished", "reason": "", "kind": "", "time": time.time()}
    )
    return run


def _training(draw, epoch: int, classes: int) -> dict:
    losses = {"loss/adaptive_margin": 0.9 / epoch, "loss/entropy": -2.3, "loss/unsupervised_contrastive": 3.0}
    tilted = draw.dirichlet(np.full(classes, 5.0 * epoch))
    kl = float(-np.mean(np.log(tilted * classes)))
    rates = {"pseudo_label/rate/seen": 0.9, "pseudo_label/rate/novel": 1 - 1 / (1 + epoch)}
    return losses | rates | {
        "loss/total": sum(losses.values()), "kl": kl, "pi_hat": tilted.tolist(), "margin": (kl * tilted).tolist(),
        "lr": 0.05, "time/step_s": 0.05, "throughput/images_per_s": 2700.0, "threshold/novel": 0.6,
    }  # fmt: skip


def _scores(draw, epoch: int, classes: int, seen: int) -> dict:
    """Seen classes are learned at once, novel ones later."""
    late = 1 / (1 + np.exp(-(epoch - 6) / 2))
    accuracy = np.where(np.arange(classes) < seen, 0.95, 0.3 + 0.6 * late) + draw.normal(0, 0.01, classes)
    known, novel = float(accuracy[:seen].mean()), float(accuracy[seen:].mean())
    return {
        "accuracy/seen": known, "accuracy/novel": novel, "accuracy/all": float(accuracy.mean()),
        "accuracy/gap": known - novel, "nmi/novel": novel**2, "nmi/all": float(accuracy.mean()) ** 2,
        "class/accuracy": accuracy.tolist(), "class/count_predicted": [100] * classes,
    }  # fmt: skip
