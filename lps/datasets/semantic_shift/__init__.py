"""Shared code for data sets of the Semantic Shift Benchmark: class splits, lists of pictures, and error messages.

`<data set>.csv` has the classes in the benchmark's order, the known ones first. That order becomes the
order of the classes here, so that `split.seen_classes=first` with half of the classes is the benchmark's own split.

S. Vaze, K. Han, A. Vedaldi, A. Zisserman: Open-Set Recognition: a Good Closed-Set Classifier is All You Need? ICLR
2022.
"""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from lps.datasets import Images, quoted
from lps.datasets.readers.pictures import Listing, cached_listing, existing_folder, folder_stamp
from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error, open_regular

SIZE = 256  # pixels of both sides; GCD's views crop 224 from pictures with 256 on the shorter side
RECIPE = {  # as in SimGCD's and GCD's own scripts for these data sets
    "epochs": 200,
    "batch_size": 128,
    "lr": 0.1,
    "weight_decay": 5e-5,
    "precision": "fp32",
    "views": "gcd",
    "dataset.image_size": SIZE,
    "network.name": "timm:vit_base_patch16_224.dino",
    "network.freeze_until": "last_but_one",
    "split.labeled_ratio": 0.5,
    "split.rule": "exact",
}
_LONGEST_LIST = 16 << 20  # bytes; the benchmark's longest list has less than 1 MB
_DIGITS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class BenchmarkClass:
    """One class. group: known, Hard, Medium, Easy or unknown. index: its number in the benchmark's own files."""

    group: str
    index: int
    name: str


