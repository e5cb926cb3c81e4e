"""The page Sweep: the list of sweeps, and the progress, actions and results of one sweep.

The URL stores the open sweep. Its runs are those with its tag.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import streamlit as st

from lps.analysis.main_effects import find_reversal, main_effects
from lps.analysis.run_scores import Scored
from lps.charts import sweep_charts
from lps.charts.group_tables import Scoring
from lps.report import sweep_report
from lps.scheduler import cluster_submit, costs, launcher, overview, queue, run_slots
from lps.settings import catalog, cli_args
from lps.store import titles
from lps.store.run_progress import read_progress
from lps.store.runs import Run
from lps.studies import presets, sweep_records, sweeps
from lps.studies.sweep_layout import SweepSpec
from lps.studies.sweep_records import SweepRecord
from lps.studies.sweeps import Item
from lps.ui.forms import form as labels
from lps.ui.forms import named_list, start_runs
from lps.ui.forms.execution_target import ExecutionTarget
from lps.ui.shared import (
    data_table,
    error_toasts,
    escape,
    export_buttons,
    group_differences,
    live_part,
    scores,
    select,
    theme,
    time_estimates,
)
from lps.ui.shared.data_table import Column
from lps.ui.sweeps import form, table
from lps.wording import capitalized, counted

_UNKNOWN = "the plan of the sweep was not found; only its runs are listed"
_TICK_S = 3.0  # while a run moves
_SCORING = Scoring("orca", "last", "default")
_MAX_IN_ADDRESS = 60  # runs that a link to another page carries


@dataclass(frozen=True)
class SweepCourse:
    """The state of a sweep. items: the requested runs in order; `run` of an item is None if it does not exist."""

    record: SweepRecord
    request: SweepSpec | presets.PresetRequest | None
    items: tuple[Item, ...]

    @property
    def runs(self) -> list[Run]:
        return [item.run for item in self.items if item.run is not None]

    @property
    def states(self) -> Counter:
        """Number of items in each state; "missing" for those without a run."""
        return Counter(item.state.name if item.state else "missing" for item in self.items)

    @property
    def finished_ids(self) -> list[str]:
        return [item.run.id for item in self.items if item.state and item.state.name == "finished"]

    @property
    def is_moving(self) -> bool:
        return any(item.state and item.state.is_moving for item in self.items)

    @property
    def is_complete(self) -> bool:
        """Whether all of several runs have finished."""
        return self.states["finished"] == len(self.items) > 1

    @property
    def left(self) -> int:
        """Number of items that a click would start: interrupted and missing ones."""
        return sum(self.states[name] for name in ("missing", *sweeps.RESUMED))


def main() -> None:
    """Draw the page."""
    started = start_runs.start_requested("sweep", form.start_sweep)
    if started:
        st.query_params.from_dict({"sweep": started})
    sweeps_of_root = sweep_records.list_sweeps(select.runs_root())
    named_list.show_list("sweeps", "sweep", sweeps_of_root, form.show_sweep_form, _show_line, _show_sweep)


def read_course(record: SweepRecord) -> SweepCourse:
    """Return the current state of a sweep."""
    request = sweeps.from_record(record.request)
    if request is None:
        return SweepCourse(record, None, sweeps.tagged_items(record.runs))
    return SweepCourse(record, request, sweeps.plan_unchecked_sweep(request, select.runs_root(), record.name).items)


# ---------------------------------------------------------------------------------------------------- list


def _show_line(record: SweepRecord) -> None:
    st.markdown(_describe_request(sweeps.from_record(record.request)), width="stretch")
    st.markdown(_states_in_words(Counter(run.state().name for run in record.runs)), width="content")


def _describe_request(request: SweepSpec | presets.PresetRequest | None) -> str:
    """Describe what a sweep covers, as markdown."""
    if isinstance(request, presets.PresetRequest):
        return escape.markdown(f"{presets.PRESETS[request.preset].title} · {request.scale} scale")
    if request is None:
        return ""
    dataset_names = catalog.dataset_titles()
    methods, datasets = (
        map(titles.method_title, request.methods),
        (dataset_names.get(name, name) for name in request.datasets),
    )
    varied = " × ".join(labels.full_label(key) for key in request.varied)
    return escape.markdown(" · ".join(filter(None, [", ".join(methods), ", ".join(datasets), varied])))


def _states_in_words(states: Counter) -> str:
    """Format as "12 of 15 finished · 1 running", as markdown."""
    total = sum(states.values())
    sentences = [f"{states['finished']} of {total} finished"]
    for name, count in states.items():
        if name != "finished":
            label, color = theme.BADGES[name][:2] if name in theme.BADGES else (name.capitalize(), "orange")
            sentences.append(f":{color}[{count} {label.lower()}]")
    return " · ".join(sentences)


# ---------------------------------------------------------------------------------------------------- one sweep


def _show_sweep(record: SweepRecord) -> None:
    """Show a sweep: its progress, results and actions."""
    sweep_course = read_course(record)
    start_time = datetime.fromtimestamp(record.time, UTC) if record.time else None
    started = f"started {start_time:%Y-%m-%d %H:%M} UTC" if start_time else escape.markdown(record.problem) or _UNKNOWN
    st.caption(" · ".join(filter(None, [_describe_request(sweep_course.request), started])))
    live_part.follow_changes(
        lambda: _current_course(record.name),
        lambda sweep_course: sweep_course.is_moving,
        _show_course,
        _TICK_S,
        sweep_course,
    )
    if sweep_course.request is not None:
        export_buttons.show_command(sweep_course.request.command(record.name))


def _current_course(name: str) -> SweepCourse:
    """Return the current state of the sweep with a name; the page starts again if it was deleted."""
    record = _find_sweep(name)
    if record is None:
        st.rerun()
    return read_course(record)


def _find_sweep(name: str) -> SweepRecord | None:
    return next((record for record in sweep_records.list_sweeps(select.runs_root()) if record.name == name), None)


def _show_course(sweep_course: SweepCourse) -> None:
    """Show progress, actions and the table."""
    _show_progress(sweep_course)
    _show_actions(sweep_course)
    scored = finished_scores(sweep_course)
    if sweep_course.is_complete:
        _show_answer(sweep_course, scored)
    paper_table = sweep_charts.paper_table_of(sweep_course.request)
    if paper_table is not None:
        table.show_paper_table(sweep_course.record.name, paper_table, scored)
    else:
        table.show_groups(scored, [item.config for item in sweep_course.items])
    _show_runs(sweep_course)
    _show_links(sweep_course)
    if scored:
        _show_downloads(sweep_course.record.name)


def _show_answer(sweep_course: SweepCourse, scored: Sequence[Scored]) -> None:
    """Show the largest effects in a sentence, of runs of one method and split, and the link to more about them."""
    if len({(member.config.method, member.split) for member in scored}) == 1:
        sentences = group_differences.describe_main_effects(main_effects(scored, "novel"), "novel")
        reversal = group_differences.describe_reversal(find_reversal(scored, "novel"))
        st.markdown(f"{sentences} {reversal}".rstrip())
    _link_effects(sweep_course)


def finished_scores(sweep_course: SweepCourse) -> list[Scored]:
    """Return the scores of the finished runs."""
    finished_runs = [item.run for item in sweep_course.items if item.state and item.state.name == "finished"]
    return scores.score_all(finished_runs, _SCORING)[0]


def _show_progress(sweep_course: SweepCourse) -> None:
    st.progress(completed_share(sweep_course, time.time()), text=_states_in_words(sweep_course.states))
    if sweep_course.is_moving:
        st.caption(remaining_in_words(sweep_course))


def completed_share(sweep_course: SweepCourse, now: float) -> float:
    """Return the completed share of a sweep: its finished runs, and the completed share of the running ones."""
    alive = [item for item in sweep_course.items if item.state and item.state.is_alive]
    known_costs = time_estimates.known_costs().with_running([item.run for item in alive]) if alive else None
    completed = float(sweep_course.states["finished"])
    for item in alive:
        progress = read_progress(item.run, item.state)
        time_left = known_costs.time_left(item.run, progress, now)
        if time_left is not None and progress.started is not None:
            passed = max(0.0, now - progress.started)
            completed += passed / max(1.0, passed + time_left.likely)
        elif progress.phase == "train":
            completed += progress.share or 0.0
    return min(1.0, completed / max(1, len(sweep_course.items)))


def remaining_in_words(sweep_course: SweepCourse) -> str:
    """Describe the remaining time, estimated from finished and running runs."""
    moving = [item for item in sweep_course.items if item.state and item.state.is_moving]
    if not launcher.has_daemon(select.runs_root()):
        stall_reason = escape.markdown(overview.stall_reason_in_words(select.runs_root()))
        return f"{capitalized(stall_reason)}."
    alive_items = {item.run.id: item for item in moving if item.state.is_alive}
    known_costs, made_weights, spans = (
        time_estimates.known_costs().with_running([item.run for item in alive_items.values()]),
        set(),
        [],
    )
    for item in sorted(moving, key=lambda item: item.run.id not in alive_items):
        if item.run.id in alive_items:
            spans.append(known_costs.time_left(item.run, read_progress(item.run, item.state), time.time()))
        else:
            cost = known_costs.estimate(item.config, made_weights)
            spans.append(cost and cost.span)
        made_weights.add(costs.start_weights_key(item.config))
    waiting_text = "" if alive_items and not queue.read_switch(select.runs_root()).paused else _wait_in_words(moving)
    unknown = spans.count(None)
    slots = min(run_slots.num_parallel_runs([item.config for item in moving], select.runs_root()), len(moving))
    remaining = costs.parallel_duration(filter(None, spans), slots)
    if unknown == len(moving) or costs.is_unknown(remaining):
        awaited = "a run like the remaining ones has finished"
        if not sweep_course.states["finished"]:
            awaited = "the first run has finished"
        elif alive_items:
            awaited = "more epochs are done"
        return f"{waiting_text}The remaining time can be estimated once {awaited}."
    slots_text = f" with {slots} at a time" if slots > 1 else ""
    unknown_text = f", plus {unknown} of unknown duration" if unknown else ""
    others = _count_others_ahead({item.run.id for item in moving})
    others_text = f", not counting {counted(others, 'other run')} ahead" if others else ""
    remaining_text = f"About {costs.span_in_words(remaining)} left{slots_text}{unknown_text}{others_text}"
    return f"{waiting_text}{remaining_text}{costs.wide_reason(remaining)}."


def _count_others_ahead(ids: set[str]) -> int:
    """Return how many other runs hold slots, or wait before the last of these runs; 0 if none of these waits."""
    waiting = [run.id for run, desired in queue.waiting_runs(select.runs_root()) if not desired.held]
    last = max((place for place, run_id in enumerate(waiting) if run_id in ids), default=None)
    if last is None:
        return 0
    holders = {run.id for run in run_slots.slot_holders(select.runs_root())}
    return len((holders | set(waiting[:last])) - ids)


def _wait_in_words(moving: Sequence[Item]) -> str:
    """Return what the first of the waiting runs waits for, as markdown before a sentence; "" if none waits here."""
    ids = {item.run.id for item in moving}
    first = next((run for run, _ in queue.waiting_runs(select.runs_root()) if run.id in ids), None)
    sentences = first and overview.wait_in_words(first)
    return f"{escape.markdown(sentences)} " if sentences else ""


def _show_actions(sweep_course: SweepCourse) -> None:
    """Show the buttons that stop active runs and resume interrupted ones."""
    moving = [
        item.run for item in sweep_course.items if item.state and item.state.name in ("queued", "starting", "running")
    ]
    with st.container(horizontal=True, gap="small"):
        if moving:
            with st.popover(f"Stop all {len(moving)}", icon=":material/stop_circle:"):
                st.markdown("Running runs save a checkpoint first. You can resume all of them later.")
                st.button("Stop all", key="sweep_stop", on_click=_change_each, args=(moving, launcher.stop))
        if sweep_course.left and sweep_course.request is not None:
            button_text = (
                f"Resume {sweep_course.left}"
                if sweep_course.states["missing"] < sweep_course.left
                else f"Start the missing {sweep_course.left}"
            )
            if st.button(button_text, key="sweep_resume", icon=":material/play_circle:"):
                form.request_start(
                    sweep_course.request.as_record(), sweep_course.record.name, target=_default_target(sweep_course)
                )
                st.rerun()
        elif sweep_course.left:
            broken = [item.run for item in sweep_course.items if item.state and item.state.name in sweeps.RESUMED]
            st.button(
                f"Resume {sweep_course.left}", key="sweep_resume", on_click=_change_each, args=(broken, launcher.resume)
            )
    error_toasts.show_errors("sweep runs")


def _default_target(sweep_course: SweepCourse) -> ExecutionTarget:
    """Return the target of the sweep's runs: the cluster that has some of them, otherwise this machine."""
    options = (cluster_submit.options_of(run) for run in sweep_course.runs)
    return ExecutionTarget(next(filter(None, options), None), {})


