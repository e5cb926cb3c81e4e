"""Run jobs on SLURM with its own commands: sbatch, squeue, scancel, scontrol, sinfo and, if accounting exists, sacct.

SLURM does all scheduling. submitit wraps the same commands, but it sends pickled functions and keeps its own folder of
states and results; a run is already a folder with states and results, and a job only has to start its runner. Standard
library only.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lps.cluster import job_options, jobs
from lps.cluster.job_options import Options, option
from lps.cluster.jobs import BackendUnavailable, Job, JobCache, Submission
from lps.errors import UserError, shorten

NAME, TITLE = "slurm", "SLURM"
COMMANDS = ("sbatch", "squeue", "scancel")
INSTEAD = {
    "retries": "on a cluster, which restarts interrupted runs itself",
    "priority": "on a cluster, which has its own priorities (--slurm qos=NAME)",
}
PATIENCE_S = 5.0  # timeout of a query; without a controller squeue would try for longer
_NOTICE_S = 120  # time between SIGTERM and the time limit, for a checkpoint before the job is requeued
_FIELDS = "%i|%T|%r|%N|%j"  # of squeue: id, state, reason, nodes, name


def is_here() -> bool:
    """Return whether jobs can be submitted from this machine."""
    return shutil.which("sbatch") is not None


def _check_here() -> None:
    """Raise `UserError` if jobs cannot be submitted from this machine."""
    if not is_here():
        raise UserError("on", "slurm is not available: sbatch is not installed here; choices: here")


def check(options: Options) -> None:
    """Ask the cluster whether it would accept such a job, before anything is written; raises `UserError`."""
    _check_here()
    try:
        _call([*_sbatch(options), "--test-only", *options.arguments()], jobs.SUBMIT_PATIENCE_S, "#!/bin/sh\n")
    except BackendUnavailable as error:
        raise UserError("slurm", f"the cluster rejected the job: {error}{_choices(str(error))}") from None


# ---------------------------------------------------------------------------------------------------- options

_NAMES = r"[A-Za-z0-9][A-Za-z0-9_.@+-]*"
_TIME = r"[0-9]+|[0-9]+:[0-9]{2}(:[0-9]{2})?|[0-9]+-[0-9]{1,2}(:[0-9]{2}){0,2}"
_GPUS = rf"({_NAMES}:)?[1-9][0-9]{{0,3}}"
_UNTIL = "time limit of a job; when it is reached, the run continues in another job"
_PARTS = "training processes of one run on one node; default: one process per node"
_RESERVED = (
    "array chdir deadline dependency error export export-file help input job-name kill-on-invalid-dep no-requeue nodes "
    "ntasks ntasks-per-node open-mode output parsable quiet requeue signal test-only usage verbose version wait wrap"
).split()
_EXTRA_FORM = re.compile(r"--[a-z][a-z0-9-]*(=[!-~]+)?", re.ASCII)


def _check_extra(text: str) -> None:
    if not _EXTRA_FORM.fullmatch(text) or len(text) > 500:
        raise UserError("extra", f"{shorten(text)} is not an option of sbatch such as --constraint=a100")
    name = text[2:].partition("=")[0]
    # sbatch accepts abbreviated option names.
    reserved = next((word for word in _RESERVED if word.startswith(name)), None)
    if reserved:
        raise UserError("extra", f"--{reserved} cannot be set because the run's job sets it")


_EXTRA = {"label": "More options of sbatch", "check": _check_extra, "is_list": True}
_COUNT = {"pattern": "[0-9]+", "minimum": 1}
_CPUS = _COUNT | {"example": "8", "maximum": 4096, "label": "CPU cores"}
_AT_ONCE = _COUNT | {"example": "4", "maximum": 10_000, "label": "Runs at a time"}
OPTIONS = {
    one.parameter.name: one
    for one in (
        option("partition", "str", "--partition=", "partition (queue)", rf"{_NAMES}(,{_NAMES})*", "gpu or gpu,long"),
        option("time", "str", "--time=", _UNTIL, _TIME, "90, 2:00:00, 1-12"),
        option("gpus", "str", "--gres=gpu:", "number of GPUs, or kind:number", _GPUS, "2 or a100:2", label="GPUs"),
        option("cpus", "int", "--cpus-per-task=", "number of CPU cores", **_CPUS),
        option("memory", "str", "--mem=", "memory of the node", r"[1-9][0-9]*[KMGT]?", "16G"),
        option("account", "str", "--account=", "account to charge", _NAMES, "lab1"),
        option("qos", "str", "--qos=", "quality of service", _NAMES, "high", label="Quality of service"),
        option("nodes", "int", None, "nodes per run", **_COUNT, example="2", maximum=1024),
        option("tasks", "int", None, _PARTS, **_COUNT, example="2", maximum=1024),
        option("at_once", "int", None, "runs of a sweep at a time", **_AT_ONCE),
        option("extra", "str", "", "more options of sbatch", "(?s).*", "--constraint=a100", **_EXTRA),
    )
}  # fmt: skip


def read_options(texts: Sequence[str]) -> Options:
    """Return the options in texts NAME=VALUE; later ones replace earlier ones, `extra` adds up; raises `UserError`."""
    options = job_options.read_options(NAME, OPTIONS, texts)
    if options.nodes > 1 and options.get("tasks"):
        raise UserError("slurm tasks", "cannot be combined with nodes: a run on several nodes has one task per node")
    return options


def known(option: str) -> list[str]:
    """Return the values that an option can have, the default first; empty if the cluster does not report them."""
    return partitions() if option == "partition" else []


# ---------------------------------------------------------------------------------------------------- answers


@dataclass(frozen=True)
class SlurmJob(Job):
    """A job as squeue or sacct reports it, in SLURM's own words."""

    executor: str = TITLE

    WAITING: ClassVar = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
    GOING: ClassVar = tuple("CONFIGURING RUNNING SIGNALING STAGE_OUT STOPPED SUSPENDED RESIZING EXPEDITING".split())
    ENDING: ClassVar = ("COMPLETING",)
    ENDINGS: ClassVar = {
        "CANCELLED": ("stopped", "", "job {job} was cancelled in SLURM"),
        "REVOKED": ("stopped", "", "job {job} was cancelled in SLURM"),
        "OUT_OF_MEMORY": ("failed", "out_of_memory", "job {job} used more memory than requested; request more"),
        "TIMEOUT": ("crashed", "killed", "job {job} reached its time limit before it could write a record"),
        "DEADLINE": ("crashed", "killed", "job {job} reached its deadline before it could write a record"),
        "NODE_FAIL": ("crashed", "killed", "the node failed{where}"),
        "BOOT_FAIL": ("crashed", "killed", "the node did not start{where}"),
        "PREEMPTED": ("crashed", "killed", "job {job} was preempted and not queued again"),
        "": Job.ENDINGS[""],
    }

    @property
    def why(self) -> str:
        """Explain why the job waits, with SLURM's own reason code."""
        if not self.reason:
            return ""
        return f": {REASONS[self.reason]} ({self.reason})" if self.reason in REASONS else f" ({self.reason})"


