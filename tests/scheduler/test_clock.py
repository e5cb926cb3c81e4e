"""A clock that is wrong and is set back while a run goes on: waits and ages are measured by the monotonic clock.

`python -m tests.reliability cases` has each of the two alone, and a control that is shifted by nothing. libfaketime is
no help: under it `time.sleep` of Python 3.11 fails (EINVAL) even where it changes nothing. So `time.time` is shifted in
every process by what a file says.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lps.store.run_folders import list_runs
from tests.patience import until
from tests.shares import share

ROOT = Path(__file__).resolve().parents[2]
BACK = -400 * 86_400
SHIFTS = [(BACK, 2 * BACK), (0, 0), (BACK, BACK), (0, BACK)]  # before the run and in its midst
SHIFTED = """
import os, time
def _shift():
    with open(os.environ["LPS_TEST_CLOCK"]) as file:
        return float(file.read() or 0)
_time, _time_ns, _gmtime, _localtime = time.time, time.time_ns, time.gmtime, time.localtime
time.time = lambda: _time() + _shift()
time.time_ns = lambda: _time_ns() + int(_shift() * 1e9)
time.gmtime = lambda seconds=None: _gmtime(time.time() if seconds is None else seconds)
time.localtime = lambda seconds=None: _localtime(time.time() if seconds is None else seconds)
"""


@pytest.mark.slow
@pytest.mark.parametrize("before, meanwhile", share(SHIFTS, 0, len(SHIFTS)), ids=str)
def test_a_run_begins_and_stops_as_quickly_whatever_the_clock_says(tmp_path, before, meanwhile):
    (tmp_path / "sitecustomize.py").write_text(SHIFTED)
    clock = tmp_path / "clock"
    clock.write_text(str(before))
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    own = {"LPS_RUNS": str(tmp_path / "runs"), "LPS_TEST_CLOCK": str(clock), "PYTHONPATH": path}
    words = ["launch", "--set", "epochs=500", "--set", "pretrain.epochs=1", "--set", "threads=1"]
    words += ["--set", "dataset.images_per_class=60"]
    subprocess.run([sys.executable, "-m", "lps", *words], cwd=ROOT, env=os.environ | own, check=True, timeout=60)
    (run,) = list_runs(tmp_path / "runs")
    until(lambda: '"train"' in run.events.read_text() if run.events.exists() else False, 90)
    clock.write_text(str(meanwhile))
    time.sleep(1)
    runner = run.read_json("process.json")["runner_pid"]
    os.kill(runner, signal.SIGTERM)
    until(lambda: (run.folder / "exit.json").exists(), 30)
    ending = json.loads((run.folder / "exit.json").read_text())
    assert ending["state"] == "stopped" and not ending["forced"]
    assert list(run.checkpoints.glob("step-*.json")), "it was stopped with a checkpoint"
