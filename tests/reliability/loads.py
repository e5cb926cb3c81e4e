"""More than usual of everything: run folders, events of one run, console output. What it costs is measured."""

import json
import os
import shutil
import time
from pathlib import Path

from lps.scheduler.log_file import Log
from lps.store.runs import Run
from tests import sample_runs

EVENTS = "train", "eval"  # of every epoch
PIECE = 1 << 16  # bytes that come through a pipe at a time


def fill(root: Path, count: int) -> list[Run]:
    """Finished runs of twenty epochs. Their records of epochs are one file with many names, all others their own."""
    model = sample_runs.make_run(root, "finished")
    date, _, _, *rest, _ = model.id.split("-")
    runs = [model]
    for number in range(1, count):
        tail = f"{number:06d}"
        run = Run(root / "-".join([date, tail, *model.id.split("-")[2:-1], tail]))
        run.folder.mkdir()
        for name in ("config.json", "meta.json", "want.json", "process.json", "exit.json", "lock"):
            shutil.copyfile(model.folder / name, run.folder / name)
        os.link(model.events, run.events)
        runs.append(run)
    return runs


def write_events(run: Run, count: int, first: int = 1) -> int:
    """Records of a training, two an epoch, as many as asked for; returns the bytes."""
    path, size = run.events, 0
    with open(path, "ab", buffering=1 << 20) as file:
        for number in range(count):
            kind, epoch = EVENTS[number % 2], first + number // 2
            values = _values(kind, epoch)
            line = {"kind": kind, "step": 30 * epoch, "epoch": epoch, "time": 1.7e9 + number, "values": values}
            size += file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    return size


def _values(kind: str, epoch: int) -> dict:
    share = round(1 - 1 / (1 + epoch / 1000), 6)
    if kind == "train":
        return {"loss/total": round(3 - share, 6), "lr": 0.1, "kl": round(1 - share, 6), "pi_hat": [0.1] * 10}
    return {"accuracy/seen": 0.9, "accuracy/novel": share, "accuracy/all": share, "class/accuracy": [share] * 10}


def print_much(path: Path, size: int) -> tuple[int, float]:
    """Console output of `size` bytes through the log of a runner; (bytes that are kept, seconds)."""
    line = b"\x1b[31m" + b"x" * 90 + b"\x1b[0m\n"
    piece, began = line * (PIECE // len(line)), time.monotonic()
    log = Log(path)
    log.write(b"the beginning\n")
    for _ in range(size // len(piece)):
        log.write(piece)
    log.write(b"the end\n")
    log.close()
    return path.stat().st_size, time.monotonic() - began
