"""List the checks of `python -m lps doctor`: subject, function, fix.

Checks change nothing, except for one file that is created in the runs folder and removed again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lps.doctor import environment, runs_folder
from lps.doctor.diagnostic import NOTE, OK, PROBLEM, Diagnostic, Machine


@dataclass(frozen=True)
class Check:
    """One row of the table.

    look: yields (level, says), optionally with "about" and "mend" if they differ from the row's. Levels: ok, note
    (works, but worth knowing), problem (something will not work). ok: text if `look` yields nothing.
    """

    about: str
    look: Callable[[Machine], Iterator[tuple]]
    mend: str = ""
    ok: str = ""

    def findings(self, machine: Machine) -> Iterator[Diagnostic]:
        """Yield the findings of this check; a check that raises is a problem itself and stops no other."""
        result = None
        try:
            for result in self.look(machine):
                yield self._finding(*result)
            if self.ok and result is None:
                yield Diagnostic(OK, self.about, self.ok)
        except Exception as error:  # one failing check must not hide the others
            level = NOTE if isinstance(error, ImportError) else PROBLEM  # missing packages have their own row
            yield Diagnostic(level, self.about, f"could not be checked ({error or type(error).__name__})")

    def _finding(self, level: str, says: str, about: str = "", mend: str | None = None) -> Diagnostic:
        fix = self.mend if mend is None else mend
        return Diagnostic(level, about or self.about, says, "" if level == OK else fix)


def examine(machine: Machine) -> Iterator[Diagnostic]:
    """Yield the findings of all checks, in their order."""
    for check in CHECKS:
        yield from check.findings(machine)


CHECKS = (
    Check("Python", environment.check_python, "Install Python 3.11 or newer, then run make app."),
    Check(
        "system",
        environment.check_system,
        "LPS Studio is tested on Linux only; other systems have other signals, locks and process tables.",
    ),
    Check("packages", environment.check_packages, f"{environment.PYTHON} -m pip install -r requirements.txt"),
    Check("imports", environment.check_imports, "Run make app again."),
    Check("files", environment.check_recipe_files, environment.MEND_FILE),
    Check("GPU", environment.check_gpus, "Fix the driver (nvidia-smi must answer), or train on the CPU."),
    Check(
        "CUDA",
        environment.check_cuda,
        "Install a torch for the CUDA version of your driver (nvidia-smi shows it), or install a newer driver.",
    ),
    Check("memory", environment.check_memory, "Close other programs, request more memory, or lower batch_size."),
    Check("runs", runs_folder.check_runs_folder, "Set LPS_RUNS to a folder of your own."),
    Check("disk", runs_folder.check_space),
    Check(
        "file system",
        runs_folder.check_file_system,
        "Train on one machine at a time; a local disk (LPS_RUNS) is faster and has reliable locks.",
    ),
    Check("locks", runs_folder.check_locks),
    Check(
        "leftovers",
        runs_folder.check_leftovers,
        "Look into the damaged file, save what you need and delete it. If it happens again, check the disk (smartctl).",
        "none",
    ),
    Check("runs", runs_folder.check_runs),
    Check("data sets", runs_folder.check_datasets),
    Check("port", environment.check_port, "If another program uses the port: streamlit run app.py --server.port 8502."),
    Check("dashboard", environment.check_exposure, "ssh -L 8501:localhost:8501 is safer and works with 127.0.0.1."),
    Check("cluster", environment.check_cluster, "Load the cluster's module, or fix PATH."),
    Check("messages", environment.check_notifications, "Fix LPS_NOTIFY and test it with notify --test."),
    Check("clock", runs_folder.check_clock, "Set the clock (timedatectl set-ntp true); durations are not affected."),
)
