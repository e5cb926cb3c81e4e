"""Group scored runs that differ only in their seed: mean, spread, and differences between groups."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lps.analysis import paper_results
from lps.analysis.run_scores import CLUSTERED_APART, REPEATED, TOLD, Scored, resolved_differences
from lps.errors import UserError
from lps.scores import estimates
from lps.settings import catalog
from lps.settings.config import Config, parameters, protocol_parameters
from lps.settings.parameters import short_text
from lps.store import titles

MAX_DEFAULTS = 4  # settings; a label with more would be too long to read
_MAX_CHANGED = 4  # settings in the label of a group that is alone


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed, one per seed. label: the method and the settings that differ between groups.

    If there is only one group, its label names the data and the settings that differ from the defaults.

    replaced: older runs of seeds that were run again. short_label: the label without settings that have their default,
    as in addresses and `--against`.
    """

    label: str
    members: tuple[Scored, ...]
    replaced: tuple[Scored, ...] = ()
    short_label: str = ""

    @property
    def config(self) -> Config:
        return self.members[0].config

    @property
    def seen_is_matched(self) -> bool:
        return self.members[0].scores.seen_is_matched

    @property
    def is_clustered_apart(self) -> bool:
        """Whether k-means was fitted to the scored images, which are test images."""
        return self.members[0].test_clusters == "test"

    def mean(self, column: str) -> float:
        return self._mean_and_std(column)[0]

    def std(self, column: str) -> float:
        """Return the sample standard deviation; NaN for one run."""
        return self._mean_and_std(column)[1]

    def _mean_and_std(self, column: str) -> tuple[float, float]:
        return estimates.mean_and_std([member.value(column) for member in self.members])

    @cached_property
    def paper(self) -> tuple[paper_results.Row | None, list[str]]:
        """Return the paper's numbers for the same experiment, or every reason why there are none."""
        first = self.members[0]
        return paper_results.matching_row(
            first.config, first.protocol, first.select, self.seen_is_matched, first.images
        )


# ---------------------------------------------------------------------------------------------------- groups


def group_runs(scored: Sequence[Scored], planned: Sequence[Config] = ()) -> list[Group]:
    """Group runs that differ only in `REPEATED`, one per seed; never across different splits.

    planned: configs of runs to come, whose differences are in the labels from the beginning.
    """
    runs_by_identity: dict[str, list[Scored]] = {}
    for member in scored:
        runs_by_identity.setdefault(group_key(member), []).append(member)
    first = [members[0] for members in runs_by_identity.values()]
    labels = zip(_label_all(first, planned), _label_all(first, planned, names_defaults=False))
    return [
        Group(label, *newest_of_seeds(members), short_label)
        for (label, short_label), members in zip(labels, runs_by_identity.values())
    ]


def group_key(member: Scored) -> str:
    """Return a key that is equal for runs that may be averaged together."""
    shared = {key: value for key, value in member.config.flat().items() if key not in REPEATED}
    return json.dumps([shared, member.split, member.precision, member.test_clusters], sort_keys=True)


def newest_of_seeds(members: Sequence[Scored]) -> tuple[tuple[Scored, ...], tuple[Scored, ...]]:
    """Return (the newest finished run of every seed, else the newest; the other runs). Ids begin with a time."""
    newest: dict[tuple[str, tuple[int, int]], Scored] = {}
    for member in sorted(members, key=lambda member: (member.is_complete, member.run.id)):
        newest[group_key(member), member.seeds] = member
    newest_runs = tuple(sorted(newest.values(), key=lambda member: (*member.seeds, member.run.id)))
    ids = set(map(id, newest_runs))
    return newest_runs, tuple(member for member in members if id(member) not in ids)


def differing_settings(configs: Sequence[Config]) -> dict[str, list]:
    """Return the settings, by key, that differ; of methods' own settings only those changed from their default.

    One value per config; None if a config does not have the setting.
    """
    flats = [config.flat() for config in configs]
    changed = {key for config in configs for key in _changed(config)}
    values_by_key = {}
    for key in dict.fromkeys(key for flat in flats for key in flat if key not in REPEATED):
        is_shared = all(key in flat and flat[key] == flats[0].get(key) for flat in flats)
        if not is_shared and (key in protocol_parameters() or key in changed):
            values_by_key[key] = [flat.get(key) for flat in flats]
    return values_by_key


def _changed(config: Config) -> Sequence[str]:
    try:
        return config.changed
    except UserError:  # the data set is missing or broken
        return [key for key, p in parameters(config.method).items() if config.get(key) != p.default]


def _label_all(members: Sequence[Scored], planned: Sequence[Config], names_defaults: bool = True) -> list[str]:
    """Return for each member its method and the settings that differ from the others, in the words of `--set`.

    planned: configs that count as others.
    names_defaults: include settings with their default value, if at most `MAX_DEFAULTS` settings differ.
    """
    configs = [member.config for member in members]
    differing = differing_settings([*configs, *planned])
    if names_defaults and len(members) == 1 and not differing:
        return [_label_alone(members[0])]
    names_defaults &= len(differing.keys() - {"method", "dataset"}) <= MAX_DEFAULTS
    labels = [_label(member.config, differing, names_defaults) for member in members]
    labels = [", ".join([label, *values]) for label, values in zip(labels, _resolved(members))]
    twice = {label for label in labels if labels.count(label) > 1}
    return [f"{label}, split {m.split}" if label in twice else label for label, m in zip(labels, members)]


def _label_alone(member: Scored) -> str:
    """Return the method, the data and the changed settings of runs that are compared with no others."""
    config = member.config
    changed = [key for key in _changed(config) if key not in (*titles.NOT_NAMED, *REPEATED)]
    changed.sort(key=lambda key: key not in config.hyperparameters)
    words = titles.without_paths([setting_in_words(key, config.get(key)) for key in changed])
    more = ["…"] * (len(words) > _MAX_CHANGED)
    data = titles.data_of(member.run, config.dataset)
    return ", ".join([catalog.method_info(config.method).title, data, *words[:_MAX_CHANGED], *more])


def _resolved(members: Sequence[Scored]) -> list[list[str]]:
    """Return for each member the resolved values that differ under the same settings, in words."""
    differing = resolved_differences(members)
    values_by_member = [[m.precision] if "precision" in differing else [] for m in members]
    clustered_apart = [
        m.test_clusters == "test" and m.config.hyperparameters["test_clusters"] != "test" for m in members
    ]
    return [
        values + [CLUSTERED_APART] * (is_apart and "test_clusters" in differing)
        for values, is_apart in zip(values_by_member, clustered_apart)
    ]


def _label(config: Config, differing: dict[str, list], names_defaults: bool) -> str:
    flat, default = config.flat(), config.defaults()
    parts = [config.dataset] if "dataset" in differing else []
    for key in differing:
        is_named = key in flat and (names_defaults or key in TOLD or flat[key] != default[key])
        if is_named and key not in ("method", "dataset"):
            parts.append(setting_in_words(key, flat[key]))
    return ", ".join([catalog.method_info(config.method).title, *parts])


def setting_in_words(key: str, value) -> str:
    """Format a setting: `split.labeled_ratio` 0.5 is "50 % labels", others are "lr=0.1", with few digits."""
    if key == "split.labeled_ratio":
        return f"{100 * value:g} % labels"
    return f"{key}={short_text(value)}"
