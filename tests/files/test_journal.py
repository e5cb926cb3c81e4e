"""A journal only grows: entries in effect, refused entries, and the bytes of both file formats."""

import json
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lps.errors import UserError
from lps.files.journal import Journal, UnreadableJournal, in_effect

KEYS = ("the-first-key", "the-second-key")
ENTRIES = st.one_of(
    st.just({"say": 1}),
    st.sampled_from(KEYS).map(lambda key: {"say": 1, "key": key}),
    st.just({"undo": True}),
    st.sampled_from(KEYS).map(lambda key: {"undo": key}),
    st.integers(1, 12).map(lambda number: {"undo": number}),
    st.integers(0, 12).map(lambda count: {"restore": count}),
)


def states_of(entries):
    """Every state in turn, kept whole: what `standing` finds without keeping any."""
    states = [[]]
    for number, entry in enumerate(entries, 1):
        held, undone, count = states[-1], entry.get("undo"), entry.get("restore")
        if count is not None:
            held = states[count] if count < len(states) else held
        elif undone is True:
            held = held[:-1]
        elif isinstance(undone, int):
            held = [one for one in held if one[0] != undone]
        elif undone:
            held = [one for one in held if one[1].get("key") != undone]
        else:
            held = [*held, (number, entry)]
        states.append(held)
    return states


@given(st.lists(ENTRIES, max_size=14))
def test_what_holds_is_what_all_states_one_after_another_lead_to(entries):
    assert in_effect(entries) == states_of(entries)[-1]


def test_ten_thousand_restored_states_do_not_recurse():
    entries = [{"say": 1}]
    for number in range(10_000):
        entries.append({"restore": number + 1})
    assert in_effect(entries) == [(1, {"say": 1})]


def test_both_kinds_of_file_are_written_as_before(tmp_path):
    """The bytes are those that earlier versions wrote."""
    stored = {
        "names.json": '{"version": 1, "entries": [\n{"epoch": 3, "name": "zèbre"},\n{"epoch": 3, "undo": true}\n]}\n',
        "digits.jsonl": '{"epoch": 3, "name": "z\\u00e8bre"}\n{"epoch": 3, "undo": true}\n',
    }
    for name, text in stored.items():
        journal = Journal(tmp_path / name, lambda _: True, nullcontext)
        assert journal.entries() == []
        journal.append(lambda before: {"epoch": 3, "name": "zèbre"})
        journal.append(lambda before: {"epoch": 3, "undo": len(before) == 1})
        journal.append(lambda _: None)
        assert (tmp_path / name).read_bytes() == text.encode()
        assert journal.entries() == [{"epoch": 3, "name": "zèbre"}, {"epoch": 3, "undo": True}]


BAD = [[], "x", {"time": "x"}, {"time": -1}, {"time": 1e300}, {"undo": -1}, {"undo": "short"}, {"restore": True}]
BAD += [{"restore": "1"}, {"key": 3}, {"key": "short"}, {"own": 0}]


@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_an_entry_that_cannot_be_read_is_passed_over_and_kept_or_damage(tmp_path, name, bad):
    stored = [{"say": 1}, bad]
    text = json.dumps({"entries": stored}) if name == "a.json" else "".join(f"{json.dumps(one)}\n" for one in stored)
    (tmp_path / name).write_text(text)
    strict = Journal(tmp_path / name, lambda entry: "own" not in entry, nullcontext)
    for act in (strict.entries, lambda: strict.append(lambda _: {"say": 2})):
        with pytest.raises(UnreadableJournal, match=f"{name}: is damaged and was not changed .entry 2 cannot be read"):
            act()
    assert (tmp_path / name).read_text() == text
    lenient = Journal(tmp_path / name, strict.is_own, nullcontext, skips_unknown=True)
    lenient.append(lambda before: {"say": len(before) + 1})
    assert lenient.entries() == [{"say": 1}, {"say": 2}]
    assert json.dumps(bad) in (tmp_path / name).read_text()


@pytest.mark.parametrize("content", [b"[]", b"3", b"{}", b'{"entries": 3}', b"{", b"\xff\xfe"])
def test_a_file_without_a_list_of_entries_is_damage_and_stays(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    journal = Journal(tmp_path / "a.json", lambda _: True, nullcontext)
    for act in (journal.entries, lambda: journal.append(lambda _: {"say": 2})):
        with pytest.raises(UnreadableJournal, match="a.json: is damaged and was not changed"):
            act()
    assert (tmp_path / "a.json").read_bytes() == content


def test_a_file_is_bounded_when_read_and_when_written(tmp_path):
    journal = Journal(tmp_path / "a.jsonl", lambda _: True, nullcontext, max_bytes=1 << 20)
    with pytest.raises(UserError, match="a.jsonl: would be larger than 1 MiB"):
        journal.append(lambda _: {"text": "x" * (1 << 20)})
    assert not journal.path.exists()
    journal.path.write_bytes(b"{}\n" * (1 << 19))
    with pytest.raises(UnreadableJournal, match="it is larger than 1 MiB"):
        journal.entries()


def test_a_link_is_not_read(tmp_path):
    (tmp_path / "own.json").write_text('{"entries": []}')
    (tmp_path / "a.json").symlink_to("own.json")
    with pytest.raises(UnreadableJournal, match="a.json: cannot be read .it is a link"):
        Journal(tmp_path / "a.json", lambda _: True, nullcontext).entries()
