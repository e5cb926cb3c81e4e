"""The sources of the program and their syntax trees, parsed once for all tests of this folder."""

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lps"


def modules() -> dict[str, Path]:
    """Dotted name of every module of ours -> its file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@cache
def source(path: Path) -> ast.Module:
    return parse(path.read_text(encoding="utf-8"))


def nodes(path: Path) -> list[ast.AST]:
    return nodes_of(path.read_text(encoding="utf-8"))


@cache
def parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    finally:
        gc.freeze()  # a million nodes that stay need not be looked through for garbage: a third of the time


@cache
def nodes_of(text: str) -> list[ast.AST]:
    """All nodes of a source; every test of this folder reads the same ones."""
    return list(ast.walk(parse(text)))
