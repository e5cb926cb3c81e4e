"""Checks that need the data or the machine, made before a run folder exists: a failure leaves nothing behind."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from lps import datasets
from lps.data import sources
from lps.data.class_shares import PriorAdvice, advise_prior, class_sizes, first_prior
from lps.data.split import Split, open_world_split
from lps.files import disk
from lps.machine import devices
from lps.scheduler import costs, disk_use
from lps.settings import backbone_names, nouns
from lps.settings.config import Config
from lps.settings.recipes import LOWER_THRESHOLDS, MANY_CLASSES
from lps.wording import counted, data_size

_SHOWN = 5  # names of classes in a sentence
_START_SETTINGS = "dataset", "split", "method", "features", "threshold_novel"
_REACHED = 0.9  # share of the chosen imbalance from which no warning is needed
AMPLE_BYTES = 20_000_000_000  # bytes; with so many free, no estimate is made
_MEMORY_SETTINGS = (
    "dataset dataset.path dataset.image_size dataset.images_per_class device batch_size views precision network.name "
    "network.start pretrain.epochs pretrain.batch_size"
).split()
LOW_BYTES = 1_000_000_000  # bytes; with fewer free, warn even without an estimate

# Bytes that a step keeps for its gradient with nothing frozen, for a pixel of a view in fp32. A test counts them again.
ACTIVATION_BYTES = {"digits_resnet": 713, "cifar_resnet18": 4607, "resnet50": 1714}


def check_config(config: Config, on_this_machine: bool = True) -> Split:
    """Return the split that the run would have; raises `UserError` if data, split or device do not allow the run.

    on_this_machine: whether the run uses this machine. The devices of a cluster's nodes cannot be checked beforehand.
    """
    sources.images_of(config)  # what is wrong with the data is told first
    if on_this_machine:
        devices.check_device(config.device, config.processes)
    backbone_names.check_file(config.network_checkpoint)
    split, truth = _read_split(config)
    if not (config.split_confirmed and config.prior == "given"):  # `continued_training` knows its new seen classes
        first_prior(config, split, truth)
    return split


def prior_advice(config: Config) -> PriorAdvice | None:
    """Return advice on the prior from the labels of the run; raises `UserError`."""
    split, truth = _read_split(config)
    return advise_prior(np.bincount(truth[split.labeled], minlength=split.classes.seen), config)


def start_warnings(*configs: Config) -> list[str]:
    """Return warnings that do not block the start, one sentence each, none twice; raises `UserError`.

    Runs with equal settings of the data, the split and the pseudo-labels are checked once.
    """
    checks = _imbalance_warnings, _threshold_warnings, _novel_class_warnings
    kinds = one_of_each_kind(configs, lambda key: key.startswith(_START_SETTINGS))
    return list(dict.fromkeys(sentence for config in kinds for check in checks for sentence in check(config)))


def one_of_each_kind(configs: Iterable[Config], counts: Callable[[str], bool]) -> list[Config]:
    """Return the first config of every combination of the settings for which `counts` is true."""
    config_by_kind: dict[str, Config] = {}
    for config in configs:
        config_by_kind.setdefault(str([pair for pair in config.flat().items() if counts(pair[0])]), config)
    return list(config_by_kind.values())


def _read_split(config: Config) -> tuple[Split, np.ndarray]:
    """Return the split that the run would have, and the targets (n,) of all images; raises `UserError`."""
    images = sources.images_of(config)
    split = open_world_split(images.labels, images.class_names, config, images.num_test)
    return split, split.targets(images.labels)


def _threshold_warnings(config: Config) -> list[str]:
    if config.method != "lps" or config.features != "stored":
        return []
    start, end = (config.hyperparameters[f"threshold_novel_{edge}"] for edge in ("start", "end"))
    num_classes = _read_split(config)[0].classes.total
    if num_classes < MANY_CLASSES or min(start, end) < 2 * LOWER_THRESHOLDS["threshold_novel_start"]:
        return []
    lower = ", ".join(f"{key}={value:g}" for key, value in LOWER_THRESHOLDS.items())
    return [
        f"There are {num_classes} classes. With so many, few predictions reach the confidence of "
        f"{start:g} to {end:g} that a pseudo-label of a novel class needs. Lower thresholds were more accurate with 50 "
        f"and 100 classes: {lower} (docs/results.md, CIFAR-100)."
    ]


def _imbalance_warnings(config: Config) -> list[str]:
    if config.split_imbalance == config.split_labeled_imbalance == 1:
        return []
    split, truth = _read_split(config)
    labels = np.bincount(truth[np.concatenate([split.labeled, split.validation])])
    sentences = []
    for name, imbalance, sizes, subject, noun in (
        ("split.imbalance", config.split_imbalance, class_sizes(split, truth), "imbalance", "training image"),
        ("split.labeled_imbalance", config.split_labeled_imbalance, labels, "imbalance of the labels", "labeled image"),
    ):
        largest, smallest = int(sizes.max()), int(sizes[sizes > 0].min())
        if largest < _REACHED * imbalance * smallest:
            sentences.append(
                f"The {subject} is {largest / smallest:.0f} instead of {imbalance:g} ({name}): the largest class has "
                f"only {counted(largest, noun)}, and the smallest one keeps {smallest}."
            )
    return [nouns.of_dataset(config.dataset)(sentence) for sentence in sentences]


def _novel_class_warnings(config: Config) -> list[str]:
    is_chosen = config.split_num_seen or config.split_num_novel or config.split_seen_classes != "first"
    if config.dataset != "folder" or is_chosen:
        return []
    images = sources.images_of(config)
    if (images.labels < 0).any():
        return []
    novel_names = images.class_names[images.num_classes // 2 :]
    names_text = ", ".join(novel_names[:_SHOWN]) + ", ..." * (len(novel_names) > _SHOWN)
    return [
        "The data set has no folder with the name unlabeled. Therefore, these classes count as novel, and training "
        f"does not use their labels: {names_text}. You can change this with split.num_seen or split.seen_classes."
    ]


def memory_warnings(configs: Iterable[Config]) -> list[str]:
    """Return warnings about memory use on the GPUs of this machine, one sentence each; none if no run uses a GPU.

    Runs with equal settings (`_MEMORY_SETTINGS`) are checked once. Warnings do not block the start: weights may exist
    already, and the memory of a step is an estimate.
    """
    kinds = one_of_each_kind(configs, _MEMORY_SETTINGS.__contains__)
    return list(dict.fromkeys(warning for config in kinds for warning in _memory_warnings_of_run(config)))


def _memory_warnings_of_run(config: Config) -> list[str]:
    """Return the memory warnings of one run."""
    gpus = [gpu for gpu in devices.available_gpus() if config.device in ("auto", "cuda", gpu.name)]
    if not gpus:
        return []
    sentences, pixels = [], sources.images_of(config).pixels
    if pixels.nbytes > datasets.ON_DEVICE:
        location = "read from their file on the disk" if isinstance(pixels, np.memmap) else "kept in main memory"
        sentences.append(
            f"The pictures take {data_size(pixels.nbytes)}, too much to keep on the GPU. They are {location}, and "
            f"every step copies {data_size(pixels.nbytes / len(pixels) * config.batch_size)} to the GPU."
        )
    needed = _pretraining_bytes(config, *pixels.shape[1:3])
    largest_gpu_bytes = max((gpu.bytes or 0 for gpu in gpus), default=0)
    if needed and largest_gpu_bytes and needed > largest_gpu_bytes:
        precision = "" if config.precision != "fp32" else ", and precision=bf16 needs about half"
        sentences.append(
            f"A step of pretraining needs about {data_size(needed)} of GPU memory, but the largest GPU here has "
            f"{data_size(largest_gpu_bytes)}. A smaller pretrain.batch_size needs less memory{precision}. With start "
            "weights from a file (network.start), there is no pretraining."
        )
    return sentences


def _pretraining_bytes(config: Config, height: int, width: int) -> float | None:
    """Return the least GPU memory (bytes) of a pretraining step for images of this size; None if unknown.

    ResNet-50, 1,024 views of 224 pixels in bf16: 44.9 GB measured, 44.0 by this.
    """
    bytes_per_image = ACTIVATION_BYTES.get(config.network_name.removeprefix("torchvision:"))
    if bytes_per_image is None or config.network_start != "simclr" or not config.pretrain_epochs:
        return None
    pixels = 224 * 224 if config.views in ("imagenet", "gcd") else height * width
    return 2 * config.pretrain_batch_size * pixels * bytes_per_image * (1 if config.precision == "fp32" else 0.5)


def disk_warning(configs: Sequence[Config], root: Path) -> str:
    """Return a warning if the disk of `root` lacks space for what these runs will write together; else "".

    Estimated from finished runs of this kind and from recordings (lps.scheduler.costs). The warning does not block the
    start: a run that finds no space ends with everything that it had, and can be resumed.
    """
    existing_folder = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    free_bytes = disk.free_bytes(existing_folder)
    if free_bytes >= AMPLE_BYTES or not configs:
        return ""
    known_costs = costs.known_costs(root, {costs.cost_kind(config) for config in configs})
    costs_of_runs = [known_costs.estimate(config) for config in configs]
    needed = disk_use.expected_bytes(filter(None, costs_of_runs))
    subject = "this run" if len(configs) == 1 else f"these {len(configs)} runs"
    if needed > free_bytes:
        sizes = f"about {data_size(needed)}, but only {data_size(free_bytes)} are free in {existing_folder}"
        return (
            f"The disk is too small: {subject} will write {sizes}. A run fails when the disk is full. You can resume "
            "it after you free some space."
        )
    if free_bytes < LOW_BYTES and None in costs_of_runs:
        return (
            f"Only {data_size(free_bytes)} are free in {existing_folder}. It is not known how much {subject} will "
            "write."
        )
    return ""
