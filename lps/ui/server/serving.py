"""How the dashboard is served: the guard before every request, plotly.js, the link that is printed, the browser."""

import gc
import gzip
import importlib
import logging
import os
import pkgutil
import sys
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from streamlit import cli_util, config
from streamlit.runtime.pages_manager import PagesManager

from lps import ui
from lps.charts import palette
from lps.charts.chart import LIBRARY
from lps.errors import UserError
from lps.machine import addresses
from lps.ui.server import columns, connections, downloads, guard, menu, paths, picture_files, review_desk, routing
from lps.ui.shared.plot import library_path
from lps.ui.shared.select import runs_root

_FOR_GOOD = "public, immutable, max-age=31536000"


def app_options() -> dict:
    """What `streamlit.App` needs to serve the app guarded; ends the program where it would be open to strangers."""
    os.umask(0o077)  # whatever this process writes is its owner's alone
    PagesManager.uses_pages_directory = False  # the first visitor too is shown pages by app.py (lps.ui.server.routing)
    routing.forget_left_pages()
    address = st.get_option("server.address") or ""
    try:
        # The environment is inherited by every run, and no run needs the token.
        door = guard.make_access_rules(
            address, list(st.get_option("server.allowedHosts") or []), _public_port(), os.environ.pop("LPS_TOKEN", "")
        )
        if door.token:
            guard.store_token(door.token, _token_file())
    except UserError as error:
        sys.exit(f"lps: {error}")
    _import_pages()
    index = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    return {
        "middleware": [
            Middleware(guard.Guard, door=door, index=index),
            Middleware(connections.Connections),
            Middleware(Front, index=index, library=library_path()),
        ],
        "routes": [
            Route(library_path(), _send_library),
            Route(downloads.labels_pattern(), downloads.send_labels),
            Route(downloads.model_pattern(), downloads.send_model),
            Route(downloads.predictions_pattern(), downloads.send_predictions),
            Route(columns.route_pattern(), columns.send_column),
            Route(picture_files.route_pattern(), picture_files.send_picture),
            Route(review_desk.route_pattern(), review_desk.answer_request, methods=["POST"]),
        ],
        "lifespan": _lifespan(door, address),
    }


def _import_pages() -> None:
    """Whatever pages are made of, before there are visitors: the first one would wait for it."""
    # It would warn of every function with a cache that the cache is in memory, where it shall be.
    logging.getLogger("streamlit.runtime.caching.cache_data_api").setLevel(logging.ERROR)
    for module in pkgutil.walk_packages(ui.__path__, f"{ui.__name__}.", onerror=lambda name: None):
        with suppress(Exception):  # said by the page that needs it, and by no other
            importlib.import_module(module.name)
    gc.freeze()  # Streamlit collects garbage after every part of a page: 90 ms each time, most of it for these modules


class Front:
    """ASGI middleware: gives the page that Streamlit is loaded with, with our style in its head.

    As a part of the page the style would come after those that it is for, and they would jump. For a page with charts
    the head says, too, that it needs plotly.js, long before a chart asks for it.
    """

    def __init__(self, app, index: str, library: str):
        self.app, self.index = app, index.replace("</head>", f"{palette.PAGE}</head>", 1)
        self.link = f"<{library}>; rel=preload; as=script"

    async def __call__(self, scope, receive, send):
        name = _page_of(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if name is None:
            return await self.app(scope, receive, send)
        said = {"link": self.link} if name in menu.pages_with_charts() else {}
        answer = Response(self.index, media_type="text/html", headers={"cache-control": "no-cache"} | said)
        return await answer(scope, receive, send)


def _page_of(path: str) -> str | None:
    """The page that a path names, there or not, "" for the first one; None for all else that a server has."""
    first = paths.path_of("")
    name = path.removeprefix(first)
    return None if not path.startswith(first) or "/" in name or "." in name else name


def _send_library(request: Request) -> Response:
    """plotly.js, to be kept: a browser also keeps what it has compiled of a script that stays the same."""
    headers = {"cache-control": _FOR_GOOD, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response((LIBRARY / "plotly.min.js").read_bytes(), media_type="text/javascript", headers=headers)
    return Response(_compressed_library(), media_type="text/javascript", headers=headers | {"content-encoding": "gzip"})


@cache
def _compressed_library() -> bytes:
    return gzip.compress((LIBRARY / "plotly.min.js").read_bytes(), 6)


def _public_port() -> int | None:
    """The port that people see where it is another one: the near end of a tunnel (--browser.serverPort)."""
    return st.get_option("browser.serverPort") if config.is_manually_set("browser.serverPort") else None


def _token_file() -> Path:
    return runs_root() / f".token-{st.get_option('server.port')}"


def _lifespan(door: guard.AccessRules, address: str):
    """Says where the app is once it is there, and forgets the token when it ends."""

    @asynccontextmanager
    async def life(app):
        link = _address_of(door, address)
        print(f"LPS Studio: {link}", flush=True)
        if not addresses.is_loopback(address) and not st.get_option("server.sslCertFile"):
            print(
                "Warning: the connection is not encrypted. Set --server.sslCertFile and --server.sslKeyFile to "
                "encrypt it."
            )
        if not st.get_option("server.headless"):
            cli_util.open_browser(link)
        try:
            yield {}
        finally:
            _token_file().unlink(missing_ok=True)

    return life


def _address_of(door: guard.AccessRules, address: str) -> str:
    """The link that opens the app."""
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    names = sorted(door.names, key=lambda name: (addresses.is_loopback(name) != addresses.is_loopback(address), name))
    name = "localhost" if addresses.is_loopback(address) and "localhost" in names else names[0]
    shown = f"[{name}]" if ":" in name else name
    token = f"?{guard.TOKEN_PARAMETER}={door.token}" if door.token else ""
    return f"{scheme}://{shown}:{st.get_option('server.port')}/{token}"
