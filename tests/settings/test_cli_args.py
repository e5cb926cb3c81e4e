"""Settings and commands for pasting: what is written is read back as the same."""

import re
import shlex
from pathlib import Path

from lps.cli._parser import parser
from lps.settings import cli_args
from lps.settings.config import configure, parse_settings

PACKAGE = Path(__file__).resolve().parents[2] / "lps"
SPELLED = re.compile(
    r'"python", "-m"|f"python -m lps (?:train|launch|sweep|search|compare|export)|=\{text_of\(\w+\)\}"'
)
ASKED = {
    "split.seen_classes": "0,3,5", "lr": 1e-5, "weight_decay": 1.0, "threads": 3, "network.fused_views": True,
    "dataset.path": "/data/photos of 'birds'", "pretrain.seed": 7, "margin_scale": 12.5,
}  # fmt: skip


def test_settings_are_read_back_as_they_were():
    config = configure(ASKED | {"seed": 4})
    own = cli_args.differing_settings(config.flat(), config.defaults())
    assert parse_settings(cli_args.format_settings(own), "lps") == own
    assert own.keys() == ASKED.keys()
    assert cli_args.task_options(config) == {"dataset": "digits", "method": "lps", "seed": 4}


def test_a_command_is_read_back_word_by_word_whatever_the_values_hold():
    values = {"name": "a 'b' $c; d", "set": {"lr": 0.5, "dataset.path": "/a b"}, "slurm": ["extra=--x=1", "time=1:00"]}
    line = cli_args.format_command("launch", seed=0, light=True, priority=None, on="", **values)
    assert shlex.split(line) == [
        "python", "-m", "lps", "launch", "--seed", "0", "--light", "--name", "a 'b' $c; d",
        "--set", "lr=0.5", "--set", "dataset.path=/a b", "--slurm", "extra=--x=1", "--slurm", "time=1:00",
    ]  # fmt: skip
    line = cli_args.format_command("show", "a b", no_prune=False, sample_seed=3)
    assert line == "python -m lps show 'a b' --sample-seed 3"


def test_a_value_that_begins_with_a_dash_is_no_option():
    words = shlex.split(cli_args.format_command("launch", name="-fast"))[3:]
    assert parser().parse_args(words).name == "-fast"


def test_commands_with_settings_are_spelled_in_one_place():
    found = {path.name for path in PACKAGE.rglob("*.py") if SPELLED.search(path.read_text(encoding="utf-8"))}
    assert found - {"titles.py"} == {"cli_args.py"}  # a label such as "C=10" is no command
