"""The pieces of the Search page: which searches there are, and one of them as it goes on.

The search that is looked at stands in the page's address. A search lives in its files alone: this page may be closed.
"""

import streamlit as st

from lps.charts import search_charts
from lps.errors import UserError
from lps.machine.detached_jobs import last_line
from lps.settings import cli_args
from lps.settings.parameters import text_of
from lps.studies import search, search_results, sweeps
from lps.studies.search import Search
from lps.studies.search_results import SearchResult, Trial
from lps.studies.sweep_layout import SweepSpec
from lps.ui.forms import named_list, start_runs
from lps.ui.search import form
from lps.ui.server import routing
from lps.ui.shared import data_table, error_toasts, escape, live_part, select, theme
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import code_of, plot
from lps.wording import counted

_TICK_S = 2.0  # while a driver is at work
_SEEDS = (0, 1, 2)  # with which the best settings are run again
_SWEEP_ASKED = "search_best_asked"
_STATES = {
    "new": ("Not started", "gray"),
    "running": ("Running", "blue"),
    "stopping": ("Stopping", "orange"),
    "stopped": ("Stopped", "gray"),
    "interrupted": ("Interrupted", "orange"),
    "finished": ("Finished", "green"),
}
_HALF = 420  # pixels, the least width of a chart that stands beside another


def main() -> None:
    """The whole page."""
    begun = start_runs.start_requested("search", form.begin_search)
    if begun:
        st.query_params.from_dict({"search": begun})
    named_list.show_list(
        "search", "search", search.list_searches(select.runs_root()), _show_form, _show_line, _show_search
    )


def _show_form() -> None:
    search.load_optuna()
    form.show_search_form()


# ---------------------------------------------------------------------------------------------------- list


def _show_line(one: Search) -> None:
    try:
        result = search_results.read_results(one, with_importance=False)
    except UserError as error:
        st.markdown(f":red[{escape.markdown(str(error))}]", width="stretch")
        return
    st.markdown(_describe_search(result), width="stretch")
    best = f" · best {result.best.value:.3f}" if result.best else ""
    st.markdown(f"{result.num_ended} of {counted(result.request.trials, 'trial')}{best}", width="content")
    _show_badge(result)


def _describe_search(result: SearchResult) -> str:
    request = result.request
    words = [request.base.method, request.base.dataset, ", ".join(item.name for item in request.space)]
    hidden = " · :orange[**oracle: uses the hidden labels**]" if result.objective.hidden else ""
    return escape.markdown(" · ".join(words)) + hidden


def _show_badge(result: SearchResult) -> None:
    label, color = _STATES[result.state]
    st.badge(label, color=color)


# ---------------------------------------------------------------------------------------------------- one search


def _show_search(one: Search) -> None:
    """One search: how far it is, what it has found, what can be done with it."""
    _start_requested(one)
    error_toasts.show_errors("search")
    result = _read_result(one)
    if result is not None:
        live_part.follow_changes(
            lambda: _read_result(one), _is_moving, lambda result: _show_course(one, result), _TICK_S, result
        )


def _read_result(one: Search) -> SearchResult | None:
    try:
        return search_results.read_results(one, with_importance=False)
    except UserError as error:
        st.error(escape.markdown(str(error)), icon=":material/error:")
        return None


def _is_moving(result: SearchResult | None) -> bool:
    return result is not None and result.state in ("running", "stopping")


def _show_course(one: Search, result: SearchResult | None) -> None:
    """Everything that changes."""
    if result is None:
        return
    _show_head(one, result)
    _show_actions(one, result)
    if not result.trials:
        is_going_on = _is_moving(result)
        st.caption("The first trial appears here in a moment." if is_going_on else "There are no trials yet.")
        return
    _show_best(one, result)
    _show_charts(one, result)
    _show_trials(result)


def _show_head(one: Search, result: SearchResult) -> None:
    request, objective = result.request, result.objective
    st.caption(_describe_search(result))
    if objective.hidden:
        st.warning(escape.markdown(objective.description), icon=":material/visibility:")
    else:
        st.caption(escape.markdown(f"Objective: {objective.title}. {objective.description}"))
    names = {"complete": "finished", "pruned": "stopped early", "failed": "failed", "running": "running"}
    counts = [f"{result.count(state)} {word}" for state, word in names.items() if result.count(state)]
    words = " · ".join([f"{result.num_ended} of {counted(request.trials, 'trial')}", *counts])
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, result.num_ended / request.trials), text=words)
        _show_badge(result)
    if result.state == "interrupted":
        last_words = last_line(one.log)
        why = f" Last message: {last_words}" if last_words else ""
        st.info(escape.markdown(f"The search process ended before the last trial. All finished trials are saved.{why}"),
                icon=":material/pause_circle:")  # fmt: skip


