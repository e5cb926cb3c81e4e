"""For all tests: pages start no training of their own, and nothing outside the test's folder is touched."""

import pytest


@pytest.fixture(autouse=True)
def no_training_from_pages(request, monkeypatch):
    """Pages heal the queue as they refresh; in their tests, sample runs that look queued must stay where they are."""
    if request.module.__name__.rpartition(".")[2].startswith("test_pages"):
        monkeypatch.setattr("lps.launcher.pump", lambda root, trainer=None: [])


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """No test reads or leaves decoded pictures in the cache of the person who runs it."""
    monkeypatch.setenv("LPS_CACHE", str(tmp_path / "picture cache"))


@pytest.fixture(autouse=True)
def no_recordings(request, monkeypatch, tmp_path):
    """Tests of pages see the runs that they made; those that are about recordings say so (`recordings` in the name)."""
    name = request.module.__name__.rpartition(".")[2]
    if name.startswith("test_pages") and "recordings" not in name:
        monkeypatch.setattr("lps.runs.RECORDED", tmp_path / "no recordings")
