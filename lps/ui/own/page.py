"""The page Add pictures: what the folder has, what looks unusual, the number of novel classes, and the start.

The folder is in the URL. Other settings are chosen as the form and --light choose them (`lps.scheduler.submit`), and
everything can be changed on Launch.
"""

import itertools
from pathlib import Path

import streamlit as st

from lps.data.class_shares import ADVISED, advise_prior
from lps.datasets import quoted
from lps.datasets.readers.item_pictures import SIDE
from lps.datasets.readers.preview import FolderPreview
from lps.datasets.readers.vector_files import is_vector_file
from lps.errors import UserError
from lps.interop import uploaded_folders
from lps.machine import detached_jobs
from lps.scheduler import background_jobs, class_count
from lps.settings.config import Config
from lps.settings.parameters import text_of
from lps.settings.recipes import LOWER_THRESHOLDS, MANY_CLASSES
from lps.studies import audit_files
from lps.ui.forms import background_work, data_check, form, start_runs
from lps.ui.forms.form import Draft
from lps.ui.own import preview, upload
from lps.ui.pictures import nouns
from lps.ui.server import routing
from lps.ui.shared import click_errors, escape, export_buttons, notices, select, time_estimates
from lps.wording import counted

_NEW = "own_new"  # in the session: the folder was chosen just now, so looking into it may begin
_NOVEL = "own_novel"
_SUGGESTED = "own_suggested"  # used while the field is empty
_UNSORTED = "If one of these folders holds unsorted pictures, rename it to **unlabeled** and open this page again."
_SEARCH = (
    "A suggestion appears when the search has finished, on a busy computer after some minutes. You can also enter a "
    "number and start now: Start ends the search."
)
_PRIOR = "own_prior"  # whether to train with the advised prior


def main() -> None:
    """Draw the page."""
    text = st.query_params.get("folder")
    _start_requested(text)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Add pictures", anchor=False, width="stretch")
        if text:
            st.button(
                "Other pictures", icon=":material/arrow_back:", type="tertiary", key="own_back", on_click=_close_folder
            )
    if not text:
        upload.show_upload(_open_folder)
        return
    try:
        folder = uploaded_folders.folder(text)
        folder_preview = preview.scan_folder(folder)
    except UserError as error:
        reason = form.error_sentence(error).replace(quoted(text), Path(text).name)
        st.warning(escape.sentence(reason), icon=":material/folder_off:")
        if error.name == "dataset.path":  # such as a folder of new pictures
            label = "Sort these pictures with a trained model"
            st.page_link("pages/predict.py", label=label, icon=":material/image_search:", query_params={"folder": text})
        upload.show_upload(_open_folder)
        return
    _show_folder(folder, folder_preview)


def _open_folder(folder: Path) -> None:
    st.query_params["folder"] = str(folder)
    st.session_state[_NEW] = str(folder)
    for key in (_NOVEL, _SUGGESTED):
        st.session_state.pop(key, None)


def _close_folder() -> None:
    st.query_params.pop("folder", None)


def _item_noun(folder: Path) -> str:
    return nouns.of_dataset(draft_for_folder(folder).dataset)("pictures")


def draft_for_folder(folder: Path, novel: int | None = None, prior: str = "uniform", num_classes: int = 0) -> Draft:
    """Return the launch form for these pictures. novel: number of novel classes; num_classes: of all, if known."""
    draft = Draft("embeddings" if is_vector_file(folder) else "folder", name=folder.stem[:120]).with_text(
        "dataset.path", str(folder)
    )
    draft = draft.with_effort(form.default_effort(draft)).with_text("prior", prior)
    if num_classes >= MANY_CLASSES and draft.text("features") == "stored":
        for key, value in LOWER_THRESHOLDS.items():
            draft = draft.with_text(key, text_of(value))
    return draft if novel is None else draft.with_text("split.num_novel", str(novel))


