"""Compare two runs: their differences (settings, program, hardware, data, split), then their numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lps.errors import UserError
from lps.scores.measurement_names import measurement_name
from lps.settings.parameters import text_of
from lps.store import provenance, snapshots
from lps.store.event_follower import EventFollower
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.tables.run_names import PERCENT
from lps.wording import counted

_HARDWARE = ("device", "cores", "system")  # machine facts about hardware; the others are about the program
_SHOWN_ELSEWHERE = ("threads", "classes/seen", "classes/total")  # values of the start shown in other sections


@dataclass(frozen=True)
class Fact:
    """One property of both runs, in words; "–" if a run has none. same: whether they are equal."""

    what: str
    first: str
    second: str
    same: bool


@dataclass(frozen=True)
class Number:
    """A measurement of both runs, None if a run lacks it; accuracies, NMI and ARI in percent."""

    name: str
    first: float | None
    second: float | None

    @property
    def difference(self) -> float | None:
        """Second minus first."""
        return None if self.first is None or self.second is None else self.second - self.first


@dataclass(frozen=True)
class SideBySide:
    """Comparison of two runs. sections: rows by title. last, best: numbers of the newest and of the best epoch."""

    sections: Mapping[str, list[Fact]]
    last: list[Number]
    best: list[Number]
    epoch_summaries: tuple[str, str]  # of each run: its newest and its best epoch

    def differing(self) -> dict[str, list[Fact]]:
        """Return the sections with only the rows in which the two runs differ."""
        return {title: [row for row in rows if not row.same] for title, rows in self.sections.items()}


def compare_two_runs(first: Run, second: Run) -> SideBySide:
    """Compare two runs; a value that one of them lacks is shown as missing."""
    pair = (first, second)
    configs = [run.config_if_readable() for run in pair]
    machines = [provenance.machine_of(run) for run in pair]
    starts = [_start(run) for run in pair]
    splits = [_split(run) for run in pair]
    sections = {
        "Settings": _rows(*(config.flat() if config else {} for config in configs)),
        "Program": _rows(*({k: v for k, v in machine.items() if k not in _HARDWARE} for machine in machines)),
        "Hardware": _rows(*({k: v for k, v in machine.items() if k in _HARDWARE} for machine in machines)),
        "Data and start": _rows(*starts),
        "Split": [_compare_ids(key, *splits) for key in dict.fromkeys([*splits[0], *splits[1]])],
    }
    summaries = [summarize(run) for run in pair]
    last = _numbers(*(summary["last"] for summary in summaries))
    best = _numbers(*({k: v for k, v in summary["best"].items() if k != "epoch"} for summary in summaries))
    return SideBySide(sections, last, best, (_epochs_in_words(summaries[0]), _epochs_in_words(summaries[1])))


def _rows(first: Mapping[str, object], second: Mapping[str, object]) -> list[Fact]:
    rows = []
    for key in dict.fromkeys([*first, *second]):
        texts = [text_of(values[key]) if key in values else "–" for values in (first, second)]
        rows.append(Fact(key, *texts, same=key in first and key in second and first[key] == second[key]))
    return rows


def _start(run: Run) -> dict[str, object]:
    """Return the newest start's values about data and network: image numbers, parameters, baselines, features."""
    events = EventFollower(run.events).history()
    started = [event for event in events if event["kind"] == "start"]
    if not started:
        return {}
    numbers = {name: value for name, value in started[-1]["values"].items() if not isinstance(value, list)}
    named = {name: started[-1][name] for name in ("precision", "features") if isinstance(started[-1].get(name), str)}
    rounded = {name: float(f"{value:.5g}") if type(value) is float else value for name, value in numbers.items()}
    return {name: value for name, value in (rounded | named).items() if name not in _SHOWN_ELSEWHERE}


def _split(run: Run) -> dict[str, np.ndarray]:
    """Return the image ids of each kind and the ordered classes; {} if the run has no split yet."""
    try:
        split, truth = snapshots.read_split(run.folder)
    except (UserError, OSError):
        return {}
    ids_by_kind = {kind: getattr(split, kind) for kind in ("labeled", "unlabeled", "validation", "test")}
    return {f"{name} images": ids for name, ids in ids_by_kind.items()} | {
        "seen classes": np.asarray(split.class_order[: split.classes.seen]),
        "truth": truth,
    }


def _compare_ids(kind: str, first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> Fact:
    """Return how many ids there are in each run, and how many are in both."""
    ids = [run_ids.get(kind) for run_ids in (first, second)]
    is_same = ids[0] is not None and ids[1] is not None and np.array_equal(ids[0], ids[1])
    texts = ["–" if run_ids is None else f"{len(run_ids):,}" for run_ids in ids]
    if not is_same and "–" not in texts and kind != "truth":
        texts[1] += f", {len(np.intersect1d(*ids)):,} in both runs"
    return Fact(kind, *texts, same=is_same)


def _numbers(first: Mapping[str, object], second: Mapping[str, object]) -> list[Number]:
    """Return every scalar that one of them has measured, accuracies first."""
    names = [name for name in dict.fromkeys([*first, *second]) if _is_measured(name, first, second)]
    names.sort(key=lambda name: not name.startswith(PERCENT))
    return [Number(name, _number(name, first), _number(name, second)) for name in names]


def _is_measured(name: str, *values: Mapping[str, object]) -> bool:
    is_fixed = name.startswith(("classes/", "images/", "baseline/")) or name in ("parameters", "threads")
    return not is_fixed and any(type(run_values.get(name)) in (int, float) for run_values in values)


def _number(name: str, values: Mapping[str, object]) -> float | None:
    value = values.get(name)
    if type(value) not in (int, float):
        return None
    return 100 * value if name.startswith(PERCENT) else float(value)


def _epochs_in_words(summary: dict) -> str:
    best = summary["best"].get("epoch")
    best = f", best at {best} by {measurement_name(summary['best_by']).lower()}" if best is not None else ""
    return counted(summary["epochs"], "epoch") + best
