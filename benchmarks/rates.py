"""Measure which share of the machine's arithmetic rate a training step reaches.

The machine's convolution rate is that of the network's own layers, each run alone as a plain convolution, forward and
as much of backward as training needs, in its best memory layout. It includes no batch norm, no activation, no loss.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import steps
from benchmarks.cases import Case
from benchmarks.clocks import best_of, clock_of
from benchmarks.machine import flops, matmul
from lps.methods.parts.measurements import Averages
from lps.network.network import autocast

LAYOUTS = {"channels_last": torch.channels_last, "default": torch.contiguous_format}
PIECE = 128  # images of a lone convolution on a CPU: at 512 the tensors of all layers would not fit small machines
REPEATS = 20  # of a lone convolution on a GPU, which would otherwise be measured with the wait for it


class Layer(NamedTuple):
    """A convolution as the network runs it, without what is not its shape."""

    inputs: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int
    input_learns: bool  # a gradient goes on to the layers before
    weight_learns: bool


def layers(case: Case, images: Tensor) -> Counter[Layer]:
    """How often a forward pass over `images` runs each convolution."""
    found = Counter()

    def note(module: nn.Conv2d, inputs: tuple[Tensor], _) -> None:
        shape, weight = tuple(inputs[0].shape), module.weight
        options = tuple(module.stride), tuple(module.padding), module.groups
        found[Layer(shape, tuple(weight.shape), *options, inputs[0].requires_grad, weight.requires_grad)] += 1

    network = case.method.network
    handles = [module.register_forward_hook(note) for module in network.modules() if isinstance(module, nn.Conv2d)]
    network(images)
    for handle in handles:
        handle.remove()
    return found


def convolution(layer: Layer, device: torch.device, layout: torch.memory_format, dtype: torch.dtype) -> Callable:
    """An action: this convolution alone, forward and as much of backward as the network needs."""

    def filled(shape: tuple[int, ...], learns: bool = False) -> Tensor:
        tensor = torch.randn(shape, device=device).to(dtype).contiguous(memory_format=layout)
        return tensor.requires_grad_(learns)

    inputs, weight = filled(layer.inputs, layer.input_learns), filled(layer.weight, layer.weight_learns)
    options = {"stride": layer.stride, "padding": layer.padding, "groups": layer.groups}
    with torch.no_grad():
        gradient = filled(tuple(F.conv2d(inputs, weight, **options).shape))
    learning = [tensor for tensor in (inputs, weight) if tensor.requires_grad]

    def act() -> None:
        output = F.conv2d(inputs, weight, **options)
        if learning:
            torch.autograd.grad(output, learning, gradient)

    return act


def repeated(action: Callable, count: int) -> Callable:
    """An action: `action` as often as `count`."""

    def act() -> None:
        for _ in range(count):
            action()

    return act


def measure(case: Case, rounds: int) -> dict[str, float]:
    """GFLOP/s of the step, of its convolutions alone and of a matrix product, measured in turn; and the shares."""
    batch, averages, clock = next(steps.batches(case, 1)), Averages(), clock_of(case.device)
    is_gpu = case.device.type == "cuda"
    found = layers(case, batch.views()[0][: None if is_gpu else PIECE])
    repeats = REPEATS if is_gpu else 1
    dtype = _precision(case)
    product, multiply = matmul(case.device, dtype)
    actions = {"matmul": multiply}
    work = 0
    for layer, count in found.items():
        for name, layout in LAYOUTS.items():
            actions[layer, name] = repeated(convolution(layer, case.device, layout, dtype), repeats)
        work += count * flops(actions[layer, "channels_last"]) // repeats
    of_step = flops(lambda: steps.step(case, batch, averages))
    least = best_of(rounds, actions | {"step": lambda: steps.step(case, batch, averages)}, case.device)
    seconds = {name: cost.by(clock) for name, cost in least.items()}
    by_layout = {
        name: sum(count * seconds[layer, name] / repeats for layer, count in found.items()) for name in LAYOUTS
    }
    best = sum(count * min(seconds[layer, name] for name in LAYOUTS) / repeats for layer, count in found.items())
    reached, possible, peak = of_step / seconds["step"], work / best, product / seconds["matmul"]
    return {
        "GFLOP a step": of_step / 1e9,
        "seconds a step": seconds["step"],
        "step GFLOP/s": reached / 1e9,
        "convolutions GFLOP/s": possible / 1e9,
        "in channels_last": work / by_layout["channels_last"] / 1e9,
        "in default layout": work / by_layout["default"] / 1e9,
        "matmul GFLOP/s": peak / 1e9,
        "step / convolutions": reached / possible,
        "step / matmul": reached / peak,
    }


def _precision(case: Case) -> torch.dtype:
    with autocast(case.config, case.device):
        lowered = torch.is_autocast_enabled(case.device.type)
    return torch.get_autocast_dtype(case.device.type) if lowered else torch.float32