def _show_actions(one: Search, result: SearchResult) -> None:
    """Stop what goes on, go on with what does not, or ask for more trials."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        if result.state == "running":
            st.button("Stop the search", key="search_stop", icon=":material/stop_circle:", on_click=_stop_search,
                      args=(one,), help="The runs of the search save a checkpoint first. You can resume the search "
                                        "later.")  # fmt: skip
        elif result.state in ("new", "stopped", "interrupted"):
            st.button("Resume", key="search_resume", type="primary", icon=":material/play_circle:",
                      on_click=_continue_search, args=(one, 0))  # fmt: skip
        elif result.state == "finished":
            st.button(
                "10 more trials", key="search_more", icon=":material/add:", on_click=_continue_search, args=(one, 10)
            )


def _stop_search(one: Search) -> None:
    with error_toasts.keep_errors("search"):
        search.request_state(one, "stop")


def _continue_search(one: Search, more: int) -> None:
    with error_toasts.keep_errors("search"):
        if more:
            search.extend_search(one, trials=one.request().trials + more)
        search.start_driver(one)


# ---------------------------------------------------------------------------------------------------- best


def _show_best(one: Search, result: SearchResult) -> None:
    best = result.best
    if best is None:
        return
    label = "Best by the oracle" if result.objective.hidden else "Best so far"
    with st.container(border=True):
        settings = ", ".join(f"{name}={_format_value(value)}" for name, value in best.values.items())
        st.markdown(f"**{label}: {best.value:.4f}** in trial {best.number} · {escape.markdown(settings)}")
        st.caption(
            "The best of many trials looks better than it is. Run its settings with several seeds before you trust "
            "this number."
        )
        try:
            link = launch_link(result, best)
        except UserError as error:
            st.error(escape.markdown(f"These settings cannot be combined: {error}."), icon=":material/error:")
            return
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.button(f"Run with seeds {', '.join(map(str, _SEEDS))}", key="search_best", on_click=_ask_best,
                      icon=":material/rocket_launch:", args=(str(one.folder), best.number))  # fmt: skip
            st.page_link("pages/launch.py", label="Open in the launch form", icon=":material/edit:", width="content",
                         query_params=link)  # fmt: skip
        with st.expander("The same on the command line"):
            st.code(search_results.sweep_command(result.request, best, _SEEDS), language="bash",
                    wrap_lines=True)  # fmt: skip


def launch_link(result: SearchResult, best: Trial) -> dict[str, str | list[str]]:
    """The address of the launch form that asks for a trial's settings with several seeds."""
    settings = search_results.settings_of(result.request, best)
    base = result.request.base
    link: dict[str, str | list[str]] = {"dataset": base.dataset, "method": base.method}
    link["seeds"] = ", ".join(map(str, _SEEDS))
    return link | {"set": cli_args.format_settings(settings)}


def _ask_best(folder: str, number: int) -> None:
    st.session_state[_SWEEP_ASKED] = folder, number


def _start_requested(one: Search) -> None:
    """Start the sweep that was clicked on: the best settings with several seeds; the trial's own run is used again."""
    folder, number = st.session_state.get(_SWEEP_ASKED, ("", -1))
    if folder != str(one.folder):
        return
    st.session_state.pop(_SWEEP_ASKED)
    with error_toasts.keep_errors("search"):
        result = search_results.read_results(one, with_importance=False)
        if number >= len(result.trials):
            raise UserError("search", f"trial {number} was not found")
        settings = search_results.settings_of(result.request, result.trials[number])
        fixed, base = {key: text_of(value) for key, value in settings.items()}, result.request.base
        layout = SweepSpec((base.dataset,), (base.method,), _SEEDS, fixed)
        sweep = sweeps.plan_sweep(layout, select.runs_root(), search_results.sweep_name(result.request))
        routing.turn_to("sweeps", sweep=sweeps.start_sweep(sweep, select.runs_root()).name)


