"""Whatever a person or a file says wrongly: one sentence that names the place, exit code 2, no folder, no traceback.

At least 100 bad values for every setting of every method, typed and stored, for every option of every command, for
every field of the forms, for lines of events, small files and files of data. A new setting, option or command is met
without a change here; a new option of free text fails `KINDS` until somebody says what is wrong for it.
"""

import argparse
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lps import __main__ as command_line
from lps import api
from lps.cli._parser import parser
from lps.data import sources
from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import Config, configure, parameters, parse_settings, protocol_parameters
from lps.settings.parameters import Parameter
from lps.store import events, run_folders
from lps.studies import search
from lps.ui.forms import form
from lps.ui.forms.form import Draft
from tests.bad_values import ENOUGH, HUGE, NUMBERS, STOCK, UNPRINTABLE, stored, typed
from tests.hostile_ids import IDS

RECORDED = run_folders.recorded_runs()[0].id
SETTINGS = [("lps", name) for name in protocol_parameters()]
SETTINGS += [(method, name) for method in catalog.method_names() for name in catalog.method_info(method).parameters]
LONGEST = 2_000  # characters of a sentence; the longest lists all settings of a method


def is_one_sentence(text: str) -> bool:
    return 0 < len(text) <= LONGEST and "\n" not in text and "Traceback" not in text


def refusal(act, *arguments) -> UserError:
    """What `act` says; fails where it says nothing, or no sentence."""
    with pytest.raises(UserError) as caught:
        act(*arguments)
    assert is_one_sentence(str(caught.value)), str(caught.value)[:300]
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("method, name", SETTINGS)
def test_every_setting_refuses_what_is_typed_wrongly(method, name):
    """In the launch form and after --set, by name."""
    texts = typed(parameters(method)[name])
    assert len(set(texts)) >= ENOUGH
    for text in texts:
        assert refusal(parse_settings, [f"{name}={text}"], method).name == name
        if name not in ("dataset", "method"):  # chosen from a list in the form
            assert list(form.read_draft(Draft(method=method, texts={name: text})).errors) == [name]


@pytest.mark.slow
@pytest.mark.parametrize("method, name", SETTINGS)
def test_every_key_of_a_config_refuses_what_is_stored_wrongly(method, name):
    parameter = parameters(method)[name]
    values = stored(parameter)
    assert len(set(values)) >= ENOUGH
    start = "{" if name == "method" else f'{{"method": "{method}", '
    for value in values:
        error = refusal(Config.from_json, f'{start}"{name}": {value}}}')
        assert error.name == name or (value in HUGE and error.name == "config.json")


TEXTS = {  # settings whose texts are checked further, each with words that are fine
    "dataset": catalog.dataset_names(), "method": catalog.method_names(), "device": ["auto", "cpu", "cuda"],
    "network.name": [], "network.freeze_until": ["none"], "split.seen_classes": ["first", "random"],
}  # fmt: skip


@pytest.mark.parametrize("name", list(TEXTS))
def test_texts_that_must_be_of_a_form_are_checked_in_full(name):
    texts = [
        text for text in STOCK if text.strip() not in TEXTS[name] and not (name.startswith("split") and _ids(text))
    ]
    assert len(texts) >= ENOUGH
    for text in texts:
        assert refusal(configure, {name: text}).name == name


def _ids(text: str) -> bool:
    """Whether a text is class ids such as 0,3: those are fine."""
    parts = text.replace(",", " ").split()
    return bool(parts) and all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)


def test_a_setting_that_is_named_twice_is_refused_everywhere():
    for method, name in SETTINGS[2:]:
        parameter = parameters(method)[name]
        text = f"{name}={'none' if parameter.default is None else parameter.default}"
        assert refusal(parse_settings, [text, text], method).name == name
    assert "is set twice, to '1' and to '2'" in str(refusal(parse_settings, ["epochs=1", "epochs=2"], "lps"))


