"""Collect what a race shows in one dictionary for the browser: the measured numbers and the time for each epoch.

docs/formats.md, "Races", describes the keys. Nothing is interpolated or smoothed here.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from lps.analysis import run_diff, run_groups
from lps.analysis.projection import spread_epochs
from lps.charts.event_log import EventLog, History
from lps.data.split import Split
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.scores import milestones
from lps.scores.metrics import contingency, match_ids
from lps.scores.milestones import Mark
from lps.settings import catalog
from lps.store import titles
from lps.store.runs import Run
from lps.store.snapshots import check_ids, read_arrays, read_split

MAX_RUNS = 3  # runs
_VERSION = 1
_LETTERS = "ABC"
_DIGITS = 5
_MAX_IN_TITLE = 3  # settings
_MAX_NUMBERS = 250_000  # each at most eleven letters; epochs are left out evenly above this
_LISTS_BY_CLASS = 4  # of one run and epoch
_FIXED_NUMBERS_PER_EPOCH = 70  # of one run besides these: four lists of 16 steps, and single numbers
_MAX_PREDICTIONS = 50_000_000  # of a run that are read; of more, those of evenly spread epochs
_MAX_EPOCHS = 2_000  # shown
_MAX_MARKS = 40
_SECONDS_PER_RUN = 30.0  # at normal speed
_SECONDS_PER_EPOCH = 1.5  # mean of short runs
_EVEN = 0.25  # share of the time that is equal for all epochs
_ALMOST_EMPTY = 0.25  # of the mean number of images of a novel class
_LONGEST_S = 4.0  # an epoch
_STEPS = {"guesses": "steps/guessed_seen", "kl": "steps/kl"}
_MARGIN_STEPS = {"seen": "steps/margin/seen", "novel": "steps/margin/novel"}


def race_of_runs(runs: Sequence[Run], histories: Sequence[History] | None = None) -> dict:
    """Return the race of one to three runs of one split; raises `UserError` for others, or if nothing is recorded.

    histories: those of the runs, if already read.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise UserError("replay", f"{len(runs)} runs; expected one to {MAX_RUNS}")
    if len({run.id for run in runs}) < len(runs):
        raise UserError("replay", "names a run twice")
    for run in runs[1:]:
        if reason := run_diff.split_difference(runs[0], run):
            both = f"{titles.run_label(run)} and {titles.run_label(runs[0])}"
            raise UserError("replay", f"{both} do not have the same images and labels: {reason}")
    histories = list(histories) if histories is not None else [EventLog(run.events).read_history() for run in runs]
    if not any(history.last_epoch for history in histories):
        raise UserError("replay", f"{titles.run_label(runs[0])} has recorded no epoch of training yet")
    seen, names, truth = _classes(runs, histories)
    newest = _newest_epoch(runs, histories)
    recorded = [epoch for epoch in _recorded_epochs(histories) if epoch <= newest]
    epochs = _shown_epochs(recorded, histories, len(names))
    is_whole = epochs == recorded
    given_names = [_own_name(run) for run in runs]
    given_names = given_names if all(given_names) and len(set(given_names)) == len(runs) else [""] * len(runs)
    varied = _varied_settings(runs)
    return {
        "version": _VERSION,
        "classes": {"seen": seen, "names": names},
        "truth": truth,
        "epochs": epochs,
        "left_out": len(recorded) - len(epochs),
        "seconds": _seconds(histories, epochs),
        "runs": [
            _racer(letter, run, history, name, varied, runs, epochs, is_whole)
            for letter, run, history, name in zip(_LETTERS, runs, histories, given_names)
        ],
        "marks": _marks(runs, histories, epochs),
    }


