"""The objective on the page Explain: every term with its formula, its purpose, and its value in a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from lps.charts import explain_charts
from lps.charts.event_log import History
from lps.errors import UserError
from lps.settings import catalog
from lps.ui.explain.distribution import ClassEstimate, method_title, show_epochs
from lps.ui.forms import form
from lps.ui.forms.term_formulas import formula_of
from lps.ui.shared import escape, theme
from lps.ui.shared.plot import plot
from lps.wording import with_minus

_ROUNDING = 0.002  # of the total: what float32 means of an epoch may be off by


@dataclass(frozen=True)
class _Term:
    """The name of a term of an objective, and what it does."""

    name: str
    purpose: str


LPS_TERMS = ("adaptive_margin", "pseudo_label_contrastive", "unsupervised_contrastive", "entropy")
_TERMS = {
    "adaptive_margin": _Term(
        "Adaptive margin",
        "Trains the classifier on labeled images, and on unlabeled images above the confidence threshold. The margin "
        "holds back classes that are learned faster.",
    ),
    "pseudo_label_contrastive": _Term(
        "Pseudo-label contrastive loss",
        "Pulls images with the same label (given or guessed) together and pushes images with different labels apart.",
    ),
    "unsupervised_contrastive": _Term(
        "Unsupervised contrastive loss",
        "Pulls two views of the same image together, for images below the confidence threshold.",
    ),
    "entropy": _Term(
        "Entropy",
        "Keeps all classes in use. Without this term, a few classes can absorb all images. The term is lowest when all "
        "classes are predicted equally often.",
    ),
    "cross_entropy": _Term("Cross-entropy", "Trains the classifier on the labeled images."),
    "pairwise": _Term("Pairs", "Similar images should get the same class."),
    "pseudo_label": _Term("Pseudo-labels", "Trains the classifier on images above the confidence threshold."),
    "logit_adjusted": _Term(
        "Pseudo-labels, adjusted", "Trains the classifier on confident images; frequent classes count less."
    ),
    "consistency": _Term("Consistency", "Two views of an image should get the same class."),
    "supervised_contrastive": _Term("Supervised contrastive loss", "Pulls labeled images of one class together."),
    "soft_contrastive": _Term(
        "Soft contrastive loss", "Pulls images together; the more similar their predictions, the stronger the pull."
    ),
    "clustering": _Term("Clustering", "Sharpens the current clusters."),
}
_OF_OTHERS = {  # terms that are called alike in other methods and do something else there
    "unsupervised_contrastive": _Term("Unsupervised contrastive loss", "Pulls two views of the same image together.")
}
_WEIGHTS = {  # hyperparameters that switch a term off when they are 0, in whatever method has them
    "pseudo_label_contrastive": ("pseudo_label_weight",),
    "unsupervised_contrastive": ("unsupervised_weight",),
    "entropy": ("entropy_weight",),
    "cross_entropy": ("cross_entropy_weight", "supervised_weight"),
    "pairwise": ("pairwise_weight",),
    "pseudo_label": ("unlabeled_weight",),
    "logit_adjusted": ("pseudo_label_weight",),
    "consistency": ("consistency_weight",),
    "supervised_contrastive": ("supervised_weight",),
    "group_similarity": ("group_weight",),
    "prior": ("prior_weight",),
}


def show_objective(belief: ClassEstimate) -> None:
    """Show the terms that add up to the total of the chosen epoch; without a run, those of LPS without numbers."""
    history = belief.history
    if history is None or not history.last_epoch:
        _show_planned(belief)
        return
    left, right = st.columns([4, 6], gap="large")
    with left:
        epoch = show_epochs(belief.run, history, "objective")
        terms, total = read_terms(history, epoch)
        off_terms = switched_off(terms, _read_settings(belief))
        working = {name: value for name, value in terms.items() if name not in off_terms}
        st.markdown(_summarize_terms(belief, epoch, working, total) + _describe_switched_off(off_terms))
        st.caption(
            "Each bar starts where the previous one ends. Training minimizes the total. All values are means over "
            "the batches of the epoch."
        )
    with right:
        if working:
            bars = {_find_term(name).name: value for name, value in working.items()}
            figure = explain_charts.waterfall(bars, total, theme.current_palette())
            described = ", ".join(f"{name} {value:.2f}" for name, value in bars.items())
            alt = f"Terms of the objective in epoch {epoch}: {described}; total {total:.2f}"
            plot(figure, "explain_terms", alt, view=belief.run.id)
    if belief.method == "":
        st.caption(
            "The settings of this run cannot be read; the formulas below are those of LPS with default settings."
        )
    elif belief.method != "lps":
        _show_formula(belief.method)
    values = {name: value for name, value in terms.items() if name != "rest"}
    _show_cards(values, off_terms, belief.settings if belief.method in ("", "lps") else None)


def _show_planned(belief: ClassEstimate) -> None:
    """Show the terms of LPS without values, with the settings of the run if its method is LPS."""
    off_terms = switched_off(dict.fromkeys(LPS_TERMS), belief.settings)
    count = f"{len(LPS_TERMS) - len(off_terms)} of its {len(LPS_TERMS)} terms" if off_terms else "four terms"
    settings_source = "the settings of this run" if belief.method == "lps" else "default settings"
    st.markdown(
        f"LPS minimizes the sum of {count}. They are shown with {settings_source}.{_describe_switched_off(off_terms)}"
    )
    if belief.method not in ("", "lps"):
        _show_formula(belief.method)
    _show_cards(dict.fromkeys(LPS_TERMS), off_terms, belief.settings)
    if belief.history is None:
        _show_hint()


def switched_off(terms: Mapping[str, float | None], settings: Mapping[str, object]) -> list[str]:
    """Return the terms whose weight is 0 under these settings; a term with a value other than 0 is not switched off."""
    return [
        name
        for name, value in terms.items()
        if not value and any(settings.get(weight) == 0 for weight in _WEIGHTS.get(name, ()))
    ]


def _read_settings(belief: ClassEstimate) -> Mapping[str, object]:
    """Return the hyperparameters of the run's method."""
    if belief.method in ("", "lps"):
        return belief.settings
    try:
        return belief.run.config().hyperparameters
    except UserError:
        return {}


