"""Run Python in a fork of a server that has already imported torch and the package.

For tests of what a command prints and writes, and of the time and memory that a file takes. If the start of the process
itself is tested (signals, missing libraries, the environment at import), use `subprocess`.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("torch", "sklearn.cluster", "lps.__main__", "lps.training.loop", "lps.training.checkpoints")


class Forks:
    """A server that forks Python processes; it starts with the first process that is requested."""

    def __init__(self):
        self._server = None

    def run(self, *words, cwd=ROOT, env: Mapping[str, str] | None = None, timeout=240) -> subprocess.CompletedProcess:
        """Like `subprocess.run([sys.executable, *words], capture_output=True, text=True)`; words: "-m MODULE ..." or
        "-c CODE ..."."""
        if self._server is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._server = subprocess.Popen([sys.executable, "-m", "tests.forks"], cwd=ROOT, **pipes)
        words = [str(word) for word in words]
        with tempfile.TemporaryDirectory() as folder:
            job = {"words": words, "cwd": str(cwd), "environment": dict(env or os.environ), "folder": folder}
            self._server.stdin.write(json.dumps(job | {"timeout": timeout}) + "\n")
            self._server.stdin.flush()
            code = json.loads(self._server.stdout.readline())
            out, err = ((Path(folder) / name).read_text(errors="replace") for name in ("out", "err"))
        if code is None:
            raise subprocess.TimeoutExpired(words, timeout, out, err)
        return subprocess.CompletedProcess(words, code, out, err)

    def end(self) -> None:
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait(20)


def serve() -> None:
    """Answer every line of the input with the exit code of a process, None if it took too long."""
    for name in MODULES:
        __import__(name)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(carry_out(job))
        print(json.dumps(_ended(child, job["timeout"])), flush=True)


def carry_out(job: dict) -> int:
    """Do in a fork of the server what Python does with these words; return the exit code."""
    for number, name in ((0, "in"), (1, "out"), (2, "err")):
        file = os.open(Path(job["folder"]) / name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    # The server's own reader of lines has read ahead.
    sys.stdin = open(0, closefd=False)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["cwd"])
    kind, *rest = job["words"]
    sys.path[:0] = [job["cwd"]]
    sys.argv = rest if kind == "-m" else [kind, *rest]  # of -c and of a script, as Python does
    code = 0
    try:
        if kind == "-c":
            del sys.argv[1]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        elif kind == "-m":
            sys.modules.pop(f"{rest[0]}.__main__", None)  # else Python warns that it is imported already
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(kind, run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _ended(child: int, timeout: float) -> int | None:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, timeout)
    _, status = os.waitpid(child, 0)
    is_late = not signal.setitimer(signal.ITIMER_REAL, 0)[0]
    return None if is_late else os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    serve()
