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


def cast() -> dict[str, Run]:
    """The recordings by their part, of the split that has most of them. Empty without a run of LPS."""
    by_split: dict[str, dict[str, Run]] = {}
    for run in recorded_runs():
        settings = run.config_if_readable()
        if settings and (name := _part(settings)):
            by_split.setdefault(str(_split(settings)), {}).setdefault(name, run)
    return max((found for found in by_split.values() if "lps" in found), key=len, default={})


def unequal() -> list[Run]:
    """The recordings whose classes were made unequal: the same run with several priors."""
    return [run for run in recorded_runs() if (config := run.config_if_readable()) and config.split_imbalance > 1]


def tell_a_story() -> bool:
    """Whether those are there that the page Story tells."""
    return set(_TOLD) <= set(cast())


def _part(settings: Config) -> str:
    """What a run with these settings can show, one of `_PARTS`; "" for none of them."""
    if settings.method in ("orca", "fixmatch"):
        return settings.method
    if settings.method != "lps":
        return ""
    with_margin, entropy = settings.hyperparameters["use_margin"], settings.hyperparameters["entropy_weight"]
    if with_margin and entropy:
        return "lps"
    return "no_margin" if entropy else "no_entropy" if with_margin else ""


def _split(settings: Config) -> dict[str, object]:
    return {key: value for key, value in settings.flat().items() if key.startswith(("dataset", "split."))}


def are_features_stored(run: Run) -> bool:
    """Whether a head was trained on features of a network that others had trained."""
    return run.config().features == "stored"


def kind(run: Run) -> str:
    """What the pictures show, in words."""
    return "handwritten digits" if run.config().dataset == "digits" else "photographs"


def predicted(run: Run) -> np.ndarray:
    """The id of every unlabeled image at the last epoch, int64 (n,); raises `UserError`."""
    return predictions.assignment(run, points.epochs(run)[-1]).predicted


def truth(run: Run) -> np.ndarray:
    """The class id of every unlabeled image, (n,)."""
    known = points.partition(run)
    return known.targets[known.split.unlabeled]


def swallowed(run: Run) -> tuple[int, int]:
    """(novel images that end up under the id of a seen class, all novel images)."""
    novel = predicted(run)[truth(run) >= _seen(run)]
    return int((novel < _seen(run)).sum()), len(novel)


def swallowed_by_epoch(run: Run) -> pd.Series:
    """The share of the novel images under the id of a seen class, by epoch."""
    is_novel, seen = truth(run) >= _seen(run), _seen(run)
    kept = points.epochs(run)
    return pd.Series([(predictions.assignment(run, e).predicted[is_novel] < seen).mean() for e in kept], kept)


def _seen(run: Run) -> int:
    return points.partition(run).split.classes.seen


def cluster_sizes(run: Run) -> np.ndarray:
    """How many unlabeled images each id has at the last epoch, (classes,)."""
    return np.bincount(predicted(run), minlength=points.partition(run).split.classes.total)


def true_cluster_sizes(run: Run) -> np.ndarray:
    """How many images each id should have, (classes,): a new one as many as novel classes have on average."""
    counts = np.bincount(truth(run), minlength=points.partition(run).split.classes.total).astype(float)
    counts[_seen(run) :] = counts[_seen(run) :].mean()
    return counts


def empty_clusters(run: Run) -> tuple[int, int]:
    """(new ids with less than a tenth of the images that they should have, all new ids)."""
    seen = _seen(run)
    is_idle = cluster_sizes(run)[seen:] < true_cluster_sizes(run)[seen:] / _HARDLY
    return int(is_idle.sum()), len(is_idle)


def cluster_name(number: int, seen: int) -> str:
    """What people call an id that no seen class has: N1, N2, ..., as on the page Explain."""
    return f"N{number - seen + 1}"
