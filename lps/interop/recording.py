"""Record a finished run as a small read-only folder without checkpoints and without traces of the machine.

It reads like any run. `recorded.json` marks it as a recording and has the command that made the run. Every recorded
epoch has the predictions of all images and the points of a sample of them on the principal plane; features of this
sample are kept for the last epoch only. Small copies of the training pictures are included on request.
"""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from lps.analysis import labels, projection
from lps.analysis.projection import spread_epochs
from lps.errors import UserError, shorten, shown
from lps.files import versions
from lps.files.atomic import clean_line, write_json, write_whole
from lps.files.atomic_folder import draft_folder
from lps.files.disk import folder_bytes
from lps.settings.config import Config
from lps.store import thumbnails
from lps.store.events import read_history, resolved_settings
from lps.store.provenance import train_command
from lps.store.run_folders import list_runs
from lps.store.runs import RECORDED_FILE, RUN_ID, Run
from lps.store.snapshots import Snapshot, read_snapshot, read_split, snapshot_epochs, write_arrays, write_snapshot

SAMPLE = 600  # images whose features and points are kept
SIZE = 3_000_000  # most bytes of a recording; long runs keep fewer of their epochs
_DIGITS = 5  # digits of a number in the events: more than a chart shows
_KINDS = ("start", "pretrain", "train", "eval", "finish")
_SEED = 0  # of the sample


def record_run(run: Run, to: Path, name: str = "", with_pictures: bool = False) -> Run:
    """Record `run` in the folder `to`, completely or not at all; raises `UserError`.

    name: of the recording; by default the run's own name or id. with_pictures: include small copies of the training
    pictures, for users without the data set.
    """
    state = run.state().name
    if state != "finished":
        raise UserError("run", f"{run.id} is {state}; only finished runs can be recorded")
    if not RUN_ID.fullmatch(run.id):
        raise UserError("run", f"{shorten(run.id)} is not the name of a run folder")
    config, name = without_local_paths(run.config()), clean_line(name or run.title)
    same_named = [other_run for other_run in list_runs(to) if other_run.id == run.id or other_run.title == name]
    if same_named:
        reason = f"is already recorded in {shown(to)} as {same_named[0].id}; remove that recording or use --name"
        raise UserError("name", f"{shorten(name)} {reason}")
    try:
        to.mkdir(parents=True, exist_ok=True)
        with draft_folder(to, run.id) as draft:
            if with_pictures:
                split, targets = read_split(run.folder)
                thumbnails.write_thumbnails(draft, labels.load_pictures(run, split, targets), split)
            _fill(Run(draft), run, config, name)
            for path in [draft, *draft.rglob("*")]:  # readable for every user of an installed program
                path.chmod(0o755 if path.is_dir() else 0o644)
            draft.rename(to / run.id)
    except OSError as error:
        raise UserError("to", f"{shown(to)} cannot store the recording ({error.strerror})") from None
    return Run(to / run.id)


def without_local_paths(config: Config) -> Config:
    """Return the settings without the data set's folder; raises `UserError` if another setting is a path."""
    config = replace(config, dataset_path=None)
    for name, value in config.flat().items():
        if isinstance(value, str) and (os.path.isabs(value) or "\\" in value):
            raise UserError(name, "is a path that exists only on this machine, so the run cannot be recorded")
    return config


def _fill(draft: Run, run: Run, config: Config, name: str) -> None:
    folder, epochs = draft.folder, snapshot_epochs(run.snapshots)
    if not epochs:
        raise UserError("run", f"{run.id} has no snapshots, so there is nothing to show")
    write_whole(folder / "config.json", config.to_json().encode())
    meta = {"name": name, "notes": "", "tags": [], "rev": 1}
    write_json(folder / "meta.json", versions.with_version("meta.json", meta))
    write_json(folder / RECORDED_FILE, {"version": 1, "command": train_command(config)})
    exit_record = {"attempt": 1, "state": "finished", "reason": "", "kind": "", "code": 0}
    write_json(folder / "exit.json", exit_record)
    write_whole(draft.events, _events(run))
    shutil.copyfile(run.folder / "split.npz", folder / "split.npz")
    draft.snapshots.mkdir()
    draft.projections.mkdir()
    _write_epochs(draft, run, epochs)
    size = folder_bytes(folder)
    if size > SIZE:
        raise UserError(
            "run", f"{run.id} takes {size / 1e6:.1f} MB as a recording; expected at most {SIZE / 1e6:.0f} MB"
        )


