"""Submit runs as jobs of an executor (lps.cluster.executors), and pass stop requests on to it.

The `want.json` of such a run names the executor, as in `"on": "slurm"`. `job.json` holds the options, the job's name
and id, and a token that the job also gets: a job with an outdated token ignores the run, so a run never has two jobs.
The runner takes the run's lock on its own node; readers on other nodes may not see this lock and ask the executor.
Standard library only.
"""

import contextlib
import secrets
import sys
import time
from collections.abc import Sequence

from lps.cluster import executors
from lps.cluster.job_options import Options
from lps.cluster.jobs import JOB_FILE, BackendUnavailable, Submission
from lps.errors import UserError
from lps.files import disk
from lps.files.atomic import write_json
from lps.files.locks import folder_lock
from lps.files.program_location import SOURCE
from lps.scheduler import queue
from lps.store.runs import Run

RUNNER = (sys.executable, "-m", "lps.scheduler.cluster_attempt")
_MAX_TASKS = 1000  # of an array: the usual limit of a cluster is 1,001


def submit_runs(runs: Sequence[Run], options: Options, trainer: Sequence[str], name: str = "") -> None:
    """Submit the runs that were never asked for and those that ended unfinished; ignore the others.

    One run is a job, several are an array of jobs. All runs are in one folder. Raises `UserError` if the executor
    refuses; the runs are then unchanged.
    """
    for start in range(0, len(runs), _MAX_TASKS):
        _submit_some(runs[start : start + _MAX_TASKS], options, trainer, name)


def _submit_some(runs: Sequence[Run], options: Options, trainer: Sequence[str], name: str) -> None:
    token = secrets.token_hex(4)
    submission = {"token": token, "name": f"{_job_name(name or runs[0].id)}.{token}", "options": options.texts()}
    earlier: dict[Run, tuple[dict, dict]] = {}
    try:
        for run in runs:
            _record_desired_state(run, options.executor, submission, earlier)
        if not earlier:
            return
        jobs = _submit_job(list(earlier), options, trainer, submission)
    except _OutcomeUnknown:
        raise
    except BaseException:
        _restore_files(earlier, token)
        raise
    for task, (run, job) in enumerate(zip(earlier, jobs)):
        _record_submission(run, token, {"job": job, "task": task})


class _OutcomeUnknown(UserError):
    """Raised when it is unknown whether the job was accepted."""


def _submit_job(runs: list[Run], options: Options, trainer: Sequence[str], submission: dict) -> list[str]:
    outputs, token = runs[0].root / f".{options.executor}", submission["token"]
    disk.make_folder(outputs)
    folders, output = tuple(str(run.folder) for run in runs), str(outputs / token)
    submission_work = Submission(submission["name"], folders, token, RUNNER, tuple(trainer), str(SOURCE), output)
    try:
        return executors.executor_named(options.executor).hand_over(submission_work, options)
    except BackendUnavailable as error:
        if error.outcome_unknown:
            raise _OutcomeUnknown(
                options.executor, f"it is unknown whether the cluster accepted the job: {error}"
            ) from None
        raise UserError(options.executor, f"job submission failed: {error}") from None


def _record_desired_state(run: Run, backend_name: str, submission: dict, earlier: dict[Run, tuple[dict, dict]]) -> None:
    """Ask for the next attempt in `want.json` if one is due, and store the previous content in `earlier`."""
    with folder_lock(run.folder):
        previous, state = (run.read_json("want.json"), run.read_json(JOB_FILE)), run.state()
        if previous[0] and (not state.is_over or state.name == "finished"):
            return
        earlier[run] = previous
        # The index in the array is stored now: the submission may be cut off before its answer is recorded.
        write_json(run.folder / JOB_FILE, submission | {"task": len(earlier) - 1, "time": time.time()})
        queue.request_attempt(run, "run", state.attempt + 1 if previous[0] else 1, on=backend_name)


def _record_submission(run: Run, token: str, facts: dict) -> None:
    """Add facts to `job.json`, unless the run has another job by now."""
    with folder_lock(run.folder):
        record = run.read_json(JOB_FILE)
        if record.get("token") == token:
            write_json(run.folder / JOB_FILE, record | facts)


def _restore_files(earlier: dict[Run, tuple[dict, dict]], token: str) -> None:
    for run, previous in earlier.items():
        with contextlib.suppress(OSError), folder_lock(run.folder):
            if run.read_json(JOB_FILE).get("token") != token:
                continue
            for name, value in zip(("want.json", JOB_FILE), previous):
                if value:
                    write_json(run.folder / name, value)
                else:
                    (run.folder / name).unlink(missing_ok=True)


def end_job(run: Run, kill: bool) -> None:
    """Pass the stop in `want.json` on to the executor: cancel a waiting job, or with `kill` any job.

    Raises `UserError` if the executor cannot be reached; the runner still obeys `want.json`.
    """
    on = run.desired().on
    try:
        backend = executors.executor_named(on)
        job = backend.job_of(run.read_json(JOB_FILE)).id
        if job:
            backend.cancel(job, waiting_only=not kill)
    except BackendUnavailable as error:
        message = (
            f"{executors.executor_title(on)} could not cancel the job ({error}); the run will stop itself when it can"
        )
        raise UserError(on, message) from None


def options_of(run: Run) -> Options | None:
    """Return the executor options of a submitted run; None for a run on this machine. Raises `UserError`."""
    on = run.desired().on
    if not on:
        return None
    try:
        return executors.executor_named(on).read_options(run.read_json(JOB_FILE).get("options") or [])
    except BackendUnavailable as error:
        raise UserError("on", str(error)) from None


def _job_name(name: str) -> str:
    """Return a valid job name: letters, digits and a few signs."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)[:60] or "lps"
