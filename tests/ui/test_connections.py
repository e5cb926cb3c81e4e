"""Websockets on a real server: too many of them are refused, text closes one, and people who are connected go on."""

import base64
import contextlib
import os
import resource
import socket
import urllib.request

import pytest

from tests.servers import Server

pytestmark = pytest.mark.slow

LIMITED = (
    "-c",
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)); "
    "from streamlit.web.cli import main; main(prog_name='streamlit')",
)
ATTEMPTS = 1000


@pytest.fixture
def server(tmp_path):
    """The app under `ulimit -n 1024`."""
    with Server.of_app(tmp_path / "runs", tmp_path / "log.txt", python=LIMITED).answering() as server:
        yield server


def connected(server: Server) -> tuple[socket.socket, int]:
    """A connection and the status that the opening of Streamlit's websocket is answered by: 101 is open."""
    lines = [
        "GET /_stcore/stream HTTP/1.1", f"Host: {server.host}", "Upgrade: websocket", "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: streamlit",
    ]  # fmt: skip
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    return connection, int(connection.recv(65536).split()[1])


def send(connection: socket.socket, opcode: int, payload: bytes) -> None:
    """A masked frame; the mask is zeros."""
    connection.sendall(bytes([0x80 | opcode, 0x80 | len(payload)]) + bytes(4) + payload)


def is_open(connection: socket.socket) -> bool:
    """Whether a ping is answered."""
    send(connection, 9, b"?")
    with contextlib.suppress(OSError):
        return b"\x8a\x01?" in connection.recv(1 << 20)
    return False


def test_a_thousand_connections_leave_room_for_those_who_are_there(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        first, status = connected(server)
        assert status == 101
        answers = []
        for _ in range(ATTEMPTS):
            connection, status = connected(server)
            stack.callback(connection.close)
            answers.append(status)
        used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        assert answers.count(101) >= 100 and answers.count(403) >= 400 and {*answers} == {101, 403}
        assert used <= 1024 - 100, "files can be opened"
        assert is_open(first)
        assert urllib.request.urlopen(f"{server.address}/_stcore/health", timeout=20).status == 200
        log = server.log.read_text()
        assert log.count("lps: refused a connection: too many are open") <= 3 and "Traceback" not in log
        first.close()


def test_a_text_frame_closes_the_connection_with_one_line(server):
    connections = [connected(server)[0] for _ in range(3)]
    for connection in connections[:2]:
        send(connection, 1, b"hello")
        assert connection.recv(1 << 16)[:4] == b"\x88\x02\x03\xeb", "closed with 1003"
    assert is_open(connections[2])
    log = server.log.read_text()
    assert log.count("lps: closed a connection that sent text") == 1
    assert "Traceback" not in log and "KeyError" not in log
