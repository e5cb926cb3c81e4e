"""Build the package and install it into its own environment with uv and its cache; seconds once the cache is filled."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = [sys.executable, "-m", "uv"]
PATIENCE_S = 280  # several GB are fetched where the cache is empty


def build(place: Path) -> Path:
    """Build the wheel in the folder `place`."""
    subprocess.run([*UV, "build", "--quiet", "--wheel", "--out-dir", str(place), str(ROOT)], check=True, timeout=120)
    (wheel,) = place.glob("*.whl")
    return wheel


def install(folder: Path, *calls: list[str]) -> Path:
    """Make an environment and call `uv pip install` in it with each of these arguments; return its folder of programs.

    The byte code of the tests' own environment is copied, which Python accepts if uv took both files from one cache (it
    compares times and sizes). Else torch and the dashboard would be compiled again, which takes half a minute.
    """
    subprocess.run([*UV, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True, timeout=60)
    for words in calls:
        command = [*UV, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *words]
        subprocess.run(command, check=True, timeout=PATIENCE_S)
    ours, (theirs,) = Path(sysconfig.get_path("purelib")), folder.glob("lib/python*/site-packages")
    for compiled in ours.rglob("__pycache__"):
        if (beside := theirs / compiled.relative_to(ours).parent).is_dir():
            shutil.copytree(compiled, beside / "__pycache__", dirs_exist_ok=True)
    return folder / "bin"


def nobody(home: Path) -> dict[str, str]:
    """Return the environment of a user who has set nothing, with the home folder `home`."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LPS_", "XDG_", "PYTHON", "STREAMLIT"))
    } | {"HOME": str(home)}
