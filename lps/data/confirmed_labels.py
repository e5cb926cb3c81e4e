"""Labels that a person confirmed after a run, in the run that goes on from it: they join the labels of its split.

Whoever confirms looks at pictures and names, never at the truth. What the data set knows of a picture's class stays
hidden from training as before, and is asked for scores alone.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from lps.data.classes import Classes
from lps.data.split import Split
from lps.errors import UserError
from lps.wording import counted

SETTING = "split.confirmed"
DIGITS = 12  # of the name of a file


@dataclass(frozen=True)
class Confirmed:
    """images: int64 (n,), ascending ids of unlabeled images; given: int64 (n,), the class id of each in the new run.

    names: of the classes that became seen, whose ids follow those of the split's own seen classes. rows: int64, for
    every class id of the new run that of the run before it which it continues, -1 for none. parent, epoch: the run and
    the epoch that were looked at. rule, threshold: which images of a named cluster count, and from which confidence on.
    pictures, named, decisions: images confirmed and clusters named after the parent, and all decisions since the first
    run of the chain.
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

    @property
    def digest(self) -> str:
        """A name for which images have which class."""
        found = hashlib.sha256("\n".join(self.names).encode("utf-8", "surrogatepass"))
        for ids in (self.images, self.given, self.rows):
            found.update(np.ascontiguousarray(ids, np.int64).tobytes() + b"|")
        return found.hexdigest()[:DIGITS]


def added(split: Split, labels: np.ndarray, known: int, confirmed: Confirmed) -> tuple[Split, np.ndarray]:
    """(the split with the confirmed labels, class id of every image); raises `UserError` where they do not fit it.

    labels: int64 (n,), original class ids, -1 unknown; known: how many classes the data set has. Withheld and test
    images stay as they are. A new class whose name is that of a class of the data set has that one's id, so that scores
    know which pictures are meant; any other is a class that the data set does not have.
    """
    free = np.setdiff1d(split.unlabeled, split.validation)
    if not np.isin(confirmed.images, free).all():
        raise UserError(SETTING, "lists images that are not unlabeled here; the data set or its split has changed")
    found = replace(
        _renumbered(split, known, confirmed.names),
        labeled=np.union1d(split.labeled, confirmed.images),
        unlabeled=np.setdiff1d(split.unlabeled, confirmed.images),
        confirmed=confirmed.images,
    )
    if len(confirmed.given) and not 0 <= confirmed.given.min() <= confirmed.given.max() < found.classes.seen:
        raise UserError(SETTING, f"has classes that are not among the {found.classes.seen} seen classes")
    if len(found.unlabeled) < found.classes.total:
        left = f"leaves {counted(len(found.unlabeled), 'unlabeled image')} for {found.classes.total} classes"
        raise UserError(SETTING, f"{left}; label fewer pictures: only the confident ones or those you reviewed")
    truth = found.targets(labels)
    truth[confirmed.images] = confirmed.given
    return found, truth


def _renumbered(split: Split, known: int, names: tuple[str, ...]) -> Split:
    """The split with classes of these names after its seen ones, and as many novel ones as it has."""
    seen, own = split.classes.seen, {}
    hidden = [(int(label), name) for label, name in zip(split.class_order, split.class_names) if label < known]
    for label, name in hidden[seen:]:
        own[name.casefold()] = label
    meant = [own.pop(name.casefold(), None) for name in names]
    strangers = iter(range(known, known + len(names)))
    new = [next(strangers) if label is None else label for label in meant]
    rest = [(label, name) for label, name in hidden[seen:] if label not in new]
    nameless = range(max(0, split.classes.novel - len(rest)))
    first = known + sum(label is None for label in meant)
    order = [*split.class_order[:seen].tolist(), *new, *(label for label, _ in rest), *(first + i for i in nameless)]
    titles = [*split.class_names[:seen], *names, *(name for _, name in rest)]
    titles += [f"cluster {len(titles) + i}" for i in nameless]
    classes = Classes(seen + len(names), seen + len(names) + split.classes.novel)
    return replace(split, classes=classes, class_order=np.array(order, np.int64), class_names=tuple(titles))
