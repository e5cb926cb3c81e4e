"""How long runs take and go on, for every page from the same source (`lps.scheduler.costs`)."""

import time

import streamlit as st

from lps.charts.event_log import History
from lps.machine import devices
from lps.scheduler import costs, overview
from lps.scheduler.costs import KnownCosts, Span
from lps.settings.config import Config
from lps.store.run_progress import RunProgress, read_progress
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


def known_costs() -> KnownCosts:
    """The costs of past runs, read from the disk at most every `_KNOWN_S` seconds."""
    return _known_costs(str(select.runs_root()))


@st.cache_resource(ttl=_KNOWN_S, max_entries=4, show_spinner=False)
def _known_costs(root: str) -> KnownCosts:
    return costs.known_costs(select.runs_root())


def describe_time_left(run: Run, state: State, now: float | None = None) -> str:
    """ "about 4 min left", of a running run."""
    known, now = known_costs().with_running([run]), time.time() if now is None else now
    return overview.left_in_words(known.left(run, read_progress(run, state), now))


def is_finishing(progress: RunProgress) -> bool:
    """Whether the last epoch is done and the run evaluates and saves what it has learned."""
    return progress.phase == "train" and bool(progress.epochs) and (progress.epoch or 0) >= progress.epochs


def estimate_run(config: Config, shape: tuple[int, int, int] | None = None) -> Span | None:
    """How long such a run takes that begins now; where none of its kind has run, by a rule of thumb for the CPU.

    shape: how many images, their height and width in pixels; without it nothing is known by the rule.
    """
    alive = costs.running_of_kinds(select.runs_root(), {costs.cost_kind(config)})
    cost = known_costs().with_running(alive).estimate(config)
    if cost is not None:
        return cost.span
    on_cpu = config.device == "cpu" or (config.device == "auto" and not devices.available_gpus())
    if not on_cpu or shape is None:
        return None
    rough = costs.rule_of_thumb(config, *shape, devices.available_cores())
    return None if rough is None else Span.about(rough, 1.0, costs.ROUGH * costs.load_per_core())


def describe_duration(span: Span | None, runs: int) -> str:
    """Return " · about 4 min each" for the planned runs; "" if nothing is known."""
    return "" if span is None else f" · about {costs.span_in_words(span)}{' each' * (runs > 1)}"


def describe_progress(run: Run, state: State, past: History, now: float) -> tuple[float, str]:
    """(share of the phase in [0, 1], what a running run does at the moment)."""
    progress = read_progress(run, state)
    if not progress.phase:
        return 0.0, "Starting: the training process loads its libraries and the data"
    if is_finishing(progress) and state.name == "running":
        last = f" · last record {ago(now - past.last_time)}" if past.last_time else ""
        return 1.0, f"Finishing · {counted(progress.epochs, 'epoch')} done · evaluating and saving{last}"
    phase, epochs = PHASES.get(progress.phase, "Working"), progress.epochs or 0.0
    table = {"pretrain": past.pretrain, "train": past.epochs}.get(progress.phase, ())
    epoch = max(progress.epoch or 0.0, table.index[-1] if len(table) else 0)
    words = [phase]
    if epochs:
        words.append(f"{epoch:.0f} of {counted(epochs, 'epoch')} done")
    if progress.phase == "features" and progress.steps:
        step, left = progress.step or 0.0, progress.eta_s or 0.0
        speed = f", {(progress.steps - step) / left:,.0f} a second" if left > 0 else ""
        words.append(f"features computed for {step:,.0f} of {counted(progress.steps, 'view')}{speed}")
    if state.name == "stopping":
        words.append("stopping after a checkpoint" + f": {state.reason}" * bool(state.reason))
    if state.name == "running":
        words.append(describe_time_left(run, state, now))
    if past.last_time:
        words.append(f"last record {ago(now - past.last_time)}")
    share = epoch / epochs if progress.share is None and epochs else progress.share or 0.0
    return min(max(share, 0.0), 1.0), " · ".join(words)
