"""How many novel classes are there? The search in the background, its curve, and its number taken into the form."""

import time

import plotly.graph_objects as go
import streamlit as st

from lps import background, class_count
from lps.class_count import ClassCount
from lps.config import Config, configure
from lps.parameters import ConfigError
from lps.ui import charts, escape, fields, forms, select, style
from lps.ui.panels import duration
from lps.ui.plot import plot

WAIT_S = 1.0
HEIGHT = 260


def config_of(reading: forms.Reading, draft: forms.Draft) -> Config | None:
    """What the form asks for as far as the search looks at it; None while that cannot be."""
    asked = reading.values | {"dataset": draft.dataset, "method": draft.method, "split.num_novel": 1}
    try:
        return class_count.searched(configure(asked | {"seed": forms.parse_seeds(draft.seeds)[0]}))
    except (ConfigError, IndexError):
        return None


def show(config: Config | None) -> None:
    """The search: a button, or how far it is, or its curve with a button that takes its number."""
    with st.expander("How many novel classes are there?"):
        if config is None:
            st.caption("The search can begin once the fields above fit.")
            return
        path = class_count.path_of(config, select.runs_root())
        try:
            found = class_count.read(path)
        except ConfigError as error:
            fields.say(forms.sentence(error))
            return
        standing = background.standing(path)
        if standing.state == "working":
            st.fragment(_wait, run_every=WAIT_S)(path)
        elif found is None:
            _offer(config, standing)
        else:
            _show_count(found)


def _offer(config: Config, standing: background.Standing) -> None:
    if standing.state == "failed":
        fields.say(f"The search failed: {standing.message}")
    st.caption(
        "Clusters the features that a run starts from with every number of classes and sees which agrees best with "
        "the labels. The start is made first where there is none yet, and kept for the runs."
    )
    if st.button("Search", icon=":material/search:"):
        class_count.begin(config, select.runs_root())
        st.rerun()


def _wait(path) -> None:
    standing = background.standing(path)
    if standing.state != "working":
        st.rerun()
    since = duration(time.time() - standing.since) if standing.since else "a moment"
    st.info(escape.markdown(f"Searching: {standing.message or 'starting'} ({since} ago)"), icon=":material/search:")


def _show_count(found: ClassCount) -> None:
    alt = (
        f"Accuracy on labels and silhouette for {found.numbers[0]} to {found.numbers[-1]} classes; {found.total} chosen"
    )
    plot(chart(found, style.palette()), "class_count", alt)
    st.caption(
        f"**{found.total} classes, {found.novel} of them novel**: the most whose accuracy on the labels is within a "
        f"standard error ({100 * found.tolerance:.1f} points) of the best. A run may also look for more; surplus ids "
        "stay nearly empty."
    )
    st.button(
        f"Look for {found.novel} novel classes",
        icon=":material/check:",
        on_click=lambda: fields.keep(fields.draft().with_text("split.num_novel", str(found.novel))),
    )


def chart(found: ClassCount, colors: style.Palette) -> go.Figure:
    """Accuracy on labels with the band of what counts as equal, the silhouette, and the chosen number."""
    figure = charts.blank(HEIGHT, colors)
    lines = (("Accuracy on labels", found.accuracy, colors.seen), ("Silhouette", found.silhouette, colors.muted))
    for name, values, color in lines:
        figure.add_trace(
            go.Scatter(x=found.numbers, y=values, name=name, mode="lines+markers", line={"color": color, "width": 2},
                       hovertemplate="%{x} classes: %{y:.3f}")
        )  # fmt: skip
    best = max(found.accuracy)
    figure.add_hrect(y0=best - found.tolerance, y1=best, fillcolor=colors.seen, opacity=0.15, line_width=0)
    figure.add_vline(x=found.total, line={"color": colors.ink, "width": 1.4, "dash": "dash"})
    figure.update_xaxes(title={"text": "Classes"}, showgrid=False)
    return figure.update_layout(showlegend=True, hovermode="closest")
