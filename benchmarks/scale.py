"""python -m benchmarks.scale FILE.npz: the costs of 10^3 to 10^6 pictures, from the files to the labels of all.

FILE.npz has 10 classes of pictures of 32 x 32 pixels: x_train, y_train, x_test, y_test (of CIFAR-10). They are shifted,
mirrored, tinted and saved as JPEG, so that all pictures differ: five classes of which half is labeled, everything else
unknown. Each stage is a separate process; the script reads its memory 20 times per second:

    peak MB     most resident memory, with pages of mapped files, which the system takes back when it needs them
    own MB      most anonymous memory, which cannot be taken back without swap
    CPU s       processor time, user and system

    python -m benchmarks.scale FILE.npz                          10^3, 10^4, 10^5
    python -m benchmarks.scale FILE.npz --counts 1000000         a million
    python -m benchmarks.scale FILE.npz --dataset shards         the same pictures in tar files of 10,000
    python -m benchmarks.scale FILE.npz --dataset shards --counts 1000000 --planted

--planted skips the work that grows with the number of pictures and takes hours: a backbone's features are replaced by
vectors of 128 numbers around one centre per class, written through the same store. The stage `backbone, for 30 s`
measures the rate of the real backbone.

    python -m benchmarks.scale FILE.npz --made --counts 1000000 --only clusters "review order"

--made uses the made-up run of benchmarks.map in place of pictures and training (FILE.npz is not read), for stages that
only read a run.

The last columns of the report are exponents: log(value of the largest / of the one before) / log(their counts).
"""

import argparse
import io
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path

import numpy as np

from benchmarks.report import section

SIDE, CLASSES, SEEN = 32, 10, 5
_LOOK_S = 0.05  # between two looks at the memory of a stage
_DRAWN_AT_ONCE, _MADE_AT_ONCE, _IN_SHARD = 1000, 2000, 10_000  # pictures
_EDGE = 4  # pixels around a picture that a crop may take
_BACKBONE_S = 30
_WIDTH = 128  # numbers of a planted feature


# ---------------------------------------------------------------------------------------------------- the pictures


def make_folder(originals: Path, target: Path, count: int) -> None:
    """`count` pictures below `target`, with one process a core."""
    starts = range(0, count, _MADE_AT_ONCE)
    for label in range(SEEN):
        (target / f"class {label}").mkdir(parents=True)
    for start in starts:
        (target / "unlabeled" / f"{start:07d}").mkdir(parents=True)
    with ProcessPoolExecutor() as pool:
        list(pool.map(partial(_make_some, originals, target, count), starts))


def _make_some(originals: Path, target: Path, count: int, start: int) -> None:
    for number, label, content in _pictures(originals, start, min(start + _MADE_AT_ONCE, count)):
        folder = target / (f"class {label}" if _is_labeled(number, label) else f"unlabeled/{start:07d}")
        (folder / f"{number:07d}.jpg").write_bytes(content)


def make_shards(originals: Path, target: Path, count: int) -> None:
    """The same pictures in tar shards, with one process a core."""
    target.mkdir()
    with ProcessPoolExecutor() as pool:
        list(pool.map(partial(_make_shard, originals, target, count), range(0, count, _IN_SHARD)))


def _shard(target: Path, start: int) -> Path:
    return target / f"train-{start // _IN_SHARD:04d}.tar"


def _make_shard(originals: Path, target: Path, count: int, start: int) -> None:
    with tarfile.open(_shard(target, start), "w") as archive:
        for number, label, content in _pictures(originals, start, min(start + _IN_SHARD, count)):
            _add(archive, f"{number:07d}.jpg", content)
            if _is_labeled(number, label):
                _add(archive, f"{number:07d}.cls", f"class {label}".encode())


def make_arrays(originals: Path, target: Path, count: int) -> None:
    """Noise of 8 x 8 pixels, in one file."""
    noise = np.random.default_rng(7).integers(0, 256, (count, 8, 8), np.uint8)
    labels = [number % CLASSES if _is_labeled(number, number % CLASSES) else -1 for number in range(count)]
    np.savez(_array_file(target), x_train=noise, y_train=labels)


def _array_file(pictures: Path) -> Path:
    return pictures.with_suffix(".npz")


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    head = tarfile.TarInfo(name)
    head.size = len(content)
    archive.addfile(head, io.BytesIO(content))


