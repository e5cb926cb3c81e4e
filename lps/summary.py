"""What a run amounts to so far: last and best values, epochs done. Standard library only."""

from lps.events import read_events, rewind
from lps.runs import Run

CRITERIA = ("accuracy/validation", "accuracy/all")  # the second looks at unlabeled truth: an oracle


def criterion(values: dict) -> str:
    """The measurement by which an epoch is the best: on withheld labels where there are some, else the oracle's."""
    return next((name for name in CRITERIA if isinstance(values.get(name), (int, float))), CRITERIA[-1])


def summarize(run: Run) -> dict:
    """{"last": {name: value}, "best": {name: value, "epoch": n}, "best_by": name, "epochs": n} of `run`'s events.

    last: the newest value of every name. best: the evaluation with the highest `best_by`, see `criterion`.
    """
    events = rewind(read_events(run.events)[0])
    last: dict[str, object] = {}
    for event in events:
        last |= event["values"]
    evaluations = [event for event in events if event["kind"] == "eval"]
    by = criterion(evaluations[-1]["values"] if evaluations else {})
    scored = [event for event in evaluations if isinstance(event["values"].get(by), (int, float))]
    best = max(scored, key=lambda event: event["values"][by], default=None)
    return {
        "last": last,
        "best": best["values"] | {"epoch": best["epoch"]} if best else {},
        "best_by": by if best else "",
        "epochs": max((event["epoch"] for event in evaluations), default=0),
    }
