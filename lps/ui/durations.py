"""How long a run will take, judged by finished runs that asked for the same."""

from pathlib import Path
from statistics import median

from lps.config import Config
from lps.parameters import ConfigError
from lps.runs import Run, list_runs

LOOK_BACK = 60  # runs
FREE = ("seed", "split.seed", "pretrain.seed", "split.seen_classes")  # settings that do not change the cost


def usual_seconds(root: Path, config: Config) -> float | None:
    """The median duration of the newest finished runs with these settings, whatever the seeds; None without any."""
    wanted = _costly(config)
    found = [_seconds(run) for run in list_runs(root)[:LOOK_BACK] if _asked(run) == wanted]
    known = [seconds for seconds in found if seconds is not None]
    return median(known) if known else None


def in_words(seconds: float) -> str:
    """ "50 s", "4 min", "2.5 h": as exact as an estimate deserves."""
    if seconds < 100:
        return f"{max(5, 5 * round(seconds / 5))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def _costly(config: Config) -> dict[str, object]:
    return {key: value for key, value in config.flat().items() if key not in FREE}


def _asked(run: Run) -> dict[str, object] | None:
    try:
        return _costly(run.config())
    except ConfigError:
        return None


def _seconds(run: Run) -> float | None:
    """From the first process to the end of a run that was done in one go."""
    ended, process = run.read_json("exit.json"), run.read_json("process.json")
    times = (process.get("started"), ended.get("time"))
    if (
        ended.get("state") != "finished"
        or ended.get("attempt") != 1
        or not all(isinstance(t, (int, float)) for t in times)
    ):
        return None
    return max(0.0, times[1] - times[0])
