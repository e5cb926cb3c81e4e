"""Memory that the system reports, from tables made here: machines, containers, jobs, both kinds of control groups."""

import signal

import pytest

from lps.machine import memory
from lps.scheduler import failures, runner

CAUSES = ("memory", "restarted", "time was up", "library")


def machine(tmp_path, groups: dict, cgroup: str, available_kib=8 << 20, vmstat=""):
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 16777216 kB\nMemAvailable:   {available_kib} kB\n")
    (proc / "self" / "cgroup").write_text(cgroup)
    (proc / "vmstat").write_text(vmstat)
    for name, text in groups.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return proc, tmp_path / "groups"


GIB = 1 << 30


@pytest.mark.parametrize(
    "groups, expected",
    [
        ({}, 16),
        ({"job/memory.max": f"{4 * GIB}\n"}, 4),
        ({"job/memory.max": "max\n"}, 16),
        ({"job/memory.max": "9223372036854771712"}, 16),
    ],
)
def test_the_memory_of_the_machine_or_of_our_group(tmp_path, groups, expected):
    assert memory.total_memory(*machine(tmp_path, groups, "0::/job\n")) == expected * GIB
    assert memory.total_memory(tmp_path / "nowhere", tmp_path) is None


@pytest.mark.parametrize(
    "groups, cgroup, expected",
    [
        ({}, "", (8 * GIB, False)),
        ({"job/memory.max": f"{4 * GIB}\n", "job/memory.current": f"{GIB}\n"}, "0::/job\n", (3 * GIB, True)),
        ({"job/memory.max": "max\n", "job/memory.current": f"{GIB}\n"}, "0::/job\n", (8 * GIB, False)),
        ({"a/memory.max": f"{GIB}", "a/memory.current": "0", "a/b/memory.max": f"{2 * GIB}", "a/b/memory.current": "0"},
         "0::/a/b\n", (GIB, True)),
        ({"memory/j/memory.limit_in_bytes": f"{2 * GIB}", "memory/j/memory.usage_in_bytes": f"{3 * GIB}"},
         "7:cpu:/\n4:memory:/j\n0::/\n", (0, True)),
        ({"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "5"},
         "4:memory:/\n", (8 * GIB, False)),
    ],
    ids=["no groups", "limit", "no limit", "limit around it", "older kind, over", "older kind, none"],
)  # fmt: skip
def test_free_memory(tmp_path, groups, cgroup, expected):
    assert memory.free_memory(*machine(tmp_path, groups, cgroup)) == expected


def test_a_system_that_does_not_tell(tmp_path):
    assert memory.free_memory(tmp_path, tmp_path) is None and memory.count_oom_kills(tmp_path, tmp_path) is None


@pytest.mark.parametrize(
    "groups, cgroup, vmstat, expected",
    [
        ({"job/memory.events": "oom 3\noom_kill 2\noom_group_kill 0\n"}, "0::/job\n", "oom_kill 9\n", 2),
        ({"memory/j/memory.oom_control": "under_oom 0\noom_kill 5\n"}, "4:memory:/j\n", "oom_kill 9\n", 5),
        ({}, "0::/\n", "nr_free 1\noom_kill 9\n", 9),
        ({}, "0::/\n", "nr_free 1\n", None),
    ],
)
def test_kills_for_want_of_memory(tmp_path, groups, cgroup, vmstat, expected):
    assert memory.count_oom_kills(*machine(tmp_path, groups, cgroup, vmstat=vmstat)) == expected


@pytest.mark.parametrize(
    "number, starved, kind, words, cause",
    [
        (signal.SIGKILL, True, "out_of_memory", "ran out of memory", "memory"),
        (signal.SIGKILL, False, "killed", "signal 9 (SIGKILL)", None),
        (signal.SIGKILL, None, "killed", "most likely the machine ran out of memory", "memory"),
        (signal.SIGTERM, None, "killed", "signal 15 (SIGTERM)", None),
        (signal.SIGSEGV, True, "killed", "signal 11 (SIGSEGV)", "library"),
    ],
)
def test_one_cause_is_named_and_memory_only_where_the_kernel_says_so(number, starved, kind, words, cause):
    end = runner.classify(-number, None, "", memory_ran_out=starved)
    assert (end["state"], end["kind"], end["signal"]) == ("failed", kind, number) and words in end["reason"]
    said = f"{end['reason']}. {failures.advise(kind).cause}"
    assert [word for word in CAUSES if word in said.lower()] == ([cause] if cause else [])