MAKERS = {"folder": make_folder, "shards": make_shards, "arrays": make_arrays}


def _is_labeled(number: int, label: int) -> bool:
    return label < SEEN and number // CLASSES % 2 == 0


@cache
def _originals(file: Path) -> tuple[np.ndarray, list[np.ndarray]]:
    """(pixels of every picture with its edge mirrored around it, the pictures of each class)."""
    with np.load(file) as arrays:
        pixels, labels = (np.concatenate([arrays[f"{name}_{part}"] for part in ("train", "test")]) for name in "xy")
    edged = np.pad(pixels, ((0, 0), (_EDGE, _EDGE), (_EDGE, _EDGE), (0, 0)), "reflect")
    return edged, [np.flatnonzero(labels == label) for label in range(CLASSES)]


def _pictures(originals: Path, start: int, stop: int):
    """(number, class, JPEG) of pictures that follow from their number alone."""
    from PIL import Image

    edged, of_class = _originals(originals)
    for first in range(start, stop, _DRAWN_AT_ONCE):
        draw = np.random.default_rng([7, first])
        shape = (_DRAWN_AT_ONCE, 3)
        gains, shifts = draw.uniform(0.85, 1.15, shape).astype(np.float32), draw.uniform(-20, 20, shape[0])
        (lefts, tops), (rows, flips) = draw.integers(0, 2 * _EDGE + 1, (2, shape[0])), draw.random((2, shape[0]))
        for i, number in enumerate(range(first, min(first + _DRAWN_AT_ONCE, stop))):
            label = number % CLASSES
            picture = edged[of_class[label][int(rows[i] * len(of_class[label]))]]
            picture = picture[tops[i] : tops[i] + SIDE, lefts[i] : lefts[i] + SIDE] * gains[i] + np.float32(shifts[i])
            picture = picture.clip(0, 255).astype(np.uint8)[:, :: 1 if flips[i] < 0.5 else -1]
            out = io.BytesIO()
            Image.fromarray(picture).save(out, "JPEG", quality=90)
            yield number, label, out.getvalue()


# ------------------------------------------------------------------------------------------------------- the stages


_PLANTED = {}  # settings of planted features, which have a store of their own


def _config(path: Path, **settings):
    from lps.settings.config import configure

    is_arrays, pictures = path.parent.name == "arrays", path / "pictures"
    usual = {
        "dataset": path.parent.name, "dataset.path": str(_array_file(pictures) if is_arrays else pictures),
        "dataset.image_size": None if is_arrays else SIDE,
        "split.num_novel": CLASSES - SEEN, "features": "stored", "network.name": "digits_resnet",
        "network.start": "random", "network.image_size": None, "features.weak_views": 1, "features.strong_views": 1,
        "epochs": 1,
    }  # fmt: skip
    return configure(usual | {"method": "lps"} | _PLANTED | settings)


def list_files(path: Path) -> None:
    """The list of files or shards, and what changes when one does."""
    from lps.datasets import folder, shards

    if path.parent.name == "shards":
        shards.stamp(str(path / "pictures"))
    else:
        folder._listed(str(path / "pictures"))[1].digest()


def start(path: Path) -> None:
    """What a run does before its first step but for features: list, decode or find decoded, split."""
    from lps.data.training_data import prepare
    from lps.scheduler import preflight

    config = _config(path)
    preflight.check_config(config)
    prepare(config)


def features(path: Path) -> None:
    """Three views of every picture through the backbone, or finding that they are there."""
    from lps.data import features

    features.build_store(_config(path), lambda done, total: None, lambda: False)


def backbone(path: Path) -> None:
    """The same for half a minute; what is done stays, so a next time goes on."""
    from lps.data import features

    done = []  # (views, seconds, processor seconds)

    def report(views: int, total: int) -> None:
        done.append((views, time.perf_counter(), time.process_time()))

    features.build_store(_config(path), report, lambda: done[-1][1] - done[0][1] > _BACKBONE_S)
    views, seconds, cpu = (last - first for first, last in zip(done[0], done[-1]))
    print(f"backbone: {views:,} views in {seconds:.1f} s, {cpu:.1f} s of processors", file=sys.stderr)


