"""What lies in a folder or file of one's own before anything is computed."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FolderPreview:
    """How many items each class has for training, and some of them: of a folder before its pictures are decoded.

    counts, samples: by class, those of unknown class last. A sample is uint8 (size, size, 3), with the sides whose
    proportions it has. test: pictures set aside; skipped: as of `Images`.
    """

    class_names: tuple[str, ...]
    counts: tuple[int, ...]
    samples: tuple[list[tuple[np.ndarray, tuple[int, int]]], ...]
    test: int
    skipped: tuple[tuple[str, str], ...]

    @property
    def unlabeled(self) -> int:
        return self.counts[-1]
