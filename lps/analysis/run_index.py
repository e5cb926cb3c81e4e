"""Collect the rows of long lists of runs: state, newest measurements and alarms."""

import sys
import threading
from calendar import timegm
from dataclasses import dataclass, field, replace
from functools import cache
from time import strptime

from lps.analysis import alarms
from lps.analysis.alarms import Alarm
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.settings.config import Config
from lps.store import snapshots, titles
from lps.store.events_tail import RecentEvents, read_recent
from lps.store.runs import RUN_ID, Run, State

_MAX_KNOWN = 20_000  # runs whose measurements are cached
_ENTRY_FILES = ("config.json", "meta.json", "want.json", "process.json", "exit.json", "recorded.json", "events.jsonl")
DAMAGED = "Damaged file"


@dataclass(frozen=True)
class Measured:
    """Newest measurements from a run's records; numbers only, since thousands of runs are kept in memory."""

    recent: RecentEvents = RecentEvents()
    alarms: tuple[Alarm, ...] = ()

    @property
    def gap(self) -> float | None:
        """Return seen minus novel; the closer to 0 the better."""
        return self.recent.number("accuracy/gap")


@dataclass(frozen=True)
class RunRow:
    """One run in a list. launched: unix seconds, None for a folder without a date."""

    run: Run
    state: State
    shown_state: str  # the name of its state, or "recorded"
    name: str
    method: str
    dataset: str
    seed: int | None
    epochs: int | None  # planned
    launched: float | None
    tags: tuple[str, ...]
    notes: str
    hidden: bool
    measured: Measured
    damages: tuple[str, ...] = ()  # unreadable parts of its texts and requests, a sentence each
    config: Config | None = None  # None if it cannot be read

    @property
    def troubles(self) -> list[str]:
        """Return the titles of its alarms, and of files that cannot be read."""
        return [*(alarm.title for alarm in self.measured.alarms), *([DAMAGED] * bool(self.damages))]

    @property
    def method_title(self) -> str:
        return titles.method_title(self.method)


# ---------------------------------------------------------------------------------------------------- reading


@dataclass
class _Readings:
    """The newest measurements of every run by its folder, shared by all viewers, with the state of the files read.

    entries: of finished runs, which change with their files only.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    known: dict[str, tuple[tuple | None, Measured]] = field(default_factory=dict)
    entries: dict[str, tuple[list, RunRow]] = field(default_factory=dict)

    def keep(self, table: dict, key: str, value: tuple) -> None:
        with self.lock:
            if len(table) > _MAX_KNOWN:  # drop runs that may no longer exist
                table.clear()
            table[key] = value


_readings = cache(_Readings)


def measure_run(run: Run) -> Measured:
    """Return the measurements of `run`; reads its records again only if its events have changed."""
    readings, key = _readings(), str(run.folder)
    present = fingerprint(run.events)
    stored_measure = readings.known.get(key)
    if stored_measure and stored_measure[0] == present:
        return stored_measure[1]
    measured = _measure(run) if present else Measured()
    readings.keep(readings.known, key, (present, measured))
    return measured


def _measure(run: Run) -> Measured:
    recent = read_recent(run.events)
    records = {"training": recent.training, "failure": recent.failure}
    run_alarms = alarms.find_alarms(recent.evaluations, recent.seen, **records)
    if any(alarm.kind == "collapse" for alarm in run_alarms) and (shares := _true_shares(run)) is not None:
        run_alarms = alarms.find_alarms(recent.evaluations, recent.seen, shares=shares, **records)
    numbers = {sys.intern(name): value for name, value in recent.newest_values.items() if type(value) in (int, float)}
    return Measured(replace(recent, newest_values=numbers, training={}, evaluations=()), tuple(run_alarms))


def _true_shares(run: Run) -> list[float] | None:
    """Return the share of every class among the unlabeled images; None if the truth of some is unknown."""
    try:
        split, targets = snapshots.read_split(run.folder)
    except (UserError, OSError):
        return None
    truth = targets[split.unlabeled]
    total = split.classes.total
    if not len(truth) or truth.min() < 0 or truth.max() >= total:
        return None
    return [float((truth == c).mean()) for c in range(total)]


def read_run_row(run: Run) -> RunRow:
    """Return the entry of a run in any condition; finished runs are read once."""
    readings, key = _readings(), str(run.folder)
    present = [fingerprint(f"{key}/{name}") for name in _ENTRY_FILES]
    stored_row = readings.entries.get(key)
    if stored_row and stored_row[0] == present:
        return stored_row[1]
    row = _entry(run)
    if row.state.is_settled:
        readings.keep(readings.entries, key, (present, row))
    return row


def _entry(run: Run) -> RunRow:
    state, meta, is_recorded = run.state(), run.meta(), run.is_recorded
    try:
        config = run.config()
        facts = (config.method, config.dataset, config.seed, config.epochs)
    except UserError:
        config, facts = None, ("", "", None, None)
    method, dataset, seed, epochs = facts
    return RunRow(
        run=run,
        state=state,
        shown_state="recorded" if is_recorded else state.name,
        name=titles.run_title(run) if method else meta["name"] or run.id,
        method=method,
        dataset=dataset,
        seed=seed,
        epochs=epochs,
        launched=_launched(run),
        tags=tuple(meta["tags"]),
        notes=meta["notes"],
        hidden=meta["hidden"],
        measured=measure_run(run),
        damages=tuple(run.damages()),
        config=config,
    )


def _launched(run: Run) -> float | None:
    """Return the creation time of the run, in unix seconds, from its id."""
    try:
        return timegm(strptime(run.id[:15], "%Y%m%d-%H%M%S")) if RUN_ID.fullmatch(run.id) else None
    except ValueError:
        return None
