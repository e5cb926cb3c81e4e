"""Runs as real processes: whatever is killed, the state is the truth, the slot is freed, and nothing starts twice."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from lps.errors import UserError
from lps.files.atomic import write_json
from lps.files.locks import boot_id, is_held, try_lock
from lps.machine.processes import find_by_command_words, start_ticks
from lps.scheduler import launcher, queue, run_slots
from lps.scheduler.runner import POLL_S
from lps.settings.config import configure
from lps.store.events import read_events
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from tests.patience import LISTENS, is_gone, until
from tests.queued_runs import TRAINER, at_work, make_planned, waiting_runs
from tests.shares import in_turn

pytestmark = pytest.mark.slow

PATIENCE = 20  # seconds; a deadline, never a sleep
SERVER = """
import sys, time
from pathlib import Path
from lps.scheduler import launcher
from lps.store.runs import Run
print("ready", flush=True)
{body}
time.sleep(60)
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_STOP_GRACE", "20")
    monkeypatch.delenv("LPS_CPU_SLOTS", raising=False)
    yield tmp_path / "runs"
    for run in list_runs(tmp_path / "runs"):
        launcher.stop(run, kill=True)
    for run in list_runs(tmp_path / "runs"):
        until(lambda run=run: not is_held(run.lock))


def go(run) -> Run:
    launcher.launch(run, TRAINER)
    return run


def running(root, do="wait", **plan) -> Run:
    """A run whose training process is at work, its signal handler in place."""
    run = at_work(go(make_planned(root, do, **plan)))
    assert run.state().name == "running"
    return run


def over(run, *names):
    state = launcher.wait_for_end(run, PATIENCE)
    assert state.name in names, (state, run.log.read_text() if run.log.exists() else "")
    return state


def pids(run):
    process = until(lambda: run.read_json("process.json") if run.read_json("process.json").get("trainer_pid") else None)
    return process["runner_pid"], process["trainer_pid"]


def waker_of(root) -> int:
    """The pid of the process that looks after the queue of `root`."""
    return until(lambda: next(iter(wakers(root)), None))


def wakers(root) -> list[int]:
    return [pid for pid in find_by_command_words("lps.scheduler.queue_daemon", str(root)) if not is_gone(pid)]


def is_suspended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def children_of(run) -> list[int]:
    path = run.folder / "children.txt"
    return [int(pid) for pid in until(lambda: path.exists() and path.read_text()).split()]


def starts(root) -> list[str]:
    path = root / "starts.txt"
    return path.read_text().split() if path.exists() else []


def server(body: str, **options) -> subprocess.Popen:
    """A process that launches runs, as the dashboard's server does."""
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS + SERVER.format(body=body)],
        stdout=subprocess.PIPE,
        cwd=launcher.SOURCE,
        **options,
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def end(process: subprocess.Popen, number=signal.SIGKILL):
    process.send_signal(number)
    process.wait(PATIENCE)
    process.stdout.close()


def test_a_run_goes_from_queued_to_finished(root):
    run = create_run(root, configure({"device": "cpu", "processes": 2}))  # on CPUs one slot is enough for them
    assert run.state().name == "queued"
    go(run)
    state = over(run, "finished")
    assert (state.attempt, state.reason, state.kind) == (1, "", "")
    record, process = run.read_json("exit.json"), run.read_json("process.json")
    assert (record["code"], record["signal"], record["forced"]) == (0, None, False)
    assert process["slot"] == "cpu-0" and process["attempt"] == 1 and process["boot_id"]
    assert run.log.read_text() == "doing finish\n"
    assert set(record) == {"attempt", "state", "kind", "reason", "code", "signal", "forced", "time"}
    assert go(run).state().name == "finished" and starts(root) == [run.id], "launching again starts nothing"
    assert root.stat().st_mode & 0o777 == run.folder.stat().st_mode & 0o777 == 0o700
    assert not list(run.folder.glob(".*"))


def test_stop_ends_with_the_trainers_own_checkpoint(root):
    run = running(root)
    assert wakers(root) == [], "a run alone needs none"
    assert launcher.stop(run).name == "stopping"
    assert launcher.stop(run).name in ("stopping", "stopped")
    assert over(run, "stopped").reason == "stopped by request"
    assert [event["kind"] for event in read_events(run.events)[0]] == ["start", "stop"]
    assert launcher.stop(run).name == "stopped"


