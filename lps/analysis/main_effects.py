"""Compute main effects: how far a score moves, on average over all other settings, when one setting changes.

For a setting and two of its values, runs are paired that are equal in everything else, seed included. Only complete
blocks count: contexts (all other settings) in which both values were run with the same seeds. The effect is the mean of
the paired differences; its interval comes from the seeds, whose differences are averaged over the contexts first.

A mean can hide an interaction (`Interaction`): effects of +34 points at one value of another setting and of 0 points at
another have the mean +17, which no pair of runs shows.
"""

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lps.analysis import effects, run_groups
from lps.analysis.differences import compare_samples, correct_for_multiplicity
from lps.analysis.run_scores import Scored
from lps.scores import estimates

_MIN_REVERSED = 0.0005  # of a score, shown as 0.1 points: the least effect of a reversal with one seed
_MIN_SPREAD = 0.02  # of a score: the least spread of an interaction with one seed; runs of other seeds differ by this


@dataclass(frozen=True)
class MainEffect:
    """The largest effect among the pairs of a setting's values.

    before, after: the two values, in the order of an axis. difference: the score of `after` minus that of `before`, a
    fraction. half_width: half the width of its confidence interval, corrected for the
    number of pairs that were compared (Bonferroni); NaN for one seed. seeds, contexts, pairs: how many. by_seed: the
    difference of each seed, a mean over the contexts.
    """

    setting: str
    before: object
    after: object
    difference: float
    half_width: float
    seeds: int
    contexts: int
    pairs: int
    by_seed: Mapping[tuple, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Interaction:
    """An effect of one setting that depends on another setting; a reversal if its sign does.

    low, high: the smallest and the largest effect of the same change of values, at low_value and high_value of `other`.
    """

    other: str
    low_value: object
    high_value: object
    low: MainEffect
    high: MainEffect

    @property
    def spread(self) -> float:
        return self.high.difference - self.low.difference


@dataclass(frozen=True)
class _Context:
    """Runs that are equal in all but one setting. settings: of one of them; scores: by its value, then by seeds."""

    settings: Mapping[str, object]
    scores: dict[object, dict[tuple, float]]


def main_effects(scored: Sequence[Scored], measure: str) -> list[MainEffect]:
    """Return the main effect of each setting that varies among runs of one split, largest first.

    measure: "novel", "seen", "all" or "gap". A setting without two values in the same context is left out.
    """
    members, settings = _measured(scored, measure)
    largest = []
    for setting in settings:
        if found := _effects(_contexts(members, setting, measure), setting):
            largest.append(max(found, key=lambda effect: (abs(effect.difference), effect.contexts)))
    return sorted(largest, key=lambda effect: -abs(effect.difference))


def find_interactions(scored: Sequence[Scored], measure: str, largest: Sequence[MainEffect]) -> dict[str, Interaction]:
    """Return setting -> its clearest interaction, for those of its `main_effects` that are no summary of their parts.

    The spread of the effects within the values of another setting exceeds the main effect. In addition, the smallest
    and the largest effect are distinguishable after correction for all pairs of these values (Holm); without spread
    over the seeds, such as with one seed, their difference is at least `_MIN_SPREAD`.
    """
    members, settings = _measured(scored, measure)
    interactions = {}
    for effect in largest:
        contexts = _contexts(members, effect.setting, measure)
        others = ((other, values) for other, values in settings.items() if other != effect.setting)
        found = [_interaction(contexts, effect, other, values) for other, values in others]
        if clear := [item for item in found if item is not None]:
            interactions[effect.setting] = max(clear, key=lambda item: item.spread)
    return interactions


def find_reversal(scored: Sequence[Scored], measure: str) -> Interaction | None:
    """Return the clearest reversal: the one whose smaller effect is largest; None if no effect changes its sign.

    Both effects are distinguishable from 0 after correction for all values of both settings (Holm); with one seed, both
    are larger than their mean, which hides them.
    """
    members, settings = _measured(scored, measure)
    reversals = []
    for setting in settings:
        contexts = _contexts(members, setting, measure)
        for other, values in settings.items():
            if other != setting:
                reversals += _reversals(contexts, setting, other, values)
    return max(reversals, key=lambda found: min(-found.low.difference, found.high.difference), default=None)


def _measured(scored: Sequence[Scored], measure: str) -> tuple[list[Scored], dict[str, list]]:
    """Return the newest runs of all seeds with a score, and the settings that vary among them."""
    members = [m for m in run_groups.newest_of_seeds(scored)[0] if math.isfinite(m.value(measure))]
    return members, effects.varied_settings(member.config for member in members)


def _interaction(contexts: Sequence[_Context], effect: MainEffect, other: str, values: Sequence) -> Interaction | None:
    """Return the interaction of an effect with another setting, whose values these are; None if it is not clear."""
    parts = {}
    for value in values:
        for part in _effects([c for c in contexts if c.settings.get(other) == value], effect.setting):
            if (part.before, part.after) == (effect.before, effect.after):
                parts[value] = part
    if len(parts) < 2:
        return None
    ordered = sorted(parts, key=lambda value: parts[value].difference)
    low, high = ordered[0], ordered[-1]
    found = Interaction(other, low, high, parts[low], parts[high])
    pairs = itertools.combinations(ordered, 2)
    spreads = {(one, two): compare_samples(parts[two].by_seed, parts[one].by_seed) for one, two in pairs}
    largest = correct_for_multiplicity(spreads)[low, high]
    is_clear = largest.is_distinguishable if largest.has_interval else found.spread >= _MIN_SPREAD
    return found if found.spread > abs(effect.difference) and is_clear else None


def _reversals(contexts: Sequence[_Context], setting: str, other: str, values: Sequence) -> list[Interaction]:
    """Return the largest reversal for each pair of values of `setting`. values: those of `other`."""
    by_pair: dict[tuple, dict] = {}  # (before, after) -> value of `other` -> effect
    means = {(effect.before, effect.after): abs(effect.difference) for effect in _effects(contexts, setting)}
    parts = [
        (value, effect)
        for value in values
        for effect in _effects([c for c in contexts if c.settings.get(other) == value], setting)
    ]
    chances = estimates.holm([estimates.of_mean(np.array([*effect.by_seed.values()])).chance for _, effect in parts])
    for (value, effect), chance in zip(parts, chances):
        pair = effect.before, effect.after
        is_large = abs(effect.difference) >= max(_MIN_REVERSED, means[pair])
        if is_large if effect.seeds == 1 else chance < 1 - estimates.INTERVAL_CONFIDENCE:
            by_pair.setdefault(pair, {})[value] = effect
    reversals = []
    for found in by_pair.values():
        low, high = (pick(found, key=lambda value: found[value].difference) for pick in (min, max))
        if found[low].difference < 0 < found[high].difference:
            reversals.append(Interaction(other, low, high, found[low], found[high]))
    return reversals


def _effects(contexts: Sequence[_Context], setting: str) -> list[MainEffect]:
    """Return the effect of each pair of values that these contexts share."""
    blocks: dict[tuple, list[Mapping]] = {}  # (before, after) -> for each context: seed -> difference
    for context in contexts:
        for before, after in itertools.combinations(effects.sort_values(context.scores), 2):
            first, second = context.scores[before], context.scores[after]
            paired = {seed: second[seed] - first[seed] for seed in first.keys() & second.keys()}
            if paired:
                blocks.setdefault((before, after), []).append(paired)
    return [_effect(setting, pair, differences, len(blocks)) for pair, differences in blocks.items()]


def _contexts(members: Sequence[Scored], setting: str, measure: str) -> list[_Context]:
    """Group runs by all but this setting: by the other settings, the split, the computation."""
    contexts: dict[tuple, _Context] = {}
    for member in members:
        values = member.config.flat()
        if setting in values:
            key = effects.rest_of(member.config, [setting]), member.split, member.precision, member.test_clusters
            scores = contexts.setdefault(key, _Context(values, {})).scores
            scores.setdefault(values[setting], {})[member.seeds] = member.value(measure)
    return list(contexts.values())


def _effect(setting: str, pair: tuple, differences: list[Mapping[tuple, float]], pairs: int) -> MainEffect:
    seeds, block = _complete(differences)
    by_seed = np.array([np.mean([context[seed] for context in block]) for seed in seeds])
    mean = estimates.of_mean(by_seed)
    half_width = float(estimates.t_quantile(mean.degrees, pairs) * mean.error)
    differences_by_seed = dict(zip(seeds, by_seed.tolist()))
    return MainEffect(setting, *pair, float(mean.mean), half_width, len(seeds), len(block), pairs, differences_by_seed)


def _complete(differences: list[Mapping[tuple, float]]) -> tuple[list[tuple], list[Mapping[tuple, float]]]:
    """Return the seeds, and the contexts that have all of them: the block with most runs."""
    counts = Counter(frozenset(context) for context in differences)
    blocks = [(seeds, [context for context in differences if seeds <= context.keys()]) for seeds in counts]
    seeds, block = max(blocks, key=lambda block: (len(block[0]) * len(block[1]), len(block[0])))
    return sorted(seeds), block
