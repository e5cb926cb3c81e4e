"""What is reached over a port, and the places that carry runs out."""

import os
import shutil
import socket
import tomllib
from collections.abc import Iterator

from lps.cluster import executors
from lps.doctor.finding import NOTE, OK, PROBLEM, Finding, Machine
from lps.errors import Refusal
from lps.files.program import DASHBOARD
from lps.machine import addresses


def port(machine: Machine) -> Iterator[Finding]:
    """Whether the dashboard's port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", machine.port))
        except OSError as error:
            says = f"{machine.port} is taken ({error.strerror})"
            mend = "If that is not this dashboard already: streamlit run app.py --server.port 8502."
            yield Finding(NOTE, "port", says, mend)
        else:
            yield Finding(OK, "port", f"{machine.port} is free")


def exposure(machine: Machine) -> Iterator[Finding]:
    """Who can reach the dashboard, as configured."""
    address = os.environ.get("STREAMLIT_SERVER_ADDRESS")
    if address is None:
        with open(DASHBOARD / ".streamlit" / "config.toml", "rb") as file:
            address = tomllib.load(file).get("server", {}).get("address", "")
    if addresses.is_loopback(address):
        yield Finding(OK, "dashboard", f"listens on {address}, for this machine alone")
    else:
        says = f"listens on {address or 'every interface'}; it asks others for the access token that it prints"
        yield Finding(NOTE, "dashboard", says, "ssh -L 8501:localhost:8501 is safer: then 127.0.0.1 will do.")


def cluster(machine: Machine) -> Iterator[Finding]:
    """Whether runs can be sent elsewhere."""
    for place in executors.AWAY.values():
        missing = [name for name in place.COMMANDS if shutil.which(name) is None]
        if len(missing) == len(place.COMMANDS):
            yield Finding(OK, place.TITLE, "not here; runs start on this machine")
        elif missing:
            words = f"{', '.join(missing)} cannot be found"
            yield Finding(NOTE, place.TITLE, words, "Load the cluster's module, or mend PATH.")
        else:
            yield Finding(OK, place.TITLE, "found")


def messages(machine: Machine) -> Iterator[Finding]:
    """Who is told when a run ends."""
    from lps.exchange import messages

    try:
        messages.receivers()
    except (Refusal, ImportError) as error:
        yield Finding(
            PROBLEM, "messages", f"nobody is told of runs: {error}", "Mend LPS_NOTIFY; notify --test tries it."
        )
        return
    told = ", ".join(messages.kinds())
    yield Finding(OK, "messages", told or "nobody is told when a run ends (LPS_NOTIFY)")
