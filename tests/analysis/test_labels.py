"""From predictions and names to the label of every image, and from one epoch to a later one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.analysis import labels, naming
from lps.analysis.clusters import Assignment
from lps.analysis.labels import clusters_of, transfer_decisions
from lps.analysis.naming import Naming, apply_step
from lps.data.classes import Classes
from lps.data.split import Split
from lps.errors import UserError
from tests.analysis.test_naming import merge, name, said, split
from tests.sample_runs import make_run

NAMES = ("cat", "dog", "new 1")


def world() -> tuple[Split, np.ndarray]:
    """Images 0-9: 0, 1 labeled; 5 withheld; the rest unlabeled, two of them of unknown class."""
    labeled, unlabeled = np.array([0, 1]), np.arange(2, 10)
    truth = np.array([0, 1, 0, 1, 2, 1, 2, 2, -1, -1])
    return Split(labeled, unlabeled, Classes(2, 4), np.arange(4), (*NAMES, "new 2"), 0, validation=np.array([5])), truth


def assembled(said: Naming, defaults=None):
    known, truth = world()
    network = Assignment(np.array([0, 1, 2, 0, 2, 3, 3, 2]), np.linspace(0.2, 0.9, 8, dtype=np.float32))
    return labels.build_labels(4, known, truth, network, said, {0: "cat", 1: "dog"} if defaults is None else defaults)


steps = st.one_of(
    st.builds(merge, st.integers(0, 6), st.integers(0, 6)),
    st.builds(split, st.lists(st.integers(20, 30), min_size=1), st.integers(5, 9)),
)


@settings(deadline=None, max_examples=80)
@given(st.lists(steps, max_size=6), st.lists(st.integers(0, 4), min_size=11, max_size=11))
def test_clusters_are_those_of_an_image_after_image_replay(done, predicted):
    images = np.arange(20, 31)
    holding = dict(zip(images.tolist(), predicted))
    holds = Naming()
    for step in done:
        try:
            holds = apply_step(holds, step)
        except UserError:
            continue
        if step["do"] == "split":
            holding |= dict.fromkeys(step["images"], step["new"])
    roots = [holds.root(cluster) for cluster in holding.values()]
    assert clusters_of(holds, np.array(predicted), images).tolist() == roots


def test_images_that_are_not_unlabeled_any_more_do_not_matter():
    assert clusters_of(said(split([3, 99], 10)), np.array([0, 0]), np.array([3, 4])).tolist() == [10, 0]


def test_merged_clusters_are_no_clusters_of_their_own():
    found = labels.cluster_ids(said(merge(1, 2), split([5], 4)), np.array([0, 1, 3]), 3)
    assert found.tolist() == [0, 2, 3, 4]


def test_given_labels_stay_and_predictions_have_the_names_of_their_clusters():
    found = assembled(said(name(2, "zebra"), {"do": "reject", "id": 3}, split([9], 4), name(4, "horse")))
    assert found.images.tolist() == list(range(10))
    assert found.names == ("cat", "dog", "cat", "dog", "zebra", "dog", "zebra", "", "", "horse")
    sources = "labeled labeled predicted predicted predicted withheld predicted rejected rejected predicted"
    assert found.sources == tuple(sources.split())
    assert found.groups == ("seen",) * 4 + ("novel", "seen", "novel", "", "", "novel")
    assert found.predicted.tolist() == [-1, -1, 0, 1, 2, 0, 2, 3, 3, 2] and found.cluster[9] == 4
    assert np.isnan(found.confidence[:2]).all() and found.confidence[2] == pytest.approx(0.2)


def test_a_novel_cluster_can_belong_to_a_seen_class():
    found = assembled(said(merge(3, 0)))
    assert found.names[7] == "cat" and found.groups[7] == "seen" and found.predicted[7] == 3


def test_where_ids_mean_nothing_only_names_tell_the_group():
    found = assembled(said(name(0, "Dog"), name(2, "zebra")), defaults={})
    assert (found.names[2], found.groups[2]) == ("Dog", "seen")
    assert (found.names[4], found.groups[4]) == ("zebra", "novel")
    assert (found.names[3], found.groups[3]) == ("cluster 1", "")


def test_names_by_default_only_where_ids_mean_classes(tmp_path):
    lps, gcd = make_run(tmp_path, epochs=2), make_run(tmp_path, epochs=2, settings={"method": "gcd"})
    known = labels.read_split(lps.folder)[0]
    assert labels.default_names(lps, known) == {i: str(i) for i in range(5)} and labels.default_names(gcd, known) == {}


def test_the_epoch_with_names_is_the_usual_one(tmp_path):
    run = make_run(tmp_path, epochs=4)
    assert labels.label_all(run).epoch == 4
    naming.record_steps(run, 2, [name(7, "seven")])
    found = labels.label_all(run)
    assert found.epoch == 2 and "seven" in found.names
    assert labels.label_all(run, 3).epoch == 3
    naming.undo_last(run, 2)
    assert labels.label_all(run).epoch == 4
    with pytest.raises(UserError, match="epoch: 9 has no stored predictions; 4 epochs from 1 to 4"):
        labels.label_all(run, 9)


def test_a_run_without_an_epoch_has_no_labels(tmp_path):
    with pytest.raises(UserError, match="no epoch has been evaluated yet"):
        labels.label_all(make_run(tmp_path, "running", written=0))


IMAGES = np.arange(100, 112)
THEN = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])


def carried(holds: Naming, now) -> tuple[Naming, list[str]]:
    found, lost = transfer_decisions(holds, THEN, np.array(now), IMAGES, 4)
    return said(*found), lost


def test_names_follow_the_images_and_not_the_ids():
    found, lost = carried(said(name(0, "cat"), name(1, "dog")), (THEN + 1) % 3)
    assert found.names == {1: "cat", 2: "dog"} and lost == []


def test_a_merged_cluster_is_merged_again():
    found, _ = carried(said(merge(0, 1), name(1, "pet"), {"do": "reject", "id": 2}), THEN)
    assert found.root(0) == found.root(1) and found.names == {found.root(1): "pet"} and found.rejected == {2}


def test_a_cluster_that_came_apart_is_one_class_still():
    found, _ = carried(said(name(0, "cat")), [0, 0, 3, 3, 1, 1, 1, 1, 2, 2, 2, 2])
    assert found.root(0) == found.root(3) and found.names[found.root(0)] == "cat"


def test_a_cluster_that_nothing_continues_is_reported():
    found, lost = carried(said(name(0, "cat")), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3])
    assert found.is_empty and lost == ["cat"]


def test_split_off_images_are_split_off_again():
    holds = said(split([100, 111], 4), name(4, "odd"), name(0, "cat"))
    found, lost = carried(holds, THEN)
    assert lost == [] and sorted(found.names.values()) == ["cat", "odd"]
    assert clusters_of(found, THEN, IMAGES).tolist() == clusters_of(holds, THEN, IMAGES).tolist()


def test_confirmed_images_go_with_the_cluster_that_a_person_put_them_in():
    holds = said(name(1, "dog"), {"do": "assign", "images": [100, 104], "to": 1})
    found, lost = carried(holds, (THEN + 1) % 3)
    assert lost == [] and found.names == {2: "dog"} and found.moved == {100: 2, 104: 2}
    assert found.confirmed == {100, 104}


def test_what_was_said_against_single_images_is_carried_along():
    holds = said(name(1, "dog"), {"do": "wrong", "images": [104], "id": 1}, {"do": "nothing", "images": [101]})
    found, _ = carried(holds, (THEN + 1) % 3)
    assert found.wrong_clusters == {104: 2} and found.classless_images == {101}


def test_nothing_said_is_nothing_carried():
    assert transfer_decisions(Naming(), THEN, THEN, IMAGES, 4) == ([], [])
