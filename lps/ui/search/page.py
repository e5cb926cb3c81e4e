"""The page Search: the list of searches, and the progress, results and actions of one search.

The URL stores the open search. A search continues after the page is closed; its state is in its files.
"""

from functools import partial

import streamlit as st

from lps.charts import search_charts
from lps.charts.chart import Chart
from lps.errors import UserError
from lps.machine.detached_jobs import last_line
from lps.settings import catalog, cli_args
from lps.settings.parameters import short_text, text_of
from lps.studies import search, search_results, sweeps
from lps.studies.search import Search
from lps.studies.search_results import SearchResult, Trial
from lps.studies.sweep_layout import SweepSpec
from lps.ui.forms import named_list, start_runs
from lps.ui.search import form
from lps.ui.server import routing
from lps.ui.shared import click_errors, data_table, escape, live_part, run_actions, select, theme
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import code_of, plot
from lps.wording import counted, percent

_TICK_S = 2.0  # while a driver is at work
_SEEDS = (0, 1, 2)  # with which the best settings are run again
_BEST = "best_of_search"  # the start of the best settings with several seeds
_STATES = {
    "new": ("Not started", "gray"),
    "running": ("Running", "blue"),
    "stopping": ("Stopping", "orange"),
    "stopped": ("Stopped", "gray"),
    "interrupted": ("Interrupted", "orange"),
    "finished": ("Finished", "green"),
}
_MIN_CHART_WIDTH = 420  # pixels of a chart beside another one


def main() -> None:
    """Draw the page."""
    started_name = start_runs.start_requested("search", form.begin_search)
    if started_name:
        st.query_params.from_dict({"search": started_name})
    named_list.show_list(
        "search", "search", search.list_searches(select.runs_root()), _show_form, _show_line, _show_search
    )


def _show_form() -> None:
    search.load_optuna()
    form.show_search_form()


# ---------------------------------------------------------------------------------------------------- list


def _show_line(entry: Search) -> None:
    try:
        result = search_results.read_results(entry, with_importance=False)
    except UserError as error:
        st.markdown(f":red[{escape.sentence(error)}]", width="stretch")
        return
    best = f" · best {result.best.value:.3f}" if result.best else ""
    st.markdown(f"{result.num_ended} of {counted(result.request.trials, 'trial')}{best}", width="content")
    _show_badge(result)
    st.caption(_describe_search(result))


def _describe_search(result: SearchResult) -> str:
    request = result.request
    method = catalog.method_info(request.base.method).title
    parts = [method, request.base.dataset, ", ".join(item.name for item in request.space)]
    hidden = " · :orange[**oracle: uses the hidden labels**]" if result.objective.hidden else ""
    return escape.markdown(" · ".join(parts)) + hidden


def _show_badge(result: SearchResult) -> None:
    label, color = _STATES[result.state]
    st.badge(label, color=color)


# ---------------------------------------------------------------------------------------------------- one search


def _show_search(entry: Search) -> None:
    """Show a search: its progress, results and actions."""
    start_runs.start_requested(_BEST, partial(_start_best, entry))
    click_errors.show_errors(_BEST)
    result = _read_result(entry)
    if result is not None:
        live_part.follow_changes(
            lambda: _read_result(entry), _is_moving, lambda result: _show_course(entry, result), _TICK_S, result
        )


def _read_result(entry: Search) -> SearchResult | None:
    try:
        return search_results.read_results(entry, with_importance=False)
    except UserError as error:
        st.error(escape.sentence(error), icon=":material/error:")
        return None


def _is_moving(result: SearchResult | None) -> bool:
    return result is not None and result.state in ("running", "stopping")


def _show_course(entry: Search, result: SearchResult | None) -> None:
    """Show the part of the page that changes."""
    if result is None:
        return
    _show_head(entry, result)
    _show_actions(entry, result)
    if not result.trials:
        is_moving = _is_moving(result)
        st.caption("The first trial appears here in a moment." if is_moving else "There are no trials yet.")
        return
    _show_best(entry, result)
    _show_charts(entry, result)
    _show_trials(result)


