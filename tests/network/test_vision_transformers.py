"""Vision transformers from files: every published layout gives what timm reads from it, all else is a sentence.

The recorded numbers come from the implementation that this program had before timm's (also with names, and the order of
parameters): runs of then go on. `waves(side)` is the picture. Of the class token beside the mean of the patches: mean,
standard deviation, and every 64th value.
"""

import subprocess
import sys

import pytest
import torch
import torchvision
from timm.models import vision_transformer as timm_transformers

from lps.errors import UserError
from lps.network import backbones, start_weights
from lps.network.published_transformers import Build, PublishedTransformer
from lps.settings import backbone_names
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.training.loop import train
from tests.network import published_layouts
from tests.network.published_layouts import DEPTH, GRID, HIDDEN, PATCH, WIDTH, waves

RECORDED = {
    ("dino", 24): (-0.00622, 0.84249, 0.38588, 0.19746, 0.40324, 0.80943),
    ("mae", 24): (-0.00622, 0.84249, 0.38588, 0.19746, 0.40324, 0.80943),
    ("dinov2", 24): (-0.00063, 0.83727, -0.66860, -0.79538, -0.59358, -0.56586),
    ("dinov2_plain", 24): (-0.00231, 0.83645, -0.60183, -0.82893, -0.38125, -0.52282),
    ("dinov2_gated", 24): (-0.00968, 0.80090, -2.21986, 0.26535, -0.21896, -0.02501),
    ("clip", 24): (-0.00450, 0.80165, -0.10249, -0.33160, 0.35064, 0.27026),
    ("dino", 40): (-0.01070, 0.83721, 1.28628, 0.86831, 0.67263, 1.10883),
    ("mae", 40): (-0.01070, 0.83721, 1.28628, 0.86831, 0.67263, 1.10883),
    ("dinov2", 40): (-0.00133, 0.81063, 0.24023, -1.05353, -0.13211, -0.45793),
    ("dinov2_plain", 40): (-0.00250, 0.81138, 0.45169, -1.04869, 0.01176, -0.41331),
    ("dinov2_gated", 40): (-0.00682, 0.77852, -0.43453, -0.24266, -0.24839, -0.72311),
    ("clip", 40): (-0.00138, 0.79056, -0.10312, -0.79445, 0.33951, -0.35677),
}
KINDS = [kind for kind, side in RECORDED if side == 24]


def from_file(path, kind, side=24, state=None, **settings):
    """A loaded backbone in evaluation mode. kind: a function of `published_layouts`."""
    torch.save(getattr(published_layouts, kind)() if state is None else state, path)
    layout = kind.partition("_")[0]
    shape = {"network.name": f"vit:{layout}", "network.checkpoint": str(path), "network.image_size": side}
    config = configure(shape | {f"network.{key}": value for key, value in settings.items()})
    backbone = backbones.build_backbone(config, 3)
    start_weights.load(config, backbone)
    return backbone.eval()


@pytest.mark.parametrize("kind, side", RECORDED)
def test_every_layout_gives_what_it_gave_before_at_its_own_and_at_another_side(kind, side, tmp_path):
    backbone = from_file(tmp_path / "a.pt", kind, side, tokens="both")
    with torch.no_grad():
        features = backbone(waves(side))
    found = torch.stack([features.mean(), features.std(), *features[0, ::64]])
    assert features.shape == (1, 2 * WIDTH) and backbone.num_features == 2 * WIDTH
    torch.testing.assert_close(found, torch.tensor(RECORDED[kind, side]), atol=1e-4, rtol=1e-4)


def by_timm(state, kind, side, build):
    """Features as timm reads and builds the file by itself."""
    options = build.options() | {"reg_tokens": build.registers, "no_embed_class": bool(build.registers)}
    model = timm_transformers.VisionTransformer(img_size=side, num_classes=0, **options).eval()
    read = timm_transformers.checkpoint_filter_fn(dict(state), model)
    model.load_state_dict({key: read[key] for key in model.state_dict()})
    with torch.no_grad():
        seen = model.forward_features(waves(side))
    return torch.cat([seen[:, 0], seen[:, 1 + build.registers :].mean(dim=1)], dim=1)


