"""Share the parts of one result among several processes, on one machine or on all machines that share the folder.

A process takes the next part that no other process holds, under a kernel lock. So each part is computed once, and the
part of a dead process is taken again. Standard library only.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lps.files import disk, locks

_POLL_S = 0.5  # between two checks of parts that other processes hold


def compute_parts(
    folder: Path,
    names: Sequence[str],
    is_done: Callable[[str], bool],
    compute_part: Callable[[str], bool],
    should_leave: Callable[[], bool],
    should_stop: Callable[[], bool],
) -> bool:
    """Work until all parts are done; return False if `should_stop` was true before that.

    folder: gets a folder for each part. compute_part: computes a part, False if stopped meanwhile. should_leave:
    whether another process has already put the parts together. should_stop: is also asked while other processes work.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    disk.make_folder(folder)
    remaining = list(names)
    while not should_leave() and (remaining := [name for name in remaining if not is_done(name)]):
        for name in remaining:
            try:
                disk.make_folder(folder / name)
                lock = locks.try_lock(folder / name / "lock", patience=0.05)
            except FileNotFoundError:  # another process has put all parts together and removed them
                lock = None
            if lock is None:
                if should_stop():
                    return False
                continue
            try:
                if not is_done(name) and not compute_part(name):
                    return False
            finally:
                os.close(lock)
        time.sleep(_POLL_S)
    return True
