"""The progress of a run's current attempt, from process.json and progress.json. Standard library only."""

from dataclasses import dataclass

from lps.store.desired_state import stored_number
from lps.store.runs import Run, State

_LONGEST_S = 1e9  # a larger estimate of the seconds left is ignored


@dataclass(frozen=True)
class RunProgress:
    """The newest progress record of the training process; a missing number is None.

    phase: "prepare", "features", "wait" (another run makes the same start weights), "pretrain" or "train"; "" before
    the first record. epoch, epochs, step, steps: of the phase. eta_s: seconds until the phase ends, as estimated at
    `written`. written, started: unix seconds of the record and of the start of the attempt. slots: names of the slots
    that the attempt holds.
    """

    phase: str = ""
    epoch: float | None = None
    epochs: float | None = None
    step: float | None = None
    steps: float | None = None
    eta_s: float | None = None
    written: float | None = None
    started: float | None = None
    slots: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        """Return the completed share of the phase, in [0, 1]; None if unknown."""
        return min(max(self.step / self.steps, 0.0), 1.0) if self.step is not None and self.steps else None

    def left_s(self, now: float) -> float | None:
        """Return the seconds that the phase still takes from `now` (unix seconds) on; None if unknown."""
        if self.eta_s is None or self.written is None or not 0 <= self.eta_s < _LONGEST_S:
            return None
        return max(0.0, self.eta_s - max(0.0, now - self.written))


def read_progress(run: Run, state: State) -> RunProgress:
    """Return the progress of the attempt of `state`; empty until its process has started."""
    process = run.read_json("process.json")
    if state.name == "starting" or process.get("attempt") != state.attempt:
        return RunProgress()
    started, slots = stored_number(process.get("started")), process.get("slot")
    slots = tuple(name for name in slots.split(",") if name) if isinstance(slots, str) else ()
    stored = run.read_json("progress.json")
    if started is not None and stored_number(stored.get("time"), 0.0) < started:  # written by an earlier attempt
        return RunProgress(started=started, slots=slots)
    phase = stored.get("phase") if isinstance(stored.get("phase"), str) else ""
    numbers = {name: stored_number(stored.get(name)) for name in ("epoch", "epochs", "step", "steps", "eta_s")}
    return RunProgress(phase, **numbers, written=stored_number(stored.get("time")), started=started, slots=slots)
