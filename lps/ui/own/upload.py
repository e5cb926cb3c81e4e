"""The ways to choose pictures: upload a folder or an archive, use a folder on the server, or an earlier upload."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lps.datasets.readers.pictures import ENDINGS
from lps.datasets.readers.vector_files import is_vector_file
from lps.interop import uploaded_folders
from lps.ui.pictures import folder_choice
from lps.ui.server import uploads
from lps.ui.shared import click_errors, select

_HOW = """animals/cat/1.jpg        labeled: cat
animals/dog/2.jpg        labeled: dog
animals/3.jpg            unlabeled"""


def show_upload(choose: Callable[[Path], None]) -> None:
    """Show all ways; `choose` is called with the folder, in a callback or before the page is drawn again."""
    with st.container():  # one element, so the pictures of the uploaded folder replace all of it at once
        click_errors.show_errors("own")
        st.markdown(
            "Sort some of your pictures into one folder per class. Leave the other pictures unsorted beside these "
            "folders, or in a folder called unlabeled. A model learns your classes and looks for others."
        )
        with st.container(key="own_layout"):  # page.css keeps its room until the browser has the part that draws it
            st.code(_HOW, language=None)
        st.caption(
            "You can also bring embeddings of texts, sounds or anything else. Give one .npz or .parquet file with "
            "vectors, ids, known labels and titles. In a folder on the server, it may also be a .npy file with a .csv "
            "file beside it."
        )
        help_text = "A folder with one sub-folder per class"
        earlier, endings = uploaded_folders.folders(), uploaded_folders.VECTORS
        folder_choice.show_folder_choice(
            "own", choose, lambda: _ask_for_files(choose), earlier, help_text, True, endings
        )


def _ask_for_files(choose: Callable[[Path], None]) -> None:
    kinds, number = sorted(ending.removeprefix(".") for ending in ENDINGS), folder_choice.uploader_number("own")
    folder_choice.show_upload_limits()
    files = st.file_uploader("Drop a folder", kinds, accept_multiple_files="directory", key=f"own_folder_{number}")
    archive = st.file_uploader(
        "Or drop an archive of it, or a file of vectors",
        [*uploaded_folders.ARCHIVES, *uploaded_folders.UPLOADED_VECTORS],
        key=f"own_zip_{number}",
    )
    if archive:
        folder_choice.store_upload("own", [archive], lambda: _keep_archive(archive), choose)
    elif files:
        folder_choice.store_upload(
            "own", files, lambda: folder_choice.announce_upload(uploaded_folders.keep_files(files)), choose
        )


def _keep_archive(archive) -> Path:
    if is_vector_file(archive.name):
        return uploaded_folders.keep_vectors(archive)
    with uploads.stored_upload(archive, select.runs_root()) as path:
        return folder_choice.announce_upload(uploaded_folders.keep_archive(path))