REASONS = {
    "Priority": "other jobs are ahead",
    "Resources": "the nodes are busy",
    "BeginTime": "it may start soon",
    "Dependency": "it depends on another job",
    "JobHeldUser": "it is on hold; release it with scontrol release",
    "JobHeldAdmin": "an administrator has put it on hold",
    "PartitionTimeLimit": "its time limit exceeds that of the partition, so it will not start",
    "PartitionNodeLimit": "it requests more than the partition allows, so it will not start",
    "JobArrayTaskLimit": "the allowed number of runs of this sweep is already running",
}


class SlurmJobCache(JobCache):
    """The user's jobs as squeue last listed them."""

    kind = SlurmJob

    def ask(self) -> list[tuple[Job, str]]:
        command = ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", f"--format={_FIELDS}"]
        return read_jobs(_call(command, PATIENCE_S))

    def look_further(self, job: str) -> Job:
        """Return a job as sacct reports it; without a state if sacct does not know it."""
        if shutil.which("sacct") is None:
            return SlurmJob(job)
        fields = ["--allocations", "--parsable2", "--format=JobID,State,NodeList"]
        try:
            answer = _call(["sacct", "--noheader", *fields, f"--jobs={job}"], PATIENCE_S)
        except BackendUnavailable:
            return SlurmJob(job)
        lines = [line.split("|") for line in answer.splitlines()]
        states = [(parts[1].split(" ")[0], parts[2]) for parts in lines if len(parts) == 3 and parts[0] == job]
        return SlurmJob(job, states[-1][0], "", states[-1][1]) if states else SlurmJob(job)

    def look_up(self, job: str, name: str, task: int) -> Job | None:
        """Look a job up, also under its array's number: tasks cancelled before they began are only listed there."""
        match = super().look_up(job, name, task)
        array = self._jobs.get(job.partition("_")[0]) if match is None and "_" in job else None
        return SlurmJob(job, array.state) if array is not None and array.state == "CANCELLED" else match


