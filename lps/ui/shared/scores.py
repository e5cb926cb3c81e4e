"""The choice of a scoring, on all pages that compare runs, and the table of scores."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import streamlit as st

from lps.analysis import differences, run_scores, score_tables
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts.group_tables import (
    IMAGES_WORDS,
    PROTOCOL_LABELS,
    SCORE_COLUMNS,
    SEEN_LABELS,
    SELECT_WORDS,
    Scoring,
    group_label,
)
from lps.files.atomic import fingerprint
from lps.scores.protocols import ABOUT_LOW_ALL, PROTOCOLS, has_low_all
from lps.store import titles
from lps.store.runs import Run
from lps.ui.shared import data_table, escape, url_fields
from lps.ui.shared.data_table import Column
from lps.wording import capitalized, counted, with_minus

_NUM_FIRST = 4  # columns of a table up to the accuracy on all
_SCORED_FILES = ("config.json", "split.npz", "events.jsonl", "exit.json", "snapshots")  # what a score depends on


def pick_scoring() -> Scoring:
    """Show the fields for protocol, images, epoch and kind of seen accuracy, and explain the protocol."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        protocol = url_fields.choose_one(st.selectbox, "protocol", "Protocol", PROTOCOL_LABELS, width=240)
        images = url_fields.choose_one(
            st.segmented_control,
            "images",
            "Images",
            IMAGES_WORDS,
            help="Unlabeled: the unlabeled training images, as in the papers. Test: images that no model was trained "
            "on",
        )
        selection = url_fields.choose_one(st.segmented_control, "select", "Epoch", SELECT_WORDS)
        if is_seen_fixed := protocol.startswith("gcd"):
            help_text = "This protocol always uses matched seen accuracy"
        else:
            help_text = "Raw: an image is correct if its predicted id is the id of its class. Matched: ids are first "
            help_text += "matched one to one with classes so that as many images as possible are correct"
        options = {"disabled": is_seen_fixed, "help": help_text}
        seen = url_fields.choose_one(st.segmented_control, "seen", "Seen accuracy", SEEN_LABELS, **options)
    sentences = [f"{capitalized(PROTOCOLS[protocol])}."]
    if selection == "oracle":
        sentences.append(
            ":orange[An oracle chose the epoch: the one with the best accuracy on the true classes. In practice, you "
            "do not know the true classes.]"
        )
    if selection == "validation":
        sentences.append("The epoch has the best accuracy on images whose label was withheld from training.")
    st.caption(" ".join(sentences))
    return Scoring(protocol, selection, seen, images)


# ---------------------------------------------------------------------------------------------------- scores


def score_all(runs: Sequence[Run], scoring: Scoring) -> tuple[list[Scored], list[tuple[Run, str]]]:
    """Return (the runs that have scores, the others with the reason)."""
    return run_scores.score_all(runs, scorer=lambda run: _score_run(str(run.folder), _stamp(run), scoring))


@st.cache_resource(max_entries=2048, show_spinner="Computing scores from the stored predictions")
def _score_run(folder: str, stamp: tuple, scoring: Scoring) -> Scored:
    """Return one run's scores, cached while its files are those of `stamp`."""
    return run_scores.score_run(Run(Path(folder)), scoring.protocol, scoring.select, scoring.seen, scoring.images)


def _stamp(run: Run) -> tuple:
    """Return a value that changes when a file changes that the scores depend on."""
    return tuple(fingerprint(run.folder / name) for name in _SCORED_FILES)


def show_left_out(left_out: Sequence[tuple[Run, str]]) -> None:
    """List the runs that are not in the comparison, and why."""
    if not left_out:
        return
    title = f"{counted(len(left_out), 'run')} {'is' if len(left_out) == 1 else 'are'} left out"
    with st.expander(title, icon=":material/visibility_off:", expanded=len(left_out) <= 3):
        lines = [
            f"**{escape.markdown(titles.run_label(run))}** · {escape.markdown(reason)}" for run, reason in left_out
        ]
        st.caption("  \n".join(lines))


# ---------------------------------------------------------------------------------------------------- table


def show_table(groups: list[Group], more: Sequence[Column] = ()) -> None:
    """Show one row per group, notes about the groups, and the number of runs. more: columns after the accuracies."""
    columns = score_columns(groups)
    columns[_NUM_FIRST:_NUM_FIRST] = more
    alt = "Mean and standard deviation of every group of runs"
    data_table.show_data_table(columns, groups, alt, max_rows=len(groups))
    explain_low_all(columns)
    sentences = [escape.markdown(f"{capitalized(note)}.") for note in score_tables.table_notes(groups, scoring=False)]
    if symbols := _explain_symbols(groups):
        sentences.insert(0, escape.markdown(f"{symbols}."))
    runs = counted(sum(len(group.members) for group in groups), "run")
    has_spread = any(len(group.members) > 1 for group in groups)
    spread = "mean ± sample standard deviation over n seeds" if has_spread else "one run each, so no spread"
    mark_notes = "".join(f"; {mark}" for mark in score_tables.about_marks(groups))
    order = " Rows are sorted by All, the highest first." * (len(groups) > 1)
    st.caption("  \n".join([f"{runs} in {counted(len(groups), 'group')}: {spread}{mark_notes}.{order}", *sentences]))


def explain_low_all(columns: Sequence[Column], is_own: Iterable[bool] = itertools.repeat(True)) -> None:
    """Explain below a table why All can be below both Seen and Novel, if a row of the user's own shows that."""
    heads = ("Seen", "Novel", "All")
    cells = {column.heading: column.cells for column in columns if column.heading in heads}
    if len(cells) == len(heads) and has_low_all(itertools.compress(zip(*map(cells.get, heads)), is_own)):
        st.caption(f"{ABOUT_LOW_ALL}.")


def label_column(groups: Sequence[Group]) -> Column:
    """Return the pinned column of the groups' labels, with symbols of settings so that a phone has room for scores."""
    labels, symbols = list(map(group_label, groups)), _explain_symbols(groups)
    about = "Method, and the settings that differ between the rows" + f". Symbols: {symbols}" * bool(symbols)
    return Column("Group", labels, "text", pinned=True, width=data_table.label_width(labels), help=about)


def _explain_symbols(groups: Sequence[Group]) -> str:
    return titles.explain_symbols(map(group_label, groups), (group.config.method for group in groups))


def score_columns(groups: Sequence[Group]) -> list[Column]:
    """Return columns that show "mean ± std", sort by the numbers, and are bold as in `differences.best_cells`."""
    winners = differences.best_cells(groups)
    columns = [label_column(groups)]
    for column, (head, help_text) in SCORE_COLUMNS.items():
        scale = 1 if column == "time" else 100
        numbers = [group.mean(column) * scale for group in groups]
        bold = [row for row in range(len(groups)) if (row, column) in winners]
        texts = [with_minus(score_tables.format_cell(group, column)) for group in groups]
        columns.append(Column(head, numbers, bold=bold, texts=texts, help=help_text))
    about_n = "Number of runs, one per seed. If a seed was run again, its newest finished run counts"
    columns.append(Column("n", lambda group: len(group.members), "number", width=40, help=about_n))
    about_paper = f"{capitalized(score_tables.ABOUT_PAPER_CELL)}. †: the paper's numbers do not add up"
    columns.append(
        Column("Paper", score_tables.paper_cell, "text", help=about_paper, hidden=not score_tables.has_paper(groups))
    )
    return columns
