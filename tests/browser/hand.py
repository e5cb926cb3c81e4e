"""A user's actions in the browser tests, counted, so that a journey keeps its length."""

from pathlib import Path

from lps.wording import counted

_FOCUSED = """() => { const one = document.activeElement;
  const words = one.getAttribute("aria-label") || one.innerText || one.closest("label")?.innerText || "";
  return { tag: one.tagName, type: one.type || "", words: words.trim().split("\\n").pop(), href: one.href || "" } }"""
# What shows the focus: outline, shadow, border or ground, of the element or of a box that Streamlit puts round it.
_LOOK = """(one) => { const found = [];
  for (let box = one, up = 0; box && up < 4; box = box.parentElement, up++) {
    const style = getComputedStyle(box);
    found.push(style.outlineStyle === "none" ? "" : style.outline);
    found.push(style.boxShadow, style.borderColor, style.backgroundColor);
  }
  return found.join("|") }"""


class Hand:
    """Clicks, drops of a folder, keys and typed words of one journey. `print(hand)` says how many."""

    def __init__(self, page):
        self.page, self.clicks, self.keys, self.words = page, 0, 0, 0

    def __str__(self) -> str:
        told = ((self.clicks, "click"), (self.keys, "key"), (self.words, "typed word"))
        return ", ".join(counted(number, noun) for number, noun in told if number) or "nothing"

    def click(self, what) -> None:
        what.click()
        self.clicks += 1

    def drop(self, field, folder: Path) -> None:
        """A folder on the page; it counts as a click."""
        field.set_input_files(folder)
        self.clicks += 1

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.keys += 1

    def type(self, text: str) -> None:
        """Into what has the keyboard, then Enter."""
        self.page.keyboard.type(text)
        self.words += 1
        self.page.keyboard.press("Enter")

    def download(self, what) -> Path:
        with self.page.expect_download() as waiting:
            self.click(what)
        return waiting.value.path()

    def tab_to(self, words: str, most: int = 60) -> None:
        """Tab until what is called so has the keyboard; it must show that."""
        for _ in range(most):
            self.press("Tab")
            found = self.page.evaluate(_FOCUSED)
            if found["words"] == words:
                self._look()
                return
        raise AssertionError(f"{most} tabs did not lead to {words}")

    def _look(self) -> None:
        """What has the keyboard shows it."""
        focused = self.page.evaluate_handle("() => document.activeElement").as_element()
        self.page.wait_for_timeout(250)
        with_focus = focused.evaluate(_LOOK)
        focused.evaluate("(one) => one.blur()")
        self.page.wait_for_timeout(250)
        without = focused.evaluate(_LOOK)
        focused.evaluate("(one) => one.focus({ focusVisible: true })")
        assert with_focus != without, f"{focused.evaluate('(one) => one.outerHTML')[:200]} shows no focus"
