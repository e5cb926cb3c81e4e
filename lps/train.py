"""The one loop: prepare, pretrain or reuse, then train and evaluate epoch by epoch, leaving a run that can be resumed.

The loop owns seed, optimizer, schedule, precision and cadence; the method owns the mathematics. An epoch is committed
when its checkpoint is: its events are on disk before. What a resumed run does from a checkpoint on depends on nothing
but the checkpoint and the config, so on a CPU it ends with the very numbers of a run that was never stopped.

Where several processes train a run (`lps.distributed`), all of them go through this loop. The first one alone writes
and pretrains; the others get its weights, and are told of what is not the same for all: a stop, a checkpoint.
"""

import contextlib
import errno
import math
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch

from lps import backbones, checkpoints, disk, distributed, hardware, methods, ranks, snapshots, starts
from lps.batches import seeded, training_batches
from lps.config import Config
from lps.devices import available_cores
from lps.evaluate import baseline, evaluate, infer_features, inference
from lps.events import EventWriter
from lps.files import refusal, sweep, write_json
from lps.material import Material, prepare, resolve_device
from lps.measurements import Averages
from lps.methods import Method, Progress
from lps.network import Network, autocast
from lps.parameters import ConfigError
from lps.pretrain import pretrained_backbone
from lps.runs import Run
from lps.summary import criterion
from lps.views import FAMILIES

# What a file system says when it, or somebody beside us, is at fault.
DISK_ERRORS = {getattr(errno, f"E{name}") for name in "IO ROFS STALE ACCES PERM NODEV NXIO NOENT NOTDIR".split()}

CHANGED = (
    "its images or labels are not those that this run began with, and it goes on with nothing else; put them back and "
    "resume, or launch a copy"
)


class Diverged(Exception):
    """The loss is no longer a finite number."""


@dataclass
class Position:
    """Where training stands: whole epochs done, steps done in the current one, and its averages so far."""

    epoch: int = 0
    step: int = 0
    averages: Averages = field(default_factory=Averages)
    best: float = -1.0


def train(run: Run) -> int:
    """Carry out `run` from where its checkpoints stand; gives the exit code of the process (0: finished or stopped)."""
    try:
        attempt = Attempt(run)
    except OSError as error:
        _print(*_explain(run, error))
        return 1
    try:
        return attempt.carry_out()
    except Exception as error:
        failure, reason = _explain(run, error)
        _print(failure, reason)
        if failure == "bug":
            traceback.print_exc()
        with contextlib.suppress(OSError):  # on a full disk what was printed has to do, for the runner
            attempt.fail(failure, reason)
        return 1
    finally:
        attempt.events.close()


def _print(failure: str, reason: str) -> None:
    """What the runner looks for where no event says how the run failed."""
    print(f"{failure}: {reason}", file=sys.stderr)


def _explain(run: Run, error: Exception) -> tuple[str, str]:
    """As `explain`; where the folder is gone, nothing else is the reason."""
    if not run.folder.is_dir():
        return "io_error", "the run's folder was deleted while it was going"
    return explain(error)


def explain(error: Exception) -> tuple[str, str]:
    """(kind, one sentence) for an exception that ended a run."""
    first_line = str(error).partition("\n")[0] or "no message"
    if isinstance(error, ConfigError):
        return "data" if error.name in ("dataset", "dataset.path") else "config", str(error)
    if isinstance(error, Diverged):
        return "diverged", str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "out_of_memory", "the device ran out of memory; a smaller batch_size needs less"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        if isinstance(error, disk.TooSmall):
            what = f"{Path(error.filename).name} ({error.in_words()})"
        else:
            what = error.filename or "the run"
        return "disk_full", f"no space left for {what}; free some and resume"
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        return "io_error", f"{error.filename or 'a file of the run'}: {refusal(error)}; mend that and resume"
    if isinstance(error, torch.AcceleratorError):
        return "device", f"the GPU failed: {first_line}"
    return "bug", f"{type(error).__name__}: {first_line}"


