"""Faults of the processes of a run, and what pages and command line must show of it within two seconds.

Every trial has a folder of its own, the real runner, and a training process in plain Python (tests/fake_trainer.py).
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from lps.__main__ import main as lps
from lps.files.atomic import write_json
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.store.runs import Run, State
from tests.patience import is_gone

ROOT = Path(__file__).resolve().parents[2]
TRAINER = (sys.executable, str(ROOT / "tests" / "fake_trainer.py"))
GRACE_S, PATIENCE_S = 0.5, 60.0
LAUNCHER = """
import sys, threading, time
from pathlib import Path
from lps.scheduler import launcher
from lps.store.runs import Run
if sys.argv[1] == "careless":  # it never looks at its children again, so they become zombies
    threading.Thread.start = lambda self: None
launcher.launch(Run(Path(sys.argv[2])), sys.argv[3:])
time.sleep(600)
"""


@dataclass
class Scene:
    """A run at work. beside: processes that the trial started itself; wrong: what was found wrong; seconds: until what
    was shown was right, one number for every time that it was looked at.
    """

    run: Run
    beside: list[subprocess.Popen] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def runner(self) -> int:
        return self.run.read_json("process.json")["runner_pid"]

    @property
    def trainer(self) -> int:
        return self.run.read_json("process.json")["trainer_pid"]

    @property
    def children(self) -> list[int]:
        return [int(pid) for pid in (self.run.folder / "children.txt").read_text().split()]

    def kill(self, *pids: int, number: int = signal.SIGKILL) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def expect(self, name: str, kind: str = "", words: str = "") -> None:
        """Wait until this is shown, by the run itself and by the command line."""
        began = time.monotonic()
        while not _is(self.run.state(), name, kind, words) or not _is(self.listed(), name, "", words):
            if time.monotonic() > began + PATIENCE_S:
                self.wrong.append(f"{self.run.state()}, listed as {self.listed()}, is not {name} {kind} {words}")
                return
            time.sleep(0.005)
        self.seconds.append(time.monotonic() - began)

    def listed(self) -> State:
        """What `python -m lps list --json` says."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            lps(["list", "--json", "--runs", str(self.run.root)])
        (row,) = json.loads(printed.getvalue())
        return State(row["state"], row["reason"])

    def check(self, holds: bool, words: str) -> None:
        if not holds:
            self.wrong.append(words)

    def resume(self) -> None:
        """Again, with a training process that ends at once."""
        write_json(self.run.folder / "plan.json", {"do": "finish"})
        launcher.resume(self.run, TRAINER)
        until(lambda: self.run.state().name == "finished")


def _is(state: State, name: str, kind: str, words: str) -> bool:
    return state.name == name and kind in ("", state.kind) and words in state.reason


