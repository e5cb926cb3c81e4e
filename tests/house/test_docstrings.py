"""Names in docstrings and comments exist: files, modules, and members of modules."""

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import pytest

from lps.settings.config import configure
from tests.house.sources import MODULES, ROOT, nodes
from tests.house.test_architecture import ROOMS

pytestmark = pytest.mark.slow

FILE = re.compile(r"\b((?:lps|tests|pages|docs|benchmarks)/[\w/.-]+\.(?:py|md|js|css|csv|txt))")
MODULE = re.compile(r"\b(lps(?:\.[A-Za-z_]\w*)+)")
IN_ROOM = re.compile(r"`(\w+)/(\w+)`")
WORD = re.compile(r"`([A-Za-z_]\w*)(?:\([^`]*)?`")
MEMBER = re.compile(r"`([a-z_]\w*)\.([A-Za-z_]\w*)[^`]*`")
FILE_KINDS = {"json", "jsonl", "npz", "npy", "csv", "txt", "onnx", "webp", "py", "html", "zip", "pt"}
OF_LIBRARIES = {"cumsum", "VisionTransformer", "load_state_dict"}
GONE = {"compare", "partners", "report", "style"}  # modules that were renamed; such names come back with old habits


@cache
def defined(name: str) -> set[str]:
    """What a module of ours defines or imports, its attributes included."""
    found: set[str] = set()
    for node in nodes(MODULES[name]):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def prose(path: Path) -> str:
    """Docstrings and comments."""
    documented = (n for n in nodes(path) if isinstance(n, (ast.Module, ast.FunctionDef, ast.ClassDef)))
    comments = re.findall(r"#(.*)", path.read_text(encoding="utf-8"))
    return "\n".join([*(ast.get_docstring(node) or "" for node in documented), *comments])


def words_of(name: str) -> set[str]:
    """What a docstring may call by one word: what a module defines, takes or passes as an argument, or quotes."""
    found = defined(name) | {name.rpartition(".")[2]}
    for node in nodes(MODULES[name]):
        if isinstance(node, (ast.arg, ast.keyword)):
            found.add(node.arg or "")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def is_there(dotted: str) -> bool:
    """Whether a dotted name is a module of ours, or something in one; of `lps` itself whatever it offers."""
    name, rest = dotted, ""
    while name not in MODULES:
        name, _, rest = name.rpartition(".")
    return not rest or name == "lps" or rest in defined(name)


def in_room(room: str, name: str) -> bool:
    """Whether a module or folder of a room of ours is there; what is no room may be a key of a record."""
    return room not in ROOMS.split() or any((ROOT / "lps" / room / f"{name}{end}").exists() for end in ("", ".py"))


def stale(text: str, by_name: dict[str, list[str]], settings: set[str], words: set[str]) -> list[str]:
    found = [path for path in FILE.findall(text) if not (ROOT / path).exists()]
    found += [name for name in MODULE.findall(text) if name.rpartition(".")[2] not in FILE_KINDS and not is_there(name)]
    found += [f"{room}/{name}" for room, name in IN_ROOM.findall(text) if not in_room(room, name)]
    found += [word for word in WORD.findall(text) if word not in words]
    for module, member in MEMBER.findall(text):
        if module == "lps" or f"{module}.{member}" in settings or member in FILE_KINDS:
            continue
        modules = by_name.get(module, [])
        if module in GONE or modules and not any(is_there(f"{name}.{member}") for name in modules):
            found.append(f"{module}.{member}")
    return found


@pytest.fixture(scope="module")
def known():
    """(modules by their last name, names of all settings, words that docstrings may name)."""
    by_name: dict[str, list[str]] = {}
    for name in MODULES:
        by_name.setdefault(name.rpartition(".")[2], []).append(name)
    words = set().union(*map(words_of, MODULES), dir(builtins), OF_LIBRARIES)
    return by_name, set(configure().flat()), words


def test_docstrings_and_comments_name_nothing_that_is_gone(known):
    found = {str(path.relative_to(ROOT)): stale(prose(path), *known) for path in MODULES.values()}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_stale_name_is_found(known):
    text = "`compare.score_run`, lps/gone.py, lps.store.gone, lps.store.runs.gone, `config.gone(x)`, "
    text += "`analysis/gone`, `_gone_helper`, `is_gone_too(x)`"
    assert len(stale(text, *known)) == 8
    assert stale("`store/runs`, `loss/total`, `find_run`, `_recipes`, `find_run(root, text)`", *known) == []
    assert stale("`network.name`, `split.npz`, lps/store/runs.py, lps.store.runs.Run, `lps.launch`", *known) == []
