"""The queue: which runs wait, in which order, what holds them back, and when a crashed one is tried again.

It is no thing of its own but what the wishes of all runs (`want.json`, lps.store.wishes) add up to, and one file for
all of them (`.queue.json`): whether it is paused, and how many runs the processor takes at a time. Who starts runs
(lps.running.launcher) and who changes their order take the same kernel lock in turn, so a paused queue starts nothing
from then on. What runs goes on. Earlier versions could hold a single run: such a run stays in the line, but is not
started before somebody puts it first or retries it.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lps.errors import Refusal, shorten
from lps.files import versions
from lps.files.atomic import clean_line, looks, refused, write_json
from lps.files.locks import claim, is_held
from lps.store.run_folders import list_runs
from lps.store.runs import Run, State
from lps.store.wishes import MOST_PRIORITY, Wish, number, whole

TURN_PATIENCE_S = 10.0
SWITCH = ".queue.json"
_STANDING_FILES = ("want.json", "process.json", "exit.json")  # say whether a run waits; a new version is a new file
PREEMPTED = "preempted"  # the kind of a run that a signal from outside ended
MOST_RETRIES = 3
MOST_CPU_SLOTS = 1024
_RETRY_AFTER_S = 30.0  # before the first retry, then 2 and 8 minutes; LPS_RETRY_S replaces it
_LONGEST_WAIT_S = 86_400.0
_NEXT_S = 1e-6  # between the orders of a run and the next one: less than between two wishes

_known: dict[str, tuple[tuple, "_QueuePlace"]] = {}  # by folder: what its files said, and how they looked then
_MOST_KNOWN = 20_000


@dataclass(frozen=True)
class Switch:
    """Whether the whole queue is paused, since when (unix s), and what is wrong with the file that says so.

    cpu_slots: how many runs the processor may train at a time, None where nobody has said.
    """

    paused: bool = False
    since: float = 0.0
    problem: str = ""
    cpu_slots: int | None = None


@dataclass(frozen=True)
class _QueuePlace:
    """What the files of a run say about its place in the queue, whatever its lock says.

    attempt: the one that waits, 0 where none does. retriable: it may come to be tried again by itself. ended: how the
    attempt that was asked for ended, by its record; "" where there is none (it waits, is alive, or crashed).
    """

    wish: Wish
    attempt: int = 0
    retriable: bool = False
    ended: str = ""


# ---------------------------------------------------------------------------------------------------- who waits


def waiting(root: Path) -> list[Run]:
    """The runs that wait for a slot, the next one first: by priority, then in the order in which they were asked for.

    Held ones and those that wait for their next try keep their place among them.
    """
    return [run for run, _ in line(root)]


def position(run: Run) -> int | None:
    """How many runs would start before this one; None where it does not wait."""
    before = 0
    for other, wish in line(run.root):
        if other.id == run.id:
            return before
        before += not wish.held
    return None


def startable(root: Path, now: float) -> list[Run]:
    """The waiting runs that nothing but a slot is missing for."""
    return [run for run, wish in line(root) if not wish.held and not is_early(wish, now)]


def is_early(wish: Wish, now: float) -> bool:
    """Whether it is to wait for its next try; a time that no back-off explains is one of another clock."""
    return now < wish.not_before <= now + _LONGEST_WAIT_S


def has_future(root: Path) -> bool:
    """Whether something may have to be started later on, if nobody launches, ends or looks at a run meanwhile."""
    if read_switch(root).paused:
        return False
    for run, standing in _standings(root):
        if standing.attempt and not standing.wish.held and not is_held(run.lock) and run.config_if_readable():
            return True
        if standing.retriable and (is_held(run.lock) or is_due(run)):
            return True
    return False


def unfinished(root: Path) -> list[Run]:
    """The runs that somebody has asked for and that neither wait nor have ended by a record: alive, or crashed.

    Those that a signal from outside ended are among them, since their work is not done either.
    """
    found = []
    for run, standing in _standings(root):
        if (standing.attempt and is_held(run.lock)) or (not standing.attempt and standing.ended in ("", PREEMPTED)):
            found.append(run)
    return found


def line(root: Path) -> list[tuple[Run, Wish]]:
    """The runs that wait with their wishes, as `waiting` has them."""
    found = [(run, standing.wish) for run, standing in _standings(root) if standing.attempt and not is_held(run.lock)]
    return sorted(found, key=lambda item: (-item[1].priority, item[1].order, item[0].id))


def _standings(root: Path) -> Iterator[tuple[Run, _QueuePlace]]:
    """Every run that somebody has asked for. Files that look as they did the last time are not read again."""
    if len(_known) > _MOST_KNOWN:
        _known.clear()
    for run in list_runs(Path(root)):
        present = tuple(looks(f"{run.folder}/{name}") for name in _STANDING_FILES)
        if present[0] is None:
            continue
        key = str(run.folder)
        kept = _known.get(key)
        if kept is None or kept[0] != present:
            # Looked at first and read then: what changes in between is read again the next time.
            kept = _known[key] = present, _read_standing(run)
        yield run, kept[1]


def _read_standing(run: Run) -> _QueuePlace:
    wish = run.wish()
    ended = run.read_json("exit.json")
    is_over = whole(ended.get("attempt")) >= wish.attempt
    is_preempted = _is_preempted(ended.get("state"), ended.get("kind"))
    how = "" if not is_over else PREEMPTED if is_preempted else clean_line(ended.get("state") or "")
    return _QueuePlace(wish, run.waiting_attempt(), _may_retry(wish) and how in ("", PREEMPTED), how)


# ---------------------------------------------------------------------------------------------------- ask


def ask(
    run: Run,
    want: str,
    attempt: int,
    *,
    retries: int | None = None,
    priority: int | None = None,
    after: float = 0.0,
    on: str | None = None,
) -> Wish:
    """Write a wish; the caller holds the lock on the run's folder. What is not given stays as it was.

    after: the order of a run that was asked for just before this one.
    """
    before = run.wish()
    now = max(round(time.time(), 6), after + _NEXT_S)
    wish = Wish(
        want,
        attempt,
        now,
        priority=before.priority if priority is None else check_priority(priority),
        order=now,
        retries=before.retries if retries is None else check_retries(retries),
        on=before.on if on is None else on,
    )
    write(run, wish)
    return wish


def write(run: Run, wish: Wish) -> None:
    run.keep_damaged("want.json")
    write_json(run.folder / "want.json", wish.to_json())


def check_retries(number: int) -> int:
    if type(number) is not int or not 0 <= number <= MOST_RETRIES:
        raise Refusal("retries", f"{shorten(str(number))} is not a whole number from 0 to {MOST_RETRIES}")
    return number


def check_priority(number: int) -> int:
    if type(number) is not int or abs(number) > MOST_PRIORITY:
        expected = f"a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}; higher ones go first"
        raise Refusal("priority", f"{shorten(str(number))} is not {expected}")
    return number


# ---------------------------------------------------------------------------------------------------- change


@contextmanager
def turn(root: Path) -> Iterator[None]:
    """The queue for oneself: nobody starts runs or changes their order inside the `with`. Raises `Refusal`."""
    with refused("queue", f"{shorten(str(root))} cannot be written to"):
        lock = claim(Path(root) / ".sched.lock", TURN_PATIENCE_S)
    if lock is None:
        reason = (
            "is busy; try again in a moment" if Path(root).is_dir() else f"there are no runs in {shorten(str(root))}"
        )
        raise Refusal("queue", reason)
    try:
        yield
    finally:
        os.close(lock)


def retry_now(run: Run) -> None:
    """Let a run that waits for its next try start as soon as a slot is free; also one that an earlier version held."""
    _change(run, held=False, not_before=0.0)


def set_priority(run: Run, number: int) -> None:
    """A run of higher priority starts before all others that wait."""
    _change(run, priority=check_priority(number))


def put_first(run: Run) -> None:
    """Start a waiting run before all others. It takes over the highest priority among them."""
    run = _resolved(run)
    with turn(run.root):
        found = line(run.root)
        if run.id not in [other.id for other, _ in found]:
            raise _not_waiting(run)
        wish, first = run.wish(), found[0][1]
        order = wish.order if found[0][0].id == run.id else first.order - 1.0
        _rewrite(run, priority=first.priority, order=order, held=False, not_before=0.0)


def set_paused(root: Path, paused: bool) -> None:
    """Pause the whole queue, or let it go on; runs that run do so either way."""
    with turn(root):
        switch = read_switch(root)
        if switch.paused != paused or switch.problem:
            _write_switch(root, replace(switch, paused=paused, since=round(time.time(), 3)))


def set_cpu_slots(root: Path, number: int) -> None:
    """How many runs the processor may train at a time from now on; what runs goes on where it is fewer."""
    check_cpu_slots(number)
    with suppress(OSError):  # said by what follows
        Path(root).mkdir(parents=True, exist_ok=True, mode=0o700)
    with turn(root):
        switch = read_switch(root)
        if switch.cpu_slots != number or switch.problem:
            _write_switch(root, replace(switch, cpu_slots=number))


def check_cpu_slots(number: int, name: str = "slots") -> int:
    if type(number) is not int or not 1 <= number <= MOST_CPU_SLOTS:
        raise Refusal(name, f"{shorten(number)} is not a whole number from 1 to {MOST_CPU_SLOTS}")
    return number


def _write_switch(root: Path, switch: Switch) -> None:
    """The caller has the turn. Raises `Refusal` where a newer program's file is there, which stays as it is."""
    version = Run(Path(root)).read_json(SWITCH).get("version")
    if versions.is_newer("queue", version):
        versions.check("queue", version, SWITCH)
    values = {"paused": switch.paused, "time": switch.since, "cpu_slots": switch.cpu_slots}
    write_json(Path(root) / SWITCH, versions.stamped("queue", values))


