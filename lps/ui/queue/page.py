"""The page Queue: devices with their runs, the table of waiting runs, and the actions on its selected rows.

The page stores which rows are selected, by run id, so a row that moves stays selected. Every refresh reads the folders
of the runs again.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import streamlit as st

from lps.errors import UserError
from lps.files.atomic import as_user_error
from lps.interop import notifications
from lps.machine import devices, usage
from lps.scheduler import costs, launcher, overview, queue, run_slots
from lps.scheduler.overview import QueuedJob, QueueSnapshot, RunningJob
from lps.store import desired_state, titles
from lps.store.desired_state import MAX_PRIORITY
from lps.store.runs import RUN_ID, Run
from lps.ui.forms import background_work
from lps.ui.shared import click_errors, data_table, escape, live_part, page_head, select, theme, time_estimates
from lps.ui.shared.data_table import Column
from lps.wording import capitalized, counted, data_size

_TICK_S = 3.0  # while something runs or waits
_ROWS = 12  # of the table in sight
_LETTERS = 50  # of a name: the other columns are narrow
_MAX_JOBS = 8  # background jobs listed at once
_MAX_INTERRUPTED = 20  # interrupted runs listed at once
_DRIVER_S = 2.5  # how long an answer of the driver is reused
_GB = 1e9


def main() -> None:
    """Draw the page; it refreshes itself while something runs or waits."""
    page_head.show_title("Queue", offers_runs=False)
    try:
        snapshot = _read_snapshot()
    except UserError as error:  # LPS_CPU_SLOTS is no number
        st.error(escape.sentence(error), icon=":material/block:")
        return
    live_part.follow_changes(_read_snapshot, _is_moving, _show_queue, _TICK_S, snapshot)


def _show_queue(snapshot: QueueSnapshot) -> None:
    """Draw everything below the title."""
    now = time.time()
    _show_head(snapshot, now)
    click_errors.show_errors("queue", ":material/block:")
    _show_devices(snapshot, now)
    _show_jobs(snapshot)
    _show_waiting(snapshot, now)
    _show_interrupted(snapshot)
    _explain_ranges(snapshot)
    _show_notifications()


def _explain_ranges(snapshot: QueueSnapshot) -> None:
    """Say why a duration is a wide range; below everything, so that nothing moves when it comes and goes."""
    spans = [item.time_left for item in snapshot.running] + [item.duration for item in snapshot.waiting]
    if any(span is not None and costs.is_wide(span) for span in spans):
        st.caption(f"Some durations are wide ranges: {costs.wide_cause()}.")


def _show_notifications() -> None:
    channels = ", ".join(notifications.kinds())
    st.caption(
        f"Notifications when a run ends or goes wrong: {escape.markdown(channels)}."
        if channels
        else "Notifications are off. Set `LPS_NOTIFY` to a web hook, a mail address or `desktop://`."
    )


def _is_moving(snapshot: QueueSnapshot) -> bool:
    return bool(snapshot.running or snapshot.waiting or snapshot.working_jobs)


def _read_snapshot() -> QueueSnapshot:
    return overview.read_queue(select.runs_root(), known_costs=time_estimates.known_costs())


# ---------------------------------------------------------------------------------------------------- head


def _show_head(snapshot: QueueSnapshot, now: float) -> None:
    """Show the numbers of runs, the expected end, and the button that pauses the queue."""
    if snapshot.switch.problem:
        st.warning(escape.markdown(snapshot.switch.problem), icon=":material/broken_image:")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(escape.markdown(_summarize_queue(snapshot, now)), width="stretch")
        _show_switch(snapshot)
    if snapshot.stall_reason:
        sentence = escape.markdown(snapshot.stall_reason)
        st.warning(f"{capitalized(sentence)}.", icon=":material/hourglass_disabled:")
    if snapshot.switch.paused:
        since = f" since {overview.time_of_day(snapshot.switch.since, now)}" if snapshot.switch.since else ""
        sentence = f"The queue is paused{since}. Running runs continue; waiting runs do not start."
        st.info(sentence, icon=":material/pause_circle:")
    if not _is_moving(snapshot):
        st.info("No runs are running or waiting.", icon=":material/event_available:")
        with st.container(horizontal=True):
            st.page_link("pages/launch.py", label="Launch a run", icon=":material/rocket_launch:")
            st.page_link("pages/sweeps.py", label="Set up a sweep", icon=":material/dynamic_feed:")


def _summarize_queue(snapshot: QueueSnapshot, now: float) -> str:
    """Return the numbers of runs and the expected end: "2 running, 5 waiting (1 held); done at about 14:05"."""
    if not _is_moving(snapshot):
        return ""
    held_text = f" ({snapshot.num_held} held)" if snapshot.num_held else ""
    numbers = f"{len(snapshot.running)} running, {len(snapshot.waiting)} waiting{held_text}"
    if snapshot.working_jobs:
        numbers += f", {counted(len(snapshot.working_jobs), 'background job')}"
    end_text = overview.end_in_words(snapshot, now)
    return f"{numbers}; {end_text}." if end_text else f"{numbers}."


def _show_switch(snapshot: QueueSnapshot) -> None:
    pause = not snapshot.switch.paused
    if pause and not (snapshot.waiting or snapshot.running):
        return
    if pause:
        label, icon, kind = "Pause the queue", ":material/pause:", "secondary"
    else:
        label, icon, kind = "Resume the queue", ":material/play_arrow:", "primary"
    root = select.runs_root()
    changes = [lambda: queue.set_paused(root, pause)]
    st.button(label, key="queue_switch", icon=icon, type=kind, on_click=_apply_all, args=(changes,))


# ---------------------------------------------------------------------------------------------------- devices


def _show_devices(snapshot: QueueSnapshot, now: float) -> None:
    """Show one box per device: its load, and its slots with their runs."""
    gpus, gpu_memory_of_processes, share = _read_devices()
    names = list(snapshot.slots)
    gpu_names = {f"cuda-{gpu.index}" for gpu in gpus}
    labels = {device.index: device.label for device in devices.list_devices() if device.name != "cpu"}
    with st.grid(min(2, 1 + len(gpus)), min_column_width=300):
        with st.container(border=True):
            machine = usage.machine_load()
            st.markdown(f"**CPU** :gray[{counted(machine.cores, 'core')}]")
            _show_bar("Processor", share, "" if machine.load is None else f"load {machine.load:.1f}")
            _show_memory(machine.memory_used, machine.memory_total)
            _show_slots(snapshot, [name for name in names if name not in gpu_names], gpu_memory_of_processes, now)
            _show_cpu_slots(snapshot)
        for gpu in gpus:
            with st.container(border=True):
                st.markdown(f"**GPU {gpu.index}** :gray[{escape.markdown(labels.get(gpu.index, ''))}]")
                _show_bar("Processor", gpu.busy, "")
                _show_memory(gpu.memory_used, gpu.memory_total)
                _show_slots(
                    snapshot, [name for name in names if name == f"cuda-{gpu.index}"], gpu_memory_of_processes, now
                )
    _show_jobs_without_slot([item for item in snapshot.running if not set(item.slots) & set(names)], now)


@st.cache_resource(ttl=_DRIVER_S, max_entries=1, show_spinner=False)
def _read_devices() -> tuple[list[usage.Gpu], dict[int, int], float | None]:
    """Return GPUs, GPU memory by process, and the share of busy cores since the last call; shared by all sessions."""
    gpus = usage.gpu_usage()
    return gpus, usage.gpu_processes(gpus), _cpu_meter().read()


class _CpuMeter:
    """Measure the processor's load between two readings."""

    def __init__(self):
        self._before = usage.processor_times()

    def read(self) -> float | None:
        now = usage.processor_times()
        share, self._before = usage.busy_share(self._before, now), now
        return share


