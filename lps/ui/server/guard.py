"""The access rules of the dashboard for HTTP and websocket requests. Standard library only.

A client of the app's websocket can start processes, so requests are refused by default. A request passes if it names
this server exactly (Host: against DNS rebinding), if no other page sent it (Origin: against pages of other sites and
other ports), and, if the server is reachable from other machines, if it carries the access token. The token is sent
once in the URL; the server replaces it with a cookie and redirects to the URL without it.

The class is plain ASGI and does not depend on Streamlit. Every answer, also a refusal, carries `headers`.
"""

import base64
import contextlib
import hashlib
import hmac
import ipaddress
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
_TOKEN_LENGTH = 32  # the least number of characters of a token that the user sets
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Pages may only load from and send to this server, and inline scripts are not allowed.
# Streamlit sets styles inline, makes modules of our own components' code as blobs, and draws maps in workers. plotly
# makes the drawing functions of its parallel coordinates from text: without unsafe-eval they stay empty.
_CONTENT_POLICY = {
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
    """Return the headers of every answer. index: the app's HTML page; hashes allow its inline scripts."""
    digests = [hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(index)]
    own_scripts = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    content = _CONTENT_POLICY | {"script-src": _CONTENT_POLICY["script-src"] + own_scripts}
    return _HEADERS | {
        "content-security-policy": "; ".join(f"{directive} {sources}" for directive, sources in content.items())
    }


@dataclass(frozen=True)
class AccessRules:
    """The requests that a server accepts.

    names: host names without ports. port: a public port besides the one that it listens on, for tunnels. token: "" if
    none is required.
    """

    names: frozenset[str]
    port: int | None = None
    token: str = ""


def make_access_rules(address: str, names: list[str], port: int | None = None, token: str = "") -> AccessRules:
    """Return the rules of a server at `address` with these host names; raises `UserError` for unsafe ones.

    token: set by the user; "" generates one if the server is reachable from other machines.
    """
    if wide := [name for name in names if not _is_host_name(name)]:
        raise UserError(
            "server.allowedHosts", f"{shorten(wide[0])} is no host name or address; leave out port and brackets"
        )
    if token and (len(token) < _TOKEN_LENGTH or not (token.isascii() and token.isalnum())):
        raise UserError("LPS_TOKEN", f"must have at least {_TOKEN_LENGTH} letters and digits")
    lower = frozenset(str(ipaddress.IPv6Address(name)) if ":" in name else name.lower() for name in names)
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
    if ":" in name:
        with contextlib.suppress(ValueError):
            return not ipaddress.IPv6Address(name).scope_id  # no browser sends one
        return False
    return bool(name) and all(c.isalnum() or c in "-._" for c in name)


def store_token(token: str, path: Path) -> None:
    """Write the token to a file that only its owner can read; raises `UserError` if that fails."""
    with as_user_error("runs", f"the access token cannot be saved in {path}"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, token.encode() + b"\n")
        os.chmod(path, 0o600)


class Guard:
    """ASGI middleware that answers the requests that must not reach the app."""

    def __init__(self, app, rules: AccessRules, index: str = ""):
        self.app, self.rules, self.headers = app, rules, response_headers(index)

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        send = _add_headers(send, self.headers)
        answer = self._find_answer(scope)
        if answer is None:
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await _refuse_websocket(receive, send)
        return await _answer_http(send, *answer)

    def _find_answer(self, scope) -> tuple[int, list, str] | None:
        """Return status, headers and message for a request that must not reach the app, otherwise None."""
        if reason := explain_refusal(scope, self.rules):
            return 403, [], reason
        listening = scope["server"][0] if scope.get("server") else ""
        if not self.rules.token:
            return (
                None if is_loopback(listening) else (403, [], "This server only accepts requests from its own machine.")
            )
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == TOKEN_PARAMETER]
        if scope["type"] == "http" and scope["method"] == "GET" and len(tokens) == 1 and self._is_token(tokens[0]):
            return 303, self._redirect_headers(scope, query), "Welcome."
        if self._has_cookie(scope):
            return None
        return 401, [], "Open the link that the server printed when it started: it holds the access token."

    def _is_token(self, text: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.rules.token.encode())

    def _has_cookie(self, scope) -> bool:
        for text in _header_values(scope, b"cookie"):
            try:
                morsel = SimpleCookie(text).get(_cookie_name(scope))
            except CookieError:
                continue
            if morsel is not None and self._is_token(morsel.value):
                return True
        return False

    def _redirect_headers(self, scope, query) -> list[tuple[bytes, bytes]]:
        """Return headers that set the cookie and redirect to the same page without the token in the URL."""
        secure = "; Secure" if _request_scheme(scope) == "https" else ""
        cookie = f"{_cookie_name(scope)}={self.rules.token}; Path=/; HttpOnly; SameSite=Strict{secure}"
        # One slash and no backslash: "//elsewhere" would be another server.
        path = "/" + quote(scope["path"].lstrip("/\\"), safe="/")
        remaining_query = urlencode([(name, value) for name, value in query if name != TOKEN_PARAMETER])
        location = f"{path}?{remaining_query}" if remaining_query else path
        return [(b"set-cookie", cookie.encode()), (b"location", location.encode())]


def _cookie_name(scope) -> str:
    """Return the cookie's name with the port, because browsers send cookies to every port of a host."""
    return f"lps-{scope['server'][1]}"


def explain_refusal(scope, rules: AccessRules) -> str:
    """Return why a request is not for this server or comes from another page; "" if it is accepted."""
    hosts, origins = _header_values(scope, b"host"), _header_values(scope, b"origin")
    scheme = _request_scheme(scope)
    name, port = _split_host(hosts[0]) if len(hosts) == 1 else ("", None)
    ports = {scope["server"][1] if scope.get("server") else None, rules.port} - {None}
    if name.lower() not in rules.names or (_DEFAULT_PORTS[scheme] if port is None else port) not in ports:
        return "This server does not answer at this address. Open the address that it printed when it started."
    if origins and origins != [f"{scheme}://{hosts[0]}"]:
        return "This request came from another site and was refused."
    return ""


def _request_scheme(scope) -> str:
    return "https" if scope.get("scheme") in ("https", "wss") else "http"


def _header_values(scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _split_host(text: str) -> tuple[str, int | None]:
    """Return name and port of a Host header, ("", None) if it is malformed; IPv6 addresses without brackets."""
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


def _add_headers(send, headers: dict[str, str]):
    """Return a `send` that sets headers of every answer and replaces those of the app with the same names."""

    async def send_with_headers(message):
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            other_headers = [
                (k, v) for k, v in message.get("headers", []) if k.decode("latin-1").lower() not in headers
            ]
            message = message | {"headers": other_headers + [(k.encode(), v.encode()) for k, v in headers.items()]}
        await send(message)

    return send_with_headers


async def _answer_http(send, status: int, headers: list, sentence: str) -> None:
    about = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers + about})
    await send({"type": "http.response.body", "body": sentence.encode() + b"\n"})


async def _refuse_websocket(receive, send) -> None:
    """Close a websocket before it is accepted, which answers the handshake with status 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})
