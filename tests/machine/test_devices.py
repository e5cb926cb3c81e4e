"""Devices: the driver's answers become names, labels and reasons; a fake nvidia-smi replaces the driver."""

import os

import pytest

from lps.errors import UserError
from lps.machine import devices
from lps.machine.devices import check_device, list_devices

TWO = "echo '0, GPU-aa11, NVIDIA H200, 143771'\necho '1, GPU-ab22, NVIDIA T4, [N/A]'"


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Install a shell script as nvidia-smi."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "_cache", None)

    def install(script):
        path = tmp_path / "nvidia-smi"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        devices._cache = None

    yield install
    devices._cache = None


def described():
    return [(device.name, device.label, device.uuid) for device in list_devices()[1:]]


def test_two_gpus(driver):
    driver(TWO)
    assert list_devices()[0].name == "cpu" and list_devices()[0].label.startswith("CPU, ")
    assert described() == [("cuda:0", "NVIDIA H200, 140 GiB", "GPU-aa11"), ("cuda:1", "NVIDIA T4", "GPU-ab22")]
    for name in ("auto", "cpu", "cuda", "cuda:0", "cuda:1"):
        check_device(name)
    with pytest.raises(UserError, match="^device: cuda:2 is not available; choices: auto, cpu, cuda:0, cuda:1$"):
        check_device("cuda:2")
    for name, processes in (("auto", 2), ("cuda", 2), ("cpu", 64)):
        check_device(name, processes)
    for name in ("auto", "cuda"):
        with pytest.raises(UserError, match="^processes: 3 is more than the 2 GPUs here; every process needs one$"):
            check_device(name, 3)


@pytest.mark.parametrize(
    ("chosen", "uuids"),
    [("1,0", ["GPU-ab22", "GPU-aa11"]), ("1", ["GPU-ab22"]), ("GPU-aa", ["GPU-aa11"]), ("0,7,1", ["GPU-aa11"])],
)
def test_visible_devices_in_the_order_of_cuda(driver, monkeypatch, chosen, uuids):
    driver(TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert [device.uuid for device in list_devices()[1:]] == uuids
    assert [device.name for device in list_devices()[1:]] == [f"cuda:{n}" for n in range(len(uuids))]


@pytest.mark.parametrize("chosen", ["", "-1", "9", "GPU-", "0,0,"])
def test_hidden_gpus_have_a_reason(driver, monkeypatch, chosen):
    driver(TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    found = list_devices()[1:]
    if chosen == "0,0,":
        assert [device.uuid for device in found] == ["GPU-aa11"]
    else:
        assert not found[0].available and "hides every GPU" in found[0].reason


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo 'NVIDIA-SMI has failed: driver mismatch'; exit 9",
            "the NVIDIA driver reports: NVIDIA-SMI has failed: driver mismatch",
        ),
        ("exit 3", "the NVIDIA driver reports: exit code 3"),
        ("true", "the NVIDIA driver found no GPU"),
        ("echo nonsense", "the NVIDIA driver found no GPU"),
        ("exec /bin/sleep 30", "the NVIDIA driver does not respond (nvidia-smi took more than 0.2 s)"),
    ],
)
def test_a_missing_gpu_has_a_reason(driver, monkeypatch, script, reason):
    monkeypatch.setattr(devices, "PATIENCE_S", 0.2)
    driver(script)
    gpu = list_devices()[1]
    assert (gpu.name, gpu.available, gpu.reason) == ("cuda:0", False, reason)


def test_no_driver_at_all(driver):
    assert list_devices()[1].reason == "no NVIDIA driver found (nvidia-smi is not installed)"
    with pytest.raises(UserError, match="cuda is not available: no NVIDIA driver found .*; choices: auto, cpu$"):
        check_device("cuda")


def test_the_driver_is_asked_once_in_a_while(driver, tmp_path):
    driver(f"echo x >> {tmp_path}/asked\n{TWO}")
    list_devices(), list_devices()
    assert (tmp_path / "asked").read_text() == "x\n"
    list_devices(max_age_s=0)
    assert (tmp_path / "asked").read_text() == "x\nx\n"


def test_cores_are_those_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3}, raising=False)
    assert devices.list_devices(0)[0].label == "CPU, 1 core"


@pytest.mark.parametrize(("given", "expected"), [("1", 1), ("0", None), ("", None), ("many", None), ("100000", None)])
def test_a_job_of_a_cluster_uses_no_more_cores_than_it_got(monkeypatch, given, expected):
    whole = len(os.sched_getaffinity(0))
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", given)
    assert devices.available_cores() == (expected or whole)
