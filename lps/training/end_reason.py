"""Explain why a training ended, as a kind and one sentence; remedies for each kind: `lps.scheduler.failures`."""

import errno
from pathlib import Path

import torch

from lps.errors import UserError
from lps.files import disk
from lps.files.atomic import disk_error_in_words
from lps.store.runs import Run

# System errors that the disk or another process causes.
_DISK_ERRORS = {
    getattr(errno, f"E{name}") for name in "IO ROFS STALE ACCES PERM NODEV NXIO NOENT NOTDIR ISDIR LOOP INVAL".split()
}
CHANGED = "its images or labels have changed since the run started; restore them and resume, or launch a copy"


class Diverged(Exception):
    """The loss is no longer a finite number."""


def explain_end(run: Run, error: Exception) -> tuple[str, str]:
    """Explain like `explain_failure`, but report a missing run folder first."""
    if not run.folder.is_dir():
        return "io_error", "the run's folder was deleted during the run"
    return explain_failure(error)


def explain_failure(error: Exception) -> tuple[str, str]:
    """Return (kind, one sentence) for an exception that ended a run."""
    first_line = str(error).partition("\n")[0] or "no message"
    if isinstance(error, UserError):
        return "data" if error.name in ("dataset", "dataset.path") else "config", str(error)
    if isinstance(error, Diverged):
        return "diverged", str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "out_of_memory", "the device ran out of memory; use a smaller batch_size"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        if isinstance(error, disk.TooSmall):
            subject = f"{Path(error.filename).name} ({error.in_words()})"
        else:
            subject = error.filename or "the run"
        return "disk_full", f"no space left for {subject}; free some space and resume"
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        return "io_error", f"{error.filename or 'a file of the run'}: {disk_error_in_words(error)}; fix it and resume"
    if isinstance(error, torch.AcceleratorError):
        return "device", f"the GPU failed: {first_line}"
    return "bug", f"{type(error).__name__}: {first_line}"
