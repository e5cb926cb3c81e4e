"""Runs as jobs of a real SLURM (`.ci/slurm` sets one up): submitted, finished, cancelled, preempted, resumed, told of.

No test here touches a cluster that somebody works on: it has to be the one of `.ci/slurm`.
"""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lps.__main__ import main
from lps.cluster import jobs
from lps.cluster.executors import slurm
from lps.cluster.executors.slurm import read_options
from lps.cluster.jobs import JOB_FILE
from lps.data import feature_store
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.files.locks import is_held
from lps.files.program_location import SOURCE
from lps.scheduler import launcher, queue
from lps.settings.config import configure
from lps.store.events import read_events
from lps.store.run_folders import create_run, delete_run, list_runs
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.studies import sweep_layout, sweeps
from tests.patience import until
from tests.queued_runs import TRAINER, at_work, make_planned, waiting_runs
from tests.shares import in_turn

pytestmark = [pytest.mark.slurm, pytest.mark.slow]
SETUP = Path(__file__).resolve().parents[2] / ".ci" / "slurm"
PATIENCE = 60  # seconds; a deadline, never a sleep
LOW, HIGH = read_options(["partition=low", "time=5"]), read_options(["partition=high", "time=5", "cpus=4"])
WHOLE_NODE = read_options(["partition=low", "time=5", "cpus=4"])
HELD = read_options(["partition=low", "extra=--hold"])


