"""Define the settings of a run: one frozen dataclass with the same names in Python, in `config.json` and after `--set`.

`config.json` is flat: `{"version": 1, "dataset": "digits", "split.labeled_ratio": 0.5, ...}`. The field
`split_labeled_ratio` of the class is the key `split.labeled_ratio` of the file; the method's hyperparameters are beside
the shared settings under their own names. Unknown keys are errors.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from itertools import compress
from operator import attrgetter, ne
from types import MappingProxyType

from lps.errors import UserError, shorten
from lps.files import versions
from lps.files.versions import MAX_EPOCHS
from lps.settings import backbone_names, catalog, given_prior
from lps.settings.backbone_names import GIVEN
from lps.settings.parameters import BadSetting, Parameter, ParameterDocs

GROUPS = ("dataset", "split", "prior", "network", "features", "pretrain", "snapshot")
CLASS_RULES = ("first", "random")
_DECISIONS = "dataset.decisions"
_LATER = (  # settings added after results were stored, see `Config.identifying`
    *("split.imbalance", "split.imbalance_order", "split.labeled_imbalance", "split.index_files"),
    *("prior", "prior.every", "prior.confidence", given_prior.SHARES),
    *("features.noise", "features.dropout"),
)
_DRAWN = {  # required values of settings that index files replace
    **{"split.num_seen": None, "split.seen_classes": "first", "split.imbalance": 1.0, "split.labeled_imbalance": 1.0},
    **{"split.test_ratio": 0.0, "dataset.images_per_class": None},
}
_DIGEST = re.compile("[0-9a-f]{12}")


def _setting(
    default, help, *, minimum=None, maximum=None, choices=(), kind=None, optional=False, larger="", words=None
):
    """Return a field of `Config` with `Parameter`'s arguments as metadata. larger, words: as in `ParameterDocs`."""
    limits = {"help": help, "minimum": minimum, "maximum": maximum, "choices": choices, "optional": optional}
    documentation = ParameterDocs(larger=larger, words=words or {})
    return field(default=default, metadata=limits | {"kind": kind or type(default).__name__, "told": documentation})


