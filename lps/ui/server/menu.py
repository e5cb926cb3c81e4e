"""The menu and the tabs of the pages.

Every file of pages/ is a page with its own URL. Its constants set its entry in the menu; they are read without running
the file. Required: TITLE, ICON (such as ":material/show_chart:"), GROUP (a heading of the menu, "" for none) and PLACE
(a number, the lowest comes first). Optional: CHARTS = True if the page draws charts; MENU and TAB if several pages
share one entry of the menu: the name of the entry, and the name of this page among its tabs.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import StopException
from streamlit.string_util import validate_material_icon

from lps.errors import UserError, shorten
from lps.files.program_location import DASHBOARD
from lps.ui.server import page_visit, routing
from lps.ui.shared import escape, select, url_fields

FOLDER = DASHBOARD / "pages"
_BROKEN = "Broken"  # the group of files that cannot be shown
_REDIRECTS = {"ledger": "compare"}  # the URL of a former page -> its replacement
_KINDS = {"TITLE": str, "ICON": str, "GROUP": str, "PLACE": int, "CHARTS": bool, "MENU": str, "TAB": str}
_OPTIONAL = ("CHARTS", "MENU", "TAB")
_CARRIED = ("run", "epoch", "find", "hidden", "pin", "protocol", "select")  # parts of the URL that tabs share
_KEPT_MENUS = ("Analyze",)  # entries that open with the runs that were chosen last; Runs shows the newest ones


@dataclass(frozen=True)
class MenuEntry:
    """The entry of a page in the menu. menu: "" for a page without tabs. broken: why it cannot be shown, or ""."""

    path: Path
    title: str
    icon: str
    group: str
    place: int
    charts: bool = False
    menu: str = ""
    tab: str = ""
    broken: str = ""

    @property
    def name(self) -> str:
        """The file's name without ".py", which is the URL of the page."""
        return self.path.stem


def read_entries() -> list[MenuEntry]:
    """Return all pages in the order of the menu; broken ones last."""
    files = [(path, path.stat()) for path in FOLDER.glob("[!_.]*.py")]
    page_entries = [_read_entry(path, status.st_mtime_ns, status.st_size) for path, status in files]
    return sorted(page_entries, key=lambda entry: (bool(entry.broken), entry.place, entry.path.stem))


def pages_with_charts() -> set[str]:
    """Return the names of the pages that need plotly.js."""
    return {entry.path.stem for entry in read_entries() if entry.charts}


def list_pages() -> dict[str, list]:
    """Return the pages by group for `st.navigation`; created on every visit, because Streamlit does not keep them.

    Of the pages that share an entry of the menu, the first one is visible, under the entry's name.
    """
    listed = read_entries()
    pages_by_group: dict[str, list] = {}
    for entry in listed:
        tabs = _tabs_of_entry(entry, listed)
        page = st.Page(
            entry.path,
            title=entry.menu or entry.title,
            icon=tabs[0].icon,
            url_path=entry.name,
            default=entry.name == "home",
            visibility="visible" if entry == tabs[0] else "hidden",
        )
        pages_by_group.setdefault(entry.group, []).append(page)
    moved = [
        st.Page(_redirecting_page(new), title=new.capitalize(), url_path=old, visibility="hidden")
        for old, new in _REDIRECTS.items()
    ]
    first_group = next(iter(pages_by_group))
    return pages_by_group | {first_group: [*pages_by_group[first_group], *moved]}


def _tabs_of_entry(entry: MenuEntry, listed: list[MenuEntry]) -> list[MenuEntry]:
    """Return the pages that share the entry of the menu, in order; only the page itself if it has no tabs."""
    return [other for other in listed if other.menu == entry.menu] if entry.menu else [entry]


def _redirecting_page(page: str) -> Callable[[], None]:
    """Return a page that redirects to another one and keeps the parts of the URL."""
    return lambda: routing.turn_to(page, **url_fields.read_address())


