"""SimCLR pretraining: the update rule, its name in the cache, and that stops, deaths and neighbours cost nothing."""

import itertools
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lps.data import batches
from lps.data.batches import PRETRAINING, Pictures, seeded
from lps.data.training_data import prepare
from lps.data.views import FAMILIES
from lps.errors import UserError
from lps.files import locks
from lps.settings.config import configure
from lps.training import checkpoints, pretrain
from lps.training import loop as train
from lps.training.feature_quality import feature_quality, linear_accuracy
from tests.patience import until

ROOT = Path(__file__).resolve().parents[2]
TINY = {"pretrain.epochs": 3, "pretrain.batch_size": 8, "threads": 1}
GENERATOR = torch.Generator().manual_seed(0)
PIXELS = torch.randint(0, 256, (44, 1, 8, 8), generator=GENERATOR, dtype=torch.uint8)
IMAGES = Pictures(PIXELS, torch.device("cpu"))
TRUTH = torch.arange(44) % 4
STEPS = 5  # 44 // 8


class Killed(BaseException):
    """As if the process ended here: nobody catches it."""


def config(**settings):
    return configure(TINY | settings)


def never():
    return False


def silent(epoch, step, values):
    pass


def make(cache, report=silent, should_stop=never, **settings):
    ends = (report, should_stop, lambda step: report(0, step, {}))
    return pretrain.pretrained_backbone(config(**settings), IMAGES, TRUTH, cache, *ends)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return make(tmp_path_factory.mktemp("cache"))


def assert_same(weights, others):
    assert weights.keys() == others.keys() and all(torch.equal(value, others[key]) for key, value in weights.items())


def stop_before(count):
    """A wish to stop that is there at the `count`-th step from now on."""
    asked = itertools.count(1)
    return lambda: next(asked) >= count