@dataclass(frozen=True)
class Config:
    """All settings that determine a run. Make one with `configure`, which fills in recipes and checks every value."""

    dataset: str = _setting("digits", "data set")
    method: str = _setting("lps", "method")
    seed: int = _setting(
        0,
        "seed of the random choices in training: weights, batches and views (changed copies of an image)",
        minimum=0,
        maximum=2**31 - 1,
    )
    device: str = _setting("auto", "processor that trains: auto, cpu, cuda or cuda:N")
    epochs: int = _setting(
        200, "passes over the labeled data", minimum=1, maximum=MAX_EPOCHS, larger="slower, usually better"
    )
    batch_size: int = _setting(512, "images per step, labeled and unlabeled together", minimum=2, maximum=65_536)
    optimizer: str = _setting(
        "sgd", "rule that updates the weights", choices=("sgd", "adam"), words={"sgd": "SGD", "adam": "Adam"}
    )
    lr: float = _setting(
        0.1,
        "learning rate at the start",
        minimum=1e-8,
        maximum=100,
        larger="faster learning, until training becomes unstable",
    )
    momentum: float = _setting(0.9, "momentum of SGD", minimum=0, maximum=0.9999)
    weight_decay: float = _setting(
        5e-4, "weight decay: pulls the weights towards 0", minimum=0, maximum=1, larger="smaller weights"
    )
    schedule: str = _setting(
        "cosine",
        "how the learning rate changes over the epochs",
        choices=("cosine", "constant"),
        words={"cosine": "cosine to 0"},
    )
    precision: str = _setting(
        "auto",
        "numeric precision of training steps; auto: bf16 on a GPU, fp32 on a CPU",
        choices=("auto", "fp32", "bf16"),
        words={"auto": "automatic", "fp32": "32 bits", "bf16": "16 bits (bf16)"},
    )
    views: str = _setting(
        "digits",
        "random changes of pictures (augmentations); choose those for your kind of pictures",
        choices=("digits", "grey", "cifar", "imagenet", "gcd", "vectors"),
        words={
            "grey": "grey pictures",
            "cifar": "small photographs (CIFAR)",
            "imagenet": "photographs (ImageNet)",
            "gcd": "photographs of fine-grained classes (GCD)",
            "vectors": "embeddings (noise and dropout)",
        },
    )
    processes: int = _setting(
        1, "number of processes that train one run together; on GPUs, each process needs its own", minimum=1, maximum=64
    )
    threads: int | None = _setting(
        None,
        "number of CPU threads for all processes together; none: all cores",
        minimum=1,
        maximum=1024,
        kind="int",
        optional=True,
    )

    dataset_path: str | None = _setting(None, "file or folder of the data set", kind="str", optional=True)
    dataset_image_size: int | None = _setting(
        None,
        "side length in pixels to which pictures are resized; none: the data set's default",
        minimum=8,
        maximum=1024,
        kind="int",
        optional=True,
    )
    dataset_images_per_class: int | None = _setting(
        None,
        "maximum number of images per class; split.seed decides which images; none: all images",
        minimum=1,
        maximum=10_000_000,
        kind="int",
        optional=True,
    )

    dataset_decisions: str | None = _setting(
        None,
        "which decisions from the picture check (python -m lps audit) are used: the id of saved decisions, or 0 for no "
        "decisions; unset: all decisions so far",
        kind="str",
        optional=True,
    )

    split_num_seen: int | None = _setting(
        None,
        "number of classes with labels; none: half of all classes",
        minimum=1,
        maximum=100_000,
        kind="int",
        optional=True,
    )
    split_seen_classes: str = _setting("first", "which classes are seen: first, random, or class ids such as 0,3,5")
    split_labeled_ratio: float = _setting(
        0.5,
        "share of the images of seen classes whose label is used; all other images are unlabeled",
        minimum=1e-6,
        maximum=1,
    )
    split_rule: str = _setting(
        "bernoulli",
        "how the labeled images are drawn",
        choices=("bernoulli", "stratified", "exact"),
        words={
            "bernoulli": "each image independently",
            "stratified": "the same share of each class",
            "exact": "exactly this share of the images of all seen classes together, as in GCD",
        },
    )
    split_imbalance: float = _setting(
        1.0,
        "imbalance of the classes: training images of the largest class divided by those of the smallest class. The "
        "sizes between them fall exponentially. 1: all images are kept",
        minimum=1,
        maximum=100_000,
        larger="class sizes differ more and fewer images are used",
    )
    split_imbalance_order: str = _setting(
        "permuted",
        "which classes are large if class sizes differ; split.seed decides the order",
        choices=("permuted", "seen", "novel"),
        words={"permuted": "any class", "seen": "seen classes first", "novel": "novel classes first"},
    )
    split_labeled_imbalance: float = _setting(
        1.0,
        "imbalance of the labels: the number of labels of the seen class with the most labels, divided by that of the "
        "class with the fewest. Surplus labels are not used, and their images count as unlabeled. 1: all drawn labels "
        "are used",
        minimum=1,
        maximum=100_000,
        larger="label counts differ more and fewer labels are used",
    )
    split_num_novel: int | None = _setting(
        None,
        "number of novel classes to look for; none: the number in the data set",
        minimum=1,
        maximum=100_000,
        kind="int",
        optional=True,
    )
    split_validation_ratio: float = _setting(
        0.0,
        "share of the labels that is withheld from training, to measure accuracy and to choose the best epoch",
        minimum=0,
        maximum=0.9,
    )
    split_test_ratio: float = _setting(
        0.0, "share of images set aside for testing, if the data set has no test images", minimum=0, maximum=0.9
    )
    split_index_files: str | None = _setting(
        None,
        "folder with index files that define the split, in the format of BaCon (l_k_uq_idxs.pt and two more); none: "
        "the split is drawn",
        kind="str",
        optional=True,
    )
    split_confirmed: str | None = _setting(
        None,
        "name of the file with the labels that come from named clusters of another run (python -m lps train-on); "
        "unset: no such labels",
        kind="str",
        optional=True,
    )
    split_seed: int = _setting(0, "seed of the split, independent of the run's seed", minimum=0, maximum=2**31 - 1)

    prior: str = _setting(
        "uniform",
        "the share of the images that each class is expected to have. The margin of LPS and the entropy terms pull the "
        "predictions towards these shares. oracle uses hidden labels, to show what a perfect prior would give",
        choices=("uniform", "labeled", "estimated", "confident", "given", "oracle"),
        words={
            "uniform": "equal shares (papers)",
            "labeled": "shares of the given labels",
            "estimated": "estimated: sizes of k-means clusters",
            "confident": "estimated: the model's confident predictions",
            "given": "shares that you enter",
            "oracle": "true shares (oracle)",
        },
    )
    prior_every: int = _setting(
        10,
        "epochs between two estimates of the prior. With prior=given or prior=oracle, nothing is estimated. "
        "Instead, at this interval, the shares of novel classes are matched with the novel clusters again: the largest "
        "share goes to the cluster that is predicted most often, and so on",
        minimum=1,
        maximum=MAX_EPOCHS,
        larger="the estimate is older but costs less time",
    )
    prior_confidence: float = _setting(
        0.5,
        "for prior=confident: minimum confidence of a prediction that counts in the estimate",
        minimum=0,
        maximum=1,
        larger="fewer but more confident predictions count",
    )
    prior_shares: str | None = _setting(
        None,
        "for prior=given: a share for each class, seen classes first, such as 0.5 0.3 0.2, or a text file of them",
        kind="str",
        maximum=given_prior.LONGEST,
        optional=True,
    )

    network_name: str = _setting(
        "digits_resnet",
        "backbone: digits_resnet, cifar_resnet18, resnet50, efficientnet_lite0 (with weights trained on ImageNet),"
        " torchvision:NAME such as torchvision:efficientnet_b0, timm:NAME, or vit:dino, vit:dinov2, vit:mae, vit:clip"
        " (with a file of weights); given: no backbone, for embeddings",
    )
    network_start: str = _setting(
        "simclr",
        "start weights: SimCLR pretraining on the images of the run, a checkpoint file, published weights of the "
        "backbone, published weights from torchvision (only for its models), or random weights",
        choices=("simclr", "checkpoint", "published", "torchvision", "random"),
        words={
            "simclr": "SimCLR pretraining",
            "checkpoint": "a file",
            "published": "published weights",
            "torchvision": "published by torchvision",
            "random": "random weights",
        },
    )
    network_checkpoint: str | None = _setting(
        None, "file of start weights, for network.start=checkpoint", kind="str", optional=True
    )
    network_continues: str | None = _setting(
        None,
        "start weights from another run (python -m lps train-on): the name of their file; unset: none",
        kind="str",
        optional=True,
    )
    network_head: str = _setting("cosine", "classifier", choices=("cosine", "linear"))
    network_cosine_scale: float = _setting(
        10.0,
        "factor by which the cosine logits (the outputs of the classifier) are multiplied",
        minimum=0.1,
        maximum=1000,
    )
    network_freeze_until: str = _setting(
        "none",
        "last stage that is frozen (not trained); none: no stage is frozen; last_but_one: only the last stage is "
        "trained; for residual networks also stem, layer1, layer2, layer3 or layer4",
    )
    network_frozen_batchnorm: str = _setting(
        "train",
        'batch norm in frozen stages: "train" updates its statistics (as in the original code), "eval" does not',
        choices=("train", "eval"),
        words={"train": "keeps learning", "eval": "stays fixed"},
    )
    network_image_size: int | None = _setting(
        None,
        "side length in pixels to which pictures are resized for the backbone; none: the backbone's default, or the "
        "size of the data set",
        minimum=16,
        maximum=1024,
        kind="int",
        optional=True,
    )
    network_tokens: str = _setting(
        "class",
        "features of a vision transformer: its class token, the mean of its patches, or both",
        choices=backbone_names.TOKENS,
        words={"class": "class token", "mean": "mean of patches"},
    )
    network_fused_views: bool = _setting(False, "one forward pass over all views instead of one per view")

    features: str = _setting(
        "live",
        "live: the network sees the pictures in every step; stored: the network computes features of a few views once, "
        "and only a head (a small network) is trained on them",
        choices=("live", "stored"),
    )
    features_weak_views: int = _setting(
        3, "number of stored weak views (slightly changed copies) per picture", minimum=1, maximum=64
    )
    features_strong_views: int = _setting(
        3, "number of stored strong views (strongly changed copies) per picture", minimum=1, maximum=64
    )
    features_seed: int = _setting(0, "seed of the stored views, shared by all runs", minimum=0, maximum=2**31 - 1)
    features_noise: float = _setting(
        0.5,
        "for embeddings: noise of weak and strong views, in standard deviations per dimension",
        minimum=0,
        maximum=100,
        larger="views of one item differ more",
    )
    features_dropout: float = _setting(
        0.1,
        "for embeddings: share of the dimensions of a strong view that are replaced by their means over all items",
        minimum=0,
        maximum=0.99,
        larger="strong views keep less information about the item",
    )
    features_width: int = _setting(256, "number of outputs of the head on stored features", minimum=1, maximum=4096)
    features_hidden: int = _setting(
        512, "number of hidden units of the head on stored features; 0: a linear head", minimum=0, maximum=65_536
    )

    pretrain_epochs: int = _setting(
        20,
        "number of SimCLR epochs before training; 0: training starts from random weights",
        minimum=0,
        maximum=MAX_EPOCHS,
    )
    pretrain_batch_size: int = _setting(128, "number of images in one SimCLR step", minimum=2, maximum=65_536)
    pretrain_lr: float = _setting(5e-3, "learning rate of SimCLR", minimum=1e-8, maximum=100)
    pretrain_optimizer: str = _setting(
        "adamw",
        "rule that updates the weights in SimCLR: AdamW, or SGD with momentum 0.9",
        choices=("adamw", "sgd"),
        words={"adamw": "AdamW", "sgd": "SGD"},
    )
    pretrain_weight_decay: float = _setting(1e-4, "weight decay of SimCLR", minimum=0, maximum=1)
    pretrain_warmup_steps: int = _setting(
        10, "number of steps in which the learning rate rises linearly from 0 (warm-up)", minimum=0, maximum=1_000_000
    )
    pretrain_projector_width: int | None = _setting(
        None,
        "hidden units of SimCLR's projection head; none: the number of features",
        minimum=1,
        maximum=65_536,
        kind="int",
        optional=True,
    )
    pretrain_projector_outputs: int | None = _setting(
        None,
        "outputs of SimCLR's projection head; none: the number of features",
        minimum=1,
        maximum=65_536,
        kind="int",
        optional=True,
    )
    pretrain_temperature: float = _setting(0.3, "temperature of the NT-Xent loss of SimCLR", minimum=0.01, maximum=10)
    pretrain_seed: int | None = _setting(
        None, "seed of the pretraining; none: the run's seed", minimum=0, maximum=2**31 - 1, kind="int", optional=True
    )

    snapshot_images: int | None = _setting(
        2000,
        "number of unlabeled images whose features are saved with an evaluation (the page Map needs them); none: all",
        minimum=1,
        maximum=10_000_000,
        kind="int",
        optional=True,
    )

    hyperparameters: Mapping[str, object] = field(default_factory=dict)

    @property
    def rests_on_labels(self) -> bool:
        """Whether the start weights know classes that may be novel in the data set (`backbone_names.ABOUT_LABELS`)."""
        return backbone_names.rests_on_labels(self.network_name, self.network_start)

    @property
    def uses_hidden_labels(self) -> bool:
        """Whether training uses information from the hidden labels (`given_prior.ABOUT_ORACLE`)."""
        return self.prior == "oracle"

    def flat(self) -> dict[str, object]:
        """Return every setting by key, hyperparameters included: the content of `config.json`."""
        return dict(zip(_keys().values(), _field_reader()(self))) | dict(self.hyperparameters)

    def split_settings(self) -> dict[str, object]:
        """Return the settings of the data set and the split by key: runs with equal ones can be compared."""
        return {key: value for key, value in self.flat().items() if key.startswith(("dataset", "split."))}

    def differences(self, other: "Config") -> Iterator[str]:
        """Yield the keys of this config's settings whose values differ in another config, or are missing there."""
        read_fields, own, others = _field_reader(), self.hyperparameters, other.hyperparameters
        yield from compress(_keys().values(), map(ne, read_fields(self), read_fields(other)))
        yield from compress(own, map(ne, own.values(), map(others.get, own)))

    def defaults(self) -> dict[str, object]:
        """Return the default settings of the same method on the same data set.

        Settings that follow from this config's `features` and `network.name` count as default, but these two do not:
        setting the differences from the result gives this config again. Raises `UserError` if the method or data set is
        gone or broken.
        """
        from lps.settings import edit_log  # training does not need it

        default_by_key = defaults(self.dataset, self.method, self.flat())
        return default_by_key | {_DECISIONS: edit_log.newest_state(self.dataset, default_by_key["dataset.path"])}

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Keys of the settings that differ from the defaults of method and data set; raises as `defaults` does.

        Unlike in `defaults`, any decisions about the pictures count as changed, so that titles need not read them.
        """
        plain = defaults(self.dataset, self.method, self.flat())
        return tuple(key for key, value in self.flat().items() if value != plain.get(key))

    def identifying(self) -> dict[str, object]:
        """Return `flat` for names of stored results, without newer settings (`_LATER`) that have their default."""
        known_settings = protocol_parameters()
        return {
            key: value
            for key, value in self.flat().items()
            if key not in _LATER or value != known_settings[key].default
        }

    def get(self, key: str, default: object = None) -> object:
        """Return one setting by its key in `flat`."""
        name = _names().get(key)
        return getattr(self, name) if name else self.hyperparameters.get(key, default)

    def to_json(self, values: Mapping[str, object] | None = None) -> str:
        """Return the text of `config.json`: its version, then all settings, or only `values`."""
        values = self.flat() if values is None else values
        return json.dumps(versions.with_version("config.json", values), indent=2, allow_nan=False) + "\n"

    @staticmethod
    def from_flat(values: Mapping[str, object]) -> "Config":
        """Return the config of values that were checked before: the content of `flat`."""
        shared, names = _keys(), _names()
        own_values = {key: value for key, value in values.items() if key not in names}
        shared_values = {name: values[key] for name, key in shared.items()}
        return Config(**shared_values, hyperparameters=MappingProxyType(own_values))

    def with_values(self, values: Mapping[str, object]) -> "Config":
        """Return a copy with other values by key, which were checked before; ten times quicker than a new config.

        Raises `KeyError` for a setting that this config does not have.
        """
        config, names = object.__new__(Config), _names()
        vars(config).update(vars(self))
        vars(config).pop("changed", None)  # a cached property
        vars(config).update({names[key]: value for key, value in values.items() if key in names})
        own_values = {key: value for key, value in values.items() if key not in names}
        if not own_values.keys() <= self.hyperparameters.keys():
            raise KeyError(*own_values.keys() - self.hyperparameters.keys())
        if own_values:
            vars(config)["hyperparameters"] = MappingProxyType(self.hyperparameters | own_values)
        return config

    @staticmethod
    def from_json(text: str) -> "Config":
        """Return the checked `Config` of a `config.json`; raises `UserError` for unknown keys and invalid values.

        A missing setting has its default, or the value that `ParameterDocs.before` gives older runs.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadSetting("config.json", f"is not JSON ({error})") from None
        if not isinstance(values, dict):
            raise BadSetting("config.json", f"holds {shorten(values)}, not an object of settings")
        versions.check_version("config.json", values.pop("version", None))
        return configure_stored({_DECISIONS: None} | values)


