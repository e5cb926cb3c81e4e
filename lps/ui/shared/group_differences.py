"""Differences between groups of runs, with intervals and the limits of the seeds, alike on all pages.

Chart and table against a baseline; sentences about main effects and the best value of a setting.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import streamlit as st

from lps.analysis import differences, run_groups
from lps.analysis.differences import GroupComparison
from lps.analysis.effects import rest_of
from lps.analysis.main_effects import Interaction, MainEffect, find_interactions, find_reversal, main_effects
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts import difference_charts
from lps.charts.effect_charts import MEASURES, effect_in_points
from lps.charts.group_tables import SCORE_COLUMNS, group_label
from lps.scores import estimates
from lps.scores.estimates import INTERVAL
from lps.settings import catalog
from lps.settings.parameters import short_text, text_of
from lps.store.runs import Run
from lps.ui.shared import data_table, escape, scores, select, theme, url_fields
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import code_of, plot
from lps.wording import capitalized, counted, listed, with_minus

_NAMES = {column: SCORE_COLUMNS[column][0] for column in differences.COLUMNS}
_ABOUT_SEEDS = "How many seeds were compared. 0 (1 of 2): only seed 0, because the other group has no such run"
_MAX_NAMED = 3
_MAX_LINKS = 6  # groups that lack seeds
_ABOUT_ADDING = "A finished run has the settings of this row, but is not chosen on this page. Click to choose it, too."
_ABOUT_LINK = "Opens Launch with the settings of this row and the seeds that it lacks"
_ONE_SEED = " (one seed: chance cannot be ruled out)"
_NO_EVIDENCE = " (not distinguishable from chance)"
_MANY_SEEDS = 5  # with fewer, an interval is often too wide to rank effects
_TIE = 0.9  # of the largest effect: what is about equal to it
_MIN_DIFFERENCE = 0.0005  # of a score: what rounds to 0.1 points


def show_differences(
    groups: Sequence[Group],
    field_name: str,
    default_group: Group | None = None,
    chosen_runs: Sequence[Run] | None = None,
) -> Group | None:
    """Show chart and table of the differences from a baseline; return it, None if there are fewer than two groups.

    field_name: of the choice in the URL, different for each table of a page. default_group: the baseline until the user
    chooses one. chosen_runs: all runs that are chosen on the page; if given, offer the seeds that groups lack.
    """
    if len(groups) < 2:
        return None
    baseline, column = _pick_baseline(groups, field_name, default_group or differences.usual_reference(groups))
    comparison = differences.compare_groups(groups, baseline)
    if not comparison.differences:
        st.caption("These groups have different splits or are scored differently, so they are not compared.")
        return baseline
    if any(key[1] == column for key in comparison.differences):
        alt = f"{_NAMES[column]}: difference from {baseline.label}, with {INTERVAL}s"
        figure = difference_charts.intervals(comparison, column, theme.current_palette())
        code = _difference_code(groups, baseline, column)
        plot(figure, f"{field_name}_intervals", alt, code=code, view=f"{column} {baseline.label}")
    alt = f"Every group minus {baseline.label}: difference and {INTERVAL}"
    data_table.show_data_table(
        _difference_columns(comparison, column), comparison.rows, alt, max_rows=len(comparison.rows)
    )
    sentences = [*differences.explain_differences(comparison), *_explain_other_baselines(comparison, baseline)]
    st.caption("  \n".join(escape.markdown(f"{capitalized(text)}.") for text in sentences))
    if chosen_runs is not None:
        _offer_missing_seeds(comparison, [run.id for run in chosen_runs])
    return baseline


def _offer_missing_seeds(comparison: GroupComparison, chosen_ids: Sequence[str]) -> None:
    """Offer the seeds that groups lack: finished runs that are not chosen yet, else a link to Launch.

    Seeds that wait or train are not offered.
    """
    pairs = zip(comparison.groups, comparison.references)
    lacking = [(group, seeds) for group, other in pairs if (seeds := differences.missing_seeds(group, other))]
    runs_by_setup: dict[tuple[str, int], list[Run]] = {}
    for run in select.open_runs() if lacking else []:
        if config := run.config_if_readable():
            runs_by_setup.setdefault((rest_of(config, ()), config.seed), []).append(run)
    finished_by_group, seeds_by_group = [], []
    for group, missing_seeds in lacking:
        finished, seeds = {}, []
        for seed in missing_seeds:
            equal_runs = runs_by_setup.get((rest_of(group.config, ()), seed), [])
            states = {run.id: run.state() for run in equal_runs}
            addable = [name for name, state in states.items() if state.name == "finished" and name not in chosen_ids]
            if addable:
                finished[seed] = max(addable)  # ids begin with the time of creation
            elif not any(state.is_moving for state in states.values()):
                seeds.append(seed)
        finished_by_group += [(group, finished)] * bool(finished)
        seeds_by_group += [(group, seeds)] * bool(seeds)
    if finished_by_group:
        with _seed_row("Add finished runs:", len(finished_by_group), "finished_seeds"):
            for group, finished in finished_by_group[:_MAX_LINKS]:
                options = {"type": "tertiary", "icon": ":material/playlist_add:", "help": _ABOUT_ADDING}
                ids = ("run", [*chosen_ids, *finished.values()])
                label, key = _label_seeds(group, finished), f"add_finished_{max(finished.values())}"
                st.button(label, key=key, on_click=url_fields.set_values, args=ids, **options)
    if seeds_by_group:
        with _seed_row("Launch more seeds:", len(seeds_by_group), "missing_seeds"):
            for group, seeds in seeds_by_group[:_MAX_LINKS]:
                query = {"clone": group.members[0].run.id, "set": f"seed={', '.join(map(str, seeds))}"}
                link = {"query_params": query, "icon": ":material/add:", "help": _ABOUT_LINK, "width": "content"}
                st.page_link("pages/launch.py", label=_label_seeds(group, seeds), **link)


@contextmanager
def _seed_row(title: str, num_groups: int, key: str) -> Iterator[None]:
    """Show a row of offers, at most `_MAX_LINKS`, after their title."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key=key):
        st.caption(title, width="content")
        yield
        if num_groups > _MAX_LINKS:
            st.caption(f"and {num_groups - _MAX_LINKS} more", width="content")


