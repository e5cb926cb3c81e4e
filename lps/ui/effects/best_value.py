"""Answer which value of a setting is best, in a sentence with its score, interval and significance."""

import math
from collections.abc import Mapping, Sequence

from lps.analysis import differences
from lps.analysis.main_effects import MainEffect, Reversal
from lps.analysis.run_groups import Group
from lps.charts.effect_charts import MEASURES, effect_in_points
from lps.scores import estimates
from lps.settings import cli_args
from lps.settings.parameters import text_of
from lps.ui.shared import escape
from lps.wording import counted

_MAX_NAMED = 3
_ONE_SEED = " (one seed: chance cannot be ruled out)"
_MIN_DIFFERENCE = 0.0005  # of a score: what rounds to 0.1 points


def describe_main_effects(effects: Sequence[MainEffect], measure: str) -> str:
    """Name up to three settings with the largest effects and their intervals, as markdown; "" if there are none."""
    if not effects:
        return ""
    measure_name = "the gap" if measure == "gap" else f"{MEASURES[measure][0].lower()}{MEASURES[measure][1:]}"
    largest = [item for item in effects[:_MAX_NAMED] if abs(item.difference) >= _MIN_DIFFERENCE]
    if not largest:
        return f"No setting changes {measure_name} on average in these runs."
    doubts = [_describe_doubt(item) for item in largest]
    shared_doubt = doubts[0] if len(set(doubts)) == 1 else ""
    descriptions = [
        f"**{escape.markdown(item.setting)}** {effect_in_points(item)} "
        f"from {_format_effect(item.before)} to {_format_effect(item.after)}{'' if shared_doubt else doubt}"
        for item, doubt in zip(largest, doubts)
    ]
    head = f"Largest effects on {measure_name}{shared_doubt}"
    return f"{head}: {'; '.join(descriptions)}. {_describe_averaging(largest)}"


def describe_reversal(reversal: Reversal | None) -> str:
    """Say for which values of another setting an effect is negative and positive, as markdown; "" for None."""
    if reversal is None:
        return ""
    low, high = reversal.low, reversal.high
    change = f"from {_format_effect(low.before)} to {_format_effect(low.after)}"
    parts = [
        f"{100 * effect.difference:+.1f} points with {_format_setting(reversal.other, value)}"
        for effect, value in ((low, reversal.low_value), (high, reversal.high_value))
    ]
    doubt = _ONE_SEED if min(low.seeds, high.seeds) == 1 else ""
    return (
        f"The effect of **{escape.markdown(low.setting)}** {change} depends on **{escape.markdown(reversal.other)}**: "
        f"{' but '.join(parts)}{doubt}."
    )


def _describe_averaging(effects: Sequence[MainEffect]) -> str:
    """Say what the effects are averaged over; "One setting" shows a single combination and can differ."""
    counts = sorted({item.contexts for item in effects})
    if counts[-1] == 1:
        return "Each effect was measured with one fixed choice of the other settings."
    number = "–".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    return f"Each effect is averaged over the other varied settings ({number} combinations)."


def _describe_doubt(item: MainEffect) -> str:
    """Return the reason to doubt an effect: one seed, or an interval that includes 0; "" if there is none."""
    if item.seeds == 1:
        return _ONE_SEED
    return " (not distinguishable from chance)" if abs(item.difference) <= item.half_width else ""


def _format_effect(value: object) -> str:
    return escape.markdown(text_of(value))


def name_best_value(setting: str, groups: Mapping[object, Group], measure: str, fixed: str = "") -> str:
    """Rank the groups of a setting's values, as markdown; "" if fewer than two can be ranked.

    fixed: the values of the other varied settings, as markdown; "" if no other setting varies.
    """
    means = {value: group.mean(measure) for value, group in groups.items()}
    ranked = [value for value, mean in means.items() if not math.isnan(mean)]
    ranked.sort(key=means.get, reverse=measure != "gap")
    if len(ranked) < 2:
        return ""
    best, runner_up = ranked[:2]
    if means[best] == means[runner_up]:
        return f"Several values share the best {MEASURES[measure].lower()}{f' at {fixed}' if fixed else ''}."
    extreme = "smallest" if measure == "gap" else "highest"
    number = _format_mean(groups[best], measure)
    condition = f"With {fixed}, " if fixed else ""
    sentence = (
        f"{condition}**{_format_setting(setting, best)}** has the {extreme} {MEASURES[measure].lower()}: {number}."
    )
    comparison = _compare_with_others(setting, [groups[value] for value in ranked], runner_up, measure)
    return f"{sentence} {comparison}"


def _format_setting(setting: str, value: object) -> str:
    return escape.markdown(cli_args.format_setting(setting, value))


def _format_mean(group: Group, measure: str) -> str:
    """Format "62.3 % [60.1, 64.5]"; without the interval if the spread is unknown."""
    unit = "points" if measure == "gap" else "%"
    estimate = estimates.of_mean([member.value(measure) for member in group.members])
    sentence = f"{100 * estimate.mean:.1f} {unit}"
    if not math.isnan(estimate.half_width):
        low, high = estimate.mean - estimate.half_width, estimate.mean + estimate.half_width
        if measure != "gap":  # of a share nothing is known beyond nought and one
            low, high = max(low, 0.0), min(high, 1.0)
        sentence += f", {estimates.INTERVAL} {100 * low:.1f} to {100 * high:.1f}"
    return f"{sentence}, {counted(len(group.members), 'seed')}"


def _compare_with_others(setting: str, ranked: list[Group], runner_up: object, measure: str) -> str:
    """Compare the first of these groups with the others, each comparison by itself."""
    comparisons = [differences.of_groups(ranked[0], other, measure) for other in ranked[1:]]
    if all(difference is not None and difference.is_distinguishable_alone for difference in comparisons):
        return "Its difference from every other value is distinguishable from chance."
    name = _format_setting(setting, runner_up)
    if comparisons[0] is None:
        reason = "scores are missing or were computed in another way"
        return f"There is no comparison with the second-best value, {name}: {reason}."
    difference_text = escape.markdown(differences.format_difference(comparisons[0]))
    verdict = differences.verdict(comparisons[0])
    return f"Its difference from the second-best value, {name}, is {difference_text} points: {verdict}."
