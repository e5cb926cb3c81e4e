"""What single steps of an epoch measured, for those who watch an epoch in which much happens.

An epoch's `train` event has it as lists of at most `MOST` numbers, means over as many stretches of its steps, in their
order: `steps/guessed_seen`, `steps/kl`, `steps/margin/seen`, `steps/margin/novel`; those that the method measures.
"""

import math

import torch
from torch import Tensor

from lps.methods.parts.measurements import Measurement, Ratio

MOST = 16  # numbers an epoch
_DIGITS = 5
_RATES = ("pseudo_label/rate/seen", "pseudo_label/rate/novel")  # their denominators count guesses
_KEPT = ("kl", "margin")


class StepTrail:
    """Keeps what the steps measured as it is, on the device; `result` computes and fetches once an epoch."""

    def __init__(self, seen: int, state: dict[str, Tensor] | None = None):
        """seen: number of seen classes. state: what `state_dict` of an earlier one gave, to go on from there."""
        self._seen = seen
        self._steps: dict[str, list[Tensor]] = {name: list(steps) for name, steps in (state or {}).items()}

    def add(self, measured: dict[str, Measurement]) -> None:
        """The next step's measurements. Nothing is computed, and the device is not waited for."""
        for name in _KEPT:
            if isinstance(measured.get(name), Tensor):
                self._steps.setdefault(name, []).append(measured[name].detach())
        if all(isinstance(measured.get(name), Ratio) for name in _RATES):
            for name in _RATES:
                self._steps.setdefault(name, []).append(measured[name].denominator)

    def result(self, steps: int) -> dict[str, list[float | None]]:
        """The lists of an epoch of `steps` steps; without those that not every step has measured."""
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
    """Means over at most `MOST` stretches of (steps,), as even as can be; None for what is no number."""
    parts = values.cpu().tensor_split(min(MOST, len(values)))
    means = [float(part.mean()) for part in parts]
    return [float(f"{mean:.{_DIGITS}g}") if math.isfinite(mean) else None for mean in means]
