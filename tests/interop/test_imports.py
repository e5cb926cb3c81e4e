"""Runs from elsewhere: honest ones arrive as they were, everything else is refused and leaves nothing behind."""

import hashlib
import io
import json
import os
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lps.__main__ import main
from lps.data import sources as data_sources
from lps.errors import UserError
from lps.files import untrusted_files
from lps.files.atomic import write_checked, write_json
from lps.interop import archives, imports
from lps.scheduler import launcher
from lps.store.run_folders import delete_run, list_runs, recorded_runs
from lps.store.runs import Run
from lps.store.snapshots import snapshot_epochs, write_arrays
from lps.store.summary import summarize
from lps.training import checkpoints
from tests.sample_runs import held, make_damaged, make_run

ID = "20260101-000000-digits-lps-s0-abc123"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("elsewhere"), epochs=2, pretrain=1, name="from afar")


def files(folder) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def as_tar(source, path, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        archive.add(source, arcname=source.name)
    return path


def as_zip(contents, path, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def as_user_error(path, root, words, **more):
    """The source is refused with these words, and nothing of it is left."""
    with pytest.raises(UserError, match=words):
        imports.import_runs(path, root, **more)
    assert list_runs(root) == [] and not list((root / ".incoming").glob("*") if root.exists() else ())


def sources(original, folder) -> list:
    folder.mkdir()
    return [
        archives.pack_run(original, folder),
        *(as_tar(original.folder, folder / f"run.tar{end}", f"w:{end[1:]}") for end in ("", ".gz", ".bz2", ".xz")),
        as_tar(original.root, folder / "all.tgz"),
        original.folder,
        original.root,
    ]


@pytest.mark.slow
def test_a_run_arrives_as_it_was(original, tmp_path):
    before = {name: data for name, data in files(original.folder).items() if archives.is_exported(name)}
    for number, source in enumerate(sources(original, tmp_path / "sources")):
        (found,) = imports.import_runs(source, tmp_path / str(number))
        after = files(found.run.folder)
        assert found.is_new and not found.notes and found.run.id == original.id, source
        assert {name: after[name] for name in before if name != "meta.json"} == {
            name: data for name, data in before.items() if name != "meta.json"
        }
        assert after.keys() - before.keys() == {"lock", imports.IMPORTED_FILE} and after["lock"] == b""
        assert found.run.state() == original.state() and found.run.meta() | {"rev": 0} == original.meta() | {"rev": 0}
        assert summarize(found.run) == summarize(original)
        assert os.listdir(tmp_path / str(number) / ".incoming") == []


def test_the_same_again_changes_nothing_and_other_results_are_refused(original, tmp_path, root, capsys):
    path = archives.pack_run(original, tmp_path)
    assert main(["import", str(path), "--runs", str(root)]) == 0
    (run,) = list_runs(root)
    run.write_meta(notes="mine")
    before = files(run.folder)
    capsys.readouterr()
    assert main(["import", str(path), "--runs", str(root)]) == 0
    said = capsys.readouterr()
    assert "already here, with the same results" in said.err and said.out == f"{run.folder}\n"
    assert files(run.folder) == before
    with run.events.open("a") as file:
        file.write('{"kind":"finish","step":1,"epoch":9,"time":1.0,"values":{}}\n')
    assert main(["import", str(path), "--runs", str(root), "--json"]) == 2
    said = capsys.readouterr()
    assert "is already here with other results" in said.err and json.loads(said.out) == []
    assert [run.id for run in list_runs(root)] == [original.id]


def test_several_runs_in_one_archive_come_in_together(tmp_path, root):
    runs = [make_run(tmp_path / "in", epochs=1, pretrain=1, seed=seed) for seed in (0, 1)]
    found = imports.import_runs(as_tar(tmp_path / "in", tmp_path / "in.tgz"), root)
    assert {item.run.id for item in found} == {run.id for run in runs}
    (runs[1].folder / "config.json").write_text("{")
    as_user_error(as_tar(tmp_path / "in", tmp_path / "bad.tgz"), tmp_path / "others", "config.json: ")


def test_a_conflict_on_the_last_run_leaves_the_others_out(tmp_path, root):
    first, last = sorted((make_run(tmp_path / "in", epochs=1, pretrain=1, seed=seed) for seed in (0, 1)), key=str)
    packed = as_tar(tmp_path / "in", tmp_path / "in.tgz")
    (there,) = imports.import_runs(last.folder, root)
    with there.run.events.open("a") as file:
        file.write('{"kind":"finish","step":1,"epoch":9,"time":1.0,"values":{}}\n')
    with pytest.raises(UserError, match=f"{last.id} is already here with other results"):
        imports.import_runs(packed, root)
    assert [run.id for run in list_runs(root)] == [last.id] and not list((root / ".incoming").iterdir())


def test_runs_that_cannot_all_be_placed_are_taken_back(tmp_path, root, monkeypatch):
    runs = [make_run(tmp_path / "in", epochs=1, pretrain=1, seed=seed) for seed in (0, 1)]
    last, rename = max(run.id for run in runs), Path.rename

    def refuse(path, target):
        if target == root / last:
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    as_user_error(as_tar(tmp_path / "in", tmp_path / "in.tgz"), root, "cannot store another run .No space left")


def test_one_bad_path_does_not_stop_the_others(original, tmp_path, root, capsys):
    good, bad = archives.pack_run(original, tmp_path), tmp_path / "bad.zip"
    bad.write_bytes(b"PK nothing")
    assert main(["import", str(bad), str(good), "--runs", str(root)]) == 2
    said = capsys.readouterr()
    assert said.out.strip().endswith(original.id) and "is damaged or not an archive" in said.err


def test_checkpoints_travel_unopened_and_damaged_ones_stay_behind(tmp_path, root):
    run = make_run(tmp_path / "in", "stopped", epochs=2, pretrain=1)
    run.checkpoints.mkdir()
    data = b"\x80\x02cos\nsystem\n(S'touch /tmp/pwned'\ntR."  # a pickle that would run a program
    for name, digest in (("step-00000031", hashlib.sha256(data).hexdigest()), ("step-00000062", "0" * 64)):
        (run.checkpoints / f"{name}.pt").write_bytes(data)
        write_json(run.checkpoints / f"{name}.json", {"bytes": len(data), "sha256": digest})
    (found,) = imports.import_runs(archives.pack_run(run, tmp_path), root)
    assert found.notes == ("checkpoint step-00000062 is damaged and was left out",)
    assert sorted(os.listdir(found.run.checkpoints)) == ["step-00000031.json", "step-00000031.pt"]
    # The trainer does not open it either.
    assert checkpoints.load_newest(found.run.checkpoints) == (None, None, {"step-00000031": checkpoints.FOREIGN})
    assert not os.path.exists("/tmp/pwned")
    light = archives.pack_run(run, tmp_path / "light", light=True)
    assert not [name for name in zipfile.ZipFile(light).namelist() if "checkpoints" in name]


def test_damage_that_does_no_harm_is_told(tmp_path, root):
    run = make_damaged(tmp_path / "in")
    (run.folder / "notes.txt").write_text("what is this")
    (found,) = imports.import_runs(run.folder, root)
    assert [note.partition(" ")[0] for note in found.notes] == ["1", "3", "epoch-0007.npz:"]
    assert 7 not in snapshot_epochs(found.run.snapshots) and 8 in snapshot_epochs(found.run.snapshots)
    assert not (found.run.folder / "notes.txt").exists() and summarize(found.run) == summarize(run)


@pytest.mark.parametrize(
    "state, becomes, words",
    [
        ("finished", "finished", ""),
        ("stopped", "stopped", "stopped by request"),
        ("failed", "failed", "not finite"),
        ("crashed", "crashed", "had not ended on sample when it was copied"),
        ("running", "crashed", "had not ended on sample when it was copied: it was running there or had crashed"),
        ("stopping", "crashed", "had not ended on sample when it was copied"),
        ("starting", "stopped", "had not started on another machine when it was copied"),
        ("queued", "stopped", "had not started on another machine when it was copied"),
    ],
)
def test_nothing_goes_on_here(tmp_path, root, state, becomes, words, monkeypatch):
    run = make_run(tmp_path / "in", state, epochs=8, pretrain=1)
    with held(run):  # as a copy that was made meanwhile shows it
        path = archives.pack_run(run, tmp_path)
    (found,) = imports.import_runs(path, root)
    assert found.run.state().name == becomes and words in found.run.state().reason
    assert launcher.dispatch(root, trainer=("false",)) == [] and found.run.state().name == becomes
    if becomes != "finished":  # and whoever wants to goes on with it
        monkeypatch.setattr(launcher, "dispatch", lambda *_: [])
        assert launcher.resume(found.run).name == "queued"


def test_a_run_that_goes_on_on_this_machine_is_not_copied_half(tmp_path, root):
    run = make_run(tmp_path / "in", "running", epochs=8, pretrain=1)
    with held(run):
        as_user_error(run.folder, root, "is running on this machine; stop it first")


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_recording_becomes_a_run_of_ones_own(tmp_path, root, is_packed):
    recording = recorded_runs()[0]
    source = as_tar(recording.folder, tmp_path / "recording.tgz") if is_packed else recording.folder
    (found,) = imports.import_runs(source, root)
    assert found.notes == (imports.OWN_NOW,) and not found.run.is_recorded
    assert found.run.state().name == "finished" and summarize(found.run) == summarize(recording)
    found.run.write_meta(notes="mine")
    delete_run(found.run)
    assert list_runs(root) == []


@pytest.mark.slow
def test_what_a_light_archive_left_out_comes_with_a_full_one(tmp_path, root):
    run = make_run(tmp_path / "in", "stopped", epochs=2, pretrain=1)
    run.checkpoints.mkdir()
    for step in (31, 62):
        write_checked(run.checkpoints / f"step-{step:08}.pt", b"x" * step)
    light, full = (archives.pack_run(run, tmp_path / str(n), light=n == 0) for n in (0, 1))
    (first,) = imports.import_runs(light, root)
    assert not first.run.checkpoints.exists()
    (first.run.snapshots / "epoch-0001.npz").unlink()
    first.run.write_meta(notes="mine")
    with held(first.run):
        (busy,) = imports.import_runs(full, root)
    assert busy.notes == (
        "2 checkpoints, 1 snapshot not added, because the run is in use here; import the run again when it has ended",
    )
    (again,) = imports.import_runs(full, root)
    assert not again.is_new and again.notes == ("missing files were added: 2 checkpoints, 1 snapshot",)
    assert files(first.run.checkpoints) == files(run.checkpoints) and 1 in snapshot_epochs(first.run.snapshots)
    assert first.run.meta()["notes"] == "mine"
    (third,) = imports.import_runs(full, root)
    assert not third.is_new and not third.notes


def test_nothing_is_added_to_a_run_that_began_here(tmp_path):
    run = make_run(tmp_path / "runs", epochs=2, pretrain=1)
    path = archives.pack_run(run, tmp_path / "out")
    (run.snapshots / "epoch-0001.npz").unlink()
    (found,) = imports.import_runs(path, run.root)
    assert not found.is_new and not found.notes and snapshot_epochs(run.snapshots) == [2]


def test_start_weights_of_another_machine_are_nowhere_here(tmp_path, root):
    run = make_run(tmp_path / "in", epochs=1, pretrain=1)
    weights = {"network.start": "checkpoint", "network.checkpoint": "/home/someone/weights.pt"}
    write_json(run.folder / "config.json", json.loads((run.folder / "config.json").read_text()) | weights)
    (found,) = imports.import_runs(run.folder, root)
    assert found.run.config().network_checkpoint == f"{imports.ELSEWHERE}/weights.pt"
    assert "start weights are on another machine" in found.notes[0] and found.run.state().name == "finished"
    (again,) = imports.import_runs(run.folder, root)
    assert not again.is_new and not again.notes


@pytest.mark.parametrize(
    "name, content",
    [
        ("names.json", b"\xff"),
        ("names.json", b'{"entries": 5}'),
        ("exit.json", b"[]"),
        ("exit.json", b'{"attempt": 1, "state": "finished", "reason": "\\ud800"}'),
        ("exit.json", b'{"attempt": "x", "state": "finished"}'),
        ("process.json", b"not JSON"),
        ("process.json", b'{"attempt": 1, "host": ["x"]}'),
        ("process.json", b'{"attempt": 1, "started": 1e300}'),
        ("progress.json", b'{"epoch": NaN}'),
        ("progress.json", b'{"phase": {}}'),
    ],
)
def test_damaged_records_are_left_out_and_told(tmp_path, root, name, content):
    run = make_run(tmp_path / "in", "failed", epochs=2, pretrain=1)
    (run.folder / name).write_bytes(content)
    (found,) = imports.import_runs(run.folder, root)
    assert len(found.notes) == 1 and found.notes[0].startswith(f"{name} ") and "left out" in found.notes[0]
    assert found.run.state().name == ("crashed" if name == "exit.json" else "failed")
    written = found.run.folder / name
    assert not written.exists() or written.read_bytes() != content


def test_a_place_of_another_machine_means_nothing_here(tmp_path, root):
    run = make_run(tmp_path / "in", epochs=1, pretrain=1)
    values = json.loads((run.folder / "config.json").read_text()) | {"dataset.path": "/etc"}
    write_json(run.folder / "config.json", values)
    (found,) = imports.import_runs(run.folder, root)
    assert found.run.config().dataset_path is None and "--dataset-path" in found.notes[0]
    (other,) = imports.import_runs(run.folder, tmp_path / "b", dataset_path=str(tmp_path))
    assert other.run.config().dataset_path == str(tmp_path) and not other.notes
    (same,) = imports.import_runs(run.folder, root, dataset_path=str(tmp_path))
    assert not same.is_new and same.notes == (f"its data set is now read from {str(tmp_path)!r}",)
    assert found.run.config().dataset_path == str(tmp_path), "the advice of the first import can be followed"
    for place in (None, str(tmp_path)):
        (again,) = imports.import_runs(run.folder, root, dataset_path=place)
        assert not again.is_new and not again.notes and found.run.config().dataset_path == str(tmp_path)
    assert data_sources.images_of(found.run.config())


NAMES = ["/etc/x", f"../{ID}/config.json", f"{ID}/../../x", f"{ID}/a/../../../x", "..", f"{ID}\\..\\x", "C:/x",
         f"{ID}/\n", f"{ID}/a\x00b", f"{ID}/\u202egpj.exe", "x" * 300, "a/" * 600 + "b"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_hostile_names_are_refused(tmp_path, root, name, kind):
    path = tmp_path / f"bad.{kind}"
    if kind == "zip":
        fits = name.replace("\x00", "?")
        as_zip({fits: b"x"}, path)
        path.write_bytes(path.read_bytes().replace(fits.encode(), name.encode()))
    else:
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            member = tarfile.TarInfo(name.replace("\x00", "\x01"))
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    as_user_error(path, root, "is not a safe file name|not an archive")
    assert sorted(os.listdir(tmp_path)) in ([path.name], [path.name, "runs"])


@given(st.text(max_size=40))
@settings(max_examples=300)
def test_an_admitted_name_stays_below_its_folder(name):
    try:
        untrusted_files.check_name(name)
    except UserError:
        return
    inside = os.path.normpath(os.path.join("/a/b", name))
    assert inside.startswith("/a/b/") or inside == "/a/b"
    run_id, rest = imports.split_entry_name(name)
    assert not run_id or not archives.is_exported(rest) or ".." not in rest


@pytest.mark.slow
@given(st.from_regex(archives.NAMES, fullmatch=True))
def test_what_belongs_is_a_plain_name(name):
    assert not name.startswith("/") and ".." not in name and name.count("/") <= 1 and name.isascii()


PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE)
HEADS = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)


@pytest.mark.parametrize("first", range(0, 256, 32))
def test_what_is_no_file_is_refused(tmp_path, root, first):
    """Links, pipes, devices, contiguous and sparse files, and all types that nobody knows."""
    for kind in {bytes([code]) for code in range(first, first + 32)} - {*PLAIN, *HEADS}:
        with tarfile.open(tmp_path / "bad.tar", "w") as archive:
            member = tarfile.TarInfo(f"{ID}/config.json")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        as_user_error(tmp_path / "bad.tar", root, "is not a regular file")


@pytest.mark.parametrize("name", ["config.json", "snapshots/"])
def test_a_link_in_a_zip_is_refused_also_where_it_is_called_like_a_folder(tmp_path, root, name):
    about = zipfile.ZipInfo(f"{ID}/{name}")
    about.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(about, "/etc/passwd")
    as_user_error(tmp_path / "bad.zip", root, "is not a regular file")


def test_links_and_pipes_in_a_folder_are_not_followed(tmp_path, root):
    run = make_run(tmp_path / "in", epochs=1, pretrain=1)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    run.log.unlink()
    run.log.symlink_to(secret)
    os.mkfifo(run.folder / "names.json")
    (run.folder / "checkpoints").symlink_to(tmp_path)
    (found,) = imports.import_runs(run.folder, root)
    assert not {"log.txt", "names.json", "checkpoints"} & set(os.listdir(found.run.folder))
    (run.folder / "config.json").rename(secret)
    (run.folder / "config.json").symlink_to(secret)
    as_user_error(run.folder, tmp_path / "b", "config.json: of .* is missing")


def test_the_same_file_twice_is_refused(tmp_path, root):
    with pytest.warns(UserWarning), zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        for text in ("{}", "{ }"):
            archive.writestr(f"{ID}/config.json", text)
    as_user_error(tmp_path / "bad.zip", root, "twice")


def test_entries_are_counted(tmp_path, root, monkeypatch):
    monkeypatch.setattr(untrusted_files, "MAX_ENTRIES", 5)
    as_zip({f"{ID}/{n}": b"" for n in range(6)}, tmp_path / "bad.zip")
    as_user_error(tmp_path / "bad.zip", root, "more than 5 entries")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["zip", "tar.gz", "tar.bz2", "tar.xz"])
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, root, form):
    path, size = tmp_path / f"bomb.{form}", 64 << 20
    if form == "zip":
        as_zip({f"{ID}/events.jsonl": bytes(size)}, path)
    else:
        with tarfile.open(path, f"w:{form[4:]}") as archive:
            member = tarfile.TarInfo(f"{ID}/events.jsonl")
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    assert path.stat().st_size < 200_000
    as_user_error(path, root, "unpacks to more than 200 times its size .a zip bomb.*entry ")