def test_a_long_step_is_let_finish_and_the_state_says_how_long_that_may_take(root, monkeypatch):
    monkeypatch.setenv("LPS_STOP_GRACE", "0.2")
    run = running(root, "step", told_s=3, for_s=1)
    state = launcher.stop(run)
    said = "waiting for the current step to finish (up to 3 s); after 9 s, the run is killed"
    assert (state.name, state.reason) == ("stopping", said)
    assert over(run, "stopped").reason == "stopped by request" and not run.read_json("exit.json")["forced"]


def test_a_step_that_takes_longer_than_all_before_is_ended_by_force(root, monkeypatch):
    monkeypatch.setenv("LPS_STOP_GRACE", "0.2")
    run = running(root, "step", told_s=0.2, for_s=60)
    launcher.stop(run)
    assert over(run, "stopped").reason == "did not stop within 0.6 s and was killed"


@pytest.mark.parametrize("kill", [False, True])
def test_a_suspended_trainer_is_woken_to_stop_and_its_children_with_it(root, kill):
    run = running(root, "children")
    everyone = (pids(run)[1], *children_of(run))
    for pid in everyone:
        os.kill(pid, signal.SIGSTOP)
    asked = time.monotonic()
    launcher.stop(run, kill)
    over(run, "stopped")
    assert time.monotonic() - asked < 5
    assert run.read_json("exit.json")["forced"] == kill and all(map(is_gone, everyone))


@pytest.mark.parametrize("kill", [False, True])
def test_a_suspended_runner_is_woken_to_stop(root, kill):
    run = running(root)
    runner, trainer = pids(run)
    os.kill(runner, signal.SIGSTOP)
    until(lambda: is_suspended(runner))
    launcher.ensure_daemon(root)
    time.sleep(0.1)
    assert is_suspended(runner), "that of a run that goes on is left alone"
    launcher.stop(run, kill)
    over(run, "stopped")
    assert run.read_json("exit.json")["forced"] == kill and is_gone(trainer)


def test_a_runner_that_is_suspended_while_it_stops_is_woken_by_whoever_looks(root):
    run = running(root, "hang")
    os.kill(pids(run)[0], signal.SIGSTOP)
    queue.write_desired_state(run, replace(run.desired(), want="kill"))
    time.sleep(3 * POLL_S)
    assert run.state().name == "stopping"
    launcher.ensure_daemon(root)
    until(lambda: run.state().name == "stopped")


def test_kill_does_not_wait_and_is_not_softened_by_a_later_stop(root):
    run = running(root, "step", told_s=1000, for_s=60)
    launcher.stop(run)
    assert launcher.stop(run, kill=True).reason == ""
    launcher.stop(run)
    assert "by request" in over(run, "stopped").reason


@pytest.mark.parametrize(
    ("plan", "kind", "reason"),
    [
        ({"do": "fail"}, "diverged", "the loss is not finite"),
        ({"do": "crash"}, "bug", "ValueError: a bug in the loss"),
        ({"do": "refuse"}, "config", "lr: 0 is too small"),
    ],
)
def test_failures_say_what_happened(root, plan, kind, reason):
    state = over(go(make_planned(root, **plan)), "failed")
    assert state.kind == kind and reason in state.reason


def test_a_trainer_that_cannot_be_started(root):
    run = make_planned(root)
    launcher.launch(run, ("/no/such/program",))
    assert "No such file" in over(run, "failed").reason


def test_spam_is_capped_with_both_ends_kept(root):
    run = go(make_planned(root, "spam", megabytes=14))
    over(run, "finished")
    text = run.log.read_text()
    assert len(text) < 12 * 2**20
    assert text.startswith("doing spam\n") and text.endswith("x\nthe end\n") and "was left out" in text
    assert "\x1b" not in text


def test_kill_9_of_the_runner_takes_the_trainer_along(root):
    run = running(root)
    runner, trainer = pids(run)
    os.kill(runner, signal.SIGKILL)
    state = over(run, "crashed")
    assert state.reason == "the run's processes were killed"
    until(lambda: is_gone(trainer))
    until(lambda: not Path(f"/proc/{runner}").exists())  # no zombie is left in the process that launched


