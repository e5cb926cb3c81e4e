"""Damaged `meta.json` and `want.json`: told everywhere, no matter for the state, never written over without a copy."""

import errno
import json

import pytest

from lps.__main__ import main
from lps.cli._follow import Bars
from lps.doctor import diagnostic as doctor_finding
from lps.doctor import runs_folder
from lps.errors import UserError
from lps.files import disk
from lps.files.atomic import write_json
from lps.interop import imports
from lps.scheduler import queue
from lps.settings.config import configure
from lps.store.run_folders import create_run, recorded_runs
from lps.store.runs import Run
from tests.bad_values import ENOUGH
from tests.doctor.test_doctor import Fake, findings_of
from tests.hostile.test_bad_files import contents, damaged_objects
from tests.sample_runs import make_run
from tests.shares import in_turn
from tests.visiting import visit

BAD = [*contents(), *damaged_objects()]
WISH = {"want": "stop", "attempt": 1, "time": 5.0}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    made = make_run(tmp_path / "runs", "stopped", epochs=3, written=2, name="a name")
    write_json(made.folder / "want.json", WISH)
    return made


def kept(run: Run, name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(run.folder.glob(f"damaged-{name.removesuffix('.json')}-*.json"))]


def save(run: Run, name: str) -> None:
    """What a person does that writes the file anew."""
    if name == "meta.json":
        run.write_meta(notes="new")
    else:
        with run.changing():
            queue.request_attempt(run, "stop", 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(["meta.json", "want.json"], 2))
def test_every_damage_is_told_kept_and_no_matter_for_the_state(run, name):
    before, state = (run.folder / name).read_bytes(), run.state()
    assert len(set(BAD)) >= 2 * ENOUGH and run.damages() == []
    for content in set(BAD):
        (run.folder / name).write_bytes(content)
        (words,) = run.damages()
        assert words.startswith(f"{name} ") and words.isprintable(), content[:100]
        assert run.state() == state
        if "newer" in words:
            continue
        save(run, name)
        assert kept(run, name) == [content] and run.damages() == [], content[:100]
        assert run.meta()["notes"] == "new" if name == "meta.json" else run.desired().want == "stop"
        for path in run.folder.glob("damaged-*"):
            path.unlink()
    (run.folder / name).write_bytes(before)
    assert run.damages() == []
    save(run, name)
    assert kept(run, name) == []


def test_sound_files_of_every_age_are_not_accused(run):
    usual = {"name": "", "notes": "", "tags": ["x"], "rev": 1}
    for meta in (usual, usual | {"version": 1, "rev": 0}, {"name": "a"}, {"hidden": True, "other": "program"}):
        write_json(run.folder / "meta.json", meta)
        assert run.damages() == [], meta
    (run.folder / "meta.json").unlink()
    (run.folder / "want.json").unlink()
    assert run.damages() == []
    assert [one.damages() for one in recorded_runs() if one.damages()] == []
    assert create_run(run.root, configure({}), "x").damages() == []


def test_a_newer_file_is_told_and_left_alone(run):
    write_json(run.folder / "meta.json", {"version": 2, "name": "from the future"})
    before = (run.folder / "meta.json").read_bytes()
    (words,) = run.damages()
    assert words.startswith("meta.json was made by a newer LPS Studio")
    with pytest.raises(UserError, match="newer"):
        run.write_meta(name="x")
    assert (run.folder / "meta.json").read_bytes() == before and kept(run, "meta.json") == []


def test_each_damaged_file_is_kept_once(run):
    for content in (b"one", b"two"):
        (run.folder / "meta.json").write_bytes(content)
        run.keep_damaged("meta.json")
        save(run, "meta.json")
    assert sorted(kept(run, "meta.json")) == [b"one", b"two"]


def test_where_it_cannot_be_kept_it_is_not_written_over(run, monkeypatch):
    (run.folder / "meta.json").write_bytes(b"mine")

    def link(old, new):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, "link", link)
    with pytest.raises(UserError, match="the disk is full"):
        run.write_meta(name="x")
    assert (run.folder / "meta.json").read_bytes() == b"mine"


@pytest.mark.parametrize("name", ["meta.json", "want.json"])
def test_command_line_doctor_and_pages_tell_it(run, capsys, name):
    (run.folder / name).write_bytes(b'{"name": "a na')
    here, words = ["--runs", str(run.root)], f"{name} is damaged: "
    assert main(["list", *here]) == main(["show", run.id, *here]) == 0
    assert capsys.readouterr().out.count(words) == 2
    for command in (["list"], ["show", run.id]):
        assert main([*command, "--json", *here]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told[0] if command == ["list"] else told)["damages"] == run.damages()
    (finding,) = [one for one in findings_of(runs_folder.check_runs, Fake(run.root)) if words in one.says]
    assert finding.level == doctor_finding.NOTE and run.id in finding.mend
    page = visit("live", run=run.id)
    assert any(words in warning.value.replace("\\", "") for warning in page.warning)
    page = visit("runs", run=run.id)
    table = page.dataframe[0].value.set_index("Id")["Alarms"]
    assert list(table[run.id[-6:]]) == ["Damaged file"] and sum("Damaged file" in row for row in table) == 1
    assert any(words in element.value.replace("\\", "") for element in page.markdown)


def test_a_damaged_file_that_came_from_elsewhere_is_told_and_kept(run, tmp_path):
    (run.folder / "meta.json").write_bytes(b'{"name": 1}')
    (found,) = imports.import_runs(run.folder, tmp_path / "here")
    assert "meta.json is damaged: name, note or tags cannot be read" in found.notes
    assert kept(found.run, "meta.json") == [b'{"name": 1}'] and found.run.damages() == []


def test_the_bars_take_any_progress(run, capsys):
    whole = json.loads((run.folder / "progress.json").read_text())
    partial = [{key: value for key, value in whole.items() if key != left_out} for left_out in whole]
    odd = [whole | {key: value} for key in whole for value in ("x\ud800", None, -1, [], {}, 10**400, 0.5)]
    for progress in [*partial, *odd, {}, {"phase": "train"}, {"phase": "pretrain"}]:
        (run.folder / "progress.json").write_text(json.dumps(progress))
        Bars(run).show_state(run.state())
    assert "train" in capsys.readouterr().err
