"""The last line of a failed test."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEST = "import pytest\n\n@pytest.mark.parametrize('x', ['a b'])\ndef test_it(x):\n    assert x == 'c'\n"


@pytest.mark.slow
def test_the_last_line_after_a_failure_is_a_command_that_runs_the_failed_test(tmp_path):
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += ["--basetemp", str(tmp_path / "own")]  # else its end sweeps the folders of every earlier session
    command += [str(tmp_path / "test_it.py")]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    told, _, line = said.stdout.strip().splitlines()[-1].partition(": ")
    words = shlex.split(line)
    assert told == "Run it alone" and words[:3] == [sys.executable, "-m", "pytest"], said.stdout
    assert words[3].endswith("test_it.py::test_it[a b]")
