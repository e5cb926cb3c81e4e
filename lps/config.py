"""What was asked of a run: one frozen dataclass, the same names in Python, in `config.json` and after `--set`.

`config.json` is flat: `{"version": 1, "dataset": "digits", "split.labeled_ratio": 0.5, ...}`. A field called
`split_labeled_ratio` here is the key `split.labeled_ratio` there; the hyperparameters of the method stand beside the
protocol's fields under their own names. Unknown keys are errors.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType

from lps import architectures, catalog, schema
from lps.parameters import ConfigError, Parameter, shorten

GROUPS = ("dataset", "split", "network", "pretrain", "snapshot")
CLASS_RULES = ("first", "random")


def setting(default, help, *, minimum=None, maximum=None, choices=(), kind=None, optional=False):
    """A field of `Config` with what `Parameter` wants to know."""
    about = {"help": help, "minimum": minimum, "maximum": maximum, "choices": choices, "optional": optional}
    return field(default=default, metadata=about | {"kind": kind or type(default).__name__})


@dataclass(frozen=True)
class Config:
    """Everything that determines a run. Use `configure` to make one: it fills in recipes and checks every value."""

    dataset: str = setting("digits", "data set")
    method: str = setting("lps", "method")
    seed: int = setting(0, "seed of weights, batches and views", minimum=0, maximum=2**31 - 1)
    device: str = setting("auto", "auto, cpu, cuda or cuda:N")
    epochs: int = setting(200, "passes over the labeled images", minimum=1, maximum=100_000)
    batch_size: int = setting(512, "images of one step, labeled and unlabeled together", minimum=2, maximum=65_536)
    optimizer: str = setting("sgd", "update rule", choices=("sgd", "adam"))
    lr: float = setting(0.1, "learning rate at the start", minimum=1e-8, maximum=100)
    momentum: float = setting(0.9, "momentum of SGD", minimum=0, maximum=0.9999)
    weight_decay: float = setting(5e-4, "weight decay", minimum=0, maximum=1)
    schedule: str = setting("cosine", "learning rate over the epochs", choices=("cosine", "constant"))
    precision: str = setting("auto", "auto: bf16 on a GPU, fp32 on a CPU", choices=("auto", "fp32", "bf16"))
    views: str = setting(
        "digits", "augmentations fit for a kind of picture", choices=("digits", "grey", "cifar", "imagenet")
    )
    processes: int = setting(1, "training processes of one run, each on a GPU of its own", minimum=1, maximum=64)
    threads: int | None = setting(
        None,
        "CPU threads of all processes together; none: all cores",
        minimum=1,
        maximum=1024,
        kind="int",
        optional=True,
    )

    dataset_path: str | None = setting(None, "file or folder of the data set", kind="str", optional=True)
    dataset_image_size: int | None = setting(
        None,
        "side in pixels to which pictures are brought; none: the data set's own",
        minimum=8,
        maximum=1024,
        kind="int",
        optional=True,
    )
    dataset_images_per_class: int | None = setting(
        None,
        "at most so many images of every class, drawn by split.seed; none: all",
        minimum=1,
        maximum=10_000_000,
        kind="int",
        optional=True,
    )

    split_num_seen: int | None = setting(
        None, "classes with labels; none: half of them", minimum=1, maximum=100_000, kind="int", optional=True
    )
    split_seen_classes: str = setting("first", "first, random, or class ids such as 0,3,5")
    split_labeled_ratio: float = setting(
        0.5, "share of the seen classes' images that keeps its label", minimum=1e-6, maximum=1
    )
    split_rule: str = setting("bernoulli", "how labels are drawn", choices=("bernoulli", "stratified"))
    split_num_novel: int | None = setting(
        None,
        "novel classes to look for; none: those that the data set has",
        minimum=1,
        maximum=100_000,
        kind="int",
        optional=True,
    )
    split_validation_ratio: float = setting(
        0.0,
        "share of the labeled images whose label is withheld, to choose the epoch by",
        minimum=0,
        maximum=0.9,
    )
    split_test_ratio: float = setting(
        0.0, "share of the images set aside for testing, where the data set brings none", minimum=0, maximum=0.9
    )
    split_seed: int = setting(0, "seed of the split, the same for every run seed", minimum=0, maximum=2**31 - 1)

    network_name: str = setting(
        "digits_resnet",
        "backbone: digits_resnet, cifar_resnet18, resnet50, or torchvision:NAME such as torchvision:efficientnet_b0",
    )
    network_start: str = setting(
        "simclr",
        "weights to begin with: own SimCLR pretraining, a checkpoint file, torchvision's published ones, or random",
        choices=("simclr", "checkpoint", "torchvision", "random"),
    )
    network_checkpoint: str | None = setting(
        None, "file of start weights, for network.start=checkpoint", kind="str", optional=True
    )
    network_head: str = setting("cosine", "classifier", choices=("cosine", "linear"))
    network_cosine_scale: float = setting(10.0, "factor on the cosine logits", minimum=0.1, maximum=1000)
    network_freeze_until: str = setting(
        "none", "last stage that is not trained: none, or of residual networks stem, layer1, layer2, layer3, layer4"
    )
    network_frozen_batchnorm: str = setting(
        "train", "batch norm of frozen stages: train as in the original code, or eval", choices=("train", "eval")
    )
    network_fused_views: bool = setting(False, "one forward pass over all views instead of one per view")

    pretrain_epochs: int = setting(
        20, "SimCLR epochs before the run; 0 starts from random weights", minimum=0, maximum=100_000
    )
    pretrain_batch_size: int = setting(128, "images of one SimCLR step", minimum=2, maximum=65_536)
    pretrain_lr: float = setting(5e-3, "learning rate of SimCLR", minimum=1e-8, maximum=100)
    pretrain_optimizer: str = setting(
        "adamw", "update rule of SimCLR: AdamW, or SGD with momentum 0.9", choices=("adamw", "sgd")
    )
    pretrain_weight_decay: float = setting(1e-4, "weight decay of SimCLR", minimum=0, maximum=1)
    pretrain_warmup_steps: int = setting(10, "steps of linear warm-up", minimum=0, maximum=1_000_000)
    pretrain_projector_width: int | None = setting(
        None,
        "hidden units of SimCLR's projection head; none: as many as features",
        minimum=1,
        maximum=65_536,
        kind="int",
        optional=True,
    )
    pretrain_projector_outputs: int | None = setting(
        None,
        "outputs of SimCLR's projection head; none: as many as features",
        minimum=1,
        maximum=65_536,
        kind="int",
        optional=True,
    )
    pretrain_temperature: float = setting(0.3, "temperature of the NT-Xent loss", minimum=0.01, maximum=10)
    pretrain_seed: int | None = setting(
        None, "seed of the pretraining; none: the run's seed", minimum=0, maximum=2**31 - 1, kind="int", optional=True
    )

    snapshot_images: int | None = setting(
        2000,
        "unlabeled images whose features every snapshot keeps, for maps of them; none: all",
        minimum=1,
        maximum=10_000_000,
        kind="int",
        optional=True,
    )

    hyperparameters: Mapping[str, object] = field(default_factory=dict)

    def flat(self) -> dict[str, object]:
        """Every setting under its key, hyperparameters included; the content of `config.json`."""
        own = {key: getattr(self, name) for name, key in _keys().items()}
        return own | dict(self.hyperparameters)

    def to_json(self) -> str:
        """The text of `config.json`: its version, then the settings."""
        return json.dumps(schema.stamped("config.json", self.flat()), indent=2, allow_nan=False) + "\n"

    @staticmethod
    def from_json(text: str) -> "Config":
        """The checked `Config` of a `config.json`: every key known, missing ones by default; raises `ConfigError`."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError("config.json", f"is not JSON ({error})") from None
        if not isinstance(values, dict):
            raise ConfigError("config.json", f"holds {shorten(values)}, not an object of settings")
        schema.check("config.json", values.pop("version", None))
        return configure(values)


