"""Export a model from a page: a .zip, written by a separate process. This module does not import torch.

The file is `.models/<16 hex digits>.zip` beside the runs. The digits depend on the run, its weights and the names. Only
the newest exports are kept.
"""

import importlib.util
from pathlib import Path

from lps.errors import UserError
from lps.inference import prediction_job
from lps.scheduler.background_jobs import JobSubject
from lps.store import titles
from lps.store.runs import Run

FOLDER = ".models"
_REQUIREMENTS = "requirements-onnx.txt"
_NEEDED = ("onnx", "onnxscript")
_MAX_RESULTS = 5  # results


def check_installed() -> None:
    """Raise `UserError` if the libraries that write ONNX graphs are missing."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError("to", f"model needs {' and '.join(missing)}: python -m pip install -r {_REQUIREMENTS}")


def export_path(run: Run) -> Path:
    """Return the path of the export; it changes with the weights and the names."""
    return run.root / FOLDER / f"{prediction_job.digest_of_inputs(prediction_job.inputs_of(run))}.zip"


def start_export(run: Run) -> None:
    """Start the export in the background unless it is done or in progress; raises `UserError`."""
    check_installed()
    path = export_path(run)
    arguments = ("--runs", str(run.root.resolve()), "--to", "model", "--result", str(path.resolve()), "--", run.id)
    prediction_job.start_result(path, _MAX_RESULTS, JobSubject(titles.run_label(run)), "export", *arguments)
