"""Broken files of methods and data sets, each with words of the reason, in folders of a test."""

import sys
from contextlib import contextmanager
from pathlib import Path

import lps.datasets
from lps.settings import catalog

HEAD = '"""TOY: a toy."""\n'
CLASS = HEAD + "class Toy(Method):\n    "
METHODS = {
    "syntax": (CLASS + "def __init__(self", "SyntaxError: line 3: '(' was never closed"),
    "no_title": ("class Toy(Method): ...", "docstring: is missing"),
    "no_class": (HEAD + "first, second = 1, 2", "class: 0 are subclasses of Method; expected one"),
    "two": (CLASS + "...\nclass Other(Method): ...", "class: 2 are subclasses of Method"),
    "bare": (CLASS + "def __init__(self, *, weight=1.0): ...", "weight: is not written as name: Annotated"),
    "no_default": (CLASS + "def __init__(self, *, weight: Annotated[float, 'why']): ...", "weight: is not written as"),
    "outside": (CLASS + "def __init__(self, *, a: Annotated[int, 'why', (0, 1)] = 2): ...", "a: 2 is not a whole"),
    "computed": (CLASS + "distributes = bool(1)", "ValueError: malformed node"),
    "bytes": ("\0", "SyntaxError: "),
    "nested": ("(" * 500, "SyntaxError: "),
    "carried_out": (CLASS + "...\n1 / 0", "line 4: runs code on import; expected only constants"),
    "lacking": (CLASS + "...\nimport no_such_package.part", "ModuleNotFoundError: No module named 'no_such_package"),
    "astray": (CLASS + "...\nfrom lps.no_part import x", "ModuleNotFoundError: No module named 'lps.no_part'"),
    "misspelt": (CLASS + "...\nfrom lps.methods import Methd", "ImportError: cannot import name 'Methd' from"),
}
FINE = """
from lps.datasets import Images
TITLE, SUMMARY = "Fine", "One image."
RECIPE: dict = dict(epochs=3)
load, *_ = Images, 1
"""
DATASETS = {
    "syntax": ("TITLE = (", "SyntaxError: line 1: '(' was never closed"),
    "empty": ("", "TITLE: is missing"),
    "no_recipe": (FINE.replace("RECIPE", "RECIPES"), "RECIPE: is missing"),
    "no_load": (FINE.replace("load", "loads"), "load: is missing"),
    "wrong": (FINE + "RECIPE = ['epochs', 3]", "RECIPE: is ['epochs', 3], not of type dict"),
    "misfit": (FINE.replace("epochs=3", "epochs=0"), "epochs: 0 is not a whole number from 1"),
    "unheard": (FINE.replace("epochs=3", "epoch=3"), "RECIPE: 'epoch' is not a setting; choices: dataset,"),
    "called": (FINE + "stamp = 3", "stamp: is 3, not a function"),
    "raises": ("raise RuntimeError('first\\nsecond')", r"RuntimeError: 'first\nsecond'"),
    "silent": ("assert False", "(AssertionError)"),
    "exits": ("import sys; sys.exit()", "(SystemExit)"),
    "imports": ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
}


@contextmanager
def folders(place: Path, monkeypatch):
    """Make the catalog read `place/methods` and `place/datasets`, which have the broken files beside all real ones."""
    for kind, texts in (("methods", METHODS), ("datasets", DATASETS)):
        folder = place / kind
        folder.mkdir()
        for path in getattr(catalog, kind.upper()).glob("*.py"):
            (folder / path.name).symlink_to(path)
        for name, (text, _) in texts.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.setattr(catalog, kind.upper(), folder)
    (place / "datasets" / "fine.py").write_text(FINE)
    monkeypatch.setattr(lps.datasets, "__path__", [*lps.datasets.__path__, str(place / "datasets")])
    try:
        yield place
    finally:
        for name in [*DATASETS, "fine"]:
            sys.modules.pop(f"lps.datasets.{name}", None)
