"""Files that a stranger may have put there: none runs a program, leads elsewhere, or is waited for."""

import csv
import io
import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lps import api
from lps.__main__ import main
from lps.analysis import projection
from lps.analysis.labels import Labels
from lps.analysis.projection import read_map
from lps.data import sources
from lps.datasets import Images
from lps.errors import UserError
from lps.files.atomic import open_regular, read_checked, read_small, write_checked
from lps.interop import imports, label_files
from lps.machine import detached_jobs
from lps.network import start_weights
from lps.scheduler import launcher, run_slots
from lps.scheduler.log_file import Log
from lps.settings.config import configure
from lps.store.events import EventWriter, check_version, end_of_events, read_events, read_history, read_last_event
from lps.store.events_tail import RecentEvents, read_recent
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, write_arrays
from lps.store.summary import summarize
from lps.studies import search
from lps.training import checkpoints
from lps.ui.shared.history import read_log_tail
from tests.queued_runs import asked
from tests.reliability.damage import FILES, link, pipe
from tests.sample_runs import make_run

KINDS = ("pickle", "torch", "torch, older", "npy", "npz", "npz, named like a tensor")


class Canary:
    """Makes a file where it is unpickled."""

    def __init__(self, nest: Path):
        self.nest = nest

    def __reduce__(self):
        return os.mkdir, (str(self.nest),)


def bait(kind: str, nest: Path, names=("x_train", "y_train")) -> bytes:
    """A file of some kind with a canary in it."""
    out = io.BytesIO()
    value = Canary(nest)
    if kind == "pickle":
        return pickle.dumps({"model": value})
    if kind.startswith("torch"):
        torch.save({"model": value, "x": torch.ones(2)}, out, _use_new_zipfile_serialization=kind == "torch")
    elif kind == "npy":
        np.save(out, np.array([value], dtype=object), allow_pickle=True)
    elif kind == "npz":
        np.savez(out, **{name: np.array([value], dtype=object) for name in names})
    else:
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(value))
            archive.writestr("archive/version", "3\n")
            for name in names:
                archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + _header("{'descr': '|O', 'shape': (1,)}", value))
    return out.getvalue()


def _header(text: str, value) -> bytes:
    line = (text[:-1] + ", 'fortran_order': False}").ljust(117).encode() + b"\n"
    return struct.pack("<H", len(line)) + line + pickle.dumps(value)


@pytest.fixture
def nest(tmp_path):
    path = tmp_path / "hatched"
    yield path
    assert not path.exists(), "a file was unpickled, and ran what it said"


@pytest.mark.parametrize("kind", KINDS)
def test_the_canary_would_sing(tmp_path, kind):
    """The control: read without care, each of these files does what it says."""
    path, nest = tmp_path / "bait", tmp_path / "hatched"
    path.write_bytes(bait(kind, nest))
    if kind == "pickle":
        pickle.loads(path.read_bytes())
    elif kind.startswith("torch"):
        torch.load(path, weights_only=False)
    else:
        loaded = np.load(path, allow_pickle=True)
        if kind != "npy":
            loaded["x_train"]
    assert nest.is_dir()


