"""Leaving a page while its parts refresh, on a slow server: the requested page appears."""

import os
import subprocess
import sys

import pytest
from playwright.sync_api import TimeoutError

from tests.browser.conftest import Studio
from tests.sample_runs import make_run
from tests.servers import Server

CLICKS, AT_ONCE = int(os.environ.get("LPS_CLICKS", 4)), 2
BURNERS = int("LPS_CLICKS" in os.environ)  # processes that keep the machine busy; the suite does by itself
OPENING_MS, PATIENCE_MS, BEFORE_MS, STAYS_MS = 120_000, 25_000, 600, 3_000
# What leaves Home: its button, a link of its own, a link of the menu; and the title of where it leads.
DOORS = [
    ("button", "Start the demo", "Race"),
    ("link", "New run", "Launch"),
    ("button", "Start the demo", "Race"),
    ("link", "Analyze", "Compare"),
]

# The server: slow to draw and to start a run, with parts that refresh themselves often.
SLOW = """
import random, sys, time
from streamlit.web.cli import main
from lps.ui.server import run_toasts; from lps.ui.forms import start_runs
watch, run_toasts.TICK_S, run = run_toasts.watch_runs, 0.2, sys.argv.pop(1)
def slow_watch(page):
    time.sleep(random.uniform(0, 0.2))
    watch(page)
def slow_start(*_):
    time.sleep(random.uniform(0.4, 1.0))
    return [run]
run_toasts.watch_runs, start_runs.start_runs = slow_watch, slow_start
main()
"""
# Its answers reach the browser late: what a page has asked for meanwhile is on its way when the page is left.
LATE = """
const Real = window.WebSocket;
window.WebSocket = class extends Real {
  addEventListener(kind, take, ...more) {
    super.addEventListener(kind, kind === "message" ? (event) => setTimeout(() => take(event), 400) : take, ...more);
  }
  set onmessage(take) { super.onmessage = (event) => setTimeout(() => take(event), 400); }
};
"""


@pytest.fixture(scope="module")
def studio(tmp_path_factory, chromium):
    runs = tmp_path_factory.mktemp("runs")
    run = make_run(runs, epochs=2)
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with Server.of_app(runs, log, python=("-c", SLOW, run.id)).answering() as server:
        yield Studio(server.address, runs)


@pytest.fixture
def busy():
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BURNERS)]
    yield
    for burner in burners:
        burner.kill()
        burner.wait()


@pytest.mark.turn(0, 2)
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_click_that_leaves_home_ends_in_a_white_page(studio, chromium, busy):
    """Two people at a time, so that what a page waits for is waited for half as often."""
    white, errors = [], []
    pages = [_browser(chromium, errors) for _ in range(AT_ONCE)]
    for page in pages:
        page.goto(studio.address, timeout=OPENING_MS)
    for turn in range(CLICKS // AT_ONCE):
        doors = [DOORS[(AT_ONCE * turn + number) % len(DOORS)] for number in range(AT_ONCE)]
        handles = [page.get_by_role(role, name=name, exact=True) for page, (role, name, _) in zip(pages, doors)]
        for handle in handles:
            handle.wait_for()
        pages[0].wait_for_timeout(BEFORE_MS)
        for handle in handles:
            handle.click()
        headings = [page.get_by_role("heading", name=title, exact=True) for page, (*_, title) in zip(pages, doors)]
        came = [_comes(heading) for heading in headings]
        pages[0].wait_for_timeout(STAYS_MS)  # and what the last page asked for has been dealt with
        for page, heading, has_come, (_, name, _) in zip(pages, headings, came, doors):
            if has_come and heading.count() == 1:
                page.get_by_role("link", name="Home", exact=True).click()
            else:
                white.append((turn, name, page.url.removeprefix(studio.address)))
                page.goto(studio.address)
    for page in pages:
        page.context.close()
    assert (len(white), white, errors) == (0, [], [])


def _browser(chromium, errors: list[str]):
    page = chromium.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.add_init_script(LATE)
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Bad delta path" in message.text else None)
    return page


def _comes(heading) -> bool:
    try:
        heading.wait_for()
    except TimeoutError:
        return False
    return True
