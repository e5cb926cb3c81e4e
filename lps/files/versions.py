"""Versions of the file formats, and the error for files that a newer LPS Studio has written.

A file without a version is of a time before there were any, version 0. Every version up to ours is read; so far none
needs to be changed for that, since what an older one lacks has a default. Whoever changes the meaning of a file raises
its number here and reads the older forms on; a setting or an array more, with a default, is no new version. A file
keeps the version that it was begun with: whoever goes on with `events.jsonl` writes lines of its first line's form.

Also the size limits of a run's files: a run may come from an untrusted source, so every reader applies them.
"""

from collections.abc import Mapping

from lps.errors import UserError, shorten

VERSIONS = {
    "config.json": 1,
    "meta.json": 1,
    "events.jsonl": 1,  # in every `start` event; that of the first one counts
    "arrays": 1,  # split.npz, snapshots and projections
    "search.json": 1,
    "sweep": 1,  # what was laid out under a sweep's name
    "queue": 1,  # .queue.json: whether it is paused, how many runs the processor takes
    "views": 1,  # .views.json: named states of the page Runs
    "boards": 1,  # .boards.json: those of the page Charts
}

MOST_EPOCHS = 100_000  # that a run can be asked for
MOST_NAMES = 1000  # measurements of a run
LONGEST_NAME = 200  # characters of the name of one
MOST_LINE = 4 << 20  # bytes of an event
MOST_CLASSES = 2000
MOST_IMAGES = 2_000_000
MOST_WIDTH = 4096  # features of an image
MOST_ARRAYS = 256 << 20  # unpacked bytes of an .npz


def with_version(kind: str, values: Mapping[str, object]) -> dict[str, object]:
    """`values` behind the version that files of `kind` have now."""
    return {"version": VERSIONS[kind]} | dict(values)


def is_newer(kind: str, version: object) -> bool:
    """Return whether a newer program wrote this version of `kind`: such a file must not be overwritten."""
    return type(version) is int and version > VERSIONS[kind]


def check_version(kind: str, version: object, name: str = "") -> int:
    """The version of a file of `kind` called `name`; raises `UserError` for a newer one, and for what is none.

    version: as it stands in the file, None if it has none.
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
