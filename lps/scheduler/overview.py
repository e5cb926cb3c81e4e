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
from lps.store.desired_state import DesiredState, waiting_reason
from lps.store.run_folders import list_runs
from lps.store.run_progress import read_progress
from lps.store.runs import Run, State
from lps.wording import counted, estimated

_DAEMON_ENDED_TEXT = (
    "its background process ended and could not be restarted; open a page of the dashboard or run "
    "python -m lps queue as the owner of the runs"
)


@dataclass(frozen=True)
class RunningJob:
    """An active run. A run on a cluster counts from its submission and has no slots here.

    slots: names of the slots that it holds. since: unix seconds of its start, None before it. share: completed share of
    the current phase, None if unknown. time_left: seconds until its end, None if unknown.
    """

    run: Run
    state: State
    slots: tuple[str, ...]
    since: float | None
    share: float | None
    time_left: Span | None

    @property
    def left_s(self) -> float | None:
        return None if self.time_left is None else self.time_left.likely


@dataclass(frozen=True)
class QueuedJob:
    """A waiting run, with its expected duration and its expected start and end (unix s).

    duration: None without an estimate. start, end: None while the run is held, or the queue is paused or stalled. If
    `certain` is false, they are the earliest times, because the length of a run before it is unknown.
    """

    run: Run
    desired: DesiredState
    duration: Span | None = None
    start: float | None = None
    end: float | None = None
    certain: bool = True

    @property
    def seconds(self) -> float | None:
        return None if self.duration is None else self.duration.likely


@dataclass(frozen=True)
class QueueSnapshot:
    """A snapshot of the queue: active runs, waiting runs in order, and whether the queue is paused.

    slots: name of each slot -> whether its lock is held. interrupted: runs whose processes vanished or were ended by an
    external signal, newest first; they can be retried. end_span: unix seconds at which the last run that is not held
    ends, or the last active run while the queue is paused; None if nothing is active or known. num_unknown: how many of
    these runs have an unknown length, so that the end is the earliest possible one.
    stall_reason: why the queue is stalled, in words; "" if an active run or the queue daemon will start the waiting
    runs. jobs: background jobs, which take no slot: working ones, then those that ended within a day. cpu_slots: how
    many runs may use the CPU at a time.
    """

    slots: Mapping[str, bool]
    running: Sequence[RunningJob]
    waiting: Sequence[QueuedJob]
    interrupted: Sequence[Run]
    switch: queue.Switch
    end_span: Span | None
    num_unknown: int
    stall_reason: str = ""
    jobs: Sequence[BackgroundJob] = ()
    cpu_slots: int = 1

    @property
    def has_daemon(self) -> bool:
        """Return whether a process will start the waiting runs."""
        return not self.stall_reason

    @property
    def working_jobs(self) -> list[BackgroundJob]:
        """Return the background jobs that are working."""
        return [job for job in self.jobs if job.is_working]

    @property
    def end_time(self) -> float | None:
        return None if self.end_span is None else self.end_span.likely

    @property
    def num_held(self) -> int:
        return sum(item.desired.held for item in self.waiting)

    def on(self, slot: str) -> RunningJob | None:
        """Return the run that holds the slot, if the run folders name it."""
        return next((item for item in self.running if slot in item.slots), None)


def read_queue(root: Path, now: float | None = None, known_costs: KnownCosts | None = None) -> QueueSnapshot:
    """Read the queue of the runs in `root`. known_costs: those of finished runs, if already read."""
    root, now = Path(root), time.time() if now is None else now
    known_costs = costs.known_costs(root) if known_costs is None else known_costs
    known_costs, running_jobs, interrupted = _read_unfinished(root, now, known_costs)
    next_threads = _next_threads(root)
    names = [slot.name for slot in run_slots.every_slot(root, next_threads)]
    names += sorted({name for item in running_jobs for name in item.slots} - set(names))
    slots = {name: is_held(root / ".slots" / f"{name}.lock") for name in names}
    switch, is_tended = queue.read_switch(root), launcher.has_daemon(root)
    queued_jobs, end_span, num_unknown = _plan_queue(
        root, now, known_costs, running_jobs, names, not switch.paused and is_tended
    )
    stall_reason = ""
    if not is_tended:  # a stalled queue promises no times and no durations
        stall_reason, queued_jobs = stall_reason_in_words(root), [replace(item, duration=None) for item in queued_jobs]
    return QueueSnapshot(
        slots,
        running_jobs,
        queued_jobs,
        interrupted,
        switch,
        end_span,
        num_unknown,
        stall_reason,
        list_jobs(root, now),
        run_slots.cpu_slots(root, next_threads),
    )


