"""Public names (without an underscore) are used in another file of ours."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from lps.scores.estimates import INTERVAL
from tests.house.sources import source

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lps", "pages", "tests", "benchmarks", "docs")
READ = [
    ROOT / "app.py",
    *(path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.suffix in (".py", ".md")),
]


def public(tree: ast.Module) -> set[str]:
    """Functions, classes and constants of a module, and the classes that their signatures show to callers left out."""
    named = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    told = {word for node in named if node.name[0] != "_" for word in _annotations(node)}
    found = {node.name for node in named} | {
        node.id for t in targets for node in ast.walk(t) if isinstance(node, ast.Name)
    }
    return {name for name in found if name[0] != "_"} - told


def _annotations(node: ast.AST) -> set[str]:
    parts = [x for n in ast.walk(node) for x in (getattr(n, "annotation", None), getattr(n, "returns", None)) if x]
    return {word for part in parts for word in re.findall(r"\w+", ast.unparse(part))}


@pytest.mark.slow
def test_what_one_file_uses_alone_begins_with_an_underscore():
    words = {path: set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) for path in READ}
    files = Counter(word for found in words.values() for word in found)
    alone = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in words
        if path.is_relative_to(ROOT / "lps") and path.suffix == ".py"
        for name in public(source(path))
        if files[name] < 2
    }
    assert not alone


def test_the_confidence_of_intervals_is_typed_once():
    """Pages, tables and benchmarks follow `estimates.INTERVAL_CONFIDENCE`; two recorded studies keep theirs."""
    recorded = {"lps/ui/explain/plane.py", "lps/ui/explain/what_if.py"}
    sources = [path for folder in ("lps", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert {str(path.relative_to(ROOT)) for path in sources if INTERVAL in path.read_text()} <= recorded


def test_limits_are_named_max_and_min():
    limit = re.compile(r"\b_?(?:MOST|LEAST)(?:_[A-Z]\w*)?\b")
    sources = [*(ROOT / "lps").rglob("*.py"), *(ROOT / "lps").rglob("*.js")]
    assert not [(path, name) for path in sources for name in limit.findall(path.read_text(encoding="utf-8"))]
