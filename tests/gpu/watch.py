"""What a GPU would mind: who waits for it, who mixes devices, what is computed in too few bits; by file and line.

Tensors without values (`tests.gpu.pretence`) cannot answer what they hold. Whoever asks (`item`, `bool`, `tolist`, a
mask as index, `nonzero`, a copy to the host) would make the host wait for a real GPU: that is noted, and answered with
made-up values of the right shape and kind, so that training goes on.
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parent.parent.parent
OURS = str(ROOT / "lps")
_SCALARS = {
    torch.Tensor.item: float,
    torch.Tensor.__bool__: bool,
    torch.Tensor.__int__: int,
    torch.Tensor.__float__: float,
    torch.Tensor.__index__: int,
}
_SIZE_FROM_VALUES = set("nonzero unique _unique2 masked_select repeat_interleave bincount unique_consecutive".split())
_HALF = (torch.bfloat16, torch.float16)
_ALWAYS_FULL = {"_softmax", "_log_softmax", "log", "log1p", "log2", "exp", "logsumexp", "xlogy", "kl_div", "cumsum"}
_REDUCTIONS = {"sum", "mean"}  # over a batch; over the pixels of an image they may be done in half the bits


class Watch(TorchFunctionMode):
    """Counts by phase ("step", "between") what happened where: waits, faults, copies to the device, half precision."""

    def __init__(self):
        super().__init__()
        self.phase = "between"
        self.found: dict[str, Counter] = defaultdict(Counter)

    def note(self, kind: str, what: str) -> None:
        """kind: waits, faults, copies or halves; what: in words, to which the line of ours is added."""
        self.found[f"{self.phase} {kind}"][f"{what}: {place()}"] += 1

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        self._check_generator(arguments, named)
        if arguments and isinstance(arguments[0], torch.Tensor):
            is_answered, answer = self._answer(function, arguments, named)
            if is_answered:
                return answer
        return function(*arguments, **named)

    def _check_generator(self, arguments: tuple, named: dict) -> None:
        generator = named.get("generator")
        if not isinstance(generator, torch.Generator):
            return
        first = arguments[0] if arguments else None
        own = named.get("device") or (first.device if isinstance(first, torch.Tensor) else "cpu")
        if torch.device(own).type != generator.device.type:
            self.note("faults", f"a generator of {generator.device.type} draws for {own}")

    def _answer(self, function, arguments: tuple, named: dict) -> tuple[bool, object]:
        """(True, made-up values) where a tensor without values was asked for some."""
        asked, name = arguments[0], getattr(function, "__name__", "")
        is_fake, on_gpu = isinstance(asked, FakeTensor), asked.device.type == "cuda"
        if function in _SCALARS or function is torch.Tensor.tolist:
            if is_fake and on_gpu:
                self.note("waits", name)
            return (True, _values(function, asked)) if is_fake else (False, None)
        if function is torch.Tensor.numpy or name == "__array__":
            if on_gpu:
                self.note("faults", "numpy of a tensor on the GPU")
            return (True, made_up(asked)) if is_fake else (False, None)
        if name in _SIZE_FROM_VALUES and is_fake:
            if on_gpu:
                self.note("waits", name)
            return True, _some(asked, name, named)
        if function is torch.Tensor.cpu or function is torch.Tensor.to and _names_the_host(arguments[1:], named):
            if on_gpu:
                self.note("waits", "copy to the host")
            return False, None
        if name in ("__getitem__", "__setitem__"):
            return self._index(name, arguments, is_fake, on_gpu)
        return False, None

    def _index(self, name: str, arguments: tuple, is_fake: bool, on_gpu: bool) -> tuple[bool, object]:
        """An index whose values decide how much is taken, or from where."""
        asked, index = arguments[0], arguments[1]
        parts = index if isinstance(index, tuple) else (index,)
        masks = [part for part in parts if _is_tensor(part) and part.dtype in (torch.bool, torch.uint8) and part.dim()]
        numbers = [part for part in parts if _is_tensor(part) and not part.dim() and not part.is_floating_point()]
        if not masks and not numbers:
            return False, None
        involved = on_gpu or any(part.device.type == "cuda" for part in masks + numbers)
        is_filled = name == "__setitem__" and not numbers and not (_is_tensor(arguments[2]) and arguments[2].dim())
        if involved and not is_filled:  # with one number a mask is filled where it lies
            self.note("waits", "mask as index" if masks else "number as index")
        if name == "__setitem__":
            return (True, None) if is_fake else (False, None)
        if masks:
            return True, asked[: max(1, len(asked) // 2)]
        return True, asked[tuple(0 if any(part is number for number in numbers) else part for part in parts)]


class Operations(TorchDispatchMode):
    """Tells a `Watch` of what single operations do: copies from the host, and reductions in half the bits."""

    def __init__(self, watch: Watch):
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        out = function(*arguments, **(named or {}))
        name = function._schema.name.removeprefix("aten::")
        if name in ("_to_copy", "copy_") and _is_tensor(out) and out.device.type == "cuda":
            source = arguments[1] if name == "copy_" else arguments[0]
            is_waited_for = not (named or {}).get("non_blocking") and not (name == "copy_" and arguments[2:] == (True,))
            if _is_tensor(source) and source.device.type == "cpu" and source.dim() and is_waited_for:
                self._watch.note("copies", f"{tuple(source.shape)} to the GPU")
        elif _loses_bits(name, arguments) and not _is_backward():
            self._watch.note("halves", f"{name} in {arguments[0].dtype}")
        return out


def place() -> str:
    """The innermost line of ours that led here, as `lps/methods/lps.py LPS.loss, line 12`."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.startswith(OURS):
            code = frame.f_code
            function = code.co_qualname.partition(".<locals>")[0]
            return f"{Path(code.co_filename).relative_to(ROOT)} {function}, line {frame.f_lineno}"
        frame = frame.f_back
    return "?"


