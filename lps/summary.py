"""What a run amounts to so far: last and best values, epochs done. Standard library only."""

from lps.events import read_events, rewind
from lps.runs import Run

BEST = "accuracy/all"


def summarize(run: Run) -> dict:
    """{"last": {name: value}, "best": {name: value, "epoch": n}, "epochs": n} from the events of `run`.

    last: the newest value of every name. best: the evaluation with the highest accuracy/all, an oracle choice.
    """
    events = rewind(read_events(run.events)[0])
    last: dict[str, object] = {}
    for event in events:
        last |= event["values"]
    evaluations = [event for event in events if event["kind"] == "eval"]
    scored = [event for event in evaluations if isinstance(event["values"].get(BEST), (int, float))]
    best = max(scored, key=lambda event: event["values"][BEST], default=None)
    return {
        "last": last,
        "best": best["values"] | {"epoch": best["epoch"]} if best else {},
        "epochs": max((event["epoch"] for event in evaluations), default=0),
    }
