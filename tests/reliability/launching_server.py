"""A server for the trials: launches runs and pumps from three threads until all have finished. May be killed.

python -m tests.reliability.launching_server FOLDER RUNS [unlocked]    unlocked: a broken one, whose locks hold nothing
"""

import contextlib
import os
import random
import sys
import threading
import time
from pathlib import Path

from lps.errors import UserError
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run, list_runs

TRAINER = (sys.executable, "-E", "-S", str(Path(__file__).with_name("slot_trainer.py")))
THREADS = 3
LONG_USE_S = "5"  # of a slot by the trainers of a broken server: long enough that two of them meet in one


def launch_one(root: Path, number: int) -> None:
    """What a click on Launch does; the number is the form's token, so that a second click asks for the same run."""
    with contextlib.suppress(UserError):  # another server is at it
        run = create_run(root, configure({"device": "cpu", "seed": number}), token=str(number))
        launcher.launch(run, TRAINER)


def missing(root: Path, count: int) -> list[int]:
    """The numbers that nobody has asked for yet."""
    asked = {run.config().seed for run in list_runs(root) if (run.folder / "want.json").exists()}
    return [number for number in range(count) if number not in asked]


def serve(root: Path, count: int, thread: int, done: threading.Event) -> None:
    for number in missing(root, count)[thread::THREADS]:
        launch_one(root, number)
    while not done.is_set():
        launch_one(root, random.randrange(count))
        with contextlib.suppress(UserError):
            launcher.dispatch(root, TRAINER)
        time.sleep(0.05)


def unlock() -> None:
    """The mutant: everybody gets every lock, and keeps a slot for long. One thread, as each starts runs without end."""
    global TRAINER, THREADS
    TRAINER, THREADS = (*TRAINER, LONG_USE_S), 1
    launcher.try_lock = lambda path, patience=1.0: os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def main(root: Path, count: int) -> None:
    done = threading.Event()
    for thread in range(THREADS):
        threading.Thread(target=serve, args=(root, count, thread, done), daemon=True).start()
    print("ready", flush=True)
    while not all((run.folder / "exit.json").exists() for run in list_runs(root)) or missing(root, count):
        time.sleep(0.5)
    done.set()


if __name__ == "__main__":
    if "unlocked" in sys.argv:
        unlock()
    main(Path(sys.argv[1]), int(sys.argv[2]))
