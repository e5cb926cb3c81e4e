"""A real Chromium in front of a real server. Without a browser these tests are skipped; in CI that is a failure."""

import itertools
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from lps.scheduler import queue
from tests.servers import Server

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
PATIENCE_MS = 60_000
LONGEST = (  # jobs mostly wait
    *("test_jobs.py", "test_every_page.py", "test_whole_loop_browser.py", "test_installed.py"),
    *("test_security_browser.py", "test_live_browser.py", "test_race_browser.py", "test_plane_browser.py"),
)
_LOADS = itertools.count()  # of documents
IDLE = "/_stcore/health"  # where a tab waits for the next test


def pytest_configure(config):
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(items):
    """Put the longest files first, so that no worker is left alone with one at the end."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session")
def chromium():
    """Start one browser process for all tests."""
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


@pytest.fixture(scope="session")
def profile(chromium, tmp_path_factory):
    """Open a browser that keeps what it has loaded and compiled, as users' browsers do.

    A test about a first visit makes its own context from `chromium`.
    """
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


@pytest.fixture(scope="session")
def served(tmp_path_factory, chromium):
    """Start the app once for all tests of a worker: a start costs as much as ten pages."""
    place = tmp_path_factory.mktemp("server")
    own = {name: str(place / name.lower()) for name in ("LPS_CACHE", "LPS_DECISIONS", "LPS_PICTURES")}
    with Server.of_app(place / "runs", place / "log.txt", **own).answering() as server:
        yield Studio(server.address, place / "runs")


@pytest.fixture(scope="module")
def studio(served):
    """Return the app over an empty runs folder, which is emptied after the module's tests.

    The queue is paused: a server starts every run that seems to wait, and its training would outlive the module.
    """
    served.runs.mkdir(exist_ok=True)
    queue.set_paused(served.runs, True)
    yield served
    for left in served.runs.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    shutil.rmtree(served.runs.parent / "lps_decisions", ignore_errors=True)


@pytest.fixture
def open_page(chromium, profile, studio):
    """Return open_page("live?run=...", theme="light") -> Playwright page whose first run is over.

    At the end of the test no page may have shown an exception, thrown a JavaScript error or left this server; and
    nothing that pages keep in the browser is left for the next test. The first page is a tab that stays, since a page
    in a used tab costs a third less.
    """
    contexts, errors, strangers, watched = [profile], [], [], []

    def fail(error) -> None:
        errors.append(str(error))

    def ask(request) -> None:
        if _is_foreign(request.url, studio):
            strangers.append(request.url)

    def open_one(path: str, theme: str = "light", width: int = 1280, is_phone: bool = False):
        if is_phone:
            contexts.append(chromium.new_context(has_touch=True, is_mobile=True))
        page = contexts[-1].new_page() if is_phone else profile.new_page() if watched else kept_tab(profile)
        watched.append(page)
        if page.url.startswith("http") and _is_foreign(page.url, studio):
            page.goto("about:blank")  # of a server that has ended, for which it would go on asking
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", fail)
        page.on("request", ask)
        page.goto(f"{studio.address}/{path}")
        wait_for_run(page)
        return page

    yield open_one
    pages = [page for context in contexts for page in context.pages]
    failed = [page.url for page in pages if page.locator("[data-testid=stException]").count()]
    for page in watched:
        page.remove_listener("pageerror", fail)
        page.remove_listener("request", ask)
    leave(profile, studio.address)
    for context in contexts[1:]:
        context.close()
    assert failed == []
    assert errors == []
    assert strangers == []


@pytest.fixture(scope="module")
def blank(chromium):
    """An empty page."""
    page = chromium.new_page()
    yield page
    page.close()


@pytest.fixture(scope="module")
def reader(chromium):
    """Open a page of a browser without a network."""
    context = chromium.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def open_document(reader):
    """Return open_document(path, "#at=3", theme="dark") -> the reader with a file, loaded again; one file at a time.

    At the end there may have been no error, and no request except for files.
    """
    errors, asked = [], []
    ears = {
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda message: errors.append(message.text) if message.type == "error" else None,
        "request": lambda request: asked.append(request.url),
    }
    for what, hear in ears.items():
        reader.on(what, hear)

    def open_one(path: Path, state="", theme="light", width=1280, height=900, motion="no-preference"):
        reader.set_default_timeout(PATIENCE_MS)
        reader.mouse.move(0, 0)
        reader.set_viewport_size({"width": width, "height": height})
        reader.emulate_media(media="null", color_scheme=theme, reduced_motion=motion)
        reader.goto(f"{path.as_uri()}?{next(_LOADS)}{state}")  # another state alone would load nothing
        return reader

    yield open_one
    for what, hear in ears.items():
        reader.remove_listener(what, hear)
    assert errors == [] and all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def kept_tab(profile):
    """Return the tab that stays open over all tests, for the first page of each; a test may have closed it."""
    return profile.pages[0] if profile.pages else profile.new_page()


def leave(profile, address: str) -> None:
    """Close all pages but one, which then shows almost nothing of the server, and delete what they stored."""
    profile.clear_cookies()
    tab = kept_tab(profile)
    for page in profile.pages:
        if page.url.startswith("http"):
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
        if page is not tab:
            page.close()
    tab.unroute_all()
    tab.mouse.move(0, 0)
    tab.emulate_media(media="null", color_scheme="null", reduced_motion="null")
    tab.goto(f"{address}{IDLE}")


def _is_foreign(url: str, studio: Studio) -> bool:
    return not url.startswith((studio.address, "data:", "blob:"))


def wait_for_run(page) -> None:
    """Wait until the script is not running (as Streamlit's own tests do)."""
    page.wait_for_selector("[data-testid=stApp][data-test-connection-state=CONNECTED]")
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.wait_for_timeout(200)
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")


# For a while nothing is drawn again and nothing fades: what is stale, or on its way, is paler than it will be.
REST_MS = 700  # longer than it takes until a part of a page that refreshes itself begins
AT_REST = f"""() => {{
  const isQuiet = document.querySelector("[data-testid=stApp][data-test-script-state=notRunning]")
    && !document.querySelector("[data-stale=true]")
    && document.getAnimations().every((one) =>
      one.playState !== "running" || one.effect.getComputedTiming().iterations === Infinity);
  if (!isQuiet) window.movedAt = performance.now();
  return performance.now() - window.movedAt > {REST_MS};
}}"""


def come_to_rest(page) -> None:
    page.evaluate("() => { window.movedAt = performance.now(); }")
    page.wait_for_function(AT_REST, polling=50)


def wait_for_address(page, pattern: str) -> None:
    """Wait until the address matches. Pages change it without a load, so nothing else is awaited."""
    page.wait_for_url(re.compile(pattern), wait_until="commit")
