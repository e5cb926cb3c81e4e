"""Light trainings: one set of settings, asked for on the command line, in a script and in the form."""

import shlex

import numpy as np
import pytest
from PIL import Image

from lps import api
from lps.cli._parser import parser
from lps.cli.training import checked_config
from lps.machine import devices
from lps.machine.devices import Device
from lps.scheduler import costs, launcher, submit
from lps.settings import catalog, recipes
from lps.settings.config import configure, protocol_parameters
from lps.ui.forms import form
from lps.ui.forms.form import Draft
from tests.visiting import visit, whole_form


@pytest.fixture
def pictures(tmp_path):
    """Two labeled classes of four pictures, and four pictures of unknown class."""
    random = np.random.default_rng(0)
    for folder in ("ant", "bee", "unlabeled"):
        (tmp_path / "insects" / folder).mkdir(parents=True)
        for i in range(4):
            pixels = random.integers(0, 256, (12, 12, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "insects" / folder / f"{i}.png")
    return tmp_path / "insects"


def with_devices(monkeypatch, *names):
    monkeypatch.setattr(devices, "_cache", None)
    found = [Device("cpu", "CPU"), *(Device(name, name) for name in names)]
    monkeypatch.setattr(devices, "list_devices", lambda: found)


def test_the_settings_are_settings_and_are_offered_where_they_change_something():
    known = protocol_parameters()
    for key, value in (recipes.LIGHT | recipes.STORED).items():
        assert known[key].check(value) == value
    offered = {name: list(recipes.training_efforts(name)) for name in catalog.dataset_names()}
    assert [name for name, efforts in offered.items() if "light" not in efforts] == ["digits", "embeddings"]
    assert [name for name, efforts in offered.items() if "stored" in efforts] == ["arrays", "folder", "shards"]


def arrays(path, *shape):
    """An .npz of ten pictures of two classes and of unknown ones."""
    pixels = np.random.default_rng(0).integers(0, 256, (10, *shape), np.uint8)
    np.savez(path, x_train=pixels, y_train=np.array([0, 0, 0, 1, 1, 1, -1, -1, -1, -1]))
    return str(path)


def test_a_light_training_is_chosen_by_pictures_machine_and_what_was_said(tmp_path, monkeypatch):
    with_devices(monkeypatch)
    coloured, grey = (arrays(tmp_path / f"{len(s)}.npz", *s) for s in ((8, 8, 3), (8, 8)))
    wrong = tmp_path / "wrong.npz"
    wrong.write_bytes(b"no arrays")
    assert submit.light_effort("folder", {}) == submit.light_effort("arrays", {"dataset.path": coloured}) == "stored"
    for path in (grey, str(wrong), str(tmp_path / "none.npz"), None):
        assert submit.light_effort("arrays", {"dataset.path": path}) == "light"
    assert submit.light_effort("cifar10", {}) == "light" and submit.light_effort("digits", {}) == "full"
    for said in ({"features": "live"}, {"network.name": "resnet50"}, {"pretrain.epochs": 9}):
        assert submit.light_effort("folder", said) == "light"
    assert submit.light_effort("folder", {"features": "stored", "network.tokens": "mean"}) == "stored"
    with_devices(monkeypatch, "cuda:0")
    assert submit.light_effort("folder", {}) == "light"
    assert submit.light_effort("folder", {}, on_this_machine=False) == "stored"


def test_the_form_follows_the_pictures_until_a_person_chooses(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    with_devices(monkeypatch)
    coloured, grey = (arrays(tmp_path / f"{len(s)}.npz", *s) for s in ((8, 8, 3), (8, 8)))
    at = visit("launch")
    at.selectbox(key="form:dataset").set_value("arrays").run()
    efforts = []
    for path in (coloured, grey, coloured):
        at.text_input(key="set:dataset.path").set_value(path).run()
        efforts.append(at.segmented_control(key="form:effort").value)
    assert efforts == ["stored", "light", "stored"]
    at.segmented_control(key="form:effort").set_value("full").run()
    at.text_input(key="set:dataset.path").set_value(grey).run()
    assert at.segmented_control(key="form:effort").value == "full" and not at.exception


@pytest.mark.parametrize("gpus", [(), ("cuda:0",)])
@pytest.mark.parametrize("effort", ["stored", "light"])
def test_command_script_and_form_mean_the_same(tmp_path, pictures, monkeypatch, effort, gpus):
    with_devices(monkeypatch, *gpus)
    monkeypatch.setattr("lps.scheduler.start_check.check_start", lambda config: None)  # which would load torch
    monkeypatch.setattr("lps.scheduler.start_check.check_start_in_subprocess", lambda config: None)
    own = recipes.training_efforts("folder")[effort]
    asked = {"dataset": "folder", "dataset.path": str(pictures), "split.num_novel": 1, "device": "cpu"}
    expected = configure(own | asked)
    usual = "light" if gpus else "stored"
    said = ["--light"] if effort == usual else ["--light", "--set", "features=live"] if effort == "light" else []
    named = {"device": "cpu", "dataset.path": pictures, "split.num_novel": 1} | ({} if said else own)

    words = ["launch", *said, "--dataset", "folder"]
    typed = parser().parse_args(words + [word for key, value in named.items() for word in ("--set", f"{key}={value}")])
    assert checked_config(typed) == expected

    monkeypatch.setattr(launcher, "launch", lambda run, on=None: None)
    scripted = {key.replace(".", "_"): value for key, value in named.items()} | {"dataset_path": str(pictures)}
    scripted |= {"features": "live"} if "features=live" in said else {}
    run = api.launch("folder", light=bool(said), runs=tmp_path / "runs", **scripted)
    assert run.config == expected.flat()

    draft = Draft("folder").with_effort(effort).with_text("dataset.path", str(pictures)).with_text("device", "cpu")
    draft = draft.with_text("split.num_novel", "1")
    assert draft.effort == effort
    reading = form.read_draft(draft)
    assert reading.configs == (expected,)
    line = form.launch_commands(draft, reading)
    assert ("--light" in line) == bool(said) and ("features=live" in line) == ("features=live" in said)
    title = {"stored": "stored features", "light": "light"}[effort]
    said = form.summarize_launch(draft, reading).replace("\\", "")
    assert said.startswith(f"**One run** · folder, {title} · LPS · changed: dataset.path=")
    assert said.endswith(", device=cpu, 1 novel class")
    assert checked_config(parser().parse_args(shlex.split(line)[3:])) == expected


def test_the_way_back_leaves_what_a_person_typed():
    draft = Draft("folder").with_text("lr", "0.2").with_text("margin_scale", "5")
    lighter = draft.with_effort("light")
    assert lighter.effort == "light" and lighter.text("lr") == "0.05" and lighter.text("margin_scale") == "5"
    assert dict(lighter.with_effort("full").texts) == {"margin_scale": "5"}
    assert lighter.with_text("epochs", "50").effort == "full", "it is no longer what --light means"
    assert dict(lighter.with_choice(dataset="digits").texts) == {"margin_scale": "5"}
    stored = lighter.with_effort("stored")
    assert stored.effort == "stored" and stored.text("epochs") == "50" and stored.text("lr") == "0.05"
    assert dict(stored.with_effort("full").texts) == {"margin_scale": "5"}
    assert stored.with_text("epochs", "20").effort == "stored"


@pytest.mark.slow
@pytest.mark.parametrize("gpus, effort", [((), "stored"), (("cuda:0",), "full")])
def test_the_form_chooses_by_the_machine_and_says_how_long(tmp_path, pictures, monkeypatch, gpus, effort):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    with_devices(monkeypatch, *gpus)
    at = whole_form()
    at.selectbox(key="form:dataset").set_value("folder").run()
    assert at.segmented_control(key="form:effort").value == effort
    at.text_input(key="set:dataset.path").set_value(str(pictures)).run()
    at.text_input(key="set:split.num_novel").set_value("1").run()
    said = "\n".join(element.value for element in at.markdown)
    assert not at.exception
    assert "One run" in said
    assert any(text in said for text in ("· about", costs.NO_ESTIMATE)) == (not gpus)
    at.segmented_control(key="form:effort").set_value("full").run()
    assert at.text_input(key="set:network.name").value == "cifar_resnet18"


def test_a_guess_grows_with_work_and_shrinks_with_cores():
    config = configure({"dataset": "folder", "dataset.path": "x"} | recipes.LIGHT)
    one = costs.rule_of_thumb(config, 1000, 32, 32, 2)
    assert costs.rule_of_thumb(config, 2000, 32, 32, 2) > 1.9 * one > 1.9 * costs.rule_of_thumb(config, 1000, 32, 32, 4)
    assert costs.rule_of_thumb(config, 1000, 64, 64, 2) > 3.5 * one
    assert costs.rule_of_thumb(configure({"dataset": "folder", "network.name": "resnet50"}), 9, 9, 9, 1) is None


@pytest.mark.parametrize("page, address", [("story", {"step": "8"}), ("home", {}), ("launch", {"dataset": "folder"})])
def test_doors_lead_to_own_pictures(tmp_path, monkeypatch, page, address):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    at = visit(page, **address)
    assert [link for link in at.get("page_link") if link.proto.page == "own"]
