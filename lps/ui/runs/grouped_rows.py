"""The rows of runs put together: one for each group, with mean and spread, and below an open one its runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lps.analysis import differences
from lps.analysis.differences import Difference
from lps.analysis.standing import Entry
from lps.bench import bunches
from lps.bench.bunches import Bunch
from lps.bench.run_names import Name
from lps.store import titles
from lps.ui.runs import table

LABEL = "Group"  # the column with the names of groups and runs
_CLOSED, _OPEN, _INSIDE = "► ", "▼ ", "\u2003\u2003"
_FILL = 20  # characters: a name is pressed on, so it takes its whole cell


@dataclass(frozen=True)
class GroupedRow:
    """A group, or one run of an open one."""

    bunch: Bunch
    entry: Entry | None = None
    is_open: bool = False

    @property
    def id(self) -> str:
        return f"{self.bunch.id}/{self.entry.run.id}" if self.entry else self.bunch.id

    @property
    def runs(self) -> frozenset[str]:
        """Ids of the runs that it stands for."""
        return frozenset(one.run.id for one in ([self.entry] if self.entry else self.bunch.members))

    def label(self, by: Sequence[Name]) -> str:
        """What stands in its first cell."""
        if self.entry:
            return (_INSIDE + table.name_of(self.entry)).ljust(_FILL, "\u2003")
        return ((_OPEN if self.is_open else _CLOSED) + called(self.bunch, by)).ljust(_FILL, "\u2003")


def rows_of(found: Sequence[Bunch], opened: Collection[str]) -> list[GroupedRow]:
    """From top to bottom. opened: ids of the groups whose runs are shown."""
    rows = []
    for one in found:
        rows.append(GroupedRow(one, is_open=one.id in opened))
        rows += [GroupedRow(one, entry) for entry in one.members if one.id in opened]
    return rows


def called(one: Bunch, by: Sequence[Name]) -> str:
    """What its runs have in common, in a line: texts speak for themselves, numbers need to be told what they are of."""
    words = []
    for name, value in zip(by, one.values):
        told = titles.method_title(value) if name.key == "method" else value
        words.append(told if name.kind == "text" and told != "–" else f"{table.head(name)} {told}")
    return " · ".join(words)


# ---------------------------------------------------------------------------------------------------- ticks


def chosen_after(drawn: Sequence[tuple[str, frozenset[str]]], before: set[str], now: set[str], chosen: set[str]) -> set:
    """Ids of the chosen runs when the ticks have become others: one at a group is for all its runs.

    drawn: id and runs of every row; before, now: ids of the rows that were and are ticked; chosen: the runs before.
    """
    found = set(chosen)
    for row, runs in drawn:
        if row in now - before:
            found |= runs
        elif row in before - now:
            found -= runs
    return found


def ticked(rows: Sequence[GroupedRow], chosen: set[str]) -> list[int]:
    """The places of rows all of whose runs are chosen."""
    return [place for place, row in enumerate(rows) if row.runs <= chosen]


# ---------------------------------------------------------------------------------------------------- cells


def frame(
    rows: Sequence[GroupedRow], by: Sequence[Name], shown: Sequence[Name], held: Bunch | None, against: Entry | None
) -> dict[str, list]:
    """The table by its heads; differences from the group `held` and from the run `against` stand behind the numbers."""
    cells: dict[str, list] = {LABEL: [row.label(by) for row in rows]}
    cells["n"] = [None if row.entry else len(row.bunch.members) for row in rows]
    if any(row.bunch.finished < len(row.bunch.members) for row in rows):
        cells["Finished"] = [None if row.entry else row.bunch.finished for row in rows]
    for name in shown:
        head = table.head(name)
        if not name.is_measured:
            cells[head] = [_said(row, name) for row in rows]
            continue
        numbers = [row.bunch.mean_and_std(name) for row in rows]
        cells[head] = [table.values([row.entry], name)[0] if row.entry else own[0] for row, own in zip(rows, numbers)]
        cells[f"± {head}"] = [None if row.entry else own[1] for row, own in zip(rows, numbers)]
        if name.kind == "percent" and (held or against):
            cells[f"Δ {head}"] = _differences(rows, name, by, held, against)
    return cells


def _said(row: GroupedRow, name: Name) -> object:
    """What a run says; of a group what all its runs say, or of tags, states and alarms each that one of them has."""
    if row.entry:
        return table.values([row.entry], name)[0]
    cells = table.values(row.bunch.members, name)
    if any(isinstance(cell, list | tuple) for cell in cells):
        return list(dict.fromkeys(word for cell in cells for word in cell))
    return cells[0] if all(cell == cells[0] for cell in cells) else None


def _differences(
    rows: Sequence[GroupedRow], name: Name, by: Sequence[Name], held: Bunch | None, against: Entry | None
) -> list[str | None]:
    groups = [row.bunch for row in rows if not row.entry]
    between = bunches.held_against(groups, held, name, by) if held else {}
    words = {one.id: _in_words(between, place) for place, one in enumerate(groups)} if held else {}
    return [_points(row.entry, against, name) if row.entry else words.get(row.bunch.id) for row in rows]


def _in_words(between: dict[int, Difference | None], place: int) -> str:
    if place not in between:
        return "the baseline"
    difference = between[place]
    said = differences.verdict(difference)
    return f"{differences.cell(difference)} {said}" if difference else said


def _points(entry: Entry, against: Entry | None, name: Name) -> str | None:
    """Points more than the run that others are held against."""
    if against is None:
        return None
    (difference,) = table.differences_from(table.values([entry], name), name.of(against))
    return None if difference is None else f"{difference:+.1f}"
