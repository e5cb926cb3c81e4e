"""The gallery of recordings on Home: a card for each, with its accuracies and a sentence about it."""

import pandas as pd
import streamlit as st

from lps.charts import drawings, event_log
from lps.errors import UserError
from lps.settings import catalog
from lps.store import titles
from lps.store.run_folders import recorded_runs
from lps.store.runs import Run
from lps.ui.shared import escape, history, recordings, theme
from lps.wording import percent

_CARD, _SMALL_CARD = 230, 150  # pixels; as many cards beside each other as fit


def show_gallery(is_brief: bool = False) -> None:
    """Show all recordings, or a sentence if there are none. is_brief: small cards, and a link to the story."""
    runs = recorded_runs()
    if not runs:
        st.caption("The recordings that come with LPS Studio were not found.")
        return
    st.caption(
        "These recorded runs come with LPS Studio. You can open them on every page, but you cannot change them. The "
        "curves show accuracy on :blue[seen] and :orange[novel] classes after each epoch (one pass over the pictures "
        "with labels). The upper edge of each chart is 100 %. The area between the two curves is the gap. To measure "
        "novel accuracy, each novel class is paired with one cluster (a group that the model made). A picture of the "
        "class counts as correct if it is in that cluster."
    )
    parts = recordings.recordings_by_part()
    names = {run.id: name for name, run in parts.items()}
    with st.grid(columns="auto", min_column_width=_SMALL_CARD if is_brief else _CARD, gap="small"):
        if recordings.has_story() and not is_brief:
            _show_story()
        for run in runs:
            _show_card(run, _describe_recording(names.get(run.id, ""), run, parts), is_brief)
    _show_links(runs, is_brief)


def show_pace() -> None:
    """Plot the accuracy of the recorded LPS run with and without its margin; nothing if it was not recorded."""
    parts = recordings.recordings_by_part()
    pairs = {name: _read_accuracies(parts[name]) for name in ("lps", "no_margin") if name in parts}
    with_margin, without_margin = (pairs.get(name, pd.DataFrame()) for name in ("lps", "no_margin"))
    if not len(with_margin):
        return
    seen, novel = (with_margin[f"accuracy/{name}"].tolist() for name in ("seen", "novel"))
    dotted_line = without_margin["accuracy/novel"].tolist() if len(without_margin) == len(with_margin) else []
    alt = f"Seen and novel accuracy over {len(novel)} epochs; novel accuracy is {percent(novel[-1])} at the end"
    caption = "Two recorded runs on handwritten digits: five classes are seen and five are novel. "
    if dotted_line:
        alt += f", without the margin {percent(dotted_line[-1])}"
        caption += f"At the end, novel accuracy is {percent(novel[-1])} with the margin and "
        caption += f"{percent(dotted_line[-1])} without it. Few pairs of runs differ as clearly as these two."
    else:
        caption += _describe_recording("lps", parts["lps"], parts)
    with st.container(key="gap-picture"):  # page.css keeps its room
        st.image(drawings.labeled_gap(seen, novel, theme.current_palette(), dotted_line), width="stretch", alt=alt)
    st.caption(caption)


def _read_accuracies(run: Run) -> pd.DataFrame:
    """Return seen and novel accuracy at the epochs that have both."""
    return history.read_history(run).epochs.reindex(columns=["accuracy/seen", "accuracy/novel"]).dropna()


def _show_links(runs: list[Run], is_brief: bool) -> None:
    """Show links that open several recordings at once, and one to the story if it has no card."""
    with st.container(horizontal=True, gap="medium"):
        if is_brief and recordings.has_story():
            st.page_link("pages/story.py", label="The story of these runs", icon=":material/auto_stories:")
        story_ids = recordings.ids_of_parts("lps", "no_margin", "fixmatch")
        if len(story_ids) > 1:
            link = {"icon": ":material/view_column_2:", "query_params": {"run": story_ids}}
            st.page_link("pages/pace.py", label="Watch runs side by side", **link)
        if unequal := recordings.unequal_recordings():
            link = {"icon": ":material/bar_chart:", "query_params": {"run": [run.id for run in unequal]}}
            st.page_link("pages/pace.py", label="Classes of unequal size: two priors", **link)
        link = {"icon": ":material/balance:", "query_params": {"run": [run.id for run in runs]}}
        st.page_link("pages/compare.py", label="Compare all recorded runs", **link)


