"""Which recording plays which part, and the numbers that texts quote of it: counted from its files, never typed."""

import numpy as np
import pandas as pd

from lps.settings.config import Config
from lps.store.run_folders import recorded_runs
from lps.store.runs import Run
from lps.ui.pictures import points, predictions

_PARTS = ("lps", "orca", "fixmatch", "no_margin", "no_entropy")
_HARDLY = 10  # a cluster this many times smaller than its true size counts as empty
_TOLD = ("lps", "fixmatch", "no_margin", "no_entropy")  # by the page Story


def recordings_by_part() -> dict[str, Run]:
    """The recordings by their part, of the split that has most of them. Empty without a run of LPS."""
    by_split: dict[str, dict[str, Run]] = {}
    for run in recorded_runs():
        settings = run.config_if_readable()
        if settings and (name := _part_of_settings(settings)):
            by_split.setdefault(str(_split_key(settings)), {}).setdefault(name, run)
    return max((found for found in by_split.values() if "lps" in found), key=len, default={})


def unequal_recordings() -> list[Run]:
    """The recordings whose classes were made unequal: the same run with several priors."""
    return [run for run in recorded_runs() if (config := run.config_if_readable()) and config.split_imbalance > 1]


def has_story() -> bool:
    """Whether those are there that the page Story tells."""
    return set(_TOLD) <= set(recordings_by_part())


def _part_of_settings(settings: Config) -> str:
    """What a run with these settings can show, one of `_PARTS`; "" for none of them."""
    if settings.method in ("orca", "fixmatch"):
        return settings.method
    if settings.method != "lps":
        return ""
    with_margin, entropy = settings.hyperparameters["use_margin"], settings.hyperparameters["entropy_weight"]
    if with_margin and entropy:
        return "lps"
    return "no_margin" if entropy else "no_entropy" if with_margin else ""


def _split_key(settings: Config) -> dict[str, object]:
    return {key: value for key, value in settings.flat().items() if key.startswith(("dataset", "split."))}


def are_features_stored(run: Run) -> bool:
    """Whether a head was trained on features of a network that others had trained."""
    return run.config().features == "stored"


def picture_kind(run: Run) -> str:
    """What the pictures show, in words."""
    return "handwritten digits" if run.config().dataset == "digits" else "photographs"


def read_predicted(run: Run) -> np.ndarray:
    """The id of every unlabeled image at the last epoch, int64 (n,); raises `UserError`."""
    return predictions.read_assignment(run, points.stored_epochs(run)[-1]).predicted


def read_truth(run: Run) -> np.ndarray:
    """The class id of every unlabeled image, (n,)."""
    known = points.read_partition(run)
    return known.targets[known.split.unlabeled]


def count_swallowed(run: Run) -> tuple[int, int]:
    """(novel images that end up under the id of a seen class, all novel images)."""
    novel = read_predicted(run)[read_truth(run) >= _num_seen(run)]
    return int((novel < _num_seen(run)).sum()), len(novel)


def swallowed_share_by_epoch(run: Run) -> pd.Series:
    """The share of the novel images under the id of a seen class, by epoch."""
    is_novel, seen = read_truth(run) >= _num_seen(run), _num_seen(run)
    kept = points.stored_epochs(run)
    return pd.Series([(predictions.read_assignment(run, e).predicted[is_novel] < seen).mean() for e in kept], kept)


def _num_seen(run: Run) -> int:
    return points.read_partition(run).split.classes.seen


def cluster_sizes(run: Run) -> np.ndarray:
    """How many unlabeled images each id has at the last epoch, (classes,)."""
    return np.bincount(read_predicted(run), minlength=points.read_partition(run).split.classes.total)


def true_cluster_sizes(run: Run) -> np.ndarray:
    """How many images each id should have, (classes,): a new one as many as novel classes have on average."""
    counts = np.bincount(read_truth(run), minlength=points.read_partition(run).split.classes.total).astype(float)
    counts[_num_seen(run) :] = counts[_num_seen(run) :].mean()
    return counts


def empty_clusters(run: Run) -> tuple[int, int]:
    """(new ids with less than a tenth of the images that they should have, all new ids)."""
    seen = _num_seen(run)
    is_idle = cluster_sizes(run)[seen:] < true_cluster_sizes(run)[seen:] / _HARDLY
    return int(is_idle.sum()), len(is_idle)


def cluster_name(number: int, seen: int) -> str:
    """What people call an id that no seen class has: N1, N2, ..., as on the page Explain."""
    return f"N{number - seen + 1}"
