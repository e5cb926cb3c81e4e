"""Runs that a user filters, groups and draws: highlights, downloads and saved state."""

import pytest

from lps.ui.shared.plot import LABELS
from tests.browser.conftest import come_to_rest, wait_for_run
from tests.patience import until
from tests.sample_runs import make_run, rewritten


@pytest.fixture(scope="module")
def runs(studio):
    settings = [{"margin_scale": margin} for margin in (0.0, 5.0, 10.0)]
    runs = [make_run(studio.runs, epochs=4, seed=seed, settings=s) for s in settings for seed in range(3)]
    rewritten(runs[0], lambda kind, values: values | ({"accuracy/novel": TIE} if kind == "eval" else {}))
    return runs


TIE = 0.7625  # in percent as near to 76.2 as to 76.3
BOARD = "charts?chart=y%3Daccuracy/novel&chart=y%3Daccuracy/seen"
BOTH = ("board_0", "board_1")


def plot(key: str) -> str:
    return f".st-key-{key} .lps-plot"


def open_board(open_page, path=BOARD, **options):
    page = open_page(path, **options)
    for key in BOTH:
        page.wait_for_selector(f"{plot(key)} .main-svg")
    page.wait_for_selector(f"{plot('board_0')} .lps-plot-ends span")
    wait_for_run(page)
    return page


def row(page, key: str):
    return page.locator(f".lps-lines li[data-key='{key}']")


def lit(page, key: str) -> None:
    """Until the line is the one that is marked, in both charts and in the list; "" for none."""
    page.wait_for_function(
        """([plots, key]) => plots.every(plot => document.querySelector(plot).dataset.lit === key)
            && [...document.querySelectorAll(".lps-lines-lit")].map(row => row.dataset.key).join() === key""",
        arg=[[plot(one) for one in BOTH], key],
    )


def shown(page, key: str) -> list[str]:
    """The lines that a chart shows, in the order of their keys."""
    lines = "plot => plot._fullData.filter(t => t.meta?.end && t.visible === true)"
    return page.eval_on_selector(plot(key), f"{lines}.map(t => t.legendgroup).sort()")


def test_labels_stand_as_near_to_their_lines_as_can_be_without_overlap(reader):
    """The placement alone, in the browser's own JavaScript."""

    def heights(wanted, gap=10, low=0, high=100, most="undefined"):
        call = f"{LABELS}\nlabelHeights({wanted}, {gap}, {low}, {high}, {most})"
        return reader.evaluate(f"() => {{ {call.replace('labelHeights([', 'return labelHeights([')} }}")

    assert heights([]) == []
    assert heights([50, 20]) == [50, 20]
    assert heights([50, 50]) == [45, 55]
    assert heights([0, 0, 99]) == [0, 10, 99], "inside the chart"
    assert heights([40, 42, 80]) == [36, 46, 80], "only those that are too near move"
    many = heights([50 + place / 100 for place in range(30)])
    placed = sorted(height for height in many if height is not None)
    assert len(placed) == 11 and all(b - a >= 10 - 1e-9 for a, b in zip(placed, placed[1:]))
    assert heights([0] * 9, high=200) == list(range(0, 90, 10)), "few lines keep their labels"
    assert heights([0] * 13, high=200).count(None) == 6, "of many, none stands far from its line"
    near = heights([50] * 11, most=20)
    assert sum(height is not None for height in near) == 5 and all(abs(h - 50) <= 20 for h in near if h is not None)


