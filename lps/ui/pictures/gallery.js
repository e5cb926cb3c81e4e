// Draws the contact sheet of lps/ui/gallery.py: a grid of pictures cut from one image, to look at and to choose.
// data: UTF-8 bytes, one line of JSON, then the bytes of the image. What is chosen outlives pages of one cluster.

const decoder = new TextDecoder();

function part(name, kind, attributes = {}) {
  const element = document.createElement(kind);
  element.className = name;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function picture(sheet, tile, i) {
  const { columns, count } = sheet;
  const [height, width] = tile.sides;
  const face = part("lps-sheet-picture", "button", { type: "button", "aria-label": tile.alt, title: tile.alt });
  face.style.width = `${width}px`;
  face.style.height = `${height}px`;
  if (sheet.url) {
    face.style.backgroundImage = `url(${sheet.url})`;
    face.style.backgroundSize = `${columns * width}px ${Math.ceil(count / columns) * height}px`;
    face.style.backgroundPosition = `${-(i % columns) * width}px ${-Math.floor(i / columns) * height}px`;
    face.style.imageRendering = sheet.pixelated ? "pixelated" : "auto";
  } else {
    face.textContent = tile.id;
  }
  return face;
}

function draw(root, head, bytes) {
  if (root.url) URL.revokeObjectURL(root.url);
  root.url = bytes.length ? URL.createObjectURL(new Blob([bytes], { type: head.mime })) : "";
  const sheet = { ...head, url: root.url, count: head.tiles.length };
  const tallest = Math.max(...head.tiles.map((tile) => tile.sides[0]));
  root.replaceChildren(
    ...head.tiles.map((tile, i) => {
      const cell = part(`lps-sheet-tile${tile.wrong ? " lps-sheet-wrong" : ""}`, "div", { role: "listitem" });
      cell.style.width = `${head.edge}px`;
      cell.dataset.id = tile.id;
      const face = picture(sheet, tile, i);
      face.onclick = () => root.reportClick(tile.id);
      const mark = part("lps-sheet-mark", "button", { type: "button", "aria-label": `Choose ${head.noun} ${tile.id}` });
      mark.onclick = (event) => root.choose(i, event.shiftKey);
      const place = part("lps-sheet-place", "div");
      place.style.width = `${tile.sides[1]}px`;
      place.style.margin = `${tallest - tile.sides[0]}px auto 0`;
      place.append(face, ...(head.choosable ? [mark] : []));
      const words = part("lps-sheet-words", "div");
      words.textContent = tile.words;
      cell.append(place, words);
      return cell;
    }),
  );
}

// One picture of the sheet is a stop of the Tab key, with its mark; arrows go on to its neighbours.
function stop_at(root, i) {
  [...root.children].forEach((cell, place) => {
    for (const button of cell.querySelectorAll("button")) button.tabIndex = place === i ? 0 : -1;
  });
}

function neighbour(cells, i, key) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step) return cells[i + step];
  if (key === "Home" || key === "End") return cells.at(key === "Home" ? 0 : -1);
  const here = cells[i].getBoundingClientRect();
  const beyond = cells.filter((cell) => {
    const other = cell.getBoundingClientRect();
    return Math.abs(other.left - here.left) < 2 && (key === "ArrowDown" ? other.top > here.top : other.top < here.top);
  });
  return key === "ArrowDown" ? beyond[0] : beyond.at(-1);
}

function walk(root, event) {
  if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
  const cells = [...root.children], cell = event.target.closest(".lps-sheet-tile");
  if (!cell || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  event.stopPropagation(); // arrows are shortcuts of the page, too
  const next = neighbour(cells, cells.indexOf(cell), event.key);
  if (!next) return;
  stop_at(root, cells.indexOf(next));
  next.querySelector(event.target.className.includes("lps-sheet-mark") ? ".lps-sheet-mark" : ".lps-sheet-picture").focus();
}

function show(root) {
  for (const cell of root.children) {
    const id = Number(cell.dataset.id);
    const chosen = root.chosen.has(id);
    cell.classList.toggle("lps-sheet-chosen", chosen);
    cell.classList.toggle("lps-sheet-open", id === root.open);
    cell.querySelector(".lps-sheet-mark")?.setAttribute("aria-pressed", chosen);
  }
}

export default function (component) {
  const { parentElement, data, setTriggerValue, setStateValue } = component;
  const root = parentElement.querySelector(".lps-sheet");
  const cut = data.indexOf(10);
  const text = decoder.decode(data.subarray(0, cut));
  const head = JSON.parse(text);

  if (root.token !== head.token) {
    root.token = head.token;
    root.chosen = new Set(head.ticked);
  }
  root.open = head.open;
  root.reportClick = (id) => setTriggerValue("click", id);
  root.choose = (i, stretch) => {
    const ids = head.tiles.map((tile) => tile.id);
    const on = !root.chosen.has(ids[i]);
    const from = stretch && root.last !== undefined ? root.last : i;
    for (const id of ids.slice(Math.min(from, i), Math.max(from, i) + 1)) on ? root.chosen.add(id) : root.chosen.delete(id);
    root.last = i;
    show(root);
    setStateValue("chosen", { token: head.token, ids: [...root.chosen] });
  };
  root.setAttribute("role", "list");
  root.setAttribute("aria-label", head.alt);
  if (root.drawn !== head.drawn) {
    root.drawn = head.drawn;
    root.last = undefined;
    draw(root, head, data.slice(cut + 1));
    stop_at(root, 0);
    root.onkeydown = (event) => walk(root, event);
    root.onclick = (event) => event.target.closest(".lps-sheet-tile") && stop_at(root, [...root.children].indexOf(event.target.closest(".lps-sheet-tile")));
  }
  show(root);
}
