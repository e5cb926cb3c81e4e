// Draws the figure of lps/ui/plot.py with Plotly.react, so that zoom and hover outlive new data.
// data: UTF-8 bytes, one line of JSON options, then the JSON of a figure. Without a figure the library alone is loaded,
// when the browser has nothing else to do: whoever opens a page with charts next need not wait for it.

const decoder = new TextDecoder();

const libraries = (window.lpsPlotLibraries ??= new Map());

function loadPlotly(url) {
  if (!libraries.has(url)) {
    libraries.set(
      url,
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = url;
        script.onload = () => resolve(window.Plotly);
        script.onerror = () => {
          libraries.delete(url);
          reject(new Error(`${url} could not be loaded`));
        };
        document.head.appendChild(script);
      }),
    );
  }
  return libraries.get(url);
}

// First drawings wait here. What people see comes first, from the top, each in a task of its own so that the page
// answers in between; what is out of sight waits until the page is likely to be complete and the browser idle.
const waiting = (window.lpsPlotWaiting ??= new Map());
const whenIdle = window.requestIdleCallback ?? setTimeout;
const OUT_OF_SIGHT_MS = 1000;

function drawInTurn(graph, job) {
  if (graph.isDrawn) return job();
  waiting.set(graph, job);
  setTimeout(() => drawNext(false));
}

function drawNext(isIdle) {
  const graphs = [...waiting.keys()];
  const inSight = graphs.find((graph) => {
    const { top, bottom } = graph.getBoundingClientRect();
    return top < innerHeight && bottom > 0;
  });
  const graph = inSight ?? (isIdle ? graphs[0] : undefined);
  if (graph) {
    const job = waiting.get(graph);
    waiting.delete(graph);
    graph.isDrawn = true;
    job();
  } else if (graphs.length) {
    setTimeout(() => whenIdle(() => drawNext(true), { timeout: 500 }), OUT_OF_SIGHT_MS);
  }
}

const NARROW = 560; // pixels
const LEGEND_ROW = 19;
const MAX_ROWS = 16; // of a legend below a narrow chart
const TOOLS_ROW = 32; // above a narrow chart whose tools do not hide
const MAX_LEFT = 0.36; // of a narrow chart's width for the names beside it
const LETTER = 7.2; // pixels

const quote = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;

// What an axis writes at a value, or the value.
const word = ({ tickvals, ticktext }, value) => ticktext?.[Array.from(tickvals ?? []).indexOf(value)] ?? value;

// Parallel coordinates as comma-separated lines: one line a run, one column an axis.
function dimensionsToCsv(dimensions) {
  const lines = [dimensions.map(({ label }) => quote(label)).join(",")];
  dimensions[0]?.values.forEach((_, k) => lines.push(dimensions.map((one) => quote(word(one, one.values[k]))).join(",")));
  return lines.join("\n") + "\n";
}

// The cells of heat maps as comma-separated lines: trace, x, y, id, value.
function cellsToCsv(traces, { xaxis, yaxis }) {
  const lines = ["trace,x,y,id,value"];
  for (const { name, z, customdata } of traces) {
    z.forEach((row, i) =>
      row.forEach((value, j) => {
        const cell = [name, word(xaxis, j), word(yaxis, i), customdata?.[i]?.[j], value];
        if (Number.isFinite(value)) lines.push(cell.map(quote).join(","));
      }),
    );
  }
  return lines.join("\n") + "\n";
}

// The values of every named trace as comma-separated lines: trace, x, y, id.
function toCsv(graph) {
  const parallel = graph._fullData.find((trace) => trace.type === "parcoords");
  if (parallel) return dimensionsToCsv(parallel.dimensions);
  const maps = graph._fullData.filter(({ type, meta }) => type === "heatmap" && meta !== "no values");
  if (maps.length) return cellsToCsv(maps, graph._fullLayout);
  const lines = ["trace,x,y,id"];
  graph._fullData.forEach((trace, i) => {
    if (trace.visible !== true || (trace.hoverinfo === "skip" && trace.meta !== "raw")) return;
    const { x, y, customdata } = graph._fullData[i];
    for (let k = 0; k < (y?.length ?? 0); k++) {
      lines.push([quote(trace.name), quote(x?.[k] ?? k), quote(y[k]), quote(customdata?.[k])].join(","));
    }
  });
  return lines.join("\n") + "\n";
}

