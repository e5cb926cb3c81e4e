"""The one loop: prepare, pretrain or reuse, then train and evaluate epoch by epoch, leaving a run that can be resumed.

The loop owns seed, optimizer, schedule, precision and cadence; the method owns the mathematics. An epoch is committed
when its checkpoint is: its events are on disk before. What a resumed run does from a checkpoint on depends on nothing
but the checkpoint and the config, so on a CPU it ends with the very numbers of a run that was never stopped.
"""

import errno
import io
import math
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from lps import checkpoints, datasets, methods
from lps.batches import BatchPlan, plan_batches, seeded, training_batches
from lps.config import Config
from lps.evaluate import baseline, evaluate, infer_features
from lps.measurements import Averages
from lps.methods import Method, Progress
from lps.network import Network
from lps.parameters import ConfigError
from lps.pretrain import pretrained_backbone
from lps.runs import EventWriter, Run, write_json, write_whole
from lps.split import Split, open_world_split
from lps.views import FAMILIES

BEST = "accuracy/all"  # an oracle (it looks at the truth); kept for looking back, never used for training


class Diverged(Exception):
    """The loss is no longer a finite number."""


@dataclass
class Position:
    """Where training stands: whole epochs done, steps done in the current one, and its averages so far."""

    epoch: int = 0
    step: int = 0
    averages: Averages = field(default_factory=Averages)
    best: float = -1.0


@dataclass(frozen=True)
class Material:
    """What a run trains on. images: uint8 (n, channels, height, width) on the device; truth: int64 (n,), class ids."""

    images: Tensor
    truth: np.ndarray
    split: Split
    plan: BatchPlan


class Session:
    """One attempt at a run: its writers, its clock and the wish to stop."""

    def __init__(self, run: Run):
        self.run = run
        self.events = EventWriter(run.events)
        self.stop = False
        self._reported = 0.0
        self._phase, self._phase_began, self._first_step = "", 0.0, 0
        signal.signal(signal.SIGTERM, self._ask_to_stop)

    def _ask_to_stop(self, *_):
        self.stop = True  # looked at between steps, so that no file is left half-written

    def should_stop(self) -> bool:
        return self.stop

    def progress(self, phase: str, epoch: int, epochs: int, step: int, steps: int) -> None:
        """Tell readers how far `phase` is (`step` of `steps` over all its epochs); at most once a second."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._phase_began, self._first_step, self._reported = phase, now, step, 0.0
        if now - self._reported < 1 and step < steps:
            return
        self._reported = now
        done = step - self._first_step
        eta = (now - self._phase_began) / done * (steps - step) if done else None
        report = {"phase": phase, "epoch": epoch, "epochs": epochs, "step": step, "steps": steps, "eta_s": eta}
        write_json(self.run.folder / "progress.json", report | {"time": time.time()})


def train(run: Run) -> int:
    """Carry out `run` from where its checkpoints stand; gives the exit code of the process (0: finished or stopped)."""
    session = Session(run)
    try:
        return _attempt(run, session)
    except Exception as error:
        failure, reason = explain(error)
        print(f"{failure}: {reason}", file=sys.stderr)
        if failure == "bug":
            traceback.print_exc()
        session.events.append("fail", step=0, epoch=0, values={}, failure=failure, reason=reason)
        session.events.sync()
        return 1
    finally:
        session.events.close()


def explain(error: Exception) -> tuple[str, str]:
    """(kind, one sentence) for an exception that ended a run."""
    if isinstance(error, ConfigError):
        return "config", str(error)
    if isinstance(error, Diverged):
        return "diverged", str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "out_of_memory", "the device ran out of memory; a smaller batch_size needs less"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk_full", f"no space left for {error.filename or 'the run'}; free some and resume"
    if isinstance(error, torch.AcceleratorError):
        return "device", f"the GPU failed: {str(error).splitlines()[0]}"
    return "bug", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"


def _attempt(run: Run, session: Session) -> int:
    config = run.config()
    device = resolve_device(config.device)
    torch.set_num_threads(config.threads or os.cpu_count())
    run.checkpoints.mkdir(exist_ok=True)
    run.snapshots.mkdir(exist_ok=True)
    session.progress("prepare", 0, config.epochs, 0, 1)
    material = prepare(config, device)
    _write_split(run, material)
    method, optimizer = build(config, material, device)
    position = _restore(run, method, optimizer, device)
    if position is None:
        position = Position()
        if not _start(config, session, material, method, run):
            return _stopped(session, position)
    else:
        session.events.append("start", step=0, epoch=position.epoch, values=_facts(material, method))
    while position.epoch < config.epochs:
        if not _train_epoch(config, session, material, method, optimizer, position):
            _commit(run, method, optimizer, position, material.plan)
            return _stopped(session, position)
        accuracy = _evaluate_epoch(config, session, material, method, position, run)
        is_best = accuracy > position.best
        position = Position(position.epoch, best=max(accuracy, position.best))
        name = _commit(run, method, optimizer, position, material.plan)
        if is_best:
            checkpoints.keep_as_best(run.checkpoints, name)
    session.events.append("finish", step=position.epoch * material.plan.steps, epoch=position.epoch, values={})
    session.events.sync()
    return 0


def resolve_device(name: str) -> torch.device:
    """The torch device of a config's `device`; raises `ConfigError` for a GPU that is not there."""
    count = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda" if count else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= count:
        found = ", ".join(f"cuda:{i}" for i in range(count)) or "none"
        raise ConfigError("device", f"{name} is not here; GPUs that PyTorch can use: {found}; cpu always works")
    return device


