"""A place for tests, as an SSH host would be one: a job is a detached process, a folder of jobs says what each does.

What a person does at a real place, a file does here: `full` lets jobs wait, `silent` lets it say nothing, `closed` lets
it take none, and SIGTERM to a job's process takes the machine away. A real one is a file in lps/cluster/executors that
every process knows; this one makes itself known in its jobs (`_main`).
"""

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

from lps.cluster import executors, job_options
from lps.cluster.jobs import BackendUnavailable, Job, JobCache
from lps.errors import UserError
from lps.files.atomic import write_json
from tests.patience import is_gone

NAME, TITLE = "folder_place", "the folder"
COMMANDS = (sys.executable,)
OPTIONS = {"cpus": job_options.option("cpus", "int", None, "number of CPU cores", "[0-9]+", "2", minimum=1)}
INSTEAD = {"retries": "in a folder, which has none", "priority": "in a folder, which takes what comes"}
_CORES = 8


class FolderJob(Job):
    def __init__(self, id, state="", reason=""):
        super().__init__(id, state, reason, executor=TITLE)


class FolderBoard(JobCache):
    kind = FolderJob

    def ask(self):
        if _has("silent"):
            raise BackendUnavailable("the folder says nothing")
        return [(_seen(path), _read(path)["name"]) for path in _jobs().glob("*.json")]


board = FolderBoard()


def _jobs() -> Path:
    return Path(os.environ["LPS_TEST_JOBS"])


def _has(name: str) -> bool:
    return (_jobs() / name).exists()


def _path(job: str) -> Path:
    return _jobs() / f"{job}.json"


def _read(path: Path) -> dict:
    return json.loads(path.read_text())


def _seen(path: Path) -> Job:
    about = _read(path)
    if is_gone(about["pid"]) and about["state"] in FolderJob.WAITING + FolderJob.GOING:
        return FolderJob(path.stem, "LOST")
    return FolderJob(path.stem, about["state"], "the machine is full")


def is_here():
    return "LPS_TEST_JOBS" in os.environ


def read_options(texts):
    return job_options.read_options(NAME, OPTIONS, texts)


def known(option):
    return ["1", "2"] if option == "cpus" else []


def check(options):
    if (options.get("cpus") or 1) > _CORES:
        raise UserError(f"{NAME} cpus", f"{options.get('cpus')} is more than the {_CORES} of the machine")


def hand_over(work, options):
    if _has("closed"):
        raise BackendUnavailable("the folder is closed")
    first = len(list(_jobs().glob("*.json")))
    ids = [f"{first}_{task}" if len(work.folders) > 1 else str(first) for task in range(len(work.folders))]
    for task, job in enumerate(ids):
        _begin(job, work.name, work.command(task), work.source)
    return ids


def _begin(job, name, command, source):
    write_json(_path(job), {"name": name, "state": "waiting", "pid": os.getpid(), "command": command, "source": source})
    # A session of its own, as `ssh HOST setsid ...` would start it; who started it need not live on.
    place = [sys.executable, "-m", "tests.cluster.folder_place", job]
    process = subprocess.Popen([*place, *command], cwd=source, start_new_session=True)
    write_json(_path(job), _read(_path(job)) | {"pid": process.pid})


def job_of(job_record):
    return board.job_of(job_record)


def cancel(job, waiting_only=False):
    about = _read(_path(job))
    if (not waiting_only or about["state"] == "waiting") and not is_gone(about["pid"]):
        write_json(_path(job), about | {"state": "cancelled"})
        os.kill(about["pid"], 15)


def own_job():
    return os.environ["LPS_TEST_JOB"]


def own_fate():
    return "ended" if _read(_path(own_job()))["state"] == "cancelled" else "going"


def go_back():
    about = _read(_path(own_job()))
    _begin(own_job(), about["name"], about["command"], about["source"])


def _main(job, command):
    """In the job: wait for the machine, then be the command, `python -m MODULE ARGUMENTS`."""
    executors.EXECUTORS[NAME] = sys.modules["__main__"]
    os.environ["LPS_TEST_JOB"] = job
    while not _path(job).exists() or _read(_path(job))["pid"] != os.getpid() or _has("full"):
        time.sleep(0.02)
    write_json(_path(job), _read(_path(job)) | {"state": "going"})
    assert command[1] == "-m"
    sys.argv = [command[2], *command[3:]]
    runpy.run_module(command[2], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