def _classes(runs: Sequence[Run], histories: Sequence[History]) -> tuple[int, list[str], list[float] | None]:
    """Return (number of seen classes, names of all classes, true share of each among the unlabeled images).

    The names are numbers if no split can be read; the shares are None if no class of these images is known.
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
    seen = max(history.seen for history in histories)
    total = max((int(history.start.get("classes/total") or 0) for history in histories), default=0)
    return seen, [str(number) for number in range(max(seen, total, 1))], None


def _own_name(run: Run) -> str:
    """Return the name that the user gave a run; "" for that of a sweep, which repeats settings, method and seed."""
    name, config = titles.given_name(run), run.config_if_readable()
    return "" if config and titles.is_of_sweep(name, config) else name


def _varied_settings(runs: Sequence[Run]) -> list[str]:
    """Return the settings in which runs of one method differ, which are in the title of each; none of other runs."""
    configs = [config for run in runs if (config := run.config_if_readable())]
    if len(configs) < len(runs) or len({config.method for config in configs}) > 1:
        return []
    names = [name for name in run_groups.differing_settings(configs) if name not in titles.NOT_NAMED]
    return names[:_MAX_IN_TITLE]


def _shortened(name: str) -> str:
    """Cut the name of a class to the 24 letters that fit under a bar."""
    return name if len(name) <= 24 else f"{name[:23]}…"


def _recorded_epochs(histories: Iterable[History]) -> list[int]:
    return sorted({int(epoch) for history in histories for epoch in history.epochs.index if epoch >= 1})


def _newest_epoch(runs: Sequence[Run], histories: Sequence[History]) -> int:
    """Return the last epoch to show: while all runs train, the last that all have, if any; else the last of any."""
    lasts = [history.last_epoch for history in histories]
    return min(lasts) if min(lasts) and all(run.state().is_alive for run in runs) else max(lasts)


def _shown_epochs(epochs: Sequence[int], histories: Sequence[History], classes: int) -> list[int]:
    """Return all recorded epochs; of too many, every k-th with the first one, and the last one of each run."""
    numbers_per_epoch = (_LISTS_BY_CLASS * classes + _FIXED_NUMBERS_PER_EPOCH) * len(histories)
    most_epochs = max(2, min(_MAX_EPOCHS, _MAX_NUMBERS // numbers_per_epoch))
    stride = math.ceil(len(epochs) / most_epochs)
    ends = {history.last_epoch for history in histories}
    return [epoch for index, epoch in enumerate(epochs) if index % stride == 0 or epoch in ends]


# ---------------------------------------------------------------------------------------------------- seconds per epoch


def _movement(histories: Sequence[History], epochs: Sequence[int]) -> np.ndarray:
    """Return how much the bars move up to each of `epochs`, (n,), as a mean over the runs.

    For each run: the changes of seen and of novel accuracy, plus half the sum of the changes of the estimated shares.
    For the first epoch: the range, over its steps, of the share of guesses that are seen classes.
    """
    total = np.zeros(len(epochs))
    for history in histories:
        for name in ("accuracy/seen", "accuracy/novel"):
            total[1:] += np.nan_to_num(np.abs(np.diff(history.column(name).reindex(epochs).to_numpy(float))))
        shares = history.vectors.get("pi_hat", pd.DataFrame(index=epochs)).reindex(epochs).to_numpy(float)
        total[1:] += np.nan_to_num(np.abs(np.diff(shares, axis=0))).sum(1) / 2
        guesses = history.vector(_STEPS["guesses"], epochs[0])
        if guesses is not None and np.isfinite(guesses).any():
            total[0] += float(np.nanmax(guesses) - np.nanmin(guesses))
    return total / len(histories)


def _seconds(histories: Sequence[History], epochs: Sequence[int]) -> list[float]:
    """Return the seconds that the race takes up to each epoch at normal speed.

    A quarter of the time is equal for all epochs, the rest in proportion to `_movement`; at most four seconds each.
    """
    movement, total_s = _movement(histories, epochs), min(_SECONDS_PER_RUN, _SECONDS_PER_EPOCH * len(epochs))
    shares = movement / movement.sum() if movement.sum() else np.full(len(epochs), 1 / len(epochs))
    seconds = np.minimum(_LONGEST_S, total_s * (_EVEN / len(epochs) + (1 - _EVEN) * shares))
    return [round(float(second), 3) for second in seconds]


# ---------------------------------------------------------------------------------------------------- one run


def _racer(
    letter: str,
    run: Run,
    history: History,
    name: str,
    varied: Sequence[str],
    others: Sequence[Run],
    epochs: Sequence[int],
    with_steps: bool,
) -> dict:
    """Return what the race shows of one run; lists have one entry per shown epoch, None if nothing was measured.

    name: its title; if "", the title is its method and its values of `varied`, or one setting that others lack.
    """

    def of_steps(name: str) -> list[list | None] | None:
        return _rows(history, name, epochs) if with_steps else None

    state = run.state()
    config = run.config_if_readable()
    method = titles.method_title(config.method) if config else "this run"
    last = min(history.last_epoch, epochs[-1])
    changes = titles.plain_words(titles.changed_settings(run, others))
    values = titles.plain_words([titles.setting_in_words(key, config.get(key)) for key in varied] if config else [])
    title_parts = [name] if name else [method, *(values or changes[:1])]
    about = [*(change for change in changes if change not in title_parts), f"seed {config.seed}"] if config else None
    return {
        "letter": letter,
        "name": titles.run_title(run),
        "method": method,
        "title": ", ".join(title_parts),
        "about": about or [run_diff.DAMAGED],
        "state": state.name,
        "is_over": state.is_over or state.name == "unreadable",
        "last": last,
        "planned": config.epochs if config else last,
        "start": {group: _number(history.start.get(f"baseline/kmeans/{group}")) for group in ("seen", "novel")},
        "seen": _column(history, "accuracy/seen", epochs),
        "novel": _column(history, "accuracy/novel", epochs),
        "kl": _column(history, "kl", epochs),
        "shares": _rows(history, "pi_hat", epochs),
        "priors": _rows(history, "class/prior", epochs),
        **_predicted_shares(run, history, epochs),
        **_novel_at_end(run, last, state.is_over),
        "margins": _rows(history, "margin", epochs),
        "steps": {name: of_steps(key) for name, key in _STEPS.items()}
        | {"brake": {group: of_steps(key) for group, key in _MARGIN_STEPS.items()}},
    }


def _column(history: History, name: str, epochs: Sequence[int]) -> list[float | None] | None:
    """Return a measurement at `epochs`; None if it was not measured."""
    values = history.column(name)
    return [_number(value) for value in values.reindex(epochs)] if len(values) else None


def _rows(history: History, name: str, epochs: Sequence[int]) -> list[list | None] | None:
    """Return one list per epoch; None if it was not measured."""
    table = history.vectors.get(name)
    if table is None:
        return None
    return [[_number(x) for x in table.loc[epoch]] if epoch in table.index else None for epoch in epochs]


def _predicted_shares(run: Run, history: History, epochs: Sequence[int]) -> dict[str, list[list | None] | None]:
    """Return the share of the unlabeled images predicted as each id (`taken`), and the class of each id (`matched`).

    Ids are those of the network's outputs, as in the estimated shares; the recorded counts are by matched class, which
    another output may have in the next epoch. Runs without an estimate have these counts, and no `matched`. Lists have
    one entry per epoch; None if not recorded.
    """
    rows = _rows(history, "class/count_predicted", epochs)
    if rows is None:
        return {"taken": None, "matched": None}
    matched = None
    if "pi_hat" in history.vectors:
        rows, matched = _predictions_by_output(run, epochs)
    totals = [sum(x or 0 for x in row) if row else 0 for row in rows]
    shares = [[_number((x or 0) / total) for x in row] if total else None for row, total in zip(rows, totals)]
    return {"taken": shares if any(shares) else None, "matched": matched}


def _predictions_by_output(run: Run, epochs: Sequence[int]) -> tuple[list[list | None], list[list | None] | None]:
    """Return (images predicted as each output, class of each output) per epoch; None where no snapshot says it."""
    counts, classes = [None] * len(epochs), [None] * len(epochs)
    stamp = fingerprint(run.folder / "split.npz")
    try:
        num_images = len(_read_truth(run.folder, stamp)[1])
        config = run.config_if_readable()
        is_aligned = config is None or catalog.method_info(config.method).seen_is_aligned
    except UserError:
        return counts, None
    read_epochs = set(spread_epochs(epochs, _MAX_PREDICTIONS // max(1, num_images)))
    for index, epoch in enumerate(epochs):
        path = run.snapshots / f"epoch-{epoch:04d}.npz"
        with suppress(UserError):
            if epoch in read_epochs:
                stamps = stamp, fingerprint(path)
                counts[index], classes[index] = _count_outputs(run.folder, path, stamps, is_aligned)
    return counts, classes if any(classes) else None


@lru_cache(maxsize=MAX_RUNS)
def _read_truth(folder: Path, stamp: object) -> tuple[Split, np.ndarray]:
    """Return (split, class of each unlabeled image, -1 for unknown) of a run folder. stamp: of split.npz."""
    split, targets = read_split(folder)
    return split, split.judged(targets)


@lru_cache(maxsize=4096)
def _count_outputs(
    folder: Path, path: Path, stamps: tuple[object, object], is_aligned: bool
) -> tuple[list[int], list[int] | None]:
    """Return (images predicted as each output, class of each output) of a snapshot; raises `UserError`.

    stamps: of the split and of the snapshot. is_aligned: seen outputs are the seen classes, and novel outputs are
    matched with novel classes; otherwise all are matched. The classes are None if no truth is known.
    """
    split, truth = _read_truth(folder, stamps[0])
    predicted = read_arrays(path, ["predicted"])["predicted"].astype(np.int64)
    check_ids(path.name, predicted, split.unlabeled, split.classes)
    total, first = split.classes.total, split.classes.seen if is_aligned else 0
    sizes = np.bincount(predicted, minlength=total)[:total]
    is_known = (truth >= 0) & (truth < total) & (predicted < total)
    if not is_known.any():
        return sizes.tolist(), None
    table = contingency(predicted[is_known], truth[is_known], total)
    return sizes.tolist(), [*range(first), *(first + match_ids(table[first:, first:])).tolist()]


def _novel_at_end(run: Run, epoch: int, is_over: bool) -> dict[str, float | int | list[list[int]] | None]:
    """Return what became of the novel images at the last epoch; None if the run goes on or no file says it.

    mistaken: their share that gets a seen class. empty: novel ids that get almost none of the unlabeled images. merged:
    the novel classes of every novel id that gets more than half of the images of two or more of them.
    """
    unknown = {"mistaken": None, "empty": None, "merged": None}
    try:
        split, targets = read_split(run.folder)
        predicted = read_arrays(run.snapshots / f"epoch-{epoch:04d}.npz", ["predicted"])["predicted"]
        check_ids("predicted", predicted, split.unlabeled, split.classes)
    except UserError:
        return unknown
    seen, total = split.classes.seen, split.classes.total
    truth = split.judged(targets)
    is_novel = truth >= seen
    if not is_over or not is_novel.any():
        return unknown
    least = _ALMOST_EMPTY * is_novel.sum() / (total - seen)
    sizes = np.bincount(predicted, minlength=total)[seen:]
    classes_by_id: dict[int, list[int]] = {}
    for novel in range(seen, total):
        counts = np.bincount(predicted[truth == novel], minlength=1)
        if 2 * counts.max() > counts.sum() and counts.argmax() >= seen:
            classes_by_id.setdefault(int(counts.argmax()), []).append(novel)
    return {
        "mistaken": _number((predicted[is_novel] < seen).mean()),
        "empty": int((sizes < least).sum()),
        "merged": [classes for classes in classes_by_id.values() if len(classes) > 1],
    }


def _number(value) -> float | None:
    """Round a number to five digits; None for anything that is no finite number."""
    if not isinstance(value, (int, float, np.floating)) or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def marks_of(history: History, is_over: bool) -> list[Mark]:
    """Return the marks of all that a run has recorded so far; the best accuracy is known when it is over."""
    names = ("accuracy/seen", "accuracy/novel", "kl")
    table = pd.DataFrame({name: history.column(name) for name in names}, dtype=float)
    marks = milestones.find_milestones(table.index.to_numpy(), *(table[name].to_numpy(float) for name in table))
    return [mark for mark in marks if is_over or mark.kind != "best"]


def _marks(runs: Sequence[Run], histories: Sequence[History], epochs: Sequence[int]) -> list[dict]:
    """Return the marks of all runs with their words, by epoch (`lps.scores.milestones`)."""
    marks_by_epoch = []
    for number, (run, history) in enumerate(zip(runs, histories)):
        state = run.state()
        is_over = state.is_over or state.name == "unreadable"
        marks = [mark for mark in marks_of(history, is_over) if mark.epoch in epochs]
        marks_by_epoch += [{"run": number, "epoch": mark.epoch, "words": mark.words} for mark in marks]
    return sorted(marks_by_epoch, key=lambda mark: mark["epoch"])[:_MAX_MARKS]