@st.cache_resource(show_spinner=False)
def _cpu_meter() -> _CpuMeter:
    return _CpuMeter()


def _show_cpu_slots(snapshot: QueueSnapshot) -> None:
    """Show how many runs the processor takes at a time, and a field that changes it."""
    root = select.runs_root()
    number = snapshot.cpu_slots
    is_automatic = run_slots.chosen_cpu_slots(root) is None
    slots_text = f"{counted(number, 'run')} at a time on the processor{' (automatic)' * is_automatic}"
    if run_slots.cpu_slots_from_environment() is not None:
        st.caption(
            f"{slots_text}, set by LPS_CPU_SLOTS when this dashboard was started. It overrides the setting here."
        )
        return
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="small"):
        st.caption(slots_text, width="content")
        with st.popover("Change", icon=":material/tune:", type="tertiary"):
            chosen_slots = st.number_input("Runs at a time", 1, queue.MAX_CPU_SLOTS, number, 1, key="queue_slots")
            st.caption(f"{overview.suggestion_in_words(snapshot)} Running runs are not stopped.")
            changes = [lambda: queue.set_cpu_slots(root, int(chosen_slots))]
            st.button("Set", key="queue_slots_set", type="primary", on_click=_apply_all, args=(changes,))
            if not is_automatic:
                changes = [lambda: queue.reset_cpu_slots(root)]
                help_text = "Starts another run whenever enough cores are free for its threads"
                st.button(
                    "Automatic", key="queue_slots_automatic", help=help_text, on_click=_apply_all, args=(changes,)
                )


