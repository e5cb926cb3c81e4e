// The points of a map (lps/ui/pictures/point_map.py): where they are, which are near a place or within an outline, and two ways
// to draw them: single points by WebGL 2, and their density by a plain canvas.
// Places are whole numbers from 0 to UNITS; a view is its middle (x, y) and pixels per unit.

const UNITS = 65535, CELLS = 128, CELL_BITS = 9; // cells of the grid across, units of a cell as a power of two
const DENSITY_CELL = 2; // pixels across of what the density counts in
const FAINT = 1e-6; // what a point counts that is not selected, where some are: in a cell with one that is, nothing
const DENSITY_ROOM = 0.25; // of the stage's sides that the density is drawn beyond it, so that a pan finds it there

class Points {
  // ids int32 (n), places uint16 (2 n: all x, all y), facts int16 (2 n: all truths, all predictions) and uint8 (n).
  constructor(ids, places, facts) {
    this.ids = new Int32Array(ids);
    const n = (this.count = this.ids.length);
    this.x = new Uint16Array(places, 0, n);
    this.y = new Uint16Array(places, 2 * n, n);
    this.truth = new Int16Array(facts, 0, n);
    this.predicted = new Int16Array(facts, 2 * n, n);
    this.confidence = new Uint8Array(facts, 4 * n, n); // percent
    this.sort();
  }

  // Points by cell: those of cell c are order[starts[c]] to order[starts[c + 1]], cells row by row.
  sort() {
    const { x, y, count } = this;
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    for (let k = 0; k < count; k++) this.starts[(y[k] >> CELL_BITS) * CELLS + (x[k] >> CELL_BITS) + 1]++;
    for (let c = 0; c < CELLS * CELLS; c++) this.starts[c + 1] += this.starts[c];
    const next = this.starts.slice();
    this.order = new Uint32Array(count);
    for (let k = 0; k < count; k++) this.order[next[(y[k] >> CELL_BITS) * CELLS + (x[k] >> CELL_BITS)]++] = k;
  }

  // Ranges of `order`, one a row of cells, that hold all points of a rectangle of units.
  ranges([left, bottom, right, top]) {
    const cell = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor(value) >> CELL_BITS));
    const found = [];
    if (right < 0 || top < 0 || left > UNITS || bottom > UNITS) return found;
    for (let row = cell(bottom); row <= cell(top); row++) {
      const range = [this.starts[row * CELLS + cell(left)], this.starts[row * CELLS + cell(right) + 1]];
      if (range[1] > range[0]) found.push(range);
    }
    return found;
  }

  // The numbers of the points within a rectangle of units for which `fits` holds.
  *within(box, fits = () => true) {
    for (const [from, to] of this.ranges(box)) {
      for (let place = from; place < to; place++) {
        const k = this.order[place], x = this.x[k], y = this.y[k];
        if (x >= box[0] && x <= box[2] && y >= box[1] && y <= box[3] && fits(k)) yield k;
      }
    }
  }

  // The point nearest to a place within a radius; -1 where there is none.
  nearest(x, y, radius, fits) {
    let best = -1, least = radius * radius;
    for (const k of this.within([x - radius, y - radius, x + radius, y + radius], fits)) {
      const away = (this.x[k] - x) ** 2 + (this.y[k] - y) ** 2;
      if (away <= least) [best, least] = [k, away];
    }
    return best;
  }

  // The numbers of the points inside an outline of [x, y], by the even-odd rule.
  inside(outline, fits) {
    const across = outline.map(([x]) => x), up = outline.map(([, y]) => y);
    const box = [Math.min(...across), Math.min(...up), Math.max(...across), Math.max(...up)];
    const isInside = (k) => {
      const x = this.x[k], y = this.y[k];
      let is = false;
      for (let i = 0, j = across.length - 1; i < across.length; j = i++) {
        if (up[i] > y !== up[j] > y && x < ((across[j] - across[i]) * (y - up[i])) / (up[j] - up[i]) + across[i]) is = !is;
      }
      return is;
    };
    return [...this.within(box, (k) => fits(k) && isInside(k))];
  }
}

// One bit an image id, as the server sends and is told what is selected.
const hasBit = (bits, id) => (bits[id >> 3] >> (id & 7)) & 1;

function bitsOf(ids) {
  let most = -1;
  for (const id of ids) most = Math.max(most, id);
  const bits = new Uint8Array((most >> 3) + 1);
  for (const id of ids) bits[id >> 3] |= 1 << (id & 7);
  return bits;
}

function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(text);
}

const VERTEX = `#version 300 es
in vec2 place; in vec2 before; in float code; in float chosen;
uniform vec2 middle; uniform vec2 scale; uniform float glide; uniform float size; uniform float fades; uniform float codes;
uniform sampler2D colors;
out vec4 color;
void main() {
  vec4 own = texelFetch(colors, ivec2(int(code) % 256, int(code) / 256), 0);
  float front = 0.45 * code / codes + 0.5 * fades * chosen; // later groups, and what is selected, lie on top
  gl_Position = own.a == 0.0 ? vec4(2.0, 2.0, 2.0, 1.0) : vec4((mix(before, place, glide) - middle) * scale, 0.9 - 1.8 * front, 1.0);
  gl_PointSize = size;
  float alpha = fades > 0.0 && chosen == 0.0 ? 0.1 : 0.85;
  color = vec4(own.rgb * alpha, alpha);
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 color; out vec4 drawn;
void main() {
  vec2 from = gl_PointCoord - 0.5;
  if (dot(from, from) > 0.25) discard;
  drawn = color;
}`;
const INPUTS = ["place", "before", "code", "chosen"];

