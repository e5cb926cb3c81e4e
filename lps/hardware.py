"""What a run was trained with: processor or GPU, versions, commit; kept in its `start` event, told in reports.

No name of a machine, a person or a folder is among it.
"""

import os
import platform
from functools import cache
from pathlib import Path

from lps import provenance
from lps.events import read_history
from lps.files import clean_line
from lps.runs import Run

KEPT = ("device", "cores", "system", "python", "torch", "lps", "commit")
CPU_FACTS = Path("/proc/cpuinfo")


def facts(gpu: str = "") -> dict[str, object]:
    """What trains here. gpu: its name, where it is one that trains."""
    versions = provenance.versions()
    found = {"device": gpu or processor(), "cores": os.cpu_count(), "system": platform.system()}
    found |= {name: versions[name] for name in ("python", "torch", "lps") if name in versions}
    return found | ({"commit": commit} if (commit := provenance.commit()) else {})


@cache
def processor() -> str:
    """The model of this machine's processor."""
    try:
        lines = CPU_FACTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return clean_line(next(filter(None, names), "") or platform.processor() or platform.machine())


def of(run: Run) -> dict[str, object]:
    """What the run's newest process was trained with; {} where it did not say."""
    told = [event["machine"] for event in read_history(run.events) if isinstance(event.get("machine"), dict)]
    known = told[-1] if told else {}
    return {key: known[key] if key == "cores" else clean_line(str(known[key])) for key in KEPT if known.get(key)}