def test_what_a_killed_runner_was_writing_is_cleared_up_by_the_next_run_on_its_slot(root):
    killed, other = running(root, "wait"), make_planned(root)
    os.kill(pids(killed)[0], signal.SIGKILL)
    over(killed, "crashed")
    half = killed.folder / ".exit.json.0a0a0a0a.tmp"
    half.write_text('{"att')
    launcher.launch(other, TRAINER)
    over(other, "finished")
    assert not half.exists() and killed.state().name == "crashed"
    assert (root / ".slots" / "cpu-0.lock").read_text() == other.id


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_ctrl_c_and_a_closed_terminal_end_no_run(root, number):
    run = make_planned(root, "wait")
    process = server(f"launcher.launch(Run(Path({str(run.folder)!r})), {TRAINER!r})", start_new_session=True)
    runner, trainer = pids(run)
    os.killpg(process.pid, number)
    process.wait(PATIENCE)
    process.stdout.close()
    if number != signal.SIGQUIT:
        os.kill(runner, number)
    launcher.stop(run)
    assert over(run, "stopped").kind == ""
    assert is_gone(trainer)


def test_sigterm_to_the_runner_is_a_stop_and_starts_nothing_new(root):
    """A machine that shuts down asks all its processes to end: it shall not be kept busy by the next run."""
    first, second = running(root), go(make_planned(root))
    os.kill(waker_of(root), signal.SIGTERM)
    os.kill(pids(first)[0], signal.SIGTERM)
    state = over(first, "stopped")
    assert (state.kind, state.reason) == ("preempted", "ended by a signal")
    until(lambda: not is_held(first.lock))
    assert second.state().name == "queued" and starts(root) == [first.id]
    launcher.dispatch(root, TRAINER)
    over(second, "finished")


def test_a_folder_removed_by_hand_ends_the_run_and_the_queue_goes_on(root):
    first, second = running(root), go(make_planned(root))
    runner, trainer = pids(first)
    first.folder.rename(root / ".taken-away")
    until(lambda: is_gone(trainer) and is_gone(runner))
    over(second, "finished")
    assert not first.folder.exists() and first.state().name == "unreadable"


def test_a_suspended_runner_whose_folder_is_gone_is_woken_to_end_by_whoever_looks(root):
    """Nothing names it any more but its slot, which it would hold for ever."""
    first, second = running(root), go(make_planned(root))
    runner, trainer = pids(first)
    for pid in (trainer, runner):
        os.kill(pid, signal.SIGSTOP)
    until(lambda: is_suspended(runner))
    shutil.rmtree(first.folder)
    launcher.ensure_daemon(root)
    until(lambda: is_gone(trainer) and is_gone(runner))
    over(second, "finished")
    assert not first.folder.exists()


@pytest.mark.parametrize("name", in_turn(["config.json", "process.json", "events.jsonl", "checkpoints", "lock"], 2))
def test_a_deletion_that_got_stuck_halfway_ends_the_run_as_well(root, name):
    """`rm -r` and `shutil.rmtree` fail where a file comes or goes meanwhile, and leave the rest: perhaps the lock."""
    run = make_planned(root, "wait")
    (run.folder / "checkpoints").mkdir()
    launcher.launch(run, TRAINER)
    until(lambda: run.log.exists() and b"doing" in run.log.read_bytes())
    runner, trainer = pids(run)
    time.sleep(2 * POLL_S)  # what came last has been seen
    if name == "checkpoints":
        (run.folder / name).rmdir()
    else:
        (run.folder / name).unlink()
    gone = time.monotonic()
    until(lambda: is_gone(trainer) and is_gone(runner))
    assert time.monotonic() - gone < 5
    assert "a part of it was removed" in run.read_json("exit.json")["reason"]


def test_runs_wait_for_their_slot_in_order(root, monkeypatch):
    first = running(root)
    rest = [go(make_planned(root, "exclusive")) for _ in range(3)]
    assert [queue.queue_position(run) for run in (first, *rest)] == [None, 0, 1, 2]
    assert launcher.stop(rest[1]) == rest[1].state() and rest[1].state().reason == "cancelled before it started"
    assert waiting_runs(root) == [rest[0], rest[2]]
    with monkeypatch.context() as patch:  # a pump that looked at the queue before the cancel, with a slot free
        patch.setenv("LPS_CPU_SLOTS", "2")
        assert not launcher._start(rest[1], TRAINER, set())
    launcher.stop(first)
    over(rest[2], "finished")
    assert starts(root) == [first.id, rest[0].id, rest[2].id]
    launcher.resume(rest[1], TRAINER)
    assert over(rest[1], "finished").attempt == 2


