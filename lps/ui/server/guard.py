"""The door of the dashboard: whose requests, HTTP and websocket alike, reach the app at all. Standard library only.

Whoever opens the app's websocket can start processes, so nothing is let in by default. A request passes that names this
server exactly (Host: against rebound DNS names), that no other page sent (Origin: against pages of other sites and
other ports), and, where the server is reached from other machines, that carries the access token. The token comes once
in the address, is swapped for a cookie at once and leaves the address bar by a redirect.

The class is plain ASGI and knows nothing of Streamlit. Every answer, refusals too, carries `headers`.
"""

import base64
import hashlib
import hmac
import os
import re
import secrets
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error, write_whole
from lps.machine.addresses import is_loopback

TOKEN_PARAMETER = "token"
_TOKEN_LENGTH = 32  # characters that a token of one's own must have at least
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Nothing may come from, or go to, another place than this server, and no script may stand in a page.
# Streamlit sets styles inline, makes modules of our own components' code as blobs, and draws maps in workers. plotly
# makes the drawing functions of its parallel coordinates from text: without unsafe-eval they stay empty.
_CONTENT = {
    "default-src": "'self'",
    "script-src": "'self' blob: 'unsafe-eval'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "worker-src": "'self' blob:",
    "frame-src": "'none'",
    "frame-ancestors": "'none'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
}
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def response_headers(index: str = "") -> dict[str, str]:
    """What every answer carries. index: the page that the app is loaded with; its own inline scripts, and no others,
    are allowed by their hashes."""
    digests = [hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(index)]
    own = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    content = _CONTENT | {"script-src": _CONTENT["script-src"] + own}
    return _HEADERS | {"content-security-policy": "; ".join(f"{what} {where}" for what, where in content.items())}


@dataclass(frozen=True)
class AccessRules:
    """What a server answers to. names: host names without ports; port: a public port besides the one it listens on,
    for tunnels; token: "" where none is asked for."""

    names: frozenset[str]
    port: int | None = None
    token: str = ""


def make_access_rules(address: str, names: list[str], port: int | None = None, token: str = "") -> AccessRules:
    """The door of a server at `address`, which people call by `names`; raises `UserError` for one that is open.

    token: the person's own, "" for a new one where one is needed: beyond loopback.
    """
    if wide := [name for name in names if not _is_host_name(name)]:
        raise UserError(
            "server.allowedHosts", f"{shorten(wide[0])} is not a host name or an address; leave out the port"
        )
    if token and (len(token) < _TOKEN_LENGTH or not (token.isascii() and token.isalnum())):
        raise UserError("LPS_TOKEN", f"must have at least {_TOKEN_LENGTH} letters and digits")
    lower = frozenset(name.lower() for name in names)
    if is_loopback(address):
        return AccessRules(lower, port, token)
    if all(is_loopback(name) for name in lower):
        raise UserError(
            "server.allowedHosts",
            f"must be the host name of this machine when the server listens on {address or 'every interface'}, "
            "for example --server.allowedHosts gpu7.example.org",
        )
    return AccessRules(lower, port, token or secrets.token_hex(32))


def _is_host_name(name: str) -> bool:
    host, port = _split_host(f"[{name}]" if name.count(":") > 1 else name)
    return bool(host) and port is None and all(c.isalnum() or c in "-._:[]" for c in host)


def store_token(token: str, path: Path) -> None:
    """Write the token where its owner alone can look it up; raises `UserError` where that cannot be done."""
    with as_user_error("runs", f"the access token cannot be saved in {path}"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, token.encode() + b"\n")
        os.chmod(path, 0o600)


