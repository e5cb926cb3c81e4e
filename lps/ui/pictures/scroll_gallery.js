// The gallery of lps/ui/pictures/scroll_gallery.py: as many tiles as are in sight, which get other pictures while one scrolls.

const ACROSS = 80, DOWN = 114; // pixels from tile to tile
const MORE_ROWS = 2; // above and below those in sight
const TALLEST = 8_000_000; // pixels that browsers let an element have; beyond it the room is scrolled faster
const SHARP = 32; // pixels across of pictures whose pixels stay sharp
const KINDS = { ids: Int32Array, truth: Int16Array, predicted: Int16Array, confidence: Uint8Array };

class Endless {
  constructor(root) {
    this.root = root;
    this.room = root.firstElementChild;
    this.tiles = new Map(); // by their place in the gallery
    this.at = 0;
    root.onscroll = () => this.ask();
    root.onkeydown = (event) => this.press(event);
    this.watcher = new ResizeObserver(() => this.ask());
    this.watcher.observe(root);
  }

  async update(data) {
    const serial = (this.serial = (this.serial ?? 0) + 1);
    let found;
    try {
      const load = (name) => fetch(data[name]).then((answer) => {
        if (!answer.ok) throw new Error(`${answer.status}`);
        return answer.arrayBuffer();
      });
      found = await Promise.all(Object.keys(KINDS).map(load));
    } catch {
      if (serial === this.serial) this.report.missing(data.ids); // the server has forgotten them: it makes them anew
      return;
    }
    if (serial !== this.serial) return;
    if (this.data?.ids !== data.ids) [this.root.scrollTop, this.at] = [0, 0];
    this.data = data;
    Object.entries(KINDS).forEach(([name, Kind], i) => (this[name] = new Kind(found[i])));
    this.root.setAttribute("aria-label", data.alt);
    this.root.style.maxHeight = `${data.height}px`;
    this.tiles.forEach((tile) => tile.remove());
    this.tiles.clear();
    this.draw();
  }

  ask() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      if (this.data && this.root.isConnected) this.draw();
    });
  }

  // Pixels above the first tile in sight as if the room were as tall as it should be.
  draw() {
    const { root, room, ids } = this;
    this.columns = Math.max(1, Math.floor((root.clientWidth + 8) / ACROSS));
    this.rows = Math.ceil(ids.length / this.columns);
    const whole = this.rows * DOWN, tall = Math.min(whole, TALLEST);
    room.style.height = `${tall}px`;
    const most = Math.max(1, tall - root.clientHeight);
    this.stretch = Math.max(0, whole - root.clientHeight) / most;
    const above = root.scrollTop * (tall < whole ? this.stretch : 1), shift = root.scrollTop - above;
    const first = Math.max(0, Math.floor(above / DOWN) - MORE_ROWS), last = Math.ceil((above + root.clientHeight) / DOWN) + MORE_ROWS;
    const [from, to] = [first * this.columns, Math.min(ids.length, last * this.columns)];
    for (const [place, tile] of this.tiles) {
      if (place >= from && place < to) continue;
      tile.remove();
      this.tiles.delete(place);
    }
    for (let place = from; place < to; place++) {
      if (!this.tiles.has(place)) this.tiles.set(place, room.appendChild(this.tile(place)));
      const row = Math.floor(place / this.columns), tile = this.tiles.get(place);
      tile.style.transform = `translate(${(place % this.columns) * ACROSS + 4}px, ${row * DOWN + shift + 4}px)`;
      tile.tabIndex = place === this.at ? 0 : -1;
    }
  }

  tile(place) {
    const { names, pictures, opened } = this.data, id = this.ids[place], truth = this.truth[place];
    const said = names[this.predicted[place]] ?? "none", known = names[truth] ?? "unknown";
    const isWrong = truth >= 0 && truth !== this.predicted[place], sure = `${this.confidence[place]} %`;
    const tile = document.createElement("button");
    tile.type = "button";
    tile.className = `lps-endless-tile${isWrong ? " lps-endless-wrong" : ""}${id === opened ? " lps-endless-open" : ""}`;
    tile.dataset.id = id;
    const about = `predicted ${said}, confidence ${sure}, true class ${known}, ${place + 1} of ${this.ids.length}`;
    tile.setAttribute("aria-label", `${this.data.noun} ${id}, ${about}`);
    tile.onclick = () => {
      this.at = place;
      this.report.click(id);
    };
    const picture = document.createElement(pictures ? "img" : "b");
    if (pictures) {
      picture.alt = "";
      picture.onload = () => picture.classList.toggle("lps-endless-tiny", picture.naturalWidth <= SHARP);
      picture.src = `${pictures}${id}.webp`;
    } else picture.textContent = id;
    tile.append(picture, ...[said, isWrong ? `is ${known}` : sure].map((words) => {
      const line = document.createElement("span");
      line.textContent = words;
      return line;
    }));
    return tile;
  }

  // One tile is a stop of the Tab key; arrows, page keys, Home and End go on to others.
  press(event) {
    if (!this.data || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = this.columns * Math.max(1, Math.floor(this.root.clientHeight / DOWN)), last = this.ids.length - 1;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, PageUp: -page, PageDown: page, Home: -last, End: last };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation(); // arrows are shortcuts of the page, too
    this.at = Math.min(last, Math.max(0, this.at + steps[event.key]));
    const row = Math.floor(this.at / this.columns), share = this.room.clientHeight < this.rows * DOWN ? this.stretch : 1;
    const above = this.root.scrollTop * share, high = this.root.clientHeight;
    if (row * DOWN < above) this.root.scrollTop = (row * DOWN) / share;
    else if ((row + 1) * DOWN > above + high) this.root.scrollTop = ((row + 1) * DOWN - high) / share;
    this.draw();
    this.tiles.get(this.at)?.focus({ preventScroll: true });
  }
}

export default function ({ parentElement, data, setTriggerValue }) {
  const root = parentElement.querySelector(".lps-endless");
  const gallery = (root.lpsEndless ??= new Endless(root));
  gallery.report = { click: (id) => setTriggerValue("click", id), missing: (address) => setTriggerValue("missing", address) };
  gallery.update(data);
}
