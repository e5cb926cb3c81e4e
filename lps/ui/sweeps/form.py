"""The form of the page Sweep: a table of the paper or an own layout, a preview of its runs, and the start button.

The form is read as arguments of the command line (`sweeps.SweepSpec`, `presets.PresetRequest`), so that page, command
and the stored record of a sweep mean the same. The URL stores the form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from lps.errors import UserError
from lps.scheduler import costs, queue, run_slots, start_check
from lps.scheduler.costs import Cost
from lps.settings import catalog
from lps.settings.config import Config
from lps.settings.parameters import Parameter, text_of
from lps.studies import core_sharing, preset_tables, presets, sweep_layout, sweeps
from lps.studies.sweep_layout import SweepSpec
from lps.studies.sweeps import Estimate, Sweep
from lps.ui.forms import execution_target, fields, form, start_runs
from lps.ui.forms.execution_target import ExecutionTarget
from lps.ui.server import page_visit
from lps.ui.shared import data_table, escape, export_buttons, notices, select, time_estimates, url_fields
from lps.ui.shared.data_table import Column
from lps.ui.sweeps import table
from lps.wording import capitalized, counted, data_size

_KINDS = {"preset": "Table of the paper", "own": "Custom"}
_SCALES = {"demo": "Demo, on digits", "paper": "The paper's"}
_MODES = {"grid": "Grid", "list": "List", "random": "Random"}
_ACTIONS = {"new": "new", "exists": "exists ({}), not run again", "resumed": "{}, is resumed"}
_ALL_EXIST = "Open the sweep (all runs exist)"
_FIXED = "fix:"  # in the URL, before a setting of all runs
_CHANGED = "sweep_changed"  # in the session: settings of all runs whose field was changed
_MAX_ROWS = 12  # of the preview that are seen at once
THIS_MACHINE = ExecutionTarget(None, {})


@dataclass(frozen=True)
class _SweepDraft:
    """The content of the form. request: None if a field is invalid; errors: a sentence by field."""

    request: SweepSpec | presets.PresetRequest | None
    errors: Mapping[str, str]
    name: str = ""
    retries: int = 0


# ---------------------------------------------------------------------------------------------------- start


def start_sweep(record: Mapping, name: str, retries: int, target: ExecutionTarget) -> str | None:
    """Start the requested sweep and return its name; raises `UserError`."""
    request = sweeps.from_record(record)
    if request is None:
        return None
    with st.spinner("Creating the run folders"):
        sweep = sweeps.plan_unchecked_sweep(request, select.runs_root(), name)
        execution_target.check_target(target)
        sweeps.check_sweep([item.config for item in sweep.items], target.is_here, start_check.check_start_in_subprocess)
        return sweeps.start_sweep(sweep, select.runs_root(), retries=retries or None, on=target.on).name


def request_start(record: Mapping, name: str, retries: int = 0, target: ExecutionTarget = THIS_MACHINE) -> None:
    """Request the start of a sweep in the next run of the script; a second click requests the same runs."""
    start_runs.request_start("sweep", dict(record), name, retries, target)


# ---------------------------------------------------------------------------------------------------- form


def show_sweep_form() -> None:
    """Show the form, its runs, and the button."""
    page_visit.restore_address("sweep_name")
    kind = url_fields.choose_one(st.segmented_control, "kind", "Kind of sweep", _KINDS, label_visibility="collapsed")
    draft = _ask_preset() if kind == "preset" else _ask_layout()
    _show_target()
    page_visit.remember_address("sweep_name")
    if draft.request is None:
        key, reason = next(iter(draft.errors.items()))
        st.error(escape.sentence(f"{key}: {reason}"), icon=":material/edit_off:")
        return
    _show_preview(draft)


def _ask_preset() -> _SweepDraft:
    titles = {name: f"{preset.title} · {preset.paper_location}" for name, preset in presets.PRESETS.items()}
    usual = {"ablation": titles["ablation"]} | titles
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        selected = presets.PRESETS[url_fields.choose_one(st.selectbox, "preset", "Table", usual, width=420)]
        scale = url_fields.choose_one(st.segmented_control, "scale", "Scale", _SCALES)
    st.caption(escape.markdown(f"{selected.description} Scale: {presets.SCALES[scale]}."))
    errors: dict[str, str] = {}
    with fields.field_grid():
        seeds = _ask_seeds(errors)
        datasets = _ask_datasets(selected) if scale == "paper" else ()
        name, retries = fields.ask_name("sweep", "covers", 34), _ask_retries()
    line_settings = {key for line in selected.lines for key in line.settings}
    methods = dict.fromkeys(str(line.settings.get("method", "lps")) for line in selected.lines)
    fixed = _ask_fixed(list(methods), line_settings, presets.DEMO if scale == "demo" else selected.datasets[0], errors)
    if errors:
        return _SweepDraft(None, errors)
    request = presets.PresetRequest(selected.name, scale, seeds, datasets, fixed)
    return _check_request(request, name, retries)


def _ask_layout() -> _SweepDraft:
    errors: dict[str, str] = {}
    with fields.field_grid():
        datasets = url_fields.choose_many("Data sets", "sweep_datasets", catalog.dataset_titles(), ["digits"])
        methods = url_fields.choose_many("Methods", "sweep_methods", catalog.method_titles(), ["lps"])
        seeds = _ask_seeds(errors)
        name, retries = fields.ask_name("sweep", "covers", 34), _ask_retries()
    if not datasets or not methods:
        return _SweepDraft(None, {"Methods" if datasets else "Data sets": "choose at least one"})
    varied = _ask_varied(methods, datasets[0], errors)
    fixed = _ask_fixed(methods, set(varied), datasets[0], errors)
    mode, samples, sample_seed = _ask_mode(varied)
    if errors:
        return _SweepDraft(None, errors)
    request = SweepSpec(tuple(datasets), tuple(methods), seeds, fixed, varied, mode, samples, sample_seed)
    return _check_request(request, name, retries)


def _check_request(request: SweepSpec | presets.PresetRequest, name: str, retries: int) -> _SweepDraft:
    try:
        is_here = execution_target.read_target().is_here
        request, name = core_sharing.sweep_on_cores(request, select.runs_root(), name, is_here)
        sweeps.lay_out_sweep(request, name)
    except UserError as error:
        return _SweepDraft(None, {error.name: form.error_sentence(error)})
    return _SweepDraft(request, {}, name, retries)


def _ask_seeds(errors: dict[str, str]) -> tuple[int, ...]:
    text = url_fields.text_field("Seeds", "sweep_seeds", "0, 1, 2", help="Every run is repeated for each seed")
    try:
        return tuple(form.parse_seeds(text))
    except UserError as error:
        errors["Seeds"] = form.error_sentence(error)
        return ()


def _ask_retries() -> int:
    """Return the number of retries; disabled for a cluster, which has its own retries."""
    target, help_text = execution_target.read_target(), "How often a run is restarted after a crash"
    if not target.is_here:
        help_text = target.without("retries")
        url_fields.set_values("sweep_retries", None)
    options = {"help": help_text, "disabled": not target.is_here}
    return url_fields.whole_number_field("Retries after a crash", "sweep_retries", 0, queue.MAX_RETRIES, **options)


def _ask_datasets(preset: presets.Preset) -> tuple[str, ...]:
    titles = {name: catalog.dataset_info(name).title for name in preset.datasets}
    selected = url_fields.choose_many(
        "Data sets", "sweep_only", titles, placeholder="All data sets of the table in the paper"
    )
    return tuple(name for name in preset.datasets if name in selected)


def _list_parameters(methods: list[str]) -> dict[str, Parameter]:
    """Return every setting of any of the methods, the methods' own settings first."""
    parameters = fields.settings_of_methods(methods)
    return {name: p for name, p in parameters.items() if name not in sweep_layout.OPTION_OF_SETTING}


