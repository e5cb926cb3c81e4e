"""Preview of a user's folder or file before anything is computed."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FolderPreview:
    """Number of training items per class, and samples of them, from a folder before its pictures are decoded.

    counts, samples: by class, those of unknown class last. A sample is (uint8 (size, size, 3), (height, width) of its
    proportions). test: pictures set aside; skipped: as in `Images`.
    """

    class_names: tuple[str, ...]
    counts: tuple[int, ...]
    samples: tuple[list[tuple[np.ndarray, tuple[int, int]]], ...]
    test: int
    skipped: tuple[tuple[str, str], ...]

    @property
    def unlabeled(self) -> int:
        return self.counts[-1]
