"""What a browser fetches besides pages.

plotly.js: announced where it is needed, sent once, packed where that is understood. Labeled pictures: one .zip.
"""

import asyncio
import gzip
import io
import zipfile

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from lps.analysis import run_index
from lps.charts import palette
from lps.charts.chart import LIBRARY
from lps.inference import export_job
from lps.ui.server import downloads, serving
from lps.ui.shared.plot import library_path
from tests.sample_runs import make_run

INDEX = "<head><title>x</title></head><body></body>"


def ask(path: str, accepted: str = "") -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to a GET."""
    routes = [Route(library_path(), serving._send_library), *downloads.routes()]
    front = Middleware(serving.Front, index=INDEX, library=library_path())
    app = Starlette(routes=routes, middleware=[front])
    sent = []

    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive():
        if message := next(asked, None):
            return message
        await asyncio.sleep(60)  # nobody leaves
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"accept-encoding", accepted.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": headers, "http_version": "1.1", "scheme": "http", "server": ("localhost", 80), "root_path": ""}
    asyncio.run(app(scope, receive, send))
    start = sent[0]
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return start["status"], {key.decode(): value.decode() for key, value in start["headers"]}, body


@pytest.mark.parametrize(("path", "is_announced"), [("/live", True), ("/runs", False), ("/", False), ("/pace", True)])
def test_pages_have_their_style_from_the_start_and_those_with_charts_announce_them(path, is_announced):
    status, headers, body = ask(path)
    assert status == 200 and headers["cache-control"] == "no-cache"
    assert headers.get("link") == (f"<{library_path()}>; rel=preload; as=script" if is_announced else None)
    assert body.decode() == f"<head><title>x</title>{palette.PAGE}</head><body></body>"


@pytest.mark.parametrize("path", ["/favicon.png", "/_stcore/health", "/labels/x", "/static/js/x.js"])
def test_what_is_no_page_is_left_to_the_server(path):
    assert ask(path)[0] == 404


@pytest.mark.parametrize("accepted", ["", "gzip, br"])
def test_it_arrives_whole_and_is_to_be_kept(accepted):
    status, headers, body = ask(library_path(), accepted)
    assert status == 200 and "immutable" in headers["cache-control"]
    assert headers["content-type"].startswith("text/javascript")
    assert ("content-encoding" in headers) == ("gzip" in accepted)
    plain = gzip.decompress(body) if accepted else body
    original = LIBRARY.read_bytes()
    assert len(plain) == len(original) + 4 and rb'percent===void 0?"\xa0%"' in plain


@pytest.mark.slow
def test_the_labeled_pictures_of_a_run_arrive_as_one_archive(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    run = make_run(tmp_path, epochs=1)
    status, headers, body = ask(downloads.labels_address(run, 1))
    assert status == 200 and headers["content-type"] == "application/zip"
    assert headers["content-disposition"] == f'attachment; filename="labels-{run.id[-6:]}-epoch-1.zip"'
    names = zipfile.ZipFile(io.BytesIO(body)).namelist()
    assert len(names) == 1 + 1797 and names[0] == f"labels-{run.id[-6:]}-epoch-1/labels.csv"


def test_the_model_of_a_run_arrives_once_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    run = make_run(tmp_path, epochs=1)
    assert ask(downloads.model_address(run))[0] == 404
    export_job.export_path(run).parent.mkdir()
    export_job.export_path(run).write_bytes(b"made")
    status, headers, body = ask(downloads.model_address(run))
    assert (status, body, headers["content-type"]) == (200, b"made", "application/zip")
    assert headers["content-disposition"] == f'attachment; filename="model-{run.id[-6:]}.zip"'
    (run.folder / "names.json").write_text('{"version": 1, "entries": []}')
    status, _, body = ask(downloads.model_address(run))
    assert status == 404 and b"names have changed since" in body


def test_a_server_reads_the_runs_before_its_first_visitor(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    run = make_run(tmp_path / "runs", epochs=1)
    serving._read_runs()
    monkeypatch.setattr(run_index, "_entry", lambda run: pytest.fail("it is read again"))
    assert run_index.read_rows([run])[0].state.name == "finished"
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "file"))
    serving._read_runs()


@pytest.mark.parametrize(
    "place",
    [
        "/model/nobody.zip",
        "/model/..%2Fx.zip",
        "/labels/nobody/1.zip",
        "/labels/{run}/9.zip",
        "/labels/..%2F{run}/1.zip",
        "/predictions/{run}/0123456789abcdef/80.zip",
        "/predictions/{run}/..%2Fx/80.zip",
    ],
)
def test_what_is_not_there_is_one_sentence(tmp_path, monkeypatch, place):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    status, headers, body = ask(place.format(run=make_run(tmp_path, epochs=1).id))
    assert status == 404 and headers["content-type"].startswith("text/plain") and body.count(b"\n") <= 1
