"""Usage of devices: real processes of a known size, made-up answers of the driver, and machines that say nothing."""

import ctypes
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import psutil
import pynvml
import pytest

from lps.files.atomic import write_json
from lps.machine import usage
from lps.machine.processes import start_ticks
from lps.settings.config import configure
from lps.store.run_folders import create_run

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


@pytest.mark.slow
def test_what_a_run_uses_is_what_its_processes_use(run, child):
    write_json(run.folder / "process.json", {"runner_pid": child.pid, "runner_ticks": start_ticks(child.pid)})
    share = usage.read_runner_usage(run.read_json("process.json"))
    assert share.processes == 2 and share.gpu_memory is None
    assert SIZE * MIB < share.memory < (SIZE + 200) * MIB
    assert 0.2 <= share.processor_s < 60
    assert (
        usage.read_runner_usage(run.read_json("process.json"), {child.pid: 3 * MIB, 1: 5 * MIB}).gpu_memory == 3 * MIB
    )


@pytest.mark.parametrize(
    "change", [{"runner_ticks": 1}, {"runner_pid": 2**22 + 7}, {"runner_pid": "1"}, {"runner_ticks": None}]
)
def test_a_pid_that_belongs_to_somebody_else_is_noticed(run, change):
    known = {"runner_pid": os.getpid(), "runner_ticks": start_ticks(os.getpid())}
    write_json(run.folder / "process.json", known)
    assert usage.read_runner_usage(run.read_json("process.json")) is not None
    write_json(run.folder / "process.json", known | change)
    assert usage.read_runner_usage(run.read_json("process.json")) is None


def test_the_machine_is_the_one_that_the_kernel_describes(tmp_path, monkeypatch):
    machine = usage.machine_load()
    assert machine.memory_total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < machine.memory_used < machine.memory_total and machine.cores >= 1
    rest = "".join(f"{name}: 1 kB\n" for name in ("MemFree", "Buffers", "Cached", "Shmem", "Active", "Inactive"))
    (tmp_path / "meminfo").write_text(f"MemTotal:  1000 kB\nMemAvailable:   400 kB\n{rest}HugePages_Total: 0\n")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    assert (usage.machine_load().memory_used, usage.machine_load().memory_total) == (600 * 1024, 1000 * 1024)


def test_a_system_without_proc_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "nowhere"))
    assert usage.machine_load().memory_used is None and usage.machine_load().memory_total is None
    assert usage.processor_times() is None


def test_busy_is_what_is_neither_idle_nor_waiting_for_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    looks = []
    #                user nice system idle iowait irq softirq steal guest guest_nice
    for ticks in ("100 0 50 800 50 0 0 0 9 1", "160 5 60 900 75 0 0 0 9 3"):
        (tmp_path / "stat").write_text(f"cpu  {ticks}\ncpu0 {ticks}\nintr 5\n")
        looks.append(usage.processor_times())
    assert usage.busy_share(*looks) == pytest.approx(75 / 200)
    assert usage.busy_share(looks[0], looks[0]) is None and usage.busy_share(None, looks[0]) is None


@pytest.mark.slow
def test_this_process_makes_the_machine_busy():
    before = usage.processor_times()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert 0 < usage.busy_share(before, usage.processor_times()) <= 1


class Driver:
    """Stands for the driver's library: two GPUs, of which the second tells little."""

    def __init__(self, monkeypatch):
        self.open = 0
        for name in ("Init", "Shutdown", "DeviceGetCount", "DeviceGetHandleByIndex", "DeviceGetUUID"):
            monkeypatch.setattr(pynvml, f"nvml{name}", getattr(self, name))
        for name in ("MemoryInfo", "UtilizationRates", "ComputeRunningProcesses"):
            monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}", getattr(self, name))

    def Init(self):
        self.open += 1

    def Shutdown(self):
        self.open -= 1

    def DeviceGetCount(self):
        return 2

    def DeviceGetHandleByIndex(self, index):
        return "ab"[index]

    def DeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    def MemoryInfo(self, handle, version):
        assert version == pynvml.nvmlMemory_v2
        self._only_a(handle)
        return SimpleNamespace(used=1024 * MIB, reserved=300 * MIB, total=4096 * MIB)

    def UtilizationRates(self, handle):
        self._only_a(handle)
        return SimpleNamespace(gpu=37, memory=5)

    def ComputeRunningProcesses(self, handle):
        told = {"a": [(11, 100 * MIB), (12, None)], "b": [(11, 20 * MIB), (13, 0)]}[handle]
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in told]

    def _only_a(self, handle):
        if handle != "a":
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def driver(monkeypatch):
    return Driver(monkeypatch)


def test_gpus_as_the_driver_describes_them(driver):
    found = usage.gpu_usage()
    assert found == [
        usage.Gpu(0, "GPU-a", 1024 * MIB, 4096 * MIB, 0.37, {11: 100 * MIB}),
        usage.Gpu(1, "GPU-b", None, None, None, {11: 20 * MIB, 13: 0}),
    ]
    assert usage.gpu_processes(found) == {11: 120 * MIB, 13: 0}
    assert driver.open == 0


def fails(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"])
def test_a_driver_that_fails_is_absent(driver, monkeypatch, name):
    monkeypatch.setattr(pynvml, name, fails)
    assert usage.gpu_usage() == [] and usage.gpu_usage() == []
    assert driver.open == 0


@pytest.mark.slow
def test_a_driver_that_hangs_is_absent_and_one_thread_waits_for_it(driver, monkeypatch):
    monkeypatch.setattr(usage, "PATIENCE_S", 0.1)
    answers, calls = threading.Event(), []
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: calls.append(1) or answers.wait(60) and 2)
    assert usage.gpu_usage() == [] and usage.gpu_usage() == []
    assert len(calls) == 1
    answers.set()
    monkeypatch.setattr(usage, "PATIENCE_S", 5)
    assert len(usage.gpu_usage()) == 2


def test_a_machine_without_a_driver(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", lambda name: ctypes.CDLL(f"{name}.nowhere"))
    assert usage.gpu_usage() == [] and usage.gpu_processes([]) == {}