@cache
def _keys() -> dict[str, str]:
    """Map field names to keys: `split_rule` -> `split.rule`."""
    keys = {}
    for item in fields(Config):
        group, _, rest = item.name.partition("_")
        if item.name != "hyperparameters":
            keys[item.name] = f"{group}.{rest}" if group in GROUPS and rest else item.name
    return keys


@cache
def _field_reader() -> Callable[[Config], tuple]:
    """Return a function that reads the fields of `_keys`; quicker than one at a time, for lists of many runs."""
    return attrgetter(*_keys())


@cache
def _names() -> dict[str, str]:
    """Map keys to field names."""
    return {key: name for name, key in _keys().items()}


@cache
def protocol_parameters() -> dict[str, Parameter]:
    """Return the settings that all methods share, by key."""
    keys = _keys()
    field_by_name = {item.name: item for item in fields(Config) if item.name in keys}
    return {
        key: Parameter(name=key, default=field_by_name[name].default, **field_by_name[name].metadata)
        for name, key in keys.items()
    }


def parameters(method: str) -> dict[str, Parameter]:
    """Return all settings of a run of `method`: the shared ones, then the method's own; raises `UserError`."""
    shared, own_parameters = protocol_parameters(), catalog.method_info(method).parameters
    if shared_names := shared.keys() & own_parameters.keys():
        names = ", ".join(sorted(shared_names))
        raise BadSetting(
            "method", f"{method} defines {names}, but settings of these names already exist for all methods"
        )
    return shared | own_parameters


