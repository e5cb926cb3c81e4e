"""How many runs the processor takes at a time: by the queue's file or LPS_CPU_SLOTS; one file, one lock, one truth."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from lps.__main__ import main
from lps.errors import UserError
from lps.files.locks import try_lock
from lps.machine import devices
from lps.machine.devices import Device
from lps.scheduler import launcher, overview, queue, run_slots
from lps.settings.config import configure
from lps.store.run_folders import create_run
from tests.queued_runs import asked
from tests.visiting import visit


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("LPS_CPU_SLOTS", raising=False)
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def started(monkeypatch):
    """What would have been started; a slot stays taken as long as the test wants: `hold` of its name."""
    found = []
    monkeypatch.setattr(launcher, "_spawn", lambda run, attempt, slots, *_: found.append((run.id, slots[0].name)))
    monkeypatch.setattr(launcher, "_start_daemon", lambda *_: None)
    monkeypatch.setattr(launcher, "_end_leftovers", lambda *_: None)
    return found


@pytest.fixture
def hold(root):
    locks = []

    def take(name):
        (root / ".slots").mkdir(exist_ok=True)
        locks.append(try_lock(root / ".slots" / f"{name}.lock"))
        return lambda: os.close(locks.pop())

    yield take
    for lock in locks:
        os.close(lock)


class Spawned:
    """In place of `launcher._spawn`: keeps the locks of every run until `end`."""

    def __init__(self):
        self.ids, self.locks = [], []

    def __call__(self, run, attempt, slots, locks, trainer):
        self.ids.append(run.id)
        self.locks += map(os.dup, locks)

    def end(self):
        for lock in self.locks:
            os.close(lock)


def names(root):
    return [slot.name for slot in run_slots.every_slot(root)]


def cores(monkeypatch, number, *gpus):
    monkeypatch.setattr(devices, "available_cores", lambda: number)
    monkeypatch.setattr(devices, "available_gpus", lambda: list(gpus))


def test_one_without_a_word_then_what_is_set_then_what_the_variable_says(root, monkeypatch):
    assert run_slots.cpu_slots(root) == 1 and names(root) == ["cpu-0"]
    queue.set_cpu_slots(root, 3)
    assert run_slots.cpu_slots(root) == 3 and names(root) == ["cpu-0", "cpu-1", "cpu-2"]
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    assert run_slots.cpu_slots(root) == 2 and names(root) == ["cpu-0", "cpu-1"]


def test_it_can_be_set_before_there_are_runs(tmp_path):
    queue.set_cpu_slots(tmp_path / "new", 4)
    assert run_slots.cpu_slots(tmp_path / "new") == 4 and (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("number", [0, -1, 1025, 2.0, True, "2", None, pytest.param(10**5000, id="huge")])
def test_other_numbers_are_refused_and_nothing_is_written(root, number):
    with pytest.raises(UserError, match="^slots: .* is not a whole number from 1 to 1024$"):
        queue.set_cpu_slots(root, number)
    assert not (root / queue.SWITCH).exists()


def test_pausing_and_the_number_leave_each_other_alone(root):
    queue.set_cpu_slots(root, 5)
    queue.set_paused(root, True)
    since = queue.read_switch(root).since
    queue.set_cpu_slots(root, 6)
    assert queue.read_switch(root) == queue.Switch(True, since, cpu_slots=6) and since > 0
    queue.set_paused(root, False)
    assert queue.read_switch(root).cpu_slots == 6
    assert json.loads((root / queue.SWITCH).read_text()).keys() == {"version", "paused", "time", "cpu_slots"}


def test_many_who_set_and_pause_at_once_lose_nothing(root):
    """Each change is read, changed and written under the lock: whoever comes last, the others' word stays."""
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(queue.set_cpu_slots, root, 7) for _ in range(10)]
        jobs += [pool.submit(queue.set_paused, root, True) for _ in range(10)]
        for job in jobs:
            job.result()
    found = queue.read_switch(root)
    assert (found.paused, found.cpu_slots, found.problem) == (True, 7, "")


@pytest.mark.parametrize("slots", ["0", "1025", "true", "2.5", '"2"', "[]", "1e400"])
def test_a_damaged_number_is_told_and_the_next_one_mends_it(root, slots):
    (root / queue.SWITCH).write_text(f'{{"version": 1, "paused": false, "time": 1, "cpu_slots": {slots}}}')
    assert "damaged" in queue.read_switch(root).problem and run_slots.cpu_slots(root) == 1
    queue.set_cpu_slots(root, 2)
    assert queue.read_switch(root).problem == "" and run_slots.cpu_slots(root) == 2


