"""The ways to choose new pictures: upload files or an archive, use a folder on the server, or an earlier upload."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lps.datasets.readers.pictures import ENDINGS
from lps.errors import UserError
from lps.interop import uploaded_folders
from lps.ui.pictures import folder_choice
from lps.ui.server import uploads
from lps.ui.shared import click_errors, select


def show_upload(choose: Callable[[Path], None], takes_vectors: bool) -> None:
    """Show all ways; `choose` is called with the folder or file, in a callback or before the page is drawn again.

    takes_vectors: the run was trained on embeddings and predicts vectors, not pictures.
    """
    click_errors.show_errors("predict")
    help_text = "A folder of pictures. Its sub-folders are read, too. Your files are not changed"
    endings = uploaded_folders.VECTORS if takes_vectors else ()
    earlier = uploaded_folders.folders(uploaded_folders.home_of_new())
    ask_for_files = _ask_for_vectors if takes_vectors else _ask_for_files
    with st.container():  # one element, so the result replaces all of it at once
        folder_choice.show_folder_choice(
            "predict", choose, lambda: ask_for_files(choose), earlier, help_text, endings=endings
        )


def _ask_for_files(choose: Callable[[Path], None]) -> None:
    kinds = [*sorted(ending.removeprefix(".") for ending in ENDINGS), *uploaded_folders.ARCHIVES]
    number = folder_choice.uploader_number("predict")
    folder_choice.show_upload_limits()
    files = st.file_uploader(
        "Drop pictures or an archive of pictures", kinds, accept_multiple_files=True, key=f"predict_files_{number}"
    )
    if files:
        folder_choice.store_upload("predict", files, lambda: _store_files(files), choose)


def _ask_for_vectors(choose: Callable[[Path], None]) -> None:
    number = folder_choice.uploader_number("predict")
    folder_choice.show_upload_limits()
    file = st.file_uploader(
        "Drop a file of vectors", [*uploaded_folders.UPLOADED_VECTORS, "npy"], key=f"predict_files_{number}"
    )
    if file:
        target_folder = uploaded_folders.home_of_new()
        folder_choice.store_upload(
            "predict", [file], lambda: uploaded_folders.keep_vectors(file, target_folder), choose
        )


def _store_files(files) -> Path:
    target_folder = uploaded_folders.home_of_new()
    archives = [file for file in files if file.name.lower().endswith(uploaded_folders.ARCHIVES)]
    if not archives:
        return folder_choice.announce_upload(uploaded_folders.keep_files(files, target_folder))
    if len(files) > 1:
        raise UserError(
            "pictures", f"must be either picture files or one archive; these {len(files)} files include an archive"
        )
    with uploads.stored_upload(archives[0], select.runs_root()) as path:
        return folder_choice.announce_upload(uploaded_folders.keep_archive(path, target_folder))
