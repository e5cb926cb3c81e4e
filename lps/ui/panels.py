"""The parts of the Live page: how a run stands, its numbers and curves, the epoch scrubber, its log and settings.

Text of runs (names, reasons, log lines) is shown as it is written. A part draws whatever exists and is silent or says
one sentence about the rest, so a page works for a run in any state.
"""

import math
import time

import numpy as np
import pandas as pd
import streamlit as st

from lps import catalog, config, costs, launcher, queue, slurm, usage, wishes
from lps.parameters import ConfigError, text_of
from lps.runs import Run, State
from lps.ui import cards, charts, epoch_choice, escape, failures, fields, partners, points, replay, select, style
from lps.ui.live import History, history, log_tail
from lps.ui.plot import plot

PHASES = {"prepare": "Preparing", "pretrain": "Pretraining", "train": "Training"}
NUMBERS = {"seen": "Seen", "novel": "Novel", "all": "All"}
CLOCK = "live"


# ---------------------------------------------------------------------------------------------------- how it stands


def show_head(run: Run, state: State, past: History) -> None:
    """Title, state, the buttons that fit the state; below, how far it is or why it ended."""
    with st.container(gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.subheader(escape.markdown(select.title(run)), anchor=False, width="content")
            style.badge("recorded" if run.is_recorded else state.name)
            st.space("stretch")
            _show_actions(run, state)
        st.caption(escape.markdown(" · ".join(about(run) + ending(state, past, time.time(), run.is_recorded))))
    _show_standing(run, state, past)
    _show_refusal(run)


def about(run: Run) -> list[str]:
    """Method, data set, seed, unusual settings, the folder's name; the name alone where the settings cannot be read."""
    try:
        settings = run.config()
    except ConfigError:
        return [run.id]
    return [settings.method.upper(), settings.dataset, f"seed {settings.seed}", *partners.changes(run), run.id]


def _show_actions(run: Run, state: State) -> None:
    key = f"{run.id}-action"
    if state.name in ("starting", "running", "queued"):
        word = "Cancel" if state.name == "queued" else "Stop"
        if st.button(word, key=key, icon=":material/stop:", help="Saves a checkpoint first; the run can be resumed."):
            _ask(launcher.stop, run)
        return
    if run.is_recorded:
        link = {"query_params": {"clone": run.id}, "help": "Opens the form with the settings of this recording."}
        st.page_link("pages/launch.py", label="Launch a copy", icon=":material/content_copy:", **link)
    # What failed or crashed has its buttons beside the advice (lps.ui.failures).
    if state.name == "stopped" and st.button(
        "Resume", key=key, icon=":material/play_arrow:", help="Goes on from the last checkpoint."
    ):
        _ask(launcher.resume, run)


def _ask(action, run: Run) -> None:
    """Carry out what a button says, then draw the page anew; the reason where it cannot be done."""
    try:
        action(run)
    except ConfigError as error:
        st.session_state["refusal"] = (run.id, str(error))
    st.rerun()


def _show_refusal(run: Run) -> None:
    """Why the last press of a button did nothing, once."""
    who, reason = st.session_state.get("refusal", ("", ""))
    if who == run.id:
        del st.session_state["refusal"]
        st.error(escape.markdown(reason), icon=":material/block:")


def _show_standing(run: Run, state: State, past: History) -> None:
    """Progress while the run is alive; one sentence with the reason where it waits or went wrong."""
    if state.name == "unknown":
        st.warning(escape.markdown(f"{state.reason[:1].upper()}{state.reason[1:]}."), icon=":material/help:")
    elif state.is_alive:
        share, words = progress(run, state, past, time.time())
        used = usage.of_run(run)
        words += f" · {costs.size_in_words(used.memory)} of memory" if used else ""
        words += f" · SLURM job {run.read_json(slurm.RECORD).get('job')}" if run.wish().on else ""
        st.progress(share, text=escape.markdown(words))
    elif state.name == "queued" and run.wish().on:
        st.info(escape.markdown(f"{state.reason[:1].upper()}{state.reason[1:]}."), icon=":material/schedule:")
    elif state.name == "queued":
        _show_queued(run)
    elif state.name == "unreadable":
        words = f"This folder cannot be read as a run. {state.reason}."
        st.error(escape.markdown(words), icon=":material/broken_image:")
    elif state.name in ("failed", "crashed"):
        failures.show(run, state, lambda: _ask(launcher.resume, run))


def progress(run: Run, state: State, past: History, now: float) -> tuple[float, str]:
    """(share of the phase in [0, 1], what is going on in words) of a run that is alive."""
    stored = run.read_json("progress.json")
    epoch, epochs = _number(stored, "epoch"), _number(stored, "epochs")
    step, steps = _number(stored, "step"), _number(stored, "steps")
    if state.name == "starting" or not stored:
        return 0.0, "Starting: the training process loads its libraries and the data"
    phase = PHASES.get(str(stored.get("phase")), "")
    table = {"Pretraining": past.pretrain, "Training": past.epochs}.get(phase, ())
    recorded = table.index[-1] if len(table) else 0
    words = [phase or "Working"]
    if epochs:
        words.append(f"{max(epoch, recorded):.0f} of {epochs:.0f} epochs done")
    if state.name == "stopping":
        words.append("stopping after a checkpoint")
    left = _number(stored, "eta_s") - max(0.0, now - _number(stored, "time", now))
    if left > 0 and state.name == "running":
        words.append(f"{duration(left)} of {phase.lower()} left" if phase else f"{duration(left)} left")
    if past.last_time:
        words.append(f"last record {duration(now - past.last_time)} ago")
    share = step / steps if steps else epoch / epochs if epochs else 0
    return float(np.clip(share, 0, 1)), " · ".join(words)


def ending(state: State, past: History, now: float, is_recorded: bool = False) -> list[str]:
    """When and how a run that is over ended; of a recording nobody asks when."""
    if not state.is_over:
        return []
    words = [f"{past.last_epoch} epochs"] if past.last_epoch else []
    words += [f"ended {duration(now - past.last_time)} ago"] if past.last_time and not is_recorded else []
    return words + ([state.reason] if state.name == "stopped" and state.reason else [])


def duration(seconds: float) -> str:
    """A time span in its largest fitting unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def _show_queued(run: Run) -> None:
    """The run's place in the queue; the first of it begins where a place is free."""
    try:
        launcher.pump(run.root)  # nobody else may be left to notice
    except (ConfigError, OSError) as error:
        st.error(escape.markdown(str(error)), icon=":material/error:")
    before, reason = queue.position(run), wishes.in_words(run.wish())
    words = {None: "It has not been started yet.", 0: "Waiting for a free place; it is next."}
    said = words.get(before, f"Waiting for a free place; {before} before it.")
    if before is not None and queue.read_switch(run.root).paused:
        said = "Waiting: the queue is paused."
    elif before is not None and reason:
        said = f"Waiting: {reason}."
    st.info(escape.markdown(said), icon=":material/schedule:")


def _number(stored: dict, name: str, otherwise: float = 0.0) -> float:
    value = stored.get(name)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else otherwise


# ---------------------------------------------------------------------------------------------------- numbers, curves


def show_numbers(past: History) -> None:
    """Seen, novel, all, gap and KL, now and as a line over the epochs."""
    shown = [(word, f"accuracy/{name}", lambda value: f"{100 * value:.1f} %") for name, word in NUMBERS.items()]
    shown += [("Gap, points", "accuracy/gap", lambda value: f"{100 * value:+z.1f}"), ("KL", "kl", "{:.3f}".format)]
    columns = [(word, past.column(name), as_text) for word, name, as_text in shown]
    cards.show([(word, as_text(values.iloc[-1]) if len(values) else "–", values) for word, values, as_text in columns])
    if len(past.column("accuracy/all")):
        st.caption(charts.MATCHING)


def show_curves(run: Run, past: History) -> None:
    """Pretraining until there are records of training, then the pace view with pretraining folded away under it.

    A run that learns nothing after pretraining has one epoch, and keeps its pretraining in view.
    """
    if 1 >= len(past.epochs) < len(past.pretrain):
        _show_pretraining(run, past)
        return
    if not len(past.epochs):
        return
    epochs, colors = _planned(run, "epochs", past), style.palette()
    alt = "Seen and novel accuracy with the gap between them, KL, mean margins and thresholds over the epochs"
    plot(_of(charts.pace(past, epochs, colors), run), "pace", alt)
    if len(past.pretrain) > 1:
        with st.expander("Pretraining", key=f"pretraining:{run.id}"):
            _show_pretraining(run, past)


def _show_pretraining(run: Run, past: History) -> None:
    figure = charts.pretraining(past, _planned(run, "pretrain_epochs", past), style.palette())
    plot(_of(figure, run), "pretraining", "SimCLR loss and quality of the features over the epochs")


def show_terms(run: Run, past: History) -> None:
    """Loss terms and pseudo-label rates, side by side."""
    if not len(past.epochs):
        return
    epochs, colors = _planned(run, "epochs", past), style.palette()
    left, right = st.columns(2)
    with left:
        st.markdown("**Loss terms**, as they enter the sum")
        plot(_of(charts.losses(past, epochs, colors), run), "losses", "The terms of the loss over the epochs")
    with right:
        st.markdown("**Pseudo-labels**, share and confidence")
        figure = charts.pseudo_labels(past, epochs, colors)
        plot(_of(figure, run), "pseudo_labels", "Share and confidence of confident pseudo-labels over the epochs")


def show_comparison(runs: list[Run]) -> None:
    """Curves of several runs in one figure, and where each of them stands."""
    pasts = {select.label(run): history(run) for run in runs}
    for run, past in zip(runs, pasts.values()):
        show_head(run, run.state(), past)
    recorded = {label: past for label, past in pasts.items() if len(past.epochs)}
    if recorded:
        epochs = max(_planned(run, "epochs", past) for run, past in zip(runs, pasts.values()))
        figure = charts.pace_of_runs(recorded, epochs, style.palette())
        figure.update_layout(uirevision=" ".join(run.id for run in runs))
        plot(figure, "pace_of_runs", "Novel and seen accuracy, KL and mean margin of several runs over the epochs")
        if partners.kl_is_mixed(runs):
            st.caption(charts.MIXED_KL)
        table = last_values(recorded)
        exact = {word: st.column_config.NumberColumn(format="%.1f") for word in table if word != "Epoch"}
        st.dataframe(table, width="stretch", column_config=exact)
    else:
        st.caption("No epoch of training has been recorded yet.")


def last_values(pasts: dict[str, History]) -> pd.DataFrame:
    """The newest accuracies of several runs in percent, one row a run."""
    names = {"accuracy/seen": "Seen %", "accuracy/novel": "Novel %", "accuracy/all": "All %", "accuracy/gap": "Gap pts"}
    rows = {}
    for label, past in pasts.items():
        values = {word: past.last(name) for name, word in names.items()}
        rows[label] = {"Epoch": past.last_epoch} | {
            word: round(100 * value, 1) if value is not None else None for word, value in values.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Run")


def _planned(run: Run, field: str, past: History) -> int:
    """How many epochs were asked for; what was recorded where the settings cannot be read."""
    try:
        planned = getattr(run.config(), field)
    except ConfigError:
        planned = 0
    recorded = past.pretrain if field == "pretrain_epochs" else past.epochs
    return max(planned, int(recorded.index[-1]) if len(recorded) else 1)


def _of(figure, run: Run):
    """The figure with a view (zoom) of its own for each run."""
    return figure.update_layout(uirevision=run.id)


# ---------------------------------------------------------------------------------------------------- scrubber


def show_scrubber(run: Run, tick: float | None, seconds: float | None) -> None:
    """One epoch of the run: its estimated class distribution, per-class accuracy and projection, moved together.

    tick: seconds between two draws where nothing plays. seconds: those for which the timer is set.
    """
    token = token_of(run)
    has_other_timer = replay.interval(token, tick) != seconds
    if has_other_timer and replay.is_playing(token):
        st.rerun()  # it began to play
    past = history(run)
    if not past.last_epoch or not past.seen:
        return
    last = past.last_epoch
    epoch = replay.moment(token, last)
    is_growing = run.state().is_alive
    replay.bar(token, epoch, last, _planned(run, "epochs", past), CLOCK, is_growing=is_growing, has_speed=False)
    if has_other_timer:
        st.rerun()  # it ceased to play, as the bar says already
    names = _class_names(run, past)
    left, middle, right = st.columns(3)
    with left:
        _show_distribution(run, past, epoch, names)
    with middle:
        _show_class_accuracy(run, past, epoch, names)
    with right:
        _show_points(run, epoch, names)


def token_of(run: Run) -> str:
    """What the replay of the run's epochs goes by (lps.ui.replay)."""
    return epoch_choice.place_of("live", run)


def _class_names(run: Run, past: History) -> list[str]:
    try:
        return list(points.partition(run).split.class_names)
    except ConfigError:
        return [str(class_id) for class_id in range(int(past.start.get("classes/total") or 0))]


def _show_title(title: str, more: str) -> None:
    st.markdown(f"**{title}**  \n:small[:blue[seen] · :orange[novel] · :gray[{more}]]")


def _show_distribution(run: Run, past: History, epoch: int, names: list[str]) -> None:
    estimated = past.vector("pi_hat", epoch)
    _show_title("Estimated class distribution", "dashed: the prior")
    if estimated is None or len(estimated) != len(names):
        st.caption("Not recorded for this epoch.")
        return
    top = float(np.nanmax(past.vectors["pi_hat"].to_numpy()))
    figure = charts.class_distribution(estimated, past.seen, names, style.palette(), top)
    plot(_of(figure, run), "pi_hat", f"Estimated class distribution at epoch {epoch}, beside the prior")
    link = {"query_params": {"run": run.id, "epoch": str(epoch)}, "icon": ":material/school:"}
    st.page_link("pages/explain.py", label="Explain this epoch", **link)


def _show_class_accuracy(run: Run, past: History, epoch: int, names: list[str]) -> None:
    accuracy = past.vector("class/accuracy", epoch)
    _show_title("Accuracy by class", "after matching")
    if accuracy is None or len(accuracy) != len(names):
        st.caption("Not recorded for this epoch.")
        return
    figure = charts.class_accuracy(accuracy, past.seen, names, style.palette())
    plot(_of(figure, run), "class_accuracy", f"Accuracy of every class at epoch {epoch}")


def _show_points(run: Run, epoch: int, names: list[str]) -> None:
    try:
        table = points.table(run, epoch)
        seen = points.partition(run).split.classes.seen
        shown = min(len(table), charts.FEW_POINTS)
        thinned = f"PCA, {shown:,} of {len(table):,}"
        _show_title("Projection", thinned if shown < len(table) else "PCA of the features")
    except ConfigError as error:
        _show_title("Projection", "PCA of the features")
        st.caption(escape.markdown(f"{error}."))
        return
    figure = charts.projection(table, "group", style.palette(), seen, names, height=260)
    figure.update_layout(showlegend=False, margin={"t": 8})
    plot(_of(figure, run), "points", f"Features at epoch {epoch} on the plane of largest variance")


# ---------------------------------------------------------------------------------------------------- log, settings


def show_log(run: Run) -> None:
    """The end of the run's console output."""
    text = log_tail(run)
    if text.strip():
        with st.container(height=340, autoscroll=True, border=False, key="log"):
            st.code(text, language=None, wrap_lines=True)
    else:
        st.caption(_no_log(run))


def _no_log(run: Run) -> str:
    if run.is_recorded:
        return "A recording has no log."
    return "No log was kept of this run." if run.state().is_over else "Nothing has been printed yet."


def show_settings(run: Run) -> None:
    """Every setting, those first that differ from the defaults of the data set and method."""
    try:
        settings = run.config()
    except ConfigError as error:
        st.caption(escape.markdown(f"{error}."))
        return
    table = settings_table(settings)
    changed = int(table["Changed"].sum())
    st.caption(f"{changed or 'None'} of the {len(table)} settings differ from the defaults of data set and method.")
    boxes = {"Changed": st.column_config.CheckboxColumn(width="small")}
    st.dataframe(table, width="stretch", hide_index=True, column_config=boxes)
    method = catalog.method_info(settings.method)
    st.markdown(f"**{escape.markdown(method.title)}**")
    fields.show_method(method)


def settings_table(settings: config.Config) -> pd.DataFrame:
    """Setting, Value, Default, Changed."""
    usual = config.configure({"dataset": settings.dataset, "method": settings.method}).flat()
    flat = settings.flat()
    table = pd.DataFrame(
        {"Setting": name, "Value": text_of(value), "Default": text_of(usual[name]), "Changed": value != usual[name]}
        for name, value in flat.items()
    )
    return table.sort_values("Changed", ascending=False, kind="stable", ignore_index=True)
