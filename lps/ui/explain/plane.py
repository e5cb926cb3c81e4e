"""LPS trained on points in the plane by the browser, beside a training from the same start without the margin.

It minimizes the objective of LPS (`plane_training.js`; a test compares it with `lps/methods/lps.py`), but with a linear
classifier on made-up points. The server does nothing while it runs.
"""

import streamlit as st

from lps.charts.palette import DARK, LIGHT
from lps.settings import catalog
from lps.ui.server import components

TRAINING = components.read_files(__file__, "plane_training.js")
_OF_LPS = (
    "margin_scale", "temperature", "threshold_seen", "threshold_novel_start", "threshold_novel_end",
    "pseudo_label_weight", "unsupervised_weight",
)  # fmt: skip
_USUAL_ENTROPY = 0.25  # at 1, the usual weight, the entropy term leaves the margin nothing to do
_WORLD = {
    "seen": 3, "total": 5, "points": 400, "width": 2, "spread": 0.15, "labeled_ratio": 0.5, "weak": 0.08,
    "strong": 0.25, "labeled_rows": 16, "unlabeled_rows": 48, "start": 0.1, "lr": 0.3, "momentum": 0.9, "steps": 400,
    "epochs": 20,
}  # fmt: skip
_ABOUT = (  # 95 %: as in the recorded study
    "The classifier gives novel points a number, not a name. Each number is paired with one novel class so that as "
    "many points as possible match. On 40 new sets of points, we trained once with the margin (C = 10) and "
    "once without it. These are the novel accuracies, with 95 % intervals of their difference. Entropy "
    "weight 0.25: 78 % with the margin, 44 % without (+23 to +46 points). Entropy weight 1: 78 % with the margin, "
    "76 % without (−5 to +9 points, so the difference may be chance). No entropy term: 44 % with the margin, 33 % "
    "without (+4 to +18 points). Margin and entropy term do a similar job here. To see their effect on pictures, "
    "compare runs."
)
_TONES = ("color-mix(in oklab, {}, var(--ink) {}%)", (0, 20, 36))


def simulation_settings() -> dict[str, float]:
    """Return the input of the simulation: the defaults of LPS and the points; spread and noise in radii of the ring."""
    return default_weights() | _WORLD


def default_weights() -> dict[str, float]:
    """Return the weights of the terms in the browser: those of LPS, except the weight of the entropy term."""
    parameters = catalog.method_info("lps").parameters
    return {name: parameters[name].default for name in _OF_LPS} | {"entropy_weight": _USUAL_ENTROPY}


def show_plane() -> None:
    """Show the simulation with its two sliders."""
    st.markdown(
        "**A simulation in the plane, not your run.** Your browser trains a small classifier on 400 made-up points "
        "with the loss of LPS. Three classes are seen (circles; half of them are labeled, with a frame). Two novel "
        "classes lie between them (diamonds). The colour of a point is its prediction: a :blue[blue] diamond is a "
        "novel point that was taken for a seen class. The vertical marks on the bars show the result without the "
        "margin, trained from the same start."
    )
    _mount(key="plane", data=simulation_settings())
    st.caption(_ABOUT)


def _render_html() -> str:
    """Return the elements that the script fills; they contain no user data."""
    classes, seen, settings = _WORLD["total"], _WORLD["seen"], simulation_settings()
    tones = "".join(f'<i class="lps-plane-tone" style="color: {_class_color(k)}"></i>' for k in range(classes))
    brakes = '<i class="lps-plane-is-seen"></i>' * seen + '<i class="lps-plane-is-novel"></i>' * (classes - seen)
    alt = "400 points in the plane, and the classifier's prediction for each region"
    return f"""<div class="lps-plane"><div class="lps-plane-body">
<canvas class="lps-plane-canvas" role="img" aria-label="{alt}"></canvas>
<div class="lps-plane-side">
{_render_bar("seen", "Seen accuracy")}
{_render_bar("novel", "Novel accuracy")}
{_render_bar("guesses", "Guesses for seen classes (dashed: equal shares)", '<div class="lps-plane-fair"></div>')}
<div><div class="lps-plane-kl"></div>
<div class="lps-plane-brakes" role="img" aria-label="Margin of every class">{brakes}</div>
<div class="lps-plane-quiet">Margin of every class</div></div>
<div class="lps-plane-dials">
{render_slider("lps-plane-strength", "Strength of the margin, C", (0, 20, 1), settings["margin_scale"])}
{render_slider("lps-plane-entropy", "Weight of the entropy term", (0, 1, 0.05), settings["entropy_weight"])}</div>
<div class="lps-plane-buttons"><button class="lps-plane-play" type="button">Play</button>
<button class="lps-plane-new" type="button">Other points</button>
<span class="lps-plane-quiet lps-plane-step"></span></div>
<p class="lps-plane-said" aria-live="polite"></p></div></div>
<div class="lps-plane-tones">{tones}<i class="lps-plane-tone" style="color: var(--ink)"></i></div></div>"""


def _render_bar(name: str, label: str, extra_html: str = "") -> str:
    inside = (
        f'<div class="lps-plane-fill"></div>{extra_html}<div class="lps-plane-other" title="without the margin"></div>'
    )
    track = f'<div class="lps-plane-track">{inside}</div>'
    return f'<div class="lps-plane-bar lps-plane-{name}"><span>{label}</span><output></output>{track}</div>'


def render_slider(css_class: str, label: str, span: tuple[float, float, float], value: float) -> str:
    """Return a slider that only the browser reads, with room for its value. span: lowest, highest, step."""
    low, high, step = span
    limits = f'min="{low:g}" max="{high:g}" step="{step:g}" value="{value:g}"'
    slider = f'<input class="{css_class}" type="range" aria-label="{label}" {limits}>'
    return f'<div class="lps-plane-dial"><span>{label}</span><output></output>{slider}</div>'


def _class_color(k: int) -> str:
    """Return the colour of a class: that of its group, lighter or darker by its position in the group."""
    template, shares = _TONES
    seen = _WORLD["seen"]
    return template.format("var(--seen)" if k < seen else "var(--novel)", shares[k if k < seen else 2 * (k - seen)])


_COLORS = {name: (getattr(LIGHT, name), getattr(DARK, name)) for name in ("seen", "novel", "ink", "muted", "grid")}
VARIABLES = " ".join(f"--{name}: light-dark({light}, {dark});" for name, (light, dark) in _COLORS.items())
_mount = components.define_component(
    "lps_plane",
    components.read_files(__file__, "plane_training.js", "plane_view.js"),
    f".lps-plane {{ {VARIABLES} --track: var(--grid); }}\n{components.read_files(__file__, 'plane.css')}",
    _render_html(),
)
