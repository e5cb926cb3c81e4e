"""The race in Chromium, on the page and as a file: keys, dragging, rest at measurements, links, a run that grows."""

import re
from decimal import ROUND_HALF_UP, Decimal

import pytest

from lps.race import race_data, race_document
from lps.wording import points_between
from tests.sample_runs import RunWriter, held, make_run, rewritten, without

RACE = ".lps-race"
ASKED = "at => document.querySelector('{}').dataset.at === at"


@pytest.fixture(scope="module")
def runs(studio):
    """LPS of twenty epochs, whose first one was measured in four steps, beside ORCA of eight."""
    first, second = make_run(studio.runs), make_run(studio.runs, settings={"method": "orca"}, epochs=8, lucky=False)
    steps = {"steps/kl": [0.8, 0.7, 0.6, 0.5], "steps/guessed_seen": [0.9, 0.8, 0.7, 0.6]}
    measure(first, steps | {"steps/margin/seen": [8.0, 6.0, 4.0, 2.0], "steps/margin/novel": [1.0, 1.0, 1.0, 1.0]})
    return [first, second]


def measure(run, steps: dict) -> None:
    """As if every epoch of this run had been measured so within."""
    rewritten(run, lambda kind, values: values | (steps if kind == "train" else {}))


@pytest.fixture(scope="module")
def third(studio):
    return make_run(studio.runs, settings={"method": "fixmatch"}, epochs=4)


