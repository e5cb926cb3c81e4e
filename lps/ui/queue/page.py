"""The pieces of the Queue page: devices with what runs on them, the line of what waits, and what can be done with it.

Nothing but the choice of rows is kept by the page; every look reads the folders anew. The line is one table, and the
buttons beside it act on its ticked rows: a row that moves away under the pointer stays ticked.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from lps.errors import Refusal
from lps.exchange import messages
from lps.files.atomic import refused
from lps.machine import devices, usage
from lps.running import costs, launcher, overview, queue, run_slots
from lps.running.overview import Going, Occupancy, Waiting
from lps.store import titles, wishes
from lps.store.runs import RUN_ID, Run
from lps.store.wishes import MOST_PRIORITY
from lps.ui.shared import background_work, escape, estimates, refusals, select, theme
from lps.wording import counted, data_size

_TICK_S = 3.0  # while something runs or waits
_ROWS = 12  # of the line in sight
_MOST_JOBS = 8  # background jobs listed at once
_MOST_BROKEN = 20  # runs that broke off, listed at once
_DRIVER_S = 2.5  # how long an answer of the driver is kept
_GB = 1e9


def main() -> None:
    """The whole page."""
    st.title("Queue")
    moves = is_moving()
    st.fragment(_watch, run_every=_TICK_S if moves else None)(moves)


def _watch(was_moving: bool) -> None:
    """Everything; goes on refreshing itself while something runs or waits."""
    if show() != was_moving:
        st.rerun()  # with or without the timer


def is_moving() -> bool:
    """Whether the page has something to follow."""
    try:
        return _is_moving(_look())
    except Refusal:
        return False  # said by `show`


def show() -> bool:
    """The whole page below its title; returns whether something runs or waits."""
    try:
        found, now = _look(), time.time()
    except Refusal as error:  # LPS_CPU_SLOTS is no number
        st.error(escape.markdown(str(error)), icon=":material/block:")
        return False
    _show_head(found, now)
    refusals.show("queue", ":material/block:")
    _show_devices(found, now)
    _show_jobs(found)
    _show_line(found, now)
    _show_broken(found)
    _show_who_is_told()
    return _is_moving(found)


def _show_who_is_told() -> None:
    told = ", ".join(messages.kinds())
    st.caption(
        f"Told when a run ends or goes wrong: {escape.markdown(told)}."
        if told
        else "Nobody is told when a run ends or goes wrong; the setting `LPS_NOTIFY` names a web hook, a mail address "
        "or this desktop (README)."
    )


def _is_moving(found: Occupancy) -> bool:
    return bool(found.going or found.waiting or found.working)


def _look() -> Occupancy:
    return overview.look(select.runs_root(), known=estimates.known_costs())


# ---------------------------------------------------------------------------------------------------- head


def _show_head(found: Occupancy, now: float) -> None:
    """How much there is, when it will be over, and the switch of the whole queue."""
    if found.switch.problem:
        st.warning(escape.markdown(found.switch.problem), icon=":material/broken_image:")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(escape.markdown(summary(found, now)), width="stretch")
        _show_switch(found)
    if not found.is_tended:
        words = escape.markdown(found.still)
        st.warning(f"{words[:1].upper()}{words[1:]}.", icon=":material/hourglass_disabled:")
    if found.switch.paused:
        since = f" since {overview.clock(found.switch.since, now)}" if found.switch.since else ""
        st.info(f"The queue is paused{since}: what runs goes on, nothing else starts.", icon=":material/pause_circle:")
    if not _is_moving(found):
        st.info("Nothing runs and nothing waits.", icon=":material/event_available:")
        with st.container(horizontal=True):
            st.page_link("pages/launch.py", label="Launch a run", icon=":material/rocket_launch:")
            st.page_link("pages/sweeps.py", label="Lay out a sweep", icon=":material/dynamic_feed:")


def summary(found: Occupancy, now: float) -> str:
    """ "2 running, 5 waiting (1 held); done at about 14:05 (in about 20 min)." """
    if not _is_moving(found):
        return ""
    held = f" ({found.held} held)" if found.held else ""
    words = f"{len(found.going)} running, {len(found.waiting)} waiting{held}"
    if found.working:
        words += f", {counted(len(found.working), 'background job')}"
    end = overview.end_in_words(found, now)
    return f"{words}; {end}." if end else f"{words}."


def _show_switch(found: Occupancy) -> None:
    if found.switch.paused:
        label, icon, kind = "Let it go on", ":material/play_arrow:", "primary"
    else:
        label, icon, kind = "Pause the queue", ":material/pause:", "secondary"
    if found.waiting or found.going or found.switch.paused:
        st.button(label, key="queue_switch", icon=icon, type=kind, on_click=_switch, args=(not found.switch.paused,))


def _switch(paused: bool) -> None:
    _try([lambda: queue.set_paused(select.runs_root(), paused)])


# ---------------------------------------------------------------------------------------------------- devices


def _show_devices(found: Occupancy, now: float) -> None:
    """One box a device: how busy it is, and its slots with what runs on them."""
    gpus, on_gpus, share = _asked_devices()
    names = list(found.slots)
    boxes = {gpu.index: [name for name in names if name == f"cuda-{gpu.index}"] for gpu in gpus}
    rest = [name for name in names if not any(name in slots for slots in boxes.values())]
    labels = {device.index: device.label for device in devices.list_devices() if device.name != "cpu"}
    with st.grid(min(2, 1 + len(boxes)), min_column_width=300):
        with st.container(border=True):
            _show_machine(usage.machine(), share)
            _show_slots(found, rest, on_gpus, now)
            _show_number(found)
        for gpu in gpus:
            with st.container(border=True):
                _show_gpu(gpu, labels.get(gpu.index, ""))
                _show_slots(found, boxes[gpu.index], on_gpus, now)
    _show_elsewhere([item for item in found.going if not set(item.slots) & set(names)], now)


@st.cache_resource(ttl=_DRIVER_S, max_entries=1, show_spinner=False)
def _asked_devices() -> tuple[list[usage.Gpu], dict[int, int], float | None]:
    """GPUs, GPU memory by process, share of busy cores since the last look: asked once for all who look."""
    gpus = usage.gpus()
    return gpus, usage.gpu_processes(gpus), _meter().read()


class _Meter:
    """How busy the processor was between two readings."""

    def __init__(self):
        self._before = usage.processor_times()

    def read(self) -> float | None:
        now = usage.processor_times()
        share, self._before = usage.busy_share(self._before, now), now
        return share


@st.cache_resource(show_spinner=False)
def _meter() -> _Meter:
    return _Meter()


def _show_machine(machine: usage.MachineLoad, share: float | None) -> None:
    cores = counted(machine.cores, "core")
    st.markdown(f"**CPU** :gray[{cores}]")
    _show_bar("Processor", share, "" if machine.load is None else f"load {machine.load:.1f}")
    _show_memory(machine.memory_used, machine.memory_total)


def _show_number(found: Occupancy) -> None:
    """How many runs the processor takes at a time, and where that is said."""
    number, demanded = run_slots.cpu_slots(select.runs_root()), run_slots.demanded_cpu_slots()
    words = f"{counted(number, 'run')} at a time on the processor"
    if demanded is not None:
        st.caption(f"{words}, by LPS_CPU_SLOTS where this dashboard was started: it goes before what is set here.")
        return
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="small"):
        st.caption(words, width="content")
        with st.popover("Change", icon=":material/tune:", type="tertiary"):
            _ask_number(found, number)


def _ask_number(found: Occupancy, number: int) -> None:
    new = st.number_input("Runs at a time", 1, queue.MOST_CPU_SLOTS, number, 1, key="queue_slots")
    st.caption(f"{overview.suggestion_in_words(found)} What runs goes on.")
    root = select.runs_root()
    st.button(
        "Set",
        key="queue_slots_set",
        type="primary",
        on_click=_try,
        args=([lambda: queue.set_cpu_slots(root, int(new))],),
    )


def _show_gpu(gpu: usage.Gpu, label: str) -> None:
    st.markdown(f"**GPU {gpu.index}** :gray[{escape.markdown(label)}]")
    _show_bar("Processor", gpu.busy, "")
    _show_memory(gpu.memory_used, gpu.memory_total)


def _show_memory(used: int | None, total: int | None) -> None:
    if used is None or not total:
        _show_bar("Memory", None, "")
    else:
        _show_bar("Memory", used / total, f"{used / _GB:.1f} of {total / _GB:.1f} GB")


def _show_bar(name: str, share: float | None, more: str) -> None:
    """A share as a bar; without one the words alone, since an empty bar would say that nothing is in use."""
    words = " · ".join(filter(None, [name if share is None else f"{name} {100 * share:.0f} %", more]))
    if share is None:  # on a fresh page the processor's is known at the second look; the load says enough until then
        st.caption(words if more else f"{words} · share unknown")
    else:
        st.progress(min(1.0, max(0.0, share)), text=f":small[{words}]")


def _show_slots(found: Occupancy, names: Sequence[str], on_gpus: dict[int, int], now: float) -> None:
    is_starting = any(not item.slots for item in found.going)
    for name in names:
        item = found.on(name)
        if item is not None:
            _show_going(item, now, name, on_gpus)
        elif found.slots[name]:
            words = "a run is starting" if is_starting else "in use by a run that is not here any more"
            st.caption(f"{name} · {words}")
        else:
            st.caption(f"{name} · free")


def _show_going(item: Going, now: float, place: str, on_gpus: dict[int, int]) -> None:
    with st.container(gap="xxsmall"):
        query = {"run": item.run.id}
        st.page_link("pages/live.py", label=escape.markdown(titles.title(item.run)), query_params=query)
        words = [place, *_since(item, now), *_uses(usage.of_runner(item.run.read_json("process.json"), on_gpus))]
        if item.share is None:
            st.caption(escape.markdown(" · ".join(words)))
        else:
            st.progress(item.share, text=f":small[{escape.markdown(' · '.join(words))}]")


def _since(item: Going, now: float) -> list[str]:
    words = [] if item.state.name == "running" else [theme.BADGES.get(item.state.name, ("Unknown",))[0].lower()]
    words += [f"since {overview.clock(item.since, now)}"] if item.since else []
    return words + [overview.left_in_words(item.left)]


def _uses(share: usage.Share | None) -> list[str]:
    """Memory of a run's processes."""
    if share is None:
        return []
    on_gpu = [] if share.gpu_memory is None else [f"{data_size(share.gpu_memory)} on the GPU"]
    return [f"{data_size(share.memory)} of memory", *on_gpu]


