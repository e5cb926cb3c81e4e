"""The folder of the runs: its disk, locks, leftovers, and the runs in it."""

import contextlib
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from lps.doctor.finding import (
    ASIDE,
    EARLIEST,
    FUTURE_S,
    INODES,
    NETWORK,
    NOTE,
    OK,
    OWN_FOLDER,
    PROBLEM,
    SHOWN,
    SPACE,
    Finding,
    Machine,
    amount,
)
from lps.errors import Refusal
from lps.exchange import own_pictures
from lps.files.drafts import abandoned
from lps.files.locks import boot_id, is_held
from lps.settings import catalog
from lps.store.run_folders import INCOMING_S, list_runs, obstacle
from lps.store.runs import Run
from lps.wording import counted, data_size

# ---------------------------------------------------------------------------------------------------- folder of runs


def folder(machine: Machine) -> Iterator[Finding]:
    """Whose the folder of the runs is, who can read it, and whether it can hold locked, whole files."""
    root = machine.runs
    if said := obstacle(root):
        yield Finding(PROBLEM, "runs", said, OWN_FOLDER)
        return
    if not root.exists():
        parent = next(p for p in root.absolute().parents if p.exists())
        can = os.access(parent, os.W_OK | os.X_OK)
        says = f"{root} is not there yet" + (
            "; the first run makes it" if can else f" and {parent} cannot be written to"
        )
        yield Finding(OK if can else PROBLEM, "runs", says, "" if can else "Set LPS_RUNS to a folder of your own.")
        return
    about = root.stat()
    if about.st_uid != os.geteuid():
        mend = "Set LPS_RUNS to a folder of your own, or have its owner start the runs."
        yield Finding(PROBLEM, "runs", f"{root} belongs to another user (id {about.st_uid})", mend)
    if about.st_mode & 0o077:
        says = f"{root} can be read by others on this machine (mode {stat.S_IMODE(about.st_mode):04o})"
        yield Finding(NOTE, "runs", says, f"chmod 700 {root}")
    reason = _probe(root)
    if reason:
        mend = "Mount it writable, mend its owner and mode, or set LPS_RUNS to another folder."
        yield Finding(PROBLEM, "runs", f"{root} {reason}", mend)
    else:
        yield Finding(OK, "runs", f"{root} can be written to, {len(_runs(machine))} folders")


def _runs(machine: Machine) -> list[Run]:
    """The runs; none where the folder cannot be read, which `folder` says."""
    try:
        return list_runs(machine.runs)
    except Refusal:
        return []


