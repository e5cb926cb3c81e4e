"""Commands and code of README and docs/: the program accepts every line, and lines that can run do work."""

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from lps.cli._parser import parser

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )?(?:python -m )?lps (.+)")
NEVER = ("...", "COMMAND", "`")  # an example of a form, not a command


def commands(page: Path) -> list[str]:
    """The commands of the program in the blocks of a page; lines that end with a backslash are joined."""
    blocks = [text.replace("\\\n", " ") for _, text in BLOCK.findall(page.read_text("utf-8"))]
    lines = [line.strip() for text in blocks for line in text.splitlines()]
    return [line for line in lines if COMMAND.match(line) and not any(word in line for word in NEVER)]


def test_every_file_of_the_formats_is_one_that_the_program_names():
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    named = set(re.findall(r"`([\w.]+\.(?:jsonl?|np[yz]|parquet|onnx|log|csv|pt))`", text)) - {"NAME.jsonl"}
    program = "".join(path.read_text("utf-8") for path in (ROOT / "lps").rglob("*.py"))
    assert len(named) > 25 and not [name for name in sorted(named) if name not in program]


def words_of(command: str) -> list[str]:
    """What stands after the name of the program, without the comment."""
    return shlex.split(COMMAND.match(command)[1], comments=True)


@cache
def the_parser():
    return parser()


def refusal(line: str) -> str:
    """What the parser says against a command; empty if it takes it."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            the_parser().parse_args(words_of(line))
    except SystemExit:
        return f"{line}: {said.getvalue()}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_is_one_that_the_program_takes_and_every_block_of_python_compiles(page):
    assert [said for said in map(refusal, commands(page)) if said] == []
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        if language == "python":
            compile(text, str(page), "exec")


def test_commands_are_found():
    assert sum(len(commands(page)) for page in PAGES) > 60
    assert refusal("python -m lps train --no-such-option")


def test_every_link_of_readme_leads_somewhere():
    """Those of docs/ are checked when the site is built."""
    text = (ROOT / "README.md").read_text("utf-8")
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert len(links) > 15 and [path for path, _, _ in links if not (ROOT / path).exists()] == []
    for path, _, anchor in links:
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text("utf-8"), re.M) if anchor else []
        assert not anchor or anchor in [heading.lower().replace(" ", "-") for heading in headings]


def test_readme_is_short():
    """A section per user, each at most 40 lines."""
    sections = re.split(r"(?m)^## ", (ROOT / "README.md").read_text("utf-8"))[1:]
    lengths = {text.splitlines()[0]: len(text.splitlines()) for text in sections}
    assert {"For teachers", "For researchers", "For practitioners"} <= set(lengths) and max(lengths.values()) < 40