def test_a_file_of_before_is_read_and_a_newer_one_is_left_alone(root):
    (root / queue.SWITCH).write_text('{"paused": true, "time": 7}')
    assert queue.read_switch(root) == queue.Switch(True, 7)
    newer = '{"version": 2, "paused": true, "cpu_slots": {"a": 1}}'
    (root / queue.SWITCH).write_text(newer)
    assert "was made by a newer LPS Studio" in queue.read_switch(root).problem
    for change in (lambda: queue.set_cpu_slots(root, 2), lambda: queue.set_paused(root, True)):
        with pytest.raises(UserError, match="newer LPS Studio"):
            change()
    assert (root / queue.SWITCH).read_text() == newer


def test_as_many_start_as_it_says_and_more_when_it_is_raised(root, started, hold):
    asked(root, *range(5))
    queue.set_cpu_slots(root, 2)
    hold("cpu-0")
    launcher.dispatch(root)
    assert {slot for _, slot in started} == {"cpu-1"}
    queue.set_cpu_slots(root, 3)
    hold("cpu-1")
    started.clear()
    launcher.dispatch(root)
    assert {slot for _, slot in started} == {"cpu-2"}


@pytest.mark.parametrize(
    ("number", "held", "free"),
    [
        (1, ["cpu-2"], 0),
        (2, ["cpu-2"], 1),
        (2, ["cpu-0", "cpu-5"], 0),
        (3, ["cpu-1", "cpu-7"], 1),
        (1, ["cpu-0", "cpu-1", "cpu-2"], 0),
    ],
)
def test_runs_on_slots_that_are_no_more_count_until_they_end(root, hold, number, held, free):
    queue.set_cpu_slots(root, number)
    for name in held:
        hold(name)
    assert set(held) <= set(names(root)) and len(set(names(root)) - set(held)) == free
    looked = overview.read_queue(root).slots
    assert [looked[name] for name in held] == [True] * len(held) and list(looked.values()).count(False) == free


def test_a_slot_that_is_no_more_is_forgotten_when_it_is_free(root, hold):
    queue.set_cpu_slots(root, 1)
    end = hold("cpu-4")
    assert names(root) == ["cpu-4"]
    end()
    assert names(root) == ["cpu-0"]


def test_how_many_train_at_a_time(root, monkeypatch):
    queue.set_cpu_slots(root, 3)
    cores(monkeypatch, 8)

    def on(device, processes=1):
        return configure({"device": device, "processes": processes})

    assert run_slots.num_parallel_runs([], root) == 1 and run_slots.num_parallel_runs([on("cpu")], root) == 3
    gpus = [Device(f"cuda:{n}", "Fake", index=n, uuid=str(n)) for n in range(4)]
    monkeypatch.setattr(run_slots, "available_gpus", lambda: gpus)
    assert run_slots.num_parallel_runs([on("auto")], root) == run_slots.num_parallel_runs([on("cuda")], root) == 4
    assert run_slots.num_parallel_runs([on("cuda", 2)], root) == 2
    assert run_slots.num_parallel_runs([on("cuda:1")], root) == 1
    assert run_slots.num_parallel_runs([on("cuda:1"), on("cuda:2")], root) == 2
    assert run_slots.num_parallel_runs([on("cpu"), on("auto")], root) == 7


def waiting(root, *threads):
    """Runs that wait in this order, with these numbers of threads; None: all cores."""
    runs = [create_run(root, configure({"device": "cpu", "seed": n, "threads": t})) for n, t in enumerate(threads)]
    for run in runs:
        queue.request_attempt(run, "run", 1)
    return [run.id for run in runs]


@pytest.mark.parametrize(
    ("number", "gib", "threads", "expected"),
    [
        (4, 64, (1, 1, 1, 1, 1), 4),
        (4, 64, (2, 2, 2), 2),
        (4, 64, (None, 1, 1), 1),
        (4, 64, (1, None, 1), 1),  # the second one waits for all cores, and the third one behind it
        (4, 64, (1, 3, 1), 1),
        (4, 4, (1, 1, 1, 1), 2),
        (1, 64, (1, 1), 1),
    ],
)
def test_as_many_start_as_their_threads_leave_cores_for(root, monkeypatch, started, number, gib, threads, expected):
    cores(monkeypatch, number)
    monkeypatch.setattr(launcher, "available_cores", lambda: number)
    monkeypatch.setattr(run_slots.memory, "total_memory", lambda: gib << 30)
    monkeypatch.setattr(launcher, "_spawn", spawn := Spawned())
    ids = waiting(root, *threads)
    launcher.dispatch(root)
    assert spawn.ids == ids[:expected]
    spawn.end()


