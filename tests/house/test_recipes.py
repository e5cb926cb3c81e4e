"""The five recipes of docs/architecture.md, carried out word by word in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"`((?:lps|pages)/[\w/]+\.py)`[^`]*:\n\n```(python|diff)\n(.*?)```", re.S)
RECIPES = {text.split("\n")[0]: BLOCK.findall(text) for text in re.split(r"(?m)^### ", TEXT)[1:]}
TRAINING = "train --dataset stripes --method mine --set weight=2 --set network.start=random --set threads=1".split()
VISIT = """
import sys
from tests.visiting import charts_of, visit, words_of
at = visit("live", run=sys.argv[1])
at.session_state[f"others:{sys.argv[1]}"] = True
drawn = charts_of(at.run())
assert not at.exception
assert drawn["other:logits/size"]["data"] and drawn["learning_rate"]["data"] and "other:lr" not in drawn, list(drawn)
assert "There are" in words_of(visit("census"))
"""


def carry_out(root: Path, path: str, kind: str, block: str) -> None:
    """Write a new file, or change the one place that has the lines of the block."""
    file = root / path
    if kind == "python":
        assert not file.exists(), f"{path} is there already"
        file.write_text(block)
        return
    lines = block.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = file.read_text()
    assert text.count(old) == 1, f"{path} has these lines {text.count(old)} times:\n{old}"
    file.write_text(text.replace(old, new))


def asked(root: Path, *command: str) -> str:
    own = os.environ | {"LPS_RUNS": str(root / "runs"), "LPS_CACHE": str(root / "cache")}
    done = subprocess.run([sys.executable, *command], cwd=root, env=own, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the repository with all recipes carried out."""
    root = tmp_path_factory.mktemp("house") / "copy"
    ignored = shutil.ignore_patterns("__pycache__", "recorded")
    for folder in ("lps", "pages", "tests", ".streamlit"):
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
    shutil.copy(ROOT / "app.py", root)
    for steps in RECIPES.values():
        for step in steps:
            carry_out(root, *step)
    return root


def test_a_recipe_touches_one_file_and_that_of_a_chart_two():
    touched = {name: len({path for path, _, _ in steps}) for name, steps in RECIPES.items()}
    assert touched == {"A method": 1, "A data set": 1, "A page": 1, "A measurement per epoch": 1, "A chart on Live": 2}


def test_every_file_that_is_named_is_there():
    made = {path for steps in RECIPES.values() for path, kind, _ in steps if kind == "python"}
    named = set(re.findall(r"`((?:lps|pages|tests)/[\w/]+\.py)`", TEXT)) - made
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.slow
def test_method_data_set_and_page_are_listed(copy):
    said = (
        "from lps.settings import catalog; print(catalog.method_titles()['mine'], catalog.dataset_titles()['stripes'])"
    )
    assert asked(copy, "-c", said).split() == ["MINE", "Stripes"]
    said = "from lps.ui.server import menu; print([e.title for e in menu.read_entries() if e.path.stem == 'census'])"
    assert asked(copy, "-c", said).strip() == "['Census']"


@pytest.mark.slow
def test_what_was_added_trains_and_is_seen_on_live(copy):
    run = Path(asked(copy, "-m", "lps", *TRAINING).splitlines()[-1])
    asked(copy, "-c", VISIT, run.name)
