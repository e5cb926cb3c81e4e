"""Backbones: the right networks, their stages, and one error for each misfit."""

import pytest
import torch
import torchvision
from torch import nn

from lps.errors import UserError
from lps.network import backbones, torchvision_models
from lps.network.start_weights import match_weights
from lps.settings import backbone_names
from lps.settings.config import configure
from tests.shares import OFFSET, share


def images(side=32, channels=3, n=3):
    return torch.randn(n, channels, side, side, generator=torch.Generator().manual_seed(0))


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.slow
def test_the_cifar_resnet18_is_torchvisions_with_a_small_stem_and_without_pooling():
    theirs = torchvision.models.resnet18()
    theirs.conv1, theirs.maxpool, theirs.fc = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity(), nn.Identity()
    ours = backbones.build("cifar_resnet18", 3)
    ours.load_state_dict(match_weights(theirs.state_dict(), ours, "cifar_resnet18")[0])
    assert size(ours) == size(theirs) == 11_168_832 and ours.num_features == 512
    for mode in (True, False):  # the first pass also moves the running averages that the second one uses
        assert torch.allclose(ours.train(mode)(images()), theirs.train(mode)(images()), atol=1e-5)
    x = images()
    shapes = []
    for (stage,) in ours.stages().values():
        x = stage(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(64, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]


@pytest.mark.slow
def test_the_resnet50_is_torchvisions_without_its_last_layer():
    torch.manual_seed(0)
    theirs = torchvision.models.resnet50()
    torch.manual_seed(0)
    ours = backbones.build("resnet50", 3).eval()
    theirs.fc = nn.Identity()
    assert size(ours) == 23_508_032 and tuple(ours.stages()) == backbone_names.STAGES
    assert torch.equal(ours(images()), theirs.eval()(images()))
    covered = {id(p) for group in ours.stages().values() for module in group for p in module.parameters()}
    assert covered == {id(p) for p in ours.parameters()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x0_5", "regnet_x_400mf", "googlenet"]
)
def test_features_are_what_goes_into_the_last_layer(name):
    torch.manual_seed(0)
    ours = backbones.build(f"torchvision:{name}", 3).eval()
    torch.manual_seed(0)
    theirs = torchvision.models.get_model(name, **torchvision_models.OPTIONS.get(name, {})).eval()
    seen = []
    last = [m for m in theirs.modules() if isinstance(m, nn.Conv2d if name.startswith("squeeze") else nn.Linear)][-1]
    last.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    pictures = images(64)
    theirs(pictures)
    expected = seen[0].relu().mean((2, 3)) if seen[0].dim() == 4 else seen[0]
    features = ours(pictures)
    assert features.shape == (3, ours.num_features) and torch.allclose(features, expected, atol=1e-6)
    assert features.std() > 0
    grey = images(64, channels=1)
    assert torch.equal(ours(grey), ours(grey.repeat(1, 3, 1, 1)))
    assert isinstance(ours.train()(pictures), torch.Tensor)  # no second output beside the features


def test_all_models_of_torchvision_are_known_without_importing_it():
    assert set(backbone_names.torchvision_names()) == set(torchvision.models.list_models(module=torchvision.models))


@pytest.mark.slow
def test_every_model_of_torchvision_loses_a_classifier_of_a_thousand_classes():
    names = [name for name in backbone_names.torchvision_names() if not name.startswith("regnet")]  # needs memory
    for name in share(names, OFFSET, 8):
        with torch.device("meta"):
            whole = torchvision.models.get_model(name, **torchvision_models.OPTIONS.get(name, {}))
            ours = backbones.build(f"torchvision:{name}", 3)
        last = whole.get_submodule(ours.classifier)
        assert {getattr(last, "out_features", 0), getattr(last, "out_channels", 0)} == {0, 1000}, name
        assert size(whole) - size(ours) == size(last)
        assert len(ours.stages()) >= 1
        assert ours.eval()(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, ours.num_features)


def test_training_passes_draw_no_random_numbers():
    """What dropout and stochastic depth draw would follow from no seed and step."""
    net = backbones.build("torchvision:efficientnet_b0", 3).train()
    before = torch.get_rng_state()
    with torch.no_grad():
        net(images())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    "settings, words",
    [
        (
            {"network.name": "cifar_resnet"},
            ("'cifar_resnet' is not a backbone; choices: digits_resnet,", "cifar_resnet18"),
        ),
        ({"network.name": "torchvision:efficientnetb0"}, ("torchvision:efficientnet_b0",)),
        ({"network.name": "torchvision:"}, ("is not a backbone",)),
        (
            {"network.freeze_until": "layer9"},
            ("'layer9' is not a stage of digits_resnet; choices: none, stem, layer1",),
        ),
        ({"network.name": "torchvision:resnet18", "network.freeze_until": "conv1"}, ("choices: none, stem",)),
        ({"network.start": "checkpoint"}, ("network.checkpoint: nothing is given",)),
        ({"network.checkpoint": "a.pt"}, ("network.start: simclr does not use network.checkpoint",)),
        ({"network.start": "torchvision"}, ("network.start: torchvision has no weights for digits_resnet",)),
    ],
)
def test_a_network_that_there_is_not_is_refused_before_anything_is_built(settings, words):
    with pytest.raises(UserError) as caught:
        configure(settings)
    assert all(word in str(caught.value) for word in words) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, shape, words",
    [
        ("torchvision:vit_b_32", (3, 32, 32), "Expected 224 but got 32"),
        ("torchvision:alexnet", (1, 32, 32), "pictures of 32 x 32 pixels"),
        ("resnet50", (4, 32, 32), "1 or 3 channels, not of 4"),
    ],
)
def test_pictures_that_a_backbone_cannot_take_are_told(name, shape, words):
    with pytest.raises(UserError, match=words):
        backbones.check_images(name, *shape)
    backbones.check_images(name, 3, 224, 224)
    backbones.check_images("digits_resnet", 4, 1, 1)


