"""The form of the Sweeps page: a table of the paper or an own layout, what it would start, and the click that does.

What stands in the form is read into the words of the command line (`sweeps.SweepSpec`, `presets.PresetRequest`), so the
page, the command and what is kept beside the runs mean the same. The form stands in the page's address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from lps.ui.shared import data_table, escape, export_buttons, notices, select, url_fields
from lps.ui.shared.data_table import Column
from lps.ui.sweeps import table
from lps.wording import capitalized, counted, data_size

_KINDS = {"preset": "Table of the paper", "own": "Custom"}
_SCALES = {"demo": "Demo, on digits", "paper": "The paper's"}
_MODES = {"grid": "Grid", "list": "List", "random": "Random"}
_ACTIONS = {"new": "new", "exists": "exists ({}), not run again", "resumed": "resumes: {}"}
_MOST_ROWS = 12  # of the preview that are seen at once
HERE = ExecutionTarget(None, {})


@dataclass(frozen=True)
class _SweepDraft:
    """What the form asks for. asked: None where something does not fit; errors: a sentence by field."""

    asked: SweepSpec | presets.PresetRequest | None
    errors: Mapping[str, str]
    name: str = ""
    retries: int = 0


# ---------------------------------------------------------------------------------------------------- start


def start(kept: Mapping, name: str, retries: int, place: ExecutionTarget) -> str | None:
    """Start what was clicked on; the name of the sweep. Raises `UserError`."""
    asked = sweeps.from_record(kept)
    if asked is None:
        return None
    with st.spinner("Creating the run folders"):
        wanted = sweeps.plan_unchecked_sweep(asked, select.runs_root(), name)
        execution_target.check_target(place)
        sweeps.check_sweep([item.config for item in wanted.items], place.is_here, start_check.check_start_in_subprocess)
        return sweeps.start_sweep(wanted, select.runs_root(), retries=retries or None, on=place.on).name


def ask(kept: Mapping, name: str, retries: int = 0, place: ExecutionTarget = HERE) -> None:
    """Let the next run of the page start what was clicked on; a second click asks for the same runs."""
    start_runs.request_start("sweep", dict(kept), name, retries, place)


# ---------------------------------------------------------------------------------------------------- form


def show_sweep_form() -> None:
    """The form, the runs that it means, and the button."""
    url_fields.restore_address("sweep_name")
    kind = url_fields.choose_one(
        st.segmented_control, "kind", "Kind of sweep", _KINDS, required=True, label_visibility="collapsed"
    )
    draft = _ask_preset() if kind == "preset" else _ask_layout()
    _show_places()
    url_fields.remember_address("sweep_name")
    if draft.asked is None:
        key, words = next(iter(draft.errors.items()))
        st.error(escape.markdown(f"{key}: {words}"), icon=":material/edit_off:")
        return
    _preview(draft)


def _ask_preset() -> _SweepDraft:
    titles = {name: f"{preset.title} · {preset.paper_location}" for name, preset in presets.PRESETS.items()}
    usual = {"ablation": titles["ablation"]} | titles
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        chosen = presets.PRESETS[url_fields.choose_one(st.selectbox, "preset", "Table", usual, width=420)]
        scale = url_fields.choose_one(st.segmented_control, "scale", "Scale", _SCALES, required=True)
    st.caption(escape.markdown(f"{chosen.description} Scale: {presets.SCALES[scale]}."))
    errors: dict[str, str] = {}
    with fields.field_grid():
        seeds = _ask_seeds(errors)
        datasets = _ask_datasets(chosen) if scale == "paper" else ()
        name, retries = fields.ask_name("sweep", "covers", 34), _ask_retries()
    own = {key for line in chosen.lines for key in line.settings}
    methods = dict.fromkeys(str(line.settings.get("method", "lps")) for line in chosen.lines)
    fixed = _ask_fixed(list(methods), own, presets.DEMO if scale == "demo" else chosen.datasets[0], errors)
    if errors:
        return _SweepDraft(None, errors)
    asked = presets.PresetRequest(chosen.name, scale, seeds, datasets, fixed)
    return _checked(asked, name, retries)


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
    asked = SweepSpec(tuple(datasets), tuple(methods), seeds, fixed, varied, mode, samples, sample_seed)
    return _checked(asked, name, retries)


def _checked(asked: SweepSpec | presets.PresetRequest, name: str, retries: int) -> _SweepDraft:
    try:
        if execution_target.read_target().is_here:
            asked, name = core_sharing.sweep_on_cores(asked, select.runs_root(), name)
        sweeps.lay_out_sweep(asked, name)
    except UserError as error:
        return _SweepDraft(None, {error.name: form.error_sentence(error)})
    return _SweepDraft(asked, {}, name, retries)


def _ask_seeds(errors: dict[str, str]) -> tuple[int, ...]:
    text = fields.ask_seeds("sweep", "0, 1, 2", "Every run is repeated for each seed")
    try:
        return tuple(form.parse_seeds(text))
    except UserError as error:
        errors["Seeds"] = form.error_sentence(error)
        return ()


def _ask_retries() -> int:
    """How often; a cluster has its own way of doing it, so there is nothing to ask."""
    place, about = execution_target.read_target(), "How often a run is restarted after a crash"
    if not place.is_here:
        about = place.without("retries")
        url_fields.set_values("sweep_retries", None)
    options = {"help": about, "disabled": not place.is_here}
    return url_fields.whole_number_field("Retries after a crash", "sweep_retries", 0, queue.MOST_RETRIES, **options)


def _ask_datasets(preset: presets.Preset) -> tuple[str, ...]:
    titles = {name: catalog.dataset_info(name).title for name in preset.datasets}
    chosen = url_fields.choose_many(
        "Data sets", "sweep_only", titles, placeholder="All data sets of the table in the paper"
    )
    return tuple(name for name in preset.datasets if name in chosen)


def _known(methods: list[str]) -> dict[str, Parameter]:
    """Every setting of some of the methods, the methods' own first."""
    known = fields.settings_of_methods(methods)
    return {name: p for name, p in known.items() if name not in sweep_layout.OPTION_OF_SETTING}


