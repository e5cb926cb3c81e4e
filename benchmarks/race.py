"""python -m benchmarks.race RUN [RUN [RUN]]: how smooth the race is in a slow browser; with --picture README's picture.

The file of the race is opened in Chromium from the disk, with the processor throttled for the page. Chromium throttles
by busy waiting, which counts as processor time. On a busy machine read only the processor time.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from lps.race import race_document
from lps.store.run_folders import find_run

ARGUMENTS = ["--no-sandbox", "--use-gl=swiftshader", "--enable-unsafe-swiftshader"]
TRACED = ["devtools.timeline"]
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def main() -> None:
    options = _options()
    runs = [find_run(options.runs, name) for name in options.ids]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = race_document.write(runs, Path(folder) / "race.html")
        found = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        if options.picture:
            take(browser, path, options.picture, options.at)
        else:
            measure(browser, path, options.throttle, options.seconds)
        browser.close()


def measure(browser: Browser, path: Path, throttle: float, seconds: float) -> None:
    """Say how long frames take, of a race that plays for `seconds` at a processor `throttle` times as slow."""
    page, trace = opened(browser, throttle), path.with_name("trace.json")
    browser.start_tracing(page=page, path=trace, categories=TRACED)
    page.goto(f"file://{path}")
    page.wait_for_timeout(1000 * seconds)
    paint = page.evaluate(PAINT)
    browser.stop_tracing()
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    frames = [event for event in events if event["name"] == "FireAnimationFrame" and event["ph"] == "X"]
    said = f"{path.stat().st_size / 1000:.0f} kB, throttled {throttle:g}x"
    print(f"{said}, first paint after {paint:.0f} ms by the clock")
    print(f"drawing a frame, processor time: {_spread([frame['tdur'] / 1000 for frame in frames])}")
    print(f"between two frames, by the clock: {_spread([(b['ts'] - a['ts']) / 1000 for a, b in pairwise(frames)])}")


def _spread(values: list[float]) -> str:
    """In milliseconds."""
    high = sorted(values)[int(0.99 * len(values))]
    return f"median {statistics.median(values):.1f} ms, 99 % {high:.1f}, worst {max(values):.1f}, n = {len(values)}"


def opened(browser: Browser, throttle: float = 1) -> Page:
    """An empty page of 1920 x 1080 points."""
    page = browser.new_context(viewport={"width": 1920, "height": 1080}).new_page()
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": throttle})
    return page


def take(browser: Browser, path: Path, to: Path, at: str) -> None:
    """A picture of the race at rest."""
    page = opened(browser)
    page.goto(f"file://{path}#at={at}")
    page.wait_for_timeout(500)
    page.screenshot(path=to)
    print(to)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="+", metavar="RUN")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument("--throttle", type=float, default=4, help="how many times as slow the processor is")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--picture", type=Path, help="write a picture instead")
    parser.add_argument("--at", default="1", help="the epoch of the picture")
    return parser.parse_args()


if __name__ == "__main__":
    main()
