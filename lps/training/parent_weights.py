"""Start a run from another run's weights: which tensors fit, and which class continues which."""

import torch
from torch import Tensor

from lps.errors import UserError
from lps.methods import Method

_NETWORKS = ("network.", "average.", "prototypes")  # prefixes of learned weights
_BY_CLASS = ("classifier.weight", "classifier.bias", "prototypes")  # suffixes of weights with a row per class


@torch.no_grad()
def load_parent_weights(method: Method, stored: dict[str, Tensor], rows: Tensor) -> int:
    """Load the weights of another run of the same method into `method`; returns the number of tensors used.

    rows: int64, for every class id of this run that of the other run; -1: none, the row stays random. Raises
    `UserError` if a weight of the backbone is missing, has another shape or is not finite.
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