@cache
def _keys() -> dict[str, str]:
    """Field name -> key: `split_rule` -> `split.rule`."""
    keys = {}
    for item in fields(Config):
        group, _, rest = item.name.partition("_")
        if item.name != "hyperparameters":
            keys[item.name] = f"{group}.{rest}" if group in GROUPS and rest else item.name
    return keys


@cache
def protocol_parameters() -> dict[str, Parameter]:
    """The settings that every method shares, by key."""
    keys = _keys()
    about = {item.name: item for item in fields(Config) if item.name in keys}
    return {key: Parameter(name=key, default=about[name].default, **about[name].metadata) for name, key in keys.items()}


def parameters(method: str) -> dict[str, Parameter]:
    """All settings of a run of `method`: the protocol's, then the method's own; raises `ConfigError`."""
    shared, own = protocol_parameters(), catalog.method_info(method).parameters
    if taken := shared.keys() & own.keys():
        raise ConfigError("method", f"{method} has {', '.join(sorted(taken))} of its own, the name of a shared setting")
    return shared | own


def recipe(dataset: str) -> dict[str, object]:
    """What a data set changes of the protocol's defaults (its module's `RECIPE`)."""
    return catalog.dataset_info(dataset).recipe


def configure(values: Mapping[str, object] = MappingProxyType({})) -> Config:
    """A checked `Config`: defaults, then the data set's recipe, then `values` by key. Raises `ConfigError`."""
    method = protocol_parameters()["method"].check(values.get("method", "lps"))
    known = parameters(method)
    for key in values:
        if key not in known:
            raise ConfigError(shorten(key).strip("'\""), f"is no setting of {method}; choices: {', '.join(known)}")
    dataset = protocol_parameters()["dataset"].check(values.get("dataset", "digits"))
    usual = {key: p.default for key, p in known.items()} | recipe(dataset)
    changed = {key: value for key, value in values.items() if not _is_same(value, usual[key])}
    chosen = usual | {key: known[key].check(value) for key, value in changed.items()}
    if chosen["dataset.path"] is not None:  # the trainer works in another folder than the person who typed it
        chosen["dataset.path"] = os.path.abspath(os.path.expanduser(chosen["dataset.path"]))
    if chosen["network.checkpoint"]:
        chosen["network.checkpoint"] = os.path.abspath(os.path.expanduser(chosen["network.checkpoint"]))
    _check_together(chosen)
    own = catalog.method_info(method).parameters
    protocol = {name: chosen[key] for name, key in _keys().items()}
    return Config(**protocol, hyperparameters=MappingProxyType({key: chosen[key] for key in own}))


