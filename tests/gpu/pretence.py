"""Let torch go on as if a GPU were there, for tensors that carry shape, kind and device but no values.

Autograd counts devices and asks the driver for their contexts before it runs anything backwards. Where there is no
driver a library of two functions answers instead, which a C compiler makes and `LD_PRELOAD` puts first. Nothing is ever
put on a GPU, not even where there is one.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

CUDA = torch.device("cuda:0")
_FOLDER = "LPS_PRETENCE"  # in the environment: where the library lies
_DEVICES = 8
_LIBRARY = """
static signed char count = 0;
void pretend_devices(signed char n) { count = n; }
signed char _ZN3c104cuda12device_countEv(void) { return count; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
"""


def blocked_by() -> str:
    """Why nothing can be rehearsed here; empty where it can."""
    if torch.version.cuda is None:
        return "this torch was built without CUDA"
    return "" if shutil.which("cc") else "no C compiler (cc) was found"


def environment(folder: Path) -> dict[str, str]:
    """What a process needs in its environment to call `begin`; the library is made in `folder`."""
    source, library = folder / "pretence.c", folder / "pretence.so"
    source.write_text(_LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, source], check=True)
    return os.environ | {_FOLDER: str(folder), "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"}


def begin() -> None:
    """From here on `FakeTensorMode` in this process takes tensors of device cuda through forward and backward."""
    import torch.cuda.amp.common as common
    from torch.utils._device import _device_constructors

    if _FOLDER not in os.environ:
        sys.exit("expected the environment of `pretence.environment`")
    FakeTensorMode.avoid_device_init = property(lambda self: True)
    torch._C._select_conv_backend = lambda *arguments, **more: None  # these two ask for the GPU's properties
    torch._C._conv_determine_backend_memory_format = _layout
    FakeTensor.tolist = torch.Tensor.tolist  # its own one asks for every number by itself
    _device_constructors()  # remembers functions of torch as they are, before a rehearsal changes one
    common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *arguments, **more: True
    _count_devices_for_autograd_alone()


def _layout(images, weight, backend) -> torch.memory_format:
    """cuDNN keeps channels last where its input has them last."""
    last = images.dim() == 4 and images.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def _count_devices_for_autograd_alone() -> None:
    """Autograd sees devices; kernels, which would begin to use them, see none."""
    count = ctypes.CDLL(None).pretend_devices
    run_backward, dispatch, depth = torch.autograd._engine_run_backward, FakeTensorMode.dispatch, []

    def backward(*arguments, **more):
        depth.append(None)
        count(_DEVICES)
        try:
            return run_backward(*arguments, **more)
        finally:
            depth.pop()
            count(_DEVICES if depth else 0)

    def dispatch_without(self, *arguments, **more):
        count(0)
        try:
            return dispatch(self, *arguments, **more)
        finally:
            count(_DEVICES if depth else 0)

    torch.autograd._engine_run_backward, FakeTensorMode.dispatch = backward, dispatch_without