def _show_elsewhere(items: Sequence[Going], now: float) -> None:
    """Runs that hold no slot of this machine: about to begin, or on a cluster."""
    if not items:
        return
    with st.container(border=True):
        st.markdown("**Without a slot here** :gray[starting, or on a cluster]")
        for item in items:
            _show_going(item, now, item.run.wish().on or "this machine", {})


# ---------------------------------------------------------------------------------------------------- background jobs


def _show_jobs(found: Occupancy) -> None:
    """Class counts and data checks: how far each is, with the button that ends it, or its outcome."""
    if not found.jobs:
        return
    with st.container(border=True):
        st.markdown("**Background jobs** :gray[take no slot and give way to runs]")
        for job in found.jobs[:_MOST_JOBS]:
            background_work.show_work(job)


# ---------------------------------------------------------------------------------------------------- line


def _show_line(found: Occupancy, now: float) -> None:
    """The table of what waits, and what can be done with the ticked rows."""
    if not found.going and not found.waiting:
        return  # said at the top
    st.subheader("Waiting", anchor=False)
    if not found.waiting:
        st.caption("Nothing waits for a slot.")
        return
    ids = [item.run.id for item in found.waiting]
    kept = set(st.session_state.get("queue_chosen", []))
    alt = "The runs that wait, the next one first"
    places = select.tick_rows(table(found.waiting, now), "queue", ids, kept, _ROWS, _columns(), alt)
    chosen = [found.waiting[place] for place in places]
    st.session_state["queue_chosen"] = [item.run.id for item in chosen]
    _show_actions(chosen, now)


