"""The page Compare: choose and score runs; show their table, curves, settings and downloads.

Every choice is in the page's URL. Runs that cannot be read are named and left out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from lps.analysis import paper_results, run_groups, run_scores, score_tables
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts import group_tables, line_charts
from lps.charts.group_tables import (
    SCORE_COLUMNS,
    Scoring,
    compare_command,
    curve_colors,
    curve_groups,
    curve_table,
    group_label,
    list_groupings,
    list_measurements,
    settings_table,
    tick_format,
)
from lps.files.atomic import fingerprint
from lps.report import run_report
from lps.scores.estimates import CONFIDENCE_TEXT, INTERVAL
from lps.store import titles
from lps.store.runs import Run
from lps.ui.shared import (
    data_table,
    escape,
    export_buttons,
    group_differences,
    live_part,
    notices,
    page_head,
    run_actions,
    scores,
    select,
    theme,
    url_fields,
)
from lps.ui.shared.data_table import Column
from lps.ui.shared.history import read_history
from lps.ui.shared.plot import code_of, plot
from lps.wording import capitalized, counted

MAX_RUNS = 48  # runs that are compared without a choice: eleven methods with four seeds fit
_TICK_S = 5.0  # while a run moves
_BAND_LABELS = {"range": "Min to max", "std": "± std", "interval": CONFIDENCE_TEXT, "none": "None"}
_FILES = {"latex": ("LaTeX", "tex"), "markdown": ("Markdown", "md"), "csv": ("CSV", "csv")}
_MAX_LINES = 40  # of a table as text that is shown whole: no key scrolls a box inside the page


def main() -> None:
    """Draw the page."""
    text = "There are no runs to compare yet."
    runs = page_head.begin_page("Compare", text, ":material/balance:", "Launch the first ones")
    if not runs:
        return
    selected = _pick_runs(runs)
    _follow_runs(runs, selected)
    scoring = scores.pick_scoring()
    scored, left_out = scores.score_all(selected, scoring)
    scores.show_left_out(left_out)
    if not scored:
        state_text = "None of these runs has an evaluated epoch." if selected else "No run has finished yet."
        st.info(f"{state_text} Choose others above, or come back later.", icon=":material/balance:")
        _show_published()
        return
    groups = group_tables.sorted_groups(scored)
    scores.show_table(groups)
    reference = _show_baseline(groups, selected)
    _show_downloads(groups, reference, lambda: run_report.report_of_comparison(scored, left_out, scoring))
    _show_runs(groups, select.run_names(runs))
    _show_published()
    _show_curves(scored)
    _show_differences(groups)
    _show_texts(groups, scoring, reference)


def _show_baseline(groups: list[Group], selected: Sequence[Run]) -> Group | None:
    """Show every group against a baseline; returns the baseline."""
    if len(groups) < 2:
        return None
    st.subheader("Are the differences significant?", anchor=False)
    return group_differences.show_differences(groups, "against", chosen_runs=selected)


# ---------------------------------------------------------------------------------------------------- choices


def _pick_runs(runs: list[Run]) -> list[Run]:
    """Show a menu of runs; no choice means `default_runs`."""
    states = {run.id: run.state().name for run in runs}
    usual = default_runs(runs, states)
    selected = select.pick_runs(runs, "compared_runs", "Choose runs")
    if usual and not selected:
        st.caption(_describe_usual(len(usual)))
    return selected or usual


def _follow_runs(runs: Sequence[Run], selected: Sequence[Run]) -> None:
    """Restart the page when a run changes its state, or a selected one has evaluated another epoch."""
    active = [run for run in runs if run.state().is_moving]

    def read_progress() -> list[tuple]:
        return [(run.state().name, run in selected and fingerprint(run.snapshots)) for run in active]

    if active:
        live_part.restart_on_change(read_progress, _TICK_S)


def _describe_usual(count: int) -> str:
    """Say which finished runs are compared without a choice."""
    subject = f"the {count} newest finished runs of one split are" if count > 1 else "the newest finished run is"
    return f"Nothing chosen: {subject} shown."


def default_runs(runs: list[Run], states: dict[str, str]) -> list[Run]:
    """Return the finished runs with the split settings of the newest finished one: whole groups, up to `MAX_RUNS`."""
    finished = select.default_group([run for run in runs if states[run.id] == "finished"])
    configs = {run: config for run in finished if (config := run.config_if_readable())}
    split = next((config.split_settings() for config in configs.values()), {})
    groups: dict[str, list[Run]] = {}
    for run, config in configs.items():
        if config.split_settings() == split:
            shared_settings = {key: value for key, value in config.flat().items() if key not in run_scores.REPEATED}
            groups.setdefault(str(shared_settings), []).append(run)
    selected: list[Run] = []
    for group in groups.values():
        if not selected or len(selected) + len(group) <= MAX_RUNS:
            selected += group[:MAX_RUNS]
    return selected


def _show_runs(groups: list[Group], names: Mapping[str, str]) -> None:
    """Show every run of every group, with a link to its page. names: by id of the run."""
    rows = [(group_label(group), member, "") for group in groups for member in group.members]
    reason = "not used: another run has the same seed"
    rows += [(group_label(group), member, reason) for group in groups for member in group.replaced]
    with st.expander(f"Every run ({len(rows)})"):
        data_table.show_data_table(
            _run_columns(rows, names),
            rows,
            "Every run of every group with its scores",
        )


def _run_columns(rows: Sequence[tuple[str, Scored, str]], names: Mapping[str, str]) -> list[Column]:
    """Return the columns of (label of the group, run, why it is not used). names: by id of the run."""
    run_ids = [member.run.id for _, member, _ in rows]
    run_names = [names[run_id] for run_id in run_ids]
    columns = [
        Column("Run", run_names, "text", data_table.label_width(run_names)),
        run_actions.open_column("compared_run_opened", [[run_id] for run_id in run_ids]),
        Column("Group", lambda row: row[0]),
        Column("Seed", lambda row: row[1].config.seed),
        Column("Epoch", lambda row: row[1].epoch),
    ]
    columns += [
        Column(head, lambda row, key=key: _score_number(row[1], key), "number", format="%.1f", help=meaning)
        for key, (head, meaning) in SCORE_COLUMNS.items()
    ]
    return [*columns, Column("Remark", lambda row: _remark_on_run(row[1], row[2]))]


def _score_number(member: Scored, key: str) -> float:
    """Format a score: seconds, or percent and points."""
    return round(member.value(key) * (1 if key == "time" else 100), 4) + 0.0


def _remark_on_run(member: Scored, reason: str) -> str:
    origin = "as recorded during training; the predictions were deleted" if member.is_told else ""
    return "; ".join(filter(None, [reason or ("" if member.is_complete else "ended early"), origin]))


# ---------------------------------------------------------------------------------------------------- curves


def _show_curves(scored: Sequence[Scored]) -> None:
    """Plot one measurement over the epochs: the mean of every group and its band."""
    st.subheader("Curves", anchor=False)
    histories = {member.run.id: read_history(member.run) for member in scored}
    notices.show_left_out({titles.run_title(member.run): histories[member.run.id] for member in scored})
    measures = list_measurements(list(histories.values()))
    if not measures:
        st.caption("No run has recorded a measurement.")
        return
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        name = url_fields.choose_one(st.selectbox, "curve", "Measurement", measures, width=270)
        by = url_fields.choose_one(
            st.selectbox, "by", "One curve per", list_groupings([m.config for m in scored]), width=230
        )
        band = url_fields.choose_one(st.segmented_control, "band", "Band", _BAND_LABELS)
    members = curve_groups(scored, by)
    tables = {
        label: curve_table([histories[m.run.id] for m in group_members], name, band)
        for label, group_members in members.items()
    }
    curves = [line_charts.GroupCurve(label, table) for label, table in tables.items() if len(table)]
    if curves:
        epochs = max(int(curve.table.index[-1]) for curve in curves)
        colors, pinned = theme.current_palette(), theme.pinned_colors()
        color_by_curve = curve_colors(members, scored, colors, pinned)
        figure = line_charts.curves_of_groups(curves, epochs, tick_format(name, curves), colors, color_by_curve)
        alt = f"{measures[name]} of {counted(len(curves), 'group')} of runs over the epochs"
        code = code_of("curves", [member.run for member in scored], name, by, band, pinned=pinned or None)
        plot(figure, "curves_of_groups", alt, code=code, highlight=True, view=f"{name} {by} {' '.join(histories)}")
    st.caption(" ".join(_explain_curves(name, members, tables, band)))


def _explain_curves(name: str, members: dict, tables: dict[str, pd.DataFrame], band: str) -> list[str]:
    """Explain lines and bands, and what to be careful about."""
    band_texts = {
        "range": "The band is the range from lowest to highest.",
        "std": "The band is ± one standard deviation.",
    }
    band_texts["interval"] = f"The band is the {INTERVAL} of each mean. The table above shows whether two means differ."
    sentences = ["Each line is the mean of n runs at each epoch.", band_texts.get(band, "")]
    if name.startswith(("accuracy/", "nmi/", "ari/")):
        sentences.append(
            "As recorded during training by the default protocol; seen accuracy as each method defines it."
        )
    pooled = [
        label
        for label, group_members in members.items()
        if len({run_groups.group_key(member) for member in group_members}) > 1
    ]
    if pooled:
        sentences.append(f"Groups that average over different settings: {escape.markdown(' · '.join(pooled))}.")
    unrecorded = [label for label, table in tables.items() if not len(table)]
    if unrecorded:
        sentences.append(f"Not recorded by {escape.markdown(' · '.join(unrecorded))}.")
    fewer = [label for label, table in tables.items() if len(table) and table["count"].min() < len(members[label])]
    if fewer:
        sentences.append(f"At some epochs, not all runs of {escape.markdown(' · '.join(fewer))} have values.")
    return list(filter(None, sentences))


# ---------------------------------------------------------------------------------------------------- settings


def _show_differences(groups: list[Group]) -> None:
    """Show the settings in which the groups differ."""
    st.subheader("Settings that differ", anchor=False)
    if len(groups) == 1:
        st.caption("There is only one group: its runs differ only in the seed.")
        _show_settings(groups)
        return
    table = settings_table(groups)
    columns = [Column(head, table[head]) for head in table if head != "Group"]
    columns = [scores.label_column(groups), *columns]
    data_table.show_data_table(columns, groups, "The settings in which the groups differ", max_rows=len(groups))
    st.caption("A setting that only some methods have is listed if at least one run changes it from the default.")
    _show_settings(groups)


def _show_settings(groups: list[Group]) -> None:
    """Show the settings of the rows, which the tables to download have too."""
    notes = score_tables.notes_on_settings(groups)
    st.caption("  \n".join(escape.markdown(f"{capitalized(note)}.") for note in notes))


# ---------------------------------------------------------------------------------------------------- to take away


def _show_downloads(groups: list[Group], reference: Group | None, report: Callable[[], str]) -> None:
    """Show the downloads: the report, and the tables in each format. report: makes it."""
    with st.container(horizontal=True, gap="small"):
        export_buttons.offer_report(report, "comparison")
        for text_format, (format_name, ending) in _FILES.items():
            make_table = partial(score_tables.format_table, groups, text_format, reference)
            label, key = f"Download {format_name}", f"download_{text_format}"
            export_buttons.offer_download(label, make_table, f"comparison.{ending}", key)


def _show_texts(groups: list[Group], scoring: Scoring, reference: Group | None) -> None:
    """Show the tables in each format to copy, and the command that prints them."""
    st.subheader("Copy", anchor=False)
    for tab, text_format in zip(st.tabs([label for label, _ in _FILES.values()]), _FILES):
        text = score_tables.format_table(groups, text_format, reference)
        tab.code(text, language=None, wrap_lines=True, height="content" if text.count("\n") <= _MAX_LINES else 360)
    export_buttons.show_command(compare_command(groups, scoring))


def _show_published() -> None:
    """Show Table 1 of the paper, with its inconsistencies."""
    with st.expander("Numbers of the paper"):
        data_table.show_data_table(_published_columns(), published_rows(), "Table 1 of the LPS paper")
        st.caption(
            "Table 1 of the LPS paper, means of 3 runs. Seen and novel accuracy each use their own best matching of "
            "clusters and classes. “All” uses one matching for all images, so it cannot be larger than the "
            "weighted mean of “Seen” and “Novel”. The last column marks rows in which it is larger: their "
            "numbers contradict each other."
        )


def published_rows() -> list[paper_results.Row]:
    """Return the rows of Table 1, inconsistent ones first."""
    rows = [row for row in paper_results.paper_rows() if row.table == "table1_main"]
    return sorted(rows, key=lambda row: not paper_results.find_inconsistencies(row))


def _published_columns() -> list[Column]:
    number = {"kind": "number", "format": "%.1f"}
    return [
        Column("Data set", lambda row: row.dataset),
        Column("Labels", lambda row: f"{100 * row.labeled_ratio:g} %"),
        Column("Method", lambda row: row.method),
        Column("Seen", lambda row: row.seen, **number),
        Column("Novel", lambda row: row.novel, **number),
        Column("All", lambda row: row.all, help=SCORE_COLUMNS["all"][1], **number),
        Column("In doubt", lambda row: "; ".join(paper_results.find_inconsistencies(row))),
    ]
