"""Compare runs: their differences, and whether they used the same images with the same labels."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from lps.analysis import run_groups
from lps.errors import UserError
from lps.settings.config import Config
from lps.settings.parameters import text_of
from lps.store import titles
from lps.store.runs import Run
from lps.store.snapshots import read_split

_DATA = ("dataset", "dataset.path", "dataset.images_per_class")  # settings that say which images there are
DAMAGED = "its settings cannot be read"


def short_labels(runs: Sequence[Run], *, in_symbols: bool = False) -> list[str]:
    """Return labels that tell several runs apart, for the lines of a chart: "margin_scale=5, seed 0".

    in_symbols: write settings as in formulas if they have a symbol: "C=5, seed 0".

    A run that the user has named, and a recording, keep their names. Runs without a difference get the end of
    their ids.
    """
    configs = [run.config_if_readable() for run in runs]
    readable = [config for config in configs if config is not None]
    varied = _varied(readable)
    several = [key for key in ("method", "dataset", "seed") if len({getattr(config, key) for config in readable}) > 1]
    labels = [_short_label(run, config, varied, several, in_symbols) for run, config in zip(runs, configs)]
    counts = Counter(labels)
    return [text if counts[text] == 1 else titles.run_label(run) for run, text in zip(runs, labels)]


def _varied(configs: Sequence[Config]) -> list[str]:
    """Return the settings in which runs on the same data differ, without those that another data set changes anyway."""
    by_data: dict[str, list[Config]] = {}
    for config in configs:
        by_data.setdefault(config.dataset, []).append(config)
    varied_keys = dict.fromkeys(key for own in by_data.values() for key in run_groups.differing_settings(own))
    return [key for key in varied_keys if key not in titles.NOT_NAMED]


def _short_label(
    run: Run, config: Config | None, varied: Sequence[str], several: Sequence[str], in_symbols: bool
) -> str:
    if config is None or run.is_recorded:
        return titles.run_title(run)
    if (name := run.meta()["name"]) and not titles.is_of_sweep(name, config):
        return name
    values = config.flat()
    parts = [titles.method_title(config.method)] if "method" in several else []
    parts += [titles.data_of(run, config.dataset)] if "dataset" in several else []
    shown_keys = [key for key in varied if values.get(key) is not None]
    if in_symbols:
        parts += [titles.setting_in_symbols(config.method, key, values[key]) for key in shown_keys]
    else:
        parts += [titles.setting_in_words(key, values[key]) for key in shown_keys]
    parts += [f"seed {config.seed}"] if "seed" in several else []
    return ", ".join(titles.without_paths(parts)) or titles.run_title(run)


def split_difference(first: Run, second: Run, read: Callable = lambda run: read_split(run.folder)) -> str:
    """Return why the images or labels of two runs differ, in words; "" if they are the same.

    If both splits are stored they decide, so that a default and the same value written out are no difference. read:
    returns the split of a run and the class id of every image, or raises `UserError`.
    """
    first_config, settings = first.config_if_readable(), second.config_if_readable()
    is_same = _same_split(first, second, read)
    if is_same:
        return ""
    if first_config is None or settings is None:
        return DAMAGED
    if names := differing_settings(first_config, settings):
        name = names[0]
        return (
            f"{name} is {text_of(settings.flat()[name])} in one and {text_of(first_config.flat()[name])} in the other"
        )
    return "" if is_same is None else "the images of the data set have changed between the two"


def _same_split(first: Run, second: Run, read_split: Callable) -> bool | None:
    """Return whether the stored splits are equal; None if one of them cannot be read."""
    try:
        (first_split, first_truth), (second_split, second_truth) = read_split(first), read_split(second)
    except UserError:
        return None
    pairs = [(getattr(first_split, name), getattr(second_split, name)) for name in ("labeled", "unlabeled")]
    pairs.append((first_truth, second_truth))
    return first_split.classes == second_split.classes and all(
        np.array_equal(first_value, second_value) for first_value, second_value in pairs
    )


def differing_settings(first_config: Config, settings: Config) -> list[str]:
    """Return the data set and split settings that differ between two runs, the data set first."""
    first_values, second_values = first_config.flat(), settings.flat()
    names = [*_DATA, *(name for name in first_values if name.startswith("split."))]
    return [name for name in names if first_values[name] != second_values[name]]
