"""Saved views of a page: filter, columns, order, groups and charts, as in its URL, under a name."""

import streamlit as st

from lps.errors import UserError
from lps.tables.saved_views import SavedViews
from lps.ui.server import page_visit
from lps.ui.shared import click_errors, escape, url_fields

_FIELD_KEYS = {"find", "hidden"}
_DEFAULT_VIEW = "usual"  # what the page begins with, where something has this name


def open_default_view(views: SavedViews) -> None:
    """Show the default view if the page is opened without parameters."""
    is_first_run = "find" not in st.session_state  # the box forgets itself when the page is left
    if is_first_run and not st.query_params and (default_view := views.read_views().get(_DEFAULT_VIEW)):
        page_visit.wait_for_path()
        _open_view(default_view)


def _open_view(query: dict[str, list[str]]) -> None:
    """Show the page as this URL describes; fields that are bound to one of its parameters update themselves."""
    for key in [key for key in st.query_params if key not in _FIELD_KEYS]:
        st.query_params.pop(key)
    for key in query.keys() - _FIELD_KEYS:
        st.query_params[key] = query[key]
    st.session_state["find"] = "".join(query.get("find", [])[:1])
    st.session_state["hidden"] = query.get("hidden") == ["true"]


def show_view_menu(views: SavedViews, label: str) -> None:
    """Show the menu of views: open, save, delete; and the link to the current view."""
    with st.popover(label, icon=":material/bookmarks:", type="tertiary"):
        for name, query in views.read_views().items():
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                view_title, options = escape.markdown(name), {"type": "tertiary", "width": "stretch"}
                if st.button(view_title, key=f"open_{name}", on_click=_open_view, args=(query,), **options):
                    st.rerun()  # the boxes above the table, too
                options = {"icon": ":material/delete:", "type": "tertiary", "key": f"drop_{name}"}
                st.button("Delete", on_click=_delete_view, args=(views, name), **options)
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            help_text = f"The view {_DEFAULT_VIEW} opens when you visit the page"
            st.text_input("Save view as", key="view_name", max_chars=60, help=help_text, width=220)
            st.button("Save view", icon=":material/bookmark_add:", key="keep_view", on_click=_save_view, args=(views,))
        click_errors.show_errors("kept")
        st.caption("Link to the current view")
        st.code(url_fields.page_link(), language=None, wrap_lines=True)


def _save_view(views: SavedViews) -> None:
    query = url_fields.read_address()
    with click_errors.keep_errors("kept"):
        if not query:
            raise UserError("keep", "this is the default view; filter the list or change a choice before you save")
        views.save(st.session_state["view_name"], query)


def _delete_view(views: SavedViews, name: str) -> None:
    with click_errors.keep_errors("kept"):
        views.delete(name)
