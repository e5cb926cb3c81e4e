"""A training that computes nothing: a real run on a device that is not there, under the eyes of `tests.gpu.watch`.

`python -m tests.gpu.rehearsal` is a server for tests: it has in memory what all rehearsals import, and makes a process
of its own for every line of its input, a JSON object of settings with the epochs to go through; a line of JSON comes
back.
"""

import contextlib
import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.testing._internal.distributed.fake_pg import FakeStore

from lps import datasets
from lps.data import randaugment, views
from lps.network import backbones, parallel
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.training import checkpoints, loop, pretrain
from lps.training.ranks import TORCHRUN
from tests.gpu import pretence, spoils
from tests.gpu.watch import OURS, ROOT, Operations, Watch

_KEPT = []  # torch does not hold the Python half of a generator, and would read freed memory


class _Mark:
    """In place of an event in the queue of a GPU, which is not there to be waited for."""

    def __init__(self, enable_timing: bool): ...

    def record(self) -> None: ...

    def synchronize(self) -> None: ...

    def elapsed_time(self, later: "_Mark") -> float:
        return 1.0


class _Generator(torch.Generator):
    """A generator of the host that says that it is one of the GPU."""

    said = torch.device("cpu")

    @property
    def device(self) -> torch.device:
        return self.said


def _seeded(device: torch.device, *key: int) -> torch.Generator:
    found = _Generator()
    _KEPT.append(found)
    found.manual_seed(abs(hash(key)) % 2**31)
    found.said = torch.device(device)
    return found


def write_pictures(path: Path, channels: int = 3, side: int = 32) -> None:
    """240 pictures of ten classes, 40 more for testing, as `dataset=arrays` reads them."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 255, (280, side, side, channels), np.uint8)
    labels = np.arange(280) % 10
    np.savez(path, x_train=pixels[:240], y_train=labels[:240], x_test=pixels[240:], y_test=labels[240:])


def rehearse(settings: dict, epochs: list[int], on_host: bool = False, spoil: str = "") -> dict:
    """What was found by kind, and what raised, while the run went through these of its epochs, each with its end.

    on_host: as if the data were too large for the GPU. spoil: the name of something in `tests.gpu.spoils` that is put
    into the loss, to see whether it is seen. With `processes` in the settings it is the first of as many ranks, whose
    talk is made up.
    """
    watch, raised = Watch(), []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        pictures = Path(folder) / "pictures.npz"
        write_pictures(pictures, *settings.pop("pictures", ()))
        usual = {"dataset": "arrays", "dataset.path": str(pictures), "epochs": 20, "batch_size": 80, "device": "cuda"}
        usual |= {
            "views": "cifar",
            "network.name": "digits_resnet",
            "network.start": "random",
            "pretrain.epochs": 1,
            "pretrain.batch_size": 64,
        }
        run = create_run(Path(folder) / "runs", configure(usual | settings))
        stack.enter_context(patch.dict(os.environ, {"XDG_CACHE_HOME": folder}))
        for change in _seams(watch):
            stack.enter_context(change)
        if settings.get("processes"):
            for change in _alone_among(settings["processes"]):
                stack.enter_context(change)
        if on_host:
            stack.enter_context(patch.object(datasets, "ON_DEVICE", 0))
        if spoil:
            stack.enter_context(spoils.put(spoil))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(watch)
        stack.enter_context(Operations(watch))
        training = loop.RunTraining(run)
        try:
            _go(training, watch, epochs)
        except Exception as error:
            raised.append(_told(error))
        training.events.close()
    found = {kind: dict(counts) for kind, counts in watch.found.items()}
    return found | {"raised": raised, "ranks": parallel.num_ranks()}


def _go(training: loop.RunTraining, watch: Watch, epochs: list[int]) -> None:
    assert training._prepare()
    assert training._start()
    for epoch in epochs:
        training.position = loop._Position(epoch)
        if training.method.trains:
            assert training._train_epoch()
        else:
            training.position = loop._Position(1)
        training._evaluate_epoch()


def _seams(watch: Watch):
    """Where the rehearsal differs from a run: what is drawn, what is written, and when a step begins and ends."""
    drawn = loop.training_batches

    def steps(*arguments, **more):
        """The batches of an epoch; what the first step makes once (tables, constants) may come from the host."""
        watch.phase = "first step"
        for batch in drawn(*arguments, **more):
            yield batch
            watch.phase = "step"
        watch.phase = "between"

    pretrained = pretrain.Pretraining.train_epoch

    def pretraining_steps(work, report, should_stop):
        def told(*arguments):
            watch.phase = "step"
            report(*arguments)

        watch.phase = "first step"
        try:
            return pretrained(work, told, should_stop)
        finally:
            watch.phase = "between"

    for cached in (views._by_channel, randaugment.matrices):
        cached.cache_clear()
    for module in _who_has("seeded"):
        yield patch.object(module, "seeded", _seeded)
    yield patch.object(torch.cuda, "device_count", lambda: 1)
    yield patch.object(torch.cuda, "current_device", lambda: pretence.CUDA.index)
    yield patch.object(loop, "training_batches", steps)
    yield patch.object(pretrain.Pretraining, "train_epoch", pretraining_steps)
    yield patch.object(os, "fsync", lambda descriptor: None)
    yield patch.object(checkpoints, "save_checkpoint", lambda *arguments: None)
    yield patch.object(checkpoints, "keep_as_best", lambda *arguments: None)
    yield patch.object(torch.cuda, "get_device_name", lambda device: "none")
    yield patch.object(torch.cuda, "max_memory_allocated", lambda device: 0)
    yield patch.object(torch.cuda, "Event", _Mark)
    yield patch.object(torch.nn.Module, "to", _moved)
    for module, name in ((loop, "Network"), (loop.methods, "build"), (pretrain, "ContrastiveNetwork")):
        yield patch.object(module, name, _outside(getattr(module, name)))
    for name in ("check_backbone", "build_backbone"):
        yield patch.object(backbones, name, _outside(getattr(backbones, name)))
    yield patch.object(torch, "empty", _movable)
    yield patch.object(torch, "tensor", _of_numbers(watch))
    yield patch.object(torch.Tensor, "pin_memory", lambda tensor, *arguments: tensor)


def _alone_among(ranks: int):
    """The first rank of so many: the others' rows are there, whatever they hold, and numbers stay what they are."""
    told = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(ranks), TORCHRUN: "none"}
    yield patch.dict(os.environ, told)
    meet = dist.init_process_group
    yield patch.object(
        dist,
        "init_process_group",
        lambda backend, *, rank, world_size, timeout: meet("fake", store=FakeStore(), rank=rank, world_size=world_size),
    )
    yield patch.object(torch.cuda, "device_count", lambda: ranks)
    yield patch.object(torch.cuda, "get_device_capability", lambda device: (9, 0))
    yield patch.object(torch.cuda, "set_device", lambda device: None)
    yield patch.object(parallel, "_reduced", lambda number, operation: number)


