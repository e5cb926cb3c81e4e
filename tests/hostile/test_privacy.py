"""A run is its owner's alone, whatever the umask of who starts it; what a person takes away follows that umask."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lps.__main__ import main
from lps.files.atomic import PUBLIC, write_whole
from lps.store.run_folders import list_runs
from tests.sample_runs import make_run

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = """
import os, sys
from pathlib import Path
os.umask(0)
from lps.scheduler import launcher; from lps.studies import sweep_records
from lps.settings.config import configure
from lps.files.atomic import write_json
from lps.store.run_folders import create_run, delete_run
root, trainer = Path(sys.argv[1]), (sys.executable, sys.argv[2])
run = create_run(root, configure({"device": "cpu"}), "mine")
write_json(run.folder / "plan.json", {"do": "finish"})
launcher.launch(run, trainer)
assert launcher.wait_for_end(run, 30).name == "finished"
run.write_meta(notes="secret")
sweep_records.write_sweep_record(root, "mine", {"layout": {}})
other = create_run(root, configure({"device": "cpu", "seed": 1}), "deleted")
delete_run(other)
"""


SEARCH = """
import functools, os, sys
os.umask(0o022)
from lps.studies import search_driver
from lps.__main__ import main
trainer = sys.executable, sys.argv[2]
search_driver.run_search = functools.partial(search_driver.run_search, trainer=trainer, pause_s=0.01)
words = "search s9 --space margin_scale=1..10 --trials 1 --objective validation --set epochs=2 --set device=cpu"
assert main([*words.split(), "--runs", sys.argv[1]]) == 0
for words in ("queue slots 2", "queue pause", "sweep --dry-run"):
    assert main([*words.split(), "--runs", sys.argv[1]]) == 0
assert os.umask(0) == 0o022
"""


def open_to_others(folder: Path) -> list[str]:
    """What in a folder others may read, write or enter."""
    paths = [folder, *folder.rglob("*")]
    return [str(path) for path in paths if stat.S_IMODE(path.lstat().st_mode) & 0o077]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux")
def test_a_whole_run_is_private_under_an_open_umask(tmp_path):
    root = tmp_path / "runs"
    words = [sys.executable, "-c", LAUNCH, str(root), str(ROOT / "tests" / "fake_trainer.py")]
    subprocess.run(words, cwd=ROOT, check=True, timeout=60)
    (run,) = list_runs(root)
    names = {path.name for path in run.folder.iterdir()}
    assert {"config.json", "meta.json", "lock", "want.json", "process.json", "exit.json", "events.jsonl"} <= names
    assert open_to_others(root) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="Linux")
def test_a_search_and_the_command_line_are_private_under_an_open_umask(tmp_path):
    root = tmp_path / "new" / "runs"
    words = [sys.executable, "-c", SEARCH, str(root), str(ROOT / "tests" / "search_trainer.py")]
    subprocess.run(words, cwd=ROOT, check=True, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (run,) = list_runs(root)
    names = {path.name for path in (root / ".searches" / "s9").iterdir()}
    assert {"search.json", "trials.jsonl", "want.json", "lock"} <= names and run.state().name == "finished"
    assert open_to_others(root) == []


def test_what_is_taken_away_by_a_command_follows_the_persons_umask(tmp_path):
    run = make_run(tmp_path / "runs", epochs=1, pretrain=1)
    before = os.umask(0o022)
    try:
        words = ["export", run.id, "--to", "archive", "--into", str(tmp_path / "out"), "--runs", str(run.root)]
        assert main(words) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out" / f"{run.id}.zip").stat().st_mode) == 0o644


def test_what_is_taken_away_follows_the_persons_umask(tmp_path):
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "ours", b"x")
        write_whole(tmp_path / "theirs", b"x", PUBLIC)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o644
