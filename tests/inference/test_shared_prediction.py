"""A prediction that several processes share: every part once, that of a killed one again, the same result as of one."""

import dataclasses
import errno
import io
import multiprocessing
import os
import shutil
import signal
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lps
from lps.__main__ import main
from lps.errors import UserError
from lps.files import locks
from lps.inference import new_pictures, prediction_files, prediction_job, shared_prediction
from lps.inference.prediction import predict
from lps.inference.shared_prediction import _SharedPrediction, predict_together
from lps.store.runs import Run
from tests.inference.test_prediction import digits, saved


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(new_pictures, "PIECE", 8)
    monkeypatch.setattr(new_pictures, "_PART", 16)


@pytest.fixture
def folder(live, tmp_path):
    """64 pictures in four parts; one of them is none. No prediction is there yet."""
    shutil.rmtree(live.root / prediction_job.FOLDER, ignore_errors=True)
    saved(tmp_path / "new", digits(live)[:64])
    (tmp_path / "new" / "020.png").write_bytes(b"no picture")
    return tmp_path / "new"


def in_child(run: Run, folder, log, die_at: int = 0, pause_s: float = 0.0) -> multiprocessing.Process:
    """A fork of this process, which has torch and the model, predicts; `log` gets the names of its parts."""
    child = multiprocessing.get_context("fork").Process(target=_predict, args=(run, folder, log, die_at, pause_s))
    child.start()
    return child


def _predict(run: Run, folder, log, die_at: int, pause_s: float) -> None:
    compute = shared_prediction._SharedPrediction._compute

    def slow(self, name):
        with open(log, "a") as file:
            file.write(name + "\n")
        if len(log.read_text().split()) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(pause_s)
        return compute(self, name)

    shared_prediction._SharedPrediction._compute = slow
    predict_together(run, folder)


def end_of(child: multiprocessing.Process) -> int:
    child.join(120)
    return child.exitcode


def assert_same(one, other) -> None:
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if field.name == "trade_off":
            assert_same(left, right)
        elif isinstance(left, np.ndarray):
            assert left.dtype == right.dtype and np.array_equal(left, right), field.name
        else:
            assert left == right, field.name


@pytest.mark.slow
def test_two_processes_share_the_parts_and_the_result_is_that_of_one(live, folder, tmp_path, small_parts):
    logs = [tmp_path / "first", tmp_path / "second"]
    children = [in_child(live, folder, log, pause_s=1.0) for log in logs]
    assert [end_of(child) for child in children] == [0, 0]
    computed = [log.read_text().split() if log.exists() else [] for log in logs]
    assert sorted(computed[0] + computed[1]) == ["000000", "000001", "000002", "000003"]
    results = live.root / prediction_job.FOLDER
    assert not list(results.glob("*.parts"))
    of_page = prediction_job.prediction_path(live, folder)  # the same file: a page does not predict again
    assert len({path.stat().st_ino for path in results.glob("*.npz")}) == 1 and of_page.exists()
    assert_same(predict_together(live, folder), predict(live, folder))


def test_only_one_of_two_processes_puts_the_parts_together(live, folder, small_parts, monkeypatch):
    read, write, written = _SharedPrediction._read, prediction_files.write, []

    def read_slowly(self, name):  # so that the second one begins meanwhile
        time.sleep(0.2)
        return read(self, name)

    monkeypatch.setattr(_SharedPrediction, "_read", read_slowly)
    monkeypatch.setattr(prediction_files, "write", lambda path, found: (written.append(path), write(path, found)))
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: predict_together(live, folder), range(2))
    assert len(written) == 1
    assert_same(one, other)


def test_parts_in_progress_stay_and_all_others_count_among_the_newest(tmp_path):
    for number in range(6):
        (tmp_path / f"{number}.parts" / "000000").mkdir(parents=True)
        (tmp_path / f"{number}.parts" / "000000" / prediction_job.ROWS).touch()
        (tmp_path / f"{number}.npz").write_bytes(b"x")
    (tmp_path / "1.npz").unlink()
    (tmp_path / "3.npz").unlink()
    for age, name in enumerate(["0.npz", "1.parts", "2.npz", "3.parts"]):
        os.utime(tmp_path / name, (2e9 - age, 2e9 - age))
    with locks.hold_together(tmp_path / "5.parts" / prediction_job.IN_USE):
        with locks.hold_together(tmp_path / "5.parts" / prediction_job.IN_USE):  # by a second process
            prediction_job.forget_old(tmp_path, ".npz", 4)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"0.npz", "1.parts", "2.npz", "3.parts", "5.parts"}
        prediction_job.forget_old(tmp_path, ".npz", 0)
        assert [path.name for path in tmp_path.iterdir()] == ["5.parts"]
    prediction_job.forget_old(tmp_path, ".npz", 0)
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_only_finished_parts_and_the_next_start_removes_what_is_of_no_use(
    live, folder, tmp_path, small_parts, monkeypatch, capsys
):
    compute, results = _SharedPrediction._compute, live.root / prediction_job.FOLDER
    results.mkdir()
    for name in ("killed.parts/000000", "done.parts/000000"):  # no finished part; a finished result
        (results / name).mkdir(parents=True)
    (results / "done.parts/000000" / prediction_job.ROWS).touch()
    (results / "done.npz").touch()
    words = ["predict", "--runs", str(live.root), live.id, str(folder), "--join"]
    for first_failing, kept in (("000000", 0), ("000001", 1)):

        def fail(self, name, first_failing=first_failing):
            if name >= first_failing:
                raise OSError(errno.ENOSPC, "full")
            return compute(self, name)

        monkeypatch.setattr(_SharedPrediction, "_compute", fail)
        assert main(words) == 2
        assert len(list(results.glob("*.parts/*/rows.npz"))) == kept == len(list(results.glob("*.parts")))
        assert ("kept: 1 of 4 parts; the same command continues" in capsys.readouterr().err) == bool(kept)
    monkeypatch.setattr(_SharedPrediction, "_compute", compute)
    for picture in folder.iterdir():
        picture.write_bytes(b"no picture")
    with pytest.raises(UserError, match="none can be used"):
        predict_together(live, folder)
    assert len(list(results.glob("*.parts"))) == 1  # that of the pictures before