_ON_STORED_FEATURES = {  # defaults that follow from features=stored, since only a head is trained
    "network.name": "efficientnet_lite0",
    "network.image_size": 160,
    "network.freeze_until": "none",
    "epochs": 50,
    "batch_size": 256,
    "lr": 0.05,
}

# Chosen on CIFAR-10: "Natural pictures" in benchmarks/README.md has the curves and the commands. The three methods that
# train a linear layer on cross-entropy diverge at the default learning rate if a tenth is labeled.
_ON_STORED_FEATURES_BY_METHOD = {"lps": {"entropy_weight": 2.0, "margin_scale": 2.0}} | dict.fromkeys(
    ("fixmatch", "dtc", "ds3l"), {"lr": 0.02}
)


def recipe(dataset: str, method: str = "") -> dict[str, object]:
    """Return the defaults that a data set changes: its module's `RECIPE`, and `RECIPE_BY_METHOD` for a method."""
    info = catalog.dataset_info(dataset)
    return info.recipe | info.recipe_by_method.get(method, {})


def _check_recipe(values: Mapping[str, object], method: str) -> None:
    documented = parameters(method) if method else protocol_parameters()
    for key, value in values.items():
        if key not in documented:
            raise BadSetting("RECIPE", f"{shorten(key)} is not a setting; choices: {', '.join(documented)}")
        documented[key].check(value)


