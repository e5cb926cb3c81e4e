"""Groups against one of them, alike on all pages: how far apart, with intervals, and what these seeds cannot tell."""

import hashlib
from collections.abc import Sequence

import streamlit as st

from lps.analysis import differences, run_groups
from lps.analysis.differences import GroupComparison
from lps.analysis.run_groups import Group
from lps.charts import difference_charts
from lps.charts.group_tables import HEADS
from lps.scores.estimates import INTERVAL
from lps.settings import catalog
from lps.ui.shared import data_table, escape, scores, theme, url_fields
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import code_of, plot
from lps.wording import capitalized

_NAMES = {column: HEADS[column][0] for column in differences.COLUMNS}


def show_differences(groups: Sequence[Group], place: str, first: Group | None = None) -> Group | None:
    """Chart and table of the differences from a group that can be chosen; returns it, None where there is nothing.

    place: what the choices are called in the address, different ones on one page. first: held against at first.
    """
    if len(groups) < 2:
        return None
    chosen, column = _pick_baseline(groups, place, first or differences.usual_reference(groups))
    comparison = differences.compare_groups(groups, chosen)
    if not comparison.found:
        st.caption("These groups have different splits or are scored differently, so they are not compared.")
        return chosen
    if any(key[1] == column for key in comparison.found):
        alt = f"{_NAMES[column]}: difference from {chosen.label}, with {INTERVAL}s"
        figure = difference_charts.intervals(comparison, column, theme.current_palette())
        revision = f"{column} {chosen.label}"
        plot(
            figure.update_layout(uirevision=revision),
            f"{place}_intervals",
            alt,
            code=_difference_code(groups, chosen, column),
        )
    alt = f"Every group minus {chosen.label}: difference and {INTERVAL}"
    data_table.show_data_table(_difference_columns(comparison, column), comparison.rows, alt, most=len(comparison.rows))
    sentences = [*differences.explain_differences(comparison), *_explain_other_baselines(comparison, chosen)]
    st.caption("  \n".join(escape.markdown(f"{capitalized(text)}.") for text in sentences))
    return chosen


def _difference_code(groups: Sequence[Group], chosen: Group, column: str) -> str:
    """The Python that draws the differences; "" where a group mixes what `lps.compare_runs` would keep apart."""
    if any(len({run_groups.group_key(member) for member in group.members}) > 1 for group in groups):
        return ""
    runs = [member.run for group in groups for member in group.members]
    return code_of("intervals", runs, chosen.members[0].run, column, **scoring_of(groups))


def scoring_of(groups: Sequence[Group]) -> dict[str, str]:
    """How they were scored, as `lps.compare_runs` is told."""
    first = groups[0].members[0]
    aligned = [catalog.method_info(group.config.method).seen_is_aligned for group in groups]
    is_usual = all(group.seen_is_matched != known for group, known in zip(groups, aligned))
    seen = "default" if is_usual else "matched" if groups[0].seen_is_matched else "raw"
    return {"protocol": first.protocol, "select": first.select, "seen": seen, "images": first.images}


def _pick_baseline(groups: Sequence[Group], place: str, first: Group) -> tuple[Group, str]:
    """The group that the others are held against, and the measurement that is drawn and told in words."""
    by_id = {id_of_group(group): group for group in sorted(groups, key=lambda group: group is not first)}
    words = {name: group.label for name, group in by_id.items()}
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        why = "Choose a baseline for its settings, not for its numbers: the best of many runs is partly luck"
        name = url_fields.choose_one(st.selectbox, place, "Baseline", words, width=330, help=why)
        order = {column: _NAMES[column] for column in ("novel", "seen", "all", "nmi", "gap")}
        column = url_fields.choose_one(st.segmented_control, f"{place}_of", "Difference in", order, required=True)
    return by_id[name], column


def id_of_group(group: Group) -> str:
    """What a group is called in the address."""
    return hashlib.sha256(
        f"{group.short_label or group.label} {run_groups.group_key(group.members[0])}".encode()
    ).hexdigest()[:6]


def _difference_columns(comparison: GroupComparison, column: str) -> list[Column]:
    """What can be said of `column`, and every difference with its interval; bold what is distinguishable."""
    found = [comparison.found.get((row, column)) for row in comparison.rows]
    labels = [comparison.groups[row].label for row in comparison.rows]
    references = [comparison.references[row].label for row in comparison.rows]
    about_seeds = "Seeds needed to detect this difference with 80 % power, at the spread measured here"
    columns = [
        Column("Group", labels, "text", pinned=True, width=scores.label_width(comparison.groups)),
        Column(f"{_NAMES[column]}: result", [capitalized(differences.verdict(d)) if d else "" for d in found]),
        Column(
            "Seeds needed",
            [differences.seeds_needed_in_words(d) if d else "" for d in found],
            help=about_seeds,
            width=110,
        ),
        Column("Baseline", references, hidden=len(set(references)) == 1),
    ]
    for key, head in _NAMES.items():
        cells = [differences.format_difference(comparison.found.get((row, key))) for row in comparison.rows]
        columns.append(
            Column(head, cells, bold=[k for k, row in enumerate(comparison.rows) if (row, key) in comparison.bold])
        )
    return [*columns, Column("Seeds", comparison.seeds)]


def _explain_other_baselines(comparison: GroupComparison, chosen: Group) -> list[str]:
    """That rows of another split are held against another group, and which have no difference."""
    sentences = []
    if any(reference is not chosen for reference in comparison.references):
        usual = "the group closest to LPS with default settings"
        sentences.append(f"each split has its own baseline, {usual}")
    silent = [
        group.label
        for row, group in enumerate(comparison.groups)
        if row not in comparison.rows and group is not comparison.references[row]
    ]
    if silent:
        sentences.append(f"not compared: {' · '.join(silent)}")
    return sentences