def made_up(tensor: torch.Tensor) -> np.ndarray:
    """Values of the right shape and kind, the same ones every time."""
    shape, random = tuple(tensor.shape), np.random.default_rng(0)
    if tensor.dtype == torch.bool:
        return random.random(shape) < 0.5
    if tensor.is_floating_point():
        kind = {torch.float64: np.float64, torch.float16: np.float16}.get(tensor.dtype, np.float32)
        return random.random(shape).astype(kind)
    return random.integers(0, 3, shape).astype(str(tensor.dtype).removeprefix("torch."))


def _values(function, tensor: torch.Tensor):
    if function is torch.Tensor.tolist:
        return made_up(tensor).tolist()
    # Which everything has a first of
    number = made_up(tensor).reshape(-1)[0].item() if tensor.is_floating_point() else 0
    number = True if tensor.dtype == torch.bool else number  # whoever asks whether all is well hears that it is
    return number if function is torch.Tensor.item else _SCALARS[function](number)


def _some(tensor: torch.Tensor, name: str, named: dict) -> torch.Tensor:
    """What an operation might give whose size the values decide."""
    if name == "nonzero":
        return tensor.new_zeros((max(1, tensor.numel() // 2), tensor.dim()), dtype=torch.int64)
    if name == "bincount":
        return tensor.new_zeros(max(1, named.get("minlength", 0)), dtype=torch.int64)
    return tensor.new_zeros(3)


def _names_the_host(arguments: tuple, named: dict) -> bool:
    values = [value for value in (*arguments, *named.values()) if isinstance(value, (str, torch.device))]
    return any(torch.device(value).type == "cpu" for value in values)


def _is_tensor(value) -> bool:
    return isinstance(value, torch.Tensor)


def _loses_bits(name: str, arguments: tuple) -> bool:
    if not arguments or not _is_tensor(arguments[0]) or arguments[0].dtype not in _HALF:
        return False
    return name in _ALWAYS_FULL or name in _REDUCTIONS and _is_over_the_batch(arguments)


def _is_over_the_batch(arguments: tuple) -> bool:
    axes = arguments[1] if len(arguments) > 1 and arguments[1] is not None else []
    return len(axes) == 0 or 0 in [axis % max(1, arguments[0].dim()) for axis in axes]


def _is_backward() -> bool:
    return torch._C._current_autograd_node() is not None