catalog.recipe_checks.append(_check_recipe)


def configure(values: Mapping[str, object] = MappingProxyType({})) -> Config:
    """Return a checked `Config` from the defaults, the recipes and `values` by key; raises `UserError`.

    The decisions about the pictures made so far apply, unless `values` says otherwise. If `values` has every setting,
    as a stored config does, the recipe is not needed and the data set is not imported.
    """
    method = protocol_parameters()["method"].check(values.get("method", "lps"))
    documented = parameters(method)
    if given_prior.SHARES in values:
        values = {**values, given_prior.SHARES: given_prior.as_text(values[given_prior.SHARES])}
    for key in values:
        if key not in documented:
            raise BadSetting(
                shorten(key).strip("'\""), f"is not a setting of {method}; choices: {', '.join(documented)}"
            )
    dataset = protocol_parameters()["dataset"].check(values.get("dataset", "digits"))
    catalog.check_dataset(dataset)
    default_by_key = {key: p.default for key, p in documented.items()} | (
        recipe(dataset, method) if documented.keys() - values.keys() else {}
    )
    default_by_key = derive_settings(default_by_key, method, values)
    changed = {key: value for key, value in values.items() if not _is_same(value, default_by_key[key])}
    checked = default_by_key | {key: documented[key].check(value) for key, value in changed.items()}
    if checked["dataset.path"] is not None:  # the trainer runs in another working directory than the user
        checked["dataset.path"] = os.path.abspath(os.path.expanduser(checked["dataset.path"]))
    for key in ("network.checkpoint", "split.index_files"):
        if checked[key]:
            checked[key] = os.path.abspath(os.path.expanduser(checked[key]))
    if checked[given_prior.SHARES] is not None:
        checked[given_prior.SHARES] = given_prior.read_shares(checked[given_prior.SHARES])
    _check_together(checked)
    _set_decisions(checked, values)
    if checked["split.index_files"] and checked[_DECISIONS] not in (None, "0"):
        raise BadSetting(
            "split.index_files", "refers to images by number, so no image can be left out; set dataset.decisions=0"
        )
    return Config.from_flat({key: checked[key] for key in documented})


