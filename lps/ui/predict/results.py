"""The predictions of new pictures: counts, the rejection threshold, all pictures, and one of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import streamlit as st

from lps.analysis import score_tables
from lps.datasets import Images, Vectors, embeddings
from lps.datasets.readers import vector_files
from lps.datasets.readers.decoding import Unreadable, squeezed
from lps.datasets.readers.item_pictures import ItemPictures
from lps.datasets.readers.vector_files import is_vector_file
from lps.errors import UserError
from lps.files.atomic import fingerprint
from lps.inference import prediction_columns, prediction_files
from lps.inference.prediction_result import AGREEING, NONE, PredictionResult
from lps.inference.rejection import DEFAULT_KEEP, NEIGHBOURS
from lps.store.runs import Run
from lps.store.titles import short_id
from lps.ui.pictures import frames, gallery, kept_thumbnails, left_out_files, nouns, paging, points
from lps.ui.pictures.frames import Frame
from lps.ui.pictures.gallery import FINE, Tile
from lps.ui.predict import training_data
from lps.ui.server import downloads
from lps.ui.shared import data_table, escape, export_buttons, url_fields
from lps.ui.shared.data_table import Column
from lps.wording import counted, share_of

_PAGE = 48  # pictures on a sheet
_SIZE = 72  # pixels on the screen
_VIEWS = {"gallery": "Pictures", "table": "Table"}
_ALL = "All pictures"
_KIND = "Possible novel class"
_DOUBTFUL = "Doubtful answers"
_ORDERS = {"files": "By file", "least": "Least confident"}
_ABOUT_LIMIT = (
    f"This share of the training images lies within the limit of distance. A new picture beyond the limit is “{NONE}”. "
    "At 100 %, every picture gets a class."
)
_ABOUT_DOUBTFUL = f"fewer than {AGREEING} of the {NEIGHBOURS} most similar training images have this class."
_ABOUT_ACCURACY = (
    "How many of the images of this class are recognized, measured on those whose label was withheld from training. "
    "The limit is not applied"
)
_MAX_KINDS, _FIRST = 5, 12  # kinds, and pictures of each, that are shown above the others


@dataclass(frozen=True)
class _Answers:
    """A prediction with the chosen rejection distance.

    source: the folder of the pictures, or the file of vectors. class_names: of each picture, `NONE` if it is rejected.
    """

    run: Run
    predicted: PredictionResult
    source: Path
    threshold: float

    @cached_property
    def class_names(self) -> list[str]:
        is_rejected = self.predicted.is_none(self.threshold).tolist()
        return [NONE if rejected else name for rejected, name in zip(is_rejected, self.predicted.names())]

    @cached_property
    def is_doubtful(self) -> list[bool]:
        return self.predicted.is_doubtful(self.threshold).tolist()

    def thumbnails(self, rows: Iterable[int]) -> Images:
        """Return small copies of the pictures in these rows."""
        files = tuple(self.predicted.files[row] for row in rows)
        return _make_thumbnails(str(self.source), fingerprint(self.source), files)


def show_results(run: Run, predicted: PredictionResult, path: Path, source: Path) -> None:
    """Show a prediction, stored in the file `path`. source: the folder of the pictures, or the file of vectors."""
    training_data.warn_of_other_data(run, predicted)
    left, right = st.columns([3, 2], gap="medium")
    with right:
        answers = _Answers(run, predicted, source, _ask_threshold(run, predicted))
    with left:
        _show_counts(answers)
        left_out_files.show_left_out_files(predicted.skipped)
        _offer_files(answers, path)
    _show_kinds(answers)
    say, doubtful_rows = nouns.of(run), np.flatnonzero(answers.is_doubtful).tolist()
    groups = {_DOUBTFUL: tuple(doubtful_rows)} if doubtful_rows else {}
    groups |= {f"{_KIND} {number}": kind for number, kind in enumerate(predicted.kinds, 1)}
    selected_class = _choose_class(answers.class_names, groups, say(_ALL))
    rows = [row for row, name in enumerate(answers.class_names) if selected_class in (_ALL, name)]
    rows = list(groups.get(selected_class, rows))
    views = {key: say(text) for key, text in _VIEWS.items()}
    with st.container(horizontal=True, gap="small"):
        options = {"label_visibility": "collapsed"}
        kind = url_fields.choose_one(st.segmented_control, "show", "Show", views, **options)
        if kind == "gallery":
            order = url_fields.choose_one(st.segmented_control, "order", "Order", _ORDERS, **options)
            rows = sorted(rows, key=predicted.confidence.__getitem__) if order == "least" else rows
    if doubtful_rows:
        st.caption(say(f"**Doubtful** ({len(doubtful_rows):,}): {_ABOUT_DOUBTFUL}"))
    if kind == "table":
        _show_table(answers, rows)
    else:
        _show_pictures(answers, rows)


def forget_choice() -> None:
    """Reset all choices for other pictures."""
    url_fields.set_values("class", None, "picture")


# ---------------------------------------------------------------------------------------------------- none of these


def _ask_threshold(run: Run, predicted: PredictionResult) -> float:
    """Return the rejection distance, from the share of known pictures that the user accepts."""
    say = nouns.of(run)
    with st.container(border=True, gap="small"):
        share = st.slider(
            say("Training images that get a class"), 50, 100, round(100 * DEFAULT_KEEP),
            format="%d %%", key="predict_keep", help=say(_ABOUT_LIMIT),
        )  # fmt: skip
        threshold = predicted.threshold(share / 100)
        if np.isfinite(threshold):
            curve, num_none = predicted.trade_off, int(predicted.is_none(threshold).sum())
            are = "is" if num_none == 1 else "are"
            measured = [curve.explain_excess(threshold, share / 100), curve.withheld_in_words(threshold), curve.basis]
            st.caption(
                say(f"{num_none:,} of your {counted(len(predicted.files), 'picture')} {are} “{NONE}”."),
                help=say(" ".join(filter(None, measured))),
            )
        else:
            st.caption(say("Every picture gets a class, even if it is far from all classes."))
    return threshold


# ---------------------------------------------------------------------------------------------------- all


def _show_counts(answers: _Answers) -> None:
    run, predicted, class_names = answers.run, answers.predicted, answers.class_names
    count, say = len(predicted.files), nouns.of(run)
    rejected = f'{int(predicted.is_none(answers.threshold).sum()):,} marked "{NONE}"'
    st.markdown(f"**{counted(count, say('picture'))}**; {rejected} · model of epoch {predicted.epoch}")
    accuracy = training_data.accuracy_by_class(run, predicted.epoch)
    columns = [
        Column("Class", lambda row: row[0]),
        Column(say("Pictures"), lambda row: row[1], "bar", min_value=0, max_value=count, format="localized"),
        Column(
            "Accuracy",
            lambda row: share_of(*accuracy[row[0]]) if row[0] in accuracy else "",
            help=say(_ABOUT_ACCURACY),
            hidden=not accuracy,
        ),
    ]
    data_table.show_data_table(columns, Counter(class_names).most_common(), say("Number of pictures of each class"))
    if accuracy:
        sentence = say("Accuracy: on training images whose label was withheld, not on these pictures.")
        missing = f" “{data_table.EMPTY}”: not measured, because no label of this class was withheld."
        st.caption(sentence + missing * bool({*class_names} - {NONE, *accuracy}))
    if predicted.lost:
        names = escape.markdown(", ".join(predicted.lost))
        st.caption(
            f"The newest weights are from epoch {predicted.epoch}. You named {names} at another epoch, and no cluster "
            "of this epoch matches, so these names are not used. To use them, name the clusters of this epoch."
        )


def _offer_files(answers: _Answers, path: Path) -> None:
    run, predicted, threshold = answers.run, answers.predicted, answers.threshold
    with st.container(horizontal=True, gap="small"):
        file_name = f"predictions-{short_id(run.id)}.csv"
        export_buttons.offer_download(
            "Download CSV",
            lambda: prediction_files.as_csv(predicted, threshold, points.file_names(run)),
            file_name,
            "predict_csv",
        )
        if predicted.root is not None:
            help_text = f'One folder of pictures per class, one folder for "{NONE}", and the table of predictions'
            address = downloads.predictions_address(run, path, st.session_state["predict_keep"])
            export_buttons.offer_file("Download ZIP", address, "folder_zip", help_text)
    with st.expander("Columns of the CSV file"):
        columns = prediction_columns.describe_columns(threshold).items()
        say = nouns.of(run)
        rows = [(f"`{name}`", say(meaning)) for name, meaning in columns]
        st.markdown(score_tables.markdown_table(("Column", "Meaning"), rows, text_columns=2))


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


def _show_kinds(answers: _Answers) -> None:
    """Show the possible novel classes with the first pictures of each."""
    predicted, say = answers.predicted, nouns.of(answers.run)
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
            images = answers.thumbnails(first_rows)
            kind_frames = [
                Frame(images.pixels[k], images.sides(k), "novel", f"{say('Picture')} {predicted.files[row]}")
                for k, row in enumerate(first_rows)
            ]
            frames.show_frames([("", kind_frames)], _SIZE)
    if predicted.kinds:
        advice = (
            "To teach the model this class, add these vectors to the file that it was trained on, with the name of "
            "the class as their label, or without a label. Then train again. The column new_kind of the table "
            "lists them."
            if is_vector_file(answers.source)
            else "To teach the model this class, add these pictures to its training folder and train again. Put them "
            "into a sub-folder with the name of the class, or among the pictures without labels. The column new_kind "
            "of the table lists them."
        )
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(advice, width="stretch")
            st.page_link("pages/own.py", label="Add pictures", icon=":material/add_photo_alternate:")


def _choose_class(class_names: list[str], groups: dict[str, tuple[int, ...]], all_title: str) -> str:
    counts = Counter(class_names)
    labels = {_ALL: f"{all_title} ({len(class_names):,})"} | {
        name: f"{name} ({n:,})" for name, n in counts.most_common()
    }
    labels |= {name: f"{name} ({len(rows):,})" for name, rows in groups.items()}
    return url_fields.choose_one(st.selectbox, "class", "Predicted class", labels, width=300)


def _show_table(answers: _Answers, rows: list[int]) -> None:
    predicted, say = answers.predicted, nouns.of(answers.run)
    names = predicted.names()
    about = {name: say(meaning) for name, meaning in prediction_columns.describe_columns(answers.threshold).items()}
    columns = [
        Column("File", lambda row: predicted.files[row]),
        Column("Name", lambda row: answers.class_names[row]),
        Column("Guess", lambda row: names[row], help=about["guess"]),
        Column("Confidence", 100 * predicted.confidence[rows], "number", format="%.0f %%", help=about["confidence"]),
        Column("Distance", predicted.distance[rows], "number", format="%.3f", help=about["distance"]),
        Column("Note", lambda row: "doubtful" * answers.is_doubtful[row], help=say(_ABOUT_DOUBTFUL), optional=True),
    ]
    data_table.show_data_table(columns, rows, say("Every picture with its class, confidence and distance"), max_rows=14)


def _show_pictures(answers: _Answers, rows: list[int]) -> None:
    """Show a sheet of the pictures, and one of them beside the most similar training images."""
    predicted, say = answers.predicted, nouns.of(answers.run)
    if not rows:
        st.caption(say("No pictures match."))
        return
    opened = url_fields.read_number("picture")
    key = f"predict page {st.query_params.get('class', '')}{st.query_params.get('order', '')}"
    if opened in rows and key not in st.session_state:
        st.session_state[key] = rows.index(opened) // _PAGE + 1
    number = paging.choose_page(-(-len(rows) // _PAGE), key)
    page_rows = rows[(number - 1) * _PAGE : number * _PAGE]
    sheet, detail = st.columns([5, 3], gap="medium")
    with sheet:
        images = answers.thumbnails(page_rows)
        tiles = []
        for position, row in enumerate(page_rows):
            name = answers.class_names[row]
            caption = _write_caption(name, predicted.confidence[row], answers.is_doubtful[row])
            tiles.append(Tile(position, caption, f"{predicted.files[row]}, {name}"))
        token = f"{answers.run.id} {predicted.root} {number}"
        position = page_rows.index(opened) if opened in page_rows else None
        choice = gallery.show_sheet(
            tiles, images, "predict_sheet", token, say("New pictures"), position, choosable=False
        )
        if choice.clicked is not None and choice.clicked < len(page_rows):
            url_fields.open_number("picture", page_rows[choice.clicked])
    with detail, st.container(border=True):
        if opened not in page_rows:
            hint = "Click a picture to see the most similar training images."
            st.caption(say(f"The percentage is the model's confidence. {hint}"))
        else:
            _show_picture(answers, opened)


def _write_caption(class_name: str, confidence: float, is_doubtful: bool) -> str:
    """Return the words below a picture; a rejected picture has no confidence."""
    return class_name if class_name == NONE else f"{class_name}\n{100 * confidence:.0f} %" + "\ndoubtful" * is_doubtful


def _show_picture(answers: _Answers, row: int) -> None:
    """Explain the prediction of one picture."""
    run, predicted, class_name, say = answers.run, answers.predicted, answers.class_names[row], nouns.of(answers.run)
    st.markdown(f"**{escape.markdown(class_name)}**")
    st.caption(escape.markdown(predicted.files[row]))
    thumbnails = answers.thumbnails([row])
    if (title := thumbnails.title(0)) not in ("", predicted.files[row]):
        st.caption(escape.markdown(title))
    st.markdown(escape.markdown(explain_prediction(predicted, row, answers.threshold)))
    if answers.is_doubtful[row]:
        st.markdown(f":orange[**Doubtful**]: {say(_ABOUT_DOUBTFUL)}")
    nearest_images, images = predicted.nearest[row].tolist(), _training_images(run)
    group = predicted.groups[int(predicted.cluster[row])]
    new_frame = Frame(thumbnails.pixels[0], thumbnails.sides(0), group, f"{say('Picture')}, {class_name}")
    frames.show_frames([(say("This picture"), [new_frame])], _SIZE)
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