def _show_memory(used: int | None, total: int | None) -> None:
    if used is None or not total:
        _show_bar("Memory", None, "")
    else:
        _show_bar("Memory", used / total, f"{used / _GB:.1f} of {total / _GB:.1f} GB")


def _show_bar(name: str, share: float | None, detail: str) -> None:
    """Show a share as a bar; only words if it is unknown, since an empty bar would mean that nothing is in use."""
    text = " · ".join(filter(None, [name if share is None else f"{name} {100 * share:.0f} %", detail]))
    if share is None:  # the share of the processor is known from the second reading on; the load is shown until then
        st.caption(text if detail else f"{text} · not measured yet")
    else:
        st.progress(min(1.0, max(0.0, share)), text=f":small[{text}]")


def _show_slots(
    snapshot: QueueSnapshot, names: Sequence[str], gpu_memory_of_processes: dict[int, int], now: float
) -> None:
    is_starting = any(not item.slots for item in snapshot.running)
    for name in names:
        item = snapshot.on(name)
        if item is not None:
            _show_running_job(item, now, name, gpu_memory_of_processes)
        elif snapshot.slots[name]:
            slot_state = "a run is starting" if is_starting else "in use by a run that was removed"
            st.caption(f"{name} · {slot_state}")
        else:
            st.caption(f"{name} · free")


def _show_running_job(item: RunningJob, now: float, place: str, gpu_memory_of_processes: dict[int, int]) -> None:
    parts = [place]
    if item.state.name != "running":
        parts.append(theme.BADGES.get(item.state.name, ("Unknown",))[0].lower())
    if item.since:
        parts.append(f"since {overview.time_of_day(item.since, now)}")
    parts.append(overview.time_left_in_words(item.time_left))
    used = usage.read_runner_usage(item.run.read_json("process.json"), gpu_memory_of_processes)
    if used is not None:
        parts.append(f"{data_size(used.memory)} of memory")
        parts += [] if used.gpu_memory is None else [f"{data_size(used.gpu_memory)} on the GPU"]
    text = escape.markdown(" · ".join(parts))
    with st.container(gap="xxsmall"):
        query = {"run": item.run.id}
        st.page_link("pages/live.py", label=escape.markdown(titles.run_title(item.run)), query_params=query)
        if item.share is None:
            st.caption(text)
        else:
            st.progress(item.share, text=f":small[{text}]")


def _show_jobs_without_slot(items: Sequence[RunningJob], now: float) -> None:
    """Show runs that hold no slot of this machine: they are starting, or on a cluster."""
    if not items:
        return
    with st.container(border=True):
        st.markdown("**Runs without a slot on this machine** :gray[they are starting, or run on a cluster]")
        for item in items:
            _show_running_job(item, now, item.run.desired().on or "this machine", {})


