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
    for name, own_tensor in method.state_dict().items():
        if not name.startswith(_NETWORKS):
            continue
        stored_tensor = stored.get(name)
        is_sound = (
            isinstance(stored_tensor, Tensor)
            and stored_tensor.dim() == own_tensor.dim()
            and bool(stored_tensor.isfinite().all())
        )
        if is_sound and name.endswith(_BY_CLASS) and stored_tensor.shape[1:] == own_tensor.shape[1:]:
            has_class = (rows >= 0) & (rows < len(stored_tensor)) & (torch.arange(len(rows)) < len(own_tensor))
            own_tensor[has_class.nonzero()[:, 0].to(own_tensor.device)] = stored_tensor[rows[has_class]].to(own_tensor)
            used += 1
        elif is_sound and stored_tensor.shape == own_tensor.shape:
            own_tensor.copy_(stored_tensor)
            used += 1
        elif name.startswith("network.backbone."):
            raise UserError("network.continues", f"does not match the network: {name} is missing or has another shape")
    return used
