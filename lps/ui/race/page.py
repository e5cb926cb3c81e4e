"""The page Race: two to four runs of one split as a race, and their curves below it.

Race and curves share one clock: the position of the race is a line in every chart, and a click on a chart moves the
race there. Both happen in the browser (race_mount.js, plot.js).
"""

from dataclasses import dataclass

import streamlit as st

from lps.charts import line_charts, pace_charts
from lps.charts.event_log import History
from lps.errors import UserError
from lps.race import race_data
from lps.settings import catalog
from lps.store import titles
from lps.store.runs import Run, State
from lps.ui.race import race_view
from lps.ui.server import presentation
from lps.ui.shared import comparable_runs, escape, live_part, notices, page_head, select, theme, url_fields
from lps.ui.shared.history import read_history
from lps.ui.shared.plot import code_of, plot

_TICK_S = 2.0  # while a run is alive
_LETTERS = "ABCD"
_SUGGESTIONS = 3


@dataclass(frozen=True)
class _Lane:
    """One of the compared runs."""

    letter: str
    run: Run
    state: State
    history: History
    method: str  # its title
    planned: int  # epochs

    @property
    def is_going_on(self) -> bool:
        return not self.state.is_over and self.state.name != "unreadable"

    @property
    def length(self) -> int:
        """Return how many epochs its axis needs."""
        return max(self.history.last_epoch, self.planned if self.is_going_on else 0)


def main() -> None:
    """Draw the page."""
    runs = page_head.begin_page("Race", page="pace")
    if runs:
        _show_race(runs)


def _show_race(runs: list[Run]) -> None:
    upper, lower = st.container(), st.container()
    menu_area, race_area = (lower, upper) if presentation.is_on() else (upper, lower)  # an audience sees the race first
    with menu_area:
        selected, num_candidates = _pick_runs(runs)
        racing_runs = _runs_of_one_split(selected)
        if all(run.is_recorded for run in racing_runs):
            _offer_own_race(runs)
        if len(racing_runs) == 1:
            _suggest_partners(racing_runs[0], runs)
        _show_left_out(racing_runs, max(num_candidates, len(racing_runs)))
        notices.show_left_out({titles.run_label(run): read_history(run) for run in racing_runs})
    with race_area:
        race_view.show_race(racing_runs)
    if race_view.can_race(racing_runs):
        lettered = list(zip(_LETTERS, racing_runs))
        live_part.follow_changes(
            lambda: [_make_lane(*lane) for lane in lettered], _are_going_on, _show_all_curves, _TICK_S
        )


def _show_left_out(racing_runs: list[Run], number: int) -> None:
    """Say how many of the chosen runs, without a choice of the comparable ones, have no lane."""
    most = race_data.MAX_RUNS
    if number <= most:
        return
    sentence = f"{most} of {number} runs are shown; a race has at most {most} runs."
    for run in racing_runs[most:]:
        sentence += f" {titles.run_label(run)} is only in the curves below."
    st.caption(escape.markdown(sentence))


# ---------------------------------------------------------------------------------------------------- which runs


def _pick_runs(runs: list[Run]) -> tuple[list[Run], int]:
    """Show a menu of up to four runs; return the chosen ones, and without a choice of how many they are the first.

    Runs that can be compared with the first one come first; the others say what differs.
    """
    names = select.run_names(runs)
    named = select.runs_of_address(runs)
    candidates = [] if named else comparable_runs.default_candidates(runs)
    selected = named[: comparable_runs.MAX_RUNS] or candidates[: comparable_runs.NUM_DEFAULT_RUNS]
    if len(named) > comparable_runs.MAX_RUNS:
        st.warning(
            f"At most {comparable_runs.MAX_RUNS} runs fit side by side. The first {comparable_runs.MAX_RUNS} are shown."
        )
    differences = {run.id: comparable_runs.describe_difference(selected[0], run) for run in runs}
    url_fields.draw_field(
        st.multiselect,
        "twin_runs",
        [run.id for run in selected],
        lambda ids: url_fields.set_values("run", ids, "at", "epoch", "view"),
        "Runs",
        sorted(names, key=lambda run_id: bool(differences[run_id])),
        format_func=lambda run_id: " · ".join(filter(None, [names[run_id], differences[run_id]])),
        max_selections=comparable_runs.MAX_RUNS,
        placeholder=f"Choose two to four runs of the same split. The race shows the first {race_data.MAX_RUNS} of them",
        label_visibility="collapsed",
    )
    return selected, sum(run.is_recorded == selected[0].is_recorded for run in candidates)


def _runs_of_one_split(selected: list[Run]) -> list[Run]:
    """Return the first run and those with the same split; says why the others are left out."""
    matching = selected[:1]
    for run in selected[1:]:
        reason = comparable_runs.split_difference(selected[0], run)
        if not reason:
            matching.append(run)
            continue
        sentence = f"{titles.run_label(run)} cannot be compared with {titles.run_label(selected[0])}, because their "
        sentence += f"images and labels are not the same: {reason}."
        st.warning(escape.markdown(sentence), icon=":material/call_split:")
    return matching


def _offer_own_race(runs: list[Run]) -> None:
    """Offer the user's newest pair with and without the margin beside a recorded race, otherwise the usual own runs."""
    own_runs = [run for run in runs if not run.is_recorded]
    if own_runs:
        own_runs = comparable_runs.default_candidates(own_runs)[:_SUGGESTIONS]
        label = f"Your own runs: {' and '.join(map(titles.run_title, own_runs))}"
        open_race = {"on_click": url_fields.set_values, "args": ("run", [run.id for run in own_runs])}
        st.button(escape.markdown(label), key="own_race", icon=":material/arrow_back:", **open_race)


