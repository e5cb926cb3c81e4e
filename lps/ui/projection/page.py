"""The page Projection: a map of an epoch, the image behind a point, and its neighbours.

The URL stores run, epoch, map, color, image and where. lps.ui.projection.selection has the selected images.
"""

import time
from collections.abc import Callable
from functools import partial
from operator import attrgetter

import numpy as np
import pandas as pd
import streamlit as st

from lps.analysis import projection
from lps.errors import UserError
from lps.machine import detached_jobs
from lps.store.runs import Run
from lps.ui.pictures import coloring, gallery, nouns, points, thumbnails
from lps.ui.pictures.coloring import Coloring
from lps.ui.pictures.gallery import Tile
from lps.ui.pictures.point_map import show_map
from lps.ui.projection import filters, selection
from lps.ui.server import picture_files
from lps.ui.shared import click_errors, epoch_choice, escape, live_part, page_head, select, theme, url_fields
from lps.ui.shared.plot import code_of
from lps.wording import ago

_PICTURE = 256  # pixels on the screen
_NEIGHBOURS = 12
_WAIT_S = 1.0
_ERRORS_KEY = "map"  # of refusals


def main() -> None:
    """Draw the page."""
    message = "No run has recorded features yet. They appear after the first epoch of training."
    runs = page_head.begin_page_with("Map", points.stored_epochs, message, ":material/scatter_plot:", page="projection")
    if runs:
        _show_projection(runs)


def _show_projection(runs: list[Run]) -> None:
    """Draw the controls, then the map with the opened image beside it, or how to get a map."""
    click_errors.show_errors(_ERRORS_KEY)
    run, epoch = _pick_run_and_epoch(runs)
    try:
        colorings = coloring.list_colorings(run, epoch)
        with st.container(horizontal=True, gap="medium"):
            method = url_fields.choose_one(st.segmented_control, "map", "Map", projection.METHODS)
            color_by = url_fields.choose_one(st.segmented_control, "color", "Colour by", colorings)
        table = points.read_points(run, epoch, method)
        colors = None if table is None else coloring.color_points(run, epoch, table, color_by, theme.current_palette())
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/broken_image:")
        return
    if table is None:
        _show_computation(run, method, epoch)
        return
    chart, side = st.columns([3, 1], gap="medium")
    with chart:
        selected = _show_points(run, epoch, method, table, color_by, colors)
    image = url_fields.read_number("image")
    rows = table[table["image"] == image]
    with side, st.container(border=True):
        if rows.empty:
            message = "Click a point to see its image." if image is None else f"Image {image} is not on this map."
            st.caption(nouns.of(run)(message))
        else:
            _show_image(run, rows.iloc[0])
    if len(rows):
        with st.container(border=True):
            _show_neighbours(run, epoch, table, rows.iloc[0])
    selection.show_selection(run, epoch, table, selected)


def _show_points(run: Run, epoch: int, method: str, table: pd.DataFrame, color_by: str, colors: Coloring) -> np.ndarray:
    """Draw the map; returns the ids of the selected images, ascending."""
    split = points.read_partition(run).split
    names, image = split.class_names, url_fields.read_number("image")
    with st.container(border=True):
        matching = selection.find_fitting_ids(run, epoch, table)
        say = nouns.of(run)
        alt = say(f"{projection.METHODS[method]} of the features of {len(table):,} unlabeled images at epoch {epoch}")
        code = code_of("map_of_features", run, epoch, method, color_by) if color_by in coloring.OF_TABLES else ""
        events = show_map(
            table,
            colors,
            "map",
            alt,
            names,
            points.axis_limits(run, method),
            scene=f"{run.id} {method}",
            epoch=epoch,
            token=selection.selection_token(run),
            image=image,
            selected=matching,
            pictures=picture_files.address_of_pictures(run),
            code=code,
            is_large=True,
            noun=say("image"),
        )
        st.caption(
            f"Showing {len(table):,} of {split.pictures_in_words(say('image'))}. {_explain_map(method)} "
            + say("Click a point to see its image; zoom in for pictures. To see the images of several points, select ")
            + "them with the lasso or the box (buttons at the top right), or hold Shift and drag. Keys: arrows go from "
            + say("point to point, Enter opens an image, + and - zoom.")
        )
        if method == "pca":
            _offer_full_map(run, epoch)
        filters.show_conditions(run, epoch, table, selection.choose_by_conditions)
        _offer_all(run, method, epoch)
    url_fields.open_number("image", events.clicked)
    if events.is_drawn_by_hand and matching is not None:  # the manual selection is newer
        filters.keep_conditions(filters.Conditions())
        st.rerun()
    return events.selected if matching is None else matching


