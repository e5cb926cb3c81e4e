"""The page Sweep: the list of sweeps, and the progress, actions and results of one sweep.

The URL stores the open sweep. Its runs are those with its tag.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import streamlit as st

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
    click_errors,
    data_table,
    escape,
    export_buttons,
    group_differences,
    live_part,
    notices,
    run_actions,
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
        return Counter(item.state.name for item in self.items)

    def items_in(self, *states: str) -> list[Item]:
        """Return the items in one of these states, by name."""
        return [item for item in self.items if item.state.name in states]

    @property
    def finished_ids(self) -> list[str]:
        return [item.run.id for item in self.items_in("finished")]

    @property
    def is_moving(self) -> bool:
        return any(item.state.is_moving for item in self.items)

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
    st.markdown(_states_in_words(Counter(run.state().name for run in record.runs)), width="content")
    st.caption(_describe_request(sweeps.from_record(record.request)))


def _describe_request(request: SweepSpec | presets.PresetRequest | None) -> str:
    """Describe what a sweep covers, as markdown."""
    if isinstance(request, presets.PresetRequest):
        return escape.markdown(f"{presets.PRESETS[request.preset].title} · {request.scale} scale")
    if request is None:
        return ""
    dataset_names = catalog.dataset_titles()
    methods = map(titles.method_title, request.methods)
    datasets = (dataset_names.get(name, name) for name in request.datasets)
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
    table.show_split([item.config for item in sweep_course.items])
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
        st.markdown(group_differences.describe_effects(scored, "novel"))
    _link_effects(sweep_course)


def finished_scores(sweep_course: SweepCourse) -> list[Scored]:
    """Return the scores of the finished runs."""
    return scores.score_all([item.run for item in sweep_course.items_in("finished")], _SCORING)[0]


def _show_progress(sweep_course: SweepCourse) -> None:
    st.progress(completed_share(sweep_course, time.time()), text=_states_in_words(sweep_course.states))
    if sweep_course.is_moving:
        st.caption(remaining_in_words(sweep_course))
        if sweep_course.states["queued"] and queue.read_switch(select.runs_root()).paused:
            notices.link_queue()


def completed_share(sweep_course: SweepCourse, now: float) -> float:
    """Return the completed share of a sweep: its finished runs, and the completed share of the running ones."""
    alive = [item for item in sweep_course.items if item.state.is_alive]
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
    moving = [item for item in sweep_course.items if item.state.is_moving]
    if not launcher.has_daemon(select.runs_root()):
        stall_reason = escape.markdown(overview.stall_reason_in_words(select.runs_root()))
        return f"{capitalized(stall_reason)}."
    alive_items = {item.run.id: item for item in moving if item.state.is_alive}
    known_costs = time_estimates.known_costs().with_running([item.run for item in alive_items.values()])
    made_weights, spans = set(), []
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
    moving = [item.run for item in sweep_course.items_in("queued", "starting", "running")]
    with st.container(horizontal=True, gap="small"):
        if moving:
            with st.popover(f"Stop all {len(moving)}", icon=":material/stop_circle:"):
                st.markdown("Running runs save a checkpoint first. You can resume all of them later.")
                st.button("Stop all", key="sweep_stop", on_click=_change_each, args=(moving, launcher.stop))
        if sweep_course.left and sweep_course.request is not None:
            verb = "Resume" if sweep_course.states["missing"] < sweep_course.left else "Start the missing"
            if st.button(f"{verb} {sweep_course.left}", key="sweep_resume", icon=":material/play_circle:"):
                form.request_start(
                    sweep_course.request.as_record(), sweep_course.record.name, target=_default_target(sweep_course)
                )
                st.rerun()
        elif sweep_course.left:
            broken = [item.run for item in sweep_course.items_in(*sweeps.RESUMED)]
            st.button(
                f"Resume {sweep_course.left}", key="sweep_resume", on_click=_change_each, args=(broken, launcher.resume)
            )
    click_errors.show_errors("sweep runs")


def _default_target(sweep_course: SweepCourse) -> ExecutionTarget:
    """Return the target of the sweep's runs: the cluster that has some of them, otherwise this machine."""
    options = (cluster_submit.options_of(run) for run in sweep_course.runs)
    return ExecutionTarget(next(filter(None, options), None), {})


