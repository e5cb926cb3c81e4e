"""The parts of the page Live: state, numbers and curves, the epoch player, log and settings.

Text of runs (names, reasons, log lines) is shown literally. Each part draws what exists, so the page works for a run in
any state.
"""

import time
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from lps.analysis import run_diff
from lps.charts import class_bars, figures, line_charts, measurements, palette
from lps.charts.chart import Chart
from lps.charts.event_log import History, planned_epochs
from lps.cluster import executors
from lps.cluster.jobs import JOB_FILE
from lps.errors import UserError
from lps.machine import usage
from lps.scheduler import launcher, overview
from lps.scheduler import run_actions as actions
from lps.settings import catalog, config
from lps.settings.parameters import text_of
from lps.store import inherited_files, provenance, titles
from lps.store.runs import Run, State
from lps.ui.forms import fields
from lps.ui.live import cards, epoch_player, unknown_classes
from lps.ui.pictures import coloring, nouns, points
from lps.ui.pictures.point_map import show_map
from lps.ui.server import picture_files
from lps.ui.shared import (
    click_errors,
    data_table,
    epoch_choice,
    escape,
    export_buttons,
    notices,
    run_actions,
    theme,
    time_estimates,
)
from lps.ui.shared.data_table import Column
from lps.ui.shared.history import read_history, read_log_tail
from lps.ui.shared.plot import code_of, plot
from lps.wording import capitalized, counted, data_size, points_between, step_in_words

_NUMBERS = {"seen": "Seen", "novel": "Novel", "all": "All"}


# ---------------------------------------------------------------------------------------------------- state