def _show_folder(folder: Path, folder_preview: FolderPreview) -> None:
    st.caption(escape.markdown(uploaded_folders.folder_in_words(folder)))
    preview.show_preview(folder_preview, is_vector_file(folder))
    config = _config_for_checks(folder)
    if config is not None and st.session_state.pop(_NEW, None) == str(folder):
        with click_errors.keep_errors("own"):
            _begin_checks(config, folder_preview)
    click_errors.show_errors("own")
    novel = _ask_novel(folder, config, folder_preview)
    data_check.show_data_check(config)
    prior = _ask_prior(config, folder_preview, _item_noun(folder))
    draft = draft_for_folder(folder, novel, prior, len(folder_preview.class_names) + (novel or 0))
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        for run_config in form.read_draft(draft).configs:
            with st.container(width="stretch"):
                notices.show_labels_of_others(run_config)
        st.page_link(
            "pages/launch.py", label="All settings", icon=":material/tune:", query_params=form.link_to_draft(draft)
        )
    with st.bottom, st.container(horizontal=True, vertical_alignment="center"):
        _show_start_bar(draft, folder_preview, novel, _item_noun(folder))


def _config_for_checks(folder: Path) -> Config | None:
    """Return the settings for the first look at the pictures, before the number of novel classes is known."""
    reading = form.read_draft(draft_for_folder(folder, 1))
    if reading.errors:
        st.error(escape.sentence(form.blocked_by(reading.errors)), icon=":material/error:")
    return background_jobs.config_of_job(reading.configs[0]) if reading.configs else None


def _begin_checks(config: Config, folder_preview: FolderPreview) -> None:
    """Count the classes and check the pictures in the background; both use the same stored features."""
    if folder_preview.unlabeled:
        class_count.start_class_count(config, select.runs_root())
    audit_files.start_audit(config, select.runs_root())


# ---------------------------------------------------------------------------------------------------- novel classes


def _ask_novel(folder: Path, config: Config | None, folder_preview: FolderPreview) -> int | None:
    """Return how many novel classes to look for: the user's number, else the suggestion; None if there is neither."""
    if not folder_preview.unlabeled:
        labeling = "Every item has a label" if is_vector_file(folder) else "Every picture lies in the folder of a class"
        st.info(
            f"{labeling}, so this will be a demonstration. Half of your classes are hidden: training does not get the "
            f"labels of their {_item_noun(folder)}, and the model has to find these classes."
            + ("" if is_vector_file(folder) else f" {_UNSORTED}"),
            icon=":material/school:",
        )
        return None
    path = class_count.class_count_path(config, select.runs_root()) if config else None
    job = detached_jobs.job_state(path) if path else detached_jobs.JobState("absent")
    suggestion = _read_class_count(path) if job.state == "done" else None
    suggested = st.session_state[_SUGGESTED] = suggestion.suggested if suggestion else None
    with st.container(border=True, gap="small"):
        novel = st.number_input(
            "Novel classes to look for", 1, max(1, folder_preview.unlabeled), value=None, step=1, key=_NOVEL, width=240,
            placeholder=f"{suggested} (suggested)" if suggested else "How many?",
            help=_plausible_in_words(suggestion) if suggestion else None,
        )  # fmt: skip
        if suggestion is not None:
            st.caption(f"**{suggestion.suggestion_in_words}.** {class_count.ADVICE}")
        elif job.state == "working":
            background_work.wait_for_work(path, _SEARCH)
        elif config is not None:
            background_work.offer_work(
                "search", job, "The search was cancelled.",
                f"A search suggests how many novel classes there are. It also checks all {_item_noun(folder)} and "
                "lists unusual ones.", "Suggest a number",
                ":material/search:", lambda: _begin_checks(config, folder_preview),
            )  # fmt: skip
    return novel or suggested


def _read_class_count(path: Path) -> class_count.ClassCount | None:
    with click_errors.keep_errors("own"):
        return class_count.read_class_count(path)


