"""Write predictions: as a table, as a folder of copies sorted by class, and as arrays that pages read again."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from lps.errors import UserError, shorten
from lps.files import tables
from lps.files.atomic import PUBLIC, as_user_error, write_whole
from lps.inference.prediction_columns import describe_columns
from lps.inference.prediction_result import NONE, PredictionResult
from lps.inference.rejection import TradeOff
from lps.interop import class_folders
from lps.interop.class_folders import folder_names
from lps.store.snapshots import read_arrays, write_arrays

TABLE = "predictions.csv"
_NEAREST = 3  # training images that a row names
_ROWS = ("predicted", "cluster", "confidence", "distance", "nearest", "theirs")  # arrays with a row a picture
_CURVES = [one.name for one in dataclasses.fields(TradeOff) if one.type is np.ndarray]


def as_csv(prediction: PredictionResult, threshold: float, files: Sequence[str] = ()) -> str:
    """Return the predictions as CSV text, one line per picture.

    files: paths of the run's images by id; without one, the table has the image id.
    """
    rows: list[Sequence] = [tuple(describe_columns())]
    kinds = {row: number for number, kind in enumerate(prediction.kinds, 1) for row in kind}
    numbers = (prediction.predicted, prediction.cluster, prediction.confidence, prediction.distance)
    numbers += (prediction.nearest[:, :_NEAREST],)
    for rank, (file, name, is_none, is_doubtful, *row) in enumerate(
        zip(
            prediction.files,
            prediction.names(),
            prediction.is_none(threshold).tolist(),
            prediction.is_doubtful(threshold).tolist(),
            *(column.tolist() for column in numbers),
        )
    ):
        predicted, cluster, confidence, distance, nearest_ids = row
        nearest = [tables.file_cell(files[image]) if files else image for image in nearest_ids]
        guess = tables.escape_cell(name)
        cells = ["" if is_none else guess, f"{confidence:.4f}", "yes" if is_none else "no", guess, predicted, cluster]
        cells += [prediction.groups[cluster], f"{distance:.4f}", kinds.get(rank, "")]
        cells.append("" if is_none else "yes" if is_doubtful else "no")
        rows.append([tables.file_cell(file), *cells, *nearest])
    return tables.csv_text(rows)


def write_csv(path: Path, predicted: PredictionResult, threshold: float, files: Sequence[str] = ()) -> None:
    """Write the table to a file, whole or not at all; raises `UserError`."""
    with as_user_error("to", f"{shorten(str(path))} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, as_csv(predicted, threshold, files).encode(), PUBLIC)


# ---------------------------------------------------------------------------------------------------- a folder


def write_folder(
    target: Path, predicted: PredictionResult, threshold: float, pixels: Iterator[np.ndarray], files: Sequence[str] = ()
) -> Path:
    """Write a new folder with copies of the pictures, one sub-folder per class and one for none, and the table.

    pixels: returns a picture as uint8 (height, width, channels), used for pictures that are not files. Raises
    `UserError`, and then nothing was written.
    """

    root = predicted.root
    pictures = (
        (path, next(pixels) if root is None else Path(root, file))
        for path, file in zip(_folder_of_pictures(predicted, threshold), predicted.files)
    )
    return class_folders.write_class_folders(target, pictures, (TABLE, as_csv(predicted, threshold, files)))


def as_zip(predicted: PredictionResult, threshold: float, files: Sequence[str], name: str) -> Iterator[bytes]:
    """Yield the content of `write_folder` as a .zip in pieces, for pictures that are files (`class_folders.as_zip`).

    Raises `UserError` before the first piece.
    """
    if predicted.root is None:
        raise UserError(
            "pictures",
            "are not separate files, so they cannot be sorted here; `predict --to FOLDER` writes each as a file",
        )
    originals = [Path(predicted.root, file) for file in predicted.files]
    if absent := next((path for path in originals if not path.is_file()), None):
        raise UserError("pictures", f"{shorten(absent.name)} no longer exists; predict the folder again")
    pictures = zip(_folder_of_pictures(predicted, threshold), originals, strict=True)
    return class_folders.as_zip(pictures, (TABLE, as_csv(predicted, threshold, files)), name)


def _folder_of_pictures(predicted: PredictionResult, threshold: float) -> Iterator[str]:
    """Return the sub-folder and file name of every picture."""
    names_and_none = zip(predicted.names(), predicted.is_none(threshold).tolist())
    called = [NONE if is_none else name for name, is_none in names_and_none]
    folders = folder_names([NONE, *sorted({*called} - {NONE})])
    files = predicted.files if predicted.root is not None else [f"{row:06d}.png" for row in range(len(predicted.files))]
    return class_folders.unique_paths([folders[name] for name in called], files, map(str, range(len(files))))


# ---------------------------------------------------------------------------------------------------- arrays


def write(path: Path, predicted: PredictionResult) -> None:
    """Write everything as arrays, whole or not at all; raises `OSError`."""
    fields = dataclasses.asdict(predicted)
    curve = fields.pop("trade_off")
    arrays = {name: fields.pop(name) for name in _ROWS} | {f"curve_{name}": curve.pop(name) for name in _CURVES}
    fields |= {"rejected": sorted(predicted.rejected), "curve": curve}
    header = np.frombuffer(json.dumps(fields).encode("utf-8", "surrogatepass"), np.uint8)
    write_arrays(path, about=header, **arrays)


def read_if_sound(path: Path) -> PredictionResult | None:
    """Read what `write` wrote; None if it is missing or damaged."""
    if not path.exists():
        return None
    try:
        return read_predictions(path)
    except UserError:
        return None


def read_predictions(path: Path) -> PredictionResult:
    """Read what `write` wrote; raises `UserError` if it is missing or damaged."""
    stored = read_arrays(path, ("about", *_ROWS, *(f"curve_{name}" for name in _CURVES)))
    try:
        fields = json.loads(stored["about"].tobytes().decode("utf-8", "surrogatepass"))
        curve = TradeOff(**fields.pop("curve"), **{name: stored[f"curve_{name}"] for name in _CURVES})
        for name in ("titles", "groups"):
            fields[name] = {int(cluster): str(text) for cluster, text in fields[name].items()}
        fields |= {"files": tuple(fields["files"]), "lost": tuple(fields["lost"])}
        fields["rejected"] = frozenset(fields["rejected"])
        fields["kinds"] = tuple(tuple(map(int, kind)) for kind in fields["kinds"])
        fields["skipped"] = tuple((str(name), str(reason)) for name, reason in fields["skipped"])
        predicted = PredictionResult(**fields, trade_off=curve, **{name: stored[name] for name in _ROWS})
        _check_lengths(predicted)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UserError(path.name, "is damaged (it has no predictions); predict again") from None
    return predicted


def _check_lengths(predicted: PredictionResult) -> None:
    """Raise `ValueError` if the arrays do not belong together."""
    lengths = {len(getattr(predicted, name)) for name in _ROWS} | {len(predicted.files)}
    if len(lengths) > 1 or predicted.nearest.ndim != 2 or predicted.theirs.shape != predicted.nearest.shape:
        raise ValueError("columns of different lengths")
    if not all(0 <= row < len(predicted.files) for kind in predicted.kinds for row in kind):
        raise ValueError("a possible novel class with pictures that do not exist")
    clusters = {*predicted.cluster.tolist(), *predicted.theirs.ravel().tolist()}
    if not clusters <= predicted.titles.keys() & predicted.groups.keys():
        raise ValueError("a cluster without a name")
    steps = {getattr(predicted.trade_off, name).shape for name in _CURVES}
    if len(steps) != 1 or len(next(iter(steps))) != 1:
        raise ValueError("the acceptance curve is damaged")
