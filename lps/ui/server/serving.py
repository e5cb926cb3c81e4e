"""How the dashboard is served: the guard before every request, plotly.js, the printed link, the browser."""

import gc
import gzip
import importlib
import logging
import os
import pkgutil
import sys
import threading
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from streamlit import cli_util, config, delta_generator
from streamlit.runtime.pages_manager import PagesManager

from lps import ui
from lps.analysis import run_index
from lps.charts import palette
from lps.charts.chart import read_library
from lps.errors import UserError
from lps.machine import addresses
from lps.store.run_folders import list_runs, recorded_runs
from lps.tables.columns import varying_settings
from lps.ui.server import columns, connections, downloads, guard, menu, paths, picture_files, review_desk, routing
from lps.ui.shared.plot import library_path
from lps.ui.shared.select import runs_root

_CACHE_FOREVER = "public, immutable, max-age=31536000"


def app_options() -> dict:
    """Return the options of `streamlit.App` for a guarded app; exits if the app would be open to others."""
    os.umask(0o077)  # files of this process are readable by their owner only
    PagesManager.uses_pages_directory = False  # the first visitor gets pages by app.py, too (lps.ui.server.routing)
    routing.forget_left_pages()
    address = st.get_option("server.address") or ""
    try:
        # The environment is inherited by every run, and no run needs the token.
        rules = guard.make_access_rules(
            address, list(st.get_option("server.allowedHosts") or []), _public_port(), os.environ.pop("LPS_TOKEN", "")
        )
        if rules.token:
            guard.store_token(rules.token, _token_file())
    except UserError as error:
        sys.exit(f"lps: {error}")
    _import_pages()
    index = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    return {
        "middleware": [
            Middleware(guard.Guard, rules=rules, index=index),
            Middleware(connections.Connections),
            Middleware(Front, index=index, library=library_path()),
        ],
        "routes": [
            Route(library_path(), _send_library),
            *(route for module in (downloads, columns, picture_files, review_desk) for route in module.routes()),
        ],
        "lifespan": _lifespan(rules, address),
    }


def _import_pages() -> None:
    """Import the modules of all pages at the start, so that the first visitor does not wait."""
    # Streamlit would warn for every cached function that its cache is in memory, which is intended.
    logging.getLogger("streamlit.runtime.caching.cache_data_api").setLevel(logging.ERROR)
    for module in pkgutil.walk_packages(ui.__path__, f"{ui.__name__}.", onerror=lambda name: None):
        with suppress(Exception):  # the page that needs the module shows the error
            importlib.import_module(module.name)
    delta_generator._use_warning_has_been_displayed = True  # whether this is a notebook takes the first visit 0.2 s
    gc.freeze()  # Streamlit collects garbage after every part of a page: 90 ms each time, most of it for these modules


def _read_runs() -> None:
    """Read the records of all runs and what varies in them, which are then cached, while the first browser starts."""
    gc.disable()  # nothing of 10,000 rows is garbage, and looking for it takes 0.1 s
    try:
        with suppress(UserError, OSError):  # the page that needs them shows the error
            varying_settings(run_index.read_rows(list_runs(runs_root()) + recorded_runs()))
    finally:
        gc.enable()
    gc.freeze()  # rows of 10,000 runs would make each of Streamlit's collections 110 ms longer


class Front:
    """ASGI middleware that serves Streamlit's HTML page with our style in its head.

    A style inside the page would arrive after the elements that it is for, and they would jump. For pages with charts,
    a header preloads plotly.js before the first chart requests it.
    """

    def __init__(self, app, index: str, library: str):
        self.app, self.index = app, index.replace("</head>", f"{palette.PAGE}</head>", 1)
        self.link = f"<{library}>; rel=preload; as=script"

    async def __call__(self, scope, receive, send):
        name = _page_of(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if name is None:
            return await self.app(scope, receive, send)
        preload = {"link": self.link} if name in menu.pages_with_charts() else {}
        answer = Response(self.index, media_type="text/html", headers={"cache-control": "no-cache"} | preload)
        return await answer(scope, receive, send)


def _page_of(path: str) -> str | None:
    """Return the page that a path names, existing or not, "" for the first one; None for other paths."""
    base = paths.path_of("")
    name = path.removeprefix(base)
    return None if not path.startswith(base) or "/" in name or "." in name else name


def _send_library(request: Request) -> Response:
    """Send plotly.js to be cached forever: browsers also cache the compiled code of an unchanged script."""
    headers = {"cache-control": _CACHE_FOREVER, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(read_library(), media_type="text/javascript", headers=headers)
    return Response(_compressed_library(), media_type="text/javascript", headers=headers | {"content-encoding": "gzip"})


@cache
def _compressed_library() -> bytes:
    return gzip.compress(read_library(), 6)


def _public_port() -> int | None:
    """Return the public port if it is another one, as with a tunnel (--browser.serverPort)."""
    return st.get_option("browser.serverPort") if config.is_manually_set("browser.serverPort") else None


def _token_file() -> Path:
    return runs_root() / f".token-{st.get_option('server.port')}"


def _lifespan(rules: guard.AccessRules, address: str):
    """Return the ASGI lifespan: prints the app's link at the start and deletes the token at the end."""

    @asynccontextmanager
    async def run_lifespan(app):
        threading.Thread(target=_read_runs, daemon=True).start()
        link = _address_of(rules, address)
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

    return run_lifespan


def _address_of(rules: guard.AccessRules, address: str) -> str:
    """Return the link that opens the app."""
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    names = sorted(rules.names, key=lambda name: (addresses.is_loopback(name) != addresses.is_loopback(address), name))
    name = "localhost" if addresses.is_loopback(address) and "localhost" in names else names[0]
    host = f"[{name}]" if ":" in name else name
    token = f"?{guard.TOKEN_PARAMETER}={rules.token}" if rules.token else ""
    return f"{scheme}://{host}:{st.get_option('server.port')}/{token}"
