"""Messages that leave the machine, to receivers that the test runs: a web hook, a mail server, a desktop."""

import contextlib
import getpass
import http.server
import json
import os
import re
import socket
import socketserver
import stat
import threading
from pathlib import Path

import pytest

from lps.__main__ import main
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.files.locks import try_lock
from lps.interop import notifications
from lps.interop.notifications import Message
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.events import EventWriter
from lps.store.run_folders import create_run
from tests.patience import until
from tests.queued_runs import TRAINER

SOME = Message("a", "something", "happened", "in secret")


@contextlib.contextmanager
def serving(handler, server=http.server.ThreadingHTTPServer):
    with server(("127.0.0.1", 0), handler) as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found.server_address[1]
        found.shutdown()


@pytest.fixture
def hook(monkeypatch):
    """What arrives at a web hook on this machine, which LPS_NOTIFY names."""
    heard = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with serving(Hook) as port:
        monkeypatch.setenv(notifications.SETTING, f"json://127.0.0.1:{port}/hook")
        yield heard


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path / "runs", configure({"epochs": 20}))


def collapsed(run):
    """Records of a run that puts everything into one class, epoch by epoch."""
    writer = EventWriter(run.events)
    writer.append("start", step=0, epoch=0, values={}, num_seen=5)
    for epoch in range(1, 7):
        values = {"class/count_predicted": [91, *[1] * 9], "accuracy/all": 0.1}
        writer.append("eval", step=epoch, epoch=epoch, values=values)
    writer.close()


def test_nobody_is_told_unless_somebody_is_named(run, monkeypatch, capsys):
    monkeypatch.delenv(notifications.SETTING, raising=False)
    assert not notifications.send_message(run.root, SOME) and not (run.root / notifications.SENT).exists()
    assert main(["notify"]) == 0 and "no channel" in capsys.readouterr().err


@pytest.mark.slow
def test_the_end_of_a_run_is_told_once_by_its_runner_without_a_name_or_a_path(run, hook, tmp_path):
    run.write_meta(name="my secret garden")
    launcher.launch(run, TRAINER)
    assert launcher.wait_for_end(run, 60).name == "finished"
    until(lambda: hook)
    assert hook[0]["title"].startswith("LPS Studio: LPS on digits") and hook[0]["title"].endswith("finished")
    assert "secret" not in str(hook) and str(tmp_path) not in str(hook)
    assert notifications.send_due_messages(run) == 0 and len(hook) == 1


@pytest.mark.slow
def test_a_failure_is_told_by_its_kind_and_by_its_reason_where_details_are_asked_for(run, hook, monkeypatch):
    (run.folder / "plan.json").write_text(json.dumps({"do": "fail"}))
    monkeypatch.setenv(notifications.DETAILS, "1")
    launcher.launch(run, TRAINER)
    assert launcher.wait_for_end(run, 60).name == "failed"
    until(lambda: hook)
    assert hook[0]["title"].endswith("failed") and f"kind: {run.state().kind}" in hook[0]["message"]
    assert run.state().reason in hook[0]["message"] and str(run.folder) in hook[0]["message"]


@pytest.mark.slow
def test_a_run_that_goes_wrong_is_told_of_while_it_goes_on(run, hook):
    collapsed(run)
    lock = try_lock(run.lock)
    try:
        assert run.state().name not in ("finished", "failed")
        assert notifications.send_due_messages(run) == 1 and notifications.send_due_messages(run) == 0
    finally:
        os.close(lock)
    assert "Collapse" in hook[0]["title"] and "one class holds 91 %" in hook[0]["message"]


@pytest.mark.slow
def test_more_than_ten_an_hour_are_held_back_and_counted(run, hook, monkeypatch):
    sent = [notifications.send_message(run.root, SOME) for _ in range(notifications.MAX_PER_HOUR + 3)]
    assert sent == [True] * notifications.MAX_PER_HOUR + [False] * 3 and len(hook) == notifications.MAX_PER_HOUR
    now = notifications.time.time()
    monkeypatch.setattr(notifications.time, "time", lambda: now + notifications.PERIOD_S + 1)
    assert notifications.send_message(run.root, SOME)
    assert "3 messages before this one were not sent" in hook[-1]["message"]
    assert notifications.send_message(run.root, SOME) and "held back" not in hook[-1]["message"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"sent": 7, "held": "x"}', '{"sent": [null, "a", 1e99], "held": -3}']
)
def test_a_damaged_count_holds_nothing_back(run, hook, damage):
    (run.root / notifications.SENT).write_text(damage)
    assert notifications.send_message(run.root, SOME) and "held back" not in hook[0]["message"]


