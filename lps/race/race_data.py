"""What the race shows, as one dictionary for the browser: measured numbers, and the clock that passes them.

docs/formats.md, "Races", says what stands where. Nothing is interpolated or smoothed here.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from lps.analysis import run_diff
from lps.charts.event_log import EventLog, History
from lps.errors import UserError
from lps.scores import milestones
from lps.scores.milestones import Mark
from lps.store import titles
from lps.store.runs import Run
from lps.store.snapshots import read_split

MOST = 3  # runs
_VERSION = 1
_LETTERS = "ABC"
_DIGITS = 5
_MOST_NUMBERS = 250_000  # of at most eleven letters; of more, epochs are left out evenly
_FIXED_NUMBERS_PER_EPOCH = 70  # numbers of one run beside its three lists by class: four of 16 steps, and single ones
_MOST_EPOCHS = 2_000  # that are shown
_MOST_MARKS = 40
_SECONDS_PER_RUN = 30.0  # at the usual speed
_SECONDS_PER_EPOCH = 1.5  # of short runs, on the average
_EVEN = 0.25  # share of the time that all epochs have alike
_LONGEST_S = 4.0  # an epoch
_STEPS = {"guesses": "steps/guessed_seen", "kl": "steps/kl"}
_MARGIN_STEPS = {"seen": "steps/margin/seen", "novel": "steps/margin/novel"}


def race_of_runs(runs: Sequence[Run], pasts: Sequence[History] | None = None) -> dict:
    """The race of one to three runs of one split; raises `UserError` for others, and where nothing was recorded yet.

    pasts: their histories, where somebody has read them already.
    """
    if not 1 <= len(runs) <= MOST:
        raise UserError("replay", f"{len(runs)} runs; expected one to {MOST}")
    if len({run.id for run in runs}) < len(runs):
        raise UserError("replay", "names a run twice")
    for run in runs[1:]:
        if reason := run_diff.split_difference(runs[0], run):
            runs_text = (
                f"{titles.run_label(run)} and {titles.run_label(runs[0])} do not have the same images and labels"
            )
            raise UserError("replay", f"{runs_text}: {reason}")
    pasts = list(pasts) if pasts is not None else [EventLog(run.events).read_history() for run in runs]
    if not any(past.last_epoch for past in pasts):
        raise UserError("replay", f"{titles.run_label(runs[0])} has recorded no epoch of training yet")
    seen, names, truth = _classes(runs, pasts)
    newest = _newest_epoch(runs, pasts)
    recorded = [epoch for epoch in _recorded_epochs(pasts) if epoch <= newest]
    epochs = _shown_epochs(recorded, pasts, len(names))
    is_whole = epochs == recorded
    given_names = [titles.given_name(run) for run in runs]
    given_names = given_names if all(given_names) and len(set(given_names)) == len(runs) else [""] * len(runs)
    return {
        "version": _VERSION,
        "classes": {"seen": seen, "names": names},
        "truth": truth,
        "epochs": epochs,
        "left_out": len(recorded) - len(epochs),
        "seconds": _seconds(pasts, epochs),
        "runs": [
            _racer(letter, run, past, name, runs, epochs, is_whole)
            for letter, run, past, name in zip(_LETTERS, runs, pasts, given_names)
        ],
        "marks": _marks(pasts, epochs),
    }


def _classes(runs: Sequence[Run], pasts: Sequence[History]) -> tuple[int, list[str], list[float] | None]:
    """How many classes are seen, what all are called, and the share of the unlabeled images that each has in truth.

    Numbers for names where no split can be read; None if no class of these images is known.
    """
    for run in runs:
        try:
            split, targets = read_split(run.folder)
        except UserError:
            continue
        names, total = split.class_names[: split.classes.total], split.classes.total
        truth = split.judged(targets)
        class_sizes = np.bincount(truth[(truth >= 0) & (truth < total)], minlength=total)
        shares = [_number(count / class_sizes.sum()) for count in class_sizes.tolist()] if class_sizes.sum() else None
        return split.classes.seen, [_shortened(name) for name in names], shares
    seen = max(past.seen for past in pasts)
    total = max((int(past.start.get("classes/total") or 0) for past in pasts), default=0)
    return seen, [str(number) for number in range(max(seen, total, 1))], None


def _shortened(name: str) -> str:
    """What stands under a bar, at most 24 letters."""
    return name if len(name) <= 24 else f"{name[:23]}…"


def _recorded_epochs(pasts: Iterable[History]) -> list[int]:
    return sorted({int(epoch) for past in pasts for epoch in past.epochs.index if epoch >= 1})


def _newest_epoch(runs: Sequence[Run], pasts: Sequence[History]) -> int:
    """The last epoch that is shown: while all of the runs train, the last one that all have, if there is one."""
    lasts = [past.last_epoch for past in pasts]
    return min(lasts) if min(lasts) and all(run.state().is_alive for run in runs) else max(lasts)


def _shown_epochs(epochs: Sequence[int], pasts: Sequence[History], classes: int) -> list[int]:
    """All of the recorded epochs; of too many every k-th, the first and each run's last."""
    a_row = (3 * classes + _FIXED_NUMBERS_PER_EPOCH) * len(pasts)
    most_epochs = max(2, min(_MOST_EPOCHS, _MOST_NUMBERS // a_row))
    stride = math.ceil(len(epochs) / most_epochs)
    ends = {past.last_epoch for past in pasts}
    return [epoch for index, epoch in enumerate(epochs) if index % stride == 0 or epoch in ends]


# ---------------------------------------------------------------------------------------------------- the clock


def _movement(pasts: Sequence[History], epochs: Sequence[int]) -> np.ndarray:
    """How far things move on the way to each of `epochs`, (n,): shares that change hands, a mean over the runs.

    Of each run the changes of seen and of novel accuracy plus half the sum of the changes of the estimated shares; on
    the way to the first epoch the span of the share of guesses that are seen classes, over its steps.
    """
    total = np.zeros(len(epochs))
    for past in pasts:
        for name in ("accuracy/seen", "accuracy/novel"):
            total[1:] += np.nan_to_num(np.abs(np.diff(past.column(name).reindex(epochs).to_numpy(float))))
        shares = past.vectors.get("pi_hat", pd.DataFrame(index=epochs)).reindex(epochs).to_numpy(float)
        total[1:] += np.nan_to_num(np.abs(np.diff(shares, axis=0))).sum(1) / 2
        guesses = past.vector(_STEPS["guesses"], epochs[0])
        if guesses is not None and np.isfinite(guesses).any():
            total[0] += float(np.nanmax(guesses) - np.nanmin(guesses))
    return total / len(pasts)


def _seconds(pasts: Sequence[History], epochs: Sequence[int]) -> list[float]:
    """The clock at the usual speed: seconds on the way to each epoch.

    A quarter of the time is shared out evenly, the rest as `_movement` says; no epoch takes longer than four seconds.
    """
    moved, total_s = _movement(pasts, epochs), min(_SECONDS_PER_RUN, _SECONDS_PER_EPOCH * len(epochs))
    shares = moved / moved.sum() if moved.sum() else np.full(len(epochs), 1 / len(epochs))
    spent = np.minimum(_LONGEST_S, total_s * (_EVEN / len(epochs) + (1 - _EVEN) * shares))
    return [round(float(second), 3) for second in spent]


# ---------------------------------------------------------------------------------------------------- one run


def _racer(
    letter: str, run: Run, past: History, name: str, others: Sequence[Run], epochs: Sequence[int], with_steps: bool
) -> dict:
    """What one run brings to the race; lists have a place for every epoch that is shown, null where nothing is.

    name: its title; "" where its method and what differs are the title.
    """

    def of_steps(name: str) -> list[list | None] | None:
        return _rows(past, name, epochs) if with_steps else None

    state = run.state()
    config = run.config_if_readable()
    method = titles.method_title(config.method) if config else "this run"
    last = min(past.last_epoch, epochs[-1])
    changes = titles.without_paths(titles.changed_settings(run, others))
    return {
        "letter": letter,
        "name": titles.run_title(run),
        "method": method,
        "title": name or ", ".join([method, *changes[:1]]),
        "about": [f"seed {config.seed}", *changes[0 if name else 1 :]] if config else [run_diff.DAMAGED],
        "state": state.name,
        "is_over": state.is_over or state.name == "unreadable",
        "last": last,
        "planned": config.epochs if config else last,
        "start": {group: _number(past.start.get(f"baseline/kmeans/{group}")) for group in ("seen", "novel")},
        "seen": _column(past, "accuracy/seen", epochs),
        "novel": _column(past, "accuracy/novel", epochs),
        "kl": _column(past, "kl", epochs),
        "shares": _rows(past, "pi_hat", epochs),
        "priors": _rows(past, "class/prior", epochs),
        "taken": _predicted_shares(past, epochs),
        "margins": _rows(past, "margin", epochs),
        "steps": {name: of_steps(key) for name, key in _STEPS.items()}
        | {"brake": {group: of_steps(key) for group, key in _MARGIN_STEPS.items()}},
    }


def _column(past: History, name: str, epochs: Sequence[int]) -> list[float | None] | None:
    """One measurement; None if nobody measures it."""
    values = past.column(name)
    return [_number(value) for value in values.reindex(epochs)] if len(values) else None


def _rows(past: History, name: str, epochs: Sequence[int]) -> list[list | None] | None:
    """One list an epoch; None if nobody measures it."""
    table = past.vectors.get(name)
    if table is None:
        return None
    return [[_number(x) for x in table.loc[epoch]] if epoch in table.index else None for epoch in epochs]


def _predicted_shares(past: History, epochs: Sequence[int]) -> list[list | None] | None:
    """Share of the unlabeled images that are predicted as each class; None if that is not recorded."""
    rows = _rows(past, "class/count_predicted", epochs)
    if rows is None:
        return None
    totals = [sum(x or 0 for x in row) if row else 0 for row in rows]
    return [[_number((x or 0) / total) for x in row] if total else None for row, total in zip(rows, totals)]


def _number(value) -> float | None:
    """With as many digits as anybody sees; None for what is no number."""
    if not isinstance(value, (int, float, np.floating)) or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def marks_of(past: History) -> list[Mark]:
    """The marks of what a run has recorded up to now."""
    table = pd.DataFrame({name: past.column(name) for name in ("accuracy/seen", "accuracy/novel", "kl")}, dtype=float)
    return milestones.find_milestones(table.index.to_numpy(), *(table[name].to_numpy(float) for name in table))


def _marks(pasts: Sequence[History], epochs: Sequence[int]) -> list[dict]:
    """What happened when, in words, by epoch (`lps.scores.milestones`)."""
    marks_by_epoch = []
    for number, past in enumerate(pasts):
        marks = [mark for mark in marks_of(past) if mark.epoch in epochs]
        marks_by_epoch += [{"run": number, "epoch": mark.epoch, "words": mark.words} for mark in marks]
    return sorted(marks_by_epoch, key=lambda mark: mark["epoch"])[:_MOST_MARKS]
