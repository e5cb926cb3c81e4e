"""List the executors, which carry out runs on other machines. Every file in this folder is one.

`Executor` is their interface; docs/architecture.md shows how to write one. Standard library only.
"""

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Protocol

from lps.cluster.job_options import Option, Options
from lps.cluster.jobs import BackendUnavailable, Job, Submission


class Executor(Protocol):
    """Interface of an executor's file. `BackendUnavailable` has the executor's own message."""

    NAME: str  # the file's name; used in want.json, after --on and as the option for job options
    TITLE: str  # display name
    COMMANDS: Sequence[str]  # programs that this machine needs, the submitting one first
    OPTIONS: Mapping[str, Option]  # of a job; LPS Studio itself reads nodes, tasks, gpus and at_once
    INSTEAD: Mapping[str, str]  # why "retries" and "priority" cannot be set: "on a cluster, which ..."

    def is_here(self) -> bool:
        """Return whether jobs can be submitted from this machine."""

    def read_options(self, texts: Sequence[str]) -> Options:
        """Return the options in texts NAME=VALUE; raises `UserError`."""

    def known(self, option: str) -> list[str]:
        """Return the values that an option can have, the default first; empty if the executor does not report them."""

    def check(self, options: Options) -> None:
        """Raise `UserError` if such a job would be refused. Called before anything is written."""

    def hand_over(self, work: Submission, options: Options) -> list[str]:
        """Submit one job per folder and return their ids; ids of several jobs end in _0, _1, ...

        Raises `UserError` or `BackendUnavailable`.
        """

    def job_of(self, job_record: dict) -> Job:
        """Return the job that the content of a run's `job.json` describes. `jobs.JobCache` asks for all jobs at once.

        Raises `BackendUnavailable`.
        """

    def cancel(self, job: str, waiting_only: bool = False) -> None:
        """End a job; with `waiting_only` only if it still waits. A job that is over is no error. Raises
        `BackendUnavailable`.
        """

    def own_job(self) -> str:
        """Return the id of the job around this process."""

    def own_fate(self) -> str:
        """Return what happens to the job around this process after a SIGTERM: going, requeued, ended or no answer."""

    def go_back(self) -> None:
        """Put the job around this process back into the queue under the same id; raises `BackendUnavailable`."""


EXECUTORS: dict[str, Executor] = {
    module.name: importlib.import_module(f"{__name__}.{module.name}")
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
}


def available_executors() -> list[str]:
    """Return the names of the executors that this machine can submit jobs to."""
    return [name for name, backend in EXECUTORS.items() if backend.is_here()]


def executor_named(name: str) -> Executor:
    """Return the executor that a run was submitted to; raises `BackendUnavailable` if this version does not know it."""
    if name not in EXECUTORS:
        raise BackendUnavailable(f"{name} is not a known cluster system; choices: {', '.join(EXECUTORS)}")
    return EXECUTORS[name]


def executor_title(name: str) -> str:
    """Return the display name of an executor."""
    return EXECUTORS[name].TITLE if name in EXECUTORS else name
