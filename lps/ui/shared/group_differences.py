"""Differences between groups of runs and a baseline, with intervals and the limits of the seeds, alike on all pages."""

import hashlib
from collections.abc import Sequence

import streamlit as st

from lps.analysis import differences, run_groups
from lps.analysis.differences import GroupComparison
from lps.analysis.run_groups import Group
from lps.charts import difference_charts
from lps.charts.group_tables import SCORE_COLUMNS
from lps.scores.estimates import INTERVAL
from lps.settings import catalog
from lps.ui.shared import data_table, escape, scores, theme, url_fields
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import code_of, plot
from lps.wording import capitalized

_NAMES = {column: SCORE_COLUMNS[column][0] for column in differences.COLUMNS}


def show_differences(groups: Sequence[Group], field_name: str, default_group: Group | None = None) -> Group | None:
    """Show chart and table of the differences from a baseline; return it, None if there are fewer than two groups.

    field_name: of the choice in the URL, different for each table of a page. default_group: the baseline until the user
    chooses one.
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
        revision = f"{column} {baseline.label}"
        plot(
            figure.update_layout(uirevision=revision),
            f"{field_name}_intervals",
            alt,
            code=_difference_code(groups, baseline, column),
        )
    alt = f"Every group minus {baseline.label}: difference and {INTERVAL}"
    data_table.show_data_table(
        _difference_columns(comparison, column), comparison.rows, alt, max_rows=len(comparison.rows)
    )
    sentences = [*differences.explain_differences(comparison), *_explain_other_baselines(comparison, baseline)]
    st.caption("  \n".join(escape.markdown(f"{capitalized(text)}.") for text in sentences))
    return baseline


def _difference_code(groups: Sequence[Group], baseline: Group, column: str) -> str:
    """Return the Python that draws the differences; "" if a group mixes what `lps.compare_runs` separates."""
    if any(len({run_groups.group_key(member) for member in group.members}) > 1 for group in groups):
        return ""
    runs = [member.run for group in groups for member in group.members]
    return code_of("intervals", runs, baseline.members[0].run, column, **scoring_of(groups))


def scoring_of(groups: Sequence[Group]) -> dict[str, str]:
    """Return how the groups were scored, as arguments of `lps.compare_runs`."""
    member = groups[0].members[0]
    alignments = [catalog.method_info(group.config.method).seen_is_aligned for group in groups]
    is_usual = all(group.seen_is_matched != known for group, known in zip(groups, alignments))
    seen = "default" if is_usual else "matched" if groups[0].seen_is_matched else "raw"
    return {"protocol": member.protocol, "select": member.select, "seen": seen, "images": member.images}


def _pick_baseline(groups: Sequence[Group], field_name: str, default_group: Group) -> tuple[Group, str]:
    """Show the choices; return the baseline and the measurement to compare."""
    by_id = {id_of_group(group): group for group in sorted(groups, key=lambda group: group is not default_group)}
    labels = {name: group.label for name, group in by_id.items()}
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        help_text = "Choose a baseline for its settings, not for its numbers: the best of many runs is partly luck"
        name = url_fields.choose_one(st.selectbox, field_name, "Baseline", labels, width=330, help=help_text)
        measurement_labels = {column: _NAMES[column] for column in ("novel", "seen", "all", "nmi", "gap")}
        column = url_fields.choose_one(
            st.segmented_control, f"{field_name}_of", "Difference in", measurement_labels, required=True
        )
    return by_id[name], column


def id_of_group(group: Group) -> str:
    """Return the id of a group in the URL: six hexadecimal digits."""
    return hashlib.sha256(
        f"{group.short_label or group.label} {run_groups.group_key(group.members[0])}".encode()
    ).hexdigest()[:6]


def _difference_columns(comparison: GroupComparison, column: str) -> list[Column]:
    """Return the columns: what can be said of `column`, and every difference with its interval, bold if significant."""
    differences_by_row = [comparison.differences.get((row, column)) for row in comparison.rows]
    labels = [comparison.groups[row].label for row in comparison.rows]
    references = [comparison.references[row].label for row in comparison.rows]
    about_seeds = (
        "Number of seeds needed to detect this difference with a probability of 80 %, given the spread measured here"
    )
    columns = [
        Column("Group", labels, "text", pinned=True, width=scores.label_width(comparison.groups)),
        Column(
            f"{_NAMES[column]}: result", [capitalized(differences.verdict(d)) if d else "" for d in differences_by_row]
        ),
        Column(
            "Seeds needed",
            [differences.seeds_needed_in_words(d) if d else "" for d in differences_by_row],
            help=about_seeds,
            width=110,
        ),
        Column("Baseline", references, hidden=len(set(references)) == 1),
    ]
    for key, head in _NAMES.items():
        cells = [differences.format_difference(comparison.differences.get((row, key))) for row in comparison.rows]
        columns.append(
            Column(head, cells, bold=[k for k, row in enumerate(comparison.rows) if (row, key) in comparison.bold])
        )
    return [*columns, Column("Seeds", comparison.seeds)]


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
