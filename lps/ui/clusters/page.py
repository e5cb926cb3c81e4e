"""The page Clusters: the clusters of an epoch as table or confusion matrix, and the images of one cluster.

The URL stores run, epoch, cluster, truth (a class), order and image.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import streamlit as st

from lps.analysis import clusters, labels, naming
from lps.analysis.clusters import FLAGS, UNJUDGED, UNJUDGED_TEXT, Cluster
from lps.charts import confusion
from lps.datasets import Images
from lps.errors import UserError
from lps.store.runs import Run
from lps.ui.clusters import (
    compare_clusters,
    exports,
    image_history,
    naming_wizard,
    outcome,
    single_pictures,
    split_cluster,
    training_on,
)
from lps.ui.clusters import naming as names
from lps.ui.pictures import gallery, nouns, paging, points, predictions
from lps.ui.pictures.gallery import Tile
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import data_table, epoch_choice, escape, page_head, select, theme, url_fields
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import code_of, plot
from lps.wording import counted

PAGE = 48  # images on a sheet
_TABLE_ROWS = 15  # in sight; a longer table scrolls by itself
_WATCH_S = 4.0
_OVERVIEWS = {"table": "Table", "confusion": "Confusion matrix"}
_SIZES = [48, gallery.EDGE, 96, 144, 192]  # pixels of a picture's longer side
_ORDERS = {"typical": "Most typical", "least": "Least confident", "wrong": "Misplaced"}
_FLAG_COLORS = {"split": "orange", "merge": "red", "mixed": "yellow"} | dict.fromkeys(UNJUDGED, "gray")
_FLAG_TEXTS = {flag: about.text for flag, about in FLAGS.items()} | dict.fromkeys(UNJUDGED, UNJUDGED_TEXT)
_CHOOSE_PROPOSED = "Below the proposed images is a menu that moves the chosen ones."
_CHOOSE_AFTERWARDS = "To choose images of the cluster, press **Close** above those that are shown instead."
_MATCHING = (
    "The matched class of a cluster is the class that is paired with it. Clusters and classes are paired one to one so "
    "that as many images as possible are correct. The accuracies use the same pairs. Because a class is paired with at "
    "most one cluster, the matched class of a cluster may differ from its most frequent class"
)


def main() -> None:
    """Draw the page."""
    naming_wizard.follow_link()
    training_on.follow_link()
    explanation = "No run has predictions yet. They appear after the first epoch of training."
    runs = page_head.begin_page_with("Clusters", points.stored_epochs, explanation, ":material/category:")
    if runs:
        _show_clusters(runs)


def _show_clusters(runs: list[Run]) -> None:
    """Draw everything below the title."""
    run, epoch = _pick_run_and_epoch(runs)
    try:
        view = predictions.read_view(run, epoch)
        entries = naming.read_entries(run)
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/broken_image:")
        return
    names.show_notices(view, entries)
    cluster = _chosen_cluster(view)
    _show_overview(view, cluster)
    images = _read_pictures(view)
    outcome.show_outcome(view, entries, partial(split_cluster.search_similar, view, cluster, are_moved=True))
    with st.container(key=naming_wizard.CLUSTER):
        _show_cluster(view, entries, cluster, images)
    training_on.show_training_on(view, entries)
    exports.show_exports(view, images)


def _show_cluster(view: PredictionView, entries: Sequence[Mapping], cluster: int, images: Images | None) -> None:
    """Show the images of the open cluster, or what replaces them, beside the controls."""
    left, right = st.columns([5, 3], gap="medium")
    with left:
        about = view, cluster, images
        ticked, where_to_choose = (), ""
        if split_cluster.show_similar_images(*about, len(entries), names.open_new_cluster):
            where_to_choose = _CHOOSE_PROPOSED
        elif split_cluster.show_parts(*about, len(entries), names.open_new_cluster) or compare_clusters.show_comparison(
            *about, partial(names.merge_clusters, view)
        ):
            where_to_choose = _CHOOSE_AFTERWARDS
        else:
            ticked = _show_sheet(*about)
    with right:
        with st.container(border=True):
            names.show_naming(view, entries, cluster, ticked, where_to_choose)
        image = url_fields.read_number("image")
        if not where_to_choose or image is not None:
            _show_image_card(view, images, ticked, image)
        _pick_size(nouns.of(view.run))  # not above the name: on a phone, the field for it has to stay near the top


def _show_image_card(view: PredictionView, images: Images | None, ticked: tuple[int, ...], image: int | None) -> None:
    """Show two ticked images, otherwise the opened one, otherwise how to open one."""
    with st.container(border=True):
        if len(ticked) == 2:
            image_history.show_image_pair(view, images, ticked)
        elif image is None:
            hint = "Click a picture to see its predicted cluster at every epoch. Tick two pictures to compare them."
            st.caption(nouns.of(view.run)(hint))
        else:
            image_history.show_image_history(view, images, image)


# ---------------------------------------------------------------------------------------------------- what is shown


def _pick_run_and_epoch(runs: list[Run]) -> tuple[Run, int]:
    """Return the run and the epoch, by default the one that was the newest when the page was opened."""
    left, right = st.columns(2, gap="medium", vertical_alignment="bottom")
    with left:
        run = select.pick_run(runs, prefers_own_data=True)
    stored, opened = points.stored_epochs(run), st.session_state.get("clusters_opened")
    if opened is None or opened[0] != run.id or opened[1] not in stored:
        opened = st.session_state["clusters_opened"] = (run.id, stored[-1])
    with right:
        epoch = epoch_choice.pick_epoch("clusters", run, stored, opened[1])
        if run.state().is_alive:
            st.fragment(_offer_newer_epoch, run_every=_WATCH_S)(run, epoch)
    return run, epoch


def _offer_newer_epoch(run: Run, epoch: int) -> None:
    """Offer a newer epoch without replacing the displayed one."""
    newest = points.stored_epochs(run)[-1:]
    if newest and newest[0] > epoch:
        label = f"Show the new epoch {newest[0]}"
        if st.button(label, icon=":material/update:", key="clusters_newer", type="tertiary"):
            epoch_choice.set_epoch(epoch_choice.view_name_of("clusters", run), newest[0])
            st.rerun()


def _chosen_cluster(view: PredictionView) -> int:
    """Return the cluster in the URL, by default the first novel one with images."""
    requested = url_fields.read_number("cluster")
    if requested is not None:
        requested = view.decisions.root(requested)
        if requested in view.ids:
            return requested
    filled = [c.id for c in view.clusters if c.size]
    novel = [i for i in filled if i not in view.defaults]
    return (novel or filled or [int(view.ids[0])])[0]


def _open_cluster(cluster: int, class_id: int | None = None) -> None:
    """Open a cluster, or its images of one class."""
    url_fields.set_numbers(cluster=cluster, truth=class_id)


def _read_pictures(view: PredictionView) -> Images | None:
    """Return the images of the run; None and a message on the page if they cannot be read."""
    try:
        return labels.load_pictures(view.run, view.split, view.targets)
    except UserError as error:
        st.caption(escape.markdown(f"{error}. {nouns.of(view.run)('The images are shown by their numbers.')}"))
        return None


# ---------------------------------------------------------------------------------------------------- overview


def _show_overview(view: PredictionView, cluster: int) -> None:
    """Show all clusters, as a table or against the true classes."""
    with st.container(horizontal=True, vertical_alignment="center"):  # the table's own buttons appear on the right
        kind = url_fields.choose_one(
            st.segmented_control, "overview", "Overview", _OVERVIEWS, label_visibility="collapsed"
        )
        st.caption(_summarize_page(view), width="content")
    if kind == "table":
        _show_table(view, cluster)
        if any(one.size and not one.flags and not one.is_trusted for one in view.clusters):
            advice = "A cluster without a flag can be mixed, too. Look at the images of every cluster."
            st.caption(nouns.of(view.run)(f"**No flag does not mean pure.** {advice}"))
    else:
        _show_confusion(view, cluster)


def _summarize_page(view: PredictionView) -> str:
    """Describe the clusters of the epoch in one line."""
    named = len(view.named_ids)
    unknown = int((view.truth < 0).sum())
    sentences = [f"{view.split.pictures_in_words(nouns.of(view.run)('image'))} in {counted(len(view.ids), 'cluster')}"]
    empty = sum(not cluster.size for cluster in view.clusters)
    sentences[0] += f", {empty} of them without any" if empty else ""
    sentences += [f"{named} named by you"] if named else []
    sentences.append(clusters.flags_in_words(view.clusters))
    if unknown:
        known_count = len(view.truth) - unknown - len(view.split.validation)
        sentences.append(f"{unknown:,} of unknown class" if known_count else "true classes unknown")
    return " · ".join(sentences)


def _as_percent(share: float) -> float:
    return round(100 * share, 3)  # the table rounds it once more


def _share_of_class(view: PredictionView, class_id: int, share: float) -> str:
    return f"{view.class_name(class_id)}, {100 * share:.0f} %" if class_id >= 0 else ""


def _name_in_table(view: PredictionView, cluster: int) -> str:
    if cluster in view.decisions.rejected:
        return "(not a class)"
    return view.decisions.names.get(cluster) or view.defaults.get(cluster, "")


def _show_table(view: PredictionView, cluster: int) -> None:
    """Show the table; a click on a row opens its cluster."""
    rows = _listed_clusters(view, cluster)
    ids = [c.id for c in rows]
    row = ids.index(cluster)
    selection = st.session_state.get("clusters_table")
    if not selection or selection["selection"]["cells"] or list(selection["selection"]["rows"]) != [row]:
        st.session_state["clusters_table"] = {"selection": {"rows": [row], "columns": [], "cells": []}}
    data_table.show_data_table(
        cluster_columns(view),
        rows,
        "Every listed cluster with its size, purity, confidence and flags",
        max_rows=_TABLE_ROWS,
        key="clusters_table",
        on_select=lambda: _open_row(ids),
        selection_mode=["single-row-required", "single-cell"],
    )
    if hidden := len(view.clusters) - len(rows):
        clusters_text = f"{counted(hidden, 'cluster')} of classes with labels"
        st.caption(f"While you name clusters one by one, the table hides {clusters_text}.")


def _listed_clusters(view: PredictionView, cluster: int) -> list[Cluster]:
    """Return the clusters of the table: while they are named one by one, the novel ones, the open one in sight."""
    novel = [c for c in view.clusters if c.id not in view.defaults]
    row = next((row for row, c in enumerate(novel) if c.id == cluster), None)
    if row is None or not names.is_naming_in_turn(view):
        return view.clusters
    start = row if row >= _TABLE_ROWS else 0
    return novel[start:] + novel[:start]


def cluster_columns(view: PredictionView) -> list[Column]:
    """Return the columns of the table; true classes only if enough are known, otherwise the known labels."""
    percent, say = "%.0f %%", nouns.of(view.run)
    about_flags = "\n\n".join(clusters.explain_flag(flag, "below") for flag in _FLAG_TEXTS)
    overlap = say(
        f"How stable the model's cluster is: its largest overlap with a cluster of another epoch, averaged over the "
        f"last {clusters.WINDOW} stored epochs. The overlap of two clusters is the number of images in both, divided "
        "by the number of images in at least one of them. Images that you moved count where the model put them. "
        "Clusters that you made by a split or a merge have no value"
    )
    about_matched = say(f"{_MATCHING}. The percentage is the share of the cluster's images that have this class")
    about_name = "The name that you gave; otherwise the name of the seen class"
    about_second = say("Second most frequent true class in the cluster and the share of images that have this class")
    about_known = say("The labels that images of the cluster have. It says nothing about the images without a label")
    about_confidence = "Mean over the images of the cluster, without those that you moved to it. "
    about_confidence = say(f"{about_confidence}{image_history.HELPS['Confidence']}")
    about_nearest = "The name, otherwise the id, of the most similar other cluster: the cosine similarity of the mean "
    about_nearest += "features of both clusters is the largest"
    about_labeled = say("Labeled images of the class; they are not among the images below")
    flag_colors = list(map(_FLAG_COLORS.get, _FLAG_TEXTS))
    flags = {"options": list(_FLAG_TEXTS), "color": flag_colors, "format_func": _FLAG_TEXTS.get}
    bar = {"min_value": 0, "max_value": 100, "format": percent}
    classes = {"hidden": not any(c.is_trusted for c in view.clusters)}
    is_known = {"hidden": not any(c.known and not c.is_trusted for c in view.clusters)}

    def of_class(cell: Callable[[Cluster], object]) -> Callable[[Cluster], object]:
        return lambda c: cell(c) if c.is_trusted else None

    def labeled(c: Cluster) -> int | None:
        return c.labeled if c.id in view.defaults else None

    longest = max(map(len, view.split.class_names), default=0)
    spare = min(80, 7 * max(0, longest - 9))  # pixels, for class names that are longer than "automobile"
    matched = of_class(lambda c: _share_of_class(view, c.matched, c.matched_share) or "none")
    top = of_class(lambda c: view.class_name(c.majority))
    purity = of_class(lambda c: _as_percent(c.purity))
    second = of_class(lambda c: _share_of_class(view, c.runner_up, c.runner_up_share))
    return [
        Column(
            "Cluster",
            lambda c: c.id,
            "number",
            58,
            "The id of the cluster. The ids of seen classes come first",
            pinned=True,
        ),
        Column("Name", lambda c: _name_in_table(view, c.id), "text", 78 + spare, about_name),
        Column("Unlabeled", lambda c: c.size, "number", 70, say("Unlabeled images in the cluster"), format="localized"),
        Column("Labeled", labeled, "number", 62, about_labeled, hidden=not view.defaults, format="localized"),
        Column("Flags", lambda c: list(clusters.marks_of(c)), "chips", 118, about_flags, **flags),
        Column("Matched class", matched, "text", 98 + spare, about_matched, **classes),
        Column("Top class", top, "text", 72 + spare, "The most frequent true class in the cluster", **classes),
        Column(
            "Purity",
            purity,
            "bar",
            88,
            "Share of the top class in the cluster, even if this class is not the matched class",
            **bar,
            **classes,
        ),
        Column("Second class", second, "text", 90 + spare, about_second, **classes),
        Column("Known labels", lambda c: _known_labels(view, c), "text", 130, about_known, **is_known),
        Column("Confidence", lambda c: _as_percent(c.confidence), "number", 82, about_confidence, format=percent),
        Column("Stability", lambda c: _as_percent(c.stability), "number", 74, overlap, format=percent),
        Column("Nearest", lambda c: _nearest_cluster(view, c), "text", 70, about_nearest),
    ]


def _known_labels(view: PredictionView, c: Cluster) -> str:
    """Return "3 ship, 1 truck", with "2 other" for the classes after the first two; "" if no image has a label."""
    shares = {c.majority: c.purity, c.runner_up: c.runner_up_share}
    counts = {view.class_name(k): round(c.known * share) for k, share in shares.items() if k >= 0}
    counts["other"] = c.known - sum(counts.values())
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _nearest_cluster(view: PredictionView, c: Cluster) -> str:
    return str(view.decisions.names.get(c.nearest) or view.defaults.get(c.nearest, c.nearest)) if c.nearest >= 0 else ""


def _open_row(ids: list[int]) -> None:
    selection = st.session_state["clusters_table"]["selection"]
    rows = [row for row, _ in selection["cells"]] or selection["rows"]
    if rows and rows[0] < len(ids):
        _open_cluster(ids[rows[0]])


def _show_confusion(view: PredictionView, selected: int) -> None:
    """Show clusters against true classes; a click on a cell opens its images."""
    if not (view.truth >= 0).any():
        st.info(
            nouns.of(view.run)(
                "The true classes of the unlabeled images are not known, so there is no confusion matrix."
            ),
            icon=":material/grid_on:",
        )
        return
    width = max(view.split.classes.seen, int(view.truth.max()) + 1)  # further classes have no name and no image
    counts = clusters.confusion_counts(view.assigned, view.truth, view.ids, width)
    order = confusion.row_order(view.clusters)
    column = url_fields.read_number("truth")
    column = column if column is not None and column < counts.shape[1] else None
    marked = [view.clusters[i].id for i in order].index(selected), column
    rows, seen = [view.title(view.clusters[i].id) for i in order], view.split.classes.seen
    figure = confusion.figure(
        counts[order], rows, view.split.class_names[:width], seen, theme.current_palette(), marked
    )
    say = nouns.of(view.run)
    alt = (
        f"{say('Counts of the images')} of {counted(counts.shape[1], 'true class')} in {counted(len(rows), 'cluster')}"
    )
    code = code_of("confusion", view.run, view.epoch)
    clicked = plot(figure, "confusion", alt, clickable=True, code=code, view=f"{view.run.id} {view.epoch}")
    titles = {view.clusters[i].id: title for i, title in zip(order, rows)}
    _pick_cell(titles, dict(enumerate(view.split.class_names[:width])), (selected, column))
    st.caption(
        say(
            "The colour shows the percentage of the cluster's images that belong to the class. Seen classes are "
            "left of the dotted line, novel classes right of it. Click a cell, or choose it above, to see its images. "
            "Clusters are sorted by their matched class."
        ),
        help=say(_MATCHING),
    )
    if clicked is not None and 0 <= clicked < counts.size:
        row, class_id = divmod(clicked, counts.shape[1])
        cluster = view.clusters[order[row]].id
        if (cluster, class_id) != (selected, column):
            _open_cluster(cluster, class_id)
            st.rerun()


def _pick_cell(rows: dict[int, str], columns: dict[int, str], cell: tuple[int, int | None]) -> None:
    """Show menus for the cluster and the true class of a cell, the keyboard's alternative to a click."""
    for key, value in zip(("confusion_row", "confusion_column"), cell):
        url_fields.set_widget(key, value)
    options = {"on_change": _open_cell, "width": 165}
    with st.container(horizontal=True, gap="small"):
        st.selectbox("Cluster", list(rows), format_func=lambda i: rows.get(i, ""), key="confusion_row", **options)
        options |= {"index": None, "placeholder": "All"}
        st.selectbox(
            "True class", list(columns), format_func=lambda i: columns.get(i, ""), key="confusion_column", **options
        )


