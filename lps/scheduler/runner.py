"""The parent of one training process: passes stops on, limits the log, and records how the attempt ended.

    python -m lps.scheduler.runner FOLDER --attempt N --slot NAME --gpus UUID,UUID --locks RUN SLOT... -- TRAINER...

Started by `lps.scheduler.launcher` (in a job of a cluster lps.scheduler.cluster_attempt takes its place) in a session
of its own, with the locks of the run and of its slots as open descriptors. The run is alive while the runner lives; if
the runner dies in any way, the kernel ends the training process and frees the locks. At the end it ends all processes
that the training process left behind, writes exit.json, frees the locks, and starts the next queued run, because no
browser may be open. Standard library only.
"""

import argparse
import contextlib
import errno
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from lps.errors import UserError
from lps.files import disk
from lps.files.atomic import clean_line, remove_abandoned, write_json, write_whole
from lps.files.locks import boot_id, is_file_at, is_missing
from lps.machine import memory
from lps.machine.processes import (
    become_subreaper,
    die_with_parent,
    end_descendants,
    prefer_as_victim,
    start_ticks,
    wake,
)
from lps.scheduler import launcher, notify_hook
from lps.scheduler.log_file import Log
from lps.scheduler.queue import PREEMPTED
from lps.store.events import end_of_events, read_last_event
from lps.store.runs import Run

POLL_S = 0.3
_RESERVE, _RESERVED = "reserve", 1 << 16  # file and bytes: given up where a full disk leaves no space for exit.json
_DISK_FAILURE = re.compile(r"^(disk_full|io_error): (.+)\n?\Z", re.MULTILINE)  # the last line that a trainer printed
_FAULT_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)  # of its own fault
# parts of a run's folder that stay, once they exist
_LASTING_FILES = ("config.json", "process.json", "events.jsonl", "checkpoints", "snapshots")
_TRACEBACK = "Traceback (most recent call last):"


