"""Components: parts of a page that our own scripts draw in the browser."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import streamlit as st


def read_files(module: str, *names: str) -> str:
    """Return the texts of scripts or styles beside a module, joined. module: path of the module."""
    return "\n".join(Path(module).with_name(name).read_text(encoding="utf-8") for name in names)


def define_component(
    name: str, script: str, style: str = "", html: str = "", reports: Sequence[str] = (), isolate_styles: bool = False
) -> Callable:
    """Return the function that draws a component, see `st.components.v2.component`.

    reports: the values that the browser reports. They are read where the component is drawn, but Streamlit needs a
    callback for each.
    """
    texts = {"html": html, "css": style or None, "js": script}
    mount = st.components.v2.component(name, **texts, isolate_styles=isolate_styles)
    return partial(mount, **{f"on_{report}_change": _do_nothing for report in reports})


def read_id(reported: object) -> int | None:
    """Return the id that a browser reports; None if it reports none, or something else."""
    return reported if type(reported) is int and reported >= 0 else None


def _do_nothing() -> None:
    pass