def read_terms(history: History, epoch: int) -> tuple[dict[str, float], float | None]:
    """Return ({name: value} of the terms of an epoch, their sum); ({}, None) if they were not recorded.

    The difference between the recorded total and the recorded terms is a term "rest", unless it is rounding.
    """
    row = history.epochs.loc[epoch] if epoch in history.epochs.index else pd.Series(dtype=float)
    terms = {
        name.removeprefix("loss/"): float(value)
        for name, value in row.items()
        if name.startswith("loss/") and pd.notna(value)
    }
    total = terms.pop("total", None)
    if total is None or not terms:
        return {}, None
    rest = total - sum(terms.values())
    if abs(rest) > _ROUNDING * max(1.0, abs(total), *map(abs, terms.values())):
        terms["rest"] = rest
    return terms, total


def _summarize_terms(belief: ClassEstimate, epoch: int, terms: dict[str, float], total: float | None) -> str:
    if not terms:
        return f"No terms were recorded in epoch {epoch}."
    largest = max(terms, key=lambda name: abs(terms[name]))
    method, name = escape.markdown(method_title(belief.method)), escape.markdown(_find_term(largest).name.lower())
    if len(terms) == 1:
        return f"In epoch {epoch} {method} has one term, {name}, with **{total:.2f}**."
    return (
        f"In epoch {epoch} the {len(terms)} terms of {method} add up to **{total:.2f}**. "
        f"The largest in absolute value is {name} with {with_minus(f'{terms[largest]:+.2f}')}."
    )


def _describe_switched_off(off_terms: Sequence[str]) -> str:
    return f" Switched off: {', '.join(_find_term(name).name.lower() for name in off_terms)}." if off_terms else ""


def _show_cards(
    values: Mapping[str, float | None], off_terms: Sequence[str], settings: Mapping[str, object] | None
) -> None:
    """Show one card per term that has a value. settings: of LPS, for its formulas; None shows no formula."""
    with st.grid(2, min_column_width=360):
        for name, value in values.items():
            with st.container(border=True, height="stretch"):
                _show_card(name, ":gray-badge[switched off]" if name in off_terms else _format_value(value), settings)


def _show_card(name: str, state: str, settings: Mapping[str, object] | None) -> None:
    term = _find_term(name) if settings is not None else _OF_OTHERS.get(name) or _find_term(name)
    st.markdown(f"**{escape.markdown(term.name)}** {state}  \n{escape.markdown(term.purpose)}")
    formula = None if settings is None else formula_of(name, settings)
    if formula:
        st.latex(formula.latex)
        st.caption(f"{formula.numbers}  \n{formula.letters}")


def _format_value(value: float | None) -> str:
    return "" if value is None else f":gray[{with_minus(f'{value:+.3f}')}]"


def _show_formula(method: str) -> None:
    """Show the objective of another method, as its docstring has it."""
    try:
        objective = catalog.method_info(method).sections.get("Objective", "")
    except UserError:
        return
    with st.expander(f"The whole objective of {escape.markdown(method_title(method))}"):
        for formula in form.split_formulas(objective):
            st.latex(formula)
        st.caption("With default settings.")


def _find_term(name: str) -> _Term:
    if name == "rest":
        return _Term("Rest", "The part of the total that no recorded term explains.")
    return _TERMS.get(name) or _Term(name.replace("_", " ").capitalize(), "A term that only this method has.")


def _show_hint() -> None:
    """Say where the numbers would come from."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Choose a run above to see the value of every term.", width="content")
        st.page_link("pages/home.py", label="Start the demo", icon=":material/play_arrow:")
