"""Optimizers without torch's compiler compute what torch's own compute."""

import pytest
import torch

from lps.methods.parts.optimizers import without_compiler

KINDS = {torch.optim.SGD: {"momentum": 0.9}, torch.optim.Adam: {}, torch.optim.AdamW: {}}


@pytest.mark.parametrize("kind", KINDS)
def test_steps_and_state_are_those_of_torch(kind):
    """Over a state that is stored and loaded, with one group of parameters added later."""
    results = []
    for each in (kind, without_compiler(kind)):
        first, second = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)
        optimizer = each([first], lr=0.1, weight_decay=0.01, foreach=True, **KINDS[kind])
        optimizer.add_param_group({"params": [second], "lr": 0.2})
        for step in range(4):
            optimizer.zero_grad()
            (step * (first**2).sum() - (second**3).sum()).backward()
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
        assert not first.grad_fn and first.grad is not None
        results.append((first, second, optimizer.state_dict()))
    (first, second, state), (own_first, own_second, own_state) = results
    assert torch.equal(first, own_first) and torch.equal(second, own_second)
    assert state["param_groups"] == own_state["param_groups"] and state["state"].keys() == own_state["state"].keys()
    for key, values in state["state"].items():
        assert all(
            torch.equal(value, own_state["state"][key][name]) for name, value in values.items() if value is not None
        )
