"""One run on several machines: each has a part of its ranks, and the first part announces their address.

The executor that starts the parts (lps.cluster.executors) runs the training command once per machine, all at about
the same time, on shared folders, with

    LPS_PARTS    number of parts
    LPS_PART     number of this part, from 0; the runner's is 0
    LPS_MEETING  unique name of this attempt
    LPS_ADDRESS  of part 0, if it differs from its host name (127.0.0.1: all parts are on one machine)

The runner ends part 0 as usual; then the executor ends the others. Standard library only.
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
    """This machine's part of a run."""

    number: int = 0
    parts: int = 1
    meeting: str = ""

    @property
    def is_first(self) -> bool:
        return self.number == 0

    def ranks(self, count: int) -> range:
        """Return its own of `count` ranks, equally many on every machine."""
        if count % self.parts:
            raise UserError("processes", f"{count} cannot be shared evenly among {self.parts} machines")
        ranks_per_part = count // self.parts
        return range(self.number * ranks_per_part, (self.number + 1) * ranks_per_part)


def own_part() -> Part:
    """Return the part that the executor assigned to this machine; a run on one machine is its own first part."""
    names = ("LPS_PART", "LPS_PARTS")
    try:
        number, parts = (int(os.environ.get(name, default)) for name, default in zip(names, ("0", "1")))
    except ValueError:
        number, parts = -1, 0
    if not 0 <= number < parts:
        variables = " and ".join(f"{name}={os.environ.get(name, '')}" for name in names)
        raise UserError("processes", f"{variables} cannot be used; expected LPS_PART from 0 to LPS_PARTS - 1")
    return Part(number, parts, os.environ.get("LPS_MEETING", ""))


def find_meeting_point(run: Run, part: Part) -> tuple[str, int]:
    """Return address and port where the ranks connect: the first part chooses them, the others wait for its file."""
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


def report_part_failure(run: Run, part: Part, reason: dict) -> None:
    """Tell the first part why this part failed."""
    write_json(_report_file(run, part.number), {"meeting": part.meeting} | reason)


def read_part_reports(run: Run, part: Part) -> list[dict]:
    """Return what the other parts reported to the first one in this attempt."""
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
