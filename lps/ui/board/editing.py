"""The menu that adds a chart to a board, and the menu of each chart that changes, moves or removes it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from lps.tables import boards
from lps.tables.boards import BoardChart
from lps.ui.shared import url_fields

_LOGS = {"": "Linear", "y": "Log y", "x": "Log x", "xy": "Log x and y"}


def offer_new_chart(charts: Sequence[BoardChart], titles: Mapping[str, str], groupings: Mapping[str, str]) -> None:
    """Show the menu that adds a chart."""
    with st.popover("Add a chart", icon=":material/add_chart:", type="tertiary"):
        if len(charts) >= boards.MAX_CHARTS:
            st.caption(f"A board has at most {boards.MAX_CHARTS} charts.")
            return
        _ask_chart_fields("new", BoardChart(), titles, groupings)
        st.button("Add", icon=":material/add:", key="add_chart", on_click=_add_chart, args=(list(charts),))


def show_chart_menu(
    number: int, charts: Sequence[BoardChart], titles: Mapping[str, str], groupings: Mapping[str, str]
) -> None:
    """Show the menu of a chart."""
    chart, key_prefix = charts[number], f"chart{number}"
    with st.popover("Change", icon=":material/tune:", type="tertiary"):
        _set_chart_fields(key_prefix, chart)
        _ask_chart_fields(key_prefix, chart, titles, groupings, on_change=_change_chart, args=(number, list(charts)))
        with st.container(horizontal=True, gap="small"):
            st.button("Move up", key=f"{key_prefix}_up", icon=":material/arrow_upward:", on_click=_move_chart,
                      args=(number, list(charts), -1), disabled=number == 0)  # fmt: skip
            st.button("Remove", key=f"{key_prefix}_remove", icon=":material/delete:", on_click=_remove_chart,
                      args=(number, list(charts)), disabled=len(charts) == 1)  # fmt: skip


def _ask_chart_fields(
    key_prefix: str, chart: BoardChart, titles: Mapping[str, str], groupings: Mapping[str, str], **options
) -> None:
    """Show the fields of a chart; their keys begin with `key_prefix`."""
    y_titles = {chart.y: chart.y} | dict(titles)
    x_titles = {**boards.X_AXIS_TITLES, chart.x: boards.X_AXIS_TITLES.get(chart.x, chart.x), **titles}
    group_titles = {chart.by: chart.by} | dict(groupings)
    st.selectbox(
        "Measurement", list(y_titles), format_func=lambda name: titles.get(name, name), key=f"{key_prefix}_y", **options
    )
    st.selectbox(
        "X axis", list(x_titles), format_func=lambda name: x_titles.get(name, name), key=f"{key_prefix}_x", **options
    )
    help_text = "If a line stands for several runs, it is their mean, with a band of ± one standard deviation"
    st.selectbox(
        "One line per",
        list(group_titles),
        format_func=lambda k: group_titles.get(k, k),
        key=f"{key_prefix}_by",
        help=help_text,
        **options,
    )
    help_text = "A larger value averages over more epochs. A pale line shows the recorded values"
    st.slider("Smoothing", 0.0, boards.MAX_SMOOTH, step=0.01, key=f"{key_prefix}_smooth", help=help_text, **options)
    st.segmented_control("Axes", list(_LOGS), format_func=_LOGS.get, key=f"{key_prefix}_log", required=True, **options)


def _set_chart_fields(key_prefix: str, chart: BoardChart) -> None:
    for name in ("y", "x", "by", "smooth", "log"):
        url_fields.set_widget(f"{key_prefix}_{name}", getattr(chart, name))


def _chart_from_fields(key_prefix: str) -> BoardChart:
    values = {name: st.session_state.get(f"{key_prefix}_{name}") for name in ("y", "x", "by", "smooth", "log")}
    return BoardChart(**{name: value for name, value in values.items() if value is not None})


def _write_charts(charts: Sequence[BoardChart]) -> None:
    st.query_params["chart"] = [chart.text for chart in charts]


def _add_chart(charts: list[BoardChart]) -> None:
    _write_charts([*charts, _chart_from_fields("new")])


def _change_chart(number: int, charts: list[BoardChart]) -> None:
    charts[number] = replace(_chart_from_fields(f"chart{number}"))
    _write_charts(charts)


def _move_chart(number: int, charts: list[BoardChart], offset: int) -> None:
    charts.insert(number + offset, charts.pop(number))
    _write_charts(charts)


def _remove_chart(number: int, charts: list[BoardChart]) -> None:
    _write_charts(charts[:number] + charts[number + 1 :])
