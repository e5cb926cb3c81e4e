"""Write a race as one HTML file that opens offline, and return the parts of it that a page embeds."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from lps.charts.palette import DARK, LIGHT
from lps.errors import UserError, shown
from lps.files.atomic import PUBLIC, as_user_error, write_whole
from lps.race import race_data
from lps.report import offline
from lps.store.runs import Run

_HERE = Path(__file__).parent
_COLORS = ("seen", "novel", "ink", "muted", "grid")
_GROUND = ("#ffffff", "#12161d")  # of .streamlit/config.toml
FRAME = (_HERE / "frame.html.j2").read_text(encoding="utf-8")  # the script fills it
SCRIPT = offline.as_script((_HERE / "race.js").read_bytes())


@cache
def style() -> str:
    """Return the style sheet of a race, in the colours of the palette."""
    pairs = {name: (getattr(LIGHT, name), getattr(DARK, name)) for name in _COLORS} | {"ground": _GROUND}
    colors = " ".join(f"--{name}: light-dark({light}, {dark});" for name, (light, dark) in pairs.items())
    return f".lps-race {{ {colors} }}\n{(_HERE / 'race.css').read_text(encoding='utf-8')}"


def render(race: dict) -> str:
    """Return the file of a `race_data.race_of_runs`: it loads nothing and runs no script but its own."""
    return offline.page(
        _HERE / "race.html.j2",
        [SCRIPT + offline.as_script((_HERE / "document.js").read_bytes())],
        style(),
        title=" against ".join(f"{run['letter']} {run['title']}" for run in race["runs"]),
        data=offline.inside_script(json.dumps(race, allow_nan=False, separators=(",", ":"))),
        rows=[_last_row(run) for run in race["runs"]],
    )


def _last_row(run: dict) -> tuple[str, int, str, str]:
    """Return the last measurements of a run, for readers without scripts."""
    newest = [next((x for x in reversed(run[group] or []) if x is not None), None) for group in ("seen", "novel")]
    seen, novel = ("not measured" if value is None else f"{100 * value:.1f}" for value in newest)
    return f"{run['letter']} {run['name']}", run["last"], seen, novel


def as_bytes(runs: Sequence[Run]) -> bytes:
    """Return the file of the race of these runs; raises `UserError`."""
    return render(race_data.race_of_runs(runs)).encode("utf-8", "replace")


def write(runs: Sequence[Run], to: Path) -> Path:
    """Write the file of the race of one to three runs; raises `UserError` and leaves no partial file."""
    if not to.parent.is_dir():
        raise UserError("to", f"{shown(to)} cannot be written: its folder does not exist")
    text = as_bytes(runs)
    with as_user_error("to", f"{shown(to)} cannot be written"):
        write_whole(to, text, PUBLIC)
    return to
