"""Describe the machine, and measure its rate in a plain matrix product."""

import platform
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from lps.machine.devices import available_cores


def description(device: torch.device) -> dict[str, object]:
    """What a reader must know to judge a number."""
    facts = {"processor": _processor(), "cores": available_cores(), "threads": torch.get_num_threads()}
    if device.type == "cuda":
        facts["GPU"] = torch.cuda.get_device_name(device)
    vectors = torch.backends.cpu.get_cpu_capability()
    return facts | {"vectors": vectors, "torch": torch.__version__, "python": sys.version.split()[0]}


def _processor() -> str:
    """Name and family: virtual machines often hide the number of the model."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    told = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return f"{told.get('model name', platform.machine())} (family {told.get('cpu family', '?')})"


def flops(action: Callable[[], object]) -> int:
    """Floating-point operations of the convolutions and matrix products in `action`; a multiply-add counts as two."""
    with FlopCounterMode(display=False) as counter:
        action()
    return counter.get_total_flops()


def matmul(device: torch.device, dtype: torch.dtype = torch.float32) -> tuple[int, Callable[[], object]]:
    """(floating-point operations, action) of one large square product."""
    size = 8192 if device.type == "cuda" else 2048
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3, lambda: a @ b
