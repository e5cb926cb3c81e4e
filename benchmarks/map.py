"""python -m benchmarks.map: maps of 10^4 to 10^6 points, from the features to frames in a browser.

A made-up run: vectors of 128 numbers around 100 centres, whose classes are predicted with 5 % errors. `layout` computes
UMAP as the page does (`python -m lps project`), measured as in `benchmarks.scale`. `browser` opens the page with that
map in Chromium with software rendering, 1440 x 900 pixels:

    ready s         from the address to the first complete picture
    sent MB         bytes of all answers and of the websocket
    pan, zoom fps   frames per second while the map is dragged to and fro, or the wheel turns, for three seconds
    longest ms      between two of these frames
    lasso s         from the end of a lasso around most points to the heading with their number
    heap MB         of the page's JavaScript, arrays included, after all this; renderer MB: of its process, resident
    server MB       of the server, resident

    python -m benchmarks.map                     10^4, 10^5, 10^6
    python -m benchmarks.map --counts 1000000 --pca    with PCA in place of UMAP
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from playwright.sync_api import CDPSession, Page, sync_playwright

from benchmarks.browser import ARGUMENTS, COUNT_FRAMES
from benchmarks.report import section
from benchmarks.scale import measure
from lps.analysis.projection import unit_rows
from lps.data.classes import Classes
from lps.data.split import Split
from lps.settings.config import configure
from lps.store import snapshots
from lps.store.run_folders import create_run
from lps.store.runs import Run
from lps.store.snapshots import Snapshot
from tests.servers import Server

_WIDTH, _CENTRES, _SEEN = 128, 100, 50
_DRAG_S, _PATIENCE_MS = 3, 300_000
_MAP = ".st-key-map .lps-map"


def make(root: Path, count: int) -> Run:
    """A run with one snapshot of `count` unlabeled images and 1,000 labeled ones."""
    random = np.random.default_rng(0)
    run = create_run(root, configure({"dataset": "digits"}), f"{count:,} points")
    truth = random.integers(0, _CENTRES, count + 1000)
    truth[count:] %= _SEEN
    names = tuple(f"class {i}" for i in range(_CENTRES))
    split = Split(
        np.arange(count, count + 1000), np.arange(count), Classes(_SEEN, _CENTRES), np.arange(_CENTRES), names, 0
    )
    centres = random.normal(0, 0.4, (_CENTRES, _WIDTH)).astype(np.float32)
    features = np.empty((count, _WIDTH), np.float16)
    for start in range(0, count, 50_000):
        own = centres[truth[start : min(start + 50_000, count)]]
        features[start : start + len(own)] = unit_rows(own + random.normal(0, 0.8, own.shape).astype(np.float32))
    wrong = random.random(count) < 0.05
    predicted = np.where(wrong, random.integers(0, _CENTRES, count), truth[:count])
    run.snapshots.mkdir()
    snapshots.write_split(run.folder, split, truth)
    confidence = np.where(wrong, random.uniform(0.2, 0.7, count), random.uniform(0.5, 1, count))
    index = np.arange(count, dtype=np.int32)
    stored = Snapshot(predicted.astype(np.int16), confidence.astype(np.float16), features, index)
    snapshots.write_snapshot(run.snapshots, 1, stored)
    return run


def layout(run: Run, method: str) -> dict[str, float]:
    command = [sys.executable, "-m", "lps", "project", str(run.folder), "--method", method]
    return measure(command, dict(os.environ))


# ---------------------------------------------------------------------------------------------------- the browser


def look(root: Path, run: Run, method: str, chromium: str, pictures: Path | None) -> dict[str, float]:
    log = root.parent / "server.txt"
    with Server.of_app(root, log).answering() as server, sync_playwright() as playwright:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            options = {"executable_path": chromium, "args": ARGUMENTS, "viewport": {"width": 1440, "height": 900}}
            context = playwright.chromium.launch_persistent_context(profile, **options)
            page = context.new_page()
            page.set_default_timeout(_PATIENCE_MS)
            found = _measure_page(
                page, f"{server.address}/projection?run={run.id}&map={method}&color=predicted", pictures
            )
            context.close()
        return found | {"server MB": _resident(server.process.pid)}


def _measure_page(page: Page, address: str, pictures: Path | None) -> dict[str, float]:
    client = page.context.new_cdp_session(page)
    client.send("Network.enable")
    sent = [0]
    client.on("Network.loadingFinished", lambda event: sent.append(event["encodedDataLength"]))
    client.on("Network.webSocketFrameReceived", lambda event: sent.append(len(event["response"]["payloadData"])))
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector(f"{_MAP}[data-rested]")
    found = {"ready s": time.perf_counter() - began, "sent MB": sum(sent) / 1e6}
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.wait_for_timeout(1000)
    if pictures:
        page.screenshot(path=pictures / "map.png")
    found |= _frames(page, "pan", _drag) | _frames(page, "zoom", _turn)
    if pictures:
        page.screenshot(path=pictures / "map-close.png")
    page.locator(f"{_MAP} [data-tool=whole]").click()
    page.wait_for_timeout(500)
    found["lasso s"] = _lasso(page)
    if pictures:
        page.wait_for_timeout(1500)
        page.screenshot(path=pictures / "map-lasso.png")
    return found | _memory(client)


def _middle(page: Page) -> tuple[float, float]:
    box = page.locator(f"{_MAP}-stage").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def _frames(page: Page, name: str, act) -> dict[str, float]:
    page.evaluate(COUNT_FRAMES)
    x, y = _middle(page)
    page.mouse.move(x, y)
    page.evaluate("() => { window.gaps.length = 0; }")
    act(page, x, y)
    gaps = page.evaluate("() => window.gaps")
    return {f"{name} fps": len(gaps) / sum(gaps), f"{name} longest ms": round(1000 * max(gaps))}


def _drag(page: Page, x: float, y: float) -> None:
    page.mouse.down()
    end, step = time.perf_counter() + _DRAG_S, 0
    while time.perf_counter() < end:
        step += 1
        page.mouse.move(x + 150 * np.sin(step / 9), y + 90 * np.cos(step / 7))
    page.mouse.up()


def _turn(page: Page, x: float, y: float) -> None:
    end, step = time.perf_counter() + _DRAG_S, 0
    while time.perf_counter() < end:
        step += 1
        page.mouse.wheel(0, -40 if step % 60 < 40 else 40)


def _lasso(page: Page) -> float:
    page.locator(f"{_MAP} [data-tool=lasso]").click()
    x, y = _middle(page)
    corners = [(x + 330 * np.cos(a), y + 170 * np.sin(a)) for a in np.linspace(0, 2 * np.pi, 40)]
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner)
    began = time.perf_counter()
    page.mouse.up()
    page.get_by_role("heading", name="selected images").wait_for()
    return time.perf_counter() - began


def _memory(client: CDPSession) -> dict[str, int]:
    """Megabytes of the page's JavaScript, and of the largest renderer that this browser has."""
    return {"heap MB": heap_mb(client), "renderer MB": _largest_renderer()}


