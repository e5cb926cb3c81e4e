"""Export features for TensorBoard's projector: points, data of their images, and the images on one sheet.

`projector_config.pbtxt` names the files, which are all below its folder.
"""

import math
from pathlib import Path

import numpy as np
from PIL import Image

from lps.analysis import naming
from lps.analysis.labels import clusters_of, default_names, load_pictures, name_of
from lps.data.split import Split
from lps.datasets import Images, as_image
from lps.errors import UserError
from lps.files.atomic import PUBLIC, clean_line, write_whole
from lps.store.runs import Run
from lps.store.snapshots import Snapshot, read_snapshot, read_split

FOLDER = "projector"
CONFIG = "projector_config.pbtxt"
COLUMNS = ("image", "class", "group", "predicted", "name", "confidence")
SHEET = 8192  # most pixels per side that TensorBoard accepts
_THUMBNAIL = 32  # pixels of a side


def write_projector(folder: Path, run: Run, epoch: int) -> str:
    """Write the features of an epoch for the projector of the run in `folder`; raises `UserError`.

    Returns "", or the reason why the points have no images.
    """
    snapshot = read_snapshot(run.snapshots, epoch)
    split, targets = read_split(run.folder)
    name, missing = f"epoch-{epoch:04d}", ""
    (folder / FOLDER).mkdir(exist_ok=True)
    write_whole(folder / FOLDER / f"{name}.tsv", _points_as_tsv(snapshot.features).encode(), PUBLIC)
    metadata = _metadata(run, epoch, snapshot, split, targets).encode()
    write_whole(folder / FOLDER / f"{name}-images.tsv", metadata, PUBLIC)
    lines = [f'  tensor_name: "features of epoch {epoch}"', f'  tensor_path: "{FOLDER}/{name}.tsv"']
    lines += [f'  metadata_path: "{FOLDER}/{name}-images.tsv"']
    try:
        images = load_pictures(run, split, targets)
    except UserError as error:
        missing = str(error)
    else:
        sheet, side = contact_sheet(images, snapshot.feature_index)
        sheet.save(folder / FOLDER / f"{name}.png", "PNG")
        lines += [f'  sprite {{\n    image_path: "{FOLDER}/{name}.png"']
        lines += [f"    single_image_dim: {side}\n    single_image_dim: {side}\n  }}"]
    write_whole(folder / CONFIG, "\n".join(["embeddings {", *lines, "}", ""]).encode(), PUBLIC)
    for path in (folder / FOLDER).iterdir():  # remove the files of epochs exported before
        if path.stem not in (name, f"{name}-images"):
            path.unlink(missing_ok=True)
    return missing


def _points_as_tsv(features: np.ndarray) -> str:
    """Return features (m, d) with one line per image, numbers separated by tabs."""
    return "".join("\t".join(map(repr, row)) + "\n" for row in features.astype(float).tolist())


def _metadata(run: Run, epoch: int, snapshot: Snapshot, split: Split, targets: np.ndarray) -> str:
    """Return one line per image under `COLUMNS`: class and group if known, prediction, cluster name, confidence."""
    decisions, defaults = naming.naming_of_epoch(naming.read_entries(run), epoch), default_names(run, split)
    rows = np.searchsorted(split.unlabeled, snapshot.feature_index)
    if not np.array_equal(split.unlabeled[np.minimum(rows, len(split.unlabeled) - 1)], snapshot.feature_index):
        raise UserError(
            "snapshots", f"epoch {epoch} has features of images that are not among the unlabeled images of this run"
        )
    clusters = clusters_of(decisions, snapshot.predicted, split.unlabeled)
    lines = ["\t".join(COLUMNS)]
    for row, image in zip(rows.tolist(), snapshot.feature_index.tolist()):
        truth, predicted = int(targets[image]), str(snapshot.predicted[row])
        class_name = split.class_names[truth] if 0 <= truth < len(split.class_names) else ""
        group = "" if truth < 0 else "seen" if truth < split.classes.seen else "novel"
        name = name_of(int(clusters[row]), decisions, defaults)
        columns = [clean_line(text).replace("\t", " ") for text in (class_name, group, predicted, name)]
        lines.append("\t".join([str(image), *columns, f"{float(snapshot.confidence[row]):.4f}"]))
    return "".join(line + "\n" for line in lines)


def contact_sheet(images: Images, ids: np.ndarray) -> tuple[Image.Image, int]:
    """Return (the images of these ids in a square grid, row by row; pixels per side of each)."""
    columns = max(1, math.ceil(math.sqrt(len(ids))))
    side = max(1, min(_THUMBNAIL, SHEET // columns))
    sheet = Image.new("RGB", (columns * side, columns * side), "white")
    for position, image in enumerate(ids.tolist()):
        tile = as_image(images.pixels[image]).convert("RGB")
        resampling = Image.Resampling.NEAREST if max(tile.size) < side else Image.Resampling.BILINEAR
        sheet.paste(tile.resize((side, side), resampling), (position % columns * side, position // columns * side))
    return sheet, side
