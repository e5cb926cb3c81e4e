"""Downloads besides pages: labeled or predicted pictures as a .zip, which is made while it is sent, and models.

Streamlit's own downloads are held in the server's memory, and a user's pictures may be gigabytes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse

from lps.analysis import labels as naming
from lps.errors import UserError
from lps.inference import export_job, prediction_files, prediction_job
from lps.interop import label_files
from lps.store.run_folders import find_run
from lps.store.runs import Run
from lps.store.snapshots import read_split
from lps.store.titles import short_id
from lps.ui.server import paths
from lps.ui.shared.select import runs_root


def labels_pattern() -> str:
    """Return the URL pattern that `send_labels` answers."""
    return paths.path_of("labels/{run}/{epoch:int}.zip")


def labels_address(run: Run, epoch: int) -> str:
    """Return the URL of the labeled pictures of a run at an epoch."""
    return paths.path_of(f"labels/{run.id}/{epoch}.zip")


def send_labels(request: Request) -> Response:
    """Answer with the archive, or with an error message."""
    try:
        run = find_run(runs_root(), request.path_params["run"], by_path=False)
        run_labels = naming.label_all(run, request.path_params["epoch"])
        split, targets = read_split(run.folder)
        path = run.config().dataset_path
        name = f"labels-{run.id[-6:]}-epoch-{run_labels.epoch}"
        pieces = label_files.as_zip(
            run_labels, naming.load_pictures(run, split, targets), Path(path) if path else None, name
        )
    except UserError as error:
        return PlainTextResponse(f"{error}.\n", 404)
    return _send_archive(pieces, name)


def _send_archive(pieces: Iterator[bytes], name: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}.zip"', "cache-control": "no-store"}
    return StreamingResponse(pieces, media_type="application/zip", headers=headers)


def predictions_pattern() -> str:
    """Return the URL pattern that `send_predictions` answers."""
    return paths.path_of("predictions/{run}/{result}/{kept:int}.zip")


def predictions_address(run: Run, result: Path, accepted_share: int) -> str:
    """Return the URL of predicted pictures sorted by class. result: the file of the prediction.

    accepted_share: percent of the pictures of known classes that are accepted (see `Predicted.threshold`).
    """
    return paths.path_of(f"predictions/{run.id}/{result.stem}/{accepted_share}.zip")


def send_predictions(request: Request) -> Response:
    """Answer with the archive, or with an error message."""
    try:
        run = find_run(runs_root(), request.path_params["run"], by_path=False)
        result, accepted_share = request.path_params["result"], request.path_params["kept"]
        if not re.fullmatch("[0-9a-f]{16}", result) or not 0 <= accepted_share <= 100:
            raise UserError("predictions", "are not at this address; open them from the page Predict")
        predicted = prediction_files.read_predictions(run.root / prediction_job.FOLDER / f"{result}.npz")
        name = f"predictions-{short_id(run.id)}"
        files = file_names(run)
        pieces = prediction_files.as_zip(predicted, predicted.threshold(accepted_share / 100), files, name)
    except UserError as error:
        return PlainTextResponse(f"{error}.\n", 404)
    return _send_archive(pieces, name)


def file_names(run: Run) -> tuple[str, ...]:
    """Return the file names of a run's pictures; () if they are not files or no longer exist."""
    try:
        return naming.load_pictures(run, *read_split(run.folder)).file_names
    except UserError:
        return ()


def model_pattern() -> str:
    """Return the URL pattern that `send_model` answers."""
    return paths.path_of("model/{run}.zip")


def model_address(run: Run) -> str:
    """Return the URL of the exported model of a run."""
    return paths.path_of(f"model/{run.id}.zip")


def send_model(request: Request) -> Response:
    """Answer with the folder of the model as a .zip, or with an error message."""
    try:
        run = find_run(runs_root(), request.path_params["run"], by_path=False)
        path = export_job.export_path(run)
        if not path.is_file():
            raise UserError(
                "model", "was not exported yet, or weights or names have changed since. Export it on the page Predict"
            )
    except UserError as error:
        return PlainTextResponse(f"{error}.\n", 404)
    headers = {"cache-control": "no-store"}
    return FileResponse(path, media_type="application/zip", filename=f"model-{run.id[-6:]}.zip", headers=headers)
