"""Browser sessions without browsers: what Streamlit's page sends over its websocket, so that many cost little."""

import json
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests import sample_runs
from tests.servers import Server

# The app, whose pages start what waits: here a training process of the trials and not the real one.
APP = """
import json, sys
from lps.scheduler import launcher
launcher.TRAINER = tuple(json.loads(sys.argv.pop(1)))
launcher.dispatch.__defaults__ = (launcher.TRAINER,)
from streamlit.web.cli import main
main()
"""


@contextmanager
def app(runs: Path, log: Path, trainer: str):
    """The app over a folder of runs; gives its address and its process. trainer: a command as a JSON list."""
    with Server.of_app(runs, log, python=("-c", APP, trainer)).answering() as server:
        yield server.host, server.process


class Visitor(threading.Thread):
    """One session: opens a page, and lets its parts refresh themselves as a browser would.

    visits: how often the page or a part of it was drawn; errors: what was shown as an exception.
    """

    def __init__(self, host: str, page: str, query: str = ""):
        super().__init__(daemon=True)
        self.host, self.page, self.query = host, page, query
        self.visits, self.errors, self.parts = 0, [], {}
        self._announced, self._done = set(), threading.Event()

    def leave(self) -> None:
        self._done.set()

    def run(self) -> None:
        while not self._done.is_set():
            try:
                self._stay()
            except (ConnectionClosed, OSError) as error:
                if not self._done.wait(1.0):
                    self.errors.append(f"the connection broke: {error!r}")

    def _stay(self) -> None:
        address = f"ws://{self.host}/_stcore/stream"
        with connect(
            address, origin=f"http://{self.host}", subprotocols=["streamlit"], max_size=None, proxy=None
        ) as socket:
            self.parts = {}
            socket.send(self._ask())
            while not self._done.is_set():
                with suppress(TimeoutError):
                    self._hear(ForwardMsg.FromString(socket.recv(timeout=0.2)))
                for part, (every_s, due) in list(self.parts.items()):
                    if time.monotonic() >= due:
                        self.parts[part] = every_s, time.monotonic() + every_s
                        socket.send(self._ask(part))

    def _ask(self, part: str = "") -> bytes:
        message = BackMsg()
        message.rerun_script.query_string = self.query
        message.rerun_script.page_name = self.page
        if part:
            message.rerun_script.fragment_id = part
            message.rerun_script.is_auto_rerun = True
        return message.SerializeToString()

    def _hear(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "stop_auto_rerun":
            for part in message.stop_auto_rerun.fragment_ids:
                self.parts.pop(part, None)
        elif kind == "auto_rerun":
            every_s = message.auto_rerun.interval
            self.parts[message.auto_rerun.fragment_id] = every_s, time.monotonic() + every_s
            self._announced.add(message.auto_rerun.fragment_id)
        elif kind == "new_session":
            self._announced = set()
        elif kind == "script_finished":
            self.visits += 1
            if message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:  # a whole page: other parts are gone
                self.parts = {part: due for part, due in self.parts.items() if part in self._announced}
        elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
            self.errors.append(message.delta.new_element.exception.message)


@dataclass(frozen=True)
class Usage:
    """What a process holds now. memory: resident bytes; seconds: of a processor since it began."""

    memory: int
    descriptors: int
    threads: int
    seconds: float
    zombies: int


def usage(pid: int) -> Usage:
    process = psutil.Process(pid)
    memory, seconds = process.memory_info().rss, sum(process.cpu_times()[:2])
    return Usage(memory, process.num_fds(), process.num_threads(), seconds, len(zombies_of(pid)))


def zombies_of(parent: int) -> list[int]:
    """Children that have ended and that nobody has asked about."""
    found = []
    for child in psutil.Process(parent).children():
        with suppress(psutil.Error):  # it has been asked about since
            found += [child.pid] * (child.status() == psutil.STATUS_ZOMBIE)
    return found


def watch_together(folder: Path, visitors: int, seconds: float) -> tuple[list[Usage], int, list[str]]:
    """Sessions on one run that grows: what the app held, second by second, how much it drew, and what was wrong."""
    writer = sample_runs.RunWriter(folder / "runs", epochs=2000, name="growing")
    writer.begin("running", 1)
    trainer = json.dumps([sys.executable, "-c", ""])  # nothing waits, so it is never started
    with sample_runs.held(writer.run), app(folder / "runs", folder / "app.txt", trainer) as (host, process):
        sessions = [Visitor(host, "live", f"run={writer.run.id}") for _ in range(visitors)]
        for session in sessions:
            session.start()
        usages, epoch, end = [], 1, time.monotonic() + seconds
        while time.monotonic() < end or not all(session.visits for session in sessions):
            time.sleep(1)
            epoch += 1
            writer.write_epoch(epoch)
            usages.append(usage(process.pid))
            if time.monotonic() > end + 120:
                break
        for session in sessions:
            session.leave()
        for session in sessions:
            session.join(10)
    wrong = ["a session was shown nothing" for session in sessions if not session.visits]
    return usages, sum(s.visits for s in sessions), wrong + [text for s in sessions for text in s.errors]
