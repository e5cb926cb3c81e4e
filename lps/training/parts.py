"""One run on several machines: each has a part of its ranks, and the first part says where they meet.

Whoever starts the parts (an executor, lps.cluster.executors) runs the training command once a machine, all at about
the same time, on folders that all of them see, with

    LPS_PARTS    how many there are
    LPS_PART     which one this is, from 0; the runner's is 0
    LPS_MEETING  a name of this attempt that no earlier one had
    LPS_ADDRESS  of part 0, where its own host name is not it (127.0.0.1: all parts are on one machine)

Part 0 is ended by the runner as ever; the executor ends the others when it is over. Standard library only.
"""

import os
import socket
import time
from dataclasses import dataclass

from lps.errors import UserError
from lps.files.atomic import write_json
from lps.store.runs import Run

FILE = "meeting.json"
_POLL_S = 0.2


@dataclass(frozen=True)
class Part:
    """The place of this machine among those of a run."""

    number: int = 0
    parts: int = 1
    meeting: str = ""

    @property
    def is_first(self) -> bool:
        return self.number == 0

    def ranks(self, count: int) -> range:
        """Its own of `count` ranks, the same number on every machine."""
        if count % self.parts:
            raise UserError("processes", f"{count} cannot be shared evenly among {self.parts} machines")
        ranks_per_part = count // self.parts
        return range(self.number * ranks_per_part, (self.number + 1) * ranks_per_part)


def here() -> Part:
    """What the executor says of this machine; a run on one machine is its own first part."""
    names = ("LPS_PART", "LPS_PARTS")
    try:
        number, parts = (int(os.environ.get(name, usual)) for name, usual in zip(names, ("0", "1")))
    except ValueError:
        number, parts = -1, 0
    if not 0 <= number < parts:
        variables = " and ".join(f"{name}={os.environ.get(name, '')}" for name in names)
        raise UserError("processes", f"{variables} is not an index of the run's machines")
    return Part(number, parts, os.environ.get("LPS_MEETING", ""))


def meet(run: Run, part: Part) -> tuple[str, int]:
    """Address and port where the ranks find each other: the first part chooses them, the others wait for its word."""
    if part.is_first:
        address = os.environ.get("LPS_ADDRESS") or (socket.gethostname() if part.parts > 1 else "127.0.0.1")
        port = _free_port("" if part.parts > 1 else address)
        if part.parts > 1:
            for number in range(1, part.parts):
                _report_file(run, number).unlink(missing_ok=True)
            write_json(run.folder / FILE, {"meeting": part.meeting, "address": address, "port": port})
        return address, port
    while (record := run.read_json(FILE)).get("meeting") != part.meeting:
        time.sleep(_POLL_S)
    return str(record.get("address")), int(record.get("port", 0))


def tell(run: Run, part: Part, reason: dict) -> None:
    """Leave word for the first part of why this one failed."""
    write_json(_report_file(run, part.number), {"meeting": part.meeting} | reason)


def reports(run: Run, part: Part) -> list[dict]:
    """What the other parts have left for the first one, in this attempt."""
    if not part.is_first:
        return []
    records = (run.read_json(_report_file(run, number).name) for number in range(1, part.parts))
    return [record for record in records if record and record.get("meeting") == part.meeting]


def _report_file(run: Run, number: int):
    return run.folder / f"meeting-{number}.json"


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]
