"""Models of torchvision by name, and their weights. Import only on request: it takes as long as torch."""

import re
from pathlib import Path

import torch
import torchvision
from torch import Tensor, nn

from lps.errors import UserError, shorten
from lps.network.shipped_weights import sha256
from lps.network.tokens import pool_tokens, resize_grid
from lps.network.weight_files import first_line
from lps.settings import backbone_names
from lps.settings.backbone_names import STAGES

# googlenet and inception_v3 have auxiliary classifiers, whose outputs would accompany the features.
OPTIONS = dict.fromkeys(("googlenet", "inception_v3"), {"aux_logits": False, "init_weights": True})


class TorchvisionModel(nn.Module):
    """A torchvision classification model up to the input of its last layer; grey pictures count as three channels.

    Without dropout and stochastic depth: torch's global random numbers do not depend on seed and step, so a resumed
    run would end with other numbers.
    """

    def __init__(self, name: str, **options):
        super().__init__()
        self.name = name
        self.model = torchvision.models.get_model(name, weights=None, **OPTIONS.get(name, {}), **options)
        self.classifier, self.num_features = _take_off_classifier(self.model)
        for module in self.model.modules():
            if isinstance(module, (nn.Dropout, torchvision.ops.StochasticDepth)):
                module.p = 0.0
        if backbone_names.RESIDUAL.match(name):
            self.model.avgpool.register_forward_pre_hook(_widened)

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1))

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        """Return stem and layer1 to layer4 of residual networks, else the parts of `features` or else of the model."""
        if backbone_names.RESIDUAL.match(self.name):
            model = self.model
            return {"stem": (model.conv1, model.bn1)} | {name: (getattr(model, name),) for name in STAGES[1:]}
        parts = getattr(self.model, "features", self.model).named_children()
        head = self.classifier.partition(".")[0]
        return {name: (part,) for name, part in parts if name != head and any(True for _ in part.parameters())}


class TorchvisionTransformer(TorchvisionModel):
    """A torchvision vision transformer; its position embeddings are interpolated to the image size.

    tokens: features are the class token, the mean of the patches, or both, one after the other; after the last norm.
    """

    def __init__(self, name: str, size: int | None, tokens: str):
        super().__init__(name, **({"image_size": size} if size else {}))
        self.tokens = tokens
        self.num_features *= 2 if tokens == "both" else 1

    def forward(self, x: Tensor) -> Tensor:
        model = self.model
        patches = model._process_input(x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1))
        seen = model.encoder(torch.cat([model.class_token.expand(len(x), -1, -1), patches], dim=1))
        return pool_tokens(seen, 1, self.tokens)

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        """Return conv_proj, then block1 and so on; the last norm belongs to the last block."""
        encoder = self.model.encoder
        parts = {f"block{number}": (block,) for number, block in enumerate(encoder.layers, start=1)}
        return {"conv_proj": (self.model.conv_proj,)} | parts | {f"block{len(parts)}": (encoder.layers[-1], encoder.ln)}

    def loose_parameters(self) -> list[nn.Parameter]:
        return [self.model.class_token, self.model.encoder.pos_embedding]

    def fitted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        num_tokens = self.model.encoder.pos_embedding.shape[1]
        ends = [key for key in tensors if key.endswith("encoder.pos_embedding")]
        return tensors | {key: resize_grid(tensors[key], num_tokens, 1) for key in ends}


def _widened(_module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    """Convert the input of the mean to float32: means rounded to bf16 would often be equal and tie in rankings."""
    return tuple(x.to(torch.promote_types(x.dtype, torch.float32)) for x in inputs)


def _take_off_classifier(model: nn.Module) -> tuple[str, int]:
    """Replace the last layer (squeezenet: convolution) by the identity; returns its path and its input size."""
    kind = nn.Linear if any(isinstance(module, nn.Linear) for module in model.modules()) else nn.Conv2d
    path, layer = [(path, module) for path, module in model.named_modules() if isinstance(module, kind)][-1]
    model.set_submodule(path, nn.Identity())
    return path, layer.in_features if kind is nn.Linear else layer.in_channels


def source(name: str) -> str:
    """Return where torchvision gets the newest weights of a model from."""
    return torchvision.models.get_model_weights(name).DEFAULT.url


def published(name: str) -> dict[str, Tensor]:
    """Return the newest published weights of a model under its own names, downloaded once; raises `UserError`."""
    weights = torchvision.models.get_model_weights(name).DEFAULT
    file = weights.url.rpartition("/")[2]
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    _check_download(folder / file)
    options = {key: value for key, value in OPTIONS.get(name, {}).items() if key != "init_weights"}
    try:
        with torch.random.fork_rng(devices=[]):
            return torchvision.models.get_model(name, weights=weights, progress=False, **options).state_dict()
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        reason = getattr(error, "reason", None) or first_line(error)
        raise UserError(
            "network.start",
            f"torchvision's weights of {name} could not be downloaded ({reason}); connect to the internet, or put "
            f"{file} into {folder}",
        ) from None


def _check_download(path: Path) -> None:
    """Raise `UserError` if torch's cached file does not match the sha256 at the end of its name."""
    digest = re.search(r"-([0-9a-f]{8,})\.", path.name)
    if digest is None or not path.is_file():
        return
    if not sha256(path).startswith(digest.group(1)):
        raise UserError("network.start", f"{shorten(str(path), 120)} is damaged; remove it to download it again")
