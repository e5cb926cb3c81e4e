"""python -m benchmarks.browser: how long a person waits for a page, beside TensorBoard on the same numbers.

Each server runs alone, on loopback, and a real Chromium opens its pages. A page counts as ready when what it is for is
drawn: the table of runs, the curves, the points. Wall time. The first visit fills the caches of server and browser.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from benchmarks.made_runs import make_large, make_many
from benchmarks.report import section
from lps import tensorboard
from lps.runs import Run, list_runs

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_MS = 120_000
ARGUMENTS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
VIEWPORT = {"width": 1280, "height": 900}
COUNT_FRAMES = """() => {
    window.gaps = [];
    let last = performance.now();
    const frame = now => { window.gaps.push((now - last) / 1000); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
}"""


@contextmanager
def server(command: list[str], health: str, port: int, **environment: str) -> Iterator[str]:
    """The address of a server that answers, on `port` of this machine."""
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await(f"{address}{health}", process)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def _await(url: str, process: subprocess.Popen) -> None:
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"no answer from {url}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def visits(browser: Browser, url: str, ready: Callable[[Page], None], rounds: int) -> dict[str, float]:
    """Seconds from the address to `ready`: the first visit, and the best of `rounds` more with the browser's cache."""
    context = browser.new_context(viewport=VIEWPORT)
    seconds = [_visit(context, url, ready) for _ in range(rounds + 1)]
    context.close()
    return {"first visit s": seconds[0], "best later visit s": min(seconds[1:])}


def _visit(context: BrowserContext, url: str, ready: Callable[[Page], None]) -> float:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    ready(page)
    took = time.perf_counter() - began
    page.close()
    return took


def text_is_there(page: Page) -> None:
    page.wait_for_selector("[data-testid=stMarkdown] p")
    _script_is_over(page)


def table_is_there(page: Page) -> None:
    page.wait_for_selector("[data-testid=stDataFrame] canvas")
    _script_is_over(page)


def curves_are_there(page: Page) -> None:
    page.wait_for_selector(".st-key-pace .lps-plot .main-svg")
    _script_is_over(page)


def points_are_there(page: Page) -> None:
    page.wait_for_selector(".st-key-map .lps-plot .gl-canvas")
    _script_is_over(page)


def _script_is_over(page: Page) -> None:
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")


def cards_are_there(page: Page) -> None:
    """TensorBoard: the list of runs, and the lines of a chart."""
    page.wait_for_selector("runs-data-table tb-data-table-content-row, runs-table-component tr, runs-selector tr")
    page.wait_for_function("() => document.querySelectorAll('line-chart, line-chart-component').length > 0")


def measure_empty(browser: Browser, folder: Path, rounds: int) -> dict:
    """A page of one word: what any Streamlit page costs."""
    app = folder / "empty.py"
    app.write_text('import streamlit as st\n\nst.write("ready")\n')
    with streamlit(app, folder) as address:
        return {"page": "a Streamlit page of one word"} | visits(browser, address, text_is_there, rounds)


def measure_studio(browser: Browser, runs: Path, large: Run, rounds: int) -> Iterator[dict]:
    """One row a page; then how smoothly the points follow a drag."""
    with streamlit(ROOT / "app.py", runs) as address:
        pages = {
            "Runs, all": ("runs", table_is_there),
            "Live, the large run": (f"live?run={large.id}", curves_are_there),
            "Projection, the large run": (f"projection?run={large.id}", points_are_there),
        }
        for name, (path, ready) in pages.items():
            yield {"page": name} | visits(browser, f"{address}/{path}", ready, rounds)
        yield {"page": "Projection, dragged"} | frames(browser, f"{address}/projection?run={large.id}")


def measure_board(browser: Browser, runs: Path, logs: Path, rounds: int) -> dict:
    """TensorBoard on the same numbers, told to show its charts."""
    tensorboard.export(list_runs(runs), logs)
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(logs),
        "--port",
        str(port),
        "--load_fast=false",
    ]
    with server(command, "/data/plugins_listing", port) as address:
        _await_board(address, len(list_runs(runs)))
        return {"page": "TensorBoard, all runs"} | visits(browser, f"{address}/#timeseries", cards_are_there, rounds)


def streamlit(app: Path, runs: Path):
    port = free_port()
    options = ["--server.headless", "true", "--server.port", str(port)]
    command = [sys.executable, "-m", "streamlit", "run", str(app), *options]
    return server(command, "/_stcore/health", port, LPS_RUNS=str(runs))


def _await_board(address: str, count: int) -> None:
    """Until TensorBoard has read all runs, which it does in the background."""
    for _ in range(600):
        with urllib.request.urlopen(f"{address}/data/runs", timeout=60) as answer:
            if len(json.load(answer)) >= count:
                return
        time.sleep(0.5)
    raise RuntimeError("TensorBoard has not read all runs in five minutes")


def frames(browser: Browser, url: str) -> dict[str, float]:
    """Seconds between frames while a box is drawn and the points are zoomed to it."""
    page = browser.new_page(viewport=VIEWPORT)
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    points_are_there(page)
    page.wait_for_timeout(1000)
    page.evaluate(COUNT_FRAMES)
    box = page.locator(".st-key-map .nsewdrag").first.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    for step in range(30):
        page.mouse.move(box["x"] + 100 + 8 * step, box["y"] + 100 + 5 * step)
    page.mouse.up()
    page.wait_for_timeout(500)
    gaps = sorted(page.evaluate("() => window.gaps"))
    page.close()
    return {"frames": len(gaps), "median frame s": gaps[len(gaps) // 2], "longest frame s": gaps[-1]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browser", description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="how many small runs")
    parser.add_argument("--rounds", type=int, default=3, help="visits of every page after the first")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of the browser")
    parser.add_argument("--no-tensorboard", action="store_true", help="leave the reference out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        runs, logs = Path(folder) / "runs", Path(folder) / "logs"
        make_many(runs, options.runs)
        large = make_large(runs, Path(folder) / "pictures.npz")
        browser = playwright.chromium.launch(executable_path=options.chromium, args=ARGUMENTS)
        rows = [measure_empty(browser, Path(folder), options.rounds)]
        rows += measure_studio(browser, runs, large, options.rounds)
        if not options.no_tensorboard:
            rows.append(measure_board(browser, runs, logs, options.rounds))
        note = (
            f"{options.runs} runs of 20 epochs, and one of {large.config().epochs} epochs, 100 classes, 50,000 points."
        )
        print(section("Pages", note, rows))
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
