"""The doctor: every kind of problem, made on purpose, is found and described in one sentence with a fix."""

import dataclasses
import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from lps.__main__ import main
from lps.doctor import checks, environment, runs_folder
from lps.doctor import diagnostic as doctor_finding
from lps.doctor.diagnostic import NOTE, OK, PROBLEM, Machine
from lps.files.atomic import write_json
from lps.files.atomic_folder import draft_folder
from lps.files.locks import try_lock
from lps.machine import devices
from lps.settings.config import configure
from lps.store.run_folders import create_run
from tests.patience import until

FINE = {"said": {}, "cuda": {}}
ABSENT = devices.Device("cuda:0", "", False, "no NVIDIA driver found")
GPU = devices.Device("cuda:0", "H, 80 GiB", uuid="GPU-1")


class Fake(Machine):
    """A machine on which all is well, but for what a test gives it."""

    def __init__(self, runs, **different):
        super().__init__(runs)
        self.versions, self.answer = {}, FINE
        self.found = [devices.Device("cuda:0", "", False, "no NVIDIA driver found")]
        self.space, self.port, self.left = (100 << 30, 10**6), 0, (32 << 30, False)
        for name, value in different.items():
            setattr(self, name, value)

    def version(self, package):
        return self.versions.get(package, "999.0")

    def imports(self, names):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def gpus(self):
        return self.found

    def memory(self):
        return self.left

    def usage(self, folder):
        return self.space


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir(mode=0o700)
    return folder


def findings_of(check, machine):
    """What the row of a check finds."""
    return list(next(row for row in checks.CHECKS if row.look is check).findings(machine))


def found(check, machine, level):
    """(about, says) of what a check finds on a level; whatever is wrong comes with a cure."""
    findings = findings_of(check, machine)
    assert all(finding.mend for finding in findings if finding.level == PROBLEM)
    assert all("\n" not in finding.says + finding.mend for finding in findings)
    return [(finding.about, finding.says) for finding in findings if finding.level == level]


@pytest.mark.slow
def test_a_good_machine_has_no_problem(root):
    findings = list(checks.examine(Fake(root)))
    assert [finding for finding in findings if finding.level == PROBLEM] == []
    assert {"Python", "torch", "imports", "memory", "runs", "disk", "locks", "clock"} <= {f.about for f in findings}


def test_an_old_python(root, monkeypatch):
    monkeypatch.setattr(environment.sys, "version_info", (3, 10, 4, "final", 0))
    assert found(environment.check_python, Fake(root), PROBLEM)[0][1].endswith("is older than 3.11")


@pytest.mark.parametrize(
    "package, version, level",
    [("torch", "2.9.1", PROBLEM), ("torch", None, PROBLEM), ("torchvision", "0.20.0+cpu", PROBLEM),
     ("streamlit", "1.58.0", NOTE), ("umap-learn", None, NOTE)],
)  # fmt: skip
def test_packages_outside_the_ranges(root, package, version, level):
    machine = Fake(root, versions={package: version})
    machine.version = lambda name: version if name == package else "999.0"
    assert [about for about, _ in found(environment.check_packages, machine, level)] == [package]


@pytest.mark.parametrize(
    "version, least, fits",
    [("2.11.0", "2.11", True), ("2.11.0+cu128", "2.11", True), ("2.9.9", "2.11", False), ("0.26", "0.26", True),
     ("10.0", "9.5", True), ("1.67.0rc1", "1.67", True), ("1.66.9", "1.67", False), ("weird", "1.0", False)],
)  # fmt: skip
def test_versions_are_compared_as_numbers(version, least, fits):
    assert (environment.version_numbers(version) >= environment.version_numbers(least)) == fits


def test_requirements_are_read():
    names = dict(environment.parse_requirements(environment.requirement_lines(Path("requirements.txt"))))
    assert set(environment.TRAINING) <= set(names) and names["torch"] == "2.11"
    assert environment.parse_requirements(["# torch>=1", "a>=1.5  # why", "", "-r other.txt", "b"]) == [("a", "1.5")]


def test_a_package_that_cannot_be_imported(root):
    broken = Fake(root, answer={"said": {"torch": "OSError: libc10.so: cannot open", "plotly": ""}, "cuda": {}})
    assert found(environment.check_imports, broken, PROBLEM) == [
        ("torch", "cannot be imported: OSError: libc10.so: cannot open")
    ]
    page = Fake(root, answer={"said": {"plotly": "ImportError: x"}, "cuda": {}})
    assert found(environment.check_imports, page, PROBLEM) == []
    assert found(environment.check_imports, page, NOTE)[0] == ("plotly", "cannot be imported: ImportError: x")
    method = Fake(root, answer={"said": {"torch": "", "lps.methods.lps": "NameError: x"}, "cuda": {}})
    assert found(environment.check_imports, method, PROBLEM) == [("methods/lps.py", "cannot be imported: NameError: x")]
    hung = Fake(root, answer=subprocess.TimeoutExpired("python", 1))
    assert found(environment.check_imports, hung, PROBLEM) == [("imports", "could not be tested (TimeoutExpired)")]


