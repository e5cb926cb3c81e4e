"""The rows of runs put together: one for each group, with mean and spread, and below an open one its runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lps.analysis import differences
from lps.analysis.differences import Difference
from lps.analysis.run_index import RunRow
from lps.store import titles
from lps.tables import grouping
from lps.tables.grouping import RunGroup
from lps.tables.run_names import Name
from lps.ui.runs import table
from lps.ui.shared.data_table import Column

LABEL = "Group"  # the column with the names of groups and runs
_CLOSED, _OPEN, _INSIDE = "► ", "▼ ", "\u2003\u2003"
_FILL = 20  # characters: a name is pressed on, so it takes its whole cell


@dataclass(frozen=True)
class GroupedRow:
    """A group, or one run of an open one."""

    group: RunGroup
    entry: RunRow | None = None
    is_open: bool = False

    @property
    def id(self) -> str:
        return f"{self.group.id}/{self.entry.run.id}" if self.entry else self.group.id

    @property
    def runs(self) -> frozenset[str]:
        """Ids of the runs that it stands for."""
        return frozenset(one.run.id for one in ([self.entry] if self.entry else self.group.members))

    def label(self, by: Sequence[Name]) -> str:
        """What stands in its first cell."""
        if self.entry:
            return (_INSIDE + table.name_of(self.entry)).ljust(_FILL, "\u2003")
        return ((_OPEN if self.is_open else _CLOSED) + describe_group(self.group, by)).ljust(_FILL, "\u2003")


def rows_of(run_groups: Sequence[RunGroup], opened: Collection[str]) -> list[GroupedRow]:
    """From top to bottom. opened: ids of the groups whose runs are shown."""
    rows = []
    for one in run_groups:
        rows.append(GroupedRow(one, is_open=one.id in opened))
        rows += [GroupedRow(one, entry) for entry in one.members if one.id in opened]
    return rows


def describe_group(one: RunGroup, by: Sequence[Name]) -> str:
    """What its runs have in common, in a line: texts speak for themselves, numbers need to be told what they are of."""
    words = []
    for name, value in zip(by, one.values):
        value_words = titles.method_title(value) if name.key == "method" else value
        words.append(
            value_words if name.kind == "text" and value_words != "–" else f"{table.column_head(name)} {value_words}"
        )
    return " · ".join(words)


# ---------------------------------------------------------------------------------------------------- ticks


def update_choice(
    drawn: Sequence[tuple[str, frozenset[str]]], before: set[str], now: set[str], chosen: set[str]
) -> set:
    """Ids of the chosen runs when the ticks have become others: one at a group is for all its runs.

    drawn: id and runs of every row; before, now: ids of the rows that were and are ticked; chosen: the runs before.
    """
    chosen_runs = set(chosen)
    for row, runs in drawn:
        if row in now - before:
            chosen_runs |= runs
        elif row in before - now:
            chosen_runs -= runs
    return chosen_runs


def ticked_rows(rows: Sequence[GroupedRow], chosen: set[str]) -> list[int]:
    """The places of rows all of whose runs are chosen."""
    return [index for index, row in enumerate(rows) if row.runs <= chosen]


# ---------------------------------------------------------------------------------------------------- cells


def group_columns(
    rows: Sequence[GroupedRow],
    by: Sequence[Name],
    shown: Sequence[Name],
    baseline: RunGroup | None,
    against: RunRow | None,
    entries: Sequence[RunRow],
) -> list[Column]:
    """Return the columns after the names; differences from group `baseline` and run `against` follow the numbers."""
    all_over = all(row.group.finished == len(row.group.members) for row in rows)
    column_list = [
        Column("n", [None if row.entry else len(row.group.members) for row in rows], "number", 48, "Runs"),
        Column("Finished", [None if row.entry else row.group.finished for row in rows], "number", 70, hidden=all_over),
    ]
    for name in shown:
        head, number = (
            table.column_head(name),
            {"kind": "number", "format": "%.1f" if name.kind == "percent" else "%.4g"},
        )
        if not name.is_measured:
            column_list.append(table.make_column(name, entries, [_summarize_cells(row, name) for row in rows], False))
            continue
        about, groups = f"{name.key} at the newest epoch", [row.group.mean_and_std(name) for row in rows]
        means = [
            table.column_values([row.entry], name)[0] if row.entry else mean for row, (mean, _) in zip(rows, groups)
        ]
        spreads = [None if row.entry else spread for row, (_, spread) in zip(rows, groups)]
        column_list.append(Column(head, means, width=80, help=f"{about}; for a group, the mean of its runs", **number))
        column_list.append(Column(f"± {head}", spreads, width=70, help=f"Standard deviation of {about}", **number))
        if name.kind == "percent" and (baseline or against):
            column_list.append(Column(f"Δ {head}", _group_differences(rows, name, by, baseline, against)))
    return column_list


def _summarize_cells(row: GroupedRow, name: Name) -> object:
    """What a run says; of a group what all its runs say, or of tags, states and alarms each that one of them has."""
    if row.entry:
        return table.column_values([row.entry], name)[0]
    cells = table.column_values(row.group.members, name)
    if any(isinstance(cell, list | tuple) for cell in cells):
        return list(dict.fromkeys(word for cell in cells for word in cell))
    return cells[0] if all(cell == cells[0] for cell in cells) else None


def _group_differences(
    rows: Sequence[GroupedRow], name: Name, by: Sequence[Name], baseline: RunGroup | None, against: RunRow | None
) -> list[str | None]:
    groups = [row.group for row in rows if not row.entry]
    between = grouping.compare_to_baseline(groups, baseline, name, by) if baseline else {}
    words = {one.id: _describe_difference(between, index) for index, one in enumerate(groups)} if baseline else {}
    return [_difference_in_points(row.entry, against, name) if row.entry else words.get(row.group.id) for row in rows]


def _describe_difference(between: dict[int, Difference | None], index: int) -> str:
    if index not in between:
        return "the baseline"
    difference = between[index]
    verdict_words = differences.verdict(difference)
    return f"{differences.format_difference(difference)} {verdict_words}" if difference else verdict_words


def _difference_in_points(entry: RunRow, against: RunRow | None, name: Name) -> str | None:
    """Points more than the run that others are held against."""
    if against is None:
        return None
    (difference,) = table.differences_from(table.column_values([entry], name), name.display_value(against))
    return None if difference is None else f"{difference:+.1f}"
