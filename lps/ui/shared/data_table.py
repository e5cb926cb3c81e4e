"""Tables: each column is declared once, with its heading, its cells and its format."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from lps.ui.server import presentation
from lps.ui.shared import theme

EMPTY = "–"  # shown for a cell without a value
_LETTERS = 26  # of a name that a column shows: a phone has room for two scores beside it
_ROW_HEIGHT = 35  # pixels of a row that can be selected
_KINDS = {
    "any": st.column_config.Column,
    "text": st.column_config.TextColumn,
    "number": st.column_config.NumberColumn,
    "bar": st.column_config.ProgressColumn,
    "time": st.column_config.DatetimeColumn,
    "check": st.column_config.CheckboxColumn,
    "chips": st.column_config.MultiselectColumn,
    "button": st.column_config.ButtonColumn,
}


class Column:
    """One column of a table.

    cells: a function of a row, or the cells from top to bottom. kind: one of `_KINDS`. hidden: leave the column out.
    optional: leave it out if every cell is empty, zero or False. bold: positions of bold rows. texts: what each cell
    shows; it is still sorted by its value. width, help, options (format, pinned ...): of `st.column_config`; the width
    is for text of the usual size.
    """

    def __init__(
        self,
        heading: str,
        cells: Callable | Iterable,
        kind: str = "any",
        width: int | str | None = None,
        help: str | None = None,
        *,
        hidden: bool = False,
        optional: bool = False,
        bold: Collection[int] = (),
        texts: Sequence[str] = (),
        **options,
    ) -> None:
        self.heading, self.cells, self.hidden, self.optional = heading, cells, hidden, optional
        self.bold, self.texts = bold, texts
        if isinstance(width, int):
            width = round(width * presentation.chart_scale())
        self.config = _KINDS[kind](width=width, help=help, **options)

    def values(self, rows: Sequence) -> list:
        """Return the cells from top to bottom, None for an empty one."""
        cells = map(self.cells, rows) if callable(self.cells) else self.cells
        return [None if isinstance(cell, str) and not cell else cell for cell in cells]


def label_width(labels: Sequence[str], most_letters: int = _LETTERS) -> int:
    """Return the width of a column of names in pixels: room for two scores on a phone, but no two cut alike.

    most_letters: of a name that are shown, if names need no more to differ.
    """
    longest = max(map(len, labels), default=0)
    num_letters = next(n for n in range(min(most_letters, longest), longest + 1) if not _num_alike(labels, n))
    return min(460, max(70, round(24 + 6.4 * num_letters)))


def _num_alike(labels: Sequence[str], num_letters: int) -> int:
    """Return how many labels look like another one if only `num_letters` of them are shown."""
    distinct = set(labels)
    return len(distinct) - len({label[:num_letters] for label in distinct})


def table_data(columns: Sequence[Column], rows: Sequence = ()):
    """Return the visible columns as a DataFrame, or as its Styler if a cell is bold or has its own text."""
    cells = {column.heading: column.values(rows) for column in columns if not column.hidden}
    for column in columns:
        if column.optional and not any(cells.get(column.heading, ())):
            cells.pop(column.heading, None)
    table = pd.DataFrame(cells)
    styled_columns = [column for column in columns if column.heading in cells and (column.bold or column.texts)]
    if not styled_columns:
        return table
    styler = table.style.format(na_rep=EMPTY)
    for column in styled_columns:
        for position, text in enumerate(column.texts):
            styler = styler.format(partial(_constant_text, text), subset=pd.IndexSlice[position, [column.heading]])
        styler = styler.set_properties(pd.IndexSlice[list(column.bold), [column.heading]], **{"font-weight": "650"})
    return styler


def _constant_text(text: str, _value: object) -> str:
    return text


def show_data_table(columns: Sequence[Column], rows: Sequence, alt: str, *, max_rows: int = 10, **options):
    """Draw the table and return its selection. max_rows: rows in sight; options: more of `st.dataframe`."""
    table = table_data(columns, rows)
    options = {"height": theme.table_height(len(table.index), max_rows), "width": "stretch"} | options
    column_config = {column.heading: column.config for column in columns}
    return st.dataframe(table, hide_index=True, column_config=column_config, placeholder=EMPTY, alt=alt, **options)


def tick_rows(
    columns: Sequence[Column],
    rows: Sequence,
    name: str,
    ids: Sequence[str],
    ticked_ids: Collection[str],
    max_rows: int,
    alt: str,
) -> list[int]:
    """Show a table with selectable rows; return the positions of the selected ones, ascending.

    The selection survives changes of the table. ids: one for each row. ticked_ids: those selected at first. max_rows:
    rows in sight.
    """
    # Streamlit stores positions, which would mean other rows once rows are added or sorted.
    key = f"{name}_" + hashlib.sha256("\n".join(ids).encode()).hexdigest()
    return tick_positions(
        columns, rows, key, [column for column, row_id in enumerate(ids) if row_id in ticked_ids], max_rows, alt
    )


def tick_positions(
    columns: Sequence[Column], rows: Sequence, key: str, initial_positions: list[int], max_rows: int, alt: str
) -> list[int]:
    """Do the same as `tick_rows`, given the key of the widget. initial_positions: selected when the table is new."""
    row_height = round(_ROW_HEIGHT * presentation.chart_scale())
    event = show_data_table(
        columns,
        rows,
        alt,
        key=key,
        height=row_height * (max_rows + 1) if len(rows) > max_rows else "content",
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": initial_positions}},
        row_height=row_height,
    )
    return [position for position in sorted(event["selection"]["rows"]) if position < len(rows)]