def plant() -> None:
    """Let a feature follow from the class of its picture."""
    from lps.data import sources
    from lps.data.extraction import Extraction

    _PLANTED["features.seed"] = 1

    def begin(extraction: Extraction):
        files = sources.images_of(extraction._config).file_names
        numbers = [int(Path(name).stem) for name in files] or range(len(extraction._images))
        labels = np.array(numbers) % CLASSES
        centres = np.random.default_rng(1).normal(0, 1, (CLASSES, _WIDTH))

        def compute(view: str, start: int, stop: int) -> bytes:
            draw = np.random.default_rng([len(view), start])
            some = centres[labels[start:stop]] + draw.normal(0, 1.5, (stop - start, _WIDTH))
            return some.astype(np.float16).tobytes()

        return _WIDTH, {"about": {}, "settings": {}}, compute

    Extraction.begin = begin


def train(path: Path, method: str = "lps") -> None:
    """A run of one epoch on stored features, with evaluation, checkpoint and a snapshot with all features."""
    from lps.store.run_folders import create_run
    from lps.training.loop import train

    run = create_run(path / "runs", _config(path, method=method, **{"snapshot.images": None}), name=method)
    if train(run):
        raise SystemExit(1)
    events = [json.loads(line) for line in run.events.read_text().splitlines()]
    values = {name: value for event in events for name, value in event["values"].items() if name.startswith("time/")}
    moments = {event["kind"]: event["time"] for event in events}
    print(json.dumps(values | {"train_s": round(moments["train"] - moments["start"], 1)}), file=sys.stderr)


def _newest(path: Path):
    from lps.store.run_folders import list_runs

    return max((run for run in list_runs(path / "runs") if run.config().method == "lps"), key=lambda run: run.id)


@contextmanager
def _timed(name: str) -> Iterator[None]:
    """Print what the inside takes, without the imports before."""
    began, cpu = time.perf_counter(), time.process_time()
    yield
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"{name}: {seconds:.2f} s, {cpu:.2f} s of processors", file=sys.stderr)


def clusters(path: Path) -> None:
    """What the page Clusters computes of an epoch."""
    import scipy.optimize  # noqa: F401  # the first matching would import it

    from lps.ui.pictures import predictions

    run = _newest(path)
    with _timed("clusters"):
        predictions.read_view(run, 1)


def review(path: Path) -> None:
    """The pictures that a person should look at first."""
    from lps.analysis import naming, review_order

    run = _newest(path)
    with _timed("review"):
        review_order.assess_doubts(review_order.read_review_session(run, 1), naming.naming_of_epoch([], 1))


def export(path: Path) -> None:
    """labels.csv of all pictures."""
    from lps.interop import label_files

    label_files.export(_newest(path), path / "labels.csv")


def layout(path: Path) -> None:
    """A map of all unlabeled pictures."""
    from lps.analysis import projection

    projection.compute_map(_newest(path), "umap", 1)


def data_check(path: Path) -> None:
    """Near duplicates, outliers and doubtful labels among all pictures."""
    from lps.studies.picture_audit import audit_pictures

    audited = audit_pictures(_config(path), path / "runs")
    print(f"data check: {audited.total}", file=sys.stderr)


def check_features(path: Path) -> None:
    """The same of the features in a snapshot: every second picture has its label."""
    from lps.analysis.audit import audit_features, parts_of
    from lps.store.snapshots import open_features, read_split

    run = _newest(path)
    split, targets = read_split(run.folder)
    labels = targets[split.unlabeled]
    with open_features(run.snapshots, 1) as stored:  # a snapshot that is read whole has at most 256 MB
        features = stored.rows("features", np.arange(len(labels)))
    labels[::2] = -1
    with _timed("data check of features"):
        audited = audit_features(features, labels, parts_of(labels, 0))
    counts = (len(audited.duplicates), len(audited.strangers), len(audited.denied))
    print(f"duplicates, outliers, labels: {counts}; recall: {audited.recall}", file=sys.stderr)


STAGES = {
    "list the files": list_files,
    "first start: list, decode, split": start,
    "start again, nothing changed": start,
    "features, 3 views": features,
    "features again, nothing changed": features,
    "backbone, for 30 s": backbone,
    "lps, one epoch": train,
    "gcd, one epoch": partial(train, method="gcd"),
    "clusters": clusters,
    "review order": review,
    "export labels.csv": export,
    "map": layout,
    "data check": data_check,
    "data check of features": check_features,
}