def _events(run: Run) -> bytes:
    """Return the events that count in the end, without texts and with `_DIGITS` digits per number."""
    lines = []
    for event in read_history(run.events):
        if event["kind"] in _KINDS:
            values = {key: event[key] for key in ("kind", "step", "epoch", "time", "version") if key in event}
            values |= resolved_settings(event)
            lines.append(json.dumps(values | {"values": _rounded(event["values"])}, separators=(",", ":")))
    return "".join(line + "\n" for line in lines).encode()


def _rounded(value):
    """Round the numbers in `value` to `_DIGITS` digits and drop texts and nested values, which are no measurements."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items() if not isinstance(item, (str, dict))}
    if isinstance(value, list):
        return [_rounded(item) for item in value if not isinstance(item, (str, list, dict))]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def _write_epochs(draft: Run, run: Run, epochs: list[int]) -> None:
    """Write snapshots and points of as many epochs as fit, with the first and last, and copy other stored maps."""
    first, last = (read_snapshot(run.snapshots, epoch) for epoch in (epochs[0], epochs[-1]))
    rows = sample_rows(len(last.features))
    plane = _plane(first, last)
    before = folder_bytes(draft.folder)
    _write_epoch(draft, epochs[0], first, rows, plane)
    epoch_bytes = folder_bytes(draft.folder) - before
    _write_epoch(draft, epochs[-1], last, rows, plane, with_features=True)
    feature_epochs = spread_epochs(epochs, int((SIZE - folder_bytes(draft.folder)) / (1.2 * epoch_bytes)))
    for epoch in feature_epochs[1:-1]:
        _write_epoch(draft, epoch, read_snapshot(run.snapshots, epoch), rows, plane)
    _copy_maps(draft, run, feature_epochs)


def sample_rows(count: int) -> np.ndarray:
    """Return at most `SAMPLE` of `count` rows, ascending, the same every time."""
    return np.sort(np.random.default_rng(_SEED).permutation(count)[:SAMPLE])


def _plane(first: Snapshot, last: Snapshot) -> projection.Plane:
    """Return the principal plane of the last epoch, aligned with that of the first."""
    features = last.features.astype(np.float32)
    plane = projection.fit_plane(features)
    if not np.array_equal(first.feature_index, last.feature_index):
        return plane
    early_features = first.features.astype(np.float32)
    return projection.align_plane(
        plane, plane.project(features), projection.fit_plane(early_features).project(early_features)
    )


def _write_epoch(
    draft: Run, epoch: int, snapshot: Snapshot, rows: np.ndarray, plane: projection.Plane, with_features: bool = False
) -> None:
    rows = rows[rows < len(snapshot.features)]
    index, features = snapshot.feature_index[rows], snapshot.features[rows]
    points = plane.project(features.astype(np.float32))
    feature_rows = rows if with_features else rows[:0]
    thinned = replace(
        snapshot, features=snapshot.features[feature_rows], feature_index=snapshot.feature_index[feature_rows]
    )
    write_snapshot(draft.snapshots, epoch, thinned)
    _write_map(draft, "pca", epoch, points, index)


def _copy_maps(draft: Run, run: Run, epochs: Iterable[int]) -> None:
    for method in set(projection.METHODS) - {"pca"}:
        for epoch in epochs:
            stored_map = projection.read_map(run, method, epoch)
            if stored_map is not None:
                _write_map(draft, method, epoch, stored_map.points, stored_map.index)


def _write_map(draft: Run, method: str, epoch: int, points: np.ndarray, index: np.ndarray) -> None:
    path = draft.projections / f"{method}-epoch-{epoch:04d}.npz"
    write_arrays(path, points=points.astype(np.float16), index=index.astype(np.int32))
