"""How long runs take and go on, for every page from the same source (`lps.running.overview`, `lps.running.costs`)."""

import time

import numpy as np
import streamlit as st

from lps.charts.event_log import History
from lps.machine import devices
from lps.running import costs, guesses, overview
from lps.running.costs import Span
from lps.running.overview import Durations
from lps.settings.config import Config
from lps.store import wishes
from lps.store.runs import Run, State
from lps.ui.shared import select
from lps.wording import ago, counted

PHASES = {  # of progress.json, as people read them
    "prepare": "Preparing",
    "features": "Computing features",
    "pretrain": "Pretraining",
    "train": "Training",
}

_KNOWN_S = 30  # how long durations of finished runs are kept


def durations() -> Durations:
    """What has run, asked of the disk at most every `_KNOWN_S` seconds."""
    return _durations(str(select.runs_root()))


@st.cache_resource(ttl=_KNOWN_S, max_entries=4, show_spinner=False)
def _durations(root: str) -> Durations:
    return Durations(select.runs_root())


def left_in_words(run: Run, state: State, now: float | None = None) -> str:
    """ "about 4 min left", of a run that is alive."""
    now = time.time() if now is None else now
    return overview.left_in_words(overview.left(run, state, now, durations()))


def of(config: Config, shape: tuple[int, int, int] | None = None) -> Span | None:
    """How long such a run takes that begins now; where none of its kind has run, by a rule of thumb for the CPU.

    shape: how many images, their height and width in pixels; without it nothing is known by the rule.
    """
    alive = costs.alive(select.runs_root(), {costs.kind(config)})
    cost = durations().beside(alive).known.of(config)
    if cost is not None:
        return cost.span
    on_cpu = config.device == "cpu" or (config.device == "auto" and not devices.available_gpus())
    if not on_cpu or shape is None:
        return None
    rough = guesses.seconds(config, *shape, devices.available_cores())
    return None if rough is None else Span(rough, rough, rough * costs.ROUGH * costs.busy())


def in_words(span: Span | None, runs: int) -> str:
    """To follow a sentence on so many runs that are to be launched; "" where nothing is known."""
    return "" if span is None else f" · about {costs.span_in_words(span)}{' each' * (runs > 1)}"


def progress(run: Run, state: State, past: History, now: float) -> tuple[float, str]:
    """(share of the phase in [0, 1], what is going on in words) of a run that is alive."""
    stored = run.read_json("progress.json")
    epoch, epochs, step, steps = (wishes.number(stored.get(k), 0.0) for k in ("epoch", "epochs", "step", "steps"))
    if state.name == "starting" or not stored:
        return 0.0, "Starting: the training process loads its libraries and the data"
    phase = PHASES.get(str(stored.get("phase")), "")
    table = {"Pretraining": past.pretrain, "Training": past.epochs}.get(phase, ())
    recorded = table.index[-1] if len(table) else 0
    words = [phase or "Working"]
    if epochs:
        words.append(f"{max(epoch, recorded):.0f} of {counted(epochs, 'epoch')} done")
    if stored.get("phase") == "features" and steps:
        left = wishes.number(stored.get("eta_s"), 0.0)
        speed = f", {(steps - step) / left:,.0f} a second" if left > 0 else ""
        words.append(f"{step:,.0f} of {counted(steps, 'view')} of pictures{speed}")
    if state.name == "stopping":
        words.append("stopping after a checkpoint" + f": {state.reason}" * bool(state.reason))
    if state.name == "running":
        words.append(left_in_words(run, state, now))
    if past.last_time:
        words.append(f"last record {ago(now - past.last_time)}")
    share = step / steps if steps else epoch / epochs if epochs else 0
    return float(np.clip(share, 0, 1)), " · ".join(words)
