"""python -m benchmarks.browser: how long a user waits for a page, compared with TensorBoard on the same numbers.

Each server runs alone, on loopback, and a real Chromium opens its pages, with a profile on disk as users have it, which
caches downloads and compiled code. A page is ready when its content is drawn (the table of runs, the curves, the
points) and its script has ended. Wall time. The first visit of the first page fills the caches of the server.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from playwright.sync_api import BrowserContext, BrowserType, Page, sync_playwright

from benchmarks.made_runs import make_large, make_many
from benchmarks.report import section
from lps.analysis import projection
from lps.interop import tensorboard
from lps.store.run_folders import list_runs
from lps.store.runs import Run
from tests.servers import Server, free_port

PATIENCE_MS = 120_000
SETTLING_MS = 1500  # a person looks at a page; the browser writes its caches meanwhile
ARGUMENTS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
VIEWPORT = {"width": 1280, "height": 900}
COUNT_FRAMES = """() => {
    window.gaps = [];
    let last = performance.now();
    const frame = now => { window.gaps.push((now - last) / 1000); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
}"""


@dataclass(frozen=True)
class Visitor:
    """Opens Chromium anew, each time as somebody who has never been here."""

    chromium: BrowserType
    path: str

    @contextmanager
    def browser(self) -> Iterator[BrowserContext]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            options = {"executable_path": self.path, "args": ARGUMENTS, "viewport": VIEWPORT}
            context = self.chromium.launch_persistent_context(profile, **options)
            try:
                yield context
            finally:
                context.close()


def visits(visitor: Visitor, url: str, ready: Callable[[Page], None], rounds: int) -> dict[str, float]:
    """Seconds from the address to `ready`: the first visit of a new profile, and `rounds` more of the same one."""
    with visitor.browser() as context:
        return _summary([_visit(context, url, ready) for _ in range(rounds + 1)])


def _summary(seconds: list[float]) -> dict[str, float]:
    first, *rest = seconds
    later = sorted(rest)
    return {"first visit s": first, "best later visit s": later[0], "median later visit s": later[len(later) // 2]}


def opened(visitor: Visitor, url: str, rounds: int) -> dict[str, float]:
    """Seconds from a click on "Live" on the page Runs until the chosen run is drawn, each time in a new profile."""
    seconds = []
    for _ in range(rounds + 1):
        with visitor.browser() as context:
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.goto(url)
            table_is_there(page)
            page.wait_for_timeout(SETTLING_MS)
            began = time.perf_counter()
            page.locator("[data-testid=stMain]").get_by_role("link", name="Live").first.click()
            curves_are_there(page)
            seconds.append(time.perf_counter() - began)
    return _summary(seconds)


def measure_many(visitor: Visitor, folder: Path, count: int, rounds: int) -> Iterator[dict]:
    """The page Runs with many runs: of a server that is the first to read them, then of another one."""
    make_many(folder / "many", count)
    pages = dict.fromkeys(
        (f"Runs, {count:,} runs, never read", f"Runs, {count:,} runs, read before"), ("runs", table_is_there)
    )
    yield from _measure_pages(visitor, folder / "many", pages, rounds)


def measure_points(visitor: Visitor, folder: Path, count: int, rounds: int) -> Iterator[dict]:
    """The pages of many pictures, with a PCA of all."""
    from benchmarks.map import make  # which imports this module

    run = make(folder / "points", count)
    projection.compute_map(run, "pca", 1)
    pages = {
        f"Clusters, {count:,} pictures": (f"clusters?run={run.id}", table_is_there),
        f"Review, {count:,} pictures": (f"review?run={run.id}", card_is_there),
        f"Projection, {count:,} pictures": (f"projection?run={run.id}&map=pca", points_are_there),
    }
    yield from _measure_pages(visitor, run.root, pages, rounds)


def _measure_pages(visitor: Visitor, runs: Path, pages: dict, rounds: int) -> Iterator[dict]:
    for name, (path, ready) in pages.items():
        cache = str(runs.parent / "cache")
        with Server.of_app(runs, runs.parent / "server.txt", LPS_CACHE=cache).answering() as server:
            process = psutil.Process(server.process.pid)
            before = sum(process.cpu_times()[:2])
            with visitor.browser() as context:
                seconds = [_visit(context, f"{server.address}/{path}", ready)]
                cpu = sum(process.cpu_times()[:2]) - before
                seconds += [_visit(context, f"{server.address}/{path}", ready) for _ in range(rounds)]
            yield (
                {"page": name}
                | _summary(seconds)
                | {"server CPU s, first visit": cpu, "server MB": round(process.memory_info().rss / 1e6)}
            )


def _visit(context: BrowserContext, url: str, ready: Callable[[Page], None]) -> float:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    ready(page)
    took = time.perf_counter() - began
    page.wait_for_timeout(SETTLING_MS)
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
    page.wait_for_selector(".st-key-map .lps-map[data-rested]")
    _script_is_over(page)


def card_is_there(page: Page) -> None:
    page.wait_for_selector(".lps-deck-choice")
    _script_is_over(page)


def _script_is_over(page: Page) -> None:
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")


def cards_are_there(page: Page) -> None:
    """TensorBoard: the list of runs, and the lines of a chart."""
    page.wait_for_selector("runs-data-table tb-data-table-content-row, runs-table-component tr, runs-selector tr")
    page.wait_for_function("() => document.querySelectorAll('line-chart, line-chart-component').length > 0")


def measure_empty(visitor: Visitor, folder: Path, rounds: int) -> dict:
    """A page of one word: what any Streamlit page costs."""
    app = folder / "empty.py"
    app.write_text('import streamlit as st\n\nst.write("ready")\n')
    with Server.of_app(folder, folder / "empty.txt", script=app).answering() as server:
        return {"page": "a Streamlit page of one word"} | visits(visitor, server.address, text_is_there, rounds)


def measure_studio(visitor: Visitor, runs: Path, large: Run, rounds: int) -> Iterator[dict]:
    """One row a page; then how smoothly the points follow a drag."""
    with Server.of_app(runs, runs.parent / "studio.txt").answering() as server:
        address = server.address
        yield {"page": "Live, opened from Runs"} | opened(visitor, f"{address}/runs?run={large.id}", rounds)
        pages = {
            "Runs, all": ("runs", table_is_there),
            "Live, the large run": (f"live?run={large.id}", curves_are_there),
            "Projection, the large run": (f"projection?run={large.id}", points_are_there),
        }
        for name, (path, ready) in pages.items():
            yield {"page": name} | visits(visitor, f"{address}/{path}", ready, rounds)
        yield {"page": "Projection, dragged"} | frames(visitor, f"{address}/projection?run={large.id}")


def measure_board(visitor: Visitor, runs: Path, logs: Path, rounds: int) -> dict:
    """TensorBoard on the same numbers, told to show its charts."""
    tensorboard.export(list_runs(runs), logs)
    port = free_port()
    options = ["--logdir", str(logs), "--port", str(port), "--load_fast=false"]
    board = Server([sys.executable, "-m", "tensorboard.main", *options], port, logs.parent / "tensorboard.txt")
    with board.answering("/data/plugins_listing"):
        _await_board(board.address, len(list_runs(runs)))
        seconds = visits(visitor, f"{board.address}/#timeseries", cards_are_there, rounds)
        return {"page": "TensorBoard, all runs"} | seconds


def _await_board(address: str, count: int) -> None:
    """Until TensorBoard has read all runs, which it does in the background."""
    for _ in range(600):
        with urllib.request.urlopen(f"{address}/data/runs", timeout=60) as answer:
            if len(json.load(answer)) >= count:
                return
        time.sleep(0.5)
    raise RuntimeError("TensorBoard has not read all runs in five minutes")


def frames(visitor: Visitor, url: str) -> dict[str, float]:
    """Seconds between frames while the points are dragged."""
    with visitor.browser() as context:
        return _frames(context.new_page(), url)


def _frames(page: Page, url: str) -> dict[str, float]:
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    points_are_there(page)
    page.wait_for_timeout(1000)
    page.evaluate(COUNT_FRAMES)
    box = page.locator(".st-key-map .lps-map-stage").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    for step in range(30):
        page.mouse.move(box["x"] + 100 + 8 * step, box["y"] + 100 + 5 * step)
    page.mouse.up()
    page.wait_for_timeout(500)
    gaps = sorted(page.evaluate("() => window.gaps"))
    return {"frames": len(gaps), "median frame s": gaps[len(gaps) // 2], "longest frame s": gaps[-1]}


def _measure_all(visitor: Visitor, folder: Path, runs: Path, large: Run, options) -> Iterator[dict]:
    yield measure_empty(visitor, folder, options.rounds)
    yield from measure_studio(visitor, runs, large, options.rounds)
    if not options.no_tensorboard:
        yield measure_board(visitor, runs, folder / "logs", options.rounds)
    if options.many:
        yield from measure_many(visitor, folder, options.many, options.rounds)
    if options.points:
        yield from measure_points(visitor, folder, options.points, options.rounds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browser", description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="how many small runs")
    parser.add_argument("--rounds", type=int, default=4, help="visits of every page after the first")
    parser.add_argument("--many", type=int, metavar="RUNS", help="also the page Runs with so many runs")
    parser.add_argument("--points", type=int, metavar="PICTURES", help="also a run with so many pictures")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of the browser")
    parser.add_argument("--no-tensorboard", action="store_true", help="leave the reference out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        runs = Path(folder) / "runs"
        make_many(runs, options.runs)
        large = make_large(runs, Path(folder) / "pictures.npz")
        visitor = Visitor(playwright.chromium, options.chromium)
        rows = []
        for row in _measure_all(visitor, Path(folder), runs, large, options):
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
        note = (
            f"{options.runs} runs of 20 epochs, and one of {large.config().epochs} epochs, 100 classes, 50,000 points."
        )
        print(section("Pages", note, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
