"""python -m benchmarks.plane: the effect of the margin on the points in the plane that Explain trains in the browser.

Every set of points is trained with the margin and without, from the same start, in Chromium, by the page's own script.
Layout, noise and learning rate were chosen on other sets (0 to 19).
"""

import shutil

import numpy as np
from playwright.sync_api import Page, sync_playwright

from lps.scores import estimates
from lps.ui.explain import plane

SETS = list(range(100, 140))
RACE = """async ([source, settings, seeds]) => {
  const plane = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const novel = (seed, margin_scale) => {
    const own = { ...settings, margin_scale };
    const [world, model] = [plane.worldOf(seed, own), plane.modelOf(seed, own)];
    for (let t = 0; t < own.steps; t++) plane.trainStep(model, world, t / own.steps, own);
    return plane.judge(model, world, own).novel;
  };
  return seeds.map((seed) => [novel(seed, 0), novel(seed, settings.margin_scale)]);
}"""


def race(page: Page, seeds: list[int], **changes: float) -> list[list[float]]:
    """Of each set of points: accuracy on the novel ones without the margin, and with it."""
    return page.evaluate(RACE, [plane.TRAINING, plane.simulation_settings() | changes, seeds])


def _said(pairs: list[list[float]]) -> str:
    without, with_it = (100 * side for side in np.transpose(pairs))
    gain = estimates.of_pairs(with_it, without)
    ends = f"{gain.mean:+.1f} [{gain.mean - gain.half_width:+.1f}, {gain.mean + gain.half_width:+.1f}]"
    return f"novel {without.mean():.1f} % without the margin, {with_it.mean():.1f} % with it, {ends}, n = {len(pairs)}"


def main() -> None:
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        for weight in (1.0, 0.5, 0.25, 0.0):
            print(f"entropy weight {weight:g}: {_said(race(page, SETS, entropy_weight=weight))}")
        browser.close()


if __name__ == "__main__":
    main()
