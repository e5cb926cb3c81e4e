"""Stored features: a backbone's output for the views of pictures, used by every method in place of pictures."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch

from lps.data import extraction, feature_store, features, sources
from lps.data.batches import seeded
from lps.data.features import StoredFeatures
from lps.data.sources import images_of as images_of
from lps.data.training_data import pictures_on_device, prepare
from lps.data.views import views_of, views_of_pictures
from lps.errors import UserError
from lps.network import backbones
from lps.network.network import FeatureHead
from lps.settings import catalog, edit_log
from lps.settings.config import configure
from lps.store.events import read_events
from lps.training import loop
from lps.training.evaluate import infer_features
from tests.short_runs import (
    SHORT,
    assert_numbers_documented,
    assert_same_end,
    create_run,
    events,
    finished_run,
    numbers,
    resumed_run,
)

CPU = torch.device("cpu")
STORED = {
    "features": "stored",
    "network.name": "digits_resnet",
    "network.image_size": None,
    "network.start": "random",
    "dataset.images_per_class": 20,
    "batch_size": 32,
    "features.width": 16,
    "features.hidden": 32,
}


def config(**settings):
    return configure(STORED | {"device": "cpu", "threads": 1} | settings)


def made(own, **more):
    """The features of a run of this config."""
    return features.features_for_run(
        own, pictures_on_device(images_of(own), CPU), lambda done, total: None, lambda: False, **more
    )


@pytest.fixture
def small():
    """Features of five pictures that say which table and row they are of."""
    tables = {"plain": 1, "weak": 3, "strong": 2}
    made_up = {
        kind: tuple(torch.arange(5).half()[:, None] + 100 * number + 10 * k for k in range(count))
        for number, (kind, count) in enumerate(tables.items())
    }
    return StoredFeatures(made_up, "key", CPU)


def test_a_store_has_what_the_backbone_says_of_every_view():
    own = config(**{"features.weak_views": 2, "features.strong_views": 1})
    found = made(own)
    assert {kind: len(tables) for kind, tables in found.tables.items()} == {"plain": 1, "weak": 2, "strong": 1}
    with torch.random.fork_rng():
        torch.manual_seed(int(seeded(CPU, 0, extraction.NOISE).initial_seed()))
        backbone = backbones.build("digits_resnet", 1).eval()
    images = pictures_on_device(images_of(own), CPU)
    with torch.inference_mode():
        expected = backbone(torch.cat(list(images.all_seen(views_of_pictures(own)["plain"]))))
    plain = torch.cat(list(found.all_seen("plain")))
    assert plain.dtype == torch.float32 and found.shape == (200, 64) and torch.allclose(plain, expected, atol=1e-2)
    tables = [found.tables["plain"][0], *found.tables["weak"], *found.tables["strong"]]
    for i, one in enumerate(tables):
        for other in tables[:i]:
            assert (one != other).any(dim=1).all()


def test_a_setting_more_of_the_network_makes_no_store_another_one():
    """What features follow from is told by name: another setting there, and everybody's features are computed anew."""
    about = extraction.Extraction(config(), pictures_on_device(images_of(config()), CPU))._about
    network = {"network.name", "network.image_size", "network.tokens"}
    assert set(about) == network | {"pictures", "shape", "weights", "prepared", "views", "seed"}


def test_features_do_not_depend_on_the_number_of_threads():
    before, found = torch.get_num_threads(), []
    work = extraction.Extraction(config(), pictures_on_device(images_of(config()), CPU))
    _, _, compute = work.begin()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(compute("strong-1", 0, 100))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_what_a_run_asks_for_is_computed_once_and_shared(monkeypatch):
    first = made(config())
    monkeypatch.setattr(extraction.Extraction, "compute", None)
    again = made(config(seed=5, method="gcd", lr=0.01, **{"network.head": "linear", "features.width": 8}))
    assert again.key == first.key and torch.equal(again.tables["weak"][2], first.tables["weak"][2])
    assert np.array_equal(features.plain_features(config()), first.tables["plain"][0].numpy())


@pytest.mark.parametrize(
    "other",
    [
        {"network.name": "cifar_resnet18"},
        {"views": "grey"},
        {"features.seed": 1},
        {"dataset.images_per_class": 19},
        {"dataset.image_size": 16},
    ],
)
def test_another_backbone_view_seed_or_picture_is_another_store(other):
    def key(own):
        return extraction.Extraction(own, pictures_on_device(images_of(own), CPU)).key

    assert key(config()) != key(config(**other)) and key(config()) == key(config())


