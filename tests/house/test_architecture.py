"""Allowed imports between folders, read from the source; lazy imports count like all others."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house.sources import MODULES, PACKAGE, ROOT, nodes, source

# A room may import itself and the rooms on the lines above its own.
ROOMS = """
errors wording
files
settings machine
cluster datasets network
data
methods scores store
training analysis scheduler
studies interop tables
doctor
inference
charts
report running exchange
race
api figures
cli ui
"""
LEVEL = {room: level for level, line in enumerate(ROOMS.split("\n")) for room in line.split()}
PAGE_ROOMS = {"shared", "pictures", "forms", "server"}  # of ui: what pages share
LIBRARIES = {  # who may import them
    "streamlit": {"ui"},
    "plotly": {"ui", "charts", "report", "figures"},
    "pandas": {"ui", "charts", "report", "race"},
    "jinja2": {"ui", "report", "race"},
    "psutil": {"machine"},
    "pynvml": {"machine"},
    "torch": {"network", "data", "methods", "training", "studies", "store", "scheduler", "datasets", "inference"},
}


@cache
def imports(path: Path, top_level_only: bool = False) -> frozenset[str]:
    """Absolute dotted names that a file imports."""
    found = set()
    for node in source(path).body if top_level_only else nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def module_of(name: str) -> str:
    """The module that an imported name is, or is in; "" for what is not ours."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def arrows() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, wherever in the file."""
    return {name: {module_of(n) for n in imports(path)} - {"", name} for name, path in MODULES.items()}


def room(name: str) -> str:
    """The folder or file of `lps` that a module belongs to."""
    return (name.split(".") + [""])[1]


def is_entry(name: str) -> bool:
    """`lps` itself and `python -m lps` stand above all rooms."""
    return room(name) in ("", "__main__")


def test_every_room_is_in_the_table_and_says_what_it_is_for():
    found = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    folders = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}
    found |= {path.relative_to(PACKAGE).parts[0] for path in folders}
    assert found == set(LEVEL)
    for folder in folders:
        assert ast.get_docstring(source(folder / "__init__.py")), folder


def test_arrows_point_down():
    drawn = [(name, target) for name, targets in arrows().items() for target in targets]
    between = [(a, b) for a, b in drawn if not is_entry(a) and not is_entry(b) and room(a) != room(b)]
    assert not [(a, b) for a, b in between if not LEVEL[room(b)] < LEVEL[room(a)]]


def test_there_is_no_circle():
    own = {name: {target for target in targets if name != "lps"} for name, targets in arrows().items()}
    try:
        TopologicalSorter(own).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_no_page_imports_another_page():
    def page(name: str) -> str:
        parts = name.split(".")
        return parts[2] if parts[1:2] == ["ui"] and len(parts) > 2 and parts[2] not in PAGE_ROOMS else ""

    wrong = [(n, t) for n, targets in arrows().items() for t in targets if page(t) and page(n) != page(t)]
    assert not wrong


def test_no_folder_is_a_warehouse():
    for folder in {path.parent for path in MODULES.values()}:
        assert len(list(folder.glob("*.py"))) <= 20, folder


def test_no_two_classes_have_the_same_name():
    """But for `lps.api`: its `Run` is the run of `lps.store` as programs of others know it."""
    found = Counter()
    for name, path in MODULES.items():
        found.update(node.name for node in nodes(path) if isinstance(node, ast.ClassDef) and room(name) != "api")
    assert not [name for name, times in found.items() if times > 1]


@pytest.mark.parametrize("library, rooms", LIBRARIES.items(), ids=LIBRARIES)
def test_a_library_is_known_where_it_belongs(library, rooms):
    for name, path in MODULES.items():
        if room(name) not in rooms:
            assert library not in {n.split(".")[0] for n in imports(path)}, path