def _pick_run_and_epoch(runs: list[Run]) -> tuple[Run, int]:
    """Return the run and the epoch; the slider has the epochs with a map, if there are several, and that of the URL."""
    left, right = st.columns(2, gap="medium", vertical_alignment="bottom")
    with left:
        run = select.pick_run(runs)
    stored = points.stored_epochs(run)
    method = url_fields.read_choice("map", list(projection.METHODS))
    if method != "pca":
        mapped = set(projection.stored_epochs(run, method)) & set(stored)
        requested_epoch = epoch_choice.requested_epoch(epoch_choice.view_name_of("map", run))
        if len(mapped) > 1:
            stored = sorted(mapped | {stored[-1]} | ({requested_epoch} & set(stored)))
    with right:
        return run, epoch_choice.pick_epoch("map", run, stored, stored[-1], epoch_without_url=stored[-1])


def _explain_map(method: str) -> str:
    if method == "pca":
        return "The plane of largest variance at the newest epoch; every epoch is shown on this plane."
    return (
        "Neighbours are meaningful; distances between groups are not. The computation of a map starts from the "
        "map of the nearest epoch."
    )


def _show_computation(run: Run, method: str, epoch: int) -> None:
    """Offer to compute a missing map, or show the progress."""
    method_name = projection.METHODS[method]
    job = projection.map_progress(run, method, epoch)
    if job.is_working:
        _wait_for_map(run, method, epoch)
        st.skeleton(height=420)
        return
    if job.state == "done":
        st.rerun()
    if run.is_recorded:
        message = (
            f"{method_name} of epoch {epoch} was not recorded. Choose the last epoch or PCA, or a run of your own."
        )
        st.info(message, icon=":material/scatter_plot:")
        return
    if job.state == "failed":
        st.error(escape.sentence(f"{method_name} of epoch {epoch} failed: {job.message}"), icon=":material/error:")
    else:
        st.info(f"{method_name} of epoch {epoch} has not been computed yet.", icon=":material/scatter_plot:")
    if projection.progress_of_all_maps(run, method).is_working:
        _offer_all(run, method, epoch)
        return
    button_label = "Try again" if job.state == "failed" else f"Compute {method_name}"
    with st.container(horizontal=True, gap="small"):
        start = {"on_click": _begin, "args": (projection.start_map, run, method, epoch)}
        st.button(button_label, type="primary", icon=":material/play_arrow:", **start)
        _offer_all(run, method, epoch)
    st.caption(
        "The computation runs in the background and takes up to two minutes per epoch. The map is stored with the run."
    )


def _offer_all(run: Run, method: str, epoch: int) -> None:
    """Offer maps of many epochs, or show the progress; nothing if all exist."""
    stored = points.stored_epochs(run)
    if method == "pca" or run.is_recorded or len(stored) < 2:
        return
    read_progress = partial(projection.progress_of_all_maps, run, method)
    if read_progress().is_working:
        draw = partial(_show_progress_of_all, run, method)
        live_part.wait_for_end(read_progress, attrgetter("is_working"), _WAIT_S, draw)
        return
    lacking = set(projection.spread_epochs(stored)) - set(projection.stored_epochs(run, method))
    if not lacking:
        return
    help_text = f"Up to {projection.MAX_EPOCHS} evenly spread epochs; each map starts from the map of the nearest epoch"
    label = f"Compute {len(lacking)} more epochs" if len(lacking) > 1 else "Compute one more epoch"
    start = {"on_click": _begin, "args": (projection.start_all_maps, run, method, epoch)}
    st.button(label, icon=":material/animation:", key="all_epochs", help=help_text, **start)


def _begin(start: Callable[..., object], *arguments) -> None:
    with click_errors.keep_errors(_ERRORS_KEY):
        start(*arguments)


def _show_progress_of_all(run: Run, method: str, job: detached_jobs.JobState) -> None:
    st.caption(f":material/hourglass_top: Computing {escape.markdown(job.message or 'the first epoch')}")
    previous_count = st.session_state.get("maps_known", ("", 0))
    count = (f"{run.id} {method}", len(projection.stored_epochs(run, method)))
    st.session_state["maps_known"] = count
    if previous_count[0] == count[0] and previous_count != count:
        st.rerun()  # one more epoch on the slider, or the one that was waited for


