"""Files that a run inherits from the run that it continues: confirmed labels and start weights.

    confirmed.npz              `lps.data.confirmed_labels.Confirmed`, named by the setting split.confirmed
    start.pt, start.json       a checkpoint of the run before, named by the setting network.continues

Written with the folder, before it is visible, and never changed: the run can be repeated from its folder alone.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from lps.data.confirmed_labels import DIGITS, SETTING, Confirmed
from lps.errors import UserError, shorten
from lps.files import disk
from lps.files.atomic import as_user_error, clean_line, write_checked
from lps.settings.config import Config
from lps.store.runs import RUN_ID, Run
from lps.store.snapshots import read_arrays, write_arrays
from lps.wording import counted, listed

LABELS, WEIGHTS = "confirmed.npz", "start"
CONTINUES = "network.continues"
FREE = "kept free for pictures of unknown kinds"  # what a class is that no cluster of the run before becomes
_REMEDY = "restore it from a copy of the run's folder, or create such a run again with python -m lps train-on"
_ARRAYS = "images given names rows parent epoch rule threshold pictures named decisions".split()
_LATER_ARRAYS = ("added_to_seen",)  # a file of an earlier version has none


def write_inherited(folder: Path, confirmed: Confirmed, weights: Path | None) -> None:
    """Put both files into the folder of a new run; weights: a checkpoint, to which a second name is given."""
    arrays = {name: np.array(getattr(confirmed, name)) for name in (*_ARRAYS, *_LATER_ARRAYS)}
    write_arrays(folder / LABELS, **arrays | {"names": np.array(confirmed.names, str)})  # texts also if there are none
    if weights is not None:
        with as_user_error(CONTINUES, f"the checkpoint {weights.name} of {weights.parent.parent.name} cannot be read"):
            _link_or_copy(weights, folder / f"{WEIGHTS}.pt")


def _link_or_copy(weights: Path, to: Path) -> None:
    try:
        disk.link(weights, to)
        disk.link(weights.with_suffix(".json"), to.with_suffix(".json"))
    except OSError:  # a file system without hard links, or another one
        disk.remove(to)
        write_checked(to, weights.read_bytes())


def read_confirmed(run: Run) -> Confirmed | None:
    """Return the labels that a user confirmed for a run; None without any. Raises `UserError` for a damaged file."""
    digest = run.config().split_confirmed
    return None if digest is None else _read_file(run.folder / LABELS, digest)


def _read_file(path: Path, digest: str) -> Confirmed:
    """Read the file and check its form and digest; raises `UserError`."""
    try:
        stored = read_arrays(path, _ARRAYS, optional=_LATER_ARRAYS)
    except UserError as error:
        raise UserError(LABELS, f"{str(error).removeprefix(f'{LABELS}: ')}; {_REMEDY}") from None
    images, classes, names = stored["images"].astype(np.int64), stored["given"].astype(np.int64), stored["names"]
    is_whole = len(images) == len(classes) and (np.diff(images) > 0).all() and (images >= 0).all()
    texts = {name: clean_line(str(stored[name])) for name in ("parent", "rule")}
    later = [name for name in _LATER_ARRAYS if name in stored]
    numbers = {name: int(stored[name]) for name in ("epoch", "pictures", "named", "decisions", *later)}
    confirmed = Confirmed(
        images, classes, tuple(map(str, names.tolist())), stored["rows"].astype(np.int64), **texts, **numbers,
        threshold=float(stored["threshold"]),
    )  # fmt: skip
    if not is_whole or confirmed.digest != digest:
        raise UserError(LABELS, f"is damaged (its labels do not match {SETTING}={shorten(digest)}); {_REMEDY}")
    return confirmed


def weights_name(record: dict) -> str:
    """Return the name that `network.continues` gives a checkpoint with this record; "" for a damaged record."""
    digest = record.get("sha256")
    return digest[:DIGITS] if isinstance(digest, str) else ""


def parent_of(run: Run) -> str:
    """Return the id of the run that this one continues; "" for none, and if that cannot be read."""
    origin = read_confirmed_or_none(run)
    return origin.parent if origin and RUN_ID.fullmatch(origin.parent) else ""


def run_family(run: str, parents: Mapping[str, str]) -> dict[str, str]:
    """Return every run id of the family of `run` -> the id of the run that it continues, "" for none; older runs first.

    parents: run -> the run that it continues, "" if that cannot be read.
    """
    children: dict[str, list[str]] = {}
    for run_id, parent in parents.items():
        children.setdefault(parent, []).append(run_id)
    oldest, passed = run, {run}
    while (parent := parents.get(oldest, "")) and parent not in passed:
        oldest = parent
        passed.add(oldest)
    parent_by_id, queue = {oldest: ""}, [oldest]
    for run_id in queue:
        new_children = [child for child in sorted(children.get(run_id, [])) if child not in parent_by_id]
        parent_by_id |= dict.fromkeys(new_children, run_id)
        queue += new_children
    return parent_by_id


def successors_of(run: str, parents: Mapping[str, str]) -> set[str]:
    """Return the ids of the runs that continue this one, directly or not. parents: as in `run_family`."""
    family = {run}
    for child in sorted(parents):  # ids begin with the time of creation
        if parents[child] in family:
            family.add(child)
    return family - {run}


def keeps_class_free(run: Run) -> bool:
    """Return whether the only novel class of the run continues no cluster of the run before."""
    origin = read_confirmed_or_none(run)
    return origin is not None and run.config().split_num_novel == 1 and bool((origin.rows[-1:] == -1).all())


def parent_in_words(run: Run) -> str:
    """Say which run this one continues: "continues q6hlr3 from its final weights, with 431 pictures labeled by ..."."""
    origin = read_confirmed_or_none(run)
    if origin is None:
        return ""
    by_name, added = origin.pictures - origin.added_to_seen, origin.added_to_seen
    labels = [f"{counted(by_name, 'picture')} labeled by {counted(origin.named, 'cluster name')}"] * (
        by_name > 0 or added <= 0
    )
    labels += [f"{counted(added, 'picture')} that you added to seen classes"] * (added > 0)
    weights = "final" if run.config().network_continues else "start"
    return f"continues {origin.parent[-6:]} from its {weights} weights, with {listed(labels)}"


def read_confirmed_or_none(run: Run) -> Confirmed | None:
    """Return the labels that a user confirmed for a run; None without any, and if they cannot be read."""
    try:
        return read_confirmed(run) if (run.folder / LABELS).exists() else None
    except UserError:
        return None


def copy_inherited(config: Config, runs: Iterable[Run]) -> Callable[[Path], None]:
    """Return a function that copies the files that `config` names into a new folder, from one of `runs` that has them.

    Raises `UserError` if no run has them.
    """
    labels = weights = None
    for run in runs:
        config_of_run = run.config_if_readable()
        if config_of_run and config.split_confirmed and config_of_run.split_confirmed == config.split_confirmed:
            labels = labels or read_confirmed_or_none(run)
        if config_of_run and config.network_continues and config_of_run.network_continues == config.network_continues:
            weights = weights or run.folder / f"{WEIGHTS}.pt"
    if config.split_confirmed and labels is None:
        raise UserError(
            SETTING,
            f"{config.split_confirmed} was not found in any run here; create such labels with python -m lps train-on",
        )
    if config.network_continues and weights is None:
        raise UserError(
            CONTINUES,
            f"{config.network_continues} was not found in any run here; create such start weights with "
            "python -m lps train-on",
        )
    return lambda folder: write_inherited(folder, labels, weights)
