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

// The values of every named trace as comma-separated lines: trace, x, y, id.
function toCsv(graph) {
  const quote = (value) => `"${String(value ?? "").replaceAll('"', '""')}"`;
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

export default function (component) {
  const { parentElement, data, setTriggerValue } = component;
  const graph = parentElement.querySelector(".lps-plot");
  const text = decoder.decode(data);
  graph.reportClick = (id) => setTriggerValue("click", id);
  if (graph.drawnText === text) return;
  graph.drawnText = text;

  const cut = text.indexOf("\n");
  const options = JSON.parse(text.slice(0, cut));
  graph.style.minHeight = `${options.height}px`;
  graph.setAttribute("role", "figure");
  graph.setAttribute("aria-label", options.alt);

  loadPlotly(options.library).then(
    (Plotly) => {
      if (graph.drawnText !== text) return;
      const figure = JSON.parse(text.slice(cut + 1));
      figure.layout.font = { ...figure.layout.font, family: getComputedStyle(parentElement).fontFamily };
      figure.layout.uirevision ??= options.name;
      graph.plotConfiguration ??= configuration(Plotly, options.name, figure); // a new one would make a new plot
      Plotly.react(graph, figure.data, figure.layout, graph.plotConfiguration);
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
      graph.drawnText = null;
    },
  );
}
