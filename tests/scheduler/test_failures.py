"""Every kind of failure has its own words and a step that helps, and the button and the command really do it."""

import ast
import json
import shlex
from pathlib import Path

import pytest

from lps.__main__ import main
from lps.files.atomic import write_json
from lps.scheduler import failures, launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run, list_runs
from lps.store.runs import Run
from tests.shares import in_turn
from tests.visiting import visit, whole_form

ROOT = Path(__file__).resolve().parents[2]
KINDS = list(failures.ADVICE)
ASKED = "config data out_of_memory diverged disk_full device killed bug".split()


def failed_run(root: Path, kind: str, **settings) -> Run:
    run = create_run(root, configure({"batch_size": 256, "lr": 0.2} | settings), "mine")
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1})
    reason = f"a reason with *stars* of kind {kind}"
    write_json(run.folder / "exit.json", {"attempt": 1, "state": "failed", "kind": kind, "reason": reason})
    return run


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder of runs; nothing is started."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(launcher, "dispatch", lambda *given: [])
    return tmp_path / "runs"


def test_every_kind_has_words_of_its_own():
    assert set(ASKED) <= set(KINDS)
    for part in ("title", "cause", "remedy"):
        said = [getattr(advice, part) for advice in failures.ADVICE.values()]
        assert len(set(said)) == len(said) and all(said)


def test_every_kind_that_the_program_records_is_known():
    """Read from the source: the words after `kind` in the runner and the first words that `explain_failure` returns."""
    found = set()
    for name in ("scheduler/runner.py", "training/end_reason.py"):
        for node in ast.walk(ast.parse((ROOT / "lps" / name).read_text())):
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values)
                found |= {c for key, value in pairs if _text(key) == "kind" for c in _texts(value)}
            if isinstance(node, ast.FunctionDef) and node.name == "explain_failure":
                returned = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
                found |= {c for value in returned if isinstance(value, ast.Tuple) for c in _texts(value.elts[0])}
    assert {"bug", "killed", "out_of_memory", "diverged", "disk_full", "data"} <= found
    assert found - {""} <= set(KINDS)


def _text(node):
    return node.value if isinstance(node, ast.Constant) else None


def _texts(node) -> set[str]:
    """What an expression can be, where it is a text or a choice between texts."""
    if isinstance(node, ast.IfExp):
        return _texts(node.body) | _texts(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()


def test_an_unknown_kind_is_taken_for_an_error_of_the_program():
    assert failures.advise("no such kind") is failures.ADVICE["bug"]


@pytest.mark.parametrize("kind", in_turn(KINDS, 3))
def test_the_page_says_it_and_its_strong_button_does_it(root, kind):
    run, advice = failed_run(root, kind), failures.advise(kind)
    at = visit("live", run=run.id)
    plain = "\n".join(e.value for e in [*at.error, *at.caption]).replace("\\", "").replace("\u2060", "")
    assert f"{advice.title}: a reason with *stars* of kind {kind}." in plain
    assert advice.cause in plain and advice.remedy in plain
    (strong,) = [button for button in at.button if button.proto.type == "primary"]
    assert strong.label == advice.button
    strong.click().run()
    assert not at.exception
    if advice.step == failures.RESUME:
        assert run.state().name == "queued" and run.read_json("want.json")["attempt"] == 2
        return
    changes = advice.changes(run.config())
    assert at.title[0].value.startswith("Launch")
    asked = at.session_state["draft"]
    assert asked.text("batch_size") == ("128" if kind == "out_of_memory" else "256")
    assert asked.text("lr") == at.text_input(key="set:lr").value == ("0.02" if kind == "diverged" else "0.2")
    form = whole_form(**failures.form_link(run.id, advice, run.config()))  # AppTest itself stays on Live
    form.button(key="launch_start").click().run()
    made = next(other for other in list_runs(root) if other.id != run.id)
    assert made.config().flat() == run.config().flat() | changes


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_says_it_and_its_command_does_it(root, kind, capsys, monkeypatch):
    run, advice = failed_run(root, kind), failures.advise(kind)
    assert main(["show", run.id, "--runs", str(root), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["advice"]
    assert main(["show", run.id, "--runs", str(root)]) == 0
    shown = capsys.readouterr().out
    assert advice.cause in shown and advice.remedy in shown and told["command"] in shown
    assert (told["cause"], told["remedy"]) == (advice.cause, advice.remedy)
    python, m, lps, *words = shlex.split(told["command"])
    assert (python, m, lps) == ("python", "-m", "lps")
    assert main([*words, "--runs", str(root)]) == 0
    if advice.step == failures.RESUME:
        assert run.read_json("want.json")["attempt"] == 2
    else:
        made = next(other for other in list_runs(root) if other.id != run.id)
        assert made.config().flat() == run.config().flat() | advice.changes(run.config())


def test_a_batch_is_not_halved_to_nothing():
    least = failures.MIN_BATCH
    changes = failures.ADVICE["out_of_memory"].changes
    assert changes(configure({"batch_size": 2 * least})) == {"batch_size": least}
    assert changes(configure({"batch_size": 2 * least - 1})) == {}


def test_a_crash_is_told_as_one(root):
    run = create_run(root, configure({}), "")
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1})
    write_json(run.folder / "process.json", {"attempt": 1, "boot_id": "another"})
    at = visit("live", run=run.id)
    assert at.error[0].value.startswith("Crashed") and "restarted" in at.error[0].value
    (strong,) = [button for button in at.button if button.proto.type == "primary"]
    assert strong.label == "Resume"
