"""Predict a folder of pictures from a page, as a background job (`lps.scheduler.background_jobs`). No torch here.

A result is the file `.predictions/<16 hex digits>.npz` beside the runs. The digits depend on the run, the weights, the
names and the folder, so if one of them changes, the pictures are predicted again. Only the newest results are kept.
"""

import hashlib
import os
from pathlib import Path

from lps.analysis import naming
from lps.datasets import embeddings
from lps.datasets.readers.pictures import folder_stamp
from lps.errors import shorten
from lps.files import disk, locks
from lps.files.atomic import as_user_error, fingerprint
from lps.scheduler import background_jobs
from lps.scheduler.background_jobs import JobSubject
from lps.store import titles
from lps.store.runs import Run

FOLDER = ".predictions"
PARTS = ".parts"  # suffix of the folder in which several processes put their parts of a result
ROWS = "rows.npz"  # a file in the folder of a finished part
IN_USE = "in-use"  # a file in that folder, on which these processes hold a shared lock
_FORMAT = 1  # raise it to have the same pictures predicted again
_MAX_RESULTS = 20  # results


def has_weights(run: Run) -> bool:
    """Return whether a run may be able to predict: it has a checkpoint and is not a recording."""
    return not run.is_recorded and any(run.checkpoints.glob("*.pt"))


def prediction_path(run: Run, pictures: Path, stamp: object = None) -> Path:
    """Return the path of the result for a folder or a file of vectors.

    The path changes with the files, the weights and the names. stamp: of the files, None to read it now.
    """
    if stamp is None:
        stamp = folder_stamp(str(pictures)) if pictures.is_dir() else embeddings.stamp(str(pictures))
    inputs = (_FORMAT, *inputs_of(run), str(pictures.resolve()), stamp)
    return run.root / FOLDER / f"{digest_of_inputs(inputs)}.npz"


def inputs_of(run: Run) -> tuple:
    """Return what a result of the run depends on: its weights and the names that the user gave."""
    weights = [(path.name, fingerprint(path)) for path in sorted(run.checkpoints.glob("*.json"))]
    return run.id, weights, fingerprint(run.folder / naming.FILE)


def digest_of_inputs(inputs: tuple) -> str:
    """Return 16 hex digits that identify what a result depends on."""
    return hashlib.sha256(repr(inputs).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def start_prediction(run: Run, pictures: Path) -> None:
    """Start the prediction in the background unless it is done or in progress; raises `UserError`."""
    path, arguments = prediction_path(run, pictures), ("--runs", str(run.root.resolve()))
    subject = JobSubject(f"{pictures.name} by {titles.run_label(run)}")
    start_result(
        path, _MAX_RESULTS, subject, "predict", *arguments, "--result", str(path.resolve()), "--", run.id, str(pictures)
    )


def start_result(path: Path, num_kept: int, subject: JobSubject, *command: str) -> None:
    """Run a command that writes the result `path`, and keep the newest `num_kept` other results; raises `UserError`."""
    with as_user_error("runs", f"{shorten(str(path.parent))} cannot be used"):
        forget_old(path.parent, path.suffix, num_kept)
    background_jobs.start_job(path, subject, *command)


def forget_old(folder: Path, suffix: str, num_kept: int = _MAX_RESULTS) -> None:
    """Remove all but the newest results in `folder`, and parts that are older or of no use.

    Parts are of use while a process works on them, or if one is finished and the result is not. A page that shows a
    removed result starts the work again. Two names of one file count once.
    """
    stamps = {old: _time_and_inode(old) for each in (suffix, PARTS) for old in folder.glob(f"*{each}")}
    newest = sorted(set(stamps.values()), reverse=True)[:num_kept]
    for old, stamp in stamps.items():
        if old.suffix != PARTS:
            if stamp not in newest:
                delete_result(old)
        elif stamp not in newest or not finished_parts(old) or old.with_suffix(suffix).exists():
            forget_parts(old)


def finished_parts(parts: Path) -> int:
    """Return how many parts of a result are finished."""
    return sum(1 for _ in parts.glob(f"*/{ROWS}"))


def forget_parts(parts: Path) -> None:
    """Remove the parts of a result unless a process works on them."""
    if (lock := locks.try_lock(parts / IN_USE, patience=0)) is not None:
        delete_result(parts)
        os.close(lock)


def _time_and_inode(path: Path) -> tuple[int, int]:
    """Return when a result last changed, and its file; (0, 0) if it no longer exists."""
    try:
        info = path.stat()
    except OSError:
        return 0, 0
    return info.st_mtime_ns, info.st_ino


def delete_result(path: Path) -> None:
    """Remove a result and its companion files, or the parts of one that several processes did not complete."""
    if path.suffix == PARTS:
        disk.remove_folder(path)
        return
    for file in (path, *background_jobs.files_beside(path)):
        disk.remove(file)
