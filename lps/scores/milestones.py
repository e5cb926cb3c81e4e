"""Milestones of a run: the epochs at which seen and novel accuracy meet or part, each with a text.

Takes arrays, returns marks, and knows no runs or pages.
"""

from dataclasses import dataclass

import numpy as np

_CLOSE = 0.05  # a gap smaller than this, either way, counts as closed
_LEAD = 0.01  # a smaller gap, either way, has no leader
_FALL = 0.1  # drop of novel accuracy between records that is reported
_MIN_KL = 0.01  # a KL that starts below this is too small for a halving to matter


@dataclass(frozen=True)
class Mark:
    """One milestone. kind: gap, gap again, kl, novel ahead, seen ahead, fall or best."""

    epoch: int
    kind: str
    words: str


def find_milestones(epochs: np.ndarray, seen: np.ndarray, novel: np.ndarray, kl: np.ndarray) -> list[Mark]:
    """Return the marks of a run, by epoch. epochs: ascending; the rest: fractions and nats, (n,), NaN if unknown."""
    epochs = np.asarray(epochs, int)
    seen, novel, kl = (np.asarray(values, np.float64) for values in (seen, novel, kl))
    is_known, has_kl = ~np.isnan(seen - novel), ~np.isnan(kl)
    gap = (seen - novel)[is_known]
    marks = gap_closings(epochs[is_known], gap) + _overtakings(epochs[is_known], gap)
    marks += _halving(epochs[has_kl], kl[has_kl])
    epochs, novel = epochs[~np.isnan(novel)], novel[~np.isnan(novel)]
    marks += _deepest_fall(epochs, novel) + best(epochs, novel)
    return sorted(marks, key=lambda mark: mark.epoch)


def gap_closings(epochs: np.ndarray, gap: np.ndarray) -> list[Mark]:
    """Mark when the gap first falls below `_CLOSE`; if it widened again, when it was last lost or regained."""
    closed = np.abs(gap) < _CLOSE
    if not closed.any():
        return []
    points = f"{100 * _CLOSE:.0f} points"
    first, last = int(closed.argmax()), _last_change(closed)
    start = first == 0
    text = f"gap below {points} " + ("from the start" if start else f"at epoch {epochs[first]}")
    marks = [Mark(int(epochs[first]), "gap", text)]
    if last > first:
        words_again = f"gap {'below' if closed[-1] else 'above'} {points} from epoch {epochs[last]} on"
        marks.append(Mark(int(epochs[last]), "gap again", words_again))
    return marks


def _overtakings(epochs: np.ndarray, gap: np.ndarray) -> list[Mark]:
    """Mark the first time that novel leads seen by `_LEAD`, and the first time the other way round."""
    moved = np.abs(gap) >= _LEAD
    epochs, ahead = epochs[moved], np.sign(gap[moved])
    marks = []
    for sign, winner, loser in ((-1, "novel", "seen"), (1, "seen", "novel")):
        crossings = np.flatnonzero((ahead[1:] == sign) & (ahead[:-1] == -sign)) + 1
        if len(crossings):
            epoch = int(epochs[crossings[0]])
            marks.append(Mark(epoch, f"{winner} ahead", f"{winner} overtakes {loser} at epoch {epoch}"))
    return marks


def _halving(epochs: np.ndarray, kl: np.ndarray) -> list[Mark]:
    """Mark when the KL is first at most half of its value at the first record."""
    if not len(kl) or kl[0] < _MIN_KL or not (kl <= kl[0] / 2).any():
        return []
    epoch = int(epochs[(kl <= kl[0] / 2).argmax()])
    return [Mark(epoch, "kl", f"KL halved at epoch {epoch}")]


def _deepest_fall(epochs: np.ndarray, novel: np.ndarray) -> list[Mark]:
    """Mark the largest drop of novel accuracy between records, if it is at least `_FALL`."""
    falls = novel[:-1] - novel[1:]
    if not len(falls) or falls.max() < _FALL:
        return []
    i = int(falls.argmax())
    text = f"novel falls from {100 * novel[i]:.1f} to {100 * novel[i + 1]:.1f} % at epoch {epochs[i + 1]}"
    return [Mark(int(epochs[i + 1]), "fall", text)]


def best(epochs: np.ndarray, novel: np.ndarray) -> list[Mark]:
    """Mark the first time of the highest novel accuracy."""
    if len(novel) < 2:
        return []
    i = int(novel.argmax())
    return [Mark(int(epochs[i]), "best", f"best novel accuracy, {100 * novel[i]:.1f} %, at epoch {epochs[i]}")]


def _last_change(states: np.ndarray) -> int:
    """Return the start of the last stretch of equal states."""
    changes = np.flatnonzero(states[1:] != states[:-1])
    return int(changes[-1]) + 1 if len(changes) else 0
