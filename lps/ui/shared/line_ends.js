// Where the labels at the ends of lines stand, for lps/ui/shared/plot.js.

const LABEL_ROW = 15; // pixels
const MAX_SHIFT = 60; // pixels from a line's end to its label, if there are many
const FEW_LABELS = 12; // all are shown if they fit into the chart

// A height for each wanted one, none nearer to another than `gap`, all from `low` to `high`, as near to the wanted ones as can
// be (least squares). null for what does not fit, or would stand farther than `most` from its line.
function labelHeights(wanted, gap, low, high, most = wanted.length > FEW_LABELS ? MAX_SHIFT : Infinity) {
  const order = Array.from(wanted.keys()).sort((a, b) => wanted[a] - wanted[b]);
  const nearness = (k) => (wanted[order[k + 1]] ?? Infinity) - (wanted[order[k - 1]] ?? -Infinity);
  while (order.length && (order.length - 1) * gap > high - low) {
    order.splice(Array.from(order.keys()).reduce((a, b) => (nearness(b) < nearness(a) ? b : a)), 1);
  }
  for (;;) {
    const heights = spread(order.map((i) => wanted[i]), gap, low, high);
    const shifts = heights.map((height, k) => Math.abs(height - wanted[order[k]]));
    const worst = shifts.indexOf(Math.max(...shifts));
    if (!order.length || shifts[worst] <= most) {
      const found = Array(wanted.length).fill(null);
      order.forEach((i, k) => (found[i] = heights[k]));
      return found;
    }
    order.splice(worst, 1);
  }
}

// Ascending heights, at least `gap` apart: pooled adjacent violators.
function spread(wanted, gap, low, high) {
  const pools = [];
  wanted.forEach((height, k) => {
    let pool = { sum: height - k * gap, count: 1 };
    while (pools.length && pools.at(-1).sum / pools.at(-1).count > pool.sum / pool.count) {
      const { sum, count } = pools.pop();
      pool = { sum: pool.sum + sum, count: pool.count + count };
    }
    pools.push(pool);
  });
  const top = high - (wanted.length - 1) * gap;
  const starts = pools.flatMap(({ sum, count }) => Array(count).fill(Math.min(top, Math.max(low, sum / count))));
  return starts.map((start, k) => start + k * gap);
}
