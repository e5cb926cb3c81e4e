"""Pack a run as one .zip for another machine, and define which files of a run folder may travel.

`lps.interop.imports` accepts only files for which `is_exported` is true: results and settings. The rest stays behind:
lock, stop and resume requests mean something on this machine only, exported pictures can be made again, and unknown
files cannot be checked.
"""

import os
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from lps.errors import UserError, shorten
from lps.files import disk
from lps.files.atomic_folder import draft_folder
from lps.store.run_folders import blocked_by
from lps.store.runs import RUN_ID, Run

_TEXTS = "config meta process exit progress names".split()
NAMES = re.compile(
    rf"({'|'.join(_TEXTS)})\.json|events\.jsonl|log\.txt|split\.npz"
    r"|confirmed\.npz|start\.(pt|json)"
    r"|checkpoints/(step-[0-9]{8,12}|best)\.(pt|json)"
    r"|snapshots/epoch-[0-9]{1,9}\.npz"
    r"|projections/(pca|umap|tsne)-epoch-[0-9]{1,9}\.npz"
)
_CHUNK = 1 << 20


def is_exported(name: str) -> bool:
    """Return whether `name` (relative to the run's folder, with slashes) is a file that may travel."""
    return NAMES.fullmatch(name) is not None


def pack_run(run: Run, into: Path, light: bool = False) -> Path:
    """Write `<id>.zip` into the folder `into`, completely or not at all; raises `UserError`.

    light: leave out checkpoints and start weights. An active run is packed with the files it has now.
    """
    if not RUN_ID.fullmatch(run.id):
        raise UserError("run", f"{shorten(run.id)} is not the name of a run folder")
    run.config()
    path = into / f"{run.id}.zip"
    try:
        into.mkdir(parents=True, exist_ok=True)
        with draft_folder(into, run.id) as draft, open(draft / path.name, "xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name in sorted(_files(run.folder)):
                    if not (light and name.startswith(("checkpoints/", "start."))):
                        _add(archive, run, name)
            file.flush()
            os.fsync(file.fileno())
            os.replace(draft / path.name, path)
        disk.sync_folder(into)
    except OSError as error:
        message = blocked_by(into) or f"{shorten(str(path))} was not written ({error.strerror or error})"
        raise UserError("into", message) from None
    return path


def _files(folder: Path) -> Iterator[str]:
    """Yield the names of the files that may travel, relative to the run's folder."""
    for path in [*folder.glob("*"), *folder.glob("*/*")]:
        name = path.relative_to(folder).as_posix()
        if is_exported(name) and stat.S_ISREG(path.lstat().st_mode):
            yield name


def _add(archive: zipfile.ZipFile, run: Run, name: str) -> None:
    """Add one file to the archive; arrays and weights are stored as they are, since they hardly compress."""
    info = zipfile.ZipInfo(f"{run.id}/{name}")
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    info.compress_type = zipfile.ZIP_STORED if name.endswith((".npz", ".pt")) else zipfile.ZIP_DEFLATED
    try:
        source = open(run.folder / name, "rb")
    except FileNotFoundError:  # an active run has pruned this checkpoint meanwhile
        return
    with source, archive.open(info, "w", force_zip64=True) as target:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