function download(text, name, type = "text/csv") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

// A piece of paper with what the chart shows, of the colour of the page: png for slides, svg for print.
function paper(Plotly, graph, name, format) {
  const page = getComputedStyle(document.querySelector(".stApp") ?? document.body).backgroundColor;
  const annotations = [...(graph.layout.annotations ?? []), ...endAnnotations(graph)];
  const layout = { ...graph.layout, annotations, paper_bgcolor: page };
  const size = { width: graph.clientWidth, height: graph.clientHeight };
  const scale = format === "png" ? 2 : 1;
  Plotly.downloadImage({ data: graph.data, layout, config: { staticPlot: true } }, { format, filename: name, scale, ...size });
}

const SVG_ICON = { width: 24, height: 24, path: "M12 3l8 14H4L12 3zm-8 16h16v2H4z" };
const CODE_ICON = { width: 24, height: 24, path: "M9 7l-5 5 5 5 1.4-1.4L6.8 12l3.6-3.6L9 7zm6 0l-1.4 1.4 3.6 3.6-3.6 3.6L15 17l5-5-5-5z" };

function configuration(Plotly, { name, code }) {
  const csv = {
    name: "csv",
    title: "Download data as CSV",
    icon: Plotly.Icons.disk,
    click: (graph) => download(toCsv(graph), `${name}.csv`),
  };
  const png = {
    name: "png",
    title: "Download as PNG",
    icon: Plotly.Icons.camera,
    click: (graph) => paper(Plotly, graph, name, "png"),
  };
  const svg = {
    name: "svg",
    title: "Download as SVG",
    icon: SVG_ICON,
    click: (graph) => paper(Plotly, graph, name, "svg"),
  };
  const python = {
    name: "python",
    title: "Download the Python code of this chart",
    icon: CODE_ICON,
    click: (graph) => download(graph.code, `${name}.py`, "text/x-python"),
  };
  return {
    displaylogo: false,
    showSendToCloud: false,
    displayModeBar: "hover",
    modeBarButtons: [["zoom2d", "pan2d"], ["resetScale2d"], [png, svg, csv, ...(code ? [python] : [])]],
  };
}

// The figure in the colours of the theme that the page shows now: a change of theme runs no script on the server.
function inTheme(text, options, theme) {
  if (theme === options.theme) return text;
  const to = theme === "dark" ? 1 : 0;
  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",");
  const pairs = options.colors.map((pair) => [pair[1 - to], pair[to]]);
  const swaps = new Map(pairs.flatMap(([from, into]) => [[from, into], [channels(from), channels(into)]]));
  return text.replace(/#[0-9a-f]{6}\b|(?<=rgba\()\d+,\d+,\d+/g, (color) => swaps.get(color) ?? color);
}

const KINDS = { i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array,
  f4: Float32Array, f8: Float64Array };

// A column of a trace as an array, also where the figure brings it as base64.
function column(values) {
  if (!values?.bdata) return values ?? [];
  const bytes = Uint8Array.from(atob(values.bdata), (letter) => letter.charCodeAt(0));
  return new KINDS[values.dtype](bytes.buffer);
}

// ------------------------------------------------------------------------------------------- one of many lines

// The lines of what the pointer is on stay as they are, all others fade. Elements alone: plotly need not draw anew.
function lightUp(graph, group) {
  for (const trace of graph._fullData ?? []) {
    const others = group !== undefined && trace.legendgroup !== group;
    for (const element of graph.querySelectorAll(`.trace${CSS.escape(trace.uid)}`)) element.style.opacity = others ? 0.12 : "";
  }
  for (const end of graph.ends?.querySelectorAll("[data-key]") ?? []) {
    end.style.opacity = group !== undefined && end.dataset.key !== group ? 0.25 : "";
  }
  graph.dataset.lit = group ?? "";
}

function listenToHover(graph) {
  graph.on("plotly_hover", ({ points }) => lightUp(graph, points.length === 1 ? points[0].fullData.legendgroup : undefined));
  graph.on("plotly_unhover", () => lightUp(graph));
  const entryOf = ({ target }) => target.closest?.(".legend .traces");
  graph.addEventListener("mouseover", (event) => {
    const entry = entryOf(event);
    if (entry) lightUp(graph, entry.__data__?.[0]?.trace?.legendgroup);
  });
  graph.addEventListener("mouseout", (event) => entryOf(event) && lightUp(graph));
}

