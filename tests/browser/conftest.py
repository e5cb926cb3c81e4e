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
        browser.path = path
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def profile(chromium, tmp_path_factory):
    """A browser that keeps what it has loaded and compiled, as people's do: a page costs two fifths less than in a new
    one, which a test that is about a first visit makes for itself."""
    folder = tmp_path_factory.mktemp("profile")
    options = {"executable_path": chromium.path, "args": ARGUMENTS}
    context = chromium.browser_type.launch_persistent_context(folder, **options)
    yield context
    context.close()


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
def open_page(chromium, profile, studio):
    """open_page("live?run=...", theme="light") -> Playwright page whose first run is over.

    At the end of the test no page may have shown an exception, thrown a JavaScript error or left this server; and
    nothing that pages keep in the browser is left for the next test.
    """
    contexts, errors, strangers = [profile], [], []

    def open_one(path: str, theme: str = "light", width: int = 1280, is_phone: bool = False):
        if is_phone:
            contexts.append(chromium.new_context(has_touch=True, is_mobile=True))
        page = contexts[-1 if is_phone else 0].new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: strangers.append(request.url) if _is_foreign(request.url, studio) else None)
        page.goto(f"{studio.address}/{path}")
        wait_for_run(page)
        return page

    yield open_one
    pages = [page for context in contexts for page in context.pages]
    failed = [page.url for page in pages if page.locator("[data-testid=stException]").count()]
    leave(profile)
    for context in contexts[1:]:
        context.close()
    assert failed == []
    assert errors == []
    assert strangers == []


def leave(profile) -> None:
    """Close its pages, but for the empty one without which it would end, and forget what they kept."""
    profile.clear_cookies()
    for page in profile.pages:
        if page.url.startswith("http"):
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        if page is not profile.pages[0]:
            page.close()


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