def test_a_picture_is_seen_in_its_own_views_and_in_another_one_the_second_time(small):
    ids = torch.tensor([4, 0, 3, 4] * 50)
    seen = small.seen(ids, ["plain", "weak", "weak", "weak", "weak", "strong"], seeded(CPU, 1))
    assert all(part.dtype == torch.float32 and torch.equal(part[:, 0] % 10, ids.float()) for part in seen)
    tables = [(part[:, 0] // 10).int() for part in seen]
    assert set(tables[0].tolist()) == {0} and set(tables[1].tolist()) == {10, 11, 12}
    assert set(tables[5].tolist()) == {20, 21}
    weak = torch.stack(tables[1:4])
    assert (weak.sort(dim=0).values == torch.tensor([[10], [11], [12]])).all() and torch.equal(tables[4], tables[1])
    assert not torch.equal(tables[1], tables[5] - 10)
    twice = [part[:, 0] // 10 for part in small.seen(ids, ["strong", "strong"], seeded(CPU, 1))]
    assert ((twice[0] - twice[1]).abs() == 1).all()


def test_draws_are_a_function_of_the_generator(small):
    ids = torch.arange(5).repeat(20)
    one, same, other = (small.seen(ids, ["weak", "strong"], seeded(CPU, key)) for key in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, same)) and not torch.equal(one[0], other[0])


def test_a_part_is_these_images_in_this_order(small):
    part = small.part(np.array([3, 1, 4])).part(np.array([2, 0]))
    assert len(part) == 2 and part.shape == (2, 1)
    assert torch.cat(list(part.all_seen("plain"))).tolist() == [[4], [3]]
    assert part.seen(torch.tensor([1]), ["plain"])[0].tolist() == [[3]]


def test_what_a_gpu_draws_without_being_waited_for_is_what_a_host_draws():
    tables = [torch.arange(30.0).view(10, 3) + 100 * number for number in range(3)]
    ids, chosen = torch.tensor([9, 0, 4, 4, 1]), torch.tensor([0, 2, 1, 0, 2])
    assert torch.equal(features._drawn_from_all(tables, chosen, ids), features._drawn(tables, chosen, ids))


def test_of_many_images_some_are_taken_evenly_spread(small):
    many = small.part(np.arange(5).repeat(1000))
    assert len(many.spread(10_000)) == 5000 and many.spread(50).rows.bincount().tolist() == [10, 11, 11, 11, 11]


def test_the_head_begins_with_the_principal_components():
    points = torch.randn(300, 8, generator=seeded(CPU, 1)) * torch.tensor([9.0, 7, 5, 3, 1, 1e-3, 1e-3, 1e-3]) + 4
    head = FeatureHead(8, 5, 16)
    head.begin_at(iter(points.split(100)))
    out = head(points)
    scale = torch.cdist(out, out)[0, 1] / torch.cdist(points, points)[0, 1]
    assert torch.allclose(torch.cdist(out, out), scale * torch.cdist(points, points), rtol=1e-2, atol=1e-2)
    assert torch.allclose(out.mean(dim=0), torch.zeros(5), atol=1e-4) and out.square().mean().item() == pytest.approx(1)
    again = FeatureHead(8, 5, 16)
    again.begin_at(iter(points.split(100)))
    assert torch.equal(again.projection.weight, head.projection.weight)


@pytest.mark.parametrize("features", [torch.full((40, 6), 0.7), torch.zeros(40, 6), 3 + 1e-9 * torch.eye(40, 6)])
def test_features_that_are_nearly_equal_give_bounded_weights_and_a_sentence(features, capsys):
    head = FeatureHead(6, 4, 0)
    head.begin_at(iter(features.split(10)))
    assert head.projection.weight.abs().max() < 1.5e4 and head(features).abs().max() < 10
    assert "The features of all images are nearly equal" in capsys.readouterr().out


def test_simclr_pretraining_is_refused_and_the_shipped_backbone_is_what_follows():
    assert configure({"features": "stored"}).network_name == "efficientnet_lite0"
    assert configure({"features": "stored"}).network_start == "published"
    with pytest.raises(UserError, match="network.start: simclr cannot be combined with stored features"):
        config(**{"network.start": "simclr"})


def test_values_that_are_not_finite_are_refused_in_a_sentence(monkeypatch):
    def spoiled(own, channels):
        backbone = backbones_of(own, channels)
        backbone.layer4[0].bn2.bias.data.fill_(float("nan"))
        return backbone

    backbones_of = backbones.build_backbone
    monkeypatch.setattr(backbones, "build_backbone", spoiled)
    with pytest.raises(
        UserError, match="features: digits_resnet outputs values that are not finite; use other weights"
    ):
        made(config())
    assert feature_store.list_stores()[0].rows == {"plain": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """trained("lps") -> a run on stored features, trained once."""
    return cache(lambda method: finished_run(tmp_path_factory.mktemp("runs"), method, **STORED))


@pytest.mark.slow
@pytest.mark.parametrize("method", catalog.method_names())
def test_every_method_trains_on_stored_features(method, trained):
    run = trained(method)
    assert_numbers_documented(run)
    last = events(run)[-2]["values"]
    assert last["accuracy/all"] > 0.2
    starts = [event for event in events(run) if event["kind"] == "start"]
    assert all(event["features"].startswith("digits-") for event in starts)
    assert starts[-1]["values"]["baseline/kmeans/all"] > 0.3
    assert events(run)[-1]["kind"] == "finish" and list(read_events(run.events, 0)[0])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lps", "simgcd"])
def test_a_resumed_run_ends_as_an_unbroken_one(method, trained, tmp_path, monkeypatch):
    assert_same_end(resumed_run(tmp_path, monkeypatch, method, at=(1, 2), **STORED), trained(method))


@pytest.mark.slow
def test_a_run_that_is_stopped_while_features_are_computed_goes_on_there(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_store, "PIECE", 64)
    asked = itertools.count(1)
    monkeypatch.setattr(loop.RunTraining, "should_stop", lambda attempt: next(asked) == 3)
    broken = create_run(tmp_path / "b", configure(SHORT | {"method": "lps"} | STORED | {"features.seed": 2}))
    assert loop.train(broken) == 0 and events(broken)[-1]["kind"] == "stop"
    told = broken.read_json("progress.json")
    assert told["phase"] == "features" and told["step"] < told["steps"] == 200 * 7
    assert loop.train(broken) == 0 and events(broken)[-1]["kind"] == "finish"
    assert numbers(broken).keys() == {(kind, epoch) for kind in ("train", "eval") for epoch in (1, 2)}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "cores", "taken"), [(None, 4, 3), (None, 1, 1), (2, 4, 2)])
def test_a_head_leaves_a_core_to_who_watches_unless_it_is_told_how_many_to_take(
    asked, cores, taken, tmp_path, monkeypatch
):
    monkeypatch.setattr(loop, "available_cores", lambda: cores)
    run = finished_run(tmp_path, "lps", **STORED | {"epochs": 1, "threads": asked})
    assert {event["values"]["threads"] for event in events(run) if event["kind"] == "start"} == {taken}


def test_a_run_is_not_resumed_on_other_features():
    material = prepare(config())
    assert material.digest != loop.replace(material, images=made(config())).digest


@pytest.mark.slow
def test_start_features_of_a_network_are_those_of_the_backbone_up_to_a_turn():
    own = config(**{"features.width": 64})
    found = made(own)
    material = loop.replace(prepare(own), images=found)
    method, _ = loop.build(own, material)
    plain, start = torch.cat(list(found.all_seen("plain"))), infer_features(method.network.backbone, found, own)
    ratio = torch.pdist(torch.from_numpy(start)) / torch.pdist(plain)
    assert ratio.std() / ratio.mean() < 0.01


def test_the_views_of_a_run_on_stored_features_are_what_is_kept():
    assert views_of(config())["mirrored"] == "weak"
    assert views_of(config()).keys() == views_of_pictures(config()).keys() - {"simclr"}


@pytest.mark.slow
def test_what_is_decided_about_pictures_costs_no_other_store(monkeypatch, tmp_path):
    monkeypatch.setenv("LPS_DECISIONS", str(tmp_path / "decisions"))
    whole, table = made(config()), features.plain_features(config())
    (before,) = feature_store.list_stores()
    keys, of = sources.original_keys(config())
    edit_log.record_decision("digits", None, "leave out", [keys[3], keys[70]], of=of)
    edit_log.record_decision("digits", None, "relabel", [keys[5]], label="9", of=of)
    rest = np.delete(np.arange(200), [3, 70])
    kept = made(config())
    assert len(kept) == len(prepare(config()).truth) == 198
    assert np.array_equal(features.plain_features(config()), table[rest])
    ids = torch.arange(198)
    (ours,), (theirs,) = kept.seen(ids, ["plain"]), whole.seen(torch.from_numpy(rest), ["plain"])
    assert torch.equal(ours, theirs) and feature_store.list_stores() == [before]
