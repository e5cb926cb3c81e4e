"""Load data sets that torchvision can download and verify: read once, then stored as plain arrays, usable without
torch.

`dataset.path` is torchvision's root folder (or the data set's own folder in it); without it, files are downloaded to
the cache folder. torchvision verifies the checksums of the download and of the files it reads.
"""

import os
import socket
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lps.datasets import Images, quoted
from lps.datasets.readers.picture_cache import Writer, cached_images
from lps.errors import UserError
from lps.files.atomic import clean_line
from lps.files.user_folders import cache_folder

_HOW = "set dataset.path to a folder that has it"
_PATIENCE = 30  # seconds without an answer from the server
Part = tuple[np.ndarray, np.ndarray]  # pixels uint8 (n, height, width, channels); labels (n,)


@dataclass(frozen=True)
class Remote:
    """One such data set. files: patterns below root that must match; size: of the download, in words."""

    name: str
    title: str
    kind: str  # the class in torchvision.datasets
    files: tuple[str, ...]
    size: str
    class_names: tuple[str, ...] | None = None  # None: as the torchvision instance names them
    by_split: bool = False  # whether the part is selected by split="test" instead of train=False

    def load(self, path: str | None, image_size: int | None = None) -> Images:
        """Return training images, then test images, in their own size (`lps.data.sources` resizes to `image_size`).

        Raises `UserError` if the files are missing or damaged.
        """
        root = self._root(path)
        files = self._local_files(root)
        if not files:
            raise self._absent(path, root)
        content = repr([(str(f.relative_to(root)), f.stat().st_size, f.stat().st_mtime_ns) for f in files])
        space = 4 * sum(f.stat().st_size for f in files)
        return cached_images(
            (self.name, str(root.resolve())), content, lambda writer: self._unpack(root, writer), space
        )

    def fetch(self, path: str | None) -> None:
        """Download missing files, with a progress bar on stderr; raises `UserError`."""
        root = self._root(path)
        if path is None:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
        elif not os.path.isdir(root):
            raise UserError("dataset.path", f"{quoted(path)} is not a folder; expected one for {self.title}")
        if self._local_files(root):
            try:
                self.load(path)
                return
            except UserError:
                pass  # damaged, perhaps by an interrupted download
        print(f"downloading {self.title} ({self.size}) to {root}", file=sys.stderr)
        default_timeout = socket.getdefaulttimeout()
        try:
            socket.setdefaulttimeout(_PATIENCE)
            for train in (True, False):
                self._open(root, train, download=True)
        except Exception as error:  # network, disk, checksum: torchvision passes on many types
            reason = clean_line(getattr(error, "reason", None) or error)
            raise UserError("dataset.path", f"{self.title} could not be downloaded ({reason}); {_HOW}") from None
        finally:
            socket.setdefaulttimeout(default_timeout)

    def stamp(self, path: str | None) -> object:
        """Return a value that changes with its files."""
        return tuple(file.stat().st_mtime_ns for file in self._local_files(self._root(path)))

    def _root(self, path: str | None) -> Path:
        """Return torchvision's root: `path`, its parent if it is the inner folder itself, or the download folder."""
        if path is None:
            return cache_folder() / "downloads" / self.name
        folder = Path(path)
        for pattern in self.files:
            *inner, _ = Path(pattern).parts
            if inner and folder.parts[-len(inner) :] == tuple(inner):
                return folder.parents[len(inner) - 1]
        return folder

    def _local_files(self, root: Path) -> list[Path]:
        """Return all its files, sorted; [] if one kind is missing."""
        files_by_pattern = [sorted(root.glob(pattern)) for pattern in self.files]
        return [file for files in files_by_pattern for file in files] if all(files_by_pattern) else []

    def _absent(self, path: str | None, root: Path) -> UserError:
        if path is not None and not os.path.isdir(root):
            return UserError("dataset.path", f"{quoted(path)} is not a folder; expected the folder of {self.title}")
        where = f"{quoted(path)} does not contain {self.title}" if path else f"{self.title} is not on this machine"
        return UserError(
            "dataset.path", f"{where}; `python -m lps datasets --fetch {self.name}` downloads {self.size}, or {_HOW}"
        )

    def _open(self, root: Path, train: bool, download: bool = False):
        from torchvision import datasets as theirs  # takes seconds: only for the first reading

        part = {"split": "train" if train else "test"} if self.by_split else {"train": train}
        with redirect_stdout(sys.stderr):
            return getattr(theirs, self.kind)(str(root), download=download, **part)

    def _unpack(self, root: Path, writer: Writer) -> Images:
        labels, names = [], self.class_names
        try:
            for train in (True, False):
                instance = self._open(root, train)
                pixels, part_labels = _arrays(instance)
                names = names or tuple(clean_line(name) for name in instance.classes)
                if len(pixels) != len(part_labels):
                    raise ValueError(f"{len(pixels)} images and {len(part_labels)} labels")
                writer.add(pixels)
                labels.append(part_labels)
        except OSError:
            raise
        except Exception as error:  # damaged files can fail in any way
            raise UserError(
                "dataset.path", f"{self.title} in {quoted(root)} is damaged or incomplete ({clean_line(error)})"
            ) from None
        return Images(np.zeros(0, np.uint8), np.concatenate(labels), names, len(labels[1]))


def _arrays(instance) -> Part:
    """Return the pixels and labels of a torchvision data set, for both ways of storing them."""
    pixels = np.asarray(instance.data)
    labels = np.asarray(getattr(instance, "labels", None) if hasattr(instance, "labels") else instance.targets)
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    elif pixels.shape[-1] != 3:  # channels first
        pixels = pixels.transpose(0, 2, 3, 1)
    return pixels, labels.astype(np.int64)
