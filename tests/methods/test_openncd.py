"""OpenNCD's terms against naive float64 loops, and its grouping on graphs whose groups are known."""

import math
import warnings

import numpy as np
import pytest
import torch
from scenes import CLASSES, inference, naive_partners, scene, softmax

from lps.data.classes import Classes
from lps.methods import Progress
from lps.methods.openncd import align_groups, group_prototypes, kl_to_prior, prototype_graph, spectral_groups

WIDTH = 4  # of the projections in these tests
WARM_UP, GROUPED = Progress(0, 150, 0, 10), Progress(5, 150, 0, 10)
SMALL = {"prototypes_per_class": 2, "projection_width": WIDTH, "temperature": 0.3}


def openncd(groups=None, **options):
    """The method on recorded projections; grouped where `groups` (an id per prototype) is given."""
    method, batch = scene("openncd", views=2, outputs=WIDTH, **(SMALL | options))
    if groups is not None:
        method.groups.copy_(torch.as_tensor(groups))
        method.is_grouped.fill_(True)
    return method, batch


def unit(rows):
    rows = np.asarray(rows, np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


WEIGHTS = {"group_weight": 2.0, "prior_weight": 1.0, "cross_entropy_weight": 3.0}


def naive(method, batch, is_grouped, group=1.0, prior_weight=10.0, cross_entropy=1.0):
    v1, v2 = (unit(view) for view in method.network.logits.detach().numpy())
    c, groups = unit(method.prototypes.detach().numpy()), method.groups.tolist()
    targets, rows = batch.targets.tolist(), len(v1)
    partners = naive_partners(v1, targets)
    a1, a2 = ([softmax(c @ v / method.temperature) for v in view] for view in (v1, v2))
    g1, g2 = ([[sum(x for x, g in zip(a, groups) if g == k) for k in range(len(c))] for a in view] for view in (a1, a2))
    one = -sum(sum(y * math.log(x + 1e-8) for x, y in zip(g1[i], g2[i])) for i in range(rows)) / rows
    two = -sum(sum(x * math.log(y + 1e-8) for x, y in zip(g1[i], g2[i])) for i in range(rows)) / rows
    mean = sum(a1) / rows
    prior = [1 / (len(set(groups)) * groups.count(g)) for g in groups]
    supervised = -sum(math.log(g1[i][y] + 1e-8) for i, y in enumerate(targets)) / len(targets)
    terms = {
        "loss/prototype_similarity": -sum(math.log(a1[i] @ a2[partners[i]]) for i in range(rows)) / rows,
        "loss/group_similarity": group * (one + two) / 2,
        "loss/prior": prior_weight * sum(m * math.log(m / p) for m, p in zip(mean, prior)),
    }
    return terms | ({"loss/cross_entropy": cross_entropy * supervised} if is_grouped else {})


@pytest.mark.parametrize(
    "groups", [None, [0, 1, 2, 3, 4, 5] * 2, [3, 3, 3, 3, 3, 3, 0, 1, 2, 4, 5, 0], [0, 1, 2, 2] * 3]
)
@pytest.mark.parametrize("options, constants", [({}, {}), (WEIGHTS, dict(group=2, prior_weight=1, cross_entropy=3))])
def test_every_term_equals_the_naive_one(groups, options, constants):
    """Before grouping, with equal groups, with unequal ones, and with fewer groups than classes."""
    method, batch = openncd(groups, **options)
    _, measured = method.loss(batch, GROUPED if groups else WARM_UP)
    expected = naive(method, batch, groups is not None, **constants)
    terms = {n: v for n, v in measured.items() if n.startswith("loss/") and n != "loss/total"}
    assert terms.keys() == expected.keys()
    for name, number in expected.items():
        assert terms[name].item() == pytest.approx(number, rel=1e-4), name


def test_the_prior_term_vanishes_at_the_prior_and_is_finite_where_a_prototype_is_never_used():
    method, _ = openncd([0] * 7 + [1, 2, 3, 4, 5])
    prior = method.prototype_prior()
    assert prior.sum().item() == pytest.approx(1) and prior[:7].sum().item() == pytest.approx(1 / 6)
    assert kl_to_prior(prior, prior).item() == pytest.approx(0, abs=1e-6)
    mean = torch.zeros(12).index_fill_(0, torch.tensor([3]), 1.0).requires_grad_()
    divergence = kl_to_prior(mean, prior)
    divergence.backward()
    assert divergence.item() == pytest.approx(math.log(42), rel=1e-4) and torch.isfinite(mean.grad).all()


def test_gradient_reaches_prototypes_and_both_views_and_not_the_neighbours():
    method, batch = openncd([0, 1, 2, 3, 4, 5] * 2, group_weight=0.0, prior_weight=0.0, cross_entropy_weight=0.0)
    method.loss(batch, GROUPED)[0].backward()
    first, second = method.network.logits.grad
    partners = set(naive_partners(method.network.logits[0].detach().numpy(), batch.targets.tolist()))
    assert (first.abs().sum(1) > 0).all() and (method.prototypes.grad.abs().sum(1) > 0).all()
    assert {i for i, row in enumerate(second.abs().sum(1)) if row > 0} == partners
    both, batch = openncd([0, 1, 2, 3, 4, 5] * 2, prior_weight=0.0, cross_entropy_weight=0.0)
    both.loss(batch, GROUPED)[0].backward()
    assert (both.network.logits.grad.abs().sum(2) > 0).all()


def naive_graph(votes, directions, weight):
    count, graph = votes.shape[1], np.zeros((votes.shape[1],) * 2)
    for p in range(count):
        for q in range(count):
            both = sum(bool(row[p] and row[q]) for row in votes)
            share = 0 if p == q else both / min(votes[:, p].sum(), votes[:, q].sum())
            graph[p, q] = weight * share + (1 - weight) * (1 + directions[p] @ directions[q]) / 2
    return graph


@pytest.mark.parametrize("weight", [1.0, 0.9, 0.0])
def test_the_graph_is_that_of_a_double_loop(weight):
    generator = np.random.default_rng(0)
    votes = (generator.random((30, 7)) < 0.4).astype(np.float32)
    directions = unit(generator.standard_normal((7, 3)))
    graph = prototype_graph(votes, directions, weight)
    assert np.allclose(graph, naive_graph(votes, directions, weight)) and np.allclose(graph, graph.T)


def blocks(groups=4, size=5, images=30, seed=0):
    """Votes of images for three prototypes of their own group: the graph falls apart into the groups."""
    generator = np.random.default_rng(seed)
    votes = np.zeros((groups * images, groups * size), np.float32)
    for image in range(len(votes)):
        votes[image, image // images * size + generator.choice(size, 3, replace=False)] = 1
    return votes, np.repeat(np.arange(groups), size), unit(generator.standard_normal((groups * size, 3)))


def same_partition(one, other):
    return len(set(zip(one, other))) == len(set(one)) == len(set(other))


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_in_pieces_is_grouped_by_its_pieces_without_a_warning(seed):
    votes, truth, directions = blocks(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same_partition(group_prototypes(votes, directions, 1.0, 4, seed), truth)


@pytest.mark.parametrize("count", [2, 6, 20, 25])
def test_fewer_and_more_groups_than_pieces(count):
    votes, _, directions = blocks()
    groups = group_prototypes(votes, directions, 1.0, count, seed=0)
    assert len(set(groups)) == min(count, 20) and groups.max() < count


def test_prototypes_without_votes_join_their_nearest_and_form_no_group():
    votes, truth, directions = blocks()
    dead = [2, 7, 8, 19]
    votes[:, dead] = 0
    groups = group_prototypes(votes, directions, 1.0, 4, seed=0)
    alive = [p for p in range(20) if p not in dead]
    assert same_partition(groups[alive], truth[alive])
    for p in dead:
        assert groups[p] == groups[max(alive, key=lambda q: directions[p] @ directions[q])]


def test_one_voted_prototype_takes_all():
    votes = np.zeros((3, 6), np.float32)
    votes[:, 4] = 1
    assert group_prototypes(votes, unit(np.eye(6)), 1.0, 3, seed=0).tolist() == [0] * 6
    assert spectral_groups(np.zeros((5, 5)), 3, seed=0).shape == (5,)


def test_groups_are_numbered_by_the_labeled_images_they_hold():
    """Groups 0..5 of two prototypes; labeled images of classes 0, 1, 2 lie on prototypes of groups 4, 0, 3."""
    groups = np.repeat(np.arange(6), 2)
    nearest, targets = np.array([8, 9, 8, 0, 1, 6, 7, 2]), np.array([0, 0, 0, 1, 1, 2, 2, 2])
    ids = align_groups(groups, np.full(12, -1), nearest, targets, CLASSES)
    assert (ids[8], ids[0], ids[6]) == (0, 1, 2)
    assert same_partition(ids, groups) and sorted(set(ids)) == [0, 1, 2, 3, 4, 5]


def test_ids_stay_where_labeled_images_do_not_decide():
    """The same groups under other numbers: novel ids, and a seen class with its images in another's group, stay."""
    before = np.repeat([0, 1, 2, 3, 4, 5], 2)
    renumbered = np.repeat([3, 5, 0, 1, 4, 2], 2)
    nearest, targets = np.array([0, 0, 2, 2, 2]), np.array([0, 0, 1, 1, 2])
    assert align_groups(renumbered, before, nearest, targets, CLASSES).tolist() == before.tolist()
    moved = renumbered.copy()
    moved[6] = renumbered[8]  # one prototype of group 3 goes to group 4
    ids = align_groups(moved, before, nearest, targets, CLASSES)
    assert ids.tolist() == [*before[:6], 4, *before[7:]]


def test_labeled_images_count_more_than_any_number_of_kept_prototypes():
    before, groups = np.array([0] * 5 + [1] * 5), np.array([0] * 5 + [1] * 5)
    ids = align_groups(groups, before, np.array([7]), np.array([0]), Classes(1, 2))
    assert ids.tolist() == [1] * 5 + [0] * 5


def crowd(method, truth, copies=20):
    """(labeled projections, targets, unlabeled ones, their classes): images between the prototypes of their class."""
    generator = torch.Generator().manual_seed(0)
    points, classes = [], []
    for k in range(6):
        own = [p for p, group in enumerate(truth) if group == k]
        for _ in range(copies):
            shares = torch.rand(len(own), 1, generator=generator) + 0.2
            points.append((shares * torch.nn.functional.normalize(method.prototypes.detach()[own], dim=1)).sum(0))
            classes.append(k)
    points, classes = torch.stack(points), torch.tensor(classes)
    labeled = classes < CLASSES.seen
    return points[labeled][::2], classes[labeled][::2], points, classes


def clustered():
    """A method whose prototypes 0..11 lie in six far directions, two and two, and images around them."""
    method, _ = openncd(projection_width=6, votes=2)
    truth = [k for k in (4, 2, 0, 5, 1, 3) for _ in range(2)]
    with torch.no_grad():
        noise = torch.randn(12, 6, generator=torch.Generator().manual_seed(3))
        method.prototypes.copy_(torch.eye(6)[truth] + 0.1 * noise)
    labeled, targets, unlabeled, _ = crowd(method, truth)
    return method, truth, inference(labeled, unlabeled, targets)


def test_grouping_finds_the_classes_and_gives_seen_ones_their_ids():
    method, truth, seen_by = clustered()
    method.start_epoch(seen_by, GROUPED)
    assert method.is_grouped and same_partition(method.groups.tolist(), truth)
    assert [g for g in method.groups.tolist() if g < 3] == [k for k in truth if k < 3]
    prediction = method.predict(seen_by)
    classes = crowd(method, truth)[3]
    assert same_partition(prediction.ids.tolist(), classes.tolist())
    assert (prediction.ids[classes < 3] == classes[classes < 3]).all()
    assert prediction.confidence.min() > 0 and prediction.confidence.max() <= 1
    assert prediction.measurements == {"prototype/in_use": 12, "group/in_use": 6, "group/prototypes": [2] * 6}
    again = method.groups.clone()
    method.start_epoch(seen_by, Progress(6, 150, 0, 10))
    assert torch.equal(method.groups, again)


def test_an_evaluation_in_warm_up_gives_class_ids_and_leaves_no_groups_behind():
    method, truth, seen_by = clustered()
    method.start_epoch(seen_by, Progress(4, 150, 0, 10))
    prediction = method.predict(seen_by)
    assert prediction.ids.max() < 6 and same_partition(prediction.ids.tolist(), crowd(method, truth)[3].tolist())
    assert not method.is_grouped and method.groups.tolist() == list(range(12))


def test_the_largest_group_may_be_another_than_the_nearest_prototypes():
    options = {"projection_width": 2, "prediction": "largest_group"}
    both = [openncd([0] + [1] * 11, **options), openncd([0] + [1] * 11, projection_width=2)]
    point = torch.tensor([[1.0, 0.0]])
    for (method, _), expected in zip(both, (1, 0)):
        with torch.no_grad():
            method.prototypes.copy_(torch.tensor([[1.0, 0.0]] + [[0.9, 0.3]] * 11))
        prediction = method.predict(inference(point, point, torch.tensor([0])))
        assert prediction.ids.tolist() == [expected]
        assert prediction.confidence.item() == pytest.approx(
            method.group_probabilities(method.prototype_logits(point))[0, expected].item()
        )


@pytest.mark.parametrize("epochs, expected", [(150, range(5, 70)), (20, range(1, 10)), (2, [1]), (1, [])])
def test_the_epochs_of_grouping_are_a_share_of_the_run(epochs, expected, monkeypatch):
    """5 to 69 of 150, and once where a short run has no epoch in that time."""
    method, _ = openncd()
    grouped = []
    for epoch in range(epochs):
        monkeypatch.setattr(method, "_grouping", lambda _, at=epoch: grouped.append(at) or torch.zeros(12))
        method.start_epoch(None, Progress(epoch, epochs, 0, 10))
    assert grouped == list(expected)


@pytest.mark.parametrize("classes", [Classes(1, 4), Classes(3, 4), Classes(1, 2)])
@pytest.mark.parametrize("per_class", [1, 3])
def test_one_seen_class_one_novel_class_and_as_many_prototypes_as_classes(classes, per_class):
    method, batch = openncd(classes=classes, prototypes_per_class=per_class)
    generator = torch.Generator().manual_seed(0)
    labeled, unlabeled = (torch.randn(n, WIDTH, generator=generator) for n in (4, 20))
    seen_by = inference(labeled, unlabeled, torch.arange(4) % classes.seen)
    method.start_epoch(seen_by, GROUPED)
    assert method.groups.max() < classes.total
    assert torch.isfinite(method.loss(batch, GROUPED)[0])
    prediction = method.predict(seen_by)
    assert prediction.ids.max() < classes.total and len(prediction.measurements["group/prototypes"]) == classes.total
