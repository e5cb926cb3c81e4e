"""What the tests of figures share: a chart of a page beside the figure that its Python draws."""

import json

import plotly.graph_objects as go
import pytest

from lps.ui.shared import plot
from tests.visiting import visit


@pytest.fixture
def carried_out(monkeypatch):
    """Return carried_out(text) -> the figure that it shows."""
    shown = []
    monkeypatch.setattr(go.Figure, "show", lambda figure: shown.append(figure))

    def carry_out(text: str) -> go.Figure:
        exec(text, {})
        return shown.pop()

    return carry_out


@pytest.fixture
def charts(monkeypatch):
    """Return charts(root, "live", run=[id]) -> the page's charts by key, checked by plotly, each with its Python."""
    found, data = {}, plot._encode_figure

    def keep(figure, key, alt, **options):
        checked = figure.figure()
        assert json.loads(figure.to_json()) == json.loads(checked.to_json()), f"{key} is not what plotly makes of it"
        found[key] = checked, options.get("code", "")
        return data(figure, key, alt, **options)

    monkeypatch.setattr(plot, "_encode_figure", keep)

    def open_page(root, page, **query):
        monkeypatch.setenv("LPS_RUNS", str(root))
        found.clear()
        assert not visit(page, **query).exception
        return dict(found)

    return open_page


@pytest.fixture
def drawn(charts, carried_out):
    """Return drawn(root, "live", "pi_hat", run=[id]) -> (the chart of that key, the figure that its Python draws)."""

    def open_page(root, page, key, **query):
        found = charts(root, page, **query)
        assert found[key][1], f"{page} has {list(found)}"
        return found[key][0], carried_out(found[key][1])

    return open_page
