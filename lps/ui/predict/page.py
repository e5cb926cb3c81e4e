"""The page Predict: a run and pictures, the predictions, and the reasons for each.

The URL stores run, folder, class (predicted name) and picture (its number).
"""

from pathlib import Path

import streamlit as st

from lps.analysis import run_index
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.inference import prediction_files, prediction_job
from lps.inference.prediction_result import NONE, PredictionResult
from lps.interop import uploaded_folders
from lps.machine import detached_jobs
from lps.settings import cli_args
from lps.settings.backbone_names import GIVEN
from lps.store import inherited_files, titles
from lps.store.runs import Run
from lps.ui.forms import background_work
from lps.ui.pictures import nouns
from lps.ui.predict import model, results, training_data, upload
from lps.ui.shared import click_errors, escape, export_buttons, page_head, select, url_fields

_NEW_FOLDER = "predict_new"  # in the session: the folder was chosen just now, so looking at it may begin
_NEWEST_RESULT = "predict_seen"  # in the session: run and folder of the newest result


def main() -> None:
    """Draw the page."""
    runs = page_head.begin_page("Predict")
    if not runs:
        return
    named = st.query_params.get_all("run")
    predictable = [run for run in runs if prediction_job.has_weights(run) or run.id in named]
    is_training = not named and page_head.show_training_run(runs, prediction_job.has_weights)
    if not predictable:
        if is_training:
            return
        explanation = (
            "No run has weights yet. Weights are what the network has learned; training saves them after each epoch. "
            "The recorded runs that come with LPS Studio have none, so train a run of your own: add your pictures, or "
            "launch a run on a data set."
        )
        page_head.offer_launch(explanation, ":material/image_search:", "Add pictures", "own")
        st.page_link("pages/launch.py", label="Launch a run", icon=":material/arrow_forward:")
        return
    text = st.query_params.get("folder")
    left, right = st.columns([3, 2], gap="medium", vertical_alignment="bottom")
    with left:
        run = select.pick_run(predictable, prefers_own_data=True)
    with right:
        if text:
            options = {"icon": ":material/arrow_back:", "type": "tertiary", "key": "predict_back"}
            st.button(nouns.of(run)("Other pictures"), on_click=_close_folder, **options)
    if not prediction_job.has_weights(run):
        if page_head.show_training_run([run], prediction_job.has_weights):
            return
        status = "a recording, which has no weights" if run.is_recorded else "without weights: it has no checkpoint"
        st.info(
            f"{escape.markdown(titles.run_label(run))} is {status}; choose another run.", icon=":material/image_search:"
        )
        return
    _offer_newer_run(run, runs)
    training_data.show_training_data(run)
    _show_run(run, text)
    model.show_model_export(run)


def _offer_newer_run(run: Run, runs: list[Run]) -> None:
    """Offer the newest run that continues this one and can predict, for the same pictures. runs: newest first."""
    successors = inherited_files.successors_of(run.id, run_index.parents_of(run_index.read_rows(runs)))
    newer = next((one for one in runs if one.id in successors and prediction_job.has_weights(one)), None)
    if newer is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.caption("A newer run continues this one:", width="content")
        open_newer = {"on_click": url_fields.set_values, "args": ("run", newer.id)}
        st.button(escape.markdown(titles.run_label(newer)), key="newer_run", type="tertiary", **open_newer)


def _show_run(run: Run, text: str | None) -> None:
    """Draw everything below the choice of the run."""
    if not text:
        explanation = f'Each picture gets a class, with the name that you gave on Clusters, or the answer "{NONE}".'
        st.caption(nouns.of(run)(explanation))
        upload.show_upload(_open_folder, _takes_vectors(run))
        return
    try:
        folder = uploaded_folders.folder(text)
    except UserError as error:
        st.warning(escape.sentence(error), icon=":material/folder_off:")
        upload.show_upload(_open_folder, _takes_vectors(run))
        return
    st.caption(escape.markdown(uploaded_folders.folder_in_words(folder)))
    click_errors.show_errors("predict")
    path = prediction_job.prediction_path(run, folder)
    if st.session_state.pop(_NEW_FOLDER, None) == str(folder):
        _start_prediction(run, folder)
    job = detached_jobs.job_state(path)
    if job.state == "working":
        background_work.wait_for_work(path, "It continues if you leave this page.")
    elif job.state == "done":
        st.session_state[_NEWEST_RESULT] = (run.id, str(folder))
        _show_predictions(run, folder, path)
    else:
        _offer_prediction(run, folder, job)
    is_upload = folder.parent == uploaded_folders.home_of_new()
    command = cli_args.format_command(
        "predict", titles.short_id(run.id), "FOLDER" if is_upload else str(folder), to="labels.csv"
    )
    export_buttons.show_command(f"{command}    # or a folder: --to sorted", "Predict on the command line")


def _takes_vectors(run: Run) -> bool:
    config = run.config_if_readable()
    return config is not None and config.network_name == GIVEN


def _open_folder(folder: Path) -> None:
    st.query_params["folder"] = str(folder)
    st.session_state[_NEW_FOLDER] = str(folder)
    results.forget_choice()


def _close_folder() -> None:
    st.query_params.pop("folder", None)
    results.forget_choice()


def _offer_prediction(run: Run, folder: Path, job: detached_jobs.JobState) -> None:
    """Show the button that starts the prediction, and how the last one ended."""
    if job.state == "failed":
        st.error(escape.sentence(job.message.removeprefix("lps: ")), icon=":material/error:")
    elif job.state == "cancelled":
        st.caption("The prediction was cancelled.")
    was_predicted = st.session_state.get(_NEWEST_RESULT) == (run.id, str(folder))
    if was_predicted and job.state not in ("failed", "cancelled"):
        st.caption("The files, the names or the weights have changed since the last prediction.")
    label = "Predict again" if was_predicted else nouns.of(run)("Predict these pictures")
    start = {"on_click": _start_prediction, "args": (run, folder)}
    st.button(label, icon=":material/image_search:", type="primary", key="predict_begin", **start)


def _start_prediction(run: Run, folder: Path) -> None:
    with click_errors.keep_errors("predict"):
        prediction_job.start_prediction(run, folder)


def _show_predictions(run: Run, folder: Path, path: Path) -> None:
    try:
        predictions = _load_predictions(str(path), fingerprint(path))
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/broken_image:")
        repeat = {"on_click": _repeat_prediction, "args": (run, folder)}
        st.button("Predict again", icon=":material/refresh:", key="predict_again", **repeat)
        return
    results.show_results(run, predictions, path, folder)


def _repeat_prediction(run: Run, folder: Path) -> None:
    with click_errors.keep_errors("predict"):
        prediction_job.delete_result(prediction_job.prediction_path(run, folder))
        prediction_job.start_prediction(run, folder)


@st.cache_resource(max_entries=4, show_spinner=False)
def _load_predictions(path: str, stamp: object) -> PredictionResult:
    return prediction_files.read_predictions(Path(path))
