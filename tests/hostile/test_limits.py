"""More in a file than any run holds: refused or left out by an import, and shown by every page at little cost."""

import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import lps.ui
from lps.analysis import labels, naming
from lps.charts.event_log import MAX_ENDS, EventLog, thin_out
from lps.errors import UserError
from lps.files.versions import MAX_CLASSES, MAX_EPOCHS, MAX_LINE, MAX_NAMES
from lps.interop import imports
from lps.store.events import (
    MeasurementNames,
    can_void,
    drop_repeated,
    first_shown_byte,
    parse_event,
    read_events,
    read_first_starts,
    read_history,
)
from lps.store.events_tail import read_recent
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, write_arrays
from lps.store.summary import summarize
from tests.sample_runs import make_run, rewritten
from tests.shares import OFFSET, in_turn, share
from tests.visiting import PAGES, visit, words_of

LISTS = ("pi_hat", "margin", "class/accuracy", "class/count_predicted")
SCALARS = "accuracy/all accuracy/seen accuracy/gap kl loss/total lr classes/seen baseline/kmeans/all".split()


def an_event(**different) -> dict:
    return {"kind": "eval", "step": 99, "epoch": 3, "time": time.time(), "values": {"accuracy/all": 0.5}} | different


def add_events(run: Run, *events: dict) -> None:
    with run.events.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def add_small(run: Run, count: int) -> None:
    """That many records of one number, 40 an epoch."""
    line = json.dumps(an_event(epoch=-1, values={"loss/total": 1})) + "\n"
    with run.events.open("a") as file:
        file.writelines(line.replace("-1", str(3 + k // 40)) for k in range(count))


def change(run: Run, name: str, of) -> None:
    """Write the array `name` of all snapshots anew."""
    for path in run.snapshots.glob("*.npz"):
        whole = {key: value for key, value in np.load(path).items() if key != "version"}
        write_arrays(path, **whole | {name: of(whole[name])})


def in_every_epoch(run: Run, value) -> None:
    rewritten(run, lambda _, values: {name: value(name, number) for name, number in values.items()})


def no_features(run: Run) -> None:
    change(run, "features", lambda features: features[:0])
    change(run, "feature_index", lambda index: index[:0])


def split_of_many(run: Run, images: int) -> np.ndarray:
    """Let that many images be unlabeled, behind a hundred labeled ones; return all ids."""
    numbers = np.arange(images + 100)
    ids = {"targets": numbers % 10, "labeled": numbers[:100], "unlabeled": numbers[100:]}
    ids |= {"test": numbers[:0], "validation": numbers[:0]}
    split = {key: value for key, value in np.load(run.folder / "split.npz").items() if key not in ("version", *ids)}
    write_arrays(run.folder / "split.npz", **split, **ids)
    return numbers


def many_features(run: Run, images: int) -> None:
    """That many images of 4096 features each, mostly zeros: little on disk."""
    values = np.zeros((images, 4096), np.float16)
    values[:, :40] = np.random.default_rng(0).normal(size=(images, 40))
    numbers = split_of_many(run, images)
    said = {"predicted": (np.arange(images) % 10).astype(np.int16), "confidence": np.full(images, 0.5, np.float16)}
    for path in run.snapshots.glob("*.npz"):
        write_arrays(path, **said, features=values, feature_index=numbers[100:])


def many_images(run: Run, images: int, epochs: int) -> None:
    """That many unlabeled images at every epoch, all with features, and a cluster that somebody named."""
    numbers, draws = split_of_many(run, images), np.random.default_rng(0)
    predicted = np.where(draws.random(images) < 0.8, numbers[100:] % 10, draws.integers(0, 10, images))
    features = (
        np.eye(10, 16, dtype=np.float32)[predicted] + 0.2 * draws.standard_normal((images, 16), np.float32)
    ).astype(np.float16)
    said = {"predicted": predicted.astype(np.int16), "confidence": draws.random(images).astype(np.float16)}
    first = run.snapshots / "epoch-0001.npz"
    write_arrays(first, **said, features=features, feature_index=numbers[100:].astype(np.int32))
    for epoch in range(2, epochs + 1):
        path = run.snapshots / f"epoch-{epoch:04d}.npz"
        path.unlink(missing_ok=True)
        path.hardlink_to(first)
    naming.record_steps(
        run, epochs, [{"do": "name", "id": 7, "name": "seven"}], labels.digest_of_predictions(predicted)
    )


def class_names(run: Run, count: int) -> None:
    whole = {key: value for key, value in np.load(run.folder / "split.npz").items() if key != "version"}
    more = {"class_order": np.arange(count), "class_names": np.arange(count).astype(str), "total": np.array(count)}
    write_arrays(run.folder / "split.npz", **whole | more)


# what is wrong -> (how a run comes to it, what an import says)
WRONG = {
    "a class id of 30,000": (
        lambda run: change(run, "predicted", lambda ids: np.append(ids[:-1], 30_000).astype(np.int16)),
        "has class ids from 0 to 30000; expected 0 to 999; it was left out",
    ),
    "no features": (no_features, ""),
    "features without width": (lambda run: change(run, "features", lambda features: features[:, :0]), ""),
    "features in float64": (
        lambda run: change(run, "features", lambda features: features.astype(float) * 1e300),
        "features has an unexpected type or shape: 'float64 (1000, 64)'",
    ),
    "features that are not finite": (lambda run: change(run, "features", lambda f: np.full_like(f, np.inf)), ""),
    "30,000 classes": (
        lambda run: class_names(run, 30_000),
        "class_order has the shape (30000,); expected at most (2000,)",
    ),
    "30,000 images of 4096 features": (
        lambda run: many_features(run, 30_000),
        "takes 469 MB of memory; expected at most 256 MB; it was left out",
    ),
    "as many features as there may be": (lambda run: many_features(run, 16_000), ""),
    "an epoch of 2^52": (
        lambda run: add_events(run, an_event(epoch=2**52)),
        "has a record of epoch 4503599627370496; expected at most 100,000",
    ),
    "the last epoch there may be": (lambda run: add_events(run, an_event(epoch=MAX_EPOCHS)), ""),
    "200,000 measurements": (
        lambda run: add_events(run, an_event(values={f"made/{i}": 0.5 for i in range(200_000)})),
        "has a record of 200,000 measurements; expected at most 1,000",
    ),
    "200,000 measurements in many records": (
        lambda run: add_events(run, *(an_event(values={f"made/{k}/{i}": 0.5 for i in range(500)}) for k in range(400))),
        "has more than 1,000 measurements",
    ),
    "lists for numbers": (
        lambda run: in_every_epoch(run, lambda name, value: [value, value] if name in SCALARS else value),
        "",
    ),
    "numbers for lists": (lambda run: in_every_epoch(run, lambda name, value: 5 if name in LISTS else value), ""),
    "lists of 100,000": (
        lambda run: in_every_epoch(run, lambda name, value: [0.5] * 100_000 if name in LISTS else value),
        "",
    ),
}


# what takes too long to be made for a quick test -> how a run comes to it
LONG = {
    "two million small records": lambda run: add_small(run, 2_000_000),
    "half a million images at 60 epochs": lambda run: many_images(run, 500_000, 60),
}
# what is looked at where a page shows more than it does by itself
MORE = {"clusters": {"image": "777"}, "projection": {"color": "cluster", "image": "777"}}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("sound") / "runs", epochs=3)


def copy_of(sound: Run, root) -> Run:
    shutil.copytree(sound.folder, root / sound.id)
    return Run(root / sound.id)


@pytest.fixture
def run(sound, tmp_path):
    return copy_of(sound, tmp_path / "theirs")


@pytest.mark.slow
@pytest.mark.parametrize("what", in_turn(list(WRONG), 2))
def test_an_import_refuses_it_or_leaves_it_out_in_a_sentence(run, tmp_path, what):
    spoil, words = WRONG[what]
    spoil(run)
    try:
        (found,) = imports.import_runs(run.folder, tmp_path / "runs")
        said = "; ".join(found.notes)
    except UserError as error:
        said = str(error)
        assert not list((tmp_path / "runs").glob("2*")), "something was written"
    assert said.isprintable() and words in said and bool(words) == bool(said)


@pytest.fixture(scope="module")
def looks():
    """looks(what, folder, pages) -> what `visit_all` finds, in a process of its own."""
    command, pipes = [sys.executable, "-m", "tests.hostile.test_limits"], {"stdin": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, **pipes)

    def ask(what: str, root: Path, pages: list[str]) -> list:
        server.stdin.write(json.dumps([what, str(root), pages]) + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())

    yield ask
    server.stdin.close()
    server.wait(20)


@pytest.mark.slow
@pytest.mark.parametrize("what", in_turn([*WRONG, *LONG], 2))
def test_every_page_shows_it_within_seconds_and_half_a_gigabyte(what, looks, tmp_path):
    """In a process of its own, whose memory is measured; a run that was put there by hand, past the import."""
    pages = share(PAGES, [*WRONG, *LONG].index(what) + OFFSET // 2, len(PAGES))
    found = looks(what, tmp_path, pages)
    assert [page for page, _, _ in found] == pages
    for page, seconds, megabytes in found:
        assert seconds < 20 and megabytes < 500, (page, seconds, megabytes)


def visit_all(what: str, root: Path, pages: list[str]) -> list[tuple[str, float, float]]:
    """(page, seconds of a processor, megabytes at most up to then) of these pages of a run that is wrong.

    The run is made by a process of its own: what that leaves in memory is none of the pages'.
    """
    run = in_a_process(make, what, root)
    os.environ["LPS_RUNS"] = str(root)
    found = []
    for page in pages:
        began = time.process_time()
        visit(page, run=run, **MORE.get(page, {}))
        found.append((page, time.process_time() - began, peak_mb()))
    return found


def in_a_process(do, *arguments):
    """What `do` returns in a copy of this process, or the error that it raises."""
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        return pool.submit(do, *arguments).result()


def serve() -> None:
    """A line for every line of the input, by a process that has what pages import, and no run in its memory."""
    for module in pkgutil.walk_packages(lps.ui.__path__, "lps.ui."):
        importlib.import_module(module.name)
    for name in ("optuna", "plotly.graph_objects", "sklearn.datasets", "sklearn.metrics"):
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed by the way is no answer
    for line in sys.stdin:
        what, root, pages = json.loads(line)
        print(json.dumps(in_a_process(visit_all, what, Path(root), pages)), file=answers, flush=True)


def make(what: str, root: Path) -> str:
    """The run that is wrong, beside a sound one; gives its id."""
    run = make_run(root, epochs=3)
    (LONG.get(what) or WRONG[what][0])(run)
    make_run(root, epochs=3, seed=1)
    return run.id


def peak_mb() -> float:
    """The most memory of this very process; what getrusage tells begins with that of whoever started it."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


@pytest.mark.parametrize("what", ["no features", "numbers for lists", "a class id of 30,000", "an epoch of 2^52"])
def test_live_shows_it(run, monkeypatch, what):
    monkeypatch.setenv("LPS_RUNS", str(run.root))
    WRONG[what][0](run)
    visit("live", run=run.id)


def test_measurements_beyond_the_first_thousand_are_left_out_by_every_reader(run):
    add_events(run, *(an_event(epoch=3 + k, values={f"made/{k}/{i}": 0.5 for i in range(500)}) for k in range(9)))
    log = EventLog(run.events).read_history()
    met = {name for event in read_history(run.events) for name in event["values"]}
    for names in (met, {*log.epochs, *log.pretrain, *log.vectors, *log.start}, summarize(run)["last"].keys()):
        assert 500 < len(names) <= MAX_NAMES and {"accuracy/all", "pi_hat"} <= names
    assert len(read_recent(run.events).newest_values) <= MAX_NAMES


def test_names_are_the_first_ones_also_within_an_event():
    names = MeasurementNames()
    few = an_event(values={f"few/{i}": 1.0 for i in range(10)})
    many = an_event(values={f"many/{i}": 1.0 for i in range(MAX_NAMES)})
    assert names.drop_excess(few) is few
    assert list(names.drop_excess(many)["values"]) == [f"many/{i}" for i in range(MAX_NAMES - 10)]
    assert names.drop_excess(few) is few


def test_a_line_that_is_too_long_is_no_event_and_what_follows_is_read(run):
    whole, _ = read_events(run.events)
    with run.events.open("ab") as file:
        file.write(b'{"kind": "eval", "values": {"x": "' + b"x" * (3 * MAX_LINE) + b'"}}\n')
    add_events(run, an_event(epoch=7))
    assert [event["epoch"] for event in read_history(run.events)][-1] == 7
    assert read_recent(run.events).epoch == 7 and summarize(run)["epochs"] == 7
    assert EventLog(run.events).read_history().last_epoch == 7
    found, offset = [], -1
    events, after = read_events(run.events, 0, 2 << 20)
    while after != offset:
        found, offset = found + events, after
        events, after = read_events(run.events, offset, 2 << 20)
    assert len(found) == len(whole) + 1


def test_lists_are_no_longer_than_there_may_be_classes():
    event = an_event(values={"pi_hat": [0.5] * MAX_CLASSES, "margin": [0.5] * (MAX_CLASSES + 1), "own": [1.0, 2.0]})
    values = parse_event(json.dumps(event).encode())["values"]
    assert len(values["pi_hat"]) == MAX_CLASSES and "margin" not in values and values["own"] == [1.0, 2.0]


def test_what_later_attempts_did_over_is_void_as_it_was():
    """Against the rule as `rewind` says it, word by word."""
    draws = np.random.default_rng(0)
    for _ in range(300):
        kinds = draws.choice(["start", "pretrain", "train", "eval"], 40, p=[0.15, 0.35, 0.25, 0.25])
        events = [
            {"kind": str(k), "epoch": int(draws.integers(0, 9)), "values": {}, "n": n} for n, k in enumerate(kinds)
        ]
        for event in events:
            if event["kind"] == "pretrain" and draws.random() < 0.2:
                event["values"] = {"pretrain/reused": 1}
        kept = []
        for event in events:
            if event["kind"] == "start":
                kept = [e for e in kept if e["kind"] in ("start", "pretrain") or e["epoch"] <= event["epoch"]]
            elif can_void(event):
                kept = [e for e in kept if e["kind"] != "pretrain" or e["epoch"] < event["epoch"]]
            kept.append(event)
        assert drop_repeated(events) == kept


@pytest.mark.slow
def test_thirty_thousand_attempts_are_read_in_seconds_and_few_are_kept(run):
    add_events(run, *(an_event(kind="start", epoch=k % 3, values={}) for k in range(30_000)))
    began = time.process_time()
    assert EventLog(run.events).read_history().last_epoch == 0 and summarize(run)["epochs"] == 0
    assert time.process_time() - began < 10
    events = [an_event(kind="start")] * 20_000 + [an_event(epoch=5)] * 20_000
    assert len(thin_out([dict(event) for event in events])) <= MAX_ENDS + 1


@pytest.fixture
def short(monkeypatch):
    """As if a page could read a hundred records and no more."""
    monkeypatch.setattr("lps.store.events.MAX_SHOWN", 100)
    monkeypatch.setattr("lps.store.events._READ_WHOLE_BYTES", 1000)
    monkeypatch.setattr("lps.store.events._CHUNK_BYTES", 1000)


def test_of_records_without_end_the_newest_are_read_by_every_page_reader(run, short):
    add_events(run, *(an_event(epoch=3 + k % 2000, values={"accuracy/all": k / 5000}) for k in range(5000)))
    start = first_shown_byte(run.events)
    whole, shown = list(read_history(run.events)), list(read_history(run.events, start=start))
    said = [event for event in shown if event["kind"] == "start"]
    assert said == [event for event in whole if event["kind"] == "start"] and said
    assert shown[len(said) :] == whole[-len(shown) + len(said) :] and 50 < len(shown) <= 101
    past = EventLog(run.events).read_history()
    assert past.left_out == start and past.seen == 5 and 50 < len(past.epochs) <= 100
    assert past.last_epoch == summarize(run)["epochs"] == read_recent(run.events).epoch == 1002
    assert past.last("accuracy/all") == summarize(run)["last"]["accuracy/all"] == 4999 / 5000


def test_a_file_that_goes_on_is_followed_from_where_it_was_begun(run, short):
    add_events(run, *(an_event(epoch=k) for k in range(1, 1000)))
    log = EventLog(run.events)
    begun = log.read_history().left_out
    add_events(run, *(an_event(epoch=k) for k in range(1000, 1200)))
    past = log.read_history()
    assert past.left_out == begun > 0
    assert past.last_epoch == 1199
    assert list(past.epochs.index[-201:]) == list(range(999, 1200))


def test_what_is_shown_of_records_counts_as_in_the_whole_file(run, short):
    """A `start` takes back epochs whose records come before the part that is read, and within it."""
    for _ in range(3):
        add_events(run, *(an_event(epoch=k) for k in range(4, 300)), an_event(kind="start", epoch=150, values={}))
    start = first_shown_byte(run.events)
    whole, shown = list(read_history(run.events)), list(read_history(run.events, start=start))
    said = len(read_first_starts(run.events, start))
    assert start and shown[said:] == whole[len(whole) - len(shown) + said :]
    assert max(event["epoch"] for event in shown) == 150


def test_pages_say_that_they_left_records_out(run, short, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(run.root))
    add_events(run, *(an_event(epoch=3 + k) for k in range(2000)))
    for page in ("live", "pace", "compare"):
        app = visit(page, run=run.id)
        said = " ".join(warning.value for warning in app.warning)
        assert "more than a page can read" in said and "curves begin at epoch" in said, page


def test_the_clusters_of_more_images_than_a_page_can_go_through_are_a_sentence(run, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(run.root))
    monkeypatch.setattr("lps.ui.pictures.predictions.MAX_IMAGES", 1000)
    monkeypatch.setattr("lps.ui.pictures.predictions.read_assignment", lambda *_: pytest.fail("it was read"))
    (said,) = [error.value.replace("\\", "") for error in visit("clusters", run=run.id).error]
    assert "unlabeled images take too much memory for a page; expected at most 1,000" in said


def test_arrays_are_measured_before_they_are_unpacked(run, monkeypatch):
    monkeypatch.setattr("lps.datasets.readers.array_file.ArrayFile.read", lambda *_: pytest.fail("it was unpacked"))
    wide = {"features": np.zeros((2, 5000), np.float16), "feature_index": np.arange(2)}
    few = {"predicted": np.zeros(2, np.int16), "confidence": np.zeros(2, np.float16)}
    np.savez_compressed(run.snapshots / "epoch-0001.npz", **few | wide)
    with pytest.raises(UserError, match=r"epoch-0001.npz: is damaged \(features has the shape \(2, 5000\); expected"):
        read_snapshot(run.snapshots, 1)
    np.savez_compressed(run.folder / "split.npz", labeled=np.zeros(3_000_000, np.int8))
    with pytest.raises(UserError, match="split.npz: is damaged"):
        read_split(run.folder)
    monkeypatch.setattr("lps.store.snapshots.MAX_ARRAYS", 1000)
    few |= {"features": np.zeros((100, 10), np.float16), "feature_index": np.arange(100)}
    np.savez_compressed(run.snapshots / "epoch-0001.npz", **few)
    with pytest.raises(UserError, match="epoch-0001.npz: takes 0 MB of memory; expected at most 0 MB"):
        read_snapshot(run.snapshots, 1)


@pytest.mark.slow
def test_an_imported_recording_shows_its_maps(tmp_path, monkeypatch):
    """It has features of its last epoch alone, and maps of the others."""
    from lps.store.run_folders import recorded_runs

    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    (found,) = imports.import_runs(recorded_runs()[0].folder, tmp_path / "runs")
    for page in ("live", "projection"):
        visit(page, run=found.run.id, epoch="2")


@pytest.mark.parametrize("features", [True, False])
def test_a_recording_without_maps_is_shown_by_its_features_or_says_that_there_are_none(run, monkeypatch, features):
    monkeypatch.setenv("LPS_RUNS", str(run.root))
    (run.folder / "recorded.json").mkdir()  # whatever stands there makes it one
    if not features:
        no_features(run)
    for page in ("live", "projection", "pace"):
        words = words_of(visit(page, run=run.id))
        assert ("has no features" in words) == (not features and page != "pace"), page


@pytest.mark.parametrize("value", [2**63, -(2**70), 2**999, 1.7e308, -1e101], ids=lambda value: f"{float(value):.0e}")
def test_numbers_that_no_chart_and_no_sum_can_hold_are_left_out(value):
    values = {"accuracy/all": value, "margin": [0.5, value], "pi_hat": [value, value]}
    line = json.dumps({"kind": "eval", "step": 1, "epoch": 1, "time": 1.0, "values": values}).encode()
    assert parse_event(line)["values"] == {"accuracy/all": None, "margin": [0.5, None], "pi_hat": [None, None]}


if __name__ == "__main__":
    serve()
