"""Compute main effects: how far a score moves, on average over all other settings, when one setting changes.

For a setting and two of its values, runs are paired that are equal in everything else, seed included. Only complete
blocks count: contexts (all other settings) in which both values were run with the same seeds. The effect is the mean of
the paired differences; its interval comes from the seeds, whose differences are averaged over the contexts first.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lps.analysis import effects, run_groups
from lps.analysis.run_scores import Scored
from lps.scores import estimates


@dataclass(frozen=True)
class MainEffect:
    """The largest effect among the pairs of a setting's values.

    before, after: the two values, in the order of an axis. difference: the score of `after` minus that of `before`, a
    fraction. half_width: half the width of its confidence interval, corrected for the
    number of pairs that were compared (Bonferroni); NaN for one seed. seeds, contexts, pairs: how many.
    """

    setting: str
    before: object
    after: object
    difference: float
    half_width: float
    seeds: int
    contexts: int
    pairs: int


def main_effects(scored: Sequence[Scored], measure: str) -> list[MainEffect]:
    """Return the main effect of each setting that varies among runs of one split, largest first.

    measure: "novel", "seen", "all" or "gap". A setting without two values in the same context is left out.
    """
    members = [m for m in run_groups.newest_of_seeds(scored)[0] if math.isfinite(m.value(measure))]
    settings = effects.varied_settings(member.config for member in members)
    largest = [effect for setting in settings if (effect := _largest(members, setting, measure))]
    return sorted(largest, key=lambda effect: -abs(effect.difference))


def _largest(members: Sequence[Scored], setting: str, measure: str) -> MainEffect | None:
    blocks: dict[tuple, dict[tuple, Mapping]] = {}  # (before, after) -> context -> seed -> difference
    for context, by_value in _contexts(members, setting, measure).items():
        for before, after in itertools.combinations(effects.sort_values(by_value), 2):
            first, second = by_value[before], by_value[after]
            paired = {seed: second[seed] - first[seed] for seed in first.keys() & second.keys()}
            if paired:
                blocks.setdefault((before, after), {})[context] = paired
    candidates = [_effect(setting, pair, list(contexts.values()), len(blocks)) for pair, contexts in blocks.items()]
    return max(candidates, key=lambda effect: (abs(effect.difference), effect.contexts), default=None)


def _contexts(members: Sequence[Scored], setting: str, measure: str) -> dict[tuple, dict[object, dict]]:
    """Return scores by context (all but this setting, the split, the computation), value of the setting, and seeds."""
    scores_by_context: dict[tuple, dict[object, dict]] = {}
    for member in members:
        values = member.config.flat()
        if setting in values:
            context = effects.rest_of(member.config, [setting]), member.split, member.precision, member.test_clusters
            by_value = scores_by_context.setdefault(context, {})
            by_value.setdefault(values[setting], {})[member.seeds] = member.value(measure)
    return scores_by_context


def _effect(setting: str, pair: tuple, differences: list[Mapping[tuple, float]], pairs: int) -> MainEffect:
    seeds, block = _complete(differences)
    by_seed = np.array([np.mean([context[seed] for context in block]) for seed in seeds])
    mean = estimates.of_mean(by_seed)
    half_width = float(estimates.t_quantile(mean.degrees, pairs) * mean.error)
    return MainEffect(setting, *pair, float(mean.mean), half_width, len(seeds), len(block), pairs)


def _complete(differences: list[Mapping[tuple, float]]) -> tuple[list[tuple], list[Mapping[tuple, float]]]:
    """Return the seeds, and the contexts that have all of them: the block with most runs."""
    counts = Counter(frozenset(context) for context in differences)
    blocks = [(seeds, [context for context in differences if seeds <= context.keys()]) for seeds in counts]
    seeds, block = max(blocks, key=lambda block: (len(block[0]) * len(block[1]), len(block[0])))
    return sorted(seeds), block
