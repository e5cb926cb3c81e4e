"""The Runs page's table: what it says about every run, which runs it shows, and which are chosen.

Every choice stands in the page's address. Records are read from their ends, and again only where a file has changed.
"""

import hashlib
import sys
import threading
from calendar import timegm
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from time import strptime

import pandas as pd
import streamlit as st

from lps import alarms, snapshots
from lps.alarms import Alarm
from lps.background import SOURCE
from lps.files import looks
from lps.parameters import ConfigError
from lps.recent import Recent, read_recent
from lps.runs import RUN_ID, Run, State
from lps.ui import select, style

MOST_IN_ADDRESS = 50  # chosen runs that a link carries
HEIGHT, ROW_HEIGHT, ROWS = 430, 35, 11  # pixels of a long table and of a row; rows of a long table
MOST_KNOWN = 20_000  # runs whose reading is kept
ENTRY_FILES = ("config.json", "meta.json", "want.json", "process.json", "exit.json", "recorded.json", "events.jsonl")
SORTS = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "name": "Name",
    "all": "Accuracy on all",
    "novel": "Novel accuracy",
    "seen": "Seen accuracy",
    "gap": "Smallest gap",
    "epochs": "Most epochs",
}
CHIP_COLORS = {"green": "#2f8f83", "blue": "#1f6fb4", "orange": "#d9661f", "red": "#b3265e", "violet": "#8a5fb0"}
GRAY = "#77808c"
DAMAGED = "Damaged file"


@dataclass(frozen=True)
class Measured:
    """What a run's records say now; of these only numbers, since thousands of runs are kept in memory."""

    recent: Recent = Recent()
    alarms: tuple[Alarm, ...] = ()

    @property
    def gap(self) -> float | None:
        """Seen minus novel, the smaller in size the better."""
        return self.recent.number("accuracy/gap")


@dataclass(frozen=True)
class Entry:
    """One run on the shelf. launched: unix seconds, None for a folder without a date."""

    run: Run
    state: State
    standing: str  # a key of style.BADGES: the state, or "recorded"
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
    damages: tuple[str, ...] = ()  # what cannot be read of its texts and wishes, a sentence each

    @property
    def troubles(self) -> list[str]:
        """The titles of its alarms, and of files that cannot be read."""
        return [*(alarm.title for alarm in self.measured.alarms), *([DAMAGED] * bool(self.damages))]

    @property
    def method_title(self) -> str:
        return select.method_title(self.method)


@dataclass(frozen=True)
class Wanted:
    """Which runs are asked for, and in which order. Empty choices leave nothing out."""

    find: str = ""
    states: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    hidden: bool = False
    sort: str = "newest"


# ---------------------------------------------------------------------------------------------------- reading


@dataclass
class _Readings:
    """The newest reading of every run by its folder, shared by all viewers, and the state of the files it is of.

    entries: of runs that are over and whose files alone say so.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    known: dict[str, tuple[tuple | None, Measured]] = field(default_factory=dict)
    entries: dict[str, tuple[list, Entry]] = field(default_factory=dict)

    def keep(self, table: dict, key: str, value: tuple) -> None:
        with self.lock:
            if len(table) > MOST_KNOWN:  # runs that are long gone
                table.clear()
            table[key] = value


_readings = cache(_Readings)


def measure(run: Run) -> Measured:
    """What `run`'s records say; read again only where its events have changed."""
    readings, key = _readings(), str(run.folder)
    present = looks(run.events)
    known = readings.known.get(key)
    if known and known[0] == present:
        return known[1]
    found = _measure(run) if present else Measured()
    readings.keep(readings.known, key, (present, found))
    return found


def _measure(run: Run) -> Measured:
    recent = read_recent(run.events)
    how = {"training": recent.training, "failure": recent.failure}
    found = alarms.find(recent.evaluations, recent.seen, **how)
    if any(alarm.kind == "collapse" for alarm in found) and (shares := _true_shares(run)) is not None:
        found = alarms.find(recent.evaluations, recent.seen, shares=shares, **how)
    numbers = {sys.intern(name): value for name, value in recent.last.items() if type(value) in (int, float)}
    return Measured(replace(recent, last=numbers, training={}, evaluations=()), tuple(found))


def _true_shares(run: Run) -> list[float] | None:
    """Share of every class among the unlabeled images; None where the truth of some is not known."""
    try:
        split, targets = snapshots.read_split(run.folder)
    except (ConfigError, OSError):
        return None
    truth = targets[split.unlabeled]
    total = split.classes.total
    if not len(truth) or truth.min() < 0 or truth.max() >= total:
        return None
    return [float((truth == c).mean()) for c in range(total)]


def entry(run: Run) -> Entry:
    """The entry of a run in whatever condition its folder is; that of one that is over is read once."""
    readings, key = _readings(), str(run.folder)
    present = [looks(f"{key}/{name}") for name in ENTRY_FILES]
    known = readings.entries.get(key)
    if known and known[0] == present:
        return known[1]
    found = _entry(run)
    if found.state.is_settled:
        readings.keep(readings.entries, key, (present, found))
    return found