def why_not() -> str:
    """Why there is no cluster to test with; "" where there is one."""
    if shutil.which("sbatch") is None:
        return "sbatch is not installed"
    said = subprocess.run(
        ["scontrol", "show", "config"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    is_ours = any(line.split() == ["ClusterName", "=", "lps"] for line in said.splitlines())
    return "" if is_ours else "the cluster of .ci/slurm does not run"


@pytest.fixture(scope="module", autouse=True)
def cluster():
    if reason := why_not():
        assert not os.environ.get("LPS_TEST_SLURM"), reason
        pytest.skip(reason)
    subprocess.run(["scancel", f"--user={os.getuid()}"], check=True, timeout=60)


@pytest.fixture(autouse=True)
def fresh_board(monkeypatch):
    monkeypatch.setattr(slurm, "job_cache", slurm.SlurmJobCache())
    monkeypatch.setattr(jobs, "MAX_AGE_S", 0.2)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_STOP_GRACE", "20")
    yield tmp_path / "runs"
    jobs = [job for run in list_runs(tmp_path / "runs") if (job := run.read_json(JOB_FILE).get("job"))]
    if jobs:
        subprocess.run(["scancel", *jobs], check=False, capture_output=True)
    until(lambda: not squeue("--states=PENDING,RUNNING"))


def submitted(run: Run, on=LOW) -> Run:
    launcher.launch(run, TRAINER, on=on)
    return run


def running_job(run: Run) -> Run:
    """Return the run once its training process listens to signals and the cluster calls it running."""
    assert until(lambda: at_work(run).state().name == "running")
    return run


def over(run: Run, name: str):
    state = launcher.wait_for_end(run, PATIENCE)
    outputs = "\n".join(path.read_text() for path in (run.root / ".slurm").glob("*.txt"))
    assert state.name == name, (state, outputs, run.log.read_text() if run.log.exists() else "")
    return state


def squeue(*options) -> list[str]:
    """The ids of the jobs that wait, run or end, as the cluster itself says."""
    command = ["squeue", "--noheader", "--array", "--format=%i", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()


def job_of(run: Run) -> str:
    return run.read_json(JOB_FILE)["job"]


def kinds(run: Run) -> list[str]:
    return [event["kind"] for event in read_events(run.events)[0]]


def test_a_run_is_submitted_and_finishes(root):
    run = submitted(make_planned(root))
    assert run.desired().on == "slurm" and job_of(run).isdigit()
    assert over(run, "finished").attempt == 1
    process = run.read_json("process.json")
    assert process["slot"] == f"slurm-{job_of(run)}" and process["boot_id"] and kinds(run) == ["start", "finish"]
    assert launcher.launch(run, TRAINER, on=LOW).name == "finished", "the second call changes nothing"
    assert run.log.read_text() == "doing finish\n" and until(lambda: not squeue())


def test_the_queue_of_this_machine_leaves_it_alone(root, monkeypatch):
    monkeypatch.setenv("LPS_RETRY_S", "0")
    run = make_planned(root)
    write_json(run.folder / "want.json", {"want": "stop", "attempt": 1, "time": 1.0, "retries": 3})
    launcher.launch_all([run], TRAINER, on=HELD)
    assert run.state().name == "queued" and "JobHeldUser" in run.state().reason and run.desired().retries == 3
    assert launcher.dispatch(root, TRAINER) == [] and waiting_runs(root) == [] and not queue.has_pending(root)
    with pytest.raises(UserError, match="only waiting runs"):
        queue.put_first(run)
    assert not (run.folder / "process.json").exists()


def test_a_waiting_job_is_cancelled_and_resumed(root):
    run = submitted(make_planned(root), HELD)
    assert launcher.stop(run).name == "stopped" and run.state().reason == "cancelled before it started"
    until(lambda: not squeue())
    first = job_of(run)
    launcher.resume(run, TRAINER)
    assert job_of(run) != first and run.state().name == "queued" and run.state().attempt == 2
    subprocess.run(["scontrol", "release", job_of(run)], check=True)
    over(run, "finished")


def test_a_stop_lets_the_training_process_write_its_checkpoint(root):
    run = running_job(submitted(make_planned(root, "wait")))
    launcher.stop(run)
    assert over(run, "stopped").reason == "stopped by request" and kinds(run)[-1] == "stop"
    until(lambda: not squeue())
    assert run.state().name == "stopped", "nobody puts it back"


def test_a_kill_ends_a_deaf_training_process(root):
    run = running_job(submitted(make_planned(root, "hang")))
    launcher.stop(run, kill=True)
    assert "ended by request without a checkpoint" in over(run, "stopped").reason
    until(lambda: not squeue())


def test_a_job_cancelled_in_the_cluster_is_no_interruption(root):
    run = running_job(submitted(make_planned(root, "wait")))
    subprocess.run(["scancel", job_of(run)], check=True)
    assert over(run, "stopped").reason == "the job was cancelled in SLURM" and kinds(run)[-1] == "stop"
    waiting = submitted(make_planned(root), HELD)
    subprocess.run(["scancel", job_of(waiting)], check=True)
    reason = f"job {job_of(waiting)} was cancelled in SLURM, before the run's process started"
    assert over(waiting, "stopped").reason == reason


def test_failures_say_what_happened(root):
    state = over(submitted(make_planned(root, "crash")), "failed")
    assert state.kind == "bug" and state.reason == "ValueError: a bug in the loss"


def test_a_job_whose_runner_cannot_begin_is_no_run_that_waits_for_ever(root, monkeypatch):
    monkeypatch.setattr("lps.scheduler.cluster_submit.RUNNER", ("/no/such/python", "-m", "lps.scheduler.runner"))
    run = submitted(make_planned(root))
    state = until(lambda: state if (state := run.state()).is_over else None)
    assert state.name == "crashed" and "ended as FAILED" in state.reason and "before the run's process" in state.reason


def test_a_killed_runner_is_a_crash_that_can_be_resumed(root):
    run = running_job(submitted(make_planned(root, "wait")))
    os.kill(run.read_json("process.json")["runner_pid"], 9)
    state = until(lambda: state if (state := run.state()).is_over else None)
    assert state.name == "crashed" and f"job {job_of(run)} ended as FAILED" in state.reason
    write_json(run.folder / "plan.json", {"do": "finish"})
    launcher.resume(run, TRAINER)
    assert over(run, "finished").attempt == 2


@pytest.mark.parametrize("option, words", [("partition=nope", "choices: low"), ("gpus=3", "configuration")])
def test_what_the_cluster_refuses_leaves_the_run_as_it_was(root, option, words):
    run = make_planned(root)
    before = sorted(path.name for path in run.folder.iterdir())
    with pytest.raises(UserError, match=f"job submission failed: .*{words}"):
        launcher.launch(run, TRAINER, on=read_options([option]))
    assert sorted(path.name for path in run.folder.iterdir()) == before
    with pytest.raises(UserError, match=f"the cluster rejected the job: .*{words}"):
        slurm.check(read_options([option]))
    stopped = submitted(make_planned(root), HELD)
    launcher.stop(stopped)
    about, wish = stopped.read_json(JOB_FILE), stopped.desired()
    write_json(stopped.folder / JOB_FILE, about | {"options": [option]})
    with pytest.raises(UserError, match=words):
        launcher.resume(stopped, TRAINER)
    assert stopped.desired() == wish and stopped.state().name == "stopped"
    assert not [name for name in squeue("--format=%j") if name.startswith(stopped.id)]  # not those of other tests


def test_a_job_leaves_a_run_alone_that_has_another_one(root):
    """A submission of which nobody knew whether it was taken, and the one after it."""
    run = submitted(make_planned(root), HELD)
    first = job_of(run)
    write_json(run.folder / JOB_FILE, run.read_json(JOB_FILE) | {"token": "another"})
    subprocess.run(["scontrol", "release", first], check=True)
    until(lambda: not squeue())
    assert not (run.folder / "process.json").exists() and not is_held(run.lock)


def test_a_submission_that_was_cut_off_is_found_by_its_name(root):
    run = submitted(make_planned(root, "wait"), HELD)
    about = run.read_json(JOB_FILE)
    write_json(run.folder / JOB_FILE, {key: value for key, value in about.items() if key != "job"})
    assert run.state().name == "queued" and about["job"] in run.state().reason
    launcher.stop(run)
    until(lambda: not squeue())


def test_a_live_job_cannot_be_deleted(root):
    run = running_job(submitted(make_planned(root, "wait")))
    with pytest.raises(UserError, match="stop it before"):
        delete_run(run)


@pytest.mark.parametrize("partition", in_turn(["low", "stubborn"], 2), ids=["with notice", "without notice"])
def test_a_preempted_run_is_queued_again_and_goes_on(root, partition):
    run = running_job(submitted(make_planned(root, "wait"), read_options([f"partition={partition}", "cpus=4"])))
    job = job_of(run)
    urgent = submitted(make_planned(root, for_s=1), HIGH)
    seen = set()
    write_json(run.folder / "plan.json", {"do": "finish"})
    until(lambda: seen.add(run.state().name) or run.state().name == "finished")
    assert "queued" in seen and not seen & {"stopped", "crashed", "failed"}
    assert over(run, "finished").attempt == 2 and job_of(run) == job, "the same job"
    assert kinds(run) == ["start", "stop", "start", "finish"] and run.desired().on == "slurm"
    over(urgent, "finished")
    assert urgent.read_json("exit.json")["time"] < run.read_json("exit.json")["time"]


@pytest.mark.turn(0, 2)
def test_a_run_in_two_parts_is_stopped_preempted_and_ends_with_the_numbers_of_two_processes_here(root, monkeypatch):
    """Two tasks of one job, as if they were two nodes: real training, real ranks, one checkpoint."""
    from tests.short_runs import assert_same_end  # torch and scikit-learn, which every worker would import

    settings = {"epochs": 3, "pretrain.epochs": 1, "threads": 1, "device": "cpu", "lr": 0.001, "processes": 2}
    here, run = (create_run(root, configure(settings)) for _ in range(2))
    trainer = launcher.TRAINER
    launcher.launch(here, trainer)
    assert launcher.wait_for_end(here, 240).name == "finished", here.log.read_text()

    def step() -> int:
        now = run.read_json("progress.json")
        return now.get("step", 0) if now.get("phase") == "train" and run.state().name == "running" else 0

    launcher.launch(run, trainer, on=read_options(["partition=low", "time=5", "tasks=2", "cpus=2"]))
    until(step, 120)
    launcher.stop(run)
    assert over(run, "stopped").attempt == 1 and kinds(run)[-1] == "stop"
    before = run.read_json("progress.json")["step"]
    launcher.resume(run)
    until(lambda: step() > before, 120)
    urgent = submitted(make_planned(root, for_s=1), HIGH)
    over(urgent, "finished")
    assert launcher.wait_for_end(run, 240).name == "finished", run.log.read_text()
    assert (run.state().attempt, kinds(run).count("stop")) == (3, 2), (kinds(run), run.log.read_text())
    assert_same_end(run, here)


def test_a_time_limit_is_an_interruption_too(root):
    """A job that is told of the end of its time goes back by itself; SLURM may tell it up to a minute early."""
    run = running_job(submitted(make_planned(root, "wait"), read_options(["partition=low", "time=1"])))
    record = until(lambda: run.read_json("exit.json"), 90)
    assert (record["state"], record["kind"]) == ("stopped", "preempted") and "continues" in record["reason"]
    until(lambda: run.state().name == "queued")
    launcher.stop(run)


def test_a_run_that_never_comes_to_a_step_is_not_put_back_for_ever(root, monkeypatch):
    run = running_job(submitted(make_planned(root, "wait")))
    write_json(run.folder / JOB_FILE, run.read_json(JOB_FILE) | {"idle": 2})
    subprocess.run(["scancel", "--signal=TERM", job_of(run)], check=True)
    assert "3 times in a row" in over(run, "stopped").reason
    until(lambda: not squeue())


def test_a_stop_while_it_waits_for_its_next_attempt(root):
    run = running_job(submitted(make_planned(root, "wait"), WHOLE_NODE))
    urgent = submitted(make_planned(root, "wait"), HIGH)
    until(lambda: run.state().name == "queued")
    launcher.stop(run)
    assert run.state().name == "stopped"
    until(lambda: squeue("--states=PENDING,RUNNING") == [job_of(urgent)])


def test_a_sweep_is_one_array_of_jobs(root):
    layout = sweep_layout.read_layout("digits", "lps", "0,1,2", ["device=cpu"])
    plan = {"do": "finish"}
    root.mkdir()
    for item in (started := sweeps.start_sweep(sweeps.plan_sweep(layout, root, "three"), root, TRAINER, on=HELD)).items:
        write_json(item.run.folder / "plan.json", plan)
    ids = [job_of(item.run) for item in started.items]
    array = ids[0].partition("_")[0]
    assert ids == [f"{array}_0", f"{array}_1", f"{array}_2"] and sorted(squeue("--states=PENDING")) == ids
    subprocess.run(["scontrol", "release", array], check=True)
    assert [over(item.run, "finished").attempt for item in started.items] == [1, 1, 1]
    again = sweeps.start_sweep(sweeps.plan_sweep(layout, root, "three"), root, TRAINER, on=LOW)
    assert [item.action for item in again.items] == ["exists"] * 3 and [job_of(item.run) for item in again.items] == ids


def test_a_stopped_job_that_is_started_again_here_runs_here(root):
    layout = sweep_layout.SweepSpec(seeds=(0,), fixed={"device": "cpu"})
    (item,) = sweeps.start_sweep(sweeps.plan_sweep(layout, root, "one"), root, TRAINER, on=HELD).items
    launcher.stop(item.run)
    over(item.run, "stopped")
    write_json(item.run.folder / "plan.json", {"do": "finish"})
    (again,) = sweeps.start_sweep(sweeps.plan_sweep(layout, root, "one"), root, TRAINER).items
    assert again.action == "resumed" and again.run.id == item.run.id
    assert over(again.run, "finished").attempt == 2 and not again.run.desired().on
    assert not again.run.read_json("process.json")["slot"].startswith("slurm")


def test_the_end_of_one_task_is_not_that_of_the_others(root):
    """`scancel --state=PENDING ARRAY_TASK` would cancel all waiting tasks of the array."""
    runs = [make_planned(root, "wait") for _ in range(4)]
    launcher.launch_all(runs, TRAINER, on=read_options(["partition=low", "at_once=2"]), name="four")
    running_job(runs[0]), running_job(runs[1])
    assert "JobArrayTaskLimit" in until(lambda: runs[3].state().reason)
    launcher.stop(runs[3])
    launcher.stop(runs[0])
    over(runs[0], "stopped")
    assert running_job(runs[2]).state().name == "running" and runs[1].state().name == "running"
    assert runs[3].state().reason == "cancelled before it started"
    subprocess.run(["scancel", job_of(runs[1]).partition("_")[0]], check=True)
    assert [over(run, "stopped").reason for run in runs[1:3]] == ["the job was cancelled in SLURM"] * 2


def test_tasks_of_a_sweep_are_preempted_and_go_on_each_for_itself(root):
    runs = [make_planned(root, "wait") for _ in range(2)]
    launcher.launch_all(runs, TRAINER, on=read_options(["partition=low", "cpus=2"]), name="two")
    ids = [job_of(running_job(run)) for run in runs]
    for run in runs:
        write_json(run.folder / "plan.json", {"do": "finish"})
    urgent = submitted(make_planned(root), HIGH)
    assert [over(run, "finished").attempt for run in runs] == [2, 2] and [job_of(run) for run in runs] == ids
    over(urgent, "finished")


def test_what_is_seen_from_a_machine_that_does_not_see_the_lock(root, monkeypatch):
    monkeypatch.setattr("lps.store.runs.is_held", lambda path: False)
    run = submitted(make_planned(root, "wait"))
    until(lambda: run.state().name == "running")
    assert run.state().reason.startswith(f"job {job_of(run)} of SLURM on ")
    launcher.stop(run)
    assert run.state().name in ("stopping", "stopped")
    assert over(run, "stopped").reason.startswith("stopped by request")


def share(folder: Path, *words) -> list[str]:
    """The parts that an array of three tasks of `lps WORD...` computes; one task is cancelled in its first part."""
    folder.mkdir()
    command = shlex.join([sys.executable, "-m", "tests.shared_parts", *map(str, (folder, *words))])
    options = ["--partition=low", "--time=5", "--array=0-2", f"--chdir={SOURCE}", f"--output={folder}/%a.log"]
    job = subprocess.check_output(["sbatch", "--parsable", *options, "--wrap", command], text=True, timeout=60).strip()
    parts = folder / "parts.txt"
    try:
        until(lambda: parts.exists() and parts.read_text().count("\n") == 3, 200)
        subprocess.run(["scancel", f"{job}_1"], check=True, timeout=60)
        until(lambda: f"{job}_1" not in squeue())
        (folder / "go").touch()
        until(lambda: not squeue(f"--job={job}"), 200)
    finally:
        subprocess.run(["scancel", job], check=False, capture_output=True)
    begun = [line.split() for line in parts.read_text().splitlines()]
    logs = [(folder / f"{task}.log").read_text() for task in "02"]
    assert sorted(task for task, _ in begun[:3]) == ["0", "1", "2"], logs
    computed = [name for task, name in begun if task != "1"]
    assert dict(begun)["1"] in computed and len(computed) == 4, (begun, logs)
    return sorted(computed)


def write_shards(folder: Path) -> Path:
    """Four shards of 16 pictures."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for number in range(4):
        with tarfile.open(folder / f"train-{number}.tar", "w") as archive:
            for key in range(16):
                content = io.BytesIO()
                Image.fromarray(random.integers(0, 256, (8, 8), np.uint8)).save(content, "PNG")
                for suffix, data in ((".png", content.getvalue()), (".cls", b"%d" % (key % 2))):
                    info = tarfile.TarInfo(f"{number}-{key:02d}{suffix}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    return folder


@pytest.mark.turn(0, 2)
def test_an_array_computes_features_together(root, tmp_path, monkeypatch):
    settings = {"dataset.path": write_shards(tmp_path / "pictures"), "dataset.image_size": 8, "device": "cpu"}
    settings |= {"network.name": "digits_resnet", "network.start": "random", "network.image_size": "none"}
    settings |= {"features.weak_views": 2, "features.strong_views": 1}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    words = ["features", "make", "--dataset", "shards", *sets]
    tables = []
    for cache in ("of one", "shared"):
        monkeypatch.setenv("LPS_CACHE", str(tmp_path / cache))
        if cache == "shared":
            views = share(tmp_path / "jobs", *words, "--join")
            assert views == [f"{view}-00000000" for view in ("plain", "strong-0", "weak-0", "weak-1")]
        else:
            assert main(words) == 0
        (entry,) = feature_store.list_stores()
        assert not list(feature_store.stores_folder().glob("*.parts"))
        tables.append({view: entry.store.table(view).read_bytes() for view in entry.rows})
    assert tables[0] == tables[1] and len(tables[0]) == 4


@pytest.mark.turn(1, 2)
def test_an_array_predicts_together(root, tmp_path, trained_run):
    runs = [shutil.copytree(trained_run.folder, tmp_path / name / trained_run.id) for name in ("of one", "shared")]
    pictures, tables = write_shards(tmp_path / "pictures"), [tmp_path / f"{number}.csv" for number in range(2)]
    words = [["predict", "--runs", run.parent, run.name, pictures, "--to", to] for run, to in zip(runs, tables)]
    assert main([*map(str, words[0])]) == 0
    assert share(tmp_path / "jobs", *words[1], "--join") == [f"{number:06d}" for number in range(4)]
    assert tables[0].read_bytes() == tables[1].read_bytes() and tables[0].read_text().count("\n") == 65


@pytest.mark.turn(1, 2)
def test_a_run_on_several_processes_has_them_inside_its_job(root):
    """A node with GPUs is not here; the processes are started and stopped in the same way."""
    from tests.short_runs import FEW

    settings = FEW | {"epochs": 1, "pretrain.epochs": 1, "threads": 2, "device": "cpu", "processes": 2}
    run = create_run(root, configure(settings))
    launcher.launch(run, on=read_options(["partition=low", "cpus=2", "time=10"]))
    state = launcher.wait_for_end(run, 200)
    assert state.name == "finished", (state, run.log.read_text())
    assert kinds(run)[-1] == "finish" and "accuracy/all" in summarize(run)["last"]


def test_the_command_line_hands_a_run_over(root):
    command = [sys.executable, "-m", "lps", "launch", "--runs", str(root), "--on", "slurm", "--slurm", "extra=--hold"]
    command += ["--slurm", "partition=low", "--set", "device=cuda", "--set", "epochs=1"]  # no GPU is needed here
    folder = subprocess.run(command, check=True, capture_output=True, text=True, cwd=launcher.SOURCE).stdout.strip()
    run = Run(Path(folder))
    assert run.state().name == "queued" and job_of(run) in squeue()
    said = subprocess.run(
        [sys.executable, "-m", "lps", "list", "--runs", str(root), "--json"],
        check=True,
        capture_output=True,
        text=True,
        cwd=launcher.SOURCE,
    )
    assert "JobHeldUser" in json.loads(said.stdout)[0]["reason"]


def test_a_cluster_that_does_not_answer(root, monkeypatch):
    """The last test: after its restart a controller takes a minute to forget the jobs that ended meanwhile."""
    monkeypatch.setattr(slurm, "PATIENCE_S", 1.0)
    monkeypatch.setattr(jobs, "RETRY_S", 0.5)
    waiting, running = submitted(make_planned(root), HELD), running_job(submitted(make_planned(root, "wait")))
    finished = submitted(make_planned(root))
    over(finished, "finished")
    assert waiting.state().name == "queued"
    subprocess.run(["scontrol", "shutdown", "slurmctld"], check=True, timeout=60)
    try:
        state = until(lambda: state if (state := waiting.state()).name == "unknown" else None)
        assert state.is_alive and "squeue" in state.reason and state.reason.endswith("no record from the run yet")
        assert finished.state().name == "finished" and running.state().name == "running", "their own records say so"
        monkeypatch.setattr("lps.store.runs.is_held", lambda path: False)  # seen from another node
        assert "last record" in running.state().reason and running.state().name == "unknown"
        with pytest.raises(UserError, match="could not cancel"):
            launcher.stop(running)
        assert launcher.wait_for_end(running, PATIENCE).name == "stopped", "the wish was enough"
        with pytest.raises(UserError, match="submission failed|accepted the job"):
            launcher.launch(make_planned(root), TRAINER, on=LOW)
    finally:
        subprocess.run([SETUP], check=True, timeout=120)
    until(lambda: waiting.state().name == "queued")