def test_imports_are_really_tried(root):
    answer = Machine(root).imports(["json", "no_such_package"])
    assert answer["said"] == {"json": "", "no_such_package": "ModuleNotFoundError: No module named 'no_such_package'"}


def test_a_package_that_crashes_the_interpreter(root, tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text("import os\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert Machine(root).imports(["crashing"])["said"]["crashing"].startswith(("exit code", "Fatal", "  File"))


@pytest.mark.parametrize(
    "gpus, cuda, level, says",
    [
        ([devices.Device("cuda:0", "", False, "the NVIDIA driver found no GPU")], {}, PROBLEM, "none: the NVIDIA"),
        ([ABSENT], {}, NOTE, "none: no NVIDIA driver found"),
        ([GPU], {"built": "", "available": False, "error": ""}, PROBLEM, "this torch was built without CUDA"),
        (
            [GPU],
            {"built": "12.8", "available": False, "error": "driver too old"},
            PROBLEM,
            "12.8 does not work: driver",
        ),
        ([GPU], {"built": "12.8", "available": False, "error": ""}, PROBLEM, "12.8 does not work: torch finds no GPU"),
        ([GPU], {"built": "12.8", "available": True, "error": ""}, OK, "H, 80 GiB"),
    ],
)
def test_gpus_and_why_they_are_missing(root, gpus, cuda, level, says):
    machine = Fake(root, found=gpus, answer={"said": {}, "cuda": cuda})
    texts = [
        text for check in (environment.check_gpus, environment.check_cuda) for _, text in found(check, machine, level)
    ]
    assert any(text.startswith(says) for text in texts)


@pytest.mark.parametrize("gib, level", [(1, PROBLEM), (3, NOTE), (8, OK)])
def test_memory(root, gib, level):
    assert len(found(environment.check_memory, Fake(root, left=(gib << 30, False)), level)) == 1
    ((_, says),) = found(environment.check_memory, Fake(root, left=(gib << 30, True)), level)
    assert says == f"{gib}.0 GiB free within the limit of this container or job"
    assert len(found(environment.check_memory, Fake(root, left=None), NOTE)) == 1


@pytest.mark.parametrize("free, level", [(1 << 29, PROBLEM), (3 << 30, NOTE), (9 << 30, OK)])
def test_space(root, free, level):
    assert len(found(runs_folder.check_space, Fake(root, space=(free, None)), level)) == 1
    assert found(runs_folder.check_space, Fake(root, space=(free, 3)), PROBLEM)[-1][1].startswith("only 3 more files")


def test_runs_that_others_can_read(root):
    root.chmod(0o755)
    assert found(runs_folder.check_runs_folder, Fake(root), NOTE) == [
        ("runs", f"{root} can be read by others on this machine (mode 0755)")
    ]


def test_runs_of_somebody_else(root, monkeypatch):
    monkeypatch.setattr(runs_folder.os, "geteuid", lambda: os.getuid() + 1)
    assert "belongs to another user" in found(runs_folder.check_runs_folder, Fake(root), PROBLEM)[0][1]


def test_runs_that_are_a_file_or_a_broken_link(tmp_path):
    (tmp_path / "runs").write_text("")
    assert found(runs_folder.check_runs_folder, Fake(tmp_path / "runs"), PROBLEM)[0][1].endswith(
        "is a file, where a folder should be"
    )
    everything = list(checks.examine(Fake(tmp_path / "runs")))
    assert [finding.about for finding in everything if finding.level == PROBLEM] == ["runs"], "and no check breaks off"
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert found(runs_folder.check_runs_folder, Fake(tmp_path / "link"), PROBLEM)[0][1].endswith("is a broken link")


def test_runs_that_are_not_there_yet(tmp_path, monkeypatch):
    assert found(runs_folder.check_runs_folder, Fake(tmp_path / "runs"), PROBLEM) == []
    monkeypatch.setattr(runs_folder.os, "access", lambda *a: False)
    assert "cannot be written to" in found(runs_folder.check_runs_folder, Fake(tmp_path / "runs"), PROBLEM)[0][1]


@pytest.mark.parametrize(
    "operation, number, says",
    [("open", errno.EROFS, "cannot be written to (Read-only"), ("write", errno.ENOSPC, "(No space left"),
     ("fsync", errno.EIO, "(Input/output"), ("replace", errno.EACCES, "(Permission")],
)  # fmt: skip
def test_runs_that_take_no_files(root, monkeypatch, operation, number, says):
    real = getattr(os, operation)

    def fail(*arguments, **more):
        if operation != "open" or ".doctor-" in str(arguments[0]):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **more)

    monkeypatch.setattr(runs_folder.os, operation, fail)
    assert any(says in text for _, text in found(runs_folder.check_runs_folder, Fake(root), PROBLEM))
    monkeypatch.undo()
    assert list(root.iterdir()) == []


def test_a_file_system_without_locks(root, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", fail)
    assert "No locks available" in found(runs_folder.check_runs_folder, Fake(root), PROBLEM)[0][1]


def test_a_network_file_system(tmp_path, monkeypatch):
    kinds = {"/": "ext4", str(tmp_path.resolve()): "nfs4", "/proc": "proc"}
    mounts = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in kinds.items()]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    machine = Fake(tmp_path / "runs")
    assert found(runs_folder.check_file_system, machine, NOTE)[0][1].endswith("is on a network file system (nfs4)")
    assert found(runs_folder.check_file_system, Fake(Path("/")), NOTE) == []


def test_a_slot_that_no_run_explains(root):
    (root / ".slots").mkdir()
    path = root / ".slots" / "cpu-0.lock"
    lock = try_lock(path)
    try:
        ((about, says),) = found(runs_folder.check_locks, Fake(root), PROBLEM)
        assert about == "cpu-0" and f"process {os.getpid()}," in says
    finally:
        os.close(lock)
    assert found(runs_folder.check_locks, Fake(root), PROBLEM) == []


def test_a_slot_that_a_run_explains(root):
    run = create_run(root, configure({}), "")
    write_json(run.folder / "process.json", {"attempt": 1, "slot": "cpu-0"})
    (root / ".slots").mkdir()
    held = [try_lock(run.lock), try_lock(root / ".slots" / "cpu-0.lock")]
    try:
        assert found(runs_folder.check_locks, Fake(root), PROBLEM) == []
        assert ("cpu-0", f"used by {run.id}") in found(runs_folder.check_locks, Fake(root), OK)
    finally:
        for lock in held:
            os.close(lock)


def test_a_process_of_a_run_that_is_over(root):
    run = create_run(root, configure({}), "")
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"LPS_RUN": str(run.folder)})
    try:
        until(lambda: runs_folder.orphaned_processes(Fake(root)))
        assert found(runs_folder.check_leftovers, Fake(root), PROBLEM) == [
            ("processes", f"process {left.pid} belongs to {run.id}, which has ended")
        ]
        lock = try_lock(run.lock)
        assert found(runs_folder.check_leftovers, Fake(root), PROBLEM) == []
        os.close(lock)
    finally:
        left.communicate(b"\n")


