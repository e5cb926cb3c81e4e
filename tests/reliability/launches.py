"""Two servers that launch the same runs and are killed again and again: each run starts once, no slot is shared."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from lps.files.locks import is_held
from lps.store.run_folders import list_runs
from tests.reliability.slot_trainer import USES

ROOT = Path(__file__).resolve().parents[2]
SERVERS, SLOTS = 2, 4


def launch_and_kill(
    root: Path, count: int, kills: int, seed: int = 0, *, unlocked: bool = False, limit_s: float = 3600
) -> tuple[Counter, list[str]]:
    """Launch `count` runs, with SIGKILLs for servers spread over the time that it takes; counts, and what is wrong.

    unlocked: with servers whose locks hold nothing, until that has come to light, as they start processes without end.
    """
    draws, done, end = random.Random(seed), Counter(), time.monotonic() + limit_s
    root.mkdir(parents=True, exist_ok=True)
    servers = [_serve(root, count, unlocked) for _ in range(SERVERS)]
    try:
        while time.monotonic() < end and any(server.poll() is None for server in servers):
            if unlocked and _is_found_out(root):
                break
            # as many kills are done as runs, in parts of all of them, and never with nothing left to do
            if done["kills"] < kills and done["kills"] * count <= len(uses(root, "end")) * (kills + 1):
                time.sleep(draws.uniform(0, 1.5))
                place = draws.randrange(SERVERS)
                servers[place].kill()
                servers[place].wait()
                servers[place] = _serve(root, count, unlocked)
                done["kills"] += 1
            time.sleep(0.05)
    finally:
        for server in servers:
            server.kill()
            server.wait()
            server.stdout.close()
    wrong = judge(root, count) + [f"a server ended with {s.returncode}" for s in servers if s.returncode not in (0, -9)]
    starts = uses(root, "start")
    return done + Counter(runs=len(list_runs(root)), starts=len(starts), slots=len({u[1] for u in starts})), wrong


def _is_found_out(root: Path) -> bool:
    """Has a run started twice, and has a slot been shared?"""
    starts = uses(root, "start")
    return len({run for run, _, _ in starts}) < len(starts) and bool(overlaps(starts, uses(root, "end")))


def _serve(root: Path, count: int, unlocked: bool) -> subprocess.Popen:
    command = [sys.executable, "-m", "tests.reliability.launching_server", str(root), str(count)]
    server = subprocess.Popen(
        command + ["unlocked"] * unlocked,
        cwd=ROOT,
        env=os.environ | {"LPS_CPU_SLOTS": str(SLOTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    server.stdout.readline()
    return server


def uses(root: Path, word: str) -> list[tuple[str, str, int]]:
    """(run, slot, nanoseconds) of the lines that begin with `word`, as the trainers themselves wrote them."""
    path = root / USES
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(run, slot, int(at)) for kind, run, slot, at in lines if kind == word]


def judge(root: Path, count: int) -> list[str]:
    """What is wrong: started twice, a slot used by two, lost, not finished, a slot that is stuck."""
    runs, starts = list_runs(root), Counter(run for run, _, _ in uses(root, "start"))
    wrong = [f"{len(runs)} runs for {count} launches"] * (len(runs) != count)
    wrong += [f"{run.id}: started {starts[run.id]} times" for run in runs if starts[run.id] != 1]
    wrong += [f"{run.id}: {run.state()}" for run in runs if run.state().name != "finished"]
    wrong += overlaps(uses(root, "start"), uses(root, "end"))
    end = time.monotonic() + 60
    while time.monotonic() < end and any(is_held(path) for path in (root / ".slots").glob("*.lock")):
        time.sleep(0.05)
    return wrong + [f"{path.name} is held" for path in (root / ".slots").glob("*.lock") if is_held(path)]


def overlaps(starts: list[tuple[str, str, int]], ends: list[tuple[str, str, int]]) -> list[str]:
    """Where a slot was taken before the one that had it was done with it."""
    moments = sorted([(at, 1, slot, run) for run, slot, at in starts] + [(at, -1, slot, run) for run, slot, at in ends])
    users, wrong = Counter(), []
    for _, change, slot, run in moments:
        users[slot] += change
        if users[slot] > 1:
            wrong.append(f"{run}: shares {slot}")
    return wrong
