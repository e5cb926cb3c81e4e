// Draws the figure of lps/ui/plot.py with Plotly.react, so that zoom and hover outlive new data.
// data: UTF-8 bytes, one line of JSON options, then the JSON of a figure.

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
    if (trace.hoverinfo === "skip") return;
    const { x, y, customdata } = graph._fullData[i];
    for (let k = 0; k < (y?.length ?? 0); k++) {
      lines.push([quote(trace.name), quote(x?.[k] ?? k), quote(y[k]), quote(customdata?.[k])].join(","));
    }
  });
  return lines.join("\n") + "\n";
}

function download(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function configuration(Plotly, name, figure) {
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
    click: (graph) => {
      const page = getComputedStyle(document.querySelector(".stApp") ?? document.body).backgroundColor;
      const layout = { ...graph.layout, paper_bgcolor: page };
      const size = { width: graph.clientWidth, height: graph.clientHeight };
      Plotly.downloadImage(
        { data: graph.data, layout, config: { staticPlot: true } },
        { format: "png", filename: name, scale: 2, ...size },
      );
    },
  };
  const drags = figure.layout.dragmode === "pan" ? ["pan2d", "zoom2d"] : ["zoom2d", "pan2d"];
  return {
    displaylogo: false,
    showSendToCloud: false,
    responsive: true,
    displayModeBar: "hover",
    scrollZoom: figure.layout.dragmode === "pan",
    modeBarButtons: [drags, ["resetScale2d"], [png, csv]],
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

const graphs = (window.lpsPlotGraphs ??= new Set());

function watchTheme() {
  const app = document.querySelector(".stApp");
  if (!app || app.lpsPlotWatched) return;
  app.lpsPlotWatched = true;
  new MutationObserver(() => {
    for (const graph of graphs) graph.isConnected ? graph.redraw() : graphs.delete(graph);
  }).observe(app, { attributeFilter: ["class"] });
}

// Charts of one clock (lps/ui/replay.py) show its moment as an upright line over all panels. The line is an element of
// its own: to plotly it would be a shape, and moving one costs as much as drawing the chart.
const clocks = (window.lpsPlotClocks ??= new Map());

function followClock(graph) {
  const at = clocks.get(graph.clock);
  const { xaxis, _size: size } = graph._fullLayout ?? {};
  if (at === undefined || !xaxis) return;
  if (!graph.hand?.isConnected) {
    graph.hand = document.createElement("div");
    graph.hand.className = "lps-plot-hand";
    graph.appendChild(graph.hand);
  }
  const x = xaxis.l2p(at);
  const { style } = graph.hand;
  graph.hand.dataset.at = at;
  style.display = x >= 0 && x <= xaxis._length ? "block" : "none";
  style.transform = `translateX(${xaxis._offset + x}px)`;
  style.top = `${size.t}px`;
  style.height = `${size.h}px`;
}

function draw(graph, text) {
  const theme = getComputedStyle(graph).colorScheme === "dark" ? "dark" : "light";
  if (graph.drawn?.text === text && graph.drawn.theme === theme) return;
  const drawn = (graph.drawn = { text, theme });

  const cut = text.indexOf("\n");
  const options = JSON.parse(text.slice(0, cut));
  graph.style.minHeight = `${options.height}px`;
  loadPlotly(options.library).then(
    (Plotly) => {
      if (graph.drawn !== drawn) return; // something newer has come meanwhile
      const figure = JSON.parse(inTheme(text.slice(cut + 1), options, theme));
      figure.layout.font = { ...figure.layout.font, family: getComputedStyle(graph).fontFamily };
      figure.layout.uirevision ??= options.name;
      graph.clock = options.clock;
      graph.plotConfiguration ??= configuration(Plotly, options.name, figure); // a new one would make a new plot
      Plotly.react(graph, figure.data, figure.layout, graph.plotConfiguration);
      graph.setAttribute("role", "figure");
      graph.setAttribute("aria-label", options.alt);
      if (options.clock && !graph.followsClock) {
        graph.followsClock = true;
        graph.on("plotly_afterplot", () => followClock(graph)); // another size or zoom
        followClock(graph);
      }
      if (options.clickable && !graph.listensToClicks) {
        graph.listensToClicks = true;
        graph.on("plotly_click", (event) => {
          const id = event.points.map((point) => point.customdata).find(Number.isInteger);
          if (id !== undefined) graph.reportClick(id);
        });
      }
    },
    (error) => {
      const note = document.createElement("div");
      note.className = "lps-plot-missing";
      note.textContent = `The chart cannot be drawn: ${error.message}.`;
      graph.replaceChildren(note);
      graph.drawn = null;
    },
  );
}

export default function (component) {
  const { parentElement, data, setTriggerValue } = component;
  const graph = parentElement.querySelector(".lps-plot");
  const text = decoder.decode(data);
  graph.reportClick = (id) => setTriggerValue("click", id);
  graph.redraw = () => draw(graph, text);
  graph.followClock = () => followClock(graph);
  graphs.add(graph);
  watchTheme();
  draw(graph, text);
}