def test_the_data_sets_of_torchvision_import_it_only_where_files_are_read():
    """What was read is kept as arrays, so that pages show it without torch; test_datasets.py has the proof."""
    path = PACKAGE / "datasets" / "_torchvision.py"
    assert not {"torch", "torchvision"} & {name.split(".")[0] for name in imports(path, top_level_only=True)}


@pytest.mark.parametrize("room", ["errors", "wording", "files", "settings", "machine", "cluster"])
def test_the_lowest_rooms_need_the_standard_library_alone(room):
    """But for what the table gives them; the runner's process is without that too."""
    given = {library for library, rooms in LIBRARIES.items() if room in rooms}
    for path in [*PACKAGE.glob(f"{room}.py"), *PACKAGE.glob(f"{room}/*.py")]:
        foreign = {n.split(".")[0] for n in imports(path)} - set(sys.stdlib_module_names) - {"lps"} - given
        assert not foreign, f"{path} imports {sorted(foreign)}"


@pytest.mark.parametrize("folder", ["methods", "datasets"])
def test_siblings_do_not_import_each_other(folder):
    names = {path.stem for path in (PACKAGE / folder).glob("[!_]*.py")}
    for path in (PACKAGE / folder).glob("[!_]*.py"):
        found = {n.split(".")[2] for n in imports(path) if n.startswith(f"lps.{folder}.")}
        assert not found & names - {"parts"}, path


def test_pages_are_thin_and_do_not_import_each_other():
    for path in (ROOT / "pages").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 20, path
        assert not [name for name in imports(path) if name.startswith("pages")], path
        assert not {"torch", "torchvision"} & {name.split(".")[0] for name in imports(path)}, path


def test_names_in_the_table_of_changes_occur_in_the_files_of_their_row():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Where to change what")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", line) for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 5
    for quoted in rows:
        paths = [ROOT / text for text in quoted if text.startswith(("lps/", "docs/"))]
        files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
        words = {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
        names = {text for text in quoted if re.fullmatch(r"\w+(\.\w+)?", text) and not text.endswith(".json")}
        assert {part for name in names for part in name.split(".")} <= words, quoted


def loaded_by(*names: str) -> list[set[str]]:
    """What a fresh interpreter has loaded after each of these imports in turn, beyond what it begins with."""
    code = "import sys; known = set(sys.modules)\n"
    code += "\n".join(f"import {name}; print(*set(sys.modules) - known)" for name in names)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded & MODULES.keys() if not is_package(name)}


def is_package(name: str) -> bool:
    return MODULES[name].name == "__init__.py"


@pytest.mark.slow
def test_the_mathematics_loads_little_else():
    network, method = loaded_by("lps.network.network", "lps.methods.lps")  # which imports the network
    assert len(ours(network)) <= 7 and len(ours(method)) <= 14
    assert "torchvision" not in method  # half of the time until a training begins


@pytest.mark.slow
def test_the_dashboard_starts_without_what_few_pages_ask_for():
    """Nor with torch. A quarter of the time until it answers went into parts of SciPy."""
    (app,) = loaded_by("app")
    assert not {"scipy.optimize", "scipy.special", "scipy.stats", "sklearn", "optuna", "torch"} & app


def test_the_runner_loads_the_standard_library_alone():
    """Nothing that may be missing, broken or slow to load stands between a run and its end."""
    (runner,) = loaded_by("lps.scheduler.runner")
    assert {name.partition(".")[0] for name in runner} - set(sys.stdlib_module_names) == {"lps"}


@pytest.mark.slow
def test_the_package_imports_without_the_dashboard_libraries():
    """On a GPU server Streamlit, plotly, pandas, umap, tqdm and timm may be missing; training must not care."""
    blocked = ["streamlit", "plotly", "pandas", "umap", "tqdm", "orjson", "psutil", "pynvml", "timm"]
    code = f"""
import sys
for name in {blocked}:
    sys.modules[name] = None
import lps.training.loop, lps.training.pretrain, lps.analysis.projection, lps.scheduler.launcher, lps.scheduler.runner
import lps.__main__
from lps.methods import lps as _
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
