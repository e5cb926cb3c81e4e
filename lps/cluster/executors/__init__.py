"""Executors, which carry out runs on other machines: one file each; the folder listing is the registry.

What a file must offer is `Executor`; docs/architecture.md tells how to write one. Standard library only.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Protocol

from lps.cluster.job_options import Option, Options
from lps.cluster.jobs import BackendUnavailable, Job, Submission


class Executor(Protocol):
    """The interface of an executor's file. Where noted, a function raises `BackendUnavailable` with the executor's
    message.
    """

    NAME: str  # in want.json, after --on, and before what its jobs ask for: the name of the file
    TITLE: str  # for people
    COMMANDS: Sequence[str]  # programs that this machine needs for it, the one that submits first
    OPTIONS: Mapping[str, Option]  # what a job may ask for; the house knows nodes, tasks, gpus and at_once
    INSTEAD: Mapping[str, str]  # what it has instead of "retries" and "priority" here: "on a cluster, which ..."

    def is_here(self) -> bool:
        """Whether jobs can be submitted from this machine."""

    def read_options(self, texts: Sequence[str]) -> Options:
        """The options in texts NAME=VALUE; raises `UserError`."""

    def known(self, option: str) -> list[str]:
        """Return the values that an option can have, the default first; empty if the executor does not report them."""

    def check(self, options: Options) -> None:
        """Raise `UserError` if such a job would be refused. Nothing has been written yet."""

    def hand_over(self, work: Submission, options: Options) -> list[str]:
        """The ids of the jobs, one a folder; those of several end in _0, _1, ...

        Raises `UserError` or `BackendUnavailable`.
        """

    def job_of(self, about: dict) -> Job:
        """The job of a run whose `job.json` says `about`: `jobs.JobCache` asks for all at once.

        Raises `BackendUnavailable`.
        """

    def cancel(self, job: str, waiting_only: bool = False) -> None:
        """End a job, or leave it alone where it does not wait any more; one that is over is no error.
        `BackendUnavailable`.
        """

    def own_job(self) -> str:
        """The id of the job around this process."""

    def own_fate(self) -> str:
        """Return what happens to this job after a SIGTERM: going, requeued, ended, or unknown without an answer."""

    def go_back(self) -> None:
        """Put the job around this process back into the queue, under the same id; raises `BackendUnavailable`."""


AWAY: dict[str, Executor] = {
    found.name: importlib.import_module(f"{__name__}.{found.name}")
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
}


def available_executors() -> list[str]:
    """Return the names of the executors that this machine can submit jobs to."""
    return [name for name, backend in AWAY.items() if backend.is_here()]


def executor_named(name: str) -> Executor:
    """Return the executor that a run was submitted to; raises `BackendUnavailable` if this version does not know it."""
    if name not in AWAY:
        raise BackendUnavailable(f"{name} is not a known cluster system; choices: {', '.join(AWAY)}")
    return AWAY[name]


def executor_title(name: str) -> str:
    """Return the display name of an executor."""
    return AWAY[name].TITLE if name in AWAY else name
