"""The Ledger page: official numbers beside those of all finished runs, by verdict; the table to take away."""

import pandas as pd
import streamlit as st

from lps.analysis import ledger
from lps.analysis.ledger import Claim
from lps.analysis.run_groups import Group, group_runs
from lps.charts.group_tables import Scoring
from lps.settings import spell
from lps.store.runs import Run
from lps.ui.shared import page_head, scores, select, take_away, theme
from lps.wording import counted

_WIDE = {"source": "medium", "what differs": "large", "made by": "large", "on": "medium"}


def main() -> None:
    """The whole page."""
    page_head.show_title("Ledger")
    st.caption("What others report of every method, beside what the runs here gave: seen, novel and all, in percent.")
    runs = [run for run in select.comparable(select.open_runs()) if run.state().name == "finished"]
    found = ledger.lines(_groups(runs))
    verdicts = _pick_verdicts(found)
    _show_table([line for line in found if line.verdict in verdicts])
    _show_downloads(found)
    take_away.show_command(spell.command("ledger"))


def _groups(runs: list[Run]) -> list[Group]:
    scored, left_out = scores.score_all(runs, Scoring("orca", "last", "default"))
    scores.show_left_out(left_out)
    return group_runs(scored)


def _pick_verdicts(found: list[Claim]) -> list[str]:
    """The verdicts that are shown; all where none is picked."""
    counts = {name: sum(line.verdict == name for line in found) for name in ledger.VERDICTS}
    picked = st.pills(
        "Verdict",
        list(counts),
        format_func=lambda name: f"{name} ({counts[name]})",
        selection_mode="multi",
        key="ledger_verdicts",
        label_visibility="collapsed",
    )
    with st.expander("What the verdicts mean"):
        st.markdown("\n".join(f"- **{name}**: {words}." for name, words in ledger.VERDICTS.items()))
    return picked or list(counts)


def _show_table(shown: list[Claim]) -> None:
    st.caption(counted(len(shown), "line"))
    columns = {
        head: st.column_config.TextColumn(head.capitalize() if head != "n" else head, width=_WIDE.get(head))
        for head in ledger.HEADS
    }
    frame = pd.DataFrame([line.cells() for line in shown], columns=ledger.HEADS)
    high = theme.table_height(len(frame), most=10)
    st.dataframe(frame, hide_index=True, width="stretch", height=high, column_config=columns)


def _show_downloads(found: list[Claim]) -> None:
    with st.container(horizontal=True, gap="small"):
        for word, make, end in (("Markdown", ledger.markdown, "md"), ("CSV", ledger.csv_text, "csv")):
            st.download_button(
                f"Download {word}",
                lambda make=make: make(found).encode(),
                file_name=f"ledger.{end}",
                key=f"ledger_{end}",
                on_click="ignore",
                icon=":material/download:",
            )