def _show_story() -> None:
    with st.container(border=True, height="stretch", gap="xsmall", key="card-story"):
        st.markdown("**The story of these runs**")
        st.markdown(
            "What are seen and novel classes? Why do models take novel pictures for seen ones? What does LPS do about "
            "this? The story takes a few minutes and needs no prior knowledge."
        )
        st.space("stretch")
        st.page_link("pages/story.py", label="Begin", icon=":material/auto_stories:")


def _show_card(run: Run, sentence: str, is_brief: bool) -> None:
    pair = _read_accuracies(run)
    with st.container(border=True, height="stretch", gap="xsmall", key=f"card-{run.id}"):
        st.markdown(f"**{escape.markdown(titles.run_title(run))}**")
        if len(pair):
            picture = drawings.gap(
                pair["accuracy/seen"].tolist(), pair["accuracy/novel"].tolist(), theme.current_palette()
            )
            st.image(
                picture, width="stretch", alt=f"Seen and novel accuracy of {titles.run_title(run)} over the epochs"
            )
        st.markdown(f":small[{escape.markdown(sentence)}]")
        st.space("stretch")
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.page_link("pages/live.py", label="Open", query_params={"run": run.id})
            if not is_brief:
                st.markdown(f":small[:gray[{escape.markdown(_describe_run(run))}]]", width="content")


def _describe_run(run: Run) -> str:
    return recordings.picture_kind(run).capitalize() if run.config_if_readable() else ""


def _describe_recording(part: str, run: Run, parts: dict[str, Run]) -> str:
    """Describe what a recording shows, with its numbers."""
    run_history = history.read_history(run)
    if len(run_history.column("accuracy/novel")):
        try:
            return _describe_part(part, run, run_history, parts) or _describe_accuracies(run_history)
        except UserError:
            return _describe_accuracies(run_history)
    return "This recording has no epoch of training."


def _describe_accuracies(run_history: event_log.History) -> str:
    seen, novel = run_history.last("accuracy/seen"), run_history.last("accuracy/novel")
    return f"Accuracy at the end: {percent(seen, 1)} on seen and {percent(novel, 1)} on novel classes."


def _describe_swallowed(num_swallowed: int, novel: int) -> str:
    return f"The model sorts {num_swallowed} of {novel} novel pictures into seen classes."


def _describe_part(part: str, run: Run, run_history: event_log.History, parts: dict[str, Run]) -> str:
    if part == "lps":
        largest_gap, novel = 100 * run_history.column("accuracy/gap").max(), run_history.last("accuracy/novel")
        return (
            "The novel classes keep up with the seen ones: their accuracy is never more than "
            f"{largest_gap:.0f} points lower. At the end, it is {percent(novel)}."
        )
    if part == "no_margin":
        num_empty, num_new = recordings.empty_clusters(run)
        sentence = f"Without the margin, novel accuracy is {percent(run_history.last('accuracy/novel'))} at the end."
        if num_empty:
            sentence += f" {num_empty} of the {num_new} clusters for novel classes are almost empty."
        return sentence
    if part == "no_entropy":
        num_empty = int((recordings.cluster_sizes(run) == 0).sum())
        total = len(recordings.cluster_sizes(run))
        return f"Classes collapse into a few clusters: {num_empty} of {total} clusters are empty." * (num_empty > 0)
    if part in ("orca", "fixmatch"):
        return _describe_swallowed(*recordings.count_swallowed(run))
    config = run.config()
    if config.split_imbalance > 1:
        total, novel = (run_history.last(f"accuracy/{name}") for name in ("all", "novel"))
        return (
            f"The largest class has {config.split_imbalance:g} times as many pictures as the smallest. The "
            f"setting prior = {config.prior} says which class sizes the run expects. At the end, accuracy is "
            f"{percent(total)} on all classes and {percent(novel)} on novel classes."
        )
    if not catalog.method_info(config.method).seen_is_aligned:
        return ""
    num_swallowed, novel = recordings.count_swallowed(run)
    return f"{_describe_accuracies(run_history)} {_describe_swallowed(num_swallowed, novel)}" if novel else ""
