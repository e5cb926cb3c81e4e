"""The predictions of new pictures: counts, the rejection threshold, all pictures, and one of them."""

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import streamlit as st

from lps.datasets import Images, Vectors, embeddings
from lps.datasets.readers import vector_files
from lps.datasets.readers.decoding import Unreadable, squeezed
from lps.datasets.readers.item_pictures import ItemPictures
from lps.datasets.readers.vector_files import is_vector_file
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.inference import prediction_files
from lps.inference.prediction_result import NONE, PredictionResult
from lps.inference.rejection import DEFAULT_KEEP
from lps.store.runs import Run
from lps.store.titles import short_id
from lps.ui.pictures import frames, gallery, kept_thumbnails, left_out_files, nouns, paging, points
from lps.ui.pictures.frames import Frame
from lps.ui.pictures.gallery import FINE, Tile
from lps.ui.predict import training_data
from lps.ui.server import downloads
from lps.ui.shared import data_table, escape, export_buttons, url_fields
from lps.ui.shared.data_table import Column
from lps.wording import counted

_PAGE = 48  # pictures on a sheet
_SIZE = 72  # pixels on the screen
_VIEWS = {"gallery": "Pictures", "table": "Table"}
_ALL = "All pictures"
_KIND = "Possible novel class"
_ABOUT_COLUMNS = (
    f"In the CSV file, `name` is the answer; it is empty for “{NONE}”. `guess` is the most likely class, also for "
    f"“{NONE}”. `predicted` is the id that the model predicted and `cluster` the id after your merges and splits. "
    "`group` is seen or novel. `new_kind` is the number of a possible novel class. "
    f"`none` is yes for “{NONE}”, `distance` is the mean cosine distance to the 5 nearest training images, and "
    "`nearest_1` to `nearest_3` are the most similar of these."
)
_ABOUT_LIMIT = (
    f"This sets the limit: a new picture that is farther from the training images is “{NONE}”. It is not a share of "
    "your new pictures."
)
_MAX_KINDS, _FIRST = 5, 12  # kinds, and pictures of each, that are shown above the others


def show_results(run: Run, predicted: PredictionResult, path: Path, source: Path) -> None:
    """Show a prediction, stored in the file `path`. source: the folder of the pictures, or the file of vectors."""
    training_data.warn_of_other_data(run, predicted)
    left, right = st.columns([3, 2], gap="medium")
    with right:
        threshold = _ask_threshold(run, predicted)
    is_rejected, nearest_names = predicted.is_none(threshold), predicted.names()
    class_names = [NONE if rejected else name for rejected, name in zip(is_rejected.tolist(), nearest_names)]
    with left:
        _show_counts(run, predicted, class_names, is_rejected)
        left_out_files.show_left_out_files(predicted.skipped)
        _offer_files(run, predicted, threshold, path)
    _show_kinds(run, predicted, source)
    kinds = {f"{_KIND} {number}": kind for number, kind in enumerate(predicted.kinds, 1)}
    say = nouns.of(run)
    selected_class = _choose_class(class_names, kinds, say(_ALL))
    rows = (
        list(kinds[selected_class])
        if selected_class in kinds
        else [row for row, name in enumerate(class_names) if selected_class in (_ALL, name)]
    )
    views = {key: say(text) for key, text in _VIEWS.items()}
    kind = url_fields.choose_one(
        st.segmented_control, "show", "Show", views, required=True, label_visibility="collapsed"
    )
    if kind == "table":
        _show_table(run, predicted, class_names, rows)
    else:
        _show_pictures(run, predicted, class_names, rows, source, threshold)


def forget_choice() -> None:
    """Reset all choices for other pictures."""
    url_fields.set_values("class", None, "picture")


# ---------------------------------------------------------------------------------------------------- none of these


