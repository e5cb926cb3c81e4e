"""Random SIGKILLs of trainers, runners and servers that carry out real runs, and what is left in the end."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from lps.store.events import drop_repeated, read_events
from lps.store.run_folders import list_runs
from lps.store.runs import OVER, Run
from tests.reliability.counting_trainer import EPOCHS, series

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 900
LEAVING_S = 15
SLOTS = 2


def kill_and_count(root: Path, kills: int, seed: int = 0) -> tuple[Counter, list[str]]:
    """Kills of each sort, and what is wrong in the end; there is always work, until all the kills are done."""
    draws, done, wrong = random.Random(seed), Counter(), []
    count, end, server = 3, time.monotonic() + LIMIT_S, None
    try:
        while time.monotonic() < end:
            if server is None or server.poll() is not None:
                if server is not None and server.returncode == 0 and done.total() >= kills:
                    break
                count += 3 if server is not None and server.returncode == 0 else 0  # all have finished: more work
                server = _serve(root, count)
            time.sleep(draws.uniform(0, 0.6))
            if done.total() < kills:
                done.update(_kill_one(root, server, draws))
            wrong += [f"{run.id}: {run.state()}" for run in list_runs(root) if run.state().name == "unreadable"]
    finally:
        if server is not None:
            server.kill()
            server.wait()
    runs = list_runs(root)
    for run in runs:
        wrong += [f"{run.id}: {text}" for text in judge(run)]
    return done + Counter(runs=len(runs)), wrong


def _serve(root: Path, count: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.reliability.counting_server", str(root), str(count)]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"LPS_CPU_SLOTS": str(SLOTS)})


def _kill_one(root: Path, server: subprocess.Popen, draws: random.Random) -> list[str]:
    """SIGKILL for the server, or for a process of a run that is alive; names what was killed, if anything."""
    sort = draws.choice(["server", "runner", "trainer"])
    if sort == "server":
        server.kill()
        server.wait()
        return [sort]
    pids = [pid for run in list_runs(root) if run.state().is_alive for pid in pids_of(run, sort)]
    if not pids:
        return []
    with suppress(ProcessLookupError):
        os.kill(draws.choice(pids), signal.SIGKILL)
        return [sort]
    return []


def pids_of(run: Run, sort: str) -> Iterator[int]:
    """The recorded process, if it is still one of this run's: a pid may be another's by now."""
    pid = run.read_json("process.json").get(f"{sort}_pid")
    with suppress(OSError):
        if pid and os.fsencode(run.id) in Path(f"/proc/{pid}/cmdline").read_bytes():
            yield pid


def judge(run: Run) -> list[str]:
    """What is wrong with a run that was killed and resumed again and again."""
    state = run.state()
    wrong = [] if state.name == "finished" else [f"is {state}"]
    history = [event for event in drop_repeated(read_events(run.events)[0]) if event["kind"] == "train"]
    if [event["values"]["number"] for event in history] != series():
        wrong.append(f"another series, {len(history)} epochs of {EPOCHS}")
    safe = 0
    for line in (run.root / f"commits-{run.id}.txt").read_text().splitlines():
        word, epoch = line.split()
        if word == "start" and int(epoch) < safe:
            wrong.append(f"lost: epoch {safe} was committed, it went on from {epoch}")
        safe = max(safe, int(epoch)) if word == "commit" else safe
    wrong += [f"left behind: {path.name}" for path in run.folder.rglob(".*.tmp")]
    assert state.name in OVER or wrong
    return wrong


def leftovers(root: Path) -> list[str]:
    """Processes that name this folder and do not end by themselves: the queue's waker may still be about to."""
    end = time.monotonic() + LEAVING_S
    while (found := _processes_of(root)) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def _processes_of(root: Path) -> list[str]:
    commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"]) if process.pid != os.getpid()]
    return [str(words)[:200] for words in commands if any(str(root) in word for word in words or ())]
