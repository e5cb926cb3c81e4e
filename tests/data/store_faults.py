"""Kill a store of features, or fill its disk, at every operation in turn; prints the errors.

python -m tests.data.store_faults FOLDER
"""

import os
import sys
from pathlib import Path

from lps.data import feature_store
from tests.reliability.faults import FaultyDisk

COUNT, WIDTH, VIEWS = 600, 3, ("plain", "weak-0")
KINDS = ("kill", "half", "full", "full from", "power", "power names")


def content(view: str, start: int, stop: int) -> bytes:
    """The features of these pictures: two bytes a number."""
    return b"".join(bytes([VIEWS.index(view), i % 251]) * WIDTH for i in range(start, stop))


class Counting:
    """What computes features, and which pieces it was asked for."""

    def __init__(self):
        self.asked = []

    def begin(self):
        def compute(view: str, start: int, stop: int) -> bytes:
            self.asked.append((view, start))
            return content(view, start, stop)

        return WIDTH, {"settings": {"dataset": "none"}}, compute


def make(key: str, count: int = COUNT, views=VIEWS, report=lambda done, total: None, should_stop=lambda: False):
    """(store, pieces that were computed)."""
    work = Counting()
    return feature_store.complete_store(key, count, views, work.begin, report, should_stop), work.asked


def is_right(store) -> bool:
    return all(store.table(view).read_bytes() == content(view, 0, COUNT) for view in VIEWS)


def _broken(key: str, kind: str, at: int, backups: Path) -> tuple[bool, int]:
    """Make a store in a process of its own with a fault; gives whether the fault came, and pieces that counted."""
    child = os.fork()
    if child == 0:
        backups.mkdir()
        faulty = FaultyDisk(kind, at)
        faulty.install(backups, feature_store.stores_folder())
        try:
            make(key)
        except OSError:
            os._exit(1)
        os._exit(0 if len(faulty.seen) < at else 1)
    _, status = os.waitpid(child, 0)
    store = feature_store.Store(feature_store.stores_folder() / key, COUNT, WIDTH)
    return status != 0, sum(len(store.pieces(view)) for view in VIEWS)


def main(folder: Path) -> None:
    os.environ["LPS_CACHE"] = str(folder / "cache")
    faults = 0
    for kind in KINDS:
        for at in range(1, 200):
            key = f"{kind.replace(' ', '-')}-{at}"
            came, counted = _broken(key, kind, at, folder / f"backups-{key}")
            store, asked = make(key)
            if not is_right(store) or feature_store.open_store(key, VIEWS) is None:
                print(f"{key}: other bytes")
            if kind in ("kill", "half", "full", "full from") and len(asked) > 6 - counted:
                print(f"{key}: {len(asked)} pieces again, {counted} of 6 had counted")
            if list(store.folder.glob(".*")):
                print(f"{key}: something is left over")
            if not came:
                break
            faults += 1
    print(f"faults: {faults}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
