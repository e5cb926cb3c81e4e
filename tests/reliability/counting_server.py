"""A server for the trials: keeps launching and resuming until every run of the folder has finished. May be killed.

python -m tests.reliability.counting_server FOLDER RUNS
"""

import contextlib
import sys
import time
from pathlib import Path

from lps.errors import UserError
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run

TRAINER = (sys.executable, "-m", "tests.reliability.counting_trainer")


def look_after(run: Run) -> None:
    state = run.state()
    with contextlib.suppress(UserError):  # it changed since
        if state.reason == "not launched yet":
            launcher.launch(run, TRAINER)
        elif state.is_over and state.name != "finished":
            launcher.resume(run, TRAINER)


def main(root: Path, count: int) -> None:
    config = configure({})
    while True:
        runs = [create_run(root, config, token=str(number)) for number in range(count)]
        for run in runs:
            look_after(run)
        launcher.dispatch(root, TRAINER)
        if all(run.state().name == "finished" for run in runs):
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
