"""Runs put together by what they have in common: any settings, tag, method; mean and spread of their newest numbers.

A quick look at what runs have recorded, for tables of thousands; `run_groups` scores them anew for a comparison that
counts. Differences between groups are taken run by run where two differ in nothing but what they are put together by.
"""

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lps.analysis import differences
from lps.analysis.differences import Difference
from lps.analysis.run_index import RunRow
from lps.analysis.run_scores import REPEATED
from lps.scores import estimates
from lps.settings.config import protocol_parameters
from lps.settings.defaults import sort_key
from lps.tables import columns
from lps.tables.run_names import Name, Vocabulary

EVERYTHING = "everything"  # that varies, but for the seed
_DATA = [key for key in protocol_parameters() if key.startswith(("dataset", "split."))]
_NOT_COMPARED = frozenset(REPEATED) - {"seed", "pretrain.seed"}  # settings that make no other experiment


@dataclass(frozen=True)
class RunGroup:
    """Runs that say the same under some names. values: what they say, in words."""

    values: tuple[str, ...]
    members: tuple[RunRow, ...]

    @property
    def id(self) -> str:
        """What it is called in an address."""
        return hashlib.sha256("\n".join(self.values).encode()).hexdigest()[:8]

    @property
    def finished(self) -> int:
        return sum(entry.state.name == "finished" for entry in self.members)

    def mean_and_std(self, name: Name) -> tuple[float, float]:
        """Of the newest values of one measurement, percent for fractions; as `estimates.mean_and_std`."""
        values = (name.display_value(entry) for entry in self.members)
        return estimates.mean_and_std([value for value in values if isinstance(value, int | float)])


def names_of(by: Sequence[str], entries: Sequence[RunRow]) -> list[Name]:
    """What an address asks to put runs together by; `EVERYTHING` is method, data set and every setting that varies."""
    vocabulary = Vocabulary(entries)
    if EVERYTHING not in by:
        return columns.known_columns(by, vocabulary)
    names_found = [key for key in ("method", "dataset") if len({getattr(entry, key) for entry in entries}) > 1]
    return columns.known_columns([*(names_found or ["method"]), *columns.varying_settings(entries)], vocabulary)


def group_runs(entries: Sequence[RunRow], names: Sequence[Name]) -> list[RunGroup]:
    """The runs by their values under `names`, sorted by these; a run is in the group of each of its tags."""
    runs_by_values: dict[tuple[str, ...], list[RunRow]] = {}
    for entry in entries:
        for values in itertools.product(*(_values_in_words(name, entry) for name in names)):
            runs_by_values.setdefault(values, []).append(entry)
    ordered = sorted(runs_by_values, key=lambda values: list(map(sort_key, values)))
    return [RunGroup(values, tuple(runs_by_values[values])) for values in ordered]


def _values_in_words(name: Name, entry: RunRow) -> list[str]:
    value = name.read_value(entry)
    if isinstance(value, tuple):
        return list(value) or ["–"]
    return [name.words(entry)]


# ---------------------------------------------------------------------------------------------------- against one


def compare_to_baseline(
    groups: Sequence[RunGroup], base: RunGroup, measured: Name, by: Sequence[Name]
) -> dict[int, Difference | None]:
    """Place -> that group minus `base`, fractions where the measurement is one; all corrected together (Holm).

    None if they do not compare: other data, another split, no numbers.
    """
    keys = {name.key for name in by}
    compared = {index: group for index, group in enumerate(groups) if group is not base}
    difference_by_index = {index: _between(group, base, measured, keys) for index, group in compared.items()}
    return difference_by_index | differences.correct_for_multiplicity(
        {index: group for index, group in difference_by_index.items() if group is not None}
    )


def _between(one: RunGroup, base: RunGroup, measured: Name, by: set[str]) -> Difference | None:
    if len({_data(entry) for entry in (*one.members, *base.members)}) > 1:
        return None
    samples = [_by_pair(group, measured, by) for group in (one, base)]
    return differences.compare_samples(*samples, skips_missing=True, unit="run")


def _data(entry: RunRow) -> tuple:
    """The pictures and their split, as far as settings say them."""
    return tuple(entry.config.get(key) for key in _DATA) if entry.config else ()


def _by_pair(group: RunGroup, measured: Name, by: set[str]) -> Mapping[tuple, float]:
    """What each run has recorded, NaN for nothing, by all that it may have in common with a run of another group.

    Of runs that are equal the newest one that has recorded something counts.

    Runs of other methods have other settings of their own: where groups are of methods, only the shared ones count.
    """
    value_by_pair: dict[tuple, float] = {}
    shared = [key for key in protocol_parameters() if key not in by | _NOT_COMPARED]
    for entry in reversed(group.members):
        value = measured.read_value(entry)
        if entry.config:
            own_settings = () if "method" in by else entry.config.hyperparameters.items()
            pair = (*(entry.config.get(key) for key in shared), *(item for item in own_settings if item[0] not in by))
            is_known = isinstance(value, int | float) and math.isfinite(value)
            value_by_pair[pair] = value if is_known else value_by_pair.get(pair, math.nan)
    return value_by_pair