def read_jobs(answer: str) -> list[tuple[Job, str]]:
    """Return (job, name) for lines of squeue in the form `_FIELDS`; raises `BackendUnavailable` for anything else."""
    named_jobs = []
    for line in answer.splitlines():
        parts = line.strip().split("|", 4)
        if len(parts) != 5 or not re.fullmatch(r"[0-9]+(_[0-9]+|_\[.*\])?(\+[0-9]+)?", parts[0]) or not parts[1]:
            raise BackendUnavailable(f"squeue said {shorten(line)}, which is not a line about a job")
        named_jobs.append((SlurmJob(parts[0], parts[1], "" if parts[2] == "None" else parts[2], parts[3]), parts[4]))
    return named_jobs


job_cache = SlurmJobCache()


def job_of(job_record: dict) -> Job:
    """Return the job that the content of a run's `job.json` describes; raises `BackendUnavailable`."""
    return job_cache.job_of(job_record)


# ---------------------------------------------------------------------------------------------------- commands


def hand_over(work: Submission, options: Options) -> list[str]:
    """Submit one job, or an array of jobs, and return their ids. Raises `BackendUnavailable` with the valid choices."""
    _check_here()
    count = len(work.folders)
    text = script(work.runner, work.source, work.folders, work.token, work.trainer, options)
    try:
        job = submit(options, work.name, text, work.output, count if count > 1 else 0)
    except BackendUnavailable as error:
        raise BackendUnavailable(f"{error}{_choices(str(error))}", error.outcome_unknown) from None
    return [f"{job}_{task}" for task in range(count)] if count > 1 else [job]


def submit(options: Options, name: str, script: str, output: str, tasks: int = 0) -> str:
    """Submit a batch script and return the job's id. tasks: size of the job array, 0 for a single job.

    name: printable, without spaces; output: path, without ending, for the output of the script itself. Raises
    `BackendUnavailable` with the cluster's message.
    """
    command = [*_sbatch(options), "--parsable", f"--job-name={name}"]
    command += [f"--output={output.replace('%', '%%') + ('-%a' if tasks else '')}.txt", "--chdir=/"]
    if tasks:
        at_once = options.get("at_once")
        command.append(f"--array=0-{tasks - 1}" + (f"%{at_once}" if at_once else ""))
    answer = _call([*command, *options.arguments()], jobs.SUBMIT_PATIENCE_S, script)
    match = re.fullmatch(r"([0-9]+)(;[^;\s]*)?", answer.strip(), re.ASCII)
    if not match:
        raise BackendUnavailable(f"sbatch returned no job id: {shorten(answer)}", outcome_unknown=True)
    return match[1]


def _sbatch(options: Options) -> list[str]:
    """Return the command of every job: it requeues after a preemption and signals the job before its time limit."""
    node_options = [f"--nodes={options.nodes}", f"--ntasks={options.parts}"]
    return [
        "sbatch",
        "--requeue",
        "--open-mode=append",
        *node_options,
        f"--signal=TERM@{notice_s(options.get('time'))}",
    ]


def notice_s(limit: str | None) -> int:
    """Return how many seconds before its time limit a job is signaled: a quarter of a short limit."""
    seconds = seconds_of(limit) if limit else 0
    return min(_NOTICE_S, seconds // 4) if seconds else _NOTICE_S


def seconds_of(limit: str) -> int:
    """Return the seconds of a time limit as sbatch reads it: minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s."""
    days, dash, clock = limit.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    weights = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    return int(days or 0) * 86_400 + sum(part * weight for part, weight in zip(parts, weights))


def cancel(job: str, waiting_only: bool = False) -> None:
    """End a job that waits or runs; raises `BackendUnavailable`. A job that is over is no error.

    waiting_only: leave a running job alone. scancel has an option for that, but with it and the id of one task it
    cancels all waiting tasks of the array (seen in version 22.05), so the state is looked up first.
    """
    if waiting_only and not job_cache.find(job, max_age_s=0).is_waiting:
        return
    try:
        _call(["scancel", job], PATIENCE_S * 2)
    except BackendUnavailable as error:
        if "Invalid job id" not in str(error) and "already completing" not in str(error):
            raise


def own_job() -> str:
    """Return the id of the job around this process as squeue shows it.

    Not SLURM_JOB_ID: for the last task of an array that is the array's number, which stands for all of its tasks.
    """
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array else os.environ.get("SLURM_JOB_ID", "")


def go_back() -> None:
    """Put the job around this process back into the queue under the same id; raises `BackendUnavailable`."""
    _call(["scontrol", "requeue", own_job()], PATIENCE_S)


def own_fate() -> str:
    """Return what happens to the job around this process (see `fate`)."""
    return fate(own_job(), int(os.environ.get("SLURM_RESTART_COUNT", "0")))


def fate(job: str, restarts: int) -> str:
    """Return what happens to a job after SIGTERM: "going", "requeued", "ended" or "no answer".

    restarts: how often the job had been restarted when it began. A job that was signaled early (preemption or time
    limit ahead) is still going; one that the cluster requeues itself has one restart more.
    """
    try:
        answer = _call(["scontrol", "--oneliner", "show", "job", job], PATIENCE_S)
    except BackendUnavailable:
        return "no answer"
    fields = dict(re.findall(r"(JobState|Restarts)=(\S+)", answer))
    if fields.get("JobState") in SlurmJob.GOING:
        return "going"
    return "requeued" if int(fields.get("Restarts", 0)) > restarts else "ended"


def partitions() -> list[str]:
    """Return the cluster's partitions, its default first; empty if it does not report them."""
    try:
        lines = _call(["sinfo", "--noheader", "--format=%P"], PATIENCE_S).split()
    except BackendUnavailable:
        return []
    lines.sort(key=lambda line: not line.endswith("*"))
    return list(dict.fromkeys(line.rstrip("*") for line in lines))


def _choices(refusal: str) -> str:
    """Return the valid choices in place of a refused value, as the end of a sentence."""
    names = partitions() if "partition" in refusal else []
    return f"; choices: {', '.join(names)}" if names else ""


def _call(command: Sequence[str], patience_s: float, text: str = "") -> str:
    """Return what a command printed; raises `BackendUnavailable` with one line if it fails, is missing or too slow."""
    try:
        answer = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
            env=_environment(),
        )
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(
            f"{command[0]} did not respond within {patience_s:g} s", outcome_unknown=True
        ) from None
    except OSError as error:
        raise BackendUnavailable(f"{command[0]} cannot be run ({error.strerror})") from None
    if answer.returncode:
        error_lines = [line for line in answer.stderr.splitlines() if line.strip()] or [
            f"exit code {answer.returncode}"
        ]
        reason = error_lines[-1].removeprefix(f"{command[0]}: error: ").removeprefix("allocation failure: ")
        raise BackendUnavailable(" ".join(reason.split())[:300])
    return answer.stdout