def test_lines_have_labels_at_their_ends_that_neither_overlap_nor_are_cut(runs, open_page):
    page = open_board(open_page)

    def are_in_place(key: str) -> bool:
        box, spans = page.locator(plot(key)).bounding_box(), page.locator(f"{plot(key)} .lps-plot-ends span")
        if abs(page.locator(f"{plot(key)} .main-svg").first.bounding_box()["width"] - box["width"]) >= 1:
            return False
        labels = [label.bounding_box() for label in spans.all()]
        if len(labels) < 5 or None in labels:
            return False
        tops = sorted(label["y"] for label in labels)
        is_within = all(label["x"] + label["width"] <= box["x"] + box["width"] + 0.5 for label in labels)
        return is_within and all(below - above >= 14.9 for above, below in zip(tops, tops[1:]))

    for width in (1280, 390, 1920, "without sidebar"):
        if width == "without sidebar":
            page.get_by_test_id("stSidebarHeader").hover()
            page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
        else:
            page.set_viewport_size({"width": width, "height": 900})
        come_to_rest(page)
        for key in BOTH:
            assert page.locator(f"{plot(key)} .legend").count() == 0
            until(lambda key=key: are_in_place(key), pause_s=0.1)  # a chart follows a new width some frames later
    assert "C=5, seed 1" in page.locator(f"{plot('board_0')} .lps-plot-ends span").all_inner_texts()


def test_the_pointer_on_a_line_or_a_row_marks_the_run_everywhere_without_the_server(runs, open_page):
    sent = []
    page = open_board(open_page, width=1920)
    page.on("request", lambda request: sent.append(request.url))
    page.evaluate("""() => {
        window.states = [];
        const watch = { attributeFilter: ["data-test-script-state"] };
        new MutationObserver(() => window.states.push(1)).observe(document.querySelector("[data-testid=stApp]"), watch);
    }""")
    row(page, runs[4].id).hover()
    lit(page, runs[4].id)
    for key in BOTH:
        faded = page.locator(f"{plot(key)} .scatterlayer .trace[style*='opacity: 0.12']").count()
        assert faded == len(runs) - 1
    page.mouse.move(2, 2)
    lit(page, "")
    box = page.locator(f"{plot('board_1')} .nsewdrag").bounding_box()
    x, y, epoch, value = page.eval_on_selector(
        plot("board_1"),
        """plot => {
            const line = plot._fullData.filter(trace => trace.meta?.end)[0];
            const { xaxis, yaxis } = plot._fullLayout;
            return [xaxis.d2p(line.x[2]), yaxis.d2p(line.y[2]), line.x[2], line.y[2]];
        }""",
    )
    for shift in (4, 0):
        page.mouse.move(box["x"] + x + shift, box["y"] + y)
    page.wait_for_selector(".lps-lines-lit")
    key = page.locator(".lps-lines-lit").get_attribute("data-key")
    lit(page, key)
    assert page.locator(".lps-lines-head span").inner_text() == f"Seen accuracy, epoch {epoch}"
    assert row(page, key).locator(".lps-lines-value").inner_text() == f"{100 * value:.3g} %"
    assert page.locator(f"{plot('board_0')} .lps-plot-hand[data-at='{epoch}']").is_visible()
    page.mouse.move(2, 2)
    lit(page, "")
    assert page.locator(".lps-lines-head span").inner_text() == "Novel accuracy, last epoch"
    assert row(page, runs[0].id).locator(".lps-lines-value").inner_text() == "76.2 %", "as on Runs"
    assert page.evaluate("window.states") == [] and sent == []


def test_the_name_at_the_pointer_is_not_written_over_the_labels_of_lines(runs, open_page):
    page = open_board(open_page, width=1440)
    point = """plot => {
        const line = plot._fullData.filter(trace => trace.meta?.end)[0];
        const { xaxis, yaxis } = plot._fullLayout;
        return [xaxis.d2p(line.x[2]), yaxis.d2p(line.y[2])];
    }"""
    x, y = page.eval_on_selector(plot("board_0"), point)
    box = page.locator(f"{plot('board_0')} .nsewdrag").bounding_box()
    for shift in (4, 0):
        page.mouse.move(box["x"] + x + shift, box["y"] + y)
    visibilities = f"""() => {{
        const plot = document.querySelector("{plot("board_0")}");
        const text = plot.querySelector(".hoverlayer .hovertext")?.getBoundingClientRect();
        if (!text) return [];
        return [...plot.querySelectorAll(".lps-plot-ends span")].map(label => {{
            const {{ left, top, bottom }} = label.getBoundingClientRect();
            return [left < text.right && top < text.bottom && bottom > text.top, label.style.visibility === "hidden"];
        }});
    }}"""
    until(lambda: any(is_covered for is_covered, _ in page.evaluate(visibilities)))
    assert all(is_covered == is_hidden for is_covered, is_hidden in page.evaluate(visibilities))
    page.mouse.move(2, 2)
    page.wait_for_function(
        """plot => ![...document.querySelectorAll(`${plot} .lps-plot-ends [style*='hidden']`)].length""",
        arg=plot("board_0"),
    )


