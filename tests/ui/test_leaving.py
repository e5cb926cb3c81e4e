"""What a page that was left still asks for is dropped, so that the next page stays what is shown."""

import json
import sys
import time
from types import SimpleNamespace

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData, ScriptRequests
from websockets.sync.client import connect

from lps.ui.server import routing
from tests.reliability import visits
from tests.sample_runs import make_run


@pytest.fixture
def requests():
    """What waits for a script that draws Home."""
    waiting = ScriptRequests()
    waiting.request_rerun(RerunData(page_script_hash="home"))
    waiting.on_scriptrunner_ready()
    return waiting


def asked_for_a_part(page: str) -> RerunData:
    return RerunData(page_script_hash=page, fragment_id="part", is_auto_rerun=True)


def test_a_waiting_turn_to_another_page_survives_what_the_left_one_asks_for(requests):
    requests.request_rerun(RerunData(page_script_hash="live", query_string="run=x"))
    assert routing._request_rerun(requests, asked_for_a_part("home"))
    taken = requests.on_scriptrunner_yield().rerun_data
    assert (taken.page_script_hash, taken.query_string, taken.fragment_id_queue) == ("live", "run=x", [])


def test_a_part_of_the_page_that_is_shown_is_drawn(requests):
    assert routing._request_rerun(requests, asked_for_a_part("home"))
    assert requests.on_scriptrunner_ready().rerun_data.fragment_id_queue == ["part"]


@pytest.mark.parametrize(
    ("page", "parts", "is_drawn"),
    [("home", ["part"], False), ("live", ["part"], True), ("", ["part"], True), ("home", [], True)],
)
def test_a_part_is_drawn_only_on_the_page_it_belongs_to(page, parts, is_drawn, monkeypatch):
    drawn = []
    monkeypatch.setattr(routing, "_streamlit_run_script", lambda runner, asked: drawn.append(asked))
    runner = SimpleNamespace(_pages_manager=SimpleNamespace(current_page_script_hash="live"))
    routing._run_script(runner, RerunData(page_script_hash=page, fragment_id_queue=parts))
    assert bool(drawn) is is_drawn


@pytest.mark.slow
def test_a_server_takes_no_browser_back_to_the_page_that_it_has_left(tmp_path):
    """A browser asks for Live, and for a part of Home before it has heard of Live."""
    run = make_run(tmp_path / "runs", epochs=2)
    command = json.dumps([sys.executable, "-c", "pass"])
    with visits.app(tmp_path / "runs", tmp_path / "log.txt", command) as (host, _), _connected(host) as socket:
        socket.send(_ask())
        heard = _hear(socket)
        (home,) = (message.navigation for message in heard if message.WhichOneof("type") == "navigation")
        live = next(page.page_script_hash for page in home.app_pages if page.url_pathname == "live")
        part = next(m.auto_rerun.fragment_id for m in heard if m.WhichOneof("type") == "auto_rerun")
        socket.send(_ask(page_script_hash=live, query_string=f"run={run.id}"))
        socket.send(_ask(page_script_hash=home.page_script_hash, fragment_id=part, is_auto_rerun=True))
        pages = [m.new_session.page_script_hash for m in _hear(socket) if m.WhichOneof("type") == "new_session"]
        assert pages == [live]
        socket.send(_ask(page_script_hash=live, fragment_id=part, is_auto_rerun=True))
        assert ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY in [m.script_finished for m in _hear(socket)]


def _connected(host: str):
    address = f"ws://{host}/_stcore/stream"
    return connect(address, origin=f"http://{host}", subprotocols=["streamlit"], max_size=None, proxy=None)


def _ask(**what) -> bytes:
    message = BackMsg()
    message.rerun_script.SetInParent()
    for name, value in what.items():
        setattr(message.rerun_script, name, value)
    return message.SerializeToString()


def _hear(socket) -> list[ForwardMsg]:
    """What comes until a run is over and nothing has followed for two seconds."""
    heard, deadline = [], time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            heard.append(ForwardMsg.FromString(socket.recv(timeout=2)))
        except TimeoutError:
            if any(message.WhichOneof("type") == "script_finished" for message in heard):
                return heard
    return heard
