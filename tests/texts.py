"""List every text that users can see: `python -m tests.texts [FILE]`.

One line per text: file, line, text. It finds the strings of `app.py`, `pages/` and `lps/` that are sentences or labels:
of widgets, help, errors, the command line, options, empty states and alternative texts. Read the list from its first
line to its last, as a reader who does not know the program (docs/style.md).
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.sources import nodes_of

ROOT = Path(__file__).parent.parent
WORDS = re.compile(r"[A-Za-z][\w'’-]*[,;:.]? +[\w{$(\"'“]*[A-Za-z{]")  # two words, one after the other
LABEL = re.compile(r"[A-Z][a-z]{2,}[\w -]*")  # a single word that begins with a capital, as labels do
CODE = re.compile(  # tags, styles, scripts, patterns, paths of drawings, selectors
    r"^\s*[<.#@]|[a-z-]+: ?[\w#(][^.]*;|\bfunction\b|=>|^(?:default-src|image/)|\(\?[:P<]|\\[dsw]"
    r"|^M[\d.]+ ?[\d.]|\[contenteditable|[\d}]px\b"
)
JS_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
TEMPLATE_TEXT = re.compile(r">([^<>{}%]*[A-Za-z]{2}[^<>{}%]*)<|(?:title|aria-label|alt)=\"([^\"{]+)\"")
_NOT_SHOWN = {"TypeVar", "NewType", "getLogger", "compile", "import_module", "get", "getenv", "assert_never"}


class Text(NamedTuple):
    file: str  # below the root
    line: int
    text: str  # fields of an f-string as {expression}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\t{self.text}"


def is_shown(text: str, is_label: bool = False) -> bool:
    """Return whether a string is a text for users: at least two words, or one with a capital if labels stand there."""
    text = text.strip()
    return not CODE.search(text) and bool(WORDS.search(text) or is_label and LABEL.fullmatch(text))


def texts_of_python(source: str, file: str) -> Iterator[Text]:
    """Return the texts of a Python file in its order, without docstrings and type annotations."""
    nodes = nodes_of(source)
    left_out, labels = set(), set()
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # docstrings
            left_out.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in ast.walk(node) if part is not node)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            (left_out if name in _NOT_SHOWN else labels).update(map(id, node.args))
            labels.update(id(keyword.value) for keyword in node.keywords)
            left_out.update(id(keyword.value) for keyword in node.keywords if keyword.arg == "key")
        elif isinstance(node, ast.Subscript):
            left_out.add(id(node.slice))
        elif isinstance(node, (ast.Dict, ast.Tuple, ast.List)):
            labels.update(map(id, node.values if isinstance(node, ast.Dict) else node.elts))
        elif isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation:
            told = [part for part in ast.walk(node.annotation) if isinstance(part, ast.Call)]  # ParameterDocs(...)
            if isinstance(node.annotation, ast.Subscript) and ast.unparse(node.annotation.value) == "Annotated":
                told += [part for part in node.annotation.slice.elts[1:] if isinstance(part, ast.Constant)]
            meant = {id(part) for one in told for part in ast.walk(one)}
            left_out.update(id(part) for part in ast.walk(node.annotation) if id(part) not in meant)
    found = []
    for node in nodes:
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(_part(part) for part in node.values)
        else:
            continue
        if is_shown(text, id(node) in labels):
            found.append((node.lineno, node.col_offset, Text(file, node.lineno, " ".join(text.split()))))
    yield from (text for *_, text in sorted(found))


def _part(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) else f"{{{ast.unparse(node.value)}}}"


def texts_of_script(source: str, file: str) -> Iterator[Text]:
    """Return the texts of a JavaScript file: its strings on one line, without comments."""
    for number, line in enumerate(source.split("\n"), 1):
        if not line.lstrip().startswith(("//", "*", "/*")):
            for match in JS_STRING.finditer(line):
                text = match[1] or match[2] or ""
                if is_shown(text):
                    yield Text(file, number, text)


def texts_of_template(source: str, file: str) -> Iterator[Text]:
    """Return the texts of an HTML template: between tags, and in titles and labels."""
    for number, line in enumerate(source.split("\n"), 1):
        for match in TEMPLATE_TEXT.finditer(line):
            yield Text(file, number, (match[1] or match[2]).strip())


def texts_of_method(source: str, file: str) -> Iterator[Text]:
    """Return the sections of a method's docstring that pages and `methods` show, without formulas and citations."""
    summary, *sections = re.split(r"(?m)^([A-Z]\w+):\n", ast.get_docstring(ast.parse(source)) or "")
    yield Text(file, 1, summary.strip())
    for head, body in zip(sections[::2], sections[1::2]):
        if head not in ("Citation", "Objective"):
            yield Text(file, 1, f"{head}: {' '.join(body.split())}")


def texts() -> Iterator[Text]:
    """Return all texts, by page and by room."""
    paths = [ROOT / "app.py", *sorted((ROOT / "pages").glob("*.py")), *sorted((ROOT / "lps" / "ui").rglob("*.py"))]
    paths += sorted(set((ROOT / "lps").rglob("*.py")).difference(paths)) + sorted((ROOT / "lps").rglob("*.js"))
    for path in paths:
        read = texts_of_python if path.suffix == ".py" else texts_of_script
        if ".min." not in path.name and "vendor" not in path.parts:
            yield from read(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    for path in sorted((ROOT / "lps").rglob("*.html.j2")):
        yield from texts_of_template(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    for path in sorted((ROOT / "lps" / "methods").glob("[a-z]*.py")):
        yield from texts_of_method(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.texts", description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="where to write the list; default: the terminal")
    lines = "\n".join(map(str, texts())) + "\n"
    if file := parser.parse_args().file:
        file.write_text(lines, encoding="utf-8")
    else:
        sys.stdout.write(lines)
