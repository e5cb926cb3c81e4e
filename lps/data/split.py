"""Split of classes and labels: which classes are seen and which images are labeled, from labels, settings and a seed.

Class ids are renumbered only here and in `lps.data.confirmed_labels`: after the split, ids `0 .. seen-1` are
seen and the rest novel.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from lps.data.classes import Classes
from lps.data.index_files import read_index_files
from lps.errors import UserError, shorten
from lps.files.versions import MAX_CLASSES
from lps.settings import nouns
from lps.settings.config import Config, check_seen, seen_class_ids
from lps.wording import counted

_FEW = 20  # with fewer training images in a class, errors blame another setting than the share of labels
# Streams of random numbers under one seed (3: evaluate.sample_rows, 6: datasets.subset_ids).
_CLASSES, _STRATIFIED, _TEST, _VALIDATION, _ORDER, _IMAGES, _LABELS = 1, 2, 4, 5, 7, 8, 9


def _no_ids() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Split:
    """Image ids, int64, ascending: labeled, unlabeled and test are disjoint.

    They cover all images except those that `split.imbalance` or `split.index_files` leaves out.

    confirmed: the labeled images whose label the user gave after another run (`lps.data.confirmed_labels`).
    validation: the unlabeled images whose known label is withheld to choose an epoch. class_order:
    original class id of every class id; ids from the data set's number of classes on are classes without a name
    that the model may find. If the model has fewer ids than the data has classes, it lacks the last ones.
    """

    labeled: np.ndarray
    unlabeled: np.ndarray
    classes: Classes
    class_order: np.ndarray
    class_names: tuple[str, ...]  # by class id, that is, seen ones first
    seed: int
    test: np.ndarray = field(default_factory=_no_ids)
    validation: np.ndarray = field(default_factory=_no_ids)
    confirmed: np.ndarray = field(default_factory=_no_ids)

    def targets(self, labels: np.ndarray) -> np.ndarray:
        """Return class ids of original labels; unknown (-1) stays -1."""
        renumber = np.empty(len(self.class_order), np.int64)
        renumber[self.class_order] = np.arange(len(self.class_order))
        return np.where(labels < 0, -1, renumber[labels])

    @property
    def training(self) -> np.ndarray:
        """Return all images except the test images, ascending."""
        return np.sort(np.concatenate([self.labeled, self.unlabeled]))

    def judged(self, truth: np.ndarray) -> np.ndarray:
        """Return the truth of the unlabeled images that scores may use, -1 elsewhere; truth: class ids of all images.

        If some unlabeled images are of unknown class, the withheld labels of a few seen ones do not represent them.
        """
        visible_truth = truth[self.unlabeled].copy()
        if (visible_truth < 0).any():
            visible_truth[self.validation_rows] = -1
        return visible_truth

    def part(self, kept_ids: np.ndarray) -> "Split":
        """Return the split of only the images `kept_ids` (ascending), renumbered in this order."""
        fields = ("labeled", "unlabeled", "test", "validation", "confirmed")
        ids = {name: np.searchsorted(kept_ids, np.intersect1d(getattr(self, name), kept_ids)) for name in fields}
        return replace(self, **ids)

    def pictures_in_words(self, noun: str = "picture") -> str:
        """Describe the unlabeled images: "248 unlabeled pictures (240 without a label, 8 with a withheld label)"."""
        sentence, withheld = counted(len(self.unlabeled), f"unlabeled {noun}"), len(self.validation)
        if not withheld:
            return sentence
        return f"{sentence} ({len(self.unlabeled) - withheld:,} without a label, {withheld:,} with a withheld label)"

    @property
    def validation_rows(self) -> np.ndarray:
        """Return the indices of the validation images in `unlabeled`."""
        return np.searchsorted(self.unlabeled, self.validation)


def with_cluster_names(names: tuple[str, ...], seen: int, targets: np.ndarray) -> tuple[str, ...]:
    """Return class names of a stored split without the names "new 1", "new 2", ... that older versions gave.

    These classes are named "cluster 5", ... by their ids. targets: class id of every image, -1 unknown; a class that
    occurs in them keeps its name.
    """
    named = max(seen, int(targets.max(initial=-1)) + 1)
    count = next((n for n in range(len(names) - named, 0, -1) if names[-n:] == _old_names(n)), 0)
    first = len(names) - count
    return *names[:first], *(f"cluster {i}" for i in range(first, len(names)))


def _old_names(count: int) -> tuple[str, ...]:
    return tuple(f"new {i + 1}" for i in range(count))


def open_world_split(labels: np.ndarray, class_names: tuple[str, ...], config: Config, num_test: int = 0) -> Split:
    """Return the split that `config` asks for.

    labels: int64 (n,), original class ids, -1 where unknown; the last `num_test` belong to test images. Raises
    `UserError` if the settings do not fit them.
    """
    test = _test_images(labels, num_test, config)
    if config.split_index_files:
        return _indexed_split(labels, class_names, config, test)
    learned = _without(np.arange(len(labels)), test)
    seen = _seen_classes(labels[learned], len(class_names), config)
    order, names, classes = _numbering(seen, class_names, config)
    sizes = _class_order_by_size(seen, len(class_names), config)
    learned = _imbalanced(learned, labels[learned], sizes, config.split_imbalance, config.split_seed, _IMAGES)
    of_seen = learned[np.isin(labels[learned], seen)]
    draw = _DRAWS[config.split_rule]
    labeled = of_seen[draw(labels[of_seen], config.split_labeled_ratio, config.split_seed)]
    _check_labeled(labels[labeled], labels[learned], seen, class_names, config)
    order_of_seen = sizes[np.isin(sizes, seen)]
    imbalance = config.split_labeled_imbalance
    labeled = _imbalanced(labeled, labels[labeled], order_of_seen, imbalance, config.split_seed, _LABELS)
    validation = _withheld(labeled, labels[labeled], config)
    labeled = _without(labeled, validation)
    unlabeled = _without(learned, labeled)
    _check_sizes(len(unlabeled), len(learned), len(test), classes, config)
    return Split(labeled, unlabeled, classes, order, names, config.split_seed, test, validation)


def _indexed_split(labels: np.ndarray, class_names: tuple[str, ...], config: Config, test: np.ndarray) -> Split:
    """Return the split of `split.index_files`: classes with labeled images are seen, images in no file are left out."""
    labeled, unlabeled = read_index_files(config.split_index_files, labels[: len(labels) - len(test)])
    order, names, classes = _numbering(np.unique(labels[labeled]), class_names, config)
    validation = _withheld(labeled, labels[labeled], config)
    labeled, unlabeled = _without(labeled, validation), np.sort(np.concatenate([unlabeled, validation]))
    _check_sizes(len(unlabeled), len(labeled) + len(unlabeled), len(test), classes, config)
    return Split(labeled, unlabeled, classes, order, names, config.split_seed, test, validation)


def _without(ids: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """Return the ids without `removed`, ascending; the ids must be unique."""
    return np.sort(np.setdiff1d(ids, removed, assume_unique=True))


def _test_images(labels: np.ndarray, num_test: int, config: Config) -> np.ndarray:
    """Return ids of the data set's test images, or of a `split.test_ratio` of every class; none without either."""
    ratio = config.split_test_ratio
    if num_test and ratio:
        raise UserError("split.test_ratio", f"{ratio:g} must be 0: {config.dataset} already has {num_test} test images")
    if num_test:
        return np.arange(len(labels) - num_test, len(labels))
    if not ratio:
        return _no_ids()
    return np.flatnonzero(_stratified(labels, ratio, config.split_seed, _TEST))


