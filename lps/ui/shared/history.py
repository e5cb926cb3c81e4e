"""The records of a run, read once for all viewers of this server."""

import os
from pathlib import Path

import streamlit as st

from lps.charts.event_log import EventLog, History
from lps.files.atomic import open_regular
from lps.store.runs import Run

_MAX_LOGS = 128  # runs kept in memory
_LOG_TAIL = 24_000  # bytes of log.txt that a page shows


@st.cache_resource(max_entries=_MAX_LOGS, show_spinner=False)
def _event_log(path: str) -> EventLog:
    return EventLog(Path(path))


def read_history(run: Run) -> History:
    """Return everything that `run` has recorded so far."""
    return _event_log(str(run.events)).read_history()


def read_log_tail(run: Run, size: int = _LOG_TAIL) -> str:
    """Return the last whole lines of the run's console output, at most `size` bytes; "" if there is none."""
    try:
        with open_regular(run.log) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            data = file.read()
    except OSError:
        return ""
    if end > size:
        data = data[data.find(b"\n") + 1 :]
    text = data.decode("utf-8", "replace").replace("\x00", "\ufffd")
    # of a line that was drawn again and again (a progress bar), the last version, as on a screen
    return "\n".join(line.rstrip("\r").split("\r")[-1] for line in text.split("\n"))