@pytest.mark.parametrize("side", [24, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_random_files_of_every_layout_give_what_timm_reads_from_them(kind, side, tmp_path):
    state, noise = getattr(published_layouts, kind)(), torch.Generator().manual_seed(0)
    state = state.get("model", state)
    state = {key: value + 0.1 * torch.randn(value.shape, generator=noise) for key, value in state.items()}
    backbone = from_file(tmp_path / "a.pt", kind, side, state, tokens="both")
    with torch.no_grad():
        features = backbone(waves(side))
    torch.testing.assert_close(features, by_timm(state, kind, side, backbone.build), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_from_before_timm_load_and_their_optimizers_find_their_parameters(kind, tmp_path):
    """These were under DINO's names. Optimizers tell parameters by their order alone."""
    backbone = from_file(tmp_path / "a.pt", kind)
    state = backbone.state_dict()
    begin = ["cls_token", "pos_embed"] + ["register_tokens"] * ("register_tokens" in state)
    parts = ["norm1", "norm2", "attn.qkv", "attn.proj"] + ["ls1", "ls2"] * kind.startswith("dinov2")
    parts += ["mlp.w12", "mlp.w3"] if kind == "dinov2_gated" else ["mlp.fc1", "mlp.fc2"]
    keys = begin + ["patch_embed.proj.weight"] + ["patch_embed.proj.bias"] * (kind != "clip")
    keys += ["norm_pre.weight", "norm_pre.bias"] * (kind == "clip")
    for number in range(DEPTH):
        for part in parts:
            ends = ["gamma"] if part.startswith("ls") else ["weight", "bias"]
            keys += [f"blocks.{number}.{part}.{end}" for end in ends]
    keys += ["norm.weight", "norm.bias"]
    assert list(state) == keys
    assert [value.shape for value in state.values()] == [parameter.shape for parameter in backbone.parameters()]
    whole = torch.nn.ModuleDict({"backbone": backbone})
    again = torch.nn.ModuleDict({"backbone": PublishedTransformer(backbone.build, 24)}).eval()
    before = {f"backbone.{key}": state[key] for key in keys}
    again.load_state_dict(before)
    assert list(whole.state_dict()) == list(before) and torch.equal(again.backbone(waves(24)), backbone(waves(24)))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn_after_a_transformer_is_what_was_drawn_before_timm(kind, tmp_path):
    """A classifier, for one. It took what its layers draw; CLIP's took a first convolution with a bias more."""
    backbone = from_file(tmp_path / "a.pt", kind)
    torch.manual_seed(5)
    PublishedTransformer(backbone.build, 24)
    found = torch.rand(4)
    torch.manual_seed(5)
    if kind == "clip":
        torch.nn.Conv2d(3, WIDTH, PATCH)
    for module in backbone.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d):
            module.reset_parameters()
    assert torch.equal(found, torch.rand(4))


def test_features_are_the_class_token_or_the_mean_of_the_patches_or_both(tmp_path):
    with torch.no_grad():
        one, mean, both = (
            from_file(tmp_path / "a.pt", "dinov2", tokens=tokens)(waves(24)) for tokens in ("class", "mean", "both")
        )
    assert torch.equal(torch.cat([one, mean], dim=1), both) and not torch.allclose(one, mean)


def test_without_what_is_its_own_it_is_torchvisions():
    """Also in gradients, which train the last block alone."""
    torch.manual_seed(0)
    sizes = dict(num_layers=DEPTH, num_heads=2, hidden_dim=WIDTH, mlp_dim=HIDDEN)
    theirs = torchvision.models.VisionTransformer(GRID * PATCH, PATCH, **sizes).eval()
    theirs.heads = torch.nn.Identity()
    ours = PublishedTransformer(Build(WIDTH, DEPTH, PATCH, HIDDEN, GRID), GRID * PATCH).eval()
    own, words = {}, {"ln_1": "norm1", "ln_2": "norm2", "mlp.0": "mlp.fc1", "mlp.3": "mlp.fc2"}
    words |= {
        "self_attention.in_proj_": "attn.qkv.",
        "self_attention.out_proj": "attn.proj",
        "class_token": "cls_token",
    }
    words |= {"encoder.layers.encoder_layer_": "blocks.", "encoder.pos_embedding": "pos_embed", "encoder.ln": "norm"}
    for key, value in theirs.state_dict().items():
        for word, our_word in (words | {"conv_proj": "patch_embed.proj"}).items():
            key = key.replace(word, our_word)
        own[key] = value
    ours.load_state_dict(own)
    backbones.freeze("vit:dino", ours, "last_but_one")
    for module in (ours, theirs):
        module(waves(24)).square().sum().backward()
    torch.testing.assert_close(ours(waves(24)), theirs(waves(24)), atol=1e-5, rtol=1e-5)
    learned = {name: parameter.grad for name, parameter in ours.named_parameters() if parameter.grad is not None}
    assert {name.rpartition(".")[0].partition(".")[0] for name in learned} == {"blocks", "norm"}
    assert {name.split(".")[1] for name in learned if name.startswith("blocks")} == {"1"}
    theirs_grad = theirs.encoder.layers[1].mlp[0].weight.grad
    torch.testing.assert_close(learned["blocks.1.mlp.fc1.weight"], theirs_grad, atol=1e-4, rtol=1e-4)


def beginning(words, state):
    return {words + key: value for key, value in state.items()}


def test_of_teacher_and_student_the_teacher_is_taken(tmp_path):
    teacher = published_layouts.dino()
    student = {key: torch.zeros_like(value) for key, value in teacher.items()}
    file = {"student": beginning("module.backbone.", student), "teacher": beginning("backbone.", teacher), "epoch": 3}
    backbone = from_file(tmp_path / "a.pt", "dino", state=file)
    assert torch.equal(backbone.cls_token, teacher["cls_token"])
    chunked = {key.replace("blocks.", "blocks.0."): value for key, value in published_layouts.dinov2().items()}
    backbone = from_file(tmp_path / "a.pt", "dinov2", state={"teacher": beginning("backbone.", chunked)})
    assert torch.equal(backbone.blocks[1].ls2.gamma, published_layouts.dinov2()["blocks.1.ls2.gamma"])


def test_a_gated_perceptron_is_read_from_the_names(tmp_path):
    state = {key: value for key, value in published_layouts.dinov2().items() if ".mlp." not in key}
    for number in range(DEPTH):
        block = f"blocks.{number}.mlp"
        state |= {f"{block}.w12.weight": torch.ones(2 * HIDDEN, WIDTH), f"{block}.w12.bias": torch.zeros(2 * HIDDEN)}
        state |= {f"{block}.w3.weight": torch.ones(WIDTH, HIDDEN), f"{block}.w3.bias": torch.full((WIDTH,), 0.5)}
    backbone = from_file(tmp_path / "a.pt", "dinov2", state=state)
    rows = torch.full((1, 1, WIDTH), 0.01)
    gate = torch.tensor(0.01 * WIDTH)
    expected = HIDDEN * torch.nn.functional.silu(gate) * gate + 0.5
    torch.testing.assert_close(backbone.blocks[0].mlp(rows), expected.expand(1, 1, WIDTH))


def sentence(path, layout, state, side=24):
    with pytest.raises(UserError) as caught:
        from_file(path, layout, side, state)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    return str(caught.value)


def test_files_that_do_not_fit_are_one_sentence(tmp_path):
    path, whole = tmp_path / "a.pt", published_layouts.dino()
    assert "has no vision transformer in a known layout" in sentence(path, "dino", {"fc.weight": torch.ones(3)})
    clip = published_layouts.clip()
    assert "has the layout of CLIP (vit:clip), not of vit:dinov2" in sentence(path, "dinov2", clip)
    assert "the layout of DINOv2 (vit:dinov2), not of vit:mae" in sentence(path, "mae", published_layouts.dinov2())
    assert "blocks.0.mlp.fc1.weight is missing" in sentence(
        path, "dino", {k: v for k, v in whole.items() if "mlp" not in k}
    )
    assert "2 missing (norm.weight, norm.bias)" in sentence(
        path, "dino", {key: value for key, value in whole.items() if not key.startswith("norm")}
    )
    assert "too many (blocks.1.attn.extra)" in sentence(path, "dino", whole | {"blocks.1.attn.extra": torch.ones(3)})
    assert "has a depth of 1000; expected at most 100" in sentence(
        path, "dino", whole | {"blocks.999.norm1.bias": torch.ones(3)}
    )
    assert "4 input channels" in sentence(path, "dino", whole | {"patch_embed.proj.weight": torch.ones(WIDTH, 4, 8, 8)})
    assert "network.image_size: 20 is not a multiple of the patch size, 8 pixels; try 16" in sentence(
        path, "dino", whole, 20
    )
    giant = {"patch_embed.proj.weight": torch.ones(1).expand(4096, 3, 64, 64), "a": torch.ones(1).expand(1 << 40)}
    assert "its tensors are larger than the file" in sentence(path, "dino", whole | giant)


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"network.name": "vit:dinov3"}, "'vit:dinov3' is not a backbone.* close to it: vit:dinov2"),
        ({"network.name": "vit:dino"}, "network.checkpoint: nothing is given"),
        (
            {"network.name": "vit:dino", "network.start": "random"},
            "vit:dino, whose weights come from a file; choose checkpoint",
        ),
        ({"network.name": "timm:../x"}, "'timm:../x' is not a backbone"),
        ({"network.name": "resnet50", "network.tokens": "mean"}, "which is not a vision transformer; choose class"),
        ({"network.name": "timm:resnet18", "network.start": "simclr"}, "which has published weights; choose published"),
    ],
)
def test_settings_that_do_not_fit_are_one_sentence(settings, words):
    with pytest.raises(UserError, match=words):
        configure(settings)


