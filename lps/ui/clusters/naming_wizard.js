// For lps/ui/clusters/naming_wizard.py: another cluster is shown, so the field for its name gets the keyboard, once. A page
// that is still being put together takes it away again, hence the later looks; they end when a person does anything.

const LOOKS_MS = [0, 300, 900, 1800, 3000];

export default function ({ data }) {
  const wanted = `${location.pathname} ${data}`;
  if (window.lpsTurn === wanted) return;
  window.lpsTurn = wanted;
  const stop = new AbortController();
  for (const kind of ["keydown", "pointerdown"]) {
    document.addEventListener(kind, () => stop.abort(), { capture: true, signal: stop.signal });
  }
  for (const wait of LOOKS_MS) {
    setTimeout(() => {
      if (stop.signal.aborted || window.lpsTurn !== wanted) return;
      document.querySelector(".st-key-naming input[type=text]")?.focus({ preventScroll: true });
      if (wait === LOOKS_MS.at(-1)) stop.abort();
    }, wait);
  }
}