def test_names_that_are_no_setting_are_refused_by_all_who_take_settings(tmp_path):
    names = [text for text in STOCK if "=" not in text and text.strip() not in parameters("lps")]
    assert len(names) >= ENOUGH
    for name in names:
        refusal(parse_settings, [f"{name}=1"], "lps")
        refusal(configure, {name: 1})
        refusal(Config.from_json, json.dumps({name: 1}))
    for name in names[:20]:
        refusal(lambda: api.launch(runs=tmp_path / "runs", **{name: 1}))  # noqa: B023
    assert not (tmp_path / "runs").exists()


def options(top=None, path=(), with_all=False):
    """(words of the command, its option) for every option and every place of every command.

    with_all: those without a value too, and those that are for the program itself.
    """
    for action in (top or parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield from options(sub, (*path, name), with_all)
        elif with_all or action.nargs != 0 and action.help != argparse.SUPPRESS:
            yield path, action


@cache
def the_parser():
    return parser()


def _never(*arguments, **options):
    raise AssertionError(f"{arguments} is carried out")


@pytest.fixture
def lps(monkeypatch, tmp_path, capsys):
    """lps(arguments) -> the one line that is said; fails where the code is not 2, or a folder is made."""
    monkeypatch.setattr(command_line, "parser", lambda command: the_parser())
    for name in (
        "lps.scheduler.launcher.launch",
        "lps.scheduler.launcher.launch_all",
        "lps.studies.search_driver.start_search",
        "os.execve",
        "lps.studies.search.start_driver",
    ):
        monkeypatch.setattr(name, _never)
    monkeypatch.chdir(tmp_path)

    def refused(*arguments: str) -> str:
        try:
            code = command_line.main([*arguments[:1], "--runs", str(tmp_path / "runs"), *arguments[1:]])
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        lines = said.err.splitlines()
        assert code == 2 and lines and not said.out, (arguments, said)
        assert is_one_sentence(lines[-1]) and len(lines) == 1, (arguments, said.err[:500])
        assert not list(tmp_path.iterdir()), arguments
        return lines[0]

    return refused


FREE = {  # text for people, or a place that need not exist: whatever is written there is fine
    ("train", "name"), ("launch", "name"), ("pretrain", "name"), ("count-classes", "name"), ("sweep", "name"),
    ("record", "name"), ("train-on", "name"), ("rename", "name"), ("note", "text"), ("import", "dataset_path"),
}  # fmt: skip
FILE = str(Path(__file__).resolve())
FOLDER = str(Path(__file__).resolve().parent)
BELOW_A_FILE = [f"{FILE}/{number}" for number in range(50)] + [f"/proc/nothing {number}/x" for number in range(60)]
NEEDED = {  # what a command must be told beside the option in question; the run is a recording
    "report": ["--to", "x.html", RECORDED], "compare": [RECORDED], "export": [RECORDED, "--to", "csv"],
    "record": [RECORDED, "--to", "x"], "project": [RECORDED], "import": ["x.zip"], "rename": [RECORDED, "name"],
    "note": [RECORDED, "text"], "search": ["--space", "margin_scale=1..10"], "count-classes": [],
    "audit": ["digits"], "predict": [RECORDED, FOLDER], "train-on": [RECORDED],
    "name": [RECORDED], "replay": ["--to", "x.html", RECORDED], "diff": [RECORDED],
}  # fmt: skip
FORMLESS = [text for text in STOCK if "=" not in text and not text.startswith("-")]


def words_of(texts, *fine: str) -> list[str]:
    """Texts less those that are fine; one that begins with a dash would be read as an option."""
    return [text for text in texts if text.strip() not in fine and not text.startswith("-")]


def seeds() -> list[str]:
    return words_of(text for text in typed(Parameter("seed", "int", 0, "", 0, 2**31 - 1)) if not _ids(text))


FILTERS = ["(", ")", "lr>", ">1", "and", "not", "lr>1 and", "name~(", "lr=1 or", "lr==", "novel>0.8", "lr>0.05)"]
FILTERS += [f"nothing{number}>1" for number in range(60)] + [f"lr>=much{number}" for number in range(60)]
PICTURES = [text for text in words_of(STOCK) if not text.isdigit()]  # digits are numbered


KINDS = {  # by the name of an option: bad texts, and words of which the sentence has one
    "first": (words_of(IDS) + [f"a{mark}" for mark in UNPRINTABLE], ["run:"]),
    "second": (words_of(IDS) + [f"a{mark}" for mark in UNPRINTABLE], ["run:"]),
    "filter": (FILTERS, ["filter:"]),
    "runs": ([f"{text}\0" for text in words_of(STOCK)], ["--runs"]),
    "run": (words_of(IDS) + [f"a{mark}" for mark in UNPRINTABLE], ["run:"]),
    "ids": (words_of(IDS) + [f"a{mark}" for mark in UNPRINTABLE], ["run:"]),
    "paths": (words_of(STOCK, "", ".", "/", "./", "..", "//", "~", "/etc"), ["path:", "archive:", "PATH"]),
    "dataset": (words_of(STOCK, ""), ["dataset"]),
    "method": (words_of(STOCK, ""), ["method"]),
    "fetch": (words_of(STOCK, ""), ["dataset"]),
    "seed": (seeds(), ["seed:"]),
    "seeds": (words_of(seeds(), ""), ["seed"]),
    "settings": (FORMLESS, ["--set"]),
    "varied": (FORMLESS, ["--vary"]),
    "space": (FORMLESS, ["--space"]),
    "slurm": (FORMLESS, ["slurm"]),
    "tag": (words_of(STOCK, ""), ["tag:"]),
    "changes": ([text for text in words_of(STOCK) if text[:1] != "+"], ["tag:"]),
    "protocol": (words_of(STOCK), ["protocol"]),
    "seen": (words_of(STOCK, "default"), ["seen"]),
    "images": (words_of(STOCK), ["images"]),
    "select": (words_of(STOCK), ["select"]),
    "preset": (words_of(STOCK), ["preset"]),
    "scale": (words_of(STOCK, ""), ["scale"]),
    "mode": (words_of(STOCK), ["mode"]),
    "objective": (words_of(STOCK), ["objective"]),
    "search": (words_of(STOCK, ""), ["search:"]),
    "against": (words_of(STOCK), ["against:"]),
    "into": (BELOW_A_FILE, ["to", "into"]),
    "key": (words_of(STOCK), ["features:"]),
    "what": (words_of(STOCK, ".", "/", "./", "..", "//", "/etc"), ["dataset"]),
    "names": (FORMLESS, ["name:"]),
    "leave_out": (PICTURES, ["pictures:"]),
    "ignore": (PICTURES, ["pictures:"]),
    "relabel": (FORMLESS, ["relabel:"]),
    "host": (words_of(STOCK), ["host:"]),
    "pictures": (words_of(STOCK, ".", "/", "./", "..", "//", "/etc", ""), ["pictures:"]),
}
OWN = {  # (command, option): the same where a command means something else by the name
    ("export", "to"): (words_of(STOCK), ["to:"]),
    ("report", "to"): (BELOW_A_FILE, ["to:"]),
    ("record", "to"): (BELOW_A_FILE, ["to:"]),
    ("replay", "to"): (BELOW_A_FILE, ["to:"]),
    ("predict", "to"): ([f"{FILE}/{number}" for number in range(110)], ["to:"]),
    ("ledger", "to"): (BELOW_A_FILE, ["to:"]),
    ("search", "name"): (words_of(STOCK, "", *[text for text in STOCK if search.NAME.fullmatch(text)]), ["name:"]),
}
BEFORE = {
    ("audit", "what"): [],
    ("sweep", "scale"): ["--preset", "ablation"],
    ("export", "to"): [],
    ("search", "search"): [],
}


def spelled(path, action, text: str) -> list[str]:
    """The arguments with `text` for the option, and everything else that the command needs."""
    command = path[0]
    needed = list(BEFORE.get((command, action.dest), NEEDED.get(command, [])))
    if action.option_strings:
        option = action.option_strings[0]
        if option in needed:
            del needed[needed.index(option) : needed.index(option) + 2]
        return [*path, *needed, f"{option}={text}"]
    if action.dest in ("number", "changes", "names", "second"):
        return [*path, RECORDED, text]
    if command == "predict":
        return [*path, text, FOLDER] if action.dest == "run" else [*path, RECORDED, text]
    if action.dest in ("run", "ids"):
        needed = [word for word in needed if word != RECORDED]
    rest = ["0"] if path[-1] == "priority" else []
    return [*path, text, *([] if action.dest in ("paths", "search") else needed), *rest]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path, action", [pytest.param(*item, id=f"{' '.join(item[0])} {item[1].dest}") for item in options()]
)
def test_every_option_refuses_what_it_is_told_wrongly(path, action, lps):
    if (path[0], action.dest) in FREE:
        return
    names = [*action.option_strings, action.dest, action.dest.replace("_", "-"), str(action.metavar)]
    if action.dest == "run" and path[-1] in ("up", "down", "last", "hold", "release"):
        texts, names = words_of(STOCK), ["was removed; use "]  # whatever they are told
    elif action.type in (int, float) or action.dest == "number":
        texts = words_of(typed(Parameter("", "float" if action.type is float else "int", 0, "")))
    elif action.choices:
        texts = words_of(STOCK, *action.choices)
    else:
        texts, names = OWN.get((path[0], action.dest)) or KINDS[action.dest]
    assert len(set(texts)) >= ENOUGH
    for text in texts:
        said = lps(*spelled(path, action, text))
        assert any(name in said for name in names), (text, said)