def test_each_layout_has_its_own_constants():
    clip, dino = (backbone_names.preparation(f"vit:{layout}") for layout in ("clip", "dino"))
    lite0 = backbone_names.preparation("efficientnet_lite0")
    assert clip.size == dino.size == lite0.size == 224
    assert clip.mean == (0.48145466, 0.4578275, 0.40821073) and clip.std == (0.26862954, 0.26130258, 0.27577711)
    assert dino.mean == (0.485, 0.456, 0.406) and dino.std == (0.229, 0.224, 0.225)
    assert lite0.mean == (127 / 255,) * 3 and lite0.std == (128 / 255,) * 3


def test_transformers_of_torchvision_take_other_sides_and_have_a_stage_a_block():
    name = "torchvision:vit_b_32"
    with torch.device("meta"):
        whole, both = backbones.build(name, 3), backbones.build(name, 3, size=64, tokens="both")
    grid = whole.model.encoder.pos_embedding.shape[1]
    assert grid == 1 + 7**2 and list(whole.stages()) == ["conv_proj", *(f"block{n}" for n in range(1, 13))]
    stored = {"module.encoder.pos_embedding": torch.ones(1, grid, 768), "module.class_token": torch.ones(1, 1, 768)}
    assert both.fitted(stored)["module.encoder.pos_embedding"].shape == (1, 1 + 2**2, 768)
    assert both(torch.empty(2, 1, 64, 64, device="meta")).shape == (2, 1536) == (2, both.num_features)


