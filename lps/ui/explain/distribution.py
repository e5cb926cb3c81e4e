"""The class distribution that the page Explain uses: set by sliders, or estimated by a run at an epoch."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import streamlit as st

from lps.charts import explain_charts
from lps.charts.event_log import History
from lps.errors import UserError
from lps.settings import catalog
from lps.store.runs import Run
from lps.ui.explain import url_sliders
from lps.ui.pictures import points
from lps.ui.shared import escape, select, theme, url_fields
from lps.ui.shared.history import read_history
from lps.ui.shared.plot import code_of, plot
from lps.wording import percent

MADE_UP_SEEN = 5
MADE_UP = (*(f"S{i}" for i in range(1, 6)), *(f"N{i}" for i in range(1, 6)))  # classes of a distribution made by hand
PRESETS = {  # share of the seen classes, unevenness within the seen and within the novel ones, all in percent
    "leaning": ("Biased towards seen", (75, 10, 35)),
    "balanced": ("Balanced", (50, 0, 0)),
    "collapsed": ("Collapsed onto seen", (98, 10, 20)),
    "one": ("One novel class dominates", (45, 0, 85)),
    "unequal": ("Correct, classes of unequal size", (60, 30, 30)),
}
_CORRECT_PRESET = "unequal"  # its sliders set the true shares of the classes, which the model guesses right
_FROM_RUN = "run"
_MAX_TYPED = 12  # classes that can be typed in one by one
_SLIDER_POSITIONS = ("top", "thresholds", "objective")  # where on the page a slider over the epochs is
_SHAPE = ("seen", "seen_uneven", "novel_uneven")  # names of the dials in the address


@dataclass(frozen=True)
class ClassEstimate:
    """A class distribution and its source.

    run, history and epoch are None if the user set it. shares: pi_hat (classes,), sum 1; names by class id, the first
    `seen` ones are seen classes; method: of the run, "" if there is none or its settings cannot be read; settings:
    hyperparameters of LPS, of the run if its method is LPS, otherwise the defaults.
    """

    shares: np.ndarray
    seen: int
    names: list[str]
    settings: dict[str, object]
    key: str  # tells this distribution from others
    run: Run | None = None
    history: History | None = None
    epoch: int | None = None
    method: str = ""
    is_recorded: bool = False  # exactly what the run recorded
    prior: np.ndarray | None = None  # of the run in this epoch, where it is not the uniform one
    truth: np.ndarray | None = None  # true class shares of a distribution made by hand, where they are unequal

    @property
    def classes(self) -> int:
        return len(self.shares)

    def group(self, class_id: int) -> str:
        """Return "seen" or "novel" for a class."""
        return "seen" if class_id < self.seen else "novel"

    def group_share(self, group: str) -> float:
        """Return the total share of a group, formatted."""
        group_shares = self.shares[: self.seen] if group == "seen" else self.shares[self.seen :]
        return float(group_shares.sum())


def mix_distribution(share: float, uneven_seen: float, uneven_novel: float) -> np.ndarray:
    """Return a distribution of ten classes, (10,): `share` for the five seen ones, the rest for the five novel ones.

    Within a group, every class has 1 - unevenness times the share of the class before it.
    """
    novel = len(MADE_UP) - MADE_UP_SEEN
    groups = ((share, uneven_seen, MADE_UP_SEEN), (1 - share, uneven_novel, novel))
    return np.concatenate([group_total * _falling_weights(uneven, count) for group_total, uneven, count in groups])


def _falling_weights(uneven: float, count: int) -> np.ndarray:
    weights = (1 - uneven) ** np.arange(count)
    return weights / weights.sum()


# ---------------------------------------------------------------------------------------------------- choosing


def choose_distribution(runs: list[Run]) -> ClassEstimate:
    """Show the controls and return their distribution."""
    labels = {name: label for name, (label, _) in PRESETS.items()} | ({_FROM_RUN: "From a run"} if runs else {})
    source = _pick_source(labels)
    controls, chart = st.columns([4, 6], gap="large")
    with controls:
        belief = _read_distribution(runs) if source == _FROM_RUN else _ask_distribution(source)
        belief = _type_values(belief)
    with chart:
        _show_distribution(belief)
    return belief


def _pick_source(labels: dict[str, str]) -> str:
    """Return the source of the distribution; a URL that only names a run means that run."""
    requested = st.query_params.get("from") or (_FROM_RUN if "run" in st.query_params else "")
    source = requested if requested in labels else next(iter(labels))
    url_fields.draw_field(
        st.segmented_control,
        "picked_from",
        source,
        _choose_source,
        "Predicted shares",
        list(labels),
        format_func=lambda key: labels.get(key, key),
        label_visibility="collapsed",
    )
    return source


def _choose_source(source: str) -> None:
    """Reset the numbers when another source is chosen."""
    url_sliders.reset_sliders(*_SHAPE, "C", "class")
    url_fields.set_values("from", source)
    if source != _FROM_RUN:
        url_sliders.reset_sliders("run", "epoch")


def _ask_distribution(preset: str) -> ClassEstimate:
    usual = PRESETS[preset][1]
    labels = ("All seen classes together", "Imbalance among seen", "Imbalance among novel")
    if preset == _CORRECT_PRESET:
        st.caption("These sliders set the true class shares. The example assumes that the model predicts them exactly.")
    limits = ((1, 99), (0, 100), (0, 100))
    values = [
        url_sliders.url_slider(label, name, *limit, value, 1, format="%d %%")
        for label, name, limit, value in zip(labels, _SHAPE, limits, usual)
    ]
    shares = mix_distribution(*(value / 100 for value in values))
    key = "-".join([preset, *map(str, values)])
    truth = shares if preset == _CORRECT_PRESET else None
    return ClassEstimate(shares, MADE_UP_SEEN, list(MADE_UP), default_settings(), key, truth=truth)


def _read_distribution(runs: list[Run]) -> ClassEstimate:
    run = select.pick_run(runs)
    history = read_history(run)
    method, settings = _read_method_settings(run)
    epoch = show_epochs(run, history, "top")
    shares = _recorded_shares(history, epoch)
    if shares is None:
        st.info(_explain_missing_shares(history, method), icon=":material/hourglass_empty:")
        distribution = mix_distribution(*(value / 100 for value in PRESETS["leaning"][1]))
        key = f"{run.id}-none"
        return ClassEstimate(distribution, MADE_UP_SEEN, list(MADE_UP), settings, key, run, history, epoch, method)
    names = class_names(run, len(shares))
    key = f"{run.id}-{epoch}"
    prior = history.vector("class/prior", epoch)
    prior = None if prior is None or len(prior) != len(shares) else prior.astype(np.float64)
    return ClassEstimate(
        shares, history.seen, names, settings, key, run, history, epoch, method, is_recorded=True, prior=prior
    )


def _recorded_shares(history: History, epoch: int | None) -> np.ndarray | None:
    """Return the estimated class distribution of an epoch, float64 with sum 1; None if there is none."""
    estimated = history.vector("pi_hat", epoch) if epoch else None
    if (
        estimated is None
        or not history.seen
        or not np.isfinite(estimated).all()
        or estimated.min() < 0
        or estimated.sum() <= 0
    ):
        return None
    return estimated.astype(np.float64) / estimated.sum(dtype=np.float64)


def _explain_missing_shares(history: History, method: str) -> str:
    if not history.last_epoch:
        return "This run has recorded no epoch yet. Until it does, you see an example distribution."
    name = escape.markdown(method_title(method))
    return f"{name} estimates no class distribution in this epoch, so this is an example."


def show_epochs(run: Run, history: History, position: str) -> int | None:
    """Show a slider over the recorded epochs; all such sliders show the same epoch. None if there is no epoch.

    The newest epoch is not stored in the URL, so a running run is followed. position: one of
    `_SLIDER_POSITIONS`, in their order. As with dials, the URL is read when the page is entered.
    """
    last = history.last_epoch
    if not last:
        return None
    if position == _SLIDER_POSITIONS[0]:
        st.session_state["epoch_shown"] = _requested_epoch(run, last)
    epoch = st.session_state["epoch_shown"]
    if last > 1:
        url_fields.set_widget(f"epoch_{position}", epoch)
        st.slider("Epoch", 1, last, key=f"epoch_{position}")
    if position == _SLIDER_POSITIONS[0]:
        url_sliders.write_value("epoch", epoch if epoch < last else None)
    return epoch


def _requested_epoch(run: Run, last: int) -> int:
    """Return the epoch of the slider that was moved, otherwise the one that was shown.

    While one slider is dragged, the browser reports outdated positions of the others. Only the slider that was moved
    counts, so that the others do not reset it.
    """
    state = st.session_state
    if f"epoch_{_SLIDER_POSITIONS[0]}" not in state or state.get("epoch_of") != run.id:
        state["epoch_of"], state["epoch_by"], state["epoch_kept"] = run.id, "", url_fields.read_number("epoch")
    else:
        moved = [
            position
            for position in _SLIDER_POSITIONS
            if state.get(f"epoch_{position}", state["epoch_shown"]) != state["epoch_shown"]
        ]
        if moved:
            state["epoch_by"] = state["epoch_by"] if state["epoch_by"] in moved else moved[0]
            epoch = state[f"epoch_{state['epoch_by']}"]
            state["epoch_kept"] = epoch if epoch < last else None
    return last if state["epoch_kept"] is None else min(max(state["epoch_kept"], 1), last)


def _read_method_settings(run: Run) -> tuple[str, dict[str, object]]:
    """Return (method, hyperparameters of LPS): of the run if its method is LPS, otherwise the defaults."""
    try:
        config = run.config()
    except UserError:
        return "", default_settings()
    hyperparameters = config.hyperparameters if config.method == "lps" else {}
    return config.method, default_settings() | dict(hyperparameters)


def default_settings() -> dict[str, object]:
    """Return every hyperparameter of LPS with its default."""
    return {name: about.default for name, about in catalog.method_info("lps").parameters.items()}


def method_title(method: str) -> str:
    """Return the display name of a method."""
    try:
        return catalog.method_info(method).title
    except UserError:
        return method.upper() or "This run"


def class_names(run: Run, count: int) -> list[str]:
    """Return the name of every class id below `count`; numbers if the split cannot be read."""
    names = points.class_names(run)
    return names[:count] + [str(class_id) for class_id in range(len(names), count)]


def data_prior(belief: ClassEstimate) -> np.ndarray | None:
    """Return the class shares of the training images of the run or example, (classes,); None if some are unknown."""
    if belief.truth is not None:
        return belief.truth
    if belief.run is None or not belief.is_recorded:
        return None
    try:
        partition = points.read_partition(belief.run)
    except UserError:
        return None
    truth = partition.targets[partition.split.training]
    if not len(truth) or truth.min() < 0 or truth.max() >= belief.classes:
        return None
    return np.bincount(truth, minlength=belief.classes) / len(truth)


# ---------------------------------------------------------------------------------------------------- showing


def _type_values(belief: ClassEstimate) -> ClassEstimate:
    """Return the distribution, or the values that the user typed instead."""
    if belief.classes > _MAX_TYPED:
        return belief
    with st.popover("Type exact values", icon=":material/edit:"):
        table = pd.DataFrame({"Class": belief.names, "Share %": np.round(100 * belief.shares, 3)})
        number = st.column_config.NumberColumn(min_value=0.0, max_value=100.0, format="%.2f", required=True)
        edited = st.data_editor(
            table,
            key=f"typed-{belief.key}",
            hide_index=True,
            disabled=["Class"],
            column_config={"Share %": number},
            height="content",
        )
        st.caption("The values are rescaled to a sum of 100 %.")
    typed = edited["Share %"].to_numpy(np.float64)
    if edited.equals(table) or not np.isfinite(typed).all() or typed.min() < 0 or typed.sum() <= 0:
        return belief
    return replace(belief, shares=typed / typed.sum(), is_recorded=False)


def _show_distribution(belief: ClassEstimate) -> None:
    sizes = f"{percent(belief.group_share('seen'))} of its guesses", percent(belief.group_share("novel"))
    sentence = (
        f"The model gives {sizes[0]} to the {belief.seen} :blue[**seen**] classes and {sizes[1]} to the "
        f"{belief.classes - belief.seen} :orange[**novel**] ones."
    )
    st.markdown(sentence)
    figure = explain_charts.shares(
        belief.shares, belief.seen, belief.names, theme.current_palette(), prior=belief.prior
    )
    alt = f"Share of the model's guesses for each of {belief.classes} classes, compared with the prior"
    code = code_of("guessed_shares", belief.run, belief.epoch) if belief.is_recorded else ""
    plot(figure, "explain_shares", alt, code=code, view=belief.run.id if belief.run else "")
    sorting_note = (
        " Classes are sorted by share; hover to see their names." if belief.classes > explain_charts.SORTED_FROM else ""
    )
    if belief.prior is not None:
        st.caption(f"Dashed: the prior of this run.{sorting_note}")
        return
    st.caption(
        "Dashed: the prior, an equal share for every class. LPS does not know the true shares, so if classes differ "
        f"in size this target is only approximate.{sorting_note}"
    )
