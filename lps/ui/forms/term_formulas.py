"""The formula of each term of LPS under given settings, with its numbers and symbols."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lps.scores import margin_math

Settings = Mapping[str, object]


@dataclass(frozen=True)
class Formula:
    """LaTeX of a term, and Markdown with its numbers and the meaning of its symbols."""

    latex: str
    numbers: str
    letters: str


def formula_of(term: str, settings: Settings) -> Formula | None:
    """Return the formula of a term of LPS under these hyperparameters; None for other terms."""
    return FORMULAS[term](settings) if term in FORMULAS else None


def _adaptive_margin(settings: Settings) -> Formula:
    view, guess_view = _weak_views(settings)
    sums = (
        rf"\frac1{{B_l}}\sum_{{l}}\ell(z^{{{view}}}_l,y_l)"
        r"+\frac1{B_u}\sum_{u\text{ confident}}\ell(z^{s}_u,\hat y_u)"
    )
    scale = settings["margin_scale"] if settings["use_margin"] else 0
    if scale:
        cross_entropy = r"\ell(z,y)=-\log\frac{e^{z_y+\delta_y}}{e^{z_y+\delta_y}+\sum_{j\ne y}e^{z_j}}"
        kl_arguments = (
            r"\pi\,\|\,\hat\pi" if settings["kl_direction"] == margin_math.PRIOR_FIRST else r"\hat\pi\,\|\,\pi"
        )
        margin = rf"\delta_k={_format_number(scale)}\cdot\mathrm{{KL}}({kl_arguments})\cdot\hat\pi_k/\max_j\hat\pi_j"
        numbers = f"With the margin ${margin}$."
        unequal = r" With a prior $\pi$ other than equal shares, the last factor has $\hat\pi_k/\pi_k$ instead of "
        unequal += r"$\hat\pi_k$."
    else:
        cross_entropy = r"\ell(z,y)=-\log\frac{e^{z_y}}{\sum_{j}e^{z_j}}"
        numbers, unequal = "The margin is off, so this is plain cross-entropy.", ""
    letters = (
        rf"$l$: the $B_l$ labeled images of a batch, $u$: its $B_u$ other images. $z^{{{view}}}$, $z^{{s}}$: logits "
        rf"of {_view_words(view)} and of the strong view. $\hat y$: the guess in {_view_words(guess_view)}.{unequal}"
    )
    return Formula(rf"\begin{{aligned}}&{sums}\\&{cross_entropy}\end{{aligned}}", numbers, letters)


def _pseudo_label_contrast(settings: Settings) -> Formula:
    mean, fraction = r"\frac1{|P_a|}\sum_{b\in P_a}", _fraction("ab", r"c\in M,\,c\ne a")
    inner = rf"\log{mean}{fraction}" if settings["contrast_variant"] == "in" else rf"{mean}\log{fraction}"
    letters = (
        f"A row is an image in one of two views, {_both_views(settings)}. $M$: the rows with a label or a guess above "
        "the threshold. $P_a$: all other rows of $M$ that have the same label as $a$."
    )
    return _contrast(r"\eta_1", "pseudo_label_weight", "|M|", "M", inner, letters, settings)


def _unsupervised_contrast(settings: Settings) -> Formula:
    count = "2B" if settings["contrast_normalizer"] == "batch" else "|U|"
    letters = (
        f"$a'$: the image of row $a$ in its other view ({_both_views(settings)}). $c$: each of the other $2B-1$ rows "
        "of a batch. $U$: the rows whose guess is below the threshold."
    )
    inner = r"\log" + _fraction("aa'", r"c\ne a")
    return _contrast(r"\eta_2", "unsupervised_weight", count, "U", inner, letters, settings)


def _entropy(settings: Settings) -> Formula:
    view, _ = _weak_views(settings)
    letters = (
        rf"$\bar p$: the mean of the probabilities of all images of a batch in {_view_words(view)}. $\pi$: the prior, "
        r"$K$: the number of classes. With equal shares this is $w\sum_k\bar p_k\log\bar p_k$."
    )
    weight = _format_number(settings["entropy_weight"])
    return Formula(r"w\,\big(\mathrm{KL}(\bar p\,\|\,\pi)-\log K\big)", f"With $w={weight}$.", letters)


FORMULAS: dict[str, Callable[[Settings], Formula]] = {
    "adaptive_margin": _adaptive_margin,
    "pseudo_label_contrastive": _pseudo_label_contrast,
    "unsupervised_contrastive": _unsupervised_contrast,
    "entropy": _entropy,
}
_SIMILARITIES = {
    "cosine_logits": (r"s_{ab}=\cos(z_a,z_b)", "of the logits"),
    "raw_logits": (r"s_{ab}=z_a\cdot z_b", "of the logits"),
    "features": (r"s_{ab}=\cos(h_a,h_b)", "of the features"),
}


def _contrast(symbol: str, weight: str, count: str, rows: str, inner: str, letters: str, settings: Settings) -> Formula:
    """Return -weight / count times the sum of `inner` over `rows`. symbol: of the weight; weight: its setting."""
    similarity, similarity_source = _SIMILARITIES[str(settings["contrast_space"])]
    value, temperature = _format_number(settings[weight]), _format_number(settings["temperature"])
    numbers = rf"With ${symbol}={value}$, $\tau={temperature}$ and ${similarity}$ {similarity_source}."
    return Formula(rf"-\frac{{{symbol}}}{{{count}}}\sum_{{a\in {rows}}}{inner}", numbers, letters)


def _fraction(pair: str, denominator: str) -> str:
    """Return the share of a pair of rows among all pairs with row a."""
    return rf"\frac{{e^{{s_{{{pair}}}/\tau}}}}{{\sum_{{{denominator}}}e^{{s_{{ac}}/\tau}}}}"


def _weak_views(settings: Settings) -> tuple[str, str]:
    """Return (the view for cross-entropy and entropy, the view for guesses); the same one if there is only one."""
    return ("w", "w") if settings["weak_views"] == "1" else ("w_1", "w_2")


def _both_views(settings: Settings) -> str:
    return f"${_weak_views(settings)[1]}$ and $s$"


def _view_words(view: str) -> str:
    return {"w": "the weak view", "w_1": "the first weak view", "w_2": "the second weak view"}[view]


def _format_number(value: object) -> str:
    """Format a setting for a formula, powers of ten as LaTeX."""
    digits, _, power = f"{value:g}".partition("e")
    return rf"{digits}\cdot10^{{{int(power)}}}" if power else digits
