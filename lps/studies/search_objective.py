"""Define the objectives of a search: one number per run and epoch, and whether it uses hidden labels.

Only the oracle reads a measurement that needs the truth of unlabeled images. The others use what the trainer knows and
labels that were withheld from training (`split.validation_ratio`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lps.errors import UserError, check_choice
from lps.settings.config import Config, configure
from lps.store.desired_state import stored_number
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split

_VALIDATION_RATIO = 0.2  # default share of withheld labels if a search needs some
ORACLE_TAG = "oracle"  # of runs that were chosen by hidden labels


@dataclass(frozen=True)
class Objective:
    """An objective. title: for headings and axes. description: what it measures and ignores. hidden: needs truth."""

    name: str
    title: str
    description: str
    hidden: bool = False


OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective(
            "balanced",
            "accuracy on withheld labels x evenness",
            "Accuracy on withheld labels of seen classes, multiplied by the evenness of the predicted class sizes. The "
            "product penalizes runs whose seen classes absorb novel ones. It needs no labels of novel classes. It "
            "assumes classes of about equal size. It does not notice when images of two novel classes are mixed up.",
        ),
        Objective(
            "validation",
            "accuracy on withheld labels",
            "Accuracy on withheld labels of seen classes. It ignores novel classes: a run that discovers none can be "
            "the best.",
        ),
        Objective(
            "oracle",
            "accuracy on all (oracle: uses the hidden labels)",
            "Oracle: uses the hidden labels. Accuracy on all unlabeled images, which is unknown outside a benchmark. "
            "The result is an upper bound; do not report it.",
            hidden=True,
        ),
    )
}


def find_objective(name: str) -> Objective:
    """Return the objective called `name`; raises `UserError`."""
    check_choice("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def with_withheld_labels(config: Config, objective: Objective, is_set: bool) -> Config:
    """Return `config` with withheld labels if the objective needs some; raises `UserError` if the user set none.

    is_set: whether the user set `split.validation_ratio`, so that 0 is intended.
    """
    if objective.hidden or config.split_validation_ratio > 0:
        return config
    if is_set:
        raise UserError(
            "split.validation_ratio",
            f"0 withholds no labels, but the objective {objective.name} needs some; expected more than 0",
        )
    return configure(config.flat() | {"split.validation_ratio": _VALIDATION_RATIO})


def objective_value(objective: Objective, run: Run, epoch: int, measured: Mapping[str, object]) -> float | None:
    """Return the value of `run` after `epoch`, in [0, 1], larger is better; None if it was not measured.

    measured: the values of the `eval` event of this epoch. Raises `UserError` if the run's files are damaged.
    """
    accuracy = stored_number(measured.get("accuracy/all" if objective.hidden else "accuracy/validation"))
    if accuracy is None or objective.name != "balanced":
        return accuracy
    return accuracy * evenness(class_shares(run, epoch))


def class_shares(run: Run, epoch: int) -> np.ndarray:
    """Return the share of training images under each id, (total,): labeled ones by label, the others by prediction."""
    split, truth = read_split(run.folder)
    predicted = read_snapshot(run.snapshots, epoch).predicted
    ids = np.concatenate([truth[split.labeled], predicted.astype(np.int64)])
    return np.bincount(ids, minlength=split.classes.total) / max(1, len(ids))


def evenness(shares: np.ndarray) -> float:
    """Return exp(entropy of the shares in nats) / number of classes: in (0, 1], 1 for equal shares."""
    used = shares[shares > 0]
    return float(np.exp(-(used * np.log(used)).sum()) / len(shares))
