"""Define the versions of the file formats and the size limits of a run's files.

A file without a version is older than versions: version 0. All versions up to ours are read; so far none needs a
conversion, since missing values have defaults. If you change the meaning of a file, raise its number here and keep
reading the older forms; a new setting or array with a default needs no new version. A file keeps the version that it
began with: who appends to `events.jsonl` writes lines in the form of its first line.

Every reader applies the limits, since a run may come from an untrusted source.
"""

from collections.abc import Mapping

from lps.errors import UserError, shorten

VERSIONS = {
    "config.json": 1,
    "meta.json": 1,
    "events.jsonl": 1,  # in every `start` event; that of the first one counts
    "arrays": 1,  # split.npz, snapshots and projections
    "search.json": 1,
    "sweep": 1,  # the plan stored under a sweep's name
    "queue": 1,  # .queue.json: whether it is paused, how many runs the processor takes
    "views": 1,  # .views.json: named states of the page Runs
    "boards": 1,  # .boards.json: those of the page Charts
}

MAX_EPOCHS = 100_000  # of a run
MAX_NAMES = 1000  # measurements of a run
LONGEST_NAME = 200  # characters of the name of one
MAX_LINE = 4 << 20  # bytes of an event
MAX_CLASSES = 2000
MAX_IMAGES = 2_000_000
MAX_WIDTH = 4096  # features of an image
MAX_ARRAYS = 256 << 20  # unpacked bytes of an .npz


def with_version(kind: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return `values` behind the present version of files of `kind`."""
    return {"version": VERSIONS[kind]} | dict(values)


def is_newer(kind: str, version: object) -> bool:
    """Return whether a newer program wrote this version of `kind`: such a file must not be overwritten."""
    return type(version) is int and version > VERSIONS[kind]


def check_version(kind: str, version: object, name: str = "") -> int:
    """Return the version of a file of `kind` called `name`; raises `UserError` if it is newer than ours or invalid.

    version: as stored in the file, None if it has none.
    """
    if version is None:
        return 0
    known = VERSIONS[kind]
    if type(version) is not int or version < 0:
        raise UserError(name or kind, f"is damaged (its version is {shorten(version)}, not a whole number)")
    if is_newer(kind, version):
        newest = f"version {shorten(version)}; this one reads up to {known}"
        raise UserError(name or kind, f"was made by a newer LPS Studio ({newest})")
    return version
