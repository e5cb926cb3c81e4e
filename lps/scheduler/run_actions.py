"""The actions that a run allows in its state, and their functions, shared by pages and commands."""

from collections.abc import Callable, Mapping

from lps.scheduler import launcher
from lps.store.run_folders import delete_run
from lps.store.runs import RUN_ID, Run, State

ACTS: Mapping[str, Callable[[Run], object]] = {
    "stop": lambda run: launcher.stop(run),
    "kill": lambda run: launcher.stop(run, kill=True),
    "resume": lambda run: launcher.resume(run),
    "delete": delete_run,
}
_ACTIONS_BY_STATE = {
    "queued": ("stop",),
    "starting": ("stop",),
    "running": ("stop",),
    "unknown": ("stop",),
    "stopping": ("kill",),
    "finished": ("delete",),
    "stopped": ("resume", "delete"),
    "failed": ("resume", "delete"),
    "crashed": ("resume", "delete"),
}


def possible_actions(run: Run, state: State) -> list[str]:
    """Return which of rename, copy, stop, kill, resume and delete the run allows; none for a foreign folder."""
    if run.is_recorded:
        return ["copy"]
    if state.name == "unreadable":
        return ["delete"] if RUN_ID.fullmatch(run.id) else []
    state_actions = () if state.name == "stopping" and run.desired().want == "kill" else _ACTIONS_BY_STATE[state.name]
    return ["rename", "copy", *state_actions]
