"""A cluster's own commands: options of a job, its submission, what the cluster says of it, its end.

Nothing is scheduled here: sbatch, squeue, scancel, scontrol and, where there is accounting, sacct do all of it.
submitit wraps the same commands, but it sends pickled functions and keeps its own folder of states and results beside
them; a run already is a folder with states and results, and a job only has to start its runner. Standard library only.
"""

import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from lps.parameters import ConfigError, Parameter, shorten

PATIENCE_S = 5.0  # for one question; a controller that is down lets squeue try for longer
SUBMIT_PATIENCE_S = 60.0  # a submission that is given up may still have been taken
MAX_AGE_S = 2.0  # an answer of squeue serves all readers of this process for so long
RETRY_S = 10.0  # from one question that was not answered to the next
NOTICE_S = 120  # before its time limit a job gets SIGTERM, so that it writes a checkpoint and is queued again
RECORD = "job.json"  # in a run's folder: token, name and id of its job, place in an array, options
FIELDS = "%i|%T|%r|%N|%j"  # of squeue: id, state, reason, nodes, name

WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
GOING = ("CONFIGURING", "RUNNING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED", "RESIZING", "EXPEDITING")
ENDING = "COMPLETING"

NAMES = r"[A-Za-z0-9][A-Za-z0-9_.@+-]*"
TIME = r"[0-9]+|[0-9]+:[0-9]{2}(:[0-9]{2})?|[0-9]+-[0-9]{1,2}(:[0-9]{2}){0,2}"
RESERVED = (
    "array chdir deadline dependency error export export-file help input job-name kill-on-invalid-dep no-requeue nodes "
    "ntasks ntasks-per-node open-mode output parsable quiet requeue signal test-only usage verbose version wait wrap"
).split()


@dataclass(frozen=True)
class Option:
    """One thing that may be asked of the cluster. argument: of sbatch, before "=" and the value."""

    parameter: Parameter
    argument: str
    pattern: str
    example: str

    def parse(self, text: str):
        """The checked value; raises `ConfigError`."""
        about = self.parameter
        try:
            value = about.parse(text)
        except ConfigError as error:
            raise ConfigError(f"slurm {about.name}", str(error).removeprefix(f"{about.name}: ")) from None
        if not re.fullmatch(self.pattern, str(value) if about.kind == "str" else text, re.ASCII):
            raise ConfigError(f"slurm {about.name}", f"{shorten(text)} is not of the form {self.example}")
        return value


def _option(name, kind, argument, help, pattern, example, **more) -> Option:
    return Option(Parameter(name, kind, None, help, **more), argument, pattern, example)


OPTIONS = {
    option.parameter.name: option
    for option in (
        _option("partition", "str", "--partition=", "which queue", rf"{NAMES}(,{NAMES})*", "gpu or gpu,long"),
        _option(
            "time",
            "str",
            "--time=",
            "longest time of a job, then the run goes on in another",
            TIME,
            "90, 2:00:00, 1-12",
        ),
        _option(
            "gpus",
            "str",
            "--gres=gpu:",
            "number of GPUs, or kind:number",
            rf"({NAMES}:)?[1-9][0-9]{{0,3}}",
            "2 or a100:2",
        ),
        _option("cpus", "int", "--cpus-per-task=", "number of CPU cores", "[0-9]+", "8", minimum=1, maximum=4096),
        _option("memory", "str", "--mem=", "memory of the node", r"[1-9][0-9]*[KMGT]?", "16G"),
        _option("account", "str", "--account=", "who pays", NAMES, "lab1"),
        _option("qos", "str", "--qos=", "class of service", NAMES, "high"),
        _option("at_once", "int", "%", "runs of a sweep at a time", "[0-9]+", "4", minimum=1, maximum=10_000),
    )
}
EXTRA = "extra"
EXTRA_FORM = re.compile(r"--[a-z][a-z0-9-]*(=[!-~]+)?", re.ASCII)


