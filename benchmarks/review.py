"""python -m benchmarks.review RUN [RUN ...]: how much decisions about single pictures gain, in different orders.

RUN: folders of finished runs on data of known classes. A simulated user knows them: it names every cluster once after
its class in the matching of accuracy/all, and then labels one picture after another. Accuracy is the share of all
unlabeled images under the name of their class. Pictures come as on the page Review, reordered after every answer; by
least confidence of the network; or at random, twenty orders per run. The effect of the decisions on the next run is
measured by `python -m benchmarks.decisions`.

    python -m lps sweep --method lps --seeds 0,1,2,3,4 --name review --wait        # such runs, on digits
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import section
from lps.analysis import clusters, review_order
from lps.analysis.naming import Naming
from lps.analysis.review_order import ReviewSession
from lps.scores.estimates import INTERVAL, MeanEstimate, of_mean, of_pairs
from lps.store.runs import Run
from lps.store.snapshots import stored_epochs

DECISIONS = (25, 50, 100, 200)
_DRAWS = 20


def by_review(desk: ReviewSession, answer: np.ndarray) -> list[int]:
    """Rows of the desk in the order of the page; answer (m,): the cluster that the person puts each picture in."""
    moved, order = {}, []
    for _ in range(max(DECISIONS)):
        said = Naming(moved=dict(moved), confirmed=frozenset(moved))
        row = int(review_order.assess_doubts(desk, said).next(desk.around, [], 1)[0])
        moved[int(desk.around.images[row])] = int(answer[row])
        order.append(row)
    return order


def by_confidence(desk: ReviewSession, answer: np.ndarray) -> list[int]:
    return np.argsort(desk.network.confidence[desk.rows], kind="stable")[: max(DECISIONS)].tolist()


ORDERS: dict[str, Callable[[ReviewSession, np.ndarray], list[int]]] = {
    "review": by_review,
    "least confident": by_confidence,
}


def gains(run: Run) -> dict[str, np.ndarray]:
    """Accuracy in per cent before, and how many points every number of decisions adds to it, by order."""
    desk = review_order.read_review_session(run, stored_epochs(run)[-1])
    truth, predicted = desk.targets[desk.split.unlabeled], desk.network.predicted.astype(np.int64)
    ids = np.arange(max(predicted.max(), truth.max()) + 1)
    matched = clusters.match_classes(clusters.confusion_counts(predicted, truth, ids, len(ids)))
    wrong = (matched[predicted] != truth)[desk.rows]
    cluster_of = np.full(len(ids), len(ids))  # of a class that no cluster is named by, a new one
    cluster_of[matched[matched >= 0]] = ids[matched >= 0]
    answer = cluster_of[truth[desk.rows]]

    def added(order: list[int]) -> np.ndarray:
        return 100 * np.cumsum(wrong[order])[np.array(DECISIONS) - 1] / len(truth)

    found = {name: added(order(desk, answer)) for name, order in ORDERS.items()}
    draws = [np.random.default_rng(i).permutation(len(wrong))[: max(DECISIONS)] for i in range(_DRAWS)]
    found["random"] = np.mean([added(order.tolist()) for order in draws], axis=0)
    return found | {"before": np.array([100 * (matched[predicted] == truth).mean()])}


def table(found: list[dict[str, np.ndarray]]) -> list[dict]:
    """A row for every number of decisions: means over the runs with confidence intervals."""
    before = np.array([one["before"][0] for one in found])
    rows = [{"decisions": 0, "n": len(found), "accuracy": f"{before.mean():.1f}"}]
    for i, count in enumerate(DECISIONS):
        columns = {name: np.array([one[name][i] for one in found]) for name in (*ORDERS, "random")}
        row: dict = {"decisions": count, "n": len(found), "accuracy": f"{(before + columns['review']).mean():.1f}"}
        row |= {f"{name}, points": _told(of_mean(values)) for name, values in columns.items()}
        rows.append(row | {"review above random": _told(of_pairs(columns["review"], columns["random"]))})
    return rows


def _told(found: MeanEstimate) -> str:
    return f"{found.mean:+.1f} ({found.mean - found.half_width:+.1f} to {found.mean + found.half_width:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.review", description=__doc__)
    parser.add_argument("run", type=Path, nargs="+")
    runs = [Run(path) for path in parser.parse_args().run]
    for data in sorted({run.config().dataset for run in runs}):
        found = [gains(run) for run in runs if run.config().dataset == data]
        about = f"accuracy: per cent of all unlabeled images; points: what decisions add, in brackets the {INTERVAL}"
        print(section(f"Decisions about single pictures, {data}", about, table(found)))


if __name__ == "__main__":
    main()
