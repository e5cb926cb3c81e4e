"""The Explain page on the objective: every term with its formula, what it is for, and its value in a run."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from lps import catalog
from lps.parameters import ConfigError
from lps.ui import escape, explain_charts, style
from lps.ui.beliefs import Belief, show_epochs, title
from lps.ui.live import History
from lps.ui.plot import plot

ROUNDING = 0.002  # of the total: what float32 means of an epoch may be off by


@dataclass(frozen=True)
class Term:
    """What a term of an objective is called, what it does, and its formula (LaTeX, "" where a method's own differs)."""

    name: str
    purpose: str
    formula: str = ""


LPS_TERMS = ("adaptive_margin", "pseudo_label_contrastive", "unsupervised_contrastive", "entropy")
TERMS = {
    "adaptive_margin": Term(
        "Adaptive margin",
        "Names images: labeled ones, and those whose guess passes. The margin brakes the classes that run ahead.",
        r"\frac1{B_l}\sum_{l}\ell_{AM}(z,y)+\frac1{B_u}\sum_{u\text{ passes}}\ell_{AM}(z,\hat y)",
    ),
    "pseudo_label_contrastive": Term(
        "Pseudo-label contrast",
        "Pulls images with the same label, given or guessed, together, and all others apart.",
        r"-\frac{\eta_1}{|M|}\sum_{a\in M}\log\frac1{|P_a|}\sum_{b\in P_a}"
        r"\frac{e^{s_{ab}/\tau}}{\sum_{c\ne a}e^{s_{ac}/\tau}}",
    ),
    "unsupervised_contrastive": Term(
        "Unsupervised contrast",
        "For images whose guess does not pass: two views of an image belong together, whatever it shows.",
        r"-\frac{\eta_2}{2B}\sum_{a\notin M}\log\frac{e^{s_{aa'}/\tau}}{\sum_{c\ne a}e^{s_{ac}/\tau}}",
    ),
    "entropy": Term(
        "Entropy",
        "Keeps all classes in use. Without it, a few classes can swallow everything. Lowest (−log K) at equal use.",
        r"\sum_k\bar p_k\log\bar p_k",
    ),
    "cross_entropy": Term("Cross-entropy", "Names the labeled images.", r"-\frac1{B_l}\sum_l\log p_{y}"),
    "pairwise": Term("Pairs", "Similar images shall get the same class."),
    "pseudo_label": Term("Pseudo-labels", "Names the images whose guess passes the threshold."),
    "logit_adjusted": Term("Pseudo-labels, adjusted", "Names confident images; frequent classes count for less."),
    "consistency": Term("Consistency", "Two views of an image shall be named alike."),
    "supervised_contrastive": Term("Supervised contrast", "Pulls labeled images of one class together."),
    "clustering": Term("Clustering", "Sharpens the clusters that there are."),
}


def show_objective(belief: Belief) -> None:
    """The terms that add up to the total of the chosen epoch; without a run, those of LPS without numbers."""
    past = belief.past
    if past is None or not past.last_epoch:
        st.markdown("LPS adds up four terms and makes the sum as small as it can.")
        _show_cards(dict.fromkeys(LPS_TERMS), belief)
        if past is None:
            _show_hint()
        return
    left, right = st.columns([4, 6], gap="large")
    with left:
        epoch = show_epochs(belief.run, past, "objective")
        terms, total = terms_of(past, epoch)
        st.markdown(_summary(belief, epoch, terms, total))
        st.caption(
            "Every bar begins where the one before ends. Training lowers the total; a negative term lowers it too."
        )
    with right:
        if terms:
            bars = {_term(name).name: value for name, value in terms.items()}
            figure = explain_charts.waterfall(bars, total, style.palette()).update_layout(uirevision=belief.run.id)
            described = ", ".join(f"{name} {value:.2f}" for name, value in bars.items())
            plot(figure, "explain_terms", f"Terms of the objective in epoch {epoch}: {described}; total {total:.2f}")
    _show_cards({name: value for name, value in terms.items() if name != "rest"}, belief)


def terms_of(past: History, epoch: int) -> tuple[dict[str, float], float | None]:
    """({name: value} of the terms of an epoch, what they add up to); ({}, None) where they were not recorded.

    What the recorded terms leave of the recorded total is a term "rest", unless it is rounding.
    """
    row = past.epochs.loc[epoch] if epoch in past.epochs.index else pd.Series(dtype=float)
    terms = {
        name.removeprefix("loss/"): float(value)
        for name, value in row.items()
        if name.startswith("loss/") and pd.notna(value)
    }
    total = terms.pop("total", None)
    if total is None or not terms:
        return {}, None
    rest = total - sum(terms.values())
    if abs(rest) > ROUNDING * max(1.0, abs(total), *map(abs, terms.values())):
        terms["rest"] = rest
    return terms, total


def _summary(belief: Belief, epoch: int, terms: dict[str, float], total: float | None) -> str:
    if not terms:
        return f"No terms were recorded in epoch {epoch}."
    largest = max(terms, key=lambda name: abs(terms[name]))
    return (
        f"In epoch {epoch} the {len(terms)} terms of {escape.markdown(title(belief.method))} add up to "
        f"**{total:.2f}**. The largest is {_term(largest).name.lower()} with {terms[largest]:+.2f}."
    )


def _show_cards(values: dict[str, float | None], belief: Belief) -> None:
    """One card a term; a value of None is not shown."""
    if belief.method not in ("", "lps"):
        _show_formula(belief.method)
    with st.grid(2, min_column_width=300):
        for name, value in values.items():
            term = _term(name)
            with st.container(border=True, height="stretch"):
                shown = "" if value is None else f" :gray[{value:+.3f}]"
                st.markdown(f"**{escape.markdown(term.name)}**{shown}  \n{escape.markdown(term.purpose)}")
                if term.formula and (belief.method in ("", "lps") or name in ("entropy", "cross_entropy")):
                    st.latex(term.formula)


def _show_formula(method: str) -> None:
    """The objective of another method, as its own description writes it."""
    try:
        objective = catalog.method_info(method).sections.get("Objective", "")
    except ConfigError:
        return
    with st.expander(f"The whole objective of {escape.markdown(title(method))}"):
        st.markdown(objective)


def _term(name: str) -> Term:
    if name == "rest":
        return Term("Rest", "What the recorded terms leave of the total.")
    return TERMS.get(name) or Term(name.replace("_", " ").capitalize(), "A term of this method alone.")


def _show_hint() -> None:
    """Where the numbers would come from."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("With a run chosen above, every term has its value here.", width="content")
        st.page_link("pages/home.py", label="Start the demo", icon=":material/play_arrow:")
