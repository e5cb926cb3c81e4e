"""Which run continues which: the family of one run as a graph, oldest on the left; a click opens a run on Live."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import streamlit as st

from lps.analysis import run_index
from lps.analysis.run_index import RunRow
from lps.charts.palette import Palette
from lps.errors import UserError
from lps.store import inherited_files, titles
from lps.ui.pictures import points
from lps.ui.shared import theme
from lps.wording import share_of

_MAX_RUNS = 40  # runs in a graph


def show_lineage(entry: RunRow, entries: Sequence[RunRow]) -> None:
    """Show which runs this one continues, and which continue any of them; nothing if there are none."""
    family = inherited_files.run_family(entry.run.id, run_index.parents_of(entries))
    if len(family) < 2:
        return
    by_id = {row.run.id: row for row in entries}
    names = {run: _describe_run(by_id[run]) if run in by_id else f"{titles.short_id(run)}\nnot here" for run in family}
    st.markdown("**Lineage**: which run continues which")
    st.graphviz_chart(
        _lineage_graph(family, names, by_id.keys(), entry.run.id, theme.current_palette()), width="content"
    )


def _describe_run(entry: RunRow) -> str:
    """Return name and id of a run, and its accuracy on images whose class it was not told."""
    records, lines = entry.measured.recent, [entry.name, titles.short_id(entry.run.id)]
    if (novel := records.number("accuracy/novel")) is not None:
        lines.append(f"{100 * novel:.0f} % novel")
    elif (accuracy := records.number("accuracy/validation")) is not None:
        with suppress(UserError):  # its split cannot be read
            withheld = len(points.read_partition(entry.run).split.validation)
            lines.append(f"{share_of(accuracy, withheld)} withheld labels predicted correctly")
    return "\n".join(lines)


def _lineage_graph(
    family: Mapping[str, str], names: Mapping[str, str], existing_runs, selected: str, colors: Palette
) -> str:
    """Return the graph in DOT. family: see `inherited_files.run_family`; existing_runs: ids of readable runs."""
    text_style = f'fontname="sans-serif" fontsize=12 fontcolor="{colors.ink}" color="{colors.muted}"'
    lines = ["digraph {", f'bgcolor="transparent" rankdir=LR; node [shape=box style=rounded {text_style}]']
    lines.append(f'edge [color="{colors.muted}"]')
    for run in [*family][:_MAX_RUNS]:
        link = f' URL="live?run={run}" target="_self"' if run in existing_runs else ""
        outline = f' penwidth=2.5 color="{colors.ink}"' if run == selected else ""
        lines.append(f"{_quote_dot(run)} [label={_quote_dot(names[run])}{link}{outline}]")
    shown_ids = {*[*family][:_MAX_RUNS]}
    lines += [
        f"{_quote_dot(parent)} -> {_quote_dot(child)}"
        for child, parent in family.items()
        if {parent, child} <= shown_ids
    ]
    return "\n".join([*lines, "}"])


def _quote_dot(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