def _entry(run: Run) -> Entry:
    state, meta, is_recorded = run.state(), run.meta(), run.is_recorded
    try:
        config = run.config()
        about = (config.method, config.dataset, config.seed, config.epochs)
    except ConfigError:
        about = ("", "", None, None)
    method, dataset, seed, epochs = about
    return Entry(
        run=run,
        state=state,
        standing="recorded" if is_recorded else state.name,
        name=meta["name"] or (select.about(method, dataset, seed) if method else run.id),
        method=method,
        dataset=dataset,
        seed=seed,
        epochs=epochs,
        launched=launched(run),
        tags=tuple(meta["tags"]),
        notes=meta["notes"],
        hidden=meta["hidden"],
        measured=measure(run),
        damages=tuple(run.damages()),
    )


def is_moving(entries: Sequence[Entry]) -> bool:
    """Whether any of these runs changes by itself."""
    return any(entry.state.is_alive or entry.state.name == "queued" for entry in entries)


def launched(run: Run) -> float | None:
    """When the run was made, in unix seconds, from its id."""
    try:
        return timegm(strptime(run.id[:15], "%Y%m%d-%H%M%S")) if RUN_ID.fullmatch(run.id) else None
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------------------- choosing


def matching(entries: Sequence[Entry], wanted: Wanted) -> list[Entry]:
    """The entries that are asked for, in the order asked for; those that lack what is sorted by come last."""
    words = wanted.find.casefold().split()
    return in_order([entry for entry in entries if _fits(entry, wanted, words)], wanted.sort)


def _fits(entry: Entry, wanted: Wanted, words: list[str]) -> bool:
    choices = ((wanted.states, entry.standing), (wanted.methods, entry.method), (wanted.datasets, entry.dataset))
    if any(chosen and value not in chosen for chosen, value in choices):
        return False
    if wanted.tags and not set(wanted.tags) <= set(entry.tags) or entry.hidden and not wanted.hidden:
        return False
    text = searched(entry)
    return all(word in text for word in words)


def searched(entry: Entry) -> str:
    """The text in which words are looked for."""
    about = (entry.run.id, entry.name, entry.method, entry.method_title, entry.dataset, f"seed {entry.seed}")
    more = (entry.standing, entry.state.reason, entry.notes, *entry.tags, *entry.troubles)
    return " ".join([*about, *more]).casefold()


def in_order(entries: list[Entry], sort: str) -> list[Entry]:
    """Sorted by one of `SORTS`; equal ones keep their order."""
    keys = {
        "newest": lambda e: _down(e.launched),
        "oldest": lambda e: e.launched,
        "name": lambda e: e.name.casefold(),
        "gap": lambda e: None if e.measured.gap is None else abs(e.measured.gap),
        "epochs": lambda e: _down(e.measured.recent.epoch),
    }
    key = keys.get(sort) or (lambda e: _down(e.measured.recent.number(f"accuracy/{sort}")))
    have = [entry for entry in entries if key(entry) is not None]
    ordered = sorted(have, key=key) + [entry for entry in entries if key(entry) is None]
    # by date, recordings stay behind a person's own runs: they are as old as the program
    return sorted(ordered, key=lambda e: e.standing == "recorded") if sort in ("newest", "oldest") else ordered


def _down(value: float | None) -> float | None:
    return None if value is None else -value


def ask(entries: Sequence[Entry]) -> Wanted:
    """The boxes above the table."""
    tags = sorted({tag for entry in entries for tag in entry.tags})
    hidden = sum(entry.hidden for entry in entries)
    methods = {name: select.method_title(name) for name in sorted({e.method for e in entries if e.method})}
    standings = [name for name in style.BADGES if any(entry.standing == name for entry in entries)]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        find = st.text_input(
            "Find",
            key="find",
            bind="query-params",
            type="search",
            placeholder="Name, id, note, tag",
            icon=":material/search:",
            max_chars=120,
            width=160,
        )
        wanted = Wanted(
            find=find or "",
            states=_some("State", "states", {name: style.BADGES[name][0] for name in standings}),
            methods=_some("Method", "methods", methods),
            datasets=_some("Data set", "datasets", {e.dataset: e.dataset for e in entries if e.dataset}),
            tags=_some("Tags", "tags", {tag: tag for tag in tags}) if tags else (),
        )
        sort = select.choose(st.selectbox, "sort", "Sort by", SORTS, width=150)
        show = st.toggle(f"{hidden} hidden too", key="hidden", bind="query-params") if hidden else False
    return replace(wanted, sort=sort, hidden=show)


def _some(label: str, key: str, words: dict[str, str]) -> tuple[str, ...]:
    """Any number of choices, which stand in the address; what is there no more is forgotten."""
    chosen = [value for value in dict.fromkeys(st.query_params.get_all(key)) if value in words]
    select.agree(f"picked_{key}", chosen)
    st.multiselect(
        label,
        list(words),
        format_func=lambda value: words.get(value, value),
        key=f"picked_{key}",
        on_change=_remember_some,
        args=(key,),
        placeholder="Any",
        width=122,
    )
    return tuple(chosen)


