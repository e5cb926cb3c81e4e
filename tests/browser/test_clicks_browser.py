"""Two and three quick clicks on Launch, in a real browser, start one run.

LPS_CLICKS=100 python -m pytest tests/browser/test_clicks_browser.py    as many trials; 4 without it
"""

import os
import re
import shutil

import pytest
from playwright.sync_api import expect

from lps.store.run_folders import list_runs

TRIALS = int(os.environ.get("LPS_CLICKS", "4"))


@pytest.mark.turn(0, 2)
@pytest.mark.timeout(120 + 60 * TRIALS)
def test_two_and_three_clicks_make_what_one_click_makes(open_page, studio):
    """The queue is paused, so that nothing trains; whether a run starts once is in tests/reliability."""
    for trial in range(TRIALS):
        page = open_page("" if trial % 2 else "launch")
        name, to, count = ("Start the demo", "pace", 2) if trial % 2 else ("Launch", "live", 1)
        button = page.get_by_role("button", name=name, exact=True)
        button.scroll_into_view_if_needed()
        box = button.bounding_box()
        for _ in range(2 + trial // 2 % 2):
            page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            page.wait_for_timeout(10 * (trial % 9))
        expect(page).to_have_url(re.compile(rf"/{to}\?run="), timeout=30_000)
        page.wait_for_timeout(500)
        made = list_runs(studio.runs)
        assert len(made) == count
        for run in made:
            assert run.id in page.url and run.desired().attempt == 1 and run.state().name == "queued"
        page.close()
        for run in made:
            shutil.rmtree(run.folder)
