"""Damaged files of runs: listed with the reason by command line and pages, and never a traceback."""

import json
import os
import random
import re
import shutil

import pytest

from lps.__main__ import main
from lps.analysis.naming import record_steps
from lps.errors import UserError
from lps.store import snapshots
from lps.store.events import read_events
from lps.store.runs import STATES, Run
from tests.reliability.damage import (
    DAMAGES,
    FILES,
    HALF,
    damage,
    halved,
    link,
    noise,
    pipe,
    retyped,
    shortened,
    wholly_halved,
)
from tests.sample_runs import make_run
from tests.shares import OFFSET, share
from tests.visiting import PAGES, visit, words_of

TIMES = 75 if os.environ.get("LPS_TRIALS") == "all" else 5  # of every damage to every file
SMALL = ("meta.json", "want.json", "process.json", "exit.json", "progress.json")
EVERY = {"settings": ("config.json",), "small files": SMALL} | {name: (name,) for name in FILES[6:]}  # together, alone


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("sound") / "runs", "stopped", epochs=4, written=4, log="a line\n" * 20)
    record_steps(run, 3, [{"do": "name", "id": 7, "name": "zebra"}])
    return run


@pytest.fixture
def run(sound, tmp_path):
    folder = tmp_path / "runs" / sound.id
    shutil.copytree(sound.folder, folder)
    return Run(folder)


def restore(run, sound, name):
    path = run.folder / name
    path.unlink(missing_ok=True)
    if (sound.folder / name).exists():
        shutil.copy(sound.folder / name, path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_damage_is_listed_and_told_in_a_sentence(run, sound, name, capsys):
    draws = random.Random(name)
    for harm in DAMAGES:
        for _ in range(TIMES):
            damage(run.folder, name, harm, draws)
            assert_told(run, capsys)
            restore(run, sound, name)


def assert_told(run, capsys):
    here = ["--runs", str(run.root)]
    state = run.state()
    assert state.name in STATES and state.reason.isprintable()
    if state.name == "unreadable":
        assert ": " in state.reason
    assert main(["list", *here, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["id"] == run.id and row["state"] == state.name and row["reason"] == state.reason
    assert main(["list", *here]) == main(["show", *here, run.id]) == main(["show", *here, run.id, "--json"]) == 0
    capsys.readouterr()
    for read in (snapshots.read_split, lambda folder: snapshots.read_snapshot(folder / "snapshots", 3)):
        try:
            read(run.folder)
        except UserError as error:
            said = str(error)
            assert "\n" not in said and not re.search(r"pickle|magic|zip|array.*allow|0x", said), said
    for event in read_events(run.events)[0]:
        json.dumps(event, allow_nan=False)


def test_what_numpy_says_of_a_damaged_file_is_not_shown(run):
    for content in (b"PK\x03\x04 broken", b"\x93NUMPY\x01\x00garbage", b"", b"\x80\x04K\x01."):
        (run.folder / "split.npz").write_bytes(content)
        with pytest.raises(UserError, match=r"^split.npz: is damaged \(its arrays cannot be read\)$"):
            snapshots.read_split(run.folder)


def test_arrays_that_do_not_fit_together_are_damage(run):
    arrays = snapshots.read_arrays(run.folder / "split.npz", ("labeled", "unlabeled", "targets"))
    whole = dict(snapshots.np.load(run.folder / "split.npz"))
    for name, changed in (
        ("labeled", arrays["labeled"] + 10_000),
        ("labeled", arrays["labeled"].astype(float)),
        ("unlabeled", arrays["unlabeled"].reshape(1, -1)),
        ("targets", arrays["targets"] + 100),
        ("seen", snapshots.np.array(-3)),
        ("class_names", snapshots.np.array([1, 2])),
        ("class_names", whole["class_names"][:-1]),
    ):
        snapshots.write_arrays(run.folder / "split.npz", **whole | {name: changed})
        with pytest.raises(UserError, match="is damaged"):
            snapshots.read_split(run.folder)


def test_a_text_for_a_deleted_run_is_refused_in_a_sentence(run):
    shutil.rmtree(run.folder)
    with pytest.raises(UserError, match=f"^run: {run.id} no longer exists$"):
        run.write_meta(name="x")


def of(page: str, cases: list) -> list:
    """A sixth of the cases, others every day; `python -m tests.reliability cases` tries all of them."""
    return share(cases, PAGES.index(page) + OFFSET, 6)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_pages_show_damaged_runs_without_a_traceback(page, run, sound, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(run.root))
    draws = random.Random(page)
    files = ("config.json", "events.jsonl", "split.npz", "snapshots/epoch-0003.npz", "exit.json", "names.json")
    for name in of(page, files):
        for harm in (shortened, draws.choice((noise, retyped))):
            damage(run.folder, name, harm, draws)
            visit(page, run=run.id)  # raises where the page has an exception on it
            restore(run, sound, name)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_pages_take_texts_with_half_characters(page, run, sound, monkeypatch):
    """In every text of every file, also the names of the classes: JSON can say them, and no text can hold them."""
    monkeypatch.setenv("LPS_RUNS", str(run.root))
    whole = dict(snapshots.np.load(run.folder / "split.npz"))
    for names, harm in of(page, [(names, harm) for names in EVERY.values() for harm in (halved, wholly_halved)]):
        for name in names:
            if name.endswith("npz"):
                classes = snapshots.np.array([HALF + text for text in whole["class_names"].tolist()])
                snapshots.write_arrays(run.folder / "split.npz", **whole | {"class_names": classes})
            elif (run.folder / name).exists():
                damage(run.folder, name, harm, random.Random(0))
        visit(page, run=run.id, clone=run.id)
        for name in names:
            restore(run, sound, name)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES)
def test_pages_follow_no_link_and_wait_for_no_pipe(page, run, sound, monkeypatch, tmp_path):
    monkeypatch.setenv("LPS_RUNS", str(run.root))
    for names in of(page, list(EVERY.values())):
        for name in names:
            (tmp_path / "secret").write_bytes(b"secret!\n" + (sound.folder / name).read_bytes())
            link(run.folder, name, tmp_path / "secret")
        at = visit(page, run=run.id, clone=run.id)
        assert "secret!" not in words_of(at) + "".join(code.value for code in at.code)
        for name in names:
            pipe(run.folder, name)
        visit(page, run=run.id, clone=run.id)
        for name in names:
            restore(run, sound, name)
