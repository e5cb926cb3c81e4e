"""Models of timm by name. Imports timm only on request: it takes seconds, and other backbones never need it."""

import inspect
import math

import torch
from torch import Tensor, nn

from lps.errors import UserError, shorten
from lps.network.tokens import pool_tokens, resize_positions
from lps.network.weight_files import first_line

_EXPANDED = ("blocks", "stages", "layers")  # parts of a model whose own parts are stages


def library():
    """Return timm; raises `UserError` with the installation command if it is missing."""
    try:
        import timm
    except ImportError as error:
        state = "is not installed" if error.name == "timm" else f"cannot be imported ({first_line(error)})"
        command = "python -m pip install -r requirements.txt"
        raise UserError("network.name", f"this backbone needs timm, which {state}: {command}") from None
    return timm


def _create_model(name: str, size: int, pretrained: bool) -> nn.Module:
    """Create a model of timm without its classifier; with random weights, or those of its hub or the hub's cache."""
    timm = library()
    if name not in timm.list_models() + timm.list_pretrained():
        close = timm.list_models(f"*{name.partition('.')[0]}*")[:4]
        suggestion = f"; close to it: {', '.join('timm:' + word for word in close)}" if close else ""
        raise UserError("network.name", f"{shorten(name)} is not a model of timm {timm.__version__}{suggestion}")
    own_config = timm.get_pretrained_cfg(name)
    sides = {"img_size": size} if own_config is not None and own_config.fixed_input_size else {}
    try:
        return timm.create_model(name, pretrained=pretrained, num_classes=0, **sides)
    except UserError:
        raise
    except Exception as error:  # errors of the hub, of urllib, or of torch
        if pretrained:
            problem = f"timm's weights of {name} could not be downloaded ({first_line(error)})"
            remedy = "connect to the internet, or use a file of weights with network.start=checkpoint"
            raise UserError("network.start", f"{problem}; {remedy}") from None
        raise UserError("network.name", f"timm cannot build {name} for {size} pixels ({first_line(error)})") from None


def published(name: str, size: int) -> dict[str, Tensor]:
    """Return weights from the hub's cache, or download them to it, under timm's own names; raises `UserError`."""
    with torch.random.fork_rng(devices=[]):
        return _create_model(name, size, pretrained=True).state_dict()


def source(name: str) -> str:
    """Return where timm gets the weights of a model from."""
    pretrained = library().get_pretrained_cfg(name)
    return "none" if pretrained is None else f"{pretrained.hf_hub_id} {pretrained.hf_hub_filename} {pretrained.url}"


class TimmModel(nn.Module):
    """(n, 3 or 1, height, width) -> (n, num_features), at least float32; grey pictures count as three channels.

    Pictures come with ImageNet's constants and are converted to the model's own, which only timm knows. tokens: as in
    `pooled`; models without tokens support only "class", the input of their classifier.
    """

    def __init__(self, name: str, size: int, tokens: str, mean: tuple[float, ...], std: tuple[float, ...]):
        """mean, std: the constants of the normalised pictures."""
        super().__init__()
        self.model, self.tokens = _create_model(name, size, pretrained=False), tokens
        self.before = getattr(self.model, "num_prefix_tokens", 0)
        if tokens != "class" and not self.before:
            raise UserError("network.tokens", f"{tokens} is not possible with {name}, which has no class token")
        width = self.model.num_features if tokens != "class" else self._width()
        self.num_features = width * (2 if tokens == "both" else 1)
        pretrained = self.model.pretrained_cfg
        factor = [file_value / own_value for file_value, own_value in zip(std, pretrained.get("std", std))]
        offset = [
            (file_value - own_value) / s
            for file_value, own_value, s in zip(mean, pretrained.get("mean", mean), pretrained.get("std", std))
        ]
        self.is_as_given = factor == [1.0] * 3 and offset == [0.0] * 3
        self.register_buffer("factor", torch.tensor(factor).view(3, 1, 1), persistent=False)
        self.register_buffer("offset", torch.tensor(offset).view(3, 1, 1), persistent=False)

    def _width(self) -> int:
        return getattr(self.model, "head_hidden_size", None) or self.model.num_features

    def forward(self, x: Tensor) -> Tensor:
        x = x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1)
        seen = self.model.forward_features(x if self.is_as_given else x * self.factor + self.offset)
        if self.tokens != "class":
            return pool_tokens(seen, self.before, self.tokens)
        asks = "pre_logits" in inspect.signature(self.model.forward_head).parameters
        out = self.model.forward_head(seen, pre_logits=True) if asks else self.model.forward_head(seen)
        return out.to(torch.promote_types(out.dtype, torch.float32))

    def stages(self) -> dict[str, tuple[nn.Module, ...]]:
        """Return the model's parts in order, its blocks one by one; parts after the last block belong to it."""
        parts, last = {}, ""
        for name, part in self.model.named_children():
            if name in _EXPANDED:
                parts |= {f"{name}{number}": (block,) for number, block in enumerate(part.children())}
                last = next(reversed(parts), "")
            elif any(True for _ in part.parameters()):
                if last:
                    parts[last] += (part,)
                else:
                    parts[name] = (part,)
        return parts

    def loose_parameters(self) -> list[nn.Parameter]:
        """Return the parameters outside of the stages; they freeze with the first."""
        return list(self.model.parameters(recurse=False))

    def fitted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of a file with this network's position embeddings; CLIP's names become DINO's."""
        grid = getattr(self.model, "pos_embed", None)
        if not isinstance(grid, Tensor) or not self.before:
            return tensors
        from lps.network.published_transformers import tensors_by_dino_name

        named = tensors_by_dino_name(tensors).items()
        tensors_by_name = {key.replace("register_tokens", "reg_token"): value for key, value in named}
        if not getattr(self.model, "no_embed_class", False):
            return resize_positions(tensors_by_name, grid.shape[1], 1)
        embeddings = tensors_by_name.get("pos_embed")
        if (
            embeddings is not None
            and "cls_token" in tensors_by_name
            and math.isqrt(embeddings.shape[1]) ** 2 + 1 == embeddings.shape[1]
        ):
            tensors_by_name |= {
                "cls_token": tensors_by_name["cls_token"] + embeddings[:, :1],
                "pos_embed": embeddings[:, 1:],
            }
        return resize_positions(tensors_by_name, grid.shape[1], 0)
