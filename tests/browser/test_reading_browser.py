"""Whether everybody can read the pages: contrast, names for screen readers, and the ring around what has the focus."""

import re

import pytest

from tests.browser.conftest import come_to_rest, wait_for_run
from tests.sample_runs import make_run
from tests.visiting import PAGES

LEAST = 4.5  # WCAG 2.2, AA, of text; 3 for the ring of focus
ADDRESSES = {"home": "", "launch": "launch?view=everything&set=margin_scale%3D7&set=lr%3D0"}
PAGES = [ADDRESSES.get(page, page) for page in PAGES]
NO_NAME = re.compile(r":\w+\[|\*\*|\bicon\b|_arrow|chevron_|^\s*$")
HIDDEN = 1.05  # what is of the colour of its ground shows only under the mouse
THEMES = ["light", "dark"]

# Every text that is seen, with its contrast: its colour over the grounds below it, all as translucent as they are.
CONTRASTS = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((x, i) => x * top[3] + below[i] * (1 - top[3]));
  const light = (color) => {
    const [r, g, b] = color.map((x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.querySelector(".stApp"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    const ignored = "svg, style, script, code, kbd, " +
      "[aria-hidden=true], [disabled], :disabled, [aria-disabled=true]";
    if (text.length < 2 || element.closest(ignored) || !element.checkVisibility({ opacityProperty: true })) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const above = [];
    const thumb = element.closest("[data-testid=stSliderThumbValue]")?.parentElement;  // below its value, not behind it
    for (let e = element; e; e = e.parentElement) if (e !== thumb) above.unshift(e);
    let ground = [255, 255, 255], opacity = 1;
    for (const e of above) {
      const style = getComputedStyle(e), own = rgba(style.backgroundColor);
      opacity *= Number(style.opacity);
      own[3] *= opacity;
      ground = over(own, ground);
    }
    const color = rgba(getComputedStyle(element).color);
    color[3] *= opacity;
    const [a, b] = [light(over(color, ground)), light(ground)].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), text.slice(0, 60)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def runs(studio):
    """One of the usual runs, and one that failed."""
    return [make_run(studio.runs, epochs=3, name="usual"), make_run(studio.runs, "failed", seed=1)]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("path", PAGES)
def test_every_text_stands_out_and_every_control_has_a_name_that_can_be_read_out(open_page, runs, path, theme):
    page = open_page(path, theme=theme)
    come_to_rest(page)
    measured = page.evaluate(CONTRASTS)
    assert len(measured) > 10
    assert [(round(contrast, 2), text) for contrast, text in measured if HIDDEN < contrast < LEAST] == []
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = "button link textbox combobox checkbox radio slider switch tab spinbutton".split()
    controls = [(node["role"]["value"], node["name"]["value"]) for node in tree if _role(node) in roles]
    assert len(controls) > 10
    assert [control for control in controls if NO_NAME.search(control[1])] == []


def _role(node) -> str:
    return "" if node["ignored"] else node["role"]["value"]


@pytest.mark.parametrize("theme", THEMES)
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
