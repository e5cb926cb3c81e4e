"""What runs on which slot, since when, and when the queue will be done, as far as finished runs tell.

Standard library only.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lps import costs, devices, launcher, queue
from lps.locks import is_held
from lps.parameters import ConfigError
from lps.runs import Run, State, list_runs
from lps.wishes import Wish

LONGEST_S = 1e9  # an estimate above it is none
ENDING_S = 5.0  # what comes after the last step, said and planned


@dataclass(frozen=True)
class Going:
    """A run that is alive: its state, the slots that it holds, since when (unix s; None: not begun), its share done.

    One on a cluster counts from the moment it was handed over, and has no slots here. left_s: seconds until it ends,
    None where nobody knows.
    """

    run: Run
    state: State
    slots: tuple[str, ...]
    since: float | None
    share: float | None
    left_s: float | None


@dataclass(frozen=True)
class Waiting:
    """A run that waits, with the seconds that it will take and the times at which it may start and end (unix s).

    seconds: None where nothing tells. start, end: None while it is held or the queue is paused; with `certain` false
    they are the earliest ones, since something before it is of unknown length.
    """

    run: Run
    wish: Wish
    seconds: float | None = None
    start: float | None = None
    end: float | None = None
    certain: bool = True


@dataclass(frozen=True)
class Occupancy:
    """One look at everything: what goes on, who waits in which order, and the switch of the whole queue.

    slots: names of all slots, with whether their lock is held. broken: runs whose processes vanished or were ended by
    a signal from outside, the newest first: they can be tried again. end: when the last run that is not held will be
    over, while the queue is paused the last one that runs; None where nothing goes on or is known; unknown: how many of
    those runs are of unknown length, so that the end is the earliest one.
    """

    slots: Mapping[str, bool]
    going: Sequence[Going]
    waiting: Sequence[Waiting]
    broken: Sequence[Run]
    switch: queue.Switch
    end: float | None
    unknown: int

    @property
    def held(self) -> int:
        return sum(item.wish.held for item in self.waiting)

    def on(self, slot: str) -> Going | None:
        """Who holds the slot, as far as the folders tell."""
        return next((item for item in self.going if slot in item.slots), None)


def look(root: Path, now: float | None = None, known: "Durations | None" = None) -> Occupancy:
    """known: what finished runs took, where the caller has asked for it before."""
    root, now = Path(root), time.time() if now is None else now
    known = Durations(root) if known is None else known
    alive, broken = _unfinished(root, now, known)
    names = [slot.name for slot in launcher.every_slot(root)]
    names += sorted({name for item in alive for name in item.slots} - set(names))
    slots = {name: is_held(root / ".slots" / f"{name}.lock") for name in names}
    switch = queue.read_switch(root)
    line, end, unknown = _plan(root, now, known, alive, names, switch.paused)
    return Occupancy(slots, alive, line, broken, switch, end, unknown)


def suggested_cpu_slots(found: Occupancy) -> int:
    """How many runs like those that wait or run fit beside each other on the processor."""
    return max(1, devices.available_cores() // _most_threads(found))


def _most_threads(found: Occupancy) -> int:
    """Threads of the run that takes most of them; all cores where none says less. Those for GPUs do not count."""
    cores, gpus = devices.available_cores(), devices.available_gpus()
    configs = filter(None, (_config(item.run) for item in [*found.going, *found.waiting] if not item.run.wish().on))
    return max((config.threads or cores for config in configs if config.device == "cpu" or not gpus), default=cores)


def suggestion_in_words(found: Occupancy) -> str:
    """ "Suggested: 4, since this machine has 8 cores and its runs take up to 2 (threads)." """
    number, threads, cores = suggested_cpu_slots(found), _most_threads(found), devices.available_cores()
    if threads < cores:
        return f"Suggested: {number}, since this machine has {cores} cores and its runs take up to {threads} (threads)."
    if cores == 1:
        return "Suggested: 1, since this machine has 1 core."
    return (
        f"Suggested: 1, since a run takes all {cores} cores here; with threads=1, {cores} runs fit beside each other."
    )


class Durations:
    """What a run takes, judged by finished ones and recordings as `costs.Known` does, for many looks."""

    def __init__(self, root: Path):
        recorded = [cost for _, cost in costs.recorded_costs()]
        self._known = costs.Known(costs.finished_costs(Path(root), with_bytes=False), recorded)

    def of(self, run: Run) -> float | None:
        """Seconds that the run usually takes; None where nothing tells, or its settings cannot be read."""
        config = _config(run)
        cost = None if config is None else self._known.of(config)
        return None if cost is None else cost.seconds


def _unfinished(root: Path, now: float, known: Durations) -> tuple[list[Going], list[Run]]:
    """The runs that are alive, the one that began first first, and those that broke off."""
    alive, broken = [], []
    asked = queue.unfinished(root)
    ids = {run.id for run in asked}
    for run in [*asked, *(run for run in list_runs(root) if run.id not in ids and is_held(run.lock))]:
        state = run.state()
        if state.is_alive or (state.name == "queued" and run.wish().on):
            alive.append(_look_at(run, state, now, known))
        elif state.name == "crashed" or state.kind == queue.PREEMPTED:
            broken.append(run)
    return sorted(alive, key=lambda item: (item.since or now, item.run.id)), broken


def _look_at(run: Run, state: State, now: float, known: Durations) -> Going:
    process, progress = run.read_json("process.json"), run.read_json("progress.json")
    if state.name == "starting" or process.get("attempt") != state.attempt:
        return Going(run, state, (), None, None, known.of(run))
    since, slot = _number(process.get("started")), process.get("slot")
    if since is not None and (_number(progress.get("time")) or 0) < since:
        progress = {}  # of the attempt before
    step, steps = _number(progress.get("step")), _number(progress.get("steps"))
    share = min(max(step / steps, 0.0), 1.0) if step is not None and steps else None
    is_phase_over = share == 1.0
    share = None if is_phase_over else share  # "100 %" beside the time of what follows would contradict it
    slots = tuple(name for name in slot.split(",") if name) if isinstance(slot, str) else ()
    left = _left(progress, now)
    if is_phase_over and progress.get("phase") == "train":
        left = ENDING_S
    if left is None:
        whole = known.of(run)
        left = None if whole is None or since is None else max(0.0, whole - max(0.0, now - since))
    return Going(run, state, slots, since, share, left)


def _left(progress: Mapping, now: float) -> float | None:
    """By the run's own pace; only the training phase knows when the run ends."""
    left, written = _number(progress.get("eta_s")), _number(progress.get("time"))
    if left is None or written is None or progress.get("phase") != "train" or not 0 <= left < LONGEST_S:
        return None
    return max(0.0, left - max(0.0, now - written))