class Guard:
    """ASGI middleware: answers for the app where a request must not reach it."""

    def __init__(self, app, door: AccessRules, index: str = ""):
        self.app, self.door, self.headers = app, door, response_headers(index)

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        send = _with_headers(send, self.headers)
        answer = self._answer(scope)
        if answer is None:
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await _refuse_websocket(receive, send)
        return await _answer_http(send, *answer)

    def _answer(self, scope) -> tuple[int, list, str] | None:
        """Status, headers and sentence of the answer to a request that shall not reach the app, else None."""
        if reason := explain_refusal(scope, self.door):
            return 403, [], reason
        listening = scope["server"][0] if scope.get("server") else ""
        if not self.door.token:
            return (
                None if is_loopback(listening) else (403, [], "This server only accepts requests from its own machine.")
            )
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        shown = [value for name, value in query if name == TOKEN_PARAMETER]
        if scope["type"] == "http" and scope["method"] == "GET" and len(shown) == 1 and self._is_token(shown[0]):
            return 303, self._welcome(scope, query), "Welcome."
        if self._has_cookie(scope):
            return None
        return 401, [], "Open the link that the server printed when it started: it holds the access token."

    def _is_token(self, text: str) -> bool:
        """Compared in a time that does not depend on where the texts differ."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.door.token.encode())

    def _has_cookie(self, scope) -> bool:
        for text in _header_values(scope, b"cookie"):
            try:
                morsel = SimpleCookie(text).get(_cookie_name(scope))
            except CookieError:
                continue
            if morsel is not None and self._is_token(morsel.value):
                return True
        return False

    def _welcome(self, scope, query) -> list[tuple[bytes, bytes]]:
        """Headers that set the cookie and lead to the same page without the token in its address."""
        secure = "; Secure" if _request_scheme(scope) == "https" else ""
        cookie = f"{_cookie_name(scope)}={self.door.token}; Path=/; HttpOnly; SameSite=Strict{secure}"
        # One slash and no backslash: "//elsewhere" would be another server.
        path = "/" + quote(scope["path"].lstrip("/\\"), safe="/")
        rest = urlencode([(name, value) for name, value in query if name != TOKEN_PARAMETER])
        where = f"{path}?{rest}" if rest else path
        return [(b"set-cookie", cookie.encode()), (b"location", where.encode())]


def _cookie_name(scope) -> str:
    """With the port, since browsers send cookies to every port of a host."""
    return f"lps-{scope['server'][1]}"


def explain_refusal(scope, door: AccessRules) -> str:
    """Why a request is not for this server or comes from another page; "" where nothing speaks against it."""
    hosts, origins = _header_values(scope, b"host"), _header_values(scope, b"origin")
    scheme = _request_scheme(scope)
    name, port = _split_host(hosts[0]) if len(hosts) == 1 else ("", None)
    own_ports = {scope["server"][1] if scope.get("server") else None, door.port} - {None}
    if name.lower() not in door.names or (_DEFAULT_PORTS[scheme] if port is None else port) not in own_ports:
        return "This server does not answer at this address. Open the address that it printed when it started."
    if origins and origins != [f"{scheme}://{hosts[0]}"]:
        return "This request came from another site and was refused."
    return ""


def _request_scheme(scope) -> str:
    return "https" if scope.get("scheme") in ("https", "wss") else "http"


def _header_values(scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _split_host(text: str) -> tuple[str, int | None]:
    """Name and port of a Host header, ("", None) for what is none; IPv6 addresses come without brackets."""
    name, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        name, port = text, ""
    if colon and not (port.isascii() and port.isdigit() and len(port) <= 5):
        return "", None
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    elif ":" in name:
        return "", None
    return name, int(port) if colon else None


def _with_headers(send, own: dict[str, str]):
    """`send` that adds headers to every answer, in place of what the app says by the same names."""

    async def send_with_headers(message):
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            rest = [(k, v) for k, v in message.get("headers", []) if k.decode("latin-1").lower() not in own]
            message = message | {"headers": rest + [(k.encode(), v.encode()) for k, v in own.items()]}
        await send(message)

    return send_with_headers


async def _answer_http(send, status: int, headers: list, sentence: str) -> None:
    about = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers + about})
    await send({"type": "http.response.body", "body": sentence.encode() + b"\n"})


async def _refuse_websocket(receive, send) -> None:
    """Close before it was accepted: the handshake is answered by status 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})