def _ask_varied(methods: list[str], dataset: str, errors: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """The settings to vary with their values as texts."""
    known = _known(methods)
    chosen = url_fields.choose_many(
        "Settings to vary", "sweep_vary", fields.menu_of_settings(known), placeholder="None: only seeds"
    )
    found = {}
    with fields.field_grid():
        for name in chosen:
            with fields.explained_field(known[name], errors, methods=methods):
                found[name] = _values(known[name], dataset)
    return found


def _values(parameter: Parameter, dataset: str) -> tuple[str, ...]:
    """The values of one setting, each checked; raises `UserError`."""
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


def _ask_fixed(methods: list[str], taken: set[str], dataset: str, errors: dict[str, str]) -> dict[str, str]:
    """What is set for all runs, as texts."""
    known = {name: p for name, p in _known(methods).items() if name not in taken}
    return fields.ask_fixed("Settings of all runs", "sweep_fixed", "fix:", known, dataset, errors, methods=methods)


def _ask_mode(varied: Mapping[str, tuple[str, ...]]) -> tuple[str, int | None, int]:
    """How values are combined; nothing to choose where one setting varies."""
    if len(varied) < 2:
        return "grid", None, 0
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        mode = url_fields.choose_one(st.segmented_control, "mode", "Combine as", _MODES, required=True)
        if mode != "random":
            st.caption(f"{capitalized(sweep_layout.MODES[mode])}.")
            return mode, None, 0
        samples = url_fields.whole_number_field("Combinations", "sweep_samples", 10, sweep_layout.MOST_RUNS, width=140)
        return mode, samples, url_fields.whole_number_field("Seed of the draw", "sweep_draw", 0, 2**31 - 1, width=140)


def _show_places() -> None:
    """Where the runs go, and how many at a time."""
    execution_target.show_target(several=True)
    if not execution_target.read_target().is_here:
        return
    try:
        slots = run_slots.chosen_cpu_slots(select.runs_root())
    except UserError as error:
        st.error(escape.markdown(str(error)), icon=":material/error:")
        return
    words = f"{counted(slots, 'run')} at a time" if slots else "as many runs at a time as there are free cores"
    st.caption(
        f"On this machine: {words} on the CPU, one on each GPU. The other runs wait in the queue, which continues "
        "after you close this page."
    )
    st.page_link("pages/queue.py", label="Change the number of runs at a time", icon=":material/arrow_forward:")


# ---------------------------------------------------------------------------------------------------- preview


def _preview(draft: _SweepDraft) -> None:
    """What it costs, the button, and the runs with what becomes of them; nothing has been written so far."""
    root = select.runs_root()
    wanted = sweeps.plan_unchecked_sweep(draft.asked, root, draft.name)
    left = [item.config for item in wanted.items if item.action != "exists"]
    keys = tuple(config.to_json() for config in left)
    found, estimate = _estimate(str(root), keys, left)
    times = {key: "unknown" if cost is None else costs.span_in_words(cost.span) for key, cost in zip(keys, found)}
    st.subheader("Preview", anchor=False)
    place = execution_target.read_target()
    slots = run_slots.num_parallel_runs(left, root) if place.is_here else 1
    cost = _cost_in_words(estimate, found, slots)
    st.markdown(f"**{escape.markdown(wanted.tag)}** · {_counts_in_words(wanted)}  \n{cost}")
    if place.is_here and (sharing := core_sharing.sharing_in_words(left, root)):
        st.caption(f"{sharing} Set `threads` to change this.")
    notices.show_disk_warning(left)
    notices.show_memory_warnings(left if place.is_here else ())
    _show_redundant(draft.asked)
    _offer_start(wanted, draft, place)
    if not place.errors and (staying := sweeps.staying_in_words(wanted.items, place.on)):
        st.info(f"{staying}.", icon=":material/schedule:")
    columns = [
        Column("Run", lambda item: item.label, "text", "medium"),
        Column("Time", lambda item: times.get(item.config.to_json(), ""), "text", 110),
        Column("Status", lambda item: _ACTIONS[item.action].format(item.state and item.state.name), "text", "small"),
    ]
    data_table.show_data_table(columns, wanted.items, "The runs of this sweep", max_rows=_MOST_ROWS)
    if isinstance(draft.asked, presets.PresetRequest):
        with st.expander("The table that this sweep fills, next to the paper's numbers", icon=":material/table:"):
            sheet = presets.build_paper_table(draft.asked)
            table.show_grid(preset_tables.build_grid(sheet, {}))
    export_buttons.show_command(execution_target.command_with_target(draft.asked.command(draft.name), place))


def _show_redundant(asked: SweepSpec | presets.PresetRequest) -> None:
    """What is asked for in vain."""
    said = sweep_layout.redundant_requests(asked) if isinstance(asked, SweepSpec) else ()
    if said:
        lines = "  \n".join(f"{escape.markdown(line)}." for line in said)
        st.warning(lines, icon=":material/content_copy:")


def _counts_in_words(wanted: Sweep) -> str:
    """ "15 runs: 12 new, 3 exist already"."""
    one = {"new": "new", "exists": "exists already", "resumed": "continues where it stopped"}
    many = {"new": "new", "exists": "exist already", "resumed": "continue where they stopped"}
    counts = {action: count for action in many if (count := wanted.count(action))}
    found = [f"{count} {(one if count == 1 else many)[action]}" for action, count in counts.items()]
    return f"{counted(len(wanted.items), 'run')}: {', '.join(found)}"


def _cost_in_words(estimate: Estimate, each: Sequence[Cost | None], slots: int) -> str:
    """How long what is left will take, and how much disk. each: cost of each run; slots: how many run at a time."""
    if not estimate.runs:
        return "All runs exist."
    sentences, known = [], estimate.runs - estimate.missing
    slots = min(slots, known)
    if known:
        share = "" if known == estimate.runs else f"{known} of {counted(estimate.runs, 'run')}: "
        at_once = costs.parallel_duration((cost.span for cost in each if cost is not None), slots)
        at_once = f" (about {costs.span_in_words(at_once)} with {slots} at a time)" if slots > 1 else ""
        sentences.append(f"{share}about {costs.span_in_words(estimate.span)} one after another{at_once}")
        sentences.append(f"{data_size(estimate.bytes)} of disk, {costs.source_in_words(estimate.span)}")
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
def _estimate(root: str, keys: tuple[str, ...], _configs: list[Config]) -> tuple[list[Cost | None], Estimate]:
    """The cost of each (None where no run of its kind has finished) and of all, read at most every 20 s."""
    found = sweeps.estimate_costs(_configs, select.runs_root())
    return found, sweeps.total_estimate(_configs, found)


def _offer_start(wanted: Sweep, draft: _SweepDraft, place: ExecutionTarget) -> None:
    """The button, or what stands in the way."""
    if place.errors:
        st.error(escape.markdown(place.blocked_by), icon=":material/block:")
        return
    try:
        sweeps.check_sweep([item.config for item in wanted.items], place.is_here)
    except UserError as error:
        st.error(escape.markdown(str(error)), icon=":material/block:")
        return
    fresh = len(wanted.items) - wanted.count("exists")
    label = f"Start {counted(fresh, 'run')}" if fresh else "Open: all runs exist"
    icon = ":material/rocket_launch:"
    # Not a callback: its arguments would be what stood here before a value that was typed just before the click.
    if st.button(label, key="sweep_start", type="primary", icon=icon):
        ask(draft.asked.as_record(), wanted.name, draft.retries, place)
        st.rerun()