def bad_lines() -> list[bytes]:
    """Lines of `events.jsonl` with one thing wrong, and lines that are nothing at all."""
    good = {"kind": "eval", "step": 1, "epoch": 1, "time": 1.5, "values": {"kl": 0.5}}
    odd = [None, True, "", "x", -1, 1.5, 2**53, [], {}, [1], {"a": 1}, "1"]
    found = [{**good, key: value} for key in ("step", "epoch", "kind") for value in odd]
    found += [{name: value for name, value in good.items() if name != key} for key in good]
    whole = json.dumps(good).encode()
    nothing = [whole[:end] for end in range(len(whole))] + [b"\xff", b"[" * 100_000, b"null", b"9" * 5000]
    return [*(json.dumps(event).encode() for event in found), *nothing]


def test_lines_of_events_that_are_none_are_left_out(tmp_path):
    path, good = tmp_path / "events.jsonl", b'{"kind":"eval","step":1,"epoch":1,"time":1,"values":{"kl":0.5}}'
    lines = bad_lines()
    assert len(set(lines)) >= ENOUGH
    for line in lines:
        path.write_bytes(good + b"\n" + line + b"\n" + good + b"\n")
        found, offset = events.read_events(path)
        assert [event["values"] for event in found] == [{"kl": 0.5}] * 2 and offset == path.stat().st_size, line[:200]


def test_paths_to_nothing_are_one_sentence():
    paths = [f"/nowhere/{text}" for text in STOCK if text.isprintable() and len(text) < 4000]
    assert len(paths) >= ENOUGH
    for name in ("arrays", "folder", "imagenet100", "cub", "stanford_cars", "fgvc_aircraft", "herbarium19"):
        for path in paths:
            assert refusal(sources.load, name, path).name == "dataset.path"


@pytest.mark.slow
def test_files_of_arrays_and_checkpoints_that_are_none_are_one_sentence(tmp_path):
    from lps.network import start_weights

    path = tmp_path / "a.npz"
    np.savez(path, x_train=np.zeros((8, 6, 5, 3), np.uint8), y_train=np.arange(8) % 2)
    whole = path.read_bytes()
    contents = [whole[:end] for end in range(0, len(whole), len(whole) // 60)] + [text.encode() for text in NUMBERS]
    assert len(contents) >= ENOUGH
    for content in contents:
        path.write_bytes(content)
        assert refusal(sources.load, "arrays", str(path)).name == "dataset.path"
        assert refusal(start_weights.read_tensors, path).name == "network.checkpoint"
