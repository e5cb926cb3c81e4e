"""The hardware of a run: queried here, stored in the start event, read back."""

import json
import platform
import subprocess
from importlib import metadata

import pytest

from lps.settings.config import configure
from lps.store import provenance
from lps.store.run_folders import create_run
from tests.short_runs import events


def test_facts_are_those_of_this_machine(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nmodel name\t: other\n")
    monkeypatch.setattr(provenance, "CPU_FACTS", tmp_path / "cpuinfo")
    provenance.processor_model.cache_clear()
    found = provenance.machine_facts()
    provenance.processor_model.cache_clear()
    assert found["device"] == "Some CPU @ 3 GHz" and found["python"] == platform.python_version()
    assert found["torch"] == metadata.version("torch") and found.get("commit", "") == provenance.git_commit()
    assert provenance.machine_facts("Big GPU")["device"] == "Big GPU"
    assert platform.node() not in json.dumps([v for k, v in found.items() if k != "device"]).split('"')


def test_a_processor_without_a_name_is_its_kind(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "CPU_FACTS", tmp_path / "none")
    provenance.processor_model.cache_clear()
    assert provenance.processor_model() == (platform.processor() or platform.machine())
    provenance.processor_model.cache_clear()


def test_the_newest_start_counts_and_damage_is_nothing(tmp_path):
    run = create_run(tmp_path, configure())
    assert provenance.machine_of(run) == {}
    lines = [
        {"machine": {"device": "old"}},
        {"machine": {"device": "new\n\x1b", "cores": 4, "secret": "x"}},
        {"machine": 3},
    ]
    text = [json.dumps({"kind": "start", "step": 0, "epoch": 0, "time": 1.0, "values": {}} | line) for line in lines]
    run.events.write_text("\n".join(text) + "\n")
    assert provenance.machine_of(run) == {"device": "new", "cores": 4}


@pytest.mark.slow
def test_a_run_says_what_it_was_trained_with(trained_run):
    run = trained_run
    starts = [event for event in events(run) if event["kind"] == "start"]
    assert len(starts) == 2 and all(event["machine"] == provenance.machine_facts() for event in starts)
    assert {event["precision"] for event in starts} == {"fp32"}
    assert provenance.machine_of(run)["torch"] == metadata.version("torch")
    host = subprocess.run(["hostname"], capture_output=True, text=True).stdout.strip()
    assert host not in provenance.machine_of(run).values()
