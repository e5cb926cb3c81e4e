"""python -m benchmarks.live_views: training on views of pictures that stay in their files, 10^3 to 128,000 of them.

A folder of JPEG files, ten classes of which five are seen and half sorted, is read by reference: decoded pictures are
not stored. At most `--different` files differ; the others are hard links to these. Each stage is a separate process,
measured as in `benchmarks.scale`:

    first start      list, decode every picture once, split
    start again      list, split
    steps            the first steps of LPS on a MobileNet, with weak and strong views; no evaluation

    python -m benchmarks.live_views                     1,000 and 10,000 pictures of 224 pixels
    python -m benchmarks.live_views --counts 128000 --side 32

--side: of the pictures in the files; they are always decoded to 224 pixels. The rate `decoded` is the most that the
worker processes could deliver together. `worker MB` is the anonymous memory of the largest worker, including pages that
it shares with the training process.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.report import section
from benchmarks.scale import CLASSES, SEEN, measure, with_exponents

_SIZE, _BATCH = 224, 16


def make(target: Path, count: int, different: int, side: int) -> None:
    """Smooth noise around a colour of the class, as JPEG; of a photograph's size."""
    from PIL import Image

    draw, files = np.random.default_rng(0), []
    for number in range(count):
        label, row = number % CLASSES, number // CLASSES
        is_labeled = label < SEEN and row % 2 == 0
        folder = target / (f"class {label}" if is_labeled else f"unlabeled/{row // 1000:04d}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{number:07d}.jpg"
        if number >= different:
            os.link(files[number % different], path)
            continue
        coarse = draw.integers(0, 256, (side // 4, side // 4, 3)) * 0.5 + 12 * label
        image = Image.fromarray(coarse.astype(np.uint8)).resize((side, side), Image.Resampling.BICUBIC)
        out = io.BytesIO()
        image.save(out, "JPEG", quality=90)
        path.write_bytes(out.getvalue())
        files.append(path)


def _config(path: Path):
    from lps.settings.config import configure

    return configure(
        {
            "dataset": "folder",
            "dataset.path": str(path / "pictures"),
            "dataset.image_size": _SIZE,
            "method": "lps",
            "split.num_novel": CLASSES - SEEN,
            "network.name": "torchvision:mobilenet_v3_small",
            "network.freeze_until": "none",
            "network.start": "random",
            "batch_size": _BATCH,
        }
    )


def start(path: Path, steps: int) -> None:
    """What a run does before its first step."""
    from lps.data.training_data import prepare

    assert prepare(_config(path)).digest


def train(path: Path, steps: int) -> None:
    """The first steps of a run, with what they wait for; prints a line of JSON."""
    import torch

    from lps.data.batches import training_batches
    from lps.data.referenced_pictures import rate_of_workers
    from lps.data.training_data import prepare
    from lps.data.views import views_of
    from lps.methods import Progress
    from lps.training.loop import build
    from lps.training.step_clock import StepClock

    config = _config(path)
    material = prepare(config)
    method, optimizer = build(config, material)
    views = tuple(views_of(config)[name] for name in method.views)
    targets = torch.from_numpy(material.truth[material.split.labeled]).to(material.images.device)
    clock, worker, done = StepClock(material.images.device), 0, 0
    method.train()
    for batch in training_batches(
        material.images, targets, material.split, views, material.plan, config, 0, lap=clock.lap
    ):
        loss, _ = method.loss(batch, Progress(0, 1, done, material.plan.steps))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock.lap("network")
        worker = max([worker, *map(_own_memory, _children())])
        done += 1
        if done == steps:
            break
    told = {"steps": done} | clock.by_step(done) | rate_of_workers(material.images)
    print(json.dumps(told | {"worker MB": worker >> 10}), flush=True)


def _children() -> list[str]:
    return [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def _own_memory(pid: str) -> int:
    """KB of a process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


STAGES = {"first start": start, "start again": start, "steps": train}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_views", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 10_000], help="pictures")
    parser.add_argument("--different", type=int, default=2000, help="files that are no links to others")
    parser.add_argument("--side", type=int, default=_SIZE, help="pixels of a side in the files")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--carry-out", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.carry_out:
        STAGES[asked.carry_out[0]](Path(asked.carry_out[1]), asked.steps)
        return
    rows = []
    for count in asked.counts:
        with tempfile.TemporaryDirectory() as place:
            make(Path(place) / "pictures", count, asked.different, asked.side)
            environment = os.environ | {"LPS_CACHE": f"{place}/cache", "LPS_DECODED_GB": "0"}
            for name in STAGES:
                command = [sys.executable, "-m", "benchmarks.live_views", "--steps", str(asked.steps)]
                rows.append({"stage": name, "pictures": count})
                rows[-1] |= measure([*command, "--carry-out", name, place], dict(environment))
                print(rows[-1], file=sys.stderr, flush=True)
            cache = subprocess.run(["du", "-sk", f"{place}/cache"], check=True, capture_output=True, text=True)
            print(f"{count:,} pictures: {int(cache.stdout.split()[0]) / 1000:.1f} MB of cache", flush=True)
    print(section("Live views", "Each stage is a process of its own.", with_exponents(rows)))


if __name__ == "__main__":
    main()
