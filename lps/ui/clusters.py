"""The parts of the Clusters page: which epoch, the clusters as table or confusion matrix, the images of one of them.

The address says what is looked at: run, epoch, cluster, truth (a class), order, image.
"""

import numpy as np
import pandas as pd
import streamlit as st

from lps import clusters, labels, naming
from lps.clusters import FLAGS, Cluster
from lps.datasets import Images
from lps.parameters import ConfigError
from lps.runs import Run
from lps.ui import (
    assignments,
    biography,
    confusion,
    epoch_choice,
    escape,
    exports,
    gallery,
    names,
    points,
    select,
    style,
)
from lps.ui.assignments import View
from lps.ui.gallery import Tile
from lps.ui.plot import plot

PAGE = 48  # images on a sheet
TABLE_ROWS = 11  # that are visible at once
WATCH_S = 4.0
OVERVIEWS = {"table": "Table", "confusion": "Confusion matrix"}
ORDERS = {"typical": "Most typical", "least": "Least confident", "wrong": "Wrongly assigned"}
FLAG_COLORS = {"split": "orange", "merge": "red", "empty": "gray", "unstable": "violet"}


def has_clusters(run: Run) -> bool:
    """Whether the network's predictions of some epoch are stored."""
    return bool(points.epochs(run))


def show(runs: list[Run]) -> None:
    """Everything below the title."""
    run, epoch = pick(runs)
    try:
        here = assignments.view(run, epoch)
        entries = naming.read_entries(run)
    except ConfigError as error:
        st.error(escape.markdown(f"{error}."), icon=":material/broken_image:")
        return
    names.show_notices(here, entries)
    chosen = chosen_cluster(here)
    show_overview(here, chosen)
    images = pictures(here)
    left, right = st.columns([5, 3], gap="medium")
    with left:
        ticked = show_sheet(here, chosen, images)
    with right:
        with st.container(border=True):
            names.show(here, entries, chosen, ticked)
        image = select.number("image")
        with st.container(border=True):
            if image is None:
                st.caption("Click a picture to see what the network took it for at every epoch.")
            else:
                biography.show(here, images, image)
    exports.show(here, images)


# ---------------------------------------------------------------------------------------------------- what is shown


def pick(runs: list[Run]) -> tuple[Run, int]:
    """The run and the epoch; an epoch that nobody chose stays the one that was the newest when the page was opened."""
    left, right = st.columns(2, gap="medium", vertical_alignment="bottom")
    with left:
        run = select.pick_run(runs)
    stored, opened = points.epochs(run), st.session_state.get("clusters_opened")
    if opened is None or opened[0] != run.id or opened[1] not in stored:
        opened = st.session_state["clusters_opened"] = (run.id, stored[-1])
    with right:
        epoch = epoch_choice.pick("clusters", run, stored, opened[1])
        if run.state().is_alive:
            st.fragment(_watch, run_every=WATCH_S)(run, epoch)
    return run, epoch


def _watch(run: Run, epoch: int) -> None:
    """Offer a newer epoch without taking away the one that is looked at."""
    newest = points.epochs(run)[-1:]
    if newest and newest[0] > epoch:
        label = f"Epoch {newest[0]} has been evaluated: show it"
        if st.button(label, icon=":material/update:", key="clusters_newer", type="tertiary"):
            epoch_choice.choose(epoch_choice.place_of("clusters", run), newest[0])
            st.rerun()


def chosen_cluster(here: View) -> int:
    """The cluster of the address; else the first novel one with images."""
    wanted = select.number("cluster")
    if wanted is not None:
        wanted = here.said.root(wanted)
        if wanted in here.ids:
            return wanted
    filled = [c.id for c in here.clusters if c.size]
    novel = [i for i in filled if i not in here.defaults]
    return (novel or filled or [int(here.ids[0])])[0]


def open_cluster(cluster: int, class_id: int | None = None) -> None:
    """Look at a cluster, or at its images of one class."""
    select.set_number("cluster", cluster)
    select.set_number("truth", class_id)


def pictures(here: View) -> Images | None:
    """The images of the run; where they cannot be had, None and a word about it on the page."""
    try:
        return labels.pictures(here.run, here.split, here.targets)
    except ConfigError as error:
        st.caption(escape.markdown(f"{error}. The images are shown by their numbers."))
        return None


# ---------------------------------------------------------------------------------------------------- overview


def show_overview(here: View, chosen: int) -> None:
    """All clusters: as a table, or against the true classes."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.caption(summary(here), width="content")
        kind = select.choose(
            st.segmented_control, "overview", "Overview", OVERVIEWS, required=True, label_visibility="collapsed"
        )
    if kind == "table":
        show_table(here, chosen)
    else:
        show_confusion(here, chosen)


def summary(here: View) -> str:
    """The page's state in a line."""
    named = sum(c.id in here.said.names for c in here.clusters)
    flagged = sum(bool(c.flags) for c in here.clusters)
    unknown = int((here.truth < 0).sum())
    said = [f"{len(here.assigned):,} unlabeled images in {len(here.ids)} clusters"]
    said += [f"{named} named by you"] if named else []
    said += [f"{flagged} with a flag"] if flagged else []
    if unknown:
        said.append("no true class known" if unknown == len(here.truth) else f"{unknown:,} of unknown class")
    return " · ".join(said)