def _ask_threshold(run: Run, predicted: PredictionResult) -> float:
    """Return the rejection distance, from the share of pictures of known classes that the user accepts."""
    say = nouns.of(run)
    with st.container(border=True, gap="small"):
        share = st.slider(
            say("Training images that get a class"), 50, 100, round(100 * DEFAULT_KEEP),
            format="%d %%", key="predict_keep", help=say("At 100 %, every picture gets a class."),
        )  # fmt: skip
        threshold = predicted.threshold(share / 100)
        if np.isfinite(threshold):
            curve = predicted.trade_off
            sentences = [_ABOUT_LIMIT, curve.explain_excess(threshold, share / 100), curve.withheld_in_words(threshold)]
            st.caption(say(" ".join(filter(None, sentences))), help=say(curve.basis))
        else:
            st.caption(say("Every picture gets a class, even if it is far from all classes."))
    return threshold


# ---------------------------------------------------------------------------------------------------- all


def _show_counts(run: Run, predicted: PredictionResult, class_names: list[str], is_rejected: np.ndarray) -> None:
    count, say = len(predicted.files), nouns.of(run)
    rejected = f'{int(is_rejected.sum()):,} marked "{NONE}"'
    st.markdown(f"**{counted(count, say('picture'))}**; {rejected} · model of epoch {predicted.epoch}")
    columns = [
        Column("Class", lambda row: row[0]),
        Column(say("Pictures"), lambda row: row[1], "bar", min_value=0, max_value=count, format="localized"),
    ]
    data_table.show_data_table(columns, Counter(class_names).most_common(), say("Number of pictures of each class"))
    if predicted.lost:
        names = escape.markdown(", ".join(predicted.lost))
        st.caption(
            f"The newest weights are from epoch {predicted.epoch}. You named {names} at another epoch, and no cluster "
            "of this epoch matches, so these names are not used. To use them, name the clusters of this epoch."
        )


def _offer_files(run: Run, predicted: PredictionResult, threshold: float, path: Path) -> None:
    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "Download CSV",
            lambda: prediction_files.as_csv(predicted, threshold, _picture_files(run)),
            file_name=f"predictions-{short_id(run.id)}.csv",
            mime="text/csv",
            key="predict_csv",
            on_click="ignore",
            icon=":material/download:",
        )
        if predicted.root is not None:
            help_text = f'One folder of pictures per class, one folder for "{NONE}", and the table of predictions'
            address = downloads.predictions_address(run, path, st.session_state["predict_keep"])
            export_buttons.offer_file("Download ZIP", address, "folder_zip", help_text)
    st.caption(nouns.of(run)(_ABOUT_COLUMNS))


def _picture_files(run: Run) -> tuple[str, ...]:
    """Return the files of the run's images; () if they are not files, or are gone."""
    images = _training_images(run)
    return images.file_names if images is not None else ()


def _training_images(run: Run) -> Images | None:
    try:
        return points.read_pictures(run)
    except UserError:
        return None


def _labeled_images(run: Run) -> frozenset[int]:
    """Return the ids of the images that the run has learned with their labels; none if its split cannot be read."""
    try:
        return frozenset(points.read_partition(run).split.labeled.tolist())
    except UserError:
        return frozenset()


def _show_kinds(run: Run, predicted: PredictionResult, source: Path) -> None:
    """Show the possible novel classes with the first pictures of each."""
    say = nouns.of(run)
    for number, kind in enumerate(predicted.kinds[:_MAX_KINDS], 1):
        with st.container(border=True, gap="small"):
            st.markdown(
                f":material/new_releases: **{_KIND} {number}**: {len(kind):,} "
                + say("pictures that are similar to each other and to none of the run's classes"),
                help=say("These pictures are near each other. Each is farther from the training images than 80 % of ")
                + say("the pictures of known classes. ")
                + "We tested this on 2,000 pictures of CIFAR-10, with 50 trials per case. If no unknown "
                "class was present, no class was proposed. An unknown class was proposed in 80 % of trials if it had "
                "200 pictures, and in 20 % if it had 50 (benchmarks/README.md).",
            )
            first_rows = list(kind[:_FIRST])
            images = _make_thumbnails(
                str(source), fingerprint(source), tuple(predicted.files[row] for row in first_rows)
            )
            kind_frames = [
                Frame(
                    images.pixels[position],
                    images.sides(position),
                    "novel",
                    f"{say('Picture')} {predicted.files[row]}",
                    "",
                )
                for position, row in enumerate(first_rows)
            ]
            frames.show_frames([("", kind_frames)], _SIZE)
    if predicted.kinds:
        advice = (
            "To teach the model this class, add these vectors to the file that it was trained on, with the name of "
            "the class as their label, or without a label. Then train again. The column new_kind of the table "
            "lists them."
            if is_vector_file(source)
            else "To teach the model this class, add these pictures to its training folder and train again. Put them "
            "into a sub-folder with the name of the class, or among the pictures without labels. The column new_kind "
            "of the table lists them."
        )
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(
                advice,
                width="stretch",
            )
            st.page_link("pages/own.py", label="Add pictures", icon=":material/add_photo_alternate:")


