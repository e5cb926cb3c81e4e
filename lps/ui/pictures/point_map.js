// A map of lps/ui/pictures/point_map.py: pan, zoom, outlines, pictures and names over the points of map_points.js.
// The columns of the points are files of this server under their digests: each is asked for once.

const MAX_DRAWN = 60000; // points in sight that are drawn one by one; of more their density
const GLIDE_MS = 300, REST_MS = 160, DENSITY_MS = 140, MAX_GLIDING = 300000;
const REACH = 12, SLOP = 4; // pixels: from the pointer to a point; of a drag that is still a click
const MAX_ZOOM = 60, STEP = 1.4;
const PICTURE = 56, MAX_PICTURES = 90, FEW = 500; // pixels; pictures on the map, where so few points are in sight
const MAX_NAMES = 40, NAME_GRID = 24;
const TINY = 32; // pixels across of pictures whose pixels stay sharp
const MAX_FILES = 24; // columns that are kept

const files = (window.lpsMapFiles ??= new Map());

function load(address) {
  if (!address) return null;
  const found = files.get(address) ?? fetch(address).then((answer) => {
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer.arrayBuffer();
  });
  files.delete(address);
  files.set(address, found);
  found.catch(() => files.delete(address));
  while (files.size > MAX_FILES) files.delete(files.keys().next().value);
  return found;
}

function make(kind, name, words = "") {
  const element = document.createElement(kind);
  element.className = name;
  element.textContent = words;
  return element;
}

