"""Import on the page Runs: what comes in, what is refused in which words, and that nothing else is left behind."""

import io
import os
import zipfile
from types import SimpleNamespace

import pytest

from lps.__main__ import main
from lps.errors import UserError
from lps.interop import archives, imports
from lps.store.run_folders import list_runs
from lps.ui.runs import import_dialog as dialog
from lps.ui.server import uploads
from lps.ui.shared import url_fields
from tests.sample_runs import make_run
from tests.visiting import visit


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("elsewhere"), epochs=2, pretrain=1, name="from *afar*")


@pytest.fixture(scope="module")
def archive(original, tmp_path_factory):
    return archives.pack_run(original, tmp_path_factory.mktemp("packed"))


def uploaded(data: bytes, name: str = "run.zip"):
    """As the browser's file arrives: bytes with a name."""
    stream = io.BytesIO(data)
    stream.name = name
    return stream


def open_dialog():
    at = visit("runs")
    at.button(key="import_open").click().run()
    assert not at.exception
    return at


def ask(at, archive=None, path="", data=""):
    if archive is not None:
        at.file_uploader(key="import_file").set_value((archive.name, archive.read_bytes(), "application/zip"))
    at.text_input(key="import_path").set_value(path)
    at.text_input(key="import_data").set_value(data)
    at.button(key="import_open").click()  # an `AppTest` draws the whole page, and the dialog has to be asked for again
    at.button(key="import_start").click().run()
    assert not at.exception
    return at


def words(elements) -> list[str]:
    return [element.value.replace("\\", "").replace("\u2060", "") for element in elements]


def left_behind(root) -> list[str]:
    return sorted(os.listdir(root / ".incoming"))


@pytest.mark.parametrize("by", ["upload", "path of an archive", "path of a folder"])
def test_a_run_comes_in_and_is_chosen(root, original, archive, by):
    way = {"archive": archive} if by == "upload" else {"path": str(archive if "archive" in by else original.folder)}
    at = ask(open_dialog(), **way)
    (run,) = list_runs(root)
    assert run.id == original.id and run.read_json(imports.IMPORTED_FILE)["from"] == (
        original.id if by.endswith("folder") else archive.name
    )
    assert at.query_params["run"] == run.id and left_behind(root) == []
    assert ":material/check_circle: 1 run imported." in [element.value for element in at.markdown]
    at.button(key="import_seen").click().run()
    assert not any("imported" in element.value for element in at.markdown)
    if by == "upload":
        at = ask(open_dialog(), archive)
        assert ":material/check_circle: 1 was already here." in [element.value for element in at.markdown]
        assert any("already here, with the same results" in said for said in words(at.caption))


def test_notes_of_the_command_are_those_of_the_page(root, original, tmp_path, capsys):
    damaged = tmp_path / "damaged.zip"
    with zipfile.ZipFile(damaged, "w") as out:
        for path in original.folder.rglob("*"):
            if path.is_file():
                name = path.relative_to(original.root).as_posix()
                out.writestr(name, b"PK broken" if name.endswith("epoch-0001.npz") else path.read_bytes())
        out.writestr(f"{original.id}/stranger.txt", "x")
    assert main(["import", str(damaged), "--runs", str(tmp_path / "other")]) == 0
    said = [line.partition(f"{original.id}: ")[2] for line in capsys.readouterr().err.splitlines()]
    at = ask(open_dialog(), damaged)
    assert len(said) == 2
    for note in said:
        assert any(f"{note}." in caption for caption in words(at.caption)), note


@pytest.mark.parametrize("kind", ["not an archive", "a zip bomb", "a hostile name", "another run's settings"])
def test_what_the_command_refuses_the_page_refuses_in_the_same_words(root, original, tmp_path, capsys, kind):
    path = tmp_path / "evil.zip"
    if kind == "not an archive":
        path.write_bytes(b"not at all")
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            name = {"a hostile name": "../../x/config.json"}.get(kind, f"{original.id}/log.txt")
            out.writestr(name, bytes(64 << 20) if kind == "a zip bomb" else b"{}")
    assert main(["import", str(path), "--runs", str(tmp_path / "other")]) == 2
    sentence = capsys.readouterr().err.strip().partition(f"lps: {str(path)!r}: ")[2]
    at = ask(open_dialog(), path)
    assert sentence and words(at.error) == [f"{sentence}."]
    assert list_runs(root) == [] and left_behind(root) == []


def test_nothing_and_two_things_are_asked_about(root, original, archive):
    at = ask(open_dialog())
    assert words(at.error) == ["import: choose an archive or enter a path."]
    at = ask(at, archive, str(original.folder))
    assert words(at.error) == ["import: choose an archive or enter a path, not both."] and not list_runs(root)


def test_a_second_click_says_the_same(root, archive, monkeypatch):
    monkeypatch.setattr(dialog.st, "session_state", {})
    monkeypatch.setattr(url_fields, "set_values", lambda *arguments: None)
    for _ in range(2):
        dialog._store_outcome(dialog.import_archive(uploaded(archive.read_bytes()), "", ""))
        assert dialog.count_in_words(dialog.st.session_state[dialog.IMPORTED]) == "1 run imported."


@pytest.mark.parametrize(
    "name", ["../../../etc/x.zip", "/etc/passwd", "..", "", "a\0b\n.zip", "x" * 5000, "-rf $(x) *.zip"]
)
def test_the_name_of_an_upload_leads_nowhere(root, name):
    with uploads.stored_upload(uploaded(b"data", name), root) as path:
        assert path.read_bytes() == b"data" and path.parent.parent == root / ".incoming"
        assert path.resolve() == path and len(path.name) <= uploads.LONGEST_NAME
        assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert left_behind(root) == []


def test_a_full_disk_and_a_folder_that_cannot_be_made_are_one_sentence(root, monkeypatch):
    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda _: SimpleNamespace(free=imports.RESERVE + 3))
    with pytest.raises(UserError, match=r"^runs: .* has too little free space for run\.zip$"):
        dialog.import_archive(uploaded(b"data"), "", "")
    assert left_behind(root) == []
    root.rename(root.with_name("moved"))
    root.write_text("a file")
    with pytest.raises(UserError, match=r"^runs: .* cannot store another run"):
        dialog.import_archive(uploaded(b"data"), "", "")


def test_where_the_data_lie_is_kept(root, tmp_path):
    # Digits need no path, and keep it
    elsewhere = make_run(tmp_path / "elsewhere", epochs=1, pretrain=1, settings={"dataset.path": "/nowhere"})
    at = ask(open_dialog(), path=str(elsewhere.folder), data=str(tmp_path))
    assert list_runs(root)[0].config().dataset_path == str(tmp_path) and not at.error
