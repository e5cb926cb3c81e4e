"""Start weights from elsewhere: every usual layout gives the same tensors, everything else is one sentence."""

import json
import os

import numpy as np
import pytest
import torch
import torchvision

from lps.data.classes import Classes
from lps.data.split import Split
from lps.data.training_data import prepare
from lps.errors import UserError
from lps.network import backbones, start_weights, torchvision_models
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.training import evaluate
from lps.training.evaluate import baseline, infer_features
from lps.training.loop import train


def backbone(seed=0, name="cifar_resnet18", channels=3):
    torch.manual_seed(seed)
    return backbones.build(name, channels)


def narrow(seed=0):
    """The stages, blocks and names of cifar_resnet18, and a 250th of its weights."""
    torch.manual_seed(seed)
    return backbones._ResNet(3, (4, 8, 16, 32), (1, 2, 2, 2), (2, 2, 2, 2))


def theirs(state):
    """Names as in ORCA and OpenLDN: conv1 and bn1 in front, shortcut inside."""
    return {key.replace("stem.0.", "conv1.").replace("stem.1.", "bn1."): value for key, value in state.items()}


SOURCE, NARROW = backbone(1).state_dict(), narrow(1).state_dict()
HEAD = {
    "fc.weight": torch.ones(10, 512),
    "contrastive_head.0.weight": torch.ones(512, 512),
    "linear.bias": torch.ones(3),
}


def prefixed(prefix, state):
    return {prefix + key: value for key, value in state.items()}


LAYOUTS = {
    "ours": NARROW,
    "orca": theirs(NARROW) | HEAD,
    "downsample": {key.replace("shortcut", "downsample"): value for key, value in theirs(NARROW).items()},
    "state_dict": {"epoch": 3, "arch": "resnet18", "state_dict": theirs(NARROW) | HEAD, "optimizer": {"state": {}}},
    "parallel": {"state_dict": prefixed("module.", theirs(NARROW) | HEAD)},
    "backbone": {"model": prefixed("backbone.", theirs(NARROW)) | prefixed("projector.", HEAD)},
    "encoder": prefixed("encoder.", theirs(NARROW)),
    "model": prefixed("model.", theirs(NARROW)),
    "momentum": {
        "state_dict": prefixed("module.encoder_q.", theirs(NARROW))
        | prefixed("module.encoder_k.", theirs(narrow(2).state_dict()))
        | {"module.queue": torch.ones(8, 8)}
    },
    "pretrained": {"backbone": NARROW, "quality": {"pretrain/knn_accuracy": 0.9}},
    "checkpoint of a run": {
        "method": prefixed("network.backbone.", NARROW) | {"network.classifier.weight": HEAD["fc.weight"]}
    },
    "without counters": {key: value for key, value in NARROW.items() if not key.endswith("num_batches_tracked")},
}


def config(path, name="cifar_resnet18", **settings):
    return configure({"network.start": "checkpoint", "network.checkpoint": str(path), "network.name": name} | settings)


