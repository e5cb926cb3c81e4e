"""TensorBoard reads what the run wrote: every number at its step and time, only events that count, nothing else."""

import contextlib
import json
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from lps.__main__ import main
from lps.analysis import naming
from lps.datasets import Images
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.interop import projector, tensorboard
from lps.interop.tensorboard import Bridge
from lps.store.snapshots import read_snapshot, read_split
from tests.patience import until
from tests.sample_runs import RunWriter, held, make_run
from tests.shares import in_turn

ROOT = Path(__file__).resolve().parents[2]
accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
tensor_util = pytest.importorskip("tensorboard.util.tensor_util")


def read(folder):
    """All that TensorBoard's own reader finds in a folder, nothing thinned out."""
    everything = dict.fromkeys(accumulators.DEFAULT_SIZE_GUIDANCE, 0)
    found = accumulators.EventAccumulator(str(folder), size_guidance=everything)
    found.Reload()
    return found


def scalars(folder) -> dict[str, list]:
    found = read(folder)
    return {tag: [(e.step, e.wall_time, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def expected(run) -> dict[str, list]:
    """The curves by a naive reading of the run's file, where nothing was done over and no attempt began twice."""
    curves = {}
    for line in run.events.read_text().splitlines():
        event = json.loads(line)
        values = dict(event["values"])
        for name, value in event["values"].items():
            if isinstance(value, list):
                values.pop(name)
                values |= {f"{name}/{index:02d}": item for index, item in enumerate(value) if len(value) <= 20}
        if event["kind"] in ("train", "eval"):
            values[f"epoch/{event['kind']}"] = event["epoch"]
        for name, value in values.items():
            number = float(np.float32(np.nan if value is None else value))
            curves.setdefault(name, []).append((event["step"], event["time"], number))
    return curves


def add(run, **event):
    with run.events.open("a") as file:
        file.write(json.dumps({"kind": "eval", "step": 0, "epoch": 0, "time": 5.0, "values": {}} | event) + "\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = make_run(tmp_path_factory.mktemp("runs"), epochs=3, name="<b>")
    events = [json.loads(line) for line in made.events.read_text().splitlines()]
    for event in events:  # as in real runs, pretraining has steps of its own, and training begins at 0 again
        event["step"] = 8 * event["epoch"] if event["kind"] == "pretrain" else event["step"]
    made.events.write_text("".join(json.dumps(event) + "\n" for event in events))
    naming.record_steps(made, 3, [{"do": "name", "id": 7, "name": "seven\tup"}])
    return made


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    (folder, missing), *more = tensorboard.export([run], tmp_path_factory.mktemp("tb")).items()
    assert missing == "" and not more
    return folder


def test_every_number_is_where_the_run_says(run, exported):
    found = scalars(exported)
    assert found == expected(run)
    assert len(found) > 70 and len(found["accuracy/novel"]) == 3 and len(found["pretrain/loss"]) == 20


def test_null_is_not_a_number_and_long_vectors_are_histograms_alone(tmp_path):
    run = make_run(tmp_path / "runs", "stopped", written=0, pretrain=0)
    add(run, values={"kl": None, "wide": list(range(21)), "huge": 1e60, "nothing": [None, None], "odd": "text"})
    (folder,) = tensorboard.export([run], tmp_path / "tb")
    found = scalars(folder)
    assert np.isnan(found["kl"][0][2]) and found["huge"][0][2] == np.inf
    assert np.isnan([found["nothing/00"][0][2], found["nothing/01"][0][2]]).all()
    assert set(found) == {"kl", "huge", "nothing/00", "nothing/01", "epoch/eval"}
    assert read(folder).Tags()["tensors"].count("wide") == 1


def histograms(folder, tag) -> list:
    return [(e.step, tensor_util.make_ndarray(e.tensor_proto)) for e in read(folder).Tensors(tag)]


def test_vectors_are_histograms(run, exported):
    events = [json.loads(line) for line in run.events.read_text().splitlines()]
    for tag in ("pi_hat", "class/accuracy"):
        vectors = [(event["step"], event["values"][tag]) for event in events if tag in event["values"]]
        found = histograms(exported, tag)
        assert [step for step, _ in found] == [step for step, _ in vectors] and len(found) == 3
        for (_, buckets), (_, vector) in zip(found, vectors):
            left, right, count = buckets.T
            assert (left[0], right[-1], count.sum()) == (min(vector), max(vector), len(vector))
            naive = [sum(a <= x < b for x in vector) for a, b in zip(left[:-1], right[:-1])]
            assert count[:-1].tolist() == naive and (left[1:] == right[:-1]).all()


def test_confidences_are_histograms_by_group(run, exported):
    split, _ = read_split(run.folder)
    for epoch, parts in enumerate(zip(*(histograms(exported, f"confidence/{g}") for g in ("all", "seen", "novel"))), 1):
        snapshot = read_snapshot(run.snapshots, epoch)
        seen = snapshot.predicted < split.classes.seen
        for (step, buckets), sure in zip(
            parts, (snapshot.confidence, *(snapshot.confidence[s] for s in (seen, ~seen)))
        ):
            assert step == 31 * epoch and buckets[:, 2].sum() == len(sure) > 0
            assert buckets[-5:, 2].sum() == (sure.astype(float) >= buckets[-5, 0]).sum()
            assert (buckets[0, 0], buckets[-1, 1]) == (0, 1)


def test_settings_and_the_end_are_in_the_table_of_hyperparameters(run, exported):
    from tensorboard.plugins.hparams import api_pb2, metadata

    found = read(exported)
    contents = found.PluginTagToContent("hparams")
    begun = metadata.parse_session_start_info_plugin_data(contents[metadata.SESSION_START_INFO_TAG])
    stored = {key: getattr(value, value.WhichOneof("kind")) for key, value in begun.hparams.items()}
    assert stored == {key: "none" if value is None else value for key, value in run.config().flat().items()}
    ended = metadata.parse_session_end_info_plugin_data(contents[metadata.SESSION_END_INFO_TAG])
    assert ended.status == api_pb2.STATUS_SUCCESS and begun.group_name == run.id


def config_of(folder):
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    return text_format.Parse((folder / projector.CONFIG).read_text(), ProjectorConfig())


def test_the_projector_has_points_their_images_and_what_is_known(run, exported):
    (embedding,) = config_of(exported).embeddings
    found = read_snapshot(run.snapshots, 3)
    points = np.loadtxt(exported / embedding.tensor_path, delimiter="\t")
    assert np.array_equal(points.astype(np.float16), found.features)
    header, *lines = (exported / embedding.metadata_path).read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    assert tuple(header.split("\t")) == projector.COLUMNS and {len(row) for row in rows} == {6}
    split, targets = read_split(run.folder)
    where = {image: place for place, image in enumerate(split.unlabeled.tolist())}
    for (image, known, group, predicted, name, confidence), truth in zip(rows, found.feature_index.tolist()):
        place = where[truth]
        assert int(image) == truth and known == split.class_names[targets[truth]]
        assert group == ("seen" if targets[truth] < split.classes.seen else "novel")
        assert int(predicted) == found.predicted[place]
        assert abs(float(confidence) - float(found.confidence[place])) <= 5e-5
        assert predicted != "7" or name == "seven up"


def test_thumbnails_are_in_the_order_of_the_points(run, exported):
    (embedding,) = config_of(exported).embeddings
    assert list(embedding.sprite.single_image_dim) == [32, 32]
    sheet = np.asarray(Image.open(exported / embedding.sprite.image_path))
    pixels = projector.load_pictures(run, *read_split(run.folder)).pixels
    index = read_snapshot(run.snapshots, 3).feature_index
    columns = sheet.shape[1] // 32
    assert sheet.shape[0] == sheet.shape[1] and (columns - 1) ** 2 < len(index) <= columns**2
    for place in (0, 1, columns, len(index) - 1):
        tile = sheet[place // columns * 32 :, place % columns * 32 :][:32, :32, 0]
        assert np.array_equal(tile[2::4, 2::4], pixels[index[place]][..., 0])


@pytest.mark.parametrize("count, channels", [(1, 3), (5, 1), (300, 1)])
def test_the_sheet_is_never_too_large_for_tensorboard(count, channels, monkeypatch):
    monkeypatch.setattr(projector, "SHEET", 512)  # 8192 takes seconds to fill
    images = Images(np.full((1, 4, 6, channels), 200, np.uint8), np.zeros(1, np.int64), ("a",))
    sheet, side = projector.contact_sheet(images, np.zeros(count, np.int64))
    assert max(sheet.size) <= projector.SHEET and sheet.size[0] // side >= np.sqrt(count) and side >= 8
    assert sheet.getpixel((0, 0)) == (200, 200, 200)


def test_without_pictures_the_points_are_there(tmp_path, run, monkeypatch):
    def gone(*_):
        raise UserError("dataset", "is not here")

    monkeypatch.setattr(projector, "load_pictures", gone)
    ((folder, missing),) = tensorboard.export([run], tmp_path).items()
    (embedding,) = config_of(folder).embeddings
    assert missing == "dataset: is not here" and embedding.tensor_path and not embedding.sprite.image_path


def test_another_epoch_and_one_that_is_not_there(run, tmp_path):
    ((folder, _),) = tensorboard.export([run], tmp_path, epoch=2).items()
    assert config_of(folder).embeddings[0].tensor_name == "features of epoch 2"
    with pytest.raises(UserError, match="epoch: 9 has no stored predictions; the epochs go from 1 to 3"):
        tensorboard.export([run], tmp_path, epoch=9)
    assert config_of(folder).embeddings[0].tensor_name == "features of epoch 2"


@pytest.mark.slow
def test_new_events_are_appended(tmp_path):
    writer = RunWriter(tmp_path / "runs", epochs=4)
    writer.begin("running", 1)
    bridge = Bridge(writer.run, tmp_path / "tb")
    with held(writer.run):
        bridge.update()
        (path,) = bridge.folder.glob("events*")
        before = path.read_bytes()
        assert scalars(bridge.folder) == expected(writer.run)
        writer.write_epoch(2)
        assert not bridge.step()
        assert path.read_bytes().startswith(before) and list(bridge.folder.glob("events*")) == [path]
        assert scalars(bridge.folder) == expected(writer.run)
        assert config_of(bridge.folder).embeddings[0].tensor_path.endswith("epoch-0002.tsv")
        assert len(list((bridge.folder / projector.FOLDER).iterdir())) == 3  # those of epoch 1 have gone
    writer.write_epoch(3)
    writer.end("finished")
    assert bridge.step() and scalars(bridge.folder) == expected(writer.run)
    bridge.close()


def test_what_a_resumed_run_takes_back_is_gone(tmp_path):
    writer = RunWriter(tmp_path / "runs", epochs=4)
    writer.begin("stopped", 3)
    bridge = Bridge(writer.run, tmp_path / "tb")
    bridge.update()
    assert [step for step, _, _ in scalars(bridge.folder)["kl"]] == [31, 62, 93]
    add(writer.run, kind="start", step=62, epoch=2, values={"classes/seen": 5})
    bridge.update()
    found = scalars(bridge.folder)
    assert [step for step, _, _ in found["kl"]] == [31, 62]
    assert len(found["classes/seen"]) == 1  # the second attempt says nothing new
    writer.write_epoch(3)
    bridge.update()
    assert [step for step, _, _ in scalars(bridge.folder)["kl"]] == [31, 62, 93]
    bridge.close()


@pytest.mark.slow
def test_the_same_run_is_the_same_bytes_and_more_of_it_is_appended(tmp_path):
    """A second export goes on where the first one was, also where that was killed in the middle of a record."""
    writer = RunWriter(tmp_path / "runs", epochs=4, pretrain=1)
    writer.begin("stopped", 2)
    (folder,) = tensorboard.export([writer.run], tmp_path / "tb")
    path = folder / tensorboard.FILE
    first = path.read_bytes()
    code = "import sys; from lps.__main__ import main; main(sys.argv[1:])"
    again = ["export", "--runs", str(tmp_path / "runs"), "--to", "tensorboard", "--into", str(tmp_path / "again")]
    subprocess.run([sys.executable, "-c", code, *again], check=True, capture_output=True, cwd=ROOT)
    assert (tmp_path / "again" / folder.name / tensorboard.FILE).read_bytes() == first
    for cut in (len(first) - 5, 7, 0):
        path.write_bytes(first[:cut])
        tensorboard.export([writer.run], tmp_path / "tb")
        assert path.read_bytes() == first
    writer.write_epoch(3)
    tensorboard.export([writer.run], tmp_path / "tb")
    assert path.read_bytes().startswith(first) and scalars(folder) == expected(writer.run)


@pytest.mark.slow
def test_a_file_that_says_something_else_is_voided_and_not_removed(tmp_path):
    writer = RunWriter(tmp_path / "runs", epochs=4, pretrain=1)
    writer.begin("stopped", 3)
    (folder,) = tensorboard.export([writer.run], tmp_path / "tb")
    path, whole = folder / tensorboard.FILE, (folder / tensorboard.FILE).read_bytes()
    path.write_bytes(whole[:-9])  # torn, and then the run takes something back
    events = writer.run.events.read_text().splitlines(keepends=True)
    writer.run.events.write_text("".join(events[:-2]))
    tensorboard.export([writer.run], tmp_path / "tb")
    assert path.read_bytes().startswith(whole[: tensorboard.end_of_records(whole[:-9])])
    assert scalars(folder) == expected(writer.run) and len(scalars(folder)["kl"]) == 2


@pytest.mark.slow
def test_two_exports_at_once_do_not_mix(run, tmp_path):
    bridge = Bridge(run, tmp_path)
    bridge.update()
    with pytest.raises(UserError, match="is in use by another export"):
        tensorboard.export([run], tmp_path)
    bridge.close()
    assert tensorboard.export([run], tmp_path) and scalars(bridge.folder) == expected(run)


def test_a_folder_of_somebody_else_stays(run, tmp_path):
    (tmp_path / run.id).mkdir()
    (tmp_path / run.id / "mine").touch()
    with pytest.raises(UserError, match="already exists and is not an export"):
        tensorboard.export([run], tmp_path)
    assert [path.name for path in (tmp_path / run.id).iterdir()] == ["mine"]


@pytest.mark.slow
def test_following_ends_when_the_runs_do(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard, "POLL_S", 0.02)
    writer = RunWriter(tmp_path / "runs", epochs=2, pretrain=1)
    writer.begin("running", 1)
    done = make_run(tmp_path / "runs", epochs=1, pretrain=1)

    def go_on():
        writer.write_epoch(2)
        writer.end("finished")

    with held(writer.run):
        followed = tensorboard.follow([writer.run, done], tmp_path / "runs", tmp_path / "tb")
        begun = [next(followed).run, next(followed).run]
        go_on()
    assert begun == [writer.run, done] and list(followed) == []
    for run in begun:
        assert scalars(tmp_path / "tb" / run.id) == expected(run)


def test_without_names_every_run_that_goes_on_is_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard, "POLL_S", 0.02)
    make_run(tmp_path / "runs", epochs=1, pretrain=1)
    writer = RunWriter(tmp_path / "runs", epochs=2, pretrain=1)
    writer.begin("running", 1)
    with held(writer.run):
        followed = tensorboard.follow([], tmp_path / "runs", tmp_path / "tb")
        assert next(followed).run == writer.run
        later = RunWriter(tmp_path / "runs", epochs=2, pretrain=1)
        later.begin("running", 0)
        with held(later.run):
            assert next(followed).run == later.run


def test_a_run_that_is_deleted_meanwhile_stays_in_tensorboard(tmp_path):
    run = make_run(tmp_path / "runs", epochs=1, pretrain=1)
    bridge = Bridge(run, tmp_path / "tb")
    bridge.update()
    before = scalars(bridge.folder)
    run.folder.rename(tmp_path / "gone")
    assert bridge.step() and scalars(bridge.folder) == before


@pytest.mark.slow
def test_the_command_of_the_issue(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["export", "--runs", str(run.root), "--to", "tensorboard"]) == 0
        assert capsys.readouterr().out == f"exports/tensorboard/{run.id}\n"
    assert scalars(tmp_path / "exports" / "tensorboard" / run.id) == expected(run)
    assert len(list((tmp_path / "exports" / "tensorboard").iterdir())) == 1


def test_without_the_package_it_is_one_sentence(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["export", "--runs", str(run.root), "--to", "tensorboard", "--into", str(tmp_path / "tb")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("lps: to: tensorboard needs tensorboard") and "pip install tensorboard" in said
    assert said.count("\n") == 1 and not list(tmp_path.rglob("*"))


def test_unreadable_settings_cost_only_the_settings(tmp_path):
    run = make_run(tmp_path / "runs", epochs=1, pretrain=1)
    write_json(run.folder / "config.json", {"method": "gone"})
    ((folder, missing),) = tensorboard.export([run], tmp_path / "tb").items()
    assert scalars(folder) == expected(run) and missing


def get(port, path):
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    return connection.getresponse().read()


def wait_for(port, path, fits, patience_s=90):
    """The answer once it fits: the server loads in the background."""

    def answer():
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(get(port, path))
            return found if fits(found) else None

    return until(answer, patience_s, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("loader", in_turn(["true", "false"], 2))
def test_a_real_server_shows_the_same_numbers(run, exported, loader, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(exported.parent), "--load_fast", loader]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        wanted = expected(run)
        tags = wait_for(port, "/data/plugin/scalars/tags", lambda found: len(found.get(run.id, ())) == len(wanted))
        assert set(tags[run.id]) == set(wanted)
        for tag, curve in wanted.items():
            shown = json.loads(get(port, f"/data/plugin/scalars/scalars?run={run.id}&tag={quote(tag)}"))
            assert [(step, value) for _, step, value in shown] == [(step, value) for step, _, value in curve], tag
            assert np.allclose(
                [moment for moment, _, _ in shown], [moment for _, moment, _ in curve], rtol=0, atol=1e-3
            )
        points = quote("features of epoch 3")
        stored = get(port, f"/data/plugin/projector/tensor?run={run.id}&name={points}")
        features = read_snapshot(run.snapshots, 3).features
        assert np.array_equal(np.frombuffer(stored, np.float32).reshape(features.shape), features.astype(np.float32))
        sheet = get(port, f"/data/plugin/projector/sprite_image?run={run.id}&name={points}")
        assert sheet == (exported / config_of(exported).embeddings[0].sprite.image_path).read_bytes()
    finally:
        server.terminate()
        server.wait(30)
