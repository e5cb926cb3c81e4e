"""Send notifications of a run (lps.interop.notifications) from a separate process, if any are configured.

Standard library only; during training the runner never waits for the network, and network errors do not fail a run.
"""

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lps.files.atomic import fingerprint
from lps.files.program_location import SOURCE

_LOOK_S = 60.0  # between two checks of an active run
_PATIENCE_S = 60.0  # for the last message


def _is_wanted() -> bool:
    return bool(os.environ.get("LPS_NOTIFY", "").strip())


def notify_run_end(folder: Path) -> None:
    """Send the notification that a run ended, after its record was written and its lock released."""
    if _is_wanted():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            _start_notifier(folder).wait(_PATIENCE_S)


@dataclass
class NotifyHook:
    """Check an active run for notifications from time to time, if it has new records."""

    folder: Path
    events: Path
    _next_check: float = 0.0
    _seen: tuple | None = None
    _process: subprocess.Popen | None = None

    def check(self) -> None:
        if not _is_wanted() or time.monotonic() < self._next_check or (self._process and self._process.poll() is None):
            return
        self._next_check = time.monotonic() + _LOOK_S
        present = fingerprint(self.events)
        if present != self._seen:
            self._seen = present
            with contextlib.suppress(OSError):
                self._process = _start_notifier(self.folder)


def _start_notifier(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "lps.interop.notifications", str(folder)]
    quiet = {name: subprocess.DEVNULL for name in ("stdin", "stdout", "stderr")}
    return subprocess.Popen(command, cwd=SOURCE, **quiet)