def _suggest_partners(run: Run, runs: list[Run]) -> None:
    """Offer runs to compare a single run with."""
    partners = comparable_runs.find_partners(run, runs)[:_SUGGESTIONS]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if not partners:
            st.caption("No finished run of another method uses this split yet.", width="content")
            st.page_link("pages/launch.py", label="Launch one", icon=":material/rocket_launch:")
            return
        st.caption("Compare with:", width="content")
        for partner in partners:
            difference = comparable_runs.describe_difference(run, partner)
            label = escape.markdown(titles.run_label(partner) + (f" · {difference}" if difference else ""))
            open_race = {"on_click": url_fields.set_values, "args": ("run", [run.id, partner.id])}
            st.button(label, key=f"beside-{partner.id}", icon=":material/add:", **open_race)


def _make_lane(letter: str, run: Run) -> _Lane:
    try:
        settings = run.config()
        method, planned = catalog.method_info(settings.method).title, settings.epochs
    except UserError:
        method, planned = "this run", 0
    return _Lane(letter, run, run.state(), read_history(run), method, planned)


# ---------------------------------------------------------------------------------------------------- the course


def _are_going_on(lanes: list[_Lane]) -> bool:
    return any(lane.is_going_on for lane in lanes)


def _show_all_curves(lanes: list[_Lane]) -> None:
    """Show the curves of every run on shared axes, and the differences between the runs."""
    length = max(1, *(lane.length for lane in lanes))
    ranges = pace_charts.shared_ranges([lane.history for lane in lanes])
    legend = (
        ":gray[grey: accuracy on all classes (in the KL chart: KL, the mean of an epoch) · "
        "dotted: k-means before training · ▲: milestone, such as the first epoch with a small gap · "
        "click in a chart: the race jumps to this epoch]"
    )
    st.markdown(f"**All epochs** · :small[:blue[seen] · :orange[novel] · {legend}]", help=line_charts.MATCHING)
    for lane, column in zip(lanes, st.columns(len(lanes))):
        with column:
            _show_head(lane, [other.run for other in lanes])
            _show_curves(lane, length, ranges)
    _show_differences(lanes, length)


def _show_head(lane: _Lane, runs: list[Run]) -> None:
    """Show a run's name, state, and what distinguishes it from the others."""
    with st.container(gap="xxsmall"):
        st.markdown(f"**{lane.letter} · {escape.markdown(titles.run_title(lane.run))}**")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if lane.run.is_recorded:
                theme.state_badge("recorded")
            elif lane.state.name != "finished":
                theme.state_badge(lane.state.name)
            st.caption(escape.markdown(" · ".join([lane.method, *describe_run(lane.run, runs)])), width="content")
            link = {"query_params": {"run": lane.run.id}}
            st.page_link("pages/live.py", label=":small[Live]", icon=":material/open_in_new:", **link)
            st.page_link("pages/projection.py", label=":small[Map]", icon=":material/scatter_plot:", **link)


def describe_run(run: Run, compared_runs: list[Run]) -> list[str]:
    """Return the settings that distinguish a run from the others, and its seed, in words."""
    try:
        return [*titles.plain_words(titles.changed_settings(run, compared_runs)), f"seed {run.config().seed}"]
    except UserError:
        return []


def _show_curves(lane: _Lane, length: int, ranges: dict) -> None:
    """Plot the pace of one run, with its marks."""
    if not lane.history.last_epoch:
        status = "has recorded no epoch of training yet."
        if lane.state.name == "queued":
            status = "waits in the queue. It starts when a slot is free."
        st.caption(f"{lane.letter} {status}")
        return
    is_over, colors = not lane.is_going_on, theme.current_palette()
    marks = race_data.marks_of(lane.history, is_over)
    figure = pace_charts.pace(lane.letter, lane.history, length, ranges, marks, lane.method, is_over, colors)
    alt = f"{lane.letter}, {lane.method}: seen and novel accuracy with their gap, KL, margins, thresholds over epochs. "
    alt += "; ".join(mark.words for mark in marks)
    plot(figure, f"pace-{lane.letter}", alt, clock=race_view.CLOCK, code=code_of("pace", lane.run), view=lane.run.id)


def _show_differences(lanes: list[_Lane], length: int) -> None:
    """Plot the first run minus each of the others: novel accuracy, and the gap."""
    first_lane, other_lanes = lanes[0], [lane for lane in lanes[1:] if lane.history.last_epoch]
    if not other_lanes or not first_lane.history.last_epoch:
        st.empty()
        return
    subtraction = f"{first_lane.letter} minus " + (
        other_lanes[0].letter if len(other_lanes) == 1 else "each of the others"
    )
    st.markdown(f"**Difference** · :small[{subtraction}, in points, at the epochs that both runs have]")
    headings = {"novel": "Novel accuracy", "gap": "Gap between seen and novel accuracy"}
    meanings = {
        "novel": f"Above zero, {first_lane.letter} has the higher novel accuracy.",
        "gap": f"Below zero, {first_lane.letter} has the smaller gap.",
    }
    for column, name in zip(st.columns(2), headings):
        key, absolute = f"accuracy/{name}", name == "gap"
        columns = {
            f"{first_lane.letter} − {lane.letter}": pace_charts.difference(
                first_lane.history, lane.history, key, absolute
            )
            for lane in other_lanes
        }
        figure = pace_charts.differences(columns, length, theme.current_palette())
        code = code_of("run_differences", first_lane.run, [lane.run for lane in other_lanes], key)
        with column:
            st.caption(f"{headings[name]}. {meanings[name]}")
            alt = f"{headings[name]}, {', '.join(columns)}, in points"
            view = " ".join(lane.run.id for lane in lanes)
            plot(figure, f"difference-{name}", alt, clock=race_view.CLOCK, code=code, view=view)
