"""The fields of the split: which classes are seen, how many images are labeled, and what the classes look like."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import streamlit as st

from lps.charts import class_bars
from lps.charts.palette import Palette
from lps.data import sources
from lps.data.sources import Source
from lps.data.split import open_world_split
from lps.datasets import Images
from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import CLASS_RULES, Config, parameters, seen_class_ids
from lps.settings.parameters import text_of
from lps.ui.forms import fields, form
from lps.ui.forms.form import Draft
from lps.ui.pictures import left_out_files, nouns
from lps.ui.pictures.thumbnails import FRAME, add_frame, encode_png, join_tiles, make_thumbnail
from lps.ui.shared import escape, notices, url_fields
from lps.ui.shared.plot import plot
from lps.wording import counted

THUMBNAIL = 56  # pixels
_SAMPLES = 5  # per class on the contact sheet, where the classes are few
_SAMPLE_WIDTH = 150  # pixels of a strip
_FEW_CLASSES = 20
BY_HAND = "by hand"
_MODES = {"first": "The first", "random": "Random", BY_HAND: "By hand"}
_SEEN = ("split.seen_classes", "split.num_seen", "split.labeled_ratio")
_DRAW = ("split.rule", "split.seed")
_REST = (
    *("split.imbalance", "split.imbalance_order", "split.labeled_imbalance"),
    *("split.num_novel", "split.validation_ratio", "split.test_ratio", "split.index_files"),
)


@dataclass(frozen=True)
class SplitPreview:
    """A planned split. seen, novel: original class ids; the counts are images."""

    class_names: tuple[str, ...]  # by original id
    seen: tuple[int, ...]
    novel: tuple[int, ...]
    num_novel_sought: int  # novel classes that the model tells apart
    labeled: int
    unlabeled_seen: int
    unlabeled_novel: int
    unlabeled_unknown: int  # the data set does not say their class
    validation: int  # of the unlabeled seen ones
    test: int
    left_out: int = 0  # by split.imbalance
    labeled_by_class: tuple[int, ...] = ()  # seen classes first, as in `seen`
    training_by_class: tuple[int, ...] = ()  # the same of labeled and unlabeled images; then `novel`

    @property
    def is_imbalanced(self) -> bool:
        """Return whether some class has more than 1.5 times as many training images as another."""
        counts = [count for count in self.training_by_class if count]
        return bool(counts) and max(counts) > 1.5 * min(counts)


def preview_split(config: Config) -> SplitPreview:
    """Return the split that `config` describes; raises `UserError` if data or settings do not allow it."""
    images = sources.images_of(config)
    split = open_world_split(images.labels, images.class_names, config, images.num_test)
    truth = split.targets(images.labels)
    targets = truth[split.unlabeled]
    order, seen = split.class_order.tolist(), split.classes.seen
    labeled = np.bincount(truth[split.labeled], minlength=seen)
    training = np.bincount(targets[targets >= 0], minlength=images.num_classes)
    training[:seen] += labeled
    return SplitPreview(
        class_names=images.class_names,
        seen=tuple(order[:seen]),
        novel=tuple(class_id for class_id in order[seen:] if class_id < images.num_classes),
        num_novel_sought=split.classes.novel,
        labeled=len(split.labeled),
        unlabeled_seen=int(((targets >= 0) & (targets < seen)).sum()),
        unlabeled_novel=int((targets >= seen).sum()),
        unlabeled_unknown=int((targets < 0).sum()),
        validation=len(split.validation),
        test=len(split.test),
        left_out=len(images.labels) - len(split.labeled) - len(split.unlabeled) - len(split.test),
        labeled_by_class=tuple(labeled.tolist()),
        training_by_class=tuple(training.tolist()),
    )


@st.cache_data(max_entries=16, show_spinner=False)
def class_samples(source: Source, stamp: object, count: int) -> list[bytes]:
    """Return the first `count` images of each original class side by side, as one PNG per class."""
    images = sources.load(*source)
    strips = []
    for class_id in range(images.num_classes):
        members = np.flatnonzero(images.labels == class_id)[:count]
        tiles = [make_thumbnail(images.pixels[i], THUMBNAIL, images.sides(i)) for i in members]
        tiles += [np.full((THUMBNAIL, THUMBNAIL, 3), 128, np.uint8)] * (count - len(tiles))
        strips.append(encode_png(join_tiles(tiles, THUMBNAIL, gap=4, edge=12)))
    return strips


@st.cache_data(max_entries=16, show_spinner=False)
def _class_chips(source: Source, stamp: object, class_ids: tuple[int, ...], color: str) -> list[bytes]:
    """Return the first image of each of these classes in a frame, as PNG."""
    images = sources.load(*source)
    chips = []
    for class_id in class_ids:
        pixels = np.full((THUMBNAIL, THUMBNAIL, 3), 128, np.uint8)
        for image in np.flatnonzero(images.labels == class_id)[:1]:
            pixels = make_thumbnail(images.pixels[image], THUMBNAIL, images.sides(image))
        chips.append(encode_png(join_tiles([add_frame(pixels, color)], THUMBNAIL + 2 * FRAME, edge=5)))
    return chips


def picked_classes(text: str, total: int) -> list[int]:
    """Return the existing classes in a hand-written `split.seen_classes`."""
    try:
        return [class_id for class_id in seen_class_ids(text) or [] if class_id < total]
    except UserError:
        return []


def simple_keys(images: Images | None) -> set[str]:
    """Return the keys that the simple view asks for."""
    if images is None:
        return set()
    return {"split.num_novel"} if _has_unknown_classes(images) else set(_SEEN)


def show_controls(
    images: Images, split: SplitPreview | None, errors: dict[str, str], count: Callable[[], None], is_simple: bool
) -> None:
    """Show the fields of the split.

    split: the current one, from which manual selection starts. count: shows `lps.ui.launch.class_estimate`. is_simple:
    only the most important fields.
    """
    by_key = parameters(fields.current_draft().method)
    seen, drawn, rest = ([by_key[key] for key in keys] for keys in (_SEEN, _DRAW, _REST))
    if _has_unknown_classes(images):  # the number of novel classes matters most
        fields.show_field(by_key["split.num_novel"], errors.get("split.num_novel"))
        count()
        rest.remove(by_key["split.num_novel"])
        if not is_simple:
            with fields.group_box("More", "split", [*seen, *drawn, *rest], errors) as is_open:
                if is_open:
                    _show_seen(images.class_names, split, errors, len(images.class_names))
                    fields.show_grid(drawn, errors)
                    fields.show_grid(rest, errors)
        return
    _show_seen(images.class_names, split, errors, len(images.class_names) // 2)
    if not is_simple:
        fields.show_grid(drawn, errors)
        with fields.group_box("More", "split", rest, errors) as is_open:
            if is_open:
                fields.show_grid(rest, errors)
        count()


def _has_unknown_classes(images: Images) -> bool:
    return bool((images.labels < 0).any())


def _show_seen(
    class_names: tuple[str, ...], split: SplitPreview | None, errors: dict[str, str], usual_seen: int
) -> None:
    """Show which classes are seen, and the share of their labels. usual_seen: number of seen classes by default."""
    seen = split.seen if split else ()
    text = fields.current_draft().text("split.seen_classes")
    mode = text if text in CLASS_RULES else BY_HAND
    choose, options = partial(_choose_mode, seen), {"format_func": _MODES.get}
    url_fields.draw_field(st.segmented_control, "split_mode", mode, choose, "Seen classes", list(_MODES), **options)
    if mode == BY_HAND:
        _show_picks(text, class_names, errors)
    else:
        _show_class_count(len(class_names), usual_seen, errors.get("split.num_seen"))
    _show_ratio(errors.get("split.labeled_ratio"))


def _show_picks(text: str, class_names: tuple[str, ...], errors: dict[str, str]) -> None:
    url_fields.draw_field(
        st.pills, "split_picks", picked_classes(text, len(class_names)), _store_picks, "Choose the seen classes",
        range(len(class_names)), selection_mode="multi",
        format_func=lambda class_id: escape.markdown(class_names[class_id]), label_visibility="collapsed", wrap=True,
    )  # fmt: skip
    error = errors.get("split.seen_classes") or errors.get("split.num_seen")
    fields.show_error_or_help(error if text else "Choose at least one class")


def _show_class_count(total: int, default: int, error: str | None) -> None:
    """Show a slider, or a line of text if the URL has a number outside the slider's range."""
    text = fields.current_draft().text("split.num_seen")
    number = default if text == "none" else int(text) if text.isascii() and text.isdigit() else 0
    maximum = max(total - 1, default)
    if maximum < 2 or not 1 <= number <= maximum:
        fields.draw_text_field("split.num_seen", "Number of seen classes", error)
        return
    options = {"as_text": lambda value: "none" if value == default else str(value)}
    fields.draw_draft_field(st.slider, "split.num_seen", "Number of seen classes", number, 1, maximum, **options)
    fields.show_error_or_help(error)