@dataclass(frozen=True)
class Options:
    """What a job asks of the cluster. values: by name, only what was said; extra: further arguments of sbatch."""

    values: tuple[tuple[str, object], ...] = ()
    extra: tuple[str, ...] = ()

    def get(self, name: str):
        return dict(self.values).get(name)

    @property
    def gpus(self) -> int:
        """How many were asked for; 0 where nothing was said."""
        return int(str(self.get("gpus") or 0).rpartition(":")[2])

    def arguments(self) -> list[str]:
        """For sbatch, one argument an option: no shell and no script reads them."""
        said = [f"{OPTIONS[name].argument}{value}" for name, value in self.values if name != "at_once"]
        return [*said, *self.extra]

    def texts(self) -> list[str]:
        """NAME=VALUE for every option: `read_options` gives the options back, also from a file."""
        return [*(f"{name}={value}" for name, value in self.values), *(f"{EXTRA}={line}" for line in self.extra)]


def read_options(texts: Sequence[str]) -> Options:
    """The options in texts NAME=VALUE; a later one replaces an earlier one, `extra` adds up. Raises `ConfigError`."""
    values, extra = {}, []
    for text in texts:
        name, equals, value = str(text).partition("=")
        name = name.strip()
        if not equals:
            raise ConfigError("slurm", f"{shorten(text)} is not of the form NAME=VALUE, such as partition=gpu")
        if name == EXTRA:
            extra.append(_checked_extra(value.strip()))
        elif name in OPTIONS:
            values[name] = OPTIONS[name].parse(value.strip())
        else:
            raise ConfigError("slurm", f"{shorten(name)} is no option; choices: {', '.join(OPTIONS)}, {EXTRA}")
    return Options(tuple(values.items()), tuple(extra))


def _checked_extra(text: str) -> str:
    if not EXTRA_FORM.fullmatch(text) or len(text) > 500:
        raise ConfigError("slurm extra", f"{shorten(text)} is not an option of sbatch such as --constraint=a100")
    name = text[2:].partition("=")[0]
    # sbatch takes the beginning of a name for the name.
    taken = next((word for word in RESERVED if word.startswith(name)), None)
    if taken:
        raise ConfigError("slurm extra", f"--{taken} cannot be given; the run's own job depends on it")
    return text


def is_here() -> bool:
    """Whether jobs can be submitted from this machine."""
    return shutil.which("sbatch") is not None


def check_here() -> None:
    """Raise `ConfigError` where they cannot."""
    if not is_here():
        raise ConfigError("on", "slurm is not available: sbatch is not installed here; choices: here")


def check(options: Options) -> None:
    """Ask the cluster whether it would take such a job, before anything is written; raises `ConfigError`."""
    check_here()
    try:
        _call([*_sbatch(options), "--test-only", *options.arguments()], SUBMIT_PATIENCE_S, "#!/bin/sh\n")
    except Silence as silence:
        raise ConfigError("slurm", f"no job like this is taken: {silence}{choices(str(silence))}") from None


# ---------------------------------------------------------------------------------------------------- commands


class Silence(Exception):
    """A command gave no answer; the text says why. is_open: what was asked may be done all the same."""

    def __init__(self, reason: str, is_open: bool = False):
        super().__init__(reason)
        self.is_open = is_open or "timed out" in reason


def submit(options: Options, name: str, script: str, output: str, tasks: int = 0) -> str:
    """Hand a batch script over; gives the job's id. tasks: the size of an array of jobs, 0 for a single one.

    name: printable, without spaces; output: path of what the script itself prints, without its ending. Raises
    `Silence` with what the cluster says.
    """
    command = [*_sbatch(options), "--parsable", f"--job-name={name}"]
    command += [f"--output={output.replace('%', '%%') + ('-%a' if tasks else '')}.txt", "--chdir=/"]
    if tasks:
        at_once = options.get("at_once")
        command.append(f"--array=0-{tasks - 1}" + (f"%{at_once}" if at_once else ""))
    answer = _call([*command, *options.arguments()], SUBMIT_PATIENCE_S, script)
    found = re.fullmatch(r"([0-9]+)(;[^;\s]*)?", answer.strip(), re.ASCII)
    if not found:
        raise Silence(f"sbatch gave no job id but {shorten(answer)}", is_open=True)
    return found[1]


def _sbatch(options: Options) -> list[str]:
    """What every job of ours is: on one node, put back after a preemption, told before its end."""
    notice = notice_s(options.get("time"))
    return ["sbatch", "--requeue", "--open-mode=append", "--nodes=1", "--ntasks=1", f"--signal=TERM@{notice}"]