def test_an_eye_hides_a_run_in_all_charts_and_a_pin_keeps_its_colour_in_the_address(runs, open_page):
    page, gone, kept = open_board(open_page), runs[2].id, runs[5].id
    color = "([plot, key]) => document.querySelector(plot)._fullData.find(t => t.legendgroup === key).line.color"
    before = page.evaluate(color, [plot("board_0"), kept])
    eye = row(page, gone).get_by_role("switch")
    assert eye.get_attribute("aria-label").startswith("Show margin_scale=0, seed 2")
    eye.click()
    for key in BOTH:
        page.wait_for_function(
            """([plot, key]) => !document.querySelector(plot)._fullData.some(
                t => t.visible === true && t.legendgroup === key)""",
            arg=[plot(key), gone],
        )
    page.wait_for_url(f"**off={gone}*")
    pin = row(page, kept).get_by_role("button", name="Pin the colour of margin_scale=5, seed 2")
    pin.press("Enter")
    page.wait_for_url(f"**pin={kept}*")
    page.locator(f".st-key-page-tabs a[href^=compare][href*='pin={kept}']:visible").wait_for()
    assert f"off={gone}" in page.url and eye.get_attribute("aria-checked") == "false"
    again = open_board(open_page, f"charts{page.url.partition('/charts')[2]}&find=margin_scale%3E0")
    assert {run.id for run in runs[3:]} <= set(shown(again, "board_0"))
    assert again.evaluate(color, [plot("board_0"), kept]) == before
    again = open_board(open_page, f"charts{page.url.partition('/charts')[2]}")
    assert gone not in shown(again, "board_1") and len(shown(again, "board_1")) == len(runs) - 1
    name = row(again, gone).locator(".lps-lines-name")
    name.focus()
    again.wait_for_selector(f".lps-lines-lit[data-key='{gone}']")
    assert again.get_attribute(plot("board_0"), "data-lit") == "", "it is hidden there"
    again.keyboard.press("Enter")
    lit(again, gone)
    again.wait_for_function("key => !location.search.includes(`off=${key}`)", arg=gone)
    assert gone in shown(again, "board_1")
    again.keyboard.press("ArrowDown")
    assert again.evaluate("document.activeElement.closest('li').dataset.key") != gone


def test_on_a_phone_the_list_stands_above_the_charts_and_folds(runs, open_page):
    page = open_board(open_page, width=390)
    assert not page.locator(".lps-lines ul").is_visible()
    page.get_by_text("9 lines", exact=True).click()
    assert page.locator(".lps-lines li").count() == len(runs)
    last, chart = page.locator(".lps-lines ul").bounding_box(), page.locator(plot("board_0")).bounding_box()
    assert last["y"] + last["height"] <= chart["y"]


def test_a_chart_is_taken_away(runs, open_page):
    page = open_page("charts?chart=y%3Daccuracy/novel%3Bsmooth%3D0.5", width=1920)
    page.wait_for_selector(f"{plot('board_0')} .main-svg")
    for title, ending, words in (
        ("SVG", ".svg", "C=5, seed 1"),
        ("CSV", ".csv", "trace,x,y,id"),
        ("Python", ".py", "figures.chart("),
    ):
        with page.expect_download() as download:
            page.locator(f".st-key-board_0 [data-title*='{title}']").click()
        assert download.value.suggested_filename == f"board_0{ending}"
        assert words in open(download.value.path(), encoding="utf-8").read()
