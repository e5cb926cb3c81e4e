"""Pictures in a few large files: tar shards in WebDataset's layout, and Parquet with the bytes of images.

A shard is read from beginning to end, one picture at a time; of Parquet one row group is in memory. Damaged
parts are listed, and the rest of the same shard is left out.
"""

import gzip
import json
import math
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lps.datasets import quoted
from lps.datasets.readers.decoding import LONGEST
from lps.datasets.readers.pictures import ENDINGS, is_folder, scan_folder
from lps.errors import UserError, shorten
from lps.files.atomic import clean_line, fingerprint
from lps.files.untrusted_files import RATIO, SLACK
from lps.wording import counted, data_size

_TARS, _PARQUETS = (".tar", ".tar.gz", ".tgz"), (".parquet",)
_LABEL_NAMES = ("label", "class", "cls", "target", "fine_label", "class_name")  # of columns, and of keys in .json
_IMAGE_NAMES = ("image", "img", "picture", "jpg", "png")  # of columns, if several hold bytes
_MAX_TEXT = 1 << 20  # bytes of a .cls, .txt or .json beside a picture, and of a member's name and attributes
_MAX_GROUP = 2 << 30  # bytes of the pictures of a row group, which are in memory together
_ROWS = 64  # rows of a group read at once
_TEST = "test"


class Sample(NamedTuple):
    """A picture: its name below the folder, the bytes of its file, and its label (None: unknown).

    place: offset of its bytes in an uncompressed tar, and their number; None in other shards.
    """

    name: str
    content: bytes
    label: str | int | None
    place: tuple[int, int] | None = None


@dataclass
class Shards:
    """The shards below a folder, in order, those for testing last; and what was skipped, as (name, reason).

    names: of the classes by number, if a Parquet file has them. has_labels: whether samples need their labels.
    """

    root: Path
    training: list[os.DirEntry]
    test: list[os.DirEntry]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    names: tuple[str, ...] = ()
    has_labels: bool = True

    @classmethod
    def of(cls, root: Path) -> "Shards":
        """Return the shards in `root`; raises `OSError`."""
        shards = cls(root, [], [])
        for entry in scan_folder(root):
            if is_folder(entry) or not _is_shard(entry.name):
                continue
            if os.path.isfile(entry.path):
                (shards.test if entry.name.lower().startswith(_TEST) else shards.training).append(entry)
            else:  # a pipe would block, and a link may lead nowhere
                shards.skip(entry.name, "is not a file")
        return shards

    def stamp(self) -> tuple:
        """Return name and fingerprint of every shard: changes when a shard does."""
        return tuple((entry.name, fingerprint(entry.path)) for entry in (*self.training, *self.test))

    def samples(self, shards: list[os.DirEntry]) -> Iterator[Sample]:
        """Yield every picture of some shards in order."""
        for shard in shards:
            read_samples = _of_parquet if shard.name.lower().endswith(_PARQUETS) else _of_tar
            yield from read_samples(self, shard)

    def are_plain_tars(self) -> bool:
        """Return whether every shard is an uncompressed tar file; raises `OSError`."""
        return all(_is_plain_tar(shard.path) for shard in (*self.training, *self.test))

    def skip(self, name: str, reason: str) -> None:
        self.skipped.append((clean_line(name, 1000), reason))

    def skip_rest(self, name: str, reason: str, count: int) -> None:
        """List a shard of which only the first `count` pictures can be used."""
        used = f"only the {counted(count, 'picture')} before the damage" if count else "none of its pictures"
        self.skip(name, f"is damaged ({reason}): {used} can be used")


def _is_shard(name: str) -> bool:
    return name.lower().endswith((*_TARS, *_PARQUETS))


def _is_plain_tar(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(tarfile.BLOCKSIZE)[257:262] == b"ustar"


def is_in_shard(name: str) -> bool:
    """Return whether the name of a picture, as in `Sample`, is inside a shard."""
    return _is_shard(name.partition("/")[0])


# ------------------------------------------------------------------------------------------------------------- tar


def _of_tar(shards: Shards, shard: os.DirEntry) -> Iterator[Sample]:
    """Yield pictures of key.jpg with key.cls, key.txt or key.json beside it; the files of a key are adjacent."""
    count = 0
    try:
        with open(shard.path, "rb") as file:
            stream = _TarStream(gzip.open(file) if file.peek(2)[:2] == b"\x1f\x8b" else file, shard.stat().st_size)
            for sample in _grouped(shards, shard.name, tarfile.open(fileobj=stream, mode="r:"), stream):
                count += 1
                yield sample
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error) if isinstance(error, _TooLarge) else ""
        shards.skip_rest(shard.name, reason or "cut short or not a tar file", count)


