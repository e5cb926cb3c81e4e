"""Values by folder: computed again when a file there is added, replaced or removed, and while a change may not show."""

import os

import pytest

from lps.files import folder_cache
from lps.files.folder_cache import FolderCache


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A look at a folder, which returns how often the value was computed."""
    monkeypatch.setattr(folder_cache, "_SETTLED_NS", 0)
    values, number = FolderCache("edited.json", may_keep=lambda value: value != 3), iter(range(1, 100))
    for name in ("edited.json", "other.json"):
        (tmp_path / name).write_text("{}")
    return lambda: values.value(str(tmp_path), lambda stamp: next(number))


def wait_for_a_new_time(folder):
    """Wait until a change gets another time stamp than the last one."""
    before = folder.stat().st_ctime_ns
    while folder.stat().st_ctime_ns == before:
        os.utime(folder)


def test_a_value_is_kept_until_a_file_is_added_replaced_removed_or_edited_in_place(counted, tmp_path):
    assert [counted(), counted()] == [1, 1]
    wait_for_a_new_time(tmp_path)
    (tmp_path / "draft").write_text("[]")
    assert counted() == 2
    wait_for_a_new_time(tmp_path)
    (tmp_path / "draft").replace(tmp_path / "other.json")
    assert [counted(), counted(), counted()] == [3, 4, 4]  # the third may not be kept
    (tmp_path / "edited.json").write_text("[1]")
    assert [counted(), counted()] == [5, 5]
    wait_for_a_new_time(tmp_path)
    (tmp_path / "other.json").unlink()
    assert counted() == 6


def test_a_value_of_a_new_or_missing_folder_is_not_kept(counted, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_cache, "_SETTLED_NS", 10**12)
    assert [counted(), counted()] == [1, 2]
    monkeypatch.setattr(folder_cache, "_SETTLED_NS", 10**10)
    now = tmp_path.stat().st_ctime_ns
    monkeypatch.setattr(folder_cache.time, "time_ns", lambda: now - 3600 * 10**9)  # the clock was set back by an hour
    assert [counted(), counted(), counted()] == [3, 4, 4]  # the third may not be kept
    missing = FolderCache()
    assert missing.value(str(tmp_path / "no"), lambda stamp: "a") == "a"
    assert missing.value(str(tmp_path / "no"), lambda stamp: "b") == "b"
