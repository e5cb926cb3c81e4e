"""Read vectors from `.npy`, `.npz` and Parquet, with their ids, labels, titles and pictures.

A column has the same name in every kind of file, singular or plural: vector, id, label, title (or text), picture.
In a `.npz` they are arrays, in Parquet columns; beside `NAME.npy`, which has the vectors alone, they are columns of
`NAME.csv`. A `.npy` is mapped from the disk, so it may be larger than the memory. Nothing in a file can run code.
"""

import csv
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lps.datasets import quoted, repeated
from lps.datasets.readers.array_file import ArrayFile, ArrayHead, opened, read_head
from lps.errors import UserError, shorten
from lps.files.atomic import clean_line
from lps.files.versions import MAX_IMAGES, MAX_WIDTH
from lps.machine import memory
from lps.wording import data_size

ENDINGS = (".npy", ".npz", ".parquet")
_VECTOR = "vector"
_EXPECTED = f"a file of vectors that ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
_COLUMNS = (_VECTOR, "id", "label", "title", "text", "picture")
_ARRAYS = (*_COLUMNS, "class_name")
_PRESENT = "names of all columns"  # beside the columns that a reader returns
_MAX_VIEWS = 64
_SHOWN = 6  # names of columns in a sentence
_LARGEST_TABLE = 1 << 30  # bytes of a .csv
_ROOM = 0.8  # share of the free memory for data that are not mapped
_LONGEST_ID, _LONGEST_LABEL = 200, 120  # characters; a longer one is refused
_LONGEST_TITLE = 2000  # characters that are kept
_LARGEST = 1e9  # largest number in a vector
_SMALLEST = 1e-30  # a vector with only smaller numbers is lost in float32
_PIECE = 4096  # vectors processed together
_TABLE_ROWS = 4096  # rows of Parquet decoded together
_WHOLE = re.compile("-?[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(\.0)?")
_WHOLE_FLOAT = re.compile(r"-?[0-9]+\.0")  # as pandas writes a column of whole numbers with gaps
_UNKNOWN = ("-1", "-1.0")
_GAPS = ("nan", "NaN", "NA", "<NA>", "None")  # as pandas and R write a gap among texts


@dataclass(frozen=True)
class VectorTable:
    """Columns of a file. values: (n, views, d) of a real type. ids: unique. labels: one per item as read, or None.

    class_names: for numeric labels, or None. titles: the id if an item has none; pictures: paths, "" for
    none, () if there are none at all. present: names of all arrays or columns that were found, for messages.
    """

    values: np.ndarray
    ids: tuple[str, ...]
    labels: list | None
    class_names: list | None
    titles: tuple[str, ...]
    pictures: tuple[str, ...]
    present: tuple[str, ...] = ()


def is_vector_file(path: str | os.PathLike) -> bool:
    """Return whether a path has the suffix of a file of vectors."""
    return os.path.splitext(path)[1].lower() in ENDINGS


def has_vectors(path: str | os.PathLike) -> bool:
    """Return whether a file has vectors and is not a `.npz` of pictures, by the names in it."""
    if os.path.splitext(path)[1].lower() != ".npz":
        return is_vector_file(path)
    try:
        with open(path, "rb") as file, ArrayFile(file) as stored:
            return any(_singular(name) == _VECTOR for name in stored.names)
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile):
        return False


def read_vectors(path: str | os.PathLike | None) -> VectorTable:
    """Read all columns of a file after checks of types, shapes and lengths; raises `UserError`."""
    if path is None:
        raise _wrong(f"nothing is given; expected {_EXPECTED}")
    if not os.path.isfile(path):  # accepts a name of any length, unlike a Path
        raise _wrong(
            f"{quoted(path)} {'is not a file' if os.path.exists(path) else 'does not exist'}; expected {_EXPECTED}"
        )
    if not is_vector_file(path):
        raise _wrong(f"{quoted(path)} is a file of another kind; expected {_EXPECTED}")
    reader = {".npy": _of_npy, ".npz": _of_npz, ".parquet": _of_parquet}[os.path.splitext(path)[1].lower()]
    try:
        return of_columns(reader(Path(path)))
    except PermissionError as error:
        raise _wrong(f"{quoted(path)} cannot be read ({error.strerror})") from None
    except MemoryError:
        raise _wrong(f"{quoted(path)} does not fit in this machine's memory") from None