@pytest.mark.slow
def test_the_class_token_of_torchvisions_transformers_is_what_went_into_their_classifier():
    torch.manual_seed(0)
    both = backbones.build("torchvision:vit_b_32", 3, size=64, tokens="both").eval()
    with torch.no_grad():
        assert torch.allclose(both(waves(64))[:, :768], both.model(waves(64)), atol=1e-5)


@pytest.mark.parametrize("start", ["published", "random", "checkpoint"])
def test_without_timm_one_sentence_names_the_command(start, monkeypatch, tmp_path):
    torch.save(published_layouts.dino(), tmp_path / "a.pt")
    monkeypatch.setitem(sys.modules, "timm", None)
    names = {"checkpoint": ["vit:dino"]}.get(start, ["timm:resnet18", "efficientnet_lite0"])
    file = {"network.checkpoint": str(tmp_path / "a.pt")} if start == "checkpoint" else {}
    for name in names:
        with pytest.raises(
            UserError, match="needs timm, which is not installed: python -m pip install -r requirements"
        ):
            start_weights.check_start_weights(
                configure({"network.name": name, "network.start": start} | file), 3, 32, 32
            )


def test_a_broken_timm_is_told_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.delitem(sys.modules, "timm")
    monkeypatch.setattr("builtins.__import__", _without_hub(__import__))
    with pytest.raises(
        UserError, match="needs timm, which cannot be imported .ModuleNotFoundError: no hub.: python -m"
    ):
        backbones.build("timm:resnet18", 3)


