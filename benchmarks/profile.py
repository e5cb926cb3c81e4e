"""Profile training steps by operator: time on the device, calls, and how often the host waits for a GPU."""

from collections import Counter

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import steps
from benchmarks.cases import Case
from benchmarks.clocks import spent, wait_for

WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
LARGEST = 15  # operators with a row of their own


def measure(case: Case, count: int) -> list[dict]:
    """Rows of the operators that take longest, then of the others together and of the whole; per step, over `count`.

    `ms` is time on the device without the operators that an operator calls: of kernels on a GPU, of one thread on a
    CPU. `busy %` of the whole is this time in per cent of the wall time of the same number of steps without a profiler.
    """
    is_gpu = case.device.type == "cuda"
    steps.steps(case, count)  # memory, kernels and caches
    wall = 1000 * spent(lambda: steps.steps(case, count), case.device).wall / count
    with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * is_gpu) as found:
        steps.steps(case, count)
        wait_for(case.device)
    milliseconds, calls = Counter(), Counter()
    for event in found.key_averages():
        microseconds = event.self_device_time_total if is_gpu else event.self_cpu_time_total
        if event.key.startswith(("aten::", "Memcpy", "Memset", "Optimizer", "_fused")) or event.key in WAITS:
            milliseconds[event.key] += microseconds / 1000 / count
            calls[event.key] += event.count / count
    operators = [name for name, _ in milliseconds.most_common(LARGEST) if name not in WAITS]
    whole = sum(milliseconds.values())
    rest = whole - sum(milliseconds[name] for name in operators)
    rows = [
        {"operator": name, "ms": milliseconds[name], "%": 100 * milliseconds[name] / whole, "calls": calls[name]}
        for name in operators
    ]
    rows.append({"operator": "all others", "ms": rest, "%": 100 * rest / whole})
    step = {"operator": "a step", "ms": whole, "%": 100.0, "wall ms": wall, "busy %": 100 * whole / wall}
    if is_gpu:
        kernels = sum(event.device_type == torch.autograd.DeviceType.CUDA for event in found.events())
        step |= {"kernels": kernels / count, "waits": float(sum(calls[name] for name in WAITS))}
    return [*rows, step]
