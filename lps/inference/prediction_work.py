"""Predictions that a page begins: jobs (`lps.scheduler.background_jobs`) that predict the pictures of a folder.

`.predictions/<16 hex digits>.npz` beside the runs is a result; the digits follow from run, weights, names and folder,
so that another state of any of them is another result. Some results are kept, the newest ones. No torch here.
"""

import hashlib
from pathlib import Path

from lps.analysis import naming
from lps.datasets import embeddings
from lps.datasets.readers.pictures import folder_stamp
from lps.errors import shorten
from lps.files import disk
from lps.files.atomic import as_user_error, fingerprint
from lps.scheduler import background_jobs
from lps.scheduler.background_jobs import JobSubject
from lps.store import titles
from lps.store.runs import Run

FOLDER = ".predictions"
PARTS = ".parts"  # suffix of the folder in which several processes put their parts of a result
_FORMAT = 1  # raise it when the same pictures shall be predicted anew
_MOST_RESULTS = 20  # results


def has_weights(run: Run) -> bool:
    """Whether a run may be able to predict: it has a checkpoint, and is no recording."""
    return not run.is_recorded and any(run.checkpoints.glob("*.pt"))


def prediction_path(run: Run, pictures: Path, stamp: object = None) -> Path:
    """Where the prediction of a folder or of a file of vectors is kept.

    Another place once its files, the weights or the names change. stamp: of the files, None to look at them.
    """
    if stamp is None:
        stamp = folder_stamp(str(pictures)) if pictures.is_dir() else embeddings.stamp(str(pictures))
    inputs = (_FORMAT, *inputs_of(run), str(pictures), stamp)
    return run.root / FOLDER / f"{digest_of_inputs(inputs)}.npz"


def inputs_of(run: Run) -> tuple:
    """What a result about a run follows from: its weights, and the names that a person gave."""
    weights = [(path.name, fingerprint(path)) for path in sorted(run.checkpoints.glob("*.json"))]
    return run.id, weights, fingerprint(run.folder / naming.FILE)


def digest_of_inputs(inputs: tuple) -> str:
    """16 hex digits for what a result follows from."""
    return hashlib.sha256(repr(inputs).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def start_prediction(run: Run, pictures: Path) -> None:
    """Predict in the background; does nothing where that is done or under way. Raises `UserError`."""
    path, words = prediction_path(run, pictures), ("--runs", str(run.root.resolve()))
    subject = JobSubject(f"{pictures.name} by {titles.run_label(run)}")
    start_result(
        path, _MOST_RESULTS, subject, "predict", *words, "--result", str(path.resolve()), "--", run.id, str(pictures)
    )


def start_result(path: Path, num_kept: int, subject: JobSubject, *command: str) -> None:
    """Let a command make the result `path`; keep the newest `num_kept` others of its kind. Raises `UserError`."""
    with as_user_error("runs", f"{shorten(str(path.parent))} cannot be used"):
        _forget_old(path, num_kept)
    background_jobs.start_job(path, subject, *command)


def _forget_old(path: Path, num_kept: int) -> None:
    """Remove all but the newest results; a page that shows one of them begins anew when it is asked again."""
    results = [old for suffix in (path.suffix, PARTS) for old in path.parent.glob(f"*{suffix}")]
    for old in sorted(results, key=_changed, reverse=True)[num_kept:]:
        delete_result(old)


def _changed(path: Path) -> int:
    """When a result changed; 0 for one that is gone by now, or a link that leads nowhere."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def delete_result(path: Path) -> None:
    """Remove a result, and what lies beside it; or the parts of one that several processes did not complete."""
    if path.suffix == PARTS:
        disk.remove_folder(path)
        return
    for file in (path, *background_jobs.files_beside(path)):
        disk.remove(file)
