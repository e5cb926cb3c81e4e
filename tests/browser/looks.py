"""Check a page in Chromium: pale texts, controls without a name, faults by the rules of axe-core, its width, its
errors, and effects of hostile texts.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import PATIENCE_MS, kept_tab, leave, wait_for_run
from tests.hostile_runs import STRANGER, TEXTS

LEAST = 4.5  # WCAG 2.2, AA, of text; 3 for the ring of focus
HIDDEN = 1.05  # what is of the colour of its ground shows only under the mouse
NO_NAME = re.compile(r":\w+\[|\*\*|\bicon\b|_arrow|chevron_|^\s*$")
ROLES = "button link textbox combobox checkbox radio slider switch tab spinbutton".split()
RULES = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]},
    "resultTypes": ["violations"],  # of what passes one example a rule is told, not every element
}
# Streamlit's own list of pages holds its groups as plain boxes, and KaTeX lets a formula that is wider than a phone be
# pushed by a finger alone; no option and no style changes that.
NOT_OURS = [['[data-testid="stSidebarNavItems"]'], [".katex-display"]]
NOT_HERE = "/_stcore/"  # Streamlit's page looks for its server below its own path first; these are answered 404

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


def pale_texts(page) -> list[tuple[float, str]]:
    """(contrast, text) of what is too pale to be read."""
    measured = page.evaluate(CONTRASTS)
    assert len(measured) > 10, "the page has texts"
    return [(round(contrast, 2), text) for contrast, text in measured if HIDDEN < contrast < LEAST]


def nameless_controls(page) -> list[tuple[str, str]]:
    """(role, name) of what a screen reader would read out as nothing or as markup."""
    session = page.context.new_cdp_session(page)
    nodes = [node for node in session.send("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
    session.detach()
    controls = [(node["role"]["value"], node["name"]["value"]) for node in nodes if node["role"]["value"] in ROLES]
    assert len(controls) > 10, "the page has controls"
    # A hostile text looks like markup and is read out as it is written.
    return [(role, name) for role, name in controls if NO_NAME.search(name.replace(TEXTS[6], "a text"))]


def axe_faults(page) -> list[str]:
    """Serious and critical faults, with the elements that have them."""
    answer = Axe().run(page, context={"exclude": NOT_OURS}, options=RULES).response
    assert len(answer["passes"]) > 10, "the rules were applied"
    grave = [fault for fault in answer["violations"] if fault["impact"] in ("serious", "critical")]
    return [f"{fault['id']}: {node['html'][:150]}" for fault in grave for node in fault["nodes"][:3]]


# Scripts that ran, elements that would fetch, and links that a person could press, shadow roots and frames included.
DOM = """stranger => {
    const found = window.canary === undefined ? [] : ["a script ran"];
    const look = root => {
        for (const element of root.querySelectorAll("*")) {
            for (const name of ["src", "href", "xlink:href", "action", "data", "srcset", "poster", "formaction"]) {
                const value = element.getAttribute(name);
                const url = value === null ? null : URL.parse(value, location.href);
                if (url && (url.hostname === stranger || url.protocol === "javascript:"))
                    found.push(`${element.tagName} ${name}=${value}`);
            }
            for (const name of element.getAttributeNames())
                if (name.startsWith("on")) found.push(`${element.tagName} ${name}`);
            if (element.shadowRoot) look(element.shadowRoot);
            if (element.tagName === "IFRAME" && element.contentDocument) look(element.contentDocument);
        }
    };
    look(document);
    return found;
}"""


def width_of(page) -> int:
    """Pixels that the page takes, what can be reached only by scrolling to the side included."""
    boxes = "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
    return page.evaluate(f"Math.max(...{boxes}.map((one) => one.scrollWidth))")


class Watch:
    """What a page tried that it may not: requests to others, errors, scripts and links that stand in a text."""

    def __init__(self, page, address: str):
        self.page, self.address, self.tried = page, address, []
        self.ears = {"console": self._hear, "request": self._see, "dialog": self._tell, "pageerror": self._tell}

    def _hear(self, message) -> None:
        if message.type == "error" and NOT_HERE not in (message.location or {}).get("url", ""):
            self.tried.append(message.text)

    def _tell(self, what) -> None:
        self.tried.append(f"{type(what).__name__} {getattr(what, 'message', what)}")

    def _see(self, request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.tried.append(request.url)

    def open(self, path: str):
        """The page after its first run."""
        self.page.goto(f"{self.address}/{path}")
        wait_for_run(self.page)
        return self.page

    def found(self) -> list[str]:
        exceptions = [one.inner_text()[:300] for one in self.page.locator("[data-testid=stException]").all()]
        return self.tried + exceptions + self.page.evaluate(DOM, STRANGER)


@contextmanager
def watching(page, address: str) -> Iterator[Watch]:
    """A watch over what `page` does inside the `with`; address: where it may look, such as "http://127.0.0.1:8501"."""
    watch = Watch(page, address)
    for what, take in watch.ears.items():
        page.on(what, take)
    try:
        yield watch
    finally:
        for what, take in watch.ears.items():
            page.remove_listener(what, take)


@contextmanager
def watched_tab(profile, address: str) -> Iterator[Watch]:
    """A watch over the tab that stays, which is left in the end."""
    page = kept_tab(profile)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    try:
        with watching(page, address) as watch:
            yield watch
    finally:
        leave(profile, address)


def open_everything(page) -> None:
    """Tabs and folded parts hold texts too."""
    for tab in page.get_by_role("tab").all()[:12]:
        if tab.is_visible():
            tab.click()
    for summary in page.locator("details > summary").all()[:12]:
        if summary.is_visible():
            summary.click()
    wait_for_run(page)
    page.wait_for_timeout(300)
