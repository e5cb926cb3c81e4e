"""Measure the peak memory of a process that loads 60,000 pictures of CIFAR's size and trains a few steps on them.

    python -m benchmarks.memory FILE.npz METHOD BATCH STEPS

prints one JSON object; `measure` starts that in a separate process, since a peak belongs to a whole process.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

IMAGES, TEST_IMAGES = 50_000, 10_000


def measure(method: str, batch_size: int, steps: int, file: str | None = None) -> dict[str, float]:
    """GB of host memory, and of device memory where there is a GPU; random pictures where no `file` is named."""
    with tempfile.TemporaryDirectory() as folder:
        path = file or write_pictures(Path(folder) / "pictures.npz")
        command = [sys.executable, "-m", "benchmarks.memory", str(path), method, str(batch_size), str(steps)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent)
    return json.loads(done.stdout)


def write_pictures(path: Path) -> Path:
    """Random pictures of ten classes, as many as CIFAR-10 has."""
    draw = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", IMAGES), ("test", TEST_IMAGES)):
        arrays[f"x_{part}"] = draw.integers(0, 256, (count, 32, 32, 3), np.uint8)
        arrays[f"y_{part}"] = np.arange(count) % 10
    np.savez(path, **arrays)
    return path


def main(file: str, method: str, batch_size: str, count: str) -> None:
    import torch

    from benchmarks import steps
    from benchmarks.cases import Case
    from lps.data.training_data import prepare
    from lps.methods import Progress
    from lps.settings.config import configure
    from lps.training.loop import build

    torch.set_num_threads(1)
    settings = {"dataset": "arrays", "dataset.path": file, "method": method, "batch_size": int(batch_size)}
    config = configure(settings)
    material = prepare(config)
    loaded = _peak()
    learner, optimizer = build(config, material)
    learner.train()
    case = Case(config, material, learner, optimizer, Progress(0, config.epochs, 0, material.plan.steps))
    steps.steps(case, int(count))
    found = {"images": len(material.images), "batch": config.batch_size, "loaded GB": loaded, "peak GB": _peak()}
    if material.images.device.type == "cuda":
        found["device GB"] = torch.cuda.max_memory_allocated() / 1e9
    print(json.dumps(found))


def _peak() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


if __name__ == "__main__":
    main(*sys.argv[1:])
