"""Which classes are seen and which of their images keep a label: a pure function of labels, settings and a seed.

The one place where class ids are renumbered: after the split, ids `0 .. seen-1` are seen and the rest novel.
"""

from dataclasses import dataclass

import numpy as np

from lps.config import Config, seen_class_ids
from lps.parameters import ConfigError


@dataclass(frozen=True)
class Classes:
    """How many classes there are: `seen` with labels, `total` altogether."""

    seen: int
    total: int

    @property
    def novel(self) -> int:
        return self.total - self.seen


@dataclass(frozen=True)
class Split:
    """labeled, unlabeled: image ids, int64, disjoint and covering. class_order: original class id of every class id."""

    labeled: np.ndarray
    unlabeled: np.ndarray
    classes: Classes
    class_order: np.ndarray
    class_names: tuple[str, ...]  # by class id, that is, seen ones first
    seed: int

    def targets(self, labels: np.ndarray) -> np.ndarray:
        """Class ids of original labels; unknown (-1) stays -1."""
        renumber = np.empty(len(self.class_order), np.int64)
        renumber[self.class_order] = np.arange(len(self.class_order))
        return np.where(labels < 0, -1, renumber[labels])


def open_world_split(labels: np.ndarray, class_names: tuple[str, ...], config: Config) -> Split:
    """The split that `config` asks for.

    labels: int64 (n,), original class ids, -1 where unknown. Raises `ConfigError` where the settings do not fit them.
    """
    seen = _seen_classes(len(class_names), config)
    novel = np.setdiff1d(np.arange(len(class_names)), seen)
    is_seen = np.isin(labels, seen)
    keeps_label = np.zeros(len(labels), bool)
    draw = _bernoulli if config.split_rule == "bernoulli" else _stratified
    keeps_label[is_seen] = draw(labels[is_seen], config.split_labeled_ratio, config.split_seed)
    order = np.concatenate([seen, novel])
    split = Split(
        labeled=np.flatnonzero(keeps_label),
        unlabeled=np.flatnonzero(~keeps_label),
        classes=Classes(len(seen), len(class_names)),
        class_order=order,
        class_names=tuple(class_names[i] for i in order),
        seed=config.split_seed,
    )
    _check(split, labels, config)
    return split


def _seen_classes(total: int, config: Config) -> np.ndarray:
    """Original ids of the seen classes, ascending."""
    picked = seen_class_ids(config.split_seen_classes)
    count = config.split_num_seen or (len(picked) if picked else total // 2)
    if picked is not None and max(picked) >= total:
        raise ConfigError("split.seen_classes", f"names class {max(picked)}; the classes are 0 to {total - 1}")
    if not 1 <= count < total:
        raise ConfigError(
            "split.num_seen",
            f"{count} of {total} classes seen; expected 1 to {total - 1}, so that some are left to discover",
        )
    if picked is not None:
        return np.sort(np.array(picked))
    if config.split_seen_classes == "random":
        return np.sort(np.random.default_rng([config.split_seed, 1]).permutation(total)[:count])
    return np.arange(count)


def _bernoulli(labels: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """An independent draw per seen-class image in storage order, by the generator of the original code."""
    return np.random.RandomState(seed).rand(len(labels)) < ratio


def _stratified(labels: np.ndarray, ratio: float, seed: int) -> np.ndarray:
    """The same share of every class, at least one image."""
    generator = np.random.default_rng([seed, 2])
    keeps = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        keeps[members[: max(1, round(ratio * len(members)))]] = True
    return keeps


def _check(split: Split, labels: np.ndarray, config: Config) -> None:
    counts = np.bincount(split.targets(labels[split.labeled]), minlength=split.classes.total)
    for class_id in range(split.classes.seen):
        if counts[class_id] == 0:
            raise ConfigError(
                "split.labeled_ratio",
                f"{config.split_labeled_ratio:g} leaves class {split.class_names[class_id]!r} without a labeled image; "
                "raise it, or set split.rule to stratified",
            )
    if len(split.unlabeled) < split.classes.total:
        raise ConfigError(
            "split.labeled_ratio", f"{config.split_labeled_ratio:g} leaves {len(split.unlabeled)} unlabeled images"
        )
