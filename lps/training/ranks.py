"""The processes of one run that trains on several GPUs: started together, ended together, one reason for a failure.

On several machines each has such a parent for its part (lps.training.multi_node); the following describes one of them.

`python -m lps train --run FOLDER` becomes their parent if the run's `processes` is more than 1; to the runner it is
the training process. Every one (a rank, 0 .. processes - 1) gets the environment that torchrun would give it, and under
torchrun the same command is a rank itself: `torchrun --nproc_per_node N -m -- lps train --run FOLDER`. It is not the
usual parent because a stop that it passes on ends with a traceback and an error code, as a failure does, and because a
rank's reason for a failure would have to be read from its output. Standard library only.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from lps.errors import UserError
from lps.files.atomic import clean_line
from lps.machine.processes import die_with_parent
from lps.store.events import EventWriter
from lps.store.runs import Run
from lps.training import multi_node

REPORT = "LPS_REPORT"  # descriptor on which a rank reports its failure to its parent
TORCHRUN = "TORCHELASTIC_RUN_ID"  # set by torchrun; RANK alone is also set by schedulers of clusters
GRACE_S = 20.0  # from the first failure until the remaining ranks are killed
_POLL_S = 0.05
_CHECK_S = 1.0  # between two checks of other machines' reports


def own_rank() -> tuple[int, int]:
    """Return (rank, number of ranks) of this process; (0, 1) if it is the only one."""
    if REPORT not in os.environ and TORCHRUN not in os.environ:
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def report_rank_failure(failure: str, reason: str, step: int, epoch: int) -> bool:
    """Report to the parent why this rank fails; returns False if no parent listens."""
    if REPORT not in os.environ:
        return False
    record = {"failure": failure, "reason": clean_line(reason, 500), "step": step, "epoch": epoch, "time": time.time()}
    os.write(int(os.environ[REPORT]), json.dumps(record).encode() + b"\n")  # short enough for an atomic write
    return True


def ranks_to_start(run: Run) -> int:
    """Return how many ranks this process should start for `run`; 0 if it should train itself."""
    part = multi_node.own_part()
    try:
        processes = run.config().processes
    except UserError:
        if part.is_first:
            return 0  # training reports the reason
        raise
    is_rank = REPORT in os.environ or TORCHRUN in os.environ
    return processes if not is_rank and max(processes, part.parts) > 1 else 0


def carry_out(run: Run, count: int, command: list[str] | None = None) -> int:
    """Run this machine's part of `count` ranks; returns 0 if the first rank did, else the code of the first failure.

    SIGTERM is passed on to the first rank, which agrees with the others. If one fails, the others are ended, and the
    earliest reason becomes the `fail` event. If one was killed by a signal, so is this process.
    """
    part = multi_node.own_part()
    own_ranks = part.ranks(count)
    address, port = multi_node.find_meeting_point(run, part)
    reading, writing = os.pipe()
    command = command or [sys.executable, "-m", "lps", "train", "--run", str(run.folder)]
    environment = {"WORLD_SIZE": str(count), "MASTER_ADDR": address, "MASTER_PORT": str(port)}
    environment |= {REPORT: str(writing)} | (_loopback() if address == "127.0.0.1" else {})
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env=os.environ | environment | {"RANK": str(rank), "LOCAL_RANK": str(local)},
            pass_fds=(writing,),
            preexec_fn=die_with_parent(),
        )
        for local, rank in enumerate(own_ranks)
    ]
    os.close(writing)
    signal.signal(signal.SIGTERM, lambda *_: processes[0].send_signal(signal.SIGTERM))
    first = _watch(processes, lambda: bool(multi_node.read_part_reports(run, part)))
    reason, elsewhere = _first_report(reading), multi_node.read_part_reports(run, part)
    if processes[0].returncode == 0 or not first:
        return 0
    killers = [-process.returncode for process in first if process.returncode < 0]
    if killers and not elsewhere:
        _end_by(killers[0])
    reasons = [*([reason] if reason else []), *elsewhere]
    if reasons:
        earliest = min(reasons, key=lambda record: record["time"])
        _record(run, earliest) if part.is_first else multi_node.report_part_failure(run, part, earliest)
    return first[0].returncode


def _watch(processes: list[subprocess.Popen], fails_elsewhere: Callable[[], bool]) -> list[subprocess.Popen]:
    """Wait until all have ended; return those that failed first. The others are killed after a failure."""
    first, deadline, next_check = [], None, 0.0
    while any(process.poll() is None for process in processes):
        now = time.monotonic()
        first = first or [process for process in processes if process.poll()]
        is_check_due = deadline is None and now >= next_check
        next_check = now + _CHECK_S if is_check_due else next_check
        if deadline is None and (first or is_check_due and fails_elsewhere()):
            deadline = now + GRACE_S
        elif deadline is not None and now >= deadline:
            for process in processes:
                process.kill()
        time.sleep(_POLL_S)
    return first or [process for process in processes if process.returncode]


def _first_report(reading: int) -> dict | None:
    """Return the earliest report in the pipe."""
    os.set_blocking(reading, False)
    try:
        return json.loads(os.read(reading, 1 << 16).partition(b"\n")[0])
    except (BlockingIOError, ValueError):
        return None
    finally:
        os.close(reading)


def _record(run: Run, failure_record: dict) -> None:
    """Write the `fail` event; the ranks have ended, so this process is the only writer."""
    events = EventWriter(run.events)
    where = {"step": failure_record["step"], "epoch": failure_record["epoch"]}
    events.append("fail", **where, values={}, failure=failure_record["failure"], reason=failure_record["reason"])
    events.sync()
    events.close()


def _end_by(number: int) -> None:
    """End this process by a signal, so that its parent sees what happened to a rank."""
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _loopback() -> dict[str, str]:
    """Return settings for gloo on the loopback interface without a network lookup; the user's own settings win.

    Without it ranks on a machine whose own name does not resolve cannot connect.
    """
    name = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
    return {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", name)} if name else {}