function save(address, name) {
  const link = make("a", "");
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const maps = (window.lpsMaps ??= new Set());

class PointMap {
  constructor(root) {
    this.root = root;
    const part = (name) => root.querySelector(`.lps-map-${name}`);
    for (const name of ["stage", "density", "points", "over", "hand", "tip", "tools", "legend", "summary", "said"]) this[name] = part(name);
    this.painter = pointPainter(this.points);
    this.hidden = new Set();
    this.fingers = new Map();
    this.tool = "pan";
    this.pictures = new Map();
    this.names = [];
    this.at = -1;
    this.listen();
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.stage);
    maps.add(this);
  }

  end() {
    this.watcher.disconnect();
    this.painter?.end();
    maps.delete(this);
  }

  // ------------------------------------------------------------------------------------------- what is shown

  async update(head) {
    const serial = (this.serial = (this.serial ?? 0) + 1), before = this.head;
    const addresses = [head.ids, head.places, head.facts, head.codes, head.mask];
    let columns;
    try {
      columns = await Promise.all(addresses.map(load));
    } catch {
      if (serial === this.serial) this.report.missing(); // the server has forgotten them: it makes them anew
      return;
    }
    if (serial !== this.serial) return; // something newer has come meanwhile
    this.head = head;
    const [ids, places, facts, codes, mask] = columns;
    const old = this.data, isSame = before?.ids === head.ids && before?.places === head.places;
    const isMoving = old && before.ids === head.ids && before.scene === head.scene && !isSame && old.count <= MAX_GLIDING
      && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!isSame || before.facts !== head.facts) this.data = new Points(ids, places, facts);
    this.codes = new Uint16Array(codes);
    if (before?.token !== head.token) this.drawn = null;
    this.given = mask && new Uint8Array(mask);
    if (before?.scene !== head.scene) this.view = null;
    if (before && JSON.stringify(before.groups) !== JSON.stringify(head.groups)) this.hidden.clear();
    if (before?.ids !== head.ids) this.at = -1;
    if (!isSame) this.painter?.setPoints(this.data, isMoving ? old : null);
    this.painter?.setCodes(this.codes);
    this.choose();
    this.recolor();
    this.glideFrom = isMoving && this.painter ? performance.now() : 0;
    this.root.dataset.moment = isMoving ? "" : head.moment;
    this.glides = (this.glides ?? 0) + (isMoving ? 1 : 0);
    this.root.classList.toggle("lps-map-small", head.small);
    this.root.style.height = `${head.height}px`;
    if (!this.tools.childElementCount) this.fillTools();
    this.names = this.placeNames();
    this.stage.setAttribute("aria-label", head.alt);
    this.summary.textContent = this.summarize();
    this.resize();
  }

  // Which points are selected: by what the server says, else by hand.
  choose() {
    const bits = this.given ?? this.drawn, { ids, count } = this.data;
    this.mask = bits && new Uint8Array(count);
    if (bits) for (let k = 0; k < count; k++) this.mask[k] = hasBit(bits, ids[k]);
    if (this.mask && !this.given && !this.mask.includes(1)) this.mask = null;
    this.painter?.setChosen(this.mask);
    this.isStale = true;
  }

  recolor() {
    const theme = getComputedStyle(this.root).colorScheme === "dark" ? 1 : 0;
    const swaps = new Map(this.head.pairs.map((pair) => [pair[1 - theme], pair[theme]]));
    const isOther = (this.head.theme === "dark" ? 1 : 0) !== theme;
    this.shades = this.head.groups.map(([, color]) => (isOther && swaps.get(color)) || color);
    this.colors = this.shades.map((color, code) => [...channels(color), this.hidden.has(code) ? 0 : 1]);
    this.painter?.setColors(this.colors);
    this.fillLegend();
    this.isStale = true;
    this.ask();
  }

  isShown = (k) => !this.hidden.has(this.codes[k]);

  resize() {
    [this.width, this.height] = [this.stage.clientWidth, this.stage.clientHeight];
    if (!this.data || !this.width || !this.height) return;
    const [left, bottom, right, top] = this.head.frame;
    const base = Math.min(this.width / (right - left), this.height / (top - bottom));
    const scale = this.view && this.base ? (this.view.scale * base) / this.base : base;
    this.view = this.view ? { ...this.view, scale } : { x: (left + right) / 2, y: (bottom + top) / 2, scale };
    this.base = base;
    this.isStale = true;
    this.ask();
  }

  ask() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      if (this.root.isConnected && this.data && this.view) this.draw();
    });
  }

  draw() {
    const { view, width, height, data } = this, now = performance.now();
    const share = this.glideFrom ? Math.min(1, (now - this.glideFrom) / GLIDE_MS) : 1;
    const ranges = data.ranges(this.box());
    this.inSight = ranges.reduce((sum, [from, to]) => sum + to - from, 0);
    if (this.painter?.isLost()) this.painter = null;
    const isDense = !this.painter || (this.inSight > MAX_DRAWN && share === 1);
    this.root.dataset.drawn = isDense ? "density" : "points";
    this.points.style.display = isDense ? "none" : "";
    this.density.style.display = isDense ? "" : "none";
    if (isDense) this.drawDensity(now);
    else {
      const eased = share * share * (3 - 2 * share), few = Math.max(1, this.inSight);
      const size = Math.min(9, Math.max(2, 210 / Math.sqrt(few))) * Math.min(1, 0.35 + height / 860);
      this.painter.draw(view, width, height, Math.min(2, devicePixelRatio), size, share < 1 ? null : ranges, eased);
    }
    this.drawOver();
    clearTimeout(this.resting);
    if (share < 1) this.ask();
    else {
      if (this.glideFrom) [this.glideFrom, this.root.dataset.moment] = [0, this.head.moment];
      this.resting = setTimeout(() => this.rest(), REST_MS);
    }
  }

  // The density is counted anew now and then while the view moves; in between it is moved and stretched.
  drawDensity(now) {
    const { view, width, height } = this;
    const style = this.density.style;
    if (this.isStale || !this.counted || now - this.countedAt > DENSITY_MS) {
      const isMoved = !this.counted || ["x", "y", "scale"].some((name) => this.counted[name] !== view[name]);
      if (this.isStale || isMoved) {
        const cell = this.painter || this.inSight > MAX_DRAWN ? DENSITY_CELL : 4;
        const began = performance.now();
        paintDensity(this.density, this.data, this.codes, this.mask, this.colors, view, width, height, cell);
        this.countedAt = performance.now() + 2 * (performance.now() - began); // slow machines count less often
        this.counted = { ...view };
        this.isStale = false;
        const room = DENSITY_ROOM * 100;
        Object.assign(style, { left: `${-room}%`, top: `${-room}%`, width: `${100 + 2 * room}%`, height: `${100 + 2 * room}%` });
      }
    }
    const { x, y, scale } = this.counted;
    style.transform = `translate(${(x - view.x) * view.scale}px, ${(view.y - y) * view.scale}px) scale(${view.scale / scale})`;
  }

  // What is worth its time only while nothing moves.
  rest() {
    if (!this.root.isConnected) return;
    if (this.root.dataset.drawn === "density" && ["x", "y", "scale"].some((name) => this.counted[name] !== this.view[name])) {
      this.isStale = true;
      this.drawDensity(performance.now());
    }
    this.showPictures();
    this.root.dataset.rested = (Number(this.root.dataset.rested) || 0) + 1;
  }

  toScreen = (x, y) => [(x - this.view.x) * this.view.scale + this.width / 2, this.height / 2 - (y - this.view.y) * this.view.scale];
  toUnits = (left, top) => [(left - this.width / 2) / this.view.scale + this.view.x, (this.height / 2 - top) / this.view.scale + this.view.y];

  box() {
    const [left, top] = this.toUnits(0, 0), [right, bottom] = this.toUnits(this.width, this.height);
    return [left, bottom, right, top];
  }

  // ------------------------------------------------------------------------------------------- names and pictures

  // [code, words, x, y, points] of every group that has a name: where most of its points are.
  placeNames() {
    const { head, data } = this;
    if (!head.named) return [];
    const codes = head.named === "groups" ? this.codes : data.predicted, words = head.named === "groups" ? head.groups.map(([label]) => label) : head.names;
    const counts = words.map(() => null), step = (UNITS + 1) / NAME_GRID;
    for (let k = 0; k < data.count; k++) {
      const code = codes[k];
      if (code < 0 || code >= words.length || !words[code]) continue;
      counts[code] ??= new Uint32Array(NAME_GRID * NAME_GRID);
      counts[code][Math.floor(data.y[k] / step) * NAME_GRID + Math.floor(data.x[k] / step)]++;
    }
    const found = [];
    counts.forEach((cells, code) => {
      if (!cells) return;
      const total = cells.reduce((sum, one) => sum + one), top = cells.indexOf(Math.max(...cells));
      if (total < 5) return;
      let [x, y, weight] = [0, 0, 0];
      for (let row = Math.floor(top / NAME_GRID) - 1; row <= Math.floor(top / NAME_GRID) + 1; row++) {
        for (let column = (top % NAME_GRID) - 1; column <= (top % NAME_GRID) + 1; column++) {
          const own = row < 0 || column < 0 || row >= NAME_GRID || column >= NAME_GRID ? 0 : cells[row * NAME_GRID + column];
          [x, y, weight] = [x + own * (column + 0.5), y + own * (row + 0.5), weight + own];
        }
      }
      found.push([code, words[code], (x / weight) * step, (y / weight) * step, total]);
    });
    return found.sort((one, other) => other[4] - one[4]).slice(0, MAX_NAMES);
  }

  drawOver() {
    const { view, width, height, head } = this;
    for (const [k, picture] of this.pictures) {
      const [left, top] = this.toScreen(this.data.x[k], this.data.y[k]);
      picture.style.transform = `translate(${left - PICTURE / 2}px, ${top - PICTURE / 2}px)`;
    }
    if (this.labelled !== this.names) {
      this.labelled = this.names;
      this.labels?.forEach((label) => label.remove());
      this.labels = this.names.map(([, words]) => this.over.appendChild(make("span", "lps-map-name", words)));
      this.sizes = this.labels.map((label) => [label.offsetWidth, label.offsetHeight]);
    }
    const taken = [];
    this.names.forEach(([code, , x, y], i) => {
      const [left, top] = this.toScreen(x, y), [wide, high] = this.sizes[i];
      const box = [left - wide / 2, top - high - 4, left + wide / 2, top - 4]; // above the points, not on them
      const isFree = left > 0 && top > 0 && left < width && top < height && !(head.named === "groups" && this.hidden.has(code))
        && taken.every((other) => box[0] > other[2] || box[2] < other[0] || box[1] > other[3] || box[3] < other[1]);
      if (isFree) taken.push(box);
      Object.assign(this.labels[i].style, { display: isFree && !this.isUnnamed ? "" : "none", transform: `translate(${box[0]}px, ${box[1]}px)` });
    });
    this.drawHand();
  }

  // The outline that is drawn, and rings around the opened image and the point that the keys are at.
  drawHand() {
    const pen = this.hand.getContext("2d"), ratio = Math.min(2, devicePixelRatio);
    Object.assign(this.hand, { width: this.width * ratio, height: this.height * ratio }); // which clears it
    pen.scale(ratio, ratio);
    pen.strokeStyle = getComputedStyle(this.root).color;
    const ring = (k, radius, line) => {
      if (k < 0) return;
      pen.lineWidth = line;
      pen.beginPath();
      pen.arc(...this.toScreen(this.data.x[k], this.data.y[k]), radius, 0, 2 * Math.PI);
      pen.stroke();
    };
    ring(this.head.image === null ? -1 : this.data.ids.indexOf(this.head.image), 8, 2.5);
    ring(this.at, 11, 1.5);
    if (!this.outline) return;
    pen.lineWidth = 1.5;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    this.outline.forEach(([left, top], i) => (i ? pen.lineTo(left, top) : pen.moveTo(left, top)));
    pen.closePath();
    pen.stroke();
    pen.globalAlpha = 0.08;
    pen.fillStyle = pen.strokeStyle;
    pen.fill();
  }

  // Close in, pictures in place of points: one a square of their size.
  showPictures() {
    const wanted = new Map();
    if (this.head.pictures && this.inSight <= FEW && this.view.scale > 1.5 * this.base) {
      const taken = new Set();
      for (const k of this.data.within(this.box(), this.isShown)) {
        const [left, top] = this.toScreen(this.data.x[k], this.data.y[k]);
        const square = `${Math.floor(left / (PICTURE + 8))} ${Math.floor(top / (PICTURE + 8))}`;
        if (taken.has(square) || wanted.size >= MAX_PICTURES) continue;
        taken.add(square);
        wanted.set(k, this.pictures.get(k) ?? this.picture(k, "lps-map-picture"));
      }
    }
    for (const [k, picture] of this.pictures) if (wanted.get(k) !== picture) picture.remove();
    for (const [k, picture] of wanted) if (!picture.isConnected) this.over.prepend(picture);
    this.pictures = wanted;
    for (const [k, picture] of wanted) picture.style.outlineColor = this.shades[this.codes[k]];
    this.drawOver();
  }

  picture(k, name) {
    const picture = make("img", name);
    Object.assign(picture, { src: `${this.head.pictures}${this.data.ids[k]}.webp`, alt: "", draggable: false });
    picture.onload = () => picture.classList.toggle("lps-map-tiny", picture.naturalWidth <= TINY);
    return picture;
  }

  describe(k) {
    const { names } = this.head, { ids, truth, predicted, confidence } = this.data;
    const called = (code, otherwise) => names[code] ?? otherwise;
    const known = truth[k] >= 0 ? `${called(truth[k], "unknown")} → ` : "";
    return [`${this.head.noun} ${ids[k]}`, `${known}${called(predicted[k], "none")}, ${confidence[k]} %`];
  }

  showTip(k) {
    if (k < 0 || k === undefined) {
      this.tip.style.display = "none";
      this.tip.of = -1;
      return;
    }
    if (this.tip.of !== this.data.ids[k]) {
      this.tip.of = this.data.ids[k];
      const picture = this.head.pictures ? [this.picture(k, "lps-map-shown")] : [];
      this.tip.replaceChildren(...picture, ...this.describe(k).map((words) => make("div", "", words)));
    }
    const [left, top] = this.toScreen(this.data.x[k], this.data.y[k]);
    this.tip.style.display = "";
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    const beside = left + 14 + wide > this.width ? left - 14 - wide : left + 14;
    this.tip.style.transform = `translate(${Math.max(2, beside)}px, ${Math.max(2, Math.min(this.height - high - 2, top - high / 2))}px)`;
  }

  summarize() {
    const { head, data } = this, counts = new Array(head.groups.length).fill(0);
    for (let k = 0; k < data.count; k++) counts[this.codes[k]]++;
    const [left, bottom, right, top] = head.frame;
    const third = (value, from, to, words) => words[Math.min(2, Math.max(0, Math.floor((3 * (value - from)) / (to - from))))];
    const groups = head.groups.map(([label], code) => [label, counts[code]]).filter(([label, count]) => label && count);
    const parts = groups.slice(0, 40).map(([label, count]) => `${label}: ${count.toLocaleString("en")}`);
    const places = this.names.slice(0, 20).map(([, words, x, y]) =>
      `${words} ${third(y, bottom, top, ["bottom", "middle", "top"])} ${third(x, left, right, ["left", "centre", "right"])}`);
    return `${data.count.toLocaleString("en")} points. ${parts.join(", ")}. ${places.length ? `Most points of each name: ${places.join(", ")}.` : ""}`;
  }

  // ------------------------------------------------------------------------------------------- legend and tools

  fillLegend() {
    const { groups, scale } = this.head, used = new Set(this.codes);
    this.legend.classList.toggle("lps-map-scale", scale);
    const entries = groups.map(([label], code) => [label, code]).filter(([label, code]) => label && (scale || used.has(code)));
    const isShown = this.head.legend && entries.length > 1 && entries.length <= this.head.legend;
    this.legend.replaceChildren(...(isShown ? entries : []).map(([label, code]) => {
      const entry = make("button", "lps-map-entry", label);
      const swatch = make("i", "");
      swatch.style.background = this.shades[code];
      entry.prepend(swatch);
      entry.type = "button";
      entry.disabled = scale;
      entry.title = scale ? label : `Show or hide ${label}`;
      entry.setAttribute("aria-pressed", !this.hidden.has(code));
      entry.onclick = () => {
        this.hidden.has(code) ? this.hidden.delete(code) : this.hidden.add(code);
        this.recolor();
        this.legend.children[entries.findIndex(([, other]) => other === code)].focus();
      };
      return entry;
    }));
  }

  fillTools() {
    const tool = (name, icon, words, act) => {
      const button = make("button", "lps-map-tool");
      const picture = make("span", "lps-map-icon", icon);
      picture.ariaHidden = "true";
      picture.translate = false;
      Object.assign(button, { type: "button", title: words, onclick: act });
      button.setAttribute("aria-label", words);
      button.dataset.tool = name;
      button.append(picture);
      return button;
    };
    const way = (name, icon, words) => tool(name, icon, words, () => this.take(name));
    const choosable = this.head.token
      ? [way("pan", "pan_tool", "Move the map"), way("lasso", "lasso_select", "Select with a lasso"), way("box", "select", "Select with a box")]
      : [];
    this.tools.replaceChildren(
      ...choosable,
      tool("closer", "add", "Zoom in", () => this.zoom(STEP)),
      tool("further", "remove", "Zoom out", () => this.zoom(1 / STEP)),
      tool("whole", "fit_screen", "Show all points", () => this.reset()),
      ...(this.head.named ? [tool("names", "label", "Show or hide names", () => this.toggleNames())] : []),
      tool("png", "photo_camera", "Download as PNG", () => this.savePicture()),
      tool("csv", "save", "Download data as CSV", () => this.saveTable()),
      ...(this.head.code ? [tool("python", "code", "Download the Python code of this map", () => this.saveText(this.head.code, "py"))] : []),
    );
    this.take(this.tool);
  }

  take(tool) {
    this.tool = tool;
    this.stage.dataset.tool = tool;
    for (const button of this.tools.children) {
      if (["pan", "lasso", "box"].includes(button.dataset.tool)) button.setAttribute("aria-pressed", button.dataset.tool === tool);
    }
  }

  toggleNames() {
    this.isUnnamed = !this.isUnnamed;
    this.ask();
  }

  saveText(text, ending) {
    save(URL.createObjectURL(new Blob([text], { type: ending === "csv" ? "text/csv" : "text/plain" })), `${this.head.name}.${ending}`);
  }

  saveTable() {
    const { data, head } = this, [low, across] = head.extent, quote = (words) => `"${words.replaceAll('"', '""')}"`;
    const labels = head.groups.map(([label]) => quote(label)), lines = ["group,x,y,image"];
    const place = (value, axis) => Number((low[axis] + (value / UNITS) * across).toPrecision(6));
    for (let k = 0; k < data.count; k++) {
      if (this.isShown(k)) lines.push(`${labels[this.codes[k]]},${place(data.x[k], 0)},${place(data.y[k], 1)},${data.ids[k]}`);
    }
    this.saveText(`${lines.join("\n")}\n`, "csv");
  }

  savePicture() {
    const paper = make("canvas", ""), pen = paper.getContext("2d"), ratio = 2;
    Object.assign(paper, { width: ratio * this.width, height: ratio * this.height });
    pen.scale(ratio, ratio);
    pen.fillStyle = getComputedStyle(document.querySelector(".stApp") ?? document.body).backgroundColor;
    pen.fillRect(0, 0, this.width, this.height);
    this.isStale = true;
    this.draw(); // what WebGL drew lasts until the end of this task
    if (this.root.dataset.drawn === "points") pen.drawImage(this.points, 0, 0, this.width, this.height);
    else {
      const [across, down] = [DENSITY_ROOM * this.width, DENSITY_ROOM * this.height];
      pen.drawImage(this.density, -across, -down, this.width + 2 * across, this.height + 2 * down);
    }
    pen.fillStyle = getComputedStyle(this.root).color;
    pen.font = `600 12px ${getComputedStyle(this.root).fontFamily}`;
    pen.textAlign = "center";
    this.names.forEach(([, words, x, y], i) => this.labels[i].style.display || pen.fillText(words, this.toScreen(x, y)[0], this.toScreen(x, y)[1] - 9));
    paper.toBlob((blob) => save(URL.createObjectURL(blob), `${this.head.name}.png`));
  }

  // ------------------------------------------------------------------------------------------- by hand

  zoom(times, [left, top] = [this.width / 2, this.height / 2]) {
    const [x, y] = this.toUnits(left, top);
    const scale = Math.min(MAX_ZOOM * this.base, Math.max(0.5 * this.base, this.view.scale * times));
    const share = this.view.scale / scale;
    this.view = { x: x + (this.view.x - x) * share, y: y + (this.view.y - y) * share, scale };
    this.ask();
  }

  pan(across, down) {
    this.view = { ...this.view, x: this.view.x - across / this.view.scale, y: this.view.y + down / this.view.scale };
    this.ask();
  }

  reset() {
    this.view = null;
    this.resize();
  }

  pointAt([left, top]) {
    return this.data ? this.data.nearest(...this.toUnits(left, top), REACH / this.view.scale, this.isShown) : -1;
  }

  listen() {
    const { stage, fingers } = this;
    const spot = (event) => {
      const box = stage.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    stage.onpointerdown = (event) => {
      if (event.button || !this.data) return;
      stage.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, spot(event));
      this.start = spot(event);
      this.isClick = fingers.size === 1;
      this.way = this.head.token && event.shiftKey && this.tool === "pan" ? "lasso" : this.tool;
      this.showTip(-1);
    };
    stage.onpointermove = (event) => {
      if (!this.data) return;
      const now = spot(event), before = fingers.get(event.pointerId);
      if (!before) {
        if (event.pointerType !== "touch") this.hover(now);
        return;
      }
      if (Math.hypot(now[0] - this.start[0], now[1] - this.start[1]) > SLOP) this.isClick = false;
      if (fingers.size === 2) this.pinch(event.pointerId, before, now);
      else if (this.way === "pan" && !this.isClick) this.pan(now[0] - before[0], now[1] - before[1]);
      else if (this.way === "box") this.outline = [this.start, [now[0], this.start[1]], now, [this.start[0], now[1]]];
      else if (this.way === "lasso") {
        this.outline ??= [this.start];
        const last = this.outline.at(-1);
        if (Math.hypot(now[0] - last[0], now[1] - last[1]) > 3) this.outline.push(now);
      }
      if (this.way === "pan" && this.isClick) return; // the drag begins where it began, not where it became one
      fingers.set(event.pointerId, now);
      if (this.outline) this.drawHand();
    };
    const lift = (event) => {
      if (!fingers.delete(event.pointerId) || fingers.size) return;
      const outline = this.outline;
      this.outline = null;
      if (event.type === "pointercancel") return this.drawHand();
      if (this.isClick) this.click(spot(event));
      else if (outline?.length > 2) this.select(this.data.inside(outline.map(([left, top]) => this.toUnits(left, top)), this.isShown));
    };
    stage.onpointerup = stage.onpointercancel = lift;
    stage.onpointerleave = () => this.showTip(-1);
    stage.ondblclick = (event) => this.zoom(2, spot(event));
    stage.addEventListener("wheel", (event) => {
      if (!this.data) return;
      event.preventDefault();
      this.showTip(-1);
      const lines = event.deltaMode ? 30 : 1;
      this.zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY * lines)) * 0.002), spot(event));
    }, { passive: false });
    stage.onkeydown = (event) => this.data && this.press(event);
    stage.onblur = () => {
      this.at = -1;
      this.showTip(-1);
      this.ask();
    };
  }

  hover(now) {
    this.hovered ??= requestAnimationFrame(() => {
      this.hovered = null;
      const k = this.pointAt(this.pointer);
      stageCursor(this.stage, k >= 0 && this.head.clickable);
      this.showTip(k);
    });
    this.pointer = now;
  }

  pinch(finger, before, now) {
    const [other] = [...this.fingers].filter(([one]) => one !== finger).map(([, place]) => place);
    const apart = (place) => Math.max(1, Math.hypot(place[0] - other[0], place[1] - other[1]));
    this.zoom(apart(now) / apart(before), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
    this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  }

  click(place) {
    const k = this.pointAt(place);
    if (k >= 0 && this.head.clickable) this.report.click(this.data.ids[k]);
    else if (this.way !== "pan" && this.drawn) this.select([]);
  }

  select(found) {
    const ids = found.map((k) => this.data.ids[k]);
    this.drawn = bitsOf(ids);
    this.given = null;
    this.choose();
    this.ask();
    this.said.textContent = `${ids.length.toLocaleString("en")} ${this.head.noun}s selected.`;
    this.report.selected({ token: this.head.token, bits: toBase64(this.drawn) });
  }

  // Arrows go from point to point, with Shift they move the map; + and - zoom, 0 shows all, Enter opens the image.
  press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const acts = {
      "+": () => this.zoom(STEP), "=": () => this.zoom(STEP), "-": () => this.zoom(1 / STEP), 0: () => this.reset(),
      Enter: () => this.at >= 0 && this.head.clickable && this.report.click(this.data.ids[this.at]),
      Escape: () => { this.at = -1; this.showTip(-1); if (this.drawn && this.head.token) this.select([]); this.ask(); },
    };
    const act = arrow ? () => (event.shiftKey ? this.pan(-60 * arrow[0], 60 * arrow[1]) : this.walk(arrow)) : acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation(); // arrows are shortcuts of the page, too
    act();
  }

  walk([across, up]) {
    const { data, view } = this;
    const [x, y] = this.at < 0 ? [view.x, view.y] : [data.x[this.at], data.y[this.at]];
    let best = this.at < 0 ? data.nearest(x, y, this.width / view.scale, this.isShown) : -1;
    for (let pixels = 16; best < 0 && pixels < 4 * MAX_ZOOM * this.width; pixels *= 2) {
      const reach = pixels / view.scale;
      let least = Infinity;
      for (const k of data.within([x - reach, y - reach, x + reach, y + reach], this.isShown)) {
        const along = (data.x[k] - x) * across + (data.y[k] - y) * up, beside = Math.abs((data.x[k] - x) * up + (data.y[k] - y) * across);
        if (along > 0 && along <= reach && beside <= along && along + beside < least) [best, least] = [k, along + beside];
      }
    }
    if (best < 0) return;
    this.at = best;
    const [left, top] = this.toScreen(data.x[best], data.y[best]);
    if (left < 20 || top < 20 || left > this.width - 20 || top > this.height - 20) this.pan(this.width / 2 - left, this.height / 2 - top);
    this.said.textContent = this.describe(best).join(": ");
    this.drawOver();
    this.showTip(best);
  }
}

function stageCursor(stage, isOnPoint) {
  stage.classList.toggle("lps-map-on-point", isOnPoint);
}

// A change of theme runs no script on the server.
function watchTheme() {
  const app = document.querySelector(".stApp");
  if (!app || app.lpsMapWatched) return;
  app.lpsMapWatched = true;
  new MutationObserver(() => maps.forEach((map) => map.head && map.recolor())).observe(app, { attributeFilter: ["class"] });
}

export default function ({ parentElement, data, setTriggerValue, setStateValue }) {
  const root = parentElement.querySelector(".lps-map");
  const map = (root.lpsMap ??= new PointMap(root));
  map.report = {
    click: (id) => setTriggerValue("click", id),
    selected: (value) => setStateValue("selected", value),
    missing: () => setTriggerValue("missing", data.places),
  };
  watchTheme();
  map.update(data);
  return () => setTimeout(() => {
    if (root.isConnected) return;
    map.end();
    root.lpsMap = undefined;
  });
}
