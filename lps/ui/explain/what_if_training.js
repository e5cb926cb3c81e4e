// LPS on stored features, for lps/ui/explain/what_if.py: what plane_training.js, which stands above this, learns of the
// pictures that lps/ui/explain/digit_features.py packs. Nothing here knows of a page.

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// The pictures of a seed's split, as points of as many dimensions as there are features.
export function picturesOf(packed, seed, seen) {
  const [levels, truth] = [new Int8Array(bytesOf(packed.features).buffer), bytesOf(packed.truth)];
  const bits = bytesOf(packed.labeled[seen][seed]);
  return Array.from(truth, (digit, i) => ({
    at: Array.from(levels.subarray(i * packed.width, (i + 1) * packed.width), (value) => value * packed.level),
    truth: digit,
    isLabeled: Boolean((bits[i >> 3] >> (7 - (i & 7))) & 1),
  }));
}

// settings: those of plane_training.js, and steps, epochs. points: what the end of each epoch gave, the start first.
export function trainingOf(packed, seed, settings) {
  const world = picturesOf(packed, seed, settings.seen);
  const model = modelOf(seed, { ...settings, width: packed.width });
  const training = { world, settings, model, done: 0, points: [], kls: [] };
  note(training);
  return training;
}

function note(training) {
  const { seen, novel } = judge(training.model, training.world, training.settings);
  const { kls } = training;
  const kl = kls.length ? kls.reduce((a, b) => a + b, 0) / kls.length : null; // nothing is believed before the first step
  training.points.push({ step: training.done, seen, novel, kl });
  training.kls = [];
}

export function isOver(training) {
  return training.done >= training.settings.steps;
}

export function advanceTraining(training) {
  const { steps, epochs } = training.settings;
  const share = Math.floor((epochs * training.done) / steps) / epochs; // by epoch, as LPS does
  training.kls.push(trainStep(training.model, training.world, share, training.settings).kl);
  training.done++;
  if (Math.floor((epochs * training.done) / steps) > share * epochs || isOver(training)) note(training);
}