@pytest.fixture(scope="module")
def file(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "replay.html"
    return race_document.write(runs, path)


@pytest.fixture
def open_file(open_document, file):
    """open_file("#at=3", ...) -> the file, or another race, with its first picture drawn."""

    def open_one(state="", theme="light", width=1280, path=None, **how):
        page = open_document(path or file, state, theme, width, **how)
        page.wait_for_selector(f"{RACE} canvas")
        return page

    return open_one


def at(page) -> str:
    return page.get_attribute(RACE, "data-at")


def state(page) -> str:
    return page.get_attribute(RACE, "data-state")


def wait_for_rest(page) -> str:
    page.wait_for_selector(f"{RACE}[data-state=resting]")
    return at(page)


def percent(share: float) -> str:
    """As a browser rounds it."""
    return f"{Decimal(100 * share).quantize(Decimal('0.1'), ROUND_HALF_UP)} %"


def readings(page, lane: int = 0) -> dict:
    return page.evaluate(
        """n => Object.fromEntries([...document.querySelectorAll('.race-lane')[n].querySelectorAll('[data-of]')]
            .map(one => [one.dataset.of, one.textContent]))""",
        lane,
    )


def test_the_file_opens_at_the_first_epoch_and_plays(open_file):
    page = open_file()
    assert state(page) == "playing" and float(at(page)) < 1
    page.wait_for_function(f"() => Number(document.querySelector('{RACE}').dataset.at) >= 2")


def test_who_wants_less_motion_starts_it_by_hand(open_file):
    page = open_file(motion="reduce")
    assert state(page) == "resting" and at(page) == "0.250"
    page.keyboard.press("End")
    assert at(page) == "20"


def test_a_pause_ends_at_a_measurement_and_numbers_are_measured(open_file, runs):
    page = open_file("#at=2")
    race = race_data.race_of_runs(runs)
    for _ in range(3):
        page.keyboard.press("Space")
        page.wait_for_timeout(700)
        page.keyboard.press("Space")
        place = race["epochs"].index(int(float(wait_for_rest(page))))
        for lane, run in enumerate(race["runs"]):
            shown = min(place, run["last"] - 1)
            assert readings(page, lane)["seen"] == percent(run["seen"][shown])
            assert readings(page, lane)["novel"] == percent(run["novel"][shown])


def test_every_number_that_is_read_while_it_moves_was_measured(open_file, runs):
    page, race = open_file("#at=12&speed=4"), race_data.race_of_runs(runs)
    known = {percent(value) for value in race["runs"][0]["novel"]}
    page.evaluate(
        """() => { window.seenTexts = new Set();
        const text = document.querySelector('[data-of=novel]');
        new MutationObserver(() => window.seenTexts.add(text.textContent)).observe(text, {childList: true}); }"""
    )
    page.keyboard.press("Space")
    page.wait_for_selector(f"{RACE}[data-state=playing]")
    wait_for_rest(page)
    assert page.get_attribute("[data-of=gap]", "data-more") == ""
    read = set(page.evaluate("[...window.seenTexts]"))
    assert at(page) == "20" and len(read) > 4 and read <= known


WATCH = """() => {
    const text = document.querySelector('[data-of=novel]'), reading = raceReading;
    window.watched = [];
    window.raceReading = (race, course, number, p, moves) => {
        const now = reading(race, course, number, p, moves);
        if (moves && number === 0) window.drawn = now.novel;
        return now;
    };
    const look = () => {
        const isGrey = text.classList.contains('is-on-its-way');
        const written = parseFloat(text.textContent) / 100;
        if (window.drawn !== undefined) window.watched.push([window.drawn, written, isGrey]);
        requestAnimationFrame(look);
    };
    look();
}"""


def test_marks_rest_at_their_numbers_and_a_number_beside_a_mark_that_travels_is_grey(open_file):
    page = open_file("#at=1")
    page.evaluate(WATCH)
    page.keyboard.press("Space")
    page.wait_for_function(f"() => Number(document.querySelector('{RACE}').dataset.at) >= 4")
    told = page.get_attribute("[data-of=gap]", "data-more")
    assert told.startswith("after epoch ") and state(page) == "playing"
    watched = page.evaluate("watched")
    apart = [abs(drawn - number) for drawn, number, is_grey in watched if not is_grey]
    assert max(apart) < 0.021
    assert sum(distance < 0.001 for distance in apart) > len(watched) / 2
    assert any(is_grey for *_, is_grey in watched)


def test_numbers_of_quick_steps_tick_with_their_marks_and_do_not_blink(open_file, studio, tmp_path):
    run = make_run(studio.runs, epochs=2, seed=8)
    measure(run, {"steps/kl": [0.8 - 0.04 * step for step in range(16)]})
    page = open_file("#at=0.06", path=race_document.write([run], tmp_path / "quick.html"))
    page.evaluate(
        """() => { window.grey = 0; window.apart = 0; window.drawn = new Set();
        const text = document.querySelector('[data-of=kl]'), draw = raceDrawSide;
        window.raceDrawSide = (...all) => {
            draw(...all);
            drawn.add(all[4].kl);
            apart = Math.max(apart, Math.abs(all[4].kl - parseFloat(text.textContent.slice(3))));
        };
        new MutationObserver(() => { grey += text.classList.contains('is-on-its-way'); })
            .observe(text, {attributes: true, attributeFilter: ['class']}); }"""
    )
    page.keyboard.press("Space")
    page.wait_for_function(f"() => Number(document.querySelector('{RACE}').dataset.at) >= 0.9")
    assert page.evaluate("grey") == 0 and page.evaluate("apart") < 0.006 and page.evaluate("drawn.size") > 3


def test_the_number_of_a_mark_that_travels_stays_in_grey(open_file):
    page = open_file("#at=1")
    number = page.locator("[data-of=novel]").first
    ink = number.evaluate("one => getComputedStyle(one).color")
    number.evaluate("one => { one.style.transition = 'none'; one.classList.add('is-on-its-way'); }")
    color, opacity = number.evaluate("one => [getComputedStyle(one).color, getComputedStyle(one).opacity]")
    assert color != ink and opacity == "1" and readings(page)["novel"].endswith(" %")


def test_a_pause_while_marks_rest_stays_where_they_are(open_file):
    page = open_file("#at=2")
    page.keyboard.press("Space")
    page.wait_for_function(
        """() => {
            const { dataset } = document.querySelector('.lps-race');
            if (dataset.at === '3' && dataset.state === 'playing') document.querySelector('.race-play').click();
            return dataset.state !== 'playing';
        }"""
    )
    assert (at(page), state(page)) == ("3", "resting")


def test_keys_step_by_epochs_and_by_steps(open_file):
    page = open_file("#at=1")
    for key, place in [
        ("ArrowRight", "2"),
        ("Shift+ArrowRight", "2.250"),
        ("Shift+ArrowLeft", "2"),
        ("ArrowLeft", "1"),
        ("Shift+ArrowLeft", "0.750"),
        ("Home", "0.250"),
        ("End", "20"),
        ("ArrowRight", "20"),
    ]:
        page.keyboard.press(key)
        assert at(page) == place, key
    page.keyboard.press("s")
    assert page.inner_text(".race-speed") == "2×"


def test_within_the_first_epoch_steps_are_shown_and_the_accuracies_of_k_means_in_grey(open_file, runs):
    page, run = open_file("#at=0.5"), race_data.race_of_runs(runs)["runs"][0]
    start = run["start"]
    assert readings(page) | {"brake": ""} == {
        **{"seen": percent(start["seen"]), "gap": "before training (k-means)", "novel": percent(start["novel"])},
        **{"guesses": "80 % seen", "kl": "KL 0.70", "brake": ""},
    }
    grey = page.locator(".race-lane b.is-start")
    assert grey.count() == 6 and "no accuracy" in page.inner_text(".race-said")
    page.keyboard.press("ArrowRight")
    assert readings(page)["kl"] == "KL 0.50" and readings(page)["seen"] == percent(run["seen"][0])
    assert grey.count() == 0 and readings(page)["gap"] != "before training (k-means)"


def depth(page, lane: int, share: float) -> float:
    """How far down, as a share of the picture, something is drawn from its top at this share of its width."""
    return page.evaluate(
        """([lane, share]) => {
            const canvas = document.querySelectorAll('.race-lane')[lane].querySelectorAll('canvas')[1];
            const column = canvas.getContext('2d').getImageData(share * canvas.width, 0, 1, canvas.height).data;
            let depth = 0;
            while (depth < canvas.height && column[4 * depth + 3]) depth += 1;
            return depth / canvas.height;
        }""",
        [lane, share],
    )


def test_the_legend_of_the_dashes_follows_the_button(open_file):
    page = open_file("#at=3")
    legend = page.locator(".race-dashes")
    assert legend.inner_text() == "prior: expected shares (usually equal)"
    page.keyboard.press("b")
    assert legend.inner_text() == "true shares"


def test_a_bar_says_its_class_and_is_at_the_same_place_in_both_views(open_file, runs):
    page, race = open_file("#at=3"), race_data.race_of_runs(runs)
    run, names = race["runs"][0], race["classes"]["names"]
    bars = page.locator(".race-side .race-canvas").first
    box = bars.bounding_box()
    matched = f", matched with class {names[run['matched'][2][7]]}"
    for rows, what in ((run["shares"], "estimated"), (run["taken"], "of the predictions")):
        for place, text in ((1, f"seen class {names[1]}"), (8, f"novel cluster 3 of 5{matched}")):
            page.mouse.move(box["x"] + (place + 0.4) * box["width"] / 11, box["y"] + 0.8 * box["height"])
            assert bars.get_attribute("title") == f"{text}: {percent(rows[2][place - (place > 5)])} {what}"
        page.keyboard.press("b")


def test_a_bar_of_a_method_whose_seen_ids_mean_no_class_says_the_matched_one(open_file):
    told = """matched => raceBarText(
        {classes: {seen: 1, names: ["cat", "dog"]}}, {shares: [[0.3, 0.7]]},
        {shares: [0.3, 0.7], matched}, 300, 10, false)"""
    page, share = open_file("#at=1"), f"{percent(0.3)} estimated"
    assert page.evaluate(told, [1, 0]) == f"cluster 1 of 2, matched with class dog: {share}"
    assert page.evaluate(told, [0, 1]) == page.evaluate(told, None) == f"seen class cat: {share}"


def test_the_first_epoch_of_a_margin_is_explained(open_file, studio, tmp_path):
    late = "or even more often, until the novel classes catch up."
    assert late in open_file().locator(".race-rule").text_content()
    alone = race_document.write([make_run(studio.runs, epochs=2, seed=9)], tmp_path / "alone.html")
    assert late not in open_file(path=alone).locator(".race-rule").text_content()


def test_the_brake_presses_by_step_and_then_on_each_class(open_file):
    page = open_file("#at=0.5")
    assert readings(page)["brake"] == "margin 6.0 on seen, 1.0 on novel"
    seen, novel = depth(page, 0, 0.2), depth(page, 0, 0.7)
    assert seen > 2 * novel > 0 and depth(page, 1, 0.2) == 0
    page.keyboard.press("Shift+ArrowRight")
    assert depth(page, 0, 0.2) < seen and depth(page, 0, 0.7) == pytest.approx(novel, abs=0.01)
    page.keyboard.press("ArrowRight")
    assert depth(page, 0, 0.04) > 0 and depth(page, 1, 0.04) > 0
    said = readings(page)["brake"]
    page.keyboard.press("Shift+ArrowRight")
    assert at(page) == "1.250" and readings(page)["brake"] == said
    assert page.get_attribute("[data-of=gap]", "data-more") == "after epoch 1"


def test_the_way_can_be_dragged_and_a_mark_on_it_leads_to_its_epoch(open_file, runs):
    page = open_file("#at=1")
    box = page.locator(".race-way input").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    places = []
    for share in (0.3, 0.6, 1.0):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=4)
        places.append(float(at(page)))
    page.mouse.up()
    assert places == sorted(places) and places[-1] == 20 and len(set(places)) == 3
    assert state(page) == "resting"
    mark = race_data.race_of_runs(runs)["marks"][-1]
    page.locator(".race-flags button").last.click(force=True)
    assert at(page) == str(mark["epoch"]) and mark["words"] in page.inner_text(".race-news")