def test_more_than_allowed_is_refused_by_what_it_says(tmp_path, root):
    with tarfile.open(tmp_path / "large.tar", "w") as archive:
        member = tarfile.TarInfo(f"{ID}/checkpoints/best.pt")
        member.size = 0
        archive.addfile(member)
    data = bytearray((tmp_path / "large.tar").read_bytes())
    data[124:136] = b"%011o\0" % (7 << 30)  # a size that the archive has not
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + 8 * 32 + sum(data[156:512]))
    (tmp_path / "large.tar").write_bytes(data)
    as_user_error(tmp_path / "large.tar", root, "unpacks to more than", max_bytes=1 << 30)
    as_user_error(tmp_path / "large.tar", root, "200 times its size")


@pytest.mark.slow
def test_a_list_of_attributes_is_no_hiding_place(tmp_path, root):
    """A name of 64 MB in front of a member would be read as one piece."""
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo("x" * (64 << 20))
        archive.addfile(member)
    as_user_error(tmp_path / "bad.tar.gz", root, "has more data than its members declare")


def test_a_list_of_members_is_no_hiding_place(tmp_path, root):
    empty = as_zip({}, tmp_path / "bad.zip").read_bytes()
    padding = bytes(8 << 20)
    end = bytearray(empty)
    struct.pack_into("<II", end, 12, len(padding), 0)
    (tmp_path / "bad.zip").write_bytes(b"PK\x01\x02" + padding[4:] + end)
    as_user_error(tmp_path / "bad.zip", root, "list of members is longer than 4 MB")


