"""Runs put together by what they have in common: any settings, tag, method; mean and spread of their newest numbers.

A quick look at what runs have recorded, for tables of thousands; `run_groups` scores them anew for a comparison that
counts. Differences between bunches are taken run by run where two differ in nothing but what they are put together by.
"""

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from lps.analysis import differences
from lps.analysis.differences import Difference
from lps.analysis.run_scores import REPEATED
from lps.analysis.standing import Entry
from lps.bench import columns
from lps.bench.run_names import Name, Vocabulary
from lps.scores import estimates
from lps.settings.config import protocol_parameters
from lps.wording import counted

EVERYTHING = "everything"  # that varies, but for the seed
_DATA = [key for key in protocol_parameters() if key.startswith(("dataset", "split."))]
_UNTOLD = frozenset(REPEATED) - {"seed", "pretrain.seed"}  # settings that make no other experiment


@dataclass(frozen=True)
class Bunch:
    """Runs that say the same under some names. values: what they say, in words."""

    values: tuple[str, ...]
    members: tuple[Entry, ...]

    @property
    def id(self) -> str:
        """What it is called in an address."""
        return hashlib.sha256("\n".join(self.values).encode()).hexdigest()[:8]

    @property
    def finished(self) -> int:
        return sum(entry.state.name == "finished" for entry in self.members)

    def numbers(self, name: Name) -> list[float]:
        """What its runs have recorded of one measurement, percent for fractions."""
        found = (name.of(entry) for entry in self.members)
        return [value for value in found if isinstance(value, int | float)]

    def mean(self, name: Name) -> float | None:
        values = self.numbers(name)
        return fmean(values) if values else None

    def std(self, name: Name) -> float | None:
        """Sample standard deviation; None for fewer than two runs."""
        values = self.numbers(name)
        return stdev(values) if len(values) > 1 else None


def names_of(by: Sequence[str], entries: Sequence[Entry]) -> list[Name]:
    """What an address asks to put runs together by; `EVERYTHING` is method, data set and every setting that varies."""
    vocabulary = Vocabulary(entries)
    if EVERYTHING not in by:
        return columns.known(by, vocabulary)
    told = [key for key in ("method", "dataset") if len({getattr(entry, key) for entry in entries}) > 1]
    return columns.known([*(told or ["method"]), *columns.varying(entries)], vocabulary)


def bunch(entries: Sequence[Entry], names: Sequence[Name]) -> list[Bunch]:
    """The runs by what they say under `names`, in the order of their first ones; with several tags a run is in each."""
    found: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        for values in itertools.product(*(_words(name, entry) for name in names)):
            found.setdefault(values, []).append(entry)
    return [Bunch(values, tuple(members)) for values, members in found.items()]


def in_order(bunches: Sequence[Bunch]) -> list[Bunch]:
    """By what they say, numbers by their size."""
    return sorted(bunches, key=lambda one: [_rank(value) for value in one.values])


def _rank(text: str) -> tuple[int, float, str]:
    try:
        return 0, float(text), ""
    except ValueError:
        return 1, 0.0, text.casefold()


def _words(name: Name, entry: Entry) -> list[str]:
    value = name.read(entry)
    if isinstance(value, tuple):
        return list(value) or ["–"]
    return [name.words(entry)]


# ---------------------------------------------------------------------------------------------------- against one


def held_against(
    bunches: Sequence[Bunch], base: Bunch, measured: Name, by: Sequence[Name]
) -> dict[int, Difference | None]:
    """Place -> that bunch minus `base`, fractions where the measurement is one; all corrected together (Holm).

    None where they do not compare: other data, another split, no numbers.
    """
    keys = {name.key for name in by}
    others = {place: one for place, one in enumerate(bunches) if one is not base}
    found = {place: _between(one, base, measured, keys) for place, one in others.items()}
    told = {place: one for place, one in found.items() if one is not None and one.has_interval}
    chances = estimates.holm([one.chance for one in told.values()])
    corrected = {place: replace(one, among=p, together=len(told)) for (place, one), p in zip(told.items(), chances)}
    return found | corrected


def _between(one: Bunch, base: Bunch, measured: Name, by: set[str]) -> Difference | None:
    if len({_data(entry) for entry in (*one.members, *base.members)}) > 1:
        return None
    return differences.between(_by_pair(one, measured, by), _by_pair(base, measured, by), skips_missing=True)


def _data(entry: Entry) -> tuple:
    """The pictures and their split, as far as settings say them."""
    return tuple(entry.config.get(key) for key in _DATA) if entry.config else ()


def _by_pair(one: Bunch, measured: Name, by: set[str]) -> Mapping[tuple, float]:
    """What each run has recorded, NaN for nothing, by all that it may have in common with a run of another bunch.

    Of runs that are equal the newest one that has recorded something counts.

    Runs of other methods have other settings of their own: where bunches are of methods, only the shared ones count.
    """
    found: dict[tuple, float] = {}
    shared = [key for key in protocol_parameters() if key not in by | _UNTOLD]
    for entry in reversed(one.members):
        value = measured.read(entry)
        if entry.config:
            own = () if "method" in by else entry.config.hyperparameters.items()
            pair = (*(entry.config.get(key) for key in shared), *(item for item in own if item[0] not in by))
            is_known = isinstance(value, int | float) and math.isfinite(value)
            found[pair] = value if is_known else found.get(pair, math.nan)
    return found


def verdict(difference: Difference | None) -> str:
    """What can be said of it, in a few words."""
    if difference is None:
        return "other data or split"
    if not difference.has_interval:
        is_one = difference.pairs == 1 or min(difference.counts) == 1
        return "one pair tells nothing of chance" if is_one else "the same in every pair"
    if difference.is_distinguishable:
        return "higher" if difference.mean > 0 else "lower"
    pairs = (
        counted(difference.pairs, "pair") if difference.pairs else f"{' and '.join(map(str, difference.counts))} runs"
    )
    return f"not distinguishable with {pairs}"
