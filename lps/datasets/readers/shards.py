"""Pictures in a few large files: tar shards in WebDataset's layout, and Parquet with the bytes of images.

A shard is read from beginning to end, one picture at a time; of Parquet one row group is in memory. Damaged
parts are listed, and the rest of the same shard is left out.
"""

import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lps.datasets.readers.decoding import LONGEST
from lps.datasets.readers.pictures import ENDINGS, is_folder, scan_folder
from lps.errors import UserError, shorten
from lps.files.atomic import clean_line
from lps.wording import counted, data_size

_TARS, _PARQUETS = (".tar", ".tar.gz", ".tgz"), (".parquet",)
_LABEL_NAMES = ("label", "class", "cls", "target", "fine_label", "class_name")  # of columns, and of keys in .json
_IMAGE_NAMES = ("image", "img", "picture", "jpg", "png")  # of columns, if several hold bytes
_MAX_TEXT = 1 << 20  # bytes of a .cls, .txt or .json beside a picture
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
    """The shards below a folder, in order, those for testing last; and what was skipped, as (name, reason)."""

    root: Path
    training: list[os.DirEntry]
    test: list[os.DirEntry]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    names: tuple[str, ...] = ()  # of the classes by number, if a Parquet file has them

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
        """Return name, size, modification time and place of every shard: changes when a shard does."""
        entries = [(entry.name, entry.stat()) for entry in (*self.training, *self.test)]
        return tuple((name, status.st_size, status.st_mtime_ns, status.st_ino) for name, status in entries)

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
        with tarfile.open(shard.path, "r:*") as archive:
            for sample in _grouped(shards, shard.name, archive):
                count += 1
                yield sample
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "cut short or not a tar file"
        shards.skip(
            shard.name, f"is damaged ({reason}): only the {counted(count, 'picture')} before the damage can be used"
        )


def _grouped(shards: Shards, shard: str, archive: tarfile.TarFile) -> Iterator[Sample]:
    key, picture, label, names = None, None, None, set()
    while (member := archive.next()) is not None:
        archive.members.clear()  # otherwise it keeps the header of every member
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
        if kind in ENDINGS:
            if member.size > LONGEST:
                shards.skip(member_path, f"has {data_size(member.size)}; expected at most {data_size(LONGEST)}")
            elif picture or member.name in names:
                shards.skip(member_path, "is a second picture with the same name")
            else:
                names.add(member.name)
                picture = member_path, _content(archive, member), (member.offset_data, member.size)
        elif kind in (".cls", ".txt", ".json") and member.size <= _MAX_TEXT:
            given_label = _label_of(kind, _content(archive, member))
            label = given_label if given_label is not None else label
    if picture:
        yield Sample(*picture[:2], label, picture[2])
    archive.fileobj.seek(archive.offset)  # `next` returns None at the end of the archive and also for a damaged header
    if archive.fileobj.read(tarfile.BLOCKSIZE).strip(b"\0"):
        raise tarfile.ReadError("a header is damaged")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return the bytes of a member; raises `tarfile.ReadError` if they are incomplete."""
    with closing(archive.extractfile(member)) as file:
        content = file.read()
    if len(content) != member.size:
        raise tarfile.ReadError("unexpected end of data")
    return content


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
                shards.skip(shard.name, f"has two columns of one name among {shorten(', '.join(schema.names))}")
                return
            shards.names = shards.names or _names_in(schema.metadata)
            image, label = _columns(schema)
            if image is None:
                shards.skip(shard.name, f"has no column of image bytes among {shorten(', '.join(schema.names))}")
                return
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
                        yield Sample(name, content, _as_label(given_label))
                    else:
                        shards.skip(name, "has no image bytes")
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = shorten(str(error).partition("\n")[0])
        shards.skip(
            shard.name, f"is damaged ({reason}): only the {counted(count, 'picture')} before the damage can be used"
        )


def _columns(schema) -> tuple[str | None, str | None]:
    """Return (the column of pictures, the column of labels), None for a missing one."""
    import pyarrow.types as types

    def is_bytes(kind) -> bool:
        return types.is_binary(kind) or types.is_large_binary(kind)

    def holds(kind) -> bool:
        if types.is_struct(kind):
            return any(kind.field(i).name == "bytes" and is_bytes(kind.field(i).type) for i in range(kind.num_fields))
        return is_bytes(kind)

    columns = [column.name for column in schema if holds(column.type)]
    image = next((name for name in _IMAGE_NAMES if name in columns), columns[0] if columns else None)
    return image, next((name for name in _LABEL_NAMES if name in schema.names), None)


def _names_in(metadata: dict[bytes, bytes] | None) -> tuple[str, ...]:
    """Return the class names that Hugging Face's `datasets` writes into a schema; () if there are none."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        names = next(features[name]["names"] for name in _LABEL_NAMES if "names" in features.get(name, {}))
        return tuple(clean_line(name) for name in names if isinstance(name, str))
    except (KeyError, ValueError, TypeError, AttributeError, StopIteration, RecursionError):
        return ()
