"""Test the program with the oldest libraries that requirements.txt admits, with the newest, and with few.

    python -m tests.dependencies lower|upper|bare [--python PATH] [--into FOLDER]

creates an environment with uv, of the Python at PATH, in FOLDER (several GB with PyTorch; a temporary one without it),
and runs the quick tests there and `tests/house/test_first_hour.py`, which trains, resumes, compares, reports and opens
pages. bare: only the newest libraries that training needs, and only tests without the dashboard.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from lps.doctor.environment import TRAINING, parse_requirements, requirement_lines

ROOT = Path(__file__).resolve().parent.parent
RESOLUTION = {"lower": "lowest-direct", "upper": "highest", "bare": "highest"}
QUICK = ["-m", "not slow and not browser and not slurm"]
REAL = ["tests/house/test_first_hour.py"]
NO_DASHBOARD = ["-k", "not dashboard"]


def packages(edge: str) -> list[str]:
    """Return the arguments by which uv installs the packages of this edge."""
    if edge != "bare":
        return ["-r", "tests/requirements.txt"]
    needed = parse_requirements(requirement_lines(ROOT / "requirements.txt"))
    return [*(f"{name}>={least}" for name, least in needed if name in TRAINING), "pytest", "pytest-timeout"]


def suites(edge: str) -> list[list[str]]:
    """Return the arguments of pytest, one list per call."""
    return [REAL + NO_DASHBOARD] if edge == "bare" else [QUICK, REAL]


def main(edge: str, base: str, folder: Path) -> int:
    """Run the tests at this edge; return the worst exit code."""
    python = folder / "env" / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    needed = ["--resolution", RESOLUTION[edge], *packages(edge)]
    subprocess.run([*uv, "venv", "--quiet", "--python", base, folder / "env"], cwd=ROOT, check=True)
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *needed], cwd=ROOT, check=True)
    subprocess.run([python, "--version"], check=True)
    subprocess.run([*uv, "pip", "list", "--python", python], cwd=ROOT, check=True)
    pytest = [python, "-m", "pytest", "-p", "no:cacheprovider"]
    return max(subprocess.run([*pytest, *suite], cwd=ROOT).returncode for suite in suites(edge))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edge", choices=RESOLUTION)
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="this one without it")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="where the environment goes and stays")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        sys.exit(main(options.edge, options.python, (options.into or Path(place)).resolve()))
