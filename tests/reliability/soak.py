"""Runs, stops and faults without end beside an app that people look at: nothing gets stuck, and nothing grows.

The app is the real one, with sessions that refresh its pages (visits.py); its pages pump, as those of every person do.
"""

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from lps.errors import UserError
from lps.files.atomic import write_json
from lps.files.locks import is_held
from lps.machine.processes import find_by_command_words
from lps.scheduler import launcher, run_slots
from lps.settings.config import configure
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from tests.reliability.process_faults import TRAINER, left_of, until
from tests.reliability.visits import Usage, Visitor, app, usage, zombies_of

SLOTS, WAITING = 2, 4  # runs at a time, and in the queue
GRACE_S = 1.0
MEMORY, DESCRIPTORS, THREADS = 1.25, 1.3, 1.3  # how much more the app may hold at the end than after its start
PAGES = ("", "runs", "queue", "live")
PLANS = {  # what a training process does, and how it may end where nobody touches it
    "finish": ("finished",),
    "wait": ("finished",),
    "children": ("finished",),
    "fail": ("failed diverged",),
    "crash": ("failed bug",),
    "refuse": ("failed config",),
    "hang": (),
}


class Soak:
    """allowed: how each run may end, by its id, given what was done to it."""

    def __init__(self, root: Path, seed: int):
        self.root, self.draws = root.resolve(), random.Random(seed)
        self.done, self.allowed, self.usages = Counter(), {}, []
        self.root.mkdir(parents=True, exist_ok=True)

    def carry_out(self, seconds: float, every_s: float, log: Path, servers: int = 1) -> list[str]:
        """Faults for so long, then a calm end; gives what is wrong. servers: apps on this one folder."""
        os.environ |= {"LPS_CPU_SLOTS": str(SLOTS), "LPS_STOP_GRACE": str(GRACE_S)}
        with contextlib.ExitStack() as stack:
            logs = [log.with_name(f"{number}-{log.name}") for number in range(servers)]
            apps = [stack.enter_context(app(self.root, path, json.dumps(TRAINER))) for path in logs]
            process = apps[0][1]
            visitors = [Visitor(host, page) for host, _ in apps for page in PAGES]
            for visitor in visitors:
                visitor.start()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                self._keep_busy()
                time.sleep(self.draws.uniform(0, 2 * every_s))
                self._harm()
                self.usages.append((time.monotonic(), usage(process.pid)))
            wrong = self._come_to_rest()
            for _, one in apps:
                wrong += [] if until(lambda one=one: not zombies_of(one.pid)) else ["an app has zombies"]
            self.usages.append((time.monotonic(), usage(process.pid)))
            wrong += [f"{visitor.page or 'home'}: {text}" for visitor in visitors for text in visitor.errors]
            self.done.update(visits=sum(visitor.visits for visitor in visitors))
            for visitor in visitors:
                visitor.leave()
            wrong += [f"a traceback in {path.name}" for path in logs if "Traceback" in path.read_text(errors="replace")]
        return wrong + self._judge() + grown([held for _, held in self.usages])

    def _keep_busy(self) -> None:
        waiting = sum(not run.state().is_over for run in list_runs(self.root))
        for _ in range(SLOTS + WAITING - waiting):
            plan = self.draws.choice(list(PLANS))
            run = create_run(self.root, configure({"device": "cpu", "seed": len(self.allowed)}))
            write_json(run.folder / "plan.json", {"do": plan, "for_s": self.draws.uniform(0, 2)})
            self.allowed[run.id] = set(PLANS[plan])
            launcher.launch(run, TRAINER)
            self.done["launched"] += 1

    def _harm(self) -> None:
        """One fault for one run that is alive, if there is one: what it does to it, and how it may end then."""
        alive = [run for run in list_runs(self.root) if run.state().name == "running"]
        name, (harm, endings) = self.draws.choice(list(HARMS.items()))
        if alive:
            run = self.draws.choice(alive)
            self.allowed[run.id] |= set(endings)
            with contextlib.suppress(ProcessLookupError, UserError, KeyError, TypeError):
                harm(run)
                self.done[name] += 1

    def _come_to_rest(self) -> list[str]:
        """Stop everything, and wait until nothing moves."""
        for run in list_runs(self.root):
            if not run.state().is_over:
                self.allowed[run.id] |= {"stopped"}
                with contextlib.suppress(UserError):
                    launcher.stop(run, kill=self.draws.random() < 0.5)
        runs = list_runs(self.root)
        wrong = [] if until(lambda: all(run.state().is_over for run in runs), 120) else ["not everything ended"]
        locks = list((self.root / ".slots").glob("*.lock"))
        wrong += [] if until(lambda: not any(map(is_held, locks))) else ["a slot is stuck"]
        launcher._end_leftovers(self.root)  # as the next start would
        for path in locks:
            with open(path, "rb") as slot:
                run_slots.sweep_after(self.root, slot.fileno())
        return wrong

    def _judge(self) -> list[str]:
        wrong = []
        for run in list_runs(self.root):
            state = run.state()
            shown = {state.name, f"{state.name} {state.kind}"}
            if not shown & self.allowed[run.id]:
                wrong.append(f"{run.id}: {state}, not one of {self.allowed[run.id]}")
            wrong += [f"{run.id}: left behind: {path.name}" for path in run.folder.rglob(".*.tmp")]
            wrong += [f"{run.id}: a process is left"] * bool(left_of(run))
        return wrong


