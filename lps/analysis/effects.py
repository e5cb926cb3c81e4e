"""Effect of a setting: compare runs that are equal in everything else; no interpolation, no mixed splits.

A *background* is everything that such runs share: the method, the split, and every setting except those under study and
those that may differ between repetitions (`run_scores.REPEATED`). Means are only taken over seeds within a background.
"""

import hashlib
import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lps.analysis import paper_results, run_groups
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import REPEATED, Scored, is_number
from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import Config, configure
from lps.settings.defaults import count_unusual, sort_key

_DECADES = 100.0  # positive values get a log axis if the largest is at least this many times the smallest
_MIN_ASSOCIATION = 0.3  # of two settings, as Cramer's V
_FEWEST_SETUPS = 8  # fewest setups for shares of variance
_FOLLOWS = "its values are determined by other settings, so its effect cannot be separated from theirs"
_OUTSIDE = ("dataset", "method")  # no settings of an effect, nor is anything of these groups:
_OUTSIDE_GROUPS = ("dataset.", "split.")


@dataclass(frozen=True)
class Background:
    """Runs of one split that are equal in everything but `settings` and their seed.

    rest: `rest_of` each of them. split: the digest of their split. groups: the values of the settings, in their order,
    -> the runs with these values, one a seed.
    """

    settings: tuple[str, ...]
    rest: str
    split: str
    groups: Mapping[tuple, Group]

    @property
    def id(self) -> str:
        """A short identifier that depends on the background alone."""
        return hashlib.sha256(f"{self.rest}|{self.split}".encode()).hexdigest()[:6]

    @property
    def config(self) -> Config:
        """The config of one of the runs: correct in everything but the settings and the seed."""
        return next(iter(self.groups.values())).config

    @property
    def members(self) -> list[Scored]:
        return [member for group in self.groups.values() for member in group.members]

    def spread(self, measure: str) -> float:
        """Return the highest minus the lowest mean of its groups, a fraction; 0 without scores."""
        means = [mean for group in self.groups.values() if math.isfinite(mean := group.mean(measure))]
        return max(means) - min(means) if means else 0.0

    def values(self, setting: str) -> list:
        """Return the measured values of one of the settings, in order."""
        index = self.settings.index(setting)
        return sort_values({values[index] for values in self.groups})


@dataclass(frozen=True)
class Importance:
    """Share of the variance between setups that one setting explains (`setting_importance`).

    setting: its name, or the names of settings that always changed together. share: of the total sum of squares,
    what the setting adds to all others. chance: the expected addition if nothing had an effect. values: number of
    its values.
    """

    setting: str
    share: float
    chance: float
    values: int


# ---------------------------------------------------------------------------------------------------- backgrounds


def can_be_studied(key: str) -> bool:
    """Return whether a setting can be studied: it is not a repetition and does not change the split."""
    return key not in (*REPEATED, *_OUTSIDE) and not key.startswith(_OUTSIDE_GROUPS)


def varied_settings(configs: Iterable[Config]) -> dict[str, list]:
    """Return every setting with more than one value, with its values in order; the method's own settings first."""
    values_by_setting: dict[str, set] = {}
    own_settings: set[str] = set()
    for config in configs:
        own_settings |= set(config.hyperparameters)
        for key, value in config.flat().items():
            if can_be_studied(key):
                values_by_setting.setdefault(key, set()).add(value)
    several = {key: sort_values(values) for key, values in values_by_setting.items() if len(values) > 1}
    return dict(sorted(several.items(), key=lambda item: item[0] not in own_settings))


def rest_of(config: Config, settings: Sequence[str]) -> str:
    """Return the config without the settings under study and those that differ between repetitions."""
    flat = config.flat()
    return json.dumps({key: flat[key] for key in sorted(flat) if key not in (*REPEATED, *settings)})


def find_backgrounds(scored: Iterable[Scored], settings: Sequence[str]) -> list[Background]:
    """Return all backgrounds of runs with the settings; most values first, then most runs, most common, newest."""
    settings = tuple(settings)
    runs_by_background: dict[tuple[str, str], list[Scored]] = {}
    for member in scored:
        if set(settings) <= member.config.flat().keys():
            runs_by_background.setdefault((rest_of(member.config, settings), member.split), []).append(member)
    candidates = [Background(settings, *key, _groups(members, settings)) for key, members in runs_by_background.items()]

    def is_counted(key: str) -> bool:
        return can_be_studied(key) and key not in settings

    candidates.sort(key=lambda background: max(member.run.id for member in background.members), reverse=True)
    return sorted(candidates, key=lambda b: (-len(b.groups), -len(b.members), count_unusual(b.config, is_counted)))


def _groups(members: Sequence[Scored], settings: tuple[str, ...]) -> dict[tuple, Group]:
    runs_by_values: dict[tuple, list[Scored]] = {}
    for member in members:
        runs_by_values.setdefault(values_of(member.config, settings), []).append(member)
    return {
        values: Group(
            settings_in_words(dict(zip(settings, values))), *run_groups.newest_of_seeds(runs_by_values[values])
        )
        for values in sorted(runs_by_values, key=lambda values: list(map(sort_key, values)))
    }


