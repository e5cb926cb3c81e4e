"""Average what a method measures, on the device, and fetch the averages once per epoch."""

from typing import NamedTuple

import torch
from torch import Tensor


class Ratio(NamedTuple):
    """A measurement averaged as sum of numerators over sum of denominators: a mean over rows, not over steps."""

    numerator: Tensor
    denominator: Tensor


Measurement = float | Tensor | Ratio  # a scalar, or a vector by class id


def sum_terms(terms: dict[str, Tensor]) -> tuple[Tensor, dict[str, Measurement]]:
    """Return (the sum of a loss's terms, the measurements: each term, and the sum as loss/total)."""
    total = sum(terms.values())
    return total, {name: term.detach() for name, term in terms.items()} | {"loss/total": total.detach()}


summed = sum_terms  # name up to 0.3.0, which method files of users call


class Averages:
    """Running sums of measurements. `add` never waits for the device; `result` does, once."""

    def __init__(self, state: dict | None = None):
        """Continue from `state`, the `state_dict` of earlier averages, if given."""
        self.sums: dict[str, Tensor] = dict(state["sums"]) if state else {}
        self.weights: dict[str, Tensor] = dict(state["weights"]) if state else {}

    def add(self, measurements: dict[str, Measurement]) -> None:
        for name, value in measurements.items():
            if not isinstance(value, Ratio):
                value = Ratio(torch.as_tensor(value), torch.as_tensor(1.0))
            self._accumulate(self.sums, name, value.numerator)
            self._accumulate(self.weights, name, value.denominator)

    def result(self) -> dict[str, float | list[float]]:
        """Return the means by name; NaN for a ratio without rows."""
        names = list(self.sums)
        if not names:
            return {}
        device = next((t.device for t in self.sums.values() if t.device.type != "cpu"), torch.device("cpu"))
        means = [(self.sums[n].to(device) / self.weights[n].to(device)).reshape(-1) for n in names]
        numbers = torch.cat(means).tolist()
        result, start = {}, 0
        for name, mean in zip(names, means):
            part = numbers[start : start + len(mean)]
            result[name] = part[0] if self.sums[name].dim() == 0 else part
            start += len(mean)
        return result

    def state_dict(self) -> dict:
        return {"sums": self.sums, "weights": self.weights}

    @staticmethod
    def _accumulate(store: dict[str, Tensor], name: str, value: Tensor) -> None:
        value = value.detach().float()
        store[name] = store[name] + value if name in store else value
