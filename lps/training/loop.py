"""The training loop: prepare, pretrain or reuse, then train and evaluate epoch by epoch; resumable at any time.

The loop owns seed, optimizer, schedule, precision and cadence; the method owns the mathematics. An epoch is committed
together with its checkpoint: its events are on disk before. A resumed run depends only on
the checkpoint and the config, so on a CPU it ends with exactly the numbers of an uninterrupted run.

If several processes train a run (`lps.network.parallel`), all of them execute this loop. Only the first one
writes and pretrains; it sends the others its weights, and all decisions of its own: a stop, a checkpoint.
"""

import contextlib
import math
import resource
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import torch

from lps import methods
from lps.data import features
from lps.data.batches import TRAINING, seeded, training_batches
from lps.data.class_shares import first_prior
from lps.data.features import StoredFeatures
from lps.data.referenced_pictures import rate_of_workers
from lps.data.training_data import TrainingData, prepare, resolve_device
from lps.data.views import views_of
from lps.errors import UserError
from lps.files import disk
from lps.files.atomic import remove_abandoned, write_json
from lps.machine.devices import available_cores
from lps.methods import Method, Progress
from lps.methods.parts import prior
from lps.methods.parts.measurements import Averages
from lps.methods.parts.optimizers import without_compiler
from lps.network import backbones, parallel, start_weights
from lps.network.network import Network, autocast, precision
from lps.settings.backbone_names import GIVEN
from lps.settings.config import Config
from lps.store import inherited_files, provenance, snapshots
from lps.store.events import EventWriter
from lps.store.runs import Run
from lps.store.summary import criterion
from lps.training import checkpoints, parent_weights, ranks
from lps.training.end_reason import CHANGED, Diverged, explain_end
from lps.training.evaluate import build_inference, evaluate, start_quality
from lps.training.pretrain import pretrained_backbone
from lps.training.step_clock import StepClock
from lps.training.step_measurements import StepMeasurements
from lps.wording import step_in_words

_TELLING = 10_000  # sample size for the principal components of stored features
_SPANS = 50  # steps for the estimate of the time from a stop to its checkpoint


@dataclass
class _Position:
    """Position of training: completed epochs, steps done in the current one, and their measurements."""

    epoch: int = 0
    step: int = 0
    averages: Averages = field(default_factory=Averages)
    best: float = -1.0
    trail: StepMeasurements | None = None  # of the current epoch


def train(run: Run) -> int:
    """Train `run` from its newest checkpoint; returns the exit code of the process (0: finished or stopped)."""
    try:
        attempt = RunTraining(run)
    except OSError as error:
        _print(*explain_end(run, error))
        return 1
    try:
        return attempt.carry_out()
    except Exception as error:
        failure, reason = explain_end(run, error)
        _print(failure, reason)
        if failure == "bug":
            traceback.print_exc()
        with contextlib.suppress(OSError):  # on a full disk the runner reads the printed reason
            attempt.fail(failure, reason)
        return 1
    finally:
        attempt.events.close()


def _print(failure: str, reason: str) -> None:
    """Print the failure for the runner, in case there is no event."""
    print(f"{failure}: {reason}", file=sys.stderr)


