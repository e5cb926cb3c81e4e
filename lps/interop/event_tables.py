"""Export the events of runs as tables for spreadsheets, pandas, R and databases: CSV or Parquet.

    events   one row per number: run, kind, epoch, step, time, name, index (of a vector's entry, else empty), value
    scalars  one row per event: run, kind, epoch, step, time, then a column for every number that is no vector
    runs     one row per run: id, name, state, reason, then every setting under its key

Events that a resumed run took back are left out (`events.drop_repeated`). A number that was not finite is an empty
value.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from lps.errors import UserError
from lps.files.atomic_folder import draft_of
from lps.files.tables import escape_cell, write_csv
from lps.store.events import read_history
from lps.store.runs import Run

_GROUP = 1 << 15  # rows of Parquet that are in memory at a time
FORMS = ("csv", "parquet")
# type by column: text, whole (a whole number) or number
EVENT_COLUMNS = {"run": "text", "kind": "text", "epoch": "whole", "step": "whole", "time": "number"}
_LONG = EVENT_COLUMNS | {"name": "text", "index": "whole", "value": "number"}
_RUN_TYPES = dict.fromkeys(("run", "name", "state", "reason"), "text")

Row = dict[str, object]


def export(runs: Sequence[Run], into: Path, form: str) -> list[Path]:
    """Write the three tables of `runs` into the folder `into`, all or none, and return their paths; raises `UserError`.

    form: csv or parquet. Events are streamed, so memory does not grow with the length of a run.
    """
    write = {"csv": _write_csv, "parquet": _write_parquet}[form]
    wide = EVENT_COLUMNS | dict.fromkeys(scalar_names(runs), "number")
    with draft_of(into, {"to": form, "runs": [run.id for run in runs]}) as draft:
        write(draft / f"events.{form}", _LONG, (long_rows(run) for run in runs))
        write(draft / f"scalars.{form}", wide, (wide_rows(run) for run in runs))
        rows_of_runs = [_about_run(run) for run in runs]
        write(draft / f"runs.{form}", _RUN_TYPES | {key: "text" for row in rows_of_runs for key in row}, [rows_of_runs])
    return [Path(into) / f"{name}.{form}" for name in ("events", "scalars", "runs")]


def long_rows(run: Run) -> Iterator[Row]:
    """Yield one row per number, in the order of the events; a vector gives one row per entry."""
    for event in read_history(run.events):
        columns = _event_columns(run, event)
        for name, value in event["values"].items():
            if _is_number(value):
                yield columns | {"name": name, "index": None, "value": value}
            elif isinstance(value, list):
                numbers = (item if _is_number(item) else None for item in value)
                yield from (columns | {"name": name, "index": i, "value": v} for i, v in enumerate(numbers))


def wide_rows(run: Run) -> Iterator[Row]:
    """Yield one row per event that has numbers, each number in a column of its name."""
    for event in read_history(run.events):
        numbers = {name: value for name, value in event["values"].items() if _is_number(value)}
        if numbers:
            yield _event_columns(run, event) | numbers


def scalar_names(runs: Iterable[Run]) -> list[str]:
    """Return the sorted names of all numbers that are no vectors."""
    events = (event for run in runs for event in read_history(run.events))
    names = {name for event in events for name, value in event["values"].items() if _is_number(value)}
    return sorted(names - EVENT_COLUMNS.keys())


def _about_run(run: Run) -> Row:
    """Return id, name, state and settings of a run as text; settings are missing if they cannot be read."""
    state = run.state()
    row: Row = {"run": run.id, "name": run.meta()["name"], "state": state.name, "reason": state.reason}
    try:
        settings = run.config().flat()
    except UserError:
        return row
    return row | {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}


def _is_number(value) -> bool:
    """Return whether an event's value is one number, or None, which stands for a number that was not finite."""
    return value is None or type(value) in (int, float)


def _event_columns(run: Run, event: dict) -> Row:
    return {"run": run.id} | {key: event[key] for key in ("kind", "epoch", "step", "time")}


def _write_csv(path: Path, columns: Mapping[str, str], parts: Iterable[Iterable[Row]]) -> None:
    with open(path, "x", newline="", encoding="utf-8") as file:
        write_csv(file, [[escape_cell(column) for column in columns]])
        for part in parts:
            write_csv(file, ([_cell(row.get(column)) for column in columns] for row in part))


def _cell(value) -> object:
    """Return a value as a cell: text escaped against formulas, numbers with all their digits, "" for None."""
    return "" if value is None else escape_cell(value) if isinstance(value, str) else repr(value)


def _write_parquet(path: Path, columns: Mapping[str, str], parts: Iterable[Iterable[Row]]) -> None:
    """Write one row group for every `_GROUP` rows of a run."""
    pyarrow, parquet = import_pyarrow()
    types = {"text": pyarrow.string(), "number": pyarrow.float64(), "whole": pyarrow.int64()}
    schema = pyarrow.schema([(column, types[kind]) for column, kind in columns.items()])
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in (rows for part in parts for rows in _groups(part)):
            arrays = [
                pyarrow.array([_typed(row.get(column), kind) for row in rows], types[kind])
                for column, kind in columns.items()
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows in lists of at most `_GROUP`."""
    remaining = iter(rows)
    while group := list(islice(remaining, _GROUP)):
        yield group


def _typed(value, kind: str):
    if value is None or kind == "whole":
        return value
    return float(value) if kind == "number" else value.encode("utf-8", "replace").decode()


def import_pyarrow():
    """Import (pyarrow, pyarrow.parquet), which only the dashboard's extra installs; raises `UserError` without them."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise UserError("to", f"parquet needs {error.name}, which is not installed: pip install pyarrow") from None
    return pyarrow, parquet
