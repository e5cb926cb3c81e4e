"""The queue: which runs wait, in which order they start, and when a crashed run is tried again.

The queue has no list of its own. Each run's `want.json` (lps.store.desired_state) holds its position. `.queue.json`
holds whether the queue is paused and how many runs the processor trains at a time. The launcher
(lps.scheduler.launcher) and all functions that change the order take the same kernel lock, so a paused queue starts no
runs; active runs continue. Earlier versions could hold a single run: it stays in the queue, but does not start until a
user puts it first or retries it.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lps.errors import UserError, check_whole, shorten
from lps.files import versions
from lps.files.atomic import as_user_error, clean_line, read_json, write_json
from lps.files.folder_cache import FolderCache
from lps.files.locks import is_held, try_lock
from lps.store.desired_state import MAX_PRIORITY, DesiredState, positive_integer, stored_number
from lps.store.run_folders import list_runs
from lps.store.runs import STATE_FILES, Run, State, settled_states

TURN_PATIENCE_S = 10.0
SWITCH = ".queue.json"
PREEMPTED = "preempted"  # the kind of ending of a run that a signal from outside stopped
MAX_RETRIES = 3
MAX_CPU_SLOTS = 1024
_RETRY_AFTER_S = 30.0  # before the first retry, then 2 and 8 minutes; LPS_RETRY_S replaces it
_LONGEST_WAIT_S = 86_400.0
_NEXT_S = 1e-6  # between the orders of two runs that are asked for together


@dataclass(frozen=True)
class Switch:
    """Whether the queue is paused, since when (unix seconds), and any problem with the file that stores it.

    cpu_slots: how many runs the processor may train at a time; None if it was never set.
    """

    paused: bool = False
    since: float = 0.0
    problem: str = ""
    cpu_slots: int | None = None


@dataclass(frozen=True)
class _Entry:
    """The position of a run in the queue, according to its files; its lock is not checked.

    attempt: the waiting attempt, 0 if none waits. retriable: it may be retried. outcome: the recorded end of the
    requested attempt; "" if none is recorded (it waits, is active, or crashed).
    """

    desired: DesiredState
    attempt: int = 0
    retriable: bool = False
    outcome: str = ""


# ---------------------------------------------------------------------------------------------------- who waits


def waiting_runs(root: Path) -> list[tuple[Run, DesiredState]]:
    """Return the runs that wait for a slot, in the order in which they start: by priority, then by order.

    Held runs and runs that wait for their next retry are included.
    """
    entries = [(run, entry.desired) for run, entry in _entries(root) if entry.attempt and not is_held(run.lock)]
    return sorted(entries, key=lambda item: (-item[1].priority, item[1].order, item[0].id))


def queue_position(run: Run) -> int | None:
    """Return how many runs start before this one; None if it does not wait."""
    position = 0
    for queued_run, desired in waiting_runs(run.root):
        if queued_run.id == run.id:
            return position
        position += not desired.held
    return None


def startable_runs(root: Path, now: float) -> list[Run]:
    """Return the waiting runs that need only a free slot."""
    return [run for run, desired in waiting_runs(root) if not desired.held and not is_early(desired, now)]


def is_early(desired: DesiredState, now: float) -> bool:
    """Return whether a run waits for its next retry. A time more than a day ahead (a wrong clock) is ignored."""
    return now < desired.not_before <= now + _LONGEST_WAIT_S


def has_pending(root: Path) -> bool:
    """Return whether a run may have to be started later, so that the queue needs a daemon."""
    if read_switch(root).paused:
        return False
    for run, entry in _entries(root):
        if entry.attempt and not entry.desired.held and not is_held(run.lock) and run.config_if_readable():
            return True
        if entry.retriable and (is_held(run.lock) or is_due(run)):
            return True
    return False


def unfinished_runs(root: Path) -> list[Run]:
    """Return the requested runs that neither wait nor ended: running, crashed, or preempted."""
    runs = []
    for run, entry in _entries(root):
        if (entry.attempt and is_held(run.lock)) or (not entry.attempt and entry.outcome in ("", PREEMPTED)):
            runs.append(run)
    return runs


def _entries(root: Path) -> Iterator[tuple[Run, _Entry]]:
    """Yield every requested run. Files that have not changed since the last call are not read again."""
    for run in list_runs(Path(root)):
        entry = _entries_by_folder.value(str(run.folder), lambda stamp, run=run: _read_entry(run, stamp))
        if entry is not None:
            yield run, entry


_entries_by_folder: FolderCache[_Entry | None] = FolderCache(*STATE_FILES)


def _read_entry(run: Run, stamp: tuple | None) -> _Entry | None:
    """Read the entry of a run; None if the run was never requested. stamp: of its folder."""
    state = settled_states.known(str(run.folder), stamp)
    if state is not None and state.name != "crashed" and not _is_preempted(state.name, state.kind):
        return _Entry(DesiredState(), outcome=state.name)
    if not os.path.exists(f"{run.folder}/want.json"):
        return None
    desired, exit_record = run.desired(), run.read_json("exit.json")
    outcome, has_ended = "", positive_integer(exit_record.get("attempt")) >= desired.attempt
    if has_ended:
        is_preempted = _is_preempted(exit_record.get("state"), exit_record.get("kind"))
        outcome = PREEMPTED if is_preempted else clean_line(exit_record.get("state") or "")
    waiting_attempt = 0 if has_ended else run.waiting_attempt()  # which reads the files again
    return _Entry(desired, waiting_attempt, _may_retry(desired) and outcome in ("", PREEMPTED), outcome)


# ---------------------------------------------------------------------------------------------------- ask


def request_attempt(
    run: Run,
    want: str,
    attempt: int,
    *,
    retries: int | None = None,
    priority: int | None = None,
    last_order: float = 0.0,
    on: str | None = None,
) -> DesiredState:
    """Write `want.json`; the caller holds the lock on the run's folder. A value of None keeps the stored one.

    last_order: the order of the run that was requested just before this one.
    """
    stored = run.desired()
    now = max(round(time.time(), 6), last_order + _NEXT_S)
    desired = DesiredState(
        want,
        attempt,
        now,
        priority=stored.priority if priority is None else check_priority(priority),
        order=now,
        retries=stored.retries if retries is None else check_retries(retries),
        on=stored.on if on is None else on,
    )
    write_desired_state(run, desired)
    return desired


def write_desired_state(run: Run, desired: DesiredState) -> None:
    run.keep_damaged("want.json")
    write_json(run.folder / "want.json", desired.to_json())


def check_retries(number: int) -> int:
    return check_whole("retries", number, 0, MAX_RETRIES)


def check_priority(number: int) -> int:
    return check_whole("priority", number, -MAX_PRIORITY, MAX_PRIORITY, "; higher priorities start first")


def check_cpu_slots(number: int, name: str = "slots") -> int:
    return check_whole(name, number, 1, MAX_CPU_SLOTS)


# ---------------------------------------------------------------------------------------------------- change


@contextmanager
def lock_queue(root: Path) -> Iterator[None]:
    """Lock the queue: no other process starts runs or changes their order inside the `with`. Raises `UserError`."""
    with as_user_error("queue", f"{shorten(str(root))} cannot be written to"):
        lock = try_lock(Path(root) / ".sched.lock", TURN_PATIENCE_S)
    if lock is None:
        reason = (
            "is busy; try again in a moment" if Path(root).is_dir() else f"there are no runs in {shorten(str(root))}"
        )
        raise UserError("queue", reason)
    try:
        yield
    finally:
        os.close(lock)


def retry_now(run: Run) -> None:
    """Let a run that waits for its retry, or that an earlier version held, start as soon as a slot is free."""
    _change(run, lambda desired: replace(desired, held=False, not_before=0.0))


def set_priority(run: Run, number: int) -> None:
    """Set the priority of a waiting run; a higher priority starts first. Raises `UserError`."""
    check_priority(number)
    _change(run, lambda desired: replace(desired, priority=number))


def put_first(run: Run) -> None:
    """Start a waiting run before all others: give it the highest priority among them. Raises `UserError`."""
    run = Run(run.folder.resolve())

    def go_first(desired: DesiredState) -> DesiredState:
        head, ahead = next(iter(waiting_runs(run.root)), (run, desired))
        order = desired.order if head.id == run.id else ahead.order - 1.0
        return replace(desired, priority=ahead.priority, order=order, held=False, not_before=0.0)

    _change(run, go_first)


def set_paused(root: Path, paused: bool) -> None:
    """Pause or resume the queue; active runs continue in both cases."""
    with lock_queue(root):
        switch = read_switch(root)
        if switch.paused != paused or switch.problem:
            _write_switch(root, replace(switch, paused=paused, since=round(time.time(), 3)))


def set_cpu_slots(root: Path, number: int) -> None:
    """Set how many runs the processor may train at a time. Active runs continue, even if there are more."""
    check_cpu_slots(number)
    _store_cpu_slots(root, number)


def reset_cpu_slots(root: Path) -> None:
    """Let the processor train as many runs at a time as their threads leave cores for."""
    _store_cpu_slots(root, None)


def _store_cpu_slots(root: Path, number: int | None) -> None:
    with suppress(OSError):  # `lock_queue` reports it
        Path(root).mkdir(parents=True, exist_ok=True, mode=0o700)
    with lock_queue(root):
        switch = read_switch(root)
        if switch.cpu_slots != number or switch.problem:
            _write_switch(root, replace(switch, cpu_slots=number))


def _write_switch(root: Path, switch: Switch) -> None:
    """Write the switch; the caller holds the queue lock. Raises `UserError` if a newer version wrote the file."""
    version = read_json(Path(root) / SWITCH).get("version")
    if versions.is_newer("queue", version):
        versions.check_version("queue", version, SWITCH)
    values = {"paused": switch.paused, "time": switch.since, "cpu_slots": switch.cpu_slots}
    write_json(Path(root) / SWITCH, versions.with_version("queue", values))


def read_switch(root: Path) -> Switch:
    """Read the stored switch. An unreadable file does not pause the queue; `problem` describes the error."""
    path = Path(root) / SWITCH
    if not os.path.lexists(path):
        return Switch()
    stored = read_json(path)
    since, slots = stored.get("time"), stored.get("cpu_slots")
    damaged = Switch(problem=f"{SWITCH} is damaged and was ignored: the queue is not paused")
    if type(stored.get("paused")) is not bool:
        return damaged
    if versions.is_newer("queue", stored.get("version")):
        return Switch(problem=f"{SWITCH} was made by a newer LPS Studio and was ignored: the queue is not paused")
    if slots is not None and not (type(slots) is int and 1 <= slots <= MAX_CPU_SLOTS):
        return damaged
    return Switch(stored["paused"], stored_number(since, 0.0), cpu_slots=slots)


def _change(run: Run, edit: Callable[[DesiredState], DesiredState]) -> None:
    """Edit the `want.json` of a waiting run; the queue lock keeps it from starting meanwhile. Raises `UserError`."""
    run = Run(run.folder.resolve())
    run.check_writable()
    with lock_queue(run.root), run.changing():
        if not run.waiting_attempt() or is_held(run.lock):
            state = state_in_words(run)
            raise UserError("run", f"{run.id} is {state}; only waiting runs are in the queue")
        desired = run.desired()
        if (changed := edit(desired)) != desired:
            write_desired_state(run, changed)


def state_in_words(run: Run) -> str:
    """Return the name of the run's state; "not launched" if the run was never asked for."""
    state = run.state()
    return "not launched" if state.name == "queued" and not run.waiting_attempt() else state.name


