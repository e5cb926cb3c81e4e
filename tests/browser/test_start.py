"""From the landing page to a run, in a real browser."""

import re
import shutil

import pytest
from playwright.sync_api import expect

from lps.store.run_folders import list_runs

expect.set_options(timeout=30_000)  # a busy machine may need a while; nothing waits longer than it must


@pytest.fixture
def runs(studio):
    """The folder of runs, emptied after the test; none of them trains, since the queue is paused."""
    yield studio.runs
    for run in list_runs(studio.runs):
        shutil.rmtree(run.folder)


def test_a_value_typed_just_before_the_click_is_in_the_run(open_page, runs):
    page = open_page("launch?view=everything")
    page.get_by_label("Temperature").first.focus()
    page.get_by_label("Margin scale").fill("7")
    page.get_by_role("button", name="Launch", exact=True).click()
    expect(page).to_have_url(re.compile(r"/live\?run="))
    (run,) = list_runs(runs)
    assert run.config().hyperparameters["margin_scale"] == 7.0