def _next_threads(root: Path) -> int | None:
    """Return how many cores the first waiting run for the CPU takes; None if there is none."""
    configs = (run.config_if_readable() for run, desired in queue.waiting_runs(root) if not desired.held)
    return next((run_slots.cpu_threads(config) for config in configs if config and run_slots.is_on_cpu(config)), None)


def stall_reason_in_words(root: Path) -> str:
    """Explain why the queue is stalled, and what to do."""
    if obstacle := run_slots.blocked_by(root):
        return f"the queue is blocked because no run can be started ({obstacle}); remove this obstacle"
    return f"the queue is blocked because {_DAEMON_ENDED_TEXT}"


def wait_in_words(run: Run) -> str:
    """Return in sentences why a queued run has not started; "" if it does not wait in the queue."""
    num_ahead = queue.queue_position(run)
    if num_ahead is None:
        return ""
    if queue.read_switch(run.root).paused:
        return "Waiting: the queue is paused."
    if not launcher.has_daemon(run.root):
        return f"Waiting: {stall_reason_in_words(run.root)}."
    if reason := waiting_reason(run.desired()):
        return f"Waiting: {reason}."
    holders = run_slots.slot_holders(run.root)
    holders_text = f" Slots are taken by {counted(len(holders), 'run')}." if holders else ""
    ahead_text = f"Ahead in the queue: {counted(num_ahead, 'run')}." if num_ahead else "Next in the queue."
    return f"Waiting for a free slot.{holders_text} {ahead_text}"