def notice_s(limit: str | None) -> int:
    """How many seconds before its time limit a job is told: a quarter of a limit that is short."""
    seconds = seconds_of(limit) if limit else 0
    return min(NOTICE_S, seconds // 4) if seconds else NOTICE_S


def seconds_of(limit: str) -> int:
    """A time limit as sbatch reads it: minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s."""
    days, dash, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    weights = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    return int(days or 0) * 86_400 + sum(part * weight for part, weight in zip(parts, weights))


def cancel(job: str, waiting_only: bool = False) -> None:
    """End a job that waits or runs; raises `Silence`. One that is over is no error.

    waiting_only: leave a running one alone. scancel has an option for that, but with it and the id of one task it
    cancels all waiting tasks of the array (seen in version 22.05), so the state is looked up first.
    """
    if waiting_only and not board.find(job, max_age_s=0).is_waiting:
        return
    try:
        _call(["scancel", job], PATIENCE_S * 2)
    except Silence as silence:
        if "Invalid job id" not in str(silence) and "already completing" not in str(silence):
            raise


def requeue(job: str) -> None:
    """Put a running job back into the queue under the same id; raises `Silence`."""
    try:
        _call(["scontrol", "requeue", job], PATIENCE_S)
    except Silence as silence:
        if "No error" not in str(silence):  # how version 22.05 fails after it has put a task of an array back
            raise


def fate(job: str, restarts: int) -> str:
    """What a job that got SIGTERM has to expect: "going", "requeued", "ended", or "unknown" where nobody answers.

    restarts: how often the job had been restarted when it began. A job that is told early, of a preemption to come or
    of its time limit, is still going; one that the cluster puts back itself counts one restart more.
    """
    try:
        said = _call(["scontrol", "--oneliner", "show", "job", job], PATIENCE_S)
    except Silence:
        return "unknown"
    fields = dict(re.findall(r"(JobState|Restarts)=(\S+)", said))
    if fields.get("JobState") in GOING:
        return "going"
    return "requeued" if int(fields.get("Restarts", 0)) > restarts else "ended"


def partitions() -> list[str]:
    """The partitions of the cluster, its usual one first; empty where it does not say."""
    try:
        lines = _call(["sinfo", "--noheader", "--format=%P"], PATIENCE_S).split()
    except Silence:
        return []
    lines.sort(key=lambda line: not line.endswith("*"))
    return list(dict.fromkeys(line.rstrip("*") for line in lines))


def choices(refusal: str) -> str:
    """What could be said instead of what was refused, as the end of a sentence."""
    names = partitions() if "partition" in refusal else []
    return f"; choices: {', '.join(names)}" if names else ""


def _call(command: Sequence[str], patience_s: float, text: str = "") -> str:
    """What a command printed; raises `Silence` with one line where it fails, is missing or takes too long."""
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
        raise Silence(f"{command[0]} does not answer within {patience_s:g} s", is_open=True) from None
    except OSError as error:
        raise Silence(f"{command[0]} cannot be run ({error.strerror})") from None
    if answer.returncode:
        said = [line for line in answer.stderr.splitlines() if line.strip()] or [f"exit code {answer.returncode}"]
        reason = said[-1].removeprefix(f"{command[0]}: error: ").removeprefix("allocation failure: ")
        raise Silence(" ".join(reason.split())[:300])
    return answer.stdout


def _environment() -> dict[str, str]:
    """Ours without what a job around us was told of itself: a job inside a job would take it for its own."""
    return {k: v for k, v in os.environ.items() if k == "SLURM_CONF" or not (k.startswith("SLURM") or k == "LPS_RUN")}


# ---------------------------------------------------------------------------------------------------- script


def script(runner: Sequence[str], source: str, folders: Sequence[str], arguments: Sequence[str]) -> str:
    """The batch script that starts a runner for one of `folders`: the first, or that of the task of an array.

    The runner is a step of its own, since a job that is to be preempted is told through its steps; the script itself
    must outlive this notice. source: where the runner's program is imported from.
    """
    quoted = " ".join(map(shlex.quote, folders))
    before, after = shlex.join(runner), shlex.join(arguments)
    cpus = '${SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"}'
    return f"""#!/bin/bash
trap : TERM
cd {shlex.quote(source)} || exit 1
folders=({quoted})
srun --nodes=1 --ntasks=1 --input=none {cpus} {before} "${{folders[${{SLURM_ARRAY_TASK_ID:-0}}]}}" {after} &
wait $!
code=$?
while kill -0 $! 2>/dev/null; do
    wait $!
    code=$?
done
exit $code
"""


# ---------------------------------------------------------------------------------------------------- answers


@dataclass(frozen=True)
class Job:
    """What the cluster says of a job. state: in its own words, "" where it does not know the job any more."""

    id: str
    state: str = ""
    reason: str = ""
    nodes: str = ""

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def is_going(self) -> bool:
        return self.state in GOING

    @property
    def is_over(self) -> bool:
        return not (self.is_waiting or self.is_going or self.state == ENDING)


def standing(job: Job, begun: bool, handed_over: float | None = None) -> tuple[str, str, str]:
    """(state, reason, kind) of a run that left no record of its end, in the words of `lps.runs.State`.

    begun: whether the run's process had begun. handed_over: unix seconds at which its submission began.
    """
    where = f" on {job.nodes}" if job.nodes else ""
    if job.is_waiting:
        return "queued", f"job {job.id} waits in SLURM{_why(job.reason)}", ""
    if job.is_going:
        return ("running" if begun else "starting"), f"job {job.id} of SLURM{where}", ""
    if job.state == ENDING:
        if begun:
            return "stopping", f"job {job.id} of SLURM ends{where}", ""
        return "queued", f"job {job.id} goes back to the queue of SLURM", ""
    if not job.id:
        young = type(handed_over) in (int, float) and abs(time.time() - handed_over) < SUBMIT_PATIENCE_S
        return ("queued", "it is being handed over to SLURM", "") if young else NOT_HANDED_OVER
    name, kind, words = ENDINGS.get(job.state, UNKNOWN_ENDING)
    words = words.format(job=job.id, state=job.state, where=where)
    return name, words + ("" if begun else ", before the run's process began"), kind


def silence_in_words(silence: Silence) -> str:
    """Since when nobody knows, and why."""
    since = time.strftime("%H:%M", time.localtime(board.silent_since or time.time()))
    return f"unknown since {since}: {silence}"


def ago(seconds: float) -> str:
    """A span of time as a person says it: "4 min ago"."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f} {name} ago"
    return f"{max(0, seconds):.0f} s ago"


# How a job without a record of ours ended: state, kind and reason of the run.
ENDINGS = {
    "CANCELLED": ("stopped", "", "job {job} was cancelled in SLURM"),
    "REVOKED": ("stopped", "", "job {job} was cancelled in SLURM"),
    "OUT_OF_MEMORY": ("failed", "out_of_memory", "job {job} used more memory than SLURM gave it; ask for more"),
    "TIMEOUT": ("crashed", "killed", "job {job} came to its time limit before it could write a record"),
    "DEADLINE": ("crashed", "killed", "job {job} came to its deadline before it could write a record"),
    "NODE_FAIL": ("crashed", "killed", "the node failed{where}"),
    "BOOT_FAIL": ("crashed", "killed", "the node did not start{where}"),
    "PREEMPTED": ("crashed", "killed", "job {job} was preempted and not queued again"),
    "": ("crashed", "killed", "SLURM does not know {job} any more, and the run left no record"),
}
NOT_HANDED_OVER = ("stopped", "SLURM has no job for it: handing it over was cut off; resume does it again", "")
UNKNOWN_ENDING = ("crashed", "killed", "job {job} ended as {state}{where} and the run left no record")

REASONS = {
    "Priority": "others are before it",
    "Resources": "the nodes are busy",
    "BeginTime": "it may begin in a moment",
    "Dependency": "it depends on another job",
    "JobHeldUser": "it is held; scontrol release lets it go",
    "JobHeldAdmin": "an administrator holds it",
    "PartitionTimeLimit": "its time limit is more than the partition allows, so it will not begin",
    "PartitionNodeLimit": "it asks for more than the partition allows, so it will not begin",
    "JobArrayTaskLimit": "as many of its sweep run as may at a time",
}


def _why(reason: str) -> str:
    """A reason of SLURM as the end of a sentence, with its own word for those who look it up."""
    if not reason:
        return ""
    return f": {REASONS[reason]} ({reason})" if reason in REASONS else f" ({reason})"


class Board:
    """The jobs of this user as squeue last showed them, all in one question; for any number of threads.

    While the cluster answers, readers wait for the answer. Once it did not, it is asked again behind their backs.
    """

    def __init__(self):
        self._turn = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._ids: dict[str, list[str]] = {}  # by name of the job
        self._gone: dict[str, Job] = {}
        self._asked = self._tried = float("-inf")  # monotonic seconds at which the newest answer, the newest try began
        self._silence = ""
        self.answered: float | None = None  # unix seconds of the newest answer
        self.silent_since: float | None = None

    def find(self, job: str, name: str = "", task: int = 0, max_age_s: float = MAX_AGE_S) -> Job:
        """The job `job`, or where it is "" the one called `name` (of an array: its `task`). Raises `Silence`."""
        now = time.monotonic()
        with self._turn:
            found = self._look_up(job, name, task)
            if (found is None or now - self._asked > max_age_s) and job not in self._gone:
                self._refresh(now)
                found = self._look_up(job, name, task)
            if found is None and job:
                found = self._gone[job] = _from_accounting(job)
        return found or Job(job)

    def _look_up(self, job: str, name: str, task: int) -> Job | None:
        """Of jobs that are over, the last state seen is kept for good."""
        ids = [job] if job else [i for i in self._ids.get(name, []) if "_" not in i or i.endswith(f"_{task}")]
        found = next((found for i in ids if (found := self._jobs.get(i) or self._gone.get(i))), None)
        # Tasks that were cancelled before they began are shown under the number of the array alone.
        array = self._jobs.get(job.partition("_")[0]) if found is None and "_" in job else None
        return Job(job, array.state) if array is not None and array.state == "CANCELLED" else found

    def _refresh(self, now: float) -> None:
        """Ask, unless somebody has while we waited for our turn; raises `Silence`."""
        if self._asked >= now:
            return
        if self._silence:
            if now - self._tried > RETRY_S:
                self._tried = now
                threading.Thread(target=self._ask, name="question to the cluster", daemon=True).start()
            raise Silence(self._silence)
        self._ask()
        if self._silence:
            raise Silence(self._silence)

    def _ask(self) -> None:
        began = time.monotonic()
        self._tried = began
        command = ["squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}", f"--format={FIELDS}"]
        try:
            jobs = read_jobs(_call(command, PATIENCE_S))
        except Silence as silence:
            self.silent_since = self.silent_since or self.answered or time.time()
            self._silence = str(silence)
            return
        ids: dict[str, list[str]] = {}
        for job, name in jobs:
            ids.setdefault(name, []).append(job.id)
        self._jobs, self._ids = {job.id: job for job, _ in jobs}, ids
        self._gone |= {job.id: job for job, _ in jobs if job.is_over}
        self._asked, self.answered = began, time.time()
        self.silent_since, self._silence = None, ""


def read_jobs(said: str) -> list[tuple[Job, str]]:
    """Lines of squeue in the form `FIELDS` as jobs and their names; raises `Silence` for anything else."""
    found = []
    for line in said.splitlines():
        parts = line.strip().split("|", 4)
        if len(parts) != 5 or not re.fullmatch(r"[0-9]+(_[0-9]+|_\[.*\])?(\+[0-9]+)?", parts[0]) or not parts[1]:
            raise Silence(f"squeue said {shorten(line)}, which is no line about a job")
        found.append((Job(parts[0], parts[1], "" if parts[2] == "None" else parts[2], parts[3]), parts[4]))
    return found


def _from_accounting(job: str) -> Job:
    """What sacct says of a job; a job without a state where it says nothing."""
    if shutil.which("sacct") is None:
        return Job(job)
    command = ["sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State,NodeList", f"--jobs={job}"]
    try:
        lines = [line.split("|") for line in _call(command, PATIENCE_S).splitlines()]
    except Silence:
        return Job(job)
    states = [(parts[1].split(" ")[0], parts[2]) for parts in lines if len(parts) == 3 and parts[0] == job]
    return Job(job, states[-1][0], "", states[-1][1]) if states else Job(job)


board = Board()


def job_of(about: dict) -> Job:
    """The job of a run whose `job.json` says `about`; raises `Silence`."""
    texts = [value if isinstance(value := about.get(key), str) else "" for key in ("job", "name")]
    return board.find(*texts, about["task"] if type(about.get("task")) is int else 0)