@pytest.mark.parametrize("layout, zipped", [*((layout, True) for layout in LAYOUTS), ("parallel", False)])
def test_every_layout_gives_the_same_tensors(layout, zipped, tmp_path):
    torch.save(LAYOUTS[layout], tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    target = narrow()
    line = start_weights.load(config(tmp_path / "a.pt"), target)
    assert target.state_dict().keys() == NARROW.keys() == SOURCE.keys()
    assert all(torch.equal(value, NARROW[key]) for key, value in target.state_dict().items())
    assert ("fc.weight" in line or "classifier.weight" in line) == (
        layout in ("orca", "state_dict", "parallel", "backbone", "checkpoint of a run")
    )
    assert "conv1" not in line.partition("not used")[2] or layout == "momentum"


@pytest.mark.slow
def test_a_residual_network_of_torchvision_takes_torchvisions_names(tmp_path):
    source = torchvision.models.resnet18()
    torch.save(source.state_dict(), tmp_path / "a.pt")
    target = backbone(name="torchvision:resnet18")
    assert "fc.weight, fc.bias" in start_weights.load(config(tmp_path / "a.pt", "torchvision:resnet18"), target)
    source.fc = torch.nn.Identity()
    pictures = torch.randn(2, 3, 32, 32)
    assert torch.equal(target.eval()(pictures), source.eval()(pictures))


def sentence(path, name="cifar_resnet18", channels=3):
    with pytest.raises(UserError) as caught:
        start_weights.check_start_weights(config(path, name), channels, 32, 32)
    text = str(caught.value)
    assert text.startswith("network.checkpoint: ") and "\n" not in text and "\x1b" not in text and len(text) < 600
    return text


@pytest.mark.slow
def test_what_does_not_fit_is_listed(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({key: value for key, value in SOURCE.items() if not key.startswith("layer2")}, path)
    expected = [key for key in SOURCE if key.startswith("layer2") and not key.endswith("num_batches_tracked")]
    assert f"{len(expected)} missing ({', '.join(expected[:10])}, ...)" in sentence(path)
    torch.save(SOURCE, path)
    assert "1 of another shape (stem.0.weight is 64x3x3x3, not 64x1x3x3)" in sentence(path, channels=1)
    torch.save(SOURCE | {f"layer1.2.{part}": torch.ones(3) for part in ("conv1.weight", "bn1.bias")}, path)
    surplus = "2 too many (layer1.2.conv1.weight, layer1.2.bn1.bias)"
    assert f"does not fit the 120 keys of cifar_resnet18: {surplus}" in sentence(path)
    torch.save(SOURCE | {"layer1.0.conv1.weight": torch.full((64, 64, 3, 3), float("nan"))}, path)
    assert "values that are not finite numbers in layer1.0.conv1.weight" in sentence(path)
    torch.save({"a": torch.ones(3)}, path)
    assert "100 missing" in sentence(path)
    torch.save(torchvision.models.resnet34().state_dict(), path)  # every key of a resnet18, and more
    assert "too many (layer1.2.conv1.weight" in sentence(path, "torchvision:resnet18")


@pytest.mark.slow
def test_files_that_are_no_checkpoints_are_one_sentence(tmp_path):
    path = tmp_path / "a.pt"
    assert "is not a file" in sentence(path)
    assert "is a folder" in sentence(tmp_path)
    torch.save(SOURCE, path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged in (
        b"",
        b"text" * 99,
        whole[:middle],
        whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
    ):
        path.write_bytes(damaged)
        assert "is damaged or not a PyTorch checkpoint" in sentence(path)
    for empty in ([1, 2], {"epoch": 3}, {}, 7):
        torch.save(empty, path)
        assert "has no named tensors" in sentence(path)


class Program:
    def __reduce__(self):
        return os.mkdir, (os.environ["LPS_TEST_FOLDER"],)


@pytest.mark.slow
def test_a_file_with_a_program_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_TEST_FOLDER", str(tmp_path / "made"))
    for content in ({"state_dict": SOURCE, "more": Program()}, {"accuracy": np.float64(0.5)}):
        for zipped in (True, False):
            torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
            assert "other than tensors" in sentence(tmp_path / "a.pt")
    assert not (tmp_path / "made").exists()


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """torch's folder of downloads, where nothing can be downloaded to."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))

    def refuse(*a, **k):
        raise OSError("Name or service not known")

    monkeypatch.setattr(torch.hub, "download_url_to_file", refuse)
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def published(shelf):
    return shelf / torchvision.models.get_model_weights("squeezenet1_1").DEFAULT.url.rpartition("/")[2]


TORCHVISION = {"network.start": "torchvision", "network.name": "torchvision:squeezenet1_1"}


def test_published_weights_that_cannot_be_had_are_one_sentence(shelf):
    target = backbone(name="torchvision:squeezenet1_1")
    file = published(shelf)
    with pytest.raises(UserError) as caught:
        start_weights.load(configure(TORCHVISION), target)
    assert "weights of squeezenet1_1 could not be downloaded" in str(caught.value) and file.name in str(caught.value)
    assert str(shelf) in str(caught.value) and "\n" not in str(caught.value)
    file.write_bytes(b"something else")
    with pytest.raises(UserError, match="is damaged; remove it"):
        start_weights.load(configure(TORCHVISION), target)


def test_published_weights_are_loaded_under_our_names(shelf, monkeypatch):
    source = torchvision.models.squeezenet1_1()
    torch.save(source.state_dict(), published(shelf))
    monkeypatch.setattr(torchvision_models, "_check_download", lambda path: None)  # of another name
    target = backbone(3, name="torchvision:squeezenet1_1")
    state = torch.get_rng_state()
    assert "squeezenet1_1 from torchvision" in start_weights.load(configure(TORCHVISION), target)
    assert torch.equal(torch.get_rng_state(), state)
    source.classifier[1] = torch.nn.Identity()
    pictures = torch.randn(2, 3, 64, 64)
    assert torch.equal(target.eval()(pictures), source.eval()(pictures))


@pytest.mark.slow
def test_check_looks_at_pictures_and_stages_too():
    with pytest.raises(UserError, match="Expected 224 but got 32"):
        start_weights.check_start_weights(configure({"network.name": "torchvision:vit_b_32"}), 3, 32, 32)
    with pytest.raises(UserError, match="network.freeze_until: 'layer1' is not a stage"):
        start_weights.check_start_weights(
            configure({"network.name": "torchvision:mobilenet_v2", "network.freeze_until": "layer1"}), 3, 32, 32
        )
    state = torch.get_rng_state()
    start_weights.check_start_weights(configure(), 1, 8, 8)
    assert torch.equal(torch.get_rng_state(), state)


TINY = {"network.name": "digits_resnet", "epochs": 1, "method": "simclr", "threads": 1}


def run_with(root, **settings):
    run = create_run(root, configure(TINY | settings))
    code = train(run)
    return code, [json.loads(line) for line in run.events.read_text().splitlines()]


@pytest.mark.slow
def test_a_run_begins_with_the_weights_of_a_file(tmp_path, capsys):
    """The features of the weights in the file, judged by the run and by hand, are the same ones; random ones differ."""
    digits = backbone(5, "digits_resnet", 1)
    with torch.no_grad():
        for parameter in digits.parameters():
            parameter.mul_(1.5)
    torch.save({"state_dict": digits.state_dict() | HEAD}, tmp_path / "a.pt")
    start = {"network.start": "checkpoint", "network.checkpoint": str(tmp_path / "a.pt")}
    code, events = run_with(tmp_path / "runs", **start)
    assert code == 0 and [event["kind"] for event in events] == ["start", "start", "eval", "finish"]
    assert "not used (3): state_dict.fc.weight" in capsys.readouterr().out
    material = prepare(configure(TINY))
    features = infer_features(digits, material.images, configure(TINY))
    expected = baseline(features, material.truth, material.split, 0)
    told = events[1]["values"]
    assert {key: told[key] for key in expected} == expected
    _, random = run_with(tmp_path / "runs", **{"network.start": "random"})
    assert random[1]["values"]["baseline/knn/accuracy"] != told["baseline/knn/accuracy"]


def test_of_many_images_a_sample_tells_what_the_start_is_worth(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate, "_MAX_JUDGED", 400)
    config = configure(TINY)
    material = prepare(config)
    seen = []
    monkeypatch.setattr(evaluate, "baseline", lambda *given: seen.append(given) or baseline(*given))
    network = backbone(5, "digits_resnet", 1)
    told = evaluate.start_quality(network, material, config)
    ((features, truth, split, _),) = seen
    assert len(features) == len(truth) == 400 and 0 < told["baseline/kmeans/all"] <= 1
    assert np.array_equal(np.sort(np.concatenate([split.labeled, split.unlabeled, split.test])), np.arange(400))
    assert np.bincount(truth).min() >= 35  # of ten classes


def test_features_are_not_clustered_where_there_is_no_truth_to_judge_by(monkeypatch):
    monkeypatch.setattr(evaluate, "kmeans", lambda *_: pytest.fail("clustered for nothing"))
    ids, nobody = np.arange(6), np.full(6, -1)
    split = Split(ids[:2], ids[2:], Classes(1, 2), ids[:2], ("a", "b"), 0, validation=ids[2:3])
    assert baseline(np.eye(6, dtype=np.float32), nobody, split, 0) == {}
    known = np.where(ids < 3, 0, -1)  # of the unlabeled images only a withheld label is known
    assert baseline(np.eye(6, dtype=np.float32), known, split, 0) == {}


def test_a_run_whose_file_does_not_fit_fails_with_the_sentence(tmp_path):
    torch.save(SOURCE, tmp_path / "a.pt")
    start = {"network.start": "checkpoint", "network.checkpoint": str(tmp_path / "a.pt")}
    code, events = run_with(tmp_path / "runs", **start)
    assert code == 1 and events[-1]["failure"] == "config" and "does not fit" in events[-1]["reason"]