@pytest.mark.slow
def test_a_receiver_that_is_away_fails_nothing(run, monkeypatch):
    monkeypatch.setenv(notifications.SETTING, "json://127.0.0.1:9/hook")
    assert not notifications.send_message(run.root, SOME)
    launcher.launch(run, TRAINER)
    assert launcher.wait_for_end(run, 60).name == "finished"


@pytest.mark.parametrize("address", ["nonsense://me:secret@host", "secret", "json://"])
def test_an_address_that_means_nothing_is_one_sentence_without_its_secrets(monkeypatch, address, capsys):
    monkeypatch.setenv(notifications.SETTING, address)
    with pytest.raises(UserError, match="^LPS_NOTIFY: address 1 .* is not known to Apprise") as caught:
        notifications.receivers()
    assert "secret" not in str(caught.value).split("; expected")[0]
    assert main(["notify", "--test"]) == 2


def test_of_an_address_only_its_scheme_is_shown(monkeypatch):
    monkeypatch.setenv(notifications.SETTING, "mailtos://me:secret@host secret")
    assert notifications.kinds() == ["mailtos", "a text without ://"]


@pytest.mark.slow
def test_a_mail_arrives(monkeypatch):
    heard = []

    class Mail(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"220 here\r\n")
            is_text = False
            for line in self.rfile:
                heard.append(line.strip().decode())
                is_text = (is_text or line.startswith((b"DATA", b"data"))) and line != b".\r\n"
                answer = b"" if is_text and heard[-1].upper() != "DATA" else b"354 go" if is_text else b"250 ok"
                if answer:
                    self.wfile.write(answer + b"\r\n")

    with serving(Mail, socketserver.ThreadingTCPServer) as port:
        monkeypatch.setenv(notifications.SETTING, f"mailto://127.0.0.1:{port}?from=a@example.com&to=b@example.com")
        assert main(["notify", "--test"]) == 0
    assert any("b@example.com" in line for line in heard) and "Subject: LPS Studio: a test" in heard


def test_the_desktop_is_told_by_its_own_program(monkeypatch, tmp_path, capsys):
    program = tmp_path / "notify-send"
    program.write_text(f"#!/bin/sh\nprintf '%s|' \"$@\" > {tmp_path}/said\n")
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(notifications.SETTING, "desktop://")
    assert main(["notify"]) == 0 and capsys.readouterr().err == "desktop\n"
    assert main(["notify", "--test"]) == 0
    assert "LPS Studio: a test|Notifications about runs arrive here.|" in (tmp_path / "said").read_text()


class Everything(socketserver.StreamRequestHandler):
    """A web hook that keeps every byte of a request."""

    heard = b""

    def handle(self):
        size = 0
        for line in self.rfile:
            Everything.heard += line
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
            if not line.strip():
                break
        Everything.heard += self.rfile.read(size)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


@pytest.mark.slow
@pytest.mark.parametrize("state", ["finished", "failed", "crashed", "collapsed"])
def test_no_byte_that_leaves_tells_of_pictures_names_folders_or_this_machine(state, tmp_path, monkeypatch):
    """All texts that people or programs give a run hold a secret; not one is in what a hook is sent, head included."""
    secret = "s3cr3t"
    settings = {"dataset": "folder", "dataset.path": str(tmp_path / secret / "pictures"), "epochs": 20}
    made = create_run(tmp_path / secret / "runs", configure(settings), secret)
    made.write_meta(notes=secret, tags=[secret])
    if state == "collapsed":
        collapsed(made)
    else:
        launcher.launch(made, TRAINER)
        launcher.wait_for_end(made, 60)
        ended = made.read_json("exit.json") | {"state": state, "reason": f"no {secret}", "kind": f"/home/{secret}"}
        write_json(made.folder / "exit.json", ended)
    lock = try_lock(made.lock) if state == "collapsed" else None
    Everything.heard = b""
    with serving(Everything, socketserver.ThreadingTCPServer) as port:
        monkeypatch.setenv(notifications.SETTING, f"json://127.0.0.1:{port}/hook")
        assert notifications.send_due_messages(made) == 1
    if lock is not None:
        os.close(lock)
    told = Everything.heard.decode()
    texts = {secret, str(tmp_path), str(Path.home()), made.id}
    words = {socket.gethostname(), getpass.getuser()}  # whole: "vm" may stand inside the random end of a run's id
    leaked = {text for text in texts if text in told} | words.intersection(re.findall(r"[\w.-]+", told))
    assert "LPS on folder" in told and leaked == set()
