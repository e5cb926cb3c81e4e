"""python -m benchmarks.screenshots: take the pictures of the tutorials with a browser from real runs.

The runs are those of the tutorials, made by their commands (about 15 minutes on two cores); existing runs in --work are
reused. The pictures go to docs/images, with 128 colours each, to be small.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from lps import list_runs
from tests.servers import Server

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = ROOT / "docs" / "start"
WIDTH, COLOURS = 1200, 128
MAX_BYTES = 150_000
PATIENCE_MS = 60_000
SETTLING_MS = 4_000  # until late charts have been drawn


@dataclass(frozen=True)
class Shot:
    """A page to photograph. address: `{own}` stands for the run on pictures, `{sweep}` for the runs of the sweep."""

    name: str
    address: str
    ready: str  # a selector of what has to be there
    height: int = 760


SHOTS = (
    Shot("home", "", "text=Start the demo"),
    Shot("story", "story", "h1"),
    Shot("live", "live?run={own}", "text=Name the clusters", height=900),
    Shot("clusters", "clusters?run={own}&cluster=6", "text=Most typical", height=1320),
    Shot("effects", "effects?{sweep}", ".js-plotly-plot", height=960),
    Shot("charts", "charts?{sweep}", ".js-plotly-plot", height=860),
)


def blocks(page: str, language: str = "") -> list[str]:
    """The code blocks of a tutorial."""
    text = (TUTORIALS / f"{page}.md").read_text(encoding="utf-8")
    return [code for found, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M) if found == language]


def make_runs(work: Path, environment: dict[str, str], shots: Sequence[Shot]) -> None:
    """The runs of the tutorials for researchers and practitioners that `shots` show, in `work`."""
    needs = " ".join(shot.address for shot in shots)
    if "{own}" in needs:
        _make_own_run(work, environment)
    if "{sweep}" in needs:
        sweep = next(text.strip() for text in blocks("researcher") if "--wait" in text)
        _carry_out(sweep, work, environment)


def _make_own_run(work: Path, environment: dict[str, str]) -> None:
    if not (work / "pictures").exists():
        subprocess.run([sys.executable, "-c", blocks("practitioner", "python")[0]], cwd=work, check=True)
    if not list_runs(runs=environment["LPS_RUNS"], filter="dataset=folder"):
        train = next(line for text in blocks("practitioner") for line in text.splitlines() if " train " in line)
        _carry_out(train, work, environment)


def _carry_out(line: str, work: Path, environment: dict[str, str]) -> None:
    print(line, flush=True)
    subprocess.run([sys.executable, *line.split()[1:]], cwd=work, env=environment, check=True)


def photograph(page: Page, server: Server, shot: Shot, names: dict[str, str], to: Path) -> Path:
    """One picture in `to`. Raises `ValueError` if its file is larger than `MAX_BYTES`."""
    page.set_viewport_size({"width": WIDTH, "height": shot.height})
    page.goto(f"{server.address}/{shot.address.format(**names)}")
    page.locator(shot.ready).first.wait_for(timeout=PATIENCE_MS)
    page.wait_for_timeout(SETTLING_MS)
    path = to / f"{shot.name}.png"
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; at most {MAX_BYTES} are allowed")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[2].strip())
    parser.add_argument("--work", type=Path, help="folder that keeps the runs; without it a temporary one")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", help="folder of the pictures")
    parser.add_argument("--only", action="append", default=[], help="name of a picture, as often as needed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        folders = {"LPS_RUNS": "runs", "LPS_CACHE": "cache", "LPS_DECISIONS": "decisions"}
        environment = os.environ | {name: str(work / folder) for name, folder in folders.items()}
        environment["PYTHONPATH"] = str(ROOT)
        shots = [shot for shot in SHOTS if not options.only or shot.name in options.only]
        make_runs(work, environment, shots)
        own = next((run.id for run in list_runs(runs=work / "runs", filter="dataset=folder", state="finished")), "")
        sweep = "&".join(f"run={run.id}" for run in list_runs(runs=work / "runs", tag="sweep:margin"))
        options.to.mkdir(parents=True, exist_ok=True)
        own_folders = {name: environment[name] for name in ("LPS_CACHE", "LPS_DECISIONS")}
        with (
            Server.of_app(work / "runs", work / "app.log", **own_folders).answering() as server,
            sync_playwright() as browsers,
        ):
            found = shutil.which("chromium") or browsers.chromium.executable_path
            browser = browsers.chromium.launch(executable_path=found, args=["--no-sandbox"])
            page = browser.new_page(color_scheme="light")
            for shot in shots:
                path = photograph(page, server, shot, {"own": own, "sweep": sweep}, options.to)
                print(f"{path} {path.stat().st_size:,} bytes")
            browser.close()


if __name__ == "__main__":
    main()
