"""Visits to the app without a browser."""

from pathlib import Path

from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest

APP = Path(__file__).parent.parent / "app.py"


class Visit(AppTest):
    """An `AppTest` of a server that has been asked before, so that each run begins with app.py (lps.ui.routing)."""

    def _run(self, *arguments, **options):
        original = PagesManager.__init__

        def through_app(self, *arguments, **options):
            original(self, *arguments, **options)
            PagesManager.uses_pages_directory = False

        PagesManager.__init__ = through_app
        try:
            return super()._run(*arguments, **options)
        finally:
            PagesManager.__init__ = original


def visit(page: str = "home", /, **query) -> Visit:
    """The page after its first run; query: the parameters in its address, lists where they stand more than once."""
    at = Visit(str(APP), default_timeout=60)
    if page != "home":
        at.run()
        at.switch_page(f"pages/{page}.py")
    for key, value in query.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception
    return at
