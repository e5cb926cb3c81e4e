// The race in the plane: draws what plane_training.js, which stands above this, learns, and what the same start learns
// without the margin. Nothing goes back to the server. data: the settings of the simulation (lps/ui/explain/plane.py).

const STEPS_A_SECOND = 50;
const MAX_AT_ONCE = 3; // steps in one frame, so that a slow machine takes longer and does not stutter
const CELLS = 72; // of the ground, along an edge
const REACH = 1.75; // of the plane, from the middle to an edge

function percent(share) {
  return `${Math.round(100 * share)} %`;
}

function length(share) {
  return `${(100 * share).toFixed(1)}%`;
}

function begin(root, settings) {
  const find = (name) => root.querySelector(`.lps-plane-${name}`);
  const canvas = find("canvas");
  const ground = Object.assign(document.createElement("canvas"), { width: CELLS, height: CELLS });
  const [strength, entropy] = [find("strength"), find("entropy")];
  const state = { seed: 0, isPlaying: false, last: 0, due: 0 };
  const chosen = () => ({ ...settings, margin_scale: Number(strength.value), entropy_weight: Number(entropy.value) });

  function restart() {
    const own = chosen();
    state.world = worldOf(state.seed, own);
    state.runs = [own, { ...own, margin_scale: 0 }].map((one) => ({ settings: one, model: modelOf(state.seed, one) }));
    state.done = 0;
    state.due = 0;
    find("said").textContent = "";
    judgeAll();
    draw();
  }

  function judgeAll() {
    for (const run of state.runs) run.judged = judge(run.model, state.world, run.settings);
  }

  function advance(count) {
    const epochs = settings.epochs;
    for (let i = 0; i < count && state.done < settings.steps; i++) {
      const share = Math.floor((epochs * state.done) / settings.steps) / epochs; // by epoch, as LPS does
      for (const run of state.runs) run.measured = trainStep(run.model, state.world, share, run.settings);
      state.done++;
    }
    judgeAll();
  }

  // ------------------------------------------------------------------------------------------------------ drawing

  function readColors() {
    const seen = [...root.querySelectorAll(".lps-plane-tone")].map((tone) => getComputedStyle(tone).color);
    const isNew = String(seen) !== String(state.colors);
    state.colors = seen;
    return isNew;
  }

  function drawGround(context, size) {
    const own = ground.getContext("2d");
    const at = (i) => (2 * (i + 0.5) * REACH) / CELLS - REACH;
    const weights = state.runs[0].model.weights;
    own.clearRect(0, 0, CELLS, CELLS);
    own.globalAlpha = 0.2;
    for (let i = 0; i < CELLS; i++) {
      for (let j = 0; j < CELLS; j++) {
        const logits = weights.map(([a, b, c]) => a * at(i) - b * at(j) + c);
        own.fillStyle = state.colors[largest(logits)];
        own.fillRect(i, j, 1, 1);
      }
    }
    context.imageSmoothingEnabled = true;
    context.drawImage(ground, 0, 0, size, size);
  }

  function drawPoint(context, point, guess, unit) {
    const [x, y] = [(point.at[0] / REACH + 1) * unit, (1 - point.at[1] / REACH) * unit];
    const r = Math.max(2.5, unit / 62);
    context.beginPath();
    if (point.truth < settings.seen) {
      context.arc(x, y, r, 0, 2 * Math.PI);
    } else {
      for (const [dx, dy] of [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]]) context.lineTo(x + dx * r, y + dy * r);
      context.closePath();
    }
    context.fillStyle = state.colors[guess];
    context.fill();
    if (!point.isLabeled) return;
    context.strokeStyle = state.colors.at(-1);
    context.lineWidth = Math.max(1, r / 3);
    context.stroke();
  }

  function drawPlane() {
    const size = Math.round(canvas.clientWidth * devicePixelRatio);
    if (!size) return;
    if (canvas.width !== size) canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, size, size);
    drawGround(context, size);
    state.world.forEach((point, i) => drawPoint(context, point, state.runs[0].judged.guesses[i], size / 2));
  }

  function setBar(name, share, other) {
    const bar = find(name);
    bar.querySelector(".lps-plane-fill").style.width = length(share);
    bar.querySelector(".lps-plane-other").style.left = `clamp(0px, ${length(other)} - 1.5px, 100% - 3px)`;
    bar.querySelector("output").textContent = percent(share);
  }

  function drawBars() {
    const [own, other] = state.runs;
    setBar("seen", own.judged.seen, other.judged.seen);
    setBar("novel", own.judged.novel, other.judged.novel);
    setBar("guesses", own.judged.toSeen, other.judged.toSeen);
    find("fair").style.left = `min(${length(own.judged.fair)}, 100% - 2px)`;
    const kl = (run) => (run.measured ? run.measured.kl.toFixed(2) : "–");
    find("kl").textContent = `KL ${kl(own)}, without the margin ${kl(other)}`;
    const margins = own.measured ? own.measured.margins : [];
    const most = Math.max(4, ...margins);
    find("brakes").querySelectorAll("i").forEach((bar, k) => (bar.style.height = length((margins[k] ?? 0) / most)));
    find("brakes").setAttribute("aria-label", `Margin of every class: ${margins.map((m) => m.toFixed(1)).join(", ")}`);
  }

  function draw() {
    if (!state.colors) readColors();
    drawPlane();
    drawBars();
    for (const dial of [strength, entropy]) dial.parentElement.querySelector("output").textContent = Number(dial.value);
    find("step").textContent = `step ${state.done} of ${settings.steps}`;
    find("play").textContent = state.isPlaying ? "Pause" : state.done >= settings.steps ? "Again" : "Play";
  }

  // ------------------------------------------------------------------------------------------------------- the clock

  function frame(now) {
    if (!state.isPlaying || !root.isConnected) return;
    state.due += Math.min(0.1, (now - state.last) / 1000) * STEPS_A_SECOND;
    state.last = now;
    const count = Math.min(MAX_AT_ONCE, Math.floor(state.due));
    state.due = Math.min(state.due - count, MAX_AT_ONCE);
    if (count) advance(count);
    if (state.done >= settings.steps) end();
    draw();
    if (state.isPlaying) requestAnimationFrame(frame);
  }

  function play() {
    if (state.isPlaying) return;
    state.isPlaying = true;
    state.last = performance.now();
    requestAnimationFrame(frame);
  }

  function end() {
    const [own, other] = state.runs.map((run) => run.judged);
    state.isPlaying = false;
    find("said").textContent =
      `After ${settings.steps} steps, novel accuracy is ${percent(own.novel)} (without the margin: ${percent(other.novel)}), ` +
      `seen accuracy ${percent(own.seen)} (without the margin: ${percent(other.seen)}).`;
  }

  find("play").onclick = () => {
    if (state.isPlaying) {
      state.isPlaying = false;
      draw();
      return;
    }
    if (state.done >= settings.steps) restart();
    play();
  };
  find("new").onclick = () => {
    state.seed++;
    restart();
    play();
  };
  strength.oninput = entropy.oninput = () => {
    restart();
    play();
  };

  const sizes = new ResizeObserver(draw);
  const theme = setInterval(() => readColors() && draw(), 500);
  const sight = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    sight.disconnect();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) play();
  }, { threshold: 0.6 });
  restart();
  sizes.observe(canvas);
  sight.observe(canvas);
  return () => {
    state.isPlaying = false;
    clearInterval(theme);
    sizes.disconnect();
    sight.disconnect();
    delete root.dataset.begun;
  };
}

export default function ({ parentElement, data }) {
  const root = parentElement.querySelector(".lps-plane");
  if (root.dataset.begun) return root.lpsEnd;
  root.dataset.begun = "true";
  root.lpsEnd = begin(root, data);
  return root.lpsEnd;
}