def _environment() -> dict[str, str]:
    """Return the environment without the variables of a surrounding job, which a nested job would take for its own."""
    return {k: v for k, v in os.environ.items() if k == "SLURM_CONF" or not (k.startswith("SLURM") or k == "LPS_RUN")}


# ---------------------------------------------------------------------------------------------------- script


def script(
    runner: Sequence[str], source: str, folders: Sequence[str], token: str, trainer: Sequence[str], options: Options
) -> str:
    """Return the batch script that starts a runner for one of `folders`: the first, or that of the array task.

    The runner is a step of its own, since SLURM announces a preemption to a job's steps; the script itself must outlive
    this signal. A run in several parts has a second step with the trainers of the other parts. It is no child of the
    runner, since a signal to srun is not passed on but ends the step. source: folder from which the programs are
    imported.
    """
    arguments = shlex.join(["--token", token, "--", *trainer])
    return f"""#!/bin/bash
trap : TERM
cd {shlex.quote(source)} || exit 1
folders=({" ".join(map(shlex.quote, folders))})
folder=${{folders[${{SLURM_ARRAY_TASK_ID:-0}}]}}
{_other_parts(trainer, options)}srun --nodes=1 --ntasks=1 {_step(options)} {shlex.join(runner)} "$folder" {arguments} &
first=$!
wait $first
code=$?
while kill -0 $first 2>/dev/null; do
    wait $first
    code=$?
done
{_END_OF_OTHER_PARTS if options.parts > 1 else ""}exit $code
"""


_END_OF_OTHER_PARTS = """for _ in {1..20}; do
    kill -0 $others 2>/dev/null || break
    sleep 1
done
kill $others 2>/dev/null
"""


def _step(options: Options) -> str:
    """Return the srun options of every step; parts on one node overlap, since each of them requests all its GPUs."""
    shared = "--overlap " if options.parts > 1 else ""
    return f'{shared}--input=none ${{SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"}}'


def _other_parts(trainer: Sequence[str], options: Options) -> str:
    """Return the lines that start all parts of a run but the first (lps.training.multi_node); "" for one part."""
    if options.parts == 1:
        return ""
    where = f"--nodes={options.nodes - 1} --relative=1" if options.nodes > 1 else "--nodes=1"
    address_line = "" if options.nodes > 1 else "export LPS_ADDRESS=127.0.0.1\n"
    part = 'LPS_RUN=$1 LPS_PART=$((SLURM_PROCID + 1)); export LPS_RUN LPS_PART; shift; exec "$@"'
    return f"""export LPS_PARTS={options.parts} LPS_MEETING="$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}"
{address_line}srun {where} --ntasks={options.parts - 1} {_step(options)} \\
    bash -c {shlex.quote(part)} part "$folder" {shlex.join(trainer)} "$folder" &
others=$!
"""