def _wait_for_map(run: Run, method: str, epoch: int) -> None:
    """Show the progress of a map, and a button that cancels it."""

    def draw(job: detached_jobs.JobState) -> None:
        age = f"started {ago(time.time() - job.since)}" if job.since else "just started"
        message = f"Computing {job.message or projection.METHODS[method]}, {age}"
        st.info(escape.markdown(message), icon=":material/hourglass_top:")
        cancel = {"on_click": projection.cancel_map, "args": (run, method, epoch)}
        st.button("Cancel", icon=":material/cancel:", key="cancel_map", **cancel)

    read_progress = partial(projection.map_progress, run, method, epoch)
    live_part.wait_for_end(read_progress, attrgetter("is_working"), _WAIT_S, draw)


def _offer_full_map(run: Run, epoch: int) -> None:
    """Offer to place all images if the PCA shows only some, or show the progress."""
    if run.is_recorded or not points.is_thinned(run, epoch):
        return
    job = projection.map_progress(run, "pca", epoch)
    if job.is_working:
        _wait_for_map(run, "pca", epoch)
    elif job.state != "done":
        start = {"on_click": _begin, "args": (projection.start_map, run, "pca", epoch)}
        st.button(nouns.of(run)("Show all images"), icon=":material/scatter_plot:", key="whole_map", **start)


def _show_image(run: Run, row: pd.Series) -> None:
    """Show the image of a point, what it is, and its prediction."""
    image, names = row["image"], points.read_partition(run).split.class_names
    pictures = selection.read_pictures(run)
    if pictures is not None:
        picture = thumbnails.square_picture(pictures, image, _PICTURE)
        st.image(picture, width="stretch", alt=nouns.of(run)(f"Image {image}"))
    facts = {
        "True class": names[row["truth"]] if row["truth"] >= 0 else "unknown",
        "Prediction": names[row["predicted"]] if row["predicted"] >= 0 else "none of the classes",
        "Confidence": f"{100 * row['confidence']:.0f} %",
    }
    for label, value in facts.items():
        with st.container(horizontal=True, horizontal_alignment="distribute", gap="small"):
            st.caption(label, width="content")
            st.text(value, width="content")
    if row["truth"] >= 0:
        st.badge("Correct" if row["right"] else "Wrong", color="green" if row["right"] else "red")
    st.caption(nouns.of(run)(f"Image {image}"))


def _show_neighbours(run: Run, epoch: int, table: pd.DataFrame, row: pd.Series) -> None:
    """Show the images with the most similar features at this epoch; each can be opened."""
    say = nouns.of(run)
    heading = say(
        f"**Nearest neighbours** of image {int(row['image'])} :small[:gray[among the features of this epoch]]"
    )
    st.markdown(heading)
    try:
        neighbours = points.find_neighbours(run, epoch, int(row["image"]), _NEIGHBOURS)
    except UserError as error:
        st.caption(escape.sentence(error))
        return
    if neighbours is None:
        st.caption("The features of this epoch are not stored.")
        return
    names = points.read_partition(run).split.class_names
    neighbour_rows = table.set_index("image").loc[neighbours.images]
    tiles = []
    for image, distance, truth, predicted in zip(
        neighbours.images.tolist(),
        neighbours.distances,
        neighbour_rows["truth"],
        neighbour_rows["predicted"],
        strict=True,
    ):
        prediction = names[predicted] if predicted >= 0 else "none"
        class_name = names[truth] if truth >= 0 else "unknown"
        alt = f"{say('Image')} {image}, distance {distance:.2f}, predicted {prediction}, true class {class_name}"
        tiles.append(Tile(image, f"{distance:.2f}\n{prediction}", alt, bool(predicted != row["predicted"])))
    pictures = selection.read_pictures(run)
    choice = gallery.show_sheet(tiles, pictures, "neighbours", "neighbours", "Nearest neighbours", choosable=False)
    st.caption(say(_describe_neighbours(neighbour_rows, row)))
    url_fields.open_number("image", choice.clicked)


def _describe_neighbours(neighbour_rows: pd.DataFrame, row: pd.Series) -> str:
    """Describe how many neighbours share prediction and class. neighbour_rows: of `points.read_points`."""
    same = neighbour_rows["predicted"] == row["predicted"]
    sentence = f"Same prediction: {int(same.sum())} of {len(neighbour_rows)}"
    is_known = neighbour_rows["truth"] >= 0
    if row["truth"] >= 0 and is_known.any():
        same = (neighbour_rows["truth"] == row["truth"])[is_known]
        sentence += f"; same true class: {int(same.sum())} of {len(same)}"
    return f"{sentence}. Below each picture: cosine distance of the features, and prediction."
