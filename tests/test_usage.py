"""Usage of devices: real processes of a known size, made-up answers of the driver, and machines that say nothing."""

import os
import subprocess
import sys
import time

import pytest

from lps import usage
from lps.config import configure
from lps.files import write_json
from lps.processes import start_ticks
from lps.runs import create_run

MIB = 1 << 20
SIZE = 64  # MiB that the child holds
CODE = f"""
import time
held = b"x" * ({SIZE} << 20)
end = time.process_time() + 0.2
while time.process_time() < end: pass
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path / "runs", configure({}))


@pytest.fixture
def child():
    """A process with a child of its own that holds memory and has used the processor."""
    parent = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]]))"
    process = subprocess.Popen([sys.executable, "-c", parent, CODE], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    yield process
    os.killpg(process.pid, 9)
    process.wait()
    process.stdout.close()


def test_what_a_run_uses_is_what_its_processes_use(run, child):
    write_json(run.folder / "process.json", {"runner_pid": child.pid, "runner_ticks": start_ticks(child.pid)})
    share = usage.of_run(run)
    assert share.processes == 2 and share.gpu_memory is None
    assert SIZE * MIB < share.memory < (SIZE + 200) * MIB
    assert 0.2 <= share.processor_s < 60
    assert usage.of_run(run, {child.pid: 3 * MIB, 1: 5 * MIB}).gpu_memory == 3 * MIB


@pytest.mark.parametrize(
    "change", [{"runner_ticks": 1}, {"runner_pid": 2**22 + 7}, {"runner_pid": "1"}, {"runner_ticks": None}]
)
def test_a_pid_that_belongs_to_somebody_else_is_noticed(run, change):
    known = {"runner_pid": os.getpid(), "runner_ticks": start_ticks(os.getpid())}
    write_json(run.folder / "process.json", known)
    assert usage.of_run(run) is not None
    write_json(run.folder / "process.json", known | change)
    assert usage.of_run(run) is None


def test_the_machine_is_the_one_that_the_kernel_describes(tmp_path, monkeypatch):
    machine = usage.machine()
    assert machine.memory_total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < machine.memory_used < machine.memory_total and machine.cores >= 1
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:   400 kB\nHugePages_Total: 0\n")
    monkeypatch.setattr(usage, "PROC", tmp_path)
    assert (usage.machine().memory_used, usage.machine().memory_total) == (600 * 1024, 1000 * 1024)


def test_a_system_without_proc_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "PROC", tmp_path / "nowhere")
    assert usage.machine().memory_used is None and usage.machine().memory_total is None
    assert usage.processor_times() is None


def test_busy_is_what_is_neither_idle_nor_waiting_for_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "PROC", tmp_path)
    looks = []
    #                user nice system idle iowait irq softirq steal guest
    for ticks in ("100 0 50 800 50 0 0 0 9", "160 5 60 900 75 0 0 0 9"):
        (tmp_path / "stat").write_text(f"cpu  {ticks}\ncpu0 {ticks}\nintr 5\n")
        looks.append(usage.processor_times())
    assert usage.busy_share(*looks) == 75 / 200
    assert usage.busy_share(looks[0], looks[0]) is None and usage.busy_share(None, looks[0]) is None


def test_this_process_makes_the_machine_busy():
    before = usage.processor_times()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert 0 < usage.busy_share(before, usage.processor_times()) <= 1


def driver(monkeypatch, tmp_path, script: str):
    path = tmp_path / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_gpus_as_the_driver_describes_them(tmp_path, monkeypatch):
    rows = "0, GPU-a, 1024, 4096, 37\n1, GPU-b, [N/A], 4096, [Not Supported]\nnot a row"
    apps = "GPU-a, 11, 100\nGPU-b, 11, 20\nGPU-a, 12, [N/A]"
    question = 'case "$1" in --query-gpu=*) printf "%s\\n" "' + rows + '";; *) printf "%s\\n" "' + apps + '";; esac'
    driver(monkeypatch, tmp_path, question)
    assert usage.gpus() == [
        usage.Gpu(0, "GPU-a", 1024 * MIB, 4096 * MIB, 0.37),
        usage.Gpu(1, "GPU-b", None, 4096 * MIB, None),
    ]
    assert usage.gpu_processes() == {11: 120 * MIB}


@pytest.mark.parametrize("script", ["exit 9", "echo 'NVIDIA-SMI has failed'; exit 0", "exec sleep 60"])
def test_a_driver_that_fails_or_hangs_is_absent(tmp_path, monkeypatch, script):
    monkeypatch.setattr(usage, "PATIENCE_S", 0.2)
    driver(monkeypatch, tmp_path, script)
    assert usage.gpus() == [] and usage.gpu_processes() == {}


def test_a_machine_without_a_driver(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert usage.gpus() == [] and usage.gpu_processes() == {}
