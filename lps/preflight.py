"""The checks that need the data or the machine, made before a run folder exists; whatever fails here costs nothing."""

from lps import architectures, datasets, devices
from lps.config import Config
from lps.split import Split, open_world_split


def check(config: Config, here: bool = True) -> Split:
    """The split that the run would have; raises `ConfigError` where data, split or device do not allow the run.

    here: whether it is to run on this machine; what devices the nodes of a cluster have, nobody knows before.
    """
    images = datasets.of(config)
    if here:
        devices.check_device(config.device, config.processes)
    architectures.check_file(config.network_checkpoint)
    return open_world_split(images.labels, images.class_names, config, images.num_test)
