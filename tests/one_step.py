"""Training steps that one process and two ranks both make for test_distributed.py, and their results.

As a program: three processes that share the imports, one alone and two ranks. Each writes its results to `alone-0.pt`,
`rank-0.pt` or `rank-1.pt` in the folder of the argument.
"""

import importlib
import os
import socket
import sys
from multiprocessing import get_context
from pathlib import Path

import torch

from lps.data.batches import Batch, training_batches
from lps.data.training_data import TrainingData, prepare
from lps.data.views import FAMILIES
from lps.methods import Method, Progress
from lps.methods.parts import prior
from lps.network import parallel
from lps.settings import catalog
from lps.settings.config import Config, configure
from lps.training import ranks
from lps.training.evaluate import build_inference, evaluate
from lps.training.loop import build

# Settings that reach what the defaults leave out, and the epochs of four (by stages) whose step is looked at. 37 rows
# are shared out as 18 and 19; one labeled row in a pass of its own leaves a rank without any.
EPOCHS = 4
FEW_LABELS = {"split.labeled_ratio": 0.05, "split.rule": "stratified"}  # one row of a batch
CASES = {name: ({}, (2,)) for name in catalog.method_names() if catalog.method_info(name).distributes}
CASES |= {
    "lps frozen and fused": (
        {"method": "lps", "network.freeze_until": "layer1", "network.fused_views": True, "network.head": "linear"},
        (2,),
    ),
    "lps torchvision": ({"method": "lps", "network.name": "torchvision:resnet18"} | FEW_LABELS, (0,)),
    "rankstats": ({"supervised_share": 0.25}, (0, 2)),
    "rankstats, one labeled row": ({"method": "rankstats", "supervised_share": 0.9} | FEW_LABELS, (0,)),
    "dtc": ({"supervised_share": 0.25, "warmup_share": 0.25}, (0, 1, 2, 3)),
    "dtc with a past": ({"method": "dtc", "consistency": "TE", "supervised_share": 0.0}, (0, 3)),
    "openncd": ({"group_start": 0.25}, (0, 2)),
    "lps with an estimated prior": ({"method": "lps", "prior": "estimated", "prior.every": 1}, (2,)),
}
del CASES["simclr"]  # trains nothing


def prepared(case: str):
    """Return (config, material, method, optimizer), the same ones in every process."""
    torch.set_num_threads(1)
    settings = {"method": case, "batch_size": 37, "epochs": EPOCHS, "device": "cpu", "seed": 5}
    settings["dataset.images_per_class"] = 20
    config = configure(settings | CASES[case][0])
    small = prepare(config)
    return config, small, *build(config, small)


def loss_of(config: Config, material: TrainingData, method: Method, epoch: int):
    """Return (loss, measurements) of an epoch's first step, after the work that a training does between epochs."""
    progress = Progress(epoch, EPOCHS, 0, material.plan.steps)
    looked_at = build_inference(method, material, config)
    with torch.no_grad():
        method.start_epoch(looked_at, progress)
    prior.refresh_prior(method, looked_at, config, epoch)
    method.train()
    return method.loss(first_batch(method, material, config, epoch), progress)


def step(case: str) -> dict[str, torch.Tensor]:
    """Return loss, measurements, gradients and buffers of the case's steps, and the predictions after them, by name."""
    config, material, method, optimizer = prepared(case)
    found = {}
    for epoch in CASES[case][1]:
        loss, measured = loss_of(config, material, method, epoch)
        optimizer.zero_grad()
        loss.backward()
        parallel.add_up_gradients(method, method.network)
        found |= {f"{epoch} {name}": tensor for name, tensor in _state(method, loss, measured).items()}
        optimizer.step()
        method.after_step()
    _, snapshot = evaluate(method, material, config)
    return found | {"predicted": torch.from_numpy(snapshot.predicted)}


def first_batch(method: Method, material: TrainingData, config: Config, epoch: int) -> Batch:
    views = tuple(FAMILIES[config.views][name] for name in method.views)
    targets = torch.from_numpy(material.truth[material.split.labeled])
    return next(training_batches(material.images, targets, material.split, views, material.plan, config, epoch))


def _state(method: Method, loss, measured: dict) -> dict[str, torch.Tensor]:
    named = {"loss": loss.detach()}
    for name, value in measured.items():
        value = value.numerator / value.denominator if isinstance(value, tuple) else value
        named[f"measured {name}"] = torch.as_tensor(value)
    learning = [(name, value.grad) for name, value in method.named_parameters() if value.grad is not None]
    named |= {f"gradient {name}": gradient.clone() for name, gradient in learning}
    return named | {f"buffer {name}": buffer.clone() for name, buffer in method.named_buffers()}


def without_synchronisation(case: str) -> dict[str, torch.Tensor]:
    """Return the same as `step` with batch norm over a rank's own rows alone, as a control."""
    real, parallel.synchronise_batchnorm = parallel.synchronise_batchnorm, lambda *_: None
    try:
        return step(case)
    finally:
        parallel.synchronise_batchnorm = real


def _be_a_rank(folder: Path, about: dict[str, str], name: str) -> None:
    """Compute all cases as torchrun would start this rank, or alone if the environment names no rank."""
    os.environ |= about
    # In float32 rounding turns a ReLU on or off here and there, which moves a gradient by a percent.
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    rank, count = ranks.own_rank()
    parallel.join(*ranks.own_rank(), count, torch.device("cpu"))
    results = {case: step(case) for case in CASES} | {"control": without_synchronisation("lps")}
    torch.save(results, folder / f"{name}-{rank}.pt")
    parallel.leave()


def main(folder: Path) -> int:
    """Return the exit code: 0 if all three processes ended well."""
    for name in ("sklearn.cluster", "sklearn.datasets", "torch._dynamo", "torchvision"):
        importlib.import_module(name)  # only imports: after a step or k-means, whose threads stay behind, nothing forks
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {ranks.TORCHRUN: "here", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    tasks = [(folder, place | {"RANK": k, "LOCAL_RANK": k}, "rank") for k in "01"]
    children = [get_context("fork").Process(target=_be_a_rank, args=task) for task in (*tasks, (folder, {}, "alone"))]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return int(any(child.exitcode for child in children))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