def _remember_some(key: str) -> None:
    st.query_params[key] = st.session_state[f"picked_{key}"]


# ---------------------------------------------------------------------------------------------------- table


def show(entries: Sequence[Entry]) -> list[Entry]:
    """The table; returns the chosen ones, in the table's order. The address says which they are."""
    ids = [entry.run.id for entry in entries]
    # Streamlit keeps positions: with other rows, or in another order, they would point at other runs.
    key = "shelf_" + hashlib.sha256("\n".join([*ids, str(st.session_state.get("shelf_turn", 0))]).encode()).hexdigest()
    asked = set(st.query_params.get_all("run"))
    event = st.dataframe(
        table(entries),
        key=key,
        width="stretch",
        height=HEIGHT if len(entries) > ROWS else "content",
        hide_index=True,
        column_config=_columns(entries),
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": [place for place, name in enumerate(ids) if name in asked]}},
        row_height=ROW_HEIGHT,
        placeholder="",
        alt="All runs with their state, settings and newest accuracies",
    )
    chosen = [entries[place] for place in sorted(event["selection"]["rows"]) if place < len(entries)]
    _remember([entry.run.id for entry in chosen])
    return chosen


def forget_choice() -> None:
    """Draw the next table without a choice."""
    st.session_state["shelf_turn"] = st.session_state.get("shelf_turn", 0) + 1
    st.query_params.pop("run", None)


def _remember(ids: list[str]) -> None:
    kept = ids if len(ids) <= MOST_IN_ADDRESS else []
    if st.query_params.get_all("run") != kept:
        st.query_params["run"] = kept


def table(entries: Sequence[Entry]) -> pd.DataFrame:
    """One row a run. Accuracies in percent, the gap in points."""
    rows = [_row(entry) for entry in entries]
    frame = pd.DataFrame(rows, columns=list(_row(_NOTHING)) if not rows else None)
    for column in ("Alarms", "Tags"):
        if column in frame and not frame[column].map(len).any():
            del frame[column]
    return frame


def _row(entry: Entry) -> dict[str, object]:
    recent = entry.measured.recent
    numbers = {name: recent.number(f"accuracy/{name.lower()}") for name in ("Seen", "Novel", "All", "Gap")}
    hidden = " (hidden)" if entry.hidden else ""
    return {
        "Name": f"{entry.name}{hidden}",
        "State": [style.BADGES[entry.standing][0]],
        **{name: None if value is None else round(100 * value, 1) + 0.0 for name, value in numbers.items()},
        "Epochs": recent.epoch or None,
        "Of": entry.epochs,
        "Alarms": entry.troubles,
        "Method": entry.method_title,
        "Data set": entry.dataset,
        "Seed": entry.seed,
        "Tags": list(entry.tags),
        "Id": entry.run.id[-6:] if RUN_ID.fullmatch(entry.run.id) else "",
        "Launched": None if entry.launched is None else datetime.fromtimestamp(entry.launched, UTC),
        "Note": " ".join(entry.notes.split())[:200],
    }


_NOTHING = Entry(Run(SOURCE), State("queued"), "queued", "", "", "", None, None, None, (), "", False, Measured())


def _columns(entries: Sequence[Entry]) -> dict:
    columns = st.column_config
    number = {name: columns.NumberColumn(format="%.1f", width=64, help=f"{name} accuracy at the newest epoch, percent")
              for name in ("Seen", "Novel", "All")}  # fmt: skip
    names = {label: CHIP_COLORS.get(color, GRAY) for label, color, _ in style.BADGES.values()}
    tags = sorted({tag for entry in entries for tag in entry.tags})
    return number | {
        "Name": columns.TextColumn(width=210, pinned=True),
        "State": columns.MultiselectColumn(options=list(names), color=list(names.values()), width=95),
        "Gap": columns.NumberColumn(format="%.1f", width=64, help="Seen minus novel, points"),
        "Epochs": columns.NumberColumn(width=64, help="Epochs that are over"),
        "Of": columns.NumberColumn(width=48, help="Planned epochs"),
        "Alarms": columns.MultiselectColumn(
            options=[*alarms.TITLES.values(), DAMAGED],
            color=CHIP_COLORS["red"],
            width=130,
            help="Wrong at the newest epoch, or with its files",
        ),
        "Method": columns.TextColumn(width=90),
        "Data set": columns.TextColumn(width=80),
        "Seed": columns.NumberColumn(width=48),
        "Tags": columns.MultiselectColumn(options=tags, color=GRAY, width=140),
        "Id": columns.TextColumn(width=75, help="The end of the run's id; it does for every command"),
        "Launched": columns.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone=_timezone(), width=130),
        "Note": columns.TextColumn(width=200),
    }


def _timezone() -> str | None:
    return st.context.timezone
