"""The package as its metadata and its build describe it: requirements, version, what is in the wheel."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

import lps
from tests.installing import build, install, nobody

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DOCUMENTS = ("docs/when-the-margin-helps.md", "docs/concepts/priors.md")  # that pages show
BESIDE = ("app.py", "pages", ".streamlit/config.toml", *DOCUMENTS)  # they move in a wheel


def listed(name: str) -> set[Requirement]:
    """What a file of requirements asks for, without the files that it names."""
    lines = [line.partition("  #")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return {Requirement(line) for line in lines if line and not line.startswith(("#", "-r "))}


def named(name: str) -> set[str]:
    """The files that a file of requirements names."""
    return set(re.findall(r"^-r (\S+)", (ROOT / name).read_text(), re.MULTILINE))


def extra(name: str) -> set[Requirement]:
    found = {Requirement(line) for line in PROJECT["optional-dependencies"][name]}
    return {each for each in found if each.name != PROJECT["name"]}


def test_the_files_of_requirements_are_the_metadata():
    (all_of_it,) = [Requirement(line) for line in PROJECT["dependencies"]]
    assert (all_of_it.name, all_of_it.extras) == (PROJECT["name"], {"train", "search", "app"})
    assert listed("requirements-train.txt") == extra("train") and not named("requirements-train.txt")
    assert listed("requirements.txt") == extra("search") | extra("app")
    assert named("requirements.txt") == {"requirements-train.txt"}
    assert listed("requirements-onnx.txt") == extra("onnx")
    assert listed("tests/requirements.txt") == extra("dev")


def test_training_does_not_ask_for_the_dashboard():
    assert not {each.name for each in extra("train")} & {"streamlit", "plotly", "pandas", "umap-learn"}


def test_no_address_of_a_registry_is_named():
    for name in ("pyproject.toml", *(path.name for path in ROOT.glob("requirements*.txt")), "tests/requirements.txt"):
        assert not re.search(r"https?://|--index-url|--find-links", (ROOT / name).read_text()), name


def test_the_version_is_told(capsys):
    from lps.__main__ import main

    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"lps {lps.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+", lps.__version__)
    assert f"\nversion: {lps.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("built"))


@pytest.mark.slow
def test_the_wheel_has_all_that_git_has_and_every_file_once(wheel):
    kept = subprocess.run(
        ["git", "ls-files", "lps", *BESIDE], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    there = [name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert sorted(there) == sorted(name if name.startswith("lps/") else f"lps/dashboard/{name}" for name in kept)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_machine_without_the_dashboard_trains(wheel, tmp_path):
    """As docs/how-to/install.md says: pip never leaves out what a package needs always."""
    needed = ["-r", str(ROOT / "requirements-train.txt")]
    programs = install(tmp_path / "env", ["--no-deps", str(wheel)], needed)
    said = "from importlib.util import find_spec as find; print([*filter(find, ('streamlit', 'plotly', 'umap'))])"
    own = {"cwd": tmp_path, "env": nobody(tmp_path / "home"), "capture_output": True, "text": True, "timeout": 240}
    assert subprocess.run([programs / "python", "-c", said], **own).stdout == "[]\n"
    tiny = ["epochs=2", "pretrain.epochs=1", "threads=1", "dataset.images_per_class=60"]
    # torch's compiler is not imported: 1.7 s of a processor, and nothing is compiled.
    said = "import sys; sys.modules['torch._dynamo'] = None; from lps.__main__ import main; sys.exit(main())"
    words = ["train", *(word for text in tiny for word in ("--set", text))]
    done = subprocess.run([programs / "python", "-c", said, *words], **own)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.splitlines()[-1])
    assert folder.parent == tmp_path / "home" / ".local" / "share" / "lps-studio" / "runs"
    (row,) = json.loads(subprocess.run([programs / "lps", "list", "--json"], **own).stdout)
    assert (row["id"], row["state"]) == (folder.name, "finished")
    refused = subprocess.run([programs / "lps", "app"], **own)
    assert refused.returncode == 2 and "the dashboard needs streamlit, which is not installed" in refused.stderr
