"""Export labels as a table that spreadsheets open safely, or as a folder with one sub-folder of pictures per class.

The folder can also be sent as a .zip that is made on the way.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from lps.analysis.labels import Labels, label_all, load_pictures
from lps.datasets import Images
from lps.datasets.readers.shards import is_in_shard
from lps.errors import UserError, shorten
from lps.files import tables
from lps.files.atomic import PUBLIC, as_user_error, write_whole
from lps.interop import class_folders
from lps.interop.class_folders import folder_names
from lps.interop.event_tables import import_pyarrow
from lps.store.runs import Run
from lps.store.snapshots import read_split

_COLUMNS = ("image", "file", "predicted", "cluster", "name", "confidence", "group", "source")
_TABLE = "labels.csv"
_OTHER_FILES = (".feather", ".json", ".jsonl", ".npz", ".tsv", ".txt", ".xls", ".xlsx")  # suffixes that no folder has
_UNNAMED = "unlabeled"  # sub-folder of rejected images; the data set `folder` takes it for images of unknown class


def export(run: Run, to: Path, epoch: int | None = None, links: bool = False) -> Labels:
    """Write the labels of a run at an epoch (see `label_all`) and return them; raises `UserError`.

    to: a table if it ends in .csv or .parquet, else a folder. If the pictures cannot be loaded, a table has no file
    names.
    """
    split, targets = read_split(run.folder)
    exported = label_all(run, epoch)
    as_table = _TABLES.get(to.suffix.lower())
    if to.suffix.lower() in _OTHER_FILES:
        raise UserError(
            "to", f"{shorten(str(to))} is neither a .csv nor a .parquet file; choose one of them, or a folder"
        )
    if as_table is None:
        path = run.config().dataset_path
        write_folder(to, exported, load_pictures(run, split, targets), Path(path) if path else None, links)
        return exported
    if links:
        raise UserError("links", "can only be made in folders; remove it, or write to a folder")
    try:
        names = load_pictures(run, split, targets).file_names
    except UserError:
        names = ()
    with as_user_error("to", f"{shorten(str(to))} cannot be written"):
        write_whole(to, as_table(exported, names), PUBLIC)
    return exported


# ---------------------------------------------------------------------------------------------------- a table


def as_csv(labels: Labels, file_names: tuple[str, ...] = ()) -> str:
    """Return the table with one line per image and a header of `_COLUMNS`.

    file_names: of every image of the data set; () if the images are not files.
    """
    return tables.csv_text(_lines(labels, file_names))


def _lines(labels: Labels, file_names: tuple[str, ...]) -> Iterator[Sequence]:
    yield _COLUMNS
    cells = {name: tables.escape_cell(name) for name in set(labels.names)}
    columns = labels.images, labels.predicted, labels.cluster, labels.confidence
    numbers = (column.tolist() for column in columns)
    for image, predicted, cluster, confidence, name, group, source in zip(
        *numbers, labels.names, labels.groups, labels.sources
    ):
        file = tables.file_cell(file_names[image]) if file_names else ""
        ids = "" if predicted < 0 else predicted, "" if cluster < 0 else cluster
        confidence_text = "" if math.isnan(confidence) else f"{confidence:.4f}"
        yield image, file, *ids, cells[name], confidence_text, group, source


def as_parquet(labels: Labels, file_names: tuple[str, ...] = ()) -> bytes:
    """Return the same columns with types, and null where the .csv has an empty number; raises `UserError`."""
    pyarrow, parquet = import_pyarrow()
    files = [tables.file_text(file_names[image]) if file_names else "" for image in labels.images.tolist()]
    texts = {"file": files, "name": labels.names, "group": labels.groups, "source": labels.sources}
    columns = {name: pyarrow.array(column) for name, column in texts.items()} | {"image": pyarrow.array(labels.images)}
    for name in ("predicted", "cluster", "confidence"):
        values = getattr(labels, name)
        columns[name] = pyarrow.array(values, mask=~(values >= 0))
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({name: columns[name] for name in _COLUMNS}), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


_TABLES = {  # formats of `lps export RUN --to FILE`, by suffix
    ".csv": lambda labels, names: as_csv(labels, names).encode(),
    ".parquet": as_parquet,
}


# ---------------------------------------------------------------------------------------------------- a folder


def write_folder(target: Path, labels: Labels, images: Images, root: Path | None = None, links: bool = False) -> Path:
    """Write one sub-folder of pictures per class and `labels.csv`, completely or not at all, and return the folder.

    If the images are files below `root`, they are copied under their own names, or linked to; otherwise the pixels are
    written as PNG. Raises `UserError`, also if `target` exists.
    """
    if links and (not images.are_files or is_in_shard(images.file_names[0])):
        raise UserError("links", "cannot be made: the images of this data set are no files; leave it out")
    pictures = (
        (path, _original(image, images, root) or images.pixels[image]) for path, image in _picture_paths(labels, images)
    )
    table = _TABLE, as_csv(labels, images.file_names)
    return class_folders.write_class_folders(target, pictures, table, links)


def _picture_paths(labels: Labels, images: Images) -> list[tuple[str, int]]:
    """Return ("sub-folder/file name", image) of every picture."""
    folders = folder_names(sorted(set(labels.names) - {""})) | {"": _UNNAMED}
    ids = labels.images.tolist()
    width = len(str(len(images.labels) - 1))
    numbers = [f"{image:0{width}d}" for image in ids]
    files = [_file_name(images.file_names[i]) for i in ids] if images.are_files else [f"{n}.png" for n in numbers]
    return list(zip(class_folders.unique_paths([folders[name] for name in labels.names], files, numbers), ids))


def _file_name(name: str) -> str:
    """Return the file name to write; a picture in a shard becomes a PNG, whose name all file systems accept."""
    return f"{class_folders.folder_name(Path(name).stem)}.png" if is_in_shard(name) else name


def _original(image: int, images: Images, root: Path | None) -> Path | None:
    """Return an image's file, None if it has none (pixels only, or in a shard); raises `UserError` if it is gone."""
    if not images.are_files or root is None or is_in_shard(images.file_names[image]):
        return None
    original = root.resolve() / images.file_names[image]
    if not original.is_file():
        name = shorten(images.file_names[image])
        raise UserError("dataset.path", f"{name} no longer exists, so nothing was written")
    return original


# ---------------------------------------------------------------------------------------------------- a .zip


def as_zip(labels: Labels, images: Images, root: Path | None, name: str) -> Iterator[bytes]:
    """Yield the content of `write_folder`, below one folder `name`, as a .zip in pieces (`class_folders.as_zip`).

    Raises `UserError` before the first piece.
    """
    originals = [(path, image, _original(image, images, root)) for path, image in _picture_paths(labels, images)]
    pictures = ((path, original or images.pixels[image]) for path, image, original in originals)
    return class_folders.as_zip(pictures, (_TABLE, as_csv(labels, images.file_names)), name)
