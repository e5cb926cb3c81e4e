"""A user's decisions about pictures: growing entries, states that runs name, damaged files."""

import json
import os

import pytest

from lps.errors import UserError
from lps.files.journal import in_effect
from lps.settings import edit_log
from lps.settings.config import Config, configure
from lps.settings.edit_log import (
    UNKNOWN,
    decisions_at,
    log_path,
    newest_state,
    read_entries,
    record_decision,
    undo_decision,
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_DECISIONS", str(tmp_path / "decisions"))


def test_nothing_is_decided_and_nothing_written_before_somebody_decides(tmp_path):
    assert newest_state("digits", None) is None and decisions_at("digits", None, None) == edit_log.Decisions()
    assert configure().dataset_decisions is None and not (tmp_path / "decisions").exists()


def test_what_was_decided_adds_up_and_the_last_word_counts():
    record_decision("folder", "/a", "leave out", ["cat/1.jpg", "cat/2.jpg"], why="duplicate")
    record_decision("folder", "/a", "relabel", ["dog/1.jpg"], label="cat")
    record_decision("folder", "/a", "relabel", ["dog/2.jpg"], label=UNKNOWN)
    said = record_decision("folder", "/a", "relabel", ["cat/2.jpg"], label="dog")
    assert said.left_out == {"cat/1.jpg"}
    assert said.labels == {"dog/1.jpg": "cat", "dog/2.jpg": UNKNOWN, "cat/2.jpg": "dog"}
    assert newest_state("folder", "/a") == said.state and newest_state("folder", "/b") is None
    assert decisions_at("folder", "/a", said.state) == said


def test_an_earlier_state_stays_what_it_was():
    first = record_decision("digits", None, "leave out", [3], of="x")
    second = record_decision("digits", None, "leave out", [4], of="x")
    assert first.state != second.state and decisions_at("digits", None, first.state).left_out == {3}
    assert newest_state("digits", None) == second.state


def test_what_is_taken_back_stays_in_the_file_and_brings_the_earlier_state():
    first = record_decision("digits", None, "leave out", [3])
    record_decision("digits", None, "relabel", [4], label="9")
    assert undo_decision("digits", None, 2).state == first.state == newest_state("digits", None)
    assert undo_decision("digits", None, 1).state == "" and newest_state("digits", None) is None
    assert len(read_entries(log_path("digits", None))) == 4 and in_effect(read_entries(log_path("digits", None))) == []
    assert decisions_at("digits", None, first.state).left_out == {3}
    for number in (1, 7, 3):
        with pytest.raises(UserError, match=f"undo: {number} is not a current decision; choices: none"):
            undo_decision("digits", None, number)


def test_the_order_of_the_same_decisions_does_not_matter():
    one = record_decision("digits", None, "leave out", [3, 4])
    other = [record_decision("folder", "/a", "leave out", [key]) for key in (4, 3)][-1]
    assert one.state == other.state


def test_what_is_found_right_changes_no_run():
    said = record_decision("digits", None, "ignore", [1, 2], why="duplicate")
    assert said.ignored == {("duplicate", 1), ("duplicate", 2)} and newest_state("digits", None) is None


def test_the_next_run_takes_it_and_a_stored_one_keeps_its_own(tmp_path):
    before = configure()
    state = record_decision("digits", None, "leave out", [3]).state
    config = configure()
    assert config.dataset_decisions == state and Config.from_json(config.to_json()) == config
    assert Config.from_json(before.to_json()).dataset_decisions is None
    old = {key: value for key, value in before.flat().items() if key != "dataset.decisions"}
    assert Config.from_json(json.dumps(old)) == before
    assert configure({"dataset.decisions": "0"}).dataset_decisions == "0"
    undo_decision("digits", None, 1)
    assert configure() == before


@pytest.mark.parametrize("value", ["", "1", "0123456789ag", "0123456789abc", "../0123456789", "A123456789ab"])
def test_what_is_no_state_is_refused(value):
    with pytest.raises(
        UserError, match="dataset.decisions: .* does not identify saved decisions; expected 0 or the 12"
    ):
        configure({"dataset.decisions": value})


def test_a_state_that_is_not_known_here_is_refused():
    record_decision("digits", None, "leave out", [3])
    with pytest.raises(UserError, match="has no decisions called 000000000000; choose 0 to ignore all decisions"):
        decisions_at("digits", None, "000000000000")


DAMAGE = {
    "no JSON": b"{",
    "no text": b"\xff\n",
    "no object": b"[]\n",
    "deep": b"[" * 100_000,
    "a foreign act": b'{"do": "burn", "pictures": [1], "state": ""}\n',
    "no list": b'{"do": "leave out", "pictures": 1, "state": ""}\n',
    "a number for a label": b'{"do": "relabel", "pictures": [1], "label": 1, "state": ""}\n',
    "pictures that are lists": b'{"do": "leave out", "pictures": [[1]], "state": ""}\n',
    "a time that is none": b'{"do": "leave out", "pictures": [1], "state": "", "time": [1]}\n',
    "a time before all": b'{"do": "leave out", "pictures": [1], "state": "", "time": -1e300}\n',
    "a time without end": b'{"do": "leave out", "pictures": [1], "state": "", "time": 1' + b"0" * 400 + b"}\n",
    "huge": b" " * ((8 << 20) + 1),
}


@pytest.mark.parametrize("data", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_one_sentence_and_stays_as_it_is(data, tmp_path):
    path = log_path("digits", None)
    path.parent.mkdir()
    path.write_bytes(data)
    for attempt in (
        lambda: newest_state("digits", None),
        lambda: record_decision("digits", None, "leave out", [1]),
        configure,
    ):
        with pytest.raises(
            UserError, match="is damaged and was not changed .*; choose 0 to ignore the decisions"
        ) as caught:
            attempt()
        assert len(str(caught.value)) < 500
    assert path.read_bytes() == data
    assert configure({"dataset.decisions": "0"}).dataset_decisions == "0"


def test_a_state_whose_entries_were_changed_is_not_taken_for_it():
    state = record_decision("digits", None, "leave out", [3]).state
    path = log_path("digits", None)
    path.write_text(path.read_text().replace("[3]", "[5]"))
    with pytest.raises(UserError, match="has no decisions called"):
        decisions_at("digits", None, state)


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "decisions").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="cannot be written"):
        record_decision("digits", None, "leave out", [3])
    assert not os.listdir(tmp_path / "elsewhere")


def test_decisions_are_this_persons_alone():
    record_decision("digits", None, "leave out", [3])
    assert log_path("digits", None).stat().st_mode & 0o077 == 0
    assert edit_log.decisions_folder().stat().st_mode & 0o077 == 0


def test_a_decision_reads_as_a_person_says_it():
    record_decision("folder", "/a", "leave out", [f"cat/{i}.jpg" for i in range(5)])
    record_decision("folder", "/a", "relabel", ["\x1b[2J"], label="dog")
    words = [edit_log.entry_in_words(entry) for _, entry in in_effect(read_entries(log_path("folder", "/a")))]
    assert words == ["5 pictures left out: cat/0.jpg, cat/1.jpg, cat/2.jpg, …", "1 picture labeled dog: [2J"]
