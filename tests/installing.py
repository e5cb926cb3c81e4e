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
    """The wheel, in the folder `place`."""
    subprocess.run([*UV, "build", "--quiet", "--wheel", "--out-dir", str(place), str(ROOT)], check=True, timeout=120)
    (wheel,) = place.glob("*.whl")
    return wheel


def install(folder: Path, *calls: list[str]) -> Path:
    """A new environment in which `uv pip install` is called with each of these arguments; its folder of programs.

    What is compiled in the environment of the tests serves it too, where uv took both files from one cache: Python
    compares their times and sizes. Else torch and the dashboard would be compiled anew, which takes half a minute.
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
    """The environment of a person who has set nothing, at home in the folder `home`."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LPS_", "XDG_", "PYTHON", "STREAMLIT"))
    } | {"HOME": str(home)}