def heap_mb(client: CDPSession) -> int:
    """Megabytes of the page's JavaScript objects and arrays, after garbage collection."""
    client.send("HeapProfiler.collectGarbage")
    heap = client.send("Runtime.getHeapUsage")
    return round((heap["usedSize"] + heap.get("backingStorageSize", 0)) / 1e6)


def _largest_renderer() -> int:
    """Megabytes of the largest renderer among the processes that this one has begun."""
    parents, renderers = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"--type=renderer" in (folder / "cmdline").read_bytes():
                renderers.append(pid)
    found = [0]
    for pid in renderers:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            found.append(_resident(pid))
    return max(found)


def _resident(pid: int) -> int:
    """Megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.map", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--pca", action="store_true", help="PCA in place of UMAP")
    parser.add_argument("--chromium", default=shutil.which("chromium"), help="path of the browser")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the page")
    options = parser.parse_args()
    method, layouts, browsers = "pca" if options.pca else "umap", [], []
    for count in options.counts:
        with tempfile.TemporaryDirectory() as place:
            root = Path(place) / "runs"
            run = make(root, count)
            layouts.append({"points": count} | layout(run, method))
            print(layouts[-1], file=sys.stderr, flush=True)
            browsers.append({"points": count} | look(root, run, method, options.chromium, options.pictures))
            print(browsers[-1], file=sys.stderr, flush=True)
    print(section("Layout", f"{method}, {_WIDTH} features, {os.cpu_count()} cores.", layouts))
    print(section("Browser", "Chromium with software rendering.", browsers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