def _without_hub(importing):
    def refuse(name, *more):
        if name == "timm":
            raise ModuleNotFoundError("no hub", name="huggingface_hub")
        return importing(name, *more)

    return refuse


@pytest.mark.slow
def test_a_small_network_trains_without_timm(tmp_path):
    code = """
import sys
from pathlib import Path
sys.modules["timm"] = None
from lps.settings.config import configure
from lps.store.run_folders import create_run
from lps.training.loop import train
short = {"dataset.images_per_class": 10, "batch_size": 32, "epochs": 1, "threads": 1, "pretrain.epochs": 0}
sys.exit(train(create_run(Path(sys.argv[1]), configure(short))))
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)


@pytest.mark.parametrize("name", ["test_vit", "test_vit2", "test_efficientnet", "test_resnet"])
def test_models_of_timm_are_what_goes_into_their_classifier(name, monkeypatch):
    import timm

    config = configure({"network.name": f"timm:{name}", "network.start": "random", "network.image_size": 96})
    torch.manual_seed(0)
    ours = backbones.build_backbone(config, 3).eval()
    theirs = ours.model
    own = theirs.pretrained_cfg
    pixels = torch.rand(2, 3, 96, 96)
    given, wanted = (
        (pixels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
        for mean, std in (((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), (own["mean"], own["std"]))
    )
    with torch.no_grad():
        features = ours(given)
        torch.testing.assert_close(features, theirs(wanted), atol=1e-4, rtol=1e-4)
    assert features.shape == (2, ours.num_features) and len(ours.stages()) > 1
    assert start_weights.digest(config) != start_weights.digest(configure(config.flat() | {"seed": 1}))
    monkeypatch.setattr(timm, "create_model", lambda *a, **k: (_ for _ in ()).throw(OSError("no route")))
    with pytest.raises(UserError, match="timm's weights of .* could not be downloaded"):
        start_weights.load(configure({"network.name": f"timm:{name}"}), ours)
    with pytest.raises(UserError, match="'test_vat' is not a model of timm"):
        backbones.build("timm:test_vat", 3)


@pytest.mark.slow
def test_a_model_of_timm_takes_a_published_file(tmp_path):
    name = {"network.name": "timm:vit_tiny_patch16_224", "network.start": "checkpoint", "network.image_size": 32}
    config = configure(name | {"network.checkpoint": str(tmp_path / "a.pt")})
    backbone = backbones.build_backbone(config, 3)
    state = {key: torch.randn_like(value) for key, value in backbone.model.state_dict().items()}
    grid = torch.cat([state["pos_embed"][:, :1], torch.ones(1, 14**2, 192)], dim=1)
    teacher = {f"backbone.{key}": value for key, value in (state | {"pos_embed": grid}).items()}
    torch.save({"teacher": teacher}, tmp_path / "a.pt")
    start_weights.load(config, backbone)
    assert torch.equal(backbone.model.blocks[3].attn.qkv.weight, state["blocks.3.attn.qkv.weight"])
    assert torch.allclose(backbone.model.pos_embed[:, 1:], torch.ones(1, 4, 192), atol=1e-5)


@pytest.mark.slow
def test_a_run_trains_the_last_block_of_a_transformer_from_a_file_and_resumes(tmp_path, capsys):
    torch.save(published_layouts.dinov2(), tmp_path / "a.pt")
    network = {"network.name": "vit:dinov2", "network.checkpoint": str(tmp_path / "a.pt"), "network.image_size": 16}
    network |= {"network.freeze_until": "last_but_one", "network.tokens": "both"}
    short = {"dataset.images_per_class": 10, "batch_size": 32, "epochs": 1, "threads": 1}
    run = create_run(tmp_path / "runs", configure(network | short))
    assert train(run) == 0 and "are the start weights" in capsys.readouterr().out
    assert train(run) == 0 and "resuming from checkpoint" in capsys.readouterr().out


def test_stored_features_of_a_transformer_are_those_of_its_own_side(tmp_path):
    """The side that suits EfficientNet-Lite0 there is no multiple of 14."""
    file = {"network.name": "vit:dinov2", "network.checkpoint": str(tmp_path / "a.pt"), "features": "stored"}
    config = configure(file)
    assert config.network_image_size is None and configure({"features": "stored"}).network_image_size == 160
    assert backbone_names.preparation(config.network_name, config.network_image_size).size == 224
