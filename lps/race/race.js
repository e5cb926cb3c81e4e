// The race: runs of one split under one clock, drawn into the frame (frame.html.j2) from what lps/race/race_data.py found, without a server.
//
// A place `p` on the clock is a number: at a whole one epochs[p] has been reached, between two of them it is on the way.
// Marks and bars stand where they were measured, and travel only in the last part of the way to the next measurement;
// every number is the one that was measured last, and is grey while what it belongs to travels.
// Where measurements follow each other quickly (the steps of an epoch), marks and their numbers change together, in jumps.
"use strict";

const RACE_SPEEDS = [0.5, 1, 2, 4];
const RACE_ROWS = { seen: 1, gap: 0.7, novel: 1, guesses: 0.8 }; // heights in a lane, as race.css has its rows
const RACE_FOOT = 1.1; // em below them, for what the ticks mean
const RACE_TRAIL = 40; // earlier measurements that are shown behind a mark
const RACE_TRAVEL = 0.4; // share of the way between two measurements in which marks travel, at the most
const RACE_TRAVEL_S = 1; // of the clock at speed 1, at the most
const RACE_QUICK_S = 0.5; // of the clock at speed 1: measurements that are closer follow each other quickly
const RACE_LOST = 0.05; // below its best, where an accuracy that is told at the end was higher before
const RACE_MERGED = 3; // groups of merged classes that are named
const RACE_OFF = 0.01; // share of its axis that a mark may stand beside its number
const RACE_STOP_S = 0.35; // after a pause, until the next measurement is reached
const RACE_FRAME_S = 0.1; // a longer pause between two frames does not count
const RACE_TEXTS_MS = 120; // between two changes of what can be read, while it moves

// What is derived once from the data: where marks may rest, and how far each axis reaches.
function raceCourse(race) {
  const last = race.epochs.length - 1;
  const hasSteps = race.left_out === 0 && race.runs.some(({ steps }) => steps.kl || steps.guesses);
  const places = new Set(race.epochs.keys());
  for (const { steps } of hasSteps ? race.runs : []) {
    (steps.kl ?? steps.guesses ?? []).forEach((row, i) => {
      row?.forEach((_, k) => places.add(k + 1 === row.length ? i : Math.round(1e6 * (i - 1 + (k + 1) / row.length)) / 1e6));
    });
  }
  const moments = [...places].sort((a, b) => a - b);
  const leads = moments[0] < 0;
  const seconds = race.seconds.map((second, i) => (i === 0 && !leads ? 0 : second));
  let sum = 0;
  const arrivals = seconds.map((second) => (sum += second));
  const all = (rows) => (rows ?? []).flat().filter((x) => x != null);
  const top = (pick) => race.runs.reduce((most, run) => all(pick(run)).reduce((a, b) => Math.max(a, b), most), 0);
  return {
    last, moments, arrivals, seconds, hasSteps, leads,
    share: top((run) => [...(raceShows(run, false) ?? []), ...(run.priors ?? [])]) || 1, taken: top((run) => raceShows(run, true)) || 1,
    margin: top((run) => [...(run.margins ?? []), ...(hasSteps ? Object.values(run.steps.brake).flat() : [])]),
    kl: top((run) => [run.kl, hasSteps ? run.steps.kl : null].flat(2)) || 1,
    truth: race.truth && race.truth.slice(0, race.classes.seen).reduce((sum, share) => sum + share, 0),
    ends: race.runs.map((run) => race.epochs.reduce((end, epoch, i) => (epoch <= run.last ? i : end), -1)),
  };
}

// How far marks have come, 0 to 1, where the clock has passed a share `way` of the `seconds` between two measurements.
function raceTravelled(way, seconds) {
  if (seconds < RACE_QUICK_S) return way;
  const share = Math.min(RACE_TRAVEL, RACE_TRAVEL_S / seconds), x = Math.max(0, (way - 1) / share + 1);
  return x * x * (3 - 2 * x);
}

// Where marks that are measured once an epoch stand while the clock is at place p.
function raceStand(course, p) {
  const i = Math.floor(p), seconds = course.seconds[i + 1];
  return seconds ? i + raceTravelled(p - i, seconds) : p;
}

// A row of numbers by epoch at place p: the last that was measured, or on the way to the next one. start: the number of
// k-means before training, which is shown within the first epoch.
function raceAt(column, p, end, moves, start = null) {
  if (!column) return null;
  if (p < 0) return start !== null && moves && column[0] != null ? start + (column[0] - start) * (p + 1) : start;
  let i = Math.min(Math.floor(p), end);
  while (i >= 0 && column[i] == null) i -= 1;
  if (i < 0) return null;
  const next = Math.floor(p) + 1;
  if (!moves || p >= end || column[next] == null || i !== next - 1) return column[i];
  const way = p - Math.floor(p);
  if (Array.isArray(column[i])) return column[i].map((x, k) => x + ((column[next][k] ?? x) - x) * way);
  return column[i] + (column[next] - column[i]) * way;
}

// The same for what was measured several times an epoch; `rows` has a list for every epoch.
function raceAtStep(rows, course, p, end, moves) {
  const at = Math.min(p, end), i = Math.ceil(at - 1e-9), row = rows[i];
  if (!row) return raceAt(rows.map((one) => one?.at(-1) ?? null), at, end, false);
  const q = (at - (i - 1)) * row.length, k = Math.floor(q + 1e-4) - 1;
  const before = k >= 0 ? row[k] : rows[i - 1]?.at(-1) ?? null;
  const after = row[k + 1];
  if (!moves || before == null || after == null) return before;
  return before + (after - before) * raceTravelled(Math.max(0, q - k - 1), course.seconds[i] / row.length);
}

