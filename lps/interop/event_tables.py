"""The events of runs as tables for spreadsheets, pandas, R and databases: CSV or Parquet.

    events   one row a number: run, kind, epoch, step, time, name, index (of a vector's entry, else empty), value
    scalars  one row an event: run, kind, epoch, step, time, then a column for every number that is no vector
    runs     one row a run: id, name, state, reason, then every setting under its key

The history is that which counts in the end (`events.drop_repeated`). A number that was not finite is an empty value.
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
# columns by name, each text, whole (a whole number) or number
WHERE = {"run": "text", "kind": "text", "epoch": "whole", "step": "whole", "time": "number"}
_LONG = WHERE | {"name": "text", "index": "whole", "value": "number"}
_RUN_TYPES = dict.fromkeys(("run", "name", "state", "reason"), "text")

Row = dict[str, object]


def export(runs: Sequence[Run], into: Path, form: str) -> list[Path]:
    """Write the three tables of `runs` into the folder `into`, all or none; raises `UserError`.

    form: csv or parquet. However long the runs, few of their events are in memory at a time.
    """
    write = {"csv": _write_csv, "parquet": _write_parquet}[form]
    wide = WHERE | dict.fromkeys(scalar_names(runs), "number")
    with draft_of(into, {"to": form, "runs": [run.id for run in runs]}) as draft:
        write(draft / f"events.{form}", _LONG, (long_rows(run) for run in runs))
        write(draft / f"scalars.{form}", wide, (wide_rows(run) for run in runs))
        rows_of_runs = [_about_run(run) for run in runs]
        write(draft / f"runs.{form}", _RUN_TYPES | {key: "text" for row in rows_of_runs for key in row}, [rows_of_runs])
    return [Path(into) / f"{name}.{form}" for name in ("events", "scalars", "runs")]


def long_rows(run: Run) -> Iterator[Row]:
    """One row a number, in the order of the events; vectors give a row an entry."""
    for event in read_history(run.events):
        where = _where(run, event)
        for name, value in event["values"].items():
            if _is_number(value):
                yield where | {"name": name, "index": None, "value": value}
            elif isinstance(value, list):
                numbers = (item if _is_number(item) else None for item in value)
                yield from (where | {"name": name, "index": i, "value": v} for i, v in enumerate(numbers))


def wide_rows(run: Run) -> Iterator[Row]:
    """One row an event that has numbers, each in a column of its name."""
    for event in read_history(run.events):
        numbers = {name: value for name, value in event["values"].items() if _is_number(value)}
        if numbers:
            yield _where(run, event) | numbers


def scalar_names(runs: Iterable[Run]) -> list[str]:
    """The names of all numbers that are no vectors, sorted."""
    events = (event for run in runs for event in read_history(run.events))
    names = {name for event in events for name, value in event["values"].items() if _is_number(value)}
    return sorted(names - WHERE.keys())


def _about_run(run: Run) -> Row:
    """Id, name, state and settings of a run, as text; settings are missing where they cannot be read."""
    state = run.state()
    row: Row = {"run": run.id, "name": run.meta()["name"], "state": state.name, "reason": state.reason}
    try:
        settings = run.config().flat()
    except UserError:
        return row
    return row | {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}


def _is_number(value) -> bool:
    """Whether an event's value is one number, or the null that stands for one that was not finite."""
    return value is None or type(value) in (int, float)


def _where(run: Run, event: dict) -> Row:
    return {"run": run.id} | {key: event[key] for key in ("kind", "epoch", "step", "time")}


def _write_csv(path: Path, columns: Mapping[str, str], parts: Iterable[Iterable[Row]]) -> None:
    with open(path, "x", newline="", encoding="utf-8") as file:
        write_csv(file, [[escape_cell(column) for column in columns]])
        for part in parts:
            write_csv(file, ([_plain(row.get(column)) for column in columns] for row in part))


def _plain(value) -> object:
    """A value as a cell: text guarded against formulas, numbers with all their digits, nothing for None."""
    return "" if value is None else escape_cell(value) if isinstance(value, str) else repr(value)


def _write_parquet(path: Path, columns: Mapping[str, str], parts: Iterable[Iterable[Row]]) -> None:
    """One row group for every `_GROUP` rows of a run."""
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
    """`_GROUP` rows at a time."""
    remaining = iter(rows)
    while group := list(islice(remaining, _GROUP)):
        yield group


def _typed(value, kind: str):
    if value is None or kind == "whole":
        return value
    return float(value) if kind == "number" else value.encode("utf-8", "replace").decode()


def import_pyarrow():
    """The package that writes Parquet; only the dashboard brings it along."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise UserError("to", f"parquet needs {error.name}, which is not installed: pip install pyarrow") from None
    return pyarrow, parquet
