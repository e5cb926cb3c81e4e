"""Show and change the queue: `queue`, `queue ACTION`."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from lps.cli._parser import Commands, Parser, any_whole, print_json, print_note
from lps.files.atomic import clean_line

_REMOVED = {  # replacement of each action of earlier versions
    "up": "`first` or `priority N`",
    "down": "`priority N`",
    "last": "`priority N` with a number below 0",
    "hold": "`cancel` (and later `retry`) for one run, or `pause` for the whole queue",
    "release": "`retry` or `first`",
}


def add(commands: Commands) -> None:
    top = commands.add("queue", show_queue, "show running and waiting runs; change their order", as_json=True)
    actions = top.add_subparsers(dest="action", metavar="ACTION", parser_class=Parser)
    help_text = "pause: no waiting run starts; running runs continue"
    _action(actions, "pause", lambda options: _set_paused(options, True), help_text)
    _action(actions, "resume", lambda options: _set_paused(options, False), "start waiting runs again")
    help_text = "set the number of runs at a time on the processor; without N, print it"
    slots = _action(actions, "slots", _set_slots, help_text)
    help_text = "a whole number, or auto for as many as fit; LPS_CPU_SLOTS overrides it"
    slots.add_argument("number", type=_auto_or_whole, nargs="?", metavar="N|auto", help=help_text)
    _action(actions, "first", _put_first, "start a waiting run before all others", run=True)
    priority = _action(
        actions, "priority", _set_priority, "set the priority of a waiting run; higher ones start first", run=True
    )
    priority.register("type", int, any_whole)
    priority.add_argument("number", type=int, metavar="N", help="a whole number; runs without one have 0")
    _action(actions, "cancel", _cancel, "remove a run from the queue, or cancel a background job", run=True)
    help_text = (
        "as soon as a slot is free, start a run that ended early, waits for a retry, or was put on hold by an older "
        "LPS Studio"
    )
    _action(actions, "retry", _retry, help_text, run=True)
    for name in _REMOVED:
        removed = actions.add_parser(name)  # without a help text, so that it is not listed
        removed.set_defaults(act=_refuse_removed)
        removed.add_argument("--runs", type=Path, default=argparse.SUPPRESS)
        removed.add_argument("run", nargs="*")


def _action(actions, name: str, act, help: str, *, run: bool = False) -> argparse.ArgumentParser:
    sub = actions.add_parser(name, help=help, description=help, allow_abbrev=False)
    sub.set_defaults(act=act)
    # No default, so that `queue --runs DIR first RUN` equals `queue first RUN --runs DIR`.
    sub.add_argument("--runs", type=Path, default=argparse.SUPPRESS, help="folder of the runs")
    if run:
        sub.add_argument("run", help="id of a run, the end of the id, or its folder")
    return sub


def show_queue(options) -> None:
    from lps.scheduler import launcher, overview

    launcher.ensure_daemon(options.runs)
    now = time.time()
    snapshot = overview.read_queue(options.runs, now)
    if snapshot.switch.problem:
        print_note(snapshot.switch.problem)
    if options.json:
        print_json(_as_json(snapshot))
        return
    for line in [*_slots_in_words(snapshot, now), *_jobs_in_words(snapshot), *_waiting_in_words(snapshot, now)]:
        print(line)
    if text := overview.end_in_words(snapshot, now):
        print(text)


def _put_first(options) -> None:
    from lps.scheduler import queue

    _change(options, queue.put_first)


def _refuse_removed(options) -> None:
    from lps.errors import UserError

    raise UserError("queue", f"{options.action} was removed; use {_REMOVED[options.action]}")


def _set_priority(options) -> None:
    from lps.scheduler import queue

    _change(options, lambda run: queue.set_priority(run, options.number))


def _cancel(options) -> None:
    from lps.errors import UserError
    from lps.scheduler import background_jobs, launcher, queue

    if job := background_jobs.find_job(options.runs, options.run):
        background_jobs.cancel_job(job)
        return
    run = _run(options)
    if run.state().name != "queued":
        hint = "; stop it with: python -m lps stop" if run.state().is_alive else ""
        raise UserError("run", f"{run.id} is {queue.state_in_words(run)} and not waiting{hint}")
    launcher.stop(run)


def _retry(options) -> None:
    from lps.scheduler import launcher, queue

    run = _run(options)
    if run.waiting_attempt():
        _change(options, queue.retry_now)
    else:
        launcher.resume(run)
    print(run.folder)


def _auto_or_whole(text: str) -> int | str:
    return text if text == "auto" else any_whole(text)


def _set_slots(options) -> None:
    from lps.scheduler import launcher, overview, queue, run_slots
    from lps.store.run_folders import subfolders

    subfolders(options.runs)  # raises if it cannot be read
    if options.number == "auto":
        queue.reset_cpu_slots(options.runs)
    elif options.number is not None:
        queue.set_cpu_slots(options.runs, options.number)
    if options.number is not None:
        launcher.dispatch(options.runs)
    snapshot = overview.read_queue(options.runs)
    if options.number is None:
        print_note(overview.suggestion_in_words(snapshot))
    if run_slots.cpu_slots_from_environment() is not None:
        print_note("LPS_CPU_SLOTS is set and overrides the number stored for the queue")
    print(snapshot.cpu_slots)


def _set_paused(options, paused: bool) -> None:
    from lps.scheduler import launcher, queue
    from lps.store.run_folders import subfolders

    subfolders(options.runs)  # raises if it cannot be read
    queue.set_paused(options.runs, paused)
    if not paused:
        launcher.dispatch(options.runs)


def _change(options, change_request) -> None:
    """Change a run's request, then start what can start."""
    from lps.scheduler import launcher

    run = _run(options)
    change_request(run)
    launcher.dispatch(run.root)


