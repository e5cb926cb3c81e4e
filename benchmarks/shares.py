"""Measure the share of each part of a training step."""

import time
from collections import defaultdict
from collections.abc import Callable

import torch

from benchmarks import steps
from benchmarks.cases import Case
from benchmarks.clocks import wait_for
from lps.methods.parts.measurements import Averages
from lps.network.network import Network, autocast

PARTS = ("views", "forward", "loss", "backward", "optimizer", "logging")


def shares(case: Case, count: int) -> dict[str, float]:
    """Median seconds of every part over `count` steps: processor time on a CPU, wall time with waiting on a GPU.

    views: picking the images and changing them. forward: every pass through a `Network` inside the method's loss, also
    through an average of past weights. loss: the rest of it.
    """
    watch = Stopwatch(case.device)
    inside = _watched(case, watch)
    averages, rows = Averages(), []
    source = steps.batches(case, count)
    for _ in range(count):
        watch.restart()
        batch = next(source)
        watch.lap("views")
        with autocast(case.config, case.device):
            loss, measured = case.method.loss(batch, case.progress)
        watch.lap("loss")
        case.optimizer.zero_grad()
        watch.lap("optimizer")
        loss.backward()
        watch.lap("backward")
        case.optimizer.step()
        case.method.after_step()
        watch.lap("optimizer")
        averages.add(measured)
        watch.lap("logging")
        rows.append(watch.seconds)
    for handle in inside:
        handle.remove()
    return {part: float(torch.tensor([row[part] for row in rows]).median()) for part in PARTS}


class Stopwatch:
    """Adds the time since the last lap to the part that it names."""

    def __init__(self, device: torch.device):
        self.device = device
        self.clock: Callable[[], float] = time.perf_counter if device.type == "cuda" else time.process_time
        self.restart()

    def restart(self) -> None:
        self.seconds = defaultdict(float)
        wait_for(self.device)
        self.last = self.clock()

    def lap(self, part: str) -> None:
        wait_for(self.device)
        now = self.clock()
        self.seconds[part] += now - self.last
        self.last = now


def _watched(case: Case, watch: Stopwatch) -> list:
    """Hooks that end a lap of the loss before every forward pass, and one of the pass behind it."""
    handles = []
    for module in case.method.modules():
        if isinstance(module, Network):
            handles.append(module.register_forward_pre_hook(lambda *_: watch.lap("loss")))
            handles.append(module.register_forward_hook(lambda *_: watch.lap("forward")))
    return handles
