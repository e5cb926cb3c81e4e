"""The parts of the Pace page: two to four runs of one split beside each other, as a race or epoch by epoch.

Epoch by epoch, what stays (curves, marks, differences) and what moves with the epoch (numbers, classes, points) are
fragments of their own: a step draws the moving parts, and the browser alone moves the line in the curves
(lps.ui.shared.replay).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from lps.analysis import twins
from lps.bench import drawing_code
from lps.charts import line_charts, pace_charts
from lps.charts.event_log import History
from lps.errors import Refusal
from lps.scores import milestones
from lps.scores.milestones import Mark
from lps.settings import catalog
from lps.store import titles
from lps.store.runs import Run, State
from lps.ui.pace import race_view
from lps.ui.pictures import points
from lps.ui.pictures.coloring import COLORINGS
from lps.ui.shared import comparable, escape, notices, page_head, replay, select, theme
from lps.ui.shared.history import history
from lps.ui.shared.plot import code_of_runs, folder_of, plot

_TICK_S = 2.0  # while a run is alive
_LETTERS = "ABCD"
_CLOCK = "pace"
_MOVING = "pace-moving"  # the fragment that shows an epoch
_SUGGESTIONS = 3
_VIEWS = {"race": "Race", "epochs": "Epoch by epoch"}
_STYLE = (Path(__file__).parent / "pace.css").read_text(encoding="utf-8")
_CLASSES = {"predicted": "Predicted", "estimated": "Estimated"}
_VECTORS = {"predicted": "class/count_predicted", "estimated": "pi_hat"}
_MEANING = {
    "predicted": "share of images taken for each class after matching; dashed: the truth",
    "estimated": "shares that the method estimates, pi_hat; dashed: all alike",
}


@dataclass(frozen=True)
class _Twin:
    """One of the runs beside each other."""

    letter: str
    run: Run
    state: State
    past: History
    method: str  # as people write it
    title: str  # the method, and what tells the run from the others
    planned: int  # epochs

    @property
    def is_going_on(self) -> bool:
        return not self.state.is_over and self.state.name != "unreadable"

    @property
    def length(self) -> int:
        """How many epochs its axis needs."""
        return max(self.past.last_epoch, self.planned if self.is_going_on else 0)

    def shown(self, epoch: int) -> int:
        """The epoch to show of it: a shorter run stays at its end."""
        return min(epoch, self.past.last_epoch)


@dataclass(frozen=True)
class _Rooms:
    """Where the parts of the page go; lists have a place for every run."""

    bar: object
    heads: list
    numbers: list
    curve_head: object
    curves: list
    class_head: object
    classes: list
    point_head: object
    points: list
    differences: object


def main() -> None:
    """The whole page."""
    runs = page_head.begin("Pace")
    if runs:
        show(runs)


# ---------------------------------------------------------------------------------------------------- which runs


def show(runs: list[Run]) -> None:
    """Everything below the title."""
    st.html(f"<style>{_STYLE}</style>")
    chosen = _pick(runs)
    together = _agreeing(chosen)
    if len(together) == 1:
        _suggest(together[0], runs)
    notices.show_left_out({titles.label(run): history(run) for run in together})
    if _pick_view(together) == "race":
        race_view.show(together)
    else:
        _show_epochs(together)


def _pick_view(together: list[Run]) -> str:
    """The race, or epoch by epoch where the address says so, be it by naming an epoch."""
    if select.number("epoch") is not None:
        st.session_state["pace_view_usual"] = "epochs"
    usual = st.session_state.get("pace_view_usual", "race")
    view = st.query_params.get("view", usual)
    view = view if view in _VIEWS else usual
    select.agree("pace_view", view)
    with _heading():
        st.segmented_control(
            "View",
            list(_VIEWS),
            format_func=_VIEWS.get,
            key="pace_view",
            on_change=_remember_view,
            required=True,
            label_visibility="collapsed",
        )
        if view == "race" and race_view.can_race(together):
            race_view.offer(together)
    return view


def _remember_view() -> None:
    view = st.session_state["pace_view_usual"] = st.session_state["pace_view"]
    replay.forget()
    for name in ("view", "epoch", "at"):
        st.query_params.pop(name, None)
    if view != "race":
        st.query_params["view"] = view


def _show_epochs(together: list[Run]) -> None:
    rooms = _lay_out(len(together))
    token = _token_of(together)
    is_going_on = any(twin.is_going_on for twin in _twins_of(together))
    tick = _TICK_S if is_going_on else None
    seconds = replay.interval(token, tick)
    st.fragment(_show_still, run_every=tick)(together, rooms, is_going_on)
    st.fragment(_show_moving, run_every=seconds, key=_MOVING)(together, rooms, token, tick, seconds)


def _pick(runs: list[Run]) -> list[Run]:
    """A box for up to four runs; without a choice it shows those of `comparable.usual_choice`."""
    by_id = {run.id: run for run in runs}
    named = select.picked(runs)
    chosen = named[: comparable.MOST] or comparable.usual_choice(runs)
    if len(named) > comparable.MOST:
        st.warning(f"At most {comparable.MOST} runs fit beside each other; the first {comparable.MOST} are shown.")
    select.agree("twin_runs", [run.id for run in chosen])
    st.multiselect(
        "Runs",
        list(by_id),
        format_func=lambda name: titles.label(by_id[name]),
        key="twin_runs",
        on_change=_remember_runs,
        max_selections=comparable.MOST,
        placeholder="Choose two to four runs of one split",
        label_visibility="collapsed",
    )
    return chosen


def _remember_runs() -> None:
    st.query_params["run"] = st.session_state["twin_runs"]
    replay.forget()


def _agreeing(chosen: list[Run]) -> list[Run]:
    """The first run and those that have its split; why the others are left out is said."""
    together = chosen[:1]
    for run in chosen[1:]:
        reason = comparable.split_difference(chosen[0], run)
        if not reason:
            together.append(run)
            continue
        words = (
            f"{titles.label(run)} is not shown beside {titles.label(chosen[0])}, because their images and labels are "
        )
        words += f"not the same: {reason}."
        st.warning(escape.markdown(words), icon=":material/call_split:")
    return together


def _suggest(run: Run, runs: list[Run]) -> None:
    """Runs that would stand well beside a single one."""
    fitting = comparable.partners(run, runs)[:_SUGGESTIONS]
    if not fitting:
        words = "There is no finished run of another method on this split yet to put beside it."
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(words, width="content")
            st.page_link("pages/launch.py", label="Launch one", icon=":material/rocket_launch:")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Put beside it:", width="content")
        for partner in fitting:
            label = escape.markdown(titles.label(partner))
            ids = [run.id, partner.id]
            icon = ":material/add:"
            st.button(label, key=f"beside-{partner.id}", icon=icon, on_click=_put_together, args=(ids,))


def _put_together(ids: list[str]) -> None:
    st.query_params["run"] = ids


def _token_of(runs: list[Run]) -> str:
    """What the replay of these runs goes by (lps.ui.shared.replay)."""
    return " ".join(run.id for run in runs)


def _twins_of(runs: list[Run]) -> list[_Twin]:
    return [_twin(letter, run, runs) for letter, run in zip(_LETTERS, runs)]


def _twin(letter: str, run: Run, beside: list[Run]) -> _Twin:
    try:
        settings = run.config()
        method, planned = catalog.method_info(settings.method).title, settings.epochs
    except Refusal:
        method, planned = "this run", 0
    title = ", ".join([method, *twins.changes(run, beside, most=1)])
    return _Twin(letter, run, run.state(), history(run), method, title, planned)


# ---------------------------------------------------------------------------------------------------- the page


def _lay_out(count: int) -> _Rooms:
    """Empty places from the top of the page to its end."""
    return _Rooms(
        bar=st.container(),
        heads=st.columns(count),
        numbers=st.columns(count),
        curve_head=st.container(),
        curves=st.columns(count),
        class_head=st.container(),
        classes=st.columns(count),
        point_head=st.container(),
        points=st.columns(count),
        differences=st.container(),
    )


def _show_still(runs: list[Run], rooms: _Rooms, was_going_on: bool) -> None:
    """What does not depend on the epoch that is shown."""
    twins = _twins_of(runs)
    if was_going_on != any(twin.is_going_on for twin in twins):
        st.rerun()  # once more as a whole, without timers
    length = max(1, *(twin.length for twin in twins))
    ranges = pace_charts.tops([twin.past for twin in twins])
    for twin, head, curves in zip(twins, rooms.heads, rooms.curves):
        with head:
            _show_head(twin, runs)
        with curves:
            _show_curves(twin, twins, length, ranges)
    words = ":gray[all, KL; dotted: k-means before training; ▲: a mark; click: show that epoch]"
    rooms.curve_head.markdown(f"**Pace** · :small[:blue[seen] · :orange[novel] · {words}]", help=line_charts.MATCHING)
    with rooms.differences:
        _show_differences(twins, length)


def _show_moving(runs: list[Run], rooms: _Rooms, token: str, tick: float | None, seconds: float | None) -> None:
    """What the epoch moves."""
    has_other_timer = replay.interval(token, tick) != seconds
    if has_other_timer and replay.is_playing(token):
        st.rerun()  # it began to play
    twins = _twins_of(runs)
    last, length = max(twin.past.last_epoch for twin in twins), max(twin.length for twin in twins)
    if not last:
        for place in (rooms.bar, rooms.class_head, rooms.point_head, *rooms.numbers, *rooms.classes, *rooms.points):
            place.empty()
        rooms.bar.caption("No epoch of training has been recorded yet.")
        return
    epoch = replay.moment(token, last)
    with rooms.bar:
        is_growing = any(twin.is_going_on for twin in twins)
        replay.bar(token, epoch, last, length, _CLOCK, is_growing=is_growing, remember=lambda: _remember(runs))
    if has_other_timer:
        st.rerun()  # it ceased to play, as the bar says already
    for twin, place in zip(twins, rooms.numbers):
        with place:
            _show_numbers(twin, epoch)
    _show_classes(twins, rooms, epoch)
    _show_points(twins, rooms, epoch)


def _remember(runs: list[Run]) -> None:
    """Write the runs into the address where a choice of the page stands, so that the link shows these."""
    if "run" not in st.query_params:
        st.query_params["run"] = [run.id for run in runs]


# ---------------------------------------------------------------------------------------------------- what stays


def _show_head(twin: _Twin, beside: list[Run]) -> None:
    """Who this is, how it stands, and what makes it differ from those beside it."""
    with st.container(gap="xxsmall"):
        st.markdown(f"**{twin.letter} · {escape.markdown(titles.title(twin.run))}**")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if twin.run.is_recorded:
                theme.badge("recorded")
            elif twin.state.name != "finished":
                theme.badge(twin.state.name)
            st.caption(escape.markdown(" · ".join([twin.method, *about(twin.run, beside)])), width="content")
            link = {"query_params": {"run": twin.run.id}}
            st.page_link("pages/live.py", label=":small[Live]", icon=":material/open_in_new:", **link)


def about(run: Run, beside: list[Run]) -> list[str]:
    """The seed, and the settings that tell a run from those beside it, in words."""
    try:
        return [f"seed {run.config().seed}", *twins.changes(run, beside)]
    except Refusal:
        return []


def marks_of(past: History) -> list[Mark]:
    """The marks of what a run has recorded up to now."""
    names = ("accuracy/seen", "accuracy/novel", "kl")
    table = pd.DataFrame({name: past.column(name) for name in names}, dtype=float)
    return milestones.find(table.index.to_numpy(), *(table[name].to_numpy(float) for name in names))


def _show_curves(twin: _Twin, twins: list[_Twin], length: int, ranges: dict) -> None:
    """The pace of one run, and its marks as buttons that lead to their epochs."""
    if not twin.past.last_epoch:
        st.caption(f"{twin.letter} has recorded no epoch of training yet.")
        return
    found = marks_of(twin.past)
    arguments = (twin.letter, twin.past, length, ranges, found, twin.method, not twin.is_going_on, theme.palette())
    figure = pace_charts.pace(*arguments).update_layout(uirevision=twin.run.id)
    alt = f"{twin.letter}, {twin.method}: seen and novel accuracy with their gap, KL, margins, thresholds over epochs. "
    alt += "; ".join(mark.words for mark in found)
    code = code_of_runs(figure, [twin.run])
    clicked = plot(figure, f"pace-{twin.letter}", alt, clickable=True, clock=_CLOCK, code=code)
    last = max(other.past.last_epoch for other in twins)
    ids = [other.run for other in twins]
    if clicked is not None:
        replay.go(_token_of(ids), clicked, last)
        _remember(ids)
        st.rerun()
    with st.container(gap=None):
        for mark in found:
            label = f":small[{mark.words[0].upper()}{mark.words[1:]}]"
            key, help = f"mark-{twin.letter}-{mark.kind}", f"Show epoch {mark.epoch} of all runs"
            asked = (mark.epoch, last, ids)
            st.button(label, key=key, type="tertiary", icon=":material/flag:", help=help, on_click=_jump, args=asked)


def _jump(epoch: int, last: int, runs: list[Run]) -> None:
    replay.go(_token_of(runs), epoch, last)
    _remember(runs)
    st.rerun(_MOVING)


def _show_differences(twins: list[_Twin], length: int) -> None:
    """The first run minus each of the others: novel accuracy, and the gap."""
    first, others = twins[0], [twin for twin in twins[1:] if twin.past.last_epoch]
    if not others or not first.past.last_epoch:
        st.empty()
        return
    which = f"{first.letter} minus " + (others[0].letter if len(others) == 1 else "each of the others")
    st.markdown(f"**Difference** · :small[{which}, in points, where both have the epoch]")
    words = {"novel": "Novel accuracy", "gap": "Size of the gap between seen and novel"}
    means = {"novel": f"above zero {first.letter} finds more", "gap": f"below zero {first.letter} is more even"}
    for place, name in zip(st.columns(2), words):
        key, in_size = f"accuracy/{name}", name == "gap"
        columns = {
            f"{first.letter} − {twin.letter}": pace_charts.difference(first.past, twin.past, key, in_size)
            for twin in others
        }
        figure = pace_charts.differences(columns, length, theme.palette())
        figure.update_layout(uirevision=" ".join(twin.run.id for twin in twins))
        folders = {label: folder_of(twin.run) for label, twin in zip(columns, others)}
        code = drawing_code.of_curve_differences(folder_of(first.run), folders, key, in_size)
        with place:
            st.caption(f"{words[name]}; {means[name]}")
            alt = f"{words[name]}, {', '.join(columns)}, in points"
            plot(figure, f"difference-{name}", alt, clock=_CLOCK, code=code)


# ---------------------------------------------------------------------------------------------------- what moves


def _show_numbers(twin: _Twin, epoch: int) -> None:
    """Seen, novel and their gap at the epoch, and where the run is when it is not there."""
    st.markdown(f"{_numbers(twin, epoch)}  \n:small[:gray[{twin.letter} · {_standing(twin, epoch)}]]")


def _numbers(twin: _Twin, epoch: int) -> str:
    """The measurements of an epoch as markdown; those that there are not are left out."""
    past, at = twin.past, twin.shown(epoch)
    forms = {
        "accuracy/seen": lambda x: f":blue[seen **{100 * x:.1f} %**]",
        "accuracy/novel": lambda x: f":orange[novel **{100 * x:.1f} %**]",
        "accuracy/gap": lambda x: f"gap **{100 * x:+.1f}**",
        "kl": lambda x: f"KL **{x:.3f}**",
    }
    columns = {name: past.column(name) for name in forms}
    said = [form(float(columns[name].loc[at])) for name, form in forms.items() if at in columns[name].index]
    return " · ".join(said[:2]) + "  \n" + " · ".join(said[2:]) if said else "nothing was measured"


def _standing(twin: _Twin, epoch: int) -> str:
    """Which epoch of the run is shown, in words."""
    last = twin.past.last_epoch
    if not last:
        return "no epoch yet"
    if epoch <= last:
        return f"epoch {epoch}"
    return f":material/flag_2: {'has reached' if twin.is_going_on else 'at its end,'} epoch {last}"


def _show_classes(twins: list[_Twin], rooms: _Rooms, epoch: int) -> None:
    """How many images each run takes for each class, beside how many there are."""
    with rooms.class_head, _heading():
        kind = select.choice("classes", list(_CLASSES))
        st.markdown(f"**Classes** · :small[:blue[seen] · :orange[novel] · :gray[{_MEANING[kind]}]]")
        select.choose(st.segmented_control, "classes", "Classes", _CLASSES, required=True, label_visibility="collapsed")
    found = [_class_shares(twin, kind) for twin in twins]
    top = max((float(np.nanmax(table.to_numpy())) for table in found if table is not None and table.size), default=0)
    for twin, place, table in zip(twins, rooms.classes, found):
        with place:
            _show_class_shares(twin, epoch, kind, table, top)


def _heading():
    """A row for a title with a choice at its end."""
    row = {"horizontal": True, "vertical_alignment": "center", "horizontal_alignment": "distribute"}
    return st.container(gap="small", **row)


def _class_shares(twin: _Twin, kind: str) -> pd.DataFrame | None:
    """Shares by epoch and class id; None where the run does not measure them."""
    table = twin.past.vectors.get(_VECTORS[kind])
    if table is None or kind == "estimated":
        return table
    return table.div(table.sum(axis=1), axis=0)


def _show_class_shares(twin: _Twin, epoch: int, kind: str, table: pd.DataFrame | None, top: float) -> None:
    at = twin.shown(epoch)
    st.caption(f"{twin.letter} · {escape.markdown(twin.title)}")
    if table is None:
        st.caption(f"Not measured by {escape.markdown(twin.method)}." if twin.past.last_epoch else "No epoch yet.")
        return
    try:
        known = points.partition(twin.run)
    except Refusal as error:
        st.caption(escape.markdown(f"{error}."))
        return
    names = list(known.split.class_names)
    if at not in table.index or table.shape[1] != len(names):
        st.caption(f"Not recorded for epoch {at}.")
        return
    # an estimate is taken over other rows than all unlabeled images, and held against equal shares
    truth = true_shares(known.split.judged(known.targets), len(names)) if kind == "predicted" else None
    shares = table.loc[at].to_numpy()
    figure = pace_charts.classes(shares, truth, known.split.classes.seen, names, top, theme.palette())
    figure.update_layout(uirevision=f"{twin.run.id} {kind}")
    alt = f"{twin.letter}, {twin.method}: {_MEANING[kind]}, at epoch {at}"
    code = drawing_code.of_classes(folder_of(twin.run), _VECTORS[kind], at, is_counted=kind == "predicted")
    plot(figure, f"classes-{twin.letter}", alt, code=code)


def true_shares(truth: np.ndarray, classes: int) -> np.ndarray | None:
    """How the unlabeled images of known class spread over the classes; None where no class is known."""
    known = truth[(truth >= 0) & (truth < classes)]
    return np.bincount(known, minlength=classes) / len(known) if len(known) else None


def _show_points(twins: list[_Twin], rooms: _Rooms, epoch: int) -> None:
    """The features of each run on a plane of its own that stays the same over the epochs."""
    with rooms.point_head, _heading():
        coloring = select.choice("color", list(COLORINGS))
        words = "PCA of the features, fitted once on each run's newest epoch"
        colors = ":blue[seen] · :orange[novel] · " if coloring == "group" else ""
        st.markdown(f"**Projection** · :small[{colors}:gray[{words}]]")
        select.choose(st.selectbox, "color", "Colour by", COLORINGS, width=160, label_visibility="collapsed")
    for twin, place in zip(twins, rooms.points):
        with place:
            _show_run_points(twin, epoch, coloring)


def _show_run_points(twin: _Twin, epoch: int, coloring: str) -> None:
    at = stored_before(points.epochs(twin.run), twin.shown(epoch))
    more = f", epoch {at}" if at and at != epoch else ""
    st.caption(f"{twin.letter} · {escape.markdown(twin.title)}{more}")
    if at is None:
        st.caption("No features are stored for this epoch.")
        return
    try:
        table, frame = points.table(twin.run, at), _frame_of(twin.run)
        split = points.partition(twin.run).split
    except Refusal as error:
        st.caption(escape.markdown(f"{error}."))
        return
    names = list(split.class_names)
    figure = pace_charts.points(table, frame, coloring, split.classes.seen, names, theme.palette())
    figure.update_layout(uirevision=twin.run.id)
    alt = f"{twin.letter}, {twin.method}: features of {len(table)} unlabeled images at epoch {at} on a plane"
    plot(figure, f"points-{twin.letter}", alt)


def stored_before(stored: list[int], epoch: int) -> int | None:
    """The newest of the `stored` epochs up to `epoch`."""
    return max((e for e in stored if e <= epoch), default=None)


def _frame_of(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the view: around the points of the first, the middle and the newest epoch."""
    stored = points.epochs(run)
    chosen = dict.fromkeys((stored[0], stored[len(stored) // 2], stored[-1]))
    return pace_charts.frame_of([points.table(run, epoch) for epoch in chosen])
