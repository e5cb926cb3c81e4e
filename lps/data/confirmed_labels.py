"""Labels that the user confirmed after a run, for the run that continues it: they join the labels of its split.

Users see pictures and names, never the truth. What the data set knows of a picture's class stays
hidden from training as before, and is used for scores alone.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from lps.data.classes import Classes
from lps.data.split import Split
from lps.errors import UserError
from lps.wording import counted

SETTING = "split.confirmed"
DIGITS = 12  # in a file name


@dataclass(frozen=True)
class Confirmed:
    """images: int64 (n,), ascending ids of unlabeled images; given: int64 (n,), the class id of each in the new run.

    names: of the classes that became seen; their ids follow those of the split's own seen classes. rows: int64, for
    every class id of the new run the id of the parent run that it continues, -1 for none. parent, epoch: the run and
    epoch that were reviewed. rule, threshold: which images of a named cluster count, and from which confidence on.
    pictures, named, decisions: images confirmed and clusters named after the parent, and all decisions since the first
    run of the chain. added_to_seen: how many of `pictures` the user moved into a seen class without naming a cluster.
    """

    images: np.ndarray
    given: np.ndarray
    names: tuple[str, ...]
    rows: np.ndarray
    parent: str
    epoch: int
    rule: str
    threshold: float
    pictures: int
    named: int
    decisions: int
    added_to_seen: int = 0

    @property
    def digest(self) -> str:
        """Return an identifier of which images have which class."""
        checksum = hashlib.sha256("\n".join(self.names).encode("utf-8", "surrogatepass"))
        for ids in (self.images, self.given, self.rows):
            checksum.update(np.ascontiguousarray(ids, np.int64).tobytes() + b"|")
        return checksum.hexdigest()[:DIGITS]


def add_confirmed(split: Split, labels: np.ndarray, num_classes: int, confirmed: Confirmed) -> tuple[Split, np.ndarray]:
    """Return (the split with the confirmed labels, class id of every image); raises `UserError` if they do not fit it.

    labels: int64 (n,), original class ids, -1 unknown; num_classes: of the data set. Withheld and
    test images stay as they are. A new class with the name of a class of the data set gets that class's id, so that
    scores can judge it; any other is a class that the data set does not have.
    """
    free = np.setdiff1d(split.unlabeled, split.validation)
    if not np.isin(confirmed.images, free).all():
        raise UserError(
            SETTING, "lists images that are not among the unlabeled images; the data set or its split has changed"
        )
    extended = replace(
        _renumbered(split, num_classes, confirmed.names),
        labeled=np.union1d(split.labeled, confirmed.images),
        unlabeled=np.setdiff1d(split.unlabeled, confirmed.images),
        confirmed=confirmed.images,
    )
    if len(confirmed.given) and not 0 <= confirmed.given.min() <= confirmed.given.max() < extended.classes.seen:
        raise UserError(SETTING, f"has classes that are not among the {extended.classes.seen} seen classes")
    if len(extended.unlabeled) < extended.classes.total:
        reason = f"leaves {counted(len(extended.unlabeled), 'unlabeled image')} for {extended.classes.total} classes"
        raise UserError(SETTING, f"{reason}; label fewer pictures: only the confident ones or those you reviewed")
    truth = extended.targets(labels)
    truth[confirmed.images] = confirmed.given
    return extended, truth


def _renumbered(split: Split, num_classes: int, names: tuple[str, ...]) -> Split:
    """Return the split with classes of these names after its seen ones; the number of novel classes stays the same."""
    seen, novel_by_name = split.classes.seen, {}
    hidden = [(int(label), name) for label, name in zip(split.class_order, split.class_names) if label < num_classes]
    for label, name in hidden[seen:]:
        novel_by_name[name.casefold()] = label
    confirmed_novel = [novel_by_name.pop(name.casefold(), None) for name in names]
    strangers = iter(range(num_classes, num_classes + len(names)))
    novel_labels = [next(strangers) if label is None else label for label in confirmed_novel]
    remaining = [(label, name) for label, name in hidden[seen:] if label not in novel_labels]
    nameless = range(max(0, split.classes.novel - len(remaining)))
    first = num_classes + sum(label is None for label in confirmed_novel)
    order = [
        *split.class_order[:seen].tolist(),
        *novel_labels,
        *(label for label, _ in remaining),
        *(first + i for i in nameless),
    ]
    titles = [*split.class_names[:seen], *names, *(name for _, name in remaining)]
    titles += [f"cluster {len(titles) + i}" for i in nameless]
    classes = Classes(seen + len(names), seen + len(names) + split.classes.novel)
    return replace(split, classes=classes, class_order=np.array(order, np.int64), class_names=tuple(titles))
