// The run list of lps/ui/board/run_list.py. It shares window.lpsBoard with the charts (lps/ui/shared/plot.js): what is
// hidden, what is lit, and the values at the epoch under the pointer. The server hears of eyes and pins alone.

const board = (window.lpsBoard ??= Object.assign(new EventTarget(), { hidden: new Set(), lit: "", moment: null }));
const change = (what) => board.dispatchEvent(new Event(what));

const REPORT_MS = 250; // after the last click
const NARROW = matchMedia("(max-width: 640px)");
const OPEN_EYE = ["M2 12s4-6 10-6 10 6 10 6-4 6-10 6S2 12 2 12z", "M12 9.5a2.5 2.5 0 1 0 .01 0z"];
const CLOSED_EYE = ["M2 12s4-6 10-6 10 6 10 6-4 6-10 6S2 12 2 12z", "M4 20 20 4"];
const PIN = ["M9 3h6l-1 7 3 3v2H7v-2l3-3z", "M12 15v6"];

const PERCENT = new Intl.NumberFormat("en", {
  minimumSignificantDigits: 3, maximumSignificantDigits: 3, useGrouping: false, roundingMode: "halfEven", // as Python
});

// Three significant digits, in percent for shares; "–" for nothing.
function digits(value, isShare) {
  if (!Number.isFinite(value)) return "–";
  if (isShare) return `${PERCENT.format(100 * value)} %`;
  return Math.abs(value) >= 1000 ? String(Number(value.toPrecision(3))) : value.toPrecision(3);
}

function element(tag, className, parent) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  parent?.appendChild(made);
  return made;
}

// frame: an empty svg element of the page.
function drawIcon(frame, button, paths) {
  const icon = frame.cloneNode();
  for (const d of paths) icon.appendChild(document.createElementNS(icon.namespaceURI, "path")).setAttribute("d", d);
  button.replaceChildren(icon);
}

const light = (key) => {
  if (board.lit === key) return;
  board.lit = key;
  change("lit");
};

// What the server says counts, unless it is the answer to something older than what was reported last.
function adopt(root, { hidden, pinned }) {
  const said = JSON.stringify([hidden, pinned]);
  root.reported ??= [];
  const isLate = root.reported.slice(0, -1).includes(said);
  if (isLate || root.timer) return;
  const isKnown = root.reported.at(-1) === said;
  root.reported = [said];
  if (isKnown) return;
  root.pinned = new Map(Object.entries(pinned));
  board.hidden = new Set(hidden);
  change("hidden");
}

function report(root) {
  clearTimeout(root.timer);
  root.timer = setTimeout(() => {
    root.timer = 0;
    const chosen = { hidden: [...board.hidden], pinned: Object.fromEntries(root.pinned) };
    root.reported.push(JSON.stringify([chosen.hidden, chosen.pinned]));
    root.report(chosen);
  }, REPORT_MS);
}

function hide(root, keys, isHidden) {
  for (const key of keys) isHidden ? board.hidden.add(key) : board.hidden.delete(key);
  change("hidden");
  report(root);
}

function makeFrame(root) {
  root.icon = root.querySelector("svg");
  root.icon.remove();
  const fold = element("details", "", root);
  fold.open = !NARROW.matches;
  root.fold = fold;
  root.count = element("span", "", element("summary", "", fold));
  const head = element("div", "lps-lines-head", fold);
  root.all = element("button", "lps-lines-all", head);
  root.all.type = "button";
  root.all.onclick = () => hide(root, root.keys, board.hidden.size === 0 || !root.keys.some((key) => board.hidden.has(key)));
  root.head = element("span", "", head);
  root.list = element("ul", "", fold);
  root.rows = new Map();
}