// Which numbers of a lane that were written for the reading `read` no longer fit what is drawn of it, `now`.
function raceOutdated(course, read, now) {
  const isOff = (pick, axis) => pick(read) !== null && Math.abs(pick(now) - pick(read)) > RACE_OFF * axis;
  const seen = isOff((one) => one.seen, 1), novel = isOff((one) => one.novel, 1);
  return {
    seen, novel, gap: seen || novel,
    guesses: isOff((one) => one.guesses, 1), kl: isOff((one) => one.kl, course.kl),
    brake: isOff((one) => one.brake.seen, course.margin) || isOff((one) => one.brake.novel, course.margin),
  };
}

function raceMean(row, from, to) {
  const part = row?.slice(from, to).filter((x) => x !== null) ?? [];
  return part.length ? part.reduce((sum, x) => sum + x, 0) / part.length : null;
}

// What the bars of a lane are: the estimated class distribution, or the share of the images taken for each class.
function raceShows(run, isTaken) {
  return isTaken ? run.taken ?? run.shares : run.shares ?? run.taken;
}

// Everything that a lane shows of a run at place p.
function raceReading(race, course, number, p, moves, isTaken = false) {
  const run = race.runs[number], end = course.ends[number], { steps } = run;
  const stand = moves ? raceStand(course, p) : p;
  const read = (column) => raceAt(column, stand, end, moves);
  const readFrom = (group) => raceAt(run[group], stand, end, moves, run.start[group]);
  const readStep = (rows, column) => (course.hasSteps && rows ? raceAtStep(rows, course, p, end, moves) : read(column));
  const margins = read(run.margins);
  const known = race.classes.seen;
  const brake = (group, from, to) => (margins ? raceMean(margins, from, to) : readStep(steps.brake[group], null));
  const i = Math.ceil(Math.min(p, end) - 1e-9);
  const ticks = (rows) => course.hasSteps && rows?.[i] && course.seconds[i] / rows[i].length < RACE_QUICK_S;
  return {
    ticks: { kl: ticks(steps.kl), guesses: ticks(steps.guesses), brake: !margins && ticks(steps.brake.seen) },
    seen: readFrom("seen"), novel: readFrom("novel"), isStart: p < 0,
    kl: readStep(steps.kl, run.kl),
    guesses: readStep(steps.guesses, null),
    shares: read(raceShows(run, isTaken)), priors: read(run.priors), margins,
    matched: raceAt(run.matched, stand, end, false),
    brake: { seen: brake("seen", 0, known), novel: brake("novel", known) },
    isAtEnd: p > end && course.ends.some((other) => other > end),
  };
}

function racePercent(x) {
  return `${(100 * x).toFixed(1)} %`;
}

// The difference of two shares in points, of the percentages as they are shown.
function racePoints(a, b) {
  return Math.round(10 * (parseFloat(racePercent(a)) - parseFloat(racePercent(b)))) / 10;
}

// Whether all runs are over and their accuracies are known.
function raceIsDecided(race) {
  return race.runs.every((run) => run.is_over && [run.seen, run.novel].every((column) => column?.some((x) => x != null)));
}

function raceLast(run, group) {
  return run[group].findLast((x) => x != null);
}

// Novel accuracy and gap of every run at the end, in one line.
function raceEnd(race) {
  const gaps = race.runs.map((run) => racePoints(raceLast(run, "seen"), raceLast(run, "novel")).toFixed(1).replace("-", "−"));
  const name = (run) => (race.runs.length > 2 ? run.letter : `${run.letter} (${run.title})`);
  const novel = race.runs.map((run) => `${name(run)} ${racePercent(raceLast(run, "novel"))}`);
  return `Novel accuracy at the end: ${novel.join(", ")}. Gap: ${gaps.join(", ")} points.`;
}

// The rest of what a race has come to.
function raceOutcome(race) {
  const known = (column) => column.filter((x) => x != null), last = raceLast;
  const told = (group) => race.runs.map((run) => {
    const end = last(run, group), best = Math.max(...known(run[group]));
    const earlier = [];
    if (best - end > RACE_LOST) earlier.push(`best: ${racePercent(best)} at epoch ${race.epochs[run[group].indexOf(best)]}`);
    if (run.start[group] !== null && racePoints(run.start[group], end) > 0) earlier.push(`k-means before training: ${racePercent(run.start[group])}`);
    return `${run.letter} ${racePercent(end)}${earlier.length ? ` (${earlier.join("; ")})` : ""}`;
  }).join(", ");
  const chance = race.runs.length > 1 ? " One run each: some of this may be chance." : "";
  const [a, b] = race.runs;
  const lead = (group) => {
    const points = racePoints(last(a, group), last(b, group));
    return `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(1)} points`;
  };
  const difference = race.runs.length === 2 ? ` ${a.letter} compared with ${b.letter}: novel ${lead("novel")}, seen ${lead("seen")}.` : "";
  const toldOf = (text) => race.runs.map((run) => `${run.letter} ${text(run)}`).join(", ");
  const count = race.classes.names.length - race.classes.seen;
  const mistaken = race.runs.every((run) => run.mistaken != null)
    ? ` Novel images that get a seen class: ${toldOf((run) => racePercent(run.mistaken))}. Novel classes that stay almost empty: ${toldOf((run) => run.empty)} of ${count}.` : "";
  const merged = race.runs.filter((run) => run.empty && run.merged.length).map((run) => {
    const groups = run.merged.map((ids) => ids.map((k) => race.classes.names[k]).join(" with "));
    const list = groups.slice(0, RACE_MERGED).join(", ") + (groups.length > RACE_MERGED ? ", …" : "");
    return ` Novel classes that merged in ${run.letter}: ${list} (one novel cluster gets more than half of the images of each).`;
  }).join("");
  return `At the end: novel ${told("novel")}; seen ${told("seen")}.${difference}${mistaken}${merged}${chance}`;
}

// ------------------------------------------------------------------------------------------------ pictures