class Attempt:
    """One process's work on a run, from the newest checkpoint to the end, a stop, or a failure."""

    def __init__(self, run: Run):
        self.run = run
        self.is_first = ranks.place()[0] == 0  # or the only one
        self.events = EventWriter(run.events) if self.is_first else Silence()
        self.position = Position()
        self.steps_per_epoch = 0
        self._stop = False
        self._progress = ProgressFile(run) if self.is_first else Silence()
        signal.signal(signal.SIGTERM, self._ask_to_stop)

    def _ask_to_stop(self, *_) -> None:
        self._stop = True  # looked at between two steps, so that no file is left half-written

    def should_stop(self) -> bool:
        return self._stop

    def log(self, kind: str, values: dict, **more) -> None:
        """One event at the current position, on disk when the call returns."""
        self.events.append(kind, step=self._steps_done(), epoch=self.position.epoch, values=values, **more)
        self.events.sync()

    def _log_start(self, values: Mapping[str, float] = MappingProxyType({})) -> None:
        """What is trained, and what it is trained with."""
        device = self.material.images.device
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        self.log("start", facts(self.material, self.method) | dict(values), machine=hardware.facts(gpu))

    def fail(self, failure: str, reason: str) -> None:
        """The `fail` event; of several ranks each tells its parent, which records the first reason."""
        if not ranks.report(failure, reason, self._steps_done(), self.position.epoch):
            self.log("fail", {}, failure=failure, reason=reason)

    def _steps_done(self) -> int:
        return self.position.epoch * self.steps_per_epoch + self.position.step

    def carry_out(self) -> int:
        self._prepare()
        if not self._restore() and not self._start():
            return self._stopped()
        epochs = self.config.epochs if self.method.trains else 1
        while self.position.epoch < epochs:
            if not self.method.trains:
                self.position = Position(1)
            elif not self._train_epoch():
                self._commit()
                return self._stopped()
            self._evaluate_epoch()
        self.log("finish", {})
        distributed.leave()
        return 0

    def _prepare(self) -> None:
        self.config = config = self.run.config()
        distributed.join(config.processes, resolve_device(config.device))
        torch.set_num_threads(max(1, (config.threads or available_cores()) // config.processes))
        self._progress.write("prepare", 0, config.epochs, 0, 1)
        if self.is_first:
            sweep(self.run.folder)
        disk.make_folder(self.run.checkpoints)
        disk.make_folder(self.run.snapshots)
        self.material = prepare(config)
        self.steps_per_epoch = self.material.plan.steps
        if self.is_first:
            snapshots.write_split(self.run.folder, self.material.split, self.material.truth)
            self._check_split()
        backbones.check_images(config.network_name, *self.material.images.shape[1:])
        self.method, self.optimizer = build(config, self.material)

    def _check_split(self) -> None:
        """Raises `ConfigError` where an earlier attempt divided other images, or the same ones otherwise."""
        try:
            split, truth = snapshots.read_split(self.run.folder)
        except ConfigError:
            return  # it is damaged, which pages say; the run does not need it
        ours, arrays = self.material.split, ("labeled", "unlabeled", "class_order", "test", "validation")
        same = all(np.array_equal(getattr(split, name), getattr(ours, name)) for name in arrays)
        if not same or not np.array_equal(truth, self.material.truth):
            raise ConfigError("dataset", CHANGED)

    def _restore(self) -> bool:
        """Go on from the newest checkpoint that verifies; False where there is none."""
        found = checkpoints.load_newest(self.run.checkpoints, self._fits) if self.is_first else (None, None, {})
        name, state, damaged = found
        for damaged_name, what in damaged.items():
            print(f"checkpoint {damaged_name} {what} and was not used", flush=True)
        checkpoints.set_aside(self.run.checkpoints, list(damaged))
        number = distributed.from_first(int(name.removeprefix("step-")) if name else -1)
        if number < 0:
            return False
        if self.is_first:
            print(f"resuming from checkpoint {name}", flush=True)
        else:
            state = checkpoints.load(self.run.checkpoints, _checkpoint_name(number))
        if self.is_first and state.get("data", self.material.digest) != self.material.digest:
            raise ConfigError("dataset", CHANGED)
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        averages = Averages(state["averages"])
        self.position = Position(state["epoch"], state["step"], averages, state["best"])
        if state["is_best"] and self.is_first:  # the attempt may have been killed before it could say so
            checkpoints.keep_as_best(self.run.checkpoints, name)
        if self.is_first:
            checkpoints.prune(self.run.checkpoints)  # it may have been killed in the midst of that, too
        self.log("start", facts(self.material, self.method), **({"damaged": list(damaged)} if damaged else {}))
        return True

    def _fits(self, state: dict) -> bool:
        """Whether a checkpoint is one of this training: what is missing in it, or has another shape, is another's."""
        epoch, step = (state.get(key) for key in ("epoch", "step"))
        return (
            isinstance(epoch, int)
            and isinstance(step, int)
            and 0 <= epoch <= max(1, self.config.epochs)
            and 0 <= step <= self.steps_per_epoch
            and isinstance(state.get("is_best"), bool)
            and isinstance(state.get("best"), float)
            and isinstance(state.get("averages"), dict)
            and checkpoints.is_state_of(state.get("method"), self.method.state_dict())
            and checkpoints.is_optimizer_state_of(state.get("optimizer"), self.optimizer.state_dict())
        )

    def _start(self) -> bool:
        """Begin from the start weights and say what they are worth alone. False when asked to stop meanwhile."""
        self._log_start()
        loaded = not self.is_first or self._load_start_weights()
        if distributed.any_of(not loaded):
            return False
        distributed.equalise(self.method)
        if self.is_first:
            features = infer_features(self.method.network.backbone, self.material.images, self.config)
            values = baseline(features, self.material.truth, self.material.split, self.config.seed)
            self._log_start(values)
        return True

    def _load_start_weights(self) -> bool:
        """Pretrained weights into the backbone, where the config wants some. False when asked to stop meanwhile."""
        backbone = self.method.network.backbone
        if self.config.network_start in ("checkpoint", "torchvision"):
            print(starts.load(self.config, backbone), flush=True)
        elif self.config.network_start == "simclr" and self.config.pretrain_epochs:
            weights = self._pretrain()
            if weights is None:
                return False
            backbone.load_state_dict(weights)
        return True

    def _pretrain(self) -> dict | None:
        config, material = self.config, self.material
        images, truth = material.training
        steps = len(images) // min(config.pretrain_batch_size, len(images))

        def report(epoch: int, step: int, values: dict) -> None:
            done = epoch * steps + (0 if values else step)
            self._progress.write("pretrain", epoch, config.pretrain_epochs, done, config.pretrain_epochs * steps)
            if values:
                self.events.append("pretrain", step=epoch * steps, epoch=epoch, values=values)
                self.events.sync()

        cache = self.run.root / ".pretrained"
        return pretrained_backbone(config, images, truth, cache, report, self.should_stop)

    def _train_epoch(self) -> bool:
        """The rest of the current epoch, then its `train` event. False when asked to stop between two steps."""
        config, at, material = self.config, self.position, self.material
        views = tuple(FAMILIES[config.views][name] for name in self.method.views)
        targets = torch.from_numpy(material.truth[material.split.labeled]).to(material.images.device)
        precision, began, first = autocast(config, material.images.device), time.perf_counter(), at.step
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(config, at.epoch)
        if first == 0:
            with torch.no_grad():
                self.method.start_epoch(
                    inference(self.method, material, config), Progress(at.epoch, config.epochs, 0, material.plan.steps)
                )
            distributed.equalise(self.method)
        self.method.train()
        for batch in training_batches(
            material.images, targets, material.split, views, material.plan, config, at.epoch, first_step=first
        ):
            if distributed.any_of(self._stop):
                return False
            with precision:
                loss, measured = self.method.loss(
                    batch, Progress(at.epoch, config.epochs, at.step, material.plan.steps)
                )
            self.optimizer.zero_grad()
            loss.backward()
            distributed.add_up_gradients(self.method, self.method.network)
            self.optimizer.step()
            self.method.after_step()
            at.averages.add({"loss/total": loss.detach()} | measured)
            at.step += 1
            done = at.epoch * material.plan.steps + at.step
            self._progress.write("train", at.epoch, config.epochs, done, config.epochs * material.plan.steps)
        values = at.averages.result() | {"lr": learning_rate(config, at.epoch)}
        values |= cost(
            time.perf_counter() - began, at.step - first, config.batch_size * len(views), material.images.device
        )
        if not math.isfinite(values["loss/total"]):
            raise Diverged(f"the loss of epoch {at.epoch + 1} is not a finite number; try an lr below {config.lr:g}")
        self.position = Position(at.epoch + 1, best=at.best)
        self.log("train", values)
        return True

    def _evaluate_epoch(self) -> None:
        """The `eval` event and the snapshot of the epoch that was just trained, then its checkpoint."""
        began, at = time.perf_counter(), self.position
        values, snapshot = evaluate(self.method, self.material, self.config)
        if self.is_first:
            snapshots.write_snapshot(self.run.snapshots, at.epoch, snapshot)
        self.log("eval", values | {"time/eval_s": time.perf_counter() - began})
        accuracy = values.get(criterion(values), -1.0)  # nothing to judge by: no epoch is the best
        is_best, at.best = accuracy > at.best, max(accuracy, at.best)
        name = self._commit(is_best)
        if is_best and self.is_first:
            checkpoints.keep_as_best(self.run.checkpoints, name)

    def _commit(self, is_best: bool = False) -> str:
        """Write the checkpoint of this moment and drop old ones; gives its name."""
        at = self.position
        name = _checkpoint_name(self._steps_done())
        if not self.is_first:
            return name
        state = {"method": self.method.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"averages": at.averages.state_dict(), "epoch": at.epoch, "step": at.step}
        state |= {"best": at.best, "is_best": is_best, "data": self.material.digest}
        checkpoints.save(self.run.checkpoints, name, state)
        checkpoints.prune(self.run.checkpoints)
        return name

    def _stopped(self) -> int:
        self.log("stop", {})
        if self.is_first:
            print(f"stopped in epoch {self.position.epoch + 1}; resume goes on from here", flush=True)
        distributed.leave()
        return 0


class Silence:
    """What a rank that is not the first one says to events and progress: nothing."""

    def write(self, *arguments) -> None: ...

    def append(self, *arguments, **more) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class ProgressFile:
    """`progress.json`: how far the current phase is, for readers; written at most once a second."""

    def __init__(self, run: Run):
        self._path = run.folder / "progress.json"
        self._phase, self._began, self._first_step, self._written = "", 0.0, 0, 0.0

    def write(self, phase: str, epoch: int, epochs: int, step: int, steps: int) -> None:
        """step of steps: over all epochs of the phase. The estimate of the seconds left goes by this process's pace."""
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._began, self._first_step, self._written = phase, now, step, 0.0
        if now - self._written < 1 and step < steps:
            return
        self._written, done = now, step - self._first_step
        eta = (now - self._began) / done * (steps - step) if done else None
        report = {"phase": phase, "epoch": epoch, "epochs": epochs, "step": step, "steps": steps, "eta_s": eta}
        write_json(self._path, report | {"time": time.time()})


def build(config: Config, material: Material) -> tuple[Method, torch.optim.Optimizer]:
    """Method and optimizer with seeded random weights."""
    torch.manual_seed(seeded(torch.device("cpu"), config.seed, 0).initial_seed())
    network = Network(config, material.images.shape[1], material.split.classes.total)
    method = methods.build(config, network, material.split.classes)
    distributed.synchronise_batchnorm(method, material.images.device)
    method = method.to(material.images.device, memory_format=torch.channels_last)
    settings = {"lr": config.lr, "weight_decay": config.weight_decay, "foreach": True}
    if config.optimizer == "sgd":
        return method, torch.optim.SGD(trained(method), momentum=config.momentum, **settings)
    return method, torch.optim.Adam(trained(method), **settings)


def _checkpoint_name(steps: int) -> str:
    return f"step-{steps:08d}"


def trained(method: Method) -> list[torch.nn.Parameter]:
    return [parameter for parameter in method.parameters() if parameter.requires_grad]


def learning_rate(config: Config, epoch: int) -> float:
    """Constant within an epoch; "cosine" falls from lr to 0 over the epochs."""
    if config.schedule == "constant":
        return config.lr
    return config.lr * 0.5 * (1 + math.cos(math.pi * epoch / config.epochs))


def facts(material: Material, method: Method) -> dict[str, int]:
    """Sizes that a reader of the run wants to know, for its `start` event."""
    split = material.split
    return {
        "classes/seen": split.classes.seen,
        "classes/total": split.classes.total,
        "images/labeled": len(split.labeled),
        "images/unlabeled": len(split.unlabeled),
        "images/validation": len(split.validation),
        "images/test": len(split.test),
        "parameters": sum(parameter.numel() for parameter in {*method.network.parameters(), *trained(method)}),
        "threads": torch.get_num_threads(),
    }


def cost(seconds: float, steps: int, images_per_step: int, device: torch.device) -> dict[str, float]:
    """Time per step, images per second (every view counts) and peak memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    result = {
        "time/step_s": seconds / steps,
        "throughput/images_per_s": images_per_step * steps / seconds,
        "memory/host_gb": peak / 1e9,
    }
    if device.type == "cuda":
        result["memory/device_gb"] = torch.cuda.max_memory_allocated(device) / 1e9
    return result
