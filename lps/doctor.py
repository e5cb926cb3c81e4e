"""What is wrong on this machine, and how to mend it: `python -m lps doctor`.

Every check gives findings: ok, a note (works, but worth knowing) or a problem (something will not work), each with one
sentence and, where there is something to mend, how. Checks only look: nothing is changed but for one file that is made
in the folder of the runs and removed again. A check that fails itself is a problem and stops no other.
"""

import contextlib
import fcntl
import json
import os
import platform
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

from lps import catalog, devices, guard
from lps.background import SOURCE
from lps.costs import size_in_words
from lps.locks import boot_id, is_held
from lps.memory import free as free_memory
from lps.parameters import ConfigError
from lps.runs import INCOMING_S, Run, list_runs, obstacle

OK, NOTE, PROBLEM = "ok", "note", "problem"
OLDEST_PYTHON = (3, 11)
TRAINING = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pillow", "tqdm")  # the others are for pages
IMPORT_NAMES = {"scikit-learn": "sklearn", "pillow": "PIL", "umap-learn": "umap"}
IMPORT_S = 180.0  # seconds that all imports together may take
MEMORY = 2 << 30, 4 << 30  # bytes: a run on digits takes one GiB; below the first a problem, below the second a note
SPACE = 1 << 30, 5 << 30  # bytes on the disk of the runs
INODES = 1000
PORT = 8501
NETWORK = set("nfs nfs4 cifs smb3 smbfs 9p afs lustre gpfs beegfs ceph glusterfs orangefs".split())
EARLIEST = 1_750_000_000  # unix seconds: an earlier clock is wrong
FUTURE_S = 300.0
SHOWN = 5  # damaged files that are named one by one
# Damaged files that were set aside (lps.checkpoints, lps.runs): of runs, and of weights in the making.
ASIDE = "*/checkpoints/damaged-*.pt", "*/damaged-*.json", ".pretrained/*/damaged-*.pt"
OWN_FOLDER = "Set LPS_RUNS to a folder of your own."

