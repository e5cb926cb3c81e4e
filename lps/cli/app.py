"""Open the dashboard: `app`."""

import ipaddress
import os
import socket
import sys
from importlib.util import find_spec

from lps.cli._parser import Commands
from lps.errors import UserError, shorten, shown
from lps.files.program_location import DASHBOARD
from lps.machine.addresses import is_loopback


def add(commands: Commands) -> None:
    app = commands.add("app", _open, "open the dashboard in the browser")
    app.add_argument("--port", type=int, help="port of the dashboard (8501)")
    app.add_argument(
        "--host", metavar="ADDRESS", help="network address of the dashboard (127.0.0.1: only this machine)"
    )
    app.add_argument("--no-browser", action="store_true", help="only print the address, do not open the browser")


def _open(options) -> None:
    """Replace this process by `streamlit run`, so that signals reach the dashboard itself."""
    if find_spec("streamlit") is None:
        raise UserError("app", "the dashboard needs streamlit, which is not installed: pip install 'lps-studio[app]'")
    if options.port is not None and not 1 <= options.port <= 65535:
        raise UserError("port", f"{options.port} is not a port; expected a number from 1 to 65535")
    if options.host is not None:
        _check_host(options.host)
    runs = options.runs.absolute()
    command = [sys.executable, "-m", "streamlit", "run", str(DASHBOARD / "app.py")]
    command += ["--server.port", str(options.port)] if options.port is not None else []
    if options.host is not None:
        command += ["--server.address", options.host]
        if not is_loopback(options.host):  # users open it by the address or by the name of the machine
            command += [word for name in _allowed_hosts(options.host) for word in ("--server.allowedHosts", name)]
    command += ["--server.headless", "true"] if options.no_browser else []
    print(f"Runs are stored in {shown(runs)}", flush=True)
    os.execve(sys.executable, command, os.environ | {"LPS_RUNS": str(runs)})


def _check_host(host: str) -> None:
    """Raise `UserError` for text that is not an address of a network interface."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host != "localhost":
            message = (
                f"{shorten(host)} is not an address; expected one such as 127.0.0.1, or 0.0.0.0 for every interface"
            )
            raise UserError("host", message) from None


def _allowed_hosts(host: str) -> list[str]:
    """Return the names by which a server at `host` may be opened."""
    own_names = {socket.gethostname(), socket.getfqdn(), "localhost", "127.0.0.1"}
    return sorted(own_names if host in ("0.0.0.0", "::") else own_names | {host})
