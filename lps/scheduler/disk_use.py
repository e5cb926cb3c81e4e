"""Estimate how many bytes runs will write: the median of comparable runs (lps.scheduler.costs)."""

from collections.abc import Iterable
from functools import cache
from statistics import median

from lps.errors import UserError
from lps.files.disk import folder_bytes
from lps.scheduler.costs import Cost
from lps.store import snapshots
from lps.store.desired_state import stored_number
from lps.store.events import read_head
from lps.store.runs import Run

_CHECKPOINTS, _WEIGHT_BYTES = 3, 8  # the two newest and the best; a float32 weight with its momentum
_IMAGE_BYTES, _FEATURE_BYTES, _SAMPLED = 4, 2, 1000  # a snapshot's prediction; a feature of at most so many images


def expected_bytes(costs: Iterable[Cost]) -> int:
    """Return the total bytes of the folders of runs with these costs; speeds of running runs count as 0."""
    written, total = cache(_written), 0
    for cost in costs:
        bytes_of_runs = (written(speed.run, speed.config.epochs) for speed in cost.speeds)
        total += round(median(other_bytes + cost.epochs * epoch_bytes for epoch_bytes, other_bytes in bytes_of_runs))
    return total


def _written(run: Run | None, epochs: int) -> tuple[float, float]:
    """Return the bytes per epoch, and of everything else. For a recording, estimate them from the file formats."""
    if run is None:
        return 0.0, 0.0
    if not run.is_recorded:
        of_epochs = folder_bytes(run.snapshots)
        return of_epochs / epochs, folder_bytes(run.folder) - of_epochs
    starts = [event["values"] for event in read_head(run.events) if event["kind"] == "start"]
    weights, images = (stored_number(dict(*starts[-1:]).get(name), 0.0) for name in ("parameters", "images/unlabeled"))
    features = min(_SAMPLED, int(images)) * _width(run) * _FEATURE_BYTES
    return _IMAGE_BYTES * images + features, _CHECKPOINTS * _WEIGHT_BYTES * weights


def _width(recording: Run) -> int:
    """Return the number of features per image; 0 if the recording has none."""
    epochs = snapshots.snapshot_epochs(recording.snapshots)
    try:
        name = f"epoch-{epochs[-1]:04d}.npz"
        return snapshots.read_arrays(recording.snapshots / name, ("features",))["features"].shape[1]
    except (UserError, IndexError, KeyError, OSError):
        return 0
