"""The pieces of the Sweeps page: which sweeps there are, and one of them as it goes on.

The sweep that is looked at stands in the page's address. Its runs are those that carry its tag.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import streamlit as st

from lps.analysis.run_scores import Scored
from lps.charts import sweep_charts
from lps.charts.group_tables import Scoring
from lps.report import sweep_report
from lps.scheduler import cluster_submit, costs, launcher, overview, run_slots
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
    estimates,
    export_buttons,
    live_part,
    scores,
    select,
    theme,
)
from lps.ui.shared.data_table import Column
from lps.ui.sweeps import form, table
from lps.wording import capitalized

_UNKNOWN = "the plan of the sweep was not found; only its runs are listed"
_TICK_S = 3.0  # while a run moves
_SCORING = Scoring("orca", "last", "default")
_EXAMPLE = "python -m lps sweep --preset ablation --dry-run"
_MOST_IN_ADDRESS = 60  # runs that a link to another page carries


@dataclass(frozen=True)
class SweepCourse:
    """Where a sweep stands. items: what was asked for, in order; what has no run any more has none here."""

    known: SweepRecord
    asked: SweepSpec | presets.PresetRequest | None
    items: tuple[Item, ...]

    @property
    def runs(self) -> list[Run]:
        return [item.run for item in self.items if item.run is not None]

    @property
    def states(self) -> Counter:
        """How many are in each state; "missing" for those without a run."""
        return Counter(item.state.name if item.state else "missing" for item in self.items)

    @property
    def is_moving(self) -> bool:
        return any(item.state and item.state.is_moving for item in self.items)

    @property
    def left(self) -> int:
        """How many have broken off or are missing: what a click would start."""
        return sum(self.states[name] for name in ("missing", *sweeps.RESUMED))


def main() -> None:
    """The whole page."""
    started = start_runs.start_requested("sweep", form.start)
    if started:
        st.query_params.from_dict({"sweep": started})
    found = sweep_records.list_sweeps(select.runs_root())
    named_list.show_list("sweeps", "sweep", found, form.show_sweep_form, _show_line, _show_sweep, _EXAMPLE)


def course(known: SweepRecord) -> SweepCourse:
    """Where the sweep stands now."""
    asked = sweeps.from_record(known.request)
    if asked is None:
        return SweepCourse(known, None, sweeps.tagged_items(known.runs))
    return SweepCourse(known, asked, sweeps.plan_unchecked_sweep(asked, select.runs_root(), known.name).items)


# ---------------------------------------------------------------------------------------------------- list


def _show_line(known: SweepRecord) -> None:
    st.markdown(_about(sweeps.from_record(known.request)), width="stretch")
    st.markdown(_states_in_words(Counter(run.state().name for run in known.runs)), width="content")


def _about(asked: SweepSpec | presets.PresetRequest | None) -> str:
    """What a sweep covers, in markdown."""
    if isinstance(asked, presets.PresetRequest):
        return escape.markdown(f"{presets.PRESETS[asked.preset].title} · {asked.scale} scale")
    if asked is None:
        return ""
    known = catalog.dataset_titles()
    methods, datasets = map(titles.method_title, asked.methods), (known.get(name, name) for name in asked.datasets)
    varied = " × ".join(labels.full_label(key) for key in asked.varied)
    return escape.markdown(" · ".join(filter(None, [", ".join(methods), ", ".join(datasets), varied])))


def _states_in_words(states: Counter) -> str:
    """ "12 of 15 finished · 1 running", the rest by name, in markdown."""
    total = sum(states.values())
    sentences = [f"{states['finished']} of {total} finished"]
    for name, count in states.items():
        if name != "finished":
            label, color = theme.BADGES[name][:2] if name in theme.BADGES else (name.capitalize(), "orange")
            sentences.append(f":{color}[{count} {label.lower()}]")
    return " · ".join(sentences)


# ---------------------------------------------------------------------------------------------------- one sweep


def _show_sweep(known: SweepRecord) -> None:
    """One sweep: how far it is, what it has found, what can be done with it."""
    now = course(known)
    when = datetime.fromtimestamp(known.time, UTC) if known.time else None
    started = f"started {when:%Y-%m-%d %H:%M} UTC" if when else escape.markdown(known.problem) or _UNKNOWN
    st.caption(" · ".join(filter(None, [_about(now.asked), started])))
    live_part.follow_changes(lambda: _now(known.name), lambda now: now.is_moving, _show_course, _TICK_S, now)
    if now.asked is not None:
        export_buttons.show_command(now.asked.command(known.name))


def _now(name: str) -> SweepCourse:
    """Where the sweep of that name stands; without it the page starts again."""
    known = _find(name)
    if known is None:
        st.rerun()
    return course(known)


def _find(name: str) -> SweepRecord | None:
    return next((known for known in sweep_records.list_sweeps(select.runs_root()) if known.name == name), None)


def _show_course(now: SweepCourse) -> None:
    """Progress, actions and the table."""
    _show_progress(now)
    _show_actions(now)
    scored = finished_scores(now)
    sheet = sweep_charts.paper_table_of(now.asked)
    if sheet is not None:
        table.show_sheet(now.known.name, sheet, scored)
    else:
        table.show_groups(scored)
    _show_runs(now)
    _show_links(now)
    if scored:
        _show_downloads(now.known.name)


def finished_scores(now: SweepCourse) -> list[Scored]:
    """The scores of the runs that have reached their end."""
    done = [item.run for item in now.items if item.state and item.state.name == "finished"]
    return scores.score_all(done, _SCORING)[0]


def _show_progress(now: SweepCourse) -> None:
    st.progress(completed_share(now, time.time()), text=_states_in_words(now.states))
    if now.is_moving:
        st.caption(remaining_in_words(now))


def completed_share(now: SweepCourse, when: float) -> float:
    """The completed share of the sweep: finished runs, and of a running one its share of its own time."""
    going = [item for item in now.items if item.state and item.state.is_alive]
    known = estimates.known_costs().with_running([item.run for item in going]) if going else None
    completed = float(now.states["finished"])
    for item in going:
        progress = read_progress(item.run, item.state)
        left = known.time_left(item.run, progress, when)
        if left is not None and progress.started is not None:
            passed = max(0.0, when - progress.started)
            completed += passed / max(1.0, passed + left.likely)
        elif progress.phase == "train":
            completed += progress.share or 0.0
    return min(1.0, completed / max(1, len(now.items)))


def remaining_in_words(now: SweepCourse) -> str:
    """When it will be over, as far as finished runs and the running ones tell."""
    moving = [item for item in now.items if item.state and item.state.is_moving]
    if not launcher.has_daemon(select.runs_root()):
        words = escape.markdown(overview.stall_reason_in_words(select.runs_root()))
        return f"{capitalized(words)}."
    going = {item.run.id: item for item in moving if item.state.is_alive}
    known, made, left = estimates.known_costs().with_running([item.run for item in going.values()]), set(), []
    for item in sorted(moving, key=lambda item: item.run.id not in going):
        if item.run.id in going:
            left.append(known.time_left(item.run, read_progress(item.run, item.state), time.time()))
        else:
            cost = known.estimate(item.config, made)
            left.append(cost and cost.span)
        made.add(costs.start_weights_key(item.config))
    unknown = left.count(None)
    slots = min(run_slots.num_parallel_runs([item.config for item in moving], select.runs_root()), len(moving))
    together = costs.parallel_duration(filter(None, left), slots)
    if unknown == len(moving):
        return "The remaining time can be estimated once the first run has finished."
    at_once = f" with {slots} at a time" if slots > 1 else ""
    more = f", plus {unknown} of unknown duration" if unknown else ""
    return f"About {costs.span_in_words(together)} left{at_once}{more}{costs.wide_reason(together)}."


def _show_actions(now: SweepCourse) -> None:
    """Stop what moves, go on with what broke off."""
    moving = [item.run for item in now.items if item.state and item.state.name in ("queued", "starting", "running")]
    with st.container(horizontal=True, gap="small"):
        if moving:
            with st.popover(f"Stop all {len(moving)}", icon=":material/stop_circle:"):
                st.markdown("Running runs save a checkpoint first. You can resume all of them later.")
                st.button("Stop all", key="sweep_stop", on_click=_for_each, args=(moving, launcher.stop))
        if now.left and now.asked is not None:
            words = f"Resume {now.left}" if now.states["missing"] < now.left else f"Start the missing {now.left}"
            if st.button(words, key="sweep_resume", icon=":material/play_circle:"):
                form.ask(now.asked.as_record(), now.known.name, place=_usual_place(now))
                st.rerun()
        elif now.left:
            broken = [item.run for item in now.items if item.state and item.state.name in sweeps.RESUMED]
            st.button(f"Resume {now.left}", key="sweep_resume", on_click=_for_each, args=(broken, launcher.resume))
    error_toasts.show_errors("sweep runs")


def _usual_place(now: SweepCourse) -> ExecutionTarget:
    """Where the runs of the sweep were asked for: on the cluster that has some of them, else on this machine."""
    asked = (cluster_submit.options_of(run) for run in now.runs)
    return ExecutionTarget(next(filter(None, asked), None), {})


def _for_each(runs: Sequence[Run], change: Callable[[Run], object]) -> None:
    """Make the change with every run that is still there, the last first so that none begins in between."""
    there = {run.folder for run in select.own_runs()}
    error_toasts.change_each("sweep runs", [run for run in reversed(runs) if run.folder in there], change)


def _show_runs(now: SweepCourse) -> None:
    """Every run with its state and a link to its own page."""
    with st.expander(f"Every run ({len(now.items)})"):
        columns = [
            Column("Run", lambda item: item.label),
            Column("State", lambda item: item.state.name if item.state else "missing"),
            Column("Why", lambda item: item.state.reason if item.state else ""),
            Column("Open", lambda item: f"live?run={item.run.id}" if item.run else None, "link",
                   help="Opens the run's own page", display_text=r"run=(.*)$"),
        ]  # fmt: skip
        data_table.show_data_table(columns, now.items, "The runs")


def _show_links(now: SweepCourse) -> None:
    """The same runs on other pages."""
    done = [item.run.id for item in now.items if item.state and item.state.name == "finished"]
    going = [item.run.id for item in now.items if item.state and item.state.name in ("running", "starting")]
    with st.container(horizontal=True, gap="medium"):
        if done:
            st.page_link(
                "pages/compare.py",
                label="Compare these runs",
                icon=":material/balance:",
                query_params={"run": done[:_MOST_IN_ADDRESS]},
                width="content",
            )
            st.page_link(
                "pages/effects.py",
                label="Which setting matters",
                icon=":material/tune:",
                query_params=_effect(now) | {"run": done[:_MOST_IN_ADDRESS]},
                width="content",
            )
        if going:
            st.page_link("pages/live.py", label="Watch running runs", icon=":material/show_chart:", width="content",
                         query_params={"run": going[:8]})  # fmt: skip


def _effect(now: SweepCourse) -> dict[str, str]:
    """The setting that the Effects page is to show."""
    if isinstance(now.asked, presets.PresetRequest):
        setting = presets.PRESETS[now.asked.preset].setting
    else:
        setting = next(iter(now.asked.varied), "") if now.asked else ""
    return {"setting": setting} if setting and not setting.startswith("split.") else {}


# ---------------------------------------------------------------------------------------------------- to take away


def _show_downloads(name: str) -> None:
    """Files that are made when they are asked for, of what has finished by then."""
    offers = {
        f"Report ({export_buttons.explain_report()})": (
            "html",
            "text/html",
            ":material/summarize:",
            "Table, curves, every run, and the command to repeat it",
        ),
        "Table, LaTeX": ("tex", "application/x-tex", ":material/table:", "The table, with booktabs"),
        "Table, CSV": ("csv", "text/csv", ":material/csv:", "One number per row, as fractions"),
    }
    stem = "".join(c if c.isalnum() or c in "-_=." else "-" for c in name)
    with st.container(horizontal=True, gap="small"):
        for label, (kind, mime, icon, about) in offers.items():
            st.download_button(
                label,
                lambda kind=kind: _made(name, kind).encode("utf-8", "replace"),
                file_name=f"{stem}.{kind}",
                mime=mime,
                key=f"sweep_{kind}",
                on_click="ignore",
                icon=icon,
                help=about,
            )


def _made(name: str, kind: str) -> str:
    """The file of a sweep as it is now."""
    known = _find(name)
    if known is None:
        return ""
    now = course(known)
    if kind == "html":
        return sweep_report.render_sweep_report(known, select.runs_root(), _SCORING)
    scored, sheet = finished_scores(now), sweep_charts.paper_table_of(now.asked)
    if kind == "csv":
        return table.as_csv(sheet, scored)
    caption = now.asked.command(name) if now.asked else cli_args.format_command("compare", tag=known.tag)
    return table.as_latex(sheet, scored, caption)
