"""What was deleted and can still be had back. Standard library only.

`lps.runs.delete_run` moves runs to `.trash/`, and with every deletion removes for good what has been there for a week.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lps.files import sync_folder
from lps.parameters import ConfigError, shorten
from lps.runs import TRASH_S, Run, subfolders

ENTRY = re.compile(r"(.+)\.[0-9a-f]{8}")  # id of the run, then letters that tell two deletions of one id apart


@dataclass(frozen=True)
class Deleted:
    """A run in the trash. deleted: unix seconds."""

    folder: Path
    id: str
    deleted: float

    @property
    def name(self) -> str:
        """What people called the run; "" where nobody gave it a name."""
        return Run(self.folder).meta()["name"]

    def days_left(self, now: float) -> float:
        """Days until the next deletion may remove it for good."""
        return max(0.0, (self.deleted + TRASH_S - now) / 86_400)


def deleted_runs(root: Path) -> list[Deleted]:
    """Everything in the trash, the newest deletion first."""
    found = []
    try:
        with os.scandir(root / ".trash") as entries:
            for entry in entries:
                fits = ENTRY.fullmatch(entry.name)
                if fits and entry.is_dir(follow_symlinks=False):
                    # the rename into the trash set the change time of the folder
                    found.append(Deleted(Path(entry.path), fits[1], entry.stat(follow_symlinks=False).st_ctime))
    except OSError:
        return []
    return sorted(found, key=lambda item: (item.deleted, item.id), reverse=True)


def restore_run(root: Path, text: str) -> Run:
    """Move the run called `text` (its id or the end of it) from the trash to where it was, by one rename.

    The newest deletion counts where an id was deleted twice. Raises `ConfigError` where the trash has no such run or
    more than one, or where there is a run of this id again. A run that waited in the queue waits there again.
    """
    subfolders(root)  # raises where it cannot be read
    found = deleted_runs(root)
    named = [item for item in found if item.id == text]
    named = named or [item for item in found if len(text) >= 3 and item.id.endswith(text)]
    ids = list(dict.fromkeys(item.id for item in named))
    if not ids:
        some = ", ".join(item.id for item in found[:3]) or "nothing"
        raise ConfigError("run", f"{shorten(text)} is not in the trash of {root}; it has {some}")
    if len(ids) > 1:
        raise ConfigError("run", f"{shorten(text)} fits {len(ids)} deleted runs: {', '.join(ids[:5])}")
    run = Run(root / ids[0])
    if os.path.lexists(run.folder):
        raise ConfigError("run", f"{run.id} is there already; the deleted one stays in the trash")
    try:
        named[0].folder.rename(run.folder)
        sync_folder(root)
    except OSError as error:
        raise ConfigError("run", f"{run.id} cannot be restored ({error.strerror})") from None
    return run
