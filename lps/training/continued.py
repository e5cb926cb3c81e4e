"""A run that goes on from another one's weights: what of them fits, and which class continues which."""

import torch
from torch import Tensor

from lps.errors import UserError
from lps.methods import Method

_NETWORKS = ("network.", "average.", "prototypes")  # how the names of weights begin that stand for what was learned
_BY_CLASS = ("classifier.weight", "classifier.bias", "prototypes")  # how those end that have a row for every class


@torch.no_grad()
def load(method: Method, stored: dict[str, Tensor], rows: Tensor) -> int:
    """Put the weights of another run of the same method into `method`; gives how many tensors were used.

    rows: int64, for every class id here that of the other run, -1 for none, whose row stays at random. Raises
    `UserError` where a weight of the backbone is missing, has another shape or is not finite.
    """
    used = 0
    for name, own in method.state_dict().items():
        if not name.startswith(_NETWORKS):
            continue
        there = stored.get(name)
        is_sound = isinstance(there, Tensor) and there.dim() == own.dim() and bool(there.isfinite().all())
        if is_sound and name.endswith(_BY_CLASS) and there.shape[1:] == own.shape[1:]:
            known = (rows >= 0) & (rows < len(there)) & (torch.arange(len(rows)) < len(own))
            own[known.nonzero()[:, 0].to(own.device)] = there[rows[known]].to(own)
            used += 1
        elif is_sound and there.shape == own.shape:
            own.copy_(there)
            used += 1
        elif name.startswith("network.backbone."):
            raise UserError("network.continues", f"does not match the network: {name} is missing or has another shape")
    return used
