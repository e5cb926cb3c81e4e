"""Every page in Chromium, opened once: checked in light, in dark and in a narrow window, then with all folds open.

One visit collects everything; each test asserts one fact of it, so that a failure has its own name.
"""

from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import come_to_rest, wait_for_run
from tests.browser.looks import axe_faults, nameless_controls, open_everything, pale_texts, watched_tab, width_of
from tests.hostile_runs import make_data, make_runs
from tests.sample_runs import make_run
from tests.shares import in_turn
from tests.visiting import PAGES

NARROW = 390
A_FAILED_RUN = "live of a failed run"


@dataclass
class Seen:
    """What was found on a page that must not be there; `pale` by theme."""

    pale: dict[str, list]
    nameless: list
    faults: list[str]
    width: int  # of the page in a window of NARROW pixels
    tried: list[str]


@pytest.fixture(scope="module")
def runs(studio, tmp_path_factory):
    """A usual run, one that failed and one that finished, the latter two with hostile texts everywhere."""
    finished, failed, *_ = make_runs(studio.runs, make_data(tmp_path_factory.mktemp("data") / "hostile.npz"))
    return [make_run(studio.runs, epochs=3, name="usual"), failed, finished]


def address_of(page: str, runs) -> str:
    """The page with one run, with its whole form, or with all there is."""
    _, failed, last = runs
    addresses = {"home": "", "launch": "launch?view=everything&set=margin_scale%3D7&set=lr%3D0"}
    addresses |= {"compare": "compare", "charts": "charts", A_FAILED_RUN: f"live?run={failed.id}"}
    return addresses.get(page, f"{page}?run={last.id}")


@pytest.fixture(scope="module", params=in_turn([*PAGES, A_FAILED_RUN], 2))
def seen(request, studio, profile, runs) -> Seen:
    with watched_tab(profile, studio.address) as watch:
        page = watch.open(address_of(request.param, runs))
        come_to_rest(page)
        # A number that begins to fade while the rules are applied would be called too pale.
        expect(page.locator("[data-state=playing], [data-state=stopping]")).to_have_count(0, timeout=60_000)
        pale, nameless = {"light": pale_texts(page)}, nameless_controls(page)
        # The menu, which a narrow window folds away, is the same on every page.
        faults = axe_faults(page) if request.param == "home" else []
        page.emulate_media(color_scheme="dark")
        come_to_rest(page)
        pale["dark"] = pale_texts(page)
        page.set_viewport_size({"width": NARROW, "height": 900})
        come_to_rest(page)
        faults, width = faults + axe_faults(page), width_of(page)
        open_everything(page)
        return Seen(pale, nameless, faults, width, watch.found())


def test_every_text_stands_out(seen):
    assert seen.pale == {"light": [], "dark": []}


def test_every_control_has_a_name_that_can_be_read_out(seen):
    assert seen.nameless == []


def test_no_page_has_a_serious_fault(seen):
    """In a narrow window, where more has to scroll; contrasts are looked at in both themes by themselves."""
    assert seen.faults == []


def test_nothing_is_wider_than_a_phone(seen):
    assert seen.width <= NARROW


def test_no_page_has_an_error_leaves_the_server_or_does_what_a_text_says(seen):
    assert seen.tried == []


@pytest.mark.parametrize("theme", in_turn(["light", "dark"], 2))
def test_what_has_the_focus_has_a_ring_that_is_seen(open_page, runs, theme):
    page = open_page("live", theme=theme)
    wait_for_run(page)
    seen = set()
    for _ in range(24):
        page.keyboard.press("Tab")
        about = page.evaluate(
            """() => { const e = document.activeElement, ringed = e.closest("label, [data-baseweb=select]") ?? e;
              const styles = [e, ringed].map((one) => getComputedStyle(one));
              const widths = styles.map((s) => s.outlineStyle === "none" ? 0 : parseFloat(s.outlineWidth));
              return [e.tagName, Math.max(...widths)]; }"""
        )
        seen.add(tuple(about))
    assert {tag for tag, _ in seen} >= {"A", "BUTTON"}
    assert {(tag, width) for tag, width in seen if width < 2 and tag in ("A", "BUTTON")} == set()


def test_every_fault_is_seen(profile, studio, runs):
    """The control: what is put into a page is found by the look that is for it, and the policy stops what it can."""
    with watched_tab(profile, studio.address) as watch:
        page = watch.open("")
        come_to_rest(page)
        page.evaluate(
            """() => { document.querySelector("[data-testid=stMainBlockContainer]").insertAdjacentHTML("afterbegin",
              `<button style="width: 40px; height: 40px"></button><img src="data:," width="40" height="40">
               <p style="color: #ccc; background: #fff" onclick="x()">a pale text</p>
               <div style="width: 2000px">wide</div><div data-testid="stException">a traceback</div>
               <a href="http://evil.example/y">z</a><img src="http://evil.example/x.png">`);
              const script = document.createElement("script");
              script.textContent = "window.canary = 1";
              document.body.append(script);
              console.error("said");
              setTimeout(() => { throw new Error("thrown"); }); }"""
        )
        page.wait_for_timeout(300)
        assert "a pale text" in [text for _, text in pale_texts(page)]
        assert width_of(page) >= 2000 and ("button", "") in nameless_controls(page)
        faults, found = " ".join(axe_faults(page)), watch.found()
        assert all(f"{fault}: " in faults for fault in ("button-name", "image-alt", "color-contrast"))
        assert {"said", "Error thrown", "a traceback", "A href=http://evil.example/y", "P onclick"} <= set(found)
        stopped = " ".join(text for text in found if "Content Security Policy" in text)
        assert "img-src" in stopped and "script-src" in stopped
        assert "http://evil.example/x.png" in found and "a script ran" not in found