def of_columns(columns: Mapping[str, object]) -> VectorTable:
    """Check columns given by their singular names; raises `UserError`."""
    values = _checked_vectors(columns[_VECTOR])
    count = len(values)
    other_columns = {name: _listed(name, columns[name], count) for name in _ARRAYS[1:] if name in columns}
    ids = tuple(map(str, range(count)))
    if "id" in other_columns:
        ids = tuple(_texts(other_columns["id"], _LONGEST_ID, "id"))
    _check_ids(ids)
    texts = other_columns.get("title", other_columns.get("text"))
    titles = (
        ids if texts is None else tuple(text or item_id for text, item_id in zip(_texts(texts, _LONGEST_TITLE), ids))
    )
    pictures = tuple(_texts(other_columns["picture"], 1000)) if "picture" in other_columns else ()
    labels, class_names = other_columns.get("label"), other_columns.get("class_name")
    return VectorTable(values, ids, labels, class_names, titles, pictures, tuple(columns.get(_PRESENT, ())))


def statistics(values: np.ndarray, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray, float]:
    """Return (mean (d,), standard deviation (d,), root mean square) of the plain view; checks every number.

    Raises `UserError` for numbers that are not finite or too large, for zero vectors, and if all are alike.
    """
    count, _, width = values.shape
    total, squares = np.zeros(width), np.zeros(width)
    for start in range(0, count, _PIECE):
        piece = np.asarray(values[start : start + _PIECE], np.float64)
        _check_piece(piece, ids[start : start + _PIECE])
        total += piece[:, 0].sum(axis=0)
        squares += np.square(piece[:, 0]).sum(axis=0)
    mean = total / count
    spread = np.sqrt(np.maximum(squares / count - np.square(mean), 0))
    return mean.astype(np.float32), spread.astype(np.float32), float(np.sqrt(squares.mean() / count))


def check_values(table: VectorTable) -> None:
    """Raise `UserError` as `statistics` does, for vectors that need no statistics."""
    for start in range(0, len(table.ids), _PIECE):
        _check_piece(np.asarray(table.values[start : start + _PIECE], np.float64), table.ids[start : start + _PIECE])


def _check_piece(piece: np.ndarray, ids: Sequence[str]) -> None:
    """Check a piece: float64 (m, views, d)."""
    flat = piece.reshape(len(piece), -1)
    largest = np.abs(flat).max(axis=1)
    for is_bad, problem in (
        (~np.isfinite(largest), "holds NaN or infinity; expected finite numbers"),
        (largest > _LARGEST, f"holds a number beyond {_LARGEST:g}; rescale the vectors"),
        ((np.abs(piece).max(axis=2) == 0).any(axis=1), "is all zeros, which has no direction; leave the item out"),
        (largest < _SMALLEST, f"has only numbers below {_SMALLEST:g}; rescale the vectors"),
    ):
        if is_bad.any():
            raise _wrong(f"the vector of {shorten(ids[int(is_bad.argmax())])} {problem}")


def _wrong(message: str) -> UserError:
    return UserError("dataset.path", message)


# ---------------------------------------------------------------------------------------------------- files


def _of_npy(path: Path) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            head = read_head(file)
            size = os.fstat(file.fileno()).st_size
    except ValueError as error:
        raise _wrong(f"{quoted(path)} is not a .npy file (or is damaged): {clean_line(error)}") from None
    _check_head(head)
    if head.start + head.size != size:
        raise _wrong(
            f"{quoted(path)} is damaged: it has {size:,} bytes, but its header says {head.start + head.size:,}"
        )
    order = "F" if head.by_columns else "C"
    columns: dict[str, object] = {_VECTOR: np.memmap(path, head.dtype, "r", head.start, head.shape, order)}
    table = path.with_suffix(".csv")
    return columns | (_of_csv(table, head.shape[0]) if table.is_file() else {})


