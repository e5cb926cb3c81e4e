"""Describe jobs of any executor: what is submitted, the state that the executor reports, and the state of the run.

`JobCache` caches the answers of an executor, so that one query serves all readers. Standard library only.
"""

import threading
import time
from dataclasses import dataclass
from typing import ClassVar

MAX_AGE_S = 2.0  # age up to which an answer serves all readers of this process
RETRY_S = 10.0  # between queries that are not answered
SUBMIT_PATIENCE_S = 60.0  # timeout of a submission, which may still have been accepted
JOB_FILE = "job.json"  # in a run's folder: token, name and id of its job, task in an array, options


class BackendUnavailable(Exception):
    """Raised if an executor gave no answer; the text says why.

    The state of its runs is then "unknown" (Run._state_on_cluster in lps/store/runs.py). outcome_unknown: the request
    may still have been carried out. since: unix seconds since when it has not answered. is_open: the name of
    outcome_unknown up to 0.3.0, which backend files of users use.
    """

    def __init__(
        self, reason: str, outcome_unknown: bool = False, since: float | None = None, *, is_open: bool = False
    ):
        super().__init__(reason)
        self.outcome_unknown = outcome_unknown or is_open or "timed out" in reason
        self.since = since

    def in_words(self) -> str:
        """Return since when the executor has not answered, and why."""
        return f"unknown since {time.strftime('%H:%M', time.localtime(self.since or time.time()))}: {self}"


@dataclass(frozen=True)
class Submission:
    """Work that is submitted at once: one job for each of `folders`, all of which are in one folder.

    name: printable, without spaces, unique. output: path, without ending, for the output of a job itself. runner,
    trainer: the commands that a job runs, in the folder `source`; the trainer's ends with the run's folder.
    """

    name: str
    folders: tuple[str, ...]
    token: str
    runner: tuple[str, ...]
    trainer: tuple[str, ...]
    source: str
    output: str

    def command(self, task: int) -> list[str]:
        """Return the command of the job of a run in one part; lps.training.multi_node says what further parts need."""
        return [*self.runner, self.folders[task], "--token", self.token, "--", *self.trainer]


@dataclass(frozen=True)
class Job:
    """A job as an executor reports it. state: one of those below, "" if the executor no longer knows the job.

    reason: why it waits, as the end of a sentence. nodes: where it runs. executor: its display name.
    """

    id: str
    state: str = ""
    reason: str = ""
    nodes: str = ""
    executor: str = ""

    WAITING: ClassVar[tuple[str, ...]] = ("waiting",)
    GOING: ClassVar[tuple[str, ...]] = ("going",)
    ENDING: ClassVar[tuple[str, ...]] = ("ending",)
    ENDINGS: ClassVar[dict[str, tuple[str, str, str]]] = {  # state, kind and reason of a run that left no record
        "cancelled": ("stopped", "", "job {job} was cancelled in {executor}"),
        "": ("crashed", "killed", "{executor} no longer lists job {job}, and the run did not record how it ended"),
    }

    @property
    def is_waiting(self) -> bool:
        return self.state in self.WAITING

    @property
    def is_going(self) -> bool:
        return self.state in self.GOING

    @property
    def is_over(self) -> bool:
        return self.state not in (*self.WAITING, *self.GOING, *self.ENDING)

    @property
    def why(self) -> str:
        """Reason for waiting, as it follows "waits"."""
        return f": {self.reason}" if self.reason else ""

    def ending(self) -> tuple[str, str, str]:
        """Return state, kind and reason of a run whose job is over without a record of ours."""
        state, kind, reason = self.ENDINGS.get(self.state, _OTHER_ENDING)
        return state, kind, reason.format(job=self.id, state=self.state, executor=self.executor, where=self.where)

    @property
    def where(self) -> str:
        return f" on {self.nodes}" if self.nodes else ""


_OTHER_ENDING = ("crashed", "killed", "job {job} ended as {state}{where} and the run did not record how it ended")