def _show_ratio(error: str | None) -> None:
    """Show a slider in percent, or a line of text for a ratio that is not a whole percentage."""
    text = fields.current_draft().text("split.labeled_ratio")
    percent = _whole_percent(text)
    if percent is None:
        fields.draw_text_field("split.labeled_ratio", "Labeled ratio", error)
        return
    help_text = nouns.of_dataset(fields.current_draft().dataset)(
        "Share of the images of seen classes that have a label. All other images are unlabeled"
    )
    options = {"format": "%d %%", "as_text": lambda value: text_of(value / 100), "help": help_text}
    fields.draw_draft_field(st.slider, "split.labeled_ratio", "Labeled ratio", percent, 1, 100, **options)
    fields.show_error_or_help(error)


def _whole_percent(text: str) -> int | None:
    try:
        percent = 100 * float(text)
    except ValueError:
        return None
    is_whole = percent == percent and 1 <= percent <= 100 and abs(percent - round(percent)) < 1e-9
    return round(percent) if is_whole else None


def _choose_mode(seen: tuple[int, ...], mode: str) -> None:
    draft = fields.current_draft().with_text(
        "split.seen_classes", ",".join(map(str, sorted(seen))) if mode == BY_HAND else mode
    )
    fields.keep_draft(draft.without(["split.num_seen"]) if mode == BY_HAND else draft)