def _ask_varied(methods: list[str], dataset: str, errors: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the varied settings with their values as texts."""
    parameters = _list_parameters(methods)
    selected = url_fields.choose_many(
        "Settings to vary", "sweep_vary", fields.menu_of_settings(parameters), placeholder="None: only seeds"
    )
    values_by_setting = {}
    with fields.field_grid():
        for name in selected:
            with fields.explained_field(parameters[name], errors, methods=methods):
                values_by_setting[name] = _ask_values(parameters[name], dataset)
    return values_by_setting


def _ask_values(parameter: Parameter, dataset: str) -> tuple[str, ...]:
    """Return the checked values of a setting; raises `UserError`."""
    key, label = f"vary:{parameter.name}", f"{parameter.name}, values"
    choices = ["true", "false"] if parameter.kind == "bool" else list(parameter.choices)
    if choices:
        texts = tuple(url_fields.choose_many(label, key, choices, choices, st.pills))
        if not texts:
            raise UserError(parameter.name, "choose at least one value")
        return texts
    usual = text_of(fields.default_value(parameter, dataset))
    text = url_fields.text_field(label, key, usual, help="V1, V2, ... or V1|V2 if values contain commas")
    texts = sweep_layout.split_values(parameter.name, text)
    for value in texts:
        parameter.parse(value)
    return texts


def _ask_fixed(methods: list[str], varied: set[str], dataset: str, errors: dict[str, str]) -> dict[str, str]:
    """Return the settings of all runs, as texts."""
    parameters = {name: p for name, p in _list_parameters(methods).items() if name not in varied}
    return fields.ask_fixed("Settings of all runs", "sweep_fixed", _FIXED, parameters, dataset, errors, methods=methods)


def _ask_mode(varied: Mapping[str, tuple[str, ...]]) -> tuple[str, int | None, int]:
    """Return (mode, samples, seed) of the combination of values; no choice if fewer than two settings vary."""
    if len(varied) < 2:
        return "grid", None, 0
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        mode = url_fields.choose_one(st.segmented_control, "mode", "Combine as", _MODES)
        if mode != "random":
            st.caption(f"{capitalized(sweep_layout.MODES[mode])}.")
            return mode, None, 0
        samples = url_fields.whole_number_field("Combinations", "sweep_samples", 10, sweep_layout.MAX_RUNS, width=140)
        return mode, samples, url_fields.whole_number_field("Seed of the draw", "sweep_draw", 0, 2**31 - 1, width=140)


def _show_target() -> None:
    """Show the target of the runs and how many run at a time."""
    execution_target.show_target(is_several=True)
    if not execution_target.read_target().is_here:
        return
    try:
        slots = run_slots.chosen_cpu_slots(select.runs_root())
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/error:")
        return
    slots_text = f"{counted(slots, 'run')} at a time" if slots else "as many runs at a time as there are free cores"
    st.caption(
        f"On this machine: {slots_text} on the CPU, one on each GPU. The other runs wait in the queue, which continues "
        "after you close this page."
    )
    st.page_link("pages/queue.py", label="Change the number of runs at a time", icon=":material/arrow_forward:")


# ---------------------------------------------------------------------------------------------------- preview


def _show_preview(draft: _SweepDraft) -> None:
    """Show the cost, the button, and the status of every run; writes nothing."""
    root = select.runs_root()
    sweep = sweeps.plan_unchecked_sweep(draft.request, root, draft.name)
    configs = [item.config for item in sweep.items if item.action != "exists"]
    keys = tuple(config.to_json() for config in configs)
    run_costs, estimate, epochs = _estimate(str(root), keys, configs)
    times = _times_in_words(keys, run_costs, estimate)
    st.subheader("Preview", anchor=False)
    target = execution_target.read_target()
    slots = run_slots.num_parallel_runs(configs, root) if target.is_here else 1
    cost = _cost_in_words(estimate, run_costs, slots)
    parts = [f"**{escape.markdown(sweep.tag)}**", _counts_in_words(sweep), epochs]
    st.markdown(f"{' · '.join(filter(None, parts))}  \n{cost}")
    table.show_split([item.config for item in sweep.items])
    if target.is_here and (sharing := core_sharing.sharing_in_words(configs, root)):
        st.caption(f"{sharing} Set `threads` to change this.")
    notices.show_start_warnings(configs)
    notices.show_disk_warning(configs)
    notices.show_memory_warnings(configs if target.is_here else ())
    _show_redundant(draft.request)
    _offer_start(sweep, draft, target)
    if not target.errors and (staying := sweeps.staying_in_words(sweep.items, target.on)):
        st.info(f"{staying}.", icon=":material/schedule:")
    columns = [
        table.run_column(sweep.items),
        Column("Time", lambda item: times.get(item.config.to_json(), ""), "text", 110, optional=True),
        Column("Status", lambda item: _ACTIONS[item.action].format(item.state.name), "text", "small"),
    ]
    data_table.show_data_table(columns, sweep.items, "The runs of this sweep", max_rows=_MAX_ROWS)
    if isinstance(draft.request, presets.PresetRequest):
        with st.expander("The table that this sweep fills, next to the paper's numbers", icon=":material/table:"):
            sheet = presets.build_paper_table(draft.request)
            table.show_grid(preset_tables.build_grid(sheet, {}))
    export_buttons.show_command(execution_target.command_with_target(draft.request.command(draft.name), target))


def _show_redundant(request: SweepSpec | presets.PresetRequest) -> None:
    """Warn about redundant parts of the request; a field with its default counts once its text was changed."""
    if not isinstance(request, SweepSpec):
        return
    changed = st.session_state.setdefault(_CHANGED, set())
    changed |= {name for name in request.fixed if f"{_FIXED}{name}" in st.query_params}
    fixed = {name: text for name, text in request.fixed.items() if name in changed}
    if remarks := sweep_layout.redundant_requests(replace(request, fixed=fixed)):
        lines = "  \n".join(f"{escape.markdown(line)}." for line in remarks)
        st.warning(lines, icon=":material/content_copy:")


def _counts_in_words(sweep: Sweep) -> str:
    """Format as "15 runs: 12 new, 3 exist already"."""
    singular = {"new": "new", "exists": "exists already", "resumed": "continues where it stopped"}
    plural = {"new": "new", "exists": "exist already", "resumed": "continue where they stopped"}
    counts = {action: count for action in plural if (count := sweep.count(action))}
    parts = [f"{count} {(singular if count == 1 else plural)[action]}" for action, count in counts.items()]
    return f"{counted(len(sweep.items), 'run')}: {', '.join(parts)}"


def _times_in_words(keys: Sequence[str], run_costs: Sequence[Cost | None], estimate: Estimate) -> dict[str, str]:
    """Return the time of each run by its key; empty where `_cost_in_words` gives no estimate."""
    if costs.is_unknown(estimate.span):
        return {}
    return {key: "unknown" if cost is None else costs.span_in_words(cost.span) for key, cost in zip(keys, run_costs)}


def _cost_in_words(estimate: Estimate, run_costs: Sequence[Cost | None], slots: int) -> str:
    """Describe time and disk space of the missing runs. run_costs: of each run; slots: number of runs at a time."""
    if not estimate.runs:
        return "All runs exist."
    sentences, known_count = [], estimate.runs - estimate.missing
    slots = min(slots, known_count)
    if known_count:
        share = "" if known_count == estimate.runs else f"{known_count} of {counted(estimate.runs, 'run')}: "
        parallel_span = costs.parallel_duration((cost.span for cost in run_costs if cost is not None), slots)
        parallel_span = f" (about {costs.span_in_words(parallel_span)} with {slots} at a time)" if slots > 1 else ""
        is_unknown, disk = costs.is_unknown(estimate.span), f"{data_size(estimate.bytes)} of disk"
        order = "" if is_unknown else f" one after another{parallel_span}"
        sentences.append(f"{share}{costs.duration_in_words(estimate.span)}{order}")
        sentences.append(disk if is_unknown else f"{disk}, {costs.source_in_words(estimate.span)}")
    if estimate.missing:
        kinds = ", ".join(estimate.unknown[:3]) + (
            f" and {len(estimate.unknown) - 3} more" * (len(estimate.unknown) > 3)
        )
        sentences.append(
            f"the time and disk space of {counted(estimate.missing, 'run')} are unknown, because no run of "
            f"{escape.markdown(kinds)} has finished"
        )
    return "; ".join(sentences) + "."


@st.cache_resource(ttl=20, max_entries=50, show_spinner=False)
def _estimate(root: str, keys: tuple[str, ...], _configs: list[Config]) -> tuple[list[Cost | None], Estimate, str]:
    """Return the cost of each config (None if nothing is known), of all, and their epochs in words; cached for 20 s."""
    known = time_estimates.costs_now(_configs)
    run_costs = known.estimate_all(_configs)
    return run_costs, sweeps.total_estimate(_configs, run_costs), time_estimates.describe_epochs(_configs, known)


def _offer_start(sweep: Sweep, draft: _SweepDraft, target: ExecutionTarget) -> None:
    """Show the button, or what blocks the start; a link to a started sweep of which all runs exist."""
    new_count = len(sweep.items) - sweep.count("exists")
    if not new_count and sweeps.was_started(sweep, select.runs_root(), [item.run for item in sweep.items]):
        link = {"icon": ":material/arrow_forward:", "query_params": {"sweep": sweep.name}, "width": "content"}
        st.page_link("pages/sweeps.py", label=_ALL_EXIST, **link)
        return
    if target.errors:
        st.error(escape.sentence(target.blocked_by), icon=":material/block:")
        return
    try:
        sweeps.check_sweep([item.config for item in sweep.items], target.is_here)
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/block:")
        return
    label = f"Start {counted(new_count, 'run')}" if new_count else _ALL_EXIST
    icon = ":material/rocket_launch:" if new_count else ":material/arrow_forward:"
    # Not a callback: its arguments would lack a value that was typed just before the click.
    if st.button(label, key="sweep_start", type="primary", icon=icon):
        request_start(draft.request.as_record(), sweep.name, draft.retries, target)
        st.rerun()
