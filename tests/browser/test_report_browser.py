"""A report in Chromium, from disk and without a network: its charts in both themes, on a phone and on paper."""

from datetime import UTC, datetime

import pytest

from lps.charts.group_tables import Scoring
from lps.report import run_report
from tests.patience import until
from tests.sample_runs import make_run
from tests.shares import in_turn

SCORING = Scoring("orca", "last", "default")
NOW = datetime(2026, 1, 2, tzinfo=UTC)
HOSTILE = '<img src="https://x.example/a.png" onerror="window.fired = 1"><script>window.fired = 1</script>'


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    runs = [make_run(root, epochs=4, name=HOSTILE), make_run(root, epochs=4, settings={"use_margin": False})]
    paths = {"one": root / "one.html", "several": root / "several.html"}
    paths["one"].write_bytes(run_report.encode_report(run_report.render_run_report(runs[:1], SCORING, NOW)))
    paths["several"].write_bytes(run_report.encode_report(run_report.render_run_report(runs, SCORING, NOW)))
    return paths


@pytest.fixture
def open_file(open_document, reader):
    """Opens a report; no text of it may become a script."""
    yield lambda path, theme="light", width=1280: open_document(path, theme=theme, width=width)
    assert reader.evaluate("window.fired") is None


DRAWN = (
    "[...document.querySelectorAll('.chart')].every(c => c.querySelector('.trace, .heatmaplayer image, .bars path'))"
)


@pytest.mark.parametrize("name, count", in_turn([("one", 7), ("several", 4)], 2))
@pytest.mark.parametrize("theme, width", [("light", 1280), ("dark", 390)])
def test_all_charts_are_drawn(open_file, files, name, count, theme, width):
    page = open_file(files[name], theme, width)
    until(lambda: page.evaluate(DRAWN), 30, 0.05)
    assert page.locator(".chart").count() == count
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    widths = page.eval_on_selector_all(".chart .main-svg", "all => all.map(svg => svg.getBoundingClientRect().right)")
    assert max(widths) <= width


def test_charts_follow_the_theme(open_file, files):
    page = open_file(files["one"])
    until(lambda: page.evaluate(DRAWN), 30, 0.05)
    colours = "new Set([...document.querySelectorAll('.chart .js-line')].map(line => line.style.stroke))"
    assert page.evaluate(f"{colours}.has('rgb(31, 111, 180)')")
    page.emulate_media(color_scheme="dark")
    until(lambda: page.evaluate(f"{colours}.has('rgb(90, 169, 230)') && !{colours}.has('rgb(31, 111, 180)')"), 30, 0.05)


def test_paper_has_light_charts_that_fit_and_all_that_was_folded(open_file, files):
    page = open_file(files["several"], "dark")
    until(lambda: page.evaluate(DRAWN), 30, 0.05)
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    widths = page.eval_on_selector_all(".chart .main-svg", "all => all.map(svg => svg.getBoundingClientRect().width)")
    assert max(widths) <= 718  # A4 less its margins, at 96 dots an inch less rounding
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert len(page.pdf(format="A4")) > 10_000
