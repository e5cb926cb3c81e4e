"""The door of the dashboard: the connection matrix on a real server by raw sockets, and the rules on their own."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import os
import re
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lps.errors import UserError
from lps.machine import addresses
from lps.ui.server import guard
from tests.servers import Server

STREAM = "/_stcore/stream"
NAME = "studio.test"  # what the server beyond loopback goes by


class Door(Server):
    """The app, spoken to by raw sockets."""

    @classmethod
    def opened(cls, folder: Path, *options: str, script: Path | str = "app.py", **environment: str) -> "Door":
        return cls.of_app(folder / "runs", folder / "log.txt", *options, script=script, **environment)

    def get(self, path="/_stcore/health", host=None, method="GET", **headers) -> tuple[int, dict, bytes]:
        """Status, headers (names in small letters, values in a list) and body of a request as written here."""
        lines = [f"Host: {host or f'127.0.0.1:{self.port}'}", "Connection: close", *_lines(headers)]
        return _ask(self.port, f"{method} {path} HTTP/1.1", lines)

    def websocket(self, host=None, **headers) -> int:
        """The status that the opening of Streamlit's websocket is answered by: 101 is open."""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"Host: {host or f'127.0.0.1:{self.port}'}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: streamlit"]
        return _ask(self.port, f"GET {STREAM} HTTP/1.1", lines + _lines(headers), head_only=True)[0]


def _lines(headers: dict) -> list[str]:
    return [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value is not None]


