"""SIGKILLs aimed at the trainers of real runs: the real launcher, the real runner, the real `lps train`."""

import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.events import read_events, read_last_event
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.training import loop
from tests.reliability.process_faults import left_of, until
from tests.reliability.processes import pids_of
from tests.reliability.trials import SETTINGS, facts

EPOCHS = 24
EARLY = 0.2  # of the kills come at any moment of the start, the others after the first record
LIMIT_S = 180.0  # for an attempt


@dataclass
class Killed:
    """One run that is killed again and again.

    phases: how far each attempt was; safe: step of the newest checkpoint after the last kill; wrong: what is wrong.
    """

    run: Run
    phases: list[str] = field(default_factory=list)
    safe: int = 0
    wrong: list[str] = field(default_factory=list)


def make(root: Path, epochs: int) -> Run:
    return Run(create_run(root, configure(SETTINGS | {"epochs": epochs})).folder.resolve())


def unbroken(root: Path, epochs: int = EPOCHS, is_launched: bool = True) -> tuple[dict, tuple[float, float]]:
    """What a run that nobody kills ends with, and the seconds to its first record and from there to its last one.

    is_launched: trained by processes of its own, not by this one, which leaves none of the files of a runner.
    """
    run, began = make(root, epochs), time.time()
    if is_launched:
        launcher.launch(run)
        until(lambda: run.state().is_over, LIMIT_S)
        assert run.state().name == "finished", run.state()
    else:
        assert loop.train(run) == 0
    told = read_events(run.events)[0]
    found = facts(run) if is_launched else {name: value for name, value in facts(run).items() if name != "files"}
    return found, (told[0]["time"] - began, told[-1]["time"] - told[0]["time"])


def kill_again(
    root: Path, kills: int, draws: random.Random, seconds: tuple[float, float], reference: dict, epochs: int = EPOCHS
) -> Killed:
    """Kill the trainer of one run that often, each time at a random moment of its attempt, then let it finish."""
    trial = Killed(make(root, epochs))
    run = trial.run
    launcher.launch(run)
    start_s, rest_s = seconds
    while len(trial.phases) < kills:
        is_early = draws.random() < EARLY
        if not _kill_once(trial, is_early, draws.uniform(0, start_s if is_early else min(0.9, 1.5 / kills) * rest_s)):
            break
    if not until(lambda: run.state().is_over, LIMIT_S):
        trial.wrong.append(f"did not end: {run.state()}")
    if run.state().name != "finished":
        trial.wrong.append(f"is {run.state()}")
        return trial
    found = facts(run)
    trial.wrong += [f"{name} differs" for name in reference if found[name] != reference[name]]
    trial.wrong += [f"left behind: {path.name}" for path in run.folder.rglob(".*.tmp")]
    trial.wrong += [] if until(lambda: not left_of(run), 20) else ["a process is left"]
    return trial


def _kill_once(trial: Killed, is_early: bool, after_s: float) -> bool:
    """Kill the trainer so long after it began (is_early) or after its first record, and resume the run.

    False where the run ended before.
    """
    run, attempt, begun = trial.run, trial.run.state().attempt, len(starts(trial.run))
    until(lambda: run.begun_attempt() == attempt and any(pids_of(run, "trainer")) or run.state().is_over, LIMIT_S)
    until(lambda: is_early or len(starts(run)) > begun or run.state().is_over, LIMIT_S)
    time.sleep(after_s)
    for pid in pids_of(run, "trainer"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: run.state().is_over, LIMIT_S)
    state = run.state()
    if state.name != "failed" or "SIGKILL" not in state.reason:
        trial.wrong += [] if state.name == "finished" else [f"shown as {state}"]
        return False
    trial.phases.append(_phase(run, len(starts(run)) > begun))
    trial.wrong += [f"went on from {step}, {trial.safe} was safe" for step in starts(run)[begun:] if step < trial.safe]
    trial.safe = max((int(path.stem.removeprefix("step-")) for path in run.checkpoints.glob("step-*.json")), default=0)
    launcher.resume(run)
    return True


def starts(run: Run) -> list[int]:
    """The steps from which attempts went on, as they have recorded."""
    return [event["step"] for event in read_events(run.events)[0] if event["kind"] == "start"]


def _phase(run: Run, has_begun: bool) -> str:
    if not has_begun:
        return "before its first record"
    return "before its first epoch" if read_last_event(run.events)["kind"] == "start" else "in its epochs"