def _plan(
    root: Path, now: float, known: Durations, alive: Sequence[Going], names: Sequence[str], is_paused: bool
) -> tuple[list[Waiting], float | None, int]:
    """Who waits with the times to expect, the end of all, and how many runs are of unknown length.

    Every slot takes the next run of the line that may use it. A run of unknown length counts as if it took no time:
    what comes after it on its slot is not certain. While the queue is paused, what waits has no times at all.
    """
    free, vague = dict.fromkeys(names, now), set()
    unknown, ends, places = 0, [], {}
    for item in alive:
        unknown += item.left_s is None
        ends.append(now + (item.left_s or 0.0))
        for name in item.slots:
            free[name] = ends[-1]
        vague |= set(item.slots) if item.left_s is None else set()
    line = []
    for run, wish in queue.line(root):
        item = Waiting(run, wish, known.of(run))
        line.append(item)
        config = _config(run)
        if item.wish.held or is_paused or config is None:
            continue
        kind = (config.device, config.processes)
        candidates, needed = places[kind] = places.get(kind) or launcher.places(config, root)
        # The first slot that may be free: one of unknown end counts as such.
        chosen = sorted((slot.name for slot in candidates), key=lambda name: free.setdefault(name, now))[:needed]
        early = item.wish.not_before if queue.is_early(item.wish, now) else now
        start = max(early, *(free[name] for name in chosen))
        certain = not vague & set(chosen)
        line[-1] = replace(item, start=start, end=start + (item.seconds or 0.0), certain=certain)
        unknown += item.seconds is None
        vague |= set(chosen) if not certain or item.seconds is None else set()
        free |= dict.fromkeys(chosen, line[-1].end)
        ends.append(line[-1].end)
    is_known = len(ends) > unknown
    return line, (max(ends) if ends and is_known else None), unknown


def end_in_words(found: Occupancy, now: float) -> str:
    """One sentence on when the queue will be done; "" where there is nothing to wait for."""
    waiting = len(found.waiting) - found.held
    if not found.going and not waiting:
        return ""
    if not found.switch.paused or not waiting:
        return _end_in_words(found, now, "done", len(found.going) + waiting)
    rest = "when the rest will be done is open while the queue is paused"
    if not found.going:
        return rest.replace("the rest", "it")
    return f"{_end_in_words(found, now, 'what runs is done', len(found.going))}; {rest}"


def _end_in_words(found: Occupancy, now: float, what: str, count: int) -> str:
    if found.end is None:
        subject = "what runs" if what != "done" else "it"
        like = "it" if count == 1 else "these"
        return f"when {subject} will be done is not known before a run like {like} has finished"
    when, span = clock(found.end, now), f"in about {costs.in_words(found.end - now)}"
    if found.unknown:
        runs = "1 run" if found.unknown == 1 else f"{found.unknown} runs"
        return f"{what} at {when} at the earliest ({span}): how long {runs} will take is not known yet"
    return f"{what} at about {when} ({span})"


def left_in_words(left_s: float | None) -> str:
    """ "about 4 min left"; what should have been over by now is said to take longer."""
    if left_s is None:
        return "end unknown"
    return f"about {costs.in_words(left_s)} left" if left_s else "longer than expected"


def clock(when: float, now: float) -> str:
    """The time of day here, with the date where that is another one."""
    then, today = time.localtime(when), time.localtime(now)
    return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


def _config(run: Run):
    try:
        return run.config()
    except ConfigError:
        return None


def _number(value) -> float | None:
    return value if type(value) in (int, float) and math.isfinite(value) else None