def _store_picks(picks: list[int]) -> None:
    fields.keep_draft(fields.current_draft().with_text("split.seen_classes", ",".join(map(str, sorted(picks)))))


def show_samples(draft: Draft, are_drawn: bool) -> Images | None:
    """Show the images of a data set, one strip per class; returns the data, None if it cannot be read.

    are_drawn: draw the images; otherwise only show errors.
    """
    try:
        source = form.source_of_images(draft)
    except UserError:  # shown beside its field
        return None
    try:
        images = sources.load(*source)
    except UserError as error:
        if not catalog.dataset_info(draft.dataset).path:  # otherwise shown beside the path
            fields.show_error_or_help(form.error_sentence(error))
        _offer_download(draft)
        return None
    if are_drawn:
        _show_sheet(images, source)
    left_out_files.show_left_out_files(images.skipped)
    return images


def _show_sheet(images: Images, source: Source) -> None:
    count = _SAMPLES if images.num_classes <= _FEW_CLASSES else 1
    with st.container(height=320 if images.num_classes > 2 * _FEW_CLASSES else "content", border=False):
        st.image(
            class_samples(source, _stamp_of(source), count),
            [escape.markdown(name) for name in images.class_names],
            width=_SAMPLE_WIDTH if count > 1 else THUMBNAIL,
            alt=[f"{nouns.of_dataset(source.name)('Images')} of class {name}" for name in images.class_names],
        )


