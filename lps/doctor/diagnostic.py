"""Define a finding, and the machine that checks examine."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

from lps.errors import UserError
from lps.files.program_location import SOURCE
from lps.machine import devices
from lps.machine.memory import free_memory as free_memory
from lps.store.run_folders import list_runs
from lps.store.runs import Run

OK, NOTE, PROBLEM = "ok", "note", "problem"
_IMPORT_S = 180.0  # seconds that all imports together may take
# Imports every package and asks torch about the GPU in a separate process, since a broken package may crash.
_IMPORTS = """
import importlib, json, sys
said = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        said[name] = ""
    except BaseException as error:
        said[name] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
cuda = {}
if said.get("torch") == "":
    import torch
    cuda = {"built": torch.version.cuda or "", "available": torch.cuda.is_available(), "error": ""}
    try:
        torch.cuda.init()
    except Exception as error:
        cuda["error"] = str(error).splitlines()[0][:300]
print(json.dumps({"said": said, "cuda": cuda}))
"""


@dataclass(frozen=True)
class Diagnostic:
    """One line of the report. mend: how to fix it, "" if nothing needs a fix."""

    level: str
    about: str
    says: str
    mend: str = ""


@dataclass(eq=False)
class Machine:
    """The machine that checks examine; tests replace parts of it."""

    runs: Path
    requirements: Path = SOURCE / "requirements.txt"
    port: int = 8501
    now: Callable[[], float] = time.time

    @cached_property
    def listed(self) -> list[Run]:
        """The runs; none if the folder cannot be read, which another check reports."""
        try:
            return list_runs(self.runs)
        except UserError:
            return []

    def version(self, package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    def imports(self, names: list[str]) -> dict:
        """Return {"said": {name: error or ""}, "cuda": {...}}; raises `OSError` or `subprocess.SubprocessError`."""
        command = [sys.executable, "-c", _IMPORTS, *names]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_IMPORT_S, cwd=SOURCE, check=False)
        lines = answer.stdout.strip().splitlines()
        if answer.returncode or not lines:
            error_lines = answer.stderr.strip().splitlines()
            reason = error_lines[-1][:300] if error_lines else f"exit code {answer.returncode}"
            return {"said": dict.fromkeys(names, reason), "cuda": {}}
        return json.loads(lines[-1])

    def gpus(self) -> list[devices.Device]:
        return [device for device in devices.list_devices(0) if device.name != "cpu"]

    def memory(self) -> tuple[int, bool] | None:
        return free_memory()

    def usage(self, folder: Path):
        """Return (free bytes, free inodes or None if the file system does not count them)."""
        usage = os.statvfs(folder)
        return usage.f_bavail * usage.f_frsize, usage.f_favail if usage.f_files else None


def level_of(free: int, limits: tuple[int, int]) -> str:
    """Return a problem below the first limit, a note below the second."""
    return PROBLEM if free < limits[0] else NOTE if free < limits[1] else OK