def _label_seeds(group: Group, seeds: Collection[int]) -> str:
    """Format as "LPS, C=10: seeds 1, 2", as markdown."""
    noun = "seed" if len(seeds) == 1 else "seeds"
    return escape.markdown(f"{group_label(group)}: {noun} {', '.join(map(str, seeds))}")


def _difference_code(groups: Sequence[Group], baseline: Group, column: str) -> str:
    """Return the Python that draws the differences; "" if a group mixes what `lps.compare_runs` separates."""
    if any(len({run_groups.group_key(member) for member in group.members}) > 1 for group in groups):
        return ""
    members = [member for group in groups for member in group.members]
    return code_of_scored("intervals", members, baseline.members[0].run, column)


def code_of_scored(chart: str, members: Sequence[Scored], *arguments) -> str:
    """Return the Python that draws a chart of scored runs, scored in the same way."""
    first, methods = members[0], {(member.config.method, member.scores.seen_is_matched) for member in members}
    is_usual = all(is_matched != catalog.method_info(method).seen_is_aligned for method, is_matched in methods)
    seen = "default" if is_usual else "matched" if first.scores.seen_is_matched else "raw"
    scoring = {"protocol": first.protocol, "select": first.select, "seen": seen, "images": first.images}
    return code_of(chart, [member.run for member in members], *arguments, **scoring)


def _pick_baseline(groups: Sequence[Group], field_name: str, default_group: Group) -> tuple[Group, str]:
    """Show the choices; return the baseline and the measurement to compare."""
    by_id = {id_of_group(group): group for group in sorted(groups, key=lambda group: group is not default_group)}
    labels = {name: group_label(group) for name, group in by_id.items()}
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        help_text = "Choose a baseline for its settings, not for its numbers: the best of many runs is partly luck"
        name = url_fields.choose_one(st.selectbox, field_name, "Baseline", labels, width=460, help=help_text)
        measurement_labels = {column: _NAMES[column] for column in ("novel", "seen", "all", "nmi", "gap")}
        column = url_fields.choose_one(st.segmented_control, f"{field_name}_of", "Difference in", measurement_labels)
    return by_id[name], column


def id_of_group(group: Group) -> str:
    """Return the id of a group in the URL: six hexadecimal digits."""
    return hashlib.sha256(
        f"{group.short_label or group.label} {run_groups.group_key(group.members[0])}".encode()
    ).hexdigest()[:6]


def _difference_columns(comparison: GroupComparison, column: str) -> list[Column]:
    """Return the columns: what can be said of `column`, and every difference with its interval, bold if significant.

    The difference in `column` comes first, so that it is in sight on every screen.
    """
    differences_by_row = [comparison.differences.get((row, column)) for row in comparison.rows]
    references = [group_label(comparison.references[row]) for row in comparison.rows]
    about_seeds = (
        "Number of seeds needed to detect this difference with a probability of 80 %, given the spread measured here"
    )
    result = [capitalized(differences.verdict(d)) if d else "" for d in differences_by_row]
    needed = [differences.seeds_needed_in_words(d) if d else "" for d in differences_by_row]
    return [
        scores.label_column([comparison.groups[row] for row in comparison.rows]),
        _difference_column(comparison, column),
        Column(f"{_NAMES[column]}: result", result),
        *(_difference_column(comparison, other) for other in _NAMES if other != column),
        Column("Seeds", comparison.seeds, help=_ABOUT_SEEDS),
        Column("Seeds needed", needed, help=about_seeds, width=110, optional=True),
        Column("Baseline", references, hidden=len(set(references)) == 1),
    ]