def _open_cell() -> None:
    _open_cluster(st.session_state["confusion_row"], st.session_state["confusion_column"])


# ---------------------------------------------------------------------------------------------------- images


def _show_sheet(view: PredictionView, selected: int, images: Images | None) -> tuple[int, ...]:
    """Show the images of a cluster; returns the ticked ones."""
    about, say = view.clusters[int(np.searchsorted(view.ids, selected))], nouns.of(view.run)
    class_id = url_fields.read_number("truth")
    class_id = class_id if class_id is not None and class_id < len(view.split.class_names) else None
    can_be_wrong = about.known and _class_of(view, about) >= 0
    orders = {key: text for key, text in _ORDERS.items() if key != "wrong" or (can_be_wrong and class_id is None)}
    st.subheader(escape.markdown(_heading_of_cluster(view, about)), anchor=False)
    if decisions := describe_classes(view, about):
        st.caption(decisions, help=say(_MATCHING))
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        options = {"label_visibility": "collapsed"}
        order = url_fields.choose_one(st.segmented_control, "order", "Order", orders, **options)
        if class_id is not None:
            filter_text = f"Only true class {view.class_name(class_id)}"
            if st.button(
                escape.markdown(filter_text), icon=":material/close:", help=say("Show all images of the cluster")
            ):
                url_fields.set_number("truth", None)
                st.rerun()
    rows = _ordered_rows(view, about, order, class_id)
    if not len(rows):
        st.caption(say(_explain_empty_sheet(about, order)))
        return ()
    pages = -(-len(rows) // PAGE)
    key = f"{view.run.id} {view.epoch} {selected}"
    number = paging.choose_page(pages, f"page of {key} {order} {class_id}")
    page_rows = rows[(number - 1) * PAGE : number * PAGE]
    ids = view.split.unlabeled[page_rows]
    decisions = view.decisions
    parts = decisions.moved.items(), decisions.wrong_clusters.items(), decisions.classless_images
    token = " ".join([key, *(repr(sorted(page_rows)) for page_rows in parts)])
    alt = f"{counted(len(ids), say('image'))} of cluster {selected}"
    tiles = _make_tiles(view, about, page_rows)
    if any(tile.wrong for tile in tiles):
        name = escape.markdown(view.class_name(_class_of(view, about)))
        kind = "true class" if about.is_trusted else "known label"
        frame = say("A magenta frame marks a wrongly assigned picture")
        st.caption(f"{frame}: its {kind}, written below it, is not {name}.")
    opened = url_fields.read_number("image")
    choice = gallery.show_sheet(
        tiles, images, "sheet", names.short_hash(token), alt, opened, edge=_picture_size(), noun=say("image")
    )
    start = (number - 1) * PAGE
    st.caption(
        f"{start + 1:,}–{start + len(ids):,} of {counted(len(rows), say('unlabeled image'))}. "
        "The percentage is how sure the model is of this cluster, not of a class."
    )
    url_fields.open_number("image", choice.clicked)
    return choice.ticked


def _picture_size() -> int:
    """Return the length of a picture's longer side in pixels."""
    requested = url_fields.read_number("size")
    return requested if requested in _SIZES else gallery.EDGE


def _pick_size(say: Callable[[str], str]) -> None:
    options = {"format_func": lambda edge: f"{edge} px", "width": 180}
    url_fields.draw_field(
        st.select_slider, "picture_size", _picture_size(), _keep_size, say("Picture size"), _SIZES, **options
    )


def _keep_size(edge: int) -> None:
    url_fields.set_number("size", None if edge == gallery.EDGE else edge)


def _heading_of_cluster(view: PredictionView, cluster_facts: Cluster) -> str:
    merged = view.decisions.parts(cluster_facts.id)
    joined = f" (merged with {', '.join(map(str, merged))})" if merged else ""
    rejected = ": not a class" if cluster_facts.id in view.decisions.rejected else ""
    return f"Cluster {view.title(cluster_facts.id)}{joined}{rejected}"


def describe_classes(view: PredictionView, cluster_facts: Cluster) -> str:
    """Describe the class matched with a cluster, that class's share of it, and the most frequent class."""
    if not cluster_facts.is_trusted:
        return ""
    condition = "" if cluster_facts.known == cluster_facts.size else " whose class is known"
    of_what = nouns.of(view.run)(f"of the cluster's images{condition}")
    sentence = f"Matched class: {_bold_share(view, cluster_facts.matched, cluster_facts.matched_share)} {of_what}."
    if cluster_facts.matched < 0:
        sentence = "No class is matched with this cluster, because other clusters fit the classes better."
    if cluster_facts.majority != cluster_facts.matched:
        most_frequent = _bold_share(view, cluster_facts.majority, cluster_facts.purity)
        sentence += f" Most frequent class: {most_frequent} {of_what}."
    return sentence


def _bold_share(view: PredictionView, class_id: int, share: float) -> str:
    return f"**{escape.markdown(view.class_name(class_id))}**, {100 * share:.0f} %"


def _explain_empty_sheet(cluster_facts: Cluster, order: str) -> str:
    if not cluster_facts.size:
        labeled = f"; {cluster_facts.labeled:,} of its class have a label" if cluster_facts.labeled else ""
        return f"This cluster has no unlabeled images{labeled}."
    return "No image in this cluster is known to be wrongly assigned." if order == "wrong" else "No images match."


def _ordered_rows(view: PredictionView, cluster_facts: Cluster, order: str, class_id: int | None) -> np.ndarray:
    """Return rows of the unlabeled images in display order; only those of one true class if `class_id` is given."""
    rows = np.flatnonzero(view.assigned == cluster_facts.id)
    if class_id is not None:
        rows = rows[view.truth[rows] == class_id]
    elif order == "wrong":
        rows = rows[_is_wrong(view, cluster_facts, rows)]
    ordered = view.rows_by_confidence(rows)
    return ordered[::-1] if order == "least" else ordered


def _is_wrong(view: PredictionView, cluster_facts: Cluster, rows: np.ndarray) -> np.ndarray:
    """Return which images in these rows are known not to be of the cluster's class, see `_class_of`."""
    truth, own_class = view.truth[rows], _class_of(view, cluster_facts)
    return (truth >= 0) & (truth != own_class) & (own_class >= 0)


def _class_of(view: PredictionView, cluster_facts: Cluster) -> int:
    """Return the cluster's class: the matched one, otherwise the class that its name or id means; -1 if unknown.

    A few known labels do not decide the class of a novel cluster.
    """
    if cluster_facts.matched >= 0:
        return cluster_facts.matched
    names = [name.casefold() for name in view.split.class_names]
    called = view.decisions.names.get(cluster_facts.id, "").casefold()
    if called:
        return names.index(called) if called in names else -1
    if cluster_facts.id in view.defaults:
        return cluster_facts.id
    return cluster_facts.majority if cluster_facts.is_trusted else -1


def _make_tiles(view: PredictionView, cluster_facts: Cluster, rows: np.ndarray) -> list[Tile]:
    """Return the captions of pictures: confidence, a known label, and the true class if it is not the cluster's."""
    tiles, say = [], nouns.of(view.run)
    wrong = _is_wrong(view, cluster_facts, rows)
    for row, is_wrong in zip(rows.tolist(), wrong.tolist()):
        image, truth = int(view.split.unlabeled[row]), int(view.truth[row])
        sure = view.confidence_in_words(row)
        class_name = view.class_name(truth) if truth >= 0 else "unknown"
        alt = f"{say('Image')} {image}, {sure}, true class {class_name}"
        is_label = truth >= 0 and not cluster_facts.is_trusted
        class_lines = [f"label: {class_name}"] if is_label else [class_name] if is_wrong else []
        verdict = single_pictures.verdict_on_image(view, image)
        lines = [sure.removeprefix("confidence "), *class_lines, *filter(None, [verdict])]
        tiles.append(Tile(image, "\n".join(lines), alt, is_wrong))
    return tiles
