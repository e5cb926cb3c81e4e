"""Name, Review and Map of 100,000 pictures in Chromium, with bounded memory of the server and the page.

`LPS_TEST_PICTURES=1000000 python -m pytest tests/browser/test_large_browser.py` runs them with another number.
"""

import os
import re

import psutil
import pytest
from playwright.sync_api import expect

from benchmarks.map import heap_mb, make
from lps.analysis import naming, projection
from lps.scheduler import queue
from tests.browser.conftest import PATIENCE_MS, come_to_rest, kept_tab, wait_for_address, wait_for_run
from tests.servers import Server

COUNT = int(os.environ.get("LPS_TEST_PICTURES", 100_000))
# resident memory of the server, and the page's objects; measured: 404 and 33, with 1,000,000 pictures 786 and 60
SERVER_MB, PAGE_MB = 600 + COUNT / 1000, 100


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """(a run of so many pictures with a map of all, a server of its own)."""
    place = tmp_path_factory.mktemp("large")
    run = make(place / "runs", COUNT)
    queue.set_paused(run.root, True)
    projection.compute_map(run, "pca", 1)
    own = {name: str(place / name.lower()) for name in ("LPS_CACHE", "LPS_DECISIONS", "LPS_PICTURES")}
    with Server.of_app(run.root, place / "log.txt", **own).answering() as server:
        yield run, server


@pytest.fixture
def open_page(large, profile):
    """open_page("clusters?epoch=1") -> the page of the run; it may show no exception and throw no error."""
    run, server = large
    page, errors = kept_tab(profile), []
    page.set_viewport_size({"width": 1280, "height": 900})
    page.set_default_timeout(2 * PATIENCE_MS)

    def fail(error) -> None:
        errors.append(str(error))

    def open_one(path: str):
        page.goto(f"{server.address}/{path}{'&' if '?' in path else '?'}run={run.id}")
        wait_for_run(page)
        return page

    page.on("pageerror", fail)
    yield open_one
    page.remove_listener("pageerror", fail)
    assert errors == [] and not page.locator("[data-testid=stException]").count()
    server_mb = psutil.Process(server.process.pid).memory_info().rss / 1e6
    page_mb = heap_mb(profile.new_cdp_session(page))
    assert server_mb < SERVER_MB and page_mb < PAGE_MB, (server_mb, page_mb)


def test_a_cluster_opens_and_gets_a_name(large, open_page):
    page = open_page("clusters")
    box = page.locator(".st-key-clusters_table canvas").first.bounding_box()
    page.mouse.click(box["x"] + 16, box["y"] + 36 + 35 * 3 + 17)
    wait_for_address(page, "cluster=")
    cluster = int(re.search(r"cluster=(\d+)", page.url)[1])
    page.get_by_role("heading", name=f"Cluster {cluster}").wait_for()
    come_to_rest(page)  # for a frame, the field of the cluster before is there, too
    page.get_by_label("Name", exact=True).fill("zebras")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Cluster {cluster} · zebras").wait_for()
    assert naming.naming_of_epoch(naming.read_entries(large[0]), 1).names == {cluster: "zebras"}


def test_a_key_decides_about_a_picture(large, open_page):
    page = open_page("review")
    page.wait_for_selector(".lps-deck-choice")
    page.keyboard.press("2")
    expect(page.locator(".lps-deck-counts")).to_contain_text(re.compile("^1 decided.*All saved"))
    assert len(naming.naming_of_epoch(naming.read_entries(large[0]), 1).moved) == 1


def test_a_box_on_the_map_selects_its_pictures(open_page):
    page = open_page("projection?map=pca")
    page.wait_for_selector(".st-key-map .lps-map[data-rested]")
    assert page.evaluate("() => document.querySelector('.lps-map').lpsMap.data.ids.length") == COUNT
    page.locator(".st-key-map [data-tool=box]").click()
    area = page.locator(".st-key-map .lps-map-stage").bounding_box()
    page.mouse.move(area["x"] + 2, area["y"] + 2)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] - 2, steps=5)
    page.mouse.up()
    title = page.get_by_role("heading", name="selected images").text_content()
    chosen = page.evaluate("() => document.querySelector('.lps-map').lpsMap.mask.filter(Boolean).length")
    assert COUNT / 10 < chosen < COUNT and f"{chosen:,}" in title
