"""python -m benchmarks.what_if: the effect of the margin on the digits that Explain trains in the browser.

Every split is trained with the margin and without, from the same start, in Chromium, by the page's own script. Steps,
learning rate and noise were chosen on other splits (10 to 14).
"""

import shutil

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.digit_features import bits_of, split_of
from lps.scores import estimates
from lps.ui.explain import digit_features, what_if

SPLITS = tuple(range(20, 30))
WORLDS = (  # number of novel classes, weight of the entropy term, tau
    (5, 0.25, 0.4), (5, 0.0, 0.4), (5, 0.5, 0.4), (5, 1.0, 0.4), (2, 0.25, 0.4), (7, 0.25, 0.4), (5, 0.25, 0.2),
)  # fmt: skip
RACE = """async ([source, pictures, settings, count]) => {
  const own = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const ends = (seed, margin_scale) => {
    const training = own.trainingOf(pictures, seed, { ...settings, margin_scale });
    while (!own.isOver(training)) own.advanceTraining(training);
    return training.points.at(-1);
  };
  return [...Array(count).keys()].map((seed) => [ends(seed, 0), ends(seed, settings.margin_scale)]);
}"""


def race(page: Page, splits: tuple[int, ...], novel: int, **changes: float) -> list[list[dict[str, float]]]:
    """Of each split: what a training ends with without the margin, and with it."""
    labeled = [digit_features.bytes_as_text(bits_of(split_of(seed, 10 - novel))) for seed in splits]
    pictures = digit_features.pack_features() | {"labeled": {str(10 - novel): labeled}}
    return page.evaluate(
        RACE, [what_if.TRAINING, pictures, what_if.training_settings() | {"seen": 10 - novel} | changes, len(splits)]
    )


def _said(pairs: list[list[dict[str, float]]]) -> str:
    without, with_it = (np.array([100 * pair[i]["novel"] for pair in pairs]) for i in (0, 1))
    seen = [np.mean([100 * pair[i]["seen"] for pair in pairs]) for i in (0, 1)]
    kl = [np.mean([pair[i]["kl"] for pair in pairs]) for i in (0, 1)]
    gain = estimates.of_pairs(with_it, without)
    ends = f"{gain.mean:+.1f} [{gain.mean - gain.half_width:+.1f}, {gain.mean + gain.half_width:+.1f}]"
    return (
        f"novel {without.mean():.1f} % without the margin, {with_it.mean():.1f} % with it, {ends}; "
        f"seen {seen[0]:.1f} and {seen[1]:.1f} %; KL {kl[0]:.2f} and {kl[1]:.2f}; n = {len(pairs)}"
    )


def main() -> None:
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        for novel, weight, tau in WORLDS:
            said = _said(race(page, SPLITS, novel, entropy_weight=weight, temperature=tau))
            print(f"novel classes {novel}, entropy weight {weight:g}, tau {tau:g}: {said}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
