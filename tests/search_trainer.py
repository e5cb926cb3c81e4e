"""A training process for tests of searches: its measurements are a formula of its settings, one epoch after the other.

Its value after epoch e of E is `peak` times (1 + e / E) / 2. `search_trainer.json` beside the runs may set how long an
epoch takes (`epoch_s`), at which margin_scale the process `waits` for SIGTERM after half of its epochs, `diverges`,
`fails`, or kills itself in its first attempt (`dies`): [from, to] each.
"""

import json
import math
import os
import signal
import sys
import time
from pathlib import Path


def peak(margin_scale: float, lr: float) -> float:
    """Return a value in (0, 1]: 1 at margin_scale 4 and lr 0.01."""
    return math.exp(-(((margin_scale - 4) / 4) ** 2) - ((math.log10(lr) + 2) / 1.5) ** 2)


def main(folder: Path) -> None:
    wishes = []
    signal.signal(signal.SIGTERM, lambda *_: wishes.append("stop"))
    config = json.loads((folder / "config.json").read_text())
    path = folder.parent / "search_trainer.json"
    plan = json.loads(path.read_text()) if path.exists() else {}
    with open(folder.parent / "starts.txt", "a") as starts:
        starts.write(folder.name + "\n")

    def is_asked(what):
        low, high = plan.get(what, (math.inf, math.inf))
        return low <= config["margin_scale"] <= high

    def event(kind, epoch=0, values=None, **more):
        line = {"kind": kind, "step": epoch, "epoch": epoch, "time": time.time(), "values": values or {}} | more
        with open(folder / "events.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    done = folder / "done.txt"
    first = int(done.read_text()) if done.exists() else 0
    event("start", first)
    if is_asked("diverges"):
        event("fail", failure="diverged", reason="the loss is not finite at epoch 1")
        sys.exit(1)
    if is_asked("fails"):
        event("fail", failure="data", reason="no such file")
        sys.exit(1)
    best = peak(config["margin_scale"], config["lr"]) * (1 - 0.1 * config["seed"])
    for epoch in range(first + 1, config["epochs"] + 1):
        time.sleep(plan.get("epoch_s", 0))
        value = best * (1 + epoch / config["epochs"]) / 2
        event("eval", epoch, {"accuracy/validation": value, "accuracy/all": 1 - value})
        done.write_text(str(epoch))
        if is_asked("dies") and epoch == 2 and first == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if is_asked("waits") and epoch == config["epochs"] // 2:
            end = time.monotonic() + 60
            while not wishes and time.monotonic() < end:
                time.sleep(0.01)
        if wishes:
            event("stop", epoch)
            return
    event("finish", config["epochs"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