# ---------------------------------------------------------------------------------------------------- try again


def is_due(run: Run, state: State | None = None) -> bool:
    """Return whether a run that is over will be retried automatically.

    True only if its processes vanished or an external signal ended it. An error that training reported, or a lack of
    memory, would occur again; a run that a user stopped stays stopped.
    """
    state, desired = state or run.state(), run.desired()
    if not _may_retry(desired) or desired.attempt != state.attempt:
        return False
    return _is_preempted(state.name, state.kind) or state.name == "crashed"


def _may_retry(desired: DesiredState) -> bool:
    """Return whether a retry is possible; a cluster retries its own runs."""
    return desired.want == "run" and not desired.on and desired.retried < min(desired.retries, MAX_RETRIES)


def request_retry(root: Path, now: float) -> list[Run]:
    """Put runs that are due for a retry back into the queue, in their old order; the caller holds the queue lock."""
    runs = []
    for run, entry in list(_entries(root)):
        if not entry.retriable or entry.attempt:
            continue
        with suppress(UserError, OSError), run.changing():  # deleted meanwhile, or the disk is full
            if is_due(run):
                desired = run.desired()
                number = desired.retried + 1
                start = round(now + retry_after_s(number), 3)
                write_desired_state(
                    run, replace(desired, attempt=desired.attempt + 1, time=now, retried=number, not_before=start)
                )
                runs.append(run)
    return runs


def _is_preempted(state: str | None, kind: str | None) -> bool:
    return state == "stopped" and kind == PREEMPTED


def retry_after_s(number: int) -> float:
    """Return the seconds before retry `number`: four times as long each time, at most a day."""
    try:
        first_s = max(0.0, float(os.environ["LPS_RETRY_S"]))
    except (KeyError, ValueError):
        first_s = _RETRY_AFTER_S
    return min(first_s * 4 ** (number - 1), _LONGEST_WAIT_S)
