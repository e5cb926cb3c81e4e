"""Live for a run that has no truth: what is known of it, from the events and from the stored predictions."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lps.analysis import naming
from lps.analysis.clusters import flags_in_words
from lps.data import sources
from lps.scores.metrics import agreement
from lps.store import titles
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, write_arrays
from lps.training import checkpoints
from lps.ui.clusters import page as clusters_page
from lps.ui.live import found_clusters, unknown_classes
from lps.ui.pictures import points, predictions
from lps.ui.predict import training_data
from lps.ui.shared.history import read_history
from tests.sample_runs import held, make_run, rewritten, without
from tests.visiting import charts_of, visit, words_of

OF_TRUTH = ("accuracy/", "nmi/", "ari/", "class/", "baseline/")


def without_truth(run: Run, withheld: bool = True) -> Run:
    """The same run as if nobody knew the classes of its unlabeled images, but for some labels that were withheld."""
    split, targets = read_split(run.folder)
    kept = split.unlabeled[targets[split.unlabeled] < split.classes.seen][: 8 * withheld]
    targets[np.setdiff1d(split.unlabeled, kept)] = -1
    arrays = dict(np.load(run.folder / "split.npz"))
    write_arrays(run.folder / "split.npz", **arrays | {"targets": targets.astype(np.int16), "validation": kept})
    known = {"accuracy/validation": 0.875} if withheld else {}
    return rewritten(without(run, *OF_TRUTH), lambda kind, values: values | (known if kind == "eval" else {}))


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    return tmp_path


def cards_of(at) -> str:
    return "".join(element.proto.body for element in at.get("html"))


def test_live_shows_what_is_known_without_truth(root, monkeypatch):
    monkeypatch.setattr(points, "read_pictures", lambda run: sources.load("digits"))
    run = without_truth(make_run(root, epochs=5))
    at = visit("live", run=[run.id], part="training")
    cards, drawn = cards_of(at), charts_of(at)
    for name in ("Withheld labels", "7 of 8", "Clusters in use", "10 of 10", "Confident, novel", "Largest cluster"):
        assert name in cards
    assert "–</div>" not in cards  # no card is empty
    titles = [note["text"] for note in drawn["pace"]["layout"]["annotations"]]
    assert titles[0] == "Withheld labels" and "Share of the unlabeled images in each cluster" in titles
    assert {"pace", "pi_hat", "cluster_sizes", "points"} <= set(drawn)
    assert "accuracy cannot be measured" in words_of(at)
    at = visit("live", run=[run.id])
    assert "Picture of" in cards_of(at) and not charts_of(at)


def test_at_the_end_a_sentence_says_what_was_found_and_a_button_goes_on_to_naming(root, monkeypatch):
    monkeypatch.setattr(points, "read_pictures", lambda run: sources.load("digits"))
    run = without_truth(make_run(root, epochs=3))
    here = predictions.read_view(run, 3)
    first, *_, last = found_clusters.order_clusters(here)
    labeled = int((here.targets[here.split.labeled] == last.id).sum())
    assert here.count_pictures(last) == f"{last.size} unlabeled pictures, {labeled} labeled"
    assert here.count_pictures(first) == f"{first.size} pictures"
    at = visit("live", run=[run.id])
    words = words_of(at)
    total = len(here.assigned)
    counts = f"{total:,} unlabeled pictures ({total - 8:,} without a label, 8 with a withheld label)"
    assert "7 of 8 withheld labels predicted correctly" in words and counts in words and "**5 novel clusters**" in words
    assert counts in words_of(visit("clusters", run=[run.id])).replace("images", "pictures")
    assert "in classes that you labeled, those with a withheld label included" in words
    flagged = flags_in_words(here.clusters)
    assert flagged in words.lower() and flagged in words_of(visit("clusters", run=[run.id]))
    withheld = np.bincount(here.targets[here.split.validation], minlength=5)
    assert all(f"{here.class_name(c)} ({count})" in words for c, count in enumerate(withheld) if count)
    assert "Accuracy is unknown for" in words and "5 novel clusters" in words
    button = next(button for button in at.button if button.label == "Name the clusters")
    shown = cards_of(at)
    assert shown.count('alt="Picture of') == sum(min(12, cluster.size) for cluster in here.clusters)
    assert f'alt="Picture of {here.name(first.id)}' in shown
    button.click().run()
    assert not at.exception and at.query_params["cluster"] in (str(first.id), [str(first.id)])


def test_after_training_on_the_classes_that_got_worse_are_named_with_n(root, monkeypatch):
    parent, run = (without_truth(make_run(root, epochs=epochs)) for epochs in (3, 2))
    here = predictions.read_view(run, 2)
    assert predictions.read_parent(here) is None, "it goes on from none"
    monkeypatch.setattr(predictions.inherited_files, "parent_of", lambda _: parent.id)
    monkeypatch.setattr(predictions.inherited_files, "read_confirmed", lambda _: SimpleNamespace(epoch=3))
    truth, right = here.truth, {}
    for one, epoch in ((parent, 3), (run, 2)):  # corrections of a user are not predictions of the model
        view = predictions.read_view(one, epoch)
        wrong = np.flatnonzero((truth >= 0) & (view.network.predicted != truth))[0]
        steps = [{"do": "assign", "images": [int(view.split.unlabeled[wrong])], "to": int(truth[wrong])}]
        naming.record_steps(one, epoch, steps)
    then, here = predictions.read_view(parent, 3), predictions.read_view(run, 2)
    for view in (then, here):
        right[view.run.id] = [int(((truth == c) & (view.network.predicted == c)).sum()) for c in range(5)]
        assert view.predicts_label.sum() == sum(right[view.run.id]) == (view.assigned == truth).sum() - 1
    matched = agreement(here.network.predicted[truth >= 0], truth[truth >= 0], seen_is_aligned=False)
    assert replace(here, defaults={}).predicts_label.sum() == round(8 * matched), "if ids do not mean classes"
    at = visit("live", run=[run.id])
    words, measured = words_of(at), truth >= 0
    numbers = [int((view.network.predicted == truth)[measured].sum()) for view in (then, here)]
    of_both = f"both runs predict {numbers[0]} of" if numbers[0] == numbers[1] else f"this run predicts {numbers[1]}"
    assert of_both in words and (numbers[0] == numbers[1] or f"That run predicts {numbers[0]} of " in words)
    for c, (before, after) in enumerate(zip(right[parent.id], right[run.id])):
        line = f"{here.class_name(c)} ({before} → {after} of {(truth == c).sum()})"
        assert (line in words) == (after != before)
    classes = len(np.unique(truth[truth >= 0]))
    assert right[parent.id] != right[run.id] or f"({classes} checked)" in words
    fours = int((here.targets[here.split.labeled] == 4).sum() + (here.assigned == 4).sum())
    assert here.sizes_by_name()["4"] == fours and here.sizes_by_name().keys() == set("01234"), "novel ones have no name"
    monkeypatch.setattr(predictions.PredictionView, "sizes_by_name", lambda view: {"4": 90 // view.epoch})
    assert "4 grew from 30 to 45 pictures" in words_of(visit("clusters", run=[run.id]))
    next(button for button in at.button if button.label == "Open clusters of that run").click().run()
    assert at.query_params["run"] in (parent.id, [parent.id]) and at.query_params["epoch"] in ("3", ["3"])
    parent.folder.rename(root / "elsewhere")
    assert predictions.read_parent(here) is None


def test_once_every_cluster_has_a_name_the_way_goes_on_to_new_pictures(root, monkeypatch):
    monkeypatch.setattr(points, "read_pictures", lambda run: sources.load("digits"))
    run = without_truth(make_run(root, epochs=3))
    run.checkpoints.mkdir()
    checkpoints.save_checkpoint(run.checkpoints, "step-00000093", {"method": {}})
    at = visit("live", run=[run.id])
    offered = [button.label for button in at.button]
    assert "Train again: Name a cluster or assign a picture first." in words_of(at)
    ways = ["See all clusters", "Name the clusters", "Train again with these names", "Predict new pictures"]
    assert [label for label in offered if label in ways] == ways
    naming.record_steps(run, 3, [{"do": "name", "id": cluster, "name": f"kind {cluster}"} for cluster in range(5, 10)])
    at = visit("live", run=[run.id])
    disabled = {button.label: button.disabled for button in at.button}
    assert not any(disabled[label] for label in ways), "a name can still be changed"
    assert "Train again: " not in words_of(at)
    next(button for button in at.button if button.label == "Predict new pictures").click().run()
    assert not at.exception and at.query_params["run"] in (run.id, [run.id])


def test_a_cluster_is_named_on_its_card_and_called_so_everywhere(root, monkeypatch):
    monkeypatch.setattr(points, "read_pictures", lambda run: sources.load("digits"))
    run = without_truth(make_run(root, epochs=3))
    at = visit("live", run=[run.id])
    assert "cluster 7" in words_of(at) and len(at.text_input) == 10
    next(field for field in at.text_input if field.key.endswith(" 7")).set_value("sevens").run()
    assert not at.exception and naming.naming_of_epoch(naming.read_entries(run), 3).names == {7: "sevens"}
    assert "**sevens**" in words_of(at) and "cluster 7" not in words_of(at)
    next(field for field in at.text_input if field.key.endswith(" 8")).set_value("sevens").run()
    assert "already the name of cluster 7" in at.error[0].value
    drawn = charts_of(visit("live", run=[run.id], part="training"))
    for name in ("pi_hat", "cluster_sizes"):
        assert "sevens" in str(drawn[name]) and "cluster 8" in str(drawn[name]) and "cluster 7" not in str(drawn[name])


def test_where_nothing_novel_was_found_the_sentence_says_so(root):
    run = without_truth(make_run(root, epochs=3))
    here = predictions.read_view(run, 3)
    seen = [cluster for cluster in here.clusters if cluster.id in here.defaults]
    said = found_clusters.summarize_clusters(replace(here, clusters=seen))
    assert "all are in classes that you labeled or named; no novel cluster has pictures." in said


def test_while_it_trains_novel_clusters_come_first_and_nothing_is_judged(root, monkeypatch):
    monkeypatch.setattr(points, "read_pictures", lambda run: sources.load("digits"))
    run = without_truth(make_run(root, "running", written=2))
    with held(run):
        at = visit("live", run=[run.id])
    order = [
        cluster.id
        for cluster in found_clusters.order_clusters(predictions.read_view(run, points.stored_epochs(run)[-1]))
    ]
    assert order == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
    assert "still change. You can name them when the run ends." in words_of(at) and "have a flag" not in words_of(at)
    assert len(at.text_input) == 10 and all(field.disabled for field in at.text_input)
    here = predictions.read_view(run, points.stored_epochs(run)[-1])
    gone = replace(here, clusters=[replace(c, size=0 if c.id == 8 else c.size) for c in here.clusters])
    monkeypatch.setattr(predictions, "read_view", lambda *_, **__: gone)
    assert "in 10 clusters, 1 of them without any" in clusters_page._summarize_page(gone)
    with held(run):
        without = visit("live", run=[run.id])
    assert [field.label for field in without.text_input] == [f"Name of cluster {i}" for i in order if i != 8]
    assert "1 cluster without a card has no pictures." in words_of(without)
    assert training_data._describe_training_data(run).endswith(", 4 novel classes and 1 novel class without pictures")
    monkeypatch.setattr(training_data, "keeps_class_free", lambda run: True)
    kept_free = f"{titles.setting_in_words('split.num_novel', 1)}, kept free for pictures of unknown kinds"
    assert training_data._describe_training_data(run).endswith(f" and {kept_free}")
    disabled = {button.label: button.disabled for button in at.button}
    assert not disabled["See all clusters"] and disabled["Name the clusters"] and disabled["Predict new pictures"]


def test_without_withheld_labels_the_way_to_them_is_said(root):
    run = without_truth(make_run(root, epochs=2), withheld=False)
    assert "5 novel clusters found" in words_of(visit("live", run=[run.id]))
    at = visit("live", run=[run.id], part="training")
    assert "split.validation_ratio" in words_of(at) and "Withheld labels" not in cards_of(at)
    assert "Clusters in use" in cards_of(at)


def test_the_shares_of_the_clusters_are_those_of_the_predictions(root):
    run = without_truth(make_run(root, epochs=3))
    table = unknown_classes.cluster_shares(run)
    with np.load(run.snapshots / "epoch-0002.npz") as stored:
        expected = np.bincount(stored["predicted"], minlength=10) / len(stored["predicted"])
    assert table.loc[2].to_numpy() == pytest.approx(expected) and list(table.index) == [1, 2, 3]
    (run.snapshots / "epoch-0002.npz").write_bytes(b"PK broken")
    assert list(unknown_classes.cluster_shares(run).index) == [1, 3]


def test_a_run_with_truth_is_not_blind(root):
    assert not read_history(make_run(root, epochs=1)).is_blind
    assert read_history(without_truth(make_run(root, epochs=1, seed=1))).is_blind


def test_clusters_are_judged_by_the_features_before_training_on_own_predictions(root, monkeypatch):
    """After the first epoch; of a run that was trained again, of the first run. Nothing for a trained backbone."""
    first, again = (make_run(root, epochs=epochs, settings={"features": "stored"}) for epochs in (3, 2))
    settings = json.loads((again.folder / "config.json").read_text())
    settings |= dict.fromkeys(("network.continues", "split.confirmed"), "0123456789ab")
    (again.folder / "config.json").write_text(json.dumps(settings))
    monkeypatch.setattr(predictions.clusters.inherited_files, "parent_of", lambda _: first.id)
    unlabeled, stored = read_split(first.folder)[0].unlabeled[5:], read_snapshot(first.snapshots, 1)
    is_here = np.isin(stored.feature_index, unlabeled)
    for run in (first, again):
        features, rows = predictions.clusters.read_first_features(run, unlabeled)
        assert (features == stored.features[is_here]).all()
        assert (unlabeled[rows] == stored.feature_index[is_here]).all()
    assert predictions.clusters.read_first_features(make_run(root, epochs=1), unlabeled) is None