def _ask(port: int, request: str, lines: list[str], head_only: bool = False) -> tuple[int, dict, bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall("\r\n".join([request, *lines, "", ""]).encode("latin-1"))
        data = b""
        while not (head_only and b"\r\n\r\n" in data):
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    found: dict[str, list[str]] = {}
    for line in rest:
        name, _, value = line.partition(": ")
        found.setdefault(name.lower(), []).append(value)
    return int(first.split()[1]), found, body


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The app as `make app` starts it: for this machine alone."""
    server = Door.opened(tmp_path_factory.mktemp("here"))
    server.await_line(r"(LPS Studio: http)")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def beyond(tmp_path_factory):
    """The app for other machines too; its token is in `.token`."""
    options = ("--server.address", "0.0.0.0", "--server.allowedHosts", NAME)
    server = Door.opened(tmp_path_factory.mktemp("beyond"), *options)
    server.token = server.await_line(rf"http://{NAME}:\d+/\?token=([0-9a-f]{{64}})\n")
    yield server
    server.stop()


def rows(port: int, name: str) -> dict[str, tuple[str, str | None, bool]]:
    """The matrix: what asks -> Host, Origin, whether it may be let in."""
    own = f"{name}:{port}"
    return {
        "no Origin": (own, None, True),
        "same origin": (own, f"http://{own}", True),
        "another port of this machine": (own, "http://localhost:9999", False),
        "0.0.0.0": (own, "http://0.0.0.0:1234", False),
        "rebound name": (f"evil.example:{port}", f"http://evil.example:{port}", False),
        "foreign page": (own, "https://evil.example", False),
        "null": (own, "null", False),
    }


ROWS = list(rows(0, ""))


@pytest.mark.slow
def test_what_is_printed_at_the_start_is_the_address_alone(here):
    assert here.log.read_text().splitlines()[0] == f"LPS Studio: http://localhost:{here.port}/"


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_on_this_machine_only_the_apps_own_pages_are_let_in(here, row):
    for name in ("127.0.0.1", "localhost"):
        host, origin, allowed = rows(here.port, name)[row]
        assert here.websocket(host, Origin=origin) == (101 if allowed else 403)
        assert here.get(host=host, Origin=origin)[0] == (200 if allowed else 403)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_beyond_this_machine_nothing_is_let_in_without_the_token(beyond, row):
    host, origin, allowed = rows(beyond.port, NAME)[row]
    name = f"lps-{beyond.port}"
    wrong = ["", "f" * 64, beyond.token[:-1], beyond.token + "0", beyond.token.upper() + "x"]
    for cookie in [None, *(f"{name}={text}" for text in wrong), f"lps={beyond.token}", f"lps-1={beyond.token}"]:
        assert beyond.websocket(host, Origin=origin, Cookie=cookie) == 403
        assert beyond.get(host=host, Origin=origin, Cookie=cookie)[0] == (401 if allowed else 403)
    right = f"{name}={beyond.token}"
    assert beyond.websocket(host, Origin=origin, Cookie=right) == (101 if allowed else 403)
    assert beyond.get(host=host, Origin=origin, Cookie=right)[0] == (200 if allowed else 403)


@pytest.mark.slow
def test_an_unguarded_server_lets_in_what_the_matrix_refuses(tmp_path):
    """The control: without the guard the same rows are open, so the tests above can fail."""
    script = tmp_path / "bare.py"
    script.write_text("import streamlit as st\nst.write('hello')\n")
    server = Door.opened(tmp_path, "--logger.hideWelcomeMessage", "false", script=script)
    try:
        server.await_line(r"(URL: http)")
        for row in ("another port of this machine", "0.0.0.0"):
            host, origin, _ = rows(server.port, "localhost")[row]
            assert server.websocket(host, Origin=origin) == 101
    finally:
        server.stop()


@pytest.mark.slow
def test_the_token_leaves_the_address_for_a_cookie(beyond):
    host = f"{NAME}:{beyond.port}"
    status, headers, _ = beyond.get(f"/live?run=a&token={beyond.token}&epoch=3", host=host)
    assert status == 303
    assert headers["location"] == ["/live?run=a&epoch=3"]
    again = beyond.get(f"/?token={beyond.token}", host=host, Cookie=f"lps-{beyond.port}={beyond.token}")
    assert again[0] == 303 and again[1]["location"] == ["/"]
    (cookie,) = headers["set-cookie"]
    pair, *flags = cookie.split("; ")
    assert pair == f"lps-{beyond.port}={beyond.token}"
    assert sorted(flags) == ["HttpOnly", "Path=/", "SameSite=Strict"]
    assert headers["referrer-policy"] == ["no-referrer"] and headers["cache-control"] == ["no-store"]
    for path in ("/?token=", f"/?token={beyond.token[:-1]}", f"/?token=x&token={beyond.token}", "/?token=%ff%00%C3%A9"):
        status, headers, body = beyond.get(path, host=host)
        assert status == 401 and "set-cookie" not in headers and beyond.token.encode() not in body
    assert beyond.get(f"/?token={beyond.token}", host=host, method="POST")[0] == 401
    assert beyond.get(f"/?token={beyond.token}", host=host, Origin="http://evil.example")[0] == 403


@pytest.mark.slow
@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "/%5Cevil.example/", "//%2Fevil.example"])
def test_the_redirect_stays_on_this_server(beyond, path):
    _, headers, _ = beyond.get(f"{path}?token={beyond.token}", host=f"{NAME}:{beyond.port}")
    for where in headers.get("location", []):
        assert re.match(r"/[^/\\]", where + "x")


@pytest.mark.slow
def test_the_token_is_printed_once_and_kept_for_its_owner_alone(beyond):
    runs = beyond.log.parent / "runs"
    kept = runs / f".token-{beyond.port}"
    assert kept.read_text() == beyond.token + "\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and stat.S_IMODE(runs.stat().st_mode) == 0o700
    assert beyond.log.read_text().count(beyond.token) == 1


@pytest.mark.slow
def test_every_answer_carries_the_headers(here, beyond):
    from streamlit import __file__ as streamlit

    index = (Path(streamlit).parent / "static" / "index.html").read_text()
    answers = [here.get("/"), here.get("/media/no"), here.get(host="evil.example"), beyond.get(), here.get("/story")]
    assert [status for status, _, _ in answers] == [200, 404, 403, 403, 200]
    for _, headers, _ in answers:
        for name, value in guard.response_headers(index).items():
            assert headers[name] == [value]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/_stcore/metrics", "/_stcore/upload_file/a/b", "/media/x", "/live", "*"])
def test_no_method_and_no_path_is_forgotten(beyond, method, path):
    """A list of bad methods would be incomplete one day; the guard has none."""
    assert beyond.get(path, host=f"{NAME}:{beyond.port}", method=method)[0] in (400, 401)
    assert beyond.get(path, host=f"evil.example:{beyond.port}", method=method)[0] in (400, 403)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, environment, sentence",
    [
        (["--server.address", "0.0.0.0", "--server.allowedHosts", "*"], {}, "server.allowedHosts: '*' is no host"),
        ([], {"LPS_TOKEN": "short"}, "LPS_TOKEN: must have at least 32"),
    ],
    ids=["every name", "short token"],
)
def test_an_open_server_does_not_start(tmp_path, options, environment, sentence):
    server = Door.opened(tmp_path, *options, **environment)
    assert server.process.wait(60) == 1
    said = server.log.read_text().splitlines()
    assert len(said) == 1 and said[0].startswith(f"lps: {sentence}")


def test_a_token_that_cannot_be_kept_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"^runs: the access token cannot be saved in .* \(Not a directory\)$"):
        guard.store_token("a" * 64, tmp_path / "file" / "runs" / ".token")


class App:
    """An ASGI app that counts what reaches it."""

    def __init__(self):
        self.reached = 0

    async def __call__(self, scope, receive, send):
        self.reached += 1


TOKEN = "0123456789abcdef" * 4
DOOR = guard.AccessRules(frozenset({"localhost", "::1"}), token=TOKEN)


def passes(door=DOOR, kind="http", scheme="http", listening="127.0.0.1", **headers) -> bool:
    """Whether a request reaches the app."""
    app = App()
    sent = []
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    scope = {"type": kind, "scheme": scheme, "method": "GET", "path": "/", "query_string": b"", "headers": pairs}

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    asyncio.run(guard.Guard(app, door)(scope | {"server": (listening, 8501)}, receive, send))
    assert bool(sent) != bool(app.reached)
    return bool(app.reached)


RIGHT = f"lps-8501={TOKEN}"


@given(st.text(max_size=40))
def test_any_other_host_is_refused(text):
    if text.lower() not in ("localhost:8501", "[::1]:8501"):
        assert not passes(host=text, cookie=RIGHT)
    assert passes(host="LOCALHOST:8501", cookie=RIGHT) and passes(host="[::1]:8501", cookie=RIGHT)


@given(st.text(max_size=40))
def test_any_other_origin_is_refused(text):
    if text != "http://localhost:8501":
        assert not passes(host="localhost:8501", origin=text, cookie=RIGHT)
    assert passes(host="localhost:8501", origin="http://localhost:8501", cookie=RIGHT)


@given(st.text(alphabet=st.characters(max_codepoint=255), max_size=80))
def test_any_other_cookie_is_refused(text):
    assert not passes(host="localhost:8501", cookie=text)
    assert not passes(host="localhost:8501", cookie=f"lps-8501={text}")


@pytest.mark.parametrize("host", ["localhost", "localhost:", "localhost:80", "localhost:08501x", "localhost:8501:8501"])
def test_a_host_without_this_port_is_refused(host):
    assert not passes(host=host, cookie=RIGHT)


def test_schemes_do_not_mix():
    assert not passes(host="localhost:8501", origin="https://localhost:8501", cookie=RIGHT)
    for kind, scheme in (("http", "https"), ("websocket", "wss")):
        given = {"kind": kind, "scheme": scheme, "host": "localhost:8501", "cookie": RIGHT}
        assert passes(origin="https://localhost:8501", **given)
        assert not passes(origin="http://localhost:8501", **given)


def test_two_hosts_or_two_origins_are_refused():
    scope = {"scheme": "http", "server": ("127.0.0.1", 8501)}
    one = [(b"host", b"localhost:8501"), (b"origin", b"http://localhost:8501")]
    assert guard.explain_refusal(scope | {"headers": one}, DOOR) == ""
    for extra in ((b"host", b"evil.example"), (b"Host", b"localhost:8501"), (b"Origin", b"http://evil.example")):
        assert guard.explain_refusal(scope | {"headers": [*one, extra]}, DOOR)
        assert guard.explain_refusal(scope | {"headers": [extra, *one]}, DOOR)


def test_without_a_token_other_machines_are_refused_whatever_the_options_said():
    bare = guard.AccessRules(frozenset({"localhost", "10.0.0.7"}))
    assert passes(bare, host="localhost:8501")
    assert not passes(bare, host="10.0.0.7:8501", listening="10.0.0.7")
    assert not passes(bare, kind="websocket", host="10.0.0.7:8501", listening="10.0.0.7")


def test_the_public_end_of_a_tunnel_is_a_port_too():
    tunnelled = guard.AccessRules(frozenset({"localhost"}), port=9000)
    assert passes(tunnelled, host="localhost:9000", origin="http://localhost:9000")
    assert not passes(tunnelled, host="localhost:9001", origin="http://localhost:9001")


def test_tokens_are_compared_in_constant_time(monkeypatch):
    seen = []

    def compare(a, b):
        seen.append((a, b))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert not passes(host="localhost:8501", cookie=RIGHT)  # whatever it says decides
    assert seen == [(TOKEN.encode(), TOKEN.encode())]


def test_cookies_over_tls_stay_there():
    scope = {"scheme": "https", "server": ("127.0.0.1", 8501), "path": "/"}
    (_, cookie), _ = guard.Guard(App(), DOOR)._redirect_headers(scope, [])
    assert b"; Secure" in cookie


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "::ffff:127.0.0.1"])
def test_loopback_addresses(address):
    assert addresses.is_loopback(address)
    assert guard.make_access_rules(address, ["localhost"]).token == ""


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::", "10.0.0.1", "192.168.1.2", "127.0.0.1.evil.example", "gpu7"])
def test_all_other_addresses_need_a_name_and_get_a_token(address):
    assert not addresses.is_loopback(address)
    with pytest.raises(UserError, match="must be the host name"):
        guard.make_access_rules(address, ["localhost", "127.0.0.1"])
    first, second = (guard.make_access_rules(address, ["gpu7"]).token for _ in range(2))
    assert len(first) == 64 and first != second


@pytest.mark.parametrize("names", [["*"], ["gpu7", "a:80"], [""], ["[::1]:80"], ["[fe80::1]"], ["::1:80:x"]])
def test_a_name_with_a_port_and_a_pattern_are_no_names(names):
    with pytest.raises(UserError, match="is no host name or address; leave out port"):
        guard.make_access_rules("::", names)
    assert guard.make_access_rules("::", ["FE80:0:0::1"]).names == {"fe80::1"}, "as browsers write it"


def test_no_script_of_a_page_runs_but_streamlits_own():
    page = "<head><script>window.x = 1\n</script><script src='a.js'></script></head>"
    digest = base64.b64encode(hashlib.sha256(b"window.x = 1\n").digest()).decode()
    rules = dict(rule.split(" ", 1) for rule in guard.response_headers(page)["content-security-policy"].split("; "))
    assert rules["script-src"] == f"'self' blob: 'unsafe-eval' 'sha256-{digest}'"  # eval: of WebGL charts, alone
    assert rules["default-src"] == "'self'" and rules["frame-ancestors"] == "'none'"
    assert not [rule for rule in rules.values() if "*" in rule or "http" in rule]
    assert [name for name, rule in rules.items() if "eval" in rule] == ["script-src"]


@pytest.mark.slow
def test_what_is_neither_http_nor_websocket_goes_through():
    app = App()
    with contextlib.suppress(KeyError):
        asyncio.run(guard.Guard(app, DOOR)({"type": "lifespan"}, None, None))
    assert app.reached == 1
