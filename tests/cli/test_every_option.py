"""Every option and place of every command, as the parser lists them, is told what no terminal and no file should be.

Dashes alone, control characters, escape sequences, line breaks, nothing, pipes, 10,000 characters: the answer is a
proper one, or exit code 2 and one short printable line; nothing is written then, nothing waits, nothing breaks off.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from lps import __main__ as command_line
from lps.cli import _parser
from lps.errors import UserError
from lps.settings.config import protocol_parameters
from lps.store.runs import State
from tests.hostile.test_bad_input import options, spelled, the_parser
from tests.hostile_ids import GOOD
from tests.shares import share

PATIENCE_S = 20  # of one command, on a busy machine; what waits for a pipe waits for ever
LONG, LONGEST = 10_000, 250  # characters: of a text, and of what is quoted of it
TEXTS = {
    "dashes": "--", "a dash": "-", "nothing": "", "a space": " ", "a line break": "a\nb", "only line breaks": "\n\n",
    "a return": "a\rb", "a bell": "\a", "colours": "\x1b[31mred\x1b[0m", "a title": "\x1b]0;owned\x07", "c1": "\x9b2J",
    "a line separator": "a\u2028b", "backwards": "\u202eabc", "no text": "a\udcff", "a zero": "a\0b",
    "long": "A" * LONG, "long and wide": "é" * LONG, "many words": "ab " * (LONG // 3),
    "many commas": "1," * (LONG // 2),
    "many folders": "a/" * (LONG // 2), "many breaks": "\n" * LONG, "a number": "9" * LONG, "a pipe": "pipe",
    "a run of pipes": GOOD, "a pipe in a run": f"{GOOD}/config.json", "below a pipe": "pipe/x",
    "an archive": "pipe.zip", "a table": "pipe.csv", "a page": "pipe.html",
}  # fmt: skip
PIECES = [text[:LONGEST] for text in TEXTS.values() if len(text) > LONGEST]
BESIDE = {"Traceback", "object at 0x"}  # what no person should read


def forms(action, text: str) -> list[str]:
    """The text by itself, and where an option takes NAME=VALUE, as the name and as every text and one number."""
    if "=" not in str(action.metavar):
        return [text]
    names = [name for name, known in protocol_parameters().items() if known.kind == "str" and not known.choices]
    return [text, f"{text}=1", *(f"{name}={text}" for name in [*names, "epochs", "margin_scale"])]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """An empty folder to be in, but for pipes in all the places where the texts look for something."""
    place = tmp_path / "here"
    (place / GOOD).mkdir(parents=True)
    for name in ("pipe", "pipe.zip", "pipe.csv", "pipe.html", *(f"{GOOD}/{name}" for name in ("config.json", "lock"))):
        os.mkfifo(place / name)
    monkeypatch.chdir(place)
    monkeypatch.setattr(command_line, "parser", lambda command: the_parser())
    return place


@pytest.fixture(autouse=True)
def nothing_begins(monkeypatch):
    """What is in order is laid out and written as usual, and not carried out."""
    over = State("finished")
    monkeypatch.setattr("lps.scheduler.launcher.launch", lambda run, **how: None)
    monkeypatch.setattr("lps.scheduler.launcher.launch_all", lambda *arguments, **how: None)
    monkeypatch.setattr("lps.scheduler.launcher.dispatch", lambda root, *rest: [])
    monkeypatch.setattr("lps.doctor.diagnostic.Machine.imports", lambda machine, names: {"said": {}, "cuda": {}})
    monkeypatch.setattr("lps.cli._follow.follow", lambda run: over)
    monkeypatch.setattr("os.execve", _not_here)
    monkeypatch.setattr("lps.studies.search.start_driver", lambda search: True)
    monkeypatch.setattr("lps.studies.search_driver.start_search", lambda *arguments: "finished")
    monkeypatch.setattr("lps.interop.recording._write_epochs", lambda *arguments: None)
    for name in ("lps.training.pretrain.pretrain_alone", "lps.studies.class_search.search_count",
                 "lps.data.sources.fetch",
                 "lps.data.features.build_store"):  # fmt: skip
        monkeypatch.setattr(name, _not_here)


def _not_here(*arguments, **options):
    raise UserError("test", "nothing is carried out here")


def snapshot(place) -> set:
    """Everything below, with the time of its last change; asked for before and after each of thousands of commands."""
    found = set()
    for folder, folders, files in os.walk(place):
        found |= {(path, os.lstat(path).st_mtime_ns) for path in (f"{folder}/{name}" for name in folders + files)}
    return found


@contextlib.contextmanager
def patience(arguments):
    """Fails where the inside takes longer than `PATIENCE_S`."""

    def ring(number, frame):
        raise AssertionError(f"{arguments} wait")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def answer(arguments, world, capsys) -> str:
    """What is said; fails where it is no answer."""
    shown = [word[:60] for word in arguments]
    before = snapshot(world)
    with patience(shown):
        try:
            code = command_line.main(arguments)
        except SystemExit as stop:
            code = stop.code or 0
    said = capsys.readouterr()
    lines = said.err.split("\n")[:-1]
    assert code in (0, 1, 2), (shown, code, said)
    assert said.err.endswith("\n") == bool(said.err) and len(lines) <= 8, (shown, code, said)
    assert all(line.isprintable() and len(line) <= 2000 for line in lines), (shown, code, said.err[:3000])
    assert "\x1b" not in said.out and not any(words in said.err for words in BESIDE), (shown, code, said)
    assert not [line for line in lines for piece in PIECES if piece in line], (shown, code, said)
    if code == 2:
        assert len(lines) == 1 and snapshot(world) == before, (shown, said, snapshot(world) ^ before)
    elif snapshot(world) != before:
        clear(world)
    return said.err


def clear(world) -> None:
    """Take away what a proper answer has written."""
    for path in world.iterdir():
        if not path.name.startswith("pipe") and path.name != GOOD:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def spellings(path, action, text: str) -> Iterator[list[str]]:
    """The ways to tell a command the text: an option's, or a place's before and after the end of options."""
    for form in forms(action, text):
        if not path:
            yield [f"{action.option_strings[0]}={form}"]
            continue
        words = spelled(path, action, form)
        runs = [] if action.dest == "runs" else ["--runs", "runs"]
        yield [*words[:1], *runs, *words[1:]]
        if not action.option_strings and form.startswith("-"):
            at = words.index(form)
            yield [*words[:1], *runs, *words[1:at], "--", *words[at:]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "number, path, action",
    [
        pytest.param(number, *item, id=f"{' '.join(item[0])} {item[1].dest}")
        for number, item in enumerate(options(with_all=True))
    ],
)
def test_every_option_answers_to_everything(number, path, action, world, capsys):
    """Each option to a sixth of the texts, and each text by thirty options or more."""
    for text in share(list(TEXTS.values()), number, 6):
        for words in spellings(path, action, text):
            answer(words, world, capsys)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_commands_and_options_that_there_are_not(text, world, capsys):
    for words in ([text], ["queue", text], ["list", "--runs", "runs", f"--{text}"], ["list", "--runs", "runs", text]):
        answer(words, world, capsys)


@pytest.mark.slow
def test_the_folder_of_the_environment_is_checked_like_the_option(world, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "parser", _parser.parser)
    for text in (text for text in TEXTS.values() if "\0" not in text):
        monkeypatch.setenv("LPS_RUNS", text)
        answer(["list"], world, capsys)