@pytest.mark.parametrize("kind", KINDS)
def test_pictures(tmp_path, nest, kind, monkeypatch):
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "pictures.npz"
    path.write_bytes(bait(kind, nest))
    with pytest.raises(UserError):
        sources.load("arrays", str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_start_weights(tmp_path, nest, kind):
    path = tmp_path / "weights.pt"
    path.write_bytes(bait(kind, nest))
    with pytest.raises(UserError) as caught:
        start_weights.read_tensors(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_of_a_run_even_with_the_right_checksum(tmp_path, nest, kind):
    folder = create_run(tmp_path / "runs", configure({}), "").checkpoints
    folder.mkdir()
    checkpoints.save_checkpoint(folder, "step-00000001", {"epoch": 1})
    write_checked(folder / "step-00000002.pt", bait(kind, nest))
    assert checkpoints.load_checkpoint(folder, "step-00000002") is None
    assert checkpoints.load_newest(folder) == ("step-00000001", {"epoch": 1}, {"step-00000002": checkpoints.FOREIGN})


@pytest.mark.parametrize("kind", KINDS)
def test_snapshots_splits_and_maps(tmp_path, nest, kind):
    run = create_run(tmp_path / "runs", configure({}), "")
    for folder in (run.snapshots, run.projections):
        folder.mkdir()
    data = bait(kind, nest, ("predicted", "confidence", "features", "feature_index", "seen", "labeled", "points"))
    for path in (run.folder / "split.npz", run.snapshots / "epoch-0001.npz", run.projections / "umap-epoch-0001.npz"):
        path.write_bytes(data)
    for read in (
        lambda: read_split(run.folder),
        lambda: read_snapshot(run.snapshots, 1),
        lambda: read_map(run, "umap", 1),
    ):
        with pytest.raises((UserError, OSError, ValueError)):
            if read() is None:
                raise ValueError


@pytest.mark.parametrize("kind", KINDS)
def test_imported_runs(tmp_path, nest, kind):
    source = create_run(tmp_path / "theirs", configure({}), "")
    for folder in (source.checkpoints, source.snapshots):
        folder.mkdir()
    write_checked(source.checkpoints / "step-00000001.pt", bait(kind, nest))
    (source.snapshots / "epoch-0001.npz").write_bytes(bait(kind, nest, ("predicted", "confidence")))
    (source.folder / "split.npz").write_bytes(bait(kind, nest, ("seen",)))
    try:
        (found,) = imports.import_runs(source.folder, tmp_path / "runs")
    except UserError as error:
        assert str(error).isprintable()
    else:
        assert checkpoints.load_checkpoint(found.run.checkpoints, "step-00000001") is None
    (source.folder / "split.npz").unlink()
    (source.snapshots / "epoch-0001.npz").unlink()
    (found,) = imports.import_runs(source.folder, tmp_path / "without arrays")
    assert (found.run.checkpoints / "step-00000001.pt").is_file()  # the bait was taken
    assert checkpoints.load_checkpoint(found.run.checkpoints, "step-00000001") is None


def test_downloads_that_are_pickles_themselves(tmp_path, nest, monkeypatch):
    """CIFAR's own files are pickles: torchvision opens them, and only where their digest is the published one."""
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"]:
        (folder / name).write_bytes(bait("pickle", nest))
    with pytest.raises(UserError):
        sources.load("cifar10", str(tmp_path))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("sound") / "runs", "stopped", epochs=3, written=3)


@pytest.fixture
def run(sound, tmp_path):
    shutil.copytree(sound.folder, tmp_path / "runs" / sound.id)
    return Run(tmp_path / "runs" / sound.id)


def as_link(run: Run, name: str) -> None:
    """The same file, elsewhere."""
    place = run.folder / name
    elsewhere = run.root.parent / "elsewhere"
    elsewhere.write_bytes(place.read_bytes() if place.exists() else b"{}")
    link(run.folder, name, elsewhere)


def as_pipe(run: Run, name: str) -> None:
    pipe(run.folder, name)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("replace", [as_link, as_pipe])
@pytest.mark.parametrize("name", FILES)
def test_commands_follow_no_link_and_wait_for_no_pipe(run, capsys, name, replace):
    replace(run, name)
    here = ["--runs", str(run.root)]
    assert main(["list", *here]) == main(["show", run.id, *here]) == main(["show", run.id, "--json", *here]) == 0
    needed = ("config.json", "names.json", "split.npz", "snapshots/epoch-0003.npz")
    refused = main(["export", run.id, "--to", str(run.root.parent / "labels.csv"), *here])
    assert bool(refused) == (name in needed)
    words = capsys.readouterr().err
    assert len(words.splitlines()) == 1 and words.startswith("lps: " if refused else "labels of epoch 3"), words


@pytest.mark.timeout(60)
@pytest.mark.parametrize("replace", [as_link, as_pipe])
def test_every_reader_takes_a_link_or_pipe_for_no_file(run, replace):
    for name in ("events.jsonl", "log.txt", "split.npz", "snapshots/epoch-0003.npz"):
        replace(run, name)
        with pytest.raises(OSError):
            open_regular(run.folder / name)
    assert read_events(run.events) == ([], 0) and list(read_history(run.events)) == []
    assert read_last_event(run.events) is None and check_version(run.events) == 0
    assert read_recent(run.events) == RecentEvents() and summarize(run)["epochs"] == 0
    assert read_log_tail(run) == api.Run(run.folder).log() == "" and detached_jobs.last_line(run.log) == ""
    for read in (lambda: read_split(run.folder), lambda: read_snapshot(run.snapshots, 3)):
        with pytest.raises(UserError, match=r"npz: cannot be read \(it is (not a regular file|a link, .*)\)$"):
            read()
    with pytest.raises(OSError):
        end_of_events(run.events)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("replace", [as_link, as_pipe])
def test_small_and_checked_files_too(tmp_path, replace):
    run = create_run(tmp_path / "runs", configure({}), "")
    write_checked(run.folder / "x.pt", b"weights")
    assert read_checked(run.folder / "x.pt") == b"weights"
    replace(run, "x.pt")
    assert read_checked(run.folder / "x.pt") is None
    if replace is as_link:
        with pytest.raises(OSError):
            read_small(run.folder / "x.pt")


def test_nothing_is_written_through_a_link(run, tmp_path):
    mine = tmp_path / "mine"
    mine.write_bytes(b"a letter\nwithout an end")
    for name in ("events.jsonl", "log.txt", "map.log"):
        link(run.folder, name, mine)
    for write in (lambda: EventWriter(run.events), lambda: Log(run.log)):
        with pytest.raises(OSError):
            write()
    detached_jobs.start_job(run.folder / "map.npz", ["true"])
    assert mine.read_bytes() == b"a letter\nwithout an end" and not (run.folder / "map.log").is_symlink()


LETTER = b"a letter\nwithout an end"


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """A folder of two runs that wait for the one slot, where starting one only writes it down."""
    monkeypatch.setenv("LPS_CPU_SLOTS", "1")
    monkeypatch.setattr(run_slots, "available_gpus", lambda: [])
    monkeypatch.setattr(launcher, "_start_daemon", lambda *_: None)
    (tmp_path / "letter").write_bytes(LETTER)
    asked(tmp_path / "runs", 0, 1)
    yield tmp_path / "runs"
    assert (tmp_path / "letter").read_bytes() == LETTER and not (tmp_path / "nothing").exists()


@pytest.fixture
def started(monkeypatch) -> list[int]:
    """Seeds of the runs that were started."""
    found = []
    monkeypatch.setattr(launcher, "_spawn", lambda run, *_: found.append(run.config().seed))
    return found


@pytest.mark.parametrize("name", [".slots/cpu-0.lock", ".sched.lock", ".slots"])
@pytest.mark.parametrize("target", ["letter", "nothing"])
def test_a_link_in_place_of_a_lock_of_the_queue_is_not_followed(root, started, name, target):
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(root.parent / target)
    with pytest.raises(UserError, match=f"no run can be started in .*{name}: it is a link, and links are not followed"):
        launcher.dispatch(root)
    assert not started
    (root / name).unlink()
    assert launcher.dispatch(root) and started == [0, 1]


def test_a_slot_whose_file_has_a_name_elsewhere_too_is_not_written_to(root, started):
    (root / ".slots").mkdir()
    os.link(root.parent / "letter", root / ".slots/cpu-0.lock")
    assert launcher.dispatch(root) and started == [0, 1]


@pytest.mark.parametrize("target", ["letter", "nothing"])
def test_a_run_whose_lock_is_a_link_waits_and_the_others_go_on(root, started, capsys, target):
    run = list_runs(root)[1] if list_runs(root)[0].config().seed else list_runs(root)[0]
    run.lock.unlink()
    run.lock.symlink_to(root.parent / target)
    assert [other.config().seed for other in launcher.dispatch(root)] == started == [1]
    assert main(["list", "--runs", str(root)]) == 0 and "lock is not a regular file" in capsys.readouterr().out
    assert main(["delete", run.id, "--runs", str(root)]) == 2 and "are not followed" in capsys.readouterr().err


def test_folders_of_a_run_that_are_links_are_not_written_into(run, tmp_path):
    (tmp_path / "outside").mkdir()
    shutil.rmtree(run.projections, ignore_errors=True)
    run.projections.symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic"):
        detached_jobs.start_job(run.projections / "map.npz", ["true"])
    with pytest.raises(OSError, match="symbolic"):
        projection.compute_map(run, "pca", 3)
    assert not list((tmp_path / "outside").iterdir())


def test_a_journal_of_a_search_that_is_a_link_is_not_written_through(tmp_path):
    pytest.importorskip("optuna")
    found = search.Search(tmp_path / "runs" / search.FOLDER / "x")
    found.folder.mkdir(parents=True)
    found.journal.symlink_to(tmp_path / "nothing")
    with pytest.raises(UserError, match="trials.jsonl cannot be read"):
        search.open_study(found, create=True)
    assert not (tmp_path / "nothing").exists()


def test_names_of_classes_are_printable(run):
    whole = dict(np.load(run.folder / "split.npz"))
    names = np.array(["\ud800", "a\udcffb", "\x1b[31mred", "cat", *whole["class_names"][4:]])
    write_arrays(run.folder / "split.npz", **whole | {"class_names": names})
    assert read_split(run.folder)[0].class_names[:5] == ("0", "a b", "[31mred", "cat", "4")


NAMES = (b"caf\xe9.png", b"cafe\xcc\x81.png", b"two\nlines.png", b" x .png")  # not UTF-8, not NFC, not one line, spaces


@pytest.fixture
def pictures(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "cache"))
    for folder in ("cat", "dog"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        for i, name in enumerate(NAMES):
            Image.new("RGB", (8, 8), (50 * i, 0, 0)).save(tmp_path / "one.png")
            shutil.copy(tmp_path / "one.png", os.fsencode(tmp_path / "in" / folder) + b"/" + name)
    return tmp_path / "in"


def labels_of(images: Images) -> Labels:
    count = len(images.labels)
    ids, none = np.arange(count), np.full(count, -1)
    names = tuple(images.class_names[label] for label in images.labels)
    return Labels(1, ids, none, none, np.full(count, np.nan), names, ("seen",) * count, ("labeled",) * count)


def test_pictures_whose_names_are_no_text_are_found_again(pictures, tmp_path):
    images = sources.load("folder", str(pictures), 8)
    assert len(images.labels) == 2 * len(NAMES) and images.skipped == ()
    assert all((pictures / name).is_file() for name in images.file_names)
    for links in (False, True):
        made = label_files.write_folder(tmp_path / f"out {links}", labels_of(images), images, pictures, links)
        assert {os.fsencode(path.name) for path in (made / "cat").iterdir()} == set(NAMES)
    table = list(csv.DictReader(io.StringIO((made / "labels.csv").read_bytes().decode())))
    files = {row["file"] for row in table}
    assert "cat/caf\\xe9.png" in files and "dog/cafe\u0301.png" in files and len(files) == len(table)
    assert sum((pictures / name).is_file() for name in files) == 2 * (len(NAMES) - 2)  # bytes and a line break
