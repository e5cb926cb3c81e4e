"""List the methods and data sets with their settings. Every file in their folders is an entry.

A data set is a file in `lps/datasets`, imported for its constants: TITLE, SUMMARY and RECIPE (settings by key), and the
optional RECIPE_BY_METHOD (further settings by method), CLASSES (their number, if it is fixed), PATH (what
`dataset.path` must be, if it is needed) and NOUN (what an item is called, if it is no picture). A data set of users'
own pictures has `is_coloured(path)`, which is asked before anything is loaded.

A method needs torch, which pages and most commands do not load, so its file is parsed, not imported: it has one class
whose keyword-only arguments of `__init__` are written as `name: Annotated[type, "meaning", (minimum, maximum)] =
default`. `type` may be a `Literal` of strings, or `float | None` where None means a value that the method chooses. A
last `ParameterDocs(group="...")` (`lps.settings.parameters`) has the heading for forms and further documentation. A
class that is also derived from the class of another method file (`class Mine(Distilled, Method)`) has the arguments of
both.

A file that does not follow this is not listed; `broken_methods` and `broken_datasets` say why. Importing a method's
file may only run imports and constants, so that parsing finds most errors that importing would.
"""

import ast
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from lps.errors import UserError, shorten, shown
from lps.settings.parameters import Parameter, ParameterDocs

_PACKAGE = Path(__file__).parent.parent
METHODS, DATASETS = _PACKAGE / "methods", _PACKAGE / "datasets"
_FIRST_DATASETS = ("digits", "folder", "shards", "arrays", "embeddings")  # first in menus: no download, or own data
_NEEDED = {"TITLE": str, "SUMMARY": str, "RECIPE": dict, "load": Callable}  # type of each attribute of a data set
_OPTIONAL = {
    "RECIPE_BY_METHOD": dict,
    "PATH": str,
    "CLASSES": int,
    "NOUN": str,
    "stamp": Callable,
    "fetch": Callable,
    "is_coloured": Callable,
}
_PLAIN = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef)  # beside the docstring
# Defaults of a method's class attributes.
_FACTS = {"distributes": True, "seen_is_aligned": True, "trains": True, "uses_prior": False}
# Filled by `lps.settings.config`, which knows the settings: check(settings, method or "") raises `UserError`.
recipe_checks: list[Callable[[dict, str], object]] = []


@dataclass(frozen=True)
class MethodInfo:
    """Description of a method, read from its module."""

    name: str
    title: str
    summary: str
    sections: dict[str, str]  # of the module docstring: "Objective", "Citation", "Deviations", ...
    parameters: dict[str, Parameter]
    distributes: bool  # whether several processes can train it together
    seen_is_aligned: bool  # whether ids below `seen` mean the seen classes; else their accuracy is matched
    trains: bool = True  # whether anything comes after the start weights
    uses_prior: bool = False  # whether a term of its loss expects class shares


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set, read from its module."""

    name: str
    title: str
    summary: str
    recipe: dict[str, object]  # settings by key that it recommends
    path: str = ""  # what `dataset.path` must be, if the data set needs it
    classes: int | None = None  # their number, if it does not depend on files
    is_own: bool = False  # whether the user brings the pictures
    recipe_by_method: dict[str, dict[str, object]] = field(default_factory=dict)  # further settings by method
    noun: str = "picture"  # what pages call an item


def method_names() -> list[str]:
    """Return the names that `--method` takes, in alphabetical order."""
    return [name for name, info in _all(METHODS).items() if not isinstance(info, str)]


def dataset_names() -> list[str]:
    """Return the names that `--dataset` takes, in alphabetical order."""
    return [name for name, info in _all(DATASETS).items() if not isinstance(info, str)]


def broken_methods() -> dict[str, str]:
    """Return why a method's file cannot be used, by name. `methods.build` finds the errors that need torch."""
    return {name: info for name, info in _all(METHODS).items() if isinstance(info, str)}


def broken_datasets() -> dict[str, str]:
    """Return the reason, one sentence by name, why a data set's file cannot be used."""
    return {name: info for name, info in _all(DATASETS).items() if isinstance(info, str)}


def dataset_titles() -> dict[str, str]:
    """Return the title of every data set by name in menu order: without download, own data, then the others."""
    names = dataset_names()
    return {name: dataset_info(name).title for name in dict.fromkeys((*_FIRST_DATASETS, *names)) if name in names}