def _show_head(entry: Search, result: SearchResult) -> None:
    request, objective = result.request, result.objective
    st.caption(_describe_search(result))
    if objective.hidden:
        st.warning(escape.markdown(objective.description), icon=":material/visibility:")
    else:
        st.caption(escape.markdown(f"Objective: {objective.title}. {objective.description}"))
    names = {"complete": "finished", "pruned": "stopped early", "failed": "failed", "running": "running"}
    counts = [f"{result.count(state)} {state_name}" for state, state_name in names.items() if result.count(state)]
    progress_text = " · ".join([f"{result.num_ended} of {counted(request.trials, 'trial')}", *counts])
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, result.num_ended / request.trials), text=progress_text)
        _show_badge(result)
    if result.state == "interrupted":
        log_line = last_line(entry.log)
        log_text = f" Last message: {log_line}" if log_line else ""
        sentence = f"The search process ended before the last trial. All finished trials are saved.{log_text}"
        st.info(escape.markdown(sentence), icon=":material/pause_circle:")


def _show_actions(entry: Search, result: SearchResult) -> None:
    """Show the buttons that stop, resume or extend the search."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        if result.state == "running":
            st.button("Stop the search", key="search_stop", icon=":material/stop_circle:", on_click=_stop_search,
                      args=(entry,), help="The runs of the search save a checkpoint first. You can resume the search "
                                        "later.")  # fmt: skip
        elif result.state in ("new", "stopped", "interrupted"):
            st.button("Resume", key="search_resume", type="primary", icon=":material/play_circle:",
                      on_click=_continue_search, args=(entry, 0))  # fmt: skip
        elif result.state == "finished":
            st.button(
                "10 more trials", key="search_more", icon=":material/add:", on_click=_continue_search, args=(entry, 10)
            )


def _stop_search(entry: Search) -> None:
    with click_errors.keep_errors("search"):
        search.request_state(entry, "stop")


def _continue_search(entry: Search, more_trials: int) -> None:
    with click_errors.keep_errors("search"):
        if more_trials:
            search.extend_search(entry, trials=entry.request().trials + more_trials)
        search.start_driver(entry)


# ---------------------------------------------------------------------------------------------------- best


def _show_best(entry: Search, result: SearchResult) -> None:
    best = result.best
    if best is None:
        return
    label = "Best by the oracle" if result.objective.hidden else "Best so far"
    with st.container(border=True):
        settings = ", ".join(f"{name}={short_text(value)}" for name, value in best.values.items())
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
            request = {"on_click": start_runs.request_start, "args": (_BEST, entry.name, best.number)}
            seeds = ", ".join(map(str, _SEEDS))
            st.button(f"Run with seeds {seeds}", key="search_best", icon=":material/rocket_launch:", **request)
            st.page_link("pages/launch.py", label="Open in the launch form", icon=":material/edit:", width="content",
                         query_params=link)  # fmt: skip
        with st.expander("The same on the command line"):
            command = search_results.sweep_command(result.request, best, _SEEDS)
            st.code(command, language="bash", wrap_lines=True)


def launch_link(result: SearchResult, best: Trial) -> dict[str, str | list[str]]:
    """Return the query parameters of the launch form with a trial's settings and several seeds."""
    settings = search_results.settings_of(result.request, best)
    base = result.request.base
    link: dict[str, str | list[str]] = {"dataset": base.dataset, "method": base.method}
    link["seeds"] = ", ".join(map(str, _SEEDS))
    return link | {"set": cli_args.format_settings(settings)}


def _start_best(entry: Search, name: str, number: int) -> None:
    """Start a sweep of a trial's settings with several seeds, if the search is the one of the request, and turn to it.

    The trial's own run is reused. Raises `UserError`.
    """
    if name != entry.name:
        return
    result = search_results.read_results(entry, with_importance=False)
    if number >= len(result.trials):
        raise UserError("search", f"trial {number} was not found")
    settings = search_results.settings_of(result.request, result.trials[number])
    fixed, base = {key: text_of(value) for key, value in settings.items()}, result.request.base
    layout = SweepSpec((base.dataset,), (base.method,), _SEEDS, fixed)
    sweep = sweeps.plan_sweep(layout, select.runs_root(), search_results.sweep_name(result.request))
    routing.turn_to("sweeps", sweep=sweeps.start_sweep(sweep, select.runs_root()).name)


