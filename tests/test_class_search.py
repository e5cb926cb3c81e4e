"""How many classes: found on separate blobs, exactly and by the coarse search; told to pages through a file."""

import numpy as np
import pytest

from lps import class_count
from lps.class_count import ClassCount
from lps.class_search import count_classes, search
from lps.config import configure
from lps.parameters import ConfigError


def blobs(total, seen, each=30, width=32, noise=0.05, seed=0):
    """Features of `total` classes around random directions, with labels of every other image of the seen ones."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(total, width))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = np.repeat(np.arange(total), each)
    features = centres[truth] + noise * generator.normal(size=(len(truth), width))
    labels = np.where((truth < seen) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    return features.astype(np.float32), labels


@pytest.mark.parametrize("total, seen", [(7, 3), (6, 5), (10, 2)])
def test_every_number_is_tried_where_they_are_few(total, seen):
    features, labels = blobs(total, seen)
    found = count_classes(features, labels, seen, seed=0, most=seen + 15)
    assert found.numbers == tuple(range(seen + 1, seen + 16)) and found.seen == seen
    assert found.silhouette[found.numbers.index(total)] == max(found.silhouette)
    at_truth = found.accuracy[found.numbers.index(total)]
    assert at_truth == max(found.accuracy) == 1
    assert found.total >= total and found.accuracy[found.numbers.index(found.total)] >= 1 - found.tolerance
    assert all(a < 1 - found.tolerance for n, a in zip(found.numbers, found.accuracy) if n > found.total)


@pytest.mark.slow
def test_a_wide_search_tries_few_numbers_and_ends_beside_the_choice():
    features, labels = blobs(60, 40, each=14, noise=0.02)
    found = count_classes(features, labels, 40, seed=0)
    assert len(found.numbers) < 60 and found.numbers[0] == 41 and found.numbers[-1] == 200
    place = found.numbers.index(found.total)
    assert found.numbers[place + 1] - found.total <= 1 + found.total // 50
    assert abs(found.total - 60) <= 12


@pytest.mark.parametrize("most", [5, -5, 0, 1797])
def test_a_largest_number_that_cannot_be_is_refused_before_anything_is_made(tmp_path, most):
    with pytest.raises(ConfigError, match="most: -?[0-9]+ is not a whole number from 6 to 1796"):
        search(configure(), tmp_path, most, print)
    assert not list(tmp_path.iterdir())


def test_the_same_seed_gives_the_same_count():
    features, labels = blobs(6, 3)
    assert count_classes(features, labels, 3, 1, most=9) == count_classes(features, labels, 3, 1, most=9)


def test_a_count_is_read_as_it_was_written(tmp_path):
    config = configure({"split.labeled_ratio": 0.3})
    path = class_count.path_of(config, tmp_path)
    assert class_count.read(path) is None
    count = ClassCount((6, 7), (0.5, 0.75), (0.1, 0.2), 0.01, 7, 5)
    class_count.write(path, count)
    assert class_count.read(path) == count and count.novel == 2
    path.write_text('{"numbers": 3}')
    with pytest.raises(ConfigError, match="is damaged"):
        class_count.read(path)


def test_the_count_depends_on_data_and_start_but_not_on_the_method(tmp_path):
    def path(**settings):
        return class_count.path_of(configure({key.replace("__", "."): v for key, v in settings.items()}), tmp_path)

    assert path() == path(method="orca", epochs=3, lr=0.3) == path(split__num_novel=7)
    assert len({path(), path(seed=1), path(split__num_seen=3), path(pretrain__epochs=3)}) == 4