def method_titles() -> dict[str, str]:
    """Return the title of every method by name in menu order: LPS (unless its file is broken), then the others."""
    names = method_names()
    return {name: method_info(name).title for name in dict.fromkeys(("lps", *names)) if name in names}


def dataset_fingerprint(dataset: str, method: str) -> tuple:
    """Return when the files of a data set and a method were last changed; None for a missing file."""
    paths = (DATASETS / f"{dataset}.py", METHODS / f"{method}.py")
    return tuple(os.stat(path).st_mtime_ns if path.exists() else None for path in paths)


def method_info(name: str) -> MethodInfo:
    """Return the description of a method; raises `UserError` if its file is missing or broken."""
    if name not in _modules(METHODS):
        raise UserError("method", f"{shorten(name)} is not one of {', '.join(method_names())}")
    return _refuse_broken("method", _read(METHODS, name))


def dataset_info(name: str) -> DatasetInfo:
    """Return the description of a data set; raises `UserError` if its file is missing or broken."""
    check_dataset(name)
    return _refuse_broken("dataset", _read(DATASETS, name))


def check_dataset(name: str) -> None:
    """Raise `UserError` if a data set has no file. Nothing is imported, so runs on a broken data set can be read."""
    if name not in _modules(DATASETS):
        raise UserError("dataset", f"{shorten(name)} is not one of {', '.join(dataset_names())}")


def _modules(folder: Path) -> tuple[str, ...]:
    return _modules_at(folder, os.stat(folder).st_mtime_ns)


@lru_cache(maxsize=16)
def _modules_at(folder: Path, changed: int) -> tuple[str, ...]:
    """Return the module names of a folder changed at `changed` (cached, since long lists ask for every title)."""
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")))


def _all(folder: Path) -> dict[str, MethodInfo | DatasetInfo | str]:
    return {name: _read(folder, name) for name in _modules(folder)}


def _refuse_broken(setting: str, info: MethodInfo | DatasetInfo | str):
    if isinstance(info, str):
        raise UserError(setting, info)
    return info


def _read(folder: Path, name: str) -> MethodInfo | DatasetInfo | str:
    """Return the description in the file, or one sentence why it cannot be used."""
    try:
        return _read_at(folder, name, os.stat(f"{folder}/{name}.py").st_mtime_ns)
    except OSError as error:
        return f"{name}.py cannot be read ({error.strerror})"


@lru_cache(maxsize=256)
def _read_at(folder: Path, name: str, changed: int) -> MethodInfo | DatasetInfo | str:
    path = folder / f"{name}.py"
    try:
        return _parse_method(path) if path.parent == METHODS else _import_dataset(path)
    except UserError as error:
        reason = str(error)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        reason = error_in_words(error)
    return f"{path.name} does not follow the form in lps/{path.parent.name}/__init__.py ({reason})"


