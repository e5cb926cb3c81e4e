"""What is wrong on this machine, and how to mend it: `python -m lps doctor`.

Every check gives findings: ok, a note (works, but worth knowing) or a problem (something will not work), each with one
sentence and, where there is something to mend, how. Checks only look: nothing is changed but for one file that is made
in the folder of the runs and removed again. A check that fails itself is a problem and stops no other.
"""

from collections.abc import Iterator

from lps.doctor.environment import files, imports, memory, packages, python
from lps.doctor.finding import PROBLEM, Finding, Machine
from lps.doctor.runs_folder import clock, data, disk, file_system, folder, leftovers, locks, runs
from lps.doctor.services import cluster, exposure, messages, port


def examine(machine: Machine) -> Iterator[Finding]:
    """The findings of all checks, in their order."""
    for check in CHECKS:
        try:
            yield from check(machine)
        except Exception as error:  # whatever is wrong here must not hide what else is
            yield Finding(PROBLEM, check.__name__, f"could not be looked at ({error or type(error).__name__})")


CHECKS = (
    python, packages, imports, files, memory, folder, disk, file_system, locks, leftovers, runs, data, port,
    exposure, cluster, messages, clock,
)  # fmt: skip
