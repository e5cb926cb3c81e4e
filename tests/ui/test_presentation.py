"""The dashboard for a room: the address or the switch make it large, and it stays so from page to page."""

import json

import plotly.graph_objects as go
from streamlit.testing.v1 import AppTest

from lps.ui.server import presentation
from lps.ui.server.presentation import enlarge_figure
from lps.ui.shared import theme
from lps.ui.shared.data_table import Column

PAGE = """
import streamlit as st
from lps.ui.server import presentation
from lps.ui.server.presentation import enlarge_figure
presentation.read_address()
presentation.show_presenting()
st.text("large" if presentation.is_on() else "usual")
"""


def test_the_address_and_the_switch_say_the_same():
    at = AppTest.from_string(PAGE)
    at.query_params["present"] = "yes"  # another word changes nothing
    assert at.run().text[0].value == "usual"
    at = AppTest.from_string(PAGE)
    at.query_params["present"] = "1"
    assert at.run().text[0].value == "large" and at.toggle[0].value
    at.query_params.pop("present")  # another page
    assert at.run().text[0].value == "large"
    assert at.toggle[0].set_value(False).run().text[0].value == "usual" and "present" not in at.query_params
    assert at.toggle[0].set_value(True).run().query_params["present"] in ("1", ["1"])


def test_a_button_leaves_the_mode_whose_switch_is_folded_away():
    at = AppTest.from_string(PAGE)
    at.query_params["present"] = "1"
    button = at.run().button(key="leave_presenting")
    assert button.proto.shortcut == "escape"
    at = button.click().run()
    assert at.text[0].value == "usual" and "present" not in at.query_params and not at.button


def test_a_figure_is_sized_only_where_it_is_wanted(monkeypatch):
    figure = json.loads(go.Figure(layout={"height": 100}).to_json())
    assert presentation.scale_figure(figure) is figure
    monkeypatch.setattr(presentation, "is_on", lambda: True)
    assert presentation.scale_figure(figure)["layout"]["height"] == 160


def test_a_table_in_a_room_finds_its_own_height(monkeypatch):
    """Its rows are higher there; a height in pixels of usual ones showed two and a half of five."""
    assert theme.table_height(5) == 37 + 5 * 35 and theme.table_height(50, max_rows=10) == 37 + 10 * 35
    monkeypatch.setattr(presentation, "is_on", lambda: True)
    assert theme.table_height(5) == "content" and theme.table_height(50, max_rows=10) == "auto"


def test_columns_of_a_table_are_as_wide_as_its_text_in_a_room(monkeypatch):
    assert Column("Run", ["C=10"], "text", 100).config["width"] == 100
    monkeypatch.setattr(presentation, "is_on", lambda: True)
    assert Column("Run", ["C=10"], "text", 100).config["width"] == 160
    assert Column("Run", ["C=10"], "text", "large").config["width"] == "large"


def drawn() -> dict:
    line = {"width": 2}
    figure = go.Figure(go.Scatter(x=[1, 2], y=[12, 18], line=line, marker={"size": [4, 5]}, textfont={"size": 10}))
    figure.update_layout(height=200, margin={"l": 10, "t": 0}, xaxis={"tickfont": {"size": 11}, "range": [0, 3]})
    figure.add_annotation(text="here", x=1, y=12, font={"size": 9})
    return figure.to_dict()


def test_fonts_lines_heights_and_margins_grow_and_what_is_measured_stays():
    before = drawn()
    large = enlarge_figure(before, 2)
    layout, (trace,) = large["layout"], large["data"]
    assert (layout["height"], layout["margin"], layout["font"]["size"]) == (400, {"l": 20, "t": 0}, 24)
    assert layout["xaxis"]["tickfont"]["size"] == 22 and layout["annotations"][0]["font"]["size"] == 18
    assert trace["line"]["width"] == 4 and trace["textfont"]["size"] == 20
    assert list(trace["y"]) == [12, 18] and list(layout["xaxis"]["range"]) == [0, 3]
    assert layout["annotations"][0]["x"] == 1 and before["layout"] == drawn()["layout"]
