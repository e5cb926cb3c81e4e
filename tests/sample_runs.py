"""Run folders for the tests of the pages: digits with LPS, made-up curves, real image ids, every state that exists.

`python -m tests.sample_runs FOLDER` fills FOLDER with one run per state and keeps the running ones alive until Ctrl-C.
"""

import json
import os
import pickle
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lps.data import sources
from lps.data.confirmed_labels import add_confirmed
from lps.data.split import open_world_split
from lps.files.atomic import write_json, write_whole
from lps.files.locks import boot_id, try_lock
from lps.settings.config import configure
from lps.store import inherited_files
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.store.snapshots import Snapshot, write_snapshot, write_split

EPOCHS = 20
STEPS = 31  # per epoch
_PACKED: dict[tuple, tuple[np.ndarray, bytes]] = {}  # predictions and the file of every snapshot that was made
_PACKED_SPLITS: dict[bytes, bytes] = {}  # the file of every split that was written
ALIVE = ("starting", "pretraining", "running", "stopping")  # of `make_one_of_each`


def make_run(
    root: Path, state: str = "finished", *, epochs: int = EPOCHS, written: int | None = None, **options
) -> Run:
    """Make a run in `state`, as far as files can express it: an active run also needs its lock held (`held`).

    written: number of epochs with records (default: as many as fit the state). options: name, seed, settings (by key),
    pretrain (number of SimCLR events), log (console text), lucky (False: two novel classes never separate), run (an
    existing folder).
    """
    usual = {"finished": epochs, "queued": 0, "starting": 0}
    writer = RunWriter(root, epochs=epochs, **options)
    writer.begin(state, usual.get(state, 8) if written is None else written)
    writer.end(state)
    return writer.run


def events_of(run: Run) -> list[dict]:
    return [json.loads(line) for line in run.events.read_text().splitlines()]


def rewritten(run: Run, change: Callable[[str, dict], dict]) -> Run:
    """The run with `change(kind, values)` as the values of each of its events."""
    events = [event | {"values": change(event["kind"], event["values"])} for event in events_of(run)]
    run.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    return run


def without(run: Run, *starts: str) -> Run:
    """The run as a method leaves it that does not record the measurements whose names start so."""
    return rewritten(run, lambda _, values: {k: v for k, v in values.items() if not k.startswith(starts)})


@contextmanager
def held(*runs: Run):
    """Keep these runs active inside the `with`: hold their locks as a runner would."""
    descriptors = [try_lock(run.lock) for run in runs]
    assert None not in descriptors, "a lock of a sample run is held by somebody else"
    try:
        yield runs
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def make_unreadable(root: Path) -> Run:
    """Make a run whose config.json is cut off in the middle."""
    run = make_run(root, "queued", name="damaged settings")
    (run.folder / "want.json").unlink()
    (run.folder / "config.json").write_text('{"dataset": "digits", "method"')
    return run


def make_foreign(root: Path) -> Run:
    """Make a folder among the runs that belongs to another program."""
    folder = root / "holiday-pictures"
    folder.mkdir(parents=True)
    (folder / "readme.txt").write_text("not a run\n")
    return Run(folder)


def make_damaged(root: Path) -> Run:
    """Make a finished run with damaged lines and a torn last one, a broken snapshot and markup in its texts."""
    log = "# not a heading\n<script>alert(1)</script>\n"
    run = make_run(root, "finished", name="**bold** <b>tag</b> $x$ :fire:", log=log)
    lines = run.events.read_bytes().splitlines(keepends=True)
    lines[25:25] = [b"\x00\xff not json\n", b'{"kind": "eval", "step": "x"}\n', b"[1, 2]\n"]
    run.events.write_bytes(b"".join(lines) + b'{"kind":"eval","step":99,"ep')
    (run.snapshots / "epoch-0007.npz").write_bytes(b"PK\x03\x04 broken")
    return run


