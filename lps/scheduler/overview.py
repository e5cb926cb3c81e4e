"""Summarize the queue: what runs on which slot, since when, and the expected end, estimated from finished runs.

Standard library only.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lps.files.locks import is_held
from lps.machine import devices
from lps.scheduler import costs, launcher, queue, run_slots
from lps.scheduler.background_jobs import BackgroundJob, list_jobs
from lps.scheduler.costs import KnownCosts, Span
from lps.store.desired_state import DesiredState
from lps.store.run_folders import list_runs
from lps.store.run_progress import read_progress
from lps.store.runs import Run, State
from lps.wording import counted

_DAEMON_ENDED_TEXT = (
    "its background process ended and could not be restarted; open a page of the dashboard or run "
    "python -m lps queue as the owner of the runs"
)


@dataclass(frozen=True)
class RunningJob:
    """A run that is alive: its state, the slots that it holds, since when (unix s; None: not begun), its share done.

    One on a cluster counts from the moment it was handed over, and has no slots here. left: until it ends, None where
    nobody knows.
    """

    run: Run
    state: State
    slots: tuple[str, ...]
    since: float | None
    share: float | None
    left: Span | None

    @property
    def left_s(self) -> float | None:
        return None if self.left is None else self.left.likely


@dataclass(frozen=True)
class QueuedJob:
    """A waiting run, with its expected duration and its expected start and end (unix s).

    takes: None without an estimate. start, end: None while the run is held, or the queue is paused or stalled; with
    `certain` false they are the earliest times, since a run before it is of unknown length.
    """

    run: Run
    desired: DesiredState
    takes: Span | None = None
    start: float | None = None
    end: float | None = None
    certain: bool = True

    @property
    def seconds(self) -> float | None:
        return None if self.takes is None else self.takes.likely


@dataclass(frozen=True)
class QueueSnapshot:
    """A snapshot of the queue: active runs, waiting runs in order, and whether the queue is paused.

    slots: names of all slots, with whether their lock is held. broken: runs whose processes vanished or were ended by
    a signal from outside, the newest first: they can be tried again. ends: when the last run that is not held will be
    over, while the queue is paused the last one that runs; None where nothing goes on or is known; unknown: how many of
    those runs are of unknown length, so that the end is the earliest one.
    stall_reason: why the queue is stalled, in words; "" if an active run or the queue daemon will start the waiting
    runs. jobs: background jobs, which take no slot: working ones, then those that ended within a day.
    """

    slots: Mapping[str, bool]
    going: Sequence[RunningJob]
    waiting: Sequence[QueuedJob]
    broken: Sequence[Run]
    switch: queue.Switch
    ends: Span | None
    unknown: int
    stall_reason: str = ""
    jobs: Sequence[BackgroundJob] = ()

    @property
    def is_tended(self) -> bool:
        """Return whether a process will start the waiting runs."""
        return not self.stall_reason

    @property
    def working(self) -> list[BackgroundJob]:
        """The background jobs that are working."""
        return [job for job in self.jobs if job.is_working]

    @property
    def end(self) -> float | None:
        return None if self.ends is None else self.ends.likely

    @property
    def held(self) -> int:
        return sum(item.desired.held for item in self.waiting)

    def on(self, slot: str) -> RunningJob | None:
        """Return the run that holds the slot, if the run folders name it."""
        return next((item for item in self.going if slot in item.slots), None)


def read_queue(root: Path, now: float | None = None, known_costs: KnownCosts | None = None) -> QueueSnapshot:
    """known_costs: what finished runs took, where the caller has asked for it before."""
    root, now = Path(root), time.time() if now is None else now
    known_costs = costs.known_costs(root) if known_costs is None else known_costs
    known_costs, alive, broken = _unfinished(root, now, known_costs)
    names = [slot.name for slot in run_slots.every_slot(root)]
    names += sorted({name for item in alive for name in item.slots} - set(names))
    slots = {name: is_held(root / ".slots" / f"{name}.lock") for name in names}
    switch, is_tended = queue.read_switch(root), launcher.has_daemon(root)
    line, ends, unknown = _plan(root, now, known_costs, alive, names, not switch.paused and is_tended)
    reason_stopped = ""
    if not is_tended:  # a stalled queue promises no times and no durations
        reason_stopped, line = stall_reason_in_words(root), [replace(item, takes=None) for item in line]
    return QueueSnapshot(slots, alive, line, broken, switch, ends, unknown, reason_stopped, list_jobs(root, now))


def stall_reason_in_words(root: Path) -> str:
    """Explain why the queue is stalled, and what to do."""
    if obstacle := run_slots.blocked_by(root):
        return f"the queue is blocked because no run can be started ({obstacle}); remove this obstacle"
    return f"the queue is blocked because {_DAEMON_ENDED_TEXT}"


def suggested_cpu_slots(snapshot: QueueSnapshot) -> int:
    """Return how many runs like the waiting and running ones fit on the processor at a time."""
    return max(1, devices.available_cores() // _most_threads(snapshot))


def _most_threads(snapshot: QueueSnapshot) -> int:
    """Return the largest number of threads of a CPU run; a run without a limit counts as all cores."""
    cores, gpus = devices.available_cores(), devices.available_gpus()
    local_runs = (item.run for item in [*snapshot.going, *snapshot.waiting] if not item.run.desired().on)
    configs = filter(None, (run.config_if_readable() for run in local_runs))
    return max((config.threads or cores for config in configs if config.device == "cpu" or not gpus), default=cores)


def suggestion_in_words(snapshot: QueueSnapshot) -> str:
    """ "Suggested: 4, since this machine has 8 cores and its runs take up to 2 (threads)." """
    number, threads, cores = suggested_cpu_slots(snapshot), _most_threads(snapshot), devices.available_cores()
    if threads < cores:
        return f"Suggested: {number}, because this machine has {cores} cores and its runs use up to {threads} threads."
    if cores == 1:
        return "Suggested: 1, because this machine has 1 core."
    return (
        f"Suggested: 1, since a run takes all {cores} cores here; with threads=1, {cores} runs fit beside each other."
    )


def _unfinished(root: Path, now: float, known_costs: KnownCosts) -> tuple[KnownCosts, list[RunningJob], list[Run]]:
    """What is known beside the running runs; these, by their beginning; and the runs that broke off."""
    alive, broken = [], []
    unfinished_runs = queue.unfinished_runs(root)
    ids = {run.id for run in unfinished_runs}
    for run in [*unfinished_runs, *(run for run in list_runs(root) if run.id not in ids and is_held(run.lock))]:
        state = run.state()
        if state.is_alive or (state.name == "queued" and run.desired().on):
            alive.append((run, state))
        elif state.name == "crashed" or state.kind == queue.PREEMPTED:
            broken.append(run)
    known_costs = known_costs.with_running([run for run, _ in alive])
    running_jobs = [_look_at(run, state, now, known_costs) for run, state in alive]
    return known_costs, sorted(running_jobs, key=lambda item: (item.since or now, item.run.id)), broken


def _look_at(run: Run, state: State, now: float, known_costs: KnownCosts) -> RunningJob:
    progress = read_progress(run, state)
    share = None if progress.share == 1.0 else progress.share  # the next phase follows: no "100 %" beside its time
    time_left = known_costs.left(run, progress, now)
    return RunningJob(run, state, progress.slots, progress.started, share, time_left)


def _plan(
    root: Path, now: float, known_costs: KnownCosts, alive: Sequence[RunningJob], names: Sequence[str], is_moving: bool
) -> tuple[list[QueuedJob], Span | None, int]:
    """Return the waiting runs with expected times, the end of all, and the number of runs of unknown length.

    Every slot takes the next run of the line that may use it. A run of unknown length counts as if it took no time:
    what comes after it on its slot is not certain. While nothing is started, what waits has no times at all. Of runs
    that want the same start weights the first one makes them.
    """
    free, vague = {name: _at(now) for name in names}, set()
    unknown, ends, slots_by_kind = 0, [], {}
    pretrained_starts = {costs.start_weights_key(config) for item in alive if (config := item.run.config_if_readable())}
    for item in alive:
        unknown += item.left is None
        ends.append(_at(now, item.left))
        for name in item.slots:
            free[name] = ends[-1]
        vague |= set(item.slots) if item.left is None else set()
    line = []
    for run, desired in queue.waiting_runs(root):
        config = run.config_if_readable()
        cost = config and known_costs.estimate(config, pretrained_starts)
        item = QueuedJob(run, desired, cost and cost.span)
        line.append(item)
        if item.desired.held or not is_moving or config is None:
            continue
        pretrained_starts.add(costs.start_weights_key(config))
        kind = (config.device, config.processes)
        candidates, needed = slots_by_kind[kind] = slots_by_kind.get(kind) or run_slots.slots_for(config, root)
        # The slot that may be free first: a slot of unknown end counts as free.
        for slot in candidates:
            free.setdefault(slot.name, _at(now))
        first_free = sorted((slot.name for slot in candidates), key=lambda name: free[name].likely)[:needed]
        early = item.desired.not_before if queue.is_early(item.desired, now) else now
        start = _latest([_at(early), *(free[name] for name in first_free)])
        end = start.plus(item.takes) if item.takes else start
        certain = not vague & set(first_free)
        line[-1] = replace(item, start=start.likely, end=end.likely, certain=certain)
        unknown += item.takes is None
        vague |= set(first_free) if not certain or item.takes is None else set()
        free |= dict.fromkeys(first_free, end)
        ends.append(end)
    is_known = len(ends) > unknown
    return line, (_latest(ends) if is_known else None), unknown


def _at(now: float, span: Span | None = None) -> Span:
    """A moment as unix seconds; that after the span."""
    moment = Span(now, now, now)
    return moment if span is None else moment.plus(span)


def _latest(moments: Sequence[Span]) -> Span:
    return Span(*(max(getattr(moment, part) for moment in moments) for part in ("likely", "least", "most")))


def end_in_words(snapshot: QueueSnapshot, now: float) -> str:
    """Return one sentence on when the queue will be done; "" if nothing is active or waiting."""
    waiting = len(snapshot.waiting) - snapshot.held
    if not snapshot.going and not waiting:
        return ""
    if waiting and not snapshot.is_tended:
        return snapshot.stall_reason
    if not snapshot.switch.paused or not waiting:
        return _end_in_words(snapshot, now, "done", len(snapshot.going) + waiting)
    rest = "waiting runs start when the queue resumes"
    return (
        f"{_end_in_words(snapshot, now, 'end of the current runs', len(snapshot.going))}; {rest}"
        if snapshot.going
        else rest
    )


def _end_in_words(snapshot: QueueSnapshot, now: float, subject: str, count: int) -> str:
    if snapshot.ends is None:
        like = "it" if count == 1 else "these"
        return f"end unknown until a run like {like} has finished"
    time_left = snapshot.ends.after(now)
    when, span = time_of_day(snapshot.end, now), f"in about {costs.span_in_words(time_left)}"
    if snapshot.unknown:
        runs = counted(snapshot.unknown, "run")
        return f"{subject} at {when} at the earliest ({span}): the duration of {runs} is not known yet"
    if costs.is_wide(time_left):
        return f"{subject} {span}"
    return f"{subject} at about {when} ({span})"


def left_in_words(time_left: Span | None) -> str:
    """ "about 4 min left", with a range where little is known; what should have been over is said to take longer."""
    if time_left is None:
        return "end unknown"
    return f"about {costs.span_in_words(time_left)} left" if time_left.likely else "longer than expected"


def time_of_day(when: float, now: float) -> str:
    """The time of day here, with the date where that is another one."""
    moment, today = time.localtime(when), time.localtime(now)
    return time.strftime("%H:%M" if moment[:3] == today[:3] else "%Y-%m-%d %H:%M", moment)
