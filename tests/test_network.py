"""The network: size, cosine head, what is frozen, one pass or one per view."""

import torch

from lps.config import configure
from lps.network import CosineClassifier, Network


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
