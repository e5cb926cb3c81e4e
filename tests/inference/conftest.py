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
    monkeypatch.setattr(
        trained_model,
        "load_model",
        lambda run, *threads: loaded() if run.folder == trained_run.folder else load(run, *threads),
    )
    return trained_run