# ---------------------------------------------------------------------------------------------------- background jobs


def _show_jobs(snapshot: QueueSnapshot) -> None:
    """Show background jobs: the progress with a cancel button, or the result."""
    if not snapshot.jobs:
        return
    with st.container(border=True):
        st.markdown("**Background jobs** :gray[need no slot and run at low priority]")
        for job in snapshot.jobs[:_MAX_JOBS]:
            background_work.show_work(job)


# ---------------------------------------------------------------------------------------------------- waiting


def _show_waiting(snapshot: QueueSnapshot, now: float) -> None:
    """Show the table of the waiting runs, and the actions on its selected rows."""
    if not snapshot.running and not snapshot.waiting:
        return  # the head says so
    st.subheader("Waiting", anchor=False)
    if not snapshot.waiting:
        st.caption("No run is waiting for a slot.")
        return
    ids = [item.run.id for item in snapshot.waiting]
    selected_ids = set(st.session_state.get("queue_chosen", []))
    alt = "The waiting runs in their order of start"
    positions = data_table.tick_rows(
        _waiting_columns(snapshot.waiting, now),
        list(enumerate(snapshot.waiting, 1)),
        "queue",
        ids,
        selected_ids,
        _ROWS,
        alt,
    )
    selected = [snapshot.waiting[position] for position in positions]
    st.session_state["queue_chosen"] = [item.run.id for item in selected]
    _show_actions(selected, now)


def _name_column(runs: Sequence[Run]) -> Column:
    """Return the column of names, which are those in menus of runs and on Runs; the help explains their symbols."""
    names = list(select.run_names(runs).values())
    configs = [config for run in runs if (config := run.config_if_readable())]
    symbols = titles.explain_symbols(names, [config.method for config in configs])
    help_text = f"Symbols: {symbols}" if symbols else None
    return Column("Name", names, "text", data_table.label_width(names, _LETTERS), help_text, pinned=True)


def _waiting_columns(waiting: Sequence[QueuedJob], now: float) -> list[Column]:
    """Return the columns of the waiting runs; a row is (place, run), in starting order."""
    about_wait = "What the run waits for, other than a free slot"
    about_time = "Estimated from similar runs at the current speed"
    about_retries = "How often the run was restarted after a crash, and the limit"
    about_id = "The end of the run's id; every command accepts it"
    submitted = {"format": "YYYY-MM-DD HH:mm", "timezone": st.context.timezone}

    def column_of_run(cell: Callable[[QueuedJob], object]) -> Callable[[tuple[int, QueuedJob]], object]:
        return lambda row: cell(row[1])

    waits = column_of_run(lambda item: desired_state.waiting_reason(item.desired, now))
    takes = column_of_run(lambda item: "" if item.duration is None else costs.span_in_words(item.duration))
    starts = column_of_run(lambda item: _start_in_words(item, now))
    priority = column_of_run(lambda item: item.desired.priority)
    return [
        Column("Place", lambda row: row[0], "number", 40, label="#"),
        _name_column([item.run for item in waiting]),
        Column("Waits for", waits, "text", 190, about_wait, optional=True),
        Column("Priority", priority, "number", 64, "Runs of higher priority start first", optional=True),
        Column("Takes", takes, "text", 110, about_time, optional=True),
        Column("Starts", starts, "text", 110, "Estimated from the runs ahead of it", optional=True),
        Column("Retries", column_of_run(_describe_retries), "text", 70, about_retries, optional=True),
        Column("Method", column_of_run(lambda item: _id_part(item.run, 3).upper()), "text", 90),
        Column("Data set", column_of_run(lambda item: _id_part(item.run, 2)), "text", 80),
        Column("Submitted", column_of_run(lambda item: _as_datetime(item.desired.time)), "time", 130, **submitted),
        Column("Id", column_of_run(lambda item: item.run.id[-6:]), "text", 75, about_id),
    ]