def grown(usages: list[Usage]) -> list[str]:
    """Where the last quarter of the time holds more than the second one; the first one is for warming up.

    Of threads, those that stay count: every page that is being drawn has one more, on a busy machine for longer.
    """
    quarter = max(1, len(usages) // 4)
    before, after = usages[quarter : 2 * quarter] or usages, usages[-quarter:]
    wrong = []
    limits = (("memory", MEMORY, median), ("descriptors", DESCRIPTORS, median), ("threads", THREADS, min))
    for name, factor, typical in limits:
        was, now = (typical(getattr(held, name) for held in part) for part in (before, after))
        if now > factor * was:
            wrong.append(f"{name} of the app grew from {was} to {now}")
    return wrong


def _send(number: int, *sorts: str) -> Callable[[Run], None]:
    """A signal for the recorded processes of a run."""

    def send(run: Run) -> None:
        for sort in sorts:
            os.kill(run.read_json("process.json")[f"{sort}_pid"], number)

    return send


def _freeze_trainer(run: Run) -> None:
    """It does nothing any more, not even end; a stop helps."""
    _send(signal.SIGSTOP, "trainer")(run)
    launcher.stop(run)


def _kill_waker(run: Run) -> None:
    for pid in find_by_command_words("lps.scheduler.queue_daemon", str(run.root)):
        os.kill(pid, signal.SIGKILL)


HARMS: dict[str, tuple[Callable[[Run], object], tuple[str, ...]]] = {  # and how a run may end then, beside by itself
    "kill_trainer": (_send(signal.SIGKILL, "trainer"), ("failed killed", "failed out_of_memory")),
    # killed by it, where it came before the handler
    "end_trainer": (_send(signal.SIGTERM, "trainer"), ("stopped preempted", "failed killed")),
    "break_trainer": (_send(signal.SIGSEGV, "trainer"), ("failed killed",)),
    "freeze_trainer": (_freeze_trainer, ("stopped", "finished")),
    "kill_runner": (_send(signal.SIGKILL, "runner"), ("crashed killed",)),
    "kill_both": (_send(signal.SIGKILL, "runner", "trainer"), ("crashed killed", "failed killed")),
    "end_runner": (_send(signal.SIGTERM, "runner"), ("stopped preempted", "stopped")),
    "stop": (launcher.stop, ("stopped",)),
    "stop_at_once": (partial(launcher.stop, kill=True), ("stopped",)),
    "kill_waker": (_kill_waker, ()),
}
