"""The tutorials and instructions, followed word by word in an empty folder, with fewer epochs."""

import csv
import json
import os
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from sklearn.datasets import load_digits

from tests.cli.test_whole_loop import lines_of_readme
from tests.house.test_documented_commands import BLOCK, ROOT, commands, words_of
from tests.shares import ALL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
# Epochs of the training whose accuracy a page promises; `python -m tests.reliability cases` trains all 50.
PROMISED = () if ALL else ("--set", "epochs=15")
SHORT = tuple(
    word
    for text in ("epochs=1", "pretrain.epochs=1", "threads=1", "dataset.images_per_class=20")
    for word in ("--set", text)
)
FOLLOWED = ("start/researcher.md", "start/practitioner.md", "start/teacher.md", "how-to/sweeps.md", "how-to/search.md",
            "how-to/embeddings.md")  # fmt: skip
OTHERWISE = {  # instructions whose commands are not carried out here, and why
    "how-to/backbones.md": "needs files of weights",
    "how-to/install.md": "installs, and `doctor` looks at the whole machine",
    "how-to/notifications.md": "sends messages",
    "how-to/other-programs.md": "TensorBoard is followed for ever; tests/interop",
    "how-to/own-pictures.md": "downloads, and runs of minutes; tests/cli/test_whole_loop.py",
    "how-to/several-gpus.md": "needs CIFAR-10",
    "how-to/slurm.md": "needs a cluster",
}


class Shell:
    """Carries out commands in a folder of its own; remembers the ids that stand for RUN and NEXT."""

    def __init__(self, folder: Path, forks):
        self.folder, self.names, self.forks = folder, {}, forks
        kept = {name: str(folder / name.lower()) for name in ("LPS_RUNS", "LPS_CACHE", "LPS_DECISIONS")}
        self.environment = os.environ | kept | {"PYTHONPATH": str(ROOT)}

    def run(self, *words: str) -> str:
        done = self.forks.run(*words, cwd=self.folder, env=self.environment, timeout=600)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr[-2000:]}"
        return done.stdout

    def follow(self, line: str, *more: str) -> str:
        """A line of a page, with further words."""
        words = [self.names.get(word, word) for word in words_of(line)]
        return self.run("-m", "lps", *words, *more)

    def follow_shortly(self, line: str) -> str:
        """The same, with one epoch where the line starts runs."""
        starts_runs = words_of(line)[0] in ("train", "sweep", "search", "launch")
        return self.follow(re.sub(r"--set epochs=\d+", "", line), *(SHORT if starts_runs else ()))


@pytest.fixture
def shell(tmp_path, forks):
    return Shell(tmp_path, forks)


def truth_of(file: str) -> int:
    """The digit that a picture shows, whose file is called by its number."""
    return int(load_digits().target[int(Path(file).stem)])


def blocks_of_python(page: Path) -> list[str]:
    return [code for language, code in BLOCK.findall(page.read_text("utf-8")) if language == "python"]


def page(name: str) -> Path:
    return ROOT / "docs" / name


def test_every_tutorial_and_instruction_is_followed_or_has_a_reason():
    pages = [path for folder in ("start", "how-to") for path in (ROOT / "docs" / folder).glob("*.md") if commands(path)]
    assert {f"{path.parent.name}/{path.name}" for path in pages} == {*FOLLOWED, *OTHERWISE}


@pytest.mark.turn(0, 3)
def test_the_tutorial_for_researchers(tmp_path, shell):
    lines = commands(page("start/researcher.md"))
    said = {line: shell.follow_shortly(line if "--dry-run" in line else _fewer_runs(line)) for line in lines}
    plan, differences = (next(said[line] for line in lines if word in line) for word in ("--dry-run", "--against"))
    assert plan.count("exists  ") == 1 and plan.count("new  ") == 11 and "use_margin=false" in differences
    assert (tmp_path / "report.html").stat().st_size > 10_000
    (code,) = blocks_of_python(page("start/researcher.md"))
    assert len(shell.run("-c", code).splitlines()) == (4 if ALL else 2)  # groups


def _fewer_runs(line: str) -> str:
    """A pair of seeds has all that three have, an interval included; one setting that varies, all that two have."""
    return line if ALL else line.replace("--seeds 0,1,2", "--seeds 0,1").replace("=0.25,0.5", "=0.5")


