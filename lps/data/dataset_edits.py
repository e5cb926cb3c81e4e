"""Apply the user's decisions about pictures (`lps.settings.edit_log`) to the images of a data set."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lps.datasets import Images, take
from lps.datasets.readers.picture_cache import Writer, cached_images
from lps.errors import UserError, shorten
from lps.settings.edit_log import NOTHING, SETTING, UNKNOWN, Decisions, Key
from lps.wording import counted

_LARGE = 512 << 20  # bytes of pixels that are memory-mapped, as before the edits
_PIECE = 256  # images in memory at a time


def name_of(images: Images) -> str:
    """Return an identifier of a data set's labels, to check that decisions by image number mean the same pictures."""
    checksum = hashlib.sha256(np.ascontiguousarray(images.labels, np.int64).tobytes())
    checksum.update(f"{images.num_test} {images.class_names}".encode("utf-8", "surrogatepass"))
    return checksum.hexdigest()[:12]


def apply_edits(
    images: Images, keys: Sequence[Key], dataset_name: str, decisions: Decisions, source: tuple, content: str
) -> Images:
    """Return the images after exclusions and new labels; raises `UserError` if the decisions are for another data set.

    keys: one per image; dataset_name: `name_of` the whole data set, "" if pictures are files. Decisions about deleted
    files are ignored. source, content: as in `kept`, for pixels that do not fit in memory.
    """
    if decisions.of - {dataset_name}:
        raise UserError(SETTING, f"was made when the data set had different pictures; choose {NOTHING} to ignore it")
    label_by_name = {name: label for label, name in enumerate(images.class_names)} | {UNKNOWN: -1}
    if lost := sorted(set(decisions.labels.values()) - set(label_by_name)):
        raise UserError(
            SETTING,
            f"gives pictures the label {shorten(lost[0])}, which is not a class any more; choose {NOTHING} "
            "to ignore it",
        )
    labels = np.array(
        [label_by_name[decisions.labels[key]] if key in decisions.labels else -2 for key in keys], np.int64
    )
    labels = np.where(labels == -2, images.labels, labels)
    ids = np.flatnonzero([key not in decisions.left_out for key in keys])
    if not len(ids):
        raise UserError(SETTING, f"leaves out all {counted(len(keys), 'picture')}; choose {NOTHING} to ignore it")
    images = replace(images, labels=labels)
    if len(ids) == len(labels):
        return images
    if images.pixels.nbytes < _LARGE:
        return take(images, ids)

    def make(writer: Writer) -> Images:
        for start in range(0, len(ids), _PIECE):
            writer.add(images.pixels[ids[start : start + _PIECE]])
        return take(replace(images, pixels=np.zeros((len(labels), 0), np.uint8)), ids)

    return cached_images(("decided", *source), content, make, space=len(ids) * images.pixels[0].nbytes)