# ---------------------------------------------------------------------------------------------------- charts


def _show_charts(entry: Search, result: SearchResult) -> None:
    """Show all charts."""
    if all(trial.value is None for trial in result.trials):
        st.caption("The charts appear when the first trial has a value.")
        return
    _show_history(entry, result)
    with st.grid(columns="auto", min_column_width=_MIN_CHART_WIDTH, gap="medium"):
        with st.container(gap="small"):
            _show_importance(entry, result)
        if len(result.complete_trials) > 1:
            with st.container(gap="small"):
                _show_parallel(entry, result)
    _show_settings(entry, result)


def _plot_search(entry: Search, figure: Chart, chart: str, alt: str, *about: str) -> None:
    """Draw a chart of a search. chart, about: name and arguments of the function in `lps.figures` that draws it."""
    code = code_of(chart, entry.name, *about, root=entry.root.absolute())
    plot(figure, "_".join([chart, entry.name, *about]), alt, code=code)


def _show_history(entry: Search, result: SearchResult) -> None:
    st.markdown("**History**")
    alt = f"Values of {counted(len(result.trials), 'trial')} and the best so far"
    _plot_search(entry, search_charts.history(result, theme.current_palette()), "search_history", alt)


def _show_importance(entry: Search, result: SearchResult) -> None:
    st.markdown("**Which settings mattered**")
    shares = _compute_importance(str(entry.folder), entry.identity, len(result.complete_trials), entry, result)
    if shares:
        alt = ", ".join(f"{name} {percent(share)}" for name, share in shares.items())
        figure = search_charts.importance(shares, theme.current_palette())
        _plot_search(entry, figure, "search_importance", f"Importance: {alt}")
    explanation = (
        "A bar shows how much of the variance between finished trials the setting explains, over the whole search "
        "space (fANOVA). "
    )
    st.caption(f"{explanation * bool(shares)}{search_results.importance_caution(result)}")


def _show_settings(entry: Search, result: SearchResult) -> None:
    st.markdown("**Each setting**")
    colors = theme.current_palette()
    with st.grid(columns="auto", min_column_width=280, gap="small"):
        for dimension in result.request.space:
            figure = search_charts.setting_slice(result, dimension, colors)
            _plot_search(entry, figure, "search_setting", f"Value over {dimension.name}", dimension.name)
    st.caption(
        "Each dot is a trial; other settings may differ between the dots. Crosses are trials that were stopped early."
    )


def _show_parallel(entry: Search, result: SearchResult) -> None:
    st.markdown("**From settings to value**")
    alt = f"{len(result.complete_trials)} finished trials as lines through their settings"
    _plot_search(entry, search_charts.parallel(result, theme.current_palette()), "search_lines", alt)
    st.caption("One line per finished trial, from its settings to its value; the thick line is the best trial.")


@st.cache_data(max_entries=16, show_spinner=False)
def _compute_importance(
    folder: str, identity: str, complete: int, _entry: Search, _result: SearchResult
) -> dict[str, float]:
    """Return the importance of settings, cached per number of finished trials because fitting is slow."""
    try:
        return search_results.read_importance(_entry, _result)
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
        *(Column(name, [short_text(trial.values.get(name, "")) for trial in trials]) for name in settings),
        run_actions.open_column("trial_opened", [trial.runs for trial in trials], "Run", shows_id=True),
        Column("Why", lambda trial: trial.reason),
    ]
    data_table.show_data_table(columns, trials, "The trials")


def _state_in_words(trial: Trial, result: SearchResult) -> str:
    """Describe the state of a trial; a star marks the best."""
    marks = {"complete": "finished", "pruned": "stopped early"}
    return marks.get(trial.state, trial.state) + " ★" * (trial == result.best) + " (usual)" * trial.is_default