def test_parts_that_lie_over_one_another_are_refused(tmp_path, root):
    as_zip({f"{ID}/log.txt": os.urandom(4000), f"{ID}/events.jsonl": b"x"}, tmp_path / "bad.zip")
    data = bytearray((tmp_path / "bad.zip").read_bytes())
    second = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, second + 20, 4000)  # says that it is as long as the first one
    struct.pack_into("<I", data, second + 42, 0)
    (tmp_path / "bad.zip").write_bytes(data)
    as_user_error(tmp_path / "bad.zip", root, "entries that overlap|Overlapped|not an archive")


def npz(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def npy(shape, data=b"", dtype="<i8") -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": shape})
    return out.getvalue() + data


@pytest.mark.parametrize(
    "content, words",
    [
        (npz({"labeled.npy": npy((5_000_000_000_000,))}), "does not match its header"),
        pytest.param(
            lambda: npz({"labeled.npy": npy((64 << 20,), bytes(64 << 20), "|i1")}),
            "200 times its size",
            marks=pytest.mark.slow,
        ),
        (npz({"labeled.npy": npy((1,), b"x" * 8, "|O")}), "values other than numbers"),
        (npz({"labeled.npy": npy((0, 2**62, 2**62), b"x")}), "does not match its header"),
        (npz({"../labeled.npy": npy((0,))}), "is not a safe file name"),
        (npz({"labeled.npy": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65_000}), "is damaged"),
        (b"not a zip", "is damaged"),
    ],
)
def test_arrays_that_lie_are_refused(original, tmp_path, root, content, words):
    as_tar(original.folder, tmp_path / "run.tar", "w")
    inside = {f"{original.id}/{name}": data for name, data in files(original.folder).items()}
    content = content() if callable(content) else content
    as_zip(inside | {f"{original.id}/split.npz": content}, tmp_path / "bad.zip", zipfile.ZIP_STORED)
    as_user_error(tmp_path / "bad.zip", root, f"split.npz: .*({words})")


@pytest.mark.parametrize(
    "changed",
    [
        {"unlabeled": np.array([0, 10**6])},
        {"unlabeled": np.array([0.5])},
        {"targets": np.array([[1]])},
        {"targets": np.array([99])},
        {"seen": np.array([1, 2])},
        {"seen": np.array(50)},
        {"total": np.array(-1)},
        {"class_names": np.array(["x"] * 99)},
    ],
)
def test_a_split_that_does_not_fit_itself_is_refused(tmp_path, root, changed):
    run = make_run(tmp_path / "in", epochs=1, pretrain=1)
    stored = dict(np.load(run.folder / "split.npz")) | changed
    write_arrays(run.folder / "split.npz", **stored)
    as_user_error(run.folder, root, "split.npz: is damaged")


@pytest.mark.parametrize(
    "changed",
    [
        {"predicted": np.zeros(3, np.int16)},
        {"predicted": np.zeros(0)},
        {"confidence": np.zeros(3, np.float16)},
        {"features": np.zeros((2, 2), np.float16)},
        {"feature_index": np.array([10**6], np.int32)},
    ],
)
def test_a_snapshot_that_does_not_fit_is_left_out(tmp_path, root, changed):
    run = make_run(tmp_path / "in", epochs=2, pretrain=1)
    path = run.snapshots / "epoch-0002.npz"
    write_arrays(path, **(dict(np.load(path)) | changed))
    (found,) = imports.import_runs(run.folder, root)
    assert snapshot_epochs(found.run.snapshots) == [1] and found.notes[0].startswith("epoch-0002.npz: is damaged")


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda f: (f / "config.json").unlink(), "config.json: of .* is missing"),
        (lambda f: (f / "config.json").write_text('{"method": "gone"}'), "method: 'gone' is not one of"),
        (lambda f: (f / "config.json").write_text('{"seed": 7}'), "belongs to another run"),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), "config.json: of .* is missing or damaged"),
        (lambda f: (f / "config.json").write_bytes(b" " * (2 << 20)), "config.json of 2 MB"),
        (lambda f: (f / "events.jsonl").write_bytes(b"x" * (5 << 20) + b"\n"), "has a line of more than 4 MB"),
        (lambda f: (f / "events.jsonl").write_bytes(b"no event\n" * 9), "more damaged lines .9. than events"),
        (lambda f: (f / "split.npz").unlink(), "split.npz: of .* is missing"),
    ],
)
def test_what_is_no_run_is_refused(original, tmp_path, root, spoil, words):
    with tarfile.open(as_tar(original.folder, tmp_path / "run.tar")) as archive:
        archive.extractall(tmp_path / "in", filter="data")
    spoil(tmp_path / "in" / original.id)
    as_user_error(tmp_path / "in" / original.id, root, words)


