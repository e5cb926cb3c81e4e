"""The page Launch: data, split, method and settings; one click starts one run per seed.

The simple view asks for data, split and method, and lists the other settings that differ from the defaults; the full
view asks for everything.
"""

from contextlib import suppress
from functools import partial

import streamlit as st

from lps.datasets import Images
from lps.errors import UserError
from lps.scheduler import preflight
from lps.settings import catalog
from lps.settings.config import Config
from lps.ui.forms import data_check, execution_target, fields, form, start_runs
from lps.ui.forms.execution_target import ExecutionTarget
from lps.ui.forms.form import Draft, FormReading
from lps.ui.launch import class_estimate, splits
from lps.ui.launch.splits import SplitPreview
from lps.ui.server import routing
from lps.ui.shared import escape, export_buttons, notices, theme, time_estimates

_USUAL_SEEDS = Draft().seeds
_TITLES = {"training": "Training", "network": "Network", "pretrain": "Pretraining", "dataset": "Data set"}


def main() -> None:
    """Draw the page."""
    fields.read_link(is_clicked=start_runs.is_requested("launch"))
    draft = fields.current_draft()
    target = execution_target.read_target()
    reading = form.check_reading(form.read_draft(draft), target.is_here)
    failure = _start_requested(draft, reading, target)
    fields.write_link()
    errors = dict(reading.errors)
    split_config, split = _preview_split(draft, errors)
    fields.show_title()
    for notice in st.session_state.pop("launch_notices", []):
        st.warning(escape.markdown(notice), icon=":material/link_off:")
    is_simple = fields.chosen_view() == "simple"
    images = _show_dataset(draft, reading, errors, is_simple)
    _show_split(draft, reading, images, split_config, split, errors, is_simple)
    if is_simple:
        _show_chosen_method(draft)
        _show_other_settings(draft, reading, images, target, errors)
    else:
        _show_method(draft, reading, errors)
        _show_run(draft, reading, target, errors)
    with st.bottom, st.container(horizontal=True, vertical_alignment="center"):
        _show_launch_bar(draft, reading, target, images, split, errors, failure)


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


def _preview_split(draft: Draft, errors: dict[str, str]) -> tuple[Config | None, SplitPreview | None]:
    """Return the split that would be made; its errors are added to the form's."""
    config = None
    try:
        config = form.split_config(draft)
        return config, splits.preview_split(config)
    except UserError as error:
        errors.setdefault(error.name, form.error_sentence(error))
        return config, None


def _show_dataset(draft: Draft, reading: FormReading, errors: dict[str, str], is_simple: bool) -> Images | None:
    """Show the choice of the data set, its images, and its classes."""
    st.subheader("Data set", anchor=False)
    fields.choose_dataset_or_method("dataset", "Data set", catalog.dataset_titles(), catalog.broken_datasets())
    info = catalog.dataset_info(draft.dataset)
    st.caption(info.summary)
    if info.path:
        fields.draw_text_field("dataset.path", info.path, errors.get("dataset.path"))
    if draft.dataset == "folder":
        st.page_link("pages/own.py", label="Browse or upload pictures", icon=":material/add_photo_alternate:")
    fields.choose_effort()
    images = splits.show_samples(draft, not is_simple)
    if images and not is_simple:
        data_check.show_data_check(class_estimate.config_for_count(reading, draft))
    return images


def _show_split(
    draft: Draft,
    reading: FormReading,
    images: Images | None,
    config: Config | None,
    split: SplitPreview | None,
    errors: dict[str, str],
    is_simple: bool,
) -> None:
    st.subheader("Split", anchor=False)
    controls, chips = st.columns([2, 3], gap="large")
    with controls:
        if images:
            count = partial(class_estimate.show_class_count, class_estimate.config_for_count(reading, draft))
            splits.show_controls(images, split, errors, count, is_simple)
    with chips:
        if split:
            splits.show_chips(config, split, theme.current_palette())
        else:
            st.caption("The classes appear here when the settings of the split are valid.")


def _show_chosen_method(draft: Draft) -> None:
    """Show the choice of the method and what it does."""
    st.subheader("Method", anchor=False)
    fields.choose_dataset_or_method("method", "Method", catalog.method_titles(), catalog.broken_methods())
    fields.show_meaning(catalog.method_info(draft.method))


