"""The network: size, cosine head, frozen parts, one pass or one per view."""

import copy

import pytest
import torch

from lps.network.network import CosineClassifier, Network, autocast, precision
from lps.settings.config import configure


def network(**settings):
    torch.manual_seed(0)
    return Network(configure(settings), channels=1, num_classes=10)


IMAGES = torch.randn(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_shapes_and_size():
    net = network()
    out = net(IMAGES)
    assert out.features.shape == (12, 64) and out.logits.shape == (12, 10)
    assert 140_000 < sum(p.numel() for p in net.parameters()) < 170_000


def test_cosine_logits_are_ten_times_a_cosine():
    head = CosineClassifier(8, 3, scale=10.0)
    features = torch.randn(5, 8)
    cosine = torch.nn.functional.cosine_similarity(features[:, None], head.weight[None], dim=2)
    assert torch.allclose(head(features), 10 * cosine, atol=1e-5) and head(features * 100).abs().max() <= 10.0001


def test_frozen_stages_get_no_gradient_and_the_others_do():
    net = network(**{"network.freeze_until": "layer3"})
    net(IMAGES).logits.square().sum().backward()
    for name, parameter in net.named_parameters():
        frozen = name.startswith(("backbone.stem", "backbone.layer1", "backbone.layer2", "backbone.layer3"))
        assert (parameter.grad is None) == frozen, name


def test_batch_norm_of_frozen_stages_adapts_by_default_and_rests_on_request():
    for mode, moves in (("train", True), ("eval", False)):
        net = network(**{"network.freeze_until": "layer3", "network.frozen_batchnorm": mode})
        net.train()
        before = net.backbone.stem[1].running_mean.clone()
        last = net.backbone.layer4[0].bn1.running_mean.clone()
        net(IMAGES)
        assert torch.equal(before, net.backbone.stem[1].running_mean) != moves
        assert not torch.equal(last, net.backbone.layer4[0].bn1.running_mean)


def test_one_pass_per_view_is_what_separate_means_and_fused_shares_statistics():
    views = [IMAGES, IMAGES * 2 + 1]
    separate, fused = network(**{"network.fused_views": False}), network(**{"network.fused_views": True})
    one_by_one = [separate(view).logits for view in views]
    assert all(torch.allclose(a.logits, b, atol=1e-5) for a, b in zip(separate.forward_views(views), one_by_one))
    together = fused(torch.cat(views)).logits
    assert torch.allclose(torch.cat([o.logits for o in fused.forward_views(views)]), together, atol=1e-5)
    assert not torch.allclose(together, torch.cat(one_by_one), atol=1e-2)
    separate.eval(), fused.eval()
    fused.load_state_dict(separate.state_dict())
    for a, b in zip(separate.forward_views(views), fused.forward_views(views)):
        assert torch.allclose(a.logits, b.logits, atol=1e-4)


def saved_for_backward(net, images):
    """Storages that autograd keeps in a pass, without those of weights; and the outputs."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = net(images)
    own = {value.untyped_storage().data_ptr() for value in net.state_dict().values()}
    return sum(size for pointer, size in kept.items() if pointer not in own), outputs


@pytest.mark.slow
@pytest.mark.parametrize("name, until", [("cifar_resnet18", "layer3"), ("torchvision:mobilenet_v3_small", "8")])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_frozen_stages_keep_no_activations_and_change_nothing_else(name, until, mode):
    settings = {"network.name": name, "network.frozen_batchnorm": mode}
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    whole, part = (colored(**settings, **more) for more in ({}, {"network.freeze_until": until}))
    if mode == "eval":
        for module, frozen in zip(whole.modules(), part.modules()):
            module.training = frozen.training
    everything, outputs = saved_for_backward(whole, images)
    outputs.logits.square().sum().backward()
    rest, frozen_outputs = saved_for_backward(part, images)
    frozen_outputs.logits.square().sum().backward()
    assert torch.equal(outputs.logits, frozen_outputs.logits) and rest < 0.5 * everything
    theirs = dict(whole.named_parameters())
    learned = {key: p for key, p in part.named_parameters() if p.requires_grad}
    assert 0 < len(learned) < len(theirs)
    assert all(torch.equal(p.grad, theirs[key].grad) for key, p in learned.items())
    for (key, ours), value in zip(part.named_buffers(), dict(whole.named_buffers()).values()):
        assert torch.equal(ours, value), key


def colored(**settings):
    torch.manual_seed(0)
    return Network(configure(settings), channels=3, num_classes=10).train()


def test_the_frozen_prefix_alone_keeps_nothing():
    net = network(**{"network.freeze_until": "layer3"})
    seen, x = [], IMAGES
    with torch.autograd.graph.saved_tensors_hooks(seen.append, lambda tensor: tensor):
        for name, (stage,) in net.backbone.stages().items():
            x = stage(x)
            assert bool(seen) == (name == "layer4")


def test_a_copy_freezes_its_own_stages():
    net = network(**{"network.freeze_until": "stem", "network.frozen_batchnorm": "eval"})
    twin = copy.deepcopy(net).train()
    assert not twin.backbone.stem.training and twin.backbone.layer1.training
    assert twin.frozen[0] is twin.backbone.stem is not net.backbone.stem


@pytest.mark.parametrize(
    "asked, cpu, gpu", [("auto", "fp32", "bf16"), ("fp32", "fp32", "fp32"), ("bf16", "bf16", "bf16")]
)
def test_auto_is_another_precision_on_another_device(asked, cpu, gpu):
    settings = configure({"precision": asked})
    assert [precision(settings, torch.device(name)) for name in ("cpu", "cuda")] == [cpu, gpu]
    with autocast(settings, torch.device("cpu")):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (torch.bfloat16 if cpu == "bf16" else torch.float32)
