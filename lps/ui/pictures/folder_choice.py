"""Choose a folder on the server by browsing, or upload files."""

from collections.abc import Callable
from pathlib import Path

import streamlit as st

from lps.errors import UserError
from lps.files import browsable_folders
from lps.interop import uploaded_folders
from lps.interop.uploaded_folders import MAX_BYTES, MAX_PICTURES, StoredPictures
from lps.ui.server import uploads
from lps.ui.shared import click_errors, escape, select
from lps.wording import counted, data_size, first_of

_MAX_NAMED = 3  # files left out whose names are said
_MAX_EARLIER = 6  # folders from before that are listed


def show_folder_choice(
    name: str,
    choose: Callable[[Path], None],
    show_uploader: Callable[[], None],
    earlier: list[Path],
    help: str,
    needs_folders: bool = False,
    endings: tuple[str, ...] = (),
) -> None:
    """Show upload, browsing and earlier uploads side by side.

    name: prefix of the widgets' keys. choose: called with the folder, in a callback. needs_folders: a folder without
    sub-folders cannot be used. endings: of files that can be used instead of a folder.
    """
    from_browser, from_machine = st.columns(2, gap="medium")
    with from_browser, st.container(border=True, height="stretch"):
        st.markdown("**:material/upload: Upload from this computer**")
        show_uploader()
    with from_machine, st.container(border=True, height="stretch"):
        st.markdown("**:material/folder_open: Use a folder on the server**")
        _browse_folders(name, choose, help, needs_folders, endings)
    if earlier:
        st.markdown("**Earlier uploads**")
        with st.container(horizontal=True, gap="small"):
            for folder in earlier[:_MAX_EARLIER]:
                key = f"{name}_again:{folder.name}"
                st.button(escape.markdown(folder.name), icon=":material/photo_library:", key=key,
                          on_click=choose, args=(folder,))  # fmt: skip
            with st.popover("Delete", icon=":material/delete:", type="tertiary"):
                for folder in earlier:
                    label, key = f"Delete {escape.markdown(folder.name)}", f"{name}_delete:{folder.name}"
                    if st.button(label, key=key, type="tertiary"):
                        _ask_delete(folder)


@st.dialog("Delete an upload")
def _ask_delete(folder: Path) -> None:
    """Delete an upload for good after a question that says how many runs use it."""
    real_path = folder.resolve()
    paths = {run: config.dataset_path for run in select.own_runs() if (config := run.config_if_readable())}
    runs = [run for run, path in paths.items() if path and Path(path).resolve() == real_path]
    moving = sum(run.state().is_moving for run in runs)
    st.markdown(f"**{escape.markdown(folder.name)}** is deleted from the server for good; your own copy stays.")
    if runs:
        verb = "uses" if len(runs) == 1 else "use"
        text = f"{counted(len(runs), 'run')} {verb} it. Results stay, but the pictures can no longer be shown. "
        if moving:
            text += f"{counted(moving, 'run')} that {'is' if moving == 1 else 'are'} waiting or training will fail."
        st.markdown(f":material/warning: {text}")
    if st.button("Delete", type="primary", icon=":material/delete:", key="delete_upload"):
        click_errors.try_change(lambda: uploaded_folders.delete_upload(folder))


def uploader_number(name: str) -> int:
    """Return the number of uploads accepted on this page: each one has an uploader of its own."""
    return st.session_state.get(f"{name}_uploads", 0)


def show_upload_limits() -> None:
    """Say how much an upload may hold, and what happens to it."""
    file_limit = st.get_option("server.maxUploadSize")
    st.caption(
        f"At most {MAX_PICTURES:,} pictures, up to {data_size(MAX_BYTES)} in total and {file_limit} MB per file. An "
        "archive is much faster than a folder of many files. The upload starts at once. Then the files are checked and "
        "saved in your folder on the server, and the pictures are shown."
    )


