"""Open websockets: refused where files would run out, closed where they send what Streamlit cannot read.

Plain ASGI and the standard library. Streamlit takes about four file descriptors for an open page and keeps three for
each of up to 128 closed ones, so a thousand pages would leave a process with the usual limit of
1,024 none for its files.
"""

import contextlib
import os
import resource
import sys
import time

_MOST = 8192  # file descriptors that are asked for where the system allows more
_RESERVE = 128  # file descriptors that stay free for files of pages and runs
_QUIET_S = 60.0  # between two lines of one kind in the log
_UNSUPPORTED = 1003  # close code: data of a type that the endpoint does not take (RFC 6455)
_TRY_LATER = 1013  # close code: the server is full


class Connections:
    """ASGI middleware for websockets; HTTP requests pass."""

    def __init__(self, app):
        self.app, self._log = app, _Log()
        _raise_limit()

    async def __call__(self, scope, receive, send):
        if scope["type"] != "websocket":
            return await self.app(scope, receive, send)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit - len(os.listdir("/dev/fd")) < _RESERVE:
            self._log.say("refused a connection: too many are open", f"limit of {limit:,} open files; see ulimit -n")
            await receive()
            return await send({"type": "websocket.close", "code": _TRY_LATER})
        connection = _Binary(receive, send, self._log)
        return await self.app(scope, connection.receive, connection.send)


class _Binary:
    """A websocket that is closed at the first text frame: Streamlit reads binary ones alone."""

    def __init__(self, receive, send, log: "_Log"):
        self._receive, self._send, self._log = receive, send, log
        self._is_closed = False

    async def receive(self) -> dict:
        message = await self._receive()
        if message["type"] != "websocket.receive" or message.get("bytes") is not None:
            return message
        self._log.say("closed a connection that sent text", "the dashboard's pages send binary frames")
        await self.send({"type": "websocket.close", "code": _UNSUPPORTED})
        self._is_closed = True
        return {"type": "websocket.disconnect", "code": _UNSUPPORTED}

    async def send(self, message: dict) -> None:
        if not self._is_closed:
            await self._send(message)


class _Log:
    """One line of a kind a minute, with how many more there were since the last one."""

    def __init__(self):
        self._said: dict[str, float] = {}
        self._more: dict[str, int] = {}

    def say(self, what: str, why: str) -> None:
        now = time.monotonic()
        if now - self._said.get(what, -_QUIET_S) < _QUIET_S:
            self._more[what] = self._more.get(what, 0) + 1
            return
        more = self._more.pop(what, 0)
        self._said[what] = now
        print(f"lps: {what} ({why}){f'; {more} more since the last line' if more else ''}", file=sys.stderr, flush=True)


def _raise_limit() -> None:
    """Let this process open as many files as the system allows it, up to `_MOST`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted_limit = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted_limit:
        with contextlib.suppress(ValueError, OSError):  # a system that has a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted_limit, hard))