def _run(options):
    from lps.store.run_folders import find_run

    return find_run(options.runs, options.run)


# ---------------------------------------------------------------------------------------------------- words


def _slots_in_words(snapshot, now: float) -> list[str]:
    from lps.scheduler.overview import time_left_in_words, time_of_day

    lines = []
    width = max((len(name) for name in [*snapshot.slots, "..."]), default=0)
    run_width = max((len(item.run.id) for item in snapshot.running), default=0)
    is_starting = any(not item.slots for item in snapshot.running)
    unknown = "in use by a run that is starting" if is_starting else "in use by a run that was removed"
    for name, is_held in snapshot.slots.items():
        item = snapshot.on(name)
        if item is None:
            lines.append(f"{name:{width}}  {unknown if is_held else 'free'}")
            continue
        parts = [item.state.name, f"since {time_of_day(item.since, now)}" if item.since else ""]
        parts.append(f"{100 * item.share:.0f} % of this phase" if item.share is not None else "")
        parts.append(time_left_in_words(item.time_left))
        line = ", ".join(filter(None, parts))
        lines.append(f"{name:{width}}  {item.run.id:{run_width}}  {line}  {item.run.meta()['name']}".rstrip())
    without_slots = [item for item in snapshot.running if not item.slots]
    return lines + [f"{'...':{width}}  {item.run.id:{run_width}}  {item.state.name}" for item in without_slots]


def _jobs_in_words(snapshot) -> list[str]:
    """Describe the working background jobs, which take no slot."""
    from lps.scheduler.overview import time_left_in_words

    lines = []
    for job in snapshot.working_jobs:
        share = "" if job.share is None else f"{100 * job.share:.0f} % of this phase, "
        status = f"{job.phase_in_words}, {share}{time_left_in_words(job.time_left)}"
        lines.append(clean_line(f"...  {job.id}  {status}  {job.title}", 300))
    return lines


def _waiting_in_words(snapshot, now: float) -> list[str]:
    from lps.scheduler.costs import span_in_words
    from lps.scheduler.overview import time_of_day
    from lps.store import desired_state

    counts = [f"{len(snapshot.waiting)} waiting"] + [f"{snapshot.num_held} of them on hold"] * bool(snapshot.num_held)
    paused = f"; paused since {time_of_day(snapshot.switch.since, now)}" if snapshot.switch.paused else ""
    lines = [", ".join(counts) + paused]
    rows = []
    for item in snapshot.waiting:
        parts = [f"priority {item.desired.priority}"] if item.desired.priority else []
        parts += [text] if (text := desired_state.waiting_reason(item.desired, now)) else []
        parts += [f"takes about {span_in_words(item.duration)}"] if item.duration is not None else []
        rows.append((item.run.id, ", ".join(parts), item.run.meta()["name"]))
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for position, (name, status, title) in enumerate(rows, 1):
        lines.append(f"{position:4}  {name:{widths[0]}}  {status:{widths[1]}}  {title}".rstrip())
    return lines


def _as_json(snapshot) -> dict:
    running = [
        {
            "run": item.run.id,
            "state": item.state.name,
            "slots": list(item.slots),
            "since": item.since,
            "share": item.share,
            "left_s": item.left_s,
            "left_range_s": item.time_left and [item.time_left.least, item.time_left.most],
        }
        for item in snapshot.running
    ]
    queued_rows = []
    for item in snapshot.waiting:
        request = {k: v for k, v in asdict(item.desired).items() if k in ("priority", "held", "retries", "retried")}
        times = {"seconds": item.seconds, "start": item.start, "end": item.end, "certain": item.certain}
        queued_rows.append({"run": item.run.id} | request | {"not_before": item.desired.not_before or None} | times)
    return {
        "paused": snapshot.switch.paused,
        "stands_still": not snapshot.has_daemon,
        "problem": snapshot.switch.problem,
        "cpu_slots": snapshot.switch.cpu_slots,
        "slots": [{"slot": name, "free": not is_held} for name, is_held in snapshot.slots.items()],
        "running": running,
        "counts": [
            {"count": item.id, "state": item.state, "phase": item.phase, "share": item.share, "left_s": item.left_s}
            for item in snapshot.jobs
        ],
        "waiting": queued_rows,
        "end": snapshot.end_time,
        "unknown": snapshot.num_unknown,
    }
