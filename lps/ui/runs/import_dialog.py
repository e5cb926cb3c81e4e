"""Import runs of other machines on the page Runs: an archive from the browser, or a path on this machine.

`lps.interop.imports` checks the files; errors are the same sentences as those of `python -m lps import`.
"""

from pathlib import Path
from typing import BinaryIO

import streamlit as st

from lps.errors import UserError
from lps.interop.imports import Imported, import_runs
from lps.store import titles
from lps.ui.runs import table
from lps.ui.server.uploads import stored_upload
from lps.ui.shared import escape, select
from lps.wording import counted

_KINDS = ("zip", "tar", "tgz", "gz", "bz2", "xz")  # the ends of names that the browser offers
IMPORTED = "imported"  # in the session: what the last import brought, until it is dismissed


def show_import_button() -> None:
    """Show the button that opens the dialog."""
    help_text = "Import runs from an archive or a folder on this machine"
    if st.button("Import", icon=":material/upload:", key="import_open", help=help_text):
        _ask_import()


@st.dialog("Import runs", width="medium")
def _ask_import() -> None:
    max_mb = st.get_option("server.maxUploadSize")
    help_text = f"A .zip or .tar from `python -m lps export --to archive`, up to {max_mb} MB"
    upload = st.file_uploader("Archive", _KINDS, key="import_file", help=help_text)
    path = st.text_input(
        "Or a path on this machine",
        key="import_path",
        placeholder="A run's folder, a folder of runs, or an archive of any size",
    )
    data = st.text_input(
        "Path of the data set on this machine",
        key="import_data",
        placeholder="Only for data sets that have a path",
        help="Paths of another machine are not valid here. Without a path, the run is shown without its images",
    )
    st.caption("Only results are imported. Every file is checked, and nothing in the files is executed.")
    if st.button("Import", type="primary", key="import_start"):
        try:
            with st.spinner("Checking and copying"):
                imported = import_archive(upload, path.strip(), data.strip())
        except (UserError, OSError) as error:
            st.error(escape.sentence(error), icon=":material/error:")
        else:
            _store_outcome(imported)
            st.rerun()


def import_archive(upload: BinaryIO | None, path: str, data: str) -> list[Imported]:
    """Import the upload, a file with a `name`, or what lies at `path`; raises `UserError`."""
    if (upload is None) == (not path):
        raise UserError("import", "choose an archive or enter a path" + ", not both" * bool(path))
    root = select.runs_root()
    if path:
        return import_runs(Path(path), root, data or None)
    with stored_upload(upload, root) as archive:
        return import_runs(archive, root, data or None)


def _store_outcome(imported: list[Imported]) -> None:
    """Store what was imported, to be shown, and select these runs in the table.

    A second click reports nothing new.
    """
    earlier = {item.run.id: item for item in st.session_state.get(IMPORTED, [])}
    st.session_state[IMPORTED] = [
        item if item.is_new or item.run.id not in earlier else earlier[item.run.id] for item in imported
    ]
    table.clear_selection()
    st.query_params["run"] = [item.run.id for item in imported]


def show_outcome() -> None:
    """Show what the last import brought, with notes, until the user dismisses it."""
    imported = st.session_state.get(IMPORTED, [])
    if not imported:
        return
    with st.container(border=True, key="import_outcome"):
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            st.markdown(f":material/check_circle: {count_in_words(imported)}", width="content")
            st.button("Dismiss", icon=":material/close:", type="tertiary", key="import_seen", on_click=_dismiss_outcome)
        for item in imported:
            notes = item.notes if item.is_new else ("already here, with the same results", *item.notes)
            for note in notes:
                st.caption(f"{escape.markdown(titles.run_label(item.run))}: {escape.markdown(note)}.")


def count_in_words(imported: list[Imported]) -> str:
    """Return, for example, "2 runs imported, 1 was already here."."""
    num_new = sum(item.is_new for item in imported)
    num_existing = len(imported) - num_new
    sentences = [f"{counted(num_new, 'run')} imported"] if num_new else []
    sentences += [f"{num_existing} {'was' if num_existing == 1 else 'were'} already here"] if num_existing else []
    return f"{', '.join(sentences)}."


def _dismiss_outcome() -> None:
    st.session_state.pop(IMPORTED, None)
