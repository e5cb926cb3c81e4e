"""A training process that uses its slot for a moment and writes down when, beside the runs. Nothing of lps in it.

python slot_trainer.py [SECONDS] FOLDER
"""

import json
import os
import sys
import time
from pathlib import Path

USES = "uses.txt"  # beside the runs; lines: start|end, run, slot, nanoseconds of a clock that all processes share
USE_S = 0.02


def main(folder: Path, use_s: float = USE_S) -> None:
    slot = json.loads((folder / "process.json").read_text())["slot"]
    uses = os.open(folder.parent / USES, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(uses, f"start {folder.name} {slot} {time.monotonic_ns()}\n".encode())
    time.sleep(use_s)
    event = {"kind": "finish", "step": 1, "epoch": 1, "time": time.time(), "values": {}}
    with open(folder / "events.jsonl", "a") as file:
        file.write(json.dumps(event) + "\n")
    os.write(uses, f"end {folder.name} {slot} {time.monotonic_ns()}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[-1]), *map(float, sys.argv[1:-1]))
