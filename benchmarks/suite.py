"""List the measurements of the suite: names, and numbers of rounds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from benchmarks import evaluation, growth, machine, memory, profile, rates, shares, steps, views
from benchmarks.cases import Case, make_case
from benchmarks.clocks import best_of, clock_of
from benchmarks.reference import Reference
from lps.data.training_data import resolve_device
from lps.settings import catalog


@dataclass(frozen=True)
class Options:
    quick: bool = False
    methods: tuple[str, ...] = ()  # none: all that train
    device: str = "auto"
    batch: int | None = None  # of the CIFAR-size case; none: 512, or 64 in a quick run
    rounds: int | None = None  # none: 5, or 2 in a quick run; 3 and 1 of the CIFAR-size steps
    pictures: str | None = None  # .npz for the memory; none: random pictures

    @property
    def turns(self) -> int:
        return self.rounds or (2 if self.quick else 5)

    @property
    def long_turns(self) -> int:
        return self.rounds or (1 if self.quick else 3)

    @property
    def target(self) -> torch.device:
        return resolve_device(self.device)

    def names(self) -> list[str]:
        chosen = self.methods or catalog.method_names()
        return [name for name in chosen if name != "simclr"]  # which trains nothing

    def case(self, kind: str, method: str) -> Case:
        if kind == "digits":
            return make_case(kind, method, self.device)
        batch = self.batch or (64 if self.quick else 512)
        return make_case(kind, method, self.device, batch_size=batch, pictures=8 * batch)


def machine_section(options: Options) -> Iterator[dict]:
    facts = machine.description(options.target)
    kinds = (torch.float32, torch.bfloat16) if options.target.type == "cuda" else (torch.float32,)
    for kind in kinds:
        work, multiply = machine.matmul(options.target, kind)
        seconds = best_of(options.turns, {"": multiply}, options.target)[""].by(clock_of(options.target))
        facts[f"matmul GFLOP/s {str(kind).removeprefix('torch.')}"] = work / seconds / 1e9
    yield facts


def views_section(options: Options) -> Iterator[dict]:
    yield from views.measure(options.turns)


def steps_section(kind: str) -> Callable[[Options], Iterator[dict]]:
    def measure(options: Options) -> Iterator[dict]:
        rounds = options.turns if kind == "digits" else options.long_turns
        for name in options.names():
            yield {"method": name} | measure_steps(options.case(kind, name), rounds, kind)

    return measure


def measure_steps(case: Case, rounds: int, kind: str) -> dict[str, float]:
    """Images per second of both, each image in all views, by the device's clock; their ratio by both clocks."""
    count = case.material.plan.steps if kind == "digits" else 2 if case.images_per_step < 512 else 1
    reference = Reference(case)
    actions = {"ours": lambda: steps.steps(case, count), "reference": lambda: reference.steps(count)}
    costs = best_of(rounds, actions, case.device)
    images, clock = count * case.images_per_step, clock_of(case.device)
    ours, theirs = costs["ours"], costs["reference"]
    return {
        "batch": case.images_per_step,
        "views": len(case.method.views),
        "ours images/s": images / ours.by(clock),
        "reference images/s": images / theirs.by(clock),
        "ratio": theirs.by(clock) / ours.by(clock),
        "ratio by wall time": theirs.wall / ours.wall,
    }


def shares_section(options: Options) -> Iterator[dict]:
    for kind in ("digits", "cifar"):
        for name in options.names() if kind == "digits" else ["lps"]:
            case = options.case(kind, name)
            seconds = shares.shares(case, case.material.plan.steps if kind == "digits" else options.long_turns)
            whole = sum(seconds.values())
            parts = {f"{part} %": 100 * value / whole for part, value in seconds.items()}
            yield {"case": kind, "method": name, "ms a step": 1e3 * whole} | parts


def profile_section(options: Options) -> Iterator[dict]:
    for kind in ("digits", "cifar"):
        for row in profile.measure(options.case(kind, "lps"), options.long_turns):
            yield {"case": kind} | row


def rates_section(options: Options) -> Iterator[dict]:
    for kind in ("digits", "cifar"):
        rounds = 4 * options.turns if kind == "digits" else options.long_turns
        yield {"case": kind} | rates.measure(options.case(kind, "lps"), rounds)


def evaluation_section(options: Options) -> Iterator[dict]:
    for kind in ("digits", "cifar"):
        case = options.case(kind, "lps")
        rounds = options.turns if kind == "digits" else options.long_turns
        count = len(case.material.split.unlabeled)
        yield {"what": f"whole pass, {kind}", "images": count} | evaluation.measure_pass(case, rounds)
    for classes in (10, 100):
        measured = evaluation.measure_metrics(classes, options.turns)
        yield {"what": f"metrics alone, {classes} classes", "images": evaluation.METRIC_IMAGES} | measured


def memory_section(options: Options) -> Iterator[dict]:
    for batch in (128,) if options.quick else (128, 512):
        yield memory.measure("lps", batch, 2, options.pictures)


def growth_section(options: Options) -> Iterator[dict]:
    sizes = {"classes": (10, 100), "batches": (128, 512)} if options.quick else {}
    for name in options.names():
        if catalog.method_info(name).distributes:
            yield {"method": name} | growth.measure(name, options.target, options.turns, **sizes)


SECTIONS: dict[str, tuple[str, str, Callable[[Options], Iterator[dict]]]] = {
    "machine": ("Machine", "What it is, and its rate in one large matrix product.", machine_section),
    "views": ("Views of a CIFAR image", "Processor microseconds per image on one thread.", views_section),
    "digits": (
        "Steps on digits",
        "At the digits recipe; an epoch of steps against the reference (PIL in two workers).",
        steps_section("digits"),
    ),
    "cifar": (
        "Steps of CIFAR's size",
        "cifar_resnet18, trained from layer4 on; against the same reference.",
        steps_section("cifar"),
    ),
    "shares": ("Shares of a step", "Median over the steps.", shares_section),
    "profile": ("Operators of a step", "LPS; milliseconds a step of a thread, or of the GPU.", profile_section),
    "rates": (
        "Rates",
        "LPS step, the network's convolutions alone (best layout of each), and one large matrix product.",
        rates_section,
    ),
    "evaluation": ("Evaluation", "Microseconds per unlabeled image.", evaluation_section),
    "memory": ("Memory", "Peak of a training process over two LPS steps with 60,000 pictures.", memory_section),
    "growth": (
        "Growth of the loss",
        f"Milliseconds of loss and its gradient; classes at batch {growth.FIXED_BATCH}, batch at "
        f"{growth.FIXED_CLASSES} classes; slope of log time over log size.",
        growth_section,
    ),
}
