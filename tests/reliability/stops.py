"""Stops at random moments: there is a checkpoint of the step at which training stopped, and no process is left."""

import json
import random
import signal
import sys
import time
from pathlib import Path

from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.events import read_events, read_last_event
from lps.store.run_folders import create_run
from lps.store.runs import Run
from tests.reliability import counting_trainer
from tests.reliability.process_faults import left_of, until

TRAINER = (sys.executable, "-m", "tests.reliability.counting_trainer")


def stop_at_random(root: Path, draws: random.Random) -> tuple[float, list[str]]:
    """A run through the real runner, stopped in its midst: seconds until it was shown as stopped, and what is wrong."""
    run = Run(create_run(root, configure({"device": "cpu"})).folder.resolve())
    launcher.launch(run, TRAINER)
    until(lambda: read_events(run.events)[0])
    time.sleep(draws.uniform(0, 0.8 * counting_trainer.EPOCHS * counting_trainer.EPOCH_S))
    began = time.monotonic()
    launcher.stop(run)
    until(lambda: run.state().is_over)
    seconds, state, last = time.monotonic() - began, run.state(), read_last_event(run.events)
    if state.name == "finished":  # the stop came too late for the last epoch
        return seconds, []
    wrong = [] if (state.name, state.kind) == ("stopped", "") else [f"is {state}"]
    wrong += [] if last["kind"] == "stop" else [f"ended with {last}"]
    saved = counting_trainer.newest(run.checkpoints)["epoch"]
    wrong += [] if saved == last["epoch"] else [f"stopped after epoch {last['epoch']}, checkpoint of {saved}"]
    wrong += ["was forced"] * run.read_json("exit.json")["forced"]
    wrong += [] if until(lambda: not left_of(run)) else ["a process is left"]
    return seconds, wrong


def stop_training(workshop, draws: random.Random) -> tuple[bool, list[str]]:
    """A real training in a process of its own, told to end at a random moment: whether it did so, and what is wrong."""
    from lps.training import checkpoints
    from tests.reliability.trials import remove

    trial = workshop.trial()
    trial.carry_out(kill_after_s=draws.uniform(0.1, workshop.seconds), number=signal.SIGTERM)
    events = read_events(trial.run.events)[0]
    if trial.last.code == -signal.SIGTERM or not events:  # before it listened: it had nothing to save
        remove(trial)
        return False, []
    last, wrong = events[-1], []
    if last["kind"] == "stop":
        name = checkpoints.load_newest(trial.run.checkpoints)[0]
        if last["step"] and name != f"step-{last['step']:08d}":
            wrong.append(f"stopped at step {last['step']}, newest checkpoint {name}")
    elif last["kind"] != "finish":
        wrong.append(f"ended with {json.dumps(last)[:200]}")
    wrong += [f"exit code {trial.last.code}"] * (trial.last.code != 0)
    wrong += [f"left behind: {path.name}" for path in trial.run.folder.rglob(".*.tmp")]
    remove(trial)
    return last["kind"] == "stop", wrong
