"""What a run will cost where none of its kind has finished here: by the recordings that come with the program.

Seconds are those of the machine that recorded; bytes follow from what a run writes: three checkpoints with weights and
momentum, and a snapshot an epoch with predictions of all unlabeled images and features of a sample.
"""

from lps import snapshots
from lps.config import Config
from lps.costs import Cost, kind
from lps.events import read_events
from lps.parameters import ConfigError
from lps.runs import Run, recorded_runs

CHECKPOINTS = 3  # two newest and the best
WEIGHT_BYTES = 8  # float32 weight and momentum
PREDICTION_BYTES, FEATURE_BYTES = 4, 2  # int16 and float16 an image; float16 a feature
SAMPLED = 1000  # images whose features a snapshot holds, at most


def recorded_costs(kinds: set[tuple]) -> list[Cost]:
    """The costs of the recordings whose `costs.kind` is one of `kinds`."""
    found = []
    for run in recorded_runs():
        try:
            config = run.config()
        except ConfigError:
            continue
        cost = _cost(run, config) if kind(config) in kinds else None
        found += [cost] if cost else []
    return found


def _cost(run: Run, config: Config) -> Cost | None:
    events = read_events(run.events)[0]
    if not events or events[-1]["kind"] != "finish":
        return None
    facts = next((event["values"] for event in reversed(events) if event["kind"] == "start"), {})
    weights, images = facts.get("parameters"), facts.get("images/unlabeled")
    if not isinstance(weights, (int, float)) or not isinstance(images, (int, float)):
        return None
    sample = min(SAMPLED, int(images)) * _features(run) * FEATURE_BYTES
    size = CHECKPOINTS * WEIGHT_BYTES * weights + config.epochs * (PREDICTION_BYTES * images + sample)
    return Cost(config, max(0.0, events[-1]["time"] - events[0]["time"]), round(size))


def _features(run: Run) -> int:
    """How many features an image has; 0 where the recording kept none."""
    epochs = snapshots.snapshot_epochs(run.snapshots)
    try:
        name = f"epoch-{epochs[-1]:04d}.npz"
        return snapshots.read_arrays(run.snapshots / name, ("features",))["features"].shape[1]
    except (ConfigError, IndexError, KeyError, OSError):
        return 0