def defaults(dataset: str, method: str, values: Mapping[str, object] = MappingProxyType({})) -> dict[str, object]:
    """Return the default settings of `method` on `dataset`; raises `UserError`.

    Settings that follow from `features` and `network.name` in `values` count as default.
    """
    return derive_settings(_defaults(dataset, method, catalog.dataset_fingerprint(dataset, method)), method, values)


@lru_cache(maxsize=256)
def _defaults(dataset: str, method: str, fingerprint: tuple) -> Mapping[str, object]:
    """fingerprint: of the files of both (`catalog.dataset_fingerprint`), so that an edit is noticed."""
    plain = {key: p.default for key, p in parameters(method).items()}
    return plain | recipe(dataset, method) | {"dataset": dataset, "method": method}


def configure_stored(values: Mapping[str, object]) -> Config:
    """Return the checked `Config` of a whole stored record; a missing setting takes its `ParameterDocs.before`."""
    given_prior.check_stored(values.get(given_prior.SHARES))
    method = values.get("method")
    own_parameters: Mapping[str, Parameter] = {}
    with suppress(UserError):  # `configure` raises it with all choices
        own_parameters = catalog.method_info(method).parameters if isinstance(method, str) else {}
    before = {
        name: parameter.told.before for name, parameter in own_parameters.items() if parameter.told.before is not None
    }
    return configure(before | values)


