"""Create, list, find, delete and restore run folders."""

import hashlib
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from lps.errors import UserError, shorten, shown
from lps.files import disk
from lps.files.atomic import as_user_error, clean_line, disk_error_in_words, write_whole
from lps.files.atomic_folder import abandoned_drafts
from lps.files.folder_cache import FolderCache
from lps.files.locks import folder_lock, try_lock
from lps.settings.config import Config
from lps.store.runs import RUN_ID, Run, write_meta

RECORDED = Path(__file__).resolve().parent.parent / "recorded"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
# A deleted run can be restored for this long; `DeletedRun.time_left` ("… days left") and docs/formats.md say so.
TRASH_DAYS = 7
_ENTRY = re.compile(r"(.+)\.[0-9a-f]{8}")  # id of the run, then letters that tell two deletions of one id apart
INCOMING_S = 3600  # a half-made folder older than this is abandoned


def create_run(
    root: Path,
    config: Config,
    name: str = "",
    token: str | None = None,
    copy_files: Callable[[Path], None] | None = None,
) -> Run:
    """Create a run folder with `config.json` and `meta.json`; it is complete when it becomes visible. Starts nothing.

    token: a form's one-time key, which makes the call idempotent: the same token and settings give the same folder, for
    any number of servers and threads. copy_files: copies the files that the run inherits into its folder; by default
    they come from a run in `root` that has them (`inherited_files.copy_inherited`). Raises `UserError` if `root` is not
    writable.
    """
    if copy_files is None and (config.split_confirmed or config.network_continues):
        from lps.store import inherited_files  # arrays, which a runner does without

        copy_files = inherited_files.copy_inherited(config, list_runs(root))
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        tail = _tail(f"{token}\n{config.to_json()}" if token else secrets.token_hex())
        with folder_lock(root):
            for path in (root / ".incoming").glob("*"):  # left by processes that were killed while creating a run
                if RUN_ID.fullmatch(path.stem):
                    disk.remove_folder(path)
            listed = list_runs(root) if token else []
            existing = [run for run in listed if run.id.endswith(f"-s{config.seed}-{tail}")]
            return existing[0] if existing else _make_folder(root, config, name, tail, copy_files)
    except OSError as error:
        message = (
            blocked_by(root) or f"{shorten(str(root))} cannot be used for a new run ({disk_error_in_words(error)})"
        )
        raise UserError("runs", message) from None


def _make_folder(root: Path, config: Config, name: str, tail: str, copy_files: Callable[[Path], None] | None) -> Run:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    run = Run(root / f"{stamp}-{config.dataset}-{config.method}-s{config.seed}-{tail}")
    draft = root / ".incoming" / f"{run.id}.{secrets.token_hex(4)}"
    tags = ["oracle"] if config.uses_hidden_labels else []
    disk.make_folder(draft.parent)
    try:
        disk.make_folder(draft)
        os.close(disk.create(draft / "lock"))
        write_meta(draft, {"name": clean_line(name), "notes": "", "tags": tags, "rev": 1})
        write_whole(draft / "config.json", config.to_json().encode())
        if copy_files:
            copy_files(draft)
        disk.rename(draft, run.folder)
    except BaseException:
        disk.remove_folder(draft)
        raise
    disk.sync_folder(root)
    return run


