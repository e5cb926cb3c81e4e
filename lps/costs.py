"""What a run will cost in time and disk, judged by finished runs that asked for the same. Standard library only."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from lps.config import Config
from lps.parameters import ConfigError
from lps.runs import Run, list_runs

LOOK_BACK = 60  # runs
FREE = ("seed", "split.seed", "pretrain.seed", "split.seen_classes")  # settings that do not change the cost


@dataclass(frozen=True)
class Cost:
    """What a finished run has taken: seconds from its first process to its end, bytes of its folder."""

    config: Config
    seconds: float
    bytes: int


def usual_seconds(root: Path, config: Config) -> float | None:
    """The median duration of the newest finished runs with these settings, whatever the seeds; None without any."""
    wanted = _costly(config)
    alike = [run for run in list_runs(root)[:LOOK_BACK] if (asked := _asked(run)) and _costly(asked) == wanted]
    known = [seconds for run in alike if (seconds := run_seconds(run)) is not None]
    return median(known) if known else None


def finished_costs(root: Path, kinds: set[tuple]) -> list[Cost]:
    """The costs of all finished runs whose `kind` is one of `kinds`."""
    found = []
    for run in list_runs(root):
        config, seconds = _asked(run), run_seconds(run)
        if config is not None and seconds is not None and kind(config) in kinds:
            found.append(Cost(config, seconds, folder_bytes(run.folder)))
    return found


def kind(config: Config) -> tuple[str, str, str | None]:
    """Runs of one kind are worth comparing in cost: method and data set."""
    return config.method, config.dataset, config.dataset_path


def usual_cost(costs: Sequence[Cost], config: Config) -> Cost | None:
    """The median cost of runs with these settings, else of their kind with as many epochs, else of their kind.

    The last are scaled to the epochs of `config`. None where no run of the kind is known.
    """
    alike = [cost for cost in costs if kind(cost.config) == kind(config)]
    as_long = [cost for cost in alike if cost.config.epochs == config.epochs]
    same = [cost for cost in as_long if _costly(cost.config) == _costly(config)]
    chosen = same or as_long or alike
    if not chosen:
        return None
    scales = [config.epochs / cost.config.epochs for cost in chosen]
    seconds = median(cost.seconds * scale for cost, scale in zip(chosen, scales))
    return Cost(config, seconds, round(median(cost.bytes * scale for cost, scale in zip(chosen, scales))))


def in_words(seconds: float) -> str:
    """ "50 s", "4 min", "2.5 h": as exact as an estimate deserves."""
    if seconds < 100:
        return f"{max(5, 5 * round(seconds / 5))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def size_in_words(count: float) -> str:
    """Bytes as "3 MB" or "1.2 GB", in powers of ten."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"


def _costly(config: Config) -> dict[str, object]:
    return {key: value for key, value in config.flat().items() if key not in FREE}


def _asked(run: Run) -> Config | None:
    try:
        return run.config()
    except ConfigError:
        return None


def run_seconds(run: Run) -> float | None:
    """From the first process to the end of a run that was done in one go."""
    ended, process = run.read_json("exit.json"), run.read_json("process.json")
    times = (process.get("started"), ended.get("time"))
    if ended.get("state") != "finished" or ended.get("attempt") != 1:
        return None
    if not all(isinstance(t, (int, float)) and abs(t) < 2**53 for t in times):  # NaN is not smaller either
        return None
    return max(0.0, times[1] - times[0])


def folder_bytes(folder: Path) -> int:
    """The size of all files below `folder`; what vanishes meanwhile counts nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total
