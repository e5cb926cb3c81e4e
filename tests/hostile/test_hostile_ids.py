"""Texts that are no ids, at every way in: command line, pages, archives. One sentence each, and nothing is touched."""

import zipfile
from functools import cache
from pathlib import Path

import pytest

from lps import __main__ as command_line
from lps.__main__ import main
from lps.cli._parser import parser
from lps.errors import UserError
from lps.interop import imports
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run, find_run, list_runs, restore_run
from lps.store.runs import RUN_ID
from tests.hostile_ids import GOOD, IDS
from tests.visiting import visit, whole_form

PAGES = sorted(path.stem for path in (Path(__file__).parents[2] / "pages").glob("*.py"))


@cache
def the_parser():
    return parser()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder of runs with one run, and beside it one that nobody may reach; nothing is started."""
    monkeypatch.setattr(command_line, "parser", lambda command: the_parser())
    monkeypatch.setattr(launcher, "dispatch", lambda *given: [])
    folder, outside = tmp_path / "inside" / "runs", tmp_path / "outside"
    create_run(folder, configure({}), "mine")
    create_run(outside, configure({"lr": 0.123}), "SECRET").folder.rename(outside / GOOD)
    monkeypatch.setenv("LPS_RUNS", str(folder))
    monkeypatch.chdir(tmp_path / "inside")
    return folder


def tree(folder: Path) -> dict:
    """Everything in a folder: kind, mode, size and time of change."""
    paths = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): (p.lstat().st_mode, p.lstat().st_size, p.lstat().st_mtime_ns) for p in paths}


def passable(texts: list[str]) -> list[str]:
    """Those that a system can hand to a program at all."""
    return [text for text in texts if "\0" not in text and "\ud800" not in text]


def test_only_our_own_ids_are_ids():
    assert RUN_ID.fullmatch(GOOD)
    assert [text for text in IDS if RUN_ID.fullmatch(text)] == []


def test_nothing_but_a_listed_run_is_found(root):
    (run,) = list_runs(root)
    for text in IDS:
        with pytest.raises(UserError) as caught:
            find_run(root, text, by_path=False)
        assert is_sentence(str(caught.value))
    for text in [*IDS, str(root / run.id), str(root.parent.parent / "outside" / GOOD)]:
        with pytest.raises(UserError):
            find_run(root, text, by_path=False)
    assert find_run(root, run.id, by_path=False) == find_run(root, run.id[-6:], by_path=False) == run


def is_sentence(text: str) -> bool:
    """One printable line of a bearable length."""
    return text.isprintable() and 0 < len(text) < 600 and "Traceback" not in text


COMMANDS = {
    "show": [], "stop": [], "resume": [], "rename": ["x"], "delete": [], "restore": [], "tag": ["+x"], "note": ["x"],
    "project": [], "stop --kill": [],
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_one_sentence_and_touches_nothing(root, capsys, command):
    before = tree(root.parent.parent)
    for text in passable(IDS):
        name, *flags = command.split()
        try:
            code = main([name, *flags, "--runs", str(root), "--", text, *COMMANDS[command]])
        except SystemExit as ending:
            code = ending.code
        said = capsys.readouterr()
        assert code == 2 and said.out == "", repr(text[:50])
        assert is_sentence(said.err.rstrip("\n")), repr(text[:50])
    assert tree(root.parent.parent) == before


@pytest.mark.parametrize("command", ["compare", "report", "export archive", "record", "queue first"])
def test_commands_for_many_runs_too(root, capsys, command, tmp_path):
    before = tree(root.parent.parent)
    more = {"report": ["--to", "r.html"], "export archive": ["--into", "out"], "record": ["--to", "recorded"]}
    for text in passable(IDS):
        words = [*command.split(), *more.get(command, []), "--runs", str(root), "--", text]
        try:
            code = main(words)
        except SystemExit as ending:
            code = ending.code
        said = capsys.readouterr()
        assert code in (1, 2) and is_sentence(said.err.strip().splitlines()[-1]), (command, text[:50], said)
    assert tree(root.parent.parent) == before


KEYS = (
    "run clone sweep search epoch from cell class image cluster set name dataset method seeds state tag kl tab".split()
)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_page_takes_any_address(root, page):
    """All texts at once for every parameter, then some of them alone; what is outside is neither shown nor touched."""
    before = tree(root.parent.parent)
    texts = [text for text in IDS if "\ud800" not in text and len(text) < 1000]
    visits = [dict.fromkeys(KEYS, texts)] + [dict.fromkeys(KEYS, text) for text in texts[::17]]
    for query in visits:
        at = visit(page, **query)
        shown = "".join(str(element.value) for element in [*at.markdown, *at.caption, *at.text_input])
        assert "SECRET" not in shown and "0.123" not in shown and "root:" not in shown
    assert tree(root.parent.parent) == before


def test_a_copy_is_of_a_listed_run_only(root):
    """The way in that took a path: the form filled from a folder that has the name of a run, wherever it is."""
    at = whole_form(clone=str(root.parent.parent / "outside" / GOOD))
    assert at.text_input(key="set:lr").value != "0.123" and "cannot be copied" in at.warning[0].value


def test_trash_gives_nothing_else_back(root):
    for text in IDS:
        with pytest.raises(UserError) as caught:
            restore_run(root, text)
        assert is_sentence(str(caught.value))


def test_archives_with_such_names_bring_nothing_in(root, tmp_path):
    before = tree(root.parent.parent)
    path = tmp_path / "elsewhere.zip"
    theirs = [text for text in passable(IDS) if len(text) < 1000 and text != f"{GOOD}/"]  # two slashes are one
    for text in theirs:
        for member in (f"{text}/config.json", f"{GOOD}/../{text}"):
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(zipfile.ZipInfo(member), configure({}).to_json())
            with pytest.raises(UserError) as caught:
                imports.import_runs(path, root)
            assert is_sentence(str(caught.value))
            path.unlink()
    waiting = root / ".incoming"
    assert not (waiting.exists() and list(waiting.iterdir()))
    assert set(tree(root.parent.parent)) - {"inside/runs/.incoming"} == set(before) - {"inside/runs/.incoming"}


def test_links_among_the_runs_are_not_followed(root, tmp_path):
    secret = tmp_path / "outside" / GOOD
    (root / GOOD).symlink_to(secret)
    assert [run.id for run in list_runs(root)] != [GOOD] and len(list_runs(root)) == 1
    with pytest.raises(UserError):
        find_run(root, GOOD)
    (run,) = list_runs(root)
    for name in ("config.json", "meta.json"):
        (run.folder / name).unlink()
        (run.folder / name).symlink_to(secret / name)
    assert run.state().name == "unreadable" or run.config().lr != 0.123
    assert run.meta()["name"] != "SECRET"