def main(arguments: list[str]) -> int:
    """Carry out one attempt; return the exit code: 0 if exit.json was written, else 1."""
    separator = arguments.index("--")
    if "--token" in arguments[:separator]:  # a job submitted by a version in which this file ran jobs
        os.execv(sys.executable, [sys.executable, "-m", "lps.scheduler.cluster_attempt", *arguments])
    parser = argparse.ArgumentParser(prog="python -m lps.scheduler.runner")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--slot", default="")
    parser.add_argument("--gpus", default="")
    parser.add_argument("--locks", type=int, nargs="+", required=True)
    options = parser.parse_args(arguments[:separator])
    trainer = arguments[separator + 1 :]
    os.umask(0o077)
    for lock in options.locks:
        os.set_inheritable(lock, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    attempt = Attempt(Run(options.folder), options.attempt, options.slot, options.gpus, options.locks[0], trainer)
    signal.signal(signal.SIGTERM, attempt.on_sigterm)
    recorded = attempt.carry_out()
    for lock in options.locks:
        os.close(lock)
    # An attempt that could not even begin would be started again and again; a machine that shuts down starts nothing.
    if attempt.run.waiting_attempt() != attempt.number and not attempt.terminated:
        with contextlib.suppress(UserError, OSError):
            launcher.dispatch(options.folder.parent, trainer)
    notify_hook.notify_run_end(options.folder)
    return 0 if recorded else 1


@dataclass
class Attempt:
    """One attempt of a run, from its first record to its last."""

    run: Run
    number: int
    slot: str
    gpus: str
    lock: int
    trainer: list[str]
    process: subprocess.Popen = field(init=False)
    log: Log = field(init=False)
    terminated: bool = False  # this runner itself was asked to end
    stopped_at: float | None = None  # monotonic seconds; None before a stop was passed on
    kill_reason: str = ""  # why the training process was killed
    lasting: set[str] = field(default_factory=set)  # those of `_LASTING_FILES` that have existed

    def on_sigterm(self, number, frame) -> None:
        self.terminated = True

    def carry_out(self) -> bool:
        """Train and record the end. False if nothing was recorded: folder removed, disk full, or not started."""
        if self.terminated and not self._is_asked_to_end():
            return False
        try:
            if self._requested_action() in ("stop", "kill"):
                record_fields = {"state": "stopped", "reason": "cancelled before it started"}
            else:
                remove_abandoned(self.run.folder)
                self._record_start(None)
                write_whole(self.run.folder / _RESERVE, os.urandom(_RESERVED))
                record_fields = self._train()
        except Exception as error:  # the output of a runner is not shown anywhere, so any error goes into the record
            record_fields = {"state": "failed", **_runner_failure(error)}
        finally:
            end_descendants()
        record = {"kind": "", "code": None, "signal": None, "forced": bool(self.kill_reason)}
        record_fields = self.settle(record | record_fields)
        return self._write_record(record_fields)

    def _write_record(self, record: dict) -> bool:
        """Write exit.json, on a full disk into the reserved space. False if it cannot be written."""
        for _ in range(2):
            try:
                write_json(self.run.folder / "exit.json", {"attempt": self.number} | record | {"time": time.time()})
            except OSError:
                disk.remove(self.run.folder / _RESERVE)
                continue
            disk.remove(self.run.folder / _RESERVE)
            return True
        return False

    def settle(self, record: dict) -> dict:
        """Complete the record before it is written; overridden for jobs of a cluster."""
        return record

    def _train(self) -> dict:
        """Start the training process, wait for its end, and return how it ended."""
        event_offset = end_of_events(self.run.events)
        self.log = Log(self.run.log)
        if self.number > 1:
            self.log.write(f"--- attempt {self.number}, {time.strftime('%Y-%m-%d %H:%M:%S')} ---\n".encode())
            self.log.recent = b""
        killed_before = memory.count_oom_kills()
        self.process = self._spawn()
        try:
            self._record_start(self.process.pid)
            self._watch()
        finally:
            self.process.kill()
            self.process.wait()
            end_descendants(self.process.pid)
            while not self.process.stdout.closed and self._read_output():
                pass
            self.process.stdout.close()
            self.log.close()
        return classify(
            self.process.returncode,
            read_last_event(self.run.events, event_offset),
            self.log.recent.decode("utf-8", "replace"),
            # A cluster signals all processes of a job, and training may end before the signal reaches this process.
            stop_asked=self.stopped_at is not None or self.terminated,
            kill_reason=self.kill_reason,
            is_external=not self._is_asked_to_end(),
            memory_ran_out=None if killed_before is None else memory.count_oom_kills() != killed_before,
        )

    def _spawn(self) -> subprocess.Popen:
        environment = os.environ | {"LPS_RUN": str(self.run.folder), "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
        if self.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpus
        process = subprocess.Popen(
            [*self.trainer, str(self.run.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            env=environment,
            preexec_fn=die_with_parent(),
        )
        os.set_blocking(process.stdout.fileno(), False)
        prefer_as_victim(process.pid)
        return process

    def _watch(self) -> None:
        """Copy the output of the training process and poll for requests every `POLL_S` seconds until it ends."""
        next_check, hook = 0.0, notify_hook.NotifyHook(self.run.folder, self.run.events)
        while self.process.poll() is None:
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + POLL_S
                self._handle_requests()
                hook.check()
            self._copy_output()

    def _copy_output(self) -> None:
        """Read one piece of output, or wait `POLL_S` seconds."""
        if self.process.stdout.closed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_S)
        elif select.select([self.process.stdout], [], [], POLL_S)[0]:
            self._read_output()

    def _read_output(self) -> bool:
        """Move at most 64 KiB from the pipe to the log; False if the pipe is empty or closed."""
        data = self.process.stdout.read(1 << 16)
        if data:
            self.log.write(data)
        elif data == b"":
            self.process.stdout.close()
        return bool(data)

    def _handle_requests(self) -> None:
        """Handle a stop request; kill at once on request, or if the folder is gone."""
        action = self._requested_action()
        if not self._is_whole():
            self._kill("the run's folder or a part of it was removed or moved during the run")
        elif action == "kill":
            self._kill("ended by request without a checkpoint of the last steps")
        elif action == "stop":
            self._forward_stop()

    def _forward_stop(self) -> None:
        """Send SIGTERM once, resume suspended processes, and kill after the grace time."""
        if self.stopped_at is None:
            self.stopped_at = time.monotonic()
            self.process.send_signal(signal.SIGTERM)
        wake(self.process.pid)
        grace = self.run.grace_s()
        if time.monotonic() >= self.stopped_at + grace:
            self._kill(f"did not stop within {grace:g} s and was killed")

    def _is_whole(self) -> bool:
        """Return whether the folder still has all its lasting files.

        Deleting it while files are being written may fail halfway, with the lock file still there.
        """
        present = {name for name in _LASTING_FILES if not is_missing(self.run.folder / name)}
        self.lasting |= present
        return present == self.lasting and is_file_at(self.lock, self.run.lock)

    def _requested_action(self) -> str:
        """Return the action that `want.json` requests from this attempt: run, stop or kill."""
        if self._is_asked_to_end():
            return self.run.desired().want
        return "stop" if self.terminated else "run"

    def _is_asked_to_end(self) -> bool:
        """Return whether a user asked this attempt to end (not an external signal)."""
        desired = self.run.desired()
        return desired.attempt == self.number and desired.want in ("stop", "kill")

    def _kill(self, reason: str) -> None:
        self.kill_reason = reason
        self.process.kill()

    def _record_start(self, trainer_pid: int | None) -> None:
        """Write process.json; the attempt has then begun. trainer_pid: None before it exists."""
        record = {"attempt": self.number, "host": socket.gethostname(), "boot_id": boot_id(), "runner_pid": os.getpid()}
        process_facts = {"runner_ticks": start_ticks(os.getpid()), "trainer_pid": trainer_pid, "slot": self.slot}
        write_json(self.run.folder / "process.json", record | process_facts | {"started": time.time()})


def _runner_failure(error: Exception) -> dict:
    """Return kind and reason of an attempt that the runner itself could not carry out."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return {"kind": "disk_full", "reason": "no space left for the run; free some space and resume"}
    kind = "io_error" if number in (errno.EIO, errno.EROFS, errno.ESTALE) else "bug"
    return {"kind": kind, "reason": clean_line(f"the runner stopped: {error}", 500)}


def classify(
    code: int,
    last_event: dict | None,
    output: str,
    *,
    stop_asked: bool = False,
    kill_reason: str = "",
    is_external: bool = False,
    memory_ran_out: bool | None = None,
) -> dict:
    """Return how an attempt ended: state, kind, reason, code and signal, as in exit.json.

    code: exit code of the training process as in `subprocess`, -n for signal n. last_event: None without events.
    output: the end of what it printed. stop_asked: whether it was sent SIGTERM. kill_reason: why it was sent SIGKILL,
    "" if it was not. is_external: whether no user asked for its end, so a stop came from an external signal.
    memory_ran_out: whether the kernel killed processes because memory ran out, None if the kernel does not tell.
    """
    event = last_event["kind"] if last_event else ""
    signal_number = -code if code < 0 else None
    outcome = {
        "state": "failed",
        "kind": "",
        "reason": "",
        "code": None if signal_number else code,
        "signal": signal_number,
    }
    was_ended = kill_reason or (stop_asked and code == -signal.SIGTERM)  # after its last record
    if event == "finish" and (code == 0 or was_ended):
        return outcome | {"state": "finished"}
    if event == "fail":
        reason = clean_line(last_event.get("reason") or "no reason was given", 500)
        return outcome | {"kind": clean_line(last_event.get("failure") or "bug"), "reason": reason}
    kind, cause = (PREEMPTED, "ended by a signal") if is_external else ("", "stopped by request")
    if kill_reason or (event == "stop" and code == 0):
        is_requested = stop_asked or not kill_reason
        return outcome | {"state": "stopped", "kind": kind if is_requested else "", "reason": kill_reason or cause}
    if stop_asked and code in (0, -signal.SIGTERM):
        return outcome | {"state": "stopped", "kind": kind, "reason": f"{cause} before training began"}
    if signal_number:
        is_memory_kill = signal_number == signal.SIGKILL and memory_ran_out
        cause_fields = {
            "kind": "out_of_memory" if is_memory_kill else "killed",
            "reason": _signal_in_words(signal_number, memory_ran_out),
        }
        return outcome | cause_fields
    if code == 0:
        return outcome | {"kind": "bug", "reason": "the training process ended without a result (exit code 0)"}
    if match := _DISK_FAILURE.search(output):  # it could not even write an event
        return outcome | {"kind": match[1], "reason": clean_line(match[2], 500)}
    message = last_error(output) or f"the training process ended with exit code {code} without a message"
    return outcome | {"kind": "config" if code == 2 else "bug", "reason": message}


def _signal_in_words(number: int, memory_ran_out: bool | None) -> str:
    """Describe a signal and its most likely cause. memory_ran_out: as in `classify`."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    cause = "a user or the system ended it"
    if number in _FAULT_SIGNALS:
        cause = "most likely a fault in a library or driver"
    elif number == signal.SIGKILL and memory_ran_out:
        cause = "the machine ran out of memory, or the run exceeded its memory limit"
    elif number == signal.SIGKILL and memory_ran_out is None:
        cause = "most likely the machine ran out of memory"
    return f"the training process was killed by signal {number} ({name}); {cause}"


def last_error(output: str) -> str:
    """Return the message of the last traceback in `output`, else its last line; "" for no output."""
    _, marker, traceback_text = output.rpartition(_TRACEBACK)
    lines = [line for line in (traceback_text if marker else output).splitlines() if line.strip()]
    messages = [line for line in lines if not line[0].isspace()] if marker else lines[-1:]
    return clean_line(messages[0], 500) if messages else ""


if __name__ == "__main__":
    become_subreaper()
    sys.exit(main(sys.argv[1:]))
