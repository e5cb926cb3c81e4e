"""Optimizers of torch that do not import its compiler: the import takes 1.7 s of a processor, and nothing here is
compiled.
"""

import inspect
from functools import cache

import torch
from torch.optim import Optimizer

_IMPORT_COMPILER = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")


@cache
def without_compiler(kind: type[Optimizer]) -> type[Optimizer]:
    """Return a subclass with the same arithmetic; its methods lack the wrappers that call `torch._dynamo`."""
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _IMPORT_COMPILER}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(inspect.unwrap(kind.step))})
