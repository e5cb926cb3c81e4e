"""Follow a run from a terminal: a progress bar a phase, Ctrl-C as the wish to stop."""

import sys
import time

from tqdm import tqdm

from lps import launcher
from lps.files import clean_line
from lps.recent import read_recent
from lps.runs import Run, State
from lps.wishes import whole


def follow(run: Run) -> State:
    """Show bars on stderr until the run is over. Ctrl-C asks for a checkpoint and the end, again ends it at once."""
    bars, interrupts = Bars(run), 0
    while True:
        try:
            state = run.state()
            bars.show(state)
            if state.is_over or state.name == "unreadable":
                return state
            time.sleep(0.2)
        except KeyboardInterrupt:
            interrupts += 1
            launcher.stop(run, kill=interrupts > 1)
            print("\nstopping after a checkpoint; Ctrl-C once more ends it at once", file=sys.stderr)


class Bars:
    """The bar of the phase that the run is in."""

    def __init__(self, run: Run):
        self._run = run
        self._bar: tqdm | None = None
        self._phase, self._epoch = "", 0

    def show(self, state: State) -> None:
        progress = self._run.read_json("progress.json")
        step, steps, epoch = (whole(progress.get(key)) for key in ("step", "steps", "epoch"))
        phase = clean_line(progress.get("phase") or "prepare") if state.is_alive or state.is_over else "queued"
        if phase != self._phase:
            self._open(phase, steps or None)
        if phase in ("pretrain", "train"):
            self._bar.update(step - self._bar.n)
        if phase == "train" and epoch != self._epoch:
            self._epoch = epoch
            self._show_accuracies()
        if state.is_over:
            self._show_accuracies()
            self._bar.close()

    def _open(self, phase: str, steps: int | None) -> None:
        if self._bar is not None:
            self._bar.close()
        layout = "{desc}: {percentage:3.0f}% |{bar:30}| {elapsed} < {remaining}{postfix}"
        waiting = phase in ("queued", "prepare")
        self._phase = phase
        self._bar = tqdm(
            desc=f"{phase:8}", total=None if waiting else steps, bar_format="{desc}: {elapsed}" if waiting else layout
        )

    def _show_accuracies(self) -> None:
        last = read_recent(self._run.events, epochs=1).last
        scores = {key: last.get(f"accuracy/{key}") for key in ("seen", "novel", "all")}
        if None not in scores.values():
            self._bar.set_postfix({key: f"{value:.3f}" for key, value in scores.items()})
