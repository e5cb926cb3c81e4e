"""The page Launch: data, split, method and settings; one click starts one run per seed.

The simple view asks for data, split, method, epochs, seeds and name, and lists the other settings that differ from the
defaults; the full view asks for everything.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import streamlit as st

from lps.datasets import Images
from lps.errors import UserError
from lps.scheduler import preflight
from lps.settings import catalog
from lps.settings.config import Config, parameters
from lps.ui.forms import data_check, execution_target, fields, form, start_runs
from lps.ui.forms.execution_target import ExecutionTarget
from lps.ui.forms.form import Draft, FormReading
from lps.ui.launch import class_estimate, splits
from lps.ui.launch.splits import SplitPreview
from lps.ui.server import routing
from lps.ui.shared import escape, export_buttons, notices, theme, time_estimates

_TITLES = {"training": "Training", "network": "Network", "pretrain": "Pretraining", "dataset": "Data set"}


@dataclass(frozen=True)
class _Content:
    """The content of the form and what it means. split: None if it cannot be made; errors: a sentence by setting."""

    draft: Draft
    reading: FormReading
    target: ExecutionTarget
    split_config: Config | None
    split: SplitPreview | None
    errors: dict[str, str]
    is_simple: bool


def main() -> None:
    """Draw the page."""
    fields.read_link(is_clicked=start_runs.is_requested("launch"))
    draft = fields.current_draft()
    target = execution_target.read_target()
    reading = form.check_reading(form.read_draft(draft), target.is_here)
    failure = _start_requested(draft, reading, target)
    fields.write_link()
    content = _preview_split(draft, reading, target)
    fields.show_title()
    for notice in st.session_state.pop("launch_notices", []):
        st.warning(escape.markdown(notice), icon=":material/link_off:")
    images = _show_dataset(content)
    _show_split(content, images)
    _show_method(content)
    _show_run(content, images)
    with st.bottom, st.container(horizontal=True, vertical_alignment="center"):
        _show_launch_bar(content, images, failure)
    theme.redraw_on_change()


def _start_requested(draft: Draft, reading: FormReading, target: ExecutionTarget) -> str:
    """Start the requested runs and open them, or show the reason of a failure."""
    visit = start_runs.take_request("launch")
    if not (visit and reading.configs):
        return ""
    try:
        started = start_runs.start_runs("launch", visit, reading.configs, draft.name, target)
    except UserError as error:
        return str(error)
    routing.turn_to("live", run=started)


def _preview_split(draft: Draft, reading: FormReading, target: ExecutionTarget) -> _Content:
    """Return the content of the form with the split that would be made, whose errors are added to the others."""
    config, split, errors = None, None, dict(reading.errors)
    try:
        config = form.split_config(draft)
        split = splits.preview_split(config)
    except UserError as error:
        errors.setdefault(error.name, form.error_sentence(error))
    return _Content(draft, reading, target, config, split, errors, fields.chosen_view() == "simple")


def _config_for_count(content: _Content) -> Config | None:
    return class_estimate.config_for_count(content.reading, content.draft)


def _show_dataset(content: _Content) -> Images | None:
    """Show the choice of the data set, its images, and its classes."""
    draft = content.draft
    st.subheader("Data set", anchor=False)
    fields.choose_dataset_or_method("dataset", "Data set", catalog.dataset_titles(), catalog.broken_datasets())
    info = catalog.dataset_info(draft.dataset)
    st.caption(info.summary)
    if info.path:
        fields.draw_text_field("dataset.path", info.path, content.errors.get("dataset.path"))
    if draft.dataset == "folder":
        st.page_link("pages/own.py", label="Browse or upload pictures", icon=":material/add_photo_alternate:")
    fields.choose_effort()
    images = splits.show_samples(draft, not content.is_simple)
    if images and not content.is_simple:
        data_check.show_data_check(_config_for_count(content))
    return images


def _show_split(content: _Content, images: Images | None) -> None:
    st.subheader("Split", anchor=False)
    controls, chips = st.columns([2, 3], gap="large")
    with controls:
        if images:
            count = partial(class_estimate.show_class_count, _config_for_count(content))
            splits.show_controls(images, content.split, content.errors, count, content.is_simple)
    with chips:
        if content.split:
            splits.show_chips(content.split_config, content.split, theme.current_palette())
        else:
            st.caption("The classes appear here when the settings of the split are valid.")


def _show_notices(content: _Content) -> None:
    """Show warnings that do not block the start."""
    configs = content.reading.configs
    for config in configs[:1]:
        if content.draft.effort != "stored":  # whose description has the same note
            notices.show_labels_of_others(config)
        with suppress(UserError):
            notices.show_prior_advice(preflight.prior_advice(config), _store_prior)
    notices.show_disk_warning(configs)
    notices.show_memory_warnings(configs if content.target.is_here else ())


def _store_prior(prior: str) -> None:
    fields.keep_draft(fields.current_draft().with_text("prior", prior))


def _show_method(content: _Content) -> None:
    """Show the choice of the method and what it does; in the full view, also all settings."""
    draft, reading, errors = content.draft, content.reading, content.errors
    st.subheader("Method", anchor=False)
    fields.choose_dataset_or_method("method", "Method", catalog.method_titles(), catalog.broken_methods())
    fields.show_meaning(catalog.method_info(draft.method))
    if content.is_simple:
        return
    settings = reading.configs[0].hyperparameters if reading.configs else {}
    fields.show_formulas(catalog.method_info(draft.method), settings)
    has_path = bool(catalog.dataset_info(draft.dataset).path)
    groups = form.group_settings(draft.method)
    groups.pop("split")
    groups["dataset"] = [member for member in groups["dataset"] if not (has_path and member.name == "dataset.path")]
    fields.show_groups(form.group_by_heading(groups.pop("method", ())), errors)
    for group, members in groups.items():
        with fields.group_box(_TITLES.get(group, group.capitalize()), group, members, errors) as is_open:
            if is_open:
                fields.show_grid(members, errors)


def _show_run(content: _Content, images: Images | None) -> None:
    """Show epochs, seeds, name and execution target.

    In the simple view, also the settings that differ from the defaults and have a field only in the full view; in the
    full view, also the device and the equivalent command.
    """
    draft, reading, target, errors = content.draft, content.reading, content.target, content.errors
    st.subheader("Run", anchor=False)
    with fields.field_grid():
        if catalog.method_info(draft.method).trains or "epochs" in draft.texts:
            with st.container(gap="xxsmall"):
                fields.show_field(parameters(draft.method)["epochs"], errors.get("epochs"))
        fields.draw_seeds_or_name(
            "seeds",
            "Seeds",
            errors.get("seed"),
            "A seed fixes the random choices of a run. Each seed starts one run: 0, 1, 2 starts three runs",
        )
        if not content.is_simple:
            fields.choose_device(errors.get("device"), target.is_here)
        fields.draw_seeds_or_name(
            "name", "Name", None, "Optional. Shown in the list of runs", placeholder="No name", max_chars=120
        )
    if content.is_simple:
        shown_keys = {"epochs"} | splits.simple_keys(images)
        if catalog.dataset_info(draft.dataset).path:
            shown_keys.add("dataset.path")
        if changed := form.changed_settings(draft, shown_keys):
            st.subheader("Other changed settings", anchor=False)
            fields.show_grid(changed, errors)
    execution_target.show_target(is_several=len(reading.configs) > 1)
    _show_notices(content)
    if reading.configs and not content.is_simple:
        export_buttons.show_command(execution_target.command_with_target(form.launch_commands(draft, reading), target))


def _show_launch_bar(content: _Content, images: Images | None, failure: str) -> None:
    """Show what a click would start, or what prevents it, and the button."""
    draft, reading, target = content.draft, content.reading, content.target
    is_possible = bool(reading.configs and content.split) and not target.errors
    obstacle = failure or target.blocked_by or ("" if is_possible else form.blocked_by(content.errors, draft.dataset))
    if obstacle:
        is_hint = not failure and not target.blocked_by and fields.are_hints(content.errors)
        st.markdown(f":{'gray' if is_hint else 'red'}[{escape.markdown(obstacle)}]", width="stretch")
    else:
        shape = images.pixels.shape[:3] if images else None
        known = time_estimates.costs_now(reading.configs)
        duration = time_estimates.estimate_run(reading.configs[0], shape, known) if target.is_here else None
        duration_text = time_estimates.describe_duration(duration, len(reading.configs))
        parts = [form.summarize_launch(draft, reading), time_estimates.describe_epochs(reading.configs, known)]
        st.markdown(f"{' · '.join(filter(None, parts))}{duration_text}", width="stretch")
    runs = max(1, len(reading.configs))
    label = f"Launch {runs} runs" if runs > 1 else "Launch"
    start_runs.show_start_button(
        label, "launch", type="primary", icon=":material/rocket_launch:", disabled=not is_possible
    )
