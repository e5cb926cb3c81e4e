"""A real Chromium in front of a real server. Without a browser these tests are skipped; in CI that is a failure."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import Server

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
PATIENCE_MS = 60_000


def pytest_configure(config):
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def chromium():
    """A browser process for all tests."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _give_up("the Python package playwright is not installed (pip install playwright)")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        path = path or playwright.chromium.executable_path
        if not Path(path).exists():
            _give_up("no Chromium was found (install chromium, or: playwright install chromium)")
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def _give_up(reason: str):
    if os.environ.get("CI"):
        pytest.fail(f"Browser tests must run in CI, but {reason}.")
    pytest.skip(f"Browser tests are left out: {reason}.")


@dataclass(frozen=True)
class Studio:
    """A running server and the folder of its runs."""

    address: str
    runs: Path


@pytest.fixture(scope="module")
def studio(tmp_path_factory, chromium):
    """The app over an empty runs folder; gone after the module's tests."""
    runs = tmp_path_factory.mktemp("runs")
    with Server.of_app(runs, tmp_path_factory.mktemp("server") / "log.txt").answering() as server:
        yield Studio(server.address, runs)


@pytest.fixture
def open_page(chromium, studio):
    """open_page("live?run=...", theme="light") -> Playwright page whose first run is over.

    At the end of the test no page may have shown an exception, thrown a JavaScript error or left this server.
    """
    contexts, errors, strangers = [], [], []

    def open_one(path: str, theme: str = "light", width: int = 1280, is_phone: bool = False):
        more = {"has_touch": True, "is_mobile": True} if is_phone else {}
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: strangers.append(request.url) if _is_foreign(request.url, studio) else None)
        page.goto(f"{studio.address}/{path}")
        wait_for_run(page)
        return page

    yield open_one
    for context in contexts:
        for page in context.pages:
            assert page.locator("[data-testid=stException]").count() == 0
        context.close()
    assert errors == []
    assert strangers == []


def _is_foreign(url: str, studio: Studio) -> bool:
    return not url.startswith((studio.address, "data:", "blob:"))


def wait_for_run(page) -> None:
    """Until the script is not running (as Streamlit's own tests do)."""
    page.wait_for_selector("[data-testid=stApp][data-test-connection-state=CONNECTED]")
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.wait_for_timeout(200)
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")


# Nothing is drawn again, and nothing fades: what is stale, or on its way, is paler than it will be.
AT_REST = """() => document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
  && !document.querySelector("[data-stale=true]")
  && document.getAnimations().every((one) =>
    one.playState !== "running" || one.effect.getComputedTiming().iterations === Infinity)"""


def come_to_rest(page) -> None:
    """Twice, since parts of a page that refresh themselves begin after the first time."""
    for _ in range(2):
        page.wait_for_function(AT_REST)
        page.wait_for_timeout(700)


def wait_for_address(page, pattern: str) -> None:
    """Until the address matches. Pages change it without loading anything, so nothing else is waited for."""
    page.wait_for_url(re.compile(pattern), wait_until="commit")
