"""The page Explain from a class distribution to a gradient: KL in both directions, margins, one image."""

import numpy as np
import streamlit as st

from lps.charts import explain_charts
from lps.scores import margin_math
from lps.ui.explain import url_sliders
from lps.ui.explain.distribution import ClassEstimate, data_prior, method_title
from lps.ui.shared import escape, theme, url_fields
from lps.ui.shared.plot import plot
from lps.wording import percent

_DIRECTIONS = {
    margin_math.PRIOR_FIRST: "KL(π‖π̂), as in the authors' code",
    margin_math.ESTIMATE_FIRST: "KL(π̂‖π), as in the paper",
}
_PRIORS = {"own": "The run's prior", "equal": "Equal, as LPS assumes", "data": "As in the data"}
_USUAL_SURENESS = 40  # percent that the example image gives its right class
LARGEST_SCALE = 50.0
_EVEN = 0.05  # pulls that differ by less are called about equal


# ---------------------------------------------------------------------------------------------------- divergence


def show_divergence(belief: ClassEstimate) -> tuple[float, np.ndarray | None]:
    """Show both divergences; returns the one that the margin uses, and the chosen prior (None: equal shares)."""
    left, right = st.columns(2, gap="medium")
    with left:
        usual = str(belief.settings["kl_direction"])
        order = {name: _DIRECTIONS[name] for name in sorted(_DIRECTIONS, key=lambda name: name != usual)}
        direction = url_fields.choose_one(st.segmented_control, "kl", "The margin uses", order)
    with right:
        prior = _pick_prior(belief)
    divergences = {
        name: margin_math.kl(belief.shares, name, prior)
        for name in (margin_math.PRIOR_FIRST, margin_math.ESTIMATE_FIRST)
    }
    weights = margin_math.uniform(belief.classes) if prior is None else prior
    left, right = st.columns(2, gap="medium")
    for column, name in ((left, margin_math.PRIOR_FIRST), (right, margin_math.ESTIMATE_FIRST)):
        with column, st.container(border=True, height="stretch"):
            used = " · used by the margin" if name == direction else ""
            order_label = "prior first" if name == margin_math.PRIOR_FIRST else "estimate first"
            st.markdown(f"**{divergences[name]:.3f}** :small[{order_label}{used}]")
            st.latex(divergence_formula(belief.shares, weights, name, divergences[name]))
    st.markdown(_explain_divergence(belief, divergences, prior))
    if prior is None and belief.truth is not None and np.ptp(belief.truth) > 0:
        st.markdown(
            f"The classes of this example differ in size: the largest has {percent(belief.truth.max())} of the images, "
            f"the smallest {percent(belief.truth.min())}. Equal shares are a wrong target here: even if the model is "
            "right, KL and margins stay above 0 and push it away from the truth. Choose *As in the data* to see them "
            "vanish."
        )
    _compare_with_record(belief, divergences[direction], direction, prior)
    return divergences[direction], prior


def _pick_prior(belief: ClassEstimate) -> np.ndarray | None:
    """Return the chosen prior, None for equal shares; the default is the run's own prior."""
    shares = {"own": belief.prior, "data": data_prior(belief)}
    offered = {name: label for name, label in _PRIORS.items() if name == "equal" or shares[name] is not None}
    if len(offered) == 1:
        return None
    picked = url_fields.choose_one(st.segmented_control, "prior", "Prior", offered)
    return shares.get(picked)


def divergence_formula(pi_hat: np.ndarray, prior: np.ndarray, direction: str, value: float) -> str:
    """Return the LaTeX of one divergence: the sum, its first and last term with numbers, and the result."""
    prior_first = direction == margin_math.PRIOR_FIRST
    symbols, distributions = (r"\pi", r"\hat\pi"), (prior, pi_hat)
    if not prior_first:
        symbols, distributions = symbols[::-1], distributions[::-1]
    summands = [
        rf"{format_share(distributions[0][k])}\log\tfrac{{{format_share(distributions[0][k])}}}{{{format_share(distributions[1][k])}}}"
        for k in (0, len(pi_hat) - 1)
    ]
    return (
        rf"\begin{{aligned}}\mathrm{{KL}}({symbols[0]}\,\|\,{symbols[1]})"
        rf"&=\sum_k {symbols[0]}_k\log\frac{{{symbols[0]}_k}}{{{symbols[1]}_k}}\\"
        rf"&={summands[0]}+\dots\\&\quad+{summands[1]}\\&={value:.3f}\end{{aligned}}"
    )