def _of_csv(path: Path, count: int) -> dict[str, object]:
    """Read the table that belongs to `count` vectors. In a table of one column, a blank line is an empty cell."""
    if path.stat().st_size > _LARGEST_TABLE:
        raise _wrong(f"{quoted(path)} is larger than {data_size(_LARGEST_TABLE)}")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            if not "".join(header).strip():
                raise _wrong(f"{quoted(path)} has no header; expected the names of its columns, such as id,label")
            names = _column_indices(header)
            if _VECTOR in names:
                raise _wrong(
                    f"{quoted(path)} has a column of vectors, but the .npy file beside it has the vectors; "
                    "remove the column"
                )
            values_by_name: dict[str, list] = {name: [] for name in names}
            lines = (row or [""] for row in rows) if len(header) == 1 else filter(None, rows)
            for number, row in enumerate(lines, 2):
                if number > MAX_IMAGES + 1:
                    break
                if len(row) <= max(names.values(), default=-1):
                    raise _wrong(
                        f"line {number} of {quoted(path)} has {len(row)} cells; expected as many as its header"
                    )
                for name, column in names.items():
                    values_by_name[name].append(row[column])
    except (UnicodeDecodeError, csv.Error) as error:
        raise _wrong(f"{quoted(path)} is not a .csv file in UTF-8 ({clean_line(error)})") from None
    if len(header) == 1:
        values_by_name = {name: _without_extra_blanks(column, count) for name, column in values_by_name.items()}
    return {_PRESENT: header, **values_by_name}


def _without_extra_blanks(column: list[str], count: int) -> list[str]:
    """Return a column without all its blank cells if `count` others remain, else without those beyond `count`."""
    filled = list(filter(None, column))
    if len(filled) == count:
        return filled
    return column if any(column[count:]) else column[:count]


def _of_npz(path: Path) -> dict[str, object]:
    def check(heads: dict[str, ArrayHead]) -> None:
        named = _column_indices(heads, _ARRAYS)
        if _VECTOR not in named:
            raise _wrong("the file has no array called vectors; expected one of the shape (items, numbers)")
        _check_head(heads[list(heads)[named[_VECTOR]]])
        _check_room(sum(2 * head.size for head in heads.values()))

    with opened(str(path), lambda name: _singular(name, _ARRAYS), check, _EXPECTED) as (stored, heads):
        stored_names = list(heads)
        columns = {name: stored.read(stored_names[index]) for name, index in _column_indices(heads, _ARRAYS).items()}
        return {_PRESENT: sorted(stored.names), **columns}


def _of_parquet(path: Path) -> dict[str, object]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise _wrong("needs pyarrow to read Parquet: python -m pip install pyarrow; or save it as .npz") from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
        names = {name: schema.names[index] for name, index in _column_indices(schema.names).items()}
        if _VECTOR not in names:
            raise _wrong("the table has no column called vector; expected lists of numbers, equally long")
        _check_types(schema, names)
        texts = [name for name in names.values() if name != names[_VECTOR]]
        with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
            return {_PRESENT: schema.names, **_of_batches(file, names)}
    except MemoryError:  # also pyarrow's
        raise
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise _wrong(f"{quoted(path)} is not a Parquet file (or is damaged): {clean_line(error)}") from None


def _of_batches(file, names: Mapping[str, str]) -> dict[str, object]:
    """Read columns (real names by singular ones) in small batches: encoded sizes do not tell the decoded ones.

    Texts that repeat share one object, here as in the file.
    """
    import pyarrow

    metadata = file.metadata
    _check_count(metadata.num_rows)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    numbers = sum(chunk.num_values for chunk in chunks if chunk.path_in_schema.partition(".")[0] == names[_VECTOR])
    _check_room(max(3 * sum(group.total_byte_size for group in groups), 4 * numbers))
    vectors, values_by_name, size = [], {name: [] for name in names if name != _VECTOR}, 0
    for batch in file.iter_batches(_TABLE_ROWS, columns=list(names.values())):
        vectors.append(batch.column(names[_VECTOR]))
        size += 2 * vectors[-1].nbytes
        for name, values in values_by_name.items():
            column = batch.column(names[name])
            if pyarrow.types.is_dictionary(column.type):
                used = column.indices.unique()
                different = column.dictionary.take(used)
                by_index = dict(zip(used.to_pylist(), different.to_pylist()))
                values += [by_index[index] for index in column.indices.to_pylist()]
                size += different.nbytes
            else:
                values += column.to_pylist()
                size += column.nbytes
        _check_room(size)
    rows = sum(map(len, vectors))
    return {_VECTOR: _unnested(pyarrow.chunked_array(vectors).combine_chunks(), rows), **values_by_name}


