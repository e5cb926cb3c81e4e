"""Hostile texts in a real browser: every page shows them as they are written, and none fetches, runs or links anything.

The content-security policy would stop most of it too, so a text that only the policy stopped fails these tests as well:
Chromium reports every such case in its console.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote

import pytest

from tests import hostile_records
from tests.browser.conftest import wait_for_run
from tests.browser.looks import open_everything, watched_tab, watching
from tests.hostile_runs import TEXTS, make_data, make_runs
from tests.shares import in_turn, share
from tests.ui.test_guard import STREAM, Door


@pytest.fixture(scope="module")
def hostile(studio, tmp_path_factory):
    data = make_data(tmp_path_factory.mktemp("data") / "hostile.npz")
    return make_runs(studio.runs, data)


@pytest.fixture
def visit(profile, studio):
    """visit(path) -> the page with all that is folded open, which tried nothing."""
    with watched_tab(profile, studio.address) as watch:

        def open_one(path):
            open_everything(watch.open(path))
            assert watch.found() == [], path
            return watch.page

        yield open_one


@pytest.mark.parametrize("name", in_turn(["live", "pace"], 2))
def test_no_page_of_several_runs_does_what_a_text_says(visit, hostile, name):
    """test_every_page.py visits Compare and Charts with all runs; the others show the first that the address names."""
    visit(f"{name}?run={hostile[0].id}&run={hostile[3].id}")


def test_sweeps_and_searches_do_nothing_that_a_text_says(visit, studio):
    """Both lists, the sweeps of some hostile names, hostile trials of a search; names are as they are written."""
    hostile_records.make_sweeps(studio.runs)
    hunt = hostile_records.make_search(studio.runs)
    for address in ("sweeps", "search", f"search?search={hunt.name}"):
        visit(address)
    for name in share(hostile_records.NAMES, 0, 9):
        page = visit(f"sweeps?sweep={quote(name)}")
        shown = page.locator("h3").first.inner_text().replace("\u2060", "")
        assert " ".join(name.split()) in " ".join(shown.split()), name


@pytest.mark.parametrize("number", in_turn([2, 4, 5], 3), ids=["stopped", "crashed", "queued"])
def test_live_shows_a_run_that_ended_in_any_way(visit, hostile, number):
    """One that finished and one that failed are among the pages of test_every_page.py."""
    page = visit(f"live?run={hostile[number].id}")
    title = page.locator("h3").first.inner_text().replace("\u2060", "")
    assert " ".join(title.split()).startswith(" ".join(TEXTS[number].split())[:20])


def test_the_form_that_copies_a_hostile_run(visit, hostile):
    for query in (f"clone={hostile[1].id}", "name=" + "%3Cimg%20src%3Dhttp://evil.example/z%3E", "set=%3Cscript%3E=1"):
        visit(f"launch?{query}")


@pytest.fixture
def look(chromium):
    """look(path) -> a watch over a file in a browser that knows nothing."""
    page = chromium.new_context().new_page()

    def open_file(path):
        page.goto(path.as_uri())
        page.wait_for_timeout(500)
        return watch

    with watching(page, "file://") as watch:
        yield open_file
    page.context.close()


def test_the_report_of_hostile_runs_fetches_nothing(look, hostile, tmp_path):
    from lps.charts.group_tables import Scoring
    from lps.report import run_report

    scoring = Scoring("orca", "last", "default")

    for number, runs in enumerate(([hostile[0]], [hostile[0], hostile[3]])):
        path = tmp_path / f"{number}.html"
        path.write_bytes(run_report.encode_report(run_report.render_run_report(runs, scoring)))
        watch = look(path)
        watch.page.wait_for_timeout(1000)
        assert watch.found() == []


@pytest.mark.parametrize("count", [1, 3])
def test_the_race_of_hostile_runs_fetches_nothing(look, hostile, tmp_path, count):
    """`replay.html` with hostile names of runs and classes, played and gone through by keys."""
    from lps.race import race_document

    path = race_document.write([hostile[0], hostile[3], hostile[2]][:count], tmp_path / "replay.html")
    watch = look(path)
    watch.page.wait_for_selector(".lps-race canvas")
    for key in ("Space", "ArrowRight", "ArrowRight", "ArrowLeft", "Space", "End"):
        watch.page.keyboard.press(key)
        watch.page.wait_for_timeout(200)
    assert watch.found() == []
    assert "canary" in path.read_text(encoding="utf-8"), "the texts are in the file"


def test_without_a_policy_the_watch_sees_requests(look, tmp_path):
    """A control, as test_every_page.py has one of the app: where nothing stops it, a beacon is a request and a script
    runs."""
    path = tmp_path / "bare.html"
    path.write_text("<img src='http://evil.example/x'><script>window.canary=1</script>")
    assert {"http://evil.example/x", "a script ran"} <= set(look(path).found())


OPEN = """address => new Promise(done => {
    const socket = new WebSocket(address, ["streamlit"]);
    socket.onopen = () => done("open");
    socket.onerror = () => done("refused");
})"""


def test_the_token_opens_the_app_and_is_seen_nowhere(chromium, tmp_path):
    """In the address it is swapped for a cookie that no script can read; a browser without it gets one sentence."""
    token = "0123456789abcdef" * 2
    server = Door.opened(tmp_path, LPS_TOKEN=token)
    try:
        server.await_line(r"(\?token=)")
        address = f"http://127.0.0.1:{server.port}"
        page = chromium.new_context().new_page()
        page.goto(f"{address}/compare?protocol=task&token={token}")
        wait_for_run(page)
        assert "token" not in page.url and page.url.startswith(f"{address}/compare")
        assert token not in page.evaluate("document.cookie") and page.evaluate("document.referrer") == ""
        assert page.evaluate(OPEN, f"ws://127.0.0.1:{server.port}{STREAM}") == "open"
        (cookie,) = [one for one in page.context.cookies() if one["name"] == f"lps-{server.port}"]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["value"] == token
        page.reload()
        wait_for_run(page)
        _refuses_other_pages(page, server)
        page.context.close()
        stranger = chromium.new_context().new_page()
        assert stranger.goto(address).status == 401
        assert "access token" in stranger.locator("body").inner_text()
        stranger.context.close()
    finally:
        server.stop()


def _refuses_other_pages(page, server) -> None:
    """Another page of this machine, in the same browser and with the cookie: no websocket, no frame, no reading."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
        assert page.evaluate(OPEN, f"ws://127.0.0.1:{server.port}{STREAM}") == "refused"
        read = "address => fetch(address, {credentials: 'include'}).then(() => 'read', () => 'refused')"
        assert page.evaluate(read, f"http://127.0.0.1:{server.port}/_stcore/health") == "refused"
        other.shutdown()