def _difference_column(comparison: GroupComparison, column: str) -> Column:
    texts = [differences.format_difference(comparison.differences.get((row, column))) for row in comparison.rows]
    bold = [position for position, row in enumerate(comparison.rows) if (row, column) in comparison.bold]
    width = max(56, round(18 + 5.7 * max(map(len, texts))))  # the browser measures the first rows only
    return Column(_NAMES[column], list(map(with_minus, texts)), width=width, bold=bold)


def _explain_other_baselines(comparison: GroupComparison, baseline: Group) -> list[str]:
    """Say that each split has its own baseline, and which groups are not compared."""
    sentences = []
    if any(reference is not baseline for reference in comparison.references):
        usual = "the group closest to LPS with default settings"
        sentences.append(f"each split has its own baseline, {usual}")
    uncompared = [
        group.label
        for row, group in enumerate(comparison.groups)
        if row not in comparison.rows and group is not comparison.references[row]
    ]
    if uncompared:
        sentences.append(f"not compared: {' · '.join(uncompared)}")
    return sentences


# ---------------------------------------------------------------------------------------------------- sentences


def describe_effects(scored: Sequence[Scored], measure: str) -> str:
    """Describe the largest effects among runs of one split, and how they depend on each other, as markdown."""
    largest = main_effects(scored, measure)[:_MAX_NAMED]
    interactions = find_interactions(scored, measure, [item for item in largest if _is_named(item)])
    sentences = [describe_main_effects(largest, measure, interactions)]
    reversal = find_reversal(scored, measure)
    named = [{setting, interaction.other} for setting, interaction in interactions.items()]
    if reversal is None or {reversal.low.setting, reversal.other} not in named:
        sentences.append(describe_reversal(reversal))
    return " ".join(filter(None, sentences))


def describe_main_effects(
    effects: Sequence[MainEffect], measure: str, interactions: Mapping[str, Interaction] | None = None
) -> str:
    """Name up to three settings with the largest effects and their intervals, as markdown; "" if there are none.

    interactions: setting -> the effects that are named instead of their mean.
    """
    if not effects:
        return ""
    interactions = interactions or {}
    measure_name = "the gap" if measure == "gap" else f"{MEASURES[measure][0].lower()}{MEASURES[measure][1:]}"
    largest = [item for item in effects[:_MAX_NAMED] if _is_named(item)]
    if not largest:
        return f"No setting changes {measure_name} on average in these runs."
    doubts = [_describe_doubt(item, interactions.get(item.setting)) for item in largest]
    shared_doubt = doubts[0] if len(set(doubts)) == 1 else ""
    descriptions = [
        f"**{escape.markdown(item.setting)}** {_describe_effect(item, interactions.get(item.setting))}"
        f"{'' if shared_doubt else doubt}"
        for item, doubt in zip(largest, doubts)
    ]
    head = f"Largest effects on {measure_name}{shared_doubt}"
    combination = " The combination matters." if interactions else ""
    tie = _describe_tie([item for item, doubt in zip(largest, doubts) if doubt != _NO_EVIDENCE], len(largest))
    averaged = [item for item in largest if item.setting not in interactions]
    return (
        f"{head}: {'; '.join(descriptions)}.{tie}{combination}{_describe_averaging(averaged)}"
        f"{_explain_few_seeds(largest, doubts)}"
    )


def _describe_tie(effects: Sequence[MainEffect], num_named: int) -> str:
    """Say which settings have an effect that is about as large as the largest; "" if there is no other."""
    tied = [item for item in effects if abs(item.difference) >= _TIE * abs(effects[0].difference)]
    if len(tied) < 2:
        return ""
    names = [f"**{escape.markdown(item.setting)}**" for item in tied]
    return f" {'Both' if len(tied) == num_named == 2 else listed(names)} matter about equally."


def _is_named(effect: MainEffect) -> bool:
    return abs(effect.difference) >= _MIN_DIFFERENCE


def _describe_effect(item: MainEffect, interaction: Interaction | None) -> str:
    """Format as "+17.1 points from 1 to 10"; with an interaction, the larger of its effects and the smaller one."""
    change = f"from {_format_effect(item.before)} to {_format_effect(item.after)}"
    if interaction is None:
        return f"{effect_in_points(item)} {change}"
    parts = [(interaction.low, interaction.low_value), (interaction.high, interaction.high_value)]
    (larger, value), (smaller, other_value) = sorted(parts, key=lambda part: -abs(part[0].difference))
    return (
        f"{_format_points(larger)} {change} with {_format_setting(interaction.other, value)} "
        f"but {_format_points(smaller)} with {_format_setting(interaction.other, other_value)}"
    )


