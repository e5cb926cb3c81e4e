"""Tables: each column is declared once, with its heading, its cells and its look."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from lps.ui.shared import theme

EMPTY = "–"  # shown for a cell without a value
_ROW_HEIGHT = 35  # pixels of a row that can be selected
_KINDS = {
    "any": st.column_config.Column,
    "text": st.column_config.TextColumn,
    "number": st.column_config.NumberColumn,
    "bar": st.column_config.ProgressColumn,
    "link": st.column_config.LinkColumn,
    "time": st.column_config.DatetimeColumn,
    "check": st.column_config.CheckboxColumn,
    "chips": st.column_config.MultiselectColumn,
    "button": st.column_config.ButtonColumn,
}


class Column:
    """One column of a table.

    cells: a function of a row, or the cells from top to bottom. kind: one of `_KINDS`. hidden: leave the column out;
    optional: leave it out where every cell is empty, zero or False. bold: rows in bold; texts: what is shown for
    each cell, which is still sorted by its value. width, help, look: format, pinned ... of `st.column_config`.
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
        **look,
    ) -> None:
        self.heading, self.cells, self.hidden, self.optional = heading, cells, hidden, optional
        self.bold, self.texts = bold, texts
        self.config = _KINDS[kind](width=width, help=help, **look)

    def values(self, rows: Sequence) -> list:
        """The cells from top to bottom, None where one is empty."""
        cells = map(self.cells, rows) if callable(self.cells) else self.cells
        return [None if isinstance(cell, str) and not cell else cell for cell in cells]


def table_data(columns: Sequence[Column], rows: Sequence = ()):
    """The shown columns as a DataFrame, or as its Styler where a cell is bold or has a text of its own."""
    cells = {column.heading: column.values(rows) for column in columns if not column.hidden}
    for column in columns:
        if column.optional and not any(cells.get(column.heading, ())):
            cells.pop(column.heading, None)
    table = pd.DataFrame(cells)
    shown = [column for column in columns if column.heading in cells and (column.bold or column.texts)]
    if not shown:
        return table
    look = table.style.format(na_rep=EMPTY)
    for column in shown:
        for place, text in enumerate(column.texts):
            look = look.format(partial(_constant_text, text), subset=pd.IndexSlice[place, [column.heading]])
        look = look.set_properties(pd.IndexSlice[list(column.bold), [column.heading]], **{"font-weight": "650"})
    return look


def _constant_text(text: str, _value: object) -> str:
    return text


def show_data_table(columns: Sequence[Column], rows: Sequence, alt: str, *, most: int = 10, **options):
    """Draw the table and return its selection. most: rows in sight; options: further ones of `st.dataframe`."""
    table = table_data(columns, rows)
    options = {"height": theme.table_height(len(table.index), most), "width": "stretch"} | options
    looks = {column.heading: column.config for column in columns}
    return st.dataframe(table, hide_index=True, column_config=looks, placeholder=EMPTY, alt=alt, **options)


def tick_rows(
    columns: Sequence[Column],
    rows: Sequence,
    name: str,
    ids: Sequence[str],
    ticked: Collection[str],
    most: int,
    alt: str,
) -> list[int]:
    """A table whose rows can be selected and stay selected while it changes: positions of the selected rows, ascending.

    ids: one for each row; ticked: those that are selected at first; most: rows in sight.
    """
    # Streamlit stores positions, which would mean other rows once rows are added or sorted.
    key = f"{name}_" + hashlib.sha256("\n".join(ids).encode()).hexdigest()
    return tick_places(columns, rows, key, [column for column, one in enumerate(ids) if one in ticked], most, alt)


def tick_places(
    columns: Sequence[Column], rows: Sequence, key: str, begins: list[int], most: int, alt: str
) -> list[int]:
    """As `tick_rows`, with the widget's key. begins: positions that are selected when the table is new."""
    event = show_data_table(
        columns,
        rows,
        alt,
        key=key,
        height=_ROW_HEIGHT * (most + 1) if len(rows) > most else "content",
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": begins}},
        row_height=_ROW_HEIGHT,
    )
    return [place for place in sorted(event["selection"]["rows"]) if place < len(rows)]
