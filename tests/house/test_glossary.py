"""Retired words of the glossary are in no text that users read."""

import ast
import re
from functools import cache
from pathlib import Path

from tests.house.sources import nodes

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
RETIRED = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| \*\*.+\|.+\|(.+)\|$", GLOSSARY, re.MULTILINE)))
SOURCES = [ROOT / "app.py", *sorted((ROOT / "pages").glob("*.py")), *sorted((ROOT / "lps" / "ui").rglob("*.py"))]
SOURCES += [path for room in ("cli", "methods") for path in sorted((ROOT / "lps" / room).glob("*.py"))]


@cache
def sentences(path: Path) -> list[str]:
    """The texts in a file that are words to people: of two words or more, and no docstring."""
    found = nodes(path)
    docstrings = {
        id(node.body[0].value)
        for node in found
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    texts = [node for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node.value for node in texts if id(node) not in docstrings and re.search(r"\w+ +\w+", node.value)]


def test_the_glossary_retires_words():
    assert len(RETIRED) > 10 and "ground truth" in RETIRED


def test_who_is_new_reads_of_pictures_and_of_no_image():
    """As the glossary says; everywhere else the words behind `image` and `picture` tell which of both is right."""
    found = [path for path in SOURCES if path.parent.name in ("home", "story")]
    texts = [text for path in found for text in sentences(path)]
    assert sum(bool(re.search(r"\bpictures?\b", text, re.IGNORECASE)) for text in texts) > 10
    assert not [text for text in texts if re.search(r"\bimages?\b", text, re.IGNORECASE)]


def test_retired_words_do_not_come_back():
    words = "|".join(map(re.escape, RETIRED))
    found = re.compile(rf"(?<![\w.=/])(?:{words})s?(?![\w.=/])", re.IGNORECASE)
    assert not [f"{path.name}: {text}" for path in SOURCES for text in sentences(path) if found.search(text)]
