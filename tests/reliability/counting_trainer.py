"""A training process that starts fast: no torch, a chain of numbers for a network, and the real store for its files.

Its checkpoints hold the number and where it stands; each number follows from the one before, so a series that was
resumed from a wrong place, or from nothing, shows. `commits-ID.txt` beside the run tells what was promised to be safe.
COUNTING_FILL names a folder that it fills in the midst of its work.
"""

import errno
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from lps.files import disk
from lps.files.atomic import read_checked, remove_abandoned, write_checked
from lps.store.events import EventWriter
from tests.reliability.small_disk import fill_bytes

EPOCHS = 12
EPOCH_S = 0.05


def following(number: str) -> str:
    """The next number of the chain, as 12 hexadecimal digits."""
    return hashlib.sha256(number.encode()).hexdigest()[:12]


def series() -> list[int]:
    """The numbers of an unbroken run."""
    numbers, number = [], "0"
    for _ in range(EPOCHS):
        number = following(number)
        numbers.append(int(number, 16))
    return numbers


def newest(folder: Path) -> dict:
    for path in sorted(folder.glob("step-*.bin"), reverse=True):
        data = read_checked(path)
        if data is not None:
            return json.loads(data)
    return {"epoch": 0, "number": "0"}


def main(folder: Path) -> int:
    wishes = []
    signal.signal(signal.SIGTERM, lambda *_: wishes.append("stop"))
    notes = os.open(folder.parent / f"commits-{folder.name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    remove_abandoned(folder)
    disk.make_folder(folder / "checkpoints")
    events, state = EventWriter(folder / "events.jsonl"), newest(folder / "checkpoints")
    os.write(notes, f"start {state['epoch']}\n".encode())
    events.append("start", step=state["epoch"], epoch=state["epoch"], values={})
    while state["epoch"] < EPOCHS:
        if wishes:
            events.append("stop", step=state["epoch"], epoch=state["epoch"], values={})
            return 0
        time.sleep(EPOCH_S)
        if state["epoch"] == EPOCHS // 2 and "COUNTING_FILL" in os.environ:
            fill_bytes(Path(os.environ["COUNTING_FILL"]), 0)
        state = {"epoch": state["epoch"] + 1, "number": following(state["number"])}
        values = {"number": int(state["number"], 16)}
        events.append("train", step=state["epoch"], epoch=state["epoch"], values=values)
        events.sync()
        write_checked(folder / "checkpoints" / f"step-{state['epoch']:08d}.bin", json.dumps(state).encode())
        os.write(notes, f"commit {state['epoch']}\n".encode())
        for path in sorted((folder / "checkpoints").glob("step-*.bin"))[:-2]:
            disk.remove(path.with_suffix(".json"))
            disk.remove(path)
    events.append("finish", step=EPOCHS, epoch=EPOCHS, values={})
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except OSError as error:  # as lps.training.loop says it, where not even an event can be written
        sys.exit(
            f"{'disk_full' if error.errno == errno.ENOSPC else 'io_error'}: no space left; free some space and resume"
        )
