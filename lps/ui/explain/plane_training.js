// Learning in the plane with the objective of LPS, for lps/ui/explain/plane.py: the terms of lps/methods/lps.py with
// their gradients, by hand, of a linear softmax classifier. Rows of a batch are points [x, y], labeled ones first.
// settings: by the names that LPS gives them; seen, total: numbers of classes, seen ones first.

const TINY = 1e-8; // as in training

export function softmax(logits) {
  const top = Math.max(...logits);
  const powers = logits.map((value) => Math.exp(value - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

function largest(values) {
  return values.indexOf(Math.max(...values));
}

function zeros(rows, columns) {
  return Array.from({ length: rows }, () => new Array(columns).fill(0));
}

// -------------------------------------------------------------------------- pseudo-labels, class distribution, margins

// Class, and whether it is believed, of every row; labeled ones have their target and are always believed.
export function believed(probabilities, targets, thresholdNovel, settings) {
  const labels = probabilities.map(largest);
  const confident = labels.map((k, i) => {
    const needed = k < settings.seen ? settings.threshold_seen : thresholdNovel;
    return probabilities[i][k] >= needed;
  });
  targets.forEach((target, i) => {
    labels[i] = target;
    confident[i] = true;
  });
  return { labels, confident };
}

// Mean of the believed rows' probabilities, what it is from an equal share, and what the margin adds to each target.
export function brake(probabilities, confident, settings) {
  const rows = probabilities.filter((_, i) => confident[i]);
  const piHat = probabilities[0].map((_, k) => rows.reduce((sum, row) => sum + row[k], 0) / Math.max(1, rows.length));
  const logs = piHat.map((share) => Math.log(Math.max(share, TINY)));
  const kl = -logs.reduce((a, b) => a + b, 0) / logs.length - Math.log(logs.length);
  const most = Math.max(...piHat, TINY);
  return { piHat, kl, margins: piHat.map((share) => (settings.margin_scale * kl * share) / most) };
}

// --------------------------------------------------------------------------------------------------- terms of the loss
// Each adds its gradient to that of the logits and returns its value.

// Sum of weight * cross-entropy of the rows from `from` on, with the margin on the logit of the target.
function addCrossEntropy(logits, labels, weights, margins, from, to, gradient) {
  let value = 0;
  for (let i = from; i < to; i++) {
    if (!weights[i]) continue;
    const p = softmax(logits[i].map((z, k) => (k === labels[i] ? z + margins[k] : z)));
    value -= weights[i] * Math.log(p[labels[i]]);
    for (let k = 0; k < p.length; k++) gradient[i][k] += weights[i] * (p[k] - (k === labels[i] ? 1 : 0));
  }
  return value;
}

// weight * sum_k p_k log p_k of the mean prediction p.
function addEntropy(logits, weight, gradient) {
  const rows = logits.map(softmax);
  const mean = rows[0].map((_, k) => rows.reduce((sum, row) => sum + row[k], 0) / rows.length);
  const slope = mean.map((p) => (p > TINY ? Math.log(p) + 1 : Math.log(TINY)));
  rows.forEach((row, i) => {
    const middle = row.reduce((sum, p, k) => sum + p * slope[k], 0);
    row.forEach((p, k) => (gradient[i][k] += (weight * p * (slope[k] - middle)) / rows.length));
  });
  return weight * mean.reduce((sum, p) => sum + p * Math.log(Math.max(p, TINY)), 0);
}

// Who stands against whom: a believed row against believed ones, those of its label are positive (2); another against
// all, its other view is positive.
function standing(i, j, label, chosen) {
  if (!chosen[i]) return j === (i + label.length / 2) % label.length ? 2 : 1;
  return chosen[j] ? (label[i] === label[j] ? 2 : 1) : 0;
}

// exp(similarity) of all pairs of rows of unit vectors, i > j, and for each row its sum over those that it stands
// against, over the positive ones, and their number. Similarities are at most 1 / temperature.
function affinities(units, width, label, chosen, temperature) {
  const n = label.length;
  const near = new Float64Array((n * (n - 1)) / 2);
  const [all, own, count] = [new Float64Array(n), new Float64Array(n), new Float64Array(n)];
  const add = (i, j, value) => {
    const kind = standing(i, j, label, chosen);
    if (!kind) return;
    all[i] += value;
    if (kind < 2) return;
    own[i] += value;
    count[i]++;
  };
  for (let i = 0, at = 0; i < n; i++) {
    for (let j = 0; j < i; j++, at++) {
      let product = 0;
      for (let k = 0; k < width; k++) product += units[i * width + k] * units[j * width + k];
      near[at] = Math.exp(product / temperature);
      add(i, j, near[at]);
      add(j, i, near[at]);
    }
  }
  return { near, all, own, count };
}

// The gradient of the unit vectors; weights: of each row in the loss.
function pulls(units, width, label, chosen, weights, { near, all, own, count }, temperature) {
  const n = label.length;
  const found = new Float64Array(units.length);
  const [inverse, positive] = [all.map((sum) => 1 / sum), own.map((sum) => 1 / sum)];
  const slope = (i, j, value) => {
    const kind = count[i] ? standing(i, j, label, chosen) : 0;
    return kind ? weights[i] * value * (inverse[i] - (kind === 2 ? positive[i] : 0)) : 0;
  };
  for (let i = 0, at = 0; i < n; i++) {
    for (let j = 0; j < i; j++, at++) {
      const both = (slope(i, j, near[at]) + slope(j, i, near[at])) / temperature;
      if (!both) continue;
      for (let k = 0; k < width; k++) {
        found[i * width + k] += both * units[j * width + k];
        found[j * width + k] += both * units[i * width + k];
      }
    }
  }
  return found;
}

// Both contrastive terms over the rows of the second and the strong view: the believed ones by label, the others by
// image. Unit logits over the temperature are compared.
function addContrast(second, strong, labels, confident, settings, secondGradient, strongGradient) {
  const views = [...second, ...strong];
  const [n, width] = [views.length, settings.total];
  const label = Int32Array.from([...labels, ...labels]);
  const chosen = Uint8Array.from([...confident, ...confident]);
  const lengths = views.map((row) => Math.max(Math.hypot(...row), 1e-12));
  const units = new Float64Array(n * width);
  views.forEach((row, i) => row.forEach((value, k) => (units[i * width + k] = value / lengths[i])));
  const numChosen = Math.max(1, chosen.reduce((sum, one) => sum + one, 0));
  const weights = Float64Array.from(chosen, (one) =>
    one ? settings.pseudo_label_weight / numChosen : settings.unsupervised_weight / n,
  );
  const found = affinities(units, width, label, chosen, settings.temperature);
  const pull = pulls(units, width, label, chosen, weights, found, settings.temperature);
  let [clustered, apart] = [0, 0];
  for (let i = 0; i < n; i++) {
    const value = found.count[i] ? Math.log(found.all[i] / found.own[i]) + Math.log(found.count[i]) : 0;
    if (chosen[i]) clustered += weights[i] * value;
    else apart += weights[i] * value;
    addThroughUnit(i < n / 2 ? secondGradient[i] : strongGradient[i - n / 2], pull, units, i * width, lengths[i]);
  }
  return { clustered, apart };
}

// Adds what the gradient of a unit vector, which begins at `from`, is for the vector that it was made of.
function addThroughUnit(gradient, pull, units, from, length) {
  let along = 0;
  for (let k = 0; k < gradient.length; k++) along += pull[from + k] * units[from + k];
  for (let k = 0; k < gradient.length; k++) gradient[k] += (pull[from + k] - along * units[from + k]) / length;
}

// The whole objective of one batch: terms, their sum, what was measured, and the gradient of each view's logits.
// first, second: weak views; done: share of the training that is over.
export function objective(first, second, strong, targets, done, settings) {
  const rows = first.length;
  const labeled = targets.length;
  const novel = settings.threshold_novel_start + (settings.threshold_novel_end - settings.threshold_novel_start) * done;
  const probabilities = second.map(softmax);
  const { labels, confident } = believed(probabilities, targets, novel, settings);
  const { piHat, kl, margins } = brake(probabilities, confident, settings);
  const gradients = [0, 1, 2].map(() => zeros(rows, settings.total));
  const share = labels.map((_, i) => (i < labeled ? 1 / labeled : confident[i] ? 1 / (rows - labeled) : 0));
  const margin =
    addCrossEntropy(first, labels, share, margins, 0, labeled, gradients[0]) +
    addCrossEntropy(strong, labels, share, margins, labeled, rows, gradients[2]);
  const contrast = addContrast(second, strong, labels, confident, settings, gradients[1], gradients[2]);
  const entropy = addEntropy(first, settings.entropy_weight, gradients[0]);
  const terms = { margin, clustered: contrast.clustered, apart: contrast.apart, entropy };
  const total = Object.values(terms).reduce((a, b) => a + b, 0);
  return { terms, total, gradients, piHat, kl, margins, labels, confident };
}

// --------------------------------------------------------------------------------------------------------- classifier

// weights: a row for each class; past: the momentum of each. scale: of a cosine classifier, whose rows have the width of
// the points; without it the classifier is linear, and a bias stands at the end of each row.
function inputsOf(model, points) {
  return model.scale ? points.map(unit) : points.map((point) => [...point, 1]);
}

function unit(values) {
  const length = Math.max(Math.sqrt(dot(values, values)), 1e-12);
  return values.map((value) => value / length);
}

function dot(a, b) {
  let sum = 0;
  for (let j = 0; j < a.length; j++) sum += a[j] * b[j];
  return sum;
}

function logitsOfInputs(model, inputs) {
  const rows = model.scale ? model.weights.map((row) => unit(row).map((value) => model.scale * value)) : model.weights;
  return inputs.map((input) => rows.map((row) => dot(input, row)));
}

export function logitsOf(model, points) {
  return logitsOfInputs(model, inputsOf(model, points));
}

// The gradient of the weights, from that of the rows that give the logits.
function throughScale(model, slope) {
  if (!model.scale) return slope;
  return slope.map((row, k) => {
    const own = unit(model.weights[k]);
    const along = dot(row, own);
    const factor = model.scale / Math.max(Math.sqrt(dot(model.weights[k], model.weights[k])), 1e-12);
    return row.map((value, j) => factor * (value - along * own[j]));
  });
}

// One step of SGD with momentum on three views of a batch (weak, weak, strong); changes the model.
export function step(model, views, targets, done, settings) {
  const inputs = views.map((view) => inputsOf(model, view));
  const found = objective(...inputs.map((view) => logitsOfInputs(model, view)), targets, done, settings);
  const slope = zeros(settings.total, model.weights[0].length);
  found.gradients.forEach((gradient, v) =>
    gradient.forEach((row, i) => {
      const input = inputs[v][i];
      row.forEach((value, k) => {
        for (let j = 0; j < input.length; j++) slope[k][j] += value * input[j];
      });
    }),
  );
  throughScale(model, slope).forEach((row, k) =>
    row.forEach((value, j) => {
      model.past[k][j] = settings.momentum * model.past[k][j] + value;
      model.weights[k][j] -= settings.lr * model.past[k][j];
    }),
  );
  return found;
}

// -------------------------------------------------------------------------------------------------------------- world

// Numbers in [0, 1) that a seed determines (mulberry32), and normal ones made of them.
export function randomOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  return { next, normal };
}

// Points around as many places on a ring as there are classes, seen and novel ones in turn, and which are labeled.
export function worldOf(seed, settings) {
  const random = randomOf(seed);
  const points = [];
  for (let i = 0; i < settings.points; i++) {
    const k = i % settings.total;
    const place = k < settings.seen ? 2 * k : 2 * (k - settings.seen) + 1;
    const angle = (2 * Math.PI * place) / settings.total;
    const at = [Math.cos(angle), Math.sin(angle)].map((center) => center + settings.spread * random.normal());
    points.push({ at, truth: k, isLabeled: k < settings.seen && random.next() < settings.labeled_ratio });
  }
  return points;
}

export function modelOf(seed, settings) {
  const random = randomOf(seed + 1);
  const [width, scale] = [settings.width, settings.cosine_scale];
  const rows = zeros(settings.total, scale ? width : width + 1);
  const weights = rows.map((row) => row.map((_, j) => (j < width ? settings.start * random.normal() : 0)));
  return { weights, past: rows, random, scale };
}

// One step on a batch that the model's own random numbers draw from the world.
export function trainStep(model, world, done, settings) {
  const draw = (all, count) => Array.from({ length: count }, () => all[Math.floor(model.random.next() * all.length)]);
  const chosen = [...draw(world.filter((p) => p.isLabeled), settings.labeled_rows)];
  const targets = chosen.map((point) => point.truth);
  chosen.push(...draw(world.filter((p) => !p.isLabeled), settings.unlabeled_rows));
  const views = [settings.weak, settings.weak, settings.strong].map((jitter) =>
    chosen.map(({ at }) => at.map((value) => value + jitter * model.random.normal())),
  );
  return step(model, views, targets, done, settings);
}

// The largest sum of one value a row, none of them in one column (the Hungarian algorithm); rows <= columns.
export function bestSum(values) {
  const [rows, columns] = [values.length, values.length ? values[0].length : 0];
  const [ofRow, ofColumn] = [new Array(rows + 1).fill(0), new Array(columns + 1).fill(0)];
  const rowOf = new Array(columns + 1).fill(0); // 1-based; 0: the column is free, and place 0 is the row to be placed
  for (let row = 1; row <= rows; row++) {
    rowOf[0] = row;
    const least = new Array(columns + 1).fill(Infinity);
    const [from, isDone] = [new Array(columns + 1).fill(0), new Array(columns + 1).fill(false)];
    let column = 0;
    do {
      isDone[column] = true;
      let [next, gap] = [0, Infinity];
      for (let j = 1; j <= columns; j++) {
        if (isDone[j]) continue;
        const slack = -values[rowOf[column] - 1][j - 1] - ofRow[rowOf[column]] - ofColumn[j];
        if (slack < least[j]) [least[j], from[j]] = [slack, column];
        if (least[j] < gap) [gap, next] = [least[j], j];
      }
      for (let j = 0; j <= columns; j++) {
        if (isDone[j]) [ofRow[rowOf[j]], ofColumn[j]] = [ofRow[rowOf[j]] + gap, ofColumn[j] - gap];
        else least[j] -= gap;
      }
      column = next;
    } while (rowOf[column]);
    for (; column; column = from[column]) rowOf[column] = rowOf[from[column]];
  }
  return rowOf.slice(1).reduce((sum, row, j) => sum + (row ? values[row - 1][j] : 0), 0);
}

// Of the unlabeled points: guesses, share that is right among seen and among novel ones (ids by their best matching to
// novel classes: novel ids alone, or with any_id all, as the app scores its runs), share of guesses that go to seen ones.
export function judge(model, world, settings) {
  const guesses = logitsOf(model, world.map((point) => point.at)).map(largest);
  const table = zeros(settings.total, settings.total);
  world.forEach((point, i) => !point.isLabeled && table[point.truth][guesses[i]]++);
  const size = (row) => row.reduce((a, b) => a + b, 0);
  const ids = [...Array(settings.total).keys()];
  const [seen, novel] = [ids.slice(0, settings.seen), ids.slice(settings.seen)];
  const count = (group) => group.reduce((sum, k) => sum + size(table[k]), 0);
  const right = bestSum(novel.map((k) => table[k].slice(settings.any_id ? 0 : settings.seen)));
  const all = count(ids);
  return {
    guesses,
    seen: seen.reduce((sum, k) => sum + table[k][k], 0) / count(seen),
    novel: right / count(novel),
    toSeen: ids.reduce((sum, k) => sum + size(table[k].slice(0, settings.seen)), 0) / all,
    fair: count(seen) / all,
  };
}
