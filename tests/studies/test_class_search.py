"""The number of classes: found on separate blobs, by the exact and the coarse search; shown to pages through a file."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from lps.__main__ import main
from lps.errors import UserError
from lps.files.locks import try_lock
from lps.machine import detached_jobs
from lps.scheduler import background_jobs, class_count
from lps.scheduler.class_count import ClassCount
from lps.scheduler.costs import Span
from lps.scheduler.overview import time_left_in_words
from lps.settings.config import configure
from lps.studies import class_search
from lps.studies.class_search import count_classes, search_count
from tests.patience import until
from tests.visiting import whole_form, words_of

TITLE = "Search for the number of classes of digits, seed 0"


def blobs(total, seen, each=30, width=32, noise=0.05, seed=0):
    """Features of `total` classes around random directions, with labels of every other image of the seen ones."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(total, width))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = np.repeat(np.arange(total), each)
    features = centres[truth] + noise * generator.normal(size=(len(truth), width))
    labels = np.where((truth < seen) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    return features.astype(np.float32), labels


@pytest.mark.parametrize("total, seen", [(7, 3), (6, 5), (10, 2)])
def test_every_number_is_tried_where_they_are_few(total, seen):
    features, labels = blobs(total, seen)
    found = count_classes(features, labels, seen, seed=0, most=seen + 15)
    assert found.numbers == tuple(range(seen + 1, seen + 16)) and found.seen == seen
    assert found.silhouette[found.numbers.index(total)] == max(found.silhouette)
    at_truth = found.accuracy[found.numbers.index(total)]
    assert at_truth == max(found.accuracy) == 1
    assert found.total == total and found.plausible[0] <= total <= found.plausible[1]


@pytest.mark.slow
def test_a_wide_search_tries_few_numbers_and_ends_beside_the_choice():
    features, labels = blobs(60, 40, each=14, noise=0.02)
    found = count_classes(features, labels, 40, seed=0)
    assert len(found.numbers) < 60 and found.numbers[0] == 41 and found.numbers[-1] == 200
    place = found.numbers.index(found.total)
    assert found.numbers[place + 1] - found.total <= 1 + found.total // 50
    assert abs(found.total - 60) <= 12


@pytest.mark.parametrize("most", [5, -5, 0, 1797])
def test_a_largest_number_that_cannot_be_is_refused_before_anything_is_made(tmp_path, most):
    with pytest.raises(UserError, match="most: -?[0-9]+ is not a whole number from 6 to 1796"):
        search_count(configure(), tmp_path, most, print)
    assert not list(tmp_path.iterdir())


def test_the_same_seed_gives_the_same_count():
    features, labels = blobs(6, 3)
    assert count_classes(features, labels, 3, 1, most=9) == count_classes(features, labels, 3, 1, most=9)


def test_a_count_is_read_as_it_was_written(tmp_path):
    config = configure({"split.labeled_ratio": 0.3})
    path = class_count.class_count_path(config, tmp_path)
    assert class_count.read_class_count(path) is None
    count = ClassCount((6, 7), (0.5, 0.75), (0.1, 0.2), 0.01, 7, 5)
    class_count.write_class_count(path, count)
    assert class_count.read_class_count(path) == count and count.novel == 2
    blank = ClassCount((6, 7), (0.5, 0.75), (0.1, math.nan), 0.01, 7, 5)  # all pictures alike: no silhouette
    class_count.write_class_count(path, blank)
    found = class_count.read_class_count(path)
    assert math.isnan(found.silhouette[1]) and found.silhouette[0] == 0.1 and found.numbers == (6, 7)


WHOLE = {"numbers": [6], "accuracy": [0.5], "silhouette": [0.1], "tolerance": 0.1, "total": 6, "seen": 5}


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("wrong", [
    {"numbers": 3}, {"numbers": []}, {"numbers": [], "accuracy": [], "silhouette": []}, {"total": "x"}, {"seen": True},
    {"accuracy": ["a"]}, {"accuracy": [1e300]}, {"tolerance": None}, {"numbers": [10**9]}, {"more": 1}, None, "pipe",
    "deep", "long",
], ids=str)  # fmt: skip
def test_damaged_counts_are_a_sentence_on_the_page_and_none_is_waited_for(root, monkeypatch, wrong):
    monkeypatch.setenv("LPS_RUNS", str(root))
    path = class_count.class_count_path(configure({"dataset": "digits"}), root)
    path.parent.mkdir(parents=True)
    if wrong == "pipe":
        os.mkfifo(path)
    elif wrong in ("deep", "long"):
        path.write_text("[" * 100_000 if wrong == "deep" else " " * (2 << 20))
    else:
        path.write_text(json.dumps(WHOLE | wrong if wrong else []))
    with pytest.raises(UserError, match="is damaged .*; delete .* and count again") as caught:
        class_count.read_class_count(path)
    assert str(caught.value).isprintable()
    assert "Is damaged (" in words_of(whole_form())


def test_pictures_that_are_all_alike_are_counted_to_the_end(root, capsys, monkeypatch):
    features, labels = np.ones((60, 4), np.float32), np.repeat([0, 1, -1, -1], 15)
    count = count_classes(features, labels, 2, 0, most=4)
    path = class_count.class_count_path(small(), root)
    class_count.write_class_count(path, count)
    assert class_count.read_class_count(path).total == count.total
    monkeypatch.setattr(class_search, "search_count", lambda *_: count)
    assert main(["count-classes", "--json", "--runs", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)["silhouette"] == [None] * len(count.numbers)


def test_a_count_says_how_far_it_may_be_off():
    count = ClassCount((6, 7, 8, 9), (0.9, 0.95, 0.94, 0.5), (0.1, 0.3, 0.2, 0.1), 0.02, 7, 5)
    assert count.plausible == (6, 9)
    assert count.in_words == "7 classes, 2 of them novel; plausible: 6 to 9 classes, 1 to 4 novel"
    assert ClassCount((7,), (0.9,), (0.2,), 0.01, 7, 5).in_words == "7 classes, 2 of them novel"


def test_labels_that_lie_on_each_other_leave_the_features_as_they_are():
    points = np.arange(12, dtype=np.float32).reshape(6, 2)
    assert class_search._in_class_scatter(points, np.array([0, 1, -1, -1, -1, -1])) is points
    apart = class_search._in_class_scatter(np.float32([[0, 0], [0, 4], [9, 9], [9, 13]]), np.array([0, 0, 1, 1]))
    assert np.ptp(apart[:2], axis=0).max() == pytest.approx(2 / np.sqrt(0.75), rel=1e-5)


def test_the_count_depends_on_data_and_start_but_not_on_the_method(tmp_path):
    def path(**settings):
        return class_count.class_count_path(
            configure({key.replace("__", "."): v for key, v in settings.items()}), tmp_path
        )

    assert path() == path(method="orca", epochs=3, lr=0.3) == path(split__num_novel=7)
    assert len({path(), path(seed=1), path(split__num_seen=3), path(pretrain__epochs=3)}) == 4


def small(**more):
    return configure({"pretrain.epochs": 1, "network.name": "digits_resnet", "split.num_novel": 1} | more)


@pytest.mark.slow
def test_a_count_tells_how_far_it_is_and_how_long_it_goes_on(root):
    """Told by hand; everybody sees it, and nobody can begin it twice."""
    config = small()
    with background_jobs.working_on(config, class_count.class_count_path(config, root), is_begun=False) as progress:
        (count,) = background_jobs.list_jobs(root)
        assert (count.state, count.phase, count.share, count.time_left) == ("working", "prepare", None, None)
        progress.report("count", 0.25, Span.about(60.0, 1.1))
        (count,) = background_jobs.list_jobs(root)
        assert count.share == 0.25 and 55 < count.left_s <= 60 and count.phase_in_words == "clustering"
        assert (
            background_jobs.find_job(root, count.id[-6:]).id == background_jobs.find_job(root, count.id).id == count.id
        )
        assert count.title == TITLE and configure(count.settings).dataset == "digits"
        with (
            pytest.raises(UserError, match="already running"),
            background_jobs.working_on(config, class_count.class_count_path(config, root), False),
        ):
            pass
    assert background_jobs.list_jobs(root) == []  # it ended without a word and without a result


def test_a_count_that_a_page_began_keeps_the_time_of_the_click(root):
    config = small()
    path = class_count.class_count_path(config, root)
    path.parent.mkdir(parents=True)
    path.with_suffix(".progress.json").write_text(json.dumps({"began": 1000.0}))
    for is_begun, expected in ((True, True), (False, False)):
        with background_jobs.working_on(config, path, is_begun):
            record = json.loads(path.with_suffix(".progress.json").read_text())
        assert (record["began"] == 1000.0) == expected and record["what"]


def test_nothing_is_written_through_a_linked_folder_of_counts(root, tmp_path):
    elsewhere, config = tmp_path / "elsewhere", small()
    elsewhere.mkdir()
    root.mkdir(exist_ok=True)
    (root / class_count.FOLDER).symlink_to(elsewhere)

    def work():
        with background_jobs.working_on(config, class_count.class_count_path(config, root), is_begun=False):
            pass

    count = ClassCount((6, 7), (0.5, 0.75), (0.1, 0.2), 0.01, 7, 5)
    path = class_count.class_count_path(config, root)
    for write in (
        work,
        lambda: class_count.start_class_count(config, root),
        lambda: class_count.write_class_count(path, count),
    ):
        with pytest.raises(UserError, match=r"cannot be used \(it is a link"):
            write()
    assert not list(elsewhere.iterdir())


def test_a_count_is_listed_from_the_click_on(root, monkeypatch):
    """Its process takes seconds to load its libraries before it can say anything."""
    locks = []

    def silent(command, log, lock):
        locks.append(os.dup(lock))
        return subprocess.Popen(["true"])

    monkeypatch.setattr(detached_jobs, "detach", silent)
    class_count.start_class_count(small(), root)
    (count,) = background_jobs.list_jobs(root)
    assert (count.state, count.phase, count.title) == ("working", "prepare", TITLE)
    class_count.write_class_count(count.path, ClassCount((6, 7), (0.5, 0.75), (0.1, 0.2), 0.01, 7, 5))
    assert background_jobs.list_jobs(root)[0].state == "done", "its process has only to end"
    os.close(locks[0])


@pytest.mark.parametrize("instead", ["folder", "link", "pipe"])
@pytest.mark.parametrize("suffix", [".lock", ".stop", ".progress.json", ""])
def test_what_stands_in_place_of_a_file_of_a_count_is_a_sentence(root, tmp_path, monkeypatch, instead, suffix):
    path = class_count.class_count_path(small(), root)
    place = path.with_suffix(suffix) if suffix else path.parent
    place.parent.mkdir(parents=True)
    (tmp_path / "letter").write_text("mine")
    if instead == "link":
        place.symlink_to(tmp_path / "letter")
    else:
        place.mkdir() if instead == "folder" else os.mkfifo(place)
    monkeypatch.setattr(detached_jobs, "detach", lambda *_: subprocess.Popen(["true"]))
    for begin in (
        class_count.start_class_count,
        lambda config, _: background_jobs.working_on(config, path, False).__enter__(),
    ):
        try:
            begin(small(), root)
        except UserError as error:
            assert str(error).startswith("job: ") and "cannot be used (" in str(error) and str(error).isprintable()
    assert (tmp_path / "letter").read_text() == "mine"
    assert main(["queue", "--runs", str(root)]) == 0


@pytest.mark.slow
def test_a_suspended_count_is_woken_to_end(tmp_path):
    """However often it is suspended: whoever looks wakes it."""
    path = tmp_path / "counts" / "a.json"
    ends = "import os, time\nwhile not os.path.exists('{}'): time.sleep(0.05)\ntime.sleep(2)"
    detached_jobs.start_job(path, [sys.executable, "-c", ends.format(path.with_suffix(detached_jobs.STOP))])
    pid = int(path.with_suffix(".lock").read_text().split()[0])
    os.kill(pid, signal.SIGSTOP)
    detached_jobs.cancel_job(path)
    assert "T" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    os.kill(pid, signal.SIGSTOP)
    until(lambda: detached_jobs.job_state(path).state == "cancelled", 60)
    path.with_suffix(".lock").write_text("what is this")
    detached_jobs.cancel_job(path)


@pytest.mark.slow
def test_a_count_gives_way_to_runs_for_it_takes_no_slot(tmp_path):
    path = tmp_path / "counts" / "a.json"
    detached_jobs.start_job(path, [sys.executable, "-c", "import os, time; time.sleep(1); print(os.nice(0))"])
    until(lambda: detached_jobs.job_state(path).state == "failed", 60)
    assert int(detached_jobs.job_state(path).message) == min(19, os.nice(0) + detached_jobs.NICENESS)


@pytest.mark.slow
def test_the_time_left_of_the_clustering_is_by_its_own_pace():
    features, labels = blobs(6, 3)
    told = []
    found = count_classes(features, labels, 3, 0, most=20, report=lambda share, left: told.append((share, left)))
    shares, (last, end) = [share for share, _ in told], told[-1]
    assert len(told) == len(found.numbers) and shares == sorted(shares) and last == 1.0
    assert end.likely == 0 and time_left_in_words(end) == "up to 5 s left"


@pytest.mark.slow
def test_a_coarse_search_keeps_some_of_the_bar_for_what_comes_after():
    features, labels = blobs(8, 4, each=12)
    shares = []
    count_classes(features, labels, 4, 0, most=90, report=lambda share, left: shares.append(share))
    assert max(shares[:20]) < 0.95 and shares[-1] == 1.0


@pytest.mark.slow
def test_a_count_that_is_cancelled_ends_between_two_numbers(root, monkeypatch):
    tried = []
    monkeypatch.setattr(class_search, "available_cores", lambda: 1)

    def slow(points, total, seed, restarts, normalize):
        tried.append(total)
        if len(tried) == 2:
            background_jobs.cancel_job(background_jobs.list_jobs(root)[0])
        return np.arange(len(points)) % total

    config = small(**{"pretrain.epochs": 0})
    monkeypatch.setattr(class_search, "kmeans", slow)
    with pytest.raises(background_jobs.Cancelled):
        search_count(config, root, None, print)
    path = class_count.class_count_path(config, root)
    assert detached_jobs.job_state(path).state == "cancelled" and class_count.read_class_count(path) is None
    assert len(tried) <= 4
    with pytest.raises(UserError, match="has already ended"):
        background_jobs.cancel_job(background_jobs.list_jobs(root)[0])
    with background_jobs.working_on(config, class_count.class_count_path(config, root), False) as progress:
        progress.check()  # another try is not cancelled


def test_one_k_means_uses_one_thread_whatever_the_machine_does(monkeypatch):
    """Threads of one k-means spin while they wait for each other: fifty times as long on two busy cores."""
    seen = []

    def told(points, total, seed, restarts, normalize):
        seen.extend(pool["num_threads"] for pool in threadpoolctl.threadpool_info())
        return np.arange(len(points)) % total

    monkeypatch.setattr(class_search, "kmeans", told)
    count_classes(*blobs(6, 3), 3, 0, most=6)
    assert set(seen) == {1}


@pytest.mark.parametrize("text", [
    "", "[]", '{"settings": 7, "share": "x", "left_s": [], "time": null}', '{"share": 1e999, "began": -1}', "\x00",
    '{"settings": {"dataset": {"a": 1}, "seed": "\\u001b[31m"}, "phase": ["x"], "time": 1e300}',
])  # fmt: skip
def test_damaged_records_of_a_count_are_survived(root, text):
    path = class_count.class_count_path(small(), root)
    path.parent.mkdir(parents=True)
    path.with_suffix(".progress.json").write_text(text)
    assert background_jobs.list_jobs(root) == []
    lock = try_lock(path.with_suffix(".lock"))
    (count,) = background_jobs.list_jobs(root)
    assert count.is_working and count.time_left is None and count.title.isprintable()
    os.close(lock)


@pytest.mark.slow
def test_a_count_in_a_process_of_its_own_is_listed_and_cancelled_by_the_queue(root, capsys):
    """Begun as a page does it, in the midst of pretraining; its steps are kept for the next."""
    config = small(**{"pretrain.epochs": 200})
    class_count.start_class_count(config, root)
    (count,) = until(lambda: [c for c in background_jobs.list_jobs(root) if c.phase == "pretrain" and c.time_left])
    assert main(["queue", "--runs", str(root)]) == 0
    out = capsys.readouterr().out
    assert count.id in out and "pretraining" in out and "left" in out
    assert main(["queue", "cancel", count.id, "--runs", str(root)]) == 0
    until(lambda: detached_jobs.job_state(count.path).state == "cancelled")
    assert list((root / ".pretrained").glob("*.partial/step-*"))


@pytest.mark.slow
def test_on_the_command_line_a_bar_is_drawn_and_no_raw_lines(root, capfd):
    few = ["--set", "pretrain.epochs=1", "--set", "dataset.images_per_class=60"]
    assert main(["count-classes", *few, "--most", "8", "--runs", str(root)]) == 0
    out, err = capfd.readouterr()
    assert "pretraining" in err and "clustering" in err and "100%" in err and "loss" not in err
    assert out.splitlines()[0] == "classes  accuracy on labels  silhouette" and "of them novel" in out