@cache
def class_split(dataset: str) -> tuple[BenchmarkClass, ...]:
    """Return the classes of a data set in the benchmark's order; the position of a class is its label."""
    text = Path(__file__).with_name(f"{dataset}.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(BenchmarkClass(row["group"], int(row["index"]), row["name"]) for row in rows)


def labels_by_name(dataset: str) -> dict[str, int]:
    """Return the label of every class by its `plain_name`."""
    return {plain_name(item.name): label for label, item in enumerate(class_split(dataset))}


def plain_name(name: str) -> str:
    """Return letters and digits of a name in lower case: some copies of the data write "Ram C/V" as "Ram C-V"."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


@dataclass(frozen=True)
class Download:
    """A data set that the user unpacks.

    home: its download page; layout: description of its folder; inner: usual name of the folder; lists: its
    files of labels and names.
    """

    name: str
    title: str
    home: str
    layout: str
    inner: str
    lists: tuple[str, ...] = ()

    def folder(self, path: str | None) -> Path:
        """Return the folder at `path`, or the folder `inner` in it if it exists; raises `UserError`."""
        root = existing_folder(path, f"{self.layout}; get {self.title} from {self.home}")
        return root / self.inner if (root / self.inner).is_dir() else root

    def stamp(self, path: str | None) -> object:
        """Return a value that changes with the files and the times of the lists, see `folder_stamp`."""
        folders = (path, f"{path}/{self.inner}") if path else ()
        return tuple(
            (folder_stamp(folder), *(_changed(f"{folder}/{name}") for name in self.lists)) for folder in folders
        )

    def missing(self, root: Path, name: str) -> UserError:
        """Return the error for a missing file or folder of the layout."""
        return UserError(
            "dataset.path", f"{quoted(root)} has no {name}; expected {self.layout}; get {self.title} from {self.home}"
        )

    def read_bytes(self, root: Path, name: str) -> bytes:
        """Read a file of labels or names; raises `UserError` if it is missing, unreadable or too long."""
        if not (root / name).is_file():
            raise self.missing(root, name)
        with (
            as_user_error("dataset.path", f"{name} in {quoted(root)} cannot be read"),
            open_regular(root / name, follows_links=True) as file,
        ):
            data = file.read(_LONGEST_LIST + 1)
        if len(data) > _LONGEST_LIST:
            raise UserError(
                "dataset.path", f"{name} is longer than {_LONGEST_LIST >> 20} MiB, too long for a list of pictures"
            )
        return data

    def read_pairs(self, root: Path, name: str) -> list[tuple[str, str]]:
        """Return the lines of a list as (first word, the rest); raises `UserError`."""
        lines = self.read_bytes(root, name).decode("utf-8", errors="replace").splitlines()
        pairs = [tuple(line.strip().split(" ", 1)) for line in lines if line.strip()]
        if not pairs:
            raise UserError("dataset.path", f"{name} in {quoted(root)} is empty")
        for number, pair in enumerate(pairs, 1):
            if len(pair) != 2:
                raise UserError("dataset.path", f"{name} has {shorten(pair[0])} in line {number}; expected two words")
        return pairs

    def read_column(self, root: Path, name: str) -> dict[str, str]:
        """Return a list of (id, value) by id; raises `UserError` if an id occurs twice."""
        pairs = self.read_pairs(root, name)
        value_by_id = dict(pairs)
        if len(value_by_id) < len(pairs):
            raise UserError(
                "dataset.path", f"{name} names {len(value_by_id):,} ids in {len(pairs):,} lines; expected each id once"
            )
        return value_by_id

    def load(
        self,
        root: Path,
        training: Sequence[tuple[str, int]],
        test: Sequence[tuple[str, int]],
        class_names: tuple[str, ...],
        image_size: int | None,
    ) -> Images:
        """Load the pictures of two lists of (name below `root`, label), in that order; raises `UserError`."""
        listing = Listing(root)
        with as_user_error("dataset.path", f"{quoted(root)} cannot be read"):
            self._check_files(root, [name for name, _ in (*training, *test)])
            for name, label in training:
                listing.add_files([root / name], label)
            listing.num_test = sum(listing.add_files([root / name], label) for name, label in test)
        return self.load_listing(listing, class_names, image_size)

    def load_listing(self, listing: Listing, class_names: tuple[str, ...], image_size: int | None) -> Images:
        """Load the pictures of a listing, cached as squares with their own sizes; raises `UserError`."""
        return cached_listing(self.name, listing, class_names, image_size or SIZE, is_whole=True)

    def _check_files(self, root: Path, names: Sequence[str]) -> None:
        """Raise `UserError` unless every name is that of another file below `root`."""
        paths = [PurePosixPath(name) for name in names]
        for name, path in zip(names, paths):
            if name.startswith("/") or ".." in path.parts or "\0" in name:
                raise UserError("dataset.path", f"a list names {shorten(name)}, which is outside the data set")
        for path, count in Counter(paths).most_common(1):
            if count > 1:
                raise UserError("dataset.path", f"{shorten(str(path))} is listed {count} times; expected once")
        absent = [name for name in names if not (root / name).is_file()]
        if absent:
            raise UserError(
                "dataset.path",
                f"{len(absent):,} of {len(names):,} pictures are missing in {quoted(root)}, such as"
                f" {shorten(absent[0])}; unpack {self.title} again, from {self.home}",
            )


def checked_label(text: str, num_classes: int, where: str) -> int:
    """Convert a class number from 1 to `num_classes` to a number from 0; raises `UserError`."""
    if not _DIGITS.fullmatch(text) or not 1 <= int(text) <= num_classes:
        raise UserError("dataset.path", f"{where} holds the class {shorten(text)}; expected 1 to {num_classes}")
    return int(text) - 1


def labels_of_numbers(dataset: str, names: Mapping[int, str], where: str) -> list[int]:
    """Return the label of every class number from 0, by the names in the user's copy; raises `UserError`."""
    labels = labels_by_name(dataset)
    if len(names) != len(labels):
        raise UserError("dataset.path", f"{where} names {len(names)} classes; expected {len(labels)}")
    known_labels = []
    for number in sorted(names):
        label = labels.get(plain_name(names[number]))
        if label is None or label in known_labels:
            problem = "is listed twice" if label is not None else "is not a class of the benchmark"
            raise UserError("dataset.path", f"{where} names {shorten(names[number])}, which {problem}")
        known_labels.append(label)
    return known_labels


def class_names(dataset: str) -> tuple[str, ...]:
    """Return the display names of the classes in the benchmark's order."""
    return tuple(item.name.replace("_", " ") for item in class_split(dataset))


def _changed(name: str) -> int:
    try:
        return Path(name).stat().st_mtime_ns
    except OSError:
        return 0
