"""Completions of the Tab key, imports of the command line, and the time of both."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lps.cli._parser import command_files, parser
from tests.sample_runs import make_run

ROOT = Path(__file__).resolve().parents[2]
# argcomplete answers on file 8; the shells' own scripts lead it to where they read.
ANSWER = "import os, sys; os.dup2(1, 8); os.dup2(2, 9); from lps.__main__ import main; main()"


def offered(line: str, cwd: Path = ROOT, **environment: str) -> set[str]:
    """What may stand at the end of the line, as zsh is told it: each on a line of its own, without their help.

    No library that takes long is imported for it: imports decide how long the Tab key takes."""
    done = answer(line, cwd, **environment)
    imported = {text.rpartition("|")[2].strip().partition(".")[0] for text in done.stderr.splitlines()}
    assert "lps" in imported and imported.isdisjoint({"numpy", "pandas", "scipy", "sklearn", "streamlit", "torch"})
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    return {word.strip() for word in done.stdout.split("\n") if word.strip()}


def answer(line: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess:
    shell = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": "bash", "COMP_TYPE": "9"}
    shell |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_COMP_WORDBREAKS": " ="}
    own = os.environ | shell | {"PYTHONPATH": str(ROOT), "PYTHONPROFILEIMPORTTIME": "1"} | environment
    return subprocess.run([sys.executable, "-c", ANSWER], cwd=cwd, env=own, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "line, some",
    [
        ("lps tr", {"train", "train-on"}),
        ("lps train --ep", set()),
        ("lps list --r", {"--runs", "--recorded"}),
        ("lps train --method o", {"openncd", "orca"}),
        ("lps launch --method lps --set margin_s", {"margin_scale="}),
        ("lps train --set use_margin=", {"true", "false"}),
        ("lps sweep --set lr=0.1 --set network.start=ra", {"random"}),
        ("lps queue pau", {"pause"}),
        ("lps completion ", {"bash", "zsh", "fish", "--help", "--runs"}),
        ("lps nothing-of-ours", set()),
    ],
)
def test_what_is_offered(line, some):
    assert offered(line) == some


@pytest.mark.slow
def test_ids_of_runs_are_offered(tmp_path):
    run = make_run(tmp_path / "runs", "finished")
    assert offered("lps show 2", tmp_path, LPS_RUNS="runs") >= {run.id}
    assert run.id in offered("lps compare --runs runs 2", tmp_path)
    assert run.id in offered("lps diff --runs runs 20261122-112646-digits-lps-s0-p71eho 2", tmp_path)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_is_told_what_to_run(name, capsys):
    from lps.__main__ import main

    assert main(["completion", name]) == 0
    said = capsys.readouterr().out
    assert "_ARGCOMPLETE" in said and "lps" in said


def test_bash_completes(tmp_path):
    """As a person has it: the script evaluated, then the function that bash calls at the Tab key."""
    (tmp_path / "lps").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lps "$@"\n')
    (tmp_path / "lps").chmod(0o755)
    script = """eval "$(lps completion bash)"; COMP_WORDS=(lps train --met); COMP_CWORD=2; COMP_LINE="lps train --met"
    COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; compopt() { :; }; "$(complete -p lps | sed 's/.*-F \\([^ ]*\\).*/\\1/')" lps
    echo "${COMPREPLY[@]}" """
    own = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=own, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["--method"], (done.stdout, done.stderr)


def test_every_command_is_found_in_the_source():
    (commands,) = (action for action in parser()._actions if action.dest == "command")
    assert set(command_files()) == set(commands.choices)


def test_a_command_imports_its_own_module_and_no_library_that_takes_long():
    said = (
        "import sys; from lps.__main__ import main; main(['list', '--recorded']); "
        "print([n for n in sys.modules if n.startswith('lps.cli.') and '._' not in n], "
        "{'torch', 'pandas'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['lps.cli.run_commands'] set()"
