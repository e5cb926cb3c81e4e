"""For all tests: pages start no training of their own, and nothing outside the test's folder is touched."""

import gc
import os
import shutil
import sys

import pytest

# Some machines ask Python to keep no compiled modules; every worker and every command of the tests would then
# compile thousands of modules of torch and of the dashboard again, which takes longer than most tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish():
    """The modules of all tests, a million objects, need not be looked through for garbage again and again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def no_training_from_pages(request, monkeypatch):
    """Pages heal the queue as they refresh; in their tests, sample runs that look queued must stay where they are."""
    if request.module.__name__.rpartition(".")[2].startswith("test_pages"):
        monkeypatch.setattr("lps.launcher.pump", lambda root, trainer=None: [])


@pytest.fixture(scope="session")
def nowhere(tmp_path_factory):
    """A folder that only the tests that need it make, and that each of them finds gone."""
    return tmp_path_factory.getbasetemp() / "made by one test"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, nowhere):
    """No test reads or leaves decoded pictures in the cache of the person who runs it."""
    monkeypatch.setenv("LPS_CACHE", str(nowhere / "picture cache"))
    yield
    shutil.rmtree(nowhere, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_recordings(request, monkeypatch, nowhere):
    """Tests of pages see the runs that they made; those that are about recordings say so (`recordings` in the name)."""
    name = request.module.__name__.rpartition(".")[2]
    if name.startswith("test_pages") and "recordings" not in name:
        monkeypatch.setattr("lps.runs.RECORDED", nowhere / "no recordings")