function makeRow(root, key) {
  const row = element("li");
  row.dataset.key = key;
  const eye = element("button", "lps-lines-eye", row);
  eye.setAttribute("role", "switch");
  eye.onclick = () => hide(root, [key], !board.hidden.has(key));
  const name = element("button", "lps-lines-name", row);
  const swatch = element("span", "lps-lines-swatch", name);
  const words = element("span", "", name);
  const number = element("span", "lps-lines-value", row);
  const pin = element("button", "lps-lines-pin", row);
  drawIcon(root.icon, pin, PIN);
  pin.onclick = () => {
    root.pinned.has(key) ? root.pinned.delete(key) : root.pinned.set(key, row.colors[0]);
    refresh(root);
    report(root);
  };
  for (const button of [eye, name, pin]) button.type = "button";
  name.onclick = () => hide(root, [key], !board.hidden.has(key));
  row.onmouseenter = () => light(key);
  row.onmouseleave = () => light("");
  row.addEventListener("focusin", () => light(key));
  row.addEventListener("focusout", ({ relatedTarget }) => row.contains(relatedTarget) || light(""));
  row.onkeydown = (event) => {
    const to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
    if (!to) return;
    event.preventDefault();
    to.querySelector(".lps-lines-name").focus();
  };
  Object.assign(row, { eye, name, swatch, words, number, pin });
  return row;
}

// What stands in the rows, without making them anew: the keyboard stays where it is.
function refresh(root) {
  const { data } = root;
  const { moment } = board;
  const off = root.keys.filter((key) => board.hidden.has(key)).length;
  const shown = root.keys.length - off;
  root.count.textContent = off ? `${shown} of ${root.keys.length} lines` : `${shown} line${shown === 1 ? "" : "s"}`;
  root.all.textContent = off ? "Show all" : "Hide all";
  root.head.textContent = moment ? `${moment.title}, epoch ${moment.epoch}` : `${data.title}, ${data.when}`;
  for (const { key, name, short, value, colors } of data.rows) {
    const row = root.rows.get(key);
    const isOff = board.hidden.has(key);
    row.classList.toggle("lps-lines-off", isOff);
    row.classList.toggle("lps-lines-lit", board.lit === key);
    const text = moment ? digits(moment.values.get(key), moment.share) : digits(value ?? NaN, data.share);
    row.number.textContent = text;
    if (row.words.textContent !== short) row.words.textContent = short;
    row.name.title = name;
    if (row.isOff !== isOff) drawIcon(root.icon, row.eye, isOff ? CLOSED_EYE : OPEN_EYE);
    row.isOff = isOff;
    row.eye.setAttribute("aria-checked", String(!isOff));
    row.eye.setAttribute("aria-label", `Show ${name} in all charts`);
    row.eye.title = isOff ? "Show in all charts" : "Hide in all charts";
    row.name.setAttribute("aria-label", `${name}: ${text}${isOff ? ", hidden" : ""}`);
    row.pin.setAttribute("aria-pressed", String(root.pinned.has(key)));
    row.pin.setAttribute("aria-label", `Pin the colour of ${name}`);
    row.pin.title = root.pinned.has(key) ? "Click to release the pinned colour" : "Pin this colour";
    row.colors = colors;
    row.swatch.style.background = `light-dark(${colors[0]}, ${colors[1]})`;
  }
}

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".lps-lines");
  root.report = (chosen) => setTriggerValue("chosen", chosen);
  root.data = data;
  root.keys = data.rows.map(({ key }) => key);
  if (!root.rows) makeFrame(root);
  for (const [key, row] of root.rows) {
    if (root.keys.includes(key)) continue;
    row.remove();
    root.rows.delete(key);
  }
  root.keys.forEach((key, place) => {
    if (!root.rows.has(key)) root.rows.set(key, makeRow(root, key));
    const row = root.rows.get(key);
    if (root.list.children[place] !== row) root.list.insertBefore(row, root.list.children[place] ?? null);
  });
  adopt(root, data);
  refresh(root);
  root.stop?.();
  const again = () => refresh(root);
  const kinds = ["hidden", "lit", "moment"];
  for (const kind of kinds) board.addEventListener(kind, again);
  root.stop = () => kinds.forEach((kind) => board.removeEventListener(kind, again));
  return root.stop;
}