function raceHatch(draw, color, ground, ratio) {
  const size = Math.round(7 * ratio), tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = color;
  pen.lineWidth = 2.2 * ratio;
  for (const shift of [-size, 0, size]) {
    pen.beginPath();
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
    pen.stroke();
  }
  return draw.createPattern(tile, "repeat");
}

function raceMark(pen, shape, x, y, r, fill, edge) {
  pen.beginPath();
  if (shape === "seen") pen.arc(x, y, r, 0, 2 * Math.PI);
  else {
    const s = 1.25 * r;
    pen.moveTo(x, y - s); pen.lineTo(x + s, y); pen.lineTo(x, y + s); pen.lineTo(x - s, y); pen.closePath();
  }
  if (fill) { pen.fillStyle = fill; pen.fill(); }
  pen.strokeStyle = edge;
  pen.lineWidth = Math.max(1.5, r / 7);
  pen.stroke();
}

// The middle of every row of a lane, in pixels.
function raceRows(height, hasGuesses) {
  const rows = Object.entries(RACE_ROWS).filter(([name]) => hasGuesses || name !== "guesses");
  const whole = rows.reduce((sum, [, share]) => sum + share, 0);
  let above = 0;
  return Object.fromEntries(rows.map(([name, share]) => [name, (height * ((above += share) - share / 2)) / whole]));
}

function raceLine(pen, color, width, dash, ...points) {
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
  pen.setLineDash([]);
}

// Two tracks towards 100 %, the gap between them, and the unlabeled images that are guessed to be of seen classes; `truth`
// is the share that are, null where nobody knows.
function raceDrawField(canvas, view, run, now, p, end, truth) {
  const { pen, width: w, height, colors, unit } = canvas;
  pen.clearRect(0, 0, w, height);
  const h = height - RACE_FOOT * unit, rows = raceRows(h, view.hasGuesses), y = (row) => rows[row];
  const r = Math.min(0.3 * (rows.gap - rows.seen), 1.5 * unit), from = 3 * r, to = w - 1.6 * r;
  const x = (share) => from + share * (to - from);
  const knows = run.seen || run.novel;
  pen.font = `${Math.max(12, 0.8 * unit)}px system-ui, sans-serif`;
  pen.textBaseline = "top";
  if (knows) {
    const foot = rows.novel + 1.35 * r;
    for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
      raceLine(pen, tick === 1 ? colors.ink : colors.grid, tick === 1 ? 3 : 1.5, [], [x(tick), 2], [x(tick), foot]);
      pen.fillStyle = colors.muted;
      pen.textAlign = tick === 1 ? "right" : "center";
      if (4 * tick !== 1 && 4 * tick !== 3) pen.fillText(tick === 1 ? "100 %" : String(100 * tick), tick === 1 ? to + 8 : x(tick), view.hasGuesses ? foot + 1 : h + 1);
    }
    raceLine(pen, colors.ink, 1.5, [], [to + 5, 2], [to + 5, foot]);
    for (const group of ["seen", "novel"]) {
      const color = colors[group];
      raceLine(pen, colors.grid, 2, [], [x(0), y(group)], [x(1), y(group)]);
      const start = run.start[group];
      if (start !== null) raceLine(pen, colors.muted, 2, [3, 3], [x(start), y(group) - 1.2 * r], [x(start), y(group) + 1.2 * r]);
      const reached = Math.min(Math.floor(p), end);
      pen.fillStyle = color;
      for (let i = Math.max(0, reached - RACE_TRAIL); i < reached; i += 1) {
        if (run[group]?.[i] == null) continue;
        pen.globalAlpha = 0.3 + (0.5 * (i + RACE_TRAIL - reached)) / RACE_TRAIL;
        pen.beginPath();
        pen.arc(x(run[group][i]), y(group), 0.22 * r, 0, 2 * Math.PI);
        pen.fill();
      }
      pen.globalAlpha = 1;
    }
    if (now.seen !== null && now.novel !== null) {
      const [left, right] = [now.seen, now.novel].map(x).sort((a, b) => a - b);
      pen.fillStyle = colors.grid;
      pen.fillRect(left, y("gap") - 0.45 * r, right - left, 0.9 * r);
      raceLine(pen, colors.ink, 2.5, [], [left, y("gap") - 0.8 * r], [left, y("gap") + 0.8 * r]);
      raceLine(pen, colors.ink, 2.5, [], [right, y("gap") - 0.8 * r], [right, y("gap") + 0.8 * r]);
      raceLine(pen, colors.ink, 2.5, [], [left, y("gap")], [right, y("gap")]);
      for (const group of ["seen", "novel"]) raceLine(pen, colors.muted, 1.5, [2, 4], [x(now[group]), y(group)], [x(now[group]), y("gap")]);
    }
    for (const group of ["seen", "novel"]) {
      const value = now[group], isMeasured = value !== null && !now.isStart;
      if (value === null && !run[group]) continue;
      let at = value === null ? r * 1.4 : x(value);
      if (value === null && view.moves && run[group][0] !== null && p < 0) at += (x(run[group][0]) - at) * (p + 1);
      raceMark(pen, group, at, y(group), r, isMeasured ? colors[group] : colors.ground, isMeasured ? colors.ink : colors[group]);
    }
  }
  if (now.guesses !== null) {
    const thick = 0.12 * h, top = y("guesses") - thick / 2 + 0.3 * unit;
    pen.fillStyle = colors.seen;
    pen.fillRect(from, top, now.guesses * (to - from), thick);
    pen.fillStyle = canvas.hatch;
    pen.fillRect(x(now.guesses), top, to - x(now.guesses), thick);
    pen.strokeStyle = colors.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(from, top, to - from, thick);
    if (truth === null) return;
    raceLine(pen, colors.ink, 3, [], [x(truth), top - 0.25 * thick], [x(truth), top + 1.25 * thick]);
    pen.fillStyle = colors.muted;
    pen.textAlign = "left";
    const share = `${(100 * truth).toFixed(0)} %`, whole = `true share without the labeled images: ${share}`;
    const told = pen.measureText(whole).width < w ? whole : `true share ${share}`;
    pen.fillText(told, Math.max(0, Math.min(x(truth) - 2 * unit, w - pen.measureText(told).width)), top + 1.35 * thick, w);
  }
}

