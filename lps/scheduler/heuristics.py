"""How long a run takes on a CPU where no run of its kind has finished: a rule of thumb.

Time grows with images, pixels and epochs, and with what a network does for a pixel.
"""

from lps.data import feature_store
from lps.settings.config import Config

START_S = 7.0  # seconds from a process to its first event; ten runs on two shared cores took 6.9 to 41.9

# Microseconds of one core for a pixel of an image in an epoch: of pretraining, and of training by LPS with the stages
# frozen that the recipes freeze. Processor time of two more epochs, 300 pictures of 32 x 32, batches of 128, two quiet
# cores (AMD EPYC, PyTorch 2.15), one trial each.
_MICROSECONDS = {"digits_resnet": (1.5, 2.4), "cifar_resnet18": (34.0, 21.0)}

# The same for a view of a picture, in pixels that the backbone sees: EfficientNet-Lite0 took 3.2 ms of one thread for
# 128 x 128 (AMD EPYC, other work on it, 768 views). And what an epoch of LPS on stored features takes for a picture.
_STORED_MICROSECONDS = {"efficientnet_lite0": 0.2, "given": 0.0}  # own embeddings pass no backbone
_HEAD_S = 180e-6
_MATTERS = ("dataset", "network.name", "network.image_size", "network.start", "network.checkpoint", "views")


def seconds(config: Config, images: int, height: int, width: int, cores: int) -> float | None:
    """Seconds of a run on so many images of this size; None for a network of which nothing is known."""
    if config.features == "stored":
        store_s = _store_seconds(config, images, cores)
        return None if store_s is None else START_S + store_s + config.epochs * images * _HEAD_S
    if config.network_name not in _MICROSECONDS:
        return None
    pretraining, training = _MICROSECONDS[config.network_name]
    pretrain_epochs = config.pretrain_epochs if config.network_start == "simclr" else 0
    work = pretrain_epochs * pretraining + config.epochs * training
    return START_S + images * height * width * work * 1e-6 / max(1, cores)


def pretraining_share(config: Config) -> float:
    """Seconds of an epoch of pretraining by those of an epoch of training; 1 for an unknown network."""
    pretraining, training = _MICROSECONDS.get(config.network_name, (1.0, 1.0))
    return pretraining / training


def _store_seconds(config: Config, images: int, cores: int) -> float | None:
    """Seconds until all features are stored, 0 where they are: by stores made here, else by the rule of thumb."""
    flat, views = config.flat(), 1 + config.features_weak_views + config.features_strong_views
    kept = [store for store in feature_store.kept() if isinstance(store.facts.get("settings"), dict)]
    same_network = [store for store in kept if _agree(store, flat, "network.")]
    same = [store for store in same_network if _agree(store, flat, "") and store.store.count == images]
    missing = images * views - max((min(images * views, sum(store.rows.values())) for store in same), default=0)
    speeds = [store.picture_s for store in same_network if store.picture_s is not None]
    if missing == 0 or speeds:
        return missing * min(speeds, default=0.0)
    each = _STORED_MICROSECONDS.get(config.network_name)
    return None if each is None else missing * each * 1e-6 * (config.network_image_size or 224) ** 2 / max(1, cores)


def _agree(store: feature_store.StoredEntry, flat: dict[str, object], prefix: str) -> bool:
    """Whether a store was made with these settings, those whose names contain `prefix`."""
    made_with = store.facts["settings"]
    return all(made_with.get(key) == value for key, value in flat.items() if key.startswith(_MATTERS) and prefix in key)