def _tail(text: str) -> str:
    """Return six letters and digits that are derived from `text`."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return "".join(_LETTERS[number // len(_LETTERS) ** digit % len(_LETTERS)] for digit in range(6))


def list_runs(root: Path) -> list[Run]:
    """Return every folder under `root` that may be a run, newest first, foreign ones last; no hidden folders, no links.

    Returns no runs if `root` does not exist yet; raises `UserError` if it cannot be read.
    """
    return list(_lists.value(str(root), lambda stamp: _list_anew(root)))


_lists: FolderCache[list[Run]] = FolderCache()


def _list_anew(root: Path) -> list[Run]:
    names = sorted((name for name in subfolders(root) if not name.startswith(".")), reverse=True)
    names.sort(key=lambda name: RUN_ID.fullmatch(name) is None)
    return [_run_at(root, name) for name in names]


@lru_cache(maxsize=65_536)
def _run_at(root: Path, name: str) -> Run:
    """Return the same object for the same folder: of thousands of runs, making their paths is most of listing them."""
    return Run(root / name)


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in `folder`, without links; none if it does not exist yet. Raises `UserError`."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        message = blocked_by(folder)
        if isinstance(error, FileNotFoundError) and not message:
            return []
        message = message or f"{shorten(str(folder), 200)} cannot be read ({disk_error_in_words(error)})"
        raise UserError("runs", message) from None


def blocked_by(folder: Path) -> str:
    """Describe what blocks the path of a folder or of its parents: a file or a broken link; "" for nothing."""
    folder = folder.absolute()
    obstacle = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if os.path.isdir(obstacle):
        return ""
    kind = "a file, where a folder should be" if os.path.exists(obstacle) else "a broken link"
    return f"{shorten(str(obstacle), 200)} is {kind}"


def recorded_runs() -> list[Run]:
    """Return the recordings that come with the program, by the time at which their runs were made, then by name."""
    recordings = [run for run in list_runs(RECORDED) if run.is_recorded]
    return sorted(recordings, key=lambda run: (run.id[:15], run.title))


def find_run(root: Path, text: str, by_path: bool = True) -> Run:
    """Return the run called `text`: its id, the end of its id, or the path of its folder; raises `UserError`.

    Recordings are searched if no run in `root` matches. by_path: False for text from the network, which may only select
    among listed runs.
    """
    if by_path and "/" in text and RUN_ID.fullmatch(Path(text).name) and os.path.isdir(text):
        return Run(Path(text))
    runs = list_runs(root)
    matches = _with_id(text, runs) or _with_id(text, recorded_runs())
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(
            "run", f"{shorten(text)} matches {len(matches)} runs: {', '.join(run.id for run in matches[:5])}"
        )
    examples = ", ".join(run.id for run in runs[:3]) or "no runs yet"
    raise UserError("run", f"{shorten(text)} is not in {shown(root)}; newest runs: {examples}")


def _with_id(text: str, items: list) -> list:
    """Return the runs (or deleted runs) with the id `text`, else those whose id ends with it."""
    exact = [item for item in items if item.id == text]
    return exact or [item for item in items if len(text) >= 3 and item.id.endswith(text)]


def delete_run(run: Run) -> None:
    """Move a run to `.trash/` by one rename; raises `UserError` if it is active or a recording."""
    run.check_writable()
    state = run.state()
    with as_user_error("run", f"{run.id} cannot be deleted"):
        descriptor = None if state.is_alive else try_lock(run.lock)
        if descriptor is None:
            exists = run.folder.is_dir()
            problem = f"{run.state().name}; stop it before you delete it" if exists else "already deleted"
            raise UserError("run", f"{run.id} is {problem}")
        try:
            trash = run.root / ".trash"
            disk.make_folder(trash)
            disk.rename(run.folder, trash / f"{run.id}.{secrets.token_hex(4)}")
            disk.sync_folder(run.root)
        finally:
            os.close(descriptor)
    _purge(trash.glob("*"), TRASH_DAYS * 86_400)
    # A locked draft stays, even if the clock is wrong
    _purge(abandoned_drafts(run.root / ".incoming", "*"), INCOMING_S)


def _purge(paths: Iterable[Path], age_s: float) -> None:
    """Remove the folders that were moved here more than `age_s` seconds ago (a rename sets the change time)."""
    for path in paths:
        if time.time() - path.lstat().st_ctime > age_s:
            shutil.rmtree(path, ignore_errors=True)


# ---------------------------------------------------------------------------------------------------- the trash


@dataclass(frozen=True)
class DeletedRun:
    """A run in the trash. deleted_at: unix seconds."""

    folder: Path
    id: str
    deleted_at: float

    @property
    def name(self) -> str:
        """Return the name that a user gave the run; "" without one."""
        return Run(self.folder).meta()["name"]

    def days_left(self, now: float) -> float:
        """Return the days until the next deletion may remove the run for good."""
        return max(0.0, TRASH_DAYS - (now - self.deleted_at) / 86_400)

    def time_left(self, now: float) -> str:
        """Return the days left in words."""
        days = self.days_left(now)
        return f"{math.ceil(days)} days left" if days > 1 else "less than a day left"


def deleted_runs(root: Path) -> list[DeletedRun]:
    """Return all runs in the trash, newest deletion first."""
    deletions = []
    try:
        with os.scandir(root / ".trash") as entries:
            for entry in entries:
                match = _ENTRY.fullmatch(entry.name)
                if match and entry.is_dir(follow_symlinks=False):
                    # the rename into the trash set the change time of the folder
                    deletions.append(DeletedRun(Path(entry.path), match[1], entry.stat(follow_symlinks=False).st_ctime))
    except OSError:
        return []
    return sorted(deletions, key=lambda item: (item.deleted_at, item.id), reverse=True)


def restore_run(root: Path, text: str) -> Run:
    """Move the run called `text` (its id or the end of it) from the trash back, by one rename.

    If an id was deleted twice, the newest deletion is restored. Raises `UserError` if the trash has no such run or more
    than one, or if a run with this id exists again. A run that waited in the queue waits there again.
    """
    subfolders(root)  # raises if it cannot be read
    deletions = deleted_runs(root)
    named = _with_id(text, deletions)
    ids = list(dict.fromkeys(item.id for item in named))
    if not ids:
        examples = ", ".join(item.id for item in deletions[:3]) or "nothing"
        raise UserError("run", f"{shorten(text)} is not in the trash of {root}; it has {examples}")
    if len(ids) > 1:
        raise UserError("run", f"{shorten(text)} matches {len(ids)} deleted runs: {', '.join(ids[:5])}")
    run = Run(root / ids[0])
    if os.path.lexists(run.folder):
        raise UserError("run", f"{run.id} is already here; the deleted run stays in the trash")
    with as_user_error("run", f"{run.id} cannot be restored"):
        named[0].folder.rename(run.folder)
        disk.sync_folder(root)
    return run