// The mean margin on the seen classes, as [place, margin] in the order of the clock: by steps where they were recorded.
function raceBrakes(race, course, run) {
  const known = race.classes.seen;
  return race.epochs.flatMap((_, i) => {
    const row = course.hasSteps && run.steps.brake.seen?.[i];
    if (row) return row.map((margin, k) => [i - 1 + (k + 1) / row.length, margin]).filter(([, margin]) => margin !== null);
    const margin = run.margins?.[i] && raceMean(run.margins[i], 0, known);
    return margin == null ? [] : [[i, margin]];
  });
}

// The whole course of a run, where the race is over: the brake on seen classes hangs from above, the accuracies are lines.
function raceDrawCourse(canvas, race, course, run, height) {
  const { pen, width: w, colors, unit } = canvas;
  const small = Math.max(12, 0.8 * unit), foot = height - 1.4 * small, right = w - 4;
  const span = Math.max(1, course.last - course.moments[0]);
  const x = (place) => 2 + ((place - course.moments[0]) / span) * (right - 2), y = (share) => 2 + (1 - share) * (foot - 4);
  const brakes = raceBrakes(race, course, run).filter(([place]) => place >= course.moments[0]); // others are left of it
  const depth = (margin) => (0.9 * foot * Math.max(0, margin)) / course.margin;
  const most = Math.max(0, ...brakes.map(([, margin]) => margin));
  if (most > 0) {
    pen.beginPath();
    pen.moveTo(x(brakes[0][0]), 0);
    brakes.forEach(([place, margin]) => pen.lineTo(x(place), depth(margin)));
    pen.lineTo(x(brakes.at(-1)[0]), 0);
    pen.closePath();
    pen.fillStyle = canvas.brake;
    pen.fill();
    raceLine(pen, colors.ink, 2.5, [], ...brakes.map(([place, margin]) => [x(place), depth(margin)]));
  }
  for (const group of ["seen", "novel"]) {
    const points = (run[group] ?? []).flatMap((share, i) => (share === null ? [] : [[x(i), y(share)]]));
    raceLine(pen, colors[group], 3.5, [], ...points);
  }
  raceLine(pen, colors.muted, 1.5, [], [0, foot], [w, foot]);
  pen.font = `600 ${small}px system-ui, sans-serif`;
  pen.textBaseline = "top";
  pen.fillStyle = colors.muted;
  pen.textAlign = "left";
  const told = most > 0 ? `area: margin of seen classes, up to ${most.toFixed(1)}; lines: accuracy` : "lines: accuracy";
  pen.fillText(told, 0, foot + 3, w - 6 * small);
  pen.textAlign = "right";
  pen.fillText(`epoch ${race.epochs[course.last]}`, w, foot + 3);
}

// Where the bar of a class id begins in a picture of this width; there is room for a bar between seen and novel ones.
function raceBarAt(race, width, k) {
  return ((k + (k >= race.classes.seen ? 1 : 0)) * width) / (race.classes.names.length + 1);
}

// What the bar at `x` is, in words; "" beside the bars.
function raceBarText(race, run, now, width, x, isTaken) {
  const { names, seen } = race.classes;
  const k = names.findLastIndex((_, i) => raceBarAt(race, width, i) <= x);
  if (!now.shares || now.shares[k] == null || x > raceBarAt(race, width, k) + width / (names.length + 1)) return "";
  const matched = now.matched?.[k] ?? k, isCluster = run.shares && (k >= seen || matched !== k); // some methods match seen ids, too
  const cluster = k < seen ? `cluster ${k + 1} of ${names.length}` : `novel cluster ${k - seen + 1} of ${names.length - seen}`;
  const id = isCluster ? cluster : `${k < seen ? "seen" : "novel"} class ${names[k]}`;
  const match = isCluster && now.matched ? `, matched with class ${names[matched]}` : "";
  return `${id}${match}: ${racePercent(now.shares[k])} ${raceShows(run, isTaken) === run.shares ? "estimated" : "of the predictions"}`;
}

