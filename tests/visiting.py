"""Visits to the app without a browser."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest, local_script_runner

from lps.settings.config import GROUPS
from lps.ui.server import columns, menu

APP = Path(__file__).parent.parent / "app.py"
PAGES = [entry.path.stem for entry in menu.read_entries()]

# A server looks for components among all installed packages once; every `AppTest` would, longer than most pages take.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)


_give_up = local_script_runner.require_widgets_deltas


def _wait(runner: local_script_runner.LocalScriptRunner, timeout: float) -> None:
    """Wait until a script is over.

    An `AppTest` would check every millisecond, which takes a tenth of the script's time.
    """
    runner._script_thread.join(timeout)
    if not runner.script_stopped():
        _give_up(runner, 0)


local_script_runner.require_widgets_deltas = _wait


class Visit(AppTest):
    """An `AppTest` of a server that has answered before, so that each run begins with app.py (lps.ui.server.routing).

    opened: keys of boxes that stay open, of which an `AppTest` knows nothing.
    """

    opened: Sequence[str] = ()

    def _run(self, *arguments, **options):
        for key in self.opened:
            self.session_state[key] = True
        original = PagesManager.__init__

        def through_app(self, *arguments, **options):
            original(self, *arguments, **options)
            PagesManager.uses_pages_directory = False

        PagesManager.__init__ = through_app
        try:
            return super()._run(*arguments, **options)
        finally:
            PagesManager.__init__ = original


def visit(page: str = "home", opened: Sequence[str] = (), /, **query) -> Visit:
    """Return the page after its first run. query: the parameters in its address, lists for repeated ones.

    It is the first page of the session, as by a link: a page is known by the name of its file.
    """
    at = Visit(str(APP), default_timeout=60)
    at.opened = opened
    if page != "home":
        at.switch_page(f"pages/{page}.py")
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception
    return at


def whole_form(**query) -> Visit:
    """Open the launch form with all its fields, also those in closed boxes."""
    return visit(
        "launch", ("formulas", *(f"group:{name}" for name in ("training", *GROUPS))), view="everything", **query
    )


def words_of(at: AppTest) -> str:
    """Return all texts of a page as a user reads them, without the marks that make them literal."""
    parts = [*at.markdown, *at.caption, *at.info, *at.warning, *at.error, *at.subheader, *at.title]
    words = [part.value for part in parts] + [box.label for box in at.expander]
    return "\n".join(words).replace("\\", "").replace("\u2060", "").replace("\u00a0", " ")


def column_of(address: str, kind: type) -> np.ndarray:
    """Return a column that a page gives its browser (`lps.ui.server.columns`); an empty one without an address."""
    digest = address.rpartition("/")[2].removesuffix(".bin")
    return np.frombuffer(columns._COLUMNS.get(digest, bytes, len), kind)


def maps_of(at: AppTest) -> dict[str, dict]:
    """Return the data of the maps of a page by key, with the columns of their points as arrays."""
    found = {}
    for element in at.get("bidi_component"):
        head = json.loads(element.proto.json or "null")
        if not isinstance(head, dict) or "places" not in head:
            continue
        for name, kind in {"ids": np.int32, "places": np.uint16, "codes": np.uint16, "mask": np.uint8}.items():
            head[name] = column_of(head[name], kind)
        found[head["name"]] = head
    return found


def charts_of(at: AppTest) -> dict[str, dict]:
    """Return a page's figures by key, with their alternative texts as "alt", and the data of its maps (`maps_of`)."""
    found = {}
    for element in at.get("bidi_component"):
        if element.proto.bytes:
            head, _, figure = element.proto.bytes.partition(b"\n")
            if not figure:  # lps.ui.shared.plot.preload_library
                continue
            options = json.loads(head)
            found[options["name"]] = json.loads(figure) | {"alt": options["alt"]}
    return found | maps_of(at)
