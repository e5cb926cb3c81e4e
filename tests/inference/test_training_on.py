"""Training on with names: which pictures count, the settings of the new run, and that it is independent."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from lps.__main__ import main
from lps.analysis import labels, naming
from lps.analysis.clusters import read_assignment
from lps.data.training_data import prepare
from lps.errors import UserError
from lps.inference import continued_training
from lps.inference.prediction import predict
from lps.interop import archives, imports
from lps.scheduler import submit
from lps.settings.config import configure
from lps.store import inherited_files
from lps.store.run_folders import create_run
from lps.store.snapshots import read_split, write_arrays
from lps.training import checkpoints
from tests.sample_runs import make_run

EPOCH = 3
SETTINGS = {"split.validation_ratio": 0.1}


@pytest.fixture
def run(tmp_path):
    """Ten classes, five of them seen; after the third epoch most novel clusters are mixed."""
    found = make_run(tmp_path, epochs=EPOCH, name="digits", pretrain=20, settings=SETTINGS)
    found.checkpoints.mkdir()
    checkpoints.save_checkpoint(found.checkpoints, "step-00000093", {"method": {}})
    return found


def say(run, *steps):
    naming.record_steps(run, EPOCH, list(steps))


def name(cluster, text):
    return {"do": "name", "id": cluster, "name": text}


def plan(run, rule="all", from_weights=False, **more):
    return continued_training.plan_continued_training(run, rule=rule, from_weights=from_weights, **more)


def view(run):
    split, _ = read_split(run.folder)
    return split, read_assignment(run, EPOCH, split)


def members(run, cluster, least=0.0):
    """Images that may count of those that the network put in a cluster."""
    split, network = view(run)
    found = split.unlabeled[(network.predicted == cluster) & (network.confidence >= least)]
    return np.setdiff1d(found, split.validation)


def pictures(planned, class_id):
    return planned.confirmed.images[planned.confirmed.given == class_id].tolist()


def test_a_named_cluster_becomes_a_seen_class(run):
    say(run, name(7, "seven"), name(5, "five"))
    planned = plan(run)
    assert planned.new_classes == ("five", "seven") and planned.confirmed.names == planned.new_classes
    assert pictures(planned, 5) == members(run, 5).tolist() and pictures(planned, 6) == members(run, 7).tolist()
    assert planned.config.split_num_novel == 3 == planned.looked_for == planned.novel
    assert planned.config.split_confirmed == planned.confirmed.digest
    assert planned.confirmed.rows.tolist() == [0, 1, 2, 3, 4, 5, 7, 6, 8, 9]
    count = len(members(run, 5)) + len(members(run, 7))
    words = f"2 names: 2 new seen classes, {count:,} new labeled pictures; 3 clusters without a name stay novel"
    assert planned.in_words() == words and planned.notices() == []


def test_how_many_pictures_count_is_asked(run):
    some = members(run, 6)[:3].tolist()
    say(run, name(7, "seven"), {"do": "assign", "images": some, "to": 7})
    counts = {rule: plan(run, rule=rule, threshold=0.9).confirmed.images.tolist() for rule in continued_training.RULES}
    assert counts["all"] == sorted({*members(run, 7).tolist(), *some}) and counts["looked-at"] == some
    assert counts["confident"] == sorted({*members(run, 7, 0.9).tolist(), *some}) and len(counts["confident"]) > 3


def test_a_class_of_single_pictures_takes_the_place_of_the_cluster_they_come_from(run):
    some, others = members(run, 7)[:3].tolist(), members(run, 8)[:2].tolist()
    say(run, {"do": "split", "images": [*some, *others], "new": 10}, name(10, "odd"))
    say(run, {"do": "assign", "images": [*some, *others], "to": 10})
    planned = plan(run, rule="looked-at")
    assert (planned.new_classes, planned.novel, planned.looked_for) == (("odd",), 4, 4)
    assert planned.confirmed.rows.tolist() == [0, 1, 2, 3, 4, 7, 5, 6, 8, 9]


def test_merged_clusters_are_one_class_and_one_may_add_to_a_seen_one(run):
    say(run, {"do": "merge", "id": 8, "into": 7}, name(7, "seven"), {"do": "merge", "id": 9, "into": 2})
    planned = plan(run)
    assert planned.new_classes == ("seven",) and planned.added == ("2",)
    assert pictures(planned, 5) == sorted([*members(run, 7).tolist(), *members(run, 8).tolist()])
    assert pictures(planned, 2) == members(run, 9).tolist()  # and none that the network itself put in class 2
    assert planned.looked_for == 2
    assert "1 new seen class, more labels for 1 class" in planned.in_words()
    learned = "The new run learns 0, 1, 3 and 4; 2 from clusters 2 and 9; seven from clusters 7 and 8."
    assert planned.classes_in_words == f"{learned} Clusters 5 and 6 stay novel."


def test_a_split_that_undoes_a_merge_is_said(run):
    say(run, {"do": "merge", "id": 8, "into": 7}, name(7, "seven"))
    say(run, {"do": "split", "images": members(run, 8).tolist(), "new": 10})
    told = plan(run).classes_in_words
    assert told.endswith("seven from cluster 7. Clusters 5, 6, 9 and 10 (split off from 8) stay novel.")
    told = plan(run, unnamed={5: 7, 6: None}).classes_in_words
    assert "seven from clusters 5 and 7. Clusters 9 and 10 (split off from 8) stay novel. Cluster 6 is" in told


def test_what_a_person_took_out_is_not_labeled(run):
    wrong, nothing = members(run, 7)[:2].tolist(), members(run, 7)[2:4].tolist()
    say(run, name(7, "seven"), {"do": "wrong", "images": wrong, "id": 7}, {"do": "nothing", "images": nothing})
    say(run, name(8, "eight"), {"do": "reject", "id": 8})
    planned = plan(run)
    assert planned.confirmed.images.tolist() == members(run, 7)[4:].tolist() and planned.confirmed.named == 1
    assert not np.isin(view(run)[0].validation, planned.confirmed.images).any()
    (told,) = planned.notices()
    assert told.startswith("4 pictures that you removed from a class stay unlabeled")
    assert planned.classes_in_words.endswith("seven from cluster 7. Clusters 5, 6, 8 and 9 stay novel.")


def test_a_cluster_is_said_unless_it_keeps_the_seen_class_that_it_stands_for(run, monkeypatch):
    say(run, name(0, "zero *"), name(7, "0"))
    learned = "The new run learns 1, 2, 3 and 4; 0 from cluster 7; zero * from cluster 0."
    planned = plan(run)
    assert planned.classes_in_words == f"{learned} Clusters 5, 6, 8 and 9 stay novel."
    assert (planned.novel, planned.looked_for, planned.notices()) == (4, 4, [])
    monkeypatch.setattr(labels, "default_names", lambda run, split: {})  # of a method whose ids mean nothing
    say(run, name(1, "one"))
    assert plan(run).classes_in_words.endswith("; one from cluster 1."), "which of the others are novel is not known"


@pytest.mark.parametrize("steps", [[name(0, "zero")], [{"do": "merge", "id": 1, "into": 0}]])
def test_a_seen_class_that_is_renamed_or_merged_takes_the_place_of_no_novel_one(run, steps):
    say(run, *steps)
    planned = plan(run)
    assert planned.novel == planned.looked_for == 5
    assert planned.confirmed.rows[-5:].tolist() == [5, 6, 7, 8, 9]
    assert planned.classes_in_words.endswith(" Clusters 5, 6, 7, 8 and 9 stay novel.")


def test_a_dissolved_cluster_is_continued_by_no_class(run):
    say(run, name(7, "seven"))
    planned = plan(run, unnamed={6: None, 9: None})
    assert (planned.novel, planned.looked_for, planned.dissolved) == (2, 2, 2)
    assert planned.confirmed.rows.tolist() == [0, 1, 2, 3, 4, 7, 5, 8]
    assert not set(members(run, 6).tolist()) & set(planned.confirmed.images.tolist())
    assert planned.in_words().endswith("; 2 clusters without a name stay novel, 2 clusters are not classes")
    all_dissolved = plan(run, unnamed=dict.fromkeys((5, 6, 8, 9)))
    kept_free = "1 novel class is kept free for pictures of unknown kinds"
    assert all_dissolved.in_words().endswith(f"; 4 clusters are not classes, {kept_free}")
    assert planned.config.split_num_novel == 2


def test_a_cluster_without_a_name_is_merged_into_one_that_has_one_and_where_all_are_dissolved_one_is_looked_for(run):
    say(run, name(7, "seven"))
    planned = plan(run, unnamed={8: 7})
    assert pictures(planned, 5) == sorted([*members(run, 7).tolist(), *members(run, 8).tolist()])
    assert (planned.novel, planned.looked_for, planned.dissolved) == (3, 3, 0)
    assert naming.naming_of_epoch(naming.read_entries(run), EPOCH).parents == {}, "nothing is written"
    planned = plan(run, unnamed=dict.fromkeys([5, 6, 8, 9]))
    assert (planned.novel, planned.looked_for, planned.dissolved) == (0, 1, 4)
    assert planned.confirmed.rows.tolist() == [0, 1, 2, 3, 4, 7, -1]
    assert planned.classes_in_words.endswith(" Clusters 5, 6, 8 and 9 are not classes.")


def test_shares_of_the_first_run_are_told_for_the_new_seen_classes(tmp_path):
    given = " ".join(["0.2", "0.2", "0.1", "0.1", "0.1", "0.12", "0.08", "0.05", "0.03", "0.02"])
    run = make_run(tmp_path, epochs=EPOCH, settings=SETTINGS | {"prior": "given", "prior.shares": given})
    say(run, name(9, "nine"), name(6, "six"))
    (notice,) = plan(run).notices()
    assert ": six 0.12, nine 0.08." in notice and "prior.shares" in notice
    for changes in ({"prior.shares": " ".join(["0.1"] * 10)}, {"prior": "labeled", "prior.shares": None}):
        assert plan(run, changes=changes).notices() == []


def test_given_shares_are_one_for_each_class_of_the_new_run(tmp_path):
    given = " ".join(["0.1"] * 10)
    run = make_run(tmp_path, epochs=EPOCH, settings=SETTINGS | {"prior": "given", "prior.shares": given})
    say(run, name(6, "six"))
    submit.check_configs([plan(run).config])
    say(run, name(0, "zeros"))
    order = "0, 1, 2, 3, 4, zeros (new), six (new), then 4 novel classes"
    with pytest.raises(
        UserError, match=re.escape(f"prior.shares: has 10 shares for 11 classes; expected one for each of {order}")
    ):
        plan(run)
    fitting = {"prior.shares": " ".join(["0.2", *["0.08"] * 10])}
    assert plan(run, changes=fitting).config.prior_shares == fitting["prior.shares"]


def test_a_seen_class_with_another_name_is_told_to_be_a_new_class(run):
    say(run, name(0, "zeros"))
    (notice,) = plan(run).notices()
    assert notice.startswith("zeros becomes a new class beside 0, because no seen class has this name.")
    say(run, name(0, "0"), name(7, "seven"))
    assert plan(run).notices() == [], "the name of the seen class adds to it"


def test_a_name_without_a_picture_that_counts_waits(run):
    some = members(run, 6)[:3].tolist()
    say(run, name(7, "seven"), name(8, "eight"), {"do": "assign", "images": some, "to": 7})
    planned = plan(run, rule="looked-at")
    assert planned.new_classes == ("seven",) and planned.without_labels == ("eight",) and planned.looked_for == 4
    (notice,) = planned.notices()
    assert "novel" in notice and notice.endswith(": eight.")


def test_a_cluster_without_an_image_waits_too(run):
    rest = members(run, 8).tolist() + [*set(view(run)[0].validation.tolist())]
    say(run, name(7, "seven"), name(8, "eight"), {"do": "assign", "images": rest, "to": 9})
    looked = continued_training.read_clusters(run)
    assert looked.size(8) == 0
    planned = plan(run, rule="confident")
    assert planned.without_labels == ("eight",) and planned.looked_for == 4 and len(planned.notices()) == 1
    assert planned.confirmed.named == 2 == len(planned.new_classes) + len(planned.without_labels)
    words = "; 3 clusters without a name and 1 name without labeled pictures stay novel"
    assert planned.in_words().startswith("2 names: 1 new seen class") and planned.in_words().endswith(words)


def test_one_class_is_looked_for_even_where_all_have_names(run, monkeypatch):
    """Nothing keeps it in use, until one has no name again."""
    say(run, *(name(i, f"class {i}") for i in range(5, 10)))
    planned = plan(run)
    assert (planned.novel, planned.looked_for) == (0, 1)
    because = "so that the free class is not filled with pictures of other classes."
    without_both = "The new run trains without the margin and without the entropy term"
    assert planned.notices() == [f"{without_both}, {because}"]
    assert planned.switched_off == {"use_margin": False, "entropy_weight": 0}
    assert planned.in_words().endswith("; 1 novel class is kept free for pictures of unknown kinds")
    assert planned.config.hyperparameters["entropy_weight"] == 0 and not planned.config.hyperparameters["use_margin"]
    wished = plan(run, changes={"entropy_weight": 1.0})
    assert wished.config.hyperparameters["entropy_weight"] == 1
    assert wished.notices() == [f"The new run trains without the margin, {because}"]
    child = launched(planned, monkeypatch)
    assert inherited_files.keeps_class_free(child) and not inherited_files.keeps_class_free(run)
    assert not child.config().hyperparameters["use_margin"]
    assert continued_training._spreading(child, True) == {"entropy_weight": 1.0, "use_margin": True}
    assert continued_training._spreading(child, False) == {"entropy_weight": 0.0, "use_margin": False}


@pytest.mark.parametrize(
    "how, words",
    [
        ({"rule": "some"}, "labels: 'some' is not one of all, confident, looked-at"),
        ({"threshold": 1.5}, "confidence: 1.5 is not a share; expected 0 to 1"),
        ({"epoch": 2}, "names: do not exist at epoch 2"),
        ({"epoch": 9}, "epoch: 9 has no stored predictions"),
        ({"rule": "looked-at"}, "a single picture in a named cluster; choose confident or all"),
        ({"changes": {"split.seed": 3}}, "split.seed: must stay as in the run that you continue"),
        ({"changes": {"network.name": "resnet50"}}, "network.name: must stay as in the run that you continue"),
        ({"unnamed": {7: None}}, "cluster: 7 has a name or does not exist; clusters without a name: 5, 6, 8, 9"),
        ({"unnamed": {99: None}}, "cluster: 99 has a name or does not exist"),
        (
            {"unnamed": {8: 9}},
            "9 has no name, so nothing can be merged into it; clusters with a name: 0, 1, 2, 3, 4, 7",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(run, how, words):
    say(run, name(7, "seven"))
    with pytest.raises(UserError, match=words):
        plan(run, **{"rule": "confident"} | how)


def test_a_confidence_that_nothing_reaches(run, monkeypatch):
    say(run, name(7, "seven"))
    looked = continued_training.read_clusters(run)
    unsure = replace(looked, network=replace(looked.network, confidence=looked.network.confidence / 2))
    monkeypatch.setattr(continued_training, "read_clusters", lambda *asked: unsure)
    with pytest.raises(UserError, match="90 % sure of any picture of a named cluster; lower the confidence"):
        plan(run, rule="confident")


def test_without_weights_or_names(run):
    with pytest.raises(UserError, match="names: do not exist at epoch 3; name clusters on the page Clusters"):
        plan(run, from_weights=True, rule="confident")
    say(run, name(7, "seven"))
    shutil.rmtree(run.checkpoints)
    with pytest.raises(UserError, match="the trained model of .* was not saved"):
        plan(run, from_weights=True)


def launched(planned, monkeypatch, **how):
    """The run of a plan without a process."""
    monkeypatch.setattr(continued_training.submit.launcher, "launch", lambda run, *rest, **wish: run.state())
    return continued_training.start_continued_training(planned, **how)


def test_the_new_run_stands_on_its_own(run, tmp_path, monkeypatch):
    moved = members(run, 8)[:2].tolist()
    say(run, name(7, "seven"), {"do": "assign", "images": moved, "to": 2})
    planned = plan(run, from_weights=True)
    child = launched(planned, monkeypatch)
    assert child.title == "With 1 name, digits" and inherited_files.parent_of(child) == run.id
    count = len(members(run, 7))
    from_where = f"continues {run.id[-6:]} from its final weights, with {count} pictures labeled by 1 cluster name"
    from_where += " and 2 pictures that you added to seen classes"
    assert inherited_files.parent_in_words(child) == from_where
    shutil.rmtree(run.folder)
    stored = dict(np.load(child.folder / inherited_files.LABELS))
    del stored["added_to_seen"]  # as in a file of an earlier version
    write_arrays(child.folder / inherited_files.LABELS, **stored)
    material = prepare(child.config(), inherited_files.read_confirmed(child))
    assert material.split.classes.seen == 6 and material.split.class_names[5] == "seven"
    assert sorted(material.truth[planned.confirmed.images].tolist()) == [2, 2, *[5] * count]
    assert checkpoints.load_checkpoint(child.folder, inherited_files.WEIGHTS) == {"method": {}}


def test_assigned_pictures_alone_make_a_run_that_can_train(run, monkeypatch):
    say(run, {"do": "assign", "images": members(run, 8)[:2].tolist(), "to": 2})
    planned = plan(run)
    assert planned.in_words().startswith("more labels for 1 class, 2 new labeled pictures")
    child = launched(planned, monkeypatch)
    assert child.title == "With 2 pictures, digits"
    assert inherited_files.parent_in_words(child).endswith("with 2 pictures that you added to seen classes")
    material = prepare(child.config(), inherited_files.read_confirmed(child))
    assert material.truth[planned.confirmed.images].tolist() == [2, 2]


def test_a_second_round_keeps_the_labels_of_the_first(run, monkeypatch):
    say(run, name(7, "7"))
    first = plan(run)
    child = make_run(run.root, epochs=EPOCH, run=launched(first, monkeypatch))
    naming.record_steps(child, EPOCH, [name(7, "eight or so")])
    naming.record_steps(child, EPOCH, [{"do": "reject", "id": 8}])
    second = plan(child)
    assert second.confirmed.names == ("7", "eight or so") and second.confirmed.decisions == 3
    assert set(first.confirmed.images) < set(second.confirmed.images) and second.confirmed.named == 1
    assert (second.confirmed.given[np.isin(second.confirmed.images, first.confirmed.images)] == 5).all()
    assert second.confirmed.pictures == len(second.confirmed.images) - len(first.confirmed.images)
    assert prepare(second.config, second.confirmed).split.class_names[5:7] == ("7", "eight or so")
    again = "With 1 more name, digits"
    assert launched(second, monkeypatch).title == again
    for before in (again, "digits, trained on with 3 names", "digits, trained on again with 1 picture"):  # up to 0.3.0
        child.write_meta(name=before)
        assert launched(second, monkeypatch).title == again
    child.write_meta(name="on a GPU, trained on a GPU")
    assert launched(second, monkeypatch).title == "With 1 name, on a GPU, trained on a GPU"
    child.write_meta(name="x" * 120)
    assert launched(second, monkeypatch).title == f"With 1 name, {'x' * 107}"


def test_the_family_of_a_run_begins_with_the_oldest_and_a_circle_ends():
    parents = {"b": "a", "c": "b", "d": "a", "x": "w", "lost": ""}
    for one in "abcd":
        assert inherited_files.run_family(one, parents) == {"a": "", "b": "a", "d": "a", "c": "b"}
    assert inherited_files.run_family("x", parents) == {"w": "", "x": "w"}
    assert inherited_files.successors_of("a", parents) == set("bcd") and inherited_files.successors_of(
        "b", parents
    ) == {"c"}
    assert inherited_files.successors_of("p", {"p": "q", "q": "p"}) == {"q"} and not inherited_files.successors_of(
        "c", parents
    )
    assert inherited_files.run_family("z", parents) == {"z": ""}
    assert inherited_files.run_family("lost", parents) == {"lost": ""}
    assert set(inherited_files.run_family("p", {"p": "q", "q": "p"})) == {"p", "q"}


def test_settings_that_name_such_labels_find_them_in_a_run_here(run, tmp_path, monkeypatch):
    say(run, name(7, "seven"))
    child = launched(plan(run, from_weights=True), monkeypatch)
    again = create_run(run.root, configure(child.config().flat() | {"seed": 4}))
    assert inherited_files.read_confirmed(again).digest == inherited_files.read_confirmed(child).digest
    assert (again.folder / "start.pt").read_bytes() == (child.folder / "start.pt").read_bytes()
    with pytest.raises(UserError, match="split.confirmed: .* was not found in any run here"):
        create_run(tmp_path / "elsewhere", child.config())


@pytest.mark.parametrize("damage", [b"", b"PK not an archive", None])
def test_damaged_labels_are_told(run, monkeypatch, damage):
    say(run, name(7, "seven"))
    child = launched(plan(run, from_weights=True), monkeypatch)
    path = child.folder / inherited_files.LABELS
    if damage is None:
        other = plan(run, rule="confident").confirmed
        path.unlink()
        inherited_files.write_inherited(child.folder, other, None)
    else:
        path.write_bytes(damage)
    with pytest.raises(UserError, match="confirmed.npz: is damaged.*; restore it from a copy of the run's folder"):
        inherited_files.read_confirmed(child)
    child.checkpoints.mkdir(exist_ok=True)
    checkpoints.save_checkpoint(child.checkpoints, "step-00000093", {"method": {}, "epoch": EPOCH, "step": 0})
    with pytest.raises(UserError, match="confirmed.npz: is damaged.*lps train-on$"):
        predict(child, str(run.folder))
    assert inherited_files.parent_of(child) == "" and inherited_files.parent_in_words(child) == ""


def test_it_travels(run, tmp_path, monkeypatch):
    say(run, name(7, "7"))
    child = make_run(run.root, epochs=EPOCH, run=launched(plan(run, from_weights=True), monkeypatch))
    (found,) = imports.import_runs(archives.pack_run(child, tmp_path / "out"), tmp_path / "there")
    assert not found.notes
    assert inherited_files.read_confirmed(found.run).digest == inherited_files.read_confirmed(child).digest
    assert checkpoints.load_checkpoint(found.run.folder, inherited_files.WEIGHTS) == {"method": {}}
    (found,) = imports.import_runs(archives.pack_run(child, tmp_path / "light", light=True), tmp_path / "lightly")
    assert not (found.run.folder / "start.pt").exists() and inherited_files.parent_of(found.run) == run.id


def test_on_the_command_line(run, capsys):
    here = ["--runs", str(run.root)]
    assert main(["name", run.id, "7=seven", "5=five", "--merge", "8", "7", *here]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split() for line in said[7:]] == [
        ["5", "111", "five"],
        ["6", "82"],
        ["7", "131", "seven"],
        ["9", "72"],
    ]
    assert main(["name", run.id, "99=x", "--undo", *here]) == 2
    assert "cluster: 99 is not a cluster of epoch 3; choices: 0, 1" in capsys.readouterr().err
    assert naming.naming_of_epoch(naming.read_entries(run), EPOCH).names == {7: "seven", 5: "five"}
    assert main(["train-on", run.id, "--dry-run", "--labels", "all", "--afresh", *here]) == 0
    told, planned = (capsys.readouterr().err, plan(run))
    assert "2 names: 2 new seen classes" in told
    assert all(f"{name}: {planned.labeled[name]} pictures" in told for name in ("seven", "five"))
    assert main(["train-on", run.id, "--dry-run", "--labels", "all", "--afresh", "--dissolve", "6", *here]) == 0
    assert "1 cluster is not a class" in capsys.readouterr().err
    assert main(["train-on", run.id, "--dry-run", "--set", "split.seed=1", *here]) == 2
    assert len(list(run.root.glob("2*"))) == 1
