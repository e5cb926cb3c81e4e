"""Create and launch runs, for all callers: check the config, make the folder, ask for the first attempt.

Command line, API, form, sweeps and searches all use this module and pass their differences as arguments. The trainer
checks its input again (`Config.from_json`, `lps.data.material`): in between lie a queue, files that users may edit,
and perhaps another machine.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lps.data import sources
from lps.machine import devices
from lps.scheduler import launcher, preflight
from lps.settings import recipes
from lps.settings.config import Config, protocol_parameters
from lps.store import run_folders
from lps.store.runs import Run

_UNCHECKED = ("seed", "pretrain.seed")  # settings that no check of data, split and device looks at
_JUDGED = ("dataset", "dataset.path", "dataset.image_size") + tuple(
    f"network.{name}" for name in ("name", "start", "checkpoint", "freeze_until", "image_size", "tokens")
)  # that start weights are judged by


class RunRequest(NamedTuple):
    """A requested run. token: as of `create_run`; bring: its copy_files. run: an existing folder."""

    config: Config
    name: str = ""
    token: str | None = None
    run: Run | None = None
    bring: Callable[[Path], None] | None = None


def light_effort(dataset: str, settings: Mapping[str, object], on_this_machine: bool = True) -> str:
    """Name the effort of a light training (`recipes.lighter_effort`) for these pictures, and for the hardware if it
    runs here.

    settings: the settings that a person has named, `dataset.path` as it was typed.
    """
    path = settings.get("dataset.path")
    is_coloured = sources.is_coloured(dataset, path and os.path.expanduser(path))
    has_gpu = on_this_machine and bool(devices.available_gpus())
    return recipes.lighter_effort(dataset, is_coloured=is_coloured, has_gpu=has_gpu, settings=settings)


def light_settings(dataset: str, settings: Mapping[str, object], on_this_machine: bool = True) -> dict[str, object]:
    """What a light training changes of the recipe, by key; nothing where that is light already. As `light_effort`."""
    return recipes.training_efforts(dataset).get(light_effort(dataset, settings, on_this_machine), {})


def check_configs(
    configs: Sequence[Config],
    on_this_machine: bool = True,
    *,
    fetch: bool = False,
    judge: Callable[[Config], None] | None = None,
) -> None:
    """Data, split, device and start weights of every config, each distinct one once; raises `UserError`.

    on_this_machine: as of `preflight.check_config`. fetch: download data that is missing. judge: what checks start
    weights, `start_check.check_start` or, where torch shall not be loaded, `start_check.check_start_in_subprocess`;
    without it nobody does.
    """
    shared = [key for key in protocol_parameters() if key not in _UNCHECKED]
    # One data set after the other: only the newest ones stay in memory.
    for config in sorted(_distinct(configs, shared), key=lambda config: (config.dataset, config.dataset_path or "")):
        if fetch:
            sources.fetch(config.dataset, config.dataset_path)
        preflight.check_config(config, on_this_machine)
    for config in _distinct(configs, _JUDGED) if judge else ():
        judge(config)


def create_runs(
    root: Path,
    orders: Sequence[RunRequest],
    trainer: tuple[str, ...] | None = None,
    *,
    note: Callable[[list[Run]], None] = lambda runs: None,
    array: str | None = None,
    **request,
) -> list[Run]:
    """Make the folders of all orders, then launch them; raises `UserError`.

    note: writes down what has to be known of the runs before they start. array: the name under which all of them are
    asked for at once, what broke off too (`launch_all`); without it those that nobody has asked for yet are, one after
    the other. request: as in `launch`.
    """
    runs = [o.run or run_folders.create_run(root, o.config, o.name, o.token, o.bring) for o in orders]
    note(runs)
    how = () if trainer is None else (trainer,)
    if array is not None:
        launcher.launch_all(runs, *how, name=array, **request)
        return runs
    for run in runs:
        if run.state().name == "queued":
            launcher.launch(run, *how, **request)
    return runs


def _distinct(configs: Sequence[Config], keys: Sequence[str]) -> list[Config]:
    """The first config of every combination of these settings."""
    config_by_digest: dict[str, Config] = {}
    for config in configs:
        flat = config.flat()
        config_by_digest.setdefault(json.dumps([flat[key] for key in keys]), config)
    return list(config_by_digest.values())