def test_a_queue_that_is_reordered_paused_and_held_all_the_time_starts_every_run_once(root, monkeypatch):
    """Two servers pump and are killed, three hands move what waits; nothing is lost, doubled or put on a used slot."""
    monkeypatch.setenv("LPS_CPU_SLOTS", "2")
    runs = [make_planned(root, "exclusive", seed=seed) for seed in range(20)]
    queue.set_paused(root, True)
    launcher.launch_all(runs, TRAINER)
    pumping = f"\nwhile True: launcher.dispatch(Path({str(root)!r}), {TRAINER!r}); time.sleep(0.005)"
    servers = [server(pumping) for _ in range(2)]

    def fumble(seed):
        chance = random.Random(seed)
        acts = [
            queue.put_first,
            lambda run: queue.set_priority(run, chance.randrange(3)),
            queue.retry_now,
            lambda run: queue.set_paused(root, chance.random() < 0.5),
        ]
        for _ in range(25):
            with contextlib.suppress(UserError):  # it has begun meanwhile
                chance.choice(acts)(chance.choice(runs))

    with ThreadPoolExecutor(3) as pool:
        hands = [pool.submit(fumble, seed) for seed in range(3)]
        end(servers.pop())
        servers.append(server(pumping))
        for hand in hands:
            hand.result()
    queue.set_paused(root, False)
    for run in runs:
        with contextlib.suppress(UserError):
            queue.retry_now(run)
    for run in runs:
        over(run, "finished")
    for process in servers:
        end(process)
    assert sorted(starts(root)) == sorted(run.id for run in runs)
    assert not list(root.glob(".violation-*"))


def test_the_queue_goes_on_when_a_runner_is_killed_and_nobody_looks(root):
    """Its last act would have been to start the next one."""
    first, second = make_planned(root, "wait"), make_planned(root)
    process = server(
        f"launcher.launch_all([Run(Path(f)) for f in {[str(first.folder), str(second.folder)]}], {TRAINER!r})"
    )
    runner, _ = pids(first)
    until(lambda: starts(root) and second.state().name == "queued" and wakers(root))
    end(process)
    os.kill(runner, signal.SIGKILL)
    over(second, "finished")
    assert first.state().name == "crashed" and starts(root) == [first.id, second.id]
    until(lambda: not wakers(root) and not is_held(root / ".waker.lock"))  # it ends when nothing waits


def test_a_crashed_run_is_tried_again_when_nobody_looks(root, monkeypatch):
    monkeypatch.setenv("LPS_RETRY_S", "0.3")
    run = make_planned(root, "wait")
    process = server(f"launcher.launch(Run(Path({str(run.folder)!r})), {TRAINER!r}, retries=1)")
    runner, _ = pids(run)
    until(lambda: starts(root) and wakers(root))
    end(process)
    write_json(run.folder / "plan.json", {"do": "finish"})
    os.kill(runner, signal.SIGKILL)
    until(lambda: run.state().name == "finished")
    assert run.state().attempt == 2 and starts(root) == [run.id, run.id]
    assert run.desired().retried == 1 and "--- attempt 2" in run.log.read_text()
    until(lambda: not wakers(root))


def test_whoever_waits_for_a_run_waits_for_its_retry_too(root, monkeypatch):
    monkeypatch.setenv("LPS_RETRY_S", "0.1")
    run = make_planned(root, "suicide", signal=signal.SIGKILL)
    launcher.launch(run, TRAINER, retries=2)
    # Out of memory: no second try
    assert launcher.wait_for_end(run, PATIENCE).name == "failed" and starts(root) == [run.id]
    run = make_planned(root, "wait")
    launcher.launch(run, TRAINER, retries=1)
    os.kill(pids(run)[0], signal.SIGKILL)
    write_json(run.folder / "plan.json", {"do": "finish"})
    assert launcher.wait_for_end(run, PATIENCE).name == "finished"


def test_there_is_one_waker_and_another_when_it_was_killed(root):
    first, second = running(root), go(make_planned(root))
    waker = waker_of(root)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: launcher.dispatch(root, TRAINER), range(8)))
    assert wakers(root) == [waker]
    os.kill(waker, signal.SIGKILL)
    until(lambda: not wakers(root))
    launcher.dispatch(root, TRAINER)
    assert waker_of(root) != waker and second.state().name == "queued"
    launcher.stop(second)
    launcher.stop(first)


def test_a_suspended_waker_is_woken_by_whoever_looks_at_the_queue(root):
    first, second = running(root), go(make_planned(root))
    waker, (runner, _) = waker_of(root), pids(first)
    until(lambda: (root / ".waker.lock").read_text())
    os.kill(waker, signal.SIGSTOP)
    os.kill(runner, signal.SIGKILL)
    until(lambda: first.state().name == "crashed" and is_suspended(waker))
    launcher.ensure_daemon(root)
    over(second, "finished")
    assert starts(root) == [first.id, second.id]


