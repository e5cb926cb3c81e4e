"""Group runs by settings, tag or method, with mean and spread of their newest numbers.

This uses the recorded numbers, for tables of thousands of runs; `run_groups` scores runs again for a comparison that
counts. Differences between groups are paired over runs that differ only in the grouping names.
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

EVERYTHING = "everything"  # group by all that varies, except the seed
_DATA = [key for key in protocol_parameters() if key.startswith(("dataset", "split."))]
_NOT_COMPARED = frozenset(REPEATED) - {"seed", "pretrain.seed"}  # settings that do not change the experiment


@dataclass(frozen=True)
class RunGroup:
    """Runs with equal values of some names. values: these values, in words."""

    values: tuple[str, ...]
    members: tuple[RunRow, ...]

    @property
    def id(self) -> str:
        """Id of the group in an address."""
        return hashlib.sha256("\n".join(self.values).encode()).hexdigest()[:8]

    @property
    def finished(self) -> int:
        return sum(entry.state.name == "finished" for entry in self.members)

    def mean_and_std(self, name: Name) -> tuple[float, float]:
        """Return `estimates.mean_and_std` of the newest values of one measurement; percent for fractions."""
        values = (name.display_value(entry) for entry in self.members)
        return estimates.mean_and_std([value for value in values if isinstance(value, int | float)])


def grouping_names(by: Sequence[str], entries: Sequence[RunRow]) -> list[Name]:
    """Return the grouping names of an address; `EVERYTHING` is method, data set and every setting that varies."""
    vocabulary = Vocabulary(entries)
    if EVERYTHING not in by:
        return columns.known_columns(by, vocabulary)
    varied = [key for key in ("method", "dataset") if len({getattr(entry, key) for entry in entries}) > 1]
    return columns.known_columns([*(varied or ["method"]), *columns.varying_settings(entries)], vocabulary)


def group_runs(entries: Sequence[RunRow], names: Sequence[Name]) -> list[RunGroup]:
    """Group runs by their values under `names`, sorted by these; a run is in the group of each of its tags."""
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
    return [name.value_text(entry)]


# ---------------------------------------------------------------------------------------------------- against one


def compare_to_baseline(
    groups: Sequence[RunGroup], base: RunGroup, measured: Name, by: Sequence[Name]
) -> dict[int, Difference | None]:
    """Return each group minus `base` by index, as fractions if the measurement is one; corrected together (Holm).

    None if they cannot be compared: other data, another split, no numbers.
    """
    keys = {name.key for name in by}
    compared = {index: group for index, group in enumerate(groups) if group is not base}
    compared_by_index = {index: _compare_groups(group, base, measured, keys) for index, group in compared.items()}
    known = {index: difference for index, difference in compared_by_index.items() if difference is not None}
    return compared_by_index | differences.correct_for_multiplicity(known)


def _compare_groups(group: RunGroup, base: RunGroup, measured: Name, by: set[str]) -> Difference | None:
    if len({_data_settings(entry) for entry in (*group.members, *base.members)}) > 1:
        return None
    samples = [_values_by_pair(runs, measured, by) for runs in (group, base)]
    return differences.compare_samples(*samples, skips_missing=True, unit="run")


def _data_settings(entry: RunRow) -> tuple:
    """Return the settings of the pictures and their split."""
    return tuple(entry.config.get(key) for key in _DATA) if entry.config else ()


def _values_by_pair(group: RunGroup, measured: Name, by: set[str]) -> Mapping[tuple, float]:
    """Return each run's value, NaN without one, by the settings that a run of another group can share.

    Of equal runs, the newest with a value counts. Runs of other methods have other settings of their own, so for groups
    by method only the shared settings count.
    """
    value_by_pair: dict[tuple, float] = {}
    shared = [key for key in protocol_parameters() if key not in by | _NOT_COMPARED]
    for entry in reversed(group.members):
        value = measured.read_value(entry)
        if entry.config:
            own_settings = () if "method" in by else entry.config.hyperparameters.items()
            pair = (*(entry.config.get(key) for key in shared), *(item for item in own_settings if item[0] not in by))
            is_recorded = isinstance(value, int | float) and math.isfinite(value)
            value_by_pair[pair] = value if is_recorded else value_by_pair.get(pair, math.nan)
    return value_by_pair
