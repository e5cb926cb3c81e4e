"""Check the runs folder: its disk, locks, leftovers, and the runs in it."""

import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from lps.doctor.diagnostic import NOTE, OK, PROBLEM, Machine, level_of
from lps.files import disk
from lps.files.atomic import write_whole
from lps.files.atomic_folder import abandoned_drafts
from lps.files.locks import boot_id, is_held, try_lock
from lps.interop import uploaded_folders
from lps.settings import catalog
from lps.store.run_folders import INCOMING_S, blocked_by
from lps.store.runs import Run
from lps.wording import counted, data_size

_SPACE = 1 << 30, 5 << 30  # bytes
_INODES = 1000
_NETWORK = set("nfs nfs4 cifs smb3 smbfs 9p afs lustre gpfs beegfs ceph glusterfs orangefs".split())
_EARLIEST = 1_750_000_000  # unix seconds: an earlier clock is wrong
_FUTURE_S = 300.0
_SHOWN = 5  # damaged files that are listed one by one
# Damaged files that were set aside (lps.training.checkpoints, lps.store.runs): of runs, and of unfinished weights.
_SET_ASIDE = "*/checkpoints/damaged-*.pt", "*/damaged-*.json", ".pretrained/*/damaged-*.pt"


def check_runs_folder(machine: Machine) -> Iterator[tuple]:
    """Check owner and permissions of the runs folder, and that it can hold locked and atomically written files."""
    root = machine.runs
    if obstacle := blocked_by(root):
        yield PROBLEM, obstacle
        return
    if not root.exists():
        parent = _existing(root)
        if os.access(parent, os.W_OK | os.X_OK):
            yield OK, f"{root} does not exist yet; the first run creates it"
        else:
            yield PROBLEM, f"{root} does not exist yet and {parent} cannot be written to"
        return
    root_stat = root.stat()
    if root_stat.st_uid != os.geteuid():
        remedy = "Set LPS_RUNS to a folder of your own, or ask the owner of this folder to start the runs."
        yield PROBLEM, f"{root} belongs to another user (id {root_stat.st_uid})", "runs", remedy
    if root_stat.st_mode & 0o077:
        message = f"{root} can be read by others on this machine (mode {stat.S_IMODE(root_stat.st_mode):04o})"
        yield NOTE, message, "runs", f"chmod 700 {root}"
    if reason := _probe(root):
        remedy = "Mount it writable, fix its owner and mode, or set LPS_RUNS to another folder."
        yield PROBLEM, f"{root} {reason}", "runs", remedy
    else:
        yield OK, f"{root} can be written to and has {counted(len(machine.listed), 'folder')}"


