// For the bar of lps/ui/replay.py: moves the line of all charts of its clock, and leaves the keys to the page.

const KEYED = ".st-key-back button, .st-key-play button, .st-key-forward button";

// A button that was clicked keeps the focus, and the space bar would press it besides playing.
function freeKeys(bar) {
  if (!bar || bar.freesKeys) return;
  bar.freesKeys = true;
  bar.addEventListener("click", (event) => event.detail > 0 && document.activeElement?.blur());
  bar.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target.closest(KEYED)) event.preventDefault();
  });
}

export default function (component) {
  const { parentElement, data } = component;
  freeKeys(parentElement.closest(".st-key-replay-bar") ?? document.querySelector(".st-key-replay-bar"));
  const clocks = (window.lpsPlotClocks ??= new Map());
  if (clocks.get(data.clock) === data.at) return;
  clocks.set(data.clock, data.at);
  for (const graph of window.lpsPlotGraphs ?? []) {
    if (graph.clock === data.clock) graph.followClock?.();
  }
}