def stopped_at_birth(monkeypatch, module: str) -> None:
    """Processes of `module` are suspended before they have done anything."""
    real = subprocess.Popen

    def suspended(command, *arguments, **options):
        process = real(command, *arguments, **options)
        if module in command:
            os.kill(process.pid, signal.SIGSTOP)
        return process

    monkeypatch.setattr(launcher.subprocess, "Popen", suspended)


def test_a_runner_that_was_suspended_before_its_first_record_is_woken_to_stop(root, monkeypatch):
    stopped_at_birth(monkeypatch, "lps.scheduler.runner")
    run = go(make_planned(root))
    assert not (run.folder / "process.json").exists()
    launcher.stop(run)
    assert over(run, "stopped").reason == "cancelled before it started"


def test_a_waker_that_was_suspended_before_its_first_record_is_woken_by_whoever_looks(root, monkeypatch):
    first = running(root)
    until(lambda: not is_held(root / ".waker.lock"))
    stopped_at_birth(monkeypatch, "lps.scheduler.queue_daemon")
    second = go(make_planned(root))
    assert is_held(root / ".waker.lock") and not (root / ".waker.lock").read_text()
    os.kill(pids(first)[0], signal.SIGKILL)
    until(lambda: first.state().name == "crashed")
    launcher.ensure_daemon(root)
    over(second, "finished")


def test_a_record_of_another_process_wakes_nobody(root):
    root.mkdir()
    other = subprocess.Popen(["sleep", "60"])
    os.kill(other.pid, signal.SIGSTOP)
    until(lambda: is_suspended(other.pid))
    about = {"boot_id": boot_id(), "waker_pid": other.pid}
    ticks = start_ticks(other.pid)
    for wrong in ({"waker_ticks": ticks - 1}, {}, {"waker_ticks": ticks, "boot_id": "another"}, {"waker_pid": -1}):
        write_json(root / ".waker.lock", about | wrong)
        launcher.ensure_daemon(root)
    time.sleep(0.1)
    assert is_suspended(other.pid)
    other.kill()
    other.wait()


def test_a_server_killed_between_claim_and_start_loses_nothing(root):
    run = make_planned(root)
    queue.request_attempt(run, "run", 1)
    body = "launcher.subprocess.Popen = lambda *a, **k: (print('claimed', flush=True), time.sleep(60))\n"
    body += f"launcher.dispatch(Path({str(root)!r}))"
    process = server(body)
    assert process.stdout.readline() == b"claimed\n"
    assert run.state().name == "starting"
    end(process)
    assert run.state().name == "queued"
    launcher.dispatch(root, TRAINER)
    assert over(run, "finished").attempt == 1


def test_a_runner_that_cannot_begin_leaves_the_run_queued_without_a_loop(root):
    """No record can be written (as on a full disk): nothing has begun, and the runner must not start itself again."""
    run = make_planned(root)
    queue.request_attempt(run, "run", 1)
    locks = [try_lock(run.lock), try_lock(root / "slot.lock")]
    code = """
import sys
from lps.scheduler import runner
def full(path, value): raise OSError(28, "No space left on device")
runner.write_json = full
runner.launcher.dispatch = lambda *arguments: print("pumped")
sys.exit(runner.main(sys.argv[1:]))
"""
    options = ["--attempt", "1", "--slot", "cpu-0", "--locks", *map(str, locks), "--", *TRAINER]
    command = [sys.executable, "-c", code, str(run.folder), *options]
    done = subprocess.run(command, pass_fds=locks, cwd=launcher.SOURCE, capture_output=True, text=True, check=False)
    for lock in locks:
        os.close(lock)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert run.state().name == "queued" and starts(root) == []


def test_resume_only_what_is_over_and_not_finished(root):
    run = running(root)
    with pytest.raises(UserError, match="is running; only stopped, failed and crashed runs can be resumed"):
        launcher.resume(run)
    launcher.stop(run)
    over(run, "stopped")
    # The runner of an attempt may start the next one with its own trainer, so all attempts have the same one.
    write_json(run.folder / "plan.json", {"do": "nothing"})
    launcher.resume(run, TRAINER)
    state = over(run, "failed")
    assert state.attempt == 2 and "without a result" in state.reason, "an attempt is judged by its own events"
    write_json(run.folder / "plan.json", {"do": "finish"})
    launcher.resume(run, TRAINER)
    assert over(run, "finished").attempt == 3 and "--- attempt 3" in run.log.read_text()
    with pytest.raises(UserError, match="is finished"):
        launcher.resume(run)


