"""Python, packages, GPU and memory."""

import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from lps.doctor.finding import (
    IMPORT_NAMES,
    MEMORY,
    NOTE,
    OK,
    OLDEST_PYTHON,
    PROBLEM,
    TRAINING,
    Finding,
    Machine,
    amount,
)
from lps.files.program import IS_CLONE
from lps.settings import catalog

_USUAL_EXTRA = re.compile(r"extra == .(train|search|app).$")
_MEND_FILE = "Mend the file or take it away; all others can be used."

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
    needed = required(requirement_lines(machine.requirements))
    if not needed:
        yield Finding(NOTE, "packages", f"{machine.requirements.name} is not there, so no version can be compared")
    for name, least in needed:
        found, level = machine.version(name), PROBLEM if name in TRAINING else NOTE
        if found is None:
            yield Finding(level, name, f"is not installed; {least} or newer is needed", install)
        elif numbers(found) < numbers(least):
            yield Finding(level, name, f"{found} is older than {least}", install)
        else:
            yield Finding(OK, name, found)


def requirement_lines(path: Path) -> list[str]:
    """The lines of a file of requirements and of those that it names; of the installed package where it is missing."""
    if not path.exists():
        lines = [] if IS_CLONE else metadata.requires("lps-studio") or []
        return [line for line in lines if _USUAL_EXTRA.search(line)]
    lines = path.read_text().splitlines()
    named = [path.parent / line.removeprefix("-r ").strip() for line in lines if line.startswith("-r ")]
    return [line for other in named for line in requirement_lines(other)] + lines


def required(lines: list[str]) -> list[tuple[str, str]]:
    """(package, least version) of every requirement."""
    found = [re.match(r"([A-Za-z0-9_.-]+)\s*(?:<[0-9.]+,)?>=\s*([0-9.]+)", line) for line in lines]
    return [(match[1], match[2]) for match in found if match]


def numbers(version: str) -> tuple[int, ...]:
    """A version to compare by: 2.11.0+cu128 -> (2, 11, 0)."""
    return tuple(int(part) for part in re.match(r"[0-9.]*", version)[0].split(".") if part)


def imports(machine: Machine) -> Iterator[Finding]:
    """Whether every installed package can be imported, and what torch says of the GPU."""
    known = [name for name, _ in required(requirement_lines(machine.requirements))] or ["torch"]
    names = {IMPORT_NAMES.get(name, name): name for name in known if machine.version(name) is not None}
    methods = {f"lps.methods.{name}": f"methods/{name}.py" for name in catalog.method_names()}
    try:
        answer = machine.imports([*names, *methods])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        yield Finding(PROBLEM, "imports", f"could not be tried ({type(error).__name__})", "Run make app again.")
        return
    said = answer["said"]
    broken = {names[name]: said[name] for name in names if said.get(name)}
    for name, words in broken.items():
        mend = f"{Path(sys.executable).name} -m pip install --force-reinstall {name}"
        yield Finding(PROBLEM if name in TRAINING else NOTE, name, f"cannot be imported: {words}", mend)
    if not broken:
        yield Finding(OK, "imports", f"{len(names)} packages can be imported")
    for name, file in methods.items():
        if said.get(name) and not broken:
            yield Finding(PROBLEM, file, f"cannot be imported: {said[name]}", _MEND_FILE)
    yield from _gpu(machine, answer.get("cuda") or {})


def files(machine: Machine) -> Iterator[Finding]:
    """Files of methods and data sets that are not written as theirs are; `imports` tries those of methods, too."""
    for folder, broken in (("methods", catalog.broken_methods()), ("datasets", catalog.broken_datasets())):
        for name, reason in broken.items():
            yield Finding(PROBLEM, f"{folder}/{name}.py", reason, _MEND_FILE)


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
    yield amount("memory", free, MEMORY, f"free{where}", mend)
