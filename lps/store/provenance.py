"""The origin of a run, for repeating it: command, settings without paths, installed packages, hardware.

Except for `launch_command`, it contains no names of machines, people or folders.
"""

import os
import platform
import subprocess
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

import lps
from lps.files.atomic import clean_line, fingerprint
from lps.files.program_location import SOURCE
from lps.settings import cli_args
from lps.settings.config import Config
from lps.store.event_follower import EventFollower
from lps.store.runs import Run

PATHS = ("dataset.path", "network.checkpoint")  # settings that name a place on the machine of the run
_PACKAGES = "torch torchvision numpy scipy scikit-learn pillow pandas plotly streamlit umap-learn".split()
_KEPT = ("device", "cores", "system", "python", "torch", "lps", "commit")  # of the machine of a run, in reports
CPU_FACTS = Path("/proc/cpuinfo")
_GIT_S = 5.0  # seconds that git may take to answer


def train_command(config: Config) -> str:
    """Return the command that repeats the training. A path keeps only its last part, after /path/to/."""
    return _command("train", config, shareable_settings(config))


def launch_command(config: Config) -> str:
    """Return the command that puts the same run into the queue of this machine."""
    return _command("launch", config, config.flat())


def _command(name: str, config: Config, settings: dict[str, object]) -> str:
    changed = cli_args.differing_settings(settings, config.defaults())
    return cli_args.format_command(name, **cli_args.task_options(config), set=changed)


def shareable_settings(config: Config) -> dict[str, object]:
    """Return every setting by its key, paths without folders of this machine."""
    flat = config.flat()
    return flat | {key: f"/path/to/{Path(str(flat[key])).name}" for key in PATHS if flat.get(key)}


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages, by name."""
    version_by_name = {"lps": lps.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            version_by_name[name] = _installed_version(name)
        except metadata.PackageNotFoundError:
            continue
    return version_by_name


_installed_version = cache(metadata.version)  # each call reads the files of the whole environment


def git_commit(root: Path = SOURCE) -> str:
    """Return the commit of the program, with "-dirty" if files differ from it; "" outside a git checkout."""
    if not (root / ".git").exists():  # a package inside another project's checkout must not report that commit
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return completed.stdout.strip()


def machine_facts(gpu: str = "") -> dict[str, object]:
    """Return facts about the training hardware. gpu: its name, if it trains."""
    installed, program_commit = package_versions(), git_commit()
    facts = {"device": gpu or processor_model(), "cores": os.cpu_count(), "system": platform.system()}
    facts |= {name: installed[name] for name in ("python", "torch", "lps") if name in installed}
    return facts | ({"commit": program_commit} if program_commit else {})


@cache
def processor_model() -> str:
    """Return the model of this machine's processor."""
    try:
        lines = CPU_FACTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return clean_line(next(filter(None, names), "") or platform.processor() or platform.machine())


def machine_of(run: Run) -> dict[str, object]:
    """Return the machine facts of the run's newest process; {} if it recorded none."""
    return dict(_machine_at(str(run.events), fingerprint(run.events)))


@lru_cache(maxsize=256)
def _machine_at(events: str, version: tuple) -> dict[str, object]:
    """Read the machine from a file of events, cached by the version of the file, because a page asks at every draw."""
    machines = [
        event["machine"] for event in EventFollower(Path(events)).history() if isinstance(event.get("machine"), dict)
    ]
    machine = machines[-1] if machines else {}
    return {key: machine[key] if key == "cores" else clean_line(str(machine[key])) for key in _KEPT if machine.get(key)}


def other_version(run: Run) -> str:
    """Return a sentence if another version of this program trained the run; "" if the same or an unknown one."""
    trained_version = str(machine_of(run).get("lps", ""))
    if trained_version in ("", lps.__version__):
        return ""
    versions_differ = f"Trained with LPS Studio {trained_version}; this is {lps.__version__}."
    return f"{versions_differ} A repeated run may give different numbers."