def _change_each(runs: Sequence[Run], change: Callable[[Run], object]) -> None:
    """Apply a change to every existing run, the last first so that none starts in between."""
    folders = {run.folder for run in select.own_runs()}
    click_errors.change_each("sweep runs", [run for run in reversed(runs) if run.folder in folders], change)


def _show_runs(sweep_course: SweepCourse) -> None:
    """Show every run with its state and a link to its page."""
    with st.expander(f"Every run ({len(sweep_course.items)})"):
        items = sweep_course.items
        run_column = table.run_column(items)
        is_finished = [item.state.name == "finished" for item in items]
        alarms = [notices.list_alarms(item.run) if finished else () for item, finished in zip(items, is_finished)]
        columns = [
            run_column,
            Column("State", lambda item: item.state.name, "text", 76),
            run_actions.open_column("sweep_run_opened", [[item.run.id] if item.run else [] for item in items]),
            Column("Alarms", [", ".join(alarm.title for alarm in of_run) for of_run in alarms], optional=True),
        ]  # fmt: skip
        data_table.show_data_table(columns, items, "The runs")
        names_by_text: dict[str, list[str]] = {}
        for item, name, of_run, finished in zip(items, run_column.cells, alarms, is_finished, strict=True):
            texts = [f"{alarm.title}: {alarm.words}" for alarm in of_run]
            if item.state.reason and not finished:
                texts.append(f"{capitalized(item.state.name)}: {item.state.reason}")
            for text in texts:
                names_by_text.setdefault(text, []).append(name)
        for text, names in names_by_text.items():
            st.caption(f"**{escape.markdown('; '.join(names))}**  \n{escape.markdown(text)}")


def _show_links(sweep_course: SweepCourse) -> None:
    """Show links to the same runs on other pages."""
    finished_ids = sweep_course.finished_ids
    running_ids = [item.run.id for item in sweep_course.items_in("running", "starting")]
    with st.container(horizontal=True, gap="medium"):
        if finished_ids:
            st.page_link("pages/compare.py", label="Compare these runs", icon=":material/balance:", width="content",
                         query_params={"run": finished_ids[:_MAX_IN_ADDRESS]})  # fmt: skip
            if not sweep_course.is_complete:
                _link_effects(sweep_course)
        if started_ids := [*finished_ids, *running_ids]:
            st.page_link("pages/charts.py", label="Charts of these runs", icon=":material/stacked_line_chart:",
                         width="content", query_params={"run": started_ids[:_MAX_IN_ADDRESS]})  # fmt: skip
        if running_ids:
            st.page_link("pages/live.py", label="Watch running runs", icon=":material/show_chart:", width="content",
                         query_params={"run": running_ids[:8]})  # fmt: skip


def _link_effects(sweep_course: SweepCourse) -> None:
    """Link to the page Effects with the finished runs and those that will finish."""
    moving_ids = [item.run.id for item in sweep_course.items if item.state.is_moving]
    run_ids = [*sweep_course.finished_ids, *moving_ids][:_MAX_IN_ADDRESS]
    link = {"icon": ":material/tune:", "query_params": {"run": run_ids}, "width": "content"}
    st.page_link("pages/effects.py", label="Which setting matters", **link)


# ---------------------------------------------------------------------------------------------------- to take away


def _show_downloads(name: str) -> None:
    """Show downloads; their files are made at the click, from the runs finished by then."""
    report = f"Report ({export_buttons.explain_report()})"
    about_report = "Table, curves, every run, and the command to repeat it"
    offers = {
        "html": (report, ":material/summarize:", about_report),
        "tex": ("Table, LaTeX", ":material/table:", "The table, with booktabs"),
        "csv": ("Table, CSV", ":material/csv:", "One number per row; accuracies from 0 to 1, not in percent"),
    }
    stem = "".join(c if c.isalnum() or c in "-_=." else "-" for c in name)
    with st.container(horizontal=True, gap="small"):
        for kind, (label, icon, about) in offers.items():
            make_file = partial(_render_file, name, kind)
            export_buttons.offer_download(label, make_file, f"{stem}.{kind}", f"sweep_{kind}", icon, about)


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
    request = sweep_course.request
    caption = request.command(name) if request else cli_args.format_command("compare", tag=record.tag)
    return table.as_latex(paper_table, scored, planned, caption)