def _stamp_of(source: Source) -> object:
    return sources.stamp(source.name, source.path)


def _offer_download(draft: Draft) -> None:
    """Show the button that downloads a data set; the page waits for the download."""
    if not sources.can_fetch(draft.dataset) or "dataset.path" in draft.texts:
        return
    if st.button("Download", icon=":material/download:", key="download"):
        try:
            with st.spinner("Downloading. The server's terminal shows the progress.", show_time=True):
                sources.fetch(draft.dataset)
        except UserError as error:
            fields.show_error_or_help(form.error_sentence(error))
        else:
            st.rerun()


def show_chips(config: Config, split: SplitPreview, colors: Palette) -> None:
    """Show seen and novel classes in two rows of pictures, with counts; bars if class sizes differ."""
    source, with_noun = sources.load_arguments(config), nouns.of_dataset(config.dataset)
    is_different = split.num_novel_sought != len(split.novel)
    sought_text = f" · training looks for {counted(split.num_novel_sought, 'novel class')}" * is_different
    rows = [
        ("seen", "blue", split.seen, colors.seen, f"{split.labeled:,} labeled · {split.unlabeled_seen:,} unlabeled"),
        ("novel", "orange", split.novel, colors.novel, f"{split.unlabeled_novel:,} unlabeled{sought_text}"),
    ]
    if not split.novel:
        rows.pop()
    for group, markdown_color, class_ids, color, counts in rows:
        names = [split.class_names[i] for i in class_ids]
        st.markdown(f":{markdown_color}[**{len(class_ids)} {group}**] :gray[· {counts}]")
        with st.container(key=f"chips-{group}"):
            st.image(
                _class_chips(source, _stamp_of(source), class_ids, color),
                [escape.markdown(name) for name in names],
                width=THUMBNAIL + 2 * (FRAME + 5),
                alt=[f"Class {name}, {group}" for name in names],
            )
    if split.unlabeled_unknown:
        unknown = counted(split.unlabeled_unknown, with_noun("unlabeled image"))
        if split.novel:
            st.markdown(f":gray[and {unknown} whose class is not known]")
        else:
            classes = counted(split.num_novel_sought, "novel class")
            st.markdown(
                f":gray[training looks for] :orange[**{classes}**] :gray[in {unknown} whose class is not known]"
            )
    withheld = f"{split.validation:,} images count as unlabeled, but have a label that is withheld to measure accuracy"
    counts_in_words = {
        withheld: split.validation,
        f"Set aside for testing: {counted(split.test, 'image')}": split.test,
        f"Left out to get the chosen class sizes: {counted(split.left_out, 'training image')}": split.left_out,
    }
    if set_aside := [text for text, count in counts_in_words.items() if count]:
        st.caption(with_noun(". ".join(set_aside) + "."))
    if split.is_imbalanced or config.split_labeled_imbalance > 1:
        _show_counts(split, colors, with_noun)
    notices.show_start_warnings([config])


def _show_counts(split: SplitPreview, colors: Palette, with_noun: Callable[[str], str]) -> None:
    """Plot the training images of every class as bars, and how many are labeled."""
    names = [split.class_names[i] for i in (*split.seen, *split.novel)]
    counts = split.training_by_class
    figure = class_bars.class_counts(np.array(split.labeled_by_class), np.array(counts), len(split.seen), names, colors)
    alt = f"Training images of {counted(len(counts), 'class')}, from {max(counts):,} down to {min(counts):,}"
    plot(figure, "class_counts", with_noun(alt))
    st.caption(
        with_noun("The bars show the training images of each class. The line marks how many of them have a label.")
    )