def read_switch(root: Path) -> Switch:
    """A file that cannot be understood pauses nothing: one that a person finds strange must not stop everything."""
    path = Path(root) / SWITCH
    if not os.path.lexists(path):
        return Switch()
    stored = Run(Path(root)).read_json(SWITCH)
    since, slots = stored.get("time"), stored.get("cpu_slots")
    damaged = Switch(problem=f"{SWITCH} is damaged and was left out of account: the queue goes on")
    if type(stored.get("paused")) is not bool:
        return damaged
    if versions.is_newer("queue", stored.get("version")):
        return Switch(problem=f"{SWITCH} was made by a newer LPS Studio and was left out of account: the queue goes on")
    if slots is not None and not (type(slots) is int and 1 <= slots <= MOST_CPU_SLOTS):
        return damaged
    return Switch(stored["paused"], number(since, 0.0), cpu_slots=slots)


def _change(run: Run, **changes) -> None:
    run = _resolved(run)
    with turn(run.root):
        _rewrite(run, **changes)


def _rewrite(run: Run, **changes) -> None:
    """Change the wish of a run that waits. The caller has the turn, so that nobody starts it meanwhile."""
    with run.changing():
        if not run.waiting_attempt() or is_held(run.lock):
            raise _not_waiting(run)
        wish = run.wish()
        if (changed := replace(wish, **changes)) != wish:
            write(run, changed)