def table(waiting: Sequence[Waiting], now: float) -> pd.DataFrame:
    """One row a run, the next one first; columns in which nothing stands are left out."""
    frame = pd.DataFrame([_row(place, item, now) for place, item in enumerate(waiting, 1)])
    for column in ("Priority", "Waits for", "Takes", "Starts", "Retries"):
        if not frame[column].map(lambda value: bool(value) and value == value).any():
            del frame[column]
    return frame


def _row(place: int, item: Waiting, now: float) -> dict[str, object]:
    parts = item.run.id.split("-") if RUN_ID.fullmatch(item.run.id) else []
    reason = wishes.in_words(item.wish, now)
    start = None if item.start is None or (place == 1 and item.start <= now) else item.start
    return {
        "Place": place,
        "Name": titles.title(item.run),
        "Waits for": reason,
        "Priority": item.wish.priority,
        "Takes": None if item.takes is None else costs.span_in_words(item.takes),
        "Starts": _clock(start, now, item.certain),
        "Retries": f"{item.wish.retried} of {item.wish.retries}" if item.wish.retries else "",
        "Method": parts[3].upper() if parts else "",
        "Data set": parts[2] if parts else "",
        "Asked": datetime.fromtimestamp(item.wish.time, UTC) if item.wish.time else None,
        "Id": item.run.id[-6:],
    }