def _existing(folder: Path) -> Path:
    """Return the folder, or its innermost parent that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _probe(root: Path) -> str:
    """Create, lock and write a file as runs do; return the reason if that fails, else ""."""
    path = root / f".doctor-{secrets.token_hex(4)}"
    try:
        os.close(disk.create(path))
    except OSError as error:
        return f"cannot be written to ({error.strerror})"
    try:
        os.close(try_lock(path))
        write_whole(path, bytes(4096))
        return ""
    except OSError as error:
        return f"does not support locked files ({error.strerror})"
    finally:
        path.unlink(missing_ok=True)


def check_space(machine: Machine) -> Iterator[tuple]:
    """Check free space and file entries of the disk of the runs."""
    existing, trash = _existing(machine.runs), machine.runs / ".trash"
    free, inodes = machine.usage(existing)
    hint = f" ({trash} can be deleted)" if trash.is_dir() and any(trash.iterdir()) else ""
    message = f"{free / 2**30:.1f} GiB free in {existing}"
    yield level_of(free, _SPACE), message, "disk", f"Delete runs or other files{hint}."
    if inodes is not None and inodes < _INODES:
        remedy = f"Delete folders with many small files{hint}."
        yield PROBLEM, f"only {inodes} more files can be created in {existing}", "disk", remedy


def check_file_system(machine: Machine) -> Iterator[tuple]:
    """Check whether the runs are on a network file system, whose locks other machines may not see."""
    from lps.machine import system_queries

    kind = system_queries.file_system(machine.runs)
    if kind in _NETWORK or kind.startswith("fuse.ssh"):
        yield NOTE, f"{machine.runs} is on a network file system ({kind})"
    else:
        yield OK, kind or "unknown"


def check_locks(machine: Machine) -> Iterator[tuple]:
    """Check slots and their holders; a lock that no run of ours explains is stuck."""
    alive = [run for run in machine.listed if is_held(run.lock)]
    owners = {slot: run for run in alive for slot in str(run.read_json("process.json").get("slot", "")).split(",")}
    held_locks = [path for path in sorted((machine.runs / ".slots").glob("*.lock")) if is_held(path)]
    for path in held_locks:
        if path.stem in owners:
            yield OK, f"used by {owners[path.stem].id}", path.stem
            continue
        from lps.machine import system_queries

        pids = [str(pid) for pid in system_queries.processes_that_opened(path)]
        holder = f"process {', '.join(pids)}" if pids else "a process that cannot be seen"
        remedy = f"kill {' '.join(pids)}" if pids else "Ask the other users of this folder, or restart the machine."
        yield PROBLEM, f"is held by {holder}, which does not belong to a run in {machine.runs}", path.stem, remedy
    waiting_runs = [run for run in machine.listed if run.state().name == "queued" and run.waiting_attempt()]
    if all(path.stem in owners for path in held_locks):
        yield OK, f"{counted(len(alive), 'run')} running, {len(waiting_runs)} waiting"


def check_leftovers(machine: Machine) -> Iterator[tuple]:
    """Find processes of runs that are over, and folders and files that were never finished."""
    incoming = machine.runs / ".incoming"
    folders = (incoming, machine.runs / ".models", uploaded_folders.home_folder(), uploaded_folders.home_of_new())
    unfinished = [path for path in incoming.glob("*") if _age(machine, path) > INCOMING_S]
    drafts = list(dict.fromkeys([*unfinished, *(path for folder in folders for path in abandoned_drafts(folder))]))
    if drafts:
        size = _size(path for draft in drafts for path in (draft, *draft.rglob("*")))
        message = f"{counted(len(drafts), 'unfinished folder')} left by killed processes ({size}), such as {drafts[0]}"
        remedy = f"The next upload, import or export removes these folders; to remove this one now: rm -r {drafts[0]}"
        yield NOTE, message, "leftovers", remedy
    torn = [path for path in machine.runs.glob("*/**/.*.tmp") if _age(machine, path) > INCOMING_S]
    if torn:
        message = f"{counted(len(torn), 'unfinished file')} left by processes that were killed while writing: {torn[0]}"
        message += ", ..." * (len(torn) > 1)
        yield NOTE, message, "leftovers", "Resume the run to remove them, or delete them."
    set_aside = [path for pattern in _SET_ASIDE for path in machine.runs.glob(pattern)]
    if set_aside:
        count = f"{counted(len(set_aside), 'damaged file')} {'was' if len(set_aside) == 1 else 'were'}"
        yield NOTE, f"{count} set aside ({_size(set_aside)}): {set_aside[0]}{', ...' * (len(set_aside) > 1)}"
    for pid, run in orphaned_processes(machine):
        remedy = f"kill {pid} (or start the next run, which ends this process)"
        yield PROBLEM, f"process {pid} belongs to {run.id}, which has ended", "processes", remedy


def _size(paths: Iterable[Path]) -> str:
    return data_size(sum(path.lstat().st_size for path in paths))


def _age(machine: Machine, path: Path) -> float:
    try:
        return machine.now() - path.lstat().st_ctime
    except OSError:
        return 0.0


def orphaned_processes(machine: Machine) -> list[tuple[int, Run]]:
    """Return processes that name (LPS_RUN) a run in the folder, while its lock is free."""
    from lps.machine import system_queries

    claimed_runs = [(pid, Run(folder)) for pid, folder in system_queries.processes_of_runs() if pid != os.getpid()]
    root = machine.runs.resolve()
    return [
        (pid, run) for pid, run in claimed_runs if run.root == root and run.folder.is_dir() and not is_held(run.lock)
    ]


def check_runs(machine: Machine) -> Iterator[tuple]:
    """Find runs that are unreadable, crashed or have a damaged file."""
    states = {run: run.state().name for run in machine.listed}
    for name, remedy in (
        ("unreadable", "python -m lps show RUN shows the reason; move folders that are not runs elsewhere."),
        ("crashed", "python -m lps resume RUN continues from the last checkpoint."),
    ):
        if ids := [run.id for run in machine.listed if states[run] == name]:
            yield NOTE, f"{len(ids)} {name}: {', '.join(ids[:3])}", "runs", remedy
    damaged = [(run, message) for run in machine.listed if states[run] != "unreadable" for message in run.damages()]
    for run, message in damaged[:_SHOWN]:
        command = f"rename {run.id} NAME"
        if message.startswith("want.json"):
            command = f"resume {run.id} or python -m lps stop {run.id}"
        remedy = f"python -m lps {command} writes a new file and keeps the damaged one beside it."
        if "newer" in message:
            remedy = "Use the LPS Studio version that wrote it; this version does not change it."
        yield NOTE, f"{run.id}: {message}", "runs", remedy
    if len(damaged) > _SHOWN:
        more = counted(len(damaged) - _SHOWN, "more damaged file")
        yield NOTE, more, "runs", "To see their names, run python -m lps list."


def check_datasets(machine: Machine) -> Iterator[tuple]:
    """Report which data sets are on this machine."""
    available, absent = [], []
    for name in catalog.dataset_names():
        module = import_module(f"lps.datasets.{name}")
        if hasattr(module, "fetch") or not catalog.dataset_info(name).path:  # else every run names its own folder
            is_available = not hasattr(module, "stamp") or module.stamp(None)
            (available if is_available else absent).append(name)
    yield OK, f"available: {', '.join(available)}"
    if absent:
        remedy = f"python -m lps datasets --fetch {absent[0]} downloads it, if you need it."
        yield NOTE, f"not available: {', '.join(absent)}", "data sets", remedy


def check_clock(machine: Machine) -> Iterator[tuple]:
    """Check that the clock is plausible: ids and the order of runs depend on it."""
    now = machine.now()
    newest = max((run.folder.stat().st_mtime for run in machine.listed[:50] if run.folder.is_dir()), default=0.0)
    if now < _EARLIEST:
        yield PROBLEM, f"{time.strftime('%Y-%m-%d', time.gmtime(now))} is in the past"
    elif newest > now + _FUTURE_S:
        yield NOTE, f"the last change of a run is dated {(newest - now) / 60:.0f} minutes in the future"
    else:
        time_text = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
        yield OK, f"{time_text}{'' if boot_id() else '; the system does not report its start time'}"
