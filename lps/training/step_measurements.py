"""Measurements of single steps of an epoch, for viewers of long epochs.

An epoch's `train` event has lists of at most `MAX_NUMBERS` numbers, means over consecutive stretches of its steps:
`steps/guessed_seen`, `steps/kl`, `steps/margin/seen`, `steps/margin/novel`, if the method measures them.
"""

import math

import torch
from torch import Tensor

from lps.methods.parts.measurements import Measurement, Ratio

MAX_NUMBERS = 16  # numbers per epoch
_DIGITS = 5
_RATES = ("pseudo_label/rate/seen", "pseudo_label/rate/novel")  # their denominators count guesses
_KEPT = ("kl", "margin")


class StepMeasurements:
    """Stores the steps' measurements on the device; `result` computes and fetches them once per epoch."""

    def __init__(self, seen: int, state: dict[str, Tensor] | None = None):
        """seen: number of seen classes. state: result of an earlier `state_dict`, to continue from."""
        self._seen = seen
        self._steps: dict[str, list[Tensor]] = {name: list(steps) for name, steps in (state or {}).items()}

    def add(self, measured: dict[str, Measurement]) -> None:
        """Add the next step's measurements, without computing and without waiting for the device."""
        for name in _KEPT:
            if isinstance(measured.get(name), Tensor):
                self._steps.setdefault(name, []).append(measured[name].detach())
        if all(isinstance(measured.get(name), Ratio) for name in _RATES):
            for name in _RATES:
                self._steps.setdefault(name, []).append(measured[name].denominator)

    def result(self, steps: int) -> dict[str, list[float | None]]:
        """Return the lists of an epoch of `steps` steps; measurements missing in any step are left out."""
        complete = {name: torch.stack(parts).float() for name, parts in self._steps.items() if len(parts) == steps}
        lists = {"steps/kl": complete["kl"]} if "kl" in complete and complete["kl"].dim() == 1 else {}
        if all(name in complete for name in _RATES):
            seen, novel = (complete[name] for name in _RATES)
            lists["steps/guessed_seen"] = seen / (seen + novel)
        if "margin" in complete and complete["margin"].dim() == 2:
            parts = {"seen": complete["margin"][:, : self._seen], "novel": complete["margin"][:, self._seen :]}
            lists |= {f"steps/margin/{group}": part.mean(1) for group, part in parts.items()}
        return {name: _stretches(values) for name, values in lists.items()}

    def state_dict(self) -> dict[str, Tensor]:
        return {name: torch.stack(parts) for name, parts in self._steps.items()}


def _stretches(values: Tensor) -> list[float | None]:
    """Return means over at most `MAX_NUMBERS` stretches of (steps,), as even as possible; None for NaN."""
    parts = values.cpu().tensor_split(min(MAX_NUMBERS, len(values)))
    means = [float(part.mean()) for part in parts]
    return [float(f"{mean:.{_DIGITS}g}") if math.isfinite(mean) else None for mean in means]
