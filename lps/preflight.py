"""The checks that need the data or the machine, made before a run folder exists; whatever fails here costs nothing."""

from lps import architectures, datasets, devices
from lps.config import Config
from lps.split import Split, open_world_split

SHOWN = 5  # names of classes in a sentence


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