# ---------------------------------------------------------------------------------------------------- charts


def _show_charts(one: Search, result: SearchResult) -> None:
    """All of them, so that whoever watches a search sees each grow."""
    if all(trial.value is None for trial in result.trials):
        st.caption("The charts appear with the first value of a trial.")
        return
    _show_history(one, result)
    with st.grid(columns="auto", min_column_width=_HALF, gap="medium"):
        with st.container(gap="small"):
            _show_importance(one, result)
        if len(result.complete_trials) > 1:
            with st.container(gap="small"):
                _show_parallel(one, result)
    _show_settings(one, result)


def _chart_code(chart: str, one: Search, *about) -> str:
    """The Python of a chart of a search."""
    return code_of(chart, one.name, *about, root=one.root.absolute())


def _show_history(one: Search, result: SearchResult) -> None:
    st.markdown("**History**")
    alt = f"Values of {counted(len(result.trials), 'trial')} and the best so far"
    code = _chart_code("search_history", one)
    plot(search_charts.history(result, theme.current_palette()), f"search_history_{one.name}", alt, code=code)


def _show_importance(one: Search, result: SearchResult) -> None:
    st.markdown("**Which settings mattered**")
    shares = _compute_importance(str(one.folder), one.identity, len(result.complete_trials), one, result)
    if shares:
        alt = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        figure = search_charts.importance(shares, theme.current_palette())
        plot(figure, f"search_importance_{one.name}", f"Importance: {alt}", code=_chart_code("search_importance", one))
    how = (
        "fANOVA: how much of the variance between finished trials each setting explains, over the whole search space. "
    )
    st.caption(f"{how * bool(shares)}{search_results.importance_caution(result)}")


def _show_settings(one: Search, result: SearchResult) -> None:
    st.markdown("**Each setting**")
    colors = theme.current_palette()
    with st.grid(columns="auto", min_column_width=280, gap="small"):
        for dimension in result.request.space:
            figure = search_charts.setting_slice(result, dimension, colors)
            code = _chart_code("search_setting", one, dimension.name)
            plot(figure, f"search_slice_{one.name}_{dimension.name}", f"Value over {dimension.name}", code=code)
    st.caption(
        "Each dot is a trial, with any values of the other settings. Crosses are trials that were stopped early."
    )


def _show_parallel(one: Search, result: SearchResult) -> None:
    st.markdown("**From settings to value**")
    alt = f"{len(result.complete_trials)} finished trials as lines through their settings"
    code = _chart_code("search_lines", one)
    plot(search_charts.parallel(result, theme.current_palette()), f"search_parallel_{one.name}", alt, code=code)
    st.caption("One line per finished trial, from its settings to its value; the thick line is the best trial.")


@st.cache_data(max_entries=16, show_spinner=False)
def _compute_importance(
    folder: str, identity: str, complete: int, _one: Search, _result: SearchResult
) -> dict[str, float]:
    """The shares after so many finished trials; the forest is not fitted again on every refresh."""
    try:
        return search_results.read_importance(_one, _result)
    except UserError:
        return {}


def _show_trials(result: SearchResult) -> None:
    st.subheader("Trials", anchor=False)
    trials = result.trials[::-1]
    settings = dict.fromkeys(name for trial in trials for name in trial.values)
    columns = [
        Column("Trial", lambda trial: trial.number),
        Column("State", lambda trial: _state_in_words(trial, result)),
        Column("Value", lambda trial: trial.value, "number", help=result.objective.title, format="%.4f"),
        *(Column(name, [_format_value(trial.values.get(name, "")) for trial in trials]) for name in settings),
        Column("Run", _link_to_runs, "link", help="Opens the runs of this trial", display_text=r"run=([^&]*)"),
        Column("Why", lambda trial: trial.reason),
    ]
    data_table.show_data_table(columns, trials, "The trials")


def _link_to_runs(trial: Trial) -> str:
    return "live?" + "&".join(f"run={run}" for run in trial.runs) if trial.runs else ""


def _state_in_words(trial: Trial, result: SearchResult) -> str:
    """The state of a trial; a star marks the best."""
    marks = {"complete": "finished", "pruned": "stopped early"}
    return marks.get(trial.state, trial.state) + " ★" * (trial == result.best) + " (usual)" * trial.is_default


def _format_value(value) -> str:
    return f"{value:.4g}" if type(value) is float else text_of(value)
