"""How the dashboard is served: the guard before every request, the link that is printed, the browser that opens."""

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit import cli_util, config
from streamlit.runtime.pages_manager import PagesManager

from lps import guard
from lps.parameters import ConfigError
from lps.ui.select import runs_root


def options() -> dict:
    """What `streamlit.App` needs to serve the app guarded; ends the program where it would be open to strangers."""
    os.umask(0o077)  # whatever this process writes is its owner's alone
    PagesManager.uses_pages_directory = False  # the first visitor too is shown pages by app.py (lps.ui.routing)
    address = st.get_option("server.address") or ""
    try:
        # The environment is inherited by every run, and no run needs the token.
        door = guard.door(address, list(st.get_option("server.allowedHosts") or []), _public_port(), _own_token())
        if door.token:
            guard.keep(door.token, _token_file())
    except ConfigError as error:
        sys.exit(f"lps: {error}")
    return {"middleware": [Middleware(guard.Guard, door=door, index=_index())], "lifespan": _life(door, address)}


def _index() -> str:
    """The page that Streamlit is loaded with."""
    return (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")


def _own_token() -> str:
    return os.environ.pop("LPS_TOKEN", "")


def _public_port() -> int | None:
    """The port that people see where it is another one: the near end of a tunnel (--browser.serverPort)."""
    return st.get_option("browser.serverPort") if config.is_manually_set("browser.serverPort") else None


def _token_file() -> Path:
    return runs_root() / f".token-{st.get_option('server.port')}"


def _life(door: guard.Door, address: str):
    """Says where the app is once it is there, and forgets the token when it ends."""

    @asynccontextmanager
    async def life(app):
        link = address_of(door, address)
        print(f"LPS Studio: {link}", flush=True)
        if not guard.is_loopback(address) and not st.get_option("server.sslCertFile"):
            print("Beware: others on the network can read along without --server.sslCertFile and --server.sslKeyFile.")
        if not st.get_option("server.headless"):
            cli_util.open_browser(link)
        try:
            yield {}
        finally:
            _token_file().unlink(missing_ok=True)

    return life


def address_of(door: guard.Door, address: str) -> str:
    """The link that opens the app."""
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    names = sorted(door.names, key=lambda name: (guard.is_loopback(name) != guard.is_loopback(address), name))
    name = "localhost" if guard.is_loopback(address) and "localhost" in names else names[0]
    shown = f"[{name}]" if ":" in name else name
    token = f"?{guard.TOKEN_PARAMETER}={door.token}" if door.token else ""
    return f"{scheme}://{shown}:{st.get_option('server.port')}/{token}"
