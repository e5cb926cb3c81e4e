"""Long, nested and strange texts in addresses: a small part of `python -m tests.reliability addresses`."""

import pytest

from tests.reliability.addresses import attack, parameters


@pytest.mark.slow
@pytest.mark.parametrize("page", ["charts", "home"])
def test_pages_take_long_nested_and_strange_texts_in_their_address(page, tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    assert {"chart", "find", "epoch", "by"} <= set(parameters())
    assert [(what, wrong) for what, _, wrong in attack(tmp_path / "runs", 0, [page], 200) if wrong] == []
