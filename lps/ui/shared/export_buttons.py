"""What a page offers to take along: the command that does the same, its report, files, and documents."""

import mimetypes
from collections.abc import Callable
from contextlib import suppress
from html import escape

import streamlit as st

from lps.charts.palette import DARK, LIGHT
from lps.errors import UserError
from lps.files.program_location import DASHBOARD
from lps.report import documents
from lps.store import provenance
from lps.store.runs import Run

_STYLE = f"""
a.lps-file {{ display: inline-flex; align-items: center; gap: 0.5rem; min-height: 2.5rem; padding: 0.25rem 0.75rem;
  box-sizing: border-box; border: 1px solid light-dark({LIGHT.grid}, {DARK.grid}); border-radius: 0.5rem;
  color: inherit; text-decoration: none; font-size: 0.875rem; white-space: nowrap; }}
a.lps-file:hover, a.lps-file:focus-visible {{ border-color: currentColor; }}
a.lps-file span {{ font-family: "Material Symbols Rounded"; font-size: 1.25rem; line-height: 1; }}
"""


def show_command(command: str, title: str = "The same on the command line") -> None:
    """Show a command to copy."""
    st.caption(title)
    st.code(command, language="bash", wrap_lines=True)


def show_origin(run: Run) -> None:
    """Show the folder of a run and the command that repeats it, to copy."""
    st.caption("Folder of the run")
    st.code(str(run.folder.absolute()), language=None, wrap_lines=True)
    with suppress(UserError):  # its settings, or its data set, cannot be read
        show_command(provenance.launch_command(run.config()), "The same run again, on the command line")


def offer_file(label: str, address: str, icon: str, help: str) -> None:
    """Show a link to a file that the server makes while sending it. icon: of Material Symbols."""
    content = f'<span aria-hidden="true">{escape(icon)}</span>{escape(label)}'
    link = f'<a class="lps-file" href="{escape(address)}" download title="{escape(help)}">{content}</a>'
    st.html(f"<style>{_STYLE}</style>{link}", width="content")


def offer_download(
    label: str,
    make: Callable[[], str | bytes],
    file_name: str,
    key: str,
    icon: str = ":material/download:",
    help: str | None = None,
) -> None:
    """Show a button that downloads a file, which `make` returns at the click."""

    def encode() -> bytes:
        content = make()
        return content.encode("utf-8", "replace") if isinstance(content, str) else content

    mime = mimetypes.guess_type(file_name)[0]
    options = {"mime": mime, "key": key, "icon": icon, "help": help}
    st.download_button(label, encode, file_name, on_click="ignore", **options)


def explain_report() -> str:
    """Describe the file of a report."""
    return f"HTML, about {documents.usual_size() / 1e6:.1f} MB, opens offline"


def offer_report(write_report: Callable[[], str], name: str, key: str = "report") -> None:
    """Show a button that makes the report when it is pressed."""
    about = "Numbers, interactive charts, settings, and the command to repeat the run"
    label = f"Report ({explain_report()})"
    offer_download(label, write_report, f"{name}.html", key, ":material/summarize:", about)


def offer_document(path: str, title: str, key: str) -> None:
    """Show a button that opens a document in a dialog, if it is installed. path: below docs."""
    document = DASHBOARD / "docs" / path
    if document.is_file() and st.button(title, icon=":material/menu_book:", key=key, type="tertiary"):
        text = document.read_text(encoding="utf-8").partition("\n")[2]  # the dialog has the title
        st.dialog(title, width="large")(st.markdown)(text)
