"""Follow a run from a terminal with a progress bar per phase; Ctrl-C stops the run."""

import sys
import time

from tqdm import tqdm

from lps.files.atomic import clean_line
from lps.scheduler import launcher
from lps.scheduler.costs import Span
from lps.scheduler.overview import time_left_in_words
from lps.store.events_tail import read_recent
from lps.store.run_progress import read_progress
from lps.store.runs import Run, State


def follow(run: Run) -> State:
    """Show bars on stderr until the run is over. The first Ctrl-C asks for a checkpoint and stop, the next ends it."""
    bars, interrupts = Bars(run), 0
    while True:
        try:
            state = run.state()
            bars.show_state(state)
            if state.is_over or state.name == "unreadable":
                return state
            time.sleep(0.2)
        except KeyboardInterrupt:
            interrupts += 1
            state = launcher.stop(run, kill=interrupts > 1)
            reason = f" ({state.reason})" * bool(state.reason and state.name == "stopping")
            print(f"\nstopping after a checkpoint{reason}; press Ctrl-C again to end it now", file=sys.stderr)


class Bars:
    """The progress bar of a run's present phase."""

    def __init__(self, run: Run):
        self._run = run
        self._bar: tqdm | None = None
        self._phase, self._epoch = "", None

    def show_state(self, state: State) -> None:
        progress = read_progress(self._run, state)
        phase = clean_line(progress.phase or "prepare") if state.is_alive or state.is_over else "queued"
        if phase != self._phase:
            self._open(phase, progress.steps)
        if phase in ("features", "wait", "pretrain", "train"):
            self._bar.update((progress.step or 0) - self._bar.n)
        if phase == "train" and progress.epoch != self._epoch:
            self._epoch = progress.epoch
            self._show_accuracies()
        if state.is_over:
            self._show_accuracies()
            self._bar.close()

    def _open(self, phase: str, steps: int | None) -> None:
        if self._bar is not None:
            self._bar.close()
        layout = "{desc}: {percentage:3.0f}% |{bar:30}| {elapsed} < {remaining}{postfix}"
        is_waiting = phase in ("queued", "prepare")
        if phase == "features":
            layout = layout.replace("{postfix}", ", {rate_fmt}")
        self._phase = phase
        self._bar = tqdm(
            desc=f"{phase:8}",
            total=None if is_waiting else steps,
            bar_format="{desc}: {elapsed}" if is_waiting else layout,
            unit="view",
        )

    def _show_accuracies(self) -> None:
        last = read_recent(self._run.events, epochs=1).newest_values
        scores = {key: last.get(f"accuracy/{key}") for key in ("seen", "novel", "all")}
        if None not in scores.values():
            self._bar.set_postfix({key: f"{value:.3f}" for key, value in scores.items()})


class CountBar:
    """A progress callback that shows one bar per phase of a class count."""

    def __init__(self):
        self._bar: tqdm | None = None
        self._phase = ""

    def __call__(self, phase: str, share: float | None, time_left: Span | None) -> None:
        if phase != self._phase:
            if self._bar is not None:
                self._bar.close()
            layout = (
                "{desc}: {elapsed}" if share is None else "{desc}: {percentage:3.0f}% |{bar:30}| {elapsed}{postfix}"
            )
            self._phase, self._bar = phase, tqdm(desc=f"{phase:11}", total=1.0, bar_format=layout)
        if time_left is not None:
            self._bar.set_postfix_str(time_left_in_words(time_left), refresh=False)
        self._bar.update((share or 0.0) - self._bar.n)
