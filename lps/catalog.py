"""Which methods and data sets exist and what they can be told, read from their source without importing anything.

The folder listings are the registries. A data set is a file in `lps/datasets` with the constants TITLE, SUMMARY, RECIPE
(settings by key) and, where it cannot do without `dataset.path`, PATH (what that is). A method is a file whose one
class has the keyword-only arguments of `__init__` written as
`name: Annotated[type, "meaning", (minimum, maximum)] = default`. `type` may be a `Literal` of strings, or
`float | None` where none means a value that the method chooses.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from lps.parameters import ConfigError, Parameter, shorten

METHODS = Path(__file__).parent / "methods"
DATASETS = Path(__file__).parent / "datasets"
FIRST_DATASETS = ("digits", "folder", "arrays")  # of a menu: needs nothing, and one's own


@dataclass(frozen=True)
class MethodInfo:
    """What a method's module says of itself."""

    name: str
    title: str
    summary: str
    sections: dict[str, str]  # of the module docstring: "Objective", "Citation", "Deviations", ...
    parameters: dict[str, Parameter]
    distributes: bool  # whether several processes can train it together
    seen_is_aligned: bool  # whether ids below `seen` mean the seen classes; else their accuracy is matched
    trains: bool = True  # whether anything comes after the start weights


@dataclass(frozen=True)
class DatasetInfo:
    """What a data set's module says of itself."""

    name: str
    title: str
    summary: str
    recipe: dict[str, object]  # settings by key that it recommends
    path: str = ""  # what `dataset.path` is, where the data set cannot do without it


def method_names() -> list[str]:
    """The names that `--method` takes, in alphabetical order."""
    return _modules(METHODS)


def dataset_names() -> list[str]:
    """The names that `--dataset` takes, in alphabetical order."""
    return _modules(DATASETS)


def dataset_titles() -> dict[str, str]:
    """Title of every data set by name, as a menu shows them: what is there at once, one's own, then the others."""
    return {name: dataset_info(name).title for name in dict.fromkeys((*FIRST_DATASETS, *dataset_names()))}


def method_titles() -> dict[str, str]:
    """Title of every method by name, as a menu shows them: LPS, then the others."""
    return {name: method_info(name).title for name in dict.fromkeys(("lps", *method_names()))}


def method_info(name: str) -> MethodInfo:
    """The description of one method; raises `ConfigError` for a name that has no file."""
    if name not in method_names():
        raise ConfigError("method", f"{shorten(name)} is not one of {', '.join(method_names())}")
    return _read_method(METHODS / f"{name}.py")


def dataset_info(name: str) -> DatasetInfo:
    """The description of one data set; raises `ConfigError` for a name that has no file."""
    if name not in dataset_names():
        raise ConfigError("dataset", f"{shorten(name)} is not one of {', '.join(dataset_names())}")
    return _read_dataset(DATASETS / f"{name}.py")


def _modules(folder: Path) -> list[str]:
    return list(_modules_at(folder, folder.stat().st_mtime_ns))


@lru_cache(maxsize=16)
def _modules_at(folder: Path, changed: int) -> tuple[str, ...]:
    """The names as they are since `changed`: lists of thousands of runs ask for the title of every method."""
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")))


@cache
def _read_dataset(path: Path) -> DatasetInfo:
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and node.targets[0].id in ("TITLE", "SUMMARY", "RECIPE", "PATH")
    }
    return DatasetInfo(
        path.stem, constants["TITLE"], constants["SUMMARY"], constants["RECIPE"], constants.get("PATH", "")
    )


@cache
def _read_method(path: Path) -> MethodInfo:
    """What the file says; raises `ConfigError` where it is not written as `lps.methods` asks."""
    try:
        return _described(path, ast.parse(path.read_text(encoding="utf-8")))
    except (SyntaxError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise ConfigError(
            "method", f"{path.name} is not written as lps/methods/__init__.py asks ({str(error).partition(chr(10))[0]})"
        ) from None


def _described(path: Path, tree: ast.Module) -> MethodInfo:
    summary, sections = _docstring_sections(ast.get_docstring(tree) or "")
    title = summary.split(":")[0].strip()
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef) and _is_method(node))
    inits = [item.args for item in body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    parameters = [
        _parameter(argument, default) for own in inits for argument, default in zip(own.kwonlyargs, own.kw_defaults)
    ]
    distributes = _constant(body, "distributes", default=True)
    aligned = _constant(body, "seen_is_aligned", default=True)
    trains = _constant(body, "trains", default=True)
    own = {p.name: p for p in parameters}
    return MethodInfo(path.stem, title, summary, sections, own, distributes, aligned, trains)


def _is_method(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Method" for base in node.bases)


def _constant(body: list[ast.stmt], name: str, default):
    """The value of a class attribute that is written as a literal."""
    for item in body:
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        if isinstance(item, (ast.Assign, ast.AnnAssign)) and getattr(target, "id", None) == name:
            return ast.literal_eval(item.value)
    return default


def _docstring_sections(text: str) -> tuple[str, dict[str, str]]:
    """First line, and the paragraphs under every heading that stands alone on a line and ends with a colon."""
    first, _, rest = text.partition("\n")
    parts = re.split(r"(?m)^([A-Z][A-Za-z ]*):[ \t]*\n", rest)
    bodies = {head: re.sub(r"(?m)^    ", "", body).strip() for head, body in zip(parts[1::2], parts[2::2])}
    return first.strip(), bodies


def _parameter(argument: ast.arg, default: ast.expr) -> Parameter:
    kind, meaning, *limits = argument.annotation.slice.elts
    choices = ()
    optional = isinstance(kind, ast.BinOp)
    if optional:  # float | None
        kind = kind.left
    if isinstance(kind, ast.Subscript):  # Literal["a", "b"]
        choices = tuple(ast.literal_eval(kind.slice)) if isinstance(kind.slice, ast.Tuple) else (kind.slice.value,)
    low, high = ast.literal_eval(limits[0]) if limits else (None, None)
    return Parameter(
        name=argument.arg,
        kind="str" if choices else kind.id,
        default=ast.literal_eval(default),
        help=ast.literal_eval(meaning),
        minimum=low,
        maximum=high,
        choices=choices,
        optional=optional,
    )
