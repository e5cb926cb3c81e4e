"""A plotly chart that stays in place while its data changes: zoom, hover and the element itself survive.

`st.plotly_chart` makes a new element for new data. Here one element is kept under its key and passed to `Plotly.react`.
plotly.js is the file of the installed plotly package, served by this server (lps.ui.server.serving).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import plotly

from lps.charts import palette
from lps.charts.chart import Chart
from lps.files.program_location import SOURCE
from lps.store.runs import Run
from lps.ui.server import components, paths, presentation
from lps.ui.shared import theme

_LIBRARY_NAME = f"plotly-{plotly.__version__}-spaced.js"  # its address on the server: another version is another file
LABELS = components.read_files(__file__, "line_ends.js")
_STYLE = """
.lps-plot { width: 100%; position: relative; }
.lps-plot-hand { position: absolute; left: -0.5px; width: 1.5px; pointer-events: none; }
.lps-plot-ends { position: absolute; pointer-events: none; font-size: 0.75rem; line-height: 0.9375rem; }
.lps-plot-ends span { position: absolute; white-space: pre; pointer-events: auto; cursor: default;
  border-left: 3px solid; padding-left: 5px; }
.lps-plot-ends svg { position: absolute; left: 0; top: 0; width: 1px; height: 1px; overflow: visible; }
.lps-plot-ends line { stroke-width: 1; stroke-dasharray: 2 2; opacity: 0.7; }
.lps-plot-missing { padding: 1rem 0; opacity: 0.7; }
"""
_mount = components.define_component(
    "lps_plot",
    LABELS + components.read_files(__file__, "plot.js"),
    _STYLE,
    '<div class="lps-plot"></div>',
    reports=["click"],
)


@dataclass(frozen=True)
class BoardPlot:
    """What a chart of a board tells the run list: title of its y axis, whether it is a share, kind of its x axis."""

    title: str
    share: bool
    over: str


def plot(
    figure: Chart,
    key: str,
    alt: str,
    clickable: bool = False,
    clock: str = "",
    code: str = "",
    highlight: bool = False,
    board: BoardPlot | None = None,
    view: str = "",
) -> int | None:
    """Draw `figure`, whose layout has a height in pixels, under the stable `key`.

    The colours of the palette follow the theme of the browser. alt: what the chart shows, for screen readers. clock:
    name of the clock whose moment an upright line shows, as a value of the x axis (lps.ui.race). code: the Python that
    draws the chart with `lps`, for the toolbar. highlight: fade all legend groups except the one under the pointer.
    board: the chart is beside a run list; its lines have labels at their ends instead of a legend, and the line under
    the pointer is marked in all charts of the board and in the list. view: what is drawn; zoom and hidden lines of the
    user stay while it is the same.

    Return the customdata of a point clicked since the last run (points of a clickable figure have one 1-D integer id),
    otherwise None.
    """
    if view:
        figure.update_layout(uirevision=view)
    options = {"clickable": clickable, "clock": clock, "code": code, "highlight": highlight}
    data = _encode_figure(figure, key, alt, board=board and asdict(board), **options)
    result = _mount(key=key, data=data, height=_height(figure))
    return components.read_id(result.click) if clickable else None


def code_of(chart: str, *arguments, **options) -> str:
    """Return the Python that draws a chart: a call of `chart` in `lps.figures`; a run is passed as its folder."""
    literals = [_python_literal(value) for value in arguments]
    literals += [f"{name}={_python_literal(value)}" for name, value in options.items() if value not in ("", None)]
    setup_note = (
        f"# Where lps is not found: set PYTHONPATH={str(SOURCE)!r} and take the Python that starts the dashboard."
    )
    return f"{setup_note}\nfrom lps import figures\n\nfigures.{chart}({', '.join(literals)}).show()\n"


def _python_literal(value) -> str:
    if isinstance(value, Run):
        return repr(str(value.folder.absolute()))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_python_literal, value))}]"
    return repr(str(value)) if isinstance(value, Path) else repr(value)


def preload_library() -> None:
    """Let the browser load plotly.js in idle time on pages without charts."""
    _mount(key="plotly_ready", data=json.dumps({"library": library_path(), "name": "plotly_ready"}).encode())


def _height(figure: Chart) -> int:
    """Return the pixels that stay free until the chart is drawn."""
    return round(figure.height * presentation.chart_scale())


def _encode_figure(figure: Chart, key: str, alt: str, **options) -> bytes:
    """Return one line of options, then the figure."""
    figure_json = figure.to_json()
    if presentation.is_on():
        figure_json = json.dumps(presentation.scale_figure(json.loads(figure_json)))
    header = {
        "library": library_path(),
        "name": key,
        "alt": alt,
        "height": _height(figure),
        "theme": theme.current_theme(),
        "colors": palette.color_pairs(),
    }
    return json.dumps(header | options).encode() + b"\n" + figure_json.encode()


def library_path() -> str:
    """Return the path of plotly.js on this server."""
    return paths.path_of(_LIBRARY_NAME)
