"""A model to take away that a page begins: a .zip, made in a process of its own. No torch here.

`.models/<16 hex digits>.zip` beside the runs; the digits follow from run, weights and names. The newest ones are kept.
"""

import importlib.util
from pathlib import Path

from lps.errors import UserError
from lps.inference import prediction_work
from lps.scheduler.background_jobs import JobSubject
from lps.store import titles
from lps.store.runs import Run

FOLDER = ".models"
_REQUIREMENTS = "requirements-onnx.txt"
_NEEDED = ("onnx", "onnxscript")
_MOST_RESULTS = 5  # results


def check_installed() -> None:
    """Raises `UserError` where the libraries that write a graph are missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError("to", f"model needs {' and '.join(missing)}: python -m pip install -r {_REQUIREMENTS}")


def export_path(run: Run) -> Path:
    """Where the model is kept; another place once the weights or the names change."""
    return run.root / FOLDER / f"{prediction_work.digest_of_inputs(prediction_work.inputs_of(run))}.zip"


def start_export(run: Run) -> None:
    """Make it in the background; does nothing where that is done or under way. Raises `UserError`."""
    check_installed()
    path = export_path(run)
    words = ("--runs", str(run.root.resolve()), "--to", "model", "--result", str(path.resolve()), "--", run.id)
    prediction_work.start_result(path, _MOST_RESULTS, JobSubject(titles.run_label(run)), "export", *words)