// ------------------------------------------------------------------------------------------- lines of a board

// Charts and the run list of a board (lps/ui/board/run_list.js) share what is hidden, what is lit and the values under the
// pointer. A line is known by its legend group; its label at the end, and its epochs, come with it.
const board = (window.lpsBoard ??= Object.assign(new EventTarget(), { hidden: new Set(), lit: "", moment: null }));

const boardLines = (graph) =>
  (graph._fullData ?? []).filter(({ meta, visible }) => meta?.end !== undefined && visible === true);

function hideLines(data) {
  for (const trace of data) if (board.hidden.has(trace.legendgroup)) trace.visible = false;
}

// A line that this chart does not show leaves all others as they are.
function lightUpBoard(graph) {
  lightUp(graph, boardLines(graph).some(({ legendgroup }) => legendgroup === board.lit) ? board.lit : undefined);
}

function followBoard(graph) {
  const tell = (what) => board.dispatchEvent(new Event(what));
  const light = (key) => {
    if (board.lit === key) return;
    board.lit = key;
    tell("lit");
  };
  graph.on("plotly_hover", ({ points }) => {
    light(points[0].fullData.legendgroup);
    hideCoveredEnds(graph);
  });
  graph.on("plotly_unhover", () => {
    light("");
    hideCoveredEnds(graph);
  });
  graph.on("plotly_afterplot", () => {
    placeEnds(graph, light);
    lightUpBoard(graph);
  });
  graph.addEventListener("mousemove", (event) => {
    const moment = momentAt(graph, event);
    if (moment?.epoch === board.moment?.epoch && moment?.graph === board.moment?.graph) return;
    board.moment = moment;
    tell("moment");
  });
  graph.addEventListener("mouseleave", () => {
    board.moment = null;
    tell("moment");
  });
  graph.boardStop = () => kinds.forEach(([kind, follow]) => board.removeEventListener(kind, follow));
  const follow = (act) => () => (graph.isConnected ? act() : graph.boardStop());
  const kinds = Object.entries({
    hidden: follow(() => {
      graph.drawn = null;
      graph.redraw();
    }),
    lit: follow(() => lightUpBoard(graph)),
    moment: follow(() => {
      const { moment } = board;
      showHand(graph, moment?.over === graph.board.over ? moment.x : undefined);
    }),
  });
  for (const [kind, follow] of kinds) board.addEventListener(kind, follow);
}

// The epoch whose point is nearest to the pointer across the page, and the value of every line at it; null beside the curves.
function momentAt(graph, event) {
  const { xaxis, yaxis } = graph._fullLayout ?? {};
  const box = graph.getBoundingClientRect();
  const [left, top] = [event.clientX - box.left - xaxis?._offset, event.clientY - box.top - yaxis?._offset];
  if (!xaxis || !(left >= 0 && left <= xaxis._length && top >= 0 && top <= yaxis._length)) return null;
  const lines = boardLines(graph).map((line) => ({ ...line, epochs: column(line.customdata) }));
  let nearest = null;
  for (const { x, epochs } of lines) {
    x.forEach((value, k) => {
      const distance = Math.abs(xaxis.d2p(value) - left);
      if (!nearest || distance < nearest.distance) nearest = { distance, x: value, epoch: epochs[k] };
    });
  }
  if (!nearest) return null;
  const values = new Map(lines.map(({ legendgroup, y, epochs }) => [legendgroup, y[epochs.indexOf(nearest.epoch)]]));
  return { ...graph.board, graph, values, x: nearest.x, epoch: nearest.epoch };
}

const END_FONT = 12; // pixels, where the text of the page has its usual size
const END_GAP = 8; // between a curve's end at the edge and its label, and again to the words of it
const MAX_ROOM = 0.4; // of a chart's width for the labels

// How large the text of the page is: 1.6 in projector mode on a large screen.
const textScale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

function widthOf(graph, text) {
  const pen = (graph.pen ??= document.createElement("canvas").getContext("2d"));
  pen.font = `${END_FONT * textScale()}px ${getComputedStyle(graph).fontFamily}`;
  return Math.ceil(pen.measureText(text).width);
}

