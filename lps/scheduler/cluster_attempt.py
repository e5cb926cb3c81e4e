"""The runner inside a job of an executor: it finds its attempt, and an interruption puts the job back into the queue.

    python -m lps.scheduler.cluster_attempt FOLDER --token TOKEN -- TRAINER...

A job inherits no lock descriptors (see lps.scheduler.cluster_submit): the runner takes the run's lock on its own node.
An executor that reclaims the node sends SIGTERM first; the training process writes its checkpoint, the attempt is
recorded as preempted, and the same job goes on with the next attempt later. Standard library only.
"""

import argparse
import os
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from lps.cluster import executors
from lps.cluster.executors import Executor
from lps.cluster.jobs import JOB_FILE, BackendUnavailable
from lps.files.atomic import clean_line, write_json
from lps.files.locks import folder_lock, try_lock
from lps.machine.processes import become_subreaper
from lps.scheduler import notify_hook, queue
from lps.scheduler.runner import Attempt
from lps.store.runs import Run

_LOCK_PATIENCE_S = 60.0  # the previous runner may still be ending
_MAX_IDLE = 3  # interruptions in a row without a step in between, after which a run is not queued again


def _main(arguments: list[str]) -> int:
    separator = arguments.index("--")
    parser = argparse.ArgumentParser(prog="python -m lps.scheduler.cluster_attempt")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--token", required=True)
    options = parser.parse_args(arguments[:separator])
    os.umask(0o077)
    return _run_attempt(options.folder, options.token, arguments[separator + 1 :])


def _run_attempt(folder: Path, token: str, trainer: list[str]) -> int:
    """Do the runner's work in a job; return its exit code, which is also 0 if there is nothing to do."""
    run = Run(folder)
    entered = _enter(run, token)
    if entered is None:
        return 0
    number, lock = entered
    backend = executors.executor_named(run.desired().on)
    attempt = _JobAttempt(
        run, number, f"{backend.NAME}-{backend.own_job()}", "", lock, trainer, token=token, backend=backend
    )
    signal.signal(signal.SIGTERM, attempt.on_sigterm)
    recorded = attempt.carry_out()
    if attempt.terminated and not recorded:  # SIGTERM arrived before anything began
        attempt.needs_requeue = attempt.fate() == "going"
    attempt.requeue_job()
    os.close(lock)
    notify_hook.notify_run_end(folder)
    return 0 if recorded else 1


def _enter(run: Run, token: str) -> tuple[int, int] | None:
    """Return the number of this job's attempt and the run's lock; None if the run belongs to another job."""
    lock = try_lock(run.lock, _LOCK_PATIENCE_S)
    if lock is None:
        print(f"{run.id}: another process is working on this run", file=sys.stderr)
        return None
    with folder_lock(run.folder):
        desired, begun = run.desired(), run.begun_attempt()
        is_ours = desired.on in executors.EXECUTORS and run.read_json(JOB_FILE).get("token") == token
        if not is_ours or desired.attempt == begun == run.ended_attempt():
            print(f"{run.id}: nothing to do for this job", file=sys.stderr)
            os.close(lock)
            return None
        number = max(begun + 1, desired.attempt)
        if number != desired.attempt:  # the previous attempt left no record, as after a node failure
            queue.write_desired_state(run, replace(desired, attempt=number))
        return number, lock


@dataclass
class _JobAttempt(Attempt):
    """An attempt inside a job: a SIGTERM that no user asked for puts the job back into the queue."""

    token: str = ""
    backend: Executor | None = None
    needs_requeue: bool = False  # true if the executor does not requeue it

    def carry_out(self) -> bool:
        self._start_progress = self._progress()
        return super().carry_out()

    def settle(self, record: dict) -> dict:
        """Record an interruption as such, after asking for the run's next attempt."""
        if record["kind"] != queue.PREEMPTED:
            return record
        try:
            return self._interrupted(record)
        except OSError:  # no space for `want.json`: the record matters more
            return record

    def _interrupted(self, record: dict) -> dict:
        fate = self.fate()
        if fate == "ended":
            return record | {"kind": "", "reason": f"the job was cancelled in {self.backend.TITLE}"}
        idle = self._count_idle()
        if idle >= _MAX_IDLE:
            reason = f"interrupted {idle} times in a row before one training step was done; request a longer time limit"
            return record | {"reason": reason}
        # If the executor does not answer, the run's state follows from its later report about the job.
        self._request_next(idle)
        self.needs_requeue = fate == "going"
        return record | {"reason": f"interrupted by {self.backend.TITLE}; it continues from its checkpoint"}

    def fate(self) -> str:
        """Return what happens to the job after its SIGTERM, see `Executor.own_fate`."""
        # Every process of a job gets its signals, more than once: the next one must not kill this query.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return self.backend.own_fate()

    def requeue_job(self) -> None:
        """Requeue the job after the record is written, unless the executor does so."""
        if not self.needs_requeue:
            return
        try:
            self.backend.go_back()
        except BackendUnavailable as error:
            if self.fate() == "requeued":
                return
            reason = f"interrupted by {self.backend.TITLE} and not queued again ({error}); it can be resumed"
            reason = clean_line(reason, 500)
            with folder_lock(self.run.folder):
                if self._still_asks(self.number + 1):
                    write_json(self.run.folder / "exit.json", self.run.read_json("exit.json") | {"reason": reason})
                    queue.write_desired_state(self.run, replace(self.run.desired(), attempt=self.number))

    def _request_next(self, idle: int) -> None:
        with folder_lock(self.run.folder):
            if self._still_asks(self.number):
                write_json(self.run.folder / JOB_FILE, self.run.read_json(JOB_FILE) | {"idle": idle})
                queue.write_desired_state(self.run, replace(self.run.desired(), attempt=self.number + 1))

    def _still_asks(self, attempt: int) -> bool:
        """Return whether `want.json` still asks this job for the attempt; the caller holds its lock."""
        desired = self.run.desired()
        is_ours = desired.on == self.backend.NAME and self.run.read_json(JOB_FILE).get("token") == self.token
        return is_ours and desired.want == "run" and desired.attempt == attempt

    def _count_idle(self) -> int:
        """Return how many attempts in a row, this one included, took no step."""
        previous = self.run.read_json(JOB_FILE).get("idle")
        return (previous if type(previous) is int else 0) + 1 if self._progress() == self._start_progress else 0

    def _progress(self) -> tuple:
        now = self.run.read_json("progress.json")
        return tuple(str(now.get(key)) for key in ("phase", "epoch", "step"))


if __name__ == "__main__":
    become_subreaper()
    sys.exit(_main(sys.argv[1:]))