@pytest.fixture
def two_threads():
    """Sums in float32 are those of two threads, however many an earlier test asked for: six steps tell them apart."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("two_threads")
def test_sgd_is_momentum_and_weight_decay_on_the_mean_loss_of_all_rows():
    settings = config(
        **{"pretrain.optimizer": "sgd", "pretrain.lr": 0.3, "pretrain.weight_decay": 0.01, "pretrain.warmup_steps": 2},
        **{"pretrain.projector_width": 9, "pretrain.projector_outputs": 5, "pretrain.epochs": 1},
    )
    made = pretrain.train_simclr(settings, IMAGES, TRUTH, silent, never)["backbone"]
    torch.manual_seed(int(seeded(torch.device("cpu"), 0, PRETRAINING.weights).initial_seed()))
    encoder = pretrain.ContrastiveNetwork(settings, 1).train()
    assert [tuple(p.shape) for p in encoder.projector.parameters()] == [(9, 64), (9,), (5, 9), (5,)]
    velocity = [torch.zeros_like(p) for p in encoder.parameters()]
    order = torch.randperm(44, generator=seeded(torch.device("cpu"), 0, 0, PRETRAINING.order))
    for step in range(STEPS):
        rate = 0.3 * (step + 1) / 2 if step < 2 else 0.15 * (1 + np.cos(np.pi * (step - 2) / 3))
        noise, batch = seeded(torch.device("cpu"), 0, 0, step, PRETRAINING.noise), PIXELS[order[step * 8 :][:8]]
        points = encoder(torch.cat([FAMILIES["digits"]["simclr"](batch, noise) for _ in range(2)]))
        points = torch.nn.functional.normalize(points, dim=1)
        terms = []
        for i in range(16):
            others = [j for j in range(16) if j != i]
            exponents = torch.stack([points[i] @ points[j] / 0.3 for j in others])
            terms.append(exponents.logsumexp(0) - exponents[others.index((i + 8) % 16)])
        gradients = torch.autograd.grad(torch.stack(terms).mean(), list(encoder.parameters()))
        with torch.no_grad():
            for parameter, gradient, speed in zip(encoder.parameters(), gradients, velocity):
                speed.mul_(0.9).add_(gradient + 0.01 * parameter)
                parameter.sub_(rate * speed)
    for key, value in encoder.backbone.state_dict().items():
        assert torch.allclose(value.float(), made[key].float(), atol=2e-4), key


def test_pretraining_and_training_draw_nothing_from_the_same_stream(monkeypatch):
    settings, drawn = config(epochs=3, batch_size=256), {}
    material = prepare(settings)

    def noted(module):
        own = drawn.setdefault(module.__name__, [])

        def draw(*key):
            own.append(seeded(*key).initial_seed())
            return seeded(*key)

        return draw

    for module in (pretrain, batches, train):
        monkeypatch.setattr(module, "seeded", noted(module))
    pretrain.train_simclr(settings, IMAGES, TRUTH, silent, never)
    train.build(settings, material)
    targets, plain = torch.from_numpy(material.truth[material.split.labeled]), FAMILIES["digits"]["plain"]
    for epoch in range(3):
        list(
            batches.training_batches(material.images, targets, material.split, (plain,), material.plan, settings, epoch)
        )
    everything = sum(drawn.values(), [])
    assert [len(own) for own in drawn.values()] == [1 + 3 + 3 * STEPS, 3 + 3 * material.plan.steps, 1]
    assert len(set(everything)) == len(everything)


@pytest.mark.slow
def test_the_recipe_counts():
    weights = [
        pretrain.train_simclr(config(**settings), IMAGES, TRUTH, silent, never)["backbone"]["layer4.0.conv2.weight"]
        for settings in (
            {"pretrain.epochs": 1},
            {"pretrain.epochs": 1, "pretrain.optimizer": "sgd"},
            {"pretrain.epochs": 1, "pretrain.projector_outputs": 8},
            {"pretrain.epochs": 1, "precision": "bf16"},
            {"pretrain.epochs": 1, "pretrain.seed": 1},
        )
    ]
    assert all(torch.isfinite(weight).all() for weight in weights)
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(weights, 2))


def test_the_name_in_the_cache_tells_recipes_apart_and_knows_equal_ones():
    def key(images=IMAGES, **settings):
        return pretrain.cache_key(config(**settings), images)

    own = key(seed=3)
    assert own == key(seed=3, **{"pretrain.seed": 3}) == key(seed=5, **{"pretrain.seed": 3})
    assert own == key(seed=3, epochs=9, **{"network.freeze_until": "layer1", "split.num_seen": 2})
    others = [
        key(),
        key(seed=3, **{"pretrain.optimizer": "sgd"}),
        key(seed=3, **{"pretrain.projector_width": 64}),
        key(seed=3, **{"pretrain.epochs": 4}),
        key(seed=3, **{"network.name": "cifar_resnet18"}),
        key(seed=3, precision="bf16"),
        key(seed=3, threads=2),
        key(replace(IMAGES, pixels=PIXELS.flip(0)), seed=3),
    ]
    assert len({own, *others}) == len(others) + 1


def test_weights_that_people_already_have_keep_their_name():
    """The name that version 0.1 gave to the start weights of the default run."""
    assert pretrain.cache_key(configure(), prepare(configure()).images) == "digits-a2c4a7359c33da5c"


@pytest.mark.slow
@pytest.mark.parametrize("stops", [[1], [4, 3], [STEPS + 1], [2 * STEPS + 3, 1, 1]])
def test_weights_made_with_stops_are_those_of_an_unbroken_attempt(stops, unbroken, tmp_path):
    told = []

    def report(epoch, step, values):
        if values:
            told.append((epoch, values["pretrain/loss"]))

    for count in stops:
        assert make(tmp_path, report, stop_before(count)) is None
        (partial,) = tmp_path.glob("*.partial")
        assert list(partial.glob("step-*.json")) and not list(tmp_path.glob("*.lock"))
    assert_same(make(tmp_path, report), unbroken)
    assert [epoch for epoch, _ in told] == [1, 2, 3]  # no epoch is lost, none is done twice
    straight = []
    pretrain.train_simclr(config(), IMAGES, TRUTH, lambda e, s, v: straight.append((e, v.get("pretrain/loss"))), never)
    assert told == [(epoch, loss) for epoch, loss in straight if loss is not None]
    assert {path.suffix for path in tmp_path.iterdir()} == {".pt", ".json"}  # nothing half-made is left


@pytest.mark.slow
def test_a_death_costs_no_more_than_what_came_after_the_last_save(unbroken, tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "SAVE_EVERY_S", 0.0)

    def die(epoch, step, values):
        if (epoch, step) == (1, 3):
            raise Killed

    with pytest.raises(Killed):
        make(tmp_path, die)
    steps = []
    assert_same(make(tmp_path, lambda epoch, step, values: values or steps.append((epoch, step))), unbroken)
    assert steps[0] == (1, 3) and len(steps) == 3 * STEPS - (STEPS + 2)


def test_saving_is_rare(tmp_path, monkeypatch):
    saved = []
    monkeypatch.setattr(checkpoints, "save_checkpoint", lambda folder, name, state: saved.append(name))
    make(tmp_path)
    assert len(saved) == 1 and saved[0].startswith("digits-")  # the finished weights alone


@pytest.mark.slow
def test_a_damaged_save_is_passed_over(unbroken, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pretrain, "SAVE_EVERY_S", 0.0)
    assert make(tmp_path, should_stop=stop_before(STEPS + 3)) is None
    first, newest = sorted(tmp_path.glob("*.partial/step-*.pt"))
    newest.write_bytes(newest.read_bytes()[:-9])
    assert_same(make(tmp_path), unbroken)
    assert f"{newest.stem} is damaged" in capsys.readouterr().out
    assert make(tmp_path / "b", should_stop=stop_before(3)) is None
    for path in (tmp_path / "b").glob("*.partial/step-*.pt"):
        path.write_bytes(b"")
    assert_same(make(tmp_path / "b"), unbroken)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.slow
def test_who_needs_what_another_is_making_waits_and_reuses_it(unbroken, tmp_path, pool):
    key = pretrain.cache_key(config(), IMAGES)
    lock = locks.try_lock(tmp_path / f"{key}.lock")
    (tmp_path / f"{key}.partial").mkdir()
    (tmp_path / f"{key}.partial" / "step-00000007.json").touch()
    told, asked = [], []
    other = pool.submit(make, tmp_path, lambda *a: told.append(a), lambda: asked.append(1) and False)
    until(lambda: (0, 7, {}) in told)
    checkpoints.save_checkpoint(tmp_path, key, {"backbone": unbroken, "quality": {"pretrain/knn_accuracy": 0.5}})
    os.close(lock)
    assert_same(other.result(60), unbroken)
    assert told[-1] == (3, 0, {"pretrain/reused": 1, "pretrain/knn_accuracy": 0.5}) and asked
    assert all(values in ({}, told[-1][2]) for _, _, values in told)  # it made nothing itself


@pytest.mark.slow
def test_who_waits_can_be_stopped(tmp_path):
    lock = locks.try_lock(tmp_path / f"{pretrain.cache_key(config(), IMAGES)}.lock")
    assert make(tmp_path, should_stop=lambda: True) is None
    assert not list(tmp_path.glob("*.partial"))
    os.close(lock)


@pytest.mark.slow
def test_who_waits_takes_over_from_one_who_died(unbroken, tmp_path, pool):
    assert make(tmp_path, should_stop=stop_before(STEPS + 2)) is None
    lock = locks.try_lock(tmp_path / f"{pretrain.cache_key(config(), IMAGES)}.lock")  # as if it were going on
    steps, told = [], []

    def report(epoch, step, values):
        told.append(step)
        if not values and epoch:
            steps.append((epoch, step))

    other = pool.submit(make, tmp_path, report)
    until(lambda: told)
    os.close(lock)
    assert_same(other.result(60), unbroken)
    assert steps[0] == (1, 2)


@pytest.mark.turn(2, 3)
@pytest.mark.slow
def test_kill_9_of_a_real_process_and_another_that_was_waiting(tmp_path):
    """Two processes want the same weights; the one that makes them is killed and the other one ends with them."""
    few = {"pretrain.epochs": 3, "threads": 1, "dataset.images_per_class": 60}
    words = [word for key, value in few.items() for word in ("--set", f"{key}={value}")] + ["--runs", str(tmp_path)]
    code = "import os, signal, sys; from lps.__main__ import main; from lps.training import pretrain\n"
    code += "pretrain.SAVE_EVERY_S, save = 0.0, pretrain.Pretraining._save\n"
    suspend = "pretrain.Pretraining._save = lambda work: save(work) or os.kill(os.getpid(), signal.SIGSTOP)\n"
    carry_out = f"sys.exit(main(['pretrain', *{words!r}]))"
    about = {"cwd": ROOT, "env": os.environ | {"PYTHONPATH": str(ROOT)}, "stdout": subprocess.PIPE, "text": True}
    # Alive, but it gets no further before the other one is there.
    first = subprocess.Popen([sys.executable, "-u", "-c", code + suspend + carry_out], **about)
    until(lambda: list(tmp_path.glob(".pretrained/*.partial/step-*.json")))
    second = subprocess.Popen([sys.executable, "-u", "-c", code + carry_out], **about)
    assert "waiting for it" in second.stdout.readline()
    first.send_signal(signal.SIGKILL)
    first.wait()
    out, _ = second.communicate(timeout=300)
    assert second.returncode == 0 and "pretraining continues in epoch" in out
    settings = configure(few)
    material = prepare(settings)
    torch.set_num_threads(1)
    alone = pretrain.train_simclr(settings, *material.training, silent, never)["backbone"]
    stored = checkpoints.load_checkpoint(tmp_path / ".pretrained", pretrain.cache_key(settings, material.training[0]))
    assert_same(stored["backbone"], alone)


def test_a_loss_that_is_no_number_is_one_sentence_and_leaves_nothing_to_go_on_from(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrain, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(pretrain, "nt_xent", lambda points, temperature: points.sum() * float("nan"))
    with pytest.raises(UserError, match="pretrain.lr: 0.005 is too large"):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "settings, words",
    [({"pretrain.epochs": 0}, "pretrain.epochs: 0 leaves"), ({"network.start": "random"}, "network.start: random")],
)
def test_pretraining_alone_says_where_there_is_nothing_to_do(settings, words, tmp_path):
    with pytest.raises(UserError, match=words):
        pretrain.pretrain_alone(config(**settings), tmp_path, print)


def test_test_images_are_not_pretrained_on(tmp_path, monkeypatch):
    settings = config(**{"split.test_ratio": 0.5, "pretrain.epochs": 1})
    seen = []
    monkeypatch.setattr(pretrain, "pretrained_backbone", lambda config, images, truth, *more: seen.append(images))
    pretrain.pretrain_alone(settings, tmp_path, print)
    assert 800 < len(seen[0]) < 1000


def blobs(spread, classes=5, n=200, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    return (np.eye(classes, 8)[labels] + spread * generator.standard_normal((n, 8))).astype(np.float32), labels


def test_linear_accuracy_is_that_of_images_it_did_not_learn_from():
    features, labels = blobs(0.05)
    assert linear_accuracy(features, labels, 0) == 1
    scrambled = np.random.default_rng(1).permutation(labels)
    assert linear_accuracy(features, scrambled, 0) < 0.4  # learning by heart would give far more
    wide = np.random.default_rng(2).standard_normal((200, 400)).astype(np.float32)
    assert linear_accuracy(wide, labels, 0) < 0.45  # any labels are separable in 400 dimensions


def test_linear_accuracy_does_not_depend_on_the_scale_of_a_feature():
    features, labels = blobs(0.45)
    score = linear_accuracy(features, labels, 0)
    assert 0.5 < score < 1 and linear_accuracy(features * np.array([1e3, 1e-3] * 4) + 7, labels, 0) == score
    constant = np.concatenate([features, np.ones((200, 2))], axis=1)
    assert linear_accuracy(constant, labels, 0) == score


@pytest.mark.parametrize("labels", [[], [0], [0, 1], [2, 2, 2, 2]])
def test_where_nothing_can_be_learned_there_is_no_linear_accuracy(labels):
    assert linear_accuracy(np.zeros((len(labels), 3), np.float32), np.array(labels, int), 0) is None


class Pixels(torch.nn.Module):
    def forward(self, images):
        return images.flatten(1)


def test_quality_looks_at_images_of_known_truth_alone_and_at_a_sample_of_many(monkeypatch):
    images = torch.zeros(60, 1, 2, 2, dtype=torch.uint8)
    truth = torch.arange(60) % 3
    images[torch.arange(60), 0, truth // 2, truth % 2] = 255  # the class is where the white pixel is
    truth[40:] = -1
    images[40:] = 128
    images = Pictures(images, torch.device("cpu"))
    quality = feature_quality(Pixels(), images, truth, configure(), 0)
    assert quality == dict.fromkeys(
        ["pretrain/knn_accuracy", "pretrain/kmeans_accuracy", "pretrain/linear_accuracy"], 1.0
    )
    assert feature_quality(Pixels(), images, torch.full((60,), -1), configure(), 0) == {}
    seen = []
    monkeypatch.setattr("lps.training.feature_quality.LOOKED_AT", 12)
    monkeypatch.setattr(
        "lps.training.feature_quality.knn_accuracy", lambda features, labels: seen.append(labels.tolist()) or 0.0
    )
    feature_quality(Pixels(), images, truth, configure(), 0)
    assert len(seen[0]) == 12 and [seen[0].count(label) for label in range(3)] == [4, 4, 4]


def test_long_pretrainings_are_looked_at_about_twenty_times():
    def looks(epochs):
        work = pretrain.Pretraining(config(**{"pretrain.epochs": epochs}), IMAGES, None)
        found = []
        for work.epoch in range(1, epochs + 1):
            if work.is_measuring_epoch():
                found.append(work.epoch)
        return found

    assert looks(20) == [5, 10, 15, 20] and looks(3) == [3] and looks(7) == [5, 7]
    assert looks(500)[:2] == [25, 50] and looks(500)[-1] == 500 and len(looks(500)) == 20
