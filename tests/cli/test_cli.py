"""The command line as a user sees it: exit codes, and one sentence per error."""

import json
from pathlib import Path

import pytest

from lps.__main__ import main
from lps.cli._parser import parser
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import configure
from lps.store.run_folders import create_run
from tests.sample_runs import make_run


@pytest.fixture
def lps(forks):
    def call(*arguments, check=True):
        done = forks.run("-m", "lps", *arguments)
        assert not check or done.returncode == 0, done.stderr
        return done

    return call


def test_methods_and_datasets_as_json(capsys):
    for command, expected in (("methods", "lps"), ("datasets", "digits")):
        assert main([command, "--json"]) == 0
        assert expected in [item["name"] for item in json.loads(capsys.readouterr().out)]
        assert main([command]) == 0 and expected in capsys.readouterr().out


@pytest.mark.turn(2, 3)
@pytest.mark.slow
def test_a_run_from_the_first_command_to_the_trash(lps, tmp_path):
    tiny = [w for text in ("epochs=1", "pretrain.epochs=1", "dataset.images_per_class=60") for w in ("--set", text)]
    done = lps(
        "train", "--dataset", "digits", "--method", "lps", "--seed", 0, *tiny, "--runs", tmp_path, "--name", "é <b>"
    )
    folder = Path(done.stdout.strip().splitlines()[-1])
    assert folder.parent == tmp_path and "100%" in done.stderr and "finished" in done.stderr
    shown = json.loads(lps("show", folder.name, "--json", "--runs", tmp_path).stdout)
    assert (shown["id"], shown["state"], shown["epochs"], shown["name"]) == (folder.name, "finished", 1, "é <b>")
    assert shown["config"]["epochs"] == 1 and 0 <= shown["last"]["accuracy/all"] <= 1 and shown["best"]["epoch"] == 1
    lps("rename", folder.name[-6:], "second", "--runs", tmp_path)
    (row,) = json.loads(lps("list", "--json", "--runs", tmp_path).stdout)
    assert row["name"] == "second" and row["state"] == "finished"
    assert "finished" in lps("resume", folder.name, "--runs", tmp_path, check=False).stderr
    assert "For 7 days" in lps("delete", folder.name, "--runs", tmp_path).stderr
    assert json.loads(lps("list", "--json", "--runs", tmp_path).stdout) == []


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["train", "--set", "lr=abc"], "lr: 'abc' is not a number"),
        (["launch", "--set", "speed=1"], "speed: is not a setting of lps; choices: "),
        (["train", "--method", "lsp"], "method: 'lsp' is not one of "),
        (["train", "--dataset", "../x"], "dataset: '../x' is not one of "),
        (["train", "--seed", "-1"], "seed: -1 is not a whole number from 0"),
        (["train", "--seed", "x"], "seed: 'x' is not a whole number"),
        (["train", "--set", "device=cuda:99"], "device: "),
        (["train", "--set", "split.num_seen=10"], "split.num_seen: 10 of 10 classes seen; expected 1 to 9"),
        (["show", "nothing"], "run: 'nothing' is not in "),
        (["stop", "../../etc"], "run: '../../etc' is not in "),
        (["fly"], "invalid choice: 'fly'"),
        (["train", "--what"], "unrecognized arguments: --what"),
    ],
)
def test_a_wrong_value_is_one_line_and_exit_code_2_and_nothing_is_written(arguments, words, tmp_path, capsys):
    runs = tmp_path / "runs"
    try:
        code = main([*arguments, "--runs", str(runs)])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2 and words in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert not runs.exists()


def test_damaged_and_foreign_folders_are_listed_with_the_reason(tmp_path, capsys):
    run = create_run(tmp_path, configure({}))
    (run.folder / "config.json").write_text('{"speed": 1}')
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("x")
    assert main(["list", "--json", "--runs", str(tmp_path)]) == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == {run.id, "empty"} and {row["state"] for row in rows.values()} == {"unreadable"}
    assert "speed" in rows[run.id]["reason"] and "is missing" in rows["empty"]["reason"]
    assert main(["show", run.id, "--json", "--runs", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "unreadable"


def test_an_empty_folder_says_what_to_do(tmp_path, capsys):
    assert main(["list", "--runs", str(tmp_path / "none")]) == 0
    assert "python -m lps train" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["train", "--set", "=1"], "--set: '=1' is not of the form name=value"),
        (["queue", "slots", "9" * 20], f"slots: {'9' * 20} is not a whole number from 1 to 1024"),
        (["launch", "--priority", "9" * 30], f"priority: {'9' * 30} is not a whole number from -1000 to 1000"),
        (["export", "RUN", "--to", "archive", "--into", "FILE"], "into: 'FILE' is a file, where a folder should be"),
    ],
)
def test_what_means_nothing_is_named(arguments, words, tmp_path, capsys):
    run, file = create_run(tmp_path / "runs", configure({})), tmp_path / "file"
    file.touch()
    names = {"RUN": run.id, "FILE": str(file)}
    assert main([*(names.get(word, word) for word in arguments), "--runs", str(run.root)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lps: {words.replace('FILE', str(file))}") and said.count("\n") == 1


def test_weights_that_know_imagenets_classes_are_told_at_the_start_and_at_the_export(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("lps.scheduler.launcher.launch", lambda run, **how: None)
    asked = ["--set", "network.name=efficientnet_lite0", "--set", "network.image_size=32"]
    assert main(["launch", *asked, "--runs", str(tmp_path / "runs")]) == 0
    assert ABOUT_LABELS in capsys.readouterr().err
    run = make_run(tmp_path / "others", epochs=1, settings={"features": "stored"})
    assert main(["export", run.id, "--to", str(tmp_path / "labels.csv"), "--runs", str(run.root)]) == 0
    said = capsys.readouterr()
    assert ABOUT_LABELS in said.err and ABOUT_LABELS not in said.out


@pytest.mark.parametrize(
    "words", ["RUN 9=a 7=b --epoch 1", "RUN --epoch 1 9=a 7=b", "--epoch 1 RUN 9=a 7=b", "RUN 9=a --epoch 1 7=b"]
)
def test_names_of_clusters_may_stand_behind_an_option(words):
    options = parser("name").parse_args(["name", *words.split()])
    assert (options.run, options.epoch, options.names) == ("RUN", 1, ["9=a", "7=b"])


def test_a_word_behind_an_unknown_option_is_no_name(capsys):
    with pytest.raises(SystemExit):
        parser("name").parse_args(["name", "RUN", "--epoc", "1"])
    assert "unrecognized arguments: --epoc" in capsys.readouterr().err
