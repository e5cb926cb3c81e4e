"""Saved views beside the runs: complete or absent, limited, and files from elsewhere are not trusted."""

import json

import pytest

from lps.errors import UserError
from lps.tables import saved_views

VIEW = {"find": ["lr>0.05"], "columns": ["lr", "accuracy/novel"]}


def test_a_view_is_kept_replaced_and_dropped(tmp_path):
    views = saved_views.run_views(tmp_path / "runs")
    assert views.read_views() == {} and views.save("  mine\n", VIEW) == "mine"
    views.save("b", {"sort": ["-lr"]})
    views.save("b", {"sort": ["lr"]})
    assert views.read_views() == {"b": {"sort": ["lr"]}, "mine": VIEW}
    views.delete("b")
    views.delete("b")
    assert list(views.read_views()) == ["mine"]


@pytest.mark.parametrize("name", ["", " \n", "x" * 61])
def test_what_is_no_name_is_refused(tmp_path, name):
    with pytest.raises(UserError, match="is not a name of 1 to 60 characters"):
        saved_views.run_views(tmp_path).save(name, VIEW)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b'{"kept": 3}', b'{"version": 1, "kept": {"a": {"find": "text"}, "b": [1], "\\u0000": {}}}',
     b'{"kept": {"a": {"find": [7]}}}', b"[" * 5000, json.dumps({"kept": {"a": {"x": ["y" * 2000]}}}).encode()],
)  # fmt: skip
def test_what_is_not_of_the_right_form_counts_as_not_there(tmp_path, content):
    (tmp_path / ".views.json").write_bytes(content)
    assert saved_views.run_views(tmp_path).read_views() == {}
    saved_views.run_views(tmp_path).save("mine", VIEW)
    assert saved_views.run_views(tmp_path).read_views() == {"mine": VIEW}


def test_the_file_of_a_newer_program_is_not_written_over(tmp_path):
    text = b'{"version": 2, "kept": {}}'
    (tmp_path / ".views.json").write_bytes(text)
    with pytest.raises(UserError, match="newer LPS Studio"):
        saved_views.run_views(tmp_path).save("mine", VIEW)
    assert saved_views.run_views(tmp_path).read_views() == {} and (tmp_path / ".views.json").read_bytes() == text


def test_there_is_an_end_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr(saved_views, "MAX_VIEWS", 2)
    views = saved_views.run_views(tmp_path)
    for name in "ab":
        views.save(name, VIEW)
    with pytest.raises(UserError, match="2 views are already saved"):
        views.save("c", VIEW)
    assert list(views.read_views()) == ["a", "b"]