def until(condition: Callable[[], object], patience: float = PATIENCE_S) -> bool:
    """Whether it became true before the patience ended."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def left_of(run: Run) -> list[int]:
    """The processes that still live and say in their environment that they belong to this run."""
    found, mark = [], b"LPS_RUN=" + os.fsencode(run.folder)
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0") and not is_gone(int(entry.name)):
                found.append(int(entry.name))
    return found


def trainer_killed(scene: Scene) -> None:
    scene.kill(scene.trainer)
    scene.expect("failed", words="signal 9 (SIGKILL)")


def trainer_told_to_end(scene: Scene) -> None:
    """By somebody else than this program, as a shutdown does."""
    scene.kill(scene.trainer, number=signal.SIGTERM)
    scene.expect("stopped", "preempted", "ended by a signal")


def trainer_breaks_down(scene: Scene) -> None:
    scene.kill(scene.trainer, number=signal.SIGSEGV)
    scene.expect("failed", "killed", "signal 11 (SIGSEGV)")


def runner_killed(scene: Scene) -> None:
    trainer = scene.trainer
    scene.kill(scene.runner)
    scene.expect("crashed", "killed", "the run's processes were killed")
    scene.check(until(lambda: is_gone(trainer)), "the training process outlived its runner")


def both_killed(scene: Scene) -> None:
    scene.kill(scene.runner, scene.trainer)
    scene.expect("crashed", "killed", "the run's processes were killed")


def server_killed(scene: Scene) -> None:
    """The run goes on, and is stopped by another server."""
    end(scene.beside.pop())
    scene.expect("running")
    launcher.stop(scene.run)
    scene.expect("stopped")


def trainer_hangs(scene: Scene) -> None:
    """It does not hear a stop, so it is ended by force."""
    launcher.stop(scene.run)
    scene.expect("stopping")
    began = time.monotonic()
    until(lambda: scene.run.state().is_over)
    scene.seconds.append(max(0.0, time.monotonic() - began - GRACE_S))
    scene.expect("stopped", words=f"did not stop within {GRACE_S:g} s and was killed")
    scene.check(scene.run.read_json("exit.json")["forced"] is True, "the record does not say that it was forced")


def runner_is_a_zombie(scene: Scene) -> None:
    """Its parent never asks what became of it."""
    runner = scene.runner
    scene.kill(runner)
    scene.expect("crashed", "killed", "the run's processes were killed")
    scene.check(psutil.Process(runner).status() == psutil.STATUS_ZOMBIE, "the trial made no zombie")


def pid_is_reused(scene: Scene) -> None:
    """The recorded pids are those of somebody else by now."""
    scene.kill(scene.runner, scene.trainer)
    until(lambda: scene.run.state().is_over)
    stranger = subprocess.Popen(["sleep", "600"])
    scene.beside.append(stranger)
    pids = {"runner_pid": stranger.pid, "trainer_pid": stranger.pid}
    write_json(scene.run.folder / "process.json", scene.run.read_json("process.json") | pids)
    scene.expect("crashed", "killed", "the run's processes were killed")
    launcher.stop(scene.run, kill=True)
    scene.resume()
    scene.check(stranger.poll() is None, "the stranger was ended")


def machine_restarted(scene: Scene) -> None:
    """All processes are gone, and the kernel says that it is another time."""
    scene.kill(scene.runner, scene.trainer)
    write_json(scene.run.folder / "process.json", scene.run.read_json("process.json") | {"boot_id": "another"})
    scene.expect("crashed", "killed", "the machine restarted while the run was active")


def workers_of_a_trainer_left(scene: Scene) -> None:
    """One in its session, one in another, both deaf: the runner ends them."""
    scene.kill(scene.trainer)
    scene.expect("failed", words="signal 9 (SIGKILL)")
    scene.check(all(is_gone(pid) for pid in scene.children), "worker processes outlived the record of the end")


def workers_of_a_run_left(scene: Scene) -> None:
    """With their runner killed nobody ends them until a slot is wanted."""
    scene.kill(scene.runner, scene.trainer)
    scene.expect("crashed", "killed", "the run's processes were killed")
    scene.check(not any(is_gone(pid) for pid in scene.children), "the trial left no worker processes")
    scene.resume()
    scene.check(all(is_gone(pid) for pid in scene.children), "worker processes are left after the next start")


FAULTS: dict[Callable[[Scene], None], str] = {  # and what the training process does
    trainer_killed: "wait",
    trainer_told_to_end: "wait",
    trainer_breaks_down: "wait",
    runner_killed: "wait",
    both_killed: "wait",
    server_killed: "wait",
    trainer_hangs: "hang",
    runner_is_a_zombie: "wait",
    pid_is_reused: "wait",
    machine_restarted: "wait",
    workers_of_a_trainer_left: "children",
    workers_of_a_run_left: "children",
}
LAUNCHERS = {server_killed: "careful", runner_is_a_zombie: "careless"}  # servers other than the process of the trials


def suffer(folder: Path, fault: Callable[[Scene], None]) -> Scene:
    """One trial: a run at work, the fault, what is shown, and that no process is left."""
    with at_work(folder, FAULTS[fault], LAUNCHERS.get(fault, "")) as scene:
        fault(scene)
        scene.check(until(lambda: not left_of(scene.run)), f"processes are left: {left_of(scene.run)}")
    return scene


@contextmanager
def at_work(folder: Path, do: str, server: str = "") -> Iterator[Scene]:
    """A run whose training process is at its work. server: of which sort the server is; "" for this process."""
    scene = Scene(create_run(folder.resolve() / "runs", configure({"device": "cpu"})))
    write_json(scene.run.folder / "plan.json", {"do": do})
    os.environ["LPS_STOP_GRACE"] = str(GRACE_S)
    try:
        if server:
            command = [sys.executable, "-c", LAUNCHER, server, str(scene.run.folder), *TRAINER]
            scene.beside.append(subprocess.Popen(command, cwd=ROOT))
        else:
            launcher.launch(scene.run, TRAINER)
        ready = scene.run.folder / ("children.txt" if do == "children" else "log.txt")
        until(lambda: ready.exists() and ready.stat().st_size and scene.trainer)  # the runner may be slower to write
        scene.check(scene.run.state().name == "running", f"{scene.run.state()} at work")
        yield scene
    finally:
        del os.environ["LPS_STOP_GRACE"]
        launcher.stop(scene.run, kill=True)
        until(lambda: not scene.run.state().is_alive)
        for process in scene.beside:
            end(process)


def end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