def _explain_divergence(belief: ClassEstimate, divergences: dict[str, float], prior: np.ndarray | None) -> str:
    prior_first, estimate_first = divergences[margin_math.PRIOR_FIRST], divergences[margin_math.ESTIMATE_FIRST]
    if max(prior_first, estimate_first) < 0.0005:
        return "Both are 0: the predicted shares equal the prior. Both grow as the shares move away from the prior."
    starved = int(np.argmin(belief.shares))
    share = percent(belief.shares[starved], 1) if belief.shares[starved] >= 0.0005 else "less than 0.1\u00a0%"
    least = "" if prior is not None else f" KL(π̂‖π) is at most log {belief.classes} = {np.log(belief.classes):.2f}."
    return (
        "0 means a perfect match. KL(π‖π̂) grows without limit when the share of a class goes to 0 (the rarest here: "
        f"{_colored_name(belief, starved)} with {share}).{least} So KL(π‖π̂) reacts to a vanishing class much earlier "
        "than KL(π̂‖π)."
    )


def _compare_with_record(belief: ClassEstimate, value: float, direction: str, prior: np.ndarray | None) -> None:
    """Show the value that the run recorded, and why it is a little larger."""
    if not belief.is_recorded or prior is not belief.prior:
        return
    column = "kl" if direction == margin_math.PRIOR_FIRST else "kl/reverse"
    recorded = belief.history.column(column)
    if belief.epoch not in recorded.index:
        return
    text = f"The value recorded in training, {recorded.loc[belief.epoch]:.3f}, is the mean of the KL over all batches."
    if recorded.loc[belief.epoch] > value:
        text += (
            " Class shares differ between batches by chance, so this mean is larger than the KL of the epoch's mean "
            f"distribution ({value:.3f})."
        )
    st.caption(text)


# ---------------------------------------------------------------------------------------------------- margins


def show_margins(belief: ClassEstimate, divergence: float, prior: np.ndarray | None) -> np.ndarray:
    """Show C, the formula with numbers, every margin as a bar, and their meaning; returns the margins (classes,)."""
    _explain_other_margin(belief)
    left, right = st.columns([4, 6], gap="large")
    with left:
        usual = float(belief.settings["margin_scale"])
        scale = url_sliders.url_slider("C, the strength of the margin", "C", 0.0, max(LARGEST_SCALE, usual), usual, 0.5)
        values = margin_math.margins(belief.shares, divergence, scale, prior)
        st.latex(_margin_formula(margin_math.relative_shares(belief.shares, prior), divergence, scale, values, prior))
        if prior is not None:
            least = margin_math.MIN_SHARE
            st.caption(
                f"$\\pi_k$ is the share of class k in the prior. A share below {least:g}$/K$ counts as {least:g}$/K$."
            )
    with right:
        _show_title("Margin of every class", "added to the score (logit) of the right class in training")
        recorded = _recorded_margins(belief, scale)
        colors = theme.current_palette()
        figure = explain_charts.margins(values, belief.shares, recorded, belief.seen, belief.names, colors)
        alt = f"What the margin adds to the target's logit, for each of {belief.classes} classes"
        plot(figure, "explain_margins", alt)
        if recorded is not None:
            mark = "Line" if belief.classes > explain_charts.SORTED_FROM else "Rings"
            st.caption(
                f"{mark}: the margins that the run recorded, averaged over its batches. They are usually larger than "
                "margins computed from the epoch's mean distribution: class shares differ between batches by chance, "
                "and early in training they also change during an epoch."
            )
    return values


