"""Train a run in this process, since starting a program takes as long as a short run on digits."""

import json
from pathlib import Path

from lps.files.atomic import write_json
from lps.settings.config import Config
from lps.store.events import read_last_event
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from lps.training.loop import train


def key_of(config: Config) -> str:
    """What tells one run of a benchmark from another: all its settings."""
    return json.dumps(config.flat(), sort_keys=True, default=str)


def finished_runs(root: Path) -> dict[str, Run]:
    """The runs of a folder, which may not exist yet, that reached their last epoch, by `key_of` their settings."""
    runs = list_runs(root) if root.is_dir() else []
    return {key_of(run.config()): run for run in runs if run.state().name == "finished" and _is_whole(run)}


def train_here(runs: Path, config: Config, name: str) -> Run:
    """Return the finished run, which reads like any other; raises `SystemExit` if it failed or was stopped."""
    run = create_run(runs, config, name)
    if train(run) != 0:
        raise SystemExit(f"{run.folder} failed")
    if not _is_whole(run):
        raise SystemExit(f"{run.folder} was stopped")
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "finished", "reason": "", "kind": "", "code": 0})
    return run


def _is_whole(run: Run) -> bool:
    """Whether its events end with the end of training: runs that were stopped by a signal were once called finished."""
    return (read_last_event(run.events) or {}).get("kind") == "finish"
