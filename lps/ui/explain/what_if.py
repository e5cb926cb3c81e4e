"""LPS trained by the browser on stored features of the digits, beside the recorded runs.

It trains a linear head; tests compare it with `lps/methods/lps.py` and with the app's scores. The network of a run is
not trained. The server sends features and splits once.
"""

import streamlit as st

from lps.store.run_folders import recorded_runs
from lps.store.runs import Run
from lps.ui.explain import digit_features, plane
from lps.ui.server import components
from lps.ui.shared.history import read_history

TRAINING = f"{plane.TRAINING}\n{components.read_files(__file__, 'what_if_training.js')}"
_CLASSES = 10
_SEEN = 5
_HEAD = {
    "total": _CLASSES, "seen": _SEEN, "cosine_scale": 10, "start": 1, "any_id": True, "weak": 0.05, "strong": 0.1,
    "labeled_rows": 16, "unlabeled_rows": 48, "lr": 0.5, "momentum": 0.9, "steps": 120, "epochs": 20,
}  # fmt: skip
_DIALS = (  # name in the address and for the script, words, (lowest, highest, step)
    ("margin_scale", "C: how strongly the margin holds classes back", (0, 20, 1)),
    ("temperature", "τ: temperature of the contrastive terms", (0.1, 1, 0.05)),
    ("entropy_weight", "Entropy term: its weight", (0, 1, 0.05)),
    ("novel", "Novel classes (of 10)", (1, 8, 1)),
)


def training_settings() -> dict[str, float]:
    """Return the input of the training: the defaults of LPS and its head; noise relative to a feature's length."""
    return plane.default_weights() | _HEAD


def show_what_if() -> None:
    """Show the sliders, the curves and the recorded runs."""
    st.markdown(
        "**Your browser trains a linear head on stored features of 1,797 handwritten digits. This is not the paper's "
        "network and not your run.** Move a slider to train again from the same start; the pale lines show the "
        "previous setting. At first they show LPS without its margin."
    )
    _mount(
        key="what_if",
        data={"settings": training_settings(), "pictures": digit_features.pack_features(), "runs": _list_recordings()},
    )
    st.caption(_ABOUT)


_ABOUT = (  # 95 %: as in the recorded study
    "What is real: pictures, labels, the split of a run of this app, every term of the loss, and the scores (seen by "
    "their ids, novel by the best matching, on the unlabeled images). What is not: the features, 16 principal "
    "components of the app's SimCLR start, stay as they are; noise on them stands for changed pictures; 120 steps of "
    "64 pictures at one learning rate. A recorded run trains the whole network for 280 steps of 128 with changed "
    "pictures, and its learning rate falls. So compare directions, not single points. Over 10 splits that "
    "nothing here was chosen on, C = 10 against no margin: 83 % against 71 % of the novel pictures with an entropy "
    "weight of 0.25 (3 to 20 points more, 95 % interval), 77 % against 67 % without the entropy term (1 to 20 more), "
    "87 % against 86 % with a weight of 1 (8 fewer to 10 more: not distinguishable). With 2 novel classes, or with τ "
    "= 0.2, it is not distinguishable either."
)


def _list_recordings() -> list[dict[str, object]]:
    """Return the recorded runs of LPS on digits: name, settings as slider values, and final scores."""
    return [sliders for run in recorded_runs() if (sliders := _slider_values(run))]


def _slider_values(run: Run) -> dict[str, object]:
    """Return the slider values of a run; empty if its method, data set or class sizes cannot be set by sliders."""
    config, history = run.config_if_readable(), read_history(run)
    if (
        not config
        or (config.dataset, config.method, config.split_imbalance) != ("digits", "lps", 1)
        or not history.seen
    ):
        return {}
    hyperparameters = config.hyperparameters
    return {
        "name": run.title,
        "margin_scale": hyperparameters["margin_scale"] if hyperparameters["use_margin"] else 0,
        "temperature": hyperparameters["temperature"],
        "entropy_weight": hyperparameters["entropy_weight"],
        "novel": _CLASSES - history.seen,
        "seen": history.last("accuracy/seen"),
        "found": history.last("accuracy/novel"),
    }


def _render_html() -> str:
    """Return the elements that the script fills; they contain no user data."""
    usual = training_settings() | {"novel": _CLASSES - _SEEN}
    dials = "\n".join(
        plane.render_slider(f"lps-whatif-{name}", label, span, usual[name]) for name, label, span in _DIALS
    )
    return f"""<div class="lps-whatif"><div class="lps-whatif-body"><div class="lps-whatif-side">
{dials}
<div class="lps-plane-buttons"><button class="lps-whatif-usual" type="button">Usual values</button>
<button class="lps-whatif-other" type="button">Another seed</button>
<span class="lps-plane-quiet lps-whatif-step"></span></div>
<p class="lps-whatif-said" aria-live="polite">Your browser trains twice: without the margin, then with these values.</p>
</div><div class="lps-whatif-charts">
{_render_chart("shares", "Accuracy, %", ("seen", "novel"), ("100", "50", "0"), {})}
{_render_chart("kl", "KL: how uneven the guesses are", ("kl",), ("1", "0.5", "0"), {"kl": "KL"})}
<div class="lps-plane-quiet lps-whatif-steps"><span>step 0</span><span></span></div>
</div></div>
<div class="lps-whatif-table"><table><thead><tr><th>Beside it</th><th>C</th><th>τ</th><th>Entropy</th>
<th>Novel classes</th><th>Seen</th><th>Novel</th><th></th></tr></thead><tbody></tbody></table></div></div>"""


def _render_chart(
    name: str, title: str, curves: tuple[str, ...], marks: tuple[str, ...], curve_names: dict[str, str]
) -> str:
    """Return one chart: its title with the names of its curves, its axis, and a line per curve, pale ones first."""
    keys = "".join(f'<span class="lps-whatif-key lps-whatif-{c}">{curve_names.get(c, c)}</span>' for c in curves)
    axis = "".join(f"<span>{mark}</span>" for mark in marks)
    lines = "".join(
        f'<polyline class="lps-whatif-{state} lps-whatif-{c}" data-curve="{c}"/>'
        for state in ("before", "now")
        for c in curves
    )
    grid = "".join(f'<line x1="0" x2="100" y1="{y}" y2="{y}"/>' for y in (0, 50, 100))
    return f"""<div class="lps-whatif-panel"><div class="lps-whatif-title"><b>{title}</b>{keys}</div>
<div class="lps-whatif-plot lps-whatif-plot-{name}"><div class="lps-whatif-axis">{axis}</div>
<svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label="{title}">{grid}{lines}</svg></div></div>"""


_mount = components.define_component(
    "lps_what_if",
    f"{TRAINING}\n{components.read_files(__file__, 'what_if_view.js')}",
    f".lps-whatif {{ {plane.VARIABLES} --track: var(--grid); }}\n{components.read_files(__file__, 'what_if.css')}",
    _render_html(),
)
