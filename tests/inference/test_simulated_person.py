"""The user whom `benchmarks.decisions` simulates: it labels pictures, one decision at a time, and no more."""

from collections import Counter

import numpy as np
import pytest

from benchmarks import decisions
from lps.analysis import labels, naming
from lps.inference import continued_training
from lps.store.snapshots import read_split
from tests.sample_runs import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path, epochs=3, settings={"split.validation_ratio": 0.1})


def test_clusters_are_named_by_what_their_surest_pictures_show(run):
    person = decisions.Person(run, 20, seed=0)
    person.name_clusters()
    looked, (split, targets) = labels.read_clusters(run), read_split(run.folder)
    assert person.left == 20 - 5  # one for each cluster of no seen class
    for cluster, name in looked.decisions.names.items():
        rows = np.flatnonzero(looked.cluster == cluster)
        shown = Counter(split.class_names[targets[image]] for image in split.unlabeled[rows].tolist())
        assert name in shown


@pytest.mark.parametrize("way", decisions.WAYS)
def test_a_person_makes_as_many_decisions_as_are_asked_for(run, way):
    person = decisions.Person(run, 12, seed=0)
    rule = decisions.WAYS[way](person)
    said = naming.entries_in_effect(naming.read_entries(run), person.epoch)
    assert person.left == 0 and len(said) <= 12 and rule in continued_training.RULES
    _, targets = read_split(run.folder)
    confirmed = labels.read_clusters(run)
    for image in confirmed.decisions.confirmed:
        cluster = int(confirmed.cluster[np.searchsorted(confirmed.split.unlabeled, image)])
        assert confirmed.name(cluster) == confirmed.split.class_names[targets[image]]
        assert image not in confirmed.split.validation


def test_the_table_pairs_the_seeds():
    def scores(*values):
        return [{"all": v, "novel": v, "seen": v, "labeled": 3, "right": 1.0} for v in values]

    found = {"guided": [scores(0.5, 0.7), scores(0.4, 0.62)], "random": [scores(0.5, 0.6), scores(0.4, 0.5)]}
    rows = decisions.table(found, 50)
    assert [row["decisions"] for row in rows] == [0, 50, 0, 50] and rows[1]["all"] == "66.0"
    assert rows[1]["all, above none"].startswith("+21.0 (") and rows[1]["all, above random"].startswith("+11.0 (")
    assert rows[3]["all, above none"].startswith("+10.0 (") and rows[3]["all, above random"] == ""