def test_a_link_opens_the_file_in_the_same_state(open_file):
    page = open_file("#at=7&speed=4")
    assert at(page) == "7" and state(page) == "resting" and page.inner_text(".race-speed") == "4×"
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("#at=8&speed=4$"), wait_until="commit")
    page.evaluate("location.hash = '#at=3'")
    page.wait_for_function(ASKED.format(RACE), arg="3")


@pytest.mark.parametrize("link", ["#at=x", "#at=-5", "#at=1e9", "#speed=77", "#at=", "#%%%"])
def test_a_strange_link_is_no_accident(open_file, link):
    page = open_file(link)
    assert 0.25 <= float(at(page)) <= 20


def test_a_shorter_run_stays_at_its_end_and_says_so(open_file, runs):
    page = open_file("#at=12")
    assert page.locator(".race-lane h3").nth(1).get_attribute("data-flag") == " ⚑ ended at epoch 8"
    last = race_data.race_of_runs(runs)["runs"][1]["novel"][7]
    assert readings(page, 1)["novel"] == percent(last)


def _mistaken(racer):
    return percent(racer["mistaken"])


def test_a_difference_is_the_one_of_the_numbers_as_shown(open_file):
    page = open_file("#at=1")
    shown = page.evaluate(
        "[racePercent(0.98487), racePercent(0.62054), racePoints(0.98487, 0.62054), racePoints(0.5, 0.6)]"
    )
    assert shown == ["98.5 %", "62.1 %", 36.4, -10]
    seen, novel, gap = (
        float(readings(page)[name].removesuffix(" %").replace("\N{MINUS SIGN}", "-"))
        for name in ("seen", "novel", "gap")
    )
    assert gap == pytest.approx(seen - novel)