def store_upload(name: str, files: list, store: Callable[[], Path], choose: Callable[[Path], None]) -> None:
    """Store the upload, call `choose` with its folder, and draw the page again with an empty uploader."""
    progress_text = f"Checking and saving {counted(len(files), 'file')}"
    with st.spinner(progress_text, show_time=True), click_errors.keep_errors(name):
        choose(store())
    uploads.free_uploads(files)
    st.session_state[f"{name}_uploads"] = uploader_number(name) + 1
    st.rerun()


def _browse_folders(
    name: str, choose: Callable[[Path], None], help: str, needs_folders: bool, endings: tuple[str, ...]
) -> None:
    """Show the folders of one place, the way up, and the button that chooses it."""
    folder_key, roots = f"{name}_place", browsable_folders.allowed_roots()
    if not roots:
        st.caption("No folder is available.")
        return
    try:
        current = browsable_folders.check_folder(st.session_state.get(folder_key) or roots[0])
        subfolders, files = browsable_folders.list_subfolders(current), browsable_folders.list_files(current, endings)
    except UserError as error:
        st.session_state.pop(folder_key, None)
        st.caption(escape.sentence(error))
        return
    _show_location(name, current, roots)
    with st.container(height=190, gap=None):
        for folder in subfolders:
            st.button(
                escape.markdown(folder.name), icon=":material/folder:", type="tertiary", key=f"{name}_in:{folder}",
                on_click=_open_folder, args=(name, folder),
            )  # fmt: skip
        for file in files:
            st.button(
                escape.markdown(file.name), icon=":material/data_array:", type="tertiary", key=f"{name}_file:{file}",
                on_click=choose, args=(file,), help="Use this file of vectors",
            )  # fmt: skip
        if not subfolders and not files:
            st.caption("No sub-folders.")
    obstacle = ""
    if browsable_folders.is_home(current):
        obstacle = "This is your home folder. "
        obstacle += "Open a folder in it first." if subfolders else "Put your folder of pictures in it, or upload it."
    elif needs_folders and not subfolders:
        obstacle = "This folder has no sub-folders. Choose a folder with one sub-folder per class."
    if obstacle:
        st.caption(obstacle)
    st.button(
        "Use this folder", icon=":material/check:", key=f"{name}_use", on_click=choose, args=(current,),
        disabled=bool(obstacle), help=obstacle or help,
    )  # fmt: skip


def _show_location(name: str, folder: Path, roots: list[Path]) -> None:
    """Show the current place, the way up, and the other roots."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.button("Up", icon=":material/arrow_upward:", key=f"{name}_up", disabled=folder in roots, type="tertiary",
                  on_click=_open_folder, args=(name, folder.parent))  # fmt: skip
        st.markdown(f":small[`{folder}`]" if "`" not in str(folder) else f":small[{escape.markdown(str(folder))}]")
        for root in roots:
            if len(roots) > 1 and not folder.is_relative_to(root):
                button_text = escape.markdown(root.name or "/")
                st.button(button_text, icon=":material/hard_drive:", key=f"{name}_root:{root}", type="tertiary",
                          on_click=_open_folder, args=(name, root))  # fmt: skip


def _open_folder(name: str, folder: Path) -> None:
    st.session_state[f"{name}_place"] = str(folder)


def announce_upload(arrived: StoredPictures) -> Path:
    """Return the folder of stored pictures, and show how many there are and which files were left out."""
    left_out_text = ""
    if arrived.left_out:
        names = escape.markdown(first_of(arrived.left_out, _MAX_NAMED))
        left_out_text = f"; {counted(len(arrived.left_out), 'other file')} left out: {names}"
    saved_text = f"{counted(arrived.pictures, 'picture')} saved"
    if arrived.folder.name != arrived.asked_name:
        saved_text += (
            f" as {escape.markdown(arrived.folder.name)}, because {escape.markdown(arrived.asked_name)} exists"
        )
    st.toast(f"{saved_text}{left_out_text}.", icon=":material/check_circle:")
    return arrived.folder
