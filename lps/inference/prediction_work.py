"""Predictions that a page begins: in a process of their own, which tells how far it is and ends when it shall.

`.predictions/<16 hex digits>.npz` beside the runs is a result; the digits follow from run, weights, names and folder,
so that another state of any of them is another result. Some results are kept, the newest ones. No torch here.
"""

import hashlib
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lps.analysis import naming
from lps.datasets._pictures import folder_stamp
from lps.errors import shorten
from lps.files import disk
from lps.files.atomic import as_user_error, looks
from lps.machine import background
from lps.scheduler.background_jobs import Cancelled
from lps.store.runs import Run

FOLDER = ".predictions"
_FORMAT = 1  # raise it when the same pictures shall be predicted anew
_KEPT = 20  # results
_TICK_S = 0.5  # between two words of how far it is
_OTHERS = (".log", ".lock", background.STOP)  # files beside a result


def has_weights(run: Run) -> bool:
    """Whether a run may be able to predict: it has a checkpoint, and is no recording."""
    return not run.is_recorded and any(run.checkpoints.glob("*.pt"))


def path_of(run: Run, pictures: Path) -> Path:
    """Where the prediction of a folder is kept; another place once its files, the weights or the names change."""
    told = (_FORMAT, *state_of(run), str(pictures), folder_stamp(str(pictures)))
    return run.root / FOLDER / f"{named(told)}.npz"


def state_of(run: Run) -> tuple:
    """What a result about a run follows from: its weights, and the names that a person gave."""
    weights = [(path.name, looks(path)) for path in sorted(run.checkpoints.glob("*.json"))]
    return run.id, weights, looks(run.folder / naming.FILE)


def named(told: tuple) -> str:
    """16 hex digits for what a result follows from."""
    return hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def begin(run: Run, pictures: Path) -> None:
    """Predict in the background; does nothing where that is done or under way. Raises `UserError`."""
    path = path_of(run, pictures)
    words = ("--runs", str(run.root.resolve()), "--result", str(path.resolve()))
    begin_at(path, _KEPT, background.lps_command("predict", *words, "--", run.id, str(pictures)))


def begin_at(path: Path, kept: int, command: Sequence[str]) -> None:
    """Let a command make the result `path`; of the others of its kind the newest `kept` stay. Raises `UserError`."""
    with as_user_error("runs", f"{shorten(str(path.parent))} cannot be used"):
        _forget_old(path, kept)
        background.begin(path, command)


def _forget_old(path: Path, kept: int) -> None:
    """Remove all but the newest results; a page that shows one of them begins anew when it is asked again."""
    found = sorted(path.parent.glob(f"*{path.suffix}"), key=_changed, reverse=True)
    for old in found[kept:]:
        forget(old)


def _changed(path: Path) -> int:
    """When a result changed; 0 for one that is gone by now, or a link that leads nowhere."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def forget(path: Path) -> None:
    """Remove a result, and what lies beside it."""
    for one in (path, *(path.with_suffix(ending) for ending in _OTHERS)):
        disk.remove(one)


class Teller:
    """Says how far the work on a result is, "done of total" a line, as `progress` reads it; raises `Cancelled`."""

    def __init__(self, result: Path):
        self._result, self._next = result, 0.0

    def __call__(self, done: int, total: int | None) -> None:
        if background.is_cancelled(self._result):
            raise Cancelled
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _TICK_S
            print(f"{done} of {total or 0}", file=sys.stderr, flush=True)


def progress(message: str) -> tuple[int, int]:
    """(pictures done, all of them) of what `Teller` said; (0, 0) of anything else."""
    found = re.fullmatch(r"([0-9]{1,9}) of ([0-9]{1,9})", message)
    return (int(found[1]), int(found[2])) if found else (0, 0)