def _explain_other_margin(belief: ClassEstimate) -> None:
    """Say that the run did not use this margin, if its method is another one or its margin is off."""
    if belief.run is None or belief.method == "lps" and belief.settings["use_margin"]:
        return
    name = escape.markdown(method_title(belief.method))
    if belief.method == "lps":
        message = "This run had no margin. Below are the margins that LPS would have used."
    elif belief.method == "":
        message = (
            "The settings of this run cannot be read. Below is what LPS would compute from its class distribution."
        )
    elif belief.history.vector("margin", belief.epoch or 0) is not None:
        message = (
            f"{name} uses a different kind of margin. Below is what LPS would compute from its class distribution."
        )
    else:
        message = f"{name} has no margin. Below is what LPS would compute from its class distribution."
    st.info(message, icon=":material/info:")


def _recorded_margins(belief: ClassEstimate, scale: float) -> np.ndarray | None:
    """Return the margins that a run of LPS recorded, averaged over the epoch, if the displayed numbers are its own."""
    is_of_lps = belief.is_recorded and belief.method == "lps" and belief.settings["use_margin"]
    if not is_of_lps or scale != belief.settings["margin_scale"]:
        return None
    if any(name in st.query_params for name in ("kl", "prior")):
        return None
    margins = belief.history.vector("margin", belief.epoch)
    is_complete = margins is not None and len(margins) == belief.classes and np.isfinite(margins).all()
    return margins if is_complete else None


def _margin_formula(
    relative: np.ndarray, divergence: float, scale: float, values: np.ndarray, prior: np.ndarray | None
) -> str:
    """Return the LaTeX of the largest and the smallest margin with numbers. relative: `relative_shares`."""
    ratio, largest_ratio = (r"\hat\pi_k", r"\hat\pi_j") if prior is None else (r"\hat\pi_k/\pi_k", r"(\hat\pi_j/\pi_j)")
    lines = [rf"\delta_k&=C\cdot\mathrm{{KL}}\cdot\frac{{{ratio}}}{{\max_j{largest_ratio}}}"]
    for subscript, k in ((r"\text{most}", int(np.argmax(relative))), (r"\text{least}", int(np.argmin(relative)))):
        fraction = rf"\tfrac{{{format_share(relative[k])}}}{{{format_share(relative.max())}}}"
        lines.append(rf"\delta_{{{subscript}}}&={scale:g}\cdot{divergence:.3f}\cdot{fraction}={values[k]:.2f}")
    return r"\begin{aligned}" + r"\\".join(lines) + r"\end{aligned}"


def explain_sign(belief: ClassEstimate, values: np.ndarray, sureness: float) -> str:
    """Explain the effect of the margins, with the largest and the smallest one as examples."""
    largest, smallest = int(np.argmax(values)), int(np.argmin(values))
    if values[largest] < 0.005:
        return "Every margin is 0: no class is held back, and training is plain cross-entropy. This is the goal of LPS."
    pull_shares = margin_math.pull_left(sureness, values)
    keeps = {
        k: percent(pull_shares[k]) if pull_shares[k] >= 0.005 else "less than 1\u00a0%" for k in (largest, smallest)
    }
    held_note = ": it is **held back**" if pull_shares[smallest] - pull_shares[largest] >= _EVEN else ""
    text = (
        "The margin is **added** to the logit of the right class during training, so the loss treats an image as "
        "if it were already classified more confidently. "
        f"{_colored_name(belief, largest)} gets +{values[largest]:.2f} and keeps {keeps[largest]} of its "
        f"pull (the force with which training moves its images towards the right answer){held_note}. "
    )
    if pull_shares[smallest] - pull_shares[largest] < _EVEN:
        return text + "The other classes keep about as much of their pull: no class has a clear advantage."
    return text + (
        f"{_colored_name(belief, smallest)} gets +{values[smallest]:.2f} and keeps {keeps[smallest]}: it can "
        "**catch up**. As the shares approach the prior, KL and all margins go to 0."
    )


# ---------------------------------------------------------------------------------------------------- one image


