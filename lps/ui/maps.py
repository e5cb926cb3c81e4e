"""The parts of the Projection page: which map of which epoch, the points, the image behind a point."""

import time

import pandas as pd
import streamlit as st

from lps import projection
from lps.parameters import ConfigError
from lps.runs import Run
from lps.ui import charts, escape, points, select, splits, style
from lps.ui.panels import duration
from lps.ui.plot import plot

COLORINGS = {
    "group": "Seen / novel",
    "truth": "True class",
    "predicted": "Prediction",
    "right": "Correct",
    "confidence": "Confidence",
}
PICTURE = 256  # pixels on the screen
WAIT_S = 1.0


def has_points(run: Run) -> bool:
    """Whether a run has stored features of some epoch."""
    return bool(points.epochs(run))


def show(runs: list[Run]) -> None:
    """Controls, then the map with the chosen image beside it, or what has to be done to get a map."""
    run, epoch = _pick_run_and_epoch(runs)
    with st.container(horizontal=True, gap="medium"):
        method = select.choose(st.segmented_control, "map", "Map", projection.METHODS, required=True)
        coloring = select.choose(st.segmented_control, "color", "Colour by", COLORINGS, required=True)
    try:
        table = points.table(run, epoch, method)
        split = points.partition(run).split
    except ConfigError as error:
        st.error(escape.markdown(f"{error}."), icon=":material/broken_image:")
        return
    if table is None:
        _show_computation(run, method, epoch)
        return
    chart, side = st.columns([3, 1], gap="medium")
    with chart, st.container(border=True):
        names = list(split.class_names)
        chosen = select.number("image")
        figure = charts.projection(table, coloring, style.palette(), split.classes.seen, names)
        charts.mark_point(figure, table, chosen, style.palette())
        figure.update_layout(uirevision=f"{run.id} {method}")
        alt = f"{projection.METHODS[method]} of the features of {len(table)} unlabeled images at epoch {epoch}"
        clicked = plot(figure, "map", alt, clickable=True)
        st.caption(f"Showing {len(table):,} of {len(split.unlabeled):,} unlabeled images. {_meaning(method)}")
    if clicked is not None and clicked != chosen:
        select.set_number("image", clicked)
        st.rerun()
    with side:
        _show_image(run, table, chosen, names)


def _pick_run_and_epoch(runs: list[Run]) -> tuple[Run, int]:
    left, right = st.columns(2, gap="medium", vertical_alignment="bottom")
    with left:
        run = select.pick_run(runs)
    epochs = points.epochs(run)
    wanted = select.number("epoch")
    epoch = wanted if wanted in epochs else epochs[-1]
    if len(epochs) > 1:
        if st.session_state.get("map_epoch") != epoch:
            st.session_state["map_epoch"] = epoch
        right.select_slider("Epoch", epochs, key="map_epoch", on_change=_remember_epoch, args=(epochs[-1],))
    return run, epoch


def _remember_epoch(last: int) -> None:
    epoch = st.session_state["map_epoch"]
    select.set_number("epoch", epoch if epoch != last else None)


def _meaning(method: str) -> str:
    if method == "pca":
        return "The plane of largest variance at the newest epoch; every epoch is seen on the same plane."
    return "Neighbours matter, distances between groups do not. The seed is fixed: the same map for everybody."


def _show_computation(run: Run, method: str, epoch: int) -> None:
    """Start a map that has not been computed, or tell how far it is."""
    word = projection.METHODS[method]
    standing = projection.progress(run, method, epoch)
    if standing.state == "working":
        st.fragment(_wait, run_every=WAIT_S)(run, method, epoch)
        return
    if standing.state == "done":
        st.rerun()
    if run.is_recorded:
        words = f"{word} of epoch {epoch} was not recorded. Choose the last epoch or PCA, or a run of your own."
        st.info(words, icon=":material/scatter_plot:")
        return
    if standing.state == "failed":
        st.error(escape.markdown(f"{word} of epoch {epoch} failed: {standing.message}"), icon=":material/error:")
    else:
        st.info(f"{word} of epoch {epoch} has not been computed yet.", icon=":material/scatter_plot:")
    again = "Try again" if standing.state == "failed" else f"Compute {word}"
    if st.button(again, type="primary", icon=":material/play_arrow:"):
        projection.start(run, method, epoch)
        st.rerun()
    st.caption("It runs in a process of its own, takes up to a minute or two, and is stored with the run.")


def _wait(run: Run, method: str, epoch: int) -> None:
    standing = projection.progress(run, method, epoch)
    if standing.state != "working":
        st.rerun()
    since = duration(time.time() - standing.since) if standing.since else "a moment"
    words = f"Computing {standing.message or projection.METHODS[method]}, since {since}"
    st.info(escape.markdown(words), icon=":material/hourglass_top:")
    st.skeleton(height=420)


def _show_image(run: Run, table: pd.DataFrame, chosen: int | None, names: list[str]) -> None:
    """The image of the chosen point, what it is and what the network takes it for."""
    rows = table[table["image"] == chosen]
    if rows.empty:
        with st.container(border=True):
            st.caption("Click a point to see its image." if chosen is None else f"Image {chosen} is not on this map.")
        return
    row = rows.iloc[0]
    with st.container(border=True):
        try:
            pixels = points.pictures(run).pixels[row["image"]]
            st.image(splits.thumbnail(pixels, PICTURE), width="stretch", alt=f"Image {chosen}")
        except ConfigError as error:
            st.caption(escape.markdown(f"{error}."))
        facts = {
            "True class": names[row["truth"]] if row["truth"] >= 0 else "unknown",
            "Prediction": names[row["predicted"]] if row["predicted"] >= 0 else "none of the classes",
            "Confidence": f"{100 * row['confidence']:.0f} %",
        }
        for word, value in facts.items():
            with st.container(horizontal=True, horizontal_alignment="distribute", gap="small"):
                st.caption(word, width="content")
                st.text(value, width="content")
        if row["truth"] >= 0:
            st.badge("Correct" if row["right"] else "Wrong", color="green" if row["right"] else "red")
        st.caption(f"Image {chosen}")
