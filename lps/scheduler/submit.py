"""Create and launch runs, for all callers: check the config, make the folder, request the first attempt.

Command line, API, form, sweeps and searches all use this module and pass their differences as arguments. The trainer
checks its input again (`Config.from_json`, `lps.data.training_data`), because between the two are a queue, files that
users may edit, and perhaps another machine.
"""

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
_START_WEIGHT_SETTINGS = ("dataset", "dataset.path", "dataset.image_size") + tuple(
    f"network.{name}" for name in ("name", "start", "checkpoint", "freeze_until", "image_size", "tokens")
)  # that start weights are judged by


class RunRequest(NamedTuple):
    """A requested run. token, copy_files: see `create_run`. run: an existing folder."""

    config: Config
    name: str = ""
    token: str | None = None
    run: Run | None = None
    copy_files: Callable[[Path], None] | None = None


def light_effort(dataset: str, settings: Mapping[str, object], on_this_machine: bool = True) -> str:
    """Name the effort of a light training (`recipes.lighter_effort`) for these pictures and, if local, this hardware.

    settings: the settings that the user gave, `dataset.path` as typed.
    """
    path = settings.get("dataset.path")
    is_coloured = sources.is_coloured(dataset, path and os.path.expanduser(path))
    has_gpu = on_this_machine and bool(devices.available_gpus())
    return recipes.lighter_effort(dataset, is_coloured=is_coloured, has_gpu=has_gpu, settings=settings)


def light_settings(dataset: str, settings: Mapping[str, object], on_this_machine: bool = True) -> dict[str, object]:
    """Return the settings that a light training changes, by key; empty if the recipe is light. See `light_effort`."""
    return recipes.training_efforts(dataset).get(light_effort(dataset, settings, on_this_machine), {})


def check_configs(
    configs: Sequence[Config],
    on_this_machine: bool = True,
    *,
    fetch: bool = False,
    check_start: Callable[[Config], None] | None = None,
) -> None:
    """Check data, split, device and start weights of every distinct config; raises `UserError`.

    on_this_machine: see `preflight.check_config`. fetch: download missing data. check_start: checks start weights,
    `start_check.check_start` or, without loading torch, `start_check.check_start_in_subprocess`; None skips this check.
    """
    shared = [key for key in protocol_parameters() if key not in _UNCHECKED]
    # One data set after the other: only the newest ones stay in memory.
    kinds = preflight.one_of_each_kind(configs, shared.__contains__)
    for config in sorted(kinds, key=lambda config: (config.dataset, config.dataset_path or "")):
        if fetch:
            sources.fetch(config.dataset, config.dataset_path)
        preflight.check_config(config, on_this_machine)
    for config in preflight.one_of_each_kind(configs, _START_WEIGHT_SETTINGS.__contains__) if check_start else ():
        check_start(config)


def create_runs(
    root: Path,
    requests: Sequence[RunRequest],
    trainer: tuple[str, ...] | None = None,
    *,
    on_created: Callable[[list[Run]], None] = lambda runs: None,
    array: str | None = None,
    **request,
) -> list[Run]:
    """Make the folders of all requests, then launch them; raises `UserError`.

    on_created: called with the runs before they start, to record them. array: the name under which all runs are
    requested at once, including interrupted ones (`launch_all`); None launches the runs that were never requested, one
    by one. request: as in `launch`.
    """
    runs = [o.run or run_folders.create_run(root, o.config, o.name, o.token, o.copy_files) for o in requests]
    on_created(runs)
    trainer_arguments = () if trainer is None else (trainer,)
    if array is not None:
        launcher.launch_all(runs, *trainer_arguments, name=array, **request)
        return runs
    for run in runs:
        if run.state().name == "queued":
            launcher.launch(run, *trainer_arguments, **request)
    return runs