// Room beside the curves for the labels at their ends, which stand there in place of a legend.
function makeRoomForEnds(graph, { data, layout }) {
  layout.showlegend = false;
  const widths = data.filter(({ meta, visible }) => meta?.end && visible !== false).map(({ meta }) => widthOf(graph, meta.end));
  const fitting = widths.filter((width) => width + 2 * END_GAP + 2 <= MAX_ROOM * graph.clientWidth);
  layout.margin = { ...layout.margin, r: fitting.length ? Math.max(...fitting) + 2 * END_GAP + 2 : 12 };
}

// The labels: an element each, in the colour of its line, with a thin line from the curve's end to it.
function placeEnds(graph, light) {
  const { xaxis, yaxis, margin } = graph._fullLayout;
  if (!graph.ends?.isConnected) {
    graph.ends = document.createElement("div");
    graph.ends.className = "lps-plot-ends";
    graph.ends.ariaHidden = "true";
    graph.appendChild(graph.ends);
  }
  const ends = [];
  for (const { legendgroup, line, meta, x, y } of boardLines(graph)) {
    for (let k = x.length - 1; k >= 0; k--) {
      const [across, down] = [xaxis.d2p(x[k]), yaxis.d2p(y[k])];
      if (!(across >= 0 && across <= xaxis._length + 1)) continue;
      const fits = widthOf(graph, meta.end) + 2 * END_GAP <= margin.r;
      if (fits && down >= 0 && down <= yaxis._length) ends.push({ key: legendgroup, text: meta.end, color: line.color, across, down });
      break;
    }
  }
  const labelRow = LABEL_ROW * textScale();
  const heights = labelHeights(ends.map(({ down }) => down), labelRow, 4, yaxis._length - 4);
  graph.endLabels = ends.map((end, k) => ({ ...end, height: heights[k] })).filter(({ height }) => height !== null);
  const leaders = graph.querySelector("svg").cloneNode();
  for (const name of leaders.getAttributeNames()) leaders.removeAttribute(name);
  const labels = graph.endLabels.map(({ key, text, color, across, down, height }) => {
    const leader = leaders.appendChild(document.createElementNS(leaders.namespaceURI, "line"));
    const place = { x1: across + 2, y1: down, x2: xaxis._length + END_GAP - 2, y2: height, stroke: color };
    for (const [name, value] of Object.entries(place)) leader.setAttribute(name, value);
    const label = document.createElement("span");
    Object.assign(label.style, { left: `${xaxis._length + END_GAP}px`, top: `${height - labelRow / 2}px`, borderColor: color });
    label.textContent = text;
    label.dataset.key = leader.dataset.key = key;
    label.onmouseenter = () => light(key);
    label.onmouseleave = () => light("");
    return label;
  });
  Object.assign(graph.ends.style, { left: `${xaxis._offset}px`, top: `${yaxis._offset}px` });
  graph.ends.replaceChildren(leaders, ...labels);
}

// The text at the pointer is as wide as the name of its run, and would be written over the labels in its way.
function hideCoveredEnds(graph) {
  const texts = [...graph.querySelectorAll(".hoverlayer .hovertext")].map((text) => text.getBoundingClientRect());
  for (const label of graph.ends?.querySelectorAll("span") ?? []) {
    const box = label.getBoundingClientRect();
    const isCovered = ({ left, right, top, bottom }) =>
      left < box.right && right > box.left && top < box.bottom && bottom > box.top;
    const leader = graph.ends.querySelector(`line[data-key="${CSS.escape(label.dataset.key)}"]`);
    label.style.visibility = leader.style.visibility = texts.some(isCovered) ? "hidden" : "";
  }
}

// The labels as a picture of the chart has them.
function endAnnotations(graph) {
  const { xaxis, yaxis } = graph._fullLayout;
  return (graph.endLabels ?? []).map(({ text, color, height }) => ({
    text: text.replace(/&/g, "&amp;").replace(/</g, "&lt;"),
    font: { color, size: END_FONT * textScale() },
    showarrow: false,
    xref: "paper",
    yref: "paper",
    xanchor: "left",
    yanchor: "middle",
    x: 1 + END_GAP / xaxis._length,
    y: 1 - height / yaxis._length,
  }));
}

// ------------------------------------------------------------------------------------------- drawing

const graphs = (window.lpsPlotGraphs ??= new Set());

