"""The runner's parts without processes: the log, and how an ending is read."""

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lps.files.program_location import SOURCE
from lps.machine.processes import descendants, start_ticks
from lps.scheduler.log_file import Log, readable
from lps.scheduler.runner import classify, last_error
from lps.store.runs import Run

BY_SIGNAL = "the training process was killed by signal"
TRACEBACK = """epoch 1
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    raise KeyError("first")
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise ValueError("second")
ValueError: second
terminate called
"""


def ending(code, kind=None, output="", **more):
    event = kind and {"kind": kind, "failure": "data", "reason": "no images"}
    end = classify(code, event, output, **more)
    return end["state"], end["kind"], end["reason"]


@pytest.mark.parametrize(
    ("arguments", "more", "expected"),
    [
        ((0, "finish"), {}, ("finished", "", "")),
        ((-9, "finish"), {"kill_reason": "hung at its end"}, ("finished", "", "")),
        ((-15, "finish"), {"stop_asked": True}, ("finished", "", "")),
        ((0, "stop"), {"stop_asked": True}, ("stopped", "", "stopped by request")),
        ((0, None), {"stop_asked": True}, ("stopped", "", "stopped by request before training began")),
        ((-15, "start"), {"stop_asked": True}, ("stopped", "", "stopped by request before training began")),
        ((-9, "train"), {"kill_reason": "deaf"}, ("stopped", "", "deaf")),
        ((1, "fail"), {}, ("failed", "data", "no images")),
        ((0, "fail"), {"stop_asked": True}, ("failed", "data", "no images")),
        ((0, "train"), {}, ("failed", "bug", "the training process ended without a result (exit code 0)")),
        ((1, "train", TRACEBACK), {}, ("failed", "bug", "ValueError: second")),
        ((1, "finish", TRACEBACK), {}, ("failed", "bug", "ValueError: second")),
        ((1, "train", TRACEBACK), {"stop_asked": True}, ("failed", "bug", "ValueError: second")),
        ((2, None, "lr: 0 is too small\n"), {}, ("failed", "config", "lr: 0 is too small")),
        ((1, "train", "epoch 2\ndisk_full: no space left for x\n"), {}, ("failed", "disk_full", "no space left for x")),
        ((1, "train", "disk_full: no space left for x\nmore"), {}, ("failed", "bug", "more")),
        ((3, None), {}, ("failed", "bug", "the training process ended with exit code 3 without a message")),
        ((-15, "train"), {}, ("failed", "killed", f"{BY_SIGNAL} 15 (SIGTERM); a user or the system ended it")),
    ],
)
def test_endings(arguments, more, expected):
    assert ending(*arguments, **more) == expected


def test_a_kill_names_memory_as_the_likely_cause():
    end = classify(-signal.SIGKILL, None, "")
    assert (end["code"], end["signal"]) == (None, 9) and "most likely the machine ran out of memory" in end["reason"]


@given(st.text())
def test_any_output_gives_a_printable_reason(text):
    assert last_error(text).isprintable() and last_error("Traceback (most recent call last):\n" + text).isprintable()


def test_readable_shows_what_a_terminal_would():
    printed = b"\x1b[1;31mred\x1b[0m\r\n 10%\r 50%\r100%\n\x1b]0;title\x07a\tb\x00\xff\n"
    assert readable(printed).decode() == "red\n100%\na\tb\ufffd\n"


@given(st.lists(st.binary(max_size=40)))
def test_pieces_do_not_matter(tmp_path_factory, pieces):
    folder = tmp_path_factory.mktemp("log")
    contents = []
    for name, parts in (("pieces", pieces), ("whole", [b"".join(pieces)])):
        log = Log(folder / name)
        for part in parts:
            log.write(part)
        log.close()
        contents.append((folder / name).read_bytes())
    assert contents[0] == contents[1] == readable(contents[0])


def test_the_log_keeps_its_beginning_and_its_end(tmp_path):
    path = tmp_path / "log.txt"
    log = Log(path, head=1000, tail=4000)
    for number in range(5000):
        log.write(f"line {number}\n".encode())
        assert path.stat().st_size <= 5000 + 40
    log.close()
    text = path.read_text().splitlines()
    gap = text.index("[the middle of this log was left out]")
    numbers = [int(line.split()[1]) for line in text[:gap]], [int(line.split()[1]) for line in text[gap + 1 :]]
    assert numbers[0] == list(range(len(numbers[0]))) and len("\n".join(text[:gap])) > 980
    assert numbers[1] == list(range(5000 - len(numbers[1]), 5000)) and len(numbers[1]) > 150


def test_a_second_attempt_goes_on_in_the_same_log_and_an_endless_line_is_broken(tmp_path):
    path = tmp_path / "log.txt"
    for text in (b"first", b"x" * 200_000):
        log = Log(path)
        log.write(text)
        log.close()
    lines = path.read_text().split("\n")
    assert lines[0] == "first" and sum(line.count("x") for line in lines) == 200_000


def test_a_full_disk_costs_the_output_only(tmp_path):
    log = Log(tmp_path / "log.txt")
    log._file.close()
    log._file = open("/dev/full", "ab", buffering=0)
    log.write(b"a line\n")
    log.close()
    assert log.recent == b"a line\n"


def test_descendants_and_ticks():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    assert child.pid in descendants(os.getpid()) and os.getpid() not in descendants(os.getpid())
    assert start_ticks(child.pid) >= start_ticks(os.getpid())
    child.kill()
    child.wait()
    assert start_ticks(child.pid) is None


def test_the_grace_time_is_a_minute_or_what_is_asked_for(monkeypatch, tmp_path):
    for text, seconds in (("2.5", 2.5), ("-1", 0.0), ("soon", 60.0), ("nan", 0.0)):
        monkeypatch.setenv("LPS_STOP_GRACE", text)
        assert Run(tmp_path).grace_s() == seconds


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("70", 210), ("19.5", 60), ("1e9", 3600), ("1e999", 60), ("NaN", 60), ("-70", 60), ('"70"', 60), ("true", 60)],
)
def test_the_grace_time_follows_what_the_training_process_says_of_its_steps(monkeypatch, tmp_path, told, seconds):
    monkeypatch.delenv("LPS_STOP_GRACE", raising=False)
    (tmp_path / "progress.json").write_text(f'{{"stop_s": {told}}}')
    assert Run(tmp_path).grace_s() == seconds


@pytest.mark.slow
def test_a_job_that_was_handed_over_by_an_earlier_version_still_finds_its_program(tmp_path):
    command = [sys.executable, "-m", "lps.scheduler.runner", str(tmp_path), "--token", "of before", "--", "true"]
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, f"{tmp_path.name}: nothing to do for this job\n")
