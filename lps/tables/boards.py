"""Read and write the charts of a board, which a user has put together; each is one line of text.

    y=accuracy/novel;x=epoch;smooth=0.6;log=y;by=margin_scale

y, x: measurements; x may be `epoch`, `step` or `time` (hours since the first record). smooth: weight of earlier values,
0 for none. log: axes, "x", "y" or "xy". by: settings whose runs are averaged, as on the page Runs; without it, no runs
are averaged.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

X_AXIS_TITLES = {"epoch": "Epoch", "step": "Step", "time": "Hours since the first record"}
MAX_CHARTS = 24
MAX_SMOOTH = 0.99
MAX_IN_ADDRESS = 100  # hidden, and pinned, runs in an address
_LONGEST = 300  # characters of a chart's text
_PIN = re.compile(r"(.{1,200}):([0-9a-f]{6})")
_LOWER_IS_BETTER = ("loss/", "kl", "time/", "memory/", "prior/", "pretrain/loss")
_LOWER_IS_BETTER += ("accuracy/conflict", "accuracy/gap", "accuracy/std")


@dataclass(frozen=True)
class BoardChart:
    """One chart of a board; see the module's docstring."""

    y: str = "accuracy/novel"
    x: str = "epoch"
    smooth: float = 0.0
    log: str = ""
    by: str = ""

    @property
    def text(self) -> str:
        """The chart as one line, without defaults."""
        smooth, x = f"{self.smooth:g}" if self.smooth else "", self.x if self.x != "epoch" else ""
        parts = {"y": self.y, "x": x, "smooth": smooth, "log": self.log, "by": self.by}
        return ";".join(f"{name}={value}" for name, value in parts.items() if value)


DEFAULT_CHARTS = (BoardChart(), BoardChart("accuracy/seen"))


def read_chart(text: str) -> BoardChart:
    """Return the chart of a line; parts that cannot be read have their default."""
    parts = dict(part.split("=", 1) for part in text[:_LONGEST].split(";") if "=" in part)
    chart = BoardChart(**{name: parts[name] for name in ("y", "x", "by") if parts.get(name)})
    log = "".join(axis for axis in "xy" if axis in parts.get("log", ""))
    return replace(chart, smooth=_weight(parts.get("smooth", "")), log=log)


def _weight(text: str) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return min(MAX_SMOOTH, max(0.0, value)) if math.isfinite(value) else 0.0


def read_pins(texts: Sequence[str]) -> dict[str, str]:
    """Return pinned colours of lines by key of the line, as hex on a light background, from "KEY:2c369d" each."""
    matches = [match for text in texts if (match := _PIN.fullmatch(text))]
    return {match[1]: f"#{match[2]}" for match in matches}


def is_lower_better(name: str) -> bool:
    """Return whether the best value of a measurement is its lowest."""
    return name.startswith(_LOWER_IS_BETTER)
