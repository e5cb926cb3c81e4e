"""The rows of grouped runs: one for each group with mean and deviation, and below an open group its runs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lps.analysis import differences, run_diff
from lps.analysis.differences import Difference
from lps.analysis.run_index import RunRow
from lps.scores.protocols import ABOUT_LOW_ALL
from lps.store import titles
from lps.tables import grouping
from lps.tables.grouping import RunGroup
from lps.tables.run_names import Name
from lps.ui.runs import table
from lps.ui.runs.run_filters import RUN_COLUMN_HEADS
from lps.ui.shared.data_table import Column
from lps.wording import with_minus

LABEL = "Group"  # the column with the names of groups and runs
_CLOSED, _OPEN, _INSIDE = "► ", "▼ ", "\u2003\u2003"
_MIN_LABEL_LENGTH = 20  # characters: a name is pressed on, so it takes its whole cell


@dataclass(frozen=True)
class GroupedRow:
    """A group, or one run of an open group. name: of the run, what it differs in from the others of the group."""

    group: RunGroup
    entry: RunRow | None = None
    is_open: bool = False
    name: str = ""

    @property
    def id(self) -> str:
        return f"{self.group.id}/{self.entry.run.id}" if self.entry else self.group.id

    @property
    def runs(self) -> frozenset[str]:
        """Return the ids of the runs of this row."""
        return frozenset(member.run.id for member in ([self.entry] if self.entry else self.group.members))

    def label(self, by: Sequence[Name]) -> str:
        """Return the text of the first cell."""
        if self.entry:
            return f"{_INSIDE}{self.name}{' (hidden)' * self.entry.hidden}".ljust(_MIN_LABEL_LENGTH, "\u2003")
        return ((_OPEN if self.is_open else _CLOSED) + describe_group(self.group, by)).ljust(
            _MIN_LABEL_LENGTH, "\u2003"
        )


def list_rows(run_groups: Sequence[RunGroup], open_ids: Collection[str]) -> list[GroupedRow]:
    """Return the rows from top to bottom. open_ids: of the groups whose runs are shown."""
    rows = []
    for group in run_groups:
        rows.append(GroupedRow(group, is_open=group.id in open_ids))
        if group.id in open_ids:
            names = run_diff.short_labels([entry.run for entry in group.members])
            rows += [GroupedRow(group, entry, name=name) for entry, name in zip(group.members, names)]
    return rows


def describe_group(group: RunGroup, by: Sequence[Name]) -> str:
    """Describe what the runs of a group have in common; a setting that is no text has its name, as in titles."""
    parts = []
    for name, value in zip(by, group.values):
        if name.key == "method" or (name.kind == "text" and value != "–"):
            parts.append(titles.method_title(value) if name.key == "method" else value)
        else:
            parts.append(
                f"{RUN_COLUMN_HEADS[name.key]} {value}" if name.key in RUN_COLUMN_HEADS else f"{name.key}={value}"
            )
    return " · ".join(parts)


# ---------------------------------------------------------------------------------------------------- ticks


def update_choice(
    rows: Sequence[tuple[str, frozenset[str]]], ticked_before: set[str], ticked_now: set[str], selected_before: set[str]
) -> set:
    """Return the ids of the selected runs after ticks have changed; a tick at a group counts for all its runs.

    rows: id and runs of every row. ticked_before, ticked_now: ids of the ticked rows. selected_before: runs.
    """
    selected = set(selected_before)
    for row_id, runs in rows:
        if row_id in ticked_now - ticked_before:
            selected |= runs
        elif row_id in ticked_before - ticked_now:
            selected -= runs
    return selected


def ticked_rows(rows: Sequence[GroupedRow], selected: set[str]) -> list[int]:
    """Return the positions of the rows all of whose runs are selected."""
    return [index for index, row in enumerate(rows) if row.runs <= selected]


# ---------------------------------------------------------------------------------------------------- cells


def group_columns(
    rows: Sequence[GroupedRow],
    by: Sequence[Name],
    names: Sequence[Name],
    baseline: RunGroup | None,
    baseline_run: RunRow | None,
    entries: Sequence[RunRow],
) -> list[Column]:
    """Return the columns after the names; differences from `baseline` and `baseline_run` follow the numbers."""
    all_finished = all(row.group.finished == len(row.group.members) for row in rows)
    column_list = [
        Column("n", [None if row.entry else len(row.group.members) for row in rows], "number", 48, "Runs"),
    ]
    for name in names:
        if not name.is_measured:
            column_list.append(table.make_column(name, entries, [_summarize_cells(row, name) for row in rows], False))
            continue
        number = {"kind": "number", "format": "%.1f" if name.kind == "percent" else "%.4g"}
        head = table.column_head(name)
        explanation, groups = f"{name.key} at the newest epoch", [row.group.mean_and_std(name) for row in rows]
        means = [
            table.column_values([row.entry], name)[0] if row.entry else mean for row, (mean, _) in zip(rows, groups)
        ]
        spreads = [None if row.entry else spread for row, (_, spread) in zip(rows, groups)]
        help_text = f"{explanation}; for a group, the mean of its runs"
        help_text += f". {ABOUT_LOW_ALL}" * (name.key == "accuracy/all")
        column_list.append(Column(head, means, width=80, help=help_text, **number))
        column_list.append(
            Column(f"± {head}", spreads, width=70, help=f"Standard deviation of {explanation}", **number)
        )
        if name.kind == "percent" and (baseline or baseline_run):
            column_list.append(Column(f"Δ {head}", _group_differences(rows, name, by, baseline, baseline_run)))
    finished = [None if row.entry else row.group.finished for row in rows]
    return [*column_list, Column("Finished", finished, "number", 70, hidden=all_finished)]


def _summarize_cells(row: GroupedRow, name: Name) -> object:
    """Return a run's value, or the one that all runs of a group share; of tags, states and alarms all values."""
    if row.entry:
        return table.column_values([row.entry], name)[0]
    cells = table.column_values(row.group.members, name)
    if any(isinstance(cell, list | tuple) for cell in cells):
        return list(dict.fromkeys(item for cell in cells for item in cell))
    return cells[0] if all(cell == cells[0] for cell in cells) else None


def _group_differences(
    rows: Sequence[GroupedRow], name: Name, by: Sequence[Name], baseline: RunGroup | None, baseline_run: RunRow | None
) -> list[str | None]:
    groups = [row.group for row in rows if not row.entry]
    difference_by_index = grouping.compare_to_baseline(groups, baseline, name, by) if baseline else {}
    difference_texts = (
        {group.id: _describe_difference(difference_by_index, index) for index, group in enumerate(groups)}
        if baseline
        else {}
    )
    return [
        _difference_in_points(row.entry, baseline_run, name) if row.entry else difference_texts.get(row.group.id)
        for row in rows
    ]


def _describe_difference(difference_by_index: dict[int, Difference | None], index: int) -> str:
    if index not in difference_by_index:
        return "the baseline"
    difference = difference_by_index[index]
    verdict = differences.verdict(difference)
    return f"{with_minus(differences.format_difference(difference))} {verdict}" if difference else verdict


def _difference_in_points(entry: RunRow, baseline_run: RunRow | None, name: Name) -> str | None:
    """Return the difference from the baseline run in points, as text; None without a baseline."""
    if baseline_run is None:
        return None
    (difference,) = table.differences_from(table.column_values([entry], name), name.display_value(baseline_run))
    return None if difference is None else with_minus(f"{difference:+.1f}")
