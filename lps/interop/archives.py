"""A run as one .zip for another machine, and what of a run folder may travel at all.

`lps.interop.imports` takes only what `is_exported`: results and settings. What stays behind is what only means
something here (lock, stop and resume requests), can be made again (exported pictures), or could not be told from
anything else.
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
    """Whether `name`, relative to the run's folder and with slashes, is a file that may travel."""
    return NAMES.fullmatch(name) is not None


def pack_run(run: Run, into: Path, light: bool = False) -> Path:
    """Write `<id>.zip` into the folder `into`, whole or as it was; raises `UserError`.

    light: without checkpoints. A run that goes on is packed as far as it is.
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
    """Names of the files that may travel, relative to the run's folder."""
    for path in [*folder.glob("*"), *folder.glob("*/*")]:
        name = path.relative_to(folder).as_posix()
        if is_exported(name) and stat.S_ISREG(path.lstat().st_mode):
            yield name


def _add(archive: zipfile.ZipFile, run: Run, name: str) -> None:
    """One file; numbers in binary are compressed already or cannot be."""
    info = zipfile.ZipInfo(f"{run.id}/{name}")
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    info.compress_type = zipfile.ZIP_STORED if name.endswith((".npz", ".pt")) else zipfile.ZIP_DEFLATED
    try:
        source = open(run.folder / name, "rb")
    except FileNotFoundError:  # a checkpoint of a run that goes on, pruned meanwhile
        return
    with source, archive.open(info, "w", force_zip64=True) as target:
        while chunk := source.read(_CHUNK):
            target.write(chunk)
