"""Runs in a queue for tests of pages and commands: requested, and alive on slots without a process."""

import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lps.files.atomic import write_json
from lps.files.locks import boot_id, try_lock
from lps.scheduler import queue
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run
from tests.patience import until


def make(root: Path, name: str = "", **settings) -> Run:
    return create_run(root, configure({"device": "cpu"} | settings), name)


# A program in the place of the training; the file plan.json of a run says what it does.
TRAINER = (sys.executable, str(Path(__file__).with_name("fake_trainer.py")))


def make_planned(root: Path, do: str = "finish", device: str = "cpu", seed: int = 0, **plan) -> Run:
    """Create a run with a plan for `TRAINER`."""
    run = create_run(root, configure({"device": device, "seed": seed}))
    write_json(run.folder / "plan.json", {"do": do} | plan)
    return run


def at_work(run: Run) -> Run:
    """Return the run once its training process listens to signals."""
    until(lambda: run.log.exists() and b"doing" in run.log.read_bytes())
    return run


def asked(root: Path, *seeds: int, **settings) -> list[Run]:
    """Return new waiting runs, one per seed, in this order."""
    runs = [make(root, seed=seed, **settings) for seed in seeds]
    for run in runs:
        queue.request_attempt(run, "run", 1)
    return runs


def waiting_runs(root: Path) -> list[Run]:
    """Return the waiting runs in the order in which they start."""
    return [run for run, _ in queue.waiting_runs(root)]


def hold(run: Run) -> None:
    """Write what earlier versions wrote to keep a run in its place without starting it."""
    queue.write_desired_state(run, replace(run.desired(), held=True))


def record_course(run: Run, *, start, pretrained, epoch, reused=False, ending=0.0) -> Run:
    """Events of a run: `start` s to the first, `pretrained` s of pretraining, `epoch` s an epoch, `ending` s."""
    now, config = 1000.0 + start, run.config()
    lines = [("start", 0, now, {})]
    for number in range(1, config.pretrain_epochs + 1) if not reused else (config.pretrain_epochs,):
        now += 0 if reused else pretrained / config.pretrain_epochs
        lines.append(("pretrain", number, now, {"pretrain/reused": 1} if reused else {}))
    for number in range(1, config.epochs + 1):
        now += epoch
        lines.append(("train", number, now, {"loss": 1.0}))
    lines.append(("finish", config.epochs, now, {}))
    named = [{"kind": k, "step": 0, "epoch": e, "time": t, "values": v} for k, e, t, v in lines]
    run.events.write_text("".join(json.dumps(line) + "\n" for line in named))
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "finished", "time": now + ending})
    return run


@contextmanager
def beginning(root: Path, now: float | None = None):
    """Yield `begin(run, *slots, **progress)`, which makes a run active as its runner would and holds all its locks.

    The run began a minute before `now` (unix seconds; by default the present).
    """
    locks = []

    def begin(run: Run, *slots: str, **progress) -> Run:
        moment = time.time() if now is None else now
        queue.request_attempt(run, "run", 1)
        process = {"attempt": 1, "slot": ",".join(slots), "started": moment - 60, "boot_id": boot_id()}
        write_json(run.folder / "process.json", process)
        if progress:
            write_json(run.folder / "progress.json", {"time": moment} | progress)
        (root / ".slots").mkdir(exist_ok=True)
        locks.extend(try_lock(path) for path in (run.lock, *(root / ".slots" / f"{slot}.lock" for slot in slots)))
        assert None not in locks
        return run

    yield begin
    for lock in locks:
        os.close(lock)
