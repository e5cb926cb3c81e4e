"""Collect the rows of long lists of runs: state, newest measurements and alarms.

Rows that follow from the files of a run alone are stored for other processes (`lps.store.row_index`). A stored row is
valid while these files and the code of the package are unchanged.
"""

import hashlib
import os
import secrets
import sys
import threading
import time
from calendar import timegm
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import strptime
from typing import NamedTuple

from lps.analysis import alarms
from lps.analysis.alarms import Alarm
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.files.folder_cache import FolderCache
from lps.settings.config import Config
from lps.store import inherited_files, row_index, score_cache, snapshots, titles
from lps.store.events_tail import RecentEvents, read_recent
from lps.store.runs import RUN_ID, STATE_FILES, Run, State, settled_states

_MAX_KNOWN = 40_000  # runs whose measurements are cached
_MIN_UNSAVED = 20  # new rows that are stored; of many rows 1 %
_RECORDS = ("config.json", "meta.json", "want.json", "process.json", "exit.json", "recorded.json", "events.jsonl")
_MEASURED = ("events.jsonl", "config.json", "split.npz")  # files on which measurements depend
_EDITED = (*STATE_FILES, *_MEASURED, "meta.json")  # files that can change in place
_ENTRY_FILES = (*_RECORDS, "split.npz", "lock")  # on which a row of a run that is over depends
_WRONG_CONTENT = (AttributeError, IndexError, KeyError, TypeError, ValueError, UserError)  # of a stored row
_PACKED_APART = ("run", "state", "measured", "config")  # parts of a row that are stored in their own way
_NOT_KEPT = ("training", "evaluations")  # parts of the newest events that `Measured` is without
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


class _KnownRow(NamedTuple):
    """The row of a finished run, and what changes with its files.

    present: a digest of their fingerprints. stamp: of those that show whether any may have changed; "" if not known.
    """

    present: str
    stamp: str
    row: RunRow


@dataclass
class _StoredRows:
    """Rows of a runs folder that an earlier process stored and this one has not used yet.

    rows: by run id, as `_store_rows` packs them. configs: one of each method and data set; rows have the differences.
    """

    rows: dict[str, list]
    configs: list[Config]
    num_unsaved: int = 0  # rows that this process has computed since

    @classmethod
    def of_folder(cls, root: str) -> "_StoredRows":
        content = row_index.read_index(Path(root), _digest_code())
        try:
            return cls(dict(content["rows"]), [Config.from_flat(values) for values in content["configs"]])
        except _WRONG_CONTENT:
            return cls({}, [])

    def take(self, run: Run, stamp: str) -> _KnownRow | None:
        """Return the row of a run whose folder has this stamp, or whose files have their fingerprints; None without."""
        packed_row = self.rows.pop(run.id, None)
        try:
            is_unchanged = stamp != "" and packed_row[1] == stamp
            if is_unchanged or packed_row[0] == _present(run):
                self.num_unsaved += stamp != "" and not is_unchanged
                return _KnownRow(packed_row[0], stamp, _unpack_row(run, packed_row[2:], self.configs))
        except _WRONG_CONTENT:
            pass
        return None


@dataclass
class _Readings:
    """The newest measurements of every run by its folder, shared by all viewers, with the state of the files read.

    rows: of finished runs, while nothing in their folders changes. entries: the same, with what they depend on. stored:
    by runs folder. turn: held while a row is read, so that a second viewer waits instead of reading the same records at
    the same time.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    turn: threading.Lock = field(default_factory=threading.Lock)
    known: dict[str, tuple[tuple, Measured]] = field(default_factory=dict)
    rows: FolderCache[RunRow] = field(default_factory=lambda: FolderCache(*_EDITED, may_keep=_is_settled))
    entries: dict[str, _KnownRow] = field(default_factory=dict)
    stored: dict[str, _StoredRows] = field(default_factory=dict)

    def keep(self, table: dict, key: str, value: object) -> None:
        with self.lock:
            if len(table) > _MAX_KNOWN:  # drop runs that may no longer exist
                table.clear()
            table[key] = value


_readings = cache(_Readings)


def read_rows(runs: Sequence[Run]) -> list[RunRow]:
    """Return the rows of runs in any condition; those of finished runs are read once and stored for later processes."""
    readings, roots = _readings(), {_root(str(run.folder)) for run in runs}
    with readings.turn:
        for root in roots - readings.stored.keys():
            readings.stored[root] = _StoredRows.of_folder(root)
    rows = [read_run_row(run) for run in runs]
    with readings.turn:
        for root in roots:
            if readings.stored[root].num_unsaved >= max(_MIN_UNSAVED, len(readings.entries) // 100):
                _store_rows(root)
    return rows


def parents_of(rows: Sequence[RunRow]) -> dict[str, str]:
    """Return run id -> id of the run that it continues, "" if that cannot be read, for all runs that continue one."""
    continued = (row.run for row in rows if row.config and row.config.split_confirmed)
    return {run.id: inherited_files.parent_of(run) for run in continued}


def _store_rows(root: str) -> None:
    """Store all settled rows of a runs folder that this process knows."""
    readings = _readings()
    stored = readings.stored[root]
    stored.num_unsaved = 0
    packed_rows = dict(stored.rows)
    for key, known in list(readings.entries.items()):
        if _root(key) == root and _is_complete(known.row):
            packed_rows[known.row.run.id] = [known.present, known.stamp, *_pack_row(known.row, stored.configs)]
    packed_rows = {name: packed_row for name, packed_row in packed_rows.items() if os.path.isdir(f"{root}/{name}")}
    row_index.write_index(
        Path(root), _digest_code(), {"rows": packed_rows, "configs": [config.flat() for config in stored.configs]}
    )


def _is_complete(row: RunRow) -> bool:
    """Return whether all files of a run could be read; a file that could not be read now may be readable later."""
    return row.config is not None and not row.damages and row.measured.recent.time is not None


def _root(key: str) -> str:
    """Return the runs folder of a run's folder."""
    return os.path.dirname(key) or "."


