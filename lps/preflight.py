"""The checks that need the data or the machine, made before a run folder exists; whatever fails here costs nothing."""

from lps import datasets, devices
from lps.config import Config
from lps.parameters import ConfigError
from lps.split import Split, open_world_split


def check(config: Config) -> Split:
    """The split that the run would have; raises `ConfigError` where data, split or device do not allow the run."""
    images = datasets.load(config.dataset, config.dataset_path)
    check_device(config.device)
    return open_world_split(images.labels, images.class_names, config)


def check_device(name: str) -> None:
    """Raises `ConfigError` for a GPU that this machine does not offer."""
    if name in ("auto", "cpu"):
        return
    found = devices.list_devices()
    wanted = "cuda:0" if name == "cuda" else name
    if not any(device.name == wanted and device.available for device in found):
        why = next((device.reason for device in found if device.reason), "there are only these")
        choices = ", ".join(["auto", *(device.name for device in found if device.available)])
        raise ConfigError("device", f"{name} is not on this machine ({why}); choices: {choices}")
