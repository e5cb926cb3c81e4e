"""Downloads besides pages: labeled or predicted pictures as a .zip, which is made while it is sent, and models.

Streamlit's own downloads are held in the server's memory, and a user's pictures may be gigabytes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from lps.analysis import labels
from lps.errors import UserError
from lps.inference import export_job, prediction_files, prediction_job
from lps.interop import label_files
from lps.store.runs import Run
from lps.store.titles import short_id
from lps.ui.pictures import points
from lps.ui.server import paths
from lps.ui.shared.select import find_run


def routes() -> list[Route]:
    """Return the URLs of all downloads with the functions that answer them."""
    return [
        Route(paths.path_of("labels/{run}/{epoch:int}.zip"), _send_labels),
        Route(paths.path_of("model/{run}.zip"), _send_model),
        Route(paths.path_of("predictions/{run}/{result}/{kept:int}.zip"), _send_predictions),
    ]


def labels_address(run: Run, epoch: int) -> str:
    """Return the URL of the labeled pictures of a run at an epoch."""
    return paths.path_of(f"labels/{run.id}/{epoch}.zip")


@paths.answers_errors
def _send_labels(request: Request) -> Response:
    run = find_run(request.path_params["run"])
    run_labels = labels.label_all(run, request.path_params["epoch"])
    path = run.config().dataset_path
    name = f"labels-{short_id(run.id)}-epoch-{run_labels.epoch}"
    pieces = label_files.as_zip(run_labels, points.read_pictures(run), Path(path) if path else None, name)
    return _send_archive(pieces, name)


def _send_archive(pieces: Iterator[bytes], name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}.zip"', "cache-control": "no-store"}
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)


def predictions_address(run: Run, result: Path, accepted_share: int) -> str:
    """Return the URL of predicted pictures sorted by class. result: the file of the prediction.

    accepted_share: percent of the pictures of known classes that are accepted (see `Predicted.threshold`).
    """
    return paths.path_of(f"predictions/{run.id}/{result.stem}/{accepted_share}.zip")


@paths.answers_errors
def _send_predictions(request: Request) -> Response:
    run, result = find_run(request.path_params["run"]), request.path_params["result"]
    accepted_share = request.path_params["kept"]
    if not re.fullmatch("[0-9a-f]{16}", result) or not 0 <= accepted_share <= 100:
        raise UserError("predictions", "are not at this address; open them from the page Predict")
    predicted = prediction_files.read_predictions(run.root / prediction_job.FOLDER / f"{result}.npz")
    name, threshold = f"predictions-{short_id(run.id)}", predicted.threshold(accepted_share / 100)
    return _send_archive(prediction_files.as_zip(predicted, threshold, points.file_names(run), name), name)


def model_address(run: Run) -> str:
    """Return the URL of the exported model of a run."""
    return paths.path_of(f"model/{run.id}.zip")


@paths.answers_errors
def _send_model(request: Request) -> Response:
    run = find_run(request.path_params["run"])
    path = export_job.export_path(run)
    if not path.is_file():
        advice = "was not exported yet, or weights or names have changed since. Export it on the page Predict"
        raise UserError("model", advice)
    headers = {"cache-control": "no-store"}
    return FileResponse(path, media_type="application/zip", filename=f"model-{short_id(run.id)}.zip", headers=headers)