def values_of(config: Config, settings: Sequence[str]) -> tuple:
    """Return the values of the settings, in their order."""
    flat = config.flat()
    return tuple(flat[key] for key in settings)


def settings_in_words(changes: Mapping[str, object]) -> str:
    """Format settings with their values as after `--set`."""
    return ", ".join(run_groups.setting_in_words(key, value) for key, value in changes.items())


def most_cells(configs: Sequence[Config], settings: Sequence[str], varied: Iterable[str]) -> int:
    """Return the number of different values of the settings in the largest background.

    The runs share method and split; `varied_settings` names every setting in which they differ.
    """
    other_settings = [key for key in varied if key not in settings]
    values_by_background: dict[tuple, set] = {}
    for config in configs:
        values_by_background.setdefault(values_of(config, other_settings), set()).add(values_of(config, settings))
    return max(map(len, values_by_background.values()), default=0)


def one_split(scored: Sequence[Scored]) -> tuple[list[Scored], list[Scored]]:
    """Return (runs of the most frequent split, the newest if equal; other runs, which are not comparable with them)."""
    counts = Counter(member.split for member in scored)
    newest = {split: max(member.run.id for member in scored if member.split == split) for split in counts}
    chosen_split = max(counts, key=lambda split: (counts[split], newest[split]), default="")
    return [m for m in scored if m.split == chosen_split], [m for m in scored if m.split != chosen_split]


# ---------------------------------------------------------------------------------------------------- values


def sort_values(values: Iterable) -> list:
    """Sort values for an axis: none, then numbers, then words."""
    return sorted(values, key=sort_key)


def axis_scale(values: Sequence) -> str:
    """Return the axis type: "linear"; "log" if the values span decades; "places" (equal steps) if neither fits."""
    if not all(is_number(value) for value in values):
        return "places"
    positive = [value for value in values if value > 0]
    if not positive or max(positive) < _DECADES * min(positive):
        return "linear"
    return "log" if len(positive) == len(values) else "places"


# ---------------------------------------------------------------------------------------------------- missing runs


def usual_seeds(groups: Iterable[Group]) -> tuple[int, ...]:
    """Return the seeds that most groups have; for equal counts the larger set, then the lower seeds."""
    counts = Counter(tuple(sorted({member.config.seed for member in group.members})) for group in groups)
    return min(counts, key=lambda seeds: (-counts[seeds], -len(seeds), seeds), default=())


def missing_configs(background: Background, values: Sequence, seeds: Sequence[int]) -> list[Config]:
    """Return configs that the cell `values` lacks for `seeds`; settings of `REPEATED` are as in the other runs.

    Raises `UserError` if a value does not fit.
    """
    group = background.groups.get(tuple(values))
    existing_seeds = {member.config.seed for member in group.members} if group else set()
    members = sorted(background.members, key=lambda member: member.run.id, reverse=True)
    configs = []
    for seed in seeds:
        if seed not in existing_seeds:
            pattern = next((member for member in members if member.config.seed == seed), members[0])
            changes = dict(zip(background.settings, values)) | {"seed": seed}
            configs.append(configure(pattern.config.flat() | changes))
    return configs


# ---------------------------------------------------------------------------------------------------- importance


def setting_importance(scored: Sequence[Scored], column: str) -> tuple[list[Importance], dict[str, str]]:
    """Return (share of the variance between setups per varied setting, largest first; settings left out, with reasons).

    A setup is all runs that differ in nothing but the seed; its value is their mean. Of the linear model with one term
    for each value of each setting (main effects), a share is the sum of squares that is lost without the setting,
    divided by the total sum of squares (type III). If all values are crossed equally often, this is eta squared.
    Interactions between settings do not show. Settings that always changed together count as one. A
    setting whose values follow from the others is left out.
    Raises `UserError` if there are several splits, fewer than `_FEWEST_SETUPS` setups, or no differences.
    """
    if len({member.split for member in scored}) > 1:
        raise UserError("importance", "cannot be computed for runs of different splits")
    setups = _setups(scored, column)
    if len(setups) < _FEWEST_SETUPS:
        raise UserError(
            "importance",
            f"needs runs with at least {_FEWEST_SETUPS} different configurations; these runs have {len(setups)}",
        )
    means = np.array([mean for _, mean in setups])
    total = float(((means - means.mean()) ** 2).sum())
    if total <= 1e-12:
        raise UserError("importance", "cannot be measured: all configurations have the same result")
    importances, left_out = [], {}
    levels = _levels([config for config, _ in setups])
    for name in [name for name, level_indices in levels.items() if 2 * (level_indices.max() + 1) > len(setups)]:
        values = levels.pop(name).max() + 1
        left_out[name] = (
            f"with {values} values and only {len(setups)} configurations, its effect cannot be separated from chance"
        )
    unexplained, terms = _residual(levels.values(), means)
    for name, level_indices in levels.items():
        without, fewer_terms = _residual([other_levels for key, other_levels in levels.items() if key != name], means)
        if terms - fewer_terms < level_indices.max():
            left_out[name] = _FOLLOWS
            continue
        share = max(0.0, without - unexplained) / total
        importances.append(
            Importance(name, share, float(level_indices.max() / (len(setups) - 1)), int(level_indices.max() + 1))
        )
    return sorted(importances, key=lambda item: -item.share), left_out


