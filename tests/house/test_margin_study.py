"""The margin study: the program accepts its commands, and its tables equal the results of its runs."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks import margin
from lps.store.run_folders import list_runs
from lps.store.snapshots import read_snapshot, read_split
from tests.sample_runs import make_run

DOCUMENT = Path(__file__).parents[2] / "docs" / "when-the-margin-helps.md"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two pairs of runs, with the margin and without, in a sweep of the plan; one unfinished, one of no sweep."""
    root, tag = tmp_path_factory.mktemp("runs"), f"sweep:{margin.TAG}-{margin.PLAN[0].name}"
    for seed in (0, 1):
        for use_margin in (True, False):
            settings = {"use_margin": use_margin, "entropy_weight": 0.5}
            run = make_run(root, epochs=3, seed=seed, settings=settings, lucky=use_margin)
            run.write_meta(tags=[tag])
    make_run(root, "stopped", epochs=3, seed=2).write_meta(tags=[tag])
    make_run(root, epochs=3, seed=3)
    return root


def test_the_plan_is_of_sweeps_with_names_of_their_own():
    plans = (*margin.PLAN, *margin.HUNDRED)
    assert len({sweep.name for sweep in plans}) == len(plans)
    for sweep in plans:
        words = sweep.words(Path("my pictures.npz"), Path("100 classes.npz"))
        assert words[0] == "sweep" and words[words.index("--seeds") + 1] == margin.SEEDS
        assert ("dataset.path=my pictures.npz" in words) == (sweep.data == "pictures")
        assert ("dataset.path=100 classes.npz" in words) == (sweep.data == "hundred")
        assert f"{margin.TAG}-{sweep.name}" in words
        asked = [word.partition("=")[0] for option, word in zip(words, words[1:]) if option in ("--set", "--vary")]
        assert len(asked) == len(set(asked)), "a setting is either set or varied"


def test_what_a_run_came_to_is_counted_image_by_image(root):
    run = next(run for run in list_runs(root) if run.config().hyperparameters["use_margin"] and run.config().seed == 0)
    found, (split, targets) = margin.outcome(run), read_split(run.folder)
    predicted = read_snapshot(run.snapshots, 3).predicted
    novel = [one for image, one in zip(split.unlabeled, predicted) if targets[image] >= split.classes.seen]
    assert found.swallowed == pytest.approx(np.mean([one < split.classes.seen for one in novel]))
    assert found.strict <= found.novel + 1e-9
    assert found.caught_up == math.inf or 1 <= found.caught_up <= 3


def test_the_tables_hold_finished_runs_of_the_plan_in_pairs(root):
    found = margin.outcomes(root)
    assert len(found) == 4
    text = margin.tables(found)
    assert "| entropy weight 0.5, margin, C = 10 |" in text and "| entropy weight 0.5, no margin |" in text
    novel = {(one.settings["use_margin"], one.settings["seed"]): 100 * one.novel for one in found}
    gain = np.mean([novel[True, seed] - novel[False, seed] for seed in (0, 1)])
    (row,) = [line for line in text.splitlines() if line.startswith("| entropy weight 0.5") and line.endswith("| 2 |")
              and "[" in line]  # fmt: skip
    assert row.split("|")[3].split()[0] == f"{gain:+.1f}"


def test_the_document_names_its_commands():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert "python -m benchmarks.margin --run" in text and "python -m benchmarks.margin --make-pictures" in text
