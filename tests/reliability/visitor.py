"""What a person may try in a folder of runs that cannot be written to: every command, with what it said.

python -m tests.reliability.visitor FOLDER read-only | foreign    prints one JSON line: {command: [exit code, stderr]}

"read-only": FOLDER is a disk that is mounted read-only once there are runs in it. "foreign": its runs belong to root,
and this process becomes somebody else.
"""

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from lps.__main__ import main as lps
from lps.settings.config import configure
from lps.store.run_folders import create_run, delete_run

NOBODY = 65534


def commands(root: Path, run: str) -> dict[str, list[str]]:
    here = ["--runs", str(root)]
    return {
        "list": ["list", *here],
        "show": ["show", *here, run],
        "rename": ["rename", *here, run, "another name"],
        "tag": ["tag", *here, run, "+mine"],
        "note": ["note", *here, run, "a note"],
        "stop": ["stop", *here, run],
        "delete": ["delete", *here, run],
        "launch": ["launch", *here],
        "queue": ["queue", *here],
    }


def carry_out(arguments: list[str]) -> tuple[int, str]:
    """Exit code and what was said on stderr; a traceback is what a bug would leave."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        try:
            code = lps(arguments)
        except SystemExit as end:
            code = end.code
        except Exception as error:
            return 70, f"Traceback: {error!r}"
    return code, errors.getvalue()


def digest(root: Path) -> str:
    """Of every name and byte below `root`."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        found.update(str(path).encode())
        if path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


def main(folder: Path, why: str) -> int:
    root = folder / "runs"
    run = create_run(root, configure({}))
    delete_run(create_run(root, configure({"seed": 1})))
    _import_all(folder)
    before = digest(root)
    if why == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        said = _try_all(root, run.id)
    else:
        for path in [folder, root, run.folder, *run.folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        with ProcessPoolExecutor(1, get_context("fork"), _become_nobody) as pool:
            said = pool.submit(_try_all, root, run.id).result()
    print(json.dumps({"said": said, "changed": digest(root) != before}))
    return 0


def _import_all(folder: Path) -> None:
    """What the commands import shall be there: Python itself may be out of sight for somebody else."""
    (folder / "elsewhere").mkdir()
    (folder / "no folder").touch()
    for name, arguments in commands(folder / "elsewhere", "no-such-run").items():
        carry_out(arguments if name != "launch" else ["launch", "--runs", str(folder / "no folder" / "runs")])


def _try_all(root: Path, run: str) -> dict:
    return {name: carry_out(arguments) for name, arguments in commands(root, run).items()}


def _become_nobody() -> None:
    """Somebody who owns nothing."""
    os.setgroups([]), os.setgid(NOBODY), os.setuid(NOBODY)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