def prepare(config: Config, device: torch.device) -> Material:
    """Load the images, split them and put them on the device; raises `ConfigError`."""
    images = datasets.load(config.dataset, config.dataset_path)
    split = open_world_split(images.labels, images.class_names, config)
    pixels = torch.from_numpy(np.ascontiguousarray(images.pixels.transpose(0, 3, 1, 2))).to(device)
    return Material(pixels, split.targets(images.labels), split, plan_batches(split, config.batch_size))


def build(config: Config, material: Material, device: torch.device) -> tuple[Method, torch.optim.Optimizer]:
    """Method and optimizer with seeded random weights."""
    torch.manual_seed(int(seeded(torch.device("cpu"), config.seed, 0).initial_seed()))
    network = Network(config, material.images.shape[1], material.split.classes.total)
    method = methods.build(config, network, material.split.classes).to(device, memory_format=torch.channels_last)
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
    if config.optimizer == "sgd":
        momentum = {"momentum": config.momentum, "weight_decay": config.weight_decay}
        return method, torch.optim.SGD(trained, lr=config.lr, **momentum, foreach=True)
    return method, torch.optim.Adam(trained, lr=config.lr, weight_decay=config.weight_decay, foreach=True)


def learning_rate(config: Config, epoch: int) -> float:
    """Constant within an epoch; "cosine" falls from lr to 0 over the epochs."""
    if config.schedule == "constant":
        return config.lr
    return config.lr * 0.5 * (1 + math.cos(math.pi * epoch / config.epochs))


def _start(config: Config, session: Session, material: Material, method: Method, run: Run) -> bool:
    """Begin a run: start event, SimCLR weights, baseline. False when it was asked to stop meanwhile."""
    session.events.append("start", step=0, epoch=0, values=_facts(material, method))
    if config.pretrain_epochs:
        weights = _pretrain(config, session, material, run)
        if weights is None:
            return False
        method.network.backbone.load_state_dict(weights)
    features = infer_features(method.network.backbone, material.images, config)
    values = baseline(features, material.truth, material.split, config.seed)
    session.events.append("start", step=0, epoch=0, values=_facts(material, method) | values)
    return True


def _pretrain(config: Config, session: Session, material: Material, run: Run) -> dict | None:
    size = min(config.pretrain_batch_size, len(material.images))
    steps = len(material.images) // size

    def report(epoch: int, step: int, values: dict) -> None:
        done = min(config.pretrain_epochs, epoch) * steps + (0 if values else step)
        session.progress("pretrain", epoch, config.pretrain_epochs, done, config.pretrain_epochs * steps)
        if values:
            session.events.append("pretrain", step=epoch * steps, epoch=epoch, values=values)

    truth = torch.from_numpy(material.truth)
    return pretrained_backbone(config, material.images, truth, run.root / ".pretrained", report, session.should_stop)


def _train_epoch(config: Config, session: Session, material: Material, method: Method, optimizer, at: Position) -> bool:
    """The steps of one epoch from `at.step` on, then its `train` event. False when asked to stop between two steps."""
    plan, device = material.plan, material.images.device
    views = tuple(FAMILIES[config.views][name] for name in method.views)
    targets = torch.from_numpy(material.truth[material.split.labeled]).to(device)
    precision = _autocast(config, device)
    began, first = time.perf_counter(), at.step
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, at.epoch)
    method.train()
    for batch in training_batches(
        material.images, targets, material.split, views, plan, config, at.epoch, first_step=at.step
    ):
        if session.should_stop():
            return False
        with precision:
            loss, measured = method.loss(batch, Progress(at.epoch, config.epochs, at.step, plan.steps))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        at.averages.add(measured)
        at.step += 1
        session.progress(
            "train", at.epoch, config.epochs, at.epoch * plan.steps + at.step, config.epochs * plan.steps
        )
    values = at.averages.result()
    seconds, steps = time.perf_counter() - began, at.step - first
    values |= {"lr": learning_rate(config, at.epoch), **_cost(seconds, steps, config, len(views), device)}
    if not math.isfinite(values["loss/total"]):
        raise Diverged(f"the loss of epoch {at.epoch + 1} is not a finite number; a smaller lr than {config.lr:g} may help")
    at.epoch += 1
    session.events.append("train", step=at.epoch * plan.steps, epoch=at.epoch, values=values)
    return True