def test_the_end_is_told_in_one_line_and_in_detail_in_a_fold(open_file, runs):
    """What each run has measured last, and what was higher before: an epoch by 5 points, or k-means before training."""
    page = open_file("#at=19")
    rows_top = page.locator(".race-lanes").bounding_box()["y"]
    assert page.text_content(".race-outcome") == ""
    page.keyboard.press("End")
    gaps, novel = ([readings(page, lane)[name] for lane in (0, 1)] for name in ("gap", "novel"))
    titles = [run["title"] for run in race_data.race_of_runs(runs)["runs"]]
    assert page.inner_text(".race-news") == (
        f"Novel accuracy at the end: A ({titles[0]}) {novel[0]}, B ({titles[1]}) {novel[1]}. "
        f"Gap: {gaps[0]}, {gaps[1]} points."
    )
    assert page.locator(".race-lanes").bounding_box()["y"] == rows_top
    page.click(".race-notes summary")
    said = page.inner_text(".race-outcome")
    for run in race_data.race_of_runs(runs)["runs"]:
        novel = [x for x in run["novel"] if x is not None]
        best = f"best: {percent(max(novel))} at epoch {novel.index(max(novel)) + 1}"
        start = f"k-means before training: {percent(run['start']['novel'])}"
        has_lost, is_below = max(novel) - novel[-1] > 0.05, points_between(run["start"]["novel"], novel[-1]) > 0
        earlier = "; ".join([best] * has_lost + [start] * is_below)
        assert f"{run['letter']} {percent(novel[-1])}{f' ({earlier})' if earlier else ''}" in said
    ends = [[x for x in run["novel"] if x is not None][-1] for run in race_data.race_of_runs(runs)["runs"]]
    difference = f"{points_between(*ends):+.1f} points".replace("-", "\N{MINUS SIGN}")
    assert (f"A compared with B: novel {difference}, seen " in said) == (len(ends) == 2)
    racers = race_data.race_of_runs(runs)["runs"]
    mistaken, empty = (
        ", ".join(f"{r['letter']} {tell(r)}" for r in racers) for tell in (_mistaken, lambda r: r["empty"])
    )
    assert (
        f"Novel images that get a seen class: {mistaken}. Novel classes that stay almost empty: {empty} of 5." in said
    )
    assert said.startswith("At the end: novel A ") and said.endswith("One run each: some of this may be chance.")


