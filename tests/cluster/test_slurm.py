"""Requests to a cluster and its answers, with commands that the test writes; test_jobs.py has a real SLURM."""

import contextlib
import json
import os
import re
import shlex
import stat
import subprocess
import sys
import threading
import time

import pytest

from lps.__main__ import main
from lps.cluster import jobs
from lps.cluster.executors import slurm
from lps.cluster.executors.slurm import SlurmJob as Job
from lps.cluster.executors.slurm import SlurmJobCache as Board
from lps.cluster.executors.slurm import read_jobs, read_options
from lps.cluster.jobs import JOB_FILE, BackendUnavailable, state_from_job
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.scheduler import cluster_submit, launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run, list_runs
from tests.patience import until
from tests.queued_runs import waiting_runs

COMMAND = f"""#!{sys.executable}
import json, os, sys, time
from pathlib import Path
here = Path(__file__).resolve()
with open(here.parent / "calls.jsonl", "a") as file:
    said = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    environment = sorted(name for name in os.environ if name.startswith(("SLURM", "LPS_RUN")))
    file.write(json.dumps({{"argv": [here.name, *sys.argv[1:]], "stdin": said, "environment": environment}}) + "\\n")
plan = json.loads(here.with_suffix(".json").read_text())
time.sleep(plan.get("sleep", 0))
sys.stderr.write(plan.get("err", ""))
sys.stdout.write(plan.get("out", ""))
sys.exit(plan.get("code", 0))
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A folder that is all of PATH: `say` puts a command into it, `calls` tells how the commands were called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(slurm, "job_cache", Board())
    monkeypatch.setattr(jobs, "RETRY_S", 0.0)

    class Cluster:
        def say(self, name, out="", **plan):
            (folder / f"{name}.json").write_text(json.dumps({"out": out} | plan))
            (folder / name).write_text(COMMAND)
            (folder / name).chmod(stat.S_IRWXU)

        def calls(self, name):
            path = folder / "calls.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            return [call for call in map(json.loads, lines) if call["argv"][0] == name]

    return Cluster()


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path / "runs", configure({"device": "cpu"}))


def record(run, **more):
    """What a run that was handed over has."""
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": time.time(), "on": "slurm"})
    about = {"token": "t", "name": "a.t", "task": 0, "time": time.time(), "options": [], "job": "7"}
    write_json(run.folder / JOB_FILE, about | more)
    return run


def test_options_become_one_argument_each():
    texts = ["partition=gpu,long", "time=1-12:30", "gpus=a100:2", "cpus=8", "memory=16G", "account=a.b", "qos=high"]
    options = read_options([*texts, "extra=--constraint=[a|b]&c", "extra=--exclusive", "at_once=3", "cpus=4"])
    expected = "--partition=gpu,long --time=1-12:30 --gres=gpu:a100:2 --cpus-per-task=4 --mem=16G --account=a.b"
    assert options.arguments() == [*expected.split(), "--qos=high", "--constraint=[a|b]&c", "--exclusive"]
    assert read_options(options.texts()) == options and read_options([]).arguments() == []


@pytest.mark.parametrize(
    "text",
    [
        "partition=gpu;rm -rf .",
        "partition=gpu\n#SBATCH --uid=0",
        "partition=--wrap=ls",
        "partition=",
        "account=$(id)",
        "qos=a b",
        "time=soon",
        "time=1:2",
        "time=-1",
        "gpus=0",
        "gpus=two",
        "gpus=2,craynetwork:1",
        "nodes=0",
        "tasks=many",
        "cpus=0",
        "cpus=1.5",
        "cpus=\u0663",
        "memory=16 G",
        "memory=0",
        "at_once=0",
        "extra=rm",
        "extra=-n4",
        "extra=--constraint=a b",
        "extra=--constraint=a\n--uid=0",
        "extra=--comment=caf\u00e9",
        "extra=--wrap=ls",
        "extra=--wra=ls",
        "extra=--array=0-9",
        "extra=--output=/etc/passwd",
        "extra=--chdir=/",
        "extra=--no-requeue",
        "extra=--signal=KILL",
        "nodelist=a",
        "partition",
        "=x",
    ],
)
def test_what_is_no_option_is_one_sentence(text):
    with pytest.raises(UserError) as caught:
        read_options([text])
    assert str(caught.value).startswith("slurm") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "texts, places",
    [
        ([], ("--nodes=1", "--ntasks=1")),
        (["nodes=3"], ("--nodes=3", "--ntasks=3")),
        (["tasks=2"], ("--nodes=1", "--ntasks=2")),
    ],
)
def test_a_run_in_parts_asks_for_as_many_tasks(cluster, texts, places):
    cluster.say("sbatch", "7\n")
    slurm.submit(read_options(texts), "a", "", "/t")
    assert tuple(cluster.calls("sbatch")[0]["argv"][3:5]) == places


def test_on_several_nodes_a_run_has_one_part_on_each():
    with pytest.raises(UserError, match="slurm tasks: cannot be combined with nodes"):
        read_options(["nodes=2", "tasks=4"])


def test_processes_that_cannot_be_shared_evenly_are_refused_before_anything_is_written(cluster, tmp_path):
    cluster.say("sbatch", "7\n")
    run = create_run(tmp_path, configure({"device": "cpu", "processes": 3}))
    with pytest.raises(UserError, match="3 cannot be shared evenly among 2 parts"):
        launcher.launch(run, ["true"], on=read_options(["nodes=2"]))
    assert not cluster.calls("sbatch") and run.state().name == "queued" and not (run.folder / "want.json").exists()


def test_each_process_of_a_run_needs_a_gpu_of_its_job(cluster, tmp_path):
    cluster.say("sbatch", "7\n")
    make = [create_run(tmp_path / "runs", configure({"processes": 3, "device": device})) for device in ("auto", "cpu")]
    with pytest.raises(UserError, match="^slurm gpus: 2 is fewer than the 3 processes; each needs one$"):
        launcher.launch(make[0], on=read_options(["gpus=a100:2"]))
    assert not cluster.calls("sbatch") and not (make[0].folder / "want.json").exists()
    launcher.launch(make[0], on=read_options(["gpus=3"]))
    launcher.launch(make[1], on=read_options(["gpus=2"]))
    assert len(cluster.calls("sbatch")) == 2


@pytest.mark.parametrize(
    "limit, seconds",
    [("90", 5400), ("1:30", 90), ("2:00:00", 7200), ("1-0", 86_400), ("1-12", 129_600), ("1-12:30", 131_400)],
)
def test_time_limits_are_read_as_sbatch_reads_them(limit, seconds):
    assert slurm.seconds_of(limit) == seconds
    assert read_options([f"time={limit}"]).get("time") == limit


@pytest.mark.parametrize("limit, notice", [(None, 120), ("8", 120), ("4", 60), ("1", 15), ("0", 120)])
def test_a_short_job_is_told_when_three_quarters_of_its_time_are_over(limit, notice):
    assert slurm.notice_s(limit) == notice


def test_a_submission(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_RESTART_COUNT", "3")
    monkeypatch.setenv("SLURM_CONF", "/etc/x")
    monkeypatch.setenv("LPS_RUN", "/tmp/other")
    cluster.say("sbatch", "123;cluster\n")
    assert slurm.submit(read_options(["time=8", "at_once=2"]), "a.t", "#!/bin/sh\n", "/runs/100%/t", 5) == "123"
    (call,) = cluster.calls("sbatch")
    words = "sbatch --requeue --open-mode=append --nodes=1 --ntasks=1 --signal=TERM@120 --parsable --job-name=a.t"
    words += " --output=/runs/100%%/t-%a.txt --chdir=/ --array=0-4%2 --time=8"
    assert call["argv"] == words.split()
    assert call["stdin"] == "#!/bin/sh\n" and call["environment"] == ["SLURM_CONF"], "nothing of a job around this one"


@pytest.mark.parametrize("answer", ["", "Submitted batch job 12", "12; rm", "12\n13", "-1"])
def test_an_answer_that_is_no_job_id(cluster, answer):
    cluster.say("sbatch", answer)
    with pytest.raises(BackendUnavailable, match="no job id") as caught:
        slurm.submit(read_options([]), "a", "", "/t")
    assert caught.value.outcome_unknown


@pytest.mark.slow
def test_the_script_hands_paths_over_as_they_are(tmp_path):
    """Names that a shell would act on, through a real bash with an srun that prints its arguments."""
    evil = ["$(touch pwned)", "a b'c\"d", "`id`;ls", "new\nline", "--help", "ü"]
    log = tmp_path / "arguments.json"
    (tmp_path / "srun").write_text(
        f"#!{sys.executable}\nimport json, sys; json.dump(sys.argv[1:], open({str(log)!r}, 'w')); sys.exit(3)\n"
    )
    (tmp_path / "srun").chmod(0o700)
    text = slurm.script(
        ["py thon", "-m", "lps.scheduler.runner"], str(tmp_path), evil, "t", ["$HOME", "x y"], read_options([])
    )
    for task, name in enumerate(evil):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": str(task)}
        environment |= {"SLURM_CPUS_PER_TASK": "4"} if task else {}
        ended = subprocess.run(["bash"], input=text, text=True, env=environment, cwd=tmp_path, timeout=20, check=False)
        expected = ["--nodes=1", "--ntasks=1", "--input=none", *(["--cpus-per-task=4"] if task else [])]
        expected += ["py thon", "-m", "lps.scheduler.runner", name, "--token", "t", "--", "$HOME", "x y"]
        assert json.loads(log.read_text()) == expected and ended.returncode == 3, "the exit code is the step's"
    assert not (tmp_path / "pwned").exists()


@pytest.mark.slow
def test_the_script_outlives_a_signal_and_waits_for_its_step(tmp_path):
    (tmp_path / "srun").write_text(
        f"#!{sys.executable}\nimport time; print('up', flush=True); time.sleep(1); exit(5)\n"
    )
    (tmp_path / "srun").chmod(0o700)
    text = slurm.script(["x"], str(tmp_path), ["f"], "t", [], read_options([]))
    (tmp_path / "script").write_text(text)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    job = subprocess.Popen(["bash", tmp_path / "script"], stdout=subprocess.PIPE, env=environment)
    assert job.stdout.readline() == b"up\n"
    job.terminate()
    assert job.wait(20) == 5
    job.stdout.close()


def test_no_sbatch_is_one_sentence(cluster, run):
    assert not slurm.is_here()
    with pytest.raises(UserError, match="^on: slurm is not available: sbatch is not installed here; choices: here$"):
        launcher.launch(run, on=read_options([]))
    assert not (run.folder / "want.json").exists()


def test_a_refusal_names_what_there_is_and_leaves_the_run_as_it_was(cluster, run):
    err = (
        "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid partition\n"
    )
    cluster.say("sbatch", err=err, code=1)
    cluster.say("sinfo", "low\nhigh*\nlow\n")
    with pytest.raises(UserError) as caught:
        launcher.launch(run, on=read_options(["partition=x"]))
    words = "slurm: job submission failed: Batch job submission failed: Invalid partition; choices: high, low"
    assert str(caught.value) == words
    assert not (run.folder / "want.json").exists() and not (run.folder / JOB_FILE).exists()


@pytest.mark.slow
def test_a_submission_without_an_answer_may_have_been_taken(cluster, run, monkeypatch):
    """The wish stays: the job brings the token along, and it is found by its name."""
    monkeypatch.setattr(jobs, "SUBMIT_PATIENCE_S", 0.3)
    cluster.say("sbatch", sleep=20)
    cluster.say("squeue", "")
    with pytest.raises(
        UserError, match="it is unknown whether the cluster accepted the job: sbatch did not respond within 0.3 s"
    ):
        launcher.launch(run, on=read_options([]))
    about = run.read_json(JOB_FILE)
    time.sleep(0.3)
    assert run.state().name == "stopped" and "cut off" in run.state().reason
    cluster.say("squeue", f"12|PENDING|Priority||{about['name']}\n")
    assert run.state().reason == "job 12 waits in SLURM: other jobs are ahead (Priority)"


def test_many_runs_are_one_array_and_know_their_place(cluster, tmp_path):
    cluster.say("sbatch", "40\n")
    runs = [create_run(tmp_path / "runs", configure({"seed": seed, "device": "cpu"})) for seed in range(3)]
    launcher.launch_all(runs, on=read_options(["at_once=2"]), name="a sweep; rm")
    assert [run.read_json(JOB_FILE)["job"] for run in runs] == ["40_0", "40_1", "40_2"]
    (call,) = cluster.calls("sbatch")
    assert "--array=0-2%2" in call["argv"] and "--at_once" not in " ".join(call["argv"])
    name = next(word for word in call["argv"] if word.startswith("--job-name="))
    assert re.fullmatch(r"--job-name=a-sweep--rm\.[0-9a-f]{8}", name)
    listed = next(line for line in call["stdin"].splitlines() if line.startswith("folders="))
    assert shlex.split(listed.removeprefix("folders=(").removesuffix(")")) == [str(run.folder) for run in runs]
    launcher.launch_all(runs, on=read_options([]))
    assert len(cluster.calls("sbatch")) == 1, "what is asked for already is not asked for again"


def test_a_stopped_job_started_here_waits_in_the_queue_of_this_machine(cluster, run, monkeypatch):
    monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
    cluster.say("sbatch", "12\n")
    cluster.say("squeue", "")
    record(run, job="7")
    write_json(run.folder / "process.json", {"attempt": 1, "started": 1000.0})
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "stopped", "time": 1060.0})
    launcher.launch_all([run])
    assert (run.state().name, run.waiting_attempt(), run.desired().on) == ("queued", 2, "")
    assert waiting_runs(run.root) == [run] and not (run.folder / JOB_FILE).exists()
    assert cluster_submit.options_of(run) is None and not cluster.calls("sbatch"), "resuming it stays here from now on"


def test_resuming_a_stopped_job_goes_back_to_the_cluster(cluster, run):
    cluster.say("sbatch", "12\n")
    cluster.say("squeue", "12|PENDING|Priority||a\n")
    record(run, options=["partition=low"])
    write_json(run.folder / "process.json", {"attempt": 1, "started": 1000.0})
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "stopped", "time": 1060.0})
    assert main(["queue", "retry", run.id, "--runs", str(run.root)]) == 0
    assert (run.desired().on, run.desired().attempt, run.read_json(JOB_FILE)["job"]) == ("slurm", 2, "12")
    (call,) = cluster.calls("sbatch")
    assert "--partition=low" in call["argv"] and not run.waiting_attempt()


@pytest.mark.parametrize("more", [{"retries": 2}, {"priority": 1}])
def test_what_only_this_machines_queue_has_is_refused_for_a_cluster(cluster, run, more):
    cluster.say("sbatch", "12\n")
    for launch in (launcher.launch, lambda one, **how: launcher.launch_all([one], **how)):
        with pytest.raises(UserError, match=f"^{next(iter(more))}: . cannot be used on a cluster, which .*remove it"):
            launch(run, on=read_options([]), **more)
    command = ["launch", "--runs", str(run.root), "--on", "slurm", *(f"--{k}={v}" for k, v in more.items())]
    assert main(command) == 2 and list_runs(run.root) == [run], "no folder is made"
    assert not cluster.calls("sbatch")[1:] and not (run.folder / "want.json").exists()


def test_a_sweep_says_what_stays_where_it_waits(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
    cluster.say("sbatch", "40\n")
    cluster.say("squeue", "40_0|PENDING|Priority||a\n40|PENDING|Priority||a\n")
    words = ["sweep", "--runs", str(tmp_path / "runs"), "--set", "device=cpu", "--seeds"]
    assert main([*words, "0,1"]) == 0 and "stay" not in capsys.readouterr().err
    assert main([*words, "0,1,2", "--on", "slurm"]) == 0
    said = "2 runs already wait on this machine and stay there; to move them, stop them and start the sweep again"
    assert said in capsys.readouterr().err
    assert sorted(run.desired().on for run in list_runs(tmp_path / "runs")) == ["", "", "slurm"]
    assert main([*words, "2", "--dry-run"]) == 0
    assert "1 run already waits in SLURM and stays there" in capsys.readouterr().err


def test_lines_about_jobs():
    said = "7|RUNNING|None|node[1-2]|a|b\n8_3|PENDING|Resources||x\n9_[4-6%2]|PENDING|Priority||y\n"
    assert read_jobs(said) == [
        (Job("7", "RUNNING", "", "node[1-2]"), "a|b"),
        (Job("8_3", "PENDING", "Resources", ""), "x"),
        (Job("9_[4-6%2]", "PENDING", "Priority", ""), "y"),
    ]
    assert read_jobs("") == []


@pytest.mark.parametrize("line", ["slurm_load_jobs error", "x|RUNNING||n|a", "7|RUNNING|n", "7|||n|a", "\x1b[2J"])
def test_other_lines_are_no_answer(line):
    with pytest.raises(BackendUnavailable, match="not a line about a job"):
        read_jobs(line)


def test_one_question_serves_all_runs_for_a_while(cluster):
    cluster.say("squeue", "7|RUNNING|None|n|a\n8|PENDING|Priority||b\n")
    board = Board()
    found = []
    readers = [threading.Thread(target=lambda n=n: found.append(board.find(n).state)) for n in ["7", "8"] * 10]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(20)
    assert sorted(found) == ["PENDING"] * 10 + ["RUNNING"] * 10 and len(cluster.calls("squeue")) == 1
    assert cluster.calls("squeue")[0]["argv"][-1] == "--format=%i|%T|%r|%N|%j"


def test_a_job_that_the_kept_answer_does_not_know_is_asked_for(cluster):
    """It may have been submitted after the question."""
    cluster.say("squeue", "7|RUNNING|None|n|a\n")
    board = Board()
    board.find("7")
    cluster.say("squeue", "7|RUNNING|None|n|a\n9|PENDING|None||c\n")
    assert board.find("9").state == "PENDING"


def test_what_a_job_was_at_its_end_is_remembered(cluster):
    cluster.say("squeue", "7|OUT_OF_MEMORY|None|n|a\n")
    board = Board()
    board.find("7")
    cluster.say("squeue", "")
    board._asked = float("-inf")
    board.find("8")
    assert board.find("7").state == "OUT_OF_MEMORY"
    cluster.say("squeue", "7|PENDING|None||a\n")
    board._asked = float("-inf")
    board.find("10")
    assert board.find("7").state == "PENDING", "somebody put it back"


def test_the_accounting_knows_jobs_that_squeue_has_forgotten(cluster):
    cluster.say("squeue", "")
    cluster.say("sacct", "7|COMPLETED|n1\n7|CANCELLED by 0|n2\n71|FAILED|n\n")
    assert Board().find("7") == Job("7", "CANCELLED", "", "n2")
    cluster.say("sacct", err="Slurm accounting storage is disabled", code=1)
    assert Board().find("7") == Job("7")


def test_a_task_that_was_cancelled_before_it_began_is_shown_as_its_array(cluster):
    cluster.say("squeue", "7|CANCELLED|None||a\n7_0|RUNNING|None|n|a\n")
    assert Board().find("7_3").state == "CANCELLED" and Board().find("7_0").state == "RUNNING"
    cluster.say("squeue", "7_0|RUNNING|None|n|a\n")
    assert Board().find("7_3").state == ""


@pytest.mark.parametrize(
    "plan, words",
    [
        ({"sleep": 20}, "squeue did not respond within 0.3 s"),
        ({"code": 1, "err": "slurm_load_jobs error: Unable to contact slurm controller\n"}, "Unable to contact"),
        ({"code": 1}, "exit code 1"),
        ({"out": "garbage\n"}, "not a line about a job"),
    ],
)
def test_a_cluster_that_does_not_answer_is_asked_again_behind_the_readers_back(cluster, monkeypatch, plan, words):
    monkeypatch.setattr(slurm, "PATIENCE_S", 0.3 if "sleep" in plan else 20)
    cluster.say("squeue", **plan)
    board = Board()
    with pytest.raises(BackendUnavailable, match=words):
        board.find("7")
    monkeypatch.setattr(slurm, "PATIENCE_S", 20)
    cluster.say("squeue", "7|RUNNING|None|n|a\n")

    def answer():
        with contextlib.suppress(BackendUnavailable):
            return board.find("7")

    assert until(answer, 20, 0.02).state == "RUNNING" and board.silent_since is None


def test_a_missing_squeue_is_one_sentence(cluster):
    with pytest.raises(BackendUnavailable, match="squeue cannot be run"):
        Board().find("7")


@pytest.mark.parametrize(
    "line, begun, state, words",
    [
        ("PENDING|Resources|", False, "queued", "job 7 waits in SLURM: the nodes are busy (Resources)"),
        ("PENDING|QOSMaxJobsPerUserLimit|", False, "queued", "job 7 waits in SLURM (QOSMaxJobsPerUserLimit)"),
        ("PENDING|BeginTime|", True, "queued", "it may start soon"),
        ("CONFIGURING|None|n1", False, "starting", "job 7 of SLURM on n1"),
        ("RUNNING|None|n1", False, "starting", "job 7 of SLURM on n1"),
        ("RUNNING|None|n1", True, "running", "job 7 of SLURM on n1"),
        ("SUSPENDED|None|n1", True, "running", "job 7 of SLURM on n1"),
        ("COMPLETING|None|n1", True, "stopping", "job 7 of SLURM is ending on n1"),
        ("CANCELLED|None|", False, "stopped", "was cancelled in SLURM, before the run's process started"),
        ("CANCELLED|None|n1", True, "stopped", "job 7 was cancelled in SLURM"),
        ("OUT_OF_MEMORY|None|n1", True, "failed", "more memory than requested"),
        ("TIMEOUT|None|n1", True, "crashed", "time limit"),
        ("NODE_FAIL|None|n1", True, "crashed", "the node failed on n1"),
        ("FAILED|None|n1", True, "crashed", "job 7 ended as FAILED on n1 and the run did not record how it ended"),
        (
            "COMPLETED|None|n1",
            True,
            "crashed",
            "job 7 ended as COMPLETED on n1 and the run did not record how it ended",
        ),
        ("A_NEW_STATE|None|n1", True, "crashed", "job 7 ended as A_NEW_STATE"),
        (None, True, "crashed", "SLURM no longer lists job 7, and the run did not record how it ended"),
    ],
)
def test_the_state_of_a_run_whose_lock_is_not_seen_is_what_the_cluster_says(cluster, run, line, begun, state, words):
    record(run)
    if begun:
        write_json(run.folder / "process.json", {"attempt": 1})
    cluster.say("squeue", f"7|{line}|a.t\n" if line else "")
    assert run.state().name == state and words in run.state().reason


def test_a_record_of_the_end_is_believed_first_and_needs_no_cluster(cluster, run):
    record(run)
    write_json(run.folder / "process.json", {"attempt": 1})
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "finished"})
    assert run.state().name == "finished" and not cluster.calls("squeue")


def test_a_record_that_came_while_the_cluster_was_asked_counts(cluster, run, monkeypatch):
    record(run)
    write_json(run.folder / "process.json", {"attempt": 1})

    def answer(about):
        write_json(run.folder / "exit.json", {"attempt": 1, "state": "finished"})
        return Job("7", "COMPLETED")

    monkeypatch.setattr(slurm, "job_of", answer)
    assert run.state().name == "finished"


def test_a_run_that_its_job_shall_carry_on_waits_though_an_attempt_is_over(cluster, run):
    """As the runner leaves it when the job is preempted: the end of one attempt, and a wish for the next."""
    record(run)
    write_json(run.folder / "process.json", {"attempt": 1})
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "stopped", "kind": "preempted"})
    wish = run.read_json("want.json")
    write_json(run.folder / "want.json", wish | {"attempt": 2})
    for line, state in {
        "COMPLETING|None|n": "queued",
        "PENDING|BeginTime|": "queued",
        "RUNNING|None|n": "starting",
    }.items():
        cluster.say("squeue", f"7|{line}|a.t\n")
        slurm.job_cache._asked = float("-inf")
        assert (run.state().name, run.state().attempt) == (state, 2)


def test_a_cluster_that_does_not_answer_makes_no_end_of_a_run(cluster, run):
    record(run)
    write_json(run.folder / "process.json", {"attempt": 1})
    run.events.write_text("")
    os.utime(run.events, (time.time() - 250, time.time() - 250))
    cluster.say("squeue", code=1, err="slurm_load_jobs error: Unable to contact slurm controller\n")
    state = run.state()
    assert state.name == "unknown" and state.is_alive and not state.is_over
    assert re.fullmatch(
        r"unknown since \d\d:\d\d: slurm_load_jobs error: Unable to contact slurm controller; last record 4 min ago",
        state.reason,
    )
    with pytest.raises(UserError, match="is unknown; only stopped"):
        launcher.resume(run)


def test_the_way_there_and_what_was_never_handed_over(cluster, run):
    record(run, job=None)
    cluster.say("squeue", "")
    assert run.state().reason == "it is being submitted to SLURM" and run.state().name == "queued"
    record(run, job=None, time=time.time() - 3600)
    slurm.job_cache._asked = float("-inf")
    assert run.state().name == "stopped" and "resume does it again" in run.state().reason


@pytest.mark.parametrize(
    "damage", [{"job": 7}, {"job": ["7"]}, {"task": "x"}, {"options": "x"}, {"time": "x", "job": ""}]
)
def test_a_damaged_record_is_no_traceback(cluster, run, damage):
    record(run, **damage)
    cluster.say("squeue", "")
    assert run.state().name in ("queued", "stopped", "crashed")


def test_a_waiting_job_is_cancelled_by_its_own_id_and_a_running_one_left_to_its_runner(cluster, run):
    record(run, job="7_2")
    cluster.say("scancel")
    cluster.say("squeue", "7_2|PENDING|None||a.t\n7_3|PENDING|None||a.t\n")
    launcher.stop(run)
    assert [call["argv"] for call in cluster.calls("scancel")] == [["scancel", "7_2"]]
    assert run.state().reason == "cancelled before it started"
    record(run)
    write_json(run.folder / "process.json", {"attempt": 1})
    cluster.say("squeue", "7|RUNNING|None|n|a.t\n")
    assert launcher.stop(run).name == "stopping" and len(cluster.calls("scancel")) == 1
    launcher.stop(run, kill=True)
    assert cluster.calls("scancel")[1]["argv"] == ["scancel", "7"]


def test_a_stop_that_the_cluster_cannot_be_told_of_stays_a_wish(cluster, run):
    record(run)
    cluster.say("squeue", "7|PENDING|None||a.t\n")
    cluster.say(
        "scancel", code=1, err="scancel: error: Kill job error on job id 7: Unable to contact slurm controller\n"
    )
    with pytest.raises(UserError, match="^slurm: SLURM could not cancel the job .* will stop itself when it can$"):
        launcher.stop(run)
    assert run.desired().want == "stop" and run.desired().on == "slurm"


@pytest.mark.parametrize(
    "said, fate",
    [
        ({"out": "JobId=7 JobState=RUNNING Restarts=0"}, "going"),
        ({"out": "JobId=7 JobState=COMPLETING Restarts=1"}, "requeued"),
        ({"out": "JobId=7 JobState=COMPLETING Restarts=0"}, "ended"),
        ({"code": 1}, "no answer"),
        ({"out": "nonsense"}, "ended"),
    ],
)
def test_what_a_signal_means(cluster, said, fate):
    cluster.say("scontrol", **said)
    assert slurm.fate("7", 0) == fate


def test_a_task_of_an_array_asks_for_itself_alone(cluster, monkeypatch):
    """The last task has the array's number as its job id: asked for by that, SLURM answers for all tasks."""
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1"}.items():
        monkeypatch.setenv(name, value)
    cluster.say("scontrol", out="JobId=7 JobState=RUNNING Restarts=0")
    slurm.own_fate(), slurm.go_back()
    commands = [call["argv"][1:] for call in cluster.calls("scontrol")]
    assert commands == [["--oneliner", "show", "job", "7_1"], ["requeue", "7_1"]]


def test_reasons_of_the_cluster_are_sentences():
    for name in slurm.REASONS:
        _, reason, _ = state_from_job(Job("7", "PENDING", name), False)
        assert reason.endswith(f"({name})")
    assert cluster_submit.options_of.__doc__
