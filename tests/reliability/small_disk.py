"""Trainings on a disk that is too small by more and more: a tmpfs of some megabytes, mounted in a namespace of its own.

python -m tests.reliability.small_disk FOLDER [N]    FOLDER is on that disk; prints one JSON line of what is wrong;
                                                     N: one level in so many, others every day
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.shares import OFFSET, share

ROOT = Path(__file__).resolve().parents[2]
SIZE = 40 << 20  # bytes of the disk
NAMES = 400  # files and folders that it can have
LEVELS = (0, 1 << 14, 1 << 17, 1 << 20, 3 << 20, 4 << 20)  # bytes that are left
NAME_LEVELS = (0, 3, 12)  # names that are left
FILL = "filling"


def enter(folder: Path, module: str, *arguments: str) -> list[str]:
    """The command that mounts such a disk at `folder`, for itself alone, and carries out a module of these tests."""
    mount = f'mount -t tmpfs -o size={SIZE},nr_inodes={NAMES} tmpfs "$0" && cd "$1" && shift && exec "$@"'
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    command = [sys.executable, "-m", f"tests.reliability.{module}", str(folder), *arguments]
    return [*own, "sh", "-c", mount, str(folder), str(ROOT), *command]


def reason_against(folder: Path) -> str:
    """Why no disk can be mounted here; "" where one can."""
    command = enter(folder, "small_disk")[:-4] + ["true"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except OSError as error:
        return str(error)
    return tried.stderr.strip() if tried.returncode else ""


def fill_bytes(folder: Path, left: int) -> None:
    """Take all space but `left` bytes."""
    with open(folder / FILL, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\1" * 4096)
    size = (folder / FILL).stat().st_size
    os.truncate(folder / FILL, max(0, size - left))


def fill_names(folder: Path, left: int) -> None:
    """Take all names but `left`."""
    (folder / "names").mkdir()
    count = 0
    with contextlib.suppress(OSError):
        while True:
            (folder / "names" / str(count)).touch()
            count += 1
    for number in range(count - left, count):
        (folder / "names" / str(number)).unlink(missing_ok=True)


def make_room(folder: Path) -> None:
    (folder / FILL).unlink(missing_ok=True)
    if (folder / "names").exists():
        for path in (folder / "names").iterdir():
            path.unlink()
        (folder / "names").rmdir()


def main(folder: Path, of: int = 1) -> int:
    from tests.reliability import trials

    with tempfile.TemporaryDirectory() as notes:
        workshop = trials.Workshop(folder, Path(notes))
        for path in folder.glob("trial-*"):
            shutil.rmtree(path)
        print(json.dumps(_fill_and_resume(workshop, folder, of)))
    return 0


def _fill_and_resume(workshop, folder: Path, of: int) -> dict:
    """Trials, how many of them ended for want of space, and what is wrong."""
    from tests.reliability import trials

    wrong, refused = [], 0
    tried = [(fill_bytes, level) for level in share(LEVELS, OFFSET, of)]
    tried += [(fill_names, level) for level in share(NAME_LEVELS, OFFSET, of)]
    for fill, level in tried:
        trial = workshop.trial()
        fill(folder, level)
        trial.carry_out("full from")
        refused += trial.last.code == 1
        found = trials.judge_broken(trial, "full from")
        make_room(folder)
        if trial.last.code != 0:
            trial.carry_out()
        found += trials.judge_resumed(trial, workshop.reference, 0)
        wrong += [f"{level} left by {fill.__name__}: {text}" for text in found]
        trials.remove(trial)
    return {"trials": len(tried), "refused": refused, "wrong": wrong}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
