"""Names of the program up to 0.3.0 that files and jobs outside of it still use."""

import subprocess
import sys

from lps import errors
from lps.cluster import jobs
from lps.methods.parts import measurements
from lps.settings import catalog, parameters
from lps.ui.server import routing


def test_a_method_file_with_the_old_names_is_described_alike(tmp_path, monkeypatch):
    lines = [
        '"""Mine."""',
        "from typing import Annotated",
        "from lps.methods import Method",
        "from lps.settings.parameters import NAME",
        "",
        "class Mine(Method):",
        '    """A method."""',
        "    def __init__(self, *, weight: Annotated[float, 'w: weight', (0, 100), NAME('Labels')] = 1.0):",
        "        pass",
    ]
    found = {}
    for name in ("Told", "ParameterDocs"):
        path = tmp_path / f"{name.lower()}.py"
        path.write_text("\n".join(lines).replace("NAME", name) + "\n")
        (parameter,) = catalog._parse_method(path).parameters.values()
        found[name] = parameter
    assert found["Told"] == found["ParameterDocs"] and found["Told"].told.group == "Labels"


def test_old_names_of_classes_are_the_new_ones():
    assert errors.Refusal is errors.UserError and parameters.Told is parameters.ParameterDocs
    assert jobs.Board is jobs.JobCache and jobs.BackendUnavailable("late", is_open=True).outcome_unknown


def test_files_of_users_find_functions_under_their_old_names():
    assert routing.show is routing.show_page and measurements.summed is measurements.sum_terms


def test_a_queued_job_of_a_cluster_finds_its_program_under_the_old_name(tmp_path):
    options = [str(tmp_path / "none"), "--token", "a", "--", "true"]
    command = [sys.executable, "-m", "lps.running.cluster_attempt", *options]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "No module named" not in told.stderr and "lps.running" not in told.stderr, told.stderr


def test_a_runner_of_the_old_version_has_its_message_sent(tmp_path):
    command = [sys.executable, "-m", "lps.exchange.messages", str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0 and not answer.stderr, answer.stderr