def test_the_tutorial_for_practitioners(tmp_path, shell):
    """Its commands are those of README, which tests/cli/test_whole_loop.py carries out on pictures that take a third of
    the time; `python -m tests.reliability cases` carries them out on these, and the digits are found."""
    (make_pictures,) = blocks_of_python(page("start/practitioner.md"))
    shell.run("-c", make_pictures)
    assert len(list((tmp_path / "pictures").iterdir())) == 7 and len(list((tmp_path / "inbox").iterdir())) == 40
    lines = commands(page("start/practitioner.md"))
    of_readme = [line for line in lines_of_readme() if "-m lps " in line and "--watch" not in line]
    assert [_without_values(line) for line in lines] == [_without_values(line) for line in of_readme]
    if ALL:
        _find_the_digits(tmp_path, shell, lines)


def _without_values(line: str) -> list[str]:
    """The words of a command, of NAME=VALUE the name, and of the names of clusters how many."""
    words = [word.partition("=")[0] for word in words_of(line)]
    return ["CLUSTER" if word.isdigit() else word for word in words]


def _find_the_digits(folder: Path, shell: Shell, lines: list[str]) -> None:
    train, show, name, train_on, predict, export = lines
    shell.names["RUN"] = Path(shell.follow(train).splitlines()[-1]).name
    assert len(shell.follow(show).splitlines()) == 12
    shell.names |= _names_of_novel(shell)
    shell.follow(name)
    shell.names["NEXT"] = Path(shell.follow(train_on).splitlines()[-1]).name
    shell.follow(predict)
    with open(folder / "labels.csv", encoding="utf-8") as file:
        rows = [(truth_of(row["file"]), row["name"]) for row in csv.DictReader(file)]
    right = [digit for digit, name in rows if name == f"digit {digit}"]
    assert len(rows) == 40 and len(right) >= 20, rows  # two of four new digits have a name
    assert (Path(shell.follow(export).splitlines()[-1]) / "model.onnx").exists()


def _names_of_novel(shell: Shell) -> dict[str, str]:
    """The words of the page for the clusters 6 and 7, and those for the digits that a person sees in them."""
    code = f"import json, lps; print(json.dumps(lps.find_run({shell.names['RUN']!r}).labels()))"
    shown: dict[int, Counter] = {6: Counter(), 7: Counter()}
    for row in json.loads(shell.run("-c", code)):
        if row["cluster"] in shown:
            shown[row["cluster"]][truth_of(row["file"])] += 1
    return {f"{k}=digit {k}": f"{k}=digit {digits.most_common(1)[0][0]}" for k, digits in shown.items()}


def test_the_python_of_readme(tmp_path, shell):
    (code,) = blocks_of_python(ROOT / "README.md")
    less = "epochs=1, pretrain_epochs=1, threads=1, dataset_images_per_class=20"
    said = shell.run("-c", code.replace("epochs=5", less))
    assert said.splitlines()[0] == "finished" and 0 <= float(said.splitlines()[1]) <= 1


def test_the_race_of_the_lesson_is_one_file(tmp_path, shell):
    (replay,) = commands(page("start/teacher.md"))
    shell.follow(replay)
    assert "<script" in (tmp_path / "race.html").read_text(encoding="utf-8")


@pytest.mark.turn(2, 3)
def test_the_instructions_for_sweeps(tmp_path, shell):
    lines = commands(page("how-to/sweeps.md"))
    shell.run(*"-m lps sweep --method lps --vary use_margin=true,false --name labels --wait".split(), *SHORT)
    for line in lines:
        if "ablation-demo" not in line:  # needs the fifteen runs of the preset
            shell.follow(line, *(SHORT if "--name labels" in line else ()))
    assert (tmp_path / "report.html").exists()


@pytest.mark.turn(1, 3)
def test_the_text_example_goes_from_vectors_to_named_clusters(tmp_path, shell):
    """That novel subpackages are found is what the page is for, and holds after fewer epochs, too."""
    (make_vectors,) = blocks_of_python(page("how-to/embeddings.md"))
    (tmp_path / "make_vectors.py").write_text(make_vectors, encoding="utf-8")
    assert "with a label" in shell.run("make_vectors.py")
    for line in commands(page("how-to/embeddings.md")):
        is_training = words_of(line)[0] == "train"
        said = shell.follow(line, *(PROMISED if is_training else ()))
        if is_training:
            shell.names["RUN"] = Path(said.splitlines()[-1]).name
    with open(tmp_path / "labels.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    named = [row["file"].partition(".")[0] for row in rows if row["group"] == "seen" and row["source"] != "labeled"]
    known = sum(package in ("linalg", "stats", "signal", "ndimage") for package in named)
    assert len(named) > 200 and known > 0.8 * len(named)
    assert "optimize" in {row["name"] for row in rows}


@pytest.mark.turn(0, 3)
def test_the_instructions_for_searches(tmp_path, shell):
    search, show = commands(page("how-to/search.md"))
    shell.follow_shortly(search.replace("--trials 20", "--trials 1"))
    assert "margin_scale" in shell.follow(show)