// Draws single points; null where the browser has no WebGL 2.
function pointPainter(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: false, alpha: true });
  if (!gl) return null;
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  INPUTS.forEach((name, at) => gl.bindAttribLocation(program, at, name));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  gl.useProgram(program);
  const uniform = (name) => gl.getUniformLocation(program, name);
  const at = Object.fromEntries(["middle", "scale", "glide", "size", "fades", "codes"].map((name) => [name, uniform(name)]));
  const buffers = Object.fromEntries([...INPUTS, "order"].map((name) => [name, gl.createBuffer()]));
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.NEAREST);
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  gl.enable(gl.DEPTH_TEST);
  gl.depthFunc(gl.LEQUAL);
  let number = 0, fades = 0, codes = 1;

  const fill = (name, values, width, kind, normalized) => {
    const place = INPUTS.indexOf(name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, width, kind, normalized, 0, 0);
  };
  const pairs = (points) => {
    const found = new Uint16Array(2 * points.count);
    for (let k = 0; k < points.count; k++) [found[2 * k], found[2 * k + 1]] = [points.x[k], points.y[k]];
    return found;
  };
  return {
    setPoints(points, before) {
      number = points.count;
      const now = pairs(points);
      fill("place", now, 2, gl.UNSIGNED_SHORT, false);
      fill("before", before ? pairs(before) : now, 2, gl.UNSIGNED_SHORT, false);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, buffers.order);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, points.order, gl.STATIC_DRAW);
    },
    setCodes: (values) => fill("code", values, 1, gl.UNSIGNED_SHORT, false),
    setChosen(mask) {
      fades = mask ? 1 : 0;
      fill("chosen", mask ?? new Uint8Array(number), 1, gl.UNSIGNED_BYTE, false);
    },
    setColors(colors) {
      const rows = Math.ceil(colors.length / 256), texels = new Uint8Array(rows * 1024);
      colors.forEach(([r, g, b, shown], code) => texels.set([r, g, b, shown ? 255 : 0], 4 * code));
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, texels);
      codes = colors.length;
    },
    // ranges: of the order of the points; null: all of them.
    draw(view, width, height, ratio, size, ranges, glide) {
      const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
      if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
      gl.viewport(0, 0, across, down);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniform2f(at.middle, view.x, view.y);
      gl.uniform2f(at.scale, (2 * view.scale) / width, (2 * view.scale) / height);
      gl.uniform1f(at.glide, glide);
      gl.uniform1f(at.size, size * ratio);
      gl.uniform1f(at.fades, fades);
      gl.uniform1f(at.codes, codes);
      for (const [from, to] of ranges ?? [[0, number]]) gl.drawElements(gl.POINTS, to - from, gl.UNSIGNED_INT, 4 * from);
    },
    end: () => gl.getExtension("WEBGL_lose_context")?.loseContext(),
    isLost: () => gl.isContextLost(),
  };
}

// Draws how many points lie where, in the mean of their colours, at a view and around it.
function paintDensity(canvas, points, codes, mask, colors, view, width, height, cell) {
  const across = Math.ceil((width * (1 + 2 * DENSITY_ROOM)) / cell), down = Math.ceil((height * (1 + 2 * DENSITY_ROOM)) / cell);
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  const sums = new Float32Array(across * down * 4);
  const scale = view.scale / cell, left = view.x - across / 2 / scale, top = view.y + down / 2 / scale;
  const flat = new Float32Array(colors.length * 4);
  colors.forEach((color, code) => flat.set(color, 4 * code));
  for (const [from, to] of points.ranges([left, top - down / scale, left + across / scale, top])) {
    for (let place = from; place < to; place++) {
      const k = points.order[place], code = 4 * codes[k];
      const column = ((points.x[k] - left) * scale) | 0, row = ((top - points.y[k]) * scale) | 0;
      if (!flat[code + 3] || column < 0 || row < 0 || column >= across || row >= down) continue;
      const weight = mask && !mask[k] ? FAINT : 1, at = 4 * (row * across + column);
      sums[at] += weight * flat[code];
      sums[at + 1] += weight * flat[code + 1];
      sums[at + 2] += weight * flat[code + 2];
      sums[at + 3] += weight;
    }
  }
  let most = 1;
  for (let at = 3; at < sums.length; at += 4) if (sums[at] > most) most = sums[at];
  const pen = canvas.getContext("2d"), image = pen.createImageData(across, down), whole = Math.log1p(most);
  for (let at = 0; at < sums.length; at += 4) {
    const count = sums[at + 3];
    if (!count) continue;
    image.data[at] = sums[at] / count;
    image.data[at + 1] = sums[at + 1] / count;
    image.data[at + 2] = sums[at + 2] / count;
    image.data[at + 3] = count < 0.5 ? Math.min(50, 20 + 4 * Math.log1p(count / FAINT)) : 90 + (165 * Math.log1p(count)) / whole;
  }
  pen.putImageData(image, 0, 0);
}
