"""Do the quick tests pass with the oldest versions that requirements.txt admits, and with the newest?

    python -m tests.dependencies lower|upper [FOLDER]

makes an environment with uv in FOLDER (several GB with PyTorch; a temporary one without it) and runs the tests there.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESOLUTION = {"lower": "lowest-direct", "upper": "highest"}
QUICK = "not slow and not browser and not slurm"


def main(edge: str, folder: Path) -> int:
    """The exit code of the tests."""
    python = folder / "env" / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    needed = ["--resolution", RESOLUTION[edge], "-r", "tests/requirements.txt"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, folder / "env"], cwd=ROOT, check=True)
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *needed], cwd=ROOT, check=True)
    subprocess.run([*uv, "pip", "list", "--python", python], cwd=ROOT, check=True)
    return subprocess.run([python, "-m", "pytest", "-m", QUICK, "-p", "no:cacheprovider"], cwd=ROOT).returncode


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in RESOLUTION:
        sys.exit(__doc__)
    if len(sys.argv) == 3:
        sys.exit(main(sys.argv[1], Path(sys.argv[2]).resolve()))
    with tempfile.TemporaryDirectory() as place:
        sys.exit(main(sys.argv[1], Path(place)))