def _clock(when: float | None, now: float, is_certain: bool) -> str:
    if when is None or when <= now:
        return ""
    return overview.clock(when, now) + ("" if is_certain else " or later")


def _columns() -> dict:
    columns = st.column_config
    return {
        "Place": columns.NumberColumn("#", width=40),
        "Name": columns.TextColumn(width=210, pinned=True),
        "Waits for": columns.TextColumn(width=190, help="What else than a free slot it waits for"),
        "Priority": columns.NumberColumn(width=64, help="A higher one goes before all others"),
        "Takes": columns.TextColumn(width=110, help="As long as runs like it, at the speed of now"),
        "Starts": columns.TextColumn(width=110, help="By the runs before it, as far as they are known"),
        "Retries": columns.TextColumn(width=70, help="How often it was started again after a crash"),
        "Method": columns.TextColumn(width=90),
        "Data set": columns.TextColumn(width=80),
        "Asked": columns.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone=st.context.timezone, width=130),
        "Id": columns.TextColumn(width=75, help="The end of the run's id; it does for every command"),
    }


def _show_actions(chosen: Sequence[Waiting], now: float) -> None:
    """Buttons for the ticked rows; they are always there, so that nothing moves when a row is ticked."""
    runs = [item.run for item in chosen]
    delayed = [item.run for item in chosen if item.wish.held or queue.is_early(item.wish, now)]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="queue_bar"):
        st.markdown(f"**{len(chosen)} chosen**" if chosen else ":gray[Tick rows]", width="content")
        words = "Start before all others"
        _button("First", "queue_first", ":material/vertical_align_top:", words, runs[::-1], queue.put_first)
        words = "Start a run that waits for its next try, or that an earlier version held, when a slot is free"
        _button("Retry now", "queue_now", ":material/replay:", words, delayed, queue.retry_now)
        words = "Take out of the queue; the run can be resumed later"
        _button("Cancel", "queue_cancel", ":material/close:", words, runs, _cancel)
        with st.popover("Priority", icon=":material/low_priority:", disabled=not runs):
            _ask_priority(chosen)


def _ask_priority(chosen: Sequence[Waiting]) -> None:
    first = chosen[0].wish.priority if chosen else 0
    limits = {"min_value": -MOST_PRIORITY, "max_value": MOST_PRIORITY}
    number = st.number_input("A higher one goes first", value=first, step=1, key="queue_priority", **limits)
    runs = [item.run for item in chosen]
    _button("Set", "queue_set", None, None, runs, lambda run: queue.set_priority(run, int(number)))


def _button(label: str, key: str, icon, help, runs: Sequence[Run], act: Callable[[Run], object]) -> None:
    """A button that does something with every one of `runs`, in this order."""
    acts = [lambda run=run: act(run) for run in runs]
    st.button(label, key=key, icon=icon, help=help, disabled=not runs, on_click=_try, args=(acts,))


def _cancel(run: Run) -> None:
    """Only while it still waits: what has begun meanwhile is not stopped by a click on a row of before."""
    if run.waiting_attempt() and run.state().name == "queued":
        launcher.stop(run)
    else:
        raise Refusal("run", f"{run.id} is {queue.state_in_words(run)} by now and was left alone")


def _try(acts: Sequence[Callable[[], object]]) -> None:
    """Do all of it, then start what may start now; what cannot be done is said once."""
    root = select.runs_root()
    for act in (*acts, lambda: launcher.pump(root)):
        with refusals.kept("queue"), refused("runs", f"{root} cannot be written to"):
            act()


# ---------------------------------------------------------------------------------------------------- broken off


def _show_broken(found: Occupancy) -> None:
    """Runs whose processes vanished: they go on from their last checkpoint."""
    if not found.broken:
        return
    with st.expander(f"Broken off ({len(found.broken)})", icon=":material/bolt:"):
        for run in found.broken[:_MOST_BROKEN]:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                state = run.state()
                theme.badge(state.name)
                words = f"{escape.markdown(titles.label(run))} :gray[{escape.markdown(state.reason)}]"
                st.markdown(words, width="stretch")
                _button("Retry", f"queue_retry_{run.id}", ":material/replay:", None, [run], launcher.resume)
        if len(found.broken) > _MOST_BROKEN:
            st.caption(f"and {len(found.broken) - _MOST_BROKEN} more, on the page Runs")
