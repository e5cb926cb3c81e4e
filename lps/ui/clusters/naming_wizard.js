// For lps/ui/clusters/naming_wizard.py: another cluster is shown, so the field for its name gets the keyboard, once, or
// what was asked for comes into sight. A page that is still being put together undoes this, hence the later looks; they
// end when a person does anything.

const LOOKS_MS = [0, 300, 900, 1800, 3000];

function bringIntoSight(element) {
  if (!element) return;
  element.style.scrollMarginTop = "4rem"; // the bar at the top of the page
  element.scrollIntoView({ block: element.clientHeight > innerHeight / 2 ? "start" : "center" });
}

export default function ({ data }) {
  const wanted = `${location.pathname} ${data.cluster} ${data.scroll}`;
  if (window.lpsTurn === wanted) return;
  const isScrolled = data.scroll && data.scroll !== window.lpsScroll;
  [window.lpsTurn, window.lpsScroll] = [wanted, data.scroll];
  const stop = new AbortController();
  for (const kind of ["keydown", "pointerdown", "wheel"]) {
    document.addEventListener(kind, () => stop.abort(), { capture: true, signal: stop.signal });
  }
  for (const wait of LOOKS_MS) {
    setTimeout(() => {
      if (stop.signal.aborted || window.lpsTurn !== wanted) return;
      const field = document.querySelector(".st-key-naming input[type=text]");
      if (data.focus) field?.focus({ preventScroll: true });
      if (isScrolled) bringIntoSight(document.querySelector(data.target));
      if (wait === LOOKS_MS.at(-1)) stop.abort();
    }, wait);
  }
}
