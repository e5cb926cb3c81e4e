"""The pieces of the Sweeps page: which sweeps there are, and one of them as it goes on.

The sweep that is looked at stands in the page's address. Its runs are those that carry its tag.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from lps import costs, jobs, launcher, presets, sweep_records, sweeps
from lps.compare import Scored
from lps.parameters import ConfigError
from lps.runs import Run, State
from lps.sweep_records import Known
from lps.sweeps import Item, Layout
from lps.ui import comparison, escape, home, openings, report, select, style, sweep_forms, sweep_report, sweep_tables
from lps.ui.comparison import Scoring
from lps.ui.places import Place

UNKNOWN = "what was laid out is not known, only its runs"
TICK_S = 3.0  # while a run moves
SCORING = Scoring("orca", "last", "default")
WAITING = ("queued", "starting", "running", "stopping")
MOST_IN_ADDRESS = 60  # runs that a link to another page carries
EXAMPLE = "python -m lps sweep --preset ablation --dry-run"


@dataclass(frozen=True)
class Course:
    """Where a sweep stands. items: what was asked for, in order; what has no run any more has none here."""

    known: Known
    asked: Layout | presets.Asked | None
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
        return any(self.states[name] for name in WAITING)

    @property
    def left(self) -> int:
        """How many have broken off or are missing: what a click would start."""
        return sum(self.states[name] for name in ("missing", *sweeps.RESUMED))


def course(known: Known) -> Course:
    """Where the sweep stands now."""
    asked = sweeps.from_kept(known.asked)
    if asked is None:
        return Course(known, None, sweeps.tagged_items(known.runs))
    return Course(known, asked, sweeps.sketch(asked, select.runs_root(), known.name).items)


# ---------------------------------------------------------------------------------------------------- list


def show_list(found: Sequence[Known]) -> None:
    """Every sweep as a line that opens it."""
    if not found:
        st.caption("No sweep has been started yet. An example from a terminal:")
        st.code(EXAMPLE, language="bash", wrap_lines=True)
        return
    openings.list_started(found, _show_line)


def _show_line(known: Known) -> None:
    states = Counter(run.state().name for run in known.runs)
    with st.container(border=True, horizontal=True, vertical_alignment="center", gap="medium"):
        link = {"label": f"**{escape.markdown(known.name)}**", "query_params": {"sweep": known.name}}
        st.page_link("pages/sweeps.py", width="content", **link)
        st.markdown(_about(sweeps.from_kept(known.asked)), width="stretch")
        st.markdown(_states_in_words(states), width="content")


def _about(asked: Layout | presets.Asked | None) -> str:
    """What a sweep covers, in markdown."""
    if isinstance(asked, presets.Asked):
        return escape.markdown(f"{presets.PRESETS[asked.preset].title} · {asked.scale} scale")
    if asked is None:
        return ""
    words = [", ".join(asked.methods), ", ".join(asked.datasets), *(f"{key} varied" for key in asked.varied)]
    return escape.markdown(" · ".join(words))


def _states_in_words(states: Counter) -> str:
    """ "12 of 15 finished · 1 running", the rest by name, in markdown."""
    total = sum(states.values())
    said = [f"{states['finished']} of {total} finished"]
    for name, count in states.items():
        if name != "finished":
            label, color = style.BADGES[name][:2] if name in style.BADGES else (name.capitalize(), "orange")
            said.append(f":{color}[{count} {label.lower()}]")
    return " · ".join(said)


# ---------------------------------------------------------------------------------------------------- one sweep


def show(known: Known) -> None:
    """One sweep: how far it is, what it has found, what can be done with it."""
    now = course(known)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(escape.markdown(known.name), anchor=False, width="stretch")
        st.page_link("pages/sweeps.py", label="All sweeps", icon=":material/arrow_back:", width="content")
    when = datetime.fromtimestamp(known.time, UTC) if known.time else None
    started = f"started {when:%Y-%m-%d %H:%M} UTC" if when else escape.markdown(known.problem) or UNKNOWN
    st.caption(" · ".join(filter(None, [_about(now.asked), started])))
    tick = TICK_S if now.is_moving else None
    st.fragment(_show_course, run_every=tick)(known.name, now.is_moving)
    _show_downloads(known.name)
    if now.asked is not None:
        st.caption("The same on the command line")
        st.code(now.asked.command(known.name), language="bash", wrap_lines=True)


def find(name: str) -> Known | None:
    """The sweep of that name as it is now."""
    return next((known for known in sweep_records.known(select.runs_root()) if known.name == name), None)


def _show_course(name: str, was_moving: bool) -> None:
    """Progress, actions and the table; refreshes itself while a run moves."""
    if was_moving:
        home.start_waiting()
    known = find(name)
    if known is None:
        st.rerun()
    now = course(known)
    if was_moving != now.is_moving:
        st.rerun()  # with another timer
    _show_progress(now)
    _show_actions(now)
    scored = finished_scores(now)
    sheet = sweep_tables.sheet_of(now.asked)
    if sheet is not None:
        sweep_tables.show_sheet(sheet, scored)
    else:
        sweep_tables.show_groups(scored)
    _show_runs(now)
    _show_links(now)


def finished_scores(now: Course) -> list[Scored]:
    """The scores of the runs that have reached their end."""
    done = [item.run for item in now.items if item.state and item.state.name == "finished"]
    return comparison.score_all(done, SCORING)[0]


def _show_progress(now: Course) -> None:
    done, total = now.states["finished"], max(1, len(now.items))
    st.progress(done / total, text=_states_in_words(now.states))
    if now.is_moving:
        st.caption(remaining_in_words(now))


def remaining_in_words(now: Course) -> str:
    """When it will be over, as far as finished runs and the running ones tell."""
    moving = [item for item in now.items if item.state and item.state.name in WAITING]
    expected = sweep_forms.known_costs([item.config for item in moving])
    usual = [None if cost is None else cost.seconds for cost in expected]
    left = [_left_s(item.run, whole) for item, whole in zip(moving, usual)]
    unknown = left.count(None)
    slots = min(launcher.at_once([item.config for item in moving], select.runs_root()), len(moving))
    together = costs.side_by_side(filter(None, left), slots)
    if unknown == len(moving):
        return "When it ends is not known before the first run has finished."
    at_once = f" with {slots} at a time" if slots > 1 else ""
    more = f", and {unknown} of which nothing is known yet" if unknown else ""
    return f"About {costs.in_words(together)} to go{at_once}{more}."


def _left_s(run: Run, whole: float | None) -> float | None:
    """What a run in training says itself; else all that such a run usually takes."""
    told = run.read_json("progress.json")
    left = told.get("eta_s") if told.get("phase") == "train" else None
    return float(left) if isinstance(left, (int, float)) and 0 <= left < 1e9 else whole


def _show_actions(now: Course) -> None:
    """Stop what moves, go on with what broke off."""
    moving = [item.run for item in now.items if item.state and item.state.name in ("queued", "starting", "running")]
    with st.container(horizontal=True, gap="small"):
        if moving:
            with st.popover(f"Stop all {len(moving)}", icon=":material/stop_circle:"):
                st.markdown("Running ones write a checkpoint first; all of them can go on later.")
                st.button("Stop them", key="sweep_stop", on_click=_stop, args=([str(r.folder) for r in moving],))
        if now.left and now.asked is not None:
            words = f"Go on with {now.left}" if now.states["missing"] < now.left else f"Start the missing {now.left}"
            if st.button(words, key="sweep_resume", icon=":material/play_circle:"):
                sweep_forms.ask(now.asked.kept(), now.known.name, place=_usual_place(now))
                st.rerun()
        elif now.left:
            st.button(f"Go on with {now.left}", key="sweep_resume", on_click=_resume, args=(_broken(now),))
    for words in st.session_state.pop("sweep_refusals", []):
        st.error(escape.markdown(words), icon=":material/error:")


def _usual_place(now: Course) -> Place:
    """Where the runs of the sweep were asked for: on the cluster that has some of them, else on this machine."""
    asked = (jobs.options_of(run) for run in now.runs)
    return Place(next(filter(None, asked), None), {})


def _broken(now: Course) -> list[str]:
    return [str(item.run.folder) for item in now.items if item.state and item.state.name in sweeps.RESUMED]


def _stop(folders: Sequence[str]) -> None:
    _for_each(folders, launcher.stop)


def _resume(folders: Sequence[str]) -> None:
    _for_each(folders, launcher.resume)


def _for_each(folders: Sequence[str], change) -> None:
    """Make the change with every run, the last first so that none begins in between; keep what went wrong."""
    by_folder = {str(run.folder): run for run in select.own_runs()}
    for run in (by_folder[folder] for folder in reversed(folders) if folder in by_folder):
        try:
            change(run)
        except (ConfigError, OSError) as error:
            st.session_state.setdefault("sweep_refusals", []).append(str(error))


def _show_runs(now: Course) -> None:
    """Every run with its state and a link to its own page."""
    with st.expander(f"Every run ({len(now.items)})"):
        rows = [_run_row(item) for item in now.items]
        boxes = {"Open": st.column_config.LinkColumn(display_text=r"run=(.*)$", help="Opens the run's own page")}
        st.dataframe(pd.DataFrame(rows), width="stretch", hide_index=True, column_config=boxes, alt="The runs")


def _run_row(item: Item) -> dict[str, object]:
    state = item.state or State("missing")
    link = f"live?run={item.run.id}" if item.run else None
    return {"Run": item.label, "State": state.name, "Why": state.reason, "Open": link}


def _show_links(now: Course) -> None:
    """The same runs on other pages."""
    done = [item.run.id for item in now.items if item.state and item.state.name == "finished"]
    going = [item.run.id for item in now.items if item.state and item.state.name in ("running", "starting")]
    with st.container(horizontal=True, gap="medium"):
        if done:
            st.page_link(
                "pages/compare.py",
                label="Compare these runs",
                icon=":material/balance:",
                query_params={"run": done[:MOST_IN_ADDRESS]},
                width="content",
            )
            st.page_link("pages/effects.py", label="Effects", icon=":material/tune:", width="content",
                         query_params=_effect(now))  # fmt: skip
        if going:
            st.page_link("pages/live.py", label="Watch what runs now", icon=":material/show_chart:", width="content",
                         query_params={"run": going[:8]})  # fmt: skip


def _effect(now: Course) -> dict[str, str]:
    """The setting that the Effects page is to show."""
    if isinstance(now.asked, presets.Asked):
        setting = presets.PRESETS[now.asked.preset].setting
    else:
        setting = next(iter(now.asked.varied), "") if now.asked else ""
    return {"setting": setting} if setting and not setting.startswith("split.") else {}


# ---------------------------------------------------------------------------------------------------- to take away


def _show_downloads(name: str) -> None:
    """Files that are made when they are asked for, of what has finished by then."""
    offers = {
        "Report": ("html", "text/html", ":material/summarize:", "One HTML file that opens without a network"),
        "Report, LaTeX": ("report.tex", "application/x-tex", ":material/description:", "One LaTeX file that compiles"),
        "Table, LaTeX": ("tex", "application/x-tex", ":material/table:", "The table alone, with booktabs"),
        "Table, CSV": ("csv", "text/csv", ":material/csv:", "One number a row, fractions"),
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
    known = find(name)
    if known is None:
        return ""
    now = course(known)
    if kind in ("html", "report.tex"):
        return sweep_report.of(known, select.runs_root(), SCORING, form=report.form_of(f"sweep.{kind}"))
    scored, sheet = finished_scores(now), sweep_tables.sheet_of(now.asked)
    if kind == "csv":
        return sweep_tables.as_csv(sheet, scored)
    caption = (
        now.asked.command(name) if now.asked else shlex.join(["python", "-m", "lps", "compare", "--tag", known.tag])
    )
    return sweep_tables.as_latex(sheet, scored, caption)