def error_in_words(error: BaseException) -> str:
    """Describe the error in a file on one line."""
    message = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error) and shown(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _import_dataset(path: Path) -> DatasetInfo:
    module = import_module(f"lps.datasets.{path.stem}")
    facts = {name: getattr(module, name) for name in _NEEDED | _OPTIONAL if hasattr(module, name)}
    for name, kind in (_NEEDED | _OPTIONAL).items():
        if name in _NEEDED and name not in facts:
            raise UserError(name, "is missing")
        if name in facts and not isinstance(facts[name], kind):
            expected = "a function" if kind is Callable else f"of type {kind.__name__}"
            raise UserError(name, f"is {shorten(facts[name])}, not {expected}")
    by_method = facts.get("RECIPE_BY_METHOD", {})
    for check in recipe_checks:
        check(facts["RECIPE"], "")
        for method, values in by_method.items():
            check(values, method)
    texts = (facts[name] for name in ("TITLE", "SUMMARY", "RECIPE"))
    optional_facts = (facts.get("PATH", ""), facts.get("CLASSES"), "is_coloured" in facts)
    return DatasetInfo(path.stem, *texts, *optional_facts, by_method, facts.get("NOUN", DatasetInfo.noun))


def _parse_method(path: Path) -> MethodInfo:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    summary, sections = _docstring_sections(ast.get_docstring(tree) or "")
    title = summary.split(":")[0].strip()
    if not title:
        raise UserError("docstring", "is missing; its first line is the title")
    for node in tree.body[1:]:
        _check_import(node)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and "Method" in _bases(node)]
    if len(classes) != 1:
        raise UserError("class", f"{len(classes)} are subclasses of Method; expected one")
    (method_class,) = classes
    inits = [item.args for item in method_class.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    parameters = [
        _parameter(argument, default)
        for own_parameters in inits
        for argument, default in zip(own_parameters.kwonlyargs, own_parameters.kw_defaults)
    ]
    parent = _parent(tree, _bases(method_class))
    facts = {name: _constant(method_class.body, name, getattr(parent, name, usual)) for name, usual in _FACTS.items()}
    own_parameters = {p.name: p for p in parameters} | (parent.parameters if parent else {})
    return MethodInfo(path.stem, title, summary, sections, own_parameters, **facts)


def _parent(tree: ast.Module, bases: set[str]) -> MethodInfo | None:
    """Return the method of another file that the class is derived from, None if there is none."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and bases & {item.name for item in node.names} - {"Method"}:
            return _refuse_broken("class", _read(METHODS, node.module.rpartition(".")[2]))
    return None


def _check_import(node: ast.stmt) -> None:
    """Raise an error for a statement that would fail on import or does more than define, as far as parsing shows."""
    if not isinstance(node, _PLAIN):
        raise UserError(f"line {node.lineno}", "runs code on import; expected only constants, functions and a class")
    names = [item.name for item in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
    for module in [node.module] if isinstance(node, ast.ImportFrom) else names:
        parts = module.split(".")
        path = _PACKAGE.parent.joinpath(*parts)
        if not (_source_of(path) if parts[0] == "lps" else find_spec(parts[0])):
            raise ModuleNotFoundError(f"No module named {module!r}")
        for name in names if module not in names and parts[0] == "lps" else ():
            if not (_source_of(path / name) or re.search(rf"\b{name}\b", _source_of(path))):
                raise ImportError(f"cannot import name {name!r} from {module!r}")


def _source_of(module: Path) -> str:
    """Return the source of a module of ours by its path without ending; "" if it does not exist."""
    return next((p.read_text("utf-8") for p in (module.with_suffix(".py"), module / "__init__.py") if p.is_file()), "")


def _bases(node: ast.ClassDef) -> set[str]:
    return {base.id for base in node.bases if isinstance(base, ast.Name)}


def _constant(body: list[ast.stmt], name: str, default):
    """Return the literal value of a class attribute."""
    for item in body:
        target = item.targets[0] if isinstance(item, ast.Assign) else getattr(item, "target", None)
        if isinstance(item, (ast.Assign, ast.AnnAssign)) and getattr(target, "id", None) == name:
            return ast.literal_eval(item.value)
    return default


def _docstring_sections(text: str) -> tuple[str, dict[str, str]]:
    """Return the first line and the text under every heading (alone on its line, ends with a colon)."""
    first, _, rest = text.partition("\n")
    parts = re.split(r"(?m)^([A-Z][A-Za-z ]*):[ \t]*\n", rest)
    bodies = {head: re.sub(r"(?m)^    ", "", body).strip() for head, body in zip(parts[1::2], parts[2::2])}
    return first.strip(), bodies


def _parameter(argument: ast.arg, default: ast.expr | None) -> Parameter:
    try:
        parameter = _annotated(argument, default)
    except Exception:  # any other expression raises its own error
        problem = 'is not written as name: Annotated[type, "meaning", (minimum, maximum)] = default'
        raise UserError(argument.arg, problem) from None
    parameter.check(parameter.default)
    return parameter


def _annotated(argument: ast.arg, default: ast.expr) -> Parameter:
    kind, meaning, *more = argument.annotation.slice.elts
    documentation = [_parameter_docs(item) for item in more if _is_docs(item)]
    limits = [item for item in more if not _is_docs(item)]
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
        told=documentation[0] if documentation else ParameterDocs(),
    )


def _parameter_docs(call: ast.Call) -> ParameterDocs:
    return ParameterDocs(*map(ast.literal_eval, call.args), **{k.arg: ast.literal_eval(k.value) for k in call.keywords})


def _is_docs(item: ast.expr) -> bool:
    return isinstance(item, ast.Call) and getattr(item.func, "id", None) in ("ParameterDocs", "Told")