def _evaluate_epoch(config: Config, session: Session, material: Material, method: Method, at: Position, run: Run) -> float:
    """The `eval` event and the snapshot of the epoch that was just trained; gives the measure that `best` goes by."""
    began = time.perf_counter()
    values, snapshot = evaluate(method, material.images, material.truth, material.split, config)
    write_arrays(run.snapshots / f"epoch-{at.epoch:04d}.npz", snapshot)
    values["time/eval_s"] = time.perf_counter() - began
    session.events.append("eval", step=at.epoch * material.plan.steps, epoch=at.epoch, values=values)
    session.events.sync()
    return values.get(BEST, 0.0)


def _commit(run: Run, method: Method, optimizer, at: Position, plan: BatchPlan) -> str:
    """Write the checkpoint of this moment and drop old ones; gives its name."""
    name = f"step-{at.epoch * plan.steps + at.step:08d}"
    state = {"method": method.state_dict(), "optimizer": optimizer.state_dict(), "averages": at.averages.state_dict()}
    checkpoints.save(run.checkpoints, name, state | {"epoch": at.epoch, "step": at.step, "best": at.best})
    checkpoints.prune(run.checkpoints)
    return name


def _restore(run: Run, method: Method, optimizer, device: torch.device) -> Position | None:
    """Load the newest checkpoint that verifies; None where there is none."""
    name, state, damaged = checkpoints.load_newest(run.checkpoints)
    for damaged_name in damaged:
        print(f"checkpoint {damaged_name} is damaged and was not used", flush=True)
    if state is None:
        return None
    print(f"resuming from checkpoint {name}", flush=True)
    method.load_state_dict(state["method"])
    optimizer.load_state_dict(state["optimizer"])
    averages = Averages()
    averages.load_state_dict(state["averages"])
    return Position(state["epoch"], state["step"], averages, state["best"])


def _stopped(session: Session, at: Position) -> int:
    session.events.append("stop", step=at.step, epoch=at.epoch, values={})
    session.events.sync()
    print(f"stopped in epoch {at.epoch + 1}; resume goes on from here", flush=True)
    return 0


def _facts(material: Material, method: Method) -> dict[str, int]:
    split = material.split
    return {
        "classes/seen": split.classes.seen,
        "classes/total": split.classes.total,
        "images/labeled": len(split.labeled),
        "images/unlabeled": len(split.unlabeled),
        "parameters": sum(parameter.numel() for parameter in method.parameters()),
        "threads": torch.get_num_threads(),
    }


def _cost(seconds: float, steps: int, config: Config, views: int, device: torch.device) -> dict[str, float]:
    """Time per step, images per second (every view counts) and peak memory."""
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform != "darwin" else 1024)
    cost = {
        "time/step_s": seconds / steps,
        "throughput/images_per_s": config.batch_size * views * steps / seconds,
        "memory/host_gb": kib * 1024 / 1e9,
    }
    if device.type == "cuda":
        cost["memory/device_gb"] = torch.cuda.max_memory_allocated(device) / 1e9
    return cost


def _autocast(config: Config, device: torch.device):
    """bf16 where asked for, or by default on a GPU; on CPUs without matrix units bf16 is many times slower than fp32."""
    if config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def _write_split(run: Run, material: Material) -> None:
    """`split.npz` as in docs/formats.md, once."""
    path = run.folder / "split.npz"
    if path.exists():
        return
    split = material.split
    write_arrays(
        path,
        {
            "labeled": split.labeled,
            "unlabeled": split.unlabeled,
            "targets": material.truth.astype(np.int16),
            "class_order": split.class_order,
            "class_names": np.array(split.class_names),
            "seen": np.array(split.classes.seen),
            "seed": np.array(split.seed),
        },
    )


def write_arrays(path, arrays: dict[str, np.ndarray]) -> None:
    """A compressed .npz, whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_whole(path, buffer.getvalue())
