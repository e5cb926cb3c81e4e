"""The checks that need the data or the machine, made before a run folder exists; whatever fails here costs nothing."""

from collections.abc import Sequence
from pathlib import Path

from lps import architectures, costs, datasets, devices, disk, forecasts
from lps.config import Config
from lps.split import Split, open_world_split

SHOWN = 5  # names of classes in a sentence
PLENTY = 20_000_000_000  # bytes; where so many are free nobody asks what runs will write
LITTLE = 1_000_000_000  # bytes; with fewer it is said even where nobody knows


def check(config: Config, here: bool = True) -> Split:
    """The split that the run would have; raises `ConfigError` where data, split or device do not allow the run.

    here: whether it is to run on this machine; what devices the nodes of a cluster have, nobody knows before.
    """
    images = datasets.of(config)
    if here:
        devices.check_device(config.device, config.processes)
    architectures.check_file(config.network_checkpoint)
    return open_world_split(images.labels, images.class_names, config, images.num_test)


def notices(config: Config) -> list[str]:
    """What nothing is wrong with but a person may not expect, one sentence each; raises `ConfigError`."""
    chosen = config.split_num_seen or config.split_num_novel or config.split_seen_classes != "first"
    if config.dataset != "folder" or chosen:
        return []
    images = datasets.of(config)
    if (images.labels < 0).any():
        return []
    hidden = images.class_names[images.num_classes // 2 :]
    named = ", ".join(hidden[:SHOWN]) + ", ..." * (len(hidden) > SHOWN)
    return [
        f"There is no folder unlabeled, so {len(hidden)} of the {images.num_classes} classes count as novel, and their "
        f"labels are hidden from training: {named} (split.num_seen and split.seen_classes choose)."
    ]


def shortage(configs: Sequence[Config], root: Path) -> str:
    """A sentence where the disk of `root` has no room for what these runs will write together; "" where it may have.

    Judged by finished runs of the kind and by recordings (lps.forecasts). No reason not to start: space may be made
    meanwhile, and a run that finds none ends with all that it had and can be resumed.
    """
    place = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    left = disk.free(place)
    if left >= PLENTY or not configs:
        return ""
    known = forecasts.known(root, {costs.kind(config) for config in configs})
    found = [known.of(config) for config in configs]
    needed = sum(cost.bytes for cost in found if cost)
    what = "this run" if len(configs) == 1 else f"these {len(configs)} runs"
    if needed > left:
        about = f"about {costs.size_in_words(needed)}, and {costs.size_in_words(left)} are free in {place}"
        return (
            f"The disk is too small: {what} will write {about}. Without more it ends as disk_full and can be resumed."
        )
    if left < LITTLE and None in found:
        return f"Only {costs.size_in_words(left)} are free in {place}, and nobody knows yet what {what} will write."
    return ""
