"""The selected images of the projection: counts, pictures, and a table to download.

They were selected with a lasso or a box, or by conditions (lps.ui.projection.filters), whichever came last.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from lps.analysis import naming
from lps.datasets import Images
from lps.errors import UserError
from lps.files import tables
from lps.store.runs import Run
from lps.ui.pictures import name_field, nouns, points, predictions, scroll_gallery
from lps.ui.projection import filters
from lps.ui.projection.filters import Conditions
from lps.ui.server import picture_files
from lps.ui.shared import data_table, escape, export_buttons, url_fields
from lps.ui.shared.data_table import Column
from lps.wording import counted

_ROWS = 8  # classes that are visible at once
_CLEARED, _ERROR = "lasso_cleared", "lasso_error"
_COLUMNS = ("image", "file", "predicted", "confidence", "true_class")


def selection_token(run: Run) -> str:
    """Return a value that resets the selection when it changes: by another run, or a click on Clear."""
    return f"{run.id} {st.session_state.get(_CLEARED, 0)}"


def choose_by_conditions(conditions: Conditions) -> None:
    """Select images by conditions; an earlier lasso is cleared."""
    _clear_selection()
    filters.keep_conditions(conditions)


def find_fitting_ids(run: Run, epoch: int, table: pd.DataFrame) -> np.ndarray | None:
    """Return the ids of the images that match the conditions, possibly none; None without conditions."""
    conditions = filters.requested_conditions()
    if not conditions:
        return None
    try:
        return filters.find_matching_ids(run, epoch, table, conditions)
    except UserError as error:
        st.session_state[_ERROR] = str(error)
        return np.array([], np.int64)


def show_selection(run: Run, epoch: int, table: pd.DataFrame, selected: np.ndarray) -> None:
    """Show the images `selected` (ids) of `table` (of `points.read_points`); nothing if there are none."""
    if error := st.session_state.pop(_ERROR, ""):
        st.error(escape.sentence(error), icon=":material/error:")
    rows, say = table[table["image"].isin(selected)], nouns.of(run)
    if rows.empty:
        if filters.requested_conditions() and not error:
            st.info(say("No image matches. Remove a condition above."), icon=":material/filter_alt_off:")
        return
    names, images = points.read_partition(run).split.class_names, read_pictures(run)
    _show_head(run, epoch, rows, names, images)
    class_counts = _count_classes(rows, names)
    left, right = st.columns([3, 5], gap="medium")
    with left:
        alt = say("Selected images by true class and by predicted class")
        data_table.show_data_table(
            _class_columns(class_counts, len(rows), say), class_counts.index, alt, max_rows=_ROWS
        )
    with right:
        _show_gallery(run, rows, names)


def read_pictures(run: Run) -> Images | None:
    """Return the images of a run; None and a message on the page if they cannot be read."""
    try:
        return points.read_pictures(run)
    except UserError as error:
        st.caption(escape.sentence(error))
        return None


def _show_head(run: Run, epoch: int, rows: pd.DataFrame, names: tuple[str, ...], images: Images | None) -> None:
    say = nouns.of(run)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", gap="small"):
        st.subheader(say(counted(len(rows), "selected image")), anchor=False, width="content")
        with st.container(horizontal=True, width="content", gap="small"):
            files = images.file_names if images is not None else ()
            about = say("Image, file, prediction, confidence and true class of each selected image")
            make_csv, file_name = partial(as_csv, rows, names, files), f"selected-epoch-{epoch:04d}.csv"
            export_buttons.offer_download("Download CSV", make_csv, file_name, "lasso_csv", help=about)
            if not run.is_recorded:
                st.button(
                    "Make a cluster",
                    key="lasso_split",
                    icon=":material/call_split:",
                    on_click=_put_in_cluster,
                    args=(run, epoch, rows["image"].tolist()),
                    help=say("Move these images to a new cluster without a name"),
                )
                _ask_cluster(run, epoch, rows["image"].tolist())
            st.button("Clear", key="lasso_clear", icon=":material/close:", on_click=_clear_selection)
    st.caption(_summarize_selection(rows, points.read_partition(run).split.classes.seen))
    if move := st.session_state.get("lasso_made"):
        run_id, move_epoch, cluster, cluster_name = move
        if (run_id, move_epoch) == (run.id, epoch):
            query = {"run": run.id, "epoch": str(epoch), "cluster": str(cluster)}
            label = escape.markdown(f"They are in {cluster_name} now. Open it")
            st.page_link("pages/clusters.py", label=label, icon=":material/arrow_forward:", query_params=query)


def _summarize_selection(rows: pd.DataFrame, seen: int) -> str:
    """Describe counts by group, accuracy and mean confidence. rows: rows of `points.read_points`."""
    truth = rows["truth"]
    groups = {"seen": int(((truth >= 0) & (truth < seen)).sum()), "novel": int((truth >= seen).sum())}
    groups["of unknown class"] = int((truth < 0).sum())
    sentences = [", ".join(f"{count:,} {label}" for label, count in groups.items() if count)]
    known_count = int((truth >= 0).sum())
    if known_count:
        sentences.append(f"{100 * rows['right'][truth >= 0].mean():.0f} % predicted correctly")
    sentences.append(f"{int((rows['predicted'].between(0, seen - 1)).sum()):,} predicted as seen classes")
    sentences.append(f"mean confidence {100 * rows['confidence'].mean():.0f} %")
    return " · ".join(sentences)


def _count_classes(rows: pd.DataFrame, names: tuple[str, ...]) -> pd.DataFrame:
    """Return one row per class that occurs, most frequent first: Class, True, Predicted."""
    truth, predicted = rows["truth"].value_counts(), rows["predicted"].value_counts()
    classes = pd.DataFrame({"True": truth, "Predicted": predicted}).fillna(0).astype(int)
    order = np.argsort(-classes.max(axis=1).to_numpy(), kind="stable")
    classes = classes.iloc[order]
    titles = [names[class_id] if class_id >= 0 else "unknown or none" for class_id in classes.index]
    counts = classes.assign(Class=titles)[["Class", "True", "Predicted"]].reset_index(drop=True)
    if (rows["truth"] >= 0).any():
        return counts
    return counts[counts["Predicted"] > 0].drop(columns="True").reset_index(drop=True)


def _class_columns(class_counts: pd.DataFrame, total: int, say: Callable[[str], str]) -> list[Column]:
    """Return the columns of the counts. class_counts: of `_count_classes`; total: number of selected images."""
    bar = {"width": 95, "min_value": 0, "max_value": total, "format": "%d"}
    columns = [Column("Class", class_counts["Class"], "text", width=80)]
    if "True" in class_counts:
        columns.append(
            Column("True", class_counts["True"], "bar", help=say("Selected images of this true class"), **bar)
        )
    help_text = say("Selected images with this prediction")
    return [*columns, Column("Predicted", class_counts["Predicted"], "bar", help=help_text, **bar)]


def _show_gallery(run: Run, rows: pd.DataFrame, names: tuple[str, ...]) -> None:
    """Show the selected pictures, the most confident first."""
    rows = rows.sort_values("confidence", ascending=False, kind="stable")
    opened, alt = url_fields.read_number("image"), nouns.of(run)(counted(len(rows), "selected image"))
    clicked = scroll_gallery.show_gallery(
        rows, "selected", alt, names, picture_files.address_of_pictures(run), opened, nouns.of(run)("Image")
    )
    url_fields.open_number("image", clicked)


def as_csv(rows: pd.DataFrame, names: tuple[str, ...], files: tuple[str, ...]) -> str:
    """Return one line per image, `_COLUMNS` first; files: names of all images, () if they are not files."""
    lines: list[Sequence] = [_COLUMNS]
    for row in rows.itertuples():
        class_names = [names[class_id] if class_id >= 0 else "" for class_id in (row.predicted, row.truth)]
        file = tables.file_cell(files[row.image]) if files else ""
        lines.append(
            [
                row.image,
                file,
                tables.escape_cell(class_names[0]),
                f"{row.confidence:.4f}",
                tables.escape_cell(class_names[1]),
            ]
        )
    return tables.csv_text(lines)


def _clear_selection() -> None:
    st.session_state[_CLEARED] = st.session_state.get(_CLEARED, 0) + 1
    filters.keep_conditions(Conditions())
    st.session_state.pop("lasso_made", None)


def _ask_cluster(run: Run, epoch: int, images: list[int]) -> None:
    """Show a field that moves the images to a cluster: an existing one, or a new one with the typed name."""
    try:
        view = predictions.read_view(run, epoch)
    except UserError:
        return  # said once one is put in, by the button beside
    clusters = view.choices
    key = f"lasso_place {len(naming.read_entries(run))} {len(images)} {images[0]}"
    st.selectbox(
        "Move to",
        list(clusters),
        index=None,
        format_func=lambda cluster: clusters.get(cluster, cluster),
        key=key,
        placeholder="Choose a cluster or type a new name",
        accept_new_options=True,
        label_visibility="collapsed",
        width=260,
        on_change=lambda: _put_in_cluster(run, epoch, images, st.session_state[key]),
    )


def _put_in_cluster(run: Run, epoch: int, images: list[int], into: int | str | None = None) -> None:
    """Record that these images form a cluster, or belong to one, as on the page Clusters.

    into: a cluster, or a name, of an existing or a new cluster. The user has not looked at each image, so none counts
    as confirmed.
    """
    try:
        view = predictions.read_view(run, epoch)
        cluster = _find_cluster_by_name(view, into) if isinstance(into, str) else into
        new_id = view.next_id()
        steps: list[dict] = [{"do": "split", "images": images, "new": new_id}]
        if cluster is not None:
            steps.append({"do": "merge", "id": new_id, "into": cluster})
        elif isinstance(into, str):
            steps.append({"do": "name", "id": new_id, "name": naming.clean_name(into)})
        name_field.record_steps(view, steps)
    except (UserError, OSError) as error:
        st.session_state[_ERROR] = str(error)
        return
    cluster_name = f"cluster {new_id}" if into is None else into if isinstance(into, str) else view.name(into)
    st.session_state["lasso_made"] = (run.id, epoch, new_id if cluster is None else cluster, cluster_name)


def _find_cluster_by_name(view: predictions.PredictionView, name: str) -> int | None:
    """Return the cluster with this name; None for a new name."""
    folded_name = naming.clean_name(name).casefold()
    return next((int(cluster) for cluster in view.ids if view.name(cluster).casefold() == folded_name), None)
