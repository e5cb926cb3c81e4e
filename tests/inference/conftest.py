"""The trained run of all tests of predictions, which they leave as it is: its weights are loaded once."""

import functools

import pytest

from lps.inference import trained_model


@pytest.fixture(scope="session")
def loaded(trained_run):
    return functools.cache(functools.partial(trained_model.load_model, trained_run))


@pytest.fixture
def live(trained_run, loaded, monkeypatch):
    """Return the run, whose weights and training pictures the tests share."""
    load = trained_model.load_model

    def load_once(run, *threads):
        return loaded() if run.folder == trained_run.folder else load(run, *threads)

    monkeypatch.setattr(trained_model, "load_model", load_once)
    return trained_run
