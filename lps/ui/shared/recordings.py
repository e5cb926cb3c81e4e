"""Find the recording for each part of the story, and compute the numbers that texts quote from its files."""

import numpy as np
import pandas as pd

from lps.settings.config import Config
from lps.store.run_folders import recorded_runs
from lps.store.runs import Run
from lps.ui.pictures import points, predictions

_PARTS = ("lps", "orca", "fixmatch", "no_margin", "no_entropy")
_HARDLY = 10  # a cluster this many times smaller than its true size counts as empty
_STORY_PARTS = ("lps", "fixmatch", "no_margin", "no_entropy")  # by the page Story


def recordings_by_part() -> dict[str, Run]:
    """Return the recordings by their part, for the split that has most of them; empty without a run of LPS."""
    by_split: dict[str, dict[str, Run]] = {}
    for run in recorded_runs():
        settings = run.config_if_readable()
        if settings and (part := _part_of_settings(settings)):
            by_split.setdefault(str(settings.split_settings()), {}).setdefault(part, run)
    return max((recordings for recordings in by_split.values() if "lps" in recordings), key=len, default={})


def ids_of_parts(*names: str) -> list[str]:
    """Return the ids of the recordings of these parts, for the address of a page; missing ones are left out."""
    parts = recordings_by_part()
    return [parts[name].id for name in names if name in parts]


def unequal_recordings() -> list[Run]:
    """Return the recordings with classes of unequal size: the same run with several priors."""
    return [run for run in recorded_runs() if (config := run.config_if_readable()) and config.split_imbalance > 1]


def has_story() -> bool:
    """Return whether all recordings of the page Story exist."""
    return set(_STORY_PARTS) <= set(recordings_by_part())


def _part_of_settings(settings: Config) -> str:
    """Return the part that a run with these settings can show, one of `_PARTS`; "" for none of them."""
    if settings.method in ("orca", "fixmatch"):
        return settings.method
    if settings.method != "lps":
        return ""
    with_margin, entropy = settings.hyperparameters["use_margin"], settings.hyperparameters["entropy_weight"]
    if with_margin and entropy:
        return "lps"
    return "no_margin" if entropy else "no_entropy" if with_margin else ""


def are_features_stored(run: Run) -> bool:
    """Return whether a head was trained on features of a pretrained network."""
    return run.config().features == "stored"


def picture_kind(run: Run) -> str:
    """Return what the pictures show, in words."""
    return "handwritten digits" if run.config().dataset == "digits" else "photographs"


def read_predicted(run: Run) -> np.ndarray:
    """Return the id of every unlabeled image at the last epoch, int64 (n,); raises `UserError`."""
    return predictions.read_assignment(run, points.stored_epochs(run)[-1]).predicted


def read_truth(run: Run) -> np.ndarray:
    """Return the class id of every unlabeled image, (n,)."""
    partition = points.read_partition(run)
    return partition.targets[partition.split.unlabeled]


def count_swallowed(run: Run) -> tuple[int, int]:
    """Return (novel images under the id of a seen class at the last epoch, all novel images)."""
    novel = read_predicted(run)[read_truth(run) >= _num_seen(run)]
    return int((novel < _num_seen(run)).sum()), len(novel)


def swallowed_share_by_epoch(run: Run) -> pd.Series:
    """Return the share of the novel images under the id of a seen class, by epoch."""
    is_novel, seen = read_truth(run) >= _num_seen(run), _num_seen(run)
    stored_epochs = points.stored_epochs(run)
    return pd.Series(
        [(predictions.read_assignment(run, epoch).predicted[is_novel] < seen).mean() for epoch in stored_epochs],
        stored_epochs,
    )


def _num_seen(run: Run) -> int:
    return points.read_partition(run).split.classes.seen


def cluster_sizes(run: Run) -> np.ndarray:
    """Return the number of unlabeled images of each id at the last epoch, (classes,)."""
    return np.bincount(read_predicted(run), minlength=points.read_partition(run).split.classes.total)


def true_cluster_sizes(run: Run) -> np.ndarray:
    """Return the image count that each id should have, (classes,): for a novel id the mean of novel classes."""
    counts = np.bincount(read_truth(run), minlength=points.read_partition(run).split.classes.total).astype(float)
    counts[_num_seen(run) :] = counts[_num_seen(run) :].mean()
    return counts


def empty_clusters(run: Run) -> tuple[int, int]:
    """Return (new ids with less than a tenth of the images that they should have, all new ids)."""
    seen = _num_seen(run)
    is_idle = cluster_sizes(run)[seen:] < true_cluster_sizes(run)[seen:] / _HARDLY
    return int(is_idle.sum()), len(is_idle)


def cluster_name(number: int, seen: int) -> str:
    """Return the name of an id that no seen class has: N1, N2, ..., as on the page Explain."""
    return f"N{number - seen + 1}"