def table(here: View) -> pd.DataFrame:
    """One row a cluster. Of its class only where enough of it is known; where it is not, the labels that are."""
    some_trusted = any(c.is_trusted for c in here.clusters)
    some_unknown = any(c.known and not c.is_trusted for c in here.clusters)
    rows = []
    for c in here.clusters:
        row: dict[str, object] = {"Cluster": c.id, "Name": _shown_name(here, c.id), "Images": c.size}
        row["Flags"] = list(c.flags)
        if some_trusted:
            row |= {"Class": here.class_name(c.matched), "Purity": _percent(c.purity if c.is_trusted else np.nan)}
            row["Runner-up"] = _share(here, c.runner_up, c.runner_up_share) if c.is_trusted else ""
        if some_unknown:
            row["Known labels"] = f"{c.known}: {_share(here, c.majority, c.purity)}" if c.known else ""
        row |= {"Confidence": _percent(c.confidence), "Stability": _percent(c.stability), "Nearest": _nearest(c)}
        rows.append(row)
    return pd.DataFrame(rows)


def _percent(share: float) -> float:
    return round(100 * share, 1)


def _share(here: View, class_id: int, share: float) -> str:
    return f"{here.class_name(class_id)}, {100 * share:.0f} %" if class_id >= 0 else ""


def _shown_name(here: View, cluster: int) -> str:
    if cluster in here.said.rejected:
        return "(no class)"
    return here.said.names.get(cluster) or here.defaults.get(cluster, "")


def _nearest(c: Cluster) -> str:
    return f"{c.nearest}, {c.similarity:.2f}" if c.nearest >= 0 else ""


def show_table(here: View, chosen: int) -> None:
    """The table; a click on a row opens its cluster."""
    row = int(np.searchsorted(here.ids, chosen))
    selection = st.session_state.get("clusters_table")
    if not selection or list(selection["selection"]["rows"]) != [row]:
        st.session_state["clusters_table"] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    shown = table(here)
    st.dataframe(
        shown,
        width="stretch",
        height=37 + 35 * min(TABLE_ROWS, len(shown)),
        hide_index=True,
        column_config=_columns(),
        key="clusters_table",
        on_select=lambda: _open_row(here.ids),
        selection_mode="single-row-required",
        alt="Every cluster with its size, purity, confidence and flags",
    )


def _columns() -> dict:
    """How the columns of `table` look, and what they mean."""
    column, percent = st.column_config, "%.0f %%"
    marks = "; ".join(f"{name}: {words}" for name, words in FLAGS.items())
    before = f"mean over the {clusters.WINDOW} epochs before"
    overlap = f"Overlap with the cluster that it was (images in both over images in either), {before}"
    bar = {"min_value": 0, "max_value": 100, "format": percent}
    return {
        "Cluster": column.NumberColumn(width=58, pinned=True, help="The id; ids of seen classes first"),
        "Name": column.TextColumn(width=96, help="Yours, or that of the seen class that the id stands for"),
        "Images": column.NumberColumn(width=62, format="localized", help="Unlabeled images in the cluster"),
        "Flags": column.MultiselectColumn(
            width=104, options=list(FLAGS), color=[FLAG_COLORS[name] for name in FLAGS], help=marks
        ),
        "Class": column.TextColumn(width=72, help="True class under the best one-to-one matching of all clusters"),
        "Purity": column.ProgressColumn(width=92, help="Share of its most frequent true class", **bar),
        "Runner-up": column.TextColumn(width=84, help="Its second most frequent true class, and that one's share"),
        "Known labels": column.TextColumn(width=130, help="Images of known class: how many, and the most frequent one"),
        "Confidence": column.NumberColumn(width=82, format=percent, help="Mean confidence of its images"),
        "Stability": column.NumberColumn(width=74, format=percent, help=overlap),
        "Nearest": column.TextColumn(width=70, help="The cluster with the most similar mean features, and the cosine"),
    }


def _open_row(ids: np.ndarray) -> None:
    rows = st.session_state["clusters_table"]["selection"]["rows"]
    if rows and rows[0] < len(ids):
        open_cluster(int(ids[rows[0]]))