def _change_each(runs: Sequence[Run], change: Callable[[Run], object]) -> None:
    """Apply a change to every existing run, the last first so that none starts in between."""
    folders = {run.folder for run in select.own_runs()}
    error_toasts.change_each("sweep runs", [run for run in reversed(runs) if run.folder in folders], change)


def _show_runs(sweep_course: SweepCourse) -> None:
    """Show every run with its state and a link to its page."""
    with st.expander(f"Every run ({len(sweep_course.items)})"):
        columns = [
            Column("Run", lambda item: item.label),
            Column("State", lambda item: item.state.name if item.state else "missing"),
            Column("Why", lambda item: item.state.reason if item.state else ""),
            Column("Open", lambda item: f"live?run={item.run.id}" if item.run else None, "link",
                   help="Opens the run's own page", display_text=r"run=(.*)$"),
        ]  # fmt: skip
        data_table.show_data_table(columns, sweep_course.items, "The runs")


def _show_links(sweep_course: SweepCourse) -> None:
    """Show links to the same runs on other pages."""
    finished_ids = sweep_course.finished_ids
    running_ids = [
        item.run.id for item in sweep_course.items if item.state and item.state.name in ("running", "starting")
    ]
    with st.container(horizontal=True, gap="medium"):
        if finished_ids:
            st.page_link(
                "pages/compare.py",
                label="Compare these runs",
                icon=":material/balance:",
                query_params={"run": finished_ids[:_MAX_IN_ADDRESS]},
                width="content",
            )
            if not sweep_course.is_complete:
                _link_effects(sweep_course)
        if running_ids:
            st.page_link("pages/live.py", label="Watch running runs", icon=":material/show_chart:", width="content",
                         query_params={"run": running_ids[:8]})  # fmt: skip