# ---------------------------------------------------------------------------------------------------------- measuring


def measure(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Seconds, processor seconds and memory of one process; raises `CalledProcessError` where it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(command, env=environment)
    peak = own = 0
    while process.poll() is None:
        with suppress(OSError, KeyError, ValueError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            facts = dict(line.split(":", 1) for line in status.splitlines())
            peak = max(peak, int(facts["VmHWM"].split()[0]))
            own = max(own, int(facts["RssAnon"].split()[0]))
        time.sleep(_LOOK_S)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"s": round(seconds, 1), "CPU s": round(cpu, 1), "peak MB": peak >> 10, "own MB": own >> 10}


def disk_use(folder: Path) -> int:
    """Bytes that the files below a folder take on the disk."""
    found = subprocess.run(["du", "-s", "-B1", str(folder)], check=True, capture_output=True, text=True)
    return int(found.stdout.split()[0])


def go_through(originals: Path, home: Path, count: int, only: list[str], more: list[str], is_made: bool) -> list[dict]:
    """A row a stage, for `count` pictures; home: a folder with the name of the data set.

    is_made: the run is made up, without pictures.
    """
    path = home / f"{count}"
    environment = os.environ | {"LPS_CACHE": str(path / "cache"), "LPS_DECISIONS": str(path / "decisions")}
    if is_made:
        if not (path / "runs").exists():
            from benchmarks.map import make  # needs a browser's library

            make(path / "runs", count)
    elif not (path / "made").exists():
        shutil.rmtree(path, ignore_errors=True)
        began = time.perf_counter()
        path.mkdir(parents=True)
        MAKERS[home.name](originals, path / "pictures", count)
        (path / "made").touch()
        print(f"{count:,} pictures made in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    rows = []
    for name in only:
        command = [sys.executable, "-m", "benchmarks.scale", str(originals), "--carry-out", name, str(path), *more]
        try:
            row = measure(command, environment)
        except subprocess.CalledProcessError as error:
            row = {"s": math.nan, "failed": error.returncode}
        rows.append({"stage": name, "pictures": count} | row)
        print(rows[-1], file=sys.stderr, flush=True)
    used = {part: disk_use(path / part) for part in ("pictures", "cache", "runs") if (path / part).exists()}
    print(f"{count:,} pictures, MB on disk: { {part: size >> 20 for part, size in used.items()} }", flush=True)
    return rows


def with_exponents(rows: list[dict]) -> list[dict]:
    """The rows by stage, each with how processor time and own memory grow from the count before."""
    found = []
    for name in dict.fromkeys(row["stage"] for row in rows):
        before = None
        for row in sorted((row for row in rows if row["stage"] == name), key=lambda row: row["pictures"]):
            grown = {}
            for column in ("CPU s", "own MB"):
                if before and before.get(column) and row.get(column):
                    ratio = math.log(row[column] / before[column])
                    grown[f"exponent of {column}"] = round(ratio / math.log(row["pictures"] / before["pictures"]), 2)
            found.append(row | grown)
            before = row
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("originals", type=Path, metavar="FILE.npz", help="pictures of 10 classes, as CIFAR-10")
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 10_000, 100_000], help="pictures")
    parser.add_argument("--dataset", choices=MAKERS, default="folder")
    parser.add_argument("--home", type=Path, default=Path("/tmp/lps-scale"), help="where pictures and results lie")
    parser.add_argument("--only", nargs="+", choices=STAGES, default=list(STAGES)[:-1], metavar="STAGE")
    parser.add_argument("--planted", action="store_true", help="features by class, without a backbone")
    parser.add_argument("--made", action="store_true", help="the run of benchmarks.map, without pictures and training")
    parser.add_argument("--carry-out", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.carry_out:
        name, path = asked.carry_out
        if asked.planted and STAGES[name] is not backbone:
            plant()
        STAGES[name](Path(path))
        return
    home, more = asked.home / ("made" if asked.made else asked.dataset), ["--planted"] * asked.planted
    rows = [
        row for count in asked.counts for row in go_through(asked.originals, home, count, asked.only, more, asked.made)
    ]
    print(section(f"Scale: {asked.dataset}", "Each stage is a process of its own.", with_exponents(rows)))


if __name__ == "__main__":
    main()