def _check_types(schema, names: Mapping[str, str]) -> None:
    """Raise `UserError` unless vectors are numbers and other columns have one value per row."""
    import pyarrow

    kind = pyarrow.types
    for name, column in names.items():
        column_type = schema.field(column).type
        while name == _VECTOR and _is_list(column_type):
            column_type = column_type.value_type
        if name == _VECTOR and not (kind.is_integer(column_type) or kind.is_floating(column_type)):
            raise _wrong(f"the column vector holds {column_type}; expected lists of numbers")
        if name != _VECTOR and (kind.is_nested(column_type) or kind.is_fixed_size_binary(column_type)):
            raise _wrong(f"the column {name} holds {column_type}; expected one number or text per item")


def _is_list(column_type) -> bool:
    import pyarrow

    kind = pyarrow.types
    return kind.is_list(column_type) or kind.is_large_list(column_type) or kind.is_fixed_size_list(column_type)


def _unnested(column, count: int) -> np.ndarray:
    """Convert a column of equally long lists of numbers, or of lists of such lists, to an array."""
    shape = [count]
    while _is_list(column.type):
        inner = column.flatten()
        if column.null_count:
            raise _wrong(f"the column vector has {column.null_count:,} empty cells; expected a list of numbers in each")
        lengths = set(column.value_lengths().unique().to_pylist())
        if len(lengths) > 1:
            raise _wrong(
                f"the column vector has lists of {min(lengths)} to {max(lengths)} numbers; expected one length"
            )
        shape.append(*(lengths or {0}))
        column = inner
    if column.null_count:
        raise _wrong(f"the column vector has {column.null_count:,} missing numbers; expected none")
    if len(shape) == 1:
        raise _wrong(f"the column vector holds {column.type}; expected lists of numbers")
    return column.to_numpy(zero_copy_only=False).reshape(shape)


def _column_indices(names: Iterable, columns: Sequence[str] = _COLUMNS) -> dict[str, int]:
    """Return the index of every known column, by its singular name; raises `UserError` if two have the same one."""
    names, index_by_name = list(names), {}
    for index, name in enumerate(names):
        singular = _singular(name, columns)
        if singular is not None and index_by_name.setdefault(singular, index) != index:
            first = shorten(names[index_by_name[singular]])
            raise _wrong(f"two columns, {first} and {shorten(name)}, both hold the {singular}; expected one of them")
    return index_by_name


def _singular(name: object, columns: Sequence[str] = _COLUMNS) -> str | None:
    """Return the known name, in the singular, that a column or array has in any case; None for others."""
    lower_name = str(name).strip().lower()
    return next((candidate for candidate in columns if lower_name in (candidate, f"{candidate}s")), None)


# ---------------------------------------------------------------------------------------------------- checks


def _check_head(head: ArrayHead) -> None:
    _check_kind(head.dtype, head.shape)