def _choose_class(class_names: list[str], kinds: dict[str, tuple[int, ...]], all_title: str) -> str:
    counts = Counter(class_names)
    labels = {_ALL: f"{all_title} ({len(class_names):,})"} | {
        name: f"{name} ({n:,})" for name, n in counts.most_common()
    }
    labels |= {name: f"{name} ({len(kind):,})" for name, kind in kinds.items()}
    return url_fields.choose_one(st.selectbox, "class", "Predicted class", labels, width=300)


def _show_table(run: Run, predicted: PredictionResult, class_names: list[str], rows: list[int]) -> None:
    names = predicted.names()
    say = nouns.of(run)
    about_nearest = say("The class that the model predicts, even if the picture is too far from it")
    about_confidence = "Confidence of the model in the nearest class"
    about_distance = say("Mean cosine distance to the 5 nearest training images")
    columns = [
        Column("File", lambda row: predicted.files[row]),
        Column("Name", lambda row: class_names[row]),
        Column("Nearest class", lambda row: names[row], help=about_nearest),
        Column("Confidence", 100 * predicted.confidence[rows], "number", format="%.0f %%", help=about_confidence),
        Column("Distance", predicted.distance[rows], "number", format="%.3f", help=about_distance),
    ]
    data_table.show_data_table(columns, rows, say("Every picture with its class, confidence and distance"), height=520)