// The estimated class distribution as bars, the brake that presses on them from above, and KL as a distance. At the
// end the brake presses little: the whole course takes its place, and that of the bars in a low picture.
function raceDrawSide(canvas, race, course, run, now, isTaken, isOver) {
  const { pen, width: w, height: h, colors, unit } = canvas;
  pen.clearRect(0, 0, w, h);
  const count = race.classes.names.length, seen = race.classes.seen;
  const small = Math.max(12, 0.9 * unit), distance = 1.6 * small;
  const floor = h - distance - 1.35 * small;
  const hasCourse = isOver && (run.seen || run.novel);
  canvas.hasBars = !hasCourse || floor > 9 * small;
  if (!canvas.hasBars) return raceDrawCourse(canvas, race, course, run, h);
  const above = hasCourse ? 0.55 * floor : 0, room = floor - 2 - above;
  const place = (k) => raceBarAt(race, w, k);
  const wide = Math.max(1, (w / (count + 1)) * (count > 60 ? 1 : 0.8));
  const high = (share) => ((above ? 0.85 : 0.6) * room * share) / (isTaken ? course.taken : course.share);
  pen.font = `600 ${small}px system-ui, sans-serif`;
  pen.textBaseline = "top";
  pen.fillStyle = colors.muted;
  pen.textAlign = "left";
  const isEstimate = raceShows(run, isTaken) === run.shares, bars = isEstimate || !run.taken ? "estimated shares" : "predicted shares";
  const hasBrakes = course.margin && run.margins;
  if (now.shares || hasBrakes) {
    pen.fillText(now.shares ? `seen: ${bars}` : "seen", 0, floor + 3, place(seen) - 4);
    if (count > seen) pen.fillText(now.shares ? `novel: ${bars}` : "novel", place(seen), floor + 3, w - place(seen));
  }
  if (now.shares) {
    now.shares.forEach((share, k) => {
      if (share === null || k >= count) return;
      const top = high(share);
      pen.fillStyle = k < seen ? colors.seen : canvas.hatch;
      pen.fillRect(place(k), floor - top, wide, top);
      if (wide > 4) {
        pen.strokeStyle = k < seen ? colors.seen : colors.novel;
        pen.lineWidth = 1.5;
        pen.strokeRect(place(k), floor - top, wide, top);
      }
    });
    const truth = race.truth && (run.matched ? now.matched?.map((k) => race.truth[k]) : race.truth);
    const goals = isEstimate ? now.priors : truth;
    if (isEstimate && !goals) raceLine(pen, colors.ink, 2.5, [7, 5], [0, floor - high(1 / count)], [w, floor - high(1 / count)]);
    goals?.forEach((share, k) => raceLine(pen, colors.ink, 2.5, [5, 3], [place(k), floor - high(share)], [place(k) + wide, floor - high(share)]));
  } else {
    pen.textBaseline = "middle"; // between the brake above and the axis below
    pen.fillText("Bars: measured from the end of epoch 1 on", 0, 0.62 * floor, w);
  }
  if (now.shares) raceLine(pen, colors.muted, 1.5, [], [0, floor], [w, floor]);
  if (above) raceDrawCourse(canvas, race, course, run, above);
  const press = (margin, from, across) => {
    const depth = (0.38 * room * Math.max(0, margin)) / course.margin;
    pen.fillStyle = canvas.brake;
    pen.fillRect(from + 0.15 * wide, 0, across - 0.3 * wide, depth);
    pen.fillStyle = colors.ink;
    pen.fillRect(from, depth, across, Math.max(2, 0.3 * small));
  };
  if (now.margins && course.margin && !above) {
    now.margins.forEach((margin, k) => margin !== null && k < count && press(margin, place(k), wide));
  } else if (run.margins && course.margin && !above) { // within the first epoch: the mean of each group
    for (const [margin, first, last] of [[now.brake.seen, 0, seen - 1], [now.brake.novel, seen, count - 1]]) {
      if (margin !== null && last >= first) press(margin, place(first), place(last) + wide - place(first));
    }
  }
  const y = h - 0.5 * distance, r = 0.3 * small, goal = w - 3;
  if (now.kl === null) return;
  const x = goal - (Math.max(0, now.kl) / course.kl) * (goal - 2 * r);
  raceLine(pen, colors.grid, 2, [], [0, y], [goal, y]);
  raceLine(pen, colors.ink, 5, [], [x, y], [goal, y]);
  raceLine(pen, colors.muted, 2, [], [goal, y - 2.4 * r], [goal, y + 2.4 * r]);
  pen.fillStyle = colors.ink;
  pen.fillRect(x - r, y - 2.4 * r, 2 * r, 4.8 * r);
}

// ------------------------------------------------------------------------------------------------ the race