def _probe(root: Path) -> str:
    """Try what runs do to their files: make, lock, sync, rename, remove. The reason where that fails, else ""."""
    path = root / f".doctor-{secrets.token_hex(4)}.tmp"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return f"cannot be written to ({error.strerror})"
    try:
        os.write(descriptor, b"x" * 4096)
        os.fsync(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.replace(path, path.with_suffix(".new"))
        return ""
    except OSError as error:
        return f"does not take a locked, whole file ({error.strerror})"
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        path.with_suffix(".new").unlink(missing_ok=True)


def disk(machine: Machine) -> Iterator[Finding]:
    """Space and file entries where the runs are."""
    place = next(p for p in [machine.runs.absolute(), *machine.runs.absolute().parents] if p.exists())
    free, inodes = machine.usage(place)
    trash = machine.runs / ".trash"
    more = f" ({trash} can go)" if trash.is_dir() and any(trash.iterdir()) else ""
    yield amount("disk", free, SPACE, f"free for {place}", f"Delete runs, or files of others{more}.")
    if inodes is not None and inodes < INODES:
        says = f"only {inodes} more files can be made in {place}"
        yield Finding(PROBLEM, "disk", says, f"Delete folders with many small files{more}.")


def file_system(machine: Machine) -> Iterator[Finding]:
    """Whether the runs are on a network file system, whose locks other machines may not see."""
    kind = mounted(machine.read("mounts"), machine.runs.resolve())
    if kind in NETWORK or kind.startswith("fuse.ssh"):
        mend = "Fine for one machine at a time; for training, a local disk (LPS_RUNS) is faster and its locks are sure."
        yield Finding(NOTE, "file system", f"{machine.runs} is on a network file system ({kind})", mend)
    else:
        yield Finding(OK, "file system", kind or "unknown")


def mounted(mounts: str, path: Path) -> str:
    """The kind of file system that `path` is on, by the lines of /proc/mounts; "" where none fits."""
    best, kind = "", ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[1])
        if (str(path) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, words[2]
    return kind


# ---------------------------------------------------------------------------------------------------- locks, processes


def locks(machine: Machine) -> Iterator[Finding]:
    """Slots and who holds them; a lock that no run of ours explains is stuck."""
    runs = _runs(machine)
    alive = [run for run in runs if is_held(run.lock)]
    owners = {slot: run for run in alive for slot in str(run.read_json("process.json").get("slot", "")).split(",")}
    held = [path for path in sorted((machine.runs / ".slots").glob("*.lock")) if is_held(path)]
    stuck = 0
    for path in held:
        if path.stem in owners:
            yield Finding(OK, path.stem, f"used by {owners[path.stem].id}")
            continue
        stuck += 1
        pids = _holders(machine, path)
        who = f"process {', '.join(map(str, pids))}" if pids else "a process that cannot be seen"
        mend = (
            f"kill {' '.join(map(str, pids))}"
            if pids
            else "Ask the other users of this folder, or restart the machine."
        )
        yield Finding(PROBLEM, path.stem, f"is held by {who}, which belongs to no run in {machine.runs}", mend)
    waiting = [run for run in runs if run.state().name == "queued" and run.waiting_attempt()]
    if not stuck:
        yield Finding(OK, "locks", f"{counted(len(alive), 'run')} going, {len(waiting)} waiting")


def _holders(machine: Machine, path: Path) -> list[int]:
    """The processes of this user that have the file open."""
    wanted, found = path.stat(), []
    for entry in machine.proc.glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for link in entry.iterdir():
                with contextlib.suppress(OSError):
                    there = link.stat()
                    if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
                        found.append(int(entry.parent.name))
                        break
    return sorted(found)


def leftovers(machine: Machine) -> Iterator[Finding]:
    """Processes of runs that are over, folders and files that were never finished."""
    orphans = orphaned(machine)
    for pid, run in orphans:
        mend = f"kill {pid} (the next run that starts does it too)"
        yield Finding(PROBLEM, "processes", f"process {pid} belongs to {run.id}, which is over", mend)
    unfinished = [path for path in (machine.runs / ".incoming").glob("*") if _age(machine, path) > INCOMING_S]
    places = (machine.runs / ".incoming", machine.runs / ".models", own_pictures.home(), own_pictures.home_of_new())
    drafts = list(dict.fromkeys([*unfinished, *(path for place in places for path in abandoned(place))]))
    if drafts:
        size = data_size(sum(path.lstat().st_size for draft in drafts for path in (draft, *draft.rglob("*"))))
        says = f"{counted(len(drafts), 'unfinished folder')} of killed processes ({size}), such as {drafts[0]}"
        mend = f"The next upload, import or export there removes them; rm -r {drafts[0]} does it at once."
        yield Finding(NOTE, "leftovers", says, mend)
    torn = [path for path in machine.runs.glob("*/**/.*.tmp") if _age(machine, path) > INCOMING_S]
    if torn:
        says = f"{len(torn)} unfinished files of writers that were killed, such as {torn[0]}"
        yield Finding(NOTE, "leftovers", says, "Resume the run, which removes them, or rm them.")
    aside = [path for pattern in ASIDE for path in machine.runs.glob(pattern)]
    if aside:
        size = sum(path.lstat().st_size for path in aside)
        count = f"{counted(len(aside), 'damaged file')} {'was' if len(aside) == 1 else 'were'}"
        says = f"{count} set aside ({data_size(size)}): {aside[0]}{', ...' * (len(aside) > 1)}"
        mend = "Nothing needs it any more: rm it once you have looked. If it comes again, look at the disk (smartctl)."
        yield Finding(NOTE, "leftovers", says, mend)
    if not (orphans or drafts or torn or aside):
        yield Finding(OK, "leftovers", "none")


def _age(machine: Machine, path: Path) -> float:
    try:
        return machine.now() - path.lstat().st_ctime
    except OSError:
        return 0.0


def orphaned(machine: Machine) -> list[tuple[int, Run]]:
    """Processes that say (LPS_RUN) which run in the folder they belong to, while its lock is free."""
    found, root = [], machine.runs.resolve()
    for entry in machine.proc.glob("[0-9]*"):
        try:
            items = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for item in items:
            if item.startswith(b"LPS_RUN=") and int(entry.name) != os.getpid():
                run = Run(Path(os.fsdecode(item.removeprefix(b"LPS_RUN="))))
                if run.root == root and run.folder.is_dir() and not is_held(run.lock):
                    found.append((int(entry.name), run))
    return sorted(found, key=lambda pair: pair[0])


def runs(machine: Machine) -> Iterator[Finding]:
    """How the runs stand that are not well."""
    states: dict[str, list[Run]] = {}
    damaged = []
    for run in _runs(machine):
        state = run.state().name
        states.setdefault(state, []).append(run)
        damaged += [(run, words) for words in run.damages() if state != "unreadable"]
    for name, mend in (
        ("unreadable", "python -m lps show RUN says why; folders that are no runs belong elsewhere."),
        ("crashed", "python -m lps resume RUN goes on from the last checkpoint."),
    ):
        if name in states:
            some = ", ".join(run.id for run in states[name][:3])
            yield Finding(NOTE, "runs", f"{len(states[name])} {name}: {some}", mend)
    for run, words in damaged[:SHOWN]:
        mend = f"python -m lps rename {run.id} NAME writes a sound one and keeps this one beside it."
        if words.startswith("want.json"):
            mend = f"python -m lps resume {run.id} (or stop) writes a sound one and keeps this one beside it."
        if "newer" in words:
            mend = "Use the LPS Studio that wrote it; this one leaves it alone."
        yield Finding(NOTE, "runs", f"{run.id}: {words}", mend)
    if len(damaged) > SHOWN:
        yield Finding(NOTE, "runs", f"{len(damaged) - SHOWN} more files like that", "python -m lps list names them.")


# ---------------------------------------------------------------------------------------------------- around


def data(machine: Machine) -> Iterator[Finding]:
    """Which data sets are on this machine."""
    here, absent = [], []
    for name in catalog.dataset_names():
        about = catalog.dataset_info(name)
        if about.path and not hasattr(_dataset(name), "fetch"):
            continue  # a folder or file that every run names for itself
        stamp = getattr(_dataset(name), "stamp", None)
        (here if stamp is None or stamp(None) else absent).append(name)
    yield Finding(OK, "data sets", f"here: {', '.join(here)}")
    if absent:
        mend = f"python -m lps datasets --fetch {absent[0]} (a download), if you want it."
        yield Finding(NOTE, "data sets", f"not here: {', '.join(absent)}", mend)


def _dataset(name: str):
    return import_module(f"lps.datasets.{name}")


def clock(machine: Machine) -> Iterator[Finding]:
    """Whether the clock is plausible: ids and the order of runs come from it."""
    now = machine.now()
    newest = max((_changed(run) for run in _runs(machine)[:50]), default=0.0)
    mend = "Set the clock (timedatectl set-ntp true); durations are right anyway."
    if now < EARLIEST:
        yield Finding(PROBLEM, "clock", f"{time.strftime('%Y-%m-%d', time.gmtime(now))} is in the past", mend)
    elif newest > now + FUTURE_S:
        yield Finding(NOTE, "clock", f"a run was changed {(newest - now) / 60:.0f} minutes in the future", mend)
    else:
        told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
        yield Finding(OK, "clock", f"{told}{'' if boot_id() else '; the system does not tell when it was started'}")


def _changed(run: Run) -> float:
    with contextlib.suppress(OSError):
        return run.folder.stat().st_mtime
    return 0.0