def state_from_job(job: Job, begun: bool, handed_over: float | None = None) -> tuple[str, str, str]:
    """Return (state, reason, kind) of a run that left no record of its end, in the words of `lps.store.runs.State`.

    begun: whether the run's process had begun. handed_over: unix seconds at which its submission began.
    """
    if job.is_waiting:
        return "queued", f"job {job.id} waits in {job.executor}{job.why}", ""
    if job.is_going:
        return ("running" if begun else "starting"), f"job {job.id} of {job.executor}{job.where}", ""
    if not job.is_over:
        if begun:
            return "stopping", f"job {job.id} of {job.executor} is ending{job.where}", ""
        return "queued", f"job {job.id} returns to the queue of {job.executor}", ""
    if not job.id:
        if type(handed_over) in (int, float) and abs(time.time() - handed_over) < SUBMIT_PATIENCE_S:
            return "queued", f"it is being submitted to {job.executor}", ""
        return "stopped", f"{job.executor} has no job for it: handing it over was cut off; resume does it again", ""
    name, kind, reason = job.ending()
    return name, reason + ("" if begun else ", before the run's process started"), kind


class JobCache:
    """The user's jobs at an executor, all from one query; for any number of threads.

    While the executor answers, readers wait for the answer. After a failure it is asked again in the background. An
    executor derives its own class, with its `kind` of job and `ask`.
    """

    kind: type[Job] = Job

    def __init__(self):
        self._turn = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._ids: dict[str, list[str]] = {}  # by name of the job
        self._gone: dict[str, Job] = {}
        # Monotonic seconds: start of the newest answered and of the newest query
        self._asked = self._tried = float("-inf")
        self._unavailable_reason = ""
        self.answered: float | None = None  # unix seconds of the newest answer
        self.silent_since: float | None = None

    def ask(self) -> list[tuple[Job, str]]:
        """Return (job, name of its work) for all jobs of this user; raises `BackendUnavailable`."""
        raise NotImplementedError

    def look_further(self, job: str) -> Job:
        """Return a job that `ask` no longer lists, if the executor stores it elsewhere."""
        return self.kind(job)

    def job_of(self, job_record: dict) -> Job:
        """Return the job that the content of a run's `job.json` describes; raises `BackendUnavailable`."""
        texts = [value if isinstance(value := job_record.get(key), str) else "" for key in ("job", "name")]
        return self.find(*texts, job_record["task"] if type(job_record.get("task")) is int else 0)

    def find(self, job: str, name: str = "", task: int = 0, max_age_s: float = MAX_AGE_S) -> Job:
        """Return the job `job`, or for "" the one of the work `name` (its `task`); raises `BackendUnavailable`."""
        now = time.monotonic()
        with self._turn:
            match = self.look_up(job, name, task)
            if (match is None or now - self._asked > max_age_s) and job not in self._gone:
                self._refresh(now)
                match = self.look_up(job, name, task)
            if match is None and job:
                match = self._gone[job] = self.look_further(job)
        return match or self.kind(job)

    def look_up(self, job: str, name: str, task: int) -> Job | None:
        """Return a known job, or None; of jobs that are over, the last state seen is kept."""
        ids = [job] if job else [i for i in self._ids.get(name, []) if "_" not in i or i.endswith(f"_{task}")]
        return next((match for i in ids if (match := self._jobs.get(i) or self._gone.get(i))), None)

    def _refresh(self, now: float) -> None:
        """Ask, unless another thread did while this one waited for the lock; raises `BackendUnavailable`."""
        if self._asked >= now:
            return
        if not self._unavailable_reason:
            self._ask()
        elif now - self._tried > RETRY_S:
            self._tried = now
            threading.Thread(target=self._ask, name="request to the cluster", daemon=True).start()
        if self._unavailable_reason:
            raise BackendUnavailable(self._unavailable_reason, since=self.silent_since)

    def _ask(self) -> None:
        start = time.monotonic()
        self._tried = start
        try:
            jobs = self.ask()
        except BackendUnavailable as error:
            self.silent_since = self.silent_since or self.answered or time.time()
            self._unavailable_reason = str(error)
            return
        ids: dict[str, list[str]] = {}
        for job, name in jobs:
            ids.setdefault(name, []).append(job.id)
        self._jobs, self._ids = {job.id: job for job, _ in jobs}, ids
        self._gone |= {job.id: job for job, _ in jobs if job.is_over}
        self._asked, self.answered = start, time.time()
        self.silent_since, self._unavailable_reason = None, ""


Board = JobCache  # name up to 0.3.0, from which backend files of users derive