def test_a_shared_result_with_two_names_counts_once(tmp_path):
    for age, name in enumerate(["shared.npz", "older.npz", "oldest.npz"]):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (2e9 - age, 2e9 - age))
    os.link(tmp_path / "shared.npz", tmp_path / "of-page.npz")
    prediction_job.forget_old(tmp_path, ".npz", 2)
    assert {path.name for path in tmp_path.iterdir()} == {"shared.npz", "of-page.npz", "older.npz"}


def test_the_command_uses_the_result_of_a_page(live, folder, tmp_path, capsys, monkeypatch):
    words = ["predict", "--runs", str(live.root), live.id, str(folder), "--to"]
    assert main([*words, str(tmp_path / "anew.csv")]) == 0
    path = prediction_job.prediction_path(live, folder)
    path.parent.mkdir(exist_ok=True)
    assert main([*words[:-1], "--result", str(path)]) == 0
    with monkeypatch.context() as patch:
        patch.setattr("lps.inference.prediction.predict", None)
        assert main([*words, str(tmp_path / "stored.csv")]) == 0
    path.write_bytes(b"")
    assert main([*words, str(tmp_path / "damaged.csv")]) == 0
    assert len({table.read_text() for table in tmp_path.glob("*.csv")}) == 1
    assert capsys.readouterr().err.count("using the stored result") == 1


@pytest.mark.slow
def test_the_part_of_a_killed_process_is_taken_again(live, folder, tmp_path, small_parts, monkeypatch):
    log = tmp_path / "killed"
    assert end_of(in_child(live, folder, log, die_at=2)) == -signal.SIGKILL
    assert log.read_text().split() == ["000000", "000001"]
    found, reported = predict(live, folder), []
    assert_same(predict_together(live, folder, lambda done, total: reported.append(done)), found)
    assert reported[0] == 32 and reported[-1] == 64  # the first part was there already


@pytest.mark.slow
def test_a_damaged_part_and_a_damaged_result_are_computed_again(live, folder, tmp_path, small_parts):
    found = predict(live, folder)
    assert end_of(in_child(live, folder, tmp_path / "killed", die_at=3)) == -signal.SIGKILL
    (part,) = (live.root / prediction_job.FOLDER).glob("*.parts/000001/rows.npz")
    part.write_bytes(part.read_bytes()[:-100])
    assert_same(predict_together(live, folder), found)
    for result in (live.root / prediction_job.FOLDER).glob("*.npz"):
        result.write_bytes(b"")
    assert_same(predict_together(live, folder), found)


@pytest.mark.slow
def test_the_command_and_the_api_predict_with_workers(live, folder, tmp_path, capsys):
    words = ["predict", "--runs", str(live.root), live.id, str(folder)]
    tables = [tmp_path / "one.csv", tmp_path / "two.csv", tmp_path / "joined.csv"]
    for table, more in zip(tables, ([], ["--workers", "2"], ["--join"])):
        assert main([*words, "--to", str(table), *more]) == 0
    assert len({table.read_text() for table in tables}) == 1
    run = lps.find_run(live.id, live.root)
    assert lps.predict(run, folder, join=True) == lps.predict(run, folder)
    (folder / "000.png").unlink()  # other pictures are another prediction
    assert len(lps.predict(run, folder, join=True)) == 62
    assert main([*words, "--watch", "--join"]) == 2
    assert main([*words, "--workers", "0"]) == 2
    with pytest.raises(UserError, match="only predict a folder"):
        lps.predict(run, digits(live), workers=2)


@pytest.mark.slow
def test_shards_are_predicted_as_their_pictures_are(live, folder, tmp_path, small_parts):
    found, shards = predict(live, folder), tmp_path / "shards"
    shards.mkdir()
    for number in range(2):
        with tarfile.open(shards / f"train-{number}.tar", "w") as archive:
            for path in sorted(folder.iterdir())[32 * number : 32 * (number + 1)]:
                info, content = tarfile.TarInfo(path.name), path.read_bytes()
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    one, together = predict(live, shards), predict_together(live, shards)
    assert_same(one, together)
    assert [name.partition("/")[2] for name in one.files] == list(found.files)
    assert one.root is None and one.skipped[0][0] == "train-0.tar/020.png"
    for name in ("predicted", "confidence", "distance", "nearest"):
        assert np.array_equal(getattr(one, name), getattr(found, name)), name
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "x.tar").write_bytes(b"no tar")
    for way in (predict, predict_together):
        with pytest.raises(UserError, match="none can be used"):
            way(live, empty)
