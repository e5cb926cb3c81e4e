"""Who may import whom: the arrows of the design, read from the source."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = {"streamlit", "pandas", "plotly", "jinja2"}
TORCH = {"torch", "torchvision"}

# A layer may import itself where it says so, and the layers below it.
STANDARD = set(
    "parameters schema architectures catalog config light guesses disk files locks events runs costs summary devices "
    "wishes queue "
    "launcher runner console processes waker slurm jobs job_attempt occupancy usage ranks drafts intake archives "
    "background score_cache schedules naming class_count trash recent alarms search_space sweep_records "
    "guard failures memory".split()
)
ARRAYS = set(
    "datasets split metrics protocols paper pace marks adoption snapshots compare projection preflight sweeps "
    "tables tensorboard projector imports foreign_arrays api neighbours "
    "clusters labels exports recording effects ablation provenance start_check presets preset_tables hardware "
    "forecasts "
    "doctor search_objective search search_results search_driver".split()
)
TENSORS = set(
    "draws crops colours randaugment views batches clustering losses pairs pseudo_labels measurements backbones "
    "network starts checkpoints material distributed".split()
)
LEARNING = set("methods closed_set evaluate quality pretrain train class_search".split())
COMMAND = {"__main__", "commands", "follow"}
UPWARD = {  # drawn only when they are needed, and never in the process of a page
    ("commands/comparison.py", "lps.ui.report"),  # a report draws charts
    ("commands/comparison.py", "lps.ui.sweep_report"),
    ("start_check.py", "lps.starts"),  # tensors are judged by a process of its own
}


def modules():
    for path in sorted((ROOT / "lps").rglob("*.py")):
        yield path, path.relative_to(ROOT / "lps").parts


def imports(path, top_level_only=False):
    """Absolute names that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _inside(path):
    return path.relative_to(ROOT / "lps").as_posix()


def part_of(parts):
    """The top-level name inside lps that a file belongs to: "runs", "methods", "ui"."""
    return parts[0].removesuffix(".py")


def own(names):
    """The parts of lps among imported names."""
    return {name.split(".")[1] for name in names if name.startswith("lps.")}


def test_every_module_has_its_layer():
    known = STANDARD | ARRAYS | TENSORS | LEARNING | COMMAND | {"__init__", "ui"}
    assert {part_of(parts) for _, parts in modules()} <= known


@pytest.mark.parametrize(
    "layer, below",
    [
        (STANDARD, STANDARD),
        (ARRAYS, ARRAYS | STANDARD),
        (TENSORS, TENSORS | ARRAYS | STANDARD),
        (LEARNING, LEARNING | TENSORS | ARRAYS | STANDARD),
        (COMMAND, COMMAND | LEARNING | TENSORS | ARRAYS | STANDARD),
        ({"ui"}, {"ui"} | ARRAYS | STANDARD),
    ],
    ids=["standard library", "arrays", "tensors", "learning", "command line", "ui"],
)
def test_arrows_point_down(layer, below):
    for path, parts in modules():
        if part_of(parts) in layer:
            wrong = own(name for name in imports(path) if (_inside(path), name) not in UPWARD) - below
            assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_the_arrows_that_point_up_are_drawn_when_they_are_needed():
    for name, module in UPWARD:
        path = ROOT / "lps" / name
        assert module in set(imports(path)) and module not in set(imports(path, top_level_only=True))


def test_only_the_interface_knows_the_dashboard_libraries():
    for path, parts in modules():
        if part_of(parts) != "ui":
            assert not DASHBOARD & {name.split(".")[0] for name in imports(path)}, path


def test_lower_layers_and_pages_do_not_import_torch():
    for path, parts in modules():
        if part_of(parts) in STANDARD | ARRAYS | {"ui"} and path.name != "_torchvision.py":
            assert not TORCH & {name.split(".")[0] for name in imports(path)}, path
    for path in [ROOT / "app.py", *(ROOT / "pages").glob("*.py")]:
        assert not TORCH & {name.split(".")[0] for name in imports(path)}, path


def test_the_data_sets_of_torchvision_import_it_only_where_files_are_read():
    """What was read is kept as arrays, so that pages show it without torch; test_datasets.py has the proof."""
    path = ROOT / "lps" / "datasets" / "_torchvision.py"
    assert not TORCH & {name.split(".")[0] for name in imports(path, top_level_only=True)}


def test_the_standard_layer_needs_the_standard_library_alone():
    for path, parts in modules():
        if part_of(parts) in STANDARD:
            foreign = {n.split(".")[0] for n in imports(path)} - set(sys.stdlib_module_names) - {"lps"}
            assert not foreign, f"{path.name} imports {sorted(foreign)}"


@pytest.mark.parametrize("folder", ["methods", "datasets"])
def test_siblings_do_not_import_each_other(folder):
    for path in (ROOT / "lps" / folder).glob("[!_]*.py"):
        siblings = {n for n in imports(path) if n.startswith(f"lps.{folder}.")}
        names = {p.stem for p in (ROOT / "lps" / folder).glob("[!_]*.py")}
        assert not {n.split(".")[2] for n in siblings} & names, path


def test_pages_are_thin_and_do_not_import_each_other():
    for path in (ROOT / "pages").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 150, path
        assert not [name for name in imports(path) if name.startswith("pages")], path


@pytest.mark.slow
def test_the_package_imports_without_the_dashboard_libraries():
    """On a GPU server Streamlit, plotly, pandas, umap and tqdm may be missing; training must not care."""
    blocked = ["streamlit", "plotly", "pandas", "umap", "tqdm", "orjson"]
    code = f"""
import sys
for name in {blocked}:
    sys.modules[name] = None
import lps.train, lps.pretrain, lps.projection, lps.launcher, lps.runner, lps.__main__
from lps.methods import lps as _
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