def test_stages_freeze_in_order_and_an_unknown_one_is_told_with_the_known_ones():
    name = "torchvision:mobilenet_v3_small"
    net = backbones.build(name, 3)
    with pytest.raises(
        UserError, match="'13' is not a stage of torchvision:mobilenet_v3_small; choices: none, 0, 1, 2"
    ):
        backbones.freeze(name, net, "13")
    assert all(p.requires_grad for p in net.parameters()) and backbones.freeze(name, net, "none") == []
    backbones.freeze(name, net, "4")
    for key, parameter in net.model.named_parameters():
        first, second, *_ = key.split(".")
        assert parameter.requires_grad == (first != "features" or int(second) > 4), key


def test_a_weight_outside_all_parts_freezes_with_the_first():
    with torch.device("meta"):
        net = backbones.build("torchvision:vit_b_32", 3)
    backbones.freeze("torchvision:vit_b_32", net, "conv_proj")
    frozen = {name for name, parameter in net.named_parameters() if not parameter.requires_grad}
    loose = {"model.class_token", "model.encoder.pos_embedding"}
    assert frozen == loose | {"model.conv_proj.weight", "model.conv_proj.bias"}


@pytest.mark.slow
@pytest.mark.parametrize("name, side", [("digits_resnet", 32), ("cifar_resnet18", 16), ("torchvision:resnet18", 64)])
def test_features_of_bf16_steps_are_means_in_float32(name, side):
    """Rounded to bf16, the fifth and sixth largest of 2048 are equal in one row of ten, and rankings arbitrary."""
    torch.manual_seed(0)
    backbone = backbones.build(name, 3).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = backbone(torch.randn(6, 3, side, side))
    assert features.dtype == torch.float32 and (features != features.bfloat16()).float().mean() > 0.5
    assert backbone.double()(torch.randn(2, 3, side, side, dtype=torch.float64)).dtype == torch.float64
