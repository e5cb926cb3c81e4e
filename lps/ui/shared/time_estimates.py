"""How long runs take and how far they are, for all pages from one source (`lps.scheduler.costs`)."""

import time
from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

from lps.charts.event_log import History
from lps.errors import UserError
from lps.machine import devices
from lps.scheduler import costs, overview
from lps.scheduler.costs import KnownCosts, Span
from lps.settings import catalog, nouns
from lps.settings.config import Config
from lps.store.run_progress import RunProgress, read_progress
from lps.store.runs import Run, State
from lps.ui.shared import select
from lps.wording import ago, counted

PHASES = {  # name in progress.json -> words
    "prepare": "Preparing",
    "features": "Computing features",
    "wait": "Waiting for the pretraining of another run, which this run shares",
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


def costs_now(configs: Sequence[Config]) -> KnownCosts:
    """Return the costs of past runs, corrected by the running runs of these kinds, which this reads from the disk."""
    kinds = {costs.cost_kind(config) for config in configs}
    return known_costs().with_running(costs.running_of_kinds(select.runs_root(), kinds))


def estimate_run(
    config: Config, shape: tuple[int, int, int] | None = None, known: KnownCosts | None = None
) -> Span | None:
    """Estimate how long a run takes that begins now; None if unknown.

    Without past runs of its kind, a rule of thumb for the CPU is used. shape: number of images, their height and width
    in pixels; needed by the rule. known: from `costs_now`, if already read.
    """
    (cost,) = (known or costs_now([config])).estimate_all([config])
    if cost is not None:
        return cost.span
    on_cpu = config.device == "cpu" or (config.device == "auto" and not devices.available_gpus())
    if not on_cpu or shape is None:
        return None
    seconds = costs.rule_of_thumb(config, *shape, devices.available_cores())
    return None if seconds is None else Span.about(seconds, 1.0, costs.ROUGH * costs.load_per_core())


def describe_epochs(configs: Sequence[Config], known: KnownCosts) -> str:
    """Return the epochs of planned runs: "40 epochs + 20 epochs of pretraining"; "" if nothing is trained.

    Of runs that need the same start weights, one pretrains. known: from `costs_now`.
    """
    pretraining = {costs.start_weights_key(c): c.pretrain_epochs for c in configs if known.is_pretrained_first(c)}
    trained = [config.epochs for config in configs if catalog.method_info(config.method).trains]
    parts = []
    for epochs, kind in ((trained, ""), ([*pretraining.values()], " of pretraining")):
        if epochs:
            share = " each" * (len(configs) > 1) if len(epochs) == len(configs) else f" in {len(epochs)} of them"
            parts.append(f"{_epoch_range({*epochs})}{kind}{share}")
    return " + ".join(parts)


def _epoch_range(epochs: set[int]) -> str:
    if len(epochs) > 1:
        return f"{min(epochs)} to {max(epochs)} epochs"
    return counted(*epochs, "epoch")


def describe_duration(span: Span | None, runs: int) -> str:
    """Return the duration that Launch shows for the planned runs; "" if nothing is known.

    Examples: " · about 4 min", " · about 4 min each"; a wide range is followed by its reason.
    """
    if span is None:
        return ""
    more = "" if costs.is_unknown(span) else f"{' each' * (runs > 1)}{costs.wide_reason(span)}"
    return f" · {costs.duration_in_words(span)}{more}"


def describe_progress(run: Run, state: State, history: History, now: float) -> tuple[float, str]:
    """Return (completed share of the phase from 0 to 1, what a running run does at the moment)."""
    progress = read_progress(run, state)
    if not progress.phase:
        return 0.0, "Starting: the training process loads its libraries and the data"
    recorded = history.epochs.index[-1] if len(history.epochs) else 0
    if is_finishing(progress, recorded) and state.name == "running":
        last_record = f" · last record {ago(now - history.last_time)}" if history.last_time else ""
        return 1.0, f"Finishing · {counted(progress.epochs, 'epoch')} done · evaluating and saving{last_record}"
    epochs = (progress.epochs or 0.0) if progress.phase in ("pretrain", "train") else 0.0
    table = {"pretrain": history.pretrain, "train": history.epochs}.get(progress.phase, ())
    epoch = max(progress.epoch or 0.0, table.index[-1] if len(table) else 0)
    parts = [_describe_phase(run, progress.phase) + (f", {epoch:.0f} of {counted(epochs, 'epoch')}" if epochs else "")]
    if progress.phase == "features" and progress.steps:
        step, seconds_left = progress.step or 0.0, progress.eta_s or 0.0
        speed = f", {(progress.steps - step) / seconds_left:,.0f} a second" if seconds_left > 0 else ""
        done = f"features computed for {step:,.0f} of {counted(progress.steps, 'view')}"
        parts.append(f"{done}{_explain_views(run, progress.steps)}{speed}")
    if state.name == "stopping":
        parts.append("stopping after a checkpoint" + f": {state.reason}" * bool(state.reason))
    if state.name == "running" and progress.phase != "wait":
        parts.append(describe_time_left(run, state, now))
    if history.last_time and progress.phase != "wait":
        parts.append(f"last record {ago(now - history.last_time)}")
    share = epoch / epochs if progress.share is None and epochs else progress.share or 0.0
    return min(max(share, 0.0), 1.0), " · ".join(parts)


def _describe_phase(run: Run, phase: str) -> str:
    """Return "Step 1 of 2: pretraining" for a run of two steps, else "Pretraining"."""
    config, name = run.config_if_readable(), PHASES.get(phase, "Working")
    first = ""
    with suppress(UserError):  # the method is gone
        if config and catalog.method_info(config.method).trains:
            first = "features" if config.features == "stored" else "pretrain" * bool(costs.start_weights_key(config))
    return f"Step {1 + (phase == 'train')} of 2: {name.lower()}" if first and phase in (first, "train") else name


def _explain_views(run: Run, total: float) -> str:
    """Return " (7 views, changed copies, of each of 600 pictures)"; "" if the settings do not give the total."""
    config = run.config_if_readable()
    num_views = 1 + config.features_weak_views + config.features_strong_views if config else 0
    if num_views < 2 or total % num_views:
        return ""
    noun = nouns.of_dataset(config.dataset)
    return f" ({num_views} views, changed copies, of each of {counted(total / num_views, noun('picture'))})"