def _not_waiting(run: Run) -> Refusal:
    return Refusal("run", f"{run.id} is {standing_in_words(run)}; only runs that wait have a place in the queue")


def standing_in_words(run: Run) -> str:
    """The state, told apart from "queued" where nobody has asked for the run."""
    state = run.state()
    return "not launched" if state.name == "queued" and not run.waiting_attempt() else state.name


def _resolved(run: Run) -> Run:
    run = Run(run.folder.resolve())
    run.check_writable()
    return run


# ---------------------------------------------------------------------------------------------------- try again


def is_due(run: Run, state: State | None = None) -> bool:
    """Whether a run that is over is to be tried again by itself.

    Only where its processes vanished, or where a signal from outside ended it: that may go well the next time. What
    the training process itself reported, or ran out of memory for, would happen again; what a person stopped stays so.
    """
    state, wish = state or run.state(), run.wish()
    if not _may_retry(wish) or wish.attempt != state.attempt:
        return False
    return _is_preempted(state.name, state.kind) or state.name == "crashed"


def _may_retry(wish: Wish) -> bool:
    """A cluster has its own way of doing it."""
    return wish.want == "run" and not wish.on and wish.retried < min(wish.retries, MOST_RETRIES)


def ask_again(root: Path, now: float) -> list[Run]:
    """Put the runs that are due for another try back into the queue, in their old place; the caller has the turn."""
    asked = []
    for run, standing in list(_standings(root)):
        if not standing.retriable or standing.attempt:
            continue
        with suppress(Refusal, OSError), run.changing():  # deleted meanwhile, or the disk is full
            if is_due(run):
                wish = run.wish()
                number = wish.retried + 1
                start = round(now + retry_after_s(number), 3)
                write(run, replace(wish, attempt=wish.attempt + 1, time=now, retried=number, not_before=start))
                asked.append(run)
    return asked


def _is_preempted(state: str | None, kind: str | None) -> bool:
    return state == "stopped" and kind == PREEMPTED


def retry_after_s(number: int) -> float:
    """Seconds of waiting before the `number`-th retry: four times as long each time, a day at most."""
    try:
        first = max(0.0, float(os.environ["LPS_RETRY_S"]))
    except (KeyError, ValueError):
        first = _RETRY_AFTER_S
    return min(first * 4 ** (number - 1), _LONGEST_WAIT_S)