# Imports every package and asks torch about the GPU, in a process of its own: a broken package may crash.
IMPORTS = """
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
    port: int = PORT
    now: Callable[[], float] = time.time

    def version(self, package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    def imports(self, names: list[str]) -> dict:
        """{"said": {name: error or ""}, "cuda": {...}}; raises `OSError` or `subprocess.SubprocessError`."""
        words = [sys.executable, "-c", IMPORTS, *names]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=IMPORT_S, cwd=SOURCE, check=False)
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


def examine(machine: Machine) -> Iterator[Finding]:
    """The findings of all checks, in their order."""
    for check in CHECKS:
        try:
            yield from check(machine)
        except Exception as error:  # whatever is wrong here must not hide what else is
            yield Finding(PROBLEM, check.__name__, f"could not be looked at ({error or type(error).__name__})")


# ---------------------------------------------------------------------------------------------------- environment


def python(machine: Machine) -> Iterator[Finding]:
    """The version of Python, and the system."""
    found = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield Finding(PROBLEM, "Python", f"{found} is older than 3.11", "Install Python 3.11 or newer, then make app.")
    else:
        yield Finding(OK, "Python", f"{found} on {platform.system()}")
    if platform.system() != "Linux":
        mend = "Expect rough edges: signals, locks and process tables differ."
        yield Finding(NOTE, "system", f"{platform.system()} was not tried", mend)


def packages(machine: Machine) -> Iterator[Finding]:
    """Each requirement against what is installed."""
    install = f"{Path(sys.executable).name} -m pip install -r requirements.txt"
    lines = machine.requirements.read_text().splitlines() if machine.requirements.exists() else []
    if not lines:
        yield Finding(NOTE, "packages", f"{machine.requirements.name} is not there, so no version can be compared")
    for name, least in required(lines):
        found, level = machine.version(name), PROBLEM if name in TRAINING else NOTE
        if found is None:
            yield Finding(level, name, f"is not installed; {least} or newer is needed", install)
        elif numbers(found) < numbers(least):
            yield Finding(level, name, f"{found} is older than {least}", install)
        else:
            yield Finding(OK, name, found)


def required(lines: list[str]) -> list[tuple[str, str]]:
    """(package, least version) of every requirement."""
    found = [re.match(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)", line) for line in lines]
    return [(match[1], match[2]) for match in found if match]


def numbers(version: str) -> tuple[int, ...]:
    """A version to compare by: 2.11.0+cu128 -> (2, 11, 0)."""
    return tuple(int(part) for part in re.match(r"[0-9.]*", version)[0].split(".") if part)


def imports(machine: Machine) -> Iterator[Finding]:
    """Whether every installed package can be imported, and what torch says of the GPU."""
    lines = machine.requirements.read_text().splitlines() if machine.requirements.exists() else []
    known = [name for name, _ in required(lines)] or ["torch"]
    names = {IMPORT_NAMES.get(name, name): name for name in known if machine.version(name) is not None}
    try:
        answer = machine.imports(list(names))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        yield Finding(PROBLEM, "imports", f"could not be tried ({type(error).__name__})", "Run make app again.")
        return
    broken = {names[name]: said for name, said in answer["said"].items() if said}
    for name, said in broken.items():
        mend = f"{Path(sys.executable).name} -m pip install --force-reinstall {name}"
        yield Finding(PROBLEM if name in TRAINING else NOTE, name, f"cannot be imported: {said}", mend)
    if not broken:
        yield Finding(OK, "imports", f"{len(names)} packages can be imported")
    yield from _gpu(machine, answer.get("cuda") or {})


def _gpu(machine: Machine, cuda: dict) -> Iterator[Finding]:
    """The driver's devices and torch's opinion of them."""
    gpus = machine.gpus()
    there = [gpu for gpu in gpus if gpu.available]
    reason = next((gpu.reason for gpu in gpus if not gpu.available), "")
    if not there:
        level = NOTE if "no NVIDIA driver" in reason or "hides" in reason else PROBLEM
        mend = "" if "no NVIDIA driver" in reason else "Mend the driver (nvidia-smi must answer), or train on the CPU."
        yield Finding(level, "GPU", f"none: {reason}; runs use the CPU", mend)
    for gpu in there:
        yield Finding(OK, gpu.name, gpu.label)
    if there and not cuda.get("built"):
        yield Finding(PROBLEM, "CUDA", "this torch was built without it", "Install a torch with CUDA for your driver.")
    elif there and (cuda.get("error") or not cuda.get("available")):
        said = cuda.get("error") or "torch sees no GPU"
        mend = "Install the torch that fits the driver, or a newer driver; nvidia-smi names the newest CUDA it takes."
        yield Finding(PROBLEM, "CUDA", f"{cuda['built']} does not work: {said}", mend)
    elif there:
        yield Finding(OK, "CUDA", cuda["built"])


def memory(machine: Machine) -> Iterator[Finding]:
    """Memory that is free, also within the limit of a container or job."""
    found = machine.memory()
    if found is None:
        yield Finding(NOTE, "memory", "the system does not say how much is free")
        return
    free, is_limited = found
    where = " within the limit of this container or job" if is_limited else ""
    mend = "End other programs, ask for more, or lower batch_size."
    yield _amount("memory", free, MEMORY, f"free{where}", mend)


def _amount(about: str, free: int, limits: tuple[int, int], words: str, mend: str) -> Finding:
    level = PROBLEM if free < limits[0] else NOTE if free < limits[1] else OK
    return Finding(level, about, f"{free / 2**30:.1f} GiB {words}", "" if level == OK else mend)


# ---------------------------------------------------------------------------------------------------- folder of runs


def folder(machine: Machine) -> Iterator[Finding]:
    """Whose the folder of the runs is, who can read it, and whether it can hold locked, whole files."""
    root = machine.runs
    if said := obstacle(root):
        yield Finding(PROBLEM, "runs", said, OWN_FOLDER)
        return
    if not root.exists():
        parent = next(p for p in root.absolute().parents if p.exists())
        can = os.access(parent, os.W_OK | os.X_OK)
        says = f"{root} is not there yet" + (
            "; the first run makes it" if can else f" and {parent} cannot be written to"
        )
        yield Finding(OK if can else PROBLEM, "runs", says, "" if can else "Set LPS_RUNS to a folder of your own.")
        return
    about = root.stat()
    if about.st_uid != os.geteuid():
        mend = "Set LPS_RUNS to a folder of your own, or have its owner start the runs."
        yield Finding(PROBLEM, "runs", f"{root} belongs to another user (id {about.st_uid})", mend)
    if about.st_mode & 0o077:
        says = f"{root} can be read by others on this machine (mode {stat.S_IMODE(about.st_mode):04o})"
        yield Finding(NOTE, "runs", says, f"chmod 700 {root}")
    reason = probe(root)
    if reason:
        mend = "Mount it writable, mend its owner and mode, or set LPS_RUNS to another folder."
        yield Finding(PROBLEM, "runs", f"{root} {reason}", mend)
    else:
        yield Finding(OK, "runs", f"{root} can be written to, {len(_runs(machine))} folders")


def _runs(machine: Machine) -> list[Run]:
    """The runs; none where the folder cannot be read, which `folder` says."""
    try:
        return list_runs(machine.runs)
    except ConfigError:
        return []


def probe(root: Path) -> str:
    """Try what runs do to their files: make, lock, sync, rename, remove. The reason where that fails, else ""."""
    path = root / f".doctor-{secrets.token_hex(4)}.tmp"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return f"cannot be written to ({error.strerror})"
    try:
        os.write(descriptor, b"x" * 4096)
        os.fsync(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.replace(path, path.with_suffix(".new"))
        return ""
    except OSError as error:
        return f"does not take a locked, whole file ({error.strerror})"
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        path.with_suffix(".new").unlink(missing_ok=True)


def disk(machine: Machine) -> Iterator[Finding]:
    """Space and file entries where the runs are."""
    place = next(p for p in [machine.runs.absolute(), *machine.runs.absolute().parents] if p.exists())
    free, inodes = machine.usage(place)
    trash = machine.runs / ".trash"
    more = f" ({trash} can go)" if trash.is_dir() and any(trash.iterdir()) else ""
    yield _amount("disk", free, SPACE, f"free for {place}", f"Delete runs, or files of others{more}.")
    if inodes is not None and inodes < INODES:
        says = f"only {inodes} more files can be made in {place}"
        yield Finding(PROBLEM, "disk", says, f"Delete folders with many small files{more}.")


def file_system(machine: Machine) -> Iterator[Finding]:
    """Whether the runs are on a network file system, whose locks other machines may not see."""
    kind = mounted(machine.read("mounts"), machine.runs.resolve())
    if kind in NETWORK or kind.startswith("fuse.ssh"):
        mend = "Fine for one machine at a time; for training, a local disk (LPS_RUNS) is faster and its locks are sure."
        yield Finding(NOTE, "file system", f"{machine.runs} is on a network file system ({kind})", mend)
    else:
        yield Finding(OK, "file system", kind or "unknown")


def mounted(mounts: str, path: Path) -> str:
    """The kind of file system that `path` is on, by the lines of /proc/mounts; "" where none fits."""
    best, kind = "", ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[1])
        if (str(path) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, words[2]
    return kind


# ---------------------------------------------------------------------------------------------------- locks, processes


def locks(machine: Machine) -> Iterator[Finding]:
    """Slots and who holds them; a lock that no run of ours explains is stuck."""
    runs = _runs(machine)
    alive = [run for run in runs if is_held(run.lock)]
    owners = {slot: run for run in alive for slot in str(run.read_json("process.json").get("slot", "")).split(",")}
    held = [path for path in sorted((machine.runs / ".slots").glob("*.lock")) if is_held(path)]
    stuck = 0
    for path in held:
        if path.stem in owners:
            yield Finding(OK, path.stem, f"used by {owners[path.stem].id}")
            continue
        stuck += 1
        pids = holders(machine, path)
        who = f"process {', '.join(map(str, pids))}" if pids else "a process that cannot be seen"
        mend = (
            f"kill {' '.join(map(str, pids))}"
            if pids
            else "Ask the other users of this folder, or restart the machine."
        )
        yield Finding(PROBLEM, path.stem, f"is held by {who}, which belongs to no run in {machine.runs}", mend)
    waiting = [run for run in runs if run.state().name == "queued" and run.waiting_attempt()]
    if not stuck:
        yield Finding(OK, "locks", f"{len(alive)} runs are going, {len(waiting)} wait")


def holders(machine: Machine, path: Path) -> list[int]:
    """The processes of this user that have the file open."""
    wanted, found = path.stat(), []
    for entry in machine.proc.glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for link in entry.iterdir():
                with contextlib.suppress(OSError):
                    there = link.stat()
                    if (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino):
                        found.append(int(entry.parent.name))
                        break
    return sorted(found)


def leftovers(machine: Machine) -> Iterator[Finding]:
    """Processes of runs that are over, folders and files that were never finished."""
    orphans = orphaned(machine)
    for pid, run in orphans:
        mend = f"kill {pid} (the next run that starts does it too)"
        yield Finding(PROBLEM, "processes", f"process {pid} belongs to {run.id}, which is over", mend)
    drafts = [path for path in (machine.runs / ".incoming").glob("*") if _age(machine, path) > INCOMING_S]
    if drafts:
        says = f"{len(drafts)} unfinished folders in {machine.runs / '.incoming'}"
        yield Finding(NOTE, "leftovers", says, "They go with the next run that is deleted; rm -r does it at once.")
    torn = [path for path in machine.runs.glob("*/**/.*.tmp") if _age(machine, path) > INCOMING_S]
    if torn:
        says = f"{len(torn)} unfinished files of writers that were killed, such as {torn[0]}"
        yield Finding(NOTE, "leftovers", says, "Resume the run, which removes them, or rm them.")
    aside = [path for pattern in ASIDE for path in machine.runs.glob(pattern)]
    if aside:
        size = sum(path.lstat().st_size for path in aside)
        count = "1 damaged file was" if len(aside) == 1 else f"{len(aside)} damaged files were"
        says = f"{count} set aside ({size_in_words(size)}): {aside[0]}{', ...' * (len(aside) > 1)}"
        mend = "Nothing needs it any more: rm it once you have looked. If it comes again, look at the disk (smartctl)."
        yield Finding(NOTE, "leftovers", says, mend)
    if not (orphans or drafts or torn or aside):
        yield Finding(OK, "leftovers", "none")


def _age(machine: Machine, path: Path) -> float:
    try:
        return machine.now() - path.lstat().st_ctime
    except OSError:
        return 0.0


def orphaned(machine: Machine) -> list[tuple[int, Run]]:
    """Processes that say (LPS_RUN) which run in the folder they belong to, while its lock is free."""
    found, root = [], machine.runs.resolve()
    for entry in machine.proc.glob("[0-9]*"):
        try:
            items = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for item in items:
            if item.startswith(b"LPS_RUN=") and int(entry.name) != os.getpid():
                run = Run(Path(os.fsdecode(item.removeprefix(b"LPS_RUN="))))
                if run.root == root and run.folder.is_dir() and not is_held(run.lock):
                    found.append((int(entry.name), run))
    return sorted(found, key=lambda pair: pair[0])


def runs(machine: Machine) -> Iterator[Finding]:
    """How the runs stand that are not well."""
    states: dict[str, list[Run]] = {}
    damaged = []
    for run in _runs(machine):
        state = run.state().name
        states.setdefault(state, []).append(run)
        damaged += [(run, words) for words in run.damages() if state != "unreadable"]
    for name, mend in (
        ("unreadable", "python -m lps show RUN says why; folders that are no runs belong elsewhere."),
        ("crashed", "python -m lps resume RUN goes on from the last checkpoint."),
    ):
        if name in states:
            some = ", ".join(run.id for run in states[name][:3])
            yield Finding(NOTE, "runs", f"{len(states[name])} {name}: {some}", mend)
    for run, words in damaged[:SHOWN]:
        mend = f"python -m lps rename {run.id} NAME writes a sound one and keeps this one beside it."
        if words.startswith("want.json"):
            mend = f"python -m lps resume {run.id} (or stop) writes a sound one and keeps this one beside it."
        if "newer" in words:
            mend = "Use the LPS Studio that wrote it; this one leaves it alone."
        yield Finding(NOTE, "runs", f"{run.id}: {words}", mend)
    if len(damaged) > SHOWN:
        yield Finding(NOTE, "runs", f"{len(damaged) - SHOWN} more files like that", "python -m lps list names them.")


# ---------------------------------------------------------------------------------------------------- around


def data(machine: Machine) -> Iterator[Finding]:
    """Which data sets are on this machine."""
    here, absent = [], []
    for name in catalog.dataset_names():
        about = catalog.dataset_info(name)
        if about.path and not hasattr(_dataset(name), "fetch"):
            continue  # a folder or file that every run names for itself
        stamp = getattr(_dataset(name), "stamp", None)
        (here if stamp is None or stamp(None) else absent).append(name)
    yield Finding(OK, "data sets", f"here: {', '.join(here)}")
    if absent:
        mend = f"python -m lps datasets --fetch {absent[0]} (a download), if you want it."
        yield Finding(NOTE, "data sets", f"not here: {', '.join(absent)}", mend)


def _dataset(name: str):
    return import_module(f"lps.datasets.{name}")


def port(machine: Machine) -> Iterator[Finding]:
    """Whether the dashboard's port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", machine.port))
        except OSError as error:
            says = f"{machine.port} is taken ({error.strerror})"
            mend = "If that is not this dashboard already: streamlit run app.py --server.port 8502."
            yield Finding(NOTE, "port", says, mend)
        else:
            yield Finding(OK, "port", f"{machine.port} is free")