def show_head(run: Run, state: State, history: History) -> None:
    """Show title, state and the buttons that fit the state; below, the progress or why the run ended."""
    with st.container(gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.subheader(escape.markdown(titles.run_title(run)), anchor=False, width="content")
            theme.state_badge("recorded" if run.is_recorded else state.name)
            st.space("stretch")
            _show_actions(run, state)
        st.caption(
            escape.markdown(
                " · ".join(_describe_run(run, state) + _describe_end(state, history, time.time(), run.is_recorded))
            )
        )
        if origin := inherited_files.parent_in_words(run):
            st.caption(escape.markdown(capitalized(origin)))
        notices.show_labels_of_others(run.config_if_readable(), is_short=True)
    _show_state(run, state, history)
    click_errors.show_errors(run.id, ":material/block:")


def _describe_run(run: Run, state: State) -> list[str]:
    """Describe a run by method, data set, seed and unusual settings; by its name if the settings cannot be read.

    A run that looks for classes in own data is described by what it looks for; its settings are in a tab.
    """
    settings = run.config_if_readable()
    if settings is None:
        return [run.id]
    if titles.looks_in_own_data(run, settings):
        data, novel = titles.data_of(run, settings.dataset), settings.split_num_novel
        planned = [] if state.is_over else [counted(settings.epochs, "epoch")]
        is_free = inherited_files.keeps_class_free(run)
        sought = f"1 novel class, {inherited_files.FREE}" if is_free else f"looks for {counted(novel, 'novel class')}"
        return [data, sought, *planned]
    if not run.meta()["name"]:
        return [run.id]  # the title says the rest
    return [
        titles.method_title(settings.method),
        titles.data_of(run, settings.dataset),
        f"seed {settings.seed}",
        *titles.notable_settings(run),
        run.id,
    ]


def _show_actions(run: Run, state: State) -> None:
    if run.is_recorded:
        link = {"query_params": {"clone": run.id}, "help": "Opens the form with the settings of this recording."}
        st.page_link("pages/launch.py", label="Launch a copy", icon=":material/content_copy:", **link)
        return
    # Runs that failed or crashed have their buttons beside the advice (run_actions.show_failure).
    shown_actions = {"stop", "kill", "resume"} if state.name not in ("failed", "crashed") else ()
    possible_actions = [action for action in actions.possible_actions(run, state) if action in shown_actions]
    if not possible_actions:
        st.empty()  # takes the place of the button of the last state, which would stay until the page is complete
    for action in possible_actions:
        if run_actions.is_pressed(run, state, action):
            _run_action(actions.ACTS[action], run)


def _run_action(action, run: Run) -> None:
    """Carry out an action and draw the page again, or show the reason of a failure."""
    with click_errors.keep_errors(run.id):
        action(run)
    st.rerun()


def _show_state(run: Run, state: State, history: History) -> None:
    """Show the progress of an active run, otherwise a sentence on why it waits or failed."""
    if state.name == "unknown":
        st.warning(escape.markdown(f"{capitalized(state.reason)}."), icon=":material/help:")
    elif state.is_alive:
        share, text = time_estimates.describe_progress(run, state, history, time.time())
        usage_of_run = usage.read_runner_usage(run.read_json("process.json"))
        text += f" · {data_size(usage_of_run.memory)} of memory" if usage_of_run else ""
        if backend := run.desired().on:
            text += f" · {executors.executor_title(backend)} job {run.read_json(JOB_FILE).get('job')}"
        st.progress(share, text=escape.markdown(text))
    elif state.name == "queued" and run.desired().on:
        st.info(escape.markdown(f"{capitalized(state.reason)}."), icon=":material/schedule:")
    elif state.name == "queued":
        _show_queued(run)
    elif state.name == "unreadable":
        text = f"This folder cannot be read as a run. {state.reason}."
        st.error(escape.markdown(text), icon=":material/broken_image:")
    elif state.name in ("failed", "crashed"):
        run_actions.show_failure(run, state, lambda: _run_action(launcher.resume, run))
    else:
        st.empty()  # takes the place of the progress of the last state


def _describe_end(state: State, history: History, now: float, is_recorded: bool = False) -> list[str]:
    """Say when and how a run ended; nothing for a recording."""
    if not state.is_over:
        return []
    parts = [counted(history.last_epoch, "epoch")] if history.last_epoch else []
    parts += [f"ended {overview.time_of_day(history.last_time, now)}"] if history.last_time and not is_recorded else []
    return parts + ([state.reason] if state.name == "stopped" and state.reason else [])


def _show_queued(run: Run) -> None:
    """Show the run's place in the queue, and a link to the queue."""
    sentence = overview.wait_in_words(run)
    st.info(escape.markdown(sentence or "This run has not been started yet."), icon=":material/schedule:")
    if sentence:
        notices.link_queue()


# ---------------------------------------------------------------------------------------------------- numbers, curves


def show_numbers(run: Run, history: History) -> None:
    """Show seen, novel, all, gap and KL with their curves; for a run without known classes, what is known."""
    if history.is_blind:
        unknown_classes.show_numbers(run, history)
        return
    measured = [(label, f"accuracy/{name}", lambda value: f"{100 * value:.1f} %") for name, label in _NUMBERS.items()]
    measured += [("Gap, points", "accuracy/gap", partial(_format_gap, history)), ("KL", "kl", "{:.3f}".format)]
    if len(history.column("accuracy/few")):
        measured.append(("Mean over classes", "accuracy/balanced", lambda value: f"{100 * value:.1f} %"))
    columns = [(label, history.column(name), as_text) for label, name, as_text in measured]
    cards.show_cards(
        [(label, as_text(values.iloc[-1]) if len(values) else "–", values) for label, values, as_text in columns]
    )
    if len(history.column("accuracy/all")):
        st.caption(line_charts.MATCHING)
    notices.show_oracle_note(run)


def _format_gap(history: History, gap: float) -> str:
    """Format the newest gap, of both accuracies as the cards show them."""
    seen, novel = (history.last(f"accuracy/{name}") for name in ("seen", "novel"))
    return f"{100 * gap if seen is None or novel is None else points_between(seen, novel):+z.1f}"


def show_curves(run: Run, history: History) -> None:
    """Plot pretraining until the first epoch of training, then the pace view with pretraining in an expander.

    A run that learns nothing after pretraining has one epoch, and keeps its pretraining in view.
    """
    if 1 >= len(history.epochs) < len(history.pretrain):
        _show_pretraining(run, history)
        return
    if not len(history.epochs):
        return
    epochs, colors = planned_epochs(run, history), theme.current_palette()
    if history.is_blind:
        alt = "Accuracy on withheld labels, cluster sizes, shares of confident predictions, mean margins by epoch"
        figure = unknown_classes.draw_curves(run, history, epochs, colors)
    else:
        alt = "Seen and novel accuracy with the gap between them, KL, mean margins and thresholds over the epochs"
        figure = line_charts.pace(history, epochs, colors)
    _plot_run(run, figure, "pace", alt, code_of("pace", run))
    if len(history.pretrain):
        with st.expander("Pretraining", key=f"pretraining:{run.id}"):
            _show_pretraining(run, history)


def _show_pretraining(run: Run, history: History) -> None:
    if "pretrain/loss" not in history.pretrain:
        st.caption(_reused_in_words(history))
        return
    figure = line_charts.pretraining(history, planned_epochs(run, history, pretraining=True), theme.current_palette())
    alt = "SimCLR loss and quality of the features over the epochs"
    _plot_run(run, figure, "pretraining", alt, code_of("pretraining", run))


def _reused_in_words(history: History) -> str:
    """Say where the start weights of a run without pretraining are from, and their quality."""
    last = history.pretrain.iloc[-1]
    quality_by_label = {
        label: last[name] for name, (label, _) in line_charts.QUALITY.items() if name in last and last[name] >= 0
    }
    quality = ", ".join(f"{label} {100 * value:.1f} %" for label, value in quality_by_label.items())
    sentence = "An earlier run had already made the start weights, so this run skipped pretraining."
    return f"{sentence} Quality of the features: {quality}." if quality else sentence


def show_terms(run: Run, history: History) -> None:
    """Plot loss terms and pseudo-label rates, if the method has them; above them, the time of a step by stage."""
    if not len(history.epochs):
        return
    if step_times := step_in_words(history.epochs.iloc[-1].to_dict()):
        st.caption(step_times)
    epochs, colors = planned_epochs(run, history), theme.current_palette()
    measured, charts = {name.partition("/")[0] for name in history.epochs}, []
    if "loss" in measured:
        alt = "The terms of the loss over the epochs"
        charts.append(("losses", "**Loss terms**, weighted as in the total loss", line_charts.losses, alt))
    if "pseudo_label" in measured:
        title = "**Pseudo-labels**, share and confidence"
        alt = "Share of images with a pseudo-label, and the confidence of these pseudo-labels, over the epochs"
        charts.append(("pseudo_labels", title, line_charts.pseudo_labels, nouns.of(run)(alt)))
    for column, (key, title, draw, alt) in zip(st.columns(len(charts)) if charts else (), charts):
        with column:
            st.markdown(title)
            _plot_run(run, draw(history, epochs, colors), key, alt, code_of(key, run))


def show_class_sizes(run: Run, history: History) -> None:
    """Plot the accuracy of large, medium and small classes and the error of the prior, if class sizes differ."""
    if not len(history.column("accuracy/few")):
        return
    st.markdown("**Classes of unequal size**: accuracy by class size, and how far the prior is from the true shares")
    figure = line_charts.class_sizes(history, planned_epochs(run, history), theme.current_palette())
    alt = "Accuracy of large, medium and small classes, and the error of the prior over the epochs"
    _plot_run(run, figure, "class_sizes", alt, code_of("class_sizes", run))


def show_other_measurements(run: Run, history: History) -> None:
    """Plot each measurement that no other chart draws, on demand."""
    names = measurements.undrawn_measurements(history)
    if not names:
        return
    expander = st.expander("Other measurements", key=f"others:{run.id}", on_change="rerun")
    if not expander.open:
        return
    with expander:
        epochs, colors = planned_epochs(run, history), theme.current_palette()
        with st.grid(columns="auto", min_column_width=300, gap="medium"):
            for name in names[: measurements.MAX_CHARTS]:
                figure = measurements.other_measurement(history, name, epochs, colors)
                code = code_of("measurement", run, name)
                _plot_run(run, figure, f"other:{name}", f"{name} over the epochs", code)
        if len(names) > measurements.MAX_CHARTS:
            st.caption(f"The page Compare shows {counted(len(names) - measurements.MAX_CHARTS, 'more measurement')}.")


def show_comparison(runs: list[Run]) -> None:
    """Plot several runs in one figure, with a table of their newest values."""
    labels = run_diff.short_labels(runs, in_symbols=True)
    colors, pinned = theme.current_palette(), theme.pinned_colors()
    histories = dict(zip(labels, map(read_history, runs)))
    notices.show_left_out(histories)
    for run, history in zip(runs, histories.values()):
        show_head(run, run.state(), history)
    recorded_histories = {label: history for label, history in histories.items() if len(history.epochs)}
    if recorded_histories:
        epochs = max(planned_epochs(run, history) for run, history in zip(runs, histories.values()))
        color_by_label = palette.colors_of_runs({label: run.id for label, run in zip(labels, runs)}, colors, pinned)
        figure = line_charts.pace_of_runs(recorded_histories, epochs, colors, color_by_label)
        alt = "Novel and seen accuracy, KL and mean margin of several runs over the epochs"
        view = " ".join(run.id for run in runs)
        code = code_of("pace_of_runs", runs, pinned=pinned or None)
        plot(figure, "pace_of_runs", alt, code=code, highlight=len(runs) > 1, view=view)
        data_table.show_data_table(_last_columns(), list(recorded_histories.items()), "Newest accuracies of every run")
        methods = [config.method for run in runs if (config := run.config_if_readable())]
        if symbols := titles.explain_symbols(recorded_histories, methods):
            st.caption(escape.markdown(f"{symbols}."))
    else:
        st.caption("No epoch of training has been recorded yet.")


def _last_columns() -> list[Column]:
    """Return the columns of (label of the run, its history)."""
    names = {
        "accuracy/seen": "Seen %",
        "accuracy/novel": "Novel %",
        "accuracy/all": "All %",
        "accuracy/gap": "Gap, points",
    }

    def percent(history: History, name: str) -> float | None:
        value = history.last(name)
        return None if value is None else round(100 * value, 1)

    return [
        Column("Run", lambda row: row[0]),
        Column("Epoch", lambda row: row[1].last_epoch),
        *(
            Column(heading, lambda row, name=name: percent(row[1], name), "number", format="%.1f")
            for name, heading in names.items()
        ),
    ]


def _plot_run(run: Run, figure: Chart, key: str, alt: str, code: str) -> None:
    """Draw a chart of one run, with a zoom of its own for each run. code: the Python that draws it."""
    plot(figure, key, alt, code=code, view=run.id)


# ---------------------------------------------------------------------------------------------------- scrubber


def show_scrubber(run: Run, interval_s: float | None, timer_s: float | None) -> None:
    """Show one epoch of the run: estimated class distribution, accuracy by class and projection, with shared controls.

    interval_s: seconds between two draws while nothing plays. timer_s: those for which the timer is set.
    """
    token = player_token(run)
    has_other_timer = epoch_player.draw_interval(token, interval_s) != timer_s
    if has_other_timer and epoch_player.is_playing(token):
        st.rerun()  # it began to play
    history = read_history(run)
    if not history.last_epoch or not history.seen:
        return
    last_epoch = history.last_epoch
    epoch = epoch_player.epoch_to_show(token, last_epoch)
    is_growing = run.state().is_alive
    epoch_player.show_controls(token, epoch, last_epoch, planned_epochs(run, history), is_growing=is_growing)
    if has_other_timer:
        st.rerun()  # it ceased to play, as the bar says already
    names = points.class_names(run) or [str(i) for i in range(int(history.start.get("classes/total") or 0))]
    left, middle, right = st.columns(3)
    with left:
        _show_distribution(run, history, epoch, names)
    with middle:
        _show_class_accuracy(run, history, epoch, names)
    with right:
        _show_points(run, epoch, names)


def player_token(run: Run) -> str:
    """Return the run's token for the epoch player (lps.ui.live.epoch_player)."""
    return epoch_choice.view_name_of("live", run)


def _show_title(title: str, legend: str) -> None:
    st.markdown(f"**{title}**  \n:small[:blue[seen] · :orange[novel] · :gray[{legend}]]")


def _show_distribution(run: Run, history: History, epoch: int, names: list[str]) -> None:
    estimated = history.vector("pi_hat", epoch)
    _show_title("Estimated class distribution", "dashed: the prior")
    if estimated is None or len(estimated) != len(names):
        st.caption("Not recorded for this epoch.")
        return
    top = float(np.nanmax(history.vectors["pi_hat"].to_numpy()))
    prior = history.vector("class/prior", epoch)
    figure = class_bars.class_distribution(estimated, history.seen, names, theme.current_palette(), top, prior)
    alt = f"Estimated class distribution at epoch {epoch}, compared with the prior"
    _plot_run(run, figure, "pi_hat", alt, code_of("class_distribution", run, epoch))
    link = {"query_params": {"run": run.id, "epoch": str(epoch)}, "icon": ":material/school:"}
    st.page_link("pages/explain.py", label="Explain this epoch", **link)


def _show_class_accuracy(run: Run, history: History, epoch: int, names: list[str]) -> None:
    accuracy = history.vector("class/accuracy", epoch)
    if history.is_blind:
        _show_sizes(run, history, epoch, names)
        return
    _show_title("Accuracy by class", "after matching")
    if accuracy is None or len(accuracy) != len(names):
        st.caption("Not recorded for this epoch.")
        return
    figure = class_bars.class_accuracy(accuracy, history.seen, names, theme.current_palette())
    code = code_of("class_accuracy", run, epoch)
    _plot_run(run, figure, "class_accuracy", f"Accuracy of every class at epoch {epoch}", code)


def _show_sizes(run: Run, history: History, epoch: int, names: list[str]) -> None:
    """Plot the cluster sizes, which replace the accuracy by class if no classes are known."""
    _show_title("Size of the clusters", nouns.of(run)("share of the images"))
    try:
        table = unknown_classes.cluster_shares(run)
        shown_epoch = max(recorded_epoch for recorded_epoch in table.index if recorded_epoch <= epoch)
        sizes = table.loc[shown_epoch].to_numpy()
    except (UserError, ValueError):
        st.caption("Not recorded for this epoch.")
        return
    figure = class_bars.class_distribution(
        sizes, history.seen, names, theme.current_palette(), float(table.to_numpy().max())
    )
    alt = f"Share of the images in every cluster at epoch {epoch}, compared with equal shares"
    _plot_run(run, figure, "cluster_sizes", nouns.of(run)(alt), code_of("cluster_sizes", run, shown_epoch))


def _show_points(run: Run, epoch: int, names: list[str]) -> None:
    try:
        table = points.read_points(run, epoch)
        seen = points.read_partition(run).split.classes.seen
        num_shown = min(len(table), figures.FEW_POINTS)
        about_sample = f"PCA of the features, {num_shown:,} of {len(table):,} {nouns.of(run)('images')}"
        _show_title("Projection", about_sample if num_shown < len(table) else "PCA of the features")
    except UserError as error:
        _show_title("Projection", "PCA of the features")
        st.caption(escape.sentence(error))
        return
    sample = np.linspace(0, len(table) - 1, num_shown).round().astype(int)
    sample, alt = table.iloc[sample], f"Features at epoch {epoch} on the plane of largest variance"
    colors = coloring.color_table(sample, "group", seen, names, theme.current_palette())
    code = code_of("map_of_features", run, epoch, height=260)
    options = {
        "height": 260,
        "scene": run.id,
        "epoch": epoch,
        "pictures": picture_files.address_of_pictures(run),
        "code": code,
    }
    options["noun"] = nouns.of(run)("image")
    show_map(sample, colors, "points", alt, tuple(names), points.axis_limits(run, "pca"), **options)


# ---------------------------------------------------------------------------------------------------- log, settings


def show_log(run: Run) -> None:
    """Show the end of the run's console output."""
    text = read_log_tail(run)
    if text.strip():
        with st.container(height=340, autoscroll=True, border=False, key="log"):
            st.code(text, language=None, wrap_lines=True)
    else:
        st.caption(_explain_missing_log(run))


def _explain_missing_log(run: Run) -> str:
    if run.is_recorded:
        return "A recording has no log."
    state = run.state()
    if state.name == "queued":
        return "The run has not started, so it has no log yet."
    if not state.is_alive:
        return "This run has no log."
    return (
        "The run has printed nothing yet. Its first line usually follows the first epoch; its progress is shown above."
    )


def show_settings(run: Run) -> None:
    """Show every setting, first those that differ from the defaults of the data set and method."""
    try:
        settings = run.config()
    except UserError as error:
        st.caption(escape.sentence(error))
        return
    table = table_of_settings(settings)
    changed = int(table["Changed"].sum())
    st.caption(f"Settings that are not the defaults of the data set and the method: {changed} of {len(table)}.")
    if run.state().is_over and (version_note := provenance.other_version(run)):
        st.caption(escape.markdown(version_note))
    widths = {"Setting": data_table.label_width(table["Setting"]), "Value": "large", "Default": "medium"}
    columns = [Column(head, table[head], "text", width) for head, width in widths.items()]
    columns.append(Column("Changed", table["Changed"], "check", width="small"))
    data_table.show_data_table(columns, table.index, "Every setting with its value and its default")
    export_buttons.show_origin(run)
    method = catalog.method_info(settings.method)
    st.markdown(f"**{escape.markdown(method.title)}**")
    fields.show_meaning(method)
    fields.show_formulas(method, settings.flat())


def table_of_settings(settings: config.Config) -> pd.DataFrame:
    """Return a table with the columns Setting, Value, Default, Changed, without rules that decide nothing."""
    defaults = config.configure({"dataset": settings.dataset, "method": settings.method}).flat()
    values = settings.flat()
    if settings.split_labeled_ratio == 1:  # every label is used, such as those of a folder
        values.pop("split.rule")
    table = pd.DataFrame(
        {
            "Setting": name,
            "Value": text_of(value),
            "Default": text_of(defaults[name]),
            "Changed": value != defaults[name],
        }
        for name, value in values.items()
    )
    return table.sort_values("Changed", ascending=False, kind="stable", ignore_index=True)