def show_image(belief: ClassEstimate, values: np.ndarray) -> None:
    """Show an image of a chosen class: probabilities and gradients of its logits, with and without the margin."""
    left, right = st.columns(2, gap="large")
    with left:
        target = _pick_class(belief, int(np.argmax(values)))
    with right:
        label = "How sure the model already is of the right class"
        sure = url_sliders.url_slider(label, "sure", 1, 99, _USUAL_SURENESS, 1, format="%d %%") / 100
    logits = margin_math.example_logits(belief.shares, target, sure)
    margin = float(values[target])
    st.markdown(explain_sign(belief, values, sure))
    _show_charts(belief, values, logits, target, sure)
    st.latex(_image_formula(sure, margin, margin_math.probabilities(logits, target, margin)[target]))
    st.caption(
        "The paper writes the margin as a negative number and subtracts it, which is the same. It is only part of "
        "the training loss; nothing is added when the model classifies an image later."
    )


def _pick_class(belief: ClassEstimate, default_class: int) -> int:
    """Return the class of the image, by default the one with the largest margin."""

    names = {str(k): f"{name} ({belief.group(k)})" for k, name in enumerate(belief.names)}
    picked = url_fields.choose_one(
        st.selectbox, "class", "The image shows", {"most": "the class with the largest margin"} | names
    )
    if st.query_params.get("class") not in names:
        st.query_params.pop("class", None)
    return default_class if picked == "most" else int(picked)


def _show_charts(belief: ClassEstimate, values: np.ndarray, logits: np.ndarray, target: int, sure: float) -> None:
    colors, margin = theme.current_palette(), float(values[target])
    own_and_merged = explain_charts.strongest(target, logits)
    about = (own_and_merged, target, belief.seen, belief.names, colors)
    name = belief.names[target]
    first, second, third = st.columns(3)
    with first:
        _show_title("Probabilities", "framed: without the margin")
        values_pair = margin_math.probabilities(logits, target), margin_math.probabilities(logits, target, margin)
        figure = explain_charts.image(*values_pair, *about)
        plot(figure, "explain_probabilities", f"Probabilities of an image of {name} with and without the margin")
    with second:
        _show_title("Push on every logit", "minus the gradient")
        values_pair = [-margin_math.cross_entropy_gradient(logits, target, m) for m in (0.0, margin)]
        figure = explain_charts.pushes(*values_pair, *about)
        plot(
            figure,
            "explain_pushes",
            f"How training moves the logits of an image of {name}, with and without the margin",
        )
    with third:
        _show_title("Remaining pull", "for an image of each class")
        left = margin_math.pull_left(sure, values)
        figure = explain_charts.pulls(left, belief.shares, belief.seen, belief.names, colors)
        plot(figure, "explain_pulls", "Share of the pull towards the right class that each class keeps")


def _image_formula(sure: float, margin: float, probability: float) -> str:
    """Return the LaTeX of the target's probability with the margin, and of the pull on its logit."""
    probability_text, rest_text = f"{sure:.2f}", f"{1 - sure:.2f}"
    grown = rf"{probability_text}\,e^{{{margin:.2f}}}"
    return (
        rf"\begin{{aligned}}p'_y&=\frac{{p_y\,e^{{\delta_y}}}}{{p_y\,e^{{\delta_y}}+1-p_y}}"
        rf"\\&=\frac{{{grown}}}{{{grown}+{rest_text}}}={probability:.2f}\\"
        rf"-\frac{{\partial\ell}}{{\partial z_y}}&=1-p'_y={1 - probability:.2f}"
        rf"\quad\text{{instead of }}{rest_text}\end{{aligned}}"
    )


# ---------------------------------------------------------------------------------------------------- words


def format_share(value: float) -> str:
    """Format a share for a formula: two significant digits, powers of ten as LaTeX."""
    if value == 0 or value >= 0.001:
        return f"{value:.2f}" if value >= 0.095 or value == 0 else f"{value:.2g}"
    digits, power = f"{value:.0e}".split("e")
    return rf"{digits}\cdot10^{{{int(power)}}}"


def _colored_name(belief: ClassEstimate, class_id: int) -> str:
    color = "blue" if class_id < belief.seen else "orange"
    return f":{color}[**{escape.markdown(belief.names[class_id])}**] ({belief.group(class_id)})"


def _show_title(heading: str, subheading: str) -> None:
    st.markdown(f"**{heading}**  \n:small[:gray[{subheading}]]")
