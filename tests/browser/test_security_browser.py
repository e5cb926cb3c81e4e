"""Hostile texts in a real browser: every page shows them as they are written, and none fetches, runs or links anything.

The content-security policy would stop most of it too, so a text that only the policy stopped fails these tests as well:
Chromium reports every such case in its console.
"""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote

import pytest

from tests import hostile_records
from tests.browser.conftest import leave, wait_for_run
from tests.hostile_runs import STRANGER, TEXTS, make_data, make_runs
from tests.servers import ROOT
from tests.ui.test_guard import STREAM, Door

PAGES = sorted(path.stem for path in (ROOT / "pages").glob("*.py"))


@pytest.fixture(scope="module")
def hostile(studio, tmp_path_factory):
    data = make_data(tmp_path_factory.mktemp("data") / "hostile.npz")
    return make_runs(studio.runs, data)


class Watch:
    """What a page tried that no text may make it try."""

    def __init__(self, page):
        self.page, self.console, self.requests, self.here = page, [], [], ""
        page.on("console", lambda message: self.console.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: self._see(request.url))
        page.on("dialog", lambda dialog: self.console.append(f"dialog {dialog.message}"))

    def _see(self, url: str) -> None:
        """The first request is for the page itself; what goes elsewhere leaves the server."""
        self.here = self.here or "/".join(url.split("/")[:3]) + "/"
        if not url.startswith((self.here, "data:", "blob:")):
            self.requests.append(url)

    def found(self) -> list[str]:
        # Streamlit asks for its health below the page's own path first, which is answered by 404.
        console = [text for text in self.console if "status of 404" not in text]
        dom = self.page.evaluate(DOM, STRANGER)
        return self.requests + console + dom


# Scripts that ran, elements that would fetch, and links that a person could press, shadow roots and frames included.
DOM = """stranger => {
    const found = window.canary === undefined ? [] : ["a script ran"];
    const look = root => {
        for (const element of root.querySelectorAll("*")) {
            for (const name of ["src", "href", "xlink:href", "action", "data", "srcset", "poster", "formaction"]) {
                const value = element.getAttribute(name);
                const url = value === null ? null : URL.parse(value, location.href);
                if (url && (url.hostname === stranger || url.protocol === "javascript:"))
                    found.push(`${element.tagName} ${name}=${value}`);
            }
            for (const name of element.getAttributeNames())
                if (name.startsWith("on")) found.push(`${element.tagName} ${name}`);
            if (element.shadowRoot) look(element.shadowRoot);
            if (element.tagName === "IFRAME" && element.contentDocument) look(element.contentDocument);
        }
    };
    look(document);
    return found;
}"""


@pytest.fixture
def visit(profile, studio):
    """visit(path) -> a page whose first run is over, and what watches it."""
    yield lambda path: _visit(profile, studio, path)
    leave(profile)


def _visit(profile, studio, path):
    page = profile.new_page()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.set_default_timeout(45_000)
    watch = Watch(page)
    page.goto(f"{studio.address}/{path}")
    wait_for_run(page)
    page.wait_for_timeout(800)
    return page, watch


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("count", [1, 2])
def test_no_page_does_what_a_text_says(visit, hostile, name, count):
    """count: how many runs the address names."""
    chosen = [hostile[0], hostile[3]][:count]
    query = "&".join(f"run={run.id}" for run in chosen)
    page, watch = visit(f"{'' if name == 'home' else name}?{query}")
    open_everything(page)
    assert watch.found() == []
    assert page.locator("[data-testid=stException]").count() == 0
    page.close()


def open_everything(page) -> None:
    """Tabs and folded parts hold texts too."""
    for tab in page.get_by_role("tab").all()[:12]:
        if tab.is_visible():
            tab.click()
    for summary in page.locator("details > summary").all()[:12]:
        if summary.is_visible():
            summary.click()
    wait_for_run(page)
    page.wait_for_timeout(300)


def test_sweeps_and_searches_do_nothing_that_a_text_says(visit, studio):
    """Both lists, one sweep of each hostile name, a search with hostile trials; each name is there as it is written."""
    hostile_records.make_sweeps(studio.runs)
    hunt = hostile_records.make_search(studio.runs)
    addresses = ["sweeps", "search", f"search?search={hunt.name}"]
    addresses += [f"sweeps?sweep={quote(name)}" for name in hostile_records.NAMES]
    for address in addresses:
        page, watch = visit(address)
        open_everything(page)
        assert watch.found() == [], address
        assert page.locator("[data-testid=stException]").count() == 0, address
        if "sweep=" in address:
            shown = page.locator("h3").first.inner_text().replace("\u2060", "")
            name = hostile_records.NAMES[len(hostile_records.NAMES) + addresses.index(address) - len(addresses)]
            assert " ".join(name.split()) in " ".join(shown.split()), address
        page.close()