def exposure(machine: Machine) -> Iterator[Finding]:
    """Who can reach the dashboard, as configured."""
    address = os.environ.get("STREAMLIT_SERVER_ADDRESS")
    if address is None:
        with open(SOURCE / ".streamlit" / "config.toml", "rb") as file:
            address = tomllib.load(file).get("server", {}).get("address", "")
    if guard.is_loopback(address):
        yield Finding(OK, "dashboard", f"listens on {address}, for this machine alone")
    else:
        says = f"listens on {address or 'every interface'}; it asks others for the access token that it prints"
        yield Finding(NOTE, "dashboard", says, "ssh -L 8501:localhost:8501 is safer: then 127.0.0.1 will do.")


def cluster(machine: Machine) -> Iterator[Finding]:
    """Whether runs can be sent to a cluster."""
    missing = [name for name in ("sbatch", "squeue", "scancel") if shutil.which(name) is None]
    if len(missing) == 3:
        yield Finding(OK, "SLURM", "not here; runs start on this machine")
    elif missing:
        yield Finding(
            NOTE, "SLURM", f"{', '.join(missing)} cannot be found", "Load the cluster's module, or mend PATH."
        )
    else:
        yield Finding(OK, "SLURM", "found")


def clock(machine: Machine) -> Iterator[Finding]:
    """Whether the clock is plausible: ids and the order of runs come from it."""
    now = machine.now()
    newest = max((_changed(run) for run in _runs(machine)[:50]), default=0.0)
    mend = "Set the clock (timedatectl set-ntp true); durations are right anyway."
    if now < EARLIEST:
        yield Finding(PROBLEM, "clock", f"{time.strftime('%Y-%m-%d', time.gmtime(now))} is in the past", mend)
    elif newest > now + FUTURE_S:
        yield Finding(NOTE, "clock", f"a run was changed {(newest - now) / 60:.0f} minutes in the future", mend)
    else:
        told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
        yield Finding(OK, "clock", f"{told}{'' if boot_id() else '; the system does not tell when it was started'}")


def _changed(run: Run) -> float:
    with contextlib.suppress(OSError):
        return run.folder.stat().st_mtime
    return 0.0


CHECKS = (
    python, packages, imports, memory, folder, disk, file_system, locks, leftovers, runs, data, port, exposure,
    cluster, clock,
)  # fmt: skip
