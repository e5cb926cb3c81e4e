// The pictures of the page Review, one at a time: data of lps/ui/review/deck.py, pictures of lps/ui/server/review_desk.py.
// Some pictures are always at hand, so that the next one is there at once; `Outbox` (outbox.js) carries decisions away.

const FEW = 6, IDLE_S = 30, AGAIN_MS = 5000;
const decoder = new TextDecoder();

function part(name, kind, words = "", attributes = {}) {
  const element = document.createElement(kind);
  element.className = `lps-deck-${name}`;
  element.textContent = words;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// A sheet of pictures, and how to cut one of them out.
class Sheet {
  constructor(about, bytes, pixelated) {
    Object.assign(this, about, { pixelated });
    this.url = bytes.length ? URL.createObjectURL(new Blob([bytes], { type: about.mime })) : "";
    if (this.url) (this.image = new Image()).src = this.url; // decoded before it is needed
  }

  picture(id, alt) {
    const i = this.ids.indexOf(id);
    const [height, width] = this.sides[i];
    const shown = part("picture", "span", this.url ? "" : String(id), { role: "img", "aria-label": alt });
    shown.style.cssText = `--width: ${width}; --height: ${height};`;
    if (!this.url) return shown;
    const [across, down] = [this.columns, Math.ceil(this.ids.length / this.columns)];
    const place = (at, of) => (of > 1 ? (100 * at) / (of - 1) : 0);
    shown.style.backgroundImage = `url(${this.url})`;
    shown.style.backgroundSize = `${100 * across}% ${100 * down}%`;
    shown.style.backgroundPosition = `${place(i % across, across)}% ${place(Math.floor(i / across), down)}%`;
    shown.style.imageRendering = this.pixelated ? "pixelated" : "auto";
    return shown;
  }
}

class Deck {
  constructor(root, data) {
    Object.assign(this, { root, data, cards: [], passed: new Set(), made: [], count: 0, seconds: 0, news: "", trouble: "" });
    this.shownAt = 0;
    this.outbox = new Outbox(data.address, () => this.cards.map((card) => card.image), (news) => this.hear(news));
    this.onKey = (event) => this.press(event);
    this.onHide = () => document.visibilityState === "hidden" && this.outbox.send();
    document.addEventListener("keydown", this.onKey);
    document.addEventListener("visibilitychange", this.onHide);
    this.draw();
    this.load();
  }

  stop() {
    this.isOver = true;
    document.removeEventListener("keydown", this.onKey);
    document.removeEventListener("visibilitychange", this.onHide);
    this.outbox.stop();
  }

  // ---------------------------------------------------------------- pictures

  // More pictures; once a class is new, or gone, in place of those that were suggested other classes.
  async load(isAnew = false) {
    this.isStale ||= isAnew;
    if (this.isLoading || this.isOver) return;
    this.isLoading = true;
    const isReplacing = this.isStale;
    this.isStale = false;
    try {
      const held = this.cards.slice(0, isReplacing ? 1 : undefined);
      const leave = [...held.map((card) => card.image), ...this.passed];
      const bytes = new Uint8Array(await (await ask(this.data.address, "cards", { leave })).arrayBuffer());
      const cut = bytes.indexOf(10);
      const head = JSON.parse(decoder.decode(bytes.subarray(0, cut)));
      const middle = cut + 1 + head.large.bytes;
      const large = new Sheet(head.large, bytes.slice(cut + 1, middle), false);
      const small = new Sheet(head.small, bytes.slice(middle), head.pixelated);
      Object.assign(this, { names: head.names, waiting: head.waiting, assigned: head.assigned, classless: head.classless, trouble: "" });
      this.isDry = !head.cards.length;
      const isFirst = !this.cards.length;
      if (isReplacing) this.cards.splice(1);
      const known = new Set([...this.cards.map((card) => card.image), ...this.passed]);
      const fresh = head.cards.filter((card) => !known.has(card.image));
      this.cards.push(...fresh.map((card) => ({ ...card, large, small })));
      this.isLoaded = true;
      if (isFirst) this.draw();
      else this.drawFoot();
    } catch (error) {
      this.isStale ||= isReplacing;
      this.trouble = error.message;
      this.drawFoot();
      setTimeout(() => this.load(), AGAIN_MS);
      return;
    } finally {
      this.isLoading = false;
    }
    if (this.isStale) this.load();
  }

  // ---------------------------------------------------------------- decisions

  next() {
    const now = performance.now();
    if (this.shownAt) this.seconds += Math.min(IDLE_S, (now - this.shownAt) / 1000);
    this.draw();
    if (this.cards.length < FEW && !this.isDry) this.load();
  }

  decide(decision, words) {
    const card = this.cards[0];
    if (!card || this.data.readonly) return;
    const key = newKey();
    this.cards.shift();
    this.passed.add(card.image);
    this.made.push({ key, card, isNew: decision.do === "new" });
    this.count++;
    this.waiting--;
    this.news = `${this.data.noun} ${card.image}: ${words}`;
    this.outbox.add({ key, image: card.image, ...decision });
    this.next();
  }

  choose(i) {
    const one = this.cards[0]?.suggestions[i];
    if (one) this.decide({ do: "assign", to: one.to }, one.name);
  }

  skip() {
    const card = this.cards.shift();
    if (!card) return;
    this.passed.add(card.image);
    this.made.push({ card });
    this.news = `${this.data.noun} ${card.image}: skipped`;
    this.next();
  }

  undo() {
    const last = this.made.pop();
    if (!last) return;
    this.passed.delete(last.card.image);
    this.cards = [last.card, ...this.cards.filter((card) => card.image !== last.card.image)];
    this.news = `${this.data.noun} ${last.card.image}: undone`;
    if (last.key) {
      this.count--;
      this.outbox.add({ key: newKey(), do: "undo", of: last.key, image: last.card.image, isNew: last.isNew });
      this.waiting++;
    }
    this.draw();
  }

  ask() {
    if (this.data.readonly || !this.cards.length) return;
    this.root.querySelector(".lps-deck-new").hidden = false;
    this.root.querySelector(".lps-deck-name").focus();
  }

  hear(news) {
    if (this.isOver) return;
    this.trouble = news.trouble ?? (Object.values(news.refused)[0] ?? "");
    if (news.trouble) return this.drawFoot();
    [this.assigned, this.classless] = [news.assigned, news.classless];
    const gone = new Set(news.gone);
    const back = new Set(this.outbox.waiting.map((decision) => decision.image));
    this.cards = this.cards.filter((card, i) => i === 0 || back.has(card.image) || !gone.has(card.image));
    if (news.part.some((decision) => decision.do === "new" || decision.isNew)) this.load(true);
    this.drawFoot();
  }

  // ---------------------------------------------------------------- keys

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || !this.root.isConnected) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable=true]")) return;
    const act = { n: this.ask, s: this.skip, u: this.undo, x: this.reject }[event.key.toLowerCase()];
    if (/^[1-5]$/.test(event.key)) this.choose(Number(event.key) - 1);
    else if (act) act.call(this);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  reject() {
    this.decide({ do: "nothing" }, "none of these");
  }

  // ---------------------------------------------------------------- drawing

  draw() {
    const card = this.cards[0];
    this.shownAt = card ? performance.now() : 0;
    const face = card ? this.face(card) : [part("empty", "p", this.isLoaded ? this.data.empty : "…")];
    this.foot = part("foot", "div", "", { role: "status" });
    this.root.replaceChildren(...face, this.foot);
    this.drawFoot();
  }

  face(card) {
    const frame = part("frame", "div");
    frame.append(card.large.picture(card.image, `${this.data.noun} ${card.image}, now in ${card.cluster}`));
    const side = part("side", "div");
    side.append(part("where", "p", `${this.data.noun} ${card.image} · now in ${card.cluster}`), part("why", "p", card.why));
    side.append(...card.suggestions.map((one, i) => this.suggestion(card, one, i)));
    const face = part("face", "div");
    face.append(frame, side, this.acts(), this.form());
    return [face];
  }

  suggestion(card, one, i) {
    const button = part("choice", "button", "", { type: "button" });
    button.append(part("key", "kbd", String(i + 1)), part("title", "span", one.name));
    button.append(part("share", "span", one.share ? `${Math.round(100 * one.share)} %` : "–"));
    const row = part("examples", "span");
    row.append(...one.images.map((id) => card.small.picture(id, `${this.data.noun} ${id} of ${one.name}`)));
    button.append(row);
    button.disabled = this.data.readonly;
    button.onclick = () => this.choose(i);
    return button;
  }

  // A class that is not among the suggestions: one of the others by its name, or a new one.
  form() {
    const form = part("new", "form");
    form.hidden = true;
    const list = part("names", "datalist", "", { id: "lps-deck-names" });
    list.append(...(this.names ?? []).map((name) => part("known", "option", "", { value: name })));
    const about = { placeholder: "Name of a class, new or known", maxlength: 80, list: list.id, "aria-label": "Class" };
    const field = part("name", "input", "", { ...about, autocomplete: "off" });
    const close = () => (form.hidden = true) && field.blur();
    field.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Escape") close();
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      const name = field.value.trim();
      if (name) this.decide({ do: "new", name }, name);
    };
    form.append(field, list, part("give", "button", "Assign", { type: "submit" }));
    return form;
  }

  acts() {
    const row = part("acts", "div");
    const acts = [
      ["n", "New", this.ask, true, "Type the name of a class that is not suggested"],
      ["x", "None of these", this.reject, true, "It shows none of the classes and gets no label"],
      ["s", "Skip", this.skip, false, "Go on without a decision"],
      ["u", "Undo", this.undo, false, "Take back the last decision"],
    ];
    for (const [key, words, act, isWriting, title] of acts) {
      const button = part("act", "button", "", { type: "button", title });
      button.append(part("key", "kbd", key), words);
      button.disabled = isWriting && this.data.readonly;
      button.onclick = () => act.call(this);
      row.append(button);
    }
    return row;
  }

  drawFoot() {
    const rate = this.seconds > 0 && this.count ? ` · ${(60 * this.count / this.seconds).toFixed(0)} a minute` : "";
    const numbers = [this.count, this.assigned, this.classless, this.waiting];
    const [count, assigned, classless, waiting] = numbers.map((n) => n?.toLocaleString("en"));
    const words = [`${count} decided in this session${rate}`];
    if (this.isLoaded) words.push(`${assigned} assigned in total`, this.classless && `${classless} none of these`, `${waiting} left`);
    const late = this.outbox?.waiting.length ?? 0;
    const saved = late ? `${late} not saved yet` : this.count ? "All saved" : "";
    const lines = [part("news", "p", this.news), part("counts", "p", [...words, saved].filter(Boolean).join(" · "))];
    if (this.trouble) {
      const kept = late ? " Your decisions stay in this browser and are sent again later." : "";
      lines.push(part("trouble", "p", this.trouble + kept));
    }
    this.foot.replaceChildren(...lines);
  }
}

export default function (component) {
  const { parentElement, data } = component;
  const root = parentElement.querySelector(".lps-deck");
  const told = JSON.stringify(data);
  if (root.told !== told) {
    root.deck?.stop();
    root.told = told;
    root.deck = new Deck(root, data);
  }
  return () => {
    root.deck?.stop();
    root.told = "";
  };
}