def derive_settings(base: Mapping[str, object], method: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return the default settings with those that follow from `features` and `network.name`, if `values` has these."""
    derived = dict(base)
    if values.get("features", base["features"]) == "stored":
        without_backbone = {"network.name": GIVEN, "network.image_size": None} if base["network.name"] == GIVEN else {}
        derived |= _ON_STORED_FEATURES | without_backbone | _ON_STORED_FEATURES_BY_METHOD.get(method, {})
    backbone = protocol_parameters()["network.name"].check(values.get("network.name", derived["network.name"]))
    derived["network.start"] = backbone_names.usual_start(backbone) or derived["network.start"]
    if backbone_names.weight_layout(backbone) or backbone_names.timm_name(backbone):
        derived["network.image_size"] = None  # their patches fit few sides
    return derived


def _set_decisions(checked: dict[str, object], values: Mapping[str, object]) -> None:
    """Check the requested state of the picture decisions, or set the newest one."""
    from lps.settings import edit_log  # training does not need it

    if _DECISIONS not in values:
        checked[_DECISIONS] = edit_log.newest_state(checked["dataset"], checked["dataset.path"])
    edit_log.check_state(checked[_DECISIONS])


def _is_same(value, other) -> bool:
    """Return whether two values are equal and of the same type: 1, 1.0 and true differ."""
    return type(value) is type(other) and value == other


def parse_settings(texts: list[str], method: str) -> dict[str, object]:
    """Return texts such as `["lr=0.1", "split.num_seen=5"]` as checked values by key; raises `UserError`."""
    documented = parameters(method)
    values, typed = {}, {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise BadSetting("--set", f"{shorten(text)} is not of the form name=value")
        if key not in documented:
            raise BadSetting(
                shorten(key).strip("'\""), f"is not a setting of {method}; choices: {', '.join(documented)}"
            )
        if key in typed:
            raise BadSetting(key, f"is set twice, to {shorten(typed[key])} and to {shorten(value)}; name it once")
        typed[key], values[key] = value, documented[key].parse(value)
    return values


def seen_class_ids(text: str) -> list[int] | None:
    """Return the ids that `split.seen_classes` lists, None if it is a rule; raises `UserError`."""
    if text in CLASS_RULES:
        return None
    ids = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in ids):
        raise BadSetting("split.seen_classes", f"{shorten(text)} is not first, random, or class ids such as 0,3,5")
    if len(set(map(int, ids))) != len(ids):
        raise BadSetting("split.seen_classes", f"{shorten(text)} has a class twice; list each seen class once")
    return [int(part) for part in ids]


def check_seen(ids: Sequence[int] | None, count: int | None, num_classes: int, most: int) -> None:
    """Raise `UserError` if seen classes, or their number, do not fit a data set with `num_classes` classes.

    most: highest number of seen classes.
    """
    if ids and max(ids) >= num_classes:
        raise BadSetting("split.seen_classes", f"includes class {max(ids)}; the classes are 0 to {num_classes - 1}")
    count = count or (len(ids) if ids else None)
    if count is not None and not 1 <= count <= most:
        raise BadSetting(
            "split.num_seen",
            f"{count} of {num_classes} classes seen; expected 1 to {most}, so that at least one class is novel",
        )


def _check_together(checked: dict[str, object]) -> None:
    """Check rules that involve several settings, or the content of a text."""
    network = checked["network.name"]
    _check_embeddings(checked)
    backbone_names.check_name(network)
    backbone_names.preparation(network, checked["network.image_size"])
    backbone_names.check_tokens(network, checked["network.tokens"])
    backbone_names.check_stage(network, checked["network.freeze_until"], backbone_names.stage_names(network))
    backbone_names.check_start(network, checked["network.start"], checked["network.checkpoint"])
    if checked["features"] == "stored" and checked["network.start"] == "simclr":
        raise BadSetting(
            "network.start",
            "simclr cannot be combined with stored features, which need a trained backbone; choose published,"
            " checkpoint or random, or features=live",
        )
    ids = seen_class_ids(checked["split.seen_classes"])
    count = checked["split.num_seen"]
    if (ids or count) and (num_classes := catalog.dataset_info(checked["dataset"]).classes):
        check_seen(ids, count, num_classes, num_classes if checked["split.num_novel"] else num_classes - 1)
    if ids is not None and count not in (None, len(ids)):
        raise BadSetting("split.num_seen", f"{count} does not match the {len(ids)} classes of split.seen_classes")
    device = checked["device"]
    ordinal = device.removeprefix("cuda:")
    if device not in ("auto", "cpu", "cuda") and not (
        device.startswith("cuda:") and ordinal.isascii() and ordinal.isdigit()
    ):
        raise BadSetting("device", f"{shorten(device)} is not auto, cpu, cuda or cuda:N")
    _check_processes(checked["processes"], device, catalog.method_info(checked["method"]))
    _check_prior(checked)
    if checked["split.index_files"]:
        for key, drawn in _DRAWN.items():
            if checked[key] != drawn:
                setting_text = f"{key}={shorten(checked[key])}"
                raise BadSetting(
                    "split.index_files",
                    f"already defines the split, so {setting_text} has no effect; remove one of the two",
                )
    for key in ("split.confirmed", "network.continues"):
        if checked[key] is not None and not _DIGEST.fullmatch(checked[key]):
            raise BadSetting(
                key,
                f"{shorten(checked[key])} is not the name of a file; expected 12 characters, each a "
                "digit or a letter from a to f",
            )
    if checked["network.continues"] and not checked["split.confirmed"]:
        raise BadSetting("network.continues", "can only be used with split.confirmed; remove it")


def _check_prior(checked: Mapping[str, object]) -> None:
    prior, shares = checked["prior"], checked[given_prior.SHARES]
    method = catalog.method_info(checked["method"])
    if prior != "uniform" and not method.uses_prior:
        able = (catalog.method_info(name) for name in catalog.method_names())
        names = ", ".join(info.title for info in able if info.uses_prior)
        raise BadSetting(
            "prior",
            f"{prior} has no effect with {method.title}; choose prior=uniform, or a method that uses it: {names}",
        )
    if prior == "given" and shares is None:
        raise BadSetting(given_prior.SHARES, f"nothing is given; prior=given needs {given_prior.EXPECTED}")
    if prior != "given" and shares is not None:
        raise BadSetting(given_prior.SHARES, "can only be used with prior=given; remove it")


def _check_embeddings(checked: dict[str, object]) -> None:
    """Check that embeddings have stored features, no backbone, random start and own views; pictures none of these."""
    required = {"features": "stored", "network.name": GIVEN, "network.start": "random", "views": "vectors"}
    if checked["network.name"] != GIVEN and checked["views"] == "vectors" != recipe(checked["dataset"]).get("views"):
        raise BadSetting("views", f"vectors is only possible with embeddings, not with {checked['dataset']}")
    if checked["network.name"] == GIVEN or checked["views"] == "vectors":
        for key, value in required.items():
            if checked[key] != value:
                raise BadSetting(key, f"{checked[key]} is not possible with embeddings; choose {value}")


def _check_processes(processes: int, device: str, method: catalog.MethodInfo) -> None:
    if processes > 1 and not method.distributes:
        raise BadSetting("processes", f"{processes} is not possible with {method.title}; choose 1")
    if processes > 1 and device.startswith("cuda:"):
        raise BadSetting(
            "device", f"{device} is a single GPU, but {processes} processes need one each; choose auto, cuda or cpu"
        )
