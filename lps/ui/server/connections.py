"""Limits of websockets: refused when file descriptors run out, closed when they send data that Streamlit cannot read.

Plain ASGI and the standard library. Streamlit takes about four file descriptors for an open page and keeps three for
each of up to 128 closed ones, so a thousand pages would leave a process with the usual limit of
1,024 none for its files.
"""

import contextlib
import os
import resource
import sys
import time

_MAX_DESCRIPTORS = 8192  # file descriptors to request if the system allows that many
_RESERVE = 128  # file descriptors that stay free for files of pages and runs
_LOG_INTERVAL_S = 60.0  # between two lines of one kind in the log
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
            self._log.write_line(
                "refused a connection: too many are open", f"limit of {limit:,} open files; see ulimit -n"
            )
            await receive()
            return await send({"type": "websocket.close", "code": _TRY_LATER})
        connection = _Binary(receive, send, self._log)
        return await self.app(scope, connection.receive, connection.send)


class _Binary:
    """A websocket that is closed at the first text frame, because Streamlit only reads binary frames."""

    def __init__(self, receive, send, log: "_Log"):
        self._receive, self._send, self._log = receive, send, log
        self._is_closed = False

    async def receive(self) -> dict:
        message = await self._receive()
        if message["type"] != "websocket.receive" or message.get("bytes") is not None:
            return message
        self._log.write_line("closed a connection that sent text", "the dashboard's pages send binary frames")
        await self.send({"type": "websocket.close", "code": _UNSUPPORTED})
        self._is_closed = True
        return {"type": "websocket.disconnect", "code": _UNSUPPORTED}

    async def send(self, message: dict) -> None:
        if not self._is_closed:
            await self._send(message)


class _Log:
    """Writes at most one line per kind and minute, with the number of suppressed ones."""

    def __init__(self):
        self._last_times: dict[str, float] = {}
        self._repeats: dict[str, int] = {}

    def write_line(self, event: str, detail: str) -> None:
        now = time.monotonic()
        if now - self._last_times.get(event, -_LOG_INTERVAL_S) < _LOG_INTERVAL_S:
            self._repeats[event] = self._repeats.get(event, 0) + 1
            return
        repeats = self._repeats.pop(event, 0)
        self._last_times[event] = now
        print(
            f"lps: {event} ({detail}){f'; {repeats} more since the last line' if repeats else ''}",
            file=sys.stderr,
            flush=True,
        )


def _raise_limit() -> None:
    """Raise the limit of open files to what the system allows, at most `_MAX_DESCRIPTORS`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(ValueError, OSError):  # some systems enforce a lower limit than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
