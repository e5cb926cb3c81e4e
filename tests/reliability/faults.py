"""Faults of the disk at a chosen operation: the functions of `lps.files.disk` are replaced in this process.

kill         SIGKILL before the operation
half         half of it is done, then SIGKILL
full         the disk is full for this operation alone
full from    the disk is full from this operation on
io           an I/O error; what was not on the disk is lost, and asking again would say that all is well
power        power fails: bytes that were not waited for are gone
power names  power fails: so are new, renamed and removed names whose folder was not waited for
deleted      somebody deletes the run's folder
"""

import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lps.files import disk

OPERATIONS = "create open_end write truncate sync sync_folder rename link remove make_folder remove_folder".split()
NEEDS_SPACE = set(OPERATIONS) - {"truncate", "remove", "remove_folder"}
HALVES = {"write", "remove_folder"}  # the rest are done or not done
KINDS = ("kill", "half", "full", "full from", "io", "power", "power names", "deleted")


def unsynced(what) -> None:
    """In place of `sync` and `sync_folder`, for mutants: nothing is waited for."""


class FaultyDisk:
    """Counts operations from 1 on, and has a fault at the one called `at`. `seen`: their names, in order."""

    def __init__(self, kind: str = "", at: int = 0):
        assert kind in ("", *KINDS)
        self.kind, self.at, self.seen = kind, at, []
        self._unsynced: dict[tuple[int, int], tuple[int, int]] = {}  # inode -> open descriptor, bytes that are safe
        self._undo: list[tuple[Path, Callable[[], None]]] = []  # folder, and what takes a change of it back
        self._backups = 0

    def install(self, backups: Path, run: Path) -> None:
        """Replace the operations of this process. backups: an empty folder on the same file system as the run's."""
        self._folder, self._run = backups, run
        for name in OPERATIONS:
            setattr(disk, name, partial(self._carry_out, name, getattr(disk, name)))

    def _carry_out(self, name: str, real, *arguments):
        self.seen.append(name)
        number = len(self.seen)
        if number == self.at or (number > self.at > 0 and self.kind == "full from"):
            self._fail(name, real, *arguments)
        if self.kind in ("power", "power names", "io"):
            self._before(name, *arguments)
        result = real(*arguments)
        if name in ("sync", "sync_folder") and real is not unsynced:
            self._after_sync(name, *arguments)
        if name in ("create", "open_end"):
            self._know(result)
        return result

    def _fail(self, name: str, real, *arguments) -> None:
        """The fault; returns where this operation cannot have it."""
        if self.kind == "half":
            _half(name, real, *arguments)
        if self.kind in ("kill", "half"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind in ("power", "power names"):
            self._lose_power()
        if self.kind == "deleted":
            shutil.rmtree(self._run)
            return
        if name in NEEDS_SPACE:
            if name == "write":
                _half(name, real, *arguments)
            if self.kind == "io" and name == "sync":
                self._lose_bytes()
            number = errno.EIO if self.kind == "io" else errno.ENOSPC
            raise OSError(number, os.strerror(number))

    def _know(self, descriptor: int) -> None:
        about = os.fstat(descriptor)
        self._unsynced.setdefault((about.st_dev, about.st_ino), (os.dup(descriptor), about.st_size))

    def _before(self, name: str, *arguments) -> None:
        if name in ("create", "open_end", "link"):
            new = Path(arguments[1] if name == "link" else arguments[0])
            if not os.path.lexists(new):
                self._undo.append((new.parent, partial(os.unlink, new)))
        elif name == "make_folder" and not arguments[0].is_dir():
            self._undo.append((arguments[0].parent, partial(shutil.rmtree, arguments[0])))
        elif name == "remove" and os.path.lexists(arguments[0]):
            self._undo.append((arguments[0].parent, partial(os.link, self._backup(arguments[0]), arguments[0])))
        elif name == "rename":
            old, new = arguments
            backup = self._backup(new) if os.path.lexists(new) else None
            self._undo.append((new.parent, partial(_rename_back, old, new, backup)))

    def _backup(self, path: Path) -> Path:
        self._backups += 1
        os.link(path, self._folder / str(self._backups))
        return self._folder / str(self._backups)

    def _after_sync(self, name: str, what) -> None:
        if name == "sync_folder":
            self._undo = [(folder, undo) for folder, undo in self._undo if folder != Path(what)]
            return
        about = os.fstat(what)
        kept = self._unsynced.get((about.st_dev, about.st_ino))
        if kept:
            self._unsynced[about.st_dev, about.st_ino] = (kept[0], about.st_size)

    def _lose_bytes(self) -> None:
        for descriptor, safe in self._unsynced.values():
            if os.fstat(descriptor).st_size > safe:
                os.ftruncate(descriptor, safe)

    def _lose_power(self) -> None:
        self._lose_bytes()
        if self.kind == "power names":
            for _, undo in reversed(self._undo):
                with contextlib.suppress(FileNotFoundError):  # its folder was removed as a whole
                    undo()
        os.kill(os.getpid(), signal.SIGKILL)


def _half(name: str, real, *arguments) -> None:
    if name == "write":
        descriptor, data = arguments
        os.write(descriptor, data[: len(data) // 2])
    elif name == "remove_folder":
        for path in sorted(Path(arguments[0]).glob("*"))[:1]:
            path.unlink()
    else:
        real(*arguments)


def _rename_back(old: Path, new: Path, backup: Path | None) -> None:
    os.rename(new, old)
    if backup is not None:
        os.link(backup, new)