def _plausible_in_words(count: class_count.ClassCount) -> str:
    lowest, highest = count.plausible
    novel = f"{lowest - count.seen} to {highest - count.seen} novel classes are plausible"
    return f"{novel} ({lowest} to {highest} classes in all)."


def _ask_prior(config: Config | None, folder_preview: FolderPreview, noun: str) -> str:
    """Return the prior: the advised one if class sizes look unequal and the user does not decline."""
    advice = advise_prior(folder_preview.counts[: len(folder_preview.class_names)], config) if config else None
    if advice is None:
        return "uniform"
    with st.container(border=True, gap="small"):
        is_accepted = st.toggle(f"Estimate the class sizes (prior = {advice.prior})", value=True, key=_PRIOR)
        st.caption(f"The largest labeled class has {advice.factor:.3g} times as many {noun} as the smallest one.")
        export_buttons.offer_document("concepts/priors.md", "Why this helps", "prior_evidence")
    return advice.prior if is_accepted else "uniform"


# ---------------------------------------------------------------------------------------------------- the start


def _show_start_bar(draft: Draft, folder_preview: FolderPreview, novel: int | None, noun: str) -> None:
    """Show what a click starts and how long it takes, or what it waits for, and the button."""
    reading = form.read_draft(draft)
    is_ready = bool(reading.configs) and (novel is not None or not folder_preview.unlabeled)
    if is_ready:
        among = f"among {folder_preview.unlabeled:,} {noun}"
        subject = f"Look for **{counted(novel, 'novel class')}** {among}" if novel else "A demonstration"
        config = reading.configs[0]
        side = config.dataset_image_size or SIDE
        usual = time_estimates.estimate_run(config, (sum(folder_preview.counts) + folder_preview.test, side, side))
        words = subject + time_estimates.describe_duration(usual, 1)
        if config.split_validation_ratio:
            share = f"{100 * config.split_validation_ratio:g} % of the labels"
            words += f"  \n:small[:gray[{share} are withheld from training to measure accuracy]]"
        st.markdown(words, width="stretch")
    else:
        st.markdown(":gray[Enter how many novel classes to look for.]", width="stretch")
    start_runs.show_start_button("Start", "own", type="primary", icon=":material/play_arrow:", disabled=not is_ready)


def _start_requested(text: str | None) -> None:
    """Start the requested run and open it; a failure is shown on the page."""
    visit = start_runs.take_request("own")
    if not (visit and text):
        return
    started = None
    with click_errors.keep_errors("own"), st.spinner("Reading the pictures", show_time=True):
        folder = uploaded_folders.folder(text)
        prior = ADVISED if st.session_state.get(_PRIOR) else "uniform"
        novel = st.session_state.get(_NOVEL) or st.session_state.get(_SUGGESTED)
        num_classes = len(preview.scan_folder(folder).class_names) + (novel or 0)
        draft = draft_for_folder(folder, novel, prior, num_classes)
        reading = form.check_reading(form.read_draft(draft))
        if reading.errors:
            raise UserError("start", form.blocked_by(reading.errors))
        started = start_runs.start_runs("own", visit, reading.configs, _distinct_name(draft.name))
        _cancel_checks(folder)
    if started:
        routing.turn_to("live", run=started)


def _distinct_name(name: str) -> str:
    """Return the name, with a number if a run has it already: "pictures (2)"."""
    used_names = {run.meta().get("name") for run in select.own_runs()}
    numbered = (f"{name} ({number})" for number in itertools.count(2))
    return name if name not in used_names else next(other for other in numbered if other not in used_names)


def _cancel_checks(folder: Path) -> None:
    """Stop the background searches: they give way to runs, and the run would wait for features that they compute."""
    for path in _result_paths(_config_for_checks(folder)):
        detached_jobs.cancel_job(path)


def _result_paths(config: Config | None) -> list[Path]:
    """Return the paths of the class count and the data check of these pictures."""
    root = select.runs_root()
    return [class_count.class_count_path(config, root), audit_files.audit_path(config, root)] if config else []
