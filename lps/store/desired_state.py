"""The newest request for a run: the content of its `want.json`, including old and damaged files.

    {"want": "run", "attempt": 2, "time": t, "priority": 5, "order": t, "held": true,
     "retries": 3, "retried": 1, "not_before": t, "on": "slurm"}

The first three are always there, the others only if they differ from the defaults of `DesiredState`. Standard library
only.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lps.errors import UserError

WANTS = ("run", "stop", "kill")
_PLACE = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)  # the name of an executor (lps.cluster.executors)
_ALWAYS = ("want", "attempt", "time")
LARGEST = 2**53  # whole numbers up to it are exact in JSON readers
MAX_PRIORITY = 1000


@dataclass(frozen=True)
class DesiredState:
    """The newest request. want: run, stop, kill, or "" without a request. attempt: the requested attempt, from 1.

    time: unix seconds of the request. priority: higher starts first. order: with equal priority, smaller starts first;
    initially the time of the request. held: the run waits but is not started. retries: how often a crashed run may be
    restarted automatically, of which `retried` are used. not_before: unix seconds before which it is not started. on:
    "" for this machine and its queue, else the executor to which it was submitted (lps.scheduler.cluster_submit); then
    this machine does not start it, even if this version does not know the executor.
    """

    want: str = ""
    attempt: int = 0
    time: float = 0.0
    priority: int = 0
    order: float = 0.0
    held: bool = False
    retries: int = 0
    retried: int = 0
    not_before: float = 0.0
    on: str = ""

    def to_json(self) -> dict:
        """Return the JSON object; raises `UserError` for an attempt number that could not be read back."""
        if self.attempt >= LARGEST:
            raise UserError(
                "attempt",
                f"{self.attempt} is an impossible number of starts, so a file of the run is damaged; launch a copy",
            )
        defaults = asdict(DesiredState()) | {"order": self.time}
        return {k: v for k, v in asdict(self).items() if k in _ALWAYS or v != defaults[k]}


def parse_desired_state(stored: Mapping) -> DesiredState:
    """Read the request in a JSON object; missing or damaged fields have their defaults."""
    want = stored.get("want")
    requested_at = stored_number(stored.get("time"), 0.0)
    return DesiredState(
        want=want if want in WANTS else "",
        attempt=positive_integer(stored.get("attempt")) if want in WANTS else 0,
        time=requested_at,
        priority=max(-MAX_PRIORITY, min(MAX_PRIORITY, _integer(stored.get("priority")))),
        order=stored_number(stored.get("order"), requested_at),
        held=stored.get("held") is True,
        retries=positive_integer(stored.get("retries")),
        retried=positive_integer(stored.get("retried")),
        not_before=stored_number(stored.get("not_before"), 0.0),
        on=on if isinstance(on := stored.get("on"), str) and _PLACE.fullmatch(on) else "",
    )


def is_sound(stored: Mapping) -> bool:
    """Return whether a JSON object is a valid request: it needs at least `want` and `attempt`."""
    return stored.get("want") in WANTS and positive_integer(stored.get("attempt")) > 0


def waiting_reason(desired: DesiredState, now: float | None = None) -> str:
    """Explain why a requested run does not begin though its turn may have come; "" if it simply waits."""
    if desired.held:
        return "put on hold by an older version of LPS Studio; retry it in the queue to start it"
    if (time.time() if now is None else now) < desired.not_before:
        hour = time.strftime("%H:%M", time.localtime(desired.not_before))
        return f"starts again at {hour} ({_retry_in_words(desired)})"
    return f"starts again after a crash ({_retry_in_words(desired)})" if desired.retried else ""


def _retry_in_words(desired: DesiredState) -> str:
    return f"retry {desired.retried} of {desired.retries}"


def positive_integer(value) -> int:
    """Return a stored positive whole number, 0 for anything else."""
    return value if type(value) is int and 0 < value < LARGEST else 0


def _integer(value) -> int:
    return value if type(value) is int and abs(value) < LARGEST else 0


def stored_number(value, otherwise: float | None = None) -> float | None:
    """Return a stored number, `otherwise` for anything else: NaN and infinities fail the comparison."""
    return value if type(value) in (int, float) and abs(value) < LARGEST else otherwise