def run_page(page) -> None:
    """Draw the tabs and the page that `st.navigation` selected; for a broken file, the reason."""
    if page.url_path in _REDIRECTS:
        page.run()
    url_fields.restore_changes()
    listed = read_entries()
    entry = next(entry for entry in listed if entry.name == (page.url_path or "home"))
    page_visit.begin_page(entry.name)
    if entry.menu in _KEPT_MENUS:
        _keep_address(entry)
    _show_tabs(entry, _tabs_of_entry(entry, listed))
    if entry.broken:
        st.title(escape.markdown(entry.title))
        st.error(escape.markdown(f"{entry.broken}."), icon=":material/broken_image:")
    else:
        try:
            page.run()
        except StopException:
            page_visit.end_page()
            raise
        page_visit.end_page()


def _keep_address(entry: MenuEntry) -> None:
    """Store the URL of a page; restore it if the user comes from another page by a link without a choice.

    Another tab of the entry gets the parts that tabs share. Runs that were deleted meanwhile are left out.
    """
    key = f"address of {entry.menu}"
    if not st.query_params and page_visit.has_arrived():
        name, address = st.session_state.get(key, ("", {}))
        address = {part: values for part, values in address.items() if name == entry.name or part in _CARRIED}
        if "run" in address:
            existing = {run.id for run in select.all_runs()}
            address["run"] = [run for run in address["run"] if run in existing]
        if address:
            page_visit.wait_for_path()
        st.query_params.from_dict(address)
    st.session_state[key] = entry.name, url_fields.read_address()


def _show_tabs(current: MenuEntry, tabs: list[MenuEntry]) -> None:
    """Show links to the pages of the same entry; they keep the runs, the epoch and the filter.

    The entry in the menu opens the first tab. It is highlighted on all tabs here, because Streamlit only does so on the
    first one.
    """
    if len(tabs) == 1:
        return
    link = f':root [data-testid="stSidebarNavLink"][href$="/{tabs[0].name}"]'
    st.html(f"<style>{link} {{ background: rgba(139, 162, 193, 0.25); }} {link} * {{ font-weight: 600; }}</style>")
    carried = {name: st.query_params.get_all(name) for name in _CARRIED if name in st.query_params}
    with st.container(horizontal=True, key="page-tabs"):  # page.css draws the line below the current one
        for entry in tabs:
            key = "page-tab-current" if entry == current else f"page-tab-{entry.name}"
            with st.container(key=key, width="content"):
                st.page_link(f"pages/{entry.name}.py", label=entry.tab or entry.title, query_params=carried)


@lru_cache(maxsize=256)
def _read_entry(path: Path, changed: int, size: int) -> MenuEntry:
    """Return the entry of a file; changed, size: key of the cache."""
    try:
        return MenuEntry(path, **_read_constants(path))
    except UserError as error:
        return MenuEntry(path, path.stem.capitalize(), ":material/broken_image:", _BROKEN, 0, broken=str(error))


def _read_constants(path: Path) -> dict[str, object]:
    """Return the constants of `_KINDS` by their names in lower case; raises `UserError`."""
    name = f"pages/{path.name}"
    if not path.stem.isidentifier():
        raise UserError("page", f"{shorten(name)} is not a page name; expected only letters, digits and _")
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assigned = [node for node in body if isinstance(node, ast.Assign) and len(node.targets) == 1]
        named = {node.targets[0].id: node.value for node in assigned if isinstance(node.targets[0], ast.Name)}
        constants = {name: ast.literal_eval(named[name]) for name in _KINDS if name in named}
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError("page", f"{name} cannot be read ({str(error).partition(chr(10))[0]})") from None
    for constant, expected_type in _KINDS.items():
        if constant not in constants and constant not in _OPTIONAL:
            raise UserError("page", f"{name} lacks {constant}; expected a constant as in pages/live.py")
        if constant in constants and type(constants[constant]) is not expected_type:
            raise UserError(
                "page", f"{name} has {constant} = {shorten(constants[constant])}; expected {expected_type.__name__}"
            )
    try:
        validate_material_icon(constants["ICON"])
    except StreamlitAPIException:
        expected = "expected one of Streamlit's, such as :material/show_chart:"
        raise UserError("page", f"{name} has ICON = {shorten(constants['ICON'])}, {expected}") from None
    return {constant.lower(): value for constant, value in constants.items()}