def _numbering(
    seen: np.ndarray, class_names: tuple[str, ...], config: Config
) -> tuple[np.ndarray, tuple[str, ...], Classes]:
    """Return (original class id, name) by new id, seen first and nameless last; and the model's number of classes."""
    num_named = len(class_names)
    novel = np.setdiff1d(np.arange(num_named), seen)
    num_novel = config.split_num_novel or len(novel)
    if num_novel == 0:
        raise UserError(
            "split.num_novel",
            f"is not set, and all {num_named} classes are seen; expected the number of novel classes to look for, such "
            "as 3",
        )
    nameless = max(0, num_novel - len(novel))
    order = np.concatenate([seen, novel, num_named + np.arange(nameless)])
    names = *(class_names[i] for i in order[:num_named]), *(f"cluster {num_named + i}" for i in range(nameless))
    return order, names, Classes(len(seen), len(seen) + num_novel)


def _seen_classes(labels: np.ndarray, num_classes: int, config: Config) -> np.ndarray:
    """Return original ids of the seen classes, ascending; default: half of them, or all if some images are unknown."""
    seen_ids = seen_class_ids(config.split_seen_classes)
    num_default = num_classes if (labels < 0).any() else num_classes // 2
    count = config.split_num_seen or (len(seen_ids) if seen_ids else num_default)
    most_seen = num_classes if config.split_num_novel or (labels < 0).any() else num_classes - 1
    check_seen(seen_ids, count, num_classes, most_seen)
    if seen_ids is not None:
        return np.sort(np.array(seen_ids))
    if config.split_seen_classes == "random":
        return np.sort(np.random.default_rng([config.split_seed, _CLASSES]).permutation(num_classes)[:count])
    return np.arange(count)


def _class_order_by_size(seen: np.ndarray, num_classes: int, config: Config) -> np.ndarray:
    """Return original ids of all classes, starting with the one that should be the largest."""
    shuffled = np.random.default_rng([config.split_seed, _ORDER]).permutation(num_classes)
    if config.split_imbalance_order == "permuted":
        return shuffled
    is_first = np.isin(shuffled, seen) == (config.split_imbalance_order == "seen")
    return np.concatenate([shuffled[is_first], shuffled[~is_first]])


def imbalanced_counts(available: np.ndarray, imbalance: float) -> np.ndarray:
    """Return the images per class, largest class first: floor(N imbalance^(-i / (K - 1))), at least 1.

    available: images of each of the K classes, all at least 1. N is the largest number for which every class has
    enough, so that nothing is drawn twice. The curve of BaCon (Bai et al., NeurIPS 2023).
    """
    falling = imbalance ** (-np.arange(len(available)) / max(1, len(available) - 1))
    largest = (available / falling).min()
    return np.maximum(1, np.floor(largest * falling + 1e-9)).astype(np.int64)