@pytest.mark.parametrize("number", range(6))
def test_live_shows_a_run_that_ended_in_any_way(visit, hostile, number):
    page, watch = visit(f"live?run={hostile[number].id}")
    open_everything(page)
    assert watch.found() == []
    title = page.locator("h3").first.inner_text().replace("\u2060", "")
    assert " ".join(title.split()).startswith(" ".join(TEXTS[number].split())[:20])
    page.close()


def test_the_form_that_copies_a_hostile_run(visit, hostile):
    for query in (f"clone={hostile[1].id}", "name=" + "%3Cimg%20src%3Dhttp://evil.example/z%3E", "set=%3Cscript%3E=1"):
        page, watch = visit(f"launch?{query}")
        open_everything(page)
        assert watch.found() == []
        page.close()


def test_the_report_of_hostile_runs_fetches_nothing(chromium, hostile, tmp_path):
    from lps.charts.group_tables import Scoring
    from lps.report import run_report

    scoring = Scoring("orca", "last", "default")

    for number, runs in enumerate(([hostile[0]], [hostile[0], hostile[3]])):
        path = tmp_path / f"{number}.html"
        path.write_bytes(run_report.as_bytes(run_report.of(runs, scoring)))
        page = chromium.new_context().new_page()
        watch = Watch(page)
        page.goto(path.as_uri())
        page.wait_for_timeout(1500)
        assert watch.found() == []
        page.context.close()


@pytest.mark.parametrize("count", [1, 3])
def test_the_race_of_hostile_runs_fetches_nothing(chromium, hostile, tmp_path, count):
    """`replay.html` with hostile names of runs and classes, played and gone through by keys."""
    from lps.race import document

    path = document.write([hostile[0], hostile[3], hostile[2]][:count], tmp_path / "replay.html")
    page = chromium.new_context().new_page()
    watch, errors = Watch(page), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector(".lps-race canvas")
    for key in ("Space", "ArrowRight", "ArrowRight", "ArrowLeft", "Space", "End"):
        page.keyboard.press(key)
        page.wait_for_timeout(200)
    assert watch.found() == [] and errors == []
    assert "canary" in path.read_text(encoding="utf-8"), "the texts are in the file"
    page.context.close()


def test_the_watch_sees_what_it_watches_for(visit):
    """The control: markup that nobody escaped is found in the page and in the console, and the policy stops it."""
    page, watch = visit("")
    markup = "<img src='http://evil.example/x'><a href='http://evil.example/y'>z</a><p onclick='x()'></p>"
    page.evaluate("markup => document.body.insertAdjacentHTML('beforeend', markup)", markup)
    script = "document.createElement('script')"
    page.evaluate(f"() => {{ const s = {script}; s.textContent = 'window.canary=1'; document.body.append(s); }}")
    page.wait_for_timeout(500)
    found = watch.found()
    assert [text for text in found if "Content Security Policy" in text and "img-src" in text]
    assert [text for text in found if "Content Security Policy" in text and "script-src" in text]
    assert "A href=http://evil.example/y" in found and "P onclick" in found
    assert "a script ran" not in found
    page.close()


def test_without_a_policy_the_watch_sees_requests(chromium, tmp_path):
    """The other half of the control: where nothing stops it, a beacon is a request and a script runs."""
    path = tmp_path / "bare.html"
    path.write_text("<img src='http://evil.example/x'><script>window.canary=1</script>")
    page = chromium.new_context().new_page()
    watch = Watch(page)
    page.goto(path.as_uri())
    page.wait_for_timeout(500)
    assert "http://evil.example/x" in watch.requests and "a script ran" in watch.found()
    page.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_page_of_a_fresh_installation_leaves_the_server(visit, name):
    """Without own runs the pages show recordings: charts, tables, maps, pictures, all from here and without errors."""
    page, watch = visit("" if name == "home" else name)
    open_everything(page)
    assert watch.found() == []
    page.close()


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
