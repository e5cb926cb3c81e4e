"""Real trainings of a tenth of the digits, each in a forked process that may be killed at any moment, and their judge.

This process imports torch and trains once; then a training, a fault and the training that follows take under a second.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from lps.errors import UserError
from lps.settings.config import configure
from lps.store import snapshots
from lps.store.events import drop_repeated, read_events
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.training import checkpoints, pretrain
from lps.training import loop as training
from tests.reliability.faults import FaultyDisk

SETTINGS = {
    "dataset.images_per_class": 20,
    "batch_size": 64,
    "epochs": 3,
    "pretrain.epochs": 2,
    "pretrain.batch_size": 100,
    "threads": 1,
    "device": "cpu",
}
TIMES = ("time/", "throughput/", "memory/", "eta_s")
BEGINNING = ("pretrain/",)  # made or found, as the case may be
LIMIT_S = 120


@dataclass
class Outcome:
    """What became of a training process. code: as `subprocess` states it; printed: all that it printed."""

    code: int
    printed: str
    seconds: float


class Workshop:
    """A folder for trials, and the unbroken training that all others are held against."""

    def __init__(self, folder: Path, notes: Path | None = None):
        torch.set_num_threads(1)
        self.folder, self.notes, self._made = folder, notes or folder, 0
        trial = self.trial()
        assert trial.carry_out().code == 0, trial.last.printed
        trial = self.trial()  # the first one had to import and to compile; this one gives the times
        outcome = trial.carry_out()
        assert outcome.code == 0, outcome.printed
        self.reference, self.operations, self.seconds = facts(trial.run), trial.operations(), outcome.seconds

    def trial(self, change: Callable[[], None] = lambda: None) -> "Trial":
        self._made += 1
        name = f"trial-{self._made}"
        return Trial(self.folder / name, self.notes / name, change)


class Trial:
    """A run alone in its folder. notes: the folder of what the trial writes for itself, perhaps on another disk.

    change: what its processes do before anything else (the mutants).
    """

    def __init__(self, folder: Path, notes: Path, change: Callable[[], None]):
        self.folder, self.notes, self.change = folder, notes, change
        notes.mkdir(parents=True, exist_ok=True)
        (folder / "backups").mkdir(parents=True)
        self.run = create_run(folder / "runs", configure(SETTINGS))
        self.last: Outcome | None = None

    def carry_out(
        self, kind: str = "", at: int = 0, kill_after_s: float | None = None, number: int = signal.SIGKILL
    ) -> Outcome:
        """One attempt in a process of its own, with a fault of the disk, or a signal after some time."""
        output = self.notes / "printed.txt"
        output.touch()  # it may be killed before it can open it
        began = time.monotonic()
        sys.stdout.flush(), sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._be_the_trainer(output, kind, at)
        code = _wait(pid, kill_after_s, number)
        self.last = Outcome(code, output.read_text(errors="replace"), time.monotonic() - began)
        return self.last

    def _be_the_trainer(self, output: Path, kind: str, at: int) -> None:
        code = 70
        try:
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1), os.dup2(descriptor, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # pytest has its own
            os.umask(0o077)
            pretrain.SAVE_EVERY_S = 0.0  # a checkpoint at every step, or none would be written in so short a time
            self.change()
            self._note_commits()
            faulty = FaultyDisk(kind, at)
            faulty.install(self.folder / "backups", self.run.folder)
            code = training.train(self.run)
            (self.notes / "operations.json").write_text(json.dumps(faulty.seen))
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)

    def _note_commits(self) -> None:
        """Write down, outside the run, what counts from the moment at which `save` returns."""
        notes = os.open(self.notes / "commits.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        save = checkpoints.save_checkpoint

        def noting(folder, name, state):
            path = save(folder, name, state)
            if folder == self.run.checkpoints:
                os.write(notes, f"{name}\n".encode())
            return path

        checkpoints.save_checkpoint = noting

    def operations(self) -> list[str]:
        return json.loads((self.notes / "operations.json").read_text())

    def committed_step(self) -> int:
        """The step of the newest checkpoint that any attempt was told to be safe; 0 without one."""
        path = self.notes / "commits.txt"
        names = path.read_text().split() if path.exists() else []
        return max((int(name.removeprefix("step-")) for name in names), default=0)

    def resumed_step(self) -> int:
        """The step from which the last attempt that said so went on."""
        starts = self.starts()
        return starts[-1] if starts else 0

    def starts(self) -> list[int]:
        """The steps from which attempts went on; one that was killed early has not said so."""
        return [event["step"] for event in read_events(self.run.events)[0] if event["kind"] == "start"]


def _wait(pid: int, kill_after_s: float | None, number: int) -> int:
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(pid, number)
    end = time.monotonic() + LIMIT_S
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def facts(run: Run) -> dict:
    """All that must be the same in an unbroken run and in one that was resumed, times aside."""
    told = drop_repeated(read_events(run.events)[0])
    history = [event for event in told if event["kind"] in ("train", "eval")]
    _, state, _ = checkpoints.load_newest(run.checkpoints)
    best = checkpoints.load_checkpoint(run.checkpoints, "best")
    return {
        "history": [(event["kind"], event["epoch"], _timeless(event["values"])) for event in history],
        "end": told[-1]["kind"] if told else None,
        "weights": state and _digest([state["method"], state["optimizer"]]),
        "best": best and _digest(best["method"]),
        "snapshots": {epoch: _digest(vars(snapshots.read_snapshot(run.snapshots, epoch))) for epoch in _epochs(run)},
        "summary": [_timeless(summarize(run)[key]) for key in ("last", "best")],
        "baseline": {name: value for e in told for name, value in e["values"].items() if name.startswith("baseline")},
        "files": sorted(p.relative_to(run.folder).as_posix() for p in run.folder.rglob("*") if p.name != "log.txt"),
        "beside": sorted(path.name for path in (run.root / ".pretrained").iterdir()),
    }


def _epochs(run: Run) -> list[int]:
    return snapshots.snapshot_epochs(run.snapshots)


def _timeless(values: dict) -> dict:
    return {name: value for name, value in values.items() if not name.startswith(TIMES + BEGINNING)}


def _digest(value) -> str:
    """Of nested dicts and lists of tensors, arrays and numbers, bit for bit."""
    found = hashlib.sha256()

    def add(item) -> None:
        if isinstance(item, dict):
            for key in sorted(item, key=str):
                found.update(repr(key).encode())
                add(item[key])
        elif isinstance(item, (list, tuple)):
            for one in item:
                add(one)
        elif hasattr(item, "tobytes") or isinstance(item, torch.Tensor):
            found.update(item.numpy().tobytes() if isinstance(item, torch.Tensor) else item.tobytes())
        else:
            found.update(repr(item).encode())

    add(value)
    return found.hexdigest()


def judge_broken(trial: Trial, kind: str) -> list[str]:
    """What is wrong with a run right after a fault, before anybody resumes it."""
    wrong = []
    if [run.id for run in list_runs(trial.run.root)] != [trial.run.id] or trial.run.state().name == "unreadable":
        wrong.append(f"unreadable: {trial.run.state()}")
    try:
        summarize(trial.run)
        for epoch in _epochs(trial.run):
            snapshots.read_snapshot(trial.run.snapshots, epoch)
        if (trial.run.folder / "split.npz").exists():
            snapshots.read_split(trial.run.folder)
    except UserError as error:
        wrong.append(f"a half file: {error}")
    if kind in ("full", "full from", "io"):
        if trial.last.code not in (0, 1) or "Traceback" in trial.last.printed:
            wrong.append(f"ended with {trial.last.code}: {trial.last.printed[-300:]}")
        if trial.last.code == 1 and f"{'io_error' if kind == 'io' else 'disk_full'}: " not in trial.last.printed:
            wrong.append(f"the reason is not named: {trial.last.printed[-300:]}")
        wrong += [f"left behind: {path.name}" for path in trial.run.root.rglob(".*.tmp")]
    return wrong


def judge_deleted(trial: Trial) -> list[str]:
    """What is wrong with the end of a training whose folder somebody deleted meanwhile."""
    if trial.last.code == 0 and trial.run.folder.exists():
        return []  # it had ended before that operation
    clear = "io_error: the run's folder was deleted" in trial.last.printed and "Traceback" not in trial.last.printed
    wrong = [] if clear and trial.last.code == 1 else [f"ended with {trial.last.code}: {trial.last.printed[-300:]}"]
    return wrong + ["the folder came back"] * trial.run.folder.exists()


def judge_resumed(trial: Trial, reference: dict, committed: int) -> list[str]:
    """What is wrong with a run that was resumed and went on to its end."""
    if trial.last.code != 0:
        return [f"resume ended with {trial.last.code}: {trial.last.printed[-500:]}"]
    wrong = []
    if trial.resumed_step() < committed:
        wrong.append(f"lost: step {committed} was committed, the run went on from {trial.resumed_step()}")
    found = facts(trial.run)
    wrong += [
        f"{name} differs: {_first_difference(found[name], reference[name])}"
        for name in reference
        if found[name] != reference[name]
    ]
    return wrong


def _first_difference(found, expected) -> str:
    if isinstance(found, list) and isinstance(expected, list):
        return f"{len(found)} for {len(expected)}; " + str([x for x in found if x not in expected][:3])[:200]
    return f"{found} for {expected}"[:200]


def fault_and_resume(workshop: Workshop, kind: str, at: int, change: Callable[[], None] = lambda: None) -> list[str]:
    """One trial: a fault at one operation, then a resume without any; gives what is wrong."""
    trial = workshop.trial(change)
    trial.carry_out(kind, at)
    if kind == "deleted":
        wrong = judge_deleted(trial)
        remove(trial)
        return wrong
    wrong = judge_broken(trial, kind)
    committed = trial.committed_step()
    if trial.last.code == 0:  # nothing came of the fault
        committed = 0
    else:
        trial.carry_out()
    if kind == "power names":  # it may come back by itself, free, and is taken away by whoever needs the weights next
        for lock in (trial.run.root / ".pretrained").glob("*.lock"):
            lock.unlink()
    wrong += judge_resumed(trial, workshop.reference, committed)
    remove(trial)
    return wrong


def kill_and_resume(workshop: Workshop, draws: random.Random) -> tuple[int, list[str]]:
    """One run, killed at random moments until an attempt comes through; gives the kills and what is wrong."""
    trial, kills, wrong, committed = workshop.trial(), 0, [], 0
    while True:
        told = len(trial.starts())
        trial.carry_out(kill_after_s=draws.uniform(0, 1.2 * workshop.seconds))
        if trial.last.code != -signal.SIGKILL:
            break
        kills += 1
        wrong += judge_broken(trial, "kill")
        if any(step < committed for step in trial.starts()[told:]):
            wrong.append(f"lost: step {committed} was committed, the run went on from {trial.resumed_step()}")
        committed = trial.committed_step()
    wrong += judge_resumed(trial, workshop.reference, 0)
    remove(trial)
    return kills, wrong


def remove(trial: Trial) -> None:
    shutil.rmtree(trial.folder)
    shutil.rmtree(trial.notes, ignore_errors=True)
