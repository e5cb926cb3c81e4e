"""python -m benchmarks.paint: when every page first shows something, when it is ready, and how much its layout shifts.

A real Chromium opens each page by its address, with a profile that knows the app, as users have it. Paint and layout
shift are the browser's own measures (first-contentful-paint, and the sum of `layout-shift` entries without recent
input). Content counts as shown when the first element of the page's own exists, and the page is ready when its script
has ended. Wall time, the median of some visits.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright

from benchmarks.browser import PATIENCE_MS, SETTLING_MS, Visitor
from benchmarks.made_runs import make_many
from benchmarks.report import section
from lps.ui.server import menu
from tests.servers import Server

WATCH = """() => {
    window.shifts = [];
    const name = node => node?.closest?.('[data-testid]')?.dataset.testid ?? node?.nodeName ?? 'gone';
    new PerformanceObserver(list => list.getEntries().forEach(entry => {
        if (!entry.hadRecentInput)
            window.shifts.push([entry.value, [...new Set(entry.sources.map(source => name(source.node)))].join(' ')]);
    })).observe({type: 'layout-shift', buffered: true});
    const seen = new MutationObserver(() => {
        if (document.querySelector('[data-testid=stMain] [data-testid=stElementContainer]')) {
            window.content = performance.now();
            seen.disconnect();
        }
    });
    seen.observe(document, {childList: true, subtree: true});
}"""
TOLD = """() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN,
    content: window.content ?? NaN,
    shifts: window.shifts,
})"""
HEIGHT = 900
OVER = "[data-testid=stApp][data-test-script-state=notRunning]"


def look(context: BrowserContext, address: str, width: int) -> dict[str, object]:
    """One visit in a window of so many pixels: what has jumped, and milliseconds to the first paint, to content and
    until the script is over."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.add_init_script(f"({WATCH})()")
    page.goto(address, wait_until="commit")
    page.wait_for_function("() => window.content !== undefined")
    page.wait_for_selector(OVER)
    ready = page.evaluate("() => performance.now()")
    page.wait_for_timeout(SETTLING_MS)
    told = page.evaluate(TOLD) | {"ready": ready}
    page.close()
    return told


def summary(name: str, visits: list[dict]) -> dict[str, object]:
    """The row of a page: medians in seconds and of the sums of shifts, and what moved most."""
    worst = max((shift for visit in visits for shift in visit["shifts"]), default=(0, ""))
    medians = {key: statistics.median(visit[key] for visit in visits) / 1000 for key in ("paint", "content", "ready")}
    row = {"page": name} | {f"{key} s": round(value, 2) for key, value in medians.items()}
    shift = statistics.median(sum(value for value, _ in visit["shifts"]) for visit in visits)
    return row | {"layout shift": round(shift, 3), "what moved most": worst[1]}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paint", description=__doc__)
    parser.add_argument("--runs", type=int, default=12, help="how many small runs there are")
    parser.add_argument("--rounds", type=int, default=3, help="visits of every page after the first")
    parser.add_argument("--width", type=int, default=1280, help="pixels of the window")
    parser.add_argument("--only", nargs="*", help="pages, by the names of their files")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        make_many(Path(place) / "runs", asked.runs, is_stored=True)
        with (
            Server.of_app(Path(place) / "runs", Path(place) / "log.txt").answering() as server,
            sync_playwright() as playwright,
            Visitor(playwright.chromium, asked.chromium).browser() as context,
        ):
            for entry in menu.read_entries():
                name = entry.path.stem
                if asked.only and name not in asked.only:
                    continue
                address = f"{server.address}/{'' if name == 'home' else name}"
                rows.append(summary(name, [look(context, address, asked.width) for _ in range(asked.rounds + 1)][1:]))
    print(section("First paint and layout shift", f"{asked.runs} runs of 20 epochs, {asked.width} pixels.", rows))


if __name__ == "__main__":
    main()