class _TooLarge(tarfile.ReadError):
    """A tar whose headers or packed bytes take too much memory or time."""


class _TarStream:
    """An unpacked tar. `tarfile` reads names and attributes of a member whole, so `read` gives it only a few bytes.

    packed: bytes of the file.
    """

    def __init__(self, file: BinaryIO, packed: int):
        self._file, self._end = file, RATIO * packed + SLACK
        self.tell = file.tell
        self.begin_member()

    def begin_member(self) -> None:
        self._left = _MAX_TEXT

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self._left:
            given = f"{data_size(_MAX_TEXT - self._left + size)}" if size >= 0 else "a negative number of bytes"
            raise _TooLarge(f"name and attributes of a member take {given}; expected at most {data_size(_MAX_TEXT)}")
        self._left -= size
        return self._file.read(size)

    def seek(self, position: int) -> None:
        if position > self._end:
            raise _TooLarge(f"it unpacks to more than {data_size(self._end)}, {RATIO} times its size")
        self._file.seek(position)

    def content(self, member: tarfile.TarInfo) -> bytes:
        """Return the bytes of a member; raises `tarfile.ReadError` if they are incomplete."""
        self.seek(member.offset_data)
        content = self._file.read(member.size)
        if len(content) != member.size:
            raise tarfile.ReadError("unexpected end of data")
        return content


def _grouped(shards: Shards, shard: str, archive: tarfile.TarFile, stream: _TarStream) -> Iterator[Sample]:
    key, picture, label, names = None, None, None, set()
    while (member := archive.next()) is not None:
        archive.members.clear()  # otherwise it keeps the header of every member
        stream.begin_member()
        if member.size < 0:
            raise tarfile.ReadError("a header is damaged")
        if not member.isfile():
            continue
        folder, _, base = member.name.rpartition("/")
        stem, _, suffix = base.partition(".")
        path_stem = f"{folder}/{stem}" if folder else stem
        if path_stem != key:
            if picture:
                yield Sample(*picture[:2], label, picture[2])
            key, picture, label = path_stem, None, None
        member_path, kind = f"{shard}/{member.name}", "." + suffix.lower()
        is_picture = kind in ENDINGS
        if not is_picture and kind not in (".cls", ".txt", ".json"):
            continue
        limit = LONGEST if is_picture else _MAX_TEXT
        if member.size > limit:
            shards.skip(member_path, f"has {data_size(member.size)}; expected at most {data_size(limit)}")
        elif member.issparse():
            shards.skip(member_path, "is a sparse file; expected one that is stored whole")
        elif is_picture:
            if picture or member.name in names:
                shards.skip(member_path, "is a second picture with the same name")
            else:
                names.add(member.name)
                picture = member_path, stream.content(member), (member.offset_data, member.size)
        else:
            given_label = _label_of(kind, stream.content(member))
            label = given_label if given_label is not None else label
    if picture:
        yield Sample(*picture[:2], label, picture[2])
    stream.seek(archive.offset)  # `next` returns None at the end of the archive and also for a damaged header
    if stream.read(tarfile.BLOCKSIZE).strip(b"\0"):
        raise tarfile.ReadError("a header is damaged")


def _label_of(kind: str, content: bytes) -> str | int | None:
    """Return the content of key.cls or key.txt, or the value of one of `_LABEL_NAMES` in key.json."""
    text = content.decode("utf-8", "replace")
    if kind != ".json":
        return _as_label(text)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    return next((_as_label(fields[name]) for name in _LABEL_NAMES if name in fields), None)


def _as_label(value: object) -> str | int | None:
    """Return a class number or name; None for no label: -1, no text, other kinds of values."""
    if isinstance(value, str):
        text = clean_line(value)
        value = int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else text
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    return None if value == "" or (isinstance(value, int) and value < 0) else value