def _link_effects(sweep_course: SweepCourse) -> None:
    """Link to the page Effects with the finished runs, those that will finish, and the first varied setting."""
    moving_ids = [item.run.id for item in sweep_course.items if item.state and item.state.is_moving]
    run_ids = [*sweep_course.finished_ids, *moving_ids][:_MAX_IN_ADDRESS]
    st.page_link(
        "pages/effects.py",
        label="Which setting matters",
        icon=":material/tune:",
        query_params=_effects_query(sweep_course) | {"run": run_ids},
        width="content",
    )


def _effects_query(sweep_course: SweepCourse) -> dict[str, str]:
    """Return the query parameters of the page Effects: the first varied setting."""
    if isinstance(sweep_course.request, presets.PresetRequest):
        setting = presets.PRESETS[sweep_course.request.preset].setting
    else:
        setting = next(iter(sweep_course.request.varied), "") if sweep_course.request else ""
    return {"setting": setting} if setting and not setting.startswith("split.") else {}


# ---------------------------------------------------------------------------------------------------- to take away


def _show_downloads(name: str) -> None:
    """Show downloads; their files are made at the click, from the runs finished by then."""
    offers = {
        f"Report ({export_buttons.explain_report()})": (
            "html",
            "text/html",
            ":material/summarize:",
            "Table, curves, every run, and the command to repeat it",
        ),
        "Table, LaTeX": ("tex", "application/x-tex", ":material/table:", "The table, with booktabs"),
        "Table, CSV": (
            "csv",
            "text/csv",
            ":material/csv:",
            "One number per row; accuracies from 0 to 1, not in percent",
        ),
    }
    stem = "".join(c if c.isalnum() or c in "-_=." else "-" for c in name)
    with st.container(horizontal=True, gap="small"):
        for label, (kind, mime, icon, about) in offers.items():
            st.download_button(
                label,
                lambda kind=kind: _render_file(name, kind).encode("utf-8", "replace"),
                file_name=f"{stem}.{kind}",
                mime=mime,
                key=f"sweep_{kind}",
                on_click="ignore",
                icon=icon,
                help=about,
            )


def _render_file(name: str, kind: str) -> str:
    """Return the current file of a sweep; kind: html, csv or tex."""
    record = _find_sweep(name)
    if record is None:
        return ""
    sweep_course = read_course(record)
    if kind == "html":
        return sweep_report.render_sweep_report(record, select.runs_root(), _SCORING)
    scored, paper_table = finished_scores(sweep_course), sweep_charts.paper_table_of(sweep_course.request)
    planned = [item.config for item in sweep_course.items]
    if kind == "csv":
        return table.as_csv(paper_table, scored, planned)
    caption = (
        sweep_course.request.command(name)
        if sweep_course.request
        else cli_args.format_command("compare", tag=record.tag)
    )
    return table.as_latex(paper_table, scored, planned, caption)
