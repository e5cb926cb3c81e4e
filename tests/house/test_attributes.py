"""Every attribute that a file uses of another of our modules exists, so that moved names are noticed before a page is
opened.
"""

import ast
from collections.abc import Sequence
from functools import cache

import pytest

from tests.house.sources import MODULES, nodes


@cache
def top_level(name: str) -> set[str]:
    """The names that a module defines or imports."""
    found = set()
    for node in nodes(MODULES[name]):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return found


def missing(elements: Sequence[ast.AST]) -> list[str]:
    """module.name for everything that is imported or used of one of our modules and that it does not have."""
    ours, rebound, found = {}, set(), []
    for node in elements:
        if isinstance(node, ast.ImportFrom) and node.module:
            ours |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            if node.module in MODULES:
                absent = {alias.name for alias in node.names} - top_level(node.module) - {"__path__"}
                found += [f"{node.module}.{name}" for name in absent if f"{node.module}.{name}" not in MODULES]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            rebound.add(node.id)
        elif isinstance(node, ast.arg):
            rebound.add(node.arg)
    for node in elements:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = ours.get(node.value.id, "")
            is_named = module in MODULES and node.value.id not in rebound and not node.attr.startswith("__")
            if is_named and f"{module}.{node.attr}" not in MODULES and node.attr not in top_level(module):
                found.append(f"{module}.{node.attr}")
    return found


@pytest.mark.slow
def test_what_is_taken_from_another_module_is_there():
    assert {name: found for name, path in MODULES.items() if (found := missing(nodes(path)))} == {}


def test_what_is_not_there_is_seen():
    tree = ast.parse("from lps.ui.forms import fields\nfields.nothing()")
    assert missing([*ast.walk(tree)]) == ["lps.ui.forms.fields.nothing"]
    assert missing([*ast.walk(ast.parse("from lps.errors import UserError, NOTHING"))]) == ["lps.errors.NOTHING"]