def test_how_many_one_thread_runs_train_at_a_time(root, monkeypatch):
    cores(monkeypatch, 8)
    monkeypatch.setattr(run_slots.memory, "total_memory", lambda: None)
    one, two, every = (configure({"device": "cpu", "threads": threads}) for threads in (1, 2, None))
    assert [run_slots.num_parallel_runs(runs, root) for runs in ([one], [one, two], [one, every])] == [8, 4, 1]
    queue.set_cpu_slots(root, 3)
    assert run_slots.num_parallel_runs([one], root) == run_slots.num_parallel_runs([every], root) == 3


@pytest.mark.parametrize(
    ("number", "threads", "expected"), [(8, (), 1), (8, (2, 1), 4), (8, (2, None), 1), (2, (3,), 1), (7, (2,), 3)]
)
def test_what_is_suggested_fits_the_cores(root, monkeypatch, number, threads, expected):
    cores(monkeypatch, number)
    for seed, count in enumerate(threads):
        run = create_run(root, configure({"device": "cpu", "seed": seed, "threads": count}))
        queue.request_attempt(run, "run", 1)
    found = overview.read_queue(root)
    assert overview.suggested_cpu_slots(found) == expected
    assert overview.suggestion_in_words(found).startswith(f"Suggested: {expected}, ")


def test_runs_for_a_gpu_need_no_cores_of_their_own(root, monkeypatch):
    asked(root, 0, device="auto")
    asked(root, 0, device="cpu", threads=2, epochs=3)
    cores(monkeypatch, 8)
    assert overview.suggested_cpu_slots(overview.read_queue(root)) == 1
    cores(monkeypatch, 8, Device("cuda:0", "Fake"))
    assert overview.suggested_cpu_slots(overview.read_queue(root)) == 4


def test_the_command_sets_it_says_it_and_names_what_goes_before(root, capsys, monkeypatch, started):
    def lps(*words):
        code = main(["queue", "slots", *words, "--runs", str(root)])
        return code, *capsys.readouterr()

    code, out, err = lps()
    assert (code, out) == (0, "1\n") and err.startswith("Suggested: ")
    asked(root, 0)
    assert lps("3")[:2] == (0, "3\n") and queue.read_switch(root).cpu_slots == 3 and len(started) == 1
    assert lps("0") == (2, "", "lps: slots: 0 is not a whole number from 1 to 1024\n")
    assert lps("auto")[:2] == (0, "1\n") and queue.read_switch(root).cpu_slots is None and len(started) == 2
    with pytest.raises(SystemExit):
        lps("automatic")
    assert "automatic is not a whole number" in capsys.readouterr().err.replace("'", "")
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    code, out, err = lps("4")
    assert (code, out) == (0, "2\n") and "LPS_CPU_SLOTS is set and overrides the number stored" in err
    assert main(["queue", "--json", "--runs", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)["cpu_slots"] == 4


def captions(at) -> str:
    return "\n".join(caption.value for caption in at.caption).replace("\\", "")


def test_the_page_sets_it(root, started, monkeypatch):
    asked(root, 0, 1)
    queue.set_paused(root, True)
    at = visit("queue")
    assert "1 run at a time on the processor" in captions(at) and "Suggested: " in captions(at)
    at.number_input(key="queue_slots").set_value(2).run()
    at.button(key="queue_slots_set").click().run()
    assert not at.exception and not at.error
    assert queue.read_switch(root).cpu_slots == 2 and queue.read_switch(root).paused and not started
    assert "2 runs at a time on the processor" in captions(at) and "cpu-1 · free" in captions(at)
    at.button(key="queue_slots_automatic").click().run()
    assert queue.read_switch(root).cpu_slots is None and "(automatic)" in captions(at)


def test_the_page_says_where_the_variable_goes_before(root, monkeypatch):
    monkeypatch.setenv("LPS_CPU_SLOTS", "3")
    at = visit("queue")
    assert "3 runs at a time on the processor, set by LPS_CPU_SLOTS when this dashboard was started" in captions(at)
    assert not [box for box in at.number_input if box.key == "queue_slots"]
    monkeypatch.setenv("LPS_CPU_SLOTS", "two")
    said = visit("queue").error[0].value
    assert "LPS" in said and "is not a whole number from 1 to 1024" in said
