"""Real browser sessions that draw pages at the same time, each in a context of its own of one Chromium."""

import asyncio
import shutil
import time
from pathlib import Path

from tests import sample_runs
from tests.browser.conftest import ARGUMENTS, NAMES
from tests.reliability.visits import Usage, usage
from tests.servers import Server
from tests.visiting import PAGES

LIMIT_MS = 240_000  # for a page while all others are drawn
READY = "[data-testid=stApp][data-test-script-state=notRunning]"
EMPTY = "() => document.querySelectorAll('[data-testid=stMain] [data-testid=stElementContainer]').length < 2"


def draw_at_once(folder: Path, visitors: int, pages: int) -> tuple[list[float], Usage, list[str]]:
    """Seconds for each page of each session, what the server held at the end, and what is wrong."""
    runs = [sample_runs.make_run(folder / "runs", state) for state in ("finished", "finished", "stopped")]
    with Server.of_app(folder / "runs", folder / "log.txt", LPS_CACHE=str(folder / "cache")).answering() as server:
        seconds, wrong = asyncio.run(_visit_all(server.address, visitors, pages, [run.id for run in runs[:2]]))
        held = usage(server.process.pid)
    if "Traceback" in (folder / "log.txt").read_text(errors="replace"):
        wrong.append(f"a traceback in the log: {(folder / 'log.txt').read_text(errors='replace')[-500:]}")
    return seconds, held, wrong


async def _visit_all(address: str, visitors: int, pages: int, runs: list[str]) -> tuple[list[float], list[str]]:
    from playwright.async_api import async_playwright

    seconds, wrong = [], []
    async with async_playwright() as playwright:
        path = next(found for name in NAMES if (found := shutil.which(name)))
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        query, names = "&".join(f"run={run}" for run in runs), PAGES * 2
        parts = [names[number % len(PAGES) :][:pages] for number in range(visitors)]
        jobs = [_visit(browser, address, part, query, seconds, wrong) for part in parts]
        await asyncio.gather(*jobs)
        await browser.close()
    return seconds, wrong


async def _visit(browser, address: str, names: list[str], query: str, seconds: list[float], wrong: list[str]) -> None:
    """One session goes through some pages."""
    context = await browser.new_context()
    page = await context.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for name in names:
        began = time.monotonic()
        try:
            await page.goto(f"{address}/{'' if name == 'home' else name}?{query}")
            await page.wait_for_selector(READY)
            await page.wait_for_timeout(300)
            await page.wait_for_selector(READY)
            seconds.append(time.monotonic() - began)
            if await page.locator("[data-testid=stException]").count():
                wrong.append(f"{name}: an exception")
            if await page.evaluate(EMPTY):
                wrong.append(f"{name}: nothing was drawn")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
    await context.close()
