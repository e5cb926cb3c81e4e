"""Pictures by reference: read from their own files at every access, and never cached."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lps.datasets.readers.decoding import Source, Unreadable, decode, squeezed
from lps.errors import UserError, shorten
from lps.files.atomic import fingerprint


class PictureReferences:
    """Behaves like an array, uint8 (n, size, size, 3), but holds only the location of every picture.

    names: below `root`, as `Images.file_names`. is_whole: whether pictures are squeezed into squares, not cropped.
    places: int64 (n, 2), offset in its shard and bytes of each; None if every picture is a file of its own.
    digest: of the pixels of all pictures, as in `lps.data.training_data.digest_of_pictures`. rows: int64, the selected
    pictures; None: all.
    """

    dtype, ndim, nbytes = np.dtype(np.uint8), 4, 0

    def __init__(
        self,
        root: Path,
        names: Sequence[str],
        size: int,
        is_whole: bool = False,
        places: np.ndarray | None = None,
        digest: str = "",
        rows: np.ndarray | None = None,
    ):
        self.root, self.names, self.size, self.is_whole = root, names, size, is_whole
        self.places, self.digest, self.rows = places, digest, rows

    def __len__(self) -> int:
        return len(self.names if self.rows is None else self.rows)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), self.size, self.size, 3

    def __getitem__(self, rows) -> np.ndarray:
        """Return one picture for a number, several for a slice or for numbers; raises `UserError` if one is gone."""
        if np.ndim(rows) == 0 and not isinstance(rows, slice):
            return self._decoded(self._file_row(int(rows)))
        numbers = np.arange(len(self))[rows].tolist()
        out = np.empty((len(numbers), *self.shape[1:]), np.uint8)
        for position, row in enumerate(numbers):
            out[position] = self._decoded(self._file_row(row))
        return out

    def take(self, rows: np.ndarray, axis: int = 0) -> "PictureReferences":
        """Return only these pictures, not read yet."""
        taken_rows = rows if self.rows is None else self.rows[rows]
        return PictureReferences(self.root, self.names, self.size, self.is_whole, self.places, self.digest, taken_rows)

    def identity(self, row: int) -> tuple:
        """Return values that change with a picture, without reading it: path, position and fingerprint of the file."""
        file_row = self._file_row(row)
        is_file = self.places is None
        path = self.root / (self.names[file_row] if is_file else self.names[file_row].partition("/")[0])
        position = () if is_file else tuple(self.places[file_row].tolist())
        return str(path), fingerprint(path), position, self.size, self.is_whole

    def _file_row(self, row: int) -> int:
        return row if self.rows is None else int(self.rows[row])

    def _decoded(self, row: int) -> np.ndarray:
        try:
            source = self._source(row)
            return squeezed(source, self.size)[0] if self.is_whole else decode(source, self.size)
        except (Unreadable, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError("dataset.path", f"{shorten(self.names[row])} can no longer be read: {reason}") from None

    def _source(self, row: int) -> Source:
        if self.places is None:
            return self.root / self.names[row]
        offset, size = self.places[row].tolist()
        shard = os.open(self.root / self.names[row].partition("/")[0], os.O_RDONLY)
        try:
            return os.pread(shard, size, offset)
        finally:
            os.close(shard)
