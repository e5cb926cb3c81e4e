"""How long runs take and how far they are, for all pages from one source (`lps.scheduler.costs`)."""

import time

import streamlit as st

from lps.charts.event_log import History
from lps.machine import devices
from lps.scheduler import costs, overview
from lps.scheduler.costs import KnownCosts, Span
from lps.settings import nouns
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
    """Return the costs of past runs, read from the disk at most every `_KNOWN_S` seconds."""
    return _known_costs(str(select.runs_root()))


@st.cache_resource(ttl=_KNOWN_S, max_entries=4, show_spinner=False)
def _known_costs(root: str) -> KnownCosts:
    return costs.known_costs(select.runs_root())


def describe_time_left(run: Run, state: State, now: float | None = None) -> str:
    """Return "about 4 min left" for a running run."""
    run_costs, now = known_costs().with_running([run]), time.time() if now is None else now
    return overview.time_left_in_words(run_costs.time_left(run, read_progress(run, state), now))


def is_finishing(progress: RunProgress, recorded_epoch: float = 0) -> bool:
    """Return whether the last epoch is done and the run evaluates and saves its results.

    recorded_epoch: the last one in the records, which may be ahead of the progress.
    """
    epoch = max(progress.epoch or 0, recorded_epoch)
    return progress.phase == "train" and bool(progress.epochs) and epoch >= progress.epochs


def estimate_run(config: Config, shape: tuple[int, int, int] | None = None) -> Span | None:
    """Estimate how long a run takes that begins now; None if unknown.

    Without past runs of its kind, a rule of thumb for the CPU is used. shape: number of images, their height and width
    in pixels; needed by the rule.
    """
    running_runs = costs.running_of_kinds(select.runs_root(), {costs.cost_kind(config)})
    cost = known_costs().with_running(running_runs).estimate(config)
    if cost is not None:
        return cost.span
    on_cpu = config.device == "cpu" or (config.device == "auto" and not devices.available_gpus())
    if not on_cpu or shape is None:
        return None
    seconds = costs.rule_of_thumb(config, *shape, devices.available_cores())
    return None if seconds is None else Span.about(seconds, 1.0, costs.ROUGH * costs.load_per_core())


def describe_duration(span: Span | None, runs: int) -> str:
    """Return the duration that Launch shows for the planned runs; "" if nothing is known.

    Examples: " · about 4 min", " · about 4 min each"; a wide range is followed by its reason.
    """
    if span is None:
        return ""
    if costs.is_unknown(span):
        return f" · {costs.NO_ESTIMATE}"
    return f" · about {costs.span_in_words(span)}{' each' * (runs > 1)}{costs.wide_reason(span)}"


def describe_progress(run: Run, state: State, history: History, now: float) -> tuple[float, str]:
    """Return (completed share of the phase from 0 to 1, what a running run does at the moment)."""
    progress = read_progress(run, state)
    if not progress.phase:
        return 0.0, "Starting: the training process loads its libraries and the data"
    recorded = history.epochs.index[-1] if len(history.epochs) else 0
    if is_finishing(progress, recorded) and state.name == "running":
        last_record = f" · last record {ago(now - history.last_time)}" if history.last_time else ""
        return 1.0, f"Finishing · {counted(progress.epochs, 'epoch')} done · evaluating and saving{last_record}"
    phase, epochs = PHASES.get(progress.phase, "Working"), progress.epochs or 0.0
    table = {"pretrain": history.pretrain, "train": history.epochs}.get(progress.phase, ())
    epoch = max(progress.epoch or 0.0, table.index[-1] if len(table) else 0)
    parts = [phase]
    if epochs:
        parts.append(f"{epoch:.0f} of {counted(epochs, 'epoch')} done")
    if progress.phase == "features" and progress.steps:
        step, seconds_left = progress.step or 0.0, progress.eta_s or 0.0
        speed = f", {(progress.steps - step) / seconds_left:,.0f} a second" if seconds_left > 0 else ""
        done = f"features computed for {step:,.0f} of {counted(progress.steps, 'view')}"
        parts.append(f"{done}{_explain_views(run, progress.steps)}{speed}")
    if state.name == "stopping":
        parts.append("stopping after a checkpoint" + f": {state.reason}" * bool(state.reason))
    if state.name == "running":
        parts.append(describe_time_left(run, state, now))
    if history.last_time:
        parts.append(f"last record {ago(now - history.last_time)}")
    share = epoch / epochs if progress.share is None and epochs else progress.share or 0.0
    return min(max(share, 0.0), 1.0), " · ".join(parts)


def _explain_views(run: Run, total: float) -> str:
    """Return " (7 views, changed copies, of each of 600 pictures)"; "" if the settings do not give the total."""
    config = run.config_if_readable()
    num_views = 1 + config.features_weak_views + config.features_strong_views if config else 0
    if num_views < 2 or total % num_views:
        return ""
    noun = nouns.of_dataset(config.dataset)
    return f" ({num_views} views, changed copies, of each of {counted(total / num_views, noun('picture'))})"
