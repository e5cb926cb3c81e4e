"""Uploaded files: stored on the disk for a while, so that their content can be checked without holding it in memory."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from lps.errors import UserError, shorten
from lps.files.atomic import as_user_error
from lps.files.atomic_folder import draft_folder
from lps.interop.imports import RESERVE

LONGEST_NAME = 100
_STRANGE = re.compile(r"[^A-Za-z0-9._-]")


@contextmanager
def stored_upload(upload: BinaryIO, root: Path) -> Iterator[Path]:
    """Store the upload in a file beside the runs during the `with`; the file keeps the safe characters of its name."""
    name = _STRANGE.sub("_", Path(upload.name).name)[-LONGEST_NAME:].lstrip(".") or "archive"
    incoming = root / ".incoming"
    with ExitStack() as stack:
        with as_user_error("runs", f"{shorten(str(root))} cannot store another run"):
            incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = stack.enter_context(draft_folder(incoming, "upload"))
        if shutil.disk_usage(root).free < upload.seek(0, os.SEEK_END) + RESERVE:
            raise UserError("runs", f"{shorten(str(root))} has too little free space for {name}")
        upload.seek(0)
        private = partial(os.open, mode=0o600)
        with as_user_error("runs", f"{name} cannot be written"), open(folder / name, "xb", opener=private) as file:
            shutil.copyfileobj(upload, file)
        yield folder / name


def free_uploads(files: Iterable[UploadedFile]) -> None:
    """Free uploads, which Streamlit otherwise keeps in memory until the page is closed."""
    context = get_script_run_ctx()
    for file in files if context else ():
        context.uploaded_file_mgr.remove_file(context.session_id, file.file_id)