// start: {at, speed} of a link. tell({at, speed}): called where it comes to rest, for a link to this state.
// show(epoch): called whenever another epoch is shown. save(): saves it as a file; without it there is no button. Gives {update(race), go(epoch), end()}.
function lpsRace(root, race, { start = {}, tell = () => {}, show = () => {}, save = null } = {}) {
  const listening = new AbortController(), { signal } = listening;
  const find = (selector) => root.querySelector(selector);
  const still = window.matchMedia("(prefers-reduced-motion: reduce)"), dark = window.matchMedia("(prefers-color-scheme: dark)");
  const input = find("input"), lanesRoot = find(".race-lanes"), barPlay = find(".race-play"), barSpeed = find(".race-speed");
  let course, lanes, colors, p, speed = RACE_SPEEDS.includes(Number(start.speed)) ? Number(start.speed) : 1;
  let hasGuesses = false, isTaken = false, isPlaying = false, stopAt = null, before = 0, asked = 0, written = 0, theme = "", follows = true;

  const clockOf = (place) => {
    const i = Math.floor(place), done = i < 0 ? 0 : course.arrivals[i];
    return done + (place - i) * (course.seconds[i + 1] ?? 0);
  };
  const placeOf = (second) => {
    const i = course.arrivals.findIndex((arrival) => arrival > second);
    if (i < 0) return course.last;
    const from = i ? course.arrivals[i - 1] : 0;
    return i - 1 + (second - from) / (course.arrivals[i] - from);
  };
  const nearest = (place) => course.moments.reduce((best, one) => (Math.abs(one - place) < Math.abs(best - place) ? one : best));
  const epochOf = (place) => {
    const i = Math.ceil(place - 1e-9);
    return race.epochs[i] - (i - place);
  };
  const placeAt = (epoch) => {
    const i = race.epochs.findIndex((one) => one >= epoch);
    return i < 0 ? course.last : Math.max(course.moments[0], i - Math.min(race.epochs[i] - epoch, 0.999));
  };

  // ---------------------------------------------------------------------------------------------- what is laid out

  function layOut() {
    course = raceCourse(race);
    lanesRoot.style.setProperty("--lanes", race.runs.length);
    lanesRoot.replaceChildren();
    hasGuesses = course.hasSteps && race.runs.some(({ steps }) => steps.guesses);
    root.classList.toggle("has-no-guesses", !hasGuesses);
    lanes = race.runs.map((run) => {
      const lane = find("template").content.firstElementChild.cloneNode(true);
      const [letter, method, about] = lane.querySelector("h3").children;
      letter.textContent = run.letter;
      method.textContent = run.title;
      about.textContent = [...run.about, run.is_over ? "" : `still ${run.state}`].filter(Boolean).join(" · ");
      lane.setAttribute("aria-label", `${run.letter}, ${run.name}`);
      lane.querySelector("h3").title = [method, about].map((one) => one.textContent).join(" · "); // where it is cut
      const knows = Boolean(run.seen || run.novel);
      const unknown = run.last ? "No accuracies: the classes of these images are not known." : "No epoch of training has been recorded yet.";
      lane.querySelector(".race-unknown").textContent = knows ? "" : unknown;
      lane.classList.toggle("is-blind", !knows);
      lane.querySelector(".race-guesses").textContent = hasGuesses && run.steps.guesses ? "guesses" : "";
      const bars = lane.querySelector(".race-side .race-canvas");
      bars.addEventListener("pointermove", ({ offsetX }) => {
        const now = raceReading(race, course, race.runs.indexOf(run), lastMoment(), false, isTaken);
        const { hasBars } = lanes[race.runs.indexOf(run)].canvases[1];
        bars.title = hasBars ? raceBarText(race, run, now, bars.clientWidth, offsetX, isTaken) : "";
      });
      lanesRoot.append(lane);
      const texts = Object.fromEntries([...lane.querySelectorAll("[data-of]")].map((one) => [one.dataset.of, one]));
      return { lane, texts, canvases: [...lane.querySelectorAll("canvas")].map((element) => ({ element, pen: element.getContext("2d") })) };
    });
    input.max = course.moments.length - 1;
    showBars();
    const flags = find(".race-flags");
    flags.replaceChildren(...race.marks.map(({ run, epoch, words }) => {
      const flag = document.createElement("button");
      flag.type = "button";
      flag.tabIndex = -1;
      flag.title = `${race.runs[run].letter}: ${words}`;
      flag.setAttribute("aria-label", flag.title);
      flag.style.left = `${(100 * course.moments.indexOf(race.epochs.indexOf(epoch))) / Math.max(1, course.moments.length - 1)}%`;
      flag.addEventListener("click", () => rest(race.epochs.indexOf(epoch)));
      return flag;
    }));
    const steps = course.hasSteps ? " Each epoch is divided into several parts. KL, margins and the share of guesses for seen classes are averages over one part, so they change only when a part ends; KL in the curves is the average over the whole epoch. The bar of guesses counts only unlabeled images, so labels lower the true share of seen classes there; the class shares that LPS estimates count labeled images, too." : "";
    const hasMargin = course.hasSteps && course.margin && race.runs.some(({ steps }) => steps.guesses);
    const late = hasMargin ? " A margin takes no guess back: it only slows down the learning of classes that are guessed often, and at first these may be novel ones. So early in the first epoch, a run with a margin may guess seen classes as often as a run without one, or even more often, until the novel classes catch up." : "";
    const kl = race.runs.some((run) => run.kl) ? " KL measures how far the estimated class shares are from the prior." : "";
    const left = race.left_out ? ` ${race.left_out} epochs, evenly spread, are not shown.` : "";
    find(".race-rule").textContent = `Accuracy is measured only at the end of each epoch. In between, the numbers are those of the last measurement. Shortly before the next one, the symbols move to it; a pause lets them arrive. The race runs slower where accuracy and the estimated class shares change most.${kl}${steps}${late}${left}`;
    measure();
  }

  function readColors() {
    const probe = document.createElement("span");
    root.append(probe);
    colors = {};
    for (const name of ["seen", "novel", "ink", "muted", "grid", "ground"]) {
      probe.style.color = `var(--${name})`;
      colors[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    theme = getComputedStyle(root).colorScheme + dark.matches;
  }

  // Tells the style sheet how many pixels of the page stand above the lanes, and of the race below them.
  function fit() {
    const { rowGap, paddingBottom } = getComputedStyle(root);
    let around = lanesRoot.getBoundingClientRect().top + parseFloat(paddingBottom);
    for (let one = root; one; one = one.matches(":fullscreen") ? null : one.parentElement ?? one.getRootNode().host) around += one.scrollTop;
    for (const one of [find(".race-bar"), find(".race-notes summary")]) around += one.offsetHeight && one.offsetHeight + parseFloat(rowGap);
    root.style.setProperty("--around", `${Math.ceil(around)}px`);
  }

  function measure() {
    fit();
    readColors();
    const ratio = Math.min(2, window.devicePixelRatio || 1), unit = parseFloat(getComputedStyle(lanesRoot).fontSize);
    for (const { canvases } of lanes) {
      for (const canvas of canvases) {
        const { clientWidth, clientHeight } = canvas.element.parentElement;
        canvas.element.width = Math.max(1, Math.round(clientWidth * ratio));
        canvas.element.height = Math.max(1, Math.round(clientHeight * ratio));
        canvas.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        Object.assign(canvas, { width: clientWidth, height: clientHeight, colors, unit });
        canvas.hatch = raceHatch(canvas.pen, colors.novel, colors.ground, 1);
        canvas.brake = raceHatch(canvas.pen, colors.ink, colors.ground, 1);
      }
    }
    if (p !== undefined) draw(isPlaying || stopAt !== null);
  }

  // ---------------------------------------------------------------------------------------------- what moves

  function draw(moves) {
    if (theme !== getComputedStyle(root).colorScheme + dark.matches) return measure();
    const shown = moves && !still.matches, at = shown ? p : lastMoment();
    const time = performance.now();
    if (!moves || lanes.some(({ read }) => !read) || time - written > RACE_TEXTS_MS) { // new lanes have not said anything yet
      written = time;
      write();
    }
    race.runs.forEach((run, number) => {
      const { texts, read, canvases: [field, side] } = lanes[number];
      const now = raceReading(race, course, number, at, shown, isTaken);
      for (const name of Object.keys(now.ticks)) if (now.ticks[name]) now[name] = read[name];
      raceDrawField(field, { moves: shown, hasGuesses }, run, now, shown ? raceStand(course, at) : at, course.ends[number], course.truth);
      raceDrawSide(side, race, course, run, now, isTaken, !moves && at === course.last && race.runs.every((one) => one.is_over));
      for (const [name, isOutdated] of Object.entries(raceOutdated(course, read, now))) texts[name].classList.toggle("is-on-its-way", isOutdated);
    });
  }

  const lastMoment = () => course.moments.findLast((one) => one <= p + 1e-6) ?? course.moments[0];

  function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function write() {
    const at = lastMoment(), i = Math.ceil(at - 1e-9), whole = at === i;
    put(find(".race-epoch b"), String(race.epochs[i]));
    const planned = Math.max(...race.runs.map((run) => (run.is_over ? run.last : run.planned)));
    put(find(".race-epoch small"), whole ? `of ${planned}` : `of ${planned} · ${Math.round(100 * (at - i + 1))} % of this epoch`);
    const said = race.marks.filter((mark) => mark.epoch <= race.epochs[whole ? i : i - 1]).at(-1);
    const isEnd = at === course.last && raceIsDecided(race);
    put(find(".race-news"), isEnd ? raceEnd(race) : said ? `${race.runs[said.run].letter}: ${said.words}` : "");
    put(find(".race-notes summary"), `${isEnd ? "The result in detail, and how" : "How"} to read the race`);
    put(find(".race-outcome"), isEnd ? raceOutcome(race) : "");
    race.runs.forEach((run, number) => writeLane(lanes[number].texts, run, number, raceReading(race, course, number, at, false)));
    input.value = course.moments.indexOf(at);
    input.setAttribute("aria-valuetext", `epoch ${whole ? race.epochs[i] : epochOf(at).toFixed(2)}`);
    root.dataset.at = whole ? String(race.epochs[i]) : epochOf(at).toFixed(3);
    show(Number(root.dataset.at));
    root.dataset.state = isPlaying ? "playing" : stopAt === null ? "resting" : "stopping";
    input.style.setProperty("--done", `${(100 * input.value) / Math.max(1, course.moments.length - 1)}%`);
  }

  function writeLane(texts, run, number, now) {
    lanes[number].read = now;
    const percent = (x) => (x === null ? "–" : racePercent(x));
    const knows = run.seen || run.novel;
    put(texts.seen, knows ? percent(now.seen) : "");
    put(texts.novel, knows ? percent(now.novel) : "");
    const isOfStart = now.isStart && (now.seen !== null || now.novel !== null);
    const gap = now.seen === null || now.novel === null ? "–" : racePoints(now.seen, now.novel).toFixed(1).replace("-", "−");
    put(texts.gap, isOfStart ? "before training (k-means)" : knows ? gap : "");
    const at = lastMoment(), measured = race.epochs[Math.floor(Math.min(at, course.ends[number]))];
    const isEarlier = knows && !now.isStart && gap !== "–" && (isPlaying || at !== Math.floor(at));
    texts.gap.dataset.more = isEarlier ? `after epoch ${measured}` : "";
    for (const name of ["seen", "gap", "novel"]) texts[name].classList.toggle("is-start", now.isStart);
    lanes[number].lane.classList.toggle("is-before", isOfStart);
    put(texts.guesses, now.guesses === null ? "" : `${(100 * now.guesses).toFixed(0)} % seen`);
    const { seen, novel } = now.brake;
    let words = `${run.method} has no margin`;
    if (run.margins) words = seen === null ? "margin" : `margin ${seen.toFixed(1)} on seen`;
    if (run.margins && novel !== null) words += `, ${novel.toFixed(1)} on novel`;
    if (run.margins && course.margin && run.margins.every((row) => !row || row.every((x) => !x))) words = "margin off";
    put(texts.brake, run.last ? words : "");
    put(texts.kl, now.kl === null ? "" : `KL ${now.kl.toFixed(2)}`);
    texts.kl.dataset.more = now.kl === null ? (run.kl || !run.last ? "" : "KL is not measured") : `0 means: ${run.priors ? "the shares equal the prior" : "all shares are equal"}`;
    const flag = now.isAtEnd && run.last ? ` ⚑ ${run.is_over ? "ended at" : "at"} epoch ${run.last}` : "";
    lanes[number].lane.querySelector("h3").dataset.flag = flag;
  }

  function say() {
    const parts = race.runs.map((run, number) => {
      const now = raceReading(race, course, number, lastMoment(), false);
      const numbers = now.isStart || now.seen === null || now.novel === null ? "no accuracy" : `seen ${racePercent(now.seen)}, novel ${racePercent(now.novel)}`;
      return `${run.letter} ${run.title}: ${numbers}${now.kl === null ? "" : `, KL ${now.kl.toFixed(2)}`}`;
    });
    put(find(".race-said"), `Epoch ${root.dataset.at}. ${parts.join("; ")}.`);
  }

  // ---------------------------------------------------------------------------------------------- the clock

  function frame(time) {
    asked = 0;
    const passed = Math.min(RACE_FRAME_S, Math.max(0, (time - before) / 1000));
    before = time;
    const goal = stopAt ?? course.last;
    let second = clockOf(p) + passed * speed;
    if (stopAt !== null) second = Math.max(second, clockOf(p) + (passed / RACE_STOP_S) * (clockOf(stopAt) - clockOf(Math.max(course.moments[0], stopAt - 1))));
    const reached = clockOf(goal);
    if (second >= reached - 1e-6) return rest(goal, goal === course.last && stopAt === null);
    p = placeOf(second);
    draw(true);
    asked = requestAnimationFrame(frame);
  }

  function run() {
    if (asked) return;
    before = performance.now();
    asked = requestAnimationFrame(frame);
  }

  function rest(place, reachedEnd = false) {
    cancelAnimationFrame(asked);
    asked = 0;
    isPlaying = false;
    stopAt = null;
    follows = reachedEnd;
    p = Math.min(course.last, Math.max(course.moments[0], place));
    draw(false);
    showPlay();
    say();
    tellLater();
  }

  let telling = 0;
  function tellLater() {
    clearTimeout(telling);
    telling = setTimeout(() => tell({ at: root.dataset.at, speed: String(speed) }), 250);
  }

  function play() {
    if (course.moments.length < 2) return;
    if (p >= course.last) p = course.moments[0];
    clearTimeout(telling);
    isPlaying = true;
    stopAt = null;
    showPlay();
    run();
  }

  // What stands at a measurement stays there; what travels goes on until it arrives.
  function pause() {
    isPlaying = false;
    let goal = lastMoment();
    if (raceStand(course, p) > Math.floor(p)) goal = Math.ceil(p);
    else if (find(".is-on-its-way")) goal = course.moments.find((one) => one >= p);
    if (still.matches || goal <= p) return rest(goal);
    stopAt = goal;
    showPlay();
    run();
  }

  function showPlay() {
    const label = isPlaying ? "Pause" : "Play";
    barPlay.classList.toggle("is-playing", isPlaying);
    barPlay.setAttribute("aria-label", label);
    barPlay.title = `${label} (space bar)`;
    barSpeed.textContent = `${speed === 0.5 ? "½" : speed}×`;
    barSpeed.setAttribute("aria-label", `Speed ${speed}`);
    barSpeed.title = "Speed (S)";
    root.dataset.state = isPlaying ? "playing" : stopAt === null ? "resting" : "stopping";
  }

  function showBars() {
    const button = find(".race-bars"), canChoose = race.runs.some((run) => run.shares && run.taken);
    button.hidden = !canChoose;
    button.setAttribute("aria-pressed", String(isTaken));
    const dashes = race.runs.map((run) => (raceShows(run, isTaken) === run.shares ? "prior: expected shares (usually equal)" : "true shares"));
    find(".race-dashes").textContent = [...new Set(dashes)].join("; ");
    button.textContent = `Bars: ${isTaken ? "guesses" : "estimate"}`;
    button.title = `The bars show ${isTaken ? "the share of the images predicted as each class (dashed: the true shares)" : "the estimated class distribution (dashed: the prior)"}. To change this, click here or press B.`;
  }

  function step(way, fine) {
    const stops = fine ? course.moments : [...new Set([course.moments[0], ...race.epochs.keys()])];
    const next = way > 0 ? stops.find((one) => one > p + 1e-6) : stops.findLast((one) => one < p - 1e-6);
    rest(next ?? (way > 0 ? course.last : course.moments[0]));
  }

  const acts = {
    first: () => rest(course.moments[0]),
    back: () => step(-1, false),
    play: () => (isPlaying ? pause() : play()),
    forward: () => step(1, false),
    speed: () => {
      speed = RACE_SPEEDS[(RACE_SPEEDS.indexOf(speed) + 1) % RACE_SPEEDS.length];
      showPlay();
      if (!isPlaying) tellLater();
    },
    bars: () => {
      isTaken = !isTaken;
      showBars();
      draw(isPlaying || stopAt !== null);
      write();
    },
    save: () => save(),
    full: () => {
      const shown = root.getRootNode().fullscreenElement ?? document.fullscreenElement;
      (shown ? document.exitFullscreen() : root.requestFullscreen?.())?.catch?.(() => {});
    },
  };

  function press(event) {
    const target = event.composedPath()[0];
    if (event.ctrlKey || event.metaKey || event.altKey || !root.isConnected || !root.checkVisibility()) return;
    if (target !== input && target.closest?.("input, textarea, select, [contenteditable=true], [role=listbox], [role=slider]")) return;
    const keys = {
      " ": acts.play, ArrowLeft: () => step(-1, event.shiftKey), ArrowRight: () => step(1, event.shiftKey),
      Home: acts.first, End: () => rest(course.last), f: acts.full, s: acts.speed, b: acts.bars,
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || (event.key === " " && target.closest?.("button, a, summary")) || (event.repeat && !event.key.startsWith("Arrow"))) return;
    event.preventDefault();
    act();
  }

  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (!button) return;
    acts[button.dataset.do]();
    if (event.detail > 0) button.blur(); // or the space bar would press it again besides playing
  }, { signal });
  input.addEventListener("input", () => rest(course.moments[input.value]), { signal });
  document.addEventListener("keydown", press, { signal });
  document.addEventListener("fullscreenchange", () => {
    const isFull = root.matches(":fullscreen");
    put(find("[data-do=full] span"), isFull ? "Leave full screen" : "Full screen");
  }, { signal });
  const resized = new ResizeObserver(() => measure());
  const changed = () => measure();
  dark.addEventListener("change", changed, { signal });

  find("[data-do=save]").hidden = !save;
  layOut();
  p = start.at === undefined || start.at === null || !Number.isFinite(Number(start.at)) ? course.moments[0] : nearest(placeAt(Number(start.at)));
  showPlay();
  draw(false);
  say();
  for (const one of [lanesRoot, find(".race-top")]) resized.observe(one);
  if ((start.at === undefined || start.at === null) && !still.matches) play();

  return {
    update(newer) {
      const epoch = epochOf(p), wasAtEnd = p >= course.last && follows && !isPlaying;
      race = newer;
      layOut();
      p = isPlaying ? Math.min(course.last, placeAt(epoch)) : nearest(placeAt(epoch));
      draw(isPlaying);
      if (wasAtEnd && p < course.last) {
        if (still.matches) rest(course.last, true);
        else play();
      }
    },
    go: (epoch) => rest(placeAt(epoch)),
    end() {
      cancelAnimationFrame(asked);
      clearTimeout(telling);
      resized.disconnect();
      listening.abort();
    },
  };
}