def _format_points(effect: MainEffect) -> str:
    """Format as "+33.6 points", without an interval."""
    return with_minus(f"{100 * effect.difference:+.1f} points") if _is_named(effect) else "equal"


def _explain_few_seeds(effects: Sequence[MainEffect], doubts: Sequence[str]) -> str:
    """Say why no effect is distinguishable from chance and how many seeds help; "" if one is, or with enough seeds.

    A table of differences can have distinguishable rows nevertheless: a row is one combination, not an average.
    """
    seeds = max(item.seeds for item in effects)
    if seeds >= _MANY_SEEDS or any(doubt != _NO_EVIDENCE for doubt in doubts):
        return ""
    is_averaged = any(item.contexts > 1 for item in effects)
    subject = "These averages" if is_averaged else "The effects"
    exception = " The difference of two single combinations can vary less and be distinguishable." * is_averaged
    return (
        f" {subject} vary too much between the {seeds} seeds to tell them from chance; {_MANY_SEEDS} or more seeds "
        f"narrow the intervals.{exception}"
    )


def describe_reversal(reversal: Interaction | None) -> str:
    """Say for which values of another setting an effect is negative and positive, as markdown; "" for None."""
    if reversal is None:
        return ""
    low, high = reversal.low, reversal.high
    change = f"from {_format_effect(low.before)} to {_format_effect(low.after)}"
    parts = [
        f"{_format_points(effect)} with {_format_setting(reversal.other, value)}"
        for effect, value in ((low, reversal.low_value), (high, reversal.high_value))
    ]
    doubt = _ONE_SEED if min(low.seeds, high.seeds) == 1 else ""
    return (
        f"The effect of **{escape.markdown(low.setting)}** {change} depends on **{escape.markdown(reversal.other)}**: "
        f"{' but '.join(parts)}{doubt}."
    )


def _describe_averaging(effects: Sequence[MainEffect]) -> str:
    """Say what the effects are averaged over; "One setting" shows a single combination and can differ. "" for none."""
    if not effects:
        return ""
    counts = sorted({item.contexts for item in effects})
    if counts[-1] == 1:
        return " Each effect was measured with one fixed choice of the other settings."
    number = "–".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    return f" Each effect is averaged over the other varied settings ({number} combinations)."


def _describe_doubt(item: MainEffect, interaction: Interaction | None) -> str:
    """Return the reason to doubt an effect: one seed, or an interval that includes 0; "" if there is none.

    interaction: its effects are named instead, which are distinguishable from each other if they have intervals.
    """
    parts = (interaction.low, interaction.high) if interaction else (item,)
    if min(part.seeds for part in parts) == 1:
        return _ONE_SEED
    return _NO_EVIDENCE if interaction is None and abs(item.difference) <= item.half_width else ""


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
    return escape.markdown(f"{setting}={short_text(value)}")


def _format_mean(group: Group, measure: str) -> str:
    """Format "62.3 % [60.1, 64.5]"; without the interval if the spread is unknown."""
    unit = "points" if measure == "gap" else "%"
    estimate = estimates.of_mean([member.value(measure) for member in group.members])
    sentence = f"{100 * estimate.mean:.1f} {unit}"
    if not math.isnan(estimate.half_width):
        low, high = estimate.mean - estimate.half_width, estimate.mean + estimate.half_width
        if measure != "gap":  # a share lies between 0 and 1
            low, high = max(low, 0.0), min(high, 1.0)
        sentence += f", {INTERVAL} {100 * low:.1f} to {100 * high:.1f}"
    return with_minus(f"{sentence}, {counted(len(group.members), 'seed')}")


def _compare_with_others(setting: str, ranked: list[Group], runner_up: object, measure: str) -> str:
    """Compare the first of these groups with the others, each comparison by itself."""
    comparisons = [differences.of_groups(ranked[0], other, measure) for other in ranked[1:]]
    if all(difference is not None and difference.is_distinguishable_alone for difference in comparisons):
        return "Its difference from every other value is distinguishable from chance."
    name = _format_setting(setting, runner_up)
    if comparisons[0] is None:
        reason = "scores are missing or were computed in another way"
        return f"There is no comparison with the second-best value, {name}: {reason}."
    difference_text = escape.markdown(with_minus(differences.format_difference(comparisons[0])))
    verdict = differences.verdict(comparisons[0])
    return f"Its difference from the second-best value, {name}, is {difference_text} points: {verdict}."