def setting_associations(scored: Sequence[Scored]) -> list[tuple[str, str, float]]:
    """Return (setting, setting, Cramer's V) of settings that were varied together, the strongest first.

    V is 0 if all values of the two are crossed equally often, and 1 if one follows from the
    other. Pairs below `_MIN_ASSOCIATION` are left out.
    """
    levels = _levels(list({run_groups.group_key(member): member.config for member in scored}.values()))
    pairs = []
    for first, second in itertools.combinations(levels, 2):
        counts = np.zeros((levels[first].max() + 1, levels[second].max() + 1))
        np.add.at(counts, (levels[first], levels[second]), 1)
        expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
        strength = math.sqrt(((counts - expected) ** 2 / expected).sum() / counts.sum() / (min(counts.shape) - 1))
        if strength >= _MIN_ASSOCIATION:
            pairs.append((first, second, strength))
    return sorted(pairs, key=lambda item: -item[2])


def _levels(configs: Sequence[Config]) -> dict[str, np.ndarray]:
    """Return for each varied setting (or settings that always changed together) the index of its value per config."""
    joint_settings = changed_together(configs)
    single = [(name,) for name in varied_settings(configs) if not any(name in names for names in joint_settings)]
    return {
        ", ".join(names): np.unique([str(config.flat()[names[0]]) for config in configs], return_inverse=True)[1]
        for names in [*single, *joint_settings]
    }


def _residual(levels: Iterable[np.ndarray], means: np.ndarray) -> tuple[float, int]:
    """Return (residual sum of squares of the main effects model of these settings, rank of the model)."""
    model = np.column_stack(
        [np.ones(len(means)), *(np.eye(level_indices.max() + 1)[level_indices] for level_indices in levels)]
    )
    fitted, _, rank, _ = np.linalg.lstsq(model, means)
    return float(((means - model @ fitted) ** 2).sum()), int(rank)


def _setups(scored: Sequence[Scored], column: str) -> list[tuple[Config, float]]:
    """Return (config, mean over the seeds) of every setup with a score."""
    runs_by_setup: dict[str, list[Scored]] = {}
    for member in run_groups.newest_of_seeds(scored)[0]:
        runs_by_setup.setdefault(run_groups.group_key(member), []).append(member)
    groups = [Group("", tuple(members)) for members in runs_by_setup.values()]
    return [(group.config, group.mean(column)) for group in groups if math.isfinite(group.mean(column))]


def changed_together(configs: Sequence[Config]) -> list[tuple[str, ...]]:
    """Group settings that split the configs in the same way: their effects cannot be separated."""
    settings_by_partition: dict[tuple[int, ...], list[str]] = {}
    for setting in varied_settings(configs):
        values = [config.flat()[setting] for config in configs]
        first = {value: values.index(value) for value in values}
        settings_by_partition.setdefault(tuple(first[value] for value in values), []).append(setting)
    return [tuple(settings) for settings in settings_by_partition.values() if len(settings) > 1]


# ---------------------------------------------------------------------------------------------------- the paper


def paper_curve(member: Scored, setting: str) -> tuple[dict[float, paper_results.Row], list[str]]:
    """Return (the paper's numbers for values of a setting, the rest as in `member`; every reason if there are none)."""
    name = paper_results.SWEEPS.get(setting)
    if name is None or member.config.method != "lps":
        return {}, [f"it has no curve of {setting} for {catalog.method_info(member.config.method).title}"]
    config = member.config
    experiment = (name, paper_results.DATASETS.get(config.dataset), config.split_labeled_ratio)
    lines = [row for row in paper_results.paper_rows() if (row.parameter, row.dataset, row.labeled_ratio) == experiment]
    row_by_value = {float(row.value): _counterpart(member, setting, float(row.value))[0] for row in lines}
    row_by_value = {value: row for value, row in row_by_value.items() if row is not None}
    if row_by_value:
        return row_by_value, []
    default = catalog.method_info("lps").parameters[setting].default
    reasons = _counterpart(member, setting, default)[1]
    return {}, reasons or [f"it has no curve of {setting} for {experiment[1]} with {100 * experiment[2]:g} % labels"]


def _counterpart(member: Scored, setting: str, value: float) -> tuple[paper_results.Row | None, list[str]]:
    config = configure(member.config.flat() | {setting: value})
    return paper_results.matching_row(
        config, member.protocol, member.select, member.scores.seen_is_matched, member.images
    )
