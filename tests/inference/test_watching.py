"""New pictures in a watched folder, and possible new classes among those that resemble no class."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lps.__main__ import main
from lps.errors import UserError
from lps.inference import new_pictures, novel_proposals, prediction_files, rejection
from lps.inference.folder_watch import FolderWatch
from lps.inference.prediction import predict
from tests.inference.test_prediction import digits, saved
from tests.patience import until
from tests.reliability.watched_folder import trouble

ROOT = Path(__file__).resolve().parents[2]


def around(draws, center: np.ndarray, count: int, spread: float = 0.03) -> np.ndarray:
    """Points of length 1 near a direction."""
    points = center + spread * draws.standard_normal((count, len(center)))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def world():
    """(draws, directions, known points of four classes, their curve)."""
    draws = np.random.default_rng(0)
    directions = np.eye(12, dtype=np.float32)
    known = np.concatenate([around(draws, directions[k], 60, 0.06) for k in range(4)])
    nobody = np.zeros(0, np.int64)
    return draws, directions, known, rejection.measure_trade_off(known, nobody, nobody > 0)


def found_among(world, new: np.ndarray) -> tuple:
    _, _, known, curve = world
    distance = rejection.nearest_images(new, known)[0].mean(axis=1)
    return novel_proposals.propose_classes(new[novel_proposals.is_far(distance, curve)], distance, curve)


def test_pictures_that_are_alike_and_like_nothing_known_are_a_kind(world):
    draws, directions, *_ = world
    new = np.concatenate([around(draws, directions[k], n) for k, n in ((0, 30), (7, 12), (1, 30), (9, 25))])
    assert found_among(world, new) == (tuple(range(72, 97)), tuple(range(30, 42)))


def test_nothing_is_proposed_of_known_pictures_of_few_or_of_those_that_are_like_nothing_at_all(world):
    draws, directions, *_ = world
    known = np.concatenate([around(draws, directions[k], 100, 0.06) for k in range(4)])
    few = around(draws, directions[7], novel_proposals.FEWEST - 1)
    scattered = around(draws, np.zeros(12, np.float32), 60, 1.0)
    for new in (known, np.concatenate([known, few]), np.concatenate([known, scattered]), known[:3]):
        assert found_among(world, new) == ()


def test_of_very_many_the_newest_are_compared(world, monkeypatch):
    monkeypatch.setattr(novel_proposals, "MAX_COMPARED_PICTURES", 20)
    draws, directions, known, curve = world
    new = np.concatenate([around(draws, directions[7], 30), around(draws, directions[9], 15)])
    distance = rejection.nearest_images(new, known)[0].mean(axis=1)
    assert novel_proposals.propose_classes(new[-20:], distance, curve) == (tuple(range(30, 45)),)


@pytest.fixture
def run(live):
    return live


def test_what_arrives_is_predicted_once_as_predict_would(run, tmp_path):
    folder = saved(tmp_path / "new", digits(run)[:20], "a{:03d}.png")
    watch = FolderWatch(run, folder)
    news = watch.check(at_once=True)
    assert news.first == 0 and len(news.prediction.files) == 20 and watch.check() is None
    saved(folder, digits(run)[20:30], "b{:03d}.png")
    (folder / "note.txt").write_text("no picture")
    (folder / "half.png").write_bytes(b"not yet a picture")
    assert watch.check() is None, "they may still be written to"
    news = watch.check()
    assert news.first == 20 and len(news.prediction.files) == 30 and watch.check() is None
    whole = predict(run, str(folder))
    assert news.prediction.files == whole.files and np.array_equal(news.prediction.cluster, whole.cluster)
    assert np.allclose(news.prediction.distance, whole.distance, atol=1e-5)
    assert [name for name, _ in news.prediction.skipped] == ["half.png"]
    assert news.in_words(whole.threshold())[0].startswith("10 new pictures: ")


def test_a_possible_new_class_is_told_of_once_and_its_rows_are_in_the_table(run, tmp_path, monkeypatch):
    folder = saved(tmp_path / "new", digits(run)[:20])
    monkeypatch.setattr(novel_proposals, "propose_classes", lambda points, distance, curve: (tuple(range(12)),))
    watch = FolderWatch(run, folder)
    news = watch.check(at_once=True)
    (line,) = news.in_words(1.0)[1:]
    assert line.startswith("possible novel class: 12 pictures") and "000.png" in line
    (message,) = news.messages()
    assert "12 new pictures" in message.body and ".png" not in message.body and str(folder) not in message.body
    saved(folder, digits(run)[20:22], "z{:03d}.png")
    watch.check()
    assert watch.check().kinds == (), "it is the one that was told of"
    lines = prediction_files.as_csv(news.prediction, 1.0).splitlines()
    column = lines[0].split(",").index("new_kind")
    assert [line.split(",")[column] for line in lines[1:]] == ["1"] * 12 + [""] * 8
    prediction_files.write(tmp_path / "kept.npz", news.prediction)
    assert prediction_files.read_predictions(tmp_path / "kept.npz").kinds == (tuple(range(12)),)


def test_predict_says_the_possible_new_classes_too(run, tmp_path, monkeypatch, capsys):
    saved(tmp_path / "new", digits(run)[:14])
    monkeypatch.setattr(novel_proposals, "propose_classes", lambda *_: (tuple(range(1, 13)),))
    main(["predict", str(run.folder), str(tmp_path / "new")])
    assert "possible novel class: 12 pictures" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_keeps_a_table_up_to_date_until_it_is_ended(run, tmp_path):
    folder, table = saved(tmp_path / "new", digits(run)[:5]), tmp_path / "labels.csv"
    words = ["predict", run.id, str(folder), "--runs", str(run.root), "--watch", "--every", "0.1", "--to", str(table)]
    command = [sys.executable, "-m", "lps", *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        until(lambda: table.exists() and len(table.read_text().splitlines()) == 6, 120)
        saved(folder, digits(run)[5:9], "b{:03d}.png")
        until(lambda: len(table.read_text().splitlines()) == 10)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert process.returncode == 130 and "5 new pictures: " in said and "4 new pictures: " in said


@pytest.mark.parametrize("what, words", [("nowhere", "nowhere"), ("file.npz", "only a folder can be watched")])
def test_what_cannot_be_watched_is_one_sentence(run, tmp_path, what, words):
    np.savez(tmp_path / "file.npz", x=digits(run)[:3])
    with pytest.raises(UserError, match=words):
        FolderWatch(run, tmp_path / what)


def test_a_folder_that_may_not_be_read_is_one_sentence(run, tmp_path, monkeypatch):
    folder = saved(tmp_path / "new", digits(run)[:2])
    watch = FolderWatch(run, folder)

    def forbidden(path, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", forbidden)
        for look in (watch.check, lambda: predict(run, str(folder))):
            with pytest.raises(UserError, match="^pictures: .*new.* cannot be read"):
                look()
    monkeypatch.setattr(os, "stat", forbidden)
    with pytest.raises(UserError, match="cannot be read because you have no access to a folder above it"):
        new_pictures.check_source(str(folder))


def test_a_picture_that_lay_in_half_is_predicted_once_it_is_whole(run, tmp_path):
    folder = saved(tmp_path / "new", digits(run)[:3])
    data = (folder / "001.png").read_bytes()
    (folder / "001.png").write_bytes(data[: len(data) // 2])
    watch = FolderWatch(run, folder)
    assert watch.check(at_once=True).prediction.skipped[0][0] == "001.png"
    assert watch.check() is None and watch.check() is None
    (folder / "001.png").write_bytes(data)
    assert watch.check() is None, "it may still be written to"
    news = watch.check()
    assert news.prediction.files == ("000.png", "002.png", "001.png") and not news.prediction.skipped


@pytest.mark.slow
def test_nothing_that_happens_in_a_watched_folder_ends_the_watch_or_loses_a_picture(run, tmp_path):
    done, wrong = trouble(run, tmp_path / "new", tmp_path / "labels.csv", 60, random.Random(0))
    assert wrong == [] and done["predicted"] > 20 and done["left out"] > 5