class RunTraining:
    """One process's work on a run, from the newest checkpoint to the end, a stop, or a failure."""

    def __init__(self, run: Run):
        self.run = run
        self.is_first = ranks.own_rank()[0] == 0  # or the only process
        self.events = EventWriter(run.events) if self.is_first else _Mute()
        self.position = _Position()
        self.steps_per_epoch = 0
        self._stop = False
        self._evaluation_s = 0.0  # duration of the last evaluation with its checkpoint
        self._start_s = 0.0  # duration of the method's last epoch start, or an estimate of it
        self._progress = ProgressFile(run, self.events) if self.is_first else _Mute()
        signal.signal(signal.SIGTERM, self._ask_to_stop)

    def _ask_to_stop(self, *_) -> None:
        self._stop = True  # read between two steps, so that no file is left half-written

    def should_stop(self) -> bool:
        return self._stop

    def log(self, kind: str, values: dict, **more) -> None:
        """Write one event at the current position; it is on disk when the call returns."""
        self.events.append(kind, step=self._steps_done(), epoch=self.position.epoch, values=values, **more)
        self.events.sync()

    def _log_start(self, values: Mapping[str, float] = MappingProxyType({}), **more) -> None:
        """Write the `start` event: sizes of data and model, hardware, and the resolved settings."""
        device = self.material.images.device
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        start_values = _facts(self.material, self.method) | dict(values)
        self.log("start", start_values, machine=provenance.machine_facts(gpu), **self._resolved(), **more)

    def _resolved(self) -> dict[str, str]:
        """Return the values that settings leave open: precision, key of stored features, matching of test clusters."""
        resolved = {"precision": precision(self.config, self.material.images.device)}
        resolved |= {"features": self.material.images.key} if self.config.features == "stored" else {}
        return resolved | ({"test_clusters": self.method.test_clusters} if len(self.material.split.test) else {})

    def fail(self, failure: str, reason: str) -> None:
        """Write the `fail` event; with several ranks, report to the parent, which records the first reason."""
        if not ranks.report_rank_failure(failure, reason, self._steps_done(), self.position.epoch):
            self.log("fail", {}, failure=failure, reason=reason)

    def _steps_done(self) -> int:
        return self.position.epoch * self.steps_per_epoch + self.position.step

    def carry_out(self) -> int:
        if not self._prepare() or not self._restore() and not self._start():
            return self._stopped()
        epochs = self.config.epochs if self.method.trains else 1
        while self.position.epoch < epochs:
            if not self.method.trains:
                self.position = _Position(1)
            elif not self._train_epoch():
                self._commit()
                return self._stopped()
            self._evaluate_epoch()
        self.log("finish", {})
        parallel.leave()
        return 0

    def _prepare(self) -> bool:
        """Prepare everything except weights before the first step. Returns False if stopped meanwhile."""
        self.config = config = self.run.config()
        parallel.join(*ranks.own_rank(), config.processes, resolve_device(config.device))
        torch.set_num_threads(max(1, (config.threads or available_cores()) // config.processes))
        self._progress.write("prepare", 0, config.epochs, 0, 1)
        if self.is_first:
            remove_abandoned(self.run.folder)
        disk.make_folder(self.run.checkpoints)
        disk.make_folder(self.run.snapshots)
        self.material = prepare(config, inherited_files.read_confirmed(self.run))
        self.steps_per_epoch = self.material.plan.steps
        if self.is_first:
            snapshots.write_split(self.run.folder, self.material.split, self.material.truth)
            self._check_split()
        if config.network_name != GIVEN:
            backbones.check_backbone(config, *self.material.images.shape[1:])
        if config.features == "stored" and not self._store_features():
            return False
        self.method, self.optimizer = build(config, self.material)
        return True

    def _store_features(self) -> bool:
        """Replace the pictures by stored features. Returns False if stopped while they are computed."""
        config, images, stored = self.config, self.material.images, None

        def report(done: int, total: int) -> None:
            self._progress.write("features", 0, 0, done, total)

        if self.is_first:
            stored = features.features_for_run(config, images, report, self.should_stop)
        if parallel.any_of(self.is_first and stored is None):
            return False
        self.material = replace(
            self.material, images=stored or features.features_for_run(config, images, report, self.should_stop)
        )
        if config.threads is None:
            # A head gains little from the last core, and a watched page makes every step wait for it: on
            # two cores 50 epochs over 2,000 pictures take 42 s instead of 38 alone, and 52 instead of 76 beside Live.
            torch.set_num_threads(max(1, available_cores() // config.processes - 1))
        return True

    def _check_split(self) -> None:
        """Raise `UserError` if an earlier attempt split other images, or the same ones differently."""
        try:
            split, truth = snapshots.read_split(self.run.folder)
        except UserError:
            return  # damaged, which pages report; the run does not need it
        own_split = self.material.split
        arrays = ("labeled", "unlabeled", "class_order", "test", "validation", "confirmed")
        is_same = all(np.array_equal(getattr(split, name), getattr(own_split, name)) for name in arrays)
        if not is_same or not np.array_equal(truth, self.material.truth):
            raise UserError("dataset", CHANGED)

    def _restore(self) -> bool:
        """Resume from the newest valid checkpoint; returns False if there is none."""
        loaded = checkpoints.load_newest(self.run.checkpoints, self._fits) if self.is_first else (None, None, {})
        name, state, damaged = loaded
        for damaged_name, damage in damaged.items():
            print(f"checkpoint {damaged_name} {damage} and was not used", flush=True)
        checkpoints.set_aside(self.run.checkpoints, list(damaged))
        number = parallel.broadcast_number(int(name.removeprefix("step-")) if name else -1)
        if number < 0:
            return False
        if self.is_first:
            print(f"resuming from checkpoint {name}", flush=True)
        else:
            state = checkpoints.load_checkpoint(self.run.checkpoints, _checkpoint_name(number))
        if self.is_first and "data" in state and not self.material.has_digest(state["data"]):
            raise UserError("dataset", CHANGED)
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        averages = Averages(state["averages"])
        trail = StepMeasurements(self.material.split.classes.seen, state.get("trail"))
        self.position = _Position(state["epoch"], state["step"], averages, state["best"], trail)
        if state["is_best"] and self.is_first:  # the attempt may have been killed before it marked it
            checkpoints.keep_as_best(self.run.checkpoints, name)
        if self.is_first:
            checkpoints.prune_checkpoints(self.run.checkpoints)  # or while it pruned
        self._log_start(**({"damaged": list(damaged)} if damaged else {}))
        return True

    def _fits(self, state: dict) -> bool:
        """Return whether a checkpoint belongs to this training: same parts and shapes."""
        epoch, step = (state.get(key) for key in ("epoch", "step"))
        return (
            isinstance(epoch, int)
            and isinstance(step, int)
            and 0 <= epoch <= max(1, self.config.epochs)
            and 0 <= step <= self.steps_per_epoch
            and isinstance(state.get("is_best"), bool)
            and isinstance(state.get("best"), float)
            and isinstance(state.get("averages"), dict)
            and isinstance(state.get("trail", {}), dict)
            and checkpoints.is_state_of(state.get("method"), self.method.state_dict())
            and checkpoints.is_optimizer_state_of(state.get("optimizer"), self.optimizer.state_dict())
        )

    def _start(self) -> bool:
        """Start from the start weights and measure their quality. Returns False if stopped meanwhile."""
        self._log_start()
        loaded = not self.is_first or self._load_start_weights()
        if parallel.any_of(not loaded):
            return False
        parallel.broadcast_module(self.method)
        if self.is_first:
            start = time.perf_counter()
            values = start_quality(self.method.network.backbone, self.material, self.config)
            self._log_start(values)
            self._start_s = time.perf_counter() - start  # first estimate of a method's epoch start
        return True

    def _load_start_weights(self) -> bool:
        """Load pretrained weights into the backbone if the config wants them. Returns False if stopped meanwhile."""
        backbone = self.method.network.backbone
        if self.config.network_continues:
            print(self._load_weights_of_parent(), flush=True)
        elif self.config.features == "stored":
            print(f"start weights of the head: principal components of {self.material.images.key}", flush=True)
        elif self.config.network_start in start_weights.ELSEWHERE:
            print(start_weights.load(self.config, backbone), flush=True)
        elif self.config.network_start == "simclr" and self.config.pretrain_epochs:
            weights = self._pretrain()
            if weights is None:
                return False
            backbone.load_state_dict(weights)
        return True

    def _load_weights_of_parent(self) -> str:
        """Load the parent run's weights into all networks as far as they fit, and log it."""
        stored = checkpoints.load_checkpoint(self.run.folder, inherited_files.WEIGHTS)
        name = inherited_files.weights_name(self.run.read_json(f"{inherited_files.WEIGHTS}.json"))
        if stored is None or name != self.config.network_continues or not isinstance(stored.get("method"), dict):
            raise UserError(inherited_files.CONTINUES, f"{inherited_files.WEIGHTS}.pt of the run is missing or damaged")
        rows = torch.from_numpy(inherited_files.read_confirmed(self.run).rows)
        used = parent_weights.load_parent_weights(self.method, stored["method"], rows)
        return f"{used} start weights from the parent run"

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

        def report_wait(step: int) -> None:
            self._progress.write("wait", 0, 0, step, config.pretrain_epochs * steps)

        cache = self.run.root / ".pretrained"
        return pretrained_backbone(config, images, truth, cache, report, self.should_stop, report_wait)

    def _train_epoch(self) -> bool:
        """Train the rest of the current epoch and write its `train` event. Returns False if stopped before its end."""
        config, at, material = self.config, self.position, self.material
        views = tuple(views_of(config)[name] for name in self.method.views)
        targets = torch.from_numpy(material.truth[material.split.labeled]).to(material.images.device)
        precision, began, first = autocast(config, material.images.device), time.perf_counter(), at.step
        for group in self.optimizer.param_groups:
            group["lr"] = _learning_rate(config, at.epoch)
        if first == 0:
            self._tell_progress(ahead_s=self._start_s)
            looked_at = build_inference(self.method, material, config)
            with torch.no_grad():
                self.method.start_epoch(looked_at, Progress(at.epoch, config.epochs, 0, material.plan.steps))
            prior.refresh_prior(self.method, looked_at, config, at.epoch)
            parallel.broadcast_module(self.method)
            self._start_s = time.perf_counter() - began
        self._tell_progress()
        at.trail = at.trail or StepMeasurements(material.split.classes.seen)
        self.method.train()
        clock = StepClock(material.images.device)
        for batch in training_batches(
            material.images, targets, material.split, views, material.plan, config, at.epoch, first, clock.lap
        ):
            if parallel.any_of(self._stop):
                return False
            with precision:
                loss, measured = self.method.loss(
                    batch, Progress(at.epoch, config.epochs, at.step, material.plan.steps)
                )
            self.optimizer.zero_grad()
            loss.backward()
            parallel.add_up_gradients(self.method, self.method.network)
            self.optimizer.step()
            self.method.after_step()
            at.averages.add({"loss/total": loss.detach()} | measured)
            at.trail.add(measured)
            at.step += 1
            self._tell_progress()
            clock.lap("network")
        seconds = time.perf_counter() - began
        values = at.averages.result() | at.trail.result(at.step) | {"lr": _learning_rate(config, at.epoch)}
        if self.method.class_prior is not None:
            values["class/prior"] = self.method.class_prior.tolist()
        steps = at.step - first
        values |= _cost(seconds, steps, config.batch_size * len(views), material.images.device) | clock.by_step(steps)
        values |= rate_of_workers(material.images)
        if self.is_first and (message := step_in_words(values)):
            print(f"epoch {at.epoch + 1}: {message}", flush=True)
        if not math.isfinite(values["loss/total"]):
            raise Diverged(f"the loss of epoch {at.epoch + 1} is not a finite number; try an lr below {config.lr:g}")
        # Stops are not checked before the next epoch's first step. The first evaluation takes less than an epoch.
        self._tell_progress(ahead_s=(self._evaluation_s or seconds) + self._start_s)
        self.position = _Position(at.epoch + 1, best=at.best)
        self.log("train", values)
        return True

    def _tell_progress(self, ahead_s: float = 0.0) -> None:
        epochs, steps = self.config.epochs, self.steps_per_epoch
        self._progress.write("train", self.position.epoch, epochs, self._steps_done(), epochs * steps, ahead_s)

    def _evaluate_epoch(self) -> None:
        """Write the `eval` event and the snapshot of the epoch just trained, then its checkpoint."""
        start, position = time.perf_counter(), self.position
        values, snapshot = evaluate(self.method, self.material, self.config)
        if self.is_first:
            snapshots.write_snapshot(self.run.snapshots, position.epoch, snapshot)
        self.log("eval", values | {"time/eval_s": time.perf_counter() - start})
        accuracy = values.get(criterion(values), -1.0)  # without a criterion no epoch is the best
        is_best, position.best = accuracy > position.best, max(accuracy, position.best)
        name = self._commit(is_best)
        if is_best and self.is_first:
            checkpoints.keep_as_best(self.run.checkpoints, name)
        self._evaluation_s = time.perf_counter() - start

    def _commit(self, is_best: bool = False) -> str:
        """Write a checkpoint and remove old ones; returns its name."""
        at = self.position
        name = _checkpoint_name(self._steps_done())
        if not self.is_first:
            return name
        state = {"method": self.method.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"averages": at.averages.state_dict(), "epoch": at.epoch, "step": at.step}
        state |= {"trail": at.trail.state_dict()} if at.trail else {}
        state |= {"best": at.best, "is_best": is_best, "data": self.material.digest}
        checkpoints.save_checkpoint(self.run.checkpoints, name, state)
        checkpoints.prune_checkpoints(self.run.checkpoints)
        return name

    def _stopped(self) -> int:
        self.log("stop", {})
        if self.is_first:
            print(f"stopped in epoch {self.position.epoch + 1}; to continue from here, resume the run", flush=True)
        parallel.leave()
        return 0


class _Mute:
    """Discards events and progress of all ranks but the first."""

    def write(self, *arguments, **more) -> None: ...

    def append(self, *arguments, **more) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class ProgressFile:
    """`progress.json`: progress of the current phase, for readers; written at most once a second.

    It is written between two steps, when stops are checked: `stop_s` is their recent interval.
    """

    def __init__(self, run: Run, events: EventWriter):
        self._path, self._events = run.folder / "progress.json", events
        self._phase, self._began, self._first_step, self._written = "", 0.0, 0, 0.0
        self._spans, self._before, self._last, self._written_stop_s = deque(maxlen=_SPANS), run.stop_s(), 0.0, 1.0

    def write(self, phase: str, epoch: int, epochs: int, step: int, steps: int, ahead_s: float = 0.0) -> None:
        """Write step of steps over all epochs of the phase, and the time left at this process's speed.

        ahead_s: time to the next call, if it will be longer than usual. Raises `OSError`
        if the run's folder or its events are gone; the next event may be an epoch away.
        """
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._began, self._first_step, self._written = phase, now, step, 0.0
        else:
            self._spans.append(now - self._last)
        self._last = now
        stop_s = max(ahead_s, *self._spans) if self._spans else max(ahead_s, self._before)
        is_news = stop_s > 2 * self._written_stop_s
        if now - self._written < 1 and step < steps and not is_news:
            return
        self._events.check_exists()
        self._written, self._written_stop_s, steps_done = now, max(stop_s, 1.0), step - self._first_step
        eta = (now - self._began) / steps_done * (steps - step) if steps_done else None
        report = {"phase": phase, "epoch": epoch, "epochs": epochs, "step": step, "steps": steps, "eta_s": eta}
        write_json(self._path, report | {"stop_s": round(stop_s, 3), "time": time.time()})


def build(config: Config, material: TrainingData, *, will_load: bool = False) -> tuple[Method, torch.optim.Optimizer]:
    """Build method and optimizer with seeded start weights. will_load: they will be replaced, so some are random."""
    torch.manual_seed(seeded(torch.device("cpu"), config.seed, TRAINING.weights).initial_seed())
    network = Network(config, material.images.shape[1], material.split.classes.total)
    if isinstance(material.images, StoredFeatures) and not will_load:
        network.backbone.begin_at(material.images.spread(_TELLING).all_seen("plain"))
    method = methods.build(config, network, material.split.classes)
    shares = first_prior(config, material.split, material.truth)
    method.class_prior = None if shares is None else torch.from_numpy(shares).float()
    parallel.synchronise_batchnorm(method)
    method = method.to(material.images.device, memory_format=torch.channels_last)
    settings = {"lr": config.lr, "weight_decay": config.weight_decay, "foreach": True}
    if config.optimizer == "sgd":
        return method, without_compiler(torch.optim.SGD)(_trained(method), momentum=config.momentum, **settings)
    return method, without_compiler(torch.optim.Adam)(_trained(method), **settings)


def _checkpoint_name(steps: int) -> str:
    return f"step-{steps:08d}"


def _trained(method: Method) -> list[torch.nn.Parameter]:
    return [parameter for parameter in method.parameters() if parameter.requires_grad]


def _learning_rate(config: Config, epoch: int) -> float:
    """Return the learning rate, constant within an epoch; "cosine" falls from lr to 0 over the epochs."""
    if config.schedule == "constant":
        return config.lr
    return config.lr * 0.5 * (1 + math.cos(math.pi * epoch / config.epochs))


def _facts(material: TrainingData, method: Method) -> dict[str, int]:
    """Return sizes of data and model for the `start` event."""
    split = material.split
    return {
        "classes/seen": split.classes.seen,
        "classes/total": split.classes.total,
        "images/labeled": len(split.labeled),
        "images/unlabeled": len(split.unlabeled),
        "images/validation": len(split.validation),
        "images/test": len(split.test),
        "parameters": sum(parameter.numel() for parameter in {*method.network.parameters(), *_trained(method)}),
        "threads": torch.get_num_threads(),
    }


def _cost(seconds: float, steps: int, images_per_step: int, device: torch.device) -> dict[str, float]:
    """Return time per step, images per second (every view counts) and peak memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    result = {
        "time/step_s": seconds / steps,
        "throughput/images_per_s": images_per_step * steps / seconds,
        "memory/host_gb": peak / 1e9,
    }
    if device.type == "cuda":
        result["memory/device_gb"] = torch.cuda.max_memory_allocated(device) / 1e9
    return result
