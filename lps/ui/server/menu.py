"""Which pages there are: the files of pages/, each of which says in constants how it stands in the menu.

TITLE, ICON (such as ":material/show_chart:"), GROUP (a heading of the menu), PLACE (a number: lower ones stand further
up, in the menu and in their group) and, where it draws charts, CHARTS = True. They are read without running the file.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.string_util import validate_material_icon

from lps.errors import Refusal, shorten
from lps.ui.server import routing
from lps.ui.shared import escape

FOLDER = Path(__file__).parents[3] / "pages"
_BROKEN = "Broken"  # the group of files that cannot be shown
_MOVED = {"ledger": "compare"}  # the address of a page that is gone -> the page that has its place
_KINDS = {"TITLE": str, "ICON": str, "GROUP": str, "PLACE": int, "CHARTS": bool}


@dataclass(frozen=True)
class MenuEntry:
    """What a file says of its page. broken: why it cannot be shown, "" where it can."""

    path: Path
    title: str
    icon: str
    group: str
    place: int
    charts: bool = False
    broken: str = ""


def entries() -> list[MenuEntry]:
    """All pages in the order of the menu; those that are broken last."""
    files = [(path, path.stat()) for path in FOLDER.glob("[!_.]*.py")]
    found = [_entry(path, kept.st_mtime_ns, kept.st_size) for path, kept in files]
    return sorted(found, key=lambda entry: (bool(entry.broken), entry.place, entry.path.stem))


def charted() -> set[str]:
    """The names of the pages that need plotly.js."""
    return {entry.path.stem for entry in entries() if entry.charts}


def pages() -> dict[str, list]:
    """The pages by their group, for `st.navigation`; made anew on every visit, since Streamlit knows them then only."""
    found: dict[str, list] = {}
    for entry in entries():
        name = entry.path.stem
        page = st.Page(entry.path, title=entry.title, icon=entry.icon, url_path=name, default=name == "home")
        found.setdefault(entry.group, []).append(page)
    moved = [
        st.Page(_turn(new), title=new.capitalize(), url_path=old, visibility="hidden") for old, new in _MOVED.items()
    ]
    first = next(iter(found))
    return found | {first: [*found[first], *moved]}


def _turn(page: str) -> Callable[[], None]:
    """A page that leads to another one, with everything that its address says."""
    return lambda: routing.turn_to(page, **{name: st.query_params.get_all(name) for name in st.query_params})


def run(page) -> None:
    """Draw what `st.navigation` found; of a broken file the reason."""
    if page.url_path in _MOVED:
        page.run()
    entry = next(entry for entry in entries() if entry.path.stem == (page.url_path or "home"))
    if entry.broken:
        st.title(escape.markdown(entry.title))
        st.error(escape.markdown(f"{entry.broken}."), icon=":material/broken_image:")
    else:
        page.run()


@lru_cache(maxsize=256)
def _entry(path: Path, changed: int, size: int) -> MenuEntry:
    """What the file says as it is since `changed`."""
    try:
        return MenuEntry(path, **_constants(path))
    except Refusal as error:
        return MenuEntry(path, path.stem.capitalize(), ":material/broken_image:", _BROKEN, 0, broken=str(error))


def _constants(path: Path) -> dict[str, object]:
    """The constants of `_KINDS` by their names in lower case; raises `Refusal`."""
    name = f"pages/{path.name}"
    if not path.stem.isidentifier():
        raise Refusal("page", f"{shorten(name)} is no name of a page, expected letters, digits and _ alone")
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        assigned = [node for node in body if isinstance(node, ast.Assign) and len(node.targets) == 1]
        named = {node.targets[0].id: node.value for node in assigned if isinstance(node.targets[0], ast.Name)}
        told = {name: ast.literal_eval(named[name]) for name in _KINDS if name in named}
    except (OSError, SyntaxError, ValueError) as error:
        raise Refusal("page", f"{name} cannot be read ({str(error).partition(chr(10))[0]})") from None
    for word, kind in _KINDS.items():
        if word not in told and word != "CHARTS":
            raise Refusal("page", f"{name} lacks {word}, expected a constant such as those of pages/live.py")
        if word in told and type(told[word]) is not kind:
            raise Refusal("page", f"{name} has {word} = {shorten(told[word])}, expected {kind.__name__}")
    try:
        validate_material_icon(told["ICON"])
    except StreamlitAPIException:
        expected = "expected one of Streamlit's, such as :material/show_chart:"
        raise Refusal("page", f"{name} has ICON = {shorten(told['ICON'])}, {expected}") from None
    return {word.lower(): value for word, value in told.items()}
