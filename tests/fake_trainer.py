"""A training process for tests, in plain Python: it does what `plan.json` in the run's folder says, in milliseconds.

plan.json: {"do": name, ...}. Every start is recorded in `starts.txt` beside the runs, and every use of a slot is
guarded by a file that must not exist yet: these files do not depend on the code under test.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

folder = Path(sys.argv[1])
plan = json.loads((folder / "plan.json").read_text()) if (folder / "plan.json").exists() else {"do": "finish"}
wishes = []


def event(kind, epoch=0, **more):
    """Write one line of events.jsonl as the real trainer does."""
    line = {"kind": kind, "step": epoch * 10, "epoch": epoch, "time": time.time(), "values": {}} | more
    with open(folder / "events.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


def wait_for_sigterm(longest_s=60):
    """Wait for SIGTERM; return False if none arrives."""
    end = time.monotonic() + longest_s
    while not wishes and time.monotonic() < end:
        time.sleep(0.01)
    return bool(wishes)


def finish():
    time.sleep(plan.get("for_s", 0))
    event("finish", 1)


def wait():
    event("stop" if wait_for_sigterm() else "finish", 1)


def step():
    """Obey a request to stop only after a long step, and state the length of a step beforehand."""
    (folder / "progress.json").write_text(json.dumps({"phase": "train", "stop_s": plan["told_s"]}))
    wait_for_sigterm()
    time.sleep(plan["for_s"])
    event("stop", 1)


def hang():
    """Ignore SIGTERM and run on."""
    while True:
        time.sleep(60)


def nothing():
    """End without a result."""


def fail():
    event("fail", failure="diverged", reason="the loss is not finite")
    sys.exit(1)


def crash():
    raise ValueError("a bug in the loss")


def refuse():
    print("lr: 0 is too small", file=sys.stderr)
    sys.exit(2)


def suicide():
    os.kill(os.getpid(), plan["signal"])


def spam():
    line = b"\x1b[31m" + b"x" * 90 + b"\x1b[0m\n"
    for _ in range(plan["megabytes"]):
        sys.stdout.buffer.write(line * 10_000)
    print("the end")
    event("finish", 1)


def children():
    """Start one child in this session and one outside it, which both ignore SIGTERM; then wait."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    pids = [subprocess.Popen([sys.executable, "-c", code], start_new_session=away).pid for away in (False, True)]
    (folder / "children.txt").write_text(" ".join(map(str, pids)))
    wait()


def exclusive():
    """Use the slot for a short time, or record that another run uses it too."""
    mark = folder.parent / f".using-{json.loads((folder / 'process.json').read_text())['slot']}"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        (folder.parent / f".violation-{folder.name}").touch()
    time.sleep(0.05)
    mark.unlink(missing_ok=True)
    event("finish", 1)


def environment():
    print("CUDA_VISIBLE_DEVICES =", os.environ.get("CUDA_VISIBLE_DEVICES"))
    event("finish", 1)


signal.signal(signal.SIGTERM, signal.SIG_IGN if plan["do"] == "hang" else lambda *_: wishes.append("stop"))
with open(folder.parent / "starts.txt", "a") as starts:
    starts.write(folder.name + "\n")
event("start")
print("doing", plan["do"], flush=True)
globals()[plan["do"]]()
