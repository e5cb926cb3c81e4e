"""How pages begin where the address names a run that cannot be shown."""

import pytest

from tests.sample_runs import held, make_run
from tests.visiting import visit, words_of


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    make_run(tmp_path / "runs", epochs=2, name="another one")
    return tmp_path / "runs"


@pytest.mark.parametrize("page", ["clusters", "review", "projection"])
def test_a_run_without_anything_to_show_is_not_replaced_by_another(root, page):
    young = make_run(root, "running", written=0, pretrain=3, name="a young one")
    with held(young):
        at = visit(page, run=young.id)
        assert "a young one" in words_of(at) and not at.info, "it is said once"
        assert "another one" not in words_of(at) and not at.selectbox
        assert "Show another run" in [link.proto.label for link in at.get("page_link")]
        assert "is still training. It appears here after its first epoch" in words_of(at)


@pytest.mark.parametrize("page", ["clusters", "predict"])
def test_an_own_run_without_an_epoch_is_told_instead_of_advice_to_train(tmp_path, monkeypatch, page):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    young = make_run(tmp_path, "running", written=0, name="a young one")
    with held(young):
        at = visit(page)
    assert f"({young.id[-6:]})** is still training" in words_of(at) and "No run has" not in words_of(at)
    assert "add them and train" not in words_of(at) and "until then" in words_of(at) or page == "predict"
    links = {link.proto.label: link.proto.query_string for link in at.get("page_link")}
    assert links["Follow it on Live"] == f"run={young.id}"


@pytest.mark.parametrize("page", ["clusters", "projection", "explain", "live", "pace"])
def test_a_run_that_is_not_there_is_told(root, page):
    at = visit(page, run="20260101-000000-digits-lps-s0-abcdef")
    assert any("Run 20260101" in warning.value for warning in at.warning)
