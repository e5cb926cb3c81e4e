"""Names of clusters: the sum of the entries, and that no decision is ever lost."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lps.analysis import naming
from lps.analysis.naming import Naming, apply_step
from lps.errors import UserError
from lps.files.atomic import SMALL_FILE
from lps.settings.config import configure
from lps.store.run_folders import create_run


@pytest.fixture
def run(tmp_path):
    return create_run(tmp_path, configure({}))


def name(cluster, text):
    return {"do": "name", "id": cluster, "name": text}


def unname(cluster):
    return {"do": "unname", "id": cluster}


def merge(cluster, into):
    return {"do": "merge", "id": cluster, "into": into}


def split(images, new):
    return {"do": "split", "images": images, "new": new}


def assign(images, to):
    return {"do": "assign", "images": images, "to": to}


def wrong(images, cluster):
    return {"do": "wrong", "images": images, "id": cluster}


def nothing(images):
    return {"do": "nothing", "images": images}


def at(run, epoch) -> Naming:
    return naming.naming_of_epoch(naming.read_entries(run), epoch)


def said(*steps) -> Naming:
    found = Naming()
    for step in steps:
        found = apply_step(found, step)
    return found


def test_steps_add_up():
    found = said(name(7, "zebra"), merge(8, 7), merge(3, 8 - 1), split([5, 2], 10), {"do": "reject", "id": 9})
    assert found.names == {7: "zebra"} and found.parents == {8: 7, 3: 7} and found.moved == {5: 10, 2: 10}
    assert found.rejected == {9} and found.parts(7) == [3, 8] and found.split_off == [10]
    assert found.root(8) == found.root(7) == 7


def test_the_last_word_on_a_single_image_holds():
    found = said(assign([3, 4], 7), wrong([4, 5], 2), nothing([6]), assign([6], 7), nothing([3]))
    assert found.moved == {6: 7}
    assert found.confirmed == {6}
    assert found.wrong_clusters == {4: 2, 5: 2}
    assert found.classless_images == {3}
    assert found.unlabeled == {3, 4, 5}
    assert said(assign([3], 7), wrong([3], 7), assign([3], 7)).unlabeled == set()


def test_an_image_of_a_cluster_that_was_made_by_hand_stays_there():
    found = said(split([1, 2, 3], 10), assign([1], 10), wrong([1], 10), nothing([2]))
    assert found.moved == {1: 10, 2: 10, 3: 10} and found.confirmed == set() and found.unlabeled == {1, 2}


def test_merges_of_merges_have_one_root():
    found = said(merge(1, 2), merge(2, 3), merge(3, 4))
    assert [found.root(i) for i in (1, 2, 3, 4)] == [4, 4, 4, 4] and found.parts(4) == [1, 2, 3]


def test_naming_accepts_what_was_rejected_and_accepting_keeps_the_name():
    assert said({"do": "reject", "id": 1}, name(1, "cat")).rejected == frozenset()
    found = said(name(1, "cat"), {"do": "reject", "id": 1}, {"do": "accept", "id": 1})
    assert found.names == {1: "cat"} and not found.rejected


def test_a_name_is_taken_away_and_free_again():
    found = said(name(1, "cat"), {"do": "reject", "id": 1}, unname(1), name(2, "cat"))
    assert found.names == {2: "cat"} and found.rejected == {1}
    assert said(unname(1)).is_empty
    assert said(name(1, "cat"), merge(1, 2), name(2, "cat")).names[2] == "cat", "of a merged cluster, too"


def test_assigned_images_are_confirmed_in_a_cluster_that_may_be_the_models():
    found = said(split([1, 2], 10), assign([2, 3], 7), assign([3], 4))
    assert found.moved == {1: 10, 2: 7, 3: 4} and found.confirmed == {2, 3}
    assert found.created_clusters == {10} and found.split_off == [10] and found.next_id(10) == 11
    assert said(split([1, 2], 10), split([2, 3], 11)).moved == {1: 10, 2: 11, 3: 11}
    assert Naming().next_id(10) == 10 and said(split([1], 10), split([2], 11)).next_id(10) == 12


def test_a_cluster_that_lost_its_last_image_gives_its_name_back_and_keeps_its_id():
    found = said(split([1], 10), name(10, "cat"), assign([1], 2), name(2, "cat"))
    assert found.split_off == [] and found.names[2] == "cat" and found.next_id(10) == 11


@pytest.mark.parametrize(
    "steps, words",
    [
        ([name(1, "cat"), name(2, "Cat")], "already the name of cluster 1; merge the two"),
        ([name(1, "  ")], "is not a name"),
        ([name(1, None)], "is not a name"),
        ([name(-1, "cat")], "not the id of a cluster"),
        ([name(True, "cat")], "not the id of a cluster"),
        ([merge(1, 1)], "cannot be merged into itself"),
        ([merge(1, 2), merge(2, 1)], "cluster 1 is part of cluster 2; undo the merge first"),
        ([merge(1, 2), merge(1, 3)], "cluster 1 is part of cluster 2"),
        ([merge(1, 2), name(1, "cat")], "cluster 1 is part of cluster 2"),
        ([name(1, "cat"), merge(1, 2), unname(1)], "cluster 1 is part of cluster 2"),
        ([split([], 10)], "choose at least one image"),
        ([split([1], 10), split([2], 10)], "not the id of a new cluster"),
        ([assign([1], 7), split([2], 7)], "not the id of a new cluster"),
        ([assign([], 7)], "choose at least one image"),
        ([merge(1, 2), assign([3], 1)], "cluster 1 is part of cluster 2"),
        ([{"do": "delete", "id": 1}], "not one of name, merge, split, assign, wrong, nothing, reject, accept"),
    ],
)
def test_what_cannot_be_is_refused(steps, words):
    with pytest.raises(UserError, match=words):
        said(*steps)


def test_a_merge_takes_the_name_along_where_the_other_has_none():
    found = said(name(7, "zebra"))
    assert naming.merge_steps(found, 7, 9, {}) == [merge(7, 9), name(9, "zebra")]
    assert naming.merge_steps(found, 7, 0, {0: "cat"}) == [merge(7, 0)]
    assert naming.merge_steps(said(name(7, "zebra"), name(9, "horse")), 7, 9, {}) == [merge(7, 9)]
    assert said(name(7, "zebra"), *naming.merge_steps(found, 7, 9, {})).names[9] == "zebra"


def test_a_name_that_a_seen_class_has_already():
    with pytest.raises(UserError, match="already the name of cluster 0"):
        naming.check_name("CAT", 7, Naming(), {0: "cat", 1: "dog"})
    naming.check_name("cat", 0, Naming(), {0: "cat"})
    naming.check_name("cat", 7, said(name(0, "kitten")), {0: "cat"})


@pytest.mark.slow
@given(st.text())
def test_a_name_is_one_printable_line(text):
    try:
        found = naming.clean_name(text)
    except UserError:
        assert not any(c.isprintable() and not c.isspace() for c in text[: naming.NAME_LIMIT])
    else:
        assert found.isprintable() and found == found.strip() and 1 <= len(found) <= naming.NAME_LIMIT


def test_nothing_was_said(run):
    assert naming.read_entries(run) == [] and naming.naming_of_epoch([], 3).is_empty and naming.undo_last(run, 3) == ""
    assert not (run.folder / "names.json").exists()


def test_every_epoch_has_its_own_names(run):
    naming.record_steps(run, 3, [name(1, "cat")], "abc")
    naming.record_steps(run, 5, [name(1, "dog")])
    entries = naming.read_entries(run)
    assert naming.naming_of_epoch(entries, 3).names == {1: "cat"}
    assert naming.naming_of_epoch(entries, 5).names == {1: "dog"}
    assert naming.named_epochs(entries) == [3, 5] and entries[0]["snapshot"] == "abc"


def test_undo_takes_back_one_thing_at_a_time_and_the_file_still_has_it(run):
    naming.record_steps(run, 3, [name(1, "cat")])
    naming.record_steps(run, 3, [merge(2, 1), split([4], 10)])
    naming.record_steps(run, 4, [name(1, "elsewhere")])
    assert naming.undo_last(run, 3) == "cluster 2 merged into cluster 1; 1 image split off as cluster 10"
    assert at(run, 3) == said(name(1, "cat"))
    assert naming.undo_last(run, 3) == "cluster 1 named cat" and naming.undo_last(run, 3) == ""
    assert at(run, 3).is_empty
    assert naming.named_epochs(naming.read_entries(run)) == [4]
    naming.record_steps(run, 3, [name(1, "horse")])
    assert at(run, 3).names == {1: "horse"}
    naming.record_steps(run, 3, [unname(1)])
    assert at(run, 3).is_empty
    assert naming.undo_last(run, 3) == "cluster 1 no longer named"
    assert at(run, 3).names == {1: "horse"}
    assert [
        step["name"] for entry in naming.read_entries(run) for step in entry.get("steps", []) if "name" in step
    ] == ["cat", "elsewhere", "horse"]


def test_a_decision_that_changes_nothing_is_no_step_of_the_history(run):
    wrong = {"do": "wrong", "images": [5, 6], "id": 7}
    assert [naming.record_steps(run, 3, [wrong]) for _ in range(2)] == [True, False], "a double click"
    assert not naming.record_steps(run, 3, [name(1, "cat"), {"do": "unname", "id": 1}])
    naming.undo_last(run, 3)
    assert not at(run, 3).wrong_clusters and naming.record_steps(run, 3, [wrong])


def test_the_history_has_the_noun_of_the_data_and_the_names_of_clusters(run):
    naming.record_steps(run, 3, [assign([5], 7)], key="window-1-decision-1")
    naming.record_steps(run, 3, [split([6, 8], 10), nothing([9])])
    naming.undo_last(run, 3)
    naming.undo_entry(run, 3, "window-1-decision-1")
    naming.restore_state(run, 3, 2)
    naming.record_steps(run, 3, [name(7, "zebra"), merge(10, 7)])
    entries = naming.entries_of_epoch(naming.read_entries(run), 3)
    name_of = {7: "zebra", 10: "cluster 10"}.get
    assert naming.history_in_words(entries, "picture", name_of) == [
        "1 picture moved to zebra",
        "2 pictures split off as cluster 10; 1 picture marked as none of these",
        "undone: 2 pictures split off as cluster 10; 1 picture marked as none of these",
        "undone: 1 picture moved to zebra",
        "state 2 restored",
        "cluster 7 named zebra; cluster 10 merged into zebra",
    ]


def test_an_entry_with_a_key_is_there_once_and_taken_back_by_it_alone(run):
    for _ in range(2):
        naming.record_steps(run, 3, [assign([5], 7)], key="window-1-decision-1")
        naming.record_steps(run, 3, [assign([6], 7)], key="window-2-decision-1")
    assert at(run, 3).moved == {5: 7, 6: 7}
    for _ in range(2):
        naming.undo_entry(run, 3, "window-1-decision-1")
        naming.record_steps(run, 3, [assign([5], 7)], key="window-1-decision-1")  # sent again, late
    assert at(run, 3).moved == {6: 7} and len(naming.read_entries(run)) == 3
    assert naming.undo_last(run, 3) == "1 image moved to cluster 7"


def test_what_is_said_may_depend_on_what_others_said_meanwhile(run):
    def act():
        naming.record_steps(run, 1, lambda now: [split([now.next_id(10)], now.next_id(10))])

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: act(), range(10)))
    assert at(run, 1).moved == {i: i for i in range(10, 20)}


def test_every_earlier_state_can_be_had_back_and_left_again(run):
    steps = [name(1, "cat"), name(2, "dog"), merge(2, 1)]
    for step in steps:
        naming.record_steps(run, 3, [step])
    naming.undo_last(run, 3)
    naming.restore_state(run, 3, 1)
    assert at(run, 3) == said(steps[0])
    naming.restore_state(run, 3, 3)
    assert at(run, 3) == said(*steps)
    naming.restore_state(run, 3, 4)
    assert at(run, 3) == said(*steps[:2])
    assert naming.undo_last(run, 3) == "cluster 2 named dog"
    naming.restore_state(run, 3, 0)
    assert at(run, 3).is_empty and len(naming.read_entries(run)) == 9
    naming.restore_state(run, 3, 7)
    assert naming.naming_of_epoch([*naming.read_entries(run), {"epoch": 3, "restore": 2**40}], 3) == said(*steps[:2])
    with pytest.raises(UserError, match="11 is not a number of decisions; expected 0 to 10"):
        naming.restore_state(run, 3, 11)


def test_what_somebody_added_meanwhile_is_not_taken_back_unseen(run):
    naming.record_steps(run, 3, [name(1, "cat")])
    naming.record_steps(run, 3, [name(2, "dog")])
    for take_back in (lambda: naming.undo_last(run, 3, seen=1), lambda: naming.restore_state(run, 3, 0, seen=1)):
        with pytest.raises(UserError, match="there is a newer change: cluster 2 named dog"):
            take_back()
    assert naming.undo_last(run, 3, seen=2) == "cluster 2 named dog"


def test_two_windows_lose_nothing(run):
    """Two processes, as of two servers, decide about one run."""
    work = "import sys; from pathlib import Path; from lps.analysis import naming; from lps.store.runs import Run\n"
    work += "run, first = Run(Path(sys.argv[1])), int(sys.argv[2])\n"
    work += "for i in range(first, 40, 2): naming.record_steps(run, 1, [{'do': 'assign', 'images': [i], 'to': 3}])"
    windows = [subprocess.Popen([sys.executable, "-c", work, run.folder, str(first)]) for first in (0, 1)]
    assert [window.wait() for window in windows] == [0, 0]
    entries = naming.read_entries(run)
    assert len(entries) == 40 and naming.naming_of_epoch(entries, 1).moved == dict.fromkeys(range(40), 3)


def test_all_steps_of_an_entry_or_none(run):
    naming.record_steps(run, 3, [name(1, "cat")])
    before = (run.folder / "names.json").read_bytes()
    with pytest.raises(UserError, match="already the name"):
        naming.record_steps(run, 3, [merge(5, 6), name(2, "cat")])
    assert (run.folder / "names.json").read_bytes() == before


def test_entries_of_another_version_are_passed_over_and_kept(run):
    strange = {"epoch": "three", "wish": 1}
    impossible = {"epoch": 3, "steps": [{"do": "paint", "id": 1}, name(1, "cat")]}
    (run.folder / "names.json").write_text(json.dumps({"version": 2, "entries": [strange, impossible]}))
    assert at(run, 3).names == {1: "cat"}
    naming.record_steps(run, 3, [name(2, "dog")])
    assert json.loads((run.folder / "names.json").read_text())["entries"][:2] == [strange, impossible]


BAD_STEPS = [
    {}, {"do": []}, {"do": None, "id": 1}, {"do": "name", "id": "1", "name": "a"}, {"do": "name", "id": 1, "name": [2]},
    {"do": "name", "id": 2**52, "name": "far"}, {"do": "merge", "id": 1}, {"do": "merge", "id": 1, "into": True},
    {"do": "merge", "id": 1, "into": 2**52}, {"do": "split", "images": None, "new": 12},
    {"do": "split", "images": [1, "2"], "new": 12}, {"do": "split", "images": {"0": 1}, "new": 12},
    {"do": "split", "images": [1], "new": 2**52}, {"do": "assign", "images": [1]},
    {"do": "assign", "images": [None], "to": 1}, {"do": "wrong", "images": [1]}, {"do": "nothing", "images": [1.5]},
    {"do": "reject"}, {"do": "accept", "id": 1.5}, [], "name", None,
]  # fmt: skip
BAD_ENTRIES = [
    *({"epoch": 3, "time": 1, "steps": [step]} for step in BAD_STEPS),
    {"epoch": 3, "snapshot": [1], "steps": [name(1, "a")]},
    {"epoch": 3, "steps": {"do": "name"}},
    {"epoch": 3, "undo": 1},
    {"epoch": 2**53, "steps": []},
    {"epoch": 3},
]


@pytest.mark.parametrize("bad", BAD_ENTRIES, ids=str)
def test_a_bad_entry_is_left_out_and_kept_in_the_file(run, bad):
    good = {"epoch": 3, "time": 1, "steps": [name(1, "cat")]}
    (run.folder / "names.json").write_text(json.dumps({"version": 1, "entries": [good, bad]}))
    assert naming.read_entries(run) == [good]
    assert at(run, 3).names == {1: "cat"}
    naming.record_steps(run, 3, [name(2, "dog")])
    assert json.loads((run.folder / "names.json").read_text())["entries"][:2] == [good, bad]
    assert naming.undo_last(run, 3) == "cluster 2 named dog"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e999"])
def test_a_number_that_is_none_is_damage_to_whoever_writes(run, number):
    entries = f'{{"epoch": 3, "steps": [{{"do": "name", "id": 1, "name": "cat"}}]}}, {{"epoch": 3, "time": {number}}}'
    (run.folder / "names.json").write_text(before := f'{{"version": 1, "entries": [{entries}]}}')
    assert at(run, 3).names == {1: "cat"}
    for act in (lambda: naming.record_steps(run, 1, [name(1, "a")]), lambda: naming.undo_last(run, 3)):
        with pytest.raises(UserError, match="names.json: is damaged and was not changed"):
            act()
    assert (run.folder / "names.json").read_text() == before


def test_words_about_names_are_printable(run):
    step = name(1, "a\ud800\x1b[31mb\u2028" + "x" * 200)
    (run.folder / "names.json").write_text(json.dumps({"version": 1, "entries": [{"epoch": 3, "steps": [step]}]}))
    words = naming.undo_last(run, 3)
    assert words.isprintable() and words.startswith("cluster 1 named a  [31mb x") and len(words) < 120


def test_a_file_that_could_not_be_read_again_is_not_written(run):
    naming.record_steps(run, 1, [name(1, "cat")])
    with pytest.raises(UserError, match="would be larger than 1 MiB"):
        naming.record_steps(run, 1, [split(list(range(10**6, 10**6 + SMALL_FILE // 8)), 10)])
    assert at(run, 1).names == {1: "cat"}