_LOADED_NS = time.time_ns()


@cache
def _digest_code() -> str:
    """Return a digest of the loaded code, apart from the dashboard; a random one if a file has changed since."""
    package = Path(__file__).parents[1]
    modules = [path for path in sorted(package.rglob("*.py")) if "ui" not in path.relative_to(package).parts]
    digest = score_cache.digest_of(*modules)
    is_changed = max(path.stat().st_ctime_ns for path in modules) > _LOADED_NS
    return secrets.token_hex() if is_changed else digest


def _pack_row(row: RunRow, configs: list[Config]) -> list:
    """Return a row for JSON; adds its settings to `configs` if they have none of the same kind."""
    numbers = {(config.method, config.dataset): number for number, config in enumerate(configs)}
    number = numbers.get((row.method, row.dataset), len(configs))
    if number == len(configs):
        configs.append(row.config)
    usual = configs[number].flat()
    changes = {
        key: value
        for key, value in row.config.flat().items()
        if key not in usual or value != usual[key] or type(value) is not type(usual[key])
    }
    own_values = {name: value for name, value in vars(row).items() if name not in _PACKED_APART}
    recent = {name: value for name, value in vars(row.measured.recent).items() if name not in _NOT_KEPT}
    run_alarms = [vars(alarm) for alarm in row.measured.alarms]
    return [number, changes, vars(row.state), recent, run_alarms, own_values]


def _unpack_row(run: Run, packed_row: list, configs: list[Config]) -> RunRow:
    number, changes, state, recent, run_alarms, own_values = packed_row
    return RunRow(
        run=run,
        state=State(**state),
        measured=Measured(RecentEvents(**recent), tuple(Alarm(**alarm) for alarm in run_alarms)),
        config=configs[number].with_values(changes),
        **own_values | {name: tuple(own_values[name]) for name in ("tags", "damages")},
    )


def measure_run(run: Run) -> Measured:
    """Return the measurements of `run`; reads its records again only if a file has changed."""
    readings, key = _readings(), str(run.folder)
    present = tuple(fingerprint(f"{key}/{name}") for name in _MEASURED)
    stored_measure = readings.known.get(key)
    if stored_measure and stored_measure[0] == present:
        return stored_measure[1]
    measured = _measure(run) if present[0] else Measured()
    readings.keep(readings.known, key, (present, measured))
    return measured


def _measure(run: Run) -> Measured:
    recent = read_recent(run.events)
    run_alarms = alarms.find_alarms(recent.evaluations, recent.seen, training=recent.training)
    if any(alarm.kind == "collapse" for alarm in run_alarms) and (shares := _true_shares(run)) is not None:
        run_alarms = alarms.find_alarms(recent.evaluations, recent.seen, training=recent.training, shares=shares)
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
    """Return the row of a run in any condition; one that follows from the run's files alone is read once."""
    return _readings().rows.value(str(run.folder), lambda stamp: _row_of(run, stamp))


def _is_settled(row: RunRow) -> bool:
    return row.state.is_settled


def _row_of(run: Run, stamp: tuple | None) -> RunRow:
    row = _checked_row(run, _digest(stamp) if stamp else "")
    if stamp and row.state.is_settled:
        settled_states.keep(str(run.folder), stamp[: 1 + len(STATE_FILES)], row.state)
    return row


def _checked_row(run: Run, stamp: str) -> RunRow:
    """Return the known or stored row of a run if its files are the same; read it otherwise. stamp: of its folder."""
    readings, key = _readings(), str(run.folder)
    with readings.turn:
        stored, known = readings.stored.get(_root(key)), readings.entries.get(key)
        known = known or (stored and stored.take(run, stamp))
        if known and stamp and known.stamp == stamp:
            present = known.present
        else:
            present = _present(run)
        if known and known.present == present:
            row = known.row
        else:
            row = _entry(run)
            if not row.state.is_settled:
                return row
            if stored:
                stored.num_unsaved += 1
        readings.keep(readings.entries, key, _KnownRow(present, stamp, row))
    return row


def _present(run: Run) -> str:
    return _digest(tuple(fingerprint(f"{run.folder}/{name}") for name in _ENTRY_FILES))


def _digest(versions: tuple) -> str:
    return hashlib.sha256(repr(versions).encode()).hexdigest()[:32]


def _entry(run: Run) -> RunRow:
    state, meta, is_recorded, config = run.state(), run.meta(), run.is_recorded, run.config_if_readable()
    facts = (config.method, config.dataset, config.seed, config.epochs) if config else ("", "", None, None)
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