def _start_in_words(item: QueuedJob, now: float) -> str:
    if item.start is None or item.start <= now:
        return ""
    return overview.time_of_day(item.start, now) + ("" if item.certain else " or later")


def _describe_retries(item: QueuedJob) -> str:
    return f"{item.desired.retried} of {item.desired.retries}" if item.desired.retries else ""


def _id_part(run: Run, part_index: int) -> str:
    return run.id.split("-")[part_index] if RUN_ID.fullmatch(run.id) else ""


def _as_datetime(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _show_actions(selected: Sequence[QueuedJob], now: float) -> None:
    """Show the buttons for the selected rows; they are always visible, so that nothing moves when a row is selected."""
    runs = [item.run for item in selected]
    delayed = [item.run for item in selected if item.desired.held or queue.is_early(item.desired, now)]
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="queue_bar"):
        st.markdown(f"**{len(selected)} selected**" if selected else ":gray[Select rows]", width="content")
        help_text = "Start before all other waiting runs"
        _action_button("First", "queue_first", ":material/vertical_align_top:", help_text, runs[::-1], queue.put_first)
        help_text = (
            "Start as soon as a slot is free, without waiting for the next retry. Also releases a run that an older "
            "version of LPS Studio put on hold"
        )
        _action_button("Retry now", "queue_now", ":material/replay:", help_text, delayed, queue.retry_now)
        help_text = "Remove the run from the queue; you can resume it later"
        _action_button("Cancel", "queue_cancel", ":material/close:", help_text, runs, _cancel_waiting)
        with st.popover("Priority", icon=":material/low_priority:", disabled=not runs):
            priority = selected[0].desired.priority if selected else 0
            help_text = "Runs of higher priority start first"
            number = st.number_input(help_text, -MAX_PRIORITY, MAX_PRIORITY, priority, 1, key="queue_priority")
            _action_button("Set", "queue_set", None, None, runs, lambda run: queue.set_priority(run, int(number)))


def _action_button(label: str, key: str, icon, help, runs: Sequence[Run], change: Callable[[Run], object]) -> None:
    """Show a button that applies `change` to each of `runs`, in this order."""
    changes = [lambda run=run: change(run) for run in runs]
    st.button(label, key=key, icon=icon, help=help, disabled=not runs, on_click=_apply_all, args=(changes,))


def _cancel_waiting(run: Run) -> None:
    """Cancel a run only while it waits: a run that has started since the table was drawn is not stopped."""
    if run.waiting_attempt() and run.state().name == "queued":
        launcher.stop(run)
    else:
        raise UserError("run", f"{run.id} was not cancelled because it is {queue.state_in_words(run)} now")


def _apply_all(changes: Sequence[Callable[[], object]]) -> None:
    """Apply all changes, then start the runs that can start; each refusal is shown once."""
    root = select.runs_root()
    for change in (*changes, lambda: launcher.dispatch(root)):
        with click_errors.keep_errors("queue"), as_user_error("runs", f"{root} cannot be written to"):
            change()


# ---------------------------------------------------------------------------------------------------- interrupted


def _show_interrupted(snapshot: QueueSnapshot) -> None:
    """Show interrupted runs, whose processes vanished; a retry continues from the last checkpoint."""
    if not snapshot.interrupted:
        return
    with st.expander(f"Interrupted ({len(snapshot.interrupted)})", icon=":material/bolt:"):
        for run in snapshot.interrupted[:_MAX_INTERRUPTED]:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                state = run.state()
                theme.state_badge(state.name)
                run_text = f"{escape.markdown(titles.run_label(run))} :gray[{escape.markdown(state.reason)}]"
                st.markdown(run_text, width="stretch")
                _action_button("Retry", f"queue_retry_{run.id}", ":material/replay:", None, [run], launcher.resume)
        if len(snapshot.interrupted) > _MAX_INTERRUPTED:
            st.caption(f"and {len(snapshot.interrupted) - _MAX_INTERRUPTED} more, on the page Runs")
