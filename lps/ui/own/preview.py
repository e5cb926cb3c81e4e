"""Preview a folder of pictures before anything is computed: counts, and pictures of every class."""

from pathlib import Path

import streamlit as st

from lps.datasets import embeddings
from lps.datasets import folder as folders
from lps.datasets.readers.preview import FolderPreview
from lps.datasets.readers.vector_files import is_vector_file
from lps.ui.pictures import frames, left_out_files
from lps.ui.pictures.frames import Frame
from lps.wording import counted

_SIZE, _KEPT = 64, 96  # pixels on the screen, and of the pictures sent there
_SAMPLES = 8  # of a class
_CLASSES = 12  # that are shown


@st.cache_data(max_entries=8, show_spinner=False)
def _preview_folder(folder: str, stamp: object) -> FolderPreview:
    """Return the content of the folder; raises `UserError`. stamp: of the data set, changes with it."""
    return (embeddings if is_vector_file(folder) else folders).glance(folder, _SAMPLES, _KEPT)


def scan_folder(folder: Path) -> FolderPreview:
    """Return the current content of the folder or file; raises `UserError`."""
    with st.spinner("Reading the files", show_time=True):
        return _preview_folder(str(folder), (embeddings if is_vector_file(folder) else folders).stamp(str(folder)))


def show_preview(seen: FolderPreview, are_titles: bool) -> None:
    """Show a row of pictures per class, unlabeled ones last. are_titles: pictures are titles, drawn larger."""
    labeled, classes = sum(seen.counts[:-1]), len(seen.class_names)
    sentences = [f":blue[**{labeled:,} labeled**] in {counted(classes, 'class')}"]
    sentences += [f":orange[**{seen.unlabeled:,} unlabeled**]"] if seen.unlabeled else []
    sentences += [f"{seen.test:,} for the final test"] if seen.test else []
    st.markdown(" · ".join(sentences))
    frames.show_frames(
        [_make_frames(seen, row) for row in [*range(min(classes, _CLASSES)), -1] if seen.counts[row]],
        _KEPT if are_titles else _SIZE,
    )
    if classes > _CLASSES:
        st.caption(f"and {counted(classes - _CLASSES, 'class')} more")
    left_out_files.show_left_out_files(seen.skipped)


def _make_frames(seen: FolderPreview, row: int) -> tuple[str, list[Frame]]:
    name, group = ("unlabeled", "") if row < 0 else (seen.class_names[row], "seen")
    pictures = [Frame(pixels, sides, group, f"Picture, {name}") for pixels, sides in seen.samples[row]]
    return f"{name}: {seen.counts[row]:,}", pictures