def make_one_of_each(root: Path) -> dict[str, Run]:
    """Make one run per state, by its name, and more finished ones. Active ones (`ALIVE`) must be held (`held`)."""
    return {
        "finished": make_run(root, "finished", name="LPS, defaults"),
        "no margin": make_run(root, "finished", name="without the margin", settings={"use_margin": False}, lucky=False),
        "seed 1": make_run(root, "finished", seed=1),
        "stopped": make_run(root, "stopped"),
        "failed": make_run(root, "failed"),
        "crashed": make_run(root, "crashed"),
        "queued": make_run(root, "queued"),
        "starting": make_run(root, "starting"),
        "stopping": make_run(root, "stopping"),
        "pretraining": make_run(root, "running", written=0, pretrain=9),
        "running": make_run(root, "running", name="in the middle"),
        "damaged": make_damaged(root),
        "unreadable": make_unreadable(root),
        "foreign": make_foreign(root),
    }


class RunWriter:
    """Write one run folder as a trainer and a runner would, one epoch at a time."""

    def __init__(
        self, root: Path, *, epochs=EPOCHS, name="", seed=0, settings=None, pretrain=20, log="", lucky=True, run=None
    ):
        self.config = run.config() if run else configure({"seed": seed, "epochs": epochs} | (settings or {}))
        self.run = run or create_run(Path(root), self.config, name)
        self.images = sources.load("digits")
        self.split = open_world_split(self.images.labels, self.images.class_names, self.config)
        self.targets = self.split.targets(self.images.labels)
        if confirmed := inherited_files.read_confirmed(self.run):
            self.split, self.targets = add_confirmed(self.split, self.images.labels, self.images.num_classes, confirmed)
        self.random = np.random.default_rng(seed)
        self.epochs, self.pretrain, self.log, self.lucky = epochs, pretrain, log, lucky
        self.time = time.time() - 600
        self.step = 0

    def begin(self, state: str, written: int) -> None:
        """Write all that the trainer has written once `written` epochs are over."""
        write_json(self.run.folder / "want.json", {"want": "stop" if state == "stopping" else "run", "attempt": 1})
        if state in ("queued", "starting"):
            return
        if state in ("running", "stopping"):
            self.time = time.time() - 1.6 * (self.pretrain + written)
        process = {"attempt": 1, "host": "sample", "boot_id": boot_id(), "runner_pid": 2**22, "trainer_pid": 2**22 + 1}
        write_json(self.run.folder / "process.json", process | {"slot": "cpu", "started": self.time})
        self._write_split()
        self.run.log.write_text(self.log or "digits, LPS, 2 threads\n")
        for epoch in range(1, self.pretrain + 1):
            self._write_pretrain(epoch)
        if self.pretrain:
            self._progress("pretrain", self.pretrain, 20)
        if self.pretrain == 20:
            self.write_start()
        for epoch in range(1, written + 1):
            self._write_epoch(epoch)
        if written:
            self._progress("train", written, self.epochs)

    def end(self, state: str) -> None:
        """Write the last records of a run that is over."""
        endings = {
            "finished": {"reason": "", "kind": "", "code": 0},
            "stopped": {"reason": "stopped by request after epoch 8", "kind": "", "code": 0},
            "failed": {
                "reason": "the loss is not finite at epoch 8, step 240; lower lr (0.05) or raise temperature",
                "kind": "diverged",
                "code": 1,
            },
        }
        if state in endings:
            kind = {"finished": "finish", "stopped": "stop", "failed": "fail"}[state]
            more = {"failure": "diverged", "reason": endings[state]["reason"]} if state == "failed" else {}
            self._event(kind, self.step // STEPS, {}, **more)
            record = {"attempt": 1, "state": state, "signal": None, "forced": False, "time": self.time}
            write_json(self.run.folder / "exit.json", record | endings[state])
        if state == "failed":
            with self.run.log.open("a") as log:
                log.write("Traceback (most recent call last):\n  ...\nlps.train.Diverged: the loss is not finite\n")

    def write_start(self) -> None:
        labeled, unlabeled = len(self.split.labeled), len(self.split.unlabeled)
        baseline = {"seen": 0.93, "novel": 0.9, "all": 0.915, "nmi": 0.85}
        values = {f"baseline/kmeans/{name}": value for name, value in baseline.items()} | {
            "baseline/knn/accuracy": 0.95
        }
        counts = {"classes/seen": self.split.classes.seen, "classes/total": self.split.classes.total}
        counts |= {"images/labeled": labeled, "images/unlabeled": unlabeled, "parameters": 160_938}
        self._event("start", 0, values | counts)

    def _write_pretrain(self, epoch: int) -> None:
        progress = epoch / 20
        values = {"pretrain/loss": 4.8 - 1.9 * (1 - np.exp(-3 * progress)), "pretrain/lr": 5e-3 * (1 - progress)}
        if epoch % 5 == 0:
            values["pretrain/knn_accuracy"] = 0.8 + 0.15 * progress
            values["pretrain/kmeans_accuracy"] = 0.6 + 0.31 * progress
        self._event("pretrain", epoch, values)

    def _write_split(self) -> None:
        """Write the split. A process packs the same split only once."""
        path, key = self.run.folder / "split.npz", pickle.dumps((self.split, self.targets))
        if path.exists():
            return
        if key in _PACKED_SPLITS:
            write_whole(path, _PACKED_SPLITS[key])
        else:
            write_split(self.run.folder, self.split, self.targets)
            _PACKED_SPLITS[key] = path.read_bytes()

    def write_epoch(self, epoch: int) -> None:
        """Write all that a trainer writes in one epoch."""
        self._write_epoch(epoch)
        self._progress("train", epoch, self.epochs)

    def _write_epoch(self, epoch: int) -> None:
        """Write the snapshot and the records of one epoch, then one line of the log."""
        self.step = epoch * STEPS
        accuracy = self._class_accuracy(epoch)
        predicted = self._write_snapshot(epoch, accuracy)
        self._event("train", epoch, self._training_values(epoch))
        self._event("eval", epoch, self._evaluation_values(accuracy, predicted))
        with self.run.log.open("a") as log:
            log.write(f"epoch {epoch}/{self.epochs}\n")

    def _class_accuracy(self, epoch: int) -> np.ndarray:
        """Return the accuracy per class: seen classes are learned at once, novel ones later and one by one."""
        seen, total = self.split.classes.seen, self.split.classes.total
        novel = np.arange(total - seen)
        early = 0.97 + 0.025 * (1 - np.exp(-epoch / 4)) - 0.01 * (np.arange(seen) % 3)
        late = 0.35 + 0.6 / (1 + np.exp(-(epoch - 4 - novel) / 1.5))
        if not self.lucky:
            late[-1] = 0.03
        noise = self.random.normal(0, 0.008, total)
        return np.clip(np.concatenate([early, late]) + noise, 0, 1)

    def _class_distribution(self, epoch: int) -> np.ndarray:
        """Return pi_hat: too large on the seen classes at first, then towards the uniform prior."""
        seen, total = self.split.classes.seen, self.split.classes.total
        tilt = 1.4 * np.exp(-epoch / 5) + (0.0 if self.lucky else 0.3)
        wobble = 0.15 * np.sin(3.0 * np.arange(total)) * np.exp(-epoch / 9)
        weights = np.exp(np.where(np.arange(total) < seen, tilt, 0) + wobble)
        return weights / weights.sum()

    def _training_values(self, epoch: int) -> dict:
        total = self.split.classes.total
        estimated = self._class_distribution(epoch)
        kl = float(np.mean(np.log(1 / total) - np.log(estimated)))
        progress = epoch / self.epochs
        losses = {"adaptive_margin": 0.9 * np.exp(-epoch / 5), "pseudo_label_contrastive": 1.9 * np.exp(-epoch / 12)}
        losses |= {"unsupervised_contrastive": 3.1 - 0.4 * progress}
        losses |= {"entropy": -np.log(total) + 0.3 * np.exp(-epoch / 4)}
        values = {f"loss/{name}": float(value) for name, value in losses.items()}
        values["loss/total"] = sum(values.values())
        values |= {"kl": kl, "kl/reverse": float(np.sum(estimated * np.log(estimated * total)))}
        values |= {"pi_hat": estimated.tolist(), "margin": (kl * estimated / estimated.max() * 10).tolist()}
        values |= {"pseudo_label/rate/seen": 0.55 + 0.4 * progress, "pseudo_label/rate/novel": 0.2 + 0.7 * progress}
        values |= {"pseudo_label/confidence/seen": 0.975, "pseudo_label/confidence/novel": 0.6 + 0.3 * progress}
        values |= {"threshold/seen": 0.95, "threshold/novel": 0.4 + 0.4 * progress}
        values["lr"] = 0.025 * (1 + np.cos(np.pi * progress))
        cost = {"time/step_s": 0.047, "throughput/images_per_s": 2700.0, "memory/device_gb": 0.0, "memory/host_gb": 0.7}
        return values | cost | {"eta_s": 1.6 * (self.epochs - epoch)}

    def _evaluation_values(self, accuracy: np.ndarray, predicted: np.ndarray) -> dict:
        seen, total = self.split.classes.seen, self.split.classes.total
        truth = self.targets[self.split.unlabeled]
        is_seen = truth < seen
        right = predicted == truth
        measured = np.array([right[truth == c].mean() for c in range(total)])
        groups = {"seen": right[is_seen], "novel": right[~is_seen], "all": right}
        values = {f"accuracy/{name}": float(part.mean()) for name, part in groups.items()}
        values |= {"accuracy/gap": values["accuracy/seen"] - values["accuracy/novel"], "accuracy/conflict": 0.0}
        values |= {"nmi/novel": float(accuracy[seen:].mean() ** 2), "nmi/all": float(accuracy.mean() ** 2)}
        values |= {"ari/novel": float(accuracy[seen:].mean() ** 3), "time/eval_s": 0.2}
        counts = np.bincount(predicted, minlength=total)
        return values | {"class/accuracy": measured.tolist(), "class/count_predicted": counts.tolist()}

    def _write_snapshot(self, epoch: int, accuracy: np.ndarray) -> np.ndarray:
        """Write the snapshot of an epoch; return its predictions. A process packs the same snapshot only once."""
        self.run.snapshots.mkdir(exist_ok=True)
        path = self.run.snapshots / f"epoch-{epoch:04d}.npz"
        arrays = (accuracy, self.targets, self.split.unlabeled)
        key = (epoch, self.config.seed, self.split.classes, *(array.tobytes() for array in arrays))
        if key in _PACKED:
            predicted, packed = _PACKED[key]
            write_whole(path, packed)
            return predicted
        snapshot = self._snapshot(epoch, accuracy)
        write_snapshot(self.run.snapshots, epoch, snapshot)
        _PACKED[key] = snapshot.predicted, path.read_bytes()
        return snapshot.predicted

    def _snapshot(self, epoch: int, accuracy: np.ndarray) -> Snapshot:
        """Make predictions of about this accuracy per class (errors fall on seen classes) and separate features."""
        unlabeled, seen = self.split.unlabeled, self.split.classes.seen
        truth = self.targets[unlabeled]
        draw = np.random.default_rng([5, self.config.seed])
        wrong = draw.random(len(truth)) > accuracy[truth]
        predicted = np.where(wrong, draw.integers(0, seen, len(truth)), truth).astype(np.int16)
        confidence = np.clip(np.where(wrong, 0.45, 0.9) + draw.normal(0, 0.06, len(truth)), 0.1, 1).astype(np.float16)
        directions = np.random.default_rng(7).normal(size=(self.split.classes.total, 64))
        sample = np.sort(draw.permutation(len(unlabeled))[:1000])
        spread = 1.4 - 0.9 * min(1, epoch / 12)
        features = directions[predicted[sample]] + draw.normal(0, spread, (len(sample), 64)) * 1.5
        return Snapshot(predicted, confidence, features.astype(np.float16), unlabeled[sample].astype(np.int32))

    def _event(self, kind: str, epoch: int, values: dict, **more) -> None:
        self.time += 0.8 if kind in ("train", "eval") else 1.6
        event = {"kind": kind, "step": self.step, "epoch": epoch, "time": round(self.time, 3), "values": values} | more
        with self.run.events.open("a") as file:
            file.write(json.dumps(event, allow_nan=False, default=float) + "\n")

    def _progress(self, phase: str, epoch: int, epochs: int) -> None:
        steps = {"step": epoch * STEPS, "steps": epochs * STEPS, "eta_s": 1.6 * (epochs - epoch), "time": self.time}
        write_json(self.run.folder / "progress.json", {"phase": phase, "epoch": epoch, "epochs": epochs} | steps)


def main(folder: str) -> None:
    """Make one run per state; the running one grows by one epoch every two seconds."""
    root = Path(folder)
    runs = make_one_of_each(root)
    growing = RunWriter(root, epochs=200, name="growing")
    growing.begin("running", 1)
    with held(*(runs[name] for name in ALIVE), growing.run):
        for epoch in range(2, 201):
            time.sleep(2)
            growing.write_epoch(epoch)


if __name__ == "__main__":
    main(sys.argv[1])
