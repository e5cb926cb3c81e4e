"""Browsing folders of this machine: the home and allowed folders, and no others."""

import pytest

from lps.errors import UserError
from lps.files import browsable_folders


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LPS_FOLDERS", raising=False)
    for name in ("home/b", "home/a", "home/.hidden", "disk/pictures"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home" / "way out").symlink_to(tmp_path / "disk")
    (tmp_path / "home" / "a file").write_text("x")
    return tmp_path / "home"


def test_sub_folders_are_listed_without_hidden_ones_and_links(home):
    assert browsable_folders.allowed_roots() == [home]
    assert browsable_folders.list_subfolders(home) == [home / "a", home / "b"]
    assert browsable_folders.check_folder("~/a") == home / "a"


@pytest.mark.parametrize("where", ["home/way out", "home/../disk", "disk", "/"])
def test_what_lies_elsewhere_is_refused_until_it_is_allowed(home, monkeypatch, where):
    with pytest.raises(UserError, match="is not inside .*; set LPS_FOLDERS=FOLDER"):
        browsable_folders.check_folder(home.parent / where)
    monkeypatch.setenv("LPS_FOLDERS", f"{home.parent / 'disk'}:/")
    assert browsable_folders.check_folder(home.parent / where).is_dir()
    assert home.parent / "disk" in browsable_folders.allowed_roots()


@pytest.mark.parametrize("text", ["~nobody-of-that-name/a", "no\0thing", "a file", "x" * 5000])
def test_what_is_no_folder_is_one_sentence(home, monkeypatch, text):
    monkeypatch.chdir(home)
    with pytest.raises(UserError, match="is not a folder|cannot be read"):
        browsable_folders.check_folder(text)
    assert browsable_folders.check_folder("somewhere/../a") == home / "a"