function watchTheme() {
  const app = document.querySelector(".stApp");
  if (!app || app.lpsPlotWatched) return;
  app.lpsPlotWatched = true;
  new MutationObserver(() => {
    for (const graph of graphs) graph.isConnected ? graph.redraw() : graphs.delete(graph);
  }).observe(app, { attributeFilter: ["class"] });
}

// Where legend, names and labels stand depends on the width, which the window, the sidebar or an opened tab changes.
function followWidth(graph) {
  let timer;
  const widths = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!graph.clientWidth || graph.drawnWidth === undefined || graph.drawnWidth === graph.clientWidth) return;
      graph.drawn = null;
      graph.redraw();
    }, 100);
  });
  widths.observe(graph);
  return widths;
}

// Charts of one clock (lps/ui/race/race_mount.js) show its moment as an upright line over all panels. The line is an element of
// its own: to plotly it would be a shape, and moving one costs as much as drawing the chart.
const clocks = (window.lpsPlotClocks ??= new Map());

function followClock(graph) {
  const at = clocks.get(graph.clock);
  if (at !== undefined) showHand(graph, at);
}

function showHand(graph, at) {
  const { xaxis, _size: size } = graph._fullLayout ?? {};
  if (!xaxis || (at === undefined && !graph.hand)) return;
  if (!graph.hand?.isConnected) {
    graph.hand = document.createElement("div");
    graph.hand.className = "lps-plot-hand";
    graph.appendChild(graph.hand);
  }
  const x = at === undefined ? -1 : xaxis.d2p(at);
  const { style } = graph.hand;
  graph.hand.dataset.at = at ?? "";
  style.display = x >= 0 && x <= xaxis._length ? "block" : "none";
  style.transform = `translateX(${xaxis._offset + x}px)`;
  style.top = `${size.t}px`;
  style.height = `${size.h}px`;
  const panels = graph._fullLayout._subplots.yaxis.map((id) => graph._fullLayout[id.replace("y", "yaxis")]);
  const edges = panels.map(({ _offset, _length }) => [_offset - size.t, _offset - size.t + _length]).sort(([a], [b]) => a - b);
  const stops = edges.map(([top, bottom]) => `#0000 ${top}px, currentColor ${top}px ${bottom}px, #0000 ${bottom}px`);
  style.background = `linear-gradient(${stops.join(", ")})`; // between panels are their titles
}

function draw(graph, text) {
  const theme = getComputedStyle(graph).colorScheme === "dark" ? "dark" : "light";
  if (graph.drawn?.text === text && graph.drawn.theme === theme) return;
  const drawn = (graph.drawn = { text, theme });

  const cut = text.indexOf("\n");
  const options = JSON.parse(text.slice(0, cut));
  graph.style.minHeight = `${options.height}px`;
  const write = (Plotly) => {
    if (graph.drawn !== drawn) return; // something newer has come meanwhile
    const figure = JSON.parse(inTheme(text.slice(cut + 1), options, theme));
    figure.layout.width = graph.drawnWidth = graph.clientWidth; // plotly measures only once
    graph.board = options.board;
    if (options.board) {
      hideLines(figure.data);
      makeRoomForEnds(graph, figure);
    } else placeLegend(graph, figure.layout, figure.data);
    placeNames(graph, figure.layout);
    placeTools(graph, figure.layout);
    figure.layout.font = { ...figure.layout.font, family: getComputedStyle(graph).fontFamily };
    figure.layout.uirevision ??= options.name;
    graph.clock = options.clock;
    graph.code = options.code;
    graph.plotConfiguration ??= configuration(Plotly, options); // a new one would make a new plot
    Plotly.react(graph, figure.data, figure.layout, graph.plotConfiguration);
    graph.setAttribute("role", "figure");
    graph.setAttribute("aria-label", options.alt);
    if (options.clock && !graph.followsClock) {
      graph.followsClock = true;
      graph.on("plotly_afterplot", () => followClock(graph)); // another size or zoom
      followClock(graph);
    }
    if (options.board && !graph.followsBoard) {
      graph.followsBoard = true;
      followBoard(graph);
      placeEnds(graph, () => {});
    }
    if (options.highlight && !graph.listensToHover) {
      graph.listensToHover = true;
      listenToHover(graph);
    }
    if ((options.clickable || options.clock) && !graph.listensToClicks) {
      graph.listensToClicks = true;
      graph.on("plotly_click", (event) => {
        const id = event.points.map((point) => point.customdata).find(Number.isInteger);
        if (id === undefined) return;
        if (options.clickable) graph.reportClick(id);
        if (options.clock) document.dispatchEvent(new CustomEvent("lps-clock", { detail: { clock: options.clock, at: id } }));
      });
    }
  };
  loadPlotly(options.library).then(
    (Plotly) => drawInTurn(graph, () => write(Plotly)),
    (error) => {
      const note = document.createElement("div");
      note.className = "lps-plot-missing";
      note.textContent = `The chart cannot be drawn: ${error.message}.`;
      graph.replaceChildren(note);
      graph.drawn = null;
    },
  );
}