def show_confusion(here: View, chosen: int) -> None:
    """Clusters against true classes; a click on a cell opens its images."""
    if not (here.truth >= 0).any():
        st.info(
            "No true class of an unlabeled image is known, so there is nothing to compare with.",
            icon=":material/grid_on:",
        )
        return
    width = max(here.split.classes.seen, int(here.truth.max()) + 1)  # further classes have no name and no image
    counts = clusters.confusion(here.assigned, here.truth, here.ids, width)
    order = confusion.row_order(here.clusters)
    column = select.number("truth")
    column = column if column is not None and column < counts.shape[1] else None
    marked = [here.clusters[i].id for i in order].index(chosen), column
    rows, seen = [here.title(here.clusters[i].id) for i in order], here.split.classes.seen
    drawn = confusion.figure(counts[order], rows, here.split.class_names[:width], seen, style.palette(), marked)
    drawn.update_layout(uirevision=f"{here.run.id} {here.epoch}")
    alt = f"Counts of the images of {counts.shape[1]} true classes in {len(rows)} clusters"
    clicked = plot(drawn, "confusion", alt, clickable=True)
    st.caption(
        "Colour: share of the cluster. Left of the dotted line are seen classes, right of it novel ones. "
        "Click a cell to see its images."
    )
    if clicked is not None and 0 <= clicked < counts.size:
        row, class_id = confusion.cell_of(clicked, counts.shape[1])
        cluster = here.clusters[order[row]].id
        if (cluster, class_id) != (chosen, column):
            open_cluster(cluster, class_id)
            st.rerun()


# ---------------------------------------------------------------------------------------------------- images


def show_sheet(here: View, chosen: int, images: Images | None) -> tuple[int, ...]:
    """The contact sheet of a cluster; gives the images that a person has ticked."""
    about = here.clusters[int(np.searchsorted(here.ids, chosen))]
    class_id = select.number("truth")
    class_id = class_id if class_id is not None and class_id < len(here.split.class_names) else None
    orders = {key: word for key, word in ORDERS.items() if key != "wrong" or (about.known and class_id is None)}
    st.subheader(escape.markdown(heading(here, about)), anchor=False)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        how = {"required": True, "label_visibility": "collapsed"}
        order = select.choose(st.segmented_control, "order", "Order", orders, **how)
        if class_id is not None:
            words = f"Only true class {here.class_name(class_id)}"
            if st.button(escape.markdown(words), icon=":material/close:", help="Show all images of the cluster"):
                select.set_number("truth", None)
                st.rerun()
    rows = ordered_rows(here, about, order, class_id)
    if not len(rows):
        st.caption(_nothing_to_show(about, order))
        return ()
    pages = -(-len(rows) // PAGE)
    key = f"{here.run.id} {here.epoch} {chosen}"
    number = 1
    if pages > 1:
        number = st.pagination(pages, key=f"page of {key} {order} {class_id}")
    part = rows[(number - 1) * PAGE : number * PAGE]
    ids = here.split.unlabeled[part]
    pixels = images.pixels[ids] if images is not None else None
    token = f"{key} {sorted(here.said.moved.items())!r}"
    alt = f"{len(ids)} images of cluster {chosen}"
    done = gallery.sheet(tiles(here, about, part), pixels, "sheet", names.short(token), alt, select.number("image"))
    start = (number - 1) * PAGE
    st.caption(
        f"{start + 1:,}–{start + len(ids):,} of {len(rows):,} images. Click one to open it; tick the round mark in its "
        "corner to choose it, with Shift a whole row."
    )
    if done.clicked is not None and done.clicked != select.number("image"):
        select.set_number("image", done.clicked)
        st.rerun()
    return done.chosen


def heading(here: View, about: Cluster) -> str:
    parts = here.said.parts(about.id)
    joined = f" (with {', '.join(map(str, parts))})" if parts else ""
    return f"Cluster {here.title(about.id)}{joined}"


def _nothing_to_show(about: Cluster, order: str) -> str:
    if not about.size:
        return "The network put no image in this cluster."
    return "No image of a known class is wrongly assigned here." if order == "wrong" else "There is no such image."


def ordered_rows(here: View, about: Cluster, order: str, class_id: int | None) -> np.ndarray:
    """Rows of the unlabeled images to show, first ones first; of one true class alone where `class_id` is given."""
    rows = np.flatnonzero(here.assigned == about.id)
    if class_id is not None:
        rows = rows[here.truth[rows] == class_id]
    elif order == "wrong":
        rows = rows[is_wrong(here, about, rows)]
    confidence = here.network.confidence[rows]
    return rows[np.argsort(confidence if order == "least" else -confidence, kind="stable")]


def is_wrong(here: View, about: Cluster, rows: np.ndarray) -> np.ndarray:
    """Which images in these rows are known not to be of the cluster's class.

    That is the matched one; where too little is known for a matching, the seen class of the id, else the most frequent.
    """
    expected = about.id if about.id in here.defaults else about.majority
    truth = here.truth[rows]
    return (truth >= 0) & (truth != (about.matched if about.matched >= 0 else expected))


def tiles(here: View, about: Cluster, rows: np.ndarray) -> list[Tile]:
    """Captions of the pictures: the confidence, and the true class where it is not that of the cluster."""
    found = []
    wrong = is_wrong(here, about, rows)
    for row, bad in zip(rows.tolist(), wrong.tolist()):
        image, truth = int(here.split.unlabeled[row]), int(here.truth[row])
        sure = f"{100 * here.network.confidence[row]:.0f} %"
        known = here.class_name(truth) if truth >= 0 else "unknown"
        alt = f"Image {image}, confidence {sure}, true class {known}"
        found.append(Tile(image, f"{sure}\n{known}" if bad else sure, alt, bad))
    return found
