"""Time of an epoch's steps by stage, measured on the training device.

On a GPU the stages are times between events in its own queue: `read` includes waiting for pictures
and copying them. The host is not delayed.
"""

import time
from collections import defaultdict, deque

import torch

_MAX_MARKS = 600  # pending events on the GPU's queue; older ones have passed long ago


class StepClock:
    """Seconds by stage: `lap` adds the time since the previous lap to a stage."""

    def __init__(self, device: torch.device):
        self._is_gpu = device.type == "cuda"
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._marks: deque = deque()  # (stage, event) of a GPU, in order
        self._before = self._mark("")

    def lap(self, stage: str) -> None:
        now = self._mark(stage)
        if not self._is_gpu:
            self._seconds[stage] += now - self._before
            self._before = now
        elif len(self._marks) > _MAX_MARKS:
            self._count(_MAX_MARKS // 2)

    def by_step(self, steps: int) -> dict[str, float]:
        """Return seconds per step: `time/read_s`, `time/views_s`, `time/network_s`; on a GPU this waits for it."""
        if self._is_gpu:
            self._count(1)
        return {f"time/{stage}_s": seconds / steps for stage, seconds in self._seconds.items()}

    def _mark(self, stage: str):
        if not self._is_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append((stage, event))
        return None

    def _count(self, num_kept: int) -> None:
        """Add up the oldest events until `num_kept` remain."""
        while len(self._marks) > num_kept:
            _, start = self._marks.popleft()
            stage, end = self._marks[0]
            end.synchronize()
            self._seconds[stage] += start.elapsed_time(end) / 1000
