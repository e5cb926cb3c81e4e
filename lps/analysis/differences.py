"""Compare groups of runs: the difference, its uncertainty, and the number of seeds needed to distinguish them.

Runs with the same seed start alike (start weights, order of the images), so differences are taken seed by seed:
Student's t on these. If the groups have different seeds: Welch's t. Intervals contain the true difference with
`estimates.INTERVAL_CONFIDENCE` if the scores are about normally distributed over seeds. Every comparison of groups is
made here.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lps.analysis.run_groups import Group
from lps.analysis.run_scores import HIGHER_IS_BETTER
from lps.scores import estimates
from lps.scores.estimates import CONFIDENCE_TEXT, INTERVAL_CONFIDENCE, MAX_SAMPLE_SIZE, POWER
from lps.settings.defaults import count_unusual
from lps.wording import counted

COLUMNS = ("seen", "novel", "all", "nmi", "gap")  # that are compared
_ABOUT_PAIRS = (
    "Runs with the same seed begin alike, so they are compared seed by seed (where seeds differ: group by group, "
    f"Welch). {100 * INTERVAL_CONFIDENCE:g} of 100 such intervals contain the true difference; if an interval contains "
    "0, these seeds do not show a difference"
)
_COLUMN_WORDS = {"seen": "seen", "novel": "novel", "all": "all", "nmi": "NMI", "gap": "gap"}
_ABOUT_NEEDED = (
    f"seeds needed: for an interval without 0 in {100 * POWER:.0f} of 100 tries, if the true difference and "
    "spread are the ones seen here; a guess where seeds are few"
)
_ABOUT_HOLM = "corrected for {} comparisons per column (Holm); intervals are not corrected"
_ABOUT_ROUNDING = (
    "differences are computed before rounding, so they can be 0.1 away from those of the rounded accuracies"
)
_ABOUT_BOLD = (
    f"bold: distinguishable from every other row with the same split, each comparison with {CONFIDENCE_TEXT} confidence"
)
_ABOUT_NO_BOLD = (
    f"nothing is bold: in no column do the seeds show with {CONFIDENCE_TEXT} confidence that the best row is better "
    "than the next best"
)
_ABOUT_ONE_SEED = "one seed: nothing was tested, so nothing is bold"
_ABOUT_SHARED = (
    "seeds such as 0 (1 of 2): only the seeds that both rows have are compared, so a difference is not that of the "
    "means of all seeds"
)
_TINY = 1e-9  # a difference below this is rounding


# ---------------------------------------------------------------------------------------------------- two groups


@dataclass(frozen=True)
class Difference:
    """First minus second. low, high: confidence interval, NaN if there is none; fractions if the scores are.

    pairs: number of seeds compared one by one, 0 if groups were compared as a whole. counts: runs of each group.
    chance: as in `estimates.MeanEstimate`, for this comparison alone; among: corrected for all those made at once,
    by `estimates.holm`. spreads: as in `estimates.sample_size_needed`. unit: what one number stands for, a seed or a
    run. together: number of comparisons made at once.
    """

    mean: float
    low: float
    high: float
    chance: float
    among: float
    pairs: int
    counts: tuple[int, int]
    spreads: tuple[float, ...]
    unit: str = "seed"
    together: int = 1

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low)

    @property
    def is_distinguishable(self) -> bool:
        """Whether 0 is excluded after correction for all comparisons made at once."""
        return self.among < 1 - INTERVAL_CONFIDENCE

    @property
    def is_distinguishable_alone(self) -> bool:
        """Whether its own interval excludes 0."""
        return self.chance < 1 - INTERVAL_CONFIDENCE

    @cached_property
    def seeds_needed(self) -> int | None:
        """Return the result of `estimates.sample_size_needed`; None also if the spread is unknown."""
        return estimates.sample_size_needed(self.mean, self.spreads) if self.has_interval else None

    @property
    def samples(self) -> str:
        """Return the sample sizes: "3 seeds", "3 and 5 runs"."""
        if self.pairs or self.counts[0] == self.counts[1]:
            return counted(self.pairs or self.counts[0], self.unit)
        return f"{self.counts[0]} and {self.counts[1]} {self.unit}s"


def compare_samples(
    first: Mapping[object, float], second: Mapping[object, float], skips_missing: bool = False, unit: str = "seed"
) -> Difference | None:
    """Compare two groups, given as seed -> number. None if a number is missing (NaN or infinite).

    Uses pairs if the other group has every seed of the smaller one, else Welch's t, so that no run of the smaller
    group is left out. The rule looks at seeds alone, never at numbers. skips_missing: leave runs without a number
    out instead, in pairs both; None if no run remains.
    """
    common = [seed for seed in first if seed in second]
    is_paired = len(common) == min(len(first), len(second))
    finite = [
        {seed: value for seed, value in value_by_seed.items() if math.isfinite(value)}
        for value_by_seed in (first, second)
    ]
    if not skips_missing and (len(finite[0]) < len(first) or len(finite[1]) < len(second)):
        return None
    paired_seeds = [seed for seed in common if seed in finite[0] and seed in finite[1]]
    seeds = [paired_seeds, paired_seeds] if is_paired else [list(value_by_seed) for value_by_seed in finite]
    if not all(seeds):
        return None
    values = [
        np.array([value_by_seed[seed] for seed in chosen_seeds]) for value_by_seed, chosen_seeds in zip(finite, seeds)
    ]
    estimate = estimates.of_pairs(*values) if is_paired else estimates.of_two(*values)
    of_spread = [values[0] - values[1]] if is_paired else values
    spreads = tuple(float(np.std(part, ddof=1)) if len(part) > 1 else math.nan for part in of_spread)
    mean, half, chance = float(estimate.mean), float(estimate.half_width), float(estimate.chance)
    pairs, counts = len(paired_seeds) if is_paired else 0, (len(finite[0]), len(finite[1]))
    return Difference(mean, mean - half, mean + half, chance, chance, pairs, counts, spreads, unit)


def correct_for_multiplicity(differences: Mapping[Any, Difference]) -> dict[Any, Difference]:
    """Correct differences that are compared at once for their number, by `estimates.holm`."""
    num_tests = sum(difference.has_interval for difference in differences.values())
    chances = estimates.holm([difference.chance for difference in differences.values()])
    return {
        key: replace(difference, among=among, together=num_tests)
        for (key, difference), among in zip(differences.items(), chances)
    }


def of_groups(group: Group, reference: Group, column: str) -> Difference | None:
    """Return `group` minus `reference`; None if not comparable: other splits, other scoring, no number."""
    if not _are_comparable(group, reference, column):
        return None
    return compare_samples(_values(group, column), _values(reference, column))


def _values(group: Group, column: str) -> dict[tuple[int, int], float]:
    return {member.seeds: member.value(column) for member in group.members}


def _are_comparable(group: Group, reference: Group, column: str) -> bool:
    """Return whether scores of a column can be compared.

    Matched seen accuracies are never lower than raw ones, and k-means on the test images uses all of them at once.
    """
    comparable = (
        group.members[0].split == reference.members[0].split
        and group.is_clustered_apart == reference.is_clustered_apart
    )
    return comparable and (column not in ("seen", "gap") or group.seen_is_matched == reference.seen_is_matched)


# ---------------------------------------------------------------------------------------------------- many groups


@dataclass(frozen=True)
class GroupComparison:
    """Groups compared with others. references: for each group the group of its split that it is compared with.

    differences: (row, column) -> that row minus its reference, for every comparable row except the references.
    """

    groups: Sequence[Group]
    references: Sequence[Group]
    differences: Mapping[tuple[int, str], Difference]

    @property
    def rows(self) -> list[int]:
        """Return the indices of the groups that have a difference."""
        return list(dict.fromkeys(row for row, _ in sorted(self.differences)))

    def seeds(self, row: int) -> str:
        """Return how many seeds of a row were compared: "3"; which, if the other group has more: "0, 1 (2 of 3)"."""
        one = self._example(row)
        if not one.pairs:
            return f"{one.counts[0]} / {one.counts[1]}, unpaired"
        if one.pairs == max(one.counts):
            return str(one.pairs)
        return f"{', '.join(map(str, self.paired_seeds(row)))} ({one.pairs} of {max(one.counts)})"

    def paired_seeds(self, row: int) -> list[int]:
        """Return the seeds of a row that were compared one by one; [] if the groups were compared as a whole."""
        others = {member.seeds for member in self.references[row].members}
        seeds = [member.config.seed for member in self.groups[row].members if member.seeds in others]
        return seeds if self._example(row).pairs else []

    def _example(self, row: int) -> Difference:
        """Return one of the differences of a row; all of them are between the same runs."""
        return next(difference for (group_row, _), difference in self.differences.items() if group_row == row)

    @property
    def bold(self) -> set[tuple[int, str]]:
        return {row for row, difference in self.differences.items() if difference.is_distinguishable}


def compare_groups(groups: Sequence[Group], reference: Group | None = None) -> GroupComparison:
    """Compare groups with `reference`; without it, and in other splits, with the usual reference of their split.

    The differences of a column are corrected together, by `estimates.holm`; no reference may be chosen by its scores.
    """
    usual_ones = {split: usual_reference(groups_of_split) for split, groups_of_split in _by_split(groups).items()}
    if reference is not None:
        usual_ones[reference.members[0].split] = reference
    references = [usual_ones[group.members[0].split] for group in groups]
    differences = {}
    for column in COLUMNS:
        differences |= correct_for_multiplicity(
            {
                (row, column): difference
                for row, (group, other) in enumerate(zip(groups, references))
                if group is not other and (difference := of_groups(group, other, column)) is not None
            }
        )
    return GroupComparison(groups, references, differences)


def _by_split(groups: Sequence[Group]) -> dict[str, list[Group]]:
    groups_by_split: dict[str, list[Group]] = {}
    for group in groups:
        groups_by_split.setdefault(group.members[0].split, []).append(group)
    return groups_by_split


def usual_reference(groups: Sequence[Group]) -> Group:
    """Return the default reference: the LPS group with fewest changed settings; never chosen by its scores."""
    return min(groups, key=lambda group: (group.config.method != "lps", count_unusual(group.config), group.label))


def missing_seeds(group: Group, reference: Group) -> list[int]:
    """Return the seeds that a group lacks: it has one seed, or fewer than its reference.

    They are those of the reference; if it has no others, the lowest unused one.
    """
    own = {member.config.seed for member in group.members}
    others = {member.config.seed for member in reference.members}
    if len(own) > 1 and len(own) >= len(others):
        return []
    return sorted(others - own) or [next(seed for seed in itertools.count() if seed not in own)]


def best_cells(groups: Sequence[Group]) -> set[tuple[int, str]]:
    """Return the (row, column) that are higher than every other row of their split in a column, and distinguishable.

    These comparisons are not corrected: all of them must hold, so their number makes a false mark no likelier.
    A matched seen accuracy is best only if all are matched: matching never makes it lower. A score on test
    images that were clustered on their own is not best beside scores on images that were not.
    """
    winners = set()
    for split in _by_split(groups):
        for column in HIGHER_IS_BETTER:
            rivals = {row: group for row, group in enumerate(groups) if group.members[0].split == split}
            rivals = {row: group for row, group in rivals.items() if math.isfinite(group.mean(column))}
            if len({group.is_clustered_apart for group in rivals.values()}) > 1:
                rivals = {row: group for row, group in rivals.items() if not group.is_clustered_apart}
            top = best_sample([_values(group, column) for group in rivals.values()])
            mixed = column == "seen" and len({group.seen_is_matched for group in rivals.values()}) > 1
            row = None if top is None else list(rivals)[top]
            if row is not None and not (mixed and groups[row].seen_is_matched):
                winners.add((row, column))
    return winners


def about_bold(groups: Sequence[Group], has_bold: bool) -> str:
    """Explain the bold cells of a table of groups, or why there are none."""
    if has_bold:
        return _ABOUT_BOLD
    untested = [group.label for group in groups if len(group.members) == 1]
    if len(untested) == len(groups):
        return _ABOUT_ONE_SEED
    about_untested = f"not tested: {' · '.join(untested)} {'has' if len(untested) == 1 else 'have'} one seed"
    if len(untested) == len(groups) - 1:
        return f"nothing is bold, and {about_untested}"
    return f"{_ABOUT_NO_BOLD}; {about_untested}" if untested else _ABOUT_NO_BOLD


def best_sample(samples: Sequence[Mapping[object, float]]) -> int | None:
    """Return the index of the sample, seed -> number, that is higher than and distinguishable from every other one."""
    if len(samples) < 2:
        return None
    top = max(range(len(samples)), key=lambda i: np.mean(list(samples[i].values())))
    comparisons = (compare_samples(samples[top], sample) for i, sample in enumerate(samples) if i != top)
    is_best = all(one and one.is_distinguishable_alone and one.mean > 0 for one in comparisons)
    return top if is_best else None


# ---------------------------------------------------------------------------------------------------- in words


def format_difference(difference: Difference | None) -> str:
    """Format percent points and their interval: "+2.1 [+0.4, +3.8]"; the difference alone if it has no interval."""
    return "-" if difference is None else format_points(difference.mean, difference.low, difference.high)


def format_points(mean: float, low: float, high: float) -> str:
    """Format percent points as in `format_difference`. low, high: NaN if there is no interval."""
    return _points(mean) if math.isnan(low) else f"{_points(mean)} [{_points(low)}, {_points(high)}]"


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def verdict(difference: Difference | None) -> str:
    """Return the verdict: "higher", "not distinguishable with 3 seeds", ...; for None: the groups do not compare."""
    if difference is None:
        return "other data or split"
    if not difference.has_interval:
        return _without_interval(difference)
    if difference.is_distinguishable:
        return "higher" if difference.mean > 0 else "lower"
    if difference.is_distinguishable_alone:
        return f"distinguishable as a single comparison, but not after correction for {difference.together} comparisons"
    return f"not distinguishable with {difference.samples}"


def _without_interval(difference: Difference) -> str:
    """Return the text for a group with one run, or for differences that are all the same."""
    if min(difference.counts) == 1 or difference.pairs == 1:
        return f"one {difference.unit}: chance cannot be ruled out"
    if abs(difference.mean) < _TINY:
        return f"equal results with all {difference.samples}"
    return f"the same difference with all {difference.samples}, so chance cannot be estimated"


def seeds_needed_in_words(difference: Difference) -> str:
    """Return the seeds needed if the present ones do not distinguish: "12", "over 1,000"; "" otherwise."""
    if not difference.has_interval or difference.is_distinguishable_alone:
        return ""
    return str(difference.seeds_needed) if difference.seeds_needed else f"over {MAX_SAMPLE_SIZE:,}"


def explain_differences(comparison: GroupComparison) -> list[str]:
    """Explain the differences to the reader: the rounding, the intervals, the bold marks, the correction."""
    if not comparison.differences:
        return []
    num_tests = max(difference.together for difference in comparison.differences.values())
    has_interval = any(difference.has_interval for difference in comparison.differences.values())
    is_partial = any(0 < difference.pairs < max(difference.counts) for difference in comparison.differences.values())
    lines = [*[_ABOUT_SHARED] * is_partial, _ABOUT_ROUNDING, *[_ABOUT_PAIRS] * has_interval]
    if num_tests:
        lines.append("bold: distinguishable" + (f", {_ABOUT_HOLM.format(num_tests)}" if num_tests > 1 else ""))
    if any(seeds_needed_in_words(difference) for difference in comparison.differences.values()):
        lines.append(_ABOUT_NEEDED)
    return lines


def undecided_in_words(comparison: GroupComparison) -> list[str]:
    """Return a sentence for every row with a difference that is not distinguishable, and the seeds it would need."""
    lines = []
    for row in comparison.rows:
        by_verdict: dict[str, list[str]] = {}
        for column in COLUMNS:
            difference = comparison.differences.get((row, column))
            if difference is not None and not difference.is_distinguishable:
                needed = seeds_needed_in_words(difference)
                text = _COLUMN_WORDS[column] + (f" (it would need {needed})" if needed else "")
                by_verdict.setdefault(verdict(difference), []).append(text)
        whom = f"{comparison.groups[row].label} against {comparison.references[row].label}"
        lines += [f"{whom}: {verdict_text}: {', '.join(columns)}" for verdict_text, columns in by_verdict.items()]
    return lines
