"""Time actions: the best of several rounds in which the actions take turns.

Processor time counts the program's own threads and its ended child processes; other programs on the machine hardly
change it. Wall time is the time that a user waits, and the only one that includes a GPU.
"""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Spent:
    """Seconds by both clocks."""

    processor: float
    wall: float

    def by(self, clock: str) -> float:
        return getattr(self, clock)


def clock_of(device: torch.device) -> str:
    """The clock that results are told by: "processor" on a CPU, "wall" where a GPU works."""
    return "wall" if device.type == "cuda" else "processor"


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def processor_time() -> float:
    """Seconds of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def spent(action: Callable[[], object], device: torch.device) -> Spent:
    wait_for(device)
    wall, processor = time.perf_counter(), processor_time()
    action()
    wait_for(device)
    return Spent(processor_time() - processor, time.perf_counter() - wall)


def best_of(rounds: int, actions: dict[str, Callable[[], object]], device: torch.device) -> dict[str, Spent]:
    """The least that every action cost, by each clock on its own: `rounds` times A, B, ..., after one turn for nothing
    where there is more than one round (memory, kernels and caches)."""
    found = {name: [] for name in actions}
    for turn in range(rounds + (rounds > 1)):
        for name, action in actions.items():
            cost = spent(action, device)
            if turn or rounds == 1:
                found[name].append(cost)
    return {
        name: Spent(min(cost.processor for cost in costs), min(cost.wall for cost in costs))
        for name, costs in found.items()
    }