def test_no_descriptor_but_the_two_locks_is_handed_on(root):
    run = running(root)
    runner, trainer = pids(run)

    def files(pid):
        return sorted(os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir())

    pipe = [name for name in files(runner) if name.startswith("pipe:")]
    locks = [str(run.lock), str(root / ".slots" / "cpu-0.lock")]
    assert sorted(files(runner)) == sorted(["/dev/null"] * 3 + pipe + locks + [str(run.log)])
    assert not set(locks) & set(files(trainer))


def test_a_device_that_is_not_there_is_refused_before_the_queue(root, no_gpu):
    run = make_planned(root, device="cuda:1")
    with pytest.raises(UserError, match="device: cuda:1 is not available: .*; choices: auto, cpu"):
        launcher.launch(run, TRAINER)
    assert not (run.folder / "want.json").exists()


def test_runs_go_to_the_gpu_that_they_ask_for(root, two_gpus):
    runs = [go(make_planned(root, "environment", device=device)) for device in ("auto", "cuda:1", "cpu")]
    for run in runs:
        over(run, "finished")
    assert [run.read_json("process.json")["slot"] for run in runs] == ["cuda-0", "cuda-1", "cpu-0"]
    seen = [run.log.read_text().split("= ")[1].strip() for run in runs]
    assert seen == ["GPU-a", "GPU-a,GPU-b", os.environ.get("CUDA_VISIBLE_DEVICES", "None")]


def test_a_run_of_two_processes_takes_two_gpus_at_once_and_is_not_overtaken(root, two_gpus):
    """While one GPU is in use it waits, and holds back what could use the other: else it might wait for ever."""
    alone = running(root, device="cuda:1")
    both = create_run(root, configure({"device": "auto", "processes": 2}))
    write_json(both.folder / "plan.json", {"do": "wait"})
    go(both)
    behind = go(make_planned(root, "environment", device="auto"))
    assert (both.state().name, behind.state().name) == ("queued", "queued")
    locks = [root / ".slots" / f"cuda-{number}.lock" for number in (0, 1)]
    assert [is_held(lock) for lock in locks] == [False, True]
    launcher.stop(alone)
    until(lambda: both.log.exists() and b"doing" in both.log.read_bytes())
    assert both.read_json("process.json")["slot"] == "cuda-0,cuda-1" and all(map(is_held, locks))
    seen = Path(f"/proc/{pids(both)[1]}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b" in seen and behind.state().name == "queued"
    launcher.stop(both)
    over(behind, "finished")
    assert starts(root) == [alone.id, both.id, behind.id]
    until(lambda: not any(map(is_held, locks)))  # a runner lets go a moment after its record


def test_more_processes_than_gpus_are_refused_before_the_queue(root, two_gpus):
    run = create_run(root, configure({"device": "cuda", "processes": 3}))
    with pytest.raises(UserError, match="^processes: 3 is more than the 2 GPUs here; every process needs one$"):
        launcher.launch(run, TRAINER)
    assert not (run.folder / "want.json").exists()


def test_a_run_whose_gpus_have_become_fewer_starts_so_that_its_trainer_says_why(root, two_gpus, monkeypatch):
    run = create_run(root, configure({"device": "cuda", "processes": 3}))
    monkeypatch.setattr(launcher, "check_device", lambda *_: None)
    over(go(run), "finished")
    assert run.read_json("process.json")["slot"] == "cuda-0,cuda-1"


@pytest.fixture
def no_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr("lps.machine.devices._cache", None)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def two_gpus(monkeypatch, tmp_path):
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\necho '0, GPU-a, Fake, 1024'\necho '1, GPU-b, Fake, 1024'\n")
    script.chmod(0o755)
    monkeypatch.setattr("lps.machine.devices._cache", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    monkeypatch.setattr("lps.machine.devices._cache", None)


def test_the_number_of_cpu_slots_is_checked(root, monkeypatch):
    for text in ("0", "-1", "two", "1e3", "٢", ""):
        monkeypatch.setenv("LPS_CPU_SLOTS", text)
        with pytest.raises(UserError, match="is not a whole number from 1 to 1024"):
            run_slots.cpu_slots(root)


def test_wait_gives_up_at_its_timeout(root):
    run = make_planned(root)
    assert launcher.wait_for_end(run, 0.05).name == "queued"