def test_what_was_never_finished(root):
    run = create_run(root, configure({}), "")
    (root / ".incoming" / "half.1234").mkdir(parents=True, exist_ok=True)
    (run.folder / ".config.json.ab.tmp").write_text("")
    assert found(runs_folder.check_leftovers, Fake(root), NOTE) == []
    later = Fake(root, now=lambda: time.time() + 2 * 3600)
    assert len(found(runs_folder.check_leftovers, later, NOTE)) == 2


def test_a_draft_of_a_killed_upload_is_listed_with_its_size(root, tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_PICTURES", str(tmp_path / "pictures"))
    draft = tmp_path / "pictures" / ".upload.01234567.tmp"
    draft.mkdir(parents=True)
    (draft / "1.png").write_bytes(bytes(3 << 20))
    ((about, says),) = found(runs_folder.check_leftovers, Fake(root), NOTE)
    assert about == "leftovers" and says.startswith("1 unfinished folder left by killed processes (3 MB), such as ")
    with draft_folder(tmp_path / "pictures", "upload") as held:
        assert str(held) not in str(found(runs_folder.check_leftovers, Fake(root), NOTE))


def test_damaged_files_that_were_set_aside_are_named(root):
    run = create_run(root, configure({}), "")
    run.checkpoints.mkdir()
    path = run.checkpoints / "damaged-step-00000007.pt"
    path.write_bytes(b"x" * 3_000_000)
    assert found(runs_folder.check_leftovers, Fake(root), NOTE) == [
        ("leftovers", f"1 damaged file was set aside (3 MB): {path}")
    ]
    (root / ".pretrained" / "a.partial").mkdir(parents=True)
    (root / ".pretrained" / "a.partial" / "damaged-step-00000001.pt").write_bytes(b"x")
    (run.folder / "damaged-meta-1.json").write_bytes(b"x")
    assert found(runs_folder.check_leftovers, Fake(root), NOTE)[0][1].startswith(
        "3 damaged files were set aside (3 MB): "
    )


def test_runs_that_are_not_well(root):
    crashed = create_run(root, configure({}), "")
    write_json(crashed.folder / "want.json", {"want": "run", "attempt": 1})
    write_json(crashed.folder / "process.json", {"attempt": 1})
    (root / "pictures").mkdir()
    assert found(runs_folder.check_runs, Fake(root), NOTE) == [
        ("runs", "1 unreadable: pictures"),
        ("runs", f"1 crashed: {crashed.id}"),
    ]


def test_data_sets_here_and_not_here(root, tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    ((_, here),), ((_, absent),) = (found(runs_folder.check_datasets, Fake(root), level) for level in (OK, NOTE))
    assert here == "available: digits" and "cifar10" in absent
    batches = tmp_path / "cache" / "downloads" / "cifar10" / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    for name in ("data_batch_1", "test_batch", "batches.meta"):
        (batches / name).write_text("")
    assert "cifar10" in found(runs_folder.check_datasets, Fake(root), OK)[0][1].split(", ")[0]


def test_a_port_that_is_taken(root):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert found(environment.check_port, Fake(root, port=port), NOTE)[0][1].startswith(f"{port} is taken")


def test_a_dashboard_for_the_network(root, monkeypatch):
    assert len(found(environment.check_exposure, Fake(root), OK)) == 1
    monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", "0.0.0.0")
    assert "listens on 0.0.0.0" in found(environment.check_exposure, Fake(root), NOTE)[0][1]


@pytest.mark.parametrize("there, level", [((), OK), (("sbatch",), NOTE), (("sbatch", "squeue", "scancel"), OK)])
def test_slurm(root, monkeypatch, there, level):
    monkeypatch.setattr(environment.shutil, "which", lambda name: name if name in there else None)
    assert len(found(environment.check_cluster, Fake(root), level)) == 1


def test_clocks(root):
    create_run(root, configure({}), "")
    assert len(found(runs_folder.check_clock, Fake(root), OK)) == 1
    assert "in the past" in found(runs_folder.check_clock, Fake(root, now=lambda: 1e9), PROBLEM)[0][1]
    late = Fake(root, now=lambda: time.time() - 7200)
    assert "minutes in the future" in found(runs_folder.check_clock, late, NOTE)[0][1]


def test_a_check_that_fails_stops_no_other(root, monkeypatch):
    def broken(machine):
        raise RuntimeError("surprise")
        yield

    both = checks.Check("broken", broken), checks.Check("clock", runs_folder.check_clock)
    monkeypatch.setattr(checks, "CHECKS", both)
    first, second = checks.examine(Fake(root))
    assert first == doctor_finding.Diagnostic(PROBLEM, "broken", "could not be checked (surprise)")
    assert second.about == "clock"


def test_the_command_and_its_exit_code(root, monkeypatch, capsys):
    fine = doctor_finding.Diagnostic(OK, "a", "fine")
    wrong = doctor_finding.Diagnostic(PROBLEM, "b", "broken", "mend it")
    for findings, code in (([fine], 0), ([fine, wrong], 1)):
        monkeypatch.setattr(checks, "examine", lambda machine, found=findings: iter(found))
        assert main(["doctor", "--runs", str(root)]) == code
        text = capsys.readouterr().out
        assert ("PROBLEM b: broken\n        -> mend it" in text) == bool(code)
        assert main(["doctor", "--json", "--runs", str(root)]) == code
        assert json.loads(capsys.readouterr().out) == {
            "problems": code, "findings": [dataclasses.asdict(finding) for finding in findings]
        }  # fmt: skip


def test_looking_changes_nothing(root):
    run = create_run(root, configure({}), "")
    before = sorted((p.relative_to(root), p.lstat().st_mtime_ns) for p in root.rglob("*"))
    list(checks.examine(Fake(root)))
    assert sorted((p.relative_to(root), p.lstat().st_mtime_ns) for p in root.rglob("*")) == before
    with open(run.lock) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_without_psutil_the_doctor_notes_it_and_lists_unfinished_folders(root, monkeypatch):
    (root / ".incoming" / "half.1234").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "lps.machine.system_queries", None)
    monkeypatch.delattr("lps.machine.system_queries", raising=False)  # an earlier test may have imported it
    later = Fake(root, now=lambda: time.time() + 2 * 3600)
    unfinished, processes = sorted(findings_of(runs_folder.check_leftovers, later), key=lambda finding: finding.says)
    assert unfinished.level == processes.level == NOTE
    assert "1 unfinished folder" in unfinished.says and "could not be checked" in processes.says
    assert [finding.level for finding in findings_of(runs_folder.check_file_system, Fake(root))] == [NOTE]
