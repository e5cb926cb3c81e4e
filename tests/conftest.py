"""For all tests: pages that are visited in a test start no training of their own."""

import pytest


@pytest.fixture(autouse=True)
def no_training_from_pages(request, monkeypatch):
    """Pages heal the queue as they refresh; in their tests, sample runs that look queued must stay where they are."""
    if request.module.__name__.rpartition(".")[2].startswith("test_pages"):
        monkeypatch.setattr("lps.launch.pump", lambda root, trainer=None: [])


@pytest.fixture(autouse=True)
def no_recordings(request, monkeypatch, tmp_path):
    """Tests of pages see the runs that they made; those that are about recordings say so (`recordings` in the name)."""
    name = request.module.__name__.rpartition(".")[2]
    if name.startswith("test_pages") and "recordings" not in name:
        monkeypatch.setattr("lps.runs.RECORDED", tmp_path / "no recordings")
