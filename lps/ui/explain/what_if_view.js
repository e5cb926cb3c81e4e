// Sliders and curves of the training that what_if_training.js, which stands above this, does. Nothing goes back to the
// server. data: settings and runs (lps/ui/explain/what_if.py), pictures (digit_features.py).

const SLICE_MS = 24; // of training between two frames
const DIALS = ["margin_scale", "temperature", "entropy_weight", "novel"];
const SHOWN = { margin_scale: "C", temperature: "τ", entropy_weight: "entropy", novel: "novel classes" };
const MAX_KL = 1; // the upper end of its axis, at least

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0, roundingMode: "halfEven" }); // as Python rounds

function percent(share) {
  return `${WHOLE.format(100 * share)} %`;
}

function begin(root, { settings, pictures, runs }) {
  const find = (name) => root.querySelector(`.lps-whatif-${name}`);
  const inputs = Object.fromEntries(DIALS.map((name) => [name, find(name)]));
  const usual = Object.fromEntries(DIALS.map((name) => [name, inputs[name].defaultValue]));
  const seeds = Object.values(pictures.labeled)[0].length;
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const state = { seed: 0, now: null, before: null, isAlive: true, isQueued: false, waiting: [] };

  // ------------------------------------------------------------------------------------------- sliders and address

  const chosen = () => Object.fromEntries(DIALS.map((name) => [name, Number(inputs[name].value)]));

  function readAddress() {
    const asked = new URLSearchParams(location.search);
    const number = (name) => (asked.has(`if_${name}`) ? Number(asked.get(`if_${name}`)) : NaN);
    for (const name of DIALS) if (Number.isFinite(number(name))) inputs[name].value = number(name);
    if (number("seed") > 0) state.seed = Math.floor(number("seed")) % seeds;
  }

  function writeAddress() {
    const asked = new URLSearchParams(location.search);
    const put = (name, value, isUsual) => (isUsual ? asked.delete(`if_${name}`) : asked.set(`if_${name}`, value));
    for (const name of DIALS) put(name, inputs[name].value, inputs[name].value === usual[name]);
    put("seed", state.seed, state.seed === 0);
    const text = String(asked);
    history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
  }

  // ------------------------------------------------------------------------------------------------------- training

  function settingsOf(values) {
    return { ...settings, ...values, seen: settings.total - values.novel };
  }

  function start(values) {
    const training = trainingOf(pictures, state.seed, settingsOf(values));
    return Object.assign(training, { values, seed: state.seed, ms: 0 });
  }

  function restart() {
    if (state.now && isOver(state.now)) state.before = state.now;
    state.now = start(chosen());
    queue();
    draw();
  }

  function queue() {
    if (state.isQueued) return;
    state.isQueued = true;
    requestAnimationFrame(slice);
  }

  function slice() {
    state.isQueued = false;
    if (!state.isAlive || !state.now) return;
    const begun = performance.now();
    while (!isOver(state.now) && performance.now() - begun < SLICE_MS) advanceTraining(state.now);
    state.now.ms += performance.now() - begun;
    if (!isOver(state.now)) queue();
    else if (state.waiting.length) state.waiting.shift()();
    else say();
    if (!isCalm || isOver(state.now)) draw();
  }

  // ------------------------------------------------------------------------------------------------------ drawing

  function drawCurves(training, when, top) {
    for (const line of root.querySelectorAll(`polyline.lps-whatif-${when}`)) {
      const curve = line.dataset.curve;
      const points = (training ? training.points : []).filter((point) => point[curve] !== null);
      const high = (value) => 100 - 100 * Math.min(1, Math.max(0, curve === "kl" ? value / top : value));
      line.setAttribute("points", points.map((p) => `${(100 * p.step) / settings.steps},${high(p[curve])}`).join(" "));
    }
  }

  function draw() {
    const kls = [state.now, state.before].flatMap((one) => (one ? one.points.map((point) => point.kl ?? 0) : []));
    const top = Math.max(MAX_KL, Math.ceil(Math.max(...kls)));
    const marks = root.querySelectorAll(".lps-whatif-plot-kl .lps-whatif-axis span");
    [top, top / 2, 0].forEach((mark, i) => (marks[i].textContent = mark));
    drawCurves(state.before, "before", top);
    drawCurves(state.now, "now", top);
    for (const name of DIALS) inputs[name].parentElement.querySelector("output").textContent = shown(name);
    find("step").textContent = `seed ${state.seed}`;
    find("steps").lastElementChild.textContent = `step ${settings.steps}`;
    drawRow();
  }

  function shown(name) {
    const value = Number(inputs[name].value);
    return name === "novel" ? `${value} (${percent(value / settings.total)})` : String(value);
  }

  // ------------------------------------------------------------------------------------------------- words and table

  function ended(training) {
    const { seen, novel, kl } = training.points.at(-1);
    const points = parseInt(percent(seen)) - parseInt(percent(novel)); // as a reader subtracts them
    return `seen ${percent(seen)}, novel ${percent(novel)}, gap ${points} ${Math.abs(points) === 1 ? "point" : "points"}, KL ${kl.toFixed(2)}`;
  }

  function differences(other, own) {
    const found = DIALS.filter((name) => other.values[name] !== own.values[name]);
    const words = found.map((name) => `${SHOWN[name]} ${other.values[name]}`);
    return [...words, ...(other.seed === own.seed ? [] : [`seed ${other.seed}`])].join(", ") || "the same settings";
  }

  function say() {
    const { now, before } = state;
    const words = `After ${settings.steps} steps, in ${Math.round(now.ms)} ms: ${ended(now)}.`;
    find("said").textContent = before ? `${words} The previous setting (${differences(before, now)}) gave: ${ended(before)}.` : words;
  }

  function addRow(name, values, use) {
    const row = root.querySelector("tbody").insertRow();
    for (const text of [name, ...DIALS.map((dial) => values[dial]), values.right, values.found]) {
      row.insertCell().textContent = text;
    }
    const cell = row.insertCell();
    if (use) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Try its values" });
      button.setAttribute("aria-label", `Try the values of ${name}`);
      button.onclick = use;
      cell.append(button);
    }
    return row;
  }

  function drawRow() {
    const last = isOver(state.now) ? state.now.points.at(-1) : null;
    const texts = [...DIALS.map((dial) => state.now.values[dial]), last ? percent(last.seen) : "…", last ? percent(last.novel) : "…"];
    texts.forEach((text, i) => (state.row.cells[i + 1].textContent = text));
  }

  function fillTable() {
    root.querySelector("tbody").replaceChildren();
    state.row = addRow("Your browser, a linear head", {});
    for (const run of runs) {
      const values = { ...run, right: percent(run.seen), found: percent(run.found) };
      addRow(`${run.name} (recorded run, whole network)`, values, () => set(run));
    }
  }

  function set(values) {
    for (const name of DIALS) inputs[name].value = values[name];
    change();
  }

  // --------------------------------------------------------------------------------------------------- what people do

  function change() {
    state.waiting = [];
    writeAddress();
    restart();
  }

  function open() {
    state.waiting = [restart];
    state.now = start({ ...chosen(), margin_scale: 0 });
    queue();
    draw();
  }

  for (const name of DIALS) inputs[name].oninput = change;
  find("usual").onclick = () => set(usual);
  find("other").onclick = () => {
    state.seed = (state.seed + 1) % seeds;
    change();
  };

  const sight = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    sight.disconnect();
    if (!state.now) open();
  });
  fillTable();
  readAddress();
  for (const name of DIALS) inputs[name].parentElement.querySelector("output").textContent = shown(name);
  sight.observe(find("charts"));
  return () => {
    state.isAlive = false;
    sight.disconnect();
    delete root.dataset.begun;
  };
}

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".lps-whatif");
  if (root.dataset.begun) return root.lpsEnd;
  root.dataset.begun = "true";
  root.lpsEnd = begin(root, data);
  return root.lpsEnd;
}
