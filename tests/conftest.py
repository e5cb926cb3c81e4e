"""For all tests: pages that are visited in a test start no training of their own."""

import pytest


@pytest.fixture(autouse=True)
def no_training_from_pages(request, monkeypatch):
    """Pages heal the queue as they refresh; in their tests, sample runs that look queued must stay where they are."""
    if request.module.__name__.rpartition(".")[2].startswith("test_pages"):
        monkeypatch.setattr("lps.launch.pump", lambda root, trainer=None: [])