def _who_has(name: str) -> list:
    """Modules of ours that know a function by its name."""
    return [module for key, module in list(sys.modules.items()) if key.startswith("lps.") and hasattr(module, name)]


def _outside(call):
    """`call` with numbers that are there: copies and checks of networks need some."""

    def called(*arguments, **more):
        with unset_fake_temporarily():
            return call(*arguments, **more)

    return called


_empty, _tensor = torch.empty, torch.tensor


def _movable(*arguments, pin_memory: bool = False, **more) -> torch.Tensor:
    """`torch.empty` in memory that may be moved: a driver would have to nail it."""
    return _empty(*arguments, **more)


def _of_numbers(watch: Watch):
    """`torch.tensor`, which would ask a driver for room for numbers that go to a GPU."""

    def made(values, *, device=None, **more) -> torch.Tensor:
        if device is None or torch.device(device).type == "cpu":
            return _tensor(values, device=device, **more)
        watch.note("copies", "numbers to the GPU")
        with unset_fake_temporarily():
            shape, kind = (like := _tensor(values, **more)).shape, like.dtype
        return _empty(shape, dtype=kind, device=device)

    return made


def _moved(module: torch.nn.Module, device: torch.device, memory_format=torch.preserve_format) -> torch.nn.Module:
    """`Module.to`, which cannot put one tensor without values in the place of another."""
    made = {}

    def there(tensor: torch.Tensor) -> torch.Tensor:
        kind = memory_format if tensor.dim() == 4 else torch.preserve_format
        moved = tensor.detach().to(device, memory_format=kind)
        return torch.nn.Parameter(moved, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else moved

    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    held[name] = made.setdefault(id(tensor), there(tensor))
    return module


def _told(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(OURS)]
    place = f"{Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}" if frames else "?"
    if os.environ.get("LPS_PRETENCE_VERBOSE"):
        traceback.print_exc()
    return f"{type(error).__name__} at {place}: {str(error).strip()[:300]}"


def serve() -> None:
    """Answer every line of the input; a child that torch lets die is told as such."""
    pretence.begin()
    torch.set_num_threads(1)
    _warm_up()
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            answer = rehearse(**json.loads(line))
            with os.fdopen(writing, "w") as out:
                out.write(json.dumps(answer))
            os._exit(0)  # without tidying up, in which torch has crashed over its stand-ins
        os.close(writing)
        with os.fdopen(reading) as said:
            text = said.read()
        os.waitpid(child, 0)
        print(text or json.dumps({"died": True}), flush=True)


def _warm_up() -> None:
    """What every rehearsal would import anew; nothing that leaves threads (k-means, a step backwards) to bar forks."""
    for name in ("sklearn.cluster", "sklearn.metrics", "sklearn.datasets", "torch._dynamo", "torchvision"):
        importlib.import_module(name)
    with FakeTensorMode(), torch.no_grad():
        network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
        network(torch.zeros(2, 3, 8, 8)).mean((2, 3)).log_softmax(1).topk(2)


if __name__ == "__main__":
    serve()