def _is_same(value, other) -> bool:
    """Whether a value is the other one, type and all: 1, 1.0 and true are three."""
    return type(value) is type(other) and value == other


def parse_settings(texts: list[str], method: str) -> dict[str, object]:
    """`["lr=0.1", "split.num_seen=5"]` as checked values by key; raises `ConfigError`."""
    known = parameters(method)
    values, typed = {}, {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError("--set", f"{shorten(text)} is not of the form name=value")
        if key not in known:
            raise ConfigError(shorten(key).strip("'\""), f"is no setting of {method}; choices: {', '.join(known)}")
        if key in typed:
            raise ConfigError(key, f"is set twice, to {shorten(typed[key])} and to {shorten(value)}; name it once")
        typed[key], values[key] = value, known[key].parse(value)
    return values


def seen_class_ids(text: str) -> list[int] | None:
    """The ids of a hand-picked `split.seen_classes`, None for a rule; raises `ConfigError`."""
    if text in CLASS_RULES:
        return None
    ids = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in ids):
        raise ConfigError("split.seen_classes", f"{shorten(text)} is not first, random, or class ids such as 0,3,5")
    if len(set(map(int, ids))) != len(ids):
        raise ConfigError("split.seen_classes", f"{shorten(text)} names a class twice; name each seen class once")
    return [int(part) for part in ids]


def _check_together(chosen: dict[str, object]) -> None:
    """Rules that look at more than one setting, or inside a text."""
    network = chosen["network.name"]
    architectures.check_name(network)
    architectures.check_stage(network, chosen["network.freeze_until"], architectures.stages(network))
    architectures.check_start(network, chosen["network.start"], chosen["network.checkpoint"])
    ids = seen_class_ids(chosen["split.seen_classes"])
    if ids is not None and chosen["split.num_seen"] not in (None, len(ids)):
        raise ConfigError(
            "split.num_seen", f"{chosen['split.num_seen']} does not fit the {len(ids)} classes of split.seen_classes"
        )
    device = chosen["device"]
    ordinal = device.removeprefix("cuda:")
    if device not in ("auto", "cpu", "cuda") and not (
        device.startswith("cuda:") and ordinal.isascii() and ordinal.isdigit()
    ):
        raise ConfigError("device", f"{shorten(device)} is not auto, cpu, cuda or cuda:N")
    _check_processes(chosen["processes"], device, catalog.method_info(chosen["method"]))


def _check_processes(processes: int, device: str, method: catalog.MethodInfo) -> None:
    if processes > 1 and not method.distributes:
        raise ConfigError("processes", f"{processes} is not possible with {method.title}; choose 1")
    if processes > 1 and device.startswith("cuda:"):
        raise ConfigError("device", f"{device} is one GPU for {processes} processes; choose auto, cuda or cpu")