def _show_other_settings(
    draft: Draft, reading: FormReading, images: Images | None, target: ExecutionTarget, errors: dict[str, str]
) -> None:
    """Show the settings that differ from the defaults and have a field only in the full view."""
    simple_keys = splits.simple_keys(images) | ({"dataset.path"} if catalog.dataset_info(draft.dataset).path else set())
    changed = form.changed_settings(draft, simple_keys)
    if changed or draft.seeds != _USUAL_SEEDS or draft.name:
        st.subheader("Other changed settings", anchor=False)
    with fields.field_grid():
        if draft.seeds != _USUAL_SEEDS:
            fields.draw_seeds_or_name(
                "seeds",
                "Seeds",
                errors.get("seed"),
                "A seed fixes the random choices of a run. Each seed starts one run",
            )
        if draft.name:
            fields.draw_seeds_or_name("name", "Name", None, "Shown in the list of runs", max_chars=120)
    fields.show_grid(changed, errors)
    execution_target.show_target(is_several=len(reading.configs) > 1)
    _show_notices(draft, reading, target)


def _show_notices(draft: Draft, reading: FormReading, target: ExecutionTarget) -> None:
    """Show warnings that do not block the start."""
    if draft.effort != "stored":  # which says so itself
        for config in reading.configs[:1]:
            notices.show_labels_of_others(config)
    for config in reading.configs[:1]:
        with suppress(UserError):
            notices.show_prior_advice(preflight.prior_advice(config), _store_prior)
    notices.show_disk_warning(reading.configs)
    notices.show_memory_warnings(reading.configs if target.is_here else ())


def _store_prior(prior: str) -> None:
    fields.keep_draft(fields.current_draft().with_text("prior", prior))


def _show_method(draft: Draft, reading: FormReading, errors: dict[str, str]) -> None:
    """Show the method with all settings."""
    _show_chosen_method(draft)
    settings = reading.configs[0].hyperparameters if reading.configs else {}
    fields.show_formulas(catalog.method_info(draft.method), settings)
    has_path = bool(catalog.dataset_info(draft.dataset).path)
    groups = form.group_settings(draft.method)
    groups.pop("split")
    groups["dataset"] = [member for member in groups["dataset"] if not (has_path and member.name == "dataset.path")]
    fields.show_groups(form.group_by_heading(groups.pop("method", ())), errors)
    for group, members in groups.items():
        title = fields.group_heading(_TITLES.get(group, group.capitalize()), members, errors)
        expander = st.expander(title, key=f"group:{group}", on_change="rerun")
        if expander.open:  # a closed one costs the browser nothing
            with expander:
                fields.show_grid(members, errors)


def _show_run(draft: Draft, reading: FormReading, target: ExecutionTarget, errors: dict[str, str]) -> None:
    """Show seeds, device, name and execution target, and the equivalent command."""
    st.subheader("Run", anchor=False)
    with fields.field_grid():
        fields.draw_seeds_or_name(
            "seeds",
            "Seeds",
            errors.get("seed"),
            "A seed fixes the random choices of a run. Each seed starts one run: 0, 1, 2 starts three runs",
        )
        fields.choose_device(errors.get("device"), target.is_here)
        fields.draw_seeds_or_name(
            "name", "Name", None, "Optional. Shown in the list of runs", placeholder="No name", max_chars=120
        )
    execution_target.show_target(is_several=len(reading.configs) > 1)
    _show_notices(draft, reading, target)
    if reading.configs:
        export_buttons.show_command(execution_target.command_with_target(form.launch_commands(draft, reading), target))


def _show_launch_bar(
    draft: Draft,
    reading: FormReading,
    target: ExecutionTarget,
    images: Images | None,
    split: SplitPreview | None,
    errors: dict[str, str],
    failure: str,
) -> None:
    """Show what a click would start, or what prevents it, and the button."""
    is_possible = bool(reading.configs and split) and not target.errors
    if obstacle := failure or target.blocked_by or ("" if is_possible else form.blocked_by(errors, draft.dataset)):
        is_hint = not failure and not target.blocked_by and fields.are_hints(errors)
        st.markdown(f":{'gray' if is_hint else 'red'}[{escape.markdown(obstacle)}]", width="stretch")
    else:
        shape = images.pixels.shape[:3] if images else None
        duration = time_estimates.estimate_run(reading.configs[0], shape) if target.is_here else None
        duration_text = time_estimates.describe_duration(duration, len(reading.configs))
        st.markdown(f"{form.summarize_launch(draft, reading)}{duration_text}", width="stretch")
    runs = max(1, len(reading.configs))
    label = f"Launch {runs} runs" if runs > 1 else "Launch"
    start_runs.show_start_button(
        label, "launch", type="primary", icon=":material/rocket_launch:", disabled=not is_possible
    )
