"""How a run can be made again: the command that trains it, its settings without paths, what is installed here."""

import platform
import shlex
import subprocess
from importlib import metadata
from pathlib import Path

import lps
from lps.background import SOURCE
from lps.compare import usual
from lps.config import Config
from lps.parameters import text_of

PATHS = ("dataset.path", "network.checkpoint")  # settings that name a place on the machine of the run
PACKAGES = "torch torchvision numpy scipy scikit-learn pillow pandas plotly streamlit umap-learn".split()
GIT_S = 5.0  # seconds that git may take to answer


def train_command(config: Config) -> str:
    """The command that trains the same again. Of a path only the last part is told, behind /path/to/."""
    words = ["python", "-m", "lps", "train", "--dataset", config.dataset, "--method", config.method]
    words += ["--seed", str(config.seed)]
    default = usual(config)
    for key, value in shareable(config).items():
        if key not in ("dataset", "method", "seed") and value != default[key]:
            words += ["--set", f"{key}={text_of(value)}"]
    return shlex.join(words)


def shareable(config: Config) -> dict[str, object]:
    """Every setting under its key, paths without the folders that only the machine of the run has."""
    flat = config.flat()
    return flat | {key: f"/path/to/{Path(str(flat[key])).name}" for key in PATHS if flat.get(key)}


def versions() -> dict[str, str]:
    """Python and the packages installed here, by name; those that are not installed are left out."""
    found = {"lps": lps.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit(root: Path = SOURCE) -> str:
    """The commit of the program, with "-dirty" where files differ from it; "" where it is no git checkout."""
    if not (root / ".git").exists():  # a package inside somebody else's checkout has not their commit
        return ""
    words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=GIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