// Beside a narrow chart, as on a phone, a legend would leave no room for the curves: it goes below them.
function placeLegend(graph, layout, data) {
  const legend = layout.legend;
  if (graph.clientWidth >= NARROW || legend?.orientation !== "v" || !(legend.x > 1)) return;
  const rows = data.filter((trace) => trace.showlegend !== false).length;
  if (rows > MAX_ROWS) {
    layout.showlegend = false; // the label of a touched line tells its name
    return;
  }
  layout.legend = { ...legend, x: 0, xanchor: "left", y: -60 / layout.height, yanchor: "top" };
  layout.margin = { ...layout.margin, b: 70 + LEGEND_ROW * rows };
  layout.height += LEGEND_ROW * rows;
  graph.style.minHeight = `${layout.height}px`;
  growAround(graph);
}

// Streamlit gives the elements round a chart the height that Python said, as height and as flex-basis. They shall follow a
// chart that has become higher.
function growAround(graph) {
  for (let around = graph; around && around.dataset?.testid !== "stLayoutWrapper"; ) {
    around.style?.setProperty("height", "auto", "important");
    around.style?.setProperty("flex-basis", "auto", "important");
    if (around.dataset?.testid === "stElementContainer") return;
    around = around.parentElement ?? around.getRootNode().host;
  }
}

// Long names beside a narrow chart would leave no room for it: they are written in two lines, and cut. Lines that Python
// broke stay, and keep the value at their end: "entropy_…ht=0.5".
function placeNames(graph, { margin, yaxis }) {
  const most = Math.floor(MAX_LEFT * graph.clientWidth);
  if (graph.clientWidth >= NARROW || !yaxis?.ticktext || !(margin?.l > most)) return;
  const letters = Math.floor((most - 18) / LETTER);
  const cut = (text) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
  const tail = Math.floor(letters / 2);
  const cutInside = (line) => (line.length > letters ? `${line.slice(0, letters - tail)}…${line.slice(1 - tail)}` : line);
  yaxis.ticktext = yaxis.ticktext.map((name) => {
    if (name.includes("<br>")) return name.split("<br>").map(cutInside).join("<br>");
    const at = name.lastIndexOf(" ", letters);
    return name.length > letters && at > 0 ? `${name.slice(0, at)}<br>${cut(name.slice(at + 1))}` : cut(name);
  });
  margin.l = most;
}

// Where nothing hovers the tools are always there, and on a narrow chart they would lie over it: they get a row above.
function placeTools(graph, layout) {
  if (graph.clientWidth >= NARROW || !matchMedia("(hover: none)").matches) return;
  layout.modebar = { ...layout.modebar, orientation: "h" };
  layout.margin = { ...layout.margin, t: (layout.margin?.t ?? 0) + TOOLS_ROW };
  layout.height += TOOLS_ROW;
  graph.style.minHeight = `${layout.height}px`;
  growAround(graph);
}

export default function (component) {
  const { parentElement, data, setTriggerValue } = component;
  const graph = parentElement.querySelector(".lps-plot");
  const text = decoder.decode(data);
  if (!text.includes("\n")) {
    const { library } = JSON.parse(text);
    setTimeout(() => whenIdle(() => loadPlotly(library)), OUT_OF_SIGHT_MS);
    return;
  }
  graph.reportClick = (id) => setTriggerValue("click", id);
  graph.redraw = () => draw(graph, text);
  graph.followClock = () => followClock(graph);
  graphs.add(graph);
  graph.widths ??= followWidth(graph);
  watchTheme();
  draw(graph, text);
}