# --------------------------------------------------------------------------------------------------------- Parquet


def _of_parquet(shards: Shards, shard: os.DirEntry) -> Iterator[Sample]:
    """Yield pictures from a column of bytes, or of structs with `bytes` (Hugging Face), with labels if available."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError("dataset.path", "has Parquet files, which need pyarrow: pip install pyarrow") from None
    count = 0
    try:
        with pyarrow.parquet.ParquetFile(shard.path) as file:
            schema = file.schema_arrow
            if len(set(schema.names)) < len(schema.names):
                shards.skip(
                    shard.name, f"has two columns with the same name; its columns: {shorten(', '.join(schema.names))}"
                )
                return
            shards.names = shards.names or _names_in(schema.metadata)
            image, label = _columns(schema)
            if image is None:
                shards.skip(shard.name, f"has no column of image bytes among {shorten(', '.join(schema.names))}")
                return
            label = label if shards.has_labels else None
            if label and not _are_labels(schema.field(label).type):
                raise _wrong_labels(shard.name, schema.field(label))
            largest = max((file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)), default=0)
            if largest > _MAX_GROUP:
                limit = f"expected at most {data_size(_MAX_GROUP)}: write it with a smaller row_group_size"
                shards.skip(shard.name, f"has a row group of {data_size(largest)}; {limit}")
                return
            for batch in file.iter_batches(_ROWS, columns=[image, label] if label else [image]):
                labels = batch.column(label).to_pylist() if label else [None] * len(batch)
                for given_label, picture in zip(labels, batch.column(image)):
                    name, count = f"{shard.name}/{count:08d}", count + 1
                    value = picture.as_py()
                    content = value.get("bytes") if isinstance(value, dict) else value
                    if content:
                        yield Sample(name, content, _label_in(given_label, shard.name, schema.field(label or image)))
                    else:
                        shards.skip(name, "has no image bytes")
    except UserError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        shards.skip_rest(shard.name, shorten(str(error).partition("\n")[0]), count)


def _columns(schema) -> tuple[str | None, str | None]:
    """Return (the column of pictures, the column of labels), None for a missing one."""
    import pyarrow.types as types

    def is_bytes(kind) -> bool:
        return types.is_binary(kind) or types.is_large_binary(kind)

    def holds(kind) -> bool:
        if types.is_struct(kind):
            return any(kind.field(i).name == "bytes" and is_bytes(kind.field(i).type) for i in range(kind.num_fields))
        return is_bytes(kind)

    label = next((name for name in _LABEL_NAMES if name in schema.names), None)
    columns = [column.name for column in schema if column.name != label and holds(column.type)]
    return next((name for name in _IMAGE_NAMES if name in columns), columns[0] if columns else None), label


def _are_labels(kind) -> bool:
    """Return whether a column of this type can have labels."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _are_labels(kind.value_type)
    texts = types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary
    numbers = types.is_integer, types.is_float32, types.is_float64
    return any(is_kind(kind) for is_kind in (*texts, *numbers, types.is_null))


def _label_in(value: object, shard: str, column) -> str | int | None:
    """Return the label in a cell of a column; raises `UserError` for a fraction, and for bytes that are not text."""
    try:
        if isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, float) and not math.isnan(value):
            if not value.is_integer():
                raise ValueError
            value = int(value)
    except ValueError:
        raise _wrong_labels(shard, column, f"{shorten(value)} in ") from None
    return _as_label(value)


def _wrong_labels(shard: str, column, cell: str = "") -> UserError:
    labels = f"a column {shorten(column.name)} of type {shorten(str(column.type))}"
    expected = "expected whole numbers or text, and null for unknown"
    return UserError("dataset.path", f"{quoted(shard)} has {cell}{labels}; {expected}")


def _names_in(metadata: dict[bytes, bytes] | None) -> tuple[str, ...]:
    """Return the class names that Hugging Face's `datasets` writes into a schema; () if there are none."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        names = next(features[name]["names"] for name in _LABEL_NAMES if "names" in features.get(name, {}))
        return tuple(clean_line(name) for name in names if isinstance(name, str))
    except (KeyError, ValueError, TypeError, AttributeError, StopIteration, RecursionError):
        return ()
