"""State dicts under the names used in checkpoints, independent of today's module names."""

from torch import nn


def store_under(module: nn.Module, names: dict[str, str]) -> None:
    """Make `module.state_dict` write the tensors of `names` (own name: stored name) under their stored names.

    `load_state_dict` reads them from there. Existing runs, models and optimizer states stay readable.
    """
    module.stored_names = names
    module.register_state_dict_post_hook(_to_stored)
    module.register_load_state_dict_pre_hook(_to_own)


def _to_stored(module: nn.Module, state: dict, prefix: str, _metadata: dict) -> None:
    _rename(state, prefix, module.stored_names)


def _to_own(module: nn.Module, state: dict, prefix: str, *_of_loading: object) -> None:
    _rename(state, prefix, {stored: own_name for own_name, stored in module.stored_names.items()})


def _rename(state: dict, prefix: str, names: dict[str, str]) -> None:
    """Rename in the same order; all are removed before the first is added, since old and new names overlap."""
    moved_tensors = [(key, state.pop(key)) for key in list(state) if key.startswith(prefix)]
    for key, value in moved_tensors:
        own_name = key.removeprefix(prefix)
        state[prefix + names.get(own_name, own_name)] = value