def suggested_cpu_slots(snapshot: QueueSnapshot) -> int:
    """Return how many runs like the waiting and running ones fit on the processor at a time."""
    return max(1, devices.available_cores() // _most_threads(snapshot))


def _most_threads(snapshot: QueueSnapshot) -> int:
    """Return the largest number of threads of a CPU run; a run without a limit counts as all cores."""
    cores, gpus = devices.available_cores(), devices.available_gpus()
    local_runs = (item.run for item in [*snapshot.running, *snapshot.waiting] if not item.run.desired().on)
    configs = filter(None, (run.config_if_readable() for run in local_runs))
    return max((config.threads or cores for config in configs if config.device == "cpu" or not gpus), default=cores)


def suggestion_in_words(snapshot: QueueSnapshot) -> str:
    """Return "Suggested: 4, because this machine has 8 cores and its runs use up to 2 threads." """
    number, threads, cores = suggested_cpu_slots(snapshot), _most_threads(snapshot), devices.available_cores()
    if threads < cores:
        return f"Suggested: {number}, because this machine has {cores} cores and its runs use up to {threads} threads."
    if cores == 1:
        return "Suggested: 1, because this machine has 1 core."
    return (
        f"Suggested: 1, since a run takes all {cores} cores here; with threads=1, {cores} runs fit beside each other."
    )


def _read_unfinished(root: Path, now: float, known_costs: KnownCosts) -> tuple[KnownCosts, list[RunningJob], list[Run]]:
    """Return (costs corrected by the running runs, running runs by their start, interrupted runs)."""
    alive, interrupted = [], []
    unfinished_runs = queue.unfinished_runs(root)
    ids = {run.id for run in unfinished_runs}
    for run in [*unfinished_runs, *(run for run in list_runs(root) if run.id not in ids and is_held(run.lock))]:
        state = run.state()
        if state.is_alive or (state.name == "queued" and run.desired().on):
            alive.append((run, state))
        elif state.name == "crashed" or state.kind == queue.PREEMPTED:
            interrupted.append(run)
    known_costs = known_costs.with_running([run for run, _ in alive])
    running_jobs = [_running_job(run, state, now, known_costs) for run, state in alive]
    return known_costs, sorted(running_jobs, key=lambda item: (item.since or now, item.run.id)), interrupted


def _running_job(run: Run, state: State, now: float, known_costs: KnownCosts) -> RunningJob:
    progress = read_progress(run, state)
    share = None if progress.share == 1.0 else progress.share  # the next phase follows: no "100 %" beside its time
    time_left = known_costs.time_left(run, progress, now)
    return RunningJob(run, state, progress.slots, progress.started, share, time_left)


def _plan_queue(
    root: Path,
    now: float,
    known_costs: KnownCosts,
    running_jobs: Sequence[RunningJob],
    names: Sequence[str],
    is_moving: bool,
) -> tuple[list[QueuedJob], Span | None, int]:
    """Return the waiting runs with expected times, the end of all, and the number of runs of unknown length.

    Every slot takes the next waiting run that may use it. A run of unknown length counts as 0 seconds, so the times of
    later runs on its slot are not certain. Without a process that starts runs, waiting runs have no times. Of runs that
    need the same start weights, the first one pretrains.
    """
    free_at, uncertain_slots = {name: _time_after(now) for name in names}, set()
    num_unknown, ends, slots_by_kind = 0, [], {}
    pretrained_starts = {
        costs.start_weights_key(config) for item in running_jobs if (config := item.run.config_if_readable())
    }
    for item in running_jobs:
        num_unknown += item.time_left is None
        ends.append(_time_after(now, item.time_left))
        for name in item.slots:
            free_at[name] = ends[-1]
        uncertain_slots |= set(item.slots) if item.time_left is None else set()
    queued_jobs = []
    for run, desired in queue.waiting_runs(root):
        config = run.config_if_readable()
        cost = config and known_costs.estimate(config, pretrained_starts)
        item = QueuedJob(run, desired, cost and cost.span)
        queued_jobs.append(item)
        if item.desired.held or not is_moving or config is None:
            continue
        pretrained_starts.add(costs.start_weights_key(config))
        kind = (config.device, config.processes, config.threads)
        candidates, needed = slots_by_kind[kind] = slots_by_kind.get(kind) or run_slots.slots_for(config, root)
        # The slot that may be free first: a slot of unknown end counts as free.
        for slot in candidates:
            free_at.setdefault(slot.name, _time_after(now))
        first_free = sorted((slot.name for slot in candidates), key=lambda name: free_at[name].likely)[:needed]
        earliest = item.desired.not_before if queue.is_early(item.desired, now) else now
        start = _latest([_time_after(earliest), *(free_at[name] for name in first_free)])
        end = start.plus(item.duration) if item.duration else start
        certain = not uncertain_slots & set(first_free)
        queued_jobs[-1] = replace(item, start=start.likely, end=end.likely, certain=certain)
        num_unknown += item.duration is None
        uncertain_slots |= set(first_free) if not certain or item.duration is None else set()
        free_at |= dict.fromkeys(first_free, end)
        ends.append(end)
    has_duration = len(ends) > num_unknown
    return queued_jobs, (_latest(ends) if has_duration else None), num_unknown


def _time_after(now: float, span: Span | None = None) -> Span:
    """Return a time (unix seconds), or the time after `span`, as a range."""
    start = Span(now, now, now)
    return start if span is None else start.plus(span)


def _latest(moments: Sequence[Span]) -> Span:
    return Span(*(max(getattr(span, part) for span in moments) for part in ("likely", "least", "most")))


def end_in_words(snapshot: QueueSnapshot, now: float) -> str:
    """Return one sentence on when the queue will be done; "" if nothing is active or waiting."""
    num_waiting = len(snapshot.waiting) - snapshot.num_held
    if not snapshot.running and not num_waiting:
        return ""
    if num_waiting and not snapshot.has_daemon:
        return snapshot.stall_reason
    if not snapshot.switch.paused or not num_waiting:
        return _end_in_words(snapshot, now, "done", len(snapshot.running) + num_waiting)
    waiting_text = "waiting runs start when the queue resumes"
    if not snapshot.running:
        return waiting_text
    return f"{_end_in_words(snapshot, now, 'end of the current runs', len(snapshot.running))}; {waiting_text}"


def _end_in_words(snapshot: QueueSnapshot, now: float, subject: str, count: int) -> str:
    if snapshot.end_span is None:
        pronoun = "it" if count == 1 else "these"
        return f"end unknown until a run like {pronoun} has finished"
    time_left = snapshot.end_span.after(now)
    when, span = time_of_day(snapshot.end_time, now), f"in about {costs.span_in_words(time_left)}"
    if snapshot.num_unknown:
        runs = counted(snapshot.num_unknown, "run")
        return f"{subject} at {when} at the earliest ({span}): the duration of {runs} is not known yet"
    if costs.is_wide(time_left):
        return f"{subject} {span}"
    return f"{subject} at about {when} ({span})"


def time_left_in_words(time_left: Span | None) -> str:
    """Return "about 4 min left", a range if little is known, "up to 20 s left" once the likely time has passed.

    "longer than expected": even the longest expected time has passed.
    """
    if time_left is None or costs.is_unknown(time_left):
        return "no estimate yet"
    if not time_left.likely:
        return f"up to {estimated(time_left.most)} left" if time_left.most else "longer than expected"
    return f"about {costs.span_in_words(time_left)} left"


def time_of_day(when: float, now: float) -> str:
    """Return the local time of day, with the date if that is not today."""
    local_time, today = time.localtime(when), time.localtime(now)
    return time.strftime("%H:%M" if local_time[:3] == today[:3] else "%Y-%m-%d %H:%M", local_time)
