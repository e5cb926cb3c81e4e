"""The parts of the Pace page: two to four runs of one split beside each other, under one epoch.

What stays (curves, marks, differences) and what moves with the epoch (numbers, classes, points) are fragments of their
own: a step draws the moving parts, and the browser alone moves the line in the curves (lps.ui.replay).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from lps import catalog, marks
from lps.marks import Mark
from lps.parameters import ConfigError
from lps.runs import Run, State
from lps.ui import charts, escape, maps, partners, points, replay, select, style, twin_charts
from lps.ui.live import History, history
from lps.ui.plot import plot

TICK_S = 2.0  # while a run is alive
LETTERS = "ABCD"
CLOCK = "pace"
MOVING = "pace-moving"  # the fragment that shows an epoch
SUGGESTIONS = 3
STYLE = (Path(__file__).parent / "twins.css").read_text(encoding="utf-8")
CLASSES = {"predicted": "Predicted", "estimated": "Estimated"}
VECTORS = {"predicted": "class/count_predicted", "estimated": "pi_hat"}
MEANING = {
    "predicted": "share of images taken for each class after matching; dashed: the truth",
    "estimated": "shares that the method estimates, pi_hat; dashed: all alike",
}


@dataclass(frozen=True)
class Twin:
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
class Rooms:
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


# ---------------------------------------------------------------------------------------------------- which runs


def show(runs: list[Run]) -> None:
    """Everything below the title."""
    st.html(f"<style>{STYLE}</style>")
    chosen = pick(runs)
    together = agreeing(chosen)
    if len(together) == 1:
        suggest(together[0], runs)
    rooms = lay_out(len(together))
    token = token_of(together)
    is_going_on = any(twin.is_going_on for twin in twins_of(together))
    tick = TICK_S if is_going_on else None
    seconds = replay.interval(token, tick)
    st.fragment(show_still, run_every=tick)(together, rooms, is_going_on)
    st.fragment(show_moving, run_every=seconds, key=MOVING)(together, rooms, token, tick, seconds)


def pick(runs: list[Run]) -> list[Run]:
    """A box for up to four runs; empty means `partners.usual_choice`, which it then shows."""
    by_id = {run.id: run for run in runs}
    named = select.picked(runs)
    chosen = named[: partners.MOST] or partners.usual_choice(runs)
    if len(named) > partners.MOST:
        st.warning(f"At most {partners.MOST} runs fit beside each other; the first {partners.MOST} are shown.")
    select.agree("twin_runs", [run.id for run in chosen])
    st.multiselect(
        "Runs",
        list(by_id),
        format_func=lambda name: select.label(by_id[name]),
        key="twin_runs",
        on_change=_remember_runs,
        max_selections=partners.MOST,
        placeholder="Choose two to four runs of one split",
        label_visibility="collapsed",
    )
    return chosen


def _remember_runs() -> None:
    st.query_params["run"] = st.session_state["twin_runs"]
    replay.forget()


def agreeing(chosen: list[Run]) -> list[Run]:
    """The first run and those that have its split; why the others are left out is said."""
    together = chosen[:1]
    for run in chosen[1:]:
        reason = partners.split_difference(chosen[0], run)
        if not reason:
            together.append(run)
            continue
        words = (
            f"{select.label(run)} is not shown beside {select.label(chosen[0])}, because their images and labels are "
        )
        words += f"not the same: {reason}."
        st.warning(escape.markdown(words), icon=":material/call_split:")
    return together


def suggest(run: Run, runs: list[Run]) -> None:
    """Runs that would stand well beside a single one."""
    fitting = partners.partners(run, runs)[:SUGGESTIONS]
    if not fitting:
        words = "There is no finished run of another method on this split yet to put beside it."
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(words, width="content")
            st.page_link("pages/launch.py", label="Launch one", icon=":material/rocket_launch:")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("Put beside it:", width="content")
        for partner in fitting:
            label = escape.markdown(select.label(partner))
            ids = [run.id, partner.id]
            icon = ":material/add:"
            st.button(label, key=f"beside-{partner.id}", icon=icon, on_click=_put_together, args=(ids,))


def _put_together(ids: list[str]) -> None:
    st.query_params["run"] = ids


def token_of(runs: list[Run]) -> str:
    """What the replay of these runs goes by (lps.ui.replay)."""
    return " ".join(run.id for run in runs)


def twins_of(runs: list[Run]) -> list[Twin]:
    return [_twin(letter, run, runs) for letter, run in zip(LETTERS, runs)]


def _twin(letter: str, run: Run, beside: list[Run]) -> Twin:
    try:
        settings = run.config()
        method, planned = catalog.method_info(settings.method).title, settings.epochs
    except ConfigError:
        method, planned = "this run", 0
    title = ", ".join([method, *partners.changes(run, beside, most=1)])
    return Twin(letter, run, run.state(), history(run), method, title, planned)


# ---------------------------------------------------------------------------------------------------- the page


def lay_out(count: int) -> Rooms:
    """Empty places from the top of the page to its end."""
    return Rooms(
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


def show_still(runs: list[Run], rooms: Rooms, was_going_on: bool) -> None:
    """What does not depend on the epoch that is shown."""
    twins = twins_of(runs)
    if was_going_on != any(twin.is_going_on for twin in twins):
        st.rerun()  # once more as a whole, without timers
    length = max(1, *(twin.length for twin in twins))
    ranges = twin_charts.tops([twin.past for twin in twins])
    for twin, head, curves in zip(twins, rooms.heads, rooms.curves):
        with head:
            show_head(twin, runs)
        with curves:
            show_curves(twin, twins, length, ranges)
    words = ":gray[all, KL; dotted: k-means before training; ▲: a mark; click: show that epoch]"
    rooms.curve_head.markdown(f"**Pace** · :small[:blue[seen] · :orange[novel] · {words}]", help=charts.MATCHING)
    with rooms.differences:
        if partners.kl_is_mixed(runs):
            st.caption(charts.MIXED_KL)
        show_differences(twins, length)


def show_moving(runs: list[Run], rooms: Rooms, token: str, tick: float | None, seconds: float | None) -> None:
    """What the epoch moves."""
    has_other_timer = replay.interval(token, tick) != seconds
    if has_other_timer and replay.is_playing(token):
        st.rerun()  # it began to play
    twins = twins_of(runs)
    last, length = max(twin.past.last_epoch for twin in twins), max(twin.length for twin in twins)
    if not last:
        for place in (rooms.bar, rooms.class_head, rooms.point_head, *rooms.numbers, *rooms.classes, *rooms.points):
            place.empty()
        rooms.bar.caption("No epoch of training has been recorded yet.")
        return
    epoch = replay.moment(token, last)
    with rooms.bar:
        is_growing = any(twin.is_going_on for twin in twins)
        replay.bar(token, epoch, last, length, CLOCK, is_growing=is_growing, remember=lambda: remember(runs))
    if has_other_timer:
        st.rerun()  # it ceased to play, as the bar says already
    for twin, place in zip(twins, rooms.numbers):
        with place:
            show_numbers(twin, epoch)
    show_classes(twins, rooms, epoch)
    show_points(twins, rooms, epoch)


def remember(runs: list[Run]) -> None:
    """Write the runs into the address where a choice of the page stands, so that the link shows these."""
    if "run" not in st.query_params:
        st.query_params["run"] = [run.id for run in runs]


# ---------------------------------------------------------------------------------------------------- what stays


def show_head(twin: Twin, beside: list[Run]) -> None:
    """Who this is, how it stands, and what makes it differ from those beside it."""
    with st.container(gap="xxsmall"):
        st.markdown(f"**{twin.letter} · {escape.markdown(select.title(twin.run))}**")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if twin.run.is_recorded:
                style.badge("recorded")
            elif twin.state.name != "finished":
                style.badge(twin.state.name)
            st.caption(escape.markdown(" · ".join([twin.method, *about(twin.run, beside)])), width="content")
            link = {"query_params": {"run": twin.run.id}}
            st.page_link("pages/live.py", label=":small[Live]", icon=":material/open_in_new:", **link)


def about(run: Run, beside: list[Run]) -> list[str]:
    """The seed, and the settings that tell a run from those beside it, in words."""
    try:
        return [f"seed {run.config().seed}", *partners.changes(run, beside)]
    except ConfigError:
        return []


def marks_of(past: History) -> list[Mark]:
    """The marks of what a run has recorded up to now."""
    names = ("accuracy/seen", "accuracy/novel", "kl")
    table = pd.DataFrame({name: past.column(name) for name in names}, dtype=float)
    return marks.find(table.index.to_numpy(), *(table[name].to_numpy(float) for name in names))


def show_curves(twin: Twin, twins: list[Twin], length: int, ranges: dict) -> None:
    """The pace of one run, and its marks as buttons that lead to their epochs."""
    if not twin.past.last_epoch:
        st.caption(f"{twin.letter} has recorded no epoch of training yet.")
        return
    found = marks_of(twin.past)
    arguments = (twin.letter, twin.past, length, ranges, found, twin.method, not twin.is_going_on, style.palette())
    figure = twin_charts.pace(*arguments).update_layout(uirevision=twin.run.id)
    alt = f"{twin.letter}, {twin.method}: seen and novel accuracy with their gap, KL, margins, thresholds over epochs. "
    alt += "; ".join(mark.words for mark in found)
    clicked = plot(figure, f"pace-{twin.letter}", alt, clickable=True, clock=CLOCK)
    last = max(other.past.last_epoch for other in twins)
    ids = [other.run for other in twins]
    if clicked is not None:
        replay.go(token_of(ids), clicked, last)
        remember(ids)
        st.rerun()
    with st.container(gap=None):
        for mark in found:
            label = f":small[{mark.words[0].upper()}{mark.words[1:]}]"
            key, help = f"mark-{twin.letter}-{mark.kind}", f"Show epoch {mark.epoch} of all runs"
            asked = (mark.epoch, last, ids)
            st.button(label, key=key, type="tertiary", icon=":material/flag:", help=help, on_click=_jump, args=asked)


def _jump(epoch: int, last: int, runs: list[Run]) -> None:
    replay.go(token_of(runs), epoch, last)
    remember(runs)
    st.rerun(MOVING)


def show_differences(twins: list[Twin], length: int) -> None:
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
            f"{first.letter} − {twin.letter}": twin_charts.difference(first.past, twin.past, key, in_size)
            for twin in others
        }
        figure = twin_charts.differences(columns, length, style.palette())
        figure.update_layout(uirevision=" ".join(twin.run.id for twin in twins))
        with place:
            st.caption(f"{words[name]}; {means[name]}")
            plot(figure, f"difference-{name}", f"{words[name]}, {', '.join(columns)}, in points", clock=CLOCK)


# ---------------------------------------------------------------------------------------------------- what moves


def show_numbers(twin: Twin, epoch: int) -> None:
    """Seen, novel and their gap at the epoch, and where the run is when it is not there."""
    st.markdown(f"{numbers(twin, epoch)}  \n:small[:gray[{twin.letter} · {standing(twin, epoch)}]]")


def numbers(twin: Twin, epoch: int) -> str:
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


def standing(twin: Twin, epoch: int) -> str:
    """Which epoch of the run is shown, in words."""
    last = twin.past.last_epoch
    if not last:
        return "no epoch yet"
    if epoch <= last:
        return f"epoch {epoch}"
    return f":material/flag_2: {'has reached' if twin.is_going_on else 'at its end,'} epoch {last}"


def show_classes(twins: list[Twin], rooms: Rooms, epoch: int) -> None:
    """How many images each run takes for each class, beside how many there are."""
    with rooms.class_head, _heading():
        kind = select.choice("classes", list(CLASSES))
        st.markdown(f"**Classes** · :small[:blue[seen] · :orange[novel] · :gray[{MEANING[kind]}]]")
        select.choose(st.segmented_control, "classes", "Classes", CLASSES, required=True, label_visibility="collapsed")
    found = [class_shares(twin, kind) for twin in twins]
    top = max((float(np.nanmax(table.to_numpy())) for table in found if table is not None and table.size), default=0)
    for twin, place, table in zip(twins, rooms.classes, found):
        with place:
            show_class_shares(twin, epoch, kind, table, top)


def _heading():
    """A row for a title with a choice at its end."""
    row = {"horizontal": True, "vertical_alignment": "center", "horizontal_alignment": "distribute"}
    return st.container(gap="small", **row)


def class_shares(twin: Twin, kind: str) -> pd.DataFrame | None:
    """Shares by epoch and class id; None where the run does not measure them."""
    table = twin.past.vectors.get(VECTORS[kind])
    if table is None or kind == "estimated":
        return table
    return table.div(table.sum(axis=1), axis=0)


def show_class_shares(twin: Twin, epoch: int, kind: str, table: pd.DataFrame | None, top: float) -> None:
    at = twin.shown(epoch)
    st.caption(f"{twin.letter} · {escape.markdown(twin.title)}")
    if table is None:
        st.caption(f"Not measured by {escape.markdown(twin.method)}." if twin.past.last_epoch else "No epoch yet.")
        return
    try:
        known = points.partition(twin.run)
    except ConfigError as error:
        st.caption(escape.markdown(f"{error}."))
        return
    names = list(known.split.class_names)
    if at not in table.index or table.shape[1] != len(names):
        st.caption(f"Not recorded for epoch {at}.")
        return
    # an estimate is taken over other rows than all unlabeled images, and held against equal shares
    truth = true_shares(known.split.judged(known.targets), len(names)) if kind == "predicted" else None
    shares = table.loc[at].to_numpy()
    figure = twin_charts.classes(shares, truth, known.split.classes.seen, names, top, style.palette())
    figure.update_layout(uirevision=f"{twin.run.id} {kind}")
    alt = f"{twin.letter}, {twin.method}: {MEANING[kind]}, at epoch {at}"
    plot(figure, f"classes-{twin.letter}", alt)


def true_shares(truth: np.ndarray, classes: int) -> np.ndarray | None:
    """How the unlabeled images of known class spread over the classes; None where no class is known."""
    known = truth[(truth >= 0) & (truth < classes)]
    return np.bincount(known, minlength=classes) / len(known) if len(known) else None


def show_points(twins: list[Twin], rooms: Rooms, epoch: int) -> None:
    """The features of each run on a plane of its own that stays the same over the epochs."""
    with rooms.point_head, _heading():
        coloring = select.choice("color", list(maps.COLORINGS))
        words = "PCA of the features, fitted once on each run's newest epoch"
        colors = ":blue[seen] · :orange[novel] · " if coloring == "group" else ""
        st.markdown(f"**Projection** · :small[{colors}:gray[{words}]]")
        select.choose(st.selectbox, "color", "Colour by", maps.COLORINGS, width=160, label_visibility="collapsed")
    for twin, place in zip(twins, rooms.points):
        with place:
            show_run_points(twin, epoch, coloring)


def show_run_points(twin: Twin, epoch: int, coloring: str) -> None:
    at = stored_before(points.epochs(twin.run), twin.shown(epoch))
    more = f", epoch {at}" if at and at != epoch else ""
    st.caption(f"{twin.letter} · {escape.markdown(twin.title)}{more}")
    if at is None:
        st.caption("No features are stored for this epoch.")
        return
    try:
        table, frame = points.table(twin.run, at), frame_of(twin.run)
        split = points.partition(twin.run).split
    except ConfigError as error:
        st.caption(escape.markdown(f"{error}."))
        return
    names = list(split.class_names)
    figure = twin_charts.points(table, frame, coloring, split.classes.seen, names, style.palette())
    figure.update_layout(uirevision=twin.run.id)
    alt = f"{twin.letter}, {twin.method}: features of {len(table)} unlabeled images at epoch {at} on a plane"
    plot(figure, f"points-{twin.letter}", alt)


def stored_before(stored: list[int], epoch: int) -> int | None:
    """The newest of the `stored` epochs up to `epoch`."""
    return max((e for e in stored if e <= epoch), default=None)


def frame_of(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the view: around the points of the first, the middle and the newest epoch."""
    stored = points.epochs(run)
    chosen = dict.fromkeys((stored[0], stored[len(stored) // 2], stored[-1]))
    return twin_charts.frame_of([points.table(run, epoch) for epoch in chosen])
