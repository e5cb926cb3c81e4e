"""A run names the version of the program that trained it, and pages show if it is another one."""

import json

import pytest

import lps
from lps.store import provenance
from tests.sample_runs import make_run


def trained_with(root, version):
    run = make_run(root, "finished")
    lines = run.events.read_text().splitlines(keepends=True)
    (at,) = [number for number, line in enumerate(lines) if '"start"' in line]
    event = json.loads(lines[at])
    lines[at] = json.dumps(event | {"machine": {"lps": version} if version else {}}) + "\n"
    run.events.write_text("".join(lines))
    return run


@pytest.mark.parametrize("version", [lps.__version__, ""])
def test_the_same_version_and_an_unknown_one_are_not_mentioned(tmp_path, version):
    assert provenance.other_version(trained_with(tmp_path, version)) == ""


def test_another_version_is_mentioned(tmp_path):
    words = f"Trained with LPS Studio 0.1.0; this is {lps.__version__}. A repeated run may give different numbers."
    assert provenance.other_version(trained_with(tmp_path, "0.1.0")) == words


def test_a_run_records_the_version_that_trains_it():
    assert provenance.machine_facts()["lps"] == lps.__version__