def _check_kind(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Raise `UserError` if type or shape do not fit vectors."""
    if dtype.hasobject:
        raise _wrong("the vectors are Python objects, which are not read; save them as an array of float32")
    if dtype.kind not in "fiu":
        raise _wrong(f"the vectors are {dtype}; expected real numbers such as float32")
    if len(shape) not in (2, 3):
        raise _wrong(
            f"the vectors have the shape {shorten(shape)}; expected (items, numbers) or (items, views, numbers)"
        )
    _check_count(shape[0])
    if not 1 <= shape[-1] <= MAX_WIDTH:
        raise _wrong(f"the vectors have {shape[-1]:,} numbers; expected 1 to {MAX_WIDTH:,}")
    if len(shape) == 3 and not 1 <= shape[1] <= _MAX_VIEWS:
        raise _wrong(f"the items have {shape[1]:,} views; expected 1 to {_MAX_VIEWS}")


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_IMAGES:
        raise _wrong(f"the file has {count:,} items; expected 1 to {MAX_IMAGES:,}")


def _check_room(needed: int) -> None:
    free = memory.free_memory()
    if free and needed > _ROOM * free[0]:
        raise _wrong(
            f"takes {data_size(needed)} of memory, but only {data_size(free[0])} are free. Save the vectors as .npy, "
            "which is read from disk, and the other columns as a .csv of the same name"
        )


def _checked_vectors(vectors) -> np.ndarray:
    """Return the vectors as (n, views, d)."""
    values = vectors if isinstance(vectors, np.memmap) else np.asarray(vectors)
    _check_kind(values.dtype, values.shape)
    if not values.dtype.isnative or values.itemsize > 8 or min(values.strides) < 0:  # PyTorch has none of these
        _check_room(4 * values.size)
        values = values.astype(np.float32, order="C")
    return values if values.ndim == 3 else values[:, None]


def _listed(name: str, column, count: int) -> list:
    """Return a column as a list; raises `UserError` if its length differs from that of the vectors."""
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise _wrong(f"{name} has the shape {column.shape}; expected one value per item")
        column = column.tolist()
    if name != "class_name" and len(column) != count:
        raise _wrong(f"{name} has {len(column):,} values for {count:,} vectors; expected one value per vector")
    return column


def _texts(column: list, longest: int, refused: str = "") -> Iterator[str]:
    """Yield values as clean texts; longer ones are cut, or raise `UserError` if `refused` says what they are."""
    for value in column:
        text = "" if value is None else value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        text = clean_line(text, max(longest, len(text)) if refused else longest)
        if len(text) > longest:
            raise _wrong(f"the {refused} {shorten(text)} has {len(text):,} characters; expected at most {longest}")
        yield text


def _check_ids(ids: tuple[str, ...]) -> None:
    used_ids = set()
    for row, text in enumerate(ids):
        if not text:
            raise _wrong(f"the id of item {row} is empty; expected a different one for each item")
        if text in used_ids:
            raise _wrong(f"two items have the id {shorten(text)}; expected a different one for each item")
        used_ids.add(text)


def class_ids(table: VectorTable) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return (int64 (n,), -1 unknown, names of the classes) of a table's labels; raises `UserError`.

    A missing label, an empty one and -1 are unknown; beside numbers, or in a column without an empty label, `_GAPS`
    are, too. Numeric labels are indices of class_names if a file has these; otherwise every different label is a class:
    numbers by size, texts alphabetically.
    """
    label_texts = [] if table.labels is None else [_label(value) for value in table.labels]
    certain = {*label_texts} - {"", *_UNKNOWN, *_GAPS}
    has_numbers = bool(certain) and all(map(_NUMBER.fullmatch, certain))
    unknown = _UNKNOWN if "" in label_texts and not has_numbers else (*_UNKNOWN, *_GAPS)
    label_texts = ["" if text in unknown else text for text in label_texts]
    different = set(label_texts) - {""}
    if not different:
        found = ", ".join(map(shorten, table.present[:_SHOWN]))
        found = f" in the column label; the file has {found}" if table.labels is None and found else ""
        raise _wrong(f"no item has a label{found}; expected a column label with labels of at least one class")
    if all(map(_WHOLE_FLOAT.fullmatch, different)):  # as pandas writes whole numbers
        label_texts = [text.removesuffix(".0") for text in label_texts]
        different = set(label_texts) - {""}
    if table.class_names is not None:
        names = [
            text or str(number) for number, text in enumerate(_texts(table.class_names, _LONGEST_LABEL, "class name"))
        ]
        if not names:
            raise _wrong("class_names is empty; expected a name for each class, or no class_names")
        if lost := sorted(
            text for text in different if not (text.isascii() and text.isdigit() and int(text) < len(names))
        ):
            raise _wrong(
                f"label {shorten(lost[0])} is not an index of class_names; expected 0 to {len(names) - 1} or -1"
            )
        if twice := repeated(names):
            raise _wrong(f"class_names has {twice} twice; expected a different name for each class")
        numbers = {str(number): number for number in range(len(names))}
        if unused := sorted(set(numbers) - {str(int(text)) for text in different}, key=int):
            raise _wrong(f"class {names[int(unused[0])]} has no item; expected at least one with its label")
        label_texts = [str(int(text)) if text else "" for text in label_texts]
    else:
        are_numbers = all(_WHOLE.fullmatch(text) for text in different)
        names = sorted(different, key=int if are_numbers else None)
        numbers = {name: number for number, name in enumerate(names)}
    labels = np.array([numbers[text] if text else -1 for text in label_texts], np.int64)
    if len(names) == 1 and (labels == 0).all():
        raise _wrong(f"every item has the label {shorten(names[0])}; expected another class, or items without a label")
    return labels, tuple(names)


def _label(value) -> str:
    """Return a label as text; "" if it is missing."""
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        if not value.is_integer():
            raise _wrong(f"label {value:g} is not a whole number; expected class ids, names, or -1 for unknown")
        value = int(value)
    return next(_texts([value], _LONGEST_LABEL, "label"))