def _show_pictures(
    run: Run, predicted: PredictionResult, class_names: list[str], rows: list[int], source: Path, threshold: float
) -> None:
    """Show a sheet of the pictures, and one of them beside the most similar training images."""
    say = nouns.of(run)
    if not rows:
        st.caption(say("No pictures match."))
        return
    number = paging.choose_page(-(-len(rows) // _PAGE), f"predict page {st.query_params.get('class', '')}")
    page_rows = rows[(number - 1) * _PAGE : number * _PAGE]
    opened = url_fields.read_number("picture")
    sheet, detail = st.columns([5, 3], gap="medium")
    with sheet:
        images = _make_thumbnails(str(source), fingerprint(source), tuple(predicted.files[row] for row in page_rows))
        tiles = [
            Tile(
                position,
                _write_caption(class_names[row], predicted.confidence[row]),
                f"{predicted.files[row]}, {class_names[row]}",
            )
            for position, row in enumerate(page_rows)
        ]
        token = f"{run.id} {predicted.root} {number}"
        position = page_rows.index(opened) if opened in page_rows else None
        choice = gallery.show_sheet(
            tiles, images, "predict_sheet", token, say("New pictures"), position, choosable=False
        )
        if choice.clicked is not None and choice.clicked < len(page_rows) and page_rows[choice.clicked] != opened:
            url_fields.set_number("picture", page_rows[choice.clicked])
            st.rerun()
    with detail, st.container(border=True):
        if opened is None or opened >= len(predicted.files):
            st.caption(
                say(
                    "The percentage is the model's confidence. Click a picture to see the most similar training images."
                )
            )
        else:
            _show_picture(run, predicted, opened, class_names[opened], source, threshold)


def _write_caption(class_name: str, confidence: float) -> str:
    """Return the words below a picture; a rejected picture has no confidence."""
    return class_name if class_name == NONE else f"{class_name}\n{100 * confidence:.0f} %"


def _show_picture(
    run: Run, predicted: PredictionResult, row: int, class_name: str, source: Path, threshold: float
) -> None:
    """Explain the prediction of one picture."""
    say = nouns.of(run)
    st.markdown(f"**{escape.markdown(class_name)}**")
    st.caption(escape.markdown(predicted.files[row]))
    thumbnails = _make_thumbnails(str(source), fingerprint(source), (predicted.files[row],))
    if (title := thumbnails.title(0)) not in ("", predicted.files[row]):
        st.caption(escape.markdown(title))
    st.markdown(escape.markdown(explain_prediction(predicted, row, threshold)))
    nearest_images, images = predicted.nearest[row].tolist(), _training_images(run)
    new_frames = [
        Frame(
            thumbnails.pixels[0],
            thumbnails.sides(0),
            predicted.groups[int(predicted.cluster[row])],
            f"{say('Picture')}, {class_name}",
        )
    ]
    frames.show_frames([(say("This picture"), new_frames)], _SIZE)
    if images is None:
        st.caption(say("The run's pictures were not found."))
        return
    labeled = _labeled_images(run)
    similar_frames = [
        Frame(
            images.pixels[image],
            images.sides(image),
            predicted.groups[cluster],
            say(f"Image {image}"),
            f"{'label' if image in labeled else 'predicted'}: {predicted.titles[cluster]}",
        )
        for image, cluster in zip(nearest_images, predicted.theirs[row].tolist())
    ]
    frames.show_frames([(say("Most similar training images"), similar_frames)], _SIZE)


def explain_prediction(predicted: PredictionResult, row: int, threshold: float) -> str:
    """Give the confidence and the distance of a picture, and why it is none of the classes if it is."""
    name, distance = predicted.names()[row], predicted.distance[row]
    sentence = f"Confidence {100 * predicted.confidence[row]:.0f} % for {name}, distance {distance:.3f}"
    if predicted.cluster[row] in predicted.rejected:
        return f"{sentence}: you marked this cluster as not a class."
    if distance > threshold:
        return f"{sentence}, limit {threshold:.3f}: too far from all classes."
    return f"{sentence}."


@st.cache_resource(max_entries=16, show_spinner=False)
def _make_thumbnails(root: str, stamp: object, files: tuple[str, ...]) -> Images:
    """Return small copies of new pictures in their proportions; grey if one can no longer be read.

    root: their folder, or the file of vectors, stamp: key of the cache.
    """
    if is_vector_file(root):
        return _describe_items(root, files)
    pixels, sizes = np.full((len(files), FINE, FINE, 3), 127, np.uint8), np.ones((len(files), 2), np.int64)
    for index, file in enumerate(files):
        try:
            path = Path(root, file)
            key = ("new picture", *kept_thumbnails.key_of_file(path, FINE))
            pixels[index], sizes[index] = kept_thumbnails.keep_pixels(key, partial(squeezed, path, FINE))
        except Unreadable:
            continue
    return Images(pixels, np.full(len(files), -1), (), sizes=sizes)


def _describe_items(path: str, ids: tuple[str, ...]) -> Images:
    """Return the titles or pictures of some items of a file of vectors; their ids if the file can no longer be read."""
    try:
        table = vector_files.read_vectors(path)
        row_by_id = {text: row for row, text in enumerate(table.ids)}
        rows = np.array([row_by_id[text] for text in ids], np.int64)
        pictures, values = embeddings.item_pictures(table, Path(path).parent).take(rows), table.values[rows]
    except (UserError, KeyError):
        pictures, values = ItemPictures(ids), np.ones((len(ids), 1, 1))
    unit = np.ones(values.shape[2], np.float32)
    return Images(pictures, np.full(len(ids), -1), (), vectors=Vectors(values, unit, unit, 1.0))
