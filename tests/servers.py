"""Start servers as separate processes on free ports of this machine, such as the app of `streamlit run app.py`."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 120
STREAMLIT = ("-m", "streamlit")  # what Python runs


class Server:
    """A process that serves on `port` and prints into `log`."""

    def __init__(self, command: Sequence[str], port: int, log: Path, cwd: Path = ROOT, **environment: str):
        self.port, self.log = port, log
        with open(log, "wb") as said:
            own = {"cwd": cwd, "env": os.environ | environment}
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, **own)

    @classmethod
    def of_app(
        cls,
        runs: Path,
        log: Path,
        *options: str,
        script: Path | str = "app.py",
        python: Sequence[str] = STREAMLIT,
        port: int | None = None,
        **environment: str,
    ) -> Self:
        """Describe `streamlit run` over a folder of runs, on any free port unless one is given."""
        port = port or free_port()
        words = [*python, "run", str(script), "--server.port", str(port), "--server.headless", "true", *options]
        return cls([sys.executable, *words], port, log, LPS_RUNS=str(runs), **environment)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"http://{self.host}"

    @contextmanager
    def answering(self, path: str = "/_stcore/health") -> Iterator[Self]:
        """Start the server for the `with`, which begins once it answers at `path`; stop it afterwards."""
        try:
            self._wait_for(lambda: _is_there(f"{self.address}{path}"))
            yield self
        finally:
            self.stop()

    def await_line(self, pattern: str) -> str:
        """Return the first group of a line that it prints, once it is printed."""
        return self._wait_for(lambda: re.search(pattern, self.log.read_text()))[1]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def _wait_for(self, look: Callable):
        """Return the first true value of `look()`; raises `RuntimeError` if the process or its time ends before."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            if found := look():
                return found
            time.sleep(0.05)
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()[-3000:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _is_there(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True