def test_the_end_says_which_novel_classes_merged(open_file):
    told = """merged => raceOutcome({
        epochs: [1], classes: {seen: 1, names: ["cat", "dog", "owl", "pig"]},
        runs: [{letter: "A", is_over: true, seen: [0.9], novel: [0.6], start: {seen: null, novel: null},
                mistaken: 0, empty: 1, merged}],
    })"""
    page, sentence = open_file("#at=1"), "Novel classes that merged in A: dog with owl (one novel cluster gets"
    assert sentence in page.evaluate(told, [[1, 2]]) and "merged" not in page.evaluate(told, [])


def test_at_the_end_the_whole_course_is_drawn_with_the_brake_as_it_was_measured(open_file, runs):
    page = open_file("#at=19")
    page.evaluate("""() => {
      window.drawn = {};
      const real = raceDrawCourse;
      window.raceDrawCourse = (canvas, race, course, run, height) => {
        drawn[run.letter] = raceBrakes(race, course, run);
        real(canvas, race, course, run, height);
      };
    }""")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("drawn") == {}
    page.keyboard.press("End")
    drawn = page.evaluate("drawn")
    by_epoch = race_data.race_of_runs(runs)["runs"][0]["steps"]["brake"]["seen"]
    assert [margin for _, margin in drawn["A"]] == pytest.approx([margin for row in by_epoch for margin in row])
    assert [place for place, _ in drawn["A"]][:5] == [-0.75, -0.5, -0.25, 0, 0.25]
    race = race_data.race_of_runs(runs)
    means = [sum(row[: race["classes"]["seen"]]) / race["classes"]["seen"] for row in race["runs"][1]["margins"] if row]
    assert [margin for _, margin in drawn["B"]] == pytest.approx(means)


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_of_the_file_is_wider_than_the_window(open_file, width):
    page = open_file("#at=3", width=width)
    page.keyboard.press("Shift+ArrowRight")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = page.evaluate(
            """width => [...document.querySelectorAll('.lps-race *')].filter(one => !one.closest('.race-said'))
                .filter(one => { const box = one.getBoundingClientRect(); return box.width && box.right > width + 1; })
                .map(one => one.className || one.tagName)""",
            width,
        )
        assert wide == [], theme


SCREENS = [(1280, 800), (1920, 1080)]
LANES_END = """race => {
    const box = (selector) => race.querySelector(selector).getBoundingClientRect();
    const cut = [...race.querySelectorAll('.race-lane')].filter(one => one.scrollHeight > one.clientHeight + 1).length;
    return [box('.race-lanes').bottom - box('.race-bar').top, box('.race-bar').bottom - innerHeight, cut];
}"""


@pytest.mark.parametrize("width, height", SCREENS)
def test_three_lanes_of_the_file_fit_the_window(open_file, runs, third, tmp_path, width, height):
    path = race_document.write([*runs, third], tmp_path / "three.html")
    page = open_file("#at=3", width=width, height=height, path=path)
    assert page.evaluate("document.documentElement.scrollHeight") <= height
    below_bar, below_window, cut = page.locator(RACE).evaluate(LANES_END)
    assert below_bar <= 0 and below_window <= 0 and cut == 0