def test_a_copy_that_breaks_off_leaves_nothing(original, tmp_path, root, monkeypatch):
    path = archives.pack_run(original, tmp_path)
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        path.write_bytes(whole[: int(share * len(whole))])
        as_user_error(path, root, "damaged or not an archive|has no run")  # an .npz inside ends as an archive does
    path.write_bytes(whole)
    monkeypatch.setattr(imports, "check_imported_run", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        imports.import_runs(path, root)
    assert list_runs(root) == [] and not root.exists()


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changed_byte_is_an_error_or_does_no_harm(original, tmp_path_factory, data):
    """No byte of an archive, changed to any other, ends in a traceback or in a run that cannot be read."""
    folder = tmp_path_factory.mktemp("fuzz")
    content = bytearray(archives.pack_run(original, folder, light=True).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "run.zip").write_bytes(content)
    try:
        found = imports.import_runs(folder / "run.zip", folder / "runs")
    except UserError:
        assert list_runs(folder / "runs") == []
        return
    for item in found:
        assert item.run.state().name != "unreadable" and summarize(item.run)["epochs"] <= 2


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "empty folder", "zip without a run"])
def test_what_holds_no_run_is_said(tmp_path, root, kind):
    path = tmp_path / "x"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "zip without a run":
        as_zip({"readme.txt": b"hello"}, path)
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else b"hello, world\n" * 100)
    as_user_error(path, root, "has no run|is not a run and has no runs|not an archive|cannot be read")


def test_runs_that_cannot_be_written_to_are_a_sentence(original, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="runs: .*/file' is a file, where a folder"):
        imports.import_runs(original.folder, tmp_path / "file")


def test_packing_is_whole_or_not_at_all(original, tmp_path, monkeypatch):
    first = archives.pack_run(original, tmp_path / "out")
    before = first.read_bytes()
    monkeypatch.setattr(archives, "_add", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        archives.pack_run(original, tmp_path / "out")
    assert first.read_bytes() == before and os.listdir(tmp_path / "out") == [first.name]
    with pytest.raises(UserError, match="is not the name of a run folder"):
        archives.pack_run(Run(Path("/etc")), tmp_path / "out")