def _imbalanced(
    ids: np.ndarray, labels: np.ndarray, order: np.ndarray, imbalance: float, seed: int, stream: int
) -> np.ndarray:
    """Return the ids, ascending, that are kept so that class sizes follow the curve.

    order: class ids, the largest first; classes without images are skipped. Images of unknown class (-1) stay.
    """
    if imbalance == 1:
        return ids
    present = order[np.isin(order, labels)]
    counts = imbalanced_counts(np.array([(labels == label).sum() for label in present]), imbalance)
    generator = np.random.default_rng([seed, stream])
    kept_ids = [ids[labels < 0]]
    for label, count in zip(present, counts):
        kept_ids.append(generator.permutation(ids[labels == label])[:count])
    return np.sort(np.concatenate(kept_ids))


def _bernoulli(labels: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Draw independently per seen-class image in storage order, by the generator of the original code."""
    return np.random.RandomState(seed).rand(len(labels)) < ratio


def _stratified(labels: np.ndarray, ratio: float, seed: int, stream: int = _STRATIFIED) -> np.ndarray:
    """Draw the same share of every class, at least one image."""
    generator = np.random.default_rng([seed, stream])
    keeps = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        keeps[members[: max(1, round(ratio * len(members)))]] = True
    return keeps


def _exact(labels: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """Draw exactly this share of all seen-class images, rounded down, by the generator of GCD's code."""
    keeps = np.zeros(len(labels), bool)
    keeps[np.random.RandomState(seed).choice(len(labels), int(ratio * len(labels)), replace=False)] = True
    return keeps


_DRAWS = {"bernoulli": _bernoulli, "stratified": _stratified, "exact": _exact}


def _withheld(labeled: np.ndarray, labels: np.ndarray, config: Config) -> np.ndarray:
    """Draw the labeled images whose label is withheld: a share of every class, never its last image."""
    ratio = config.split_validation_ratio
    if not ratio:
        return _no_ids()
    generator = np.random.default_rng([config.split_seed, _VALIDATION])
    parts = []
    for label in np.unique(labels):
        members = generator.permutation(labeled[labels == label])
        parts.append(members[: min(len(members) - 1, max(1, round(ratio * len(members))))])
    withheld = np.sort(np.concatenate(parts))
    if len(withheld) == 0:
        raise UserError(
            "split.validation_ratio",
            f"{ratio:g} is not possible: classes with one labeled image would have none to train on; set it to 0",
        )
    return withheld


def _check_labeled(
    labels: np.ndarray, learned: np.ndarray, seen: np.ndarray, class_names: tuple[str, ...], config: Config
) -> None:
    """Check the labels. labels: of the labeled images; learned: of all except the test images."""
    missing = np.setdiff1d(seen, labels)
    if not len(missing):
        return
    images = int((learned == missing[0]).sum())
    lack = nouns.of_dataset(config.dataset)(f"({counted(images, 'training image')}) has no labeled image")
    name, value, remedy = _too_little(images, config)
    class_name = class_names[missing[0]]
    raise UserError(
        name, f"with {value}, class {shorten(class_name)} {lack}; {remedy}, or set split.rule to stratified"
    )


def _too_little(images: float, config: Config) -> tuple[str, str, str]:
    """Name the setting that leaves a class of this size too few training images, its value, and the remedy."""
    ratio = f"{config.split_labeled_ratio:g}"
    most = config.dataset_images_per_class
    if images < _FEW and most and (images >= most or config.split_imbalance == 1):
        return "dataset.images_per_class", str(config.dataset_images_per_class), "raise it"
    if images < _FEW and config.split_imbalance > 1:
        return "split.imbalance", f"{config.split_imbalance:g}", "lower it"
    if images < _FEW and config.split_test_ratio:
        return "split.test_ratio", f"{config.split_test_ratio:g}", "lower it"
    return "split.labeled_ratio", ratio, "raise it"


def _check_sizes(unlabeled: int, learned: int, test: int, classes: Classes, config: Config) -> None:
    if classes.total > MAX_CLASSES:
        name = "dataset.path" if config.split_num_novel is None else "split.num_novel"
        raise UserError(name, f"makes {classes.total:,} classes; expected at most {MAX_CLASSES:,}")
    with_noun = nouns.of_dataset(config.dataset)
    if unlabeled < classes.total:
        name = _too_little(learned / classes.total, config)[0]
        raise UserError(
            name if config.split_num_novel is None else "split.num_novel",
            with_noun(
                f"{unlabeled} unlabeled images are left for {classes.total} classes; expected at least one per class"
            ),
        )
    if 0 < test < classes.total:
        key = "dataset.images_per_class" if config.dataset_images_per_class else "dataset.path"
        raise UserError(
            "split.test_ratio" if config.split_test_ratio else key,
            with_noun(f"{test} test images are too few for {classes.total} classes; expected at least one per class"),
        )