def test_without_truth_one_sentence_stands_in_for_the_tracks(open_file, studio, tmp_path):
    run = without(make_run(studio.runs, epochs=2, seed=9), "accuracy", "class/")
    page = open_file("#at=1", path=race_document.write([run], tmp_path / "blind.html"))
    assert "the classes of these images are not known" in page.inner_text(".race-unknown")
    assert readings(page)["seen"] == "" and readings(page)["kl"].startswith("KL ")


def test_the_page_keeps_its_state_in_the_address(open_page, runs):
    page = open_page("pace?" + "&".join(f"run={run.id}" for run in runs) + "&at=4")
    page.wait_for_selector(f"{RACE}[data-at='4']")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("at=5&speed=1"), wait_until="commit")
    again = open_page(page.url.split("/", 3)[3], "dark")
    again.wait_for_selector(f"{RACE}[data-at='5'][data-state=resting]")


def test_the_race_of_a_running_run_is_not_begun_anew_while_it_grows(open_page, studio):
    writer = RunWriter(studio.runs, name="growing racer")
    writer.begin("running", 3)
    with held(writer.run):
        page = open_page(f"pace?run={writer.run.id}&at=2")
        page.wait_for_selector(f"{RACE}[data-at='2']")
        page.locator(RACE).evaluate("race => { race.mine = true; }")
        writer.write_epoch(4)
        page.wait_for_selector(".race-way input[max='3']", state="attached")
        assert at(page) == "2" and page.locator(RACE).evaluate("race => race.mine")


def test_a_race_that_begins_while_the_page_is_open_brings_its_curves_and_its_file(open_page, studio):
    writer = RunWriter(studio.runs, name="begins late")
    writer.begin("running", 0)
    with held(writer.run):
        page = open_page(f"pace?run={writer.run.id}")
        page.get_by_text("The race begins after the first epoch of training.").wait_for()
        assert page.locator(".st-key-take_race").count() == 0
        writer.write_epoch(1)
        page.wait_for_selector(".st-key-take_race")
        page.get_by_text("All epochs").wait_for()


def test_a_race_that_plays_while_its_runs_grow_goes_on(open_page, studio):
    """New lanes have no numbers yet when the next picture is drawn."""
    writers = [RunWriter(studio.runs, name=name) for name in ("grows", "grows beside")]
    for writer in writers:
        writer.begin("running", 2)
    with held(writers[0].run), held(writers[1].run):
        page = open_page("pace?" + "&".join(f"run={writer.run.id}" for writer in writers))
        for epoch in range(3, 7):
            page.wait_for_selector(f"{RACE}[data-state=playing]")
            for writer in writers:
                writer.write_epoch(epoch)
            page.wait_for_selector(f".race-way input[max='{epoch - 1}']", state="attached")
            assert page.get_by_text("Error").count() == 0


def test_the_page_gives_the_race_as_a_file(open_page, open_file, runs, tmp_path):
    page = open_page("pace?" + "&".join(f"run={run.id}" for run in runs) + "&at=4")
    with page.expect_download() as download:
        page.locator(f"{RACE} [data-do=save]").click()
    path = tmp_path / "taken.html"
    download.value.save_as(path)
    assert path.read_bytes() == race_document.as_bytes(runs)
    file = open_file("#at=4", path=path)
    assert at(file) == "4" and file.locator("[data-do=save]").is_hidden()
    with page.expect_download():
        page.click(".st-key-take_race button")


@pytest.mark.parametrize("width, height", SCREENS)
def test_three_lanes_fit_the_window_under_the_head_of_the_page(open_page, runs, third, width, height):
    page = open_page("pace?" + "&".join(f"run={run.id}" for run in [*runs, third]) + "&at=3", width=width)
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_selector(f"{RACE}[data-at='3']")
    page.wait_for_timeout(300)
    below_bar, below_window, cut = page.locator(RACE).evaluate(LANES_END)
    assert below_bar <= 0 and below_window <= 0 and cut == 0
