"""python -m benchmarks.priors: where the prior matters; the runs and the tables of docs/when-the-prior-matters.md.

--run trains missing runs, cell by cell in the order of the plan, in this process. --cells: only these cells. --pictures
FILE.npz: the natural pictures of `python -m benchmarks.margin --make-pictures`; without it only digits. --scores
FILE.csv: the scores of runs, one row each. Its rows count as finished runs, and scores of new runs are added. Without
--run: the tables of all finished runs.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.in_process import finished_runs, key_of, train_here
from benchmarks.report import table
from lps.analysis import differences
from lps.analysis.differences import Difference
from lps.files.atomic import PUBLIC, write_whole
from lps.settings.config import Config, configure
from lps.store.events import read_history
from lps.store.runs import Run

SEEDS = (20, 21, 22, 23, 24)
PRIORS = ("uniform", "labeled", "estimated", "confident", "oracle")
METHODS: dict[str, dict[str, object]] = {
    "LPS": {"method": "lps"},
    "LPS, no margin": {"method": "lps", "use_margin": False},
    "ORCA": {"method": "orca"},
    "SimGCD": {"method": "simgcd"},
}
SCORES = ("accuracy/all", "accuracy/seen", "accuracy/novel", "accuracy/balanced", "prior/error")
HEADS = ("all", "seen", "novel", "balanced", "prior error")


@dataclass(frozen=True)
class Cell:
    """One way to make the classes unequal, which every method trains on with every prior. order: which are large."""

    data: str
    imbalance: float
    order: str = "permuted"

    @property
    def name(self) -> str:
        return f"{self.data}-{self.imbalance:g}" + (f"-{self.order}" if self.imbalance > 1 else "")

    def config(self, method: str, prior: str, seed: int, pictures: Path | None) -> Config:
        """What this cell asks for; a seed draws the seen classes, the order of the sizes, the labels and the start."""
        settings = {
            **{"seed": seed, "split.seed": seed, "split.seen_classes": "random", "split.rule": "stratified"},
            **{"split.imbalance": float(self.imbalance), "split.imbalance_order": self.order},
            **{"prior": prior, "threads": 1},
        }
        if self.data == "digits":
            settings |= {"dataset": "digits", "epochs": 20, "prior.every": 5}
        else:
            settings |= {"dataset": "arrays", "dataset.path": str(pictures), "features": "stored"}
            settings |= {"network.image_size": 128}
        return configure(settings | METHODS[method])


PLAN = (
    Cell("digits", 10),
    Cell("digits", 50),
    Cell("digits", 1),
    Cell("pictures", 10),
    Cell("digits", 10, "seen"),
    Cell("digits", 10, "novel"),
    Cell("digits", 50, "seen"),
    Cell("digits", 50, "novel"),
    Cell("pictures", 50),
    Cell("pictures", 1),
    Cell("pictures", 10, "seen"),
    Cell("pictures", 10, "novel"),
    Cell("pictures", 50, "seen"),
    Cell("pictures", 50, "novel"),
)

Scores = dict[str, float]  # fractions by the name of a measurement, NaN where there is none
ScoresByRun = dict[tuple[str, str, str, int], Scores]  # by name of a cell, method, prior, seed
_NAME = ("cell", "method", "prior", "seed")


def finished(root: Path) -> dict[str, Scores]:
    """The last scores of every finished run of `root`, by its settings."""
    return {key: last_scores(run) for key, run in finished_runs(root).items()}


def last_scores(run: Run) -> Scores:
    """The scores of the last epoch."""
    last = [event["values"] for event in read_history(run.events) if event["kind"] == "eval"][-1]
    return {name: last.get(name, np.nan) for name in SCORES}


def read_scores(path: Path) -> ScoresByRun:
    """Read the scores of runs from a file of `write_scores`."""
    rows = pd.read_csv(path)
    names = rows[list(_NAME)].itertuples(index=False, name=None)
    return dict(zip(names, rows[list(SCORES)].to_dict("records")))


def write_scores(path: Path, scores: ScoresByRun) -> None:
    """Write one row for each run, in the order of the plan."""
    order = [name for name, _ in planned(PLAN, path) if name in scores]
    rows = [dict(zip(_NAME, name)) | {s: scores[name][s] for s in SCORES} for name in order]
    text = pd.DataFrame(rows, columns=[*_NAME, *SCORES]).to_csv(index=False, float_format="%.6g")
    write_whole(path, text.encode(), mode=PUBLIC)


def planned(cells: Sequence[Cell], pictures: Path | None) -> Iterator[tuple[tuple[str, str, str, int], Config]]:
    """Every run of these cells in order, with its name; cells of pictures only where there are pictures."""
    for cell in cells:
        if cell.data == "digits" or pictures:
            for method in METHODS:
                for seed in SEEDS:
                    for prior in PRIORS:
                        name = (cell.name, method, prior, seed)
                        yield name, cell.config(method, prior, seed, pictures)


# ---------------------------------------------------------------------------------------------------- tables


def tables(scores: ScoresByRun) -> str:
    """The means over the complete unequal cells of a data set, then the gains in every cell; Markdown.

    A cell is complete if every method has run with every prior and seed. A method with missing runs is not shown.
    """
    parts = []
    for data in dict.fromkeys(cell.data for cell in PLAN):
        done = {cell: methods for cell in PLAN if cell.data == data and (methods := _complete(scores, cell))}
        names = [cell.name for cell, methods in done.items() if cell.imbalance > 1 and len(methods) == len(METHODS)]
        if len(names) > 1:
            heading = f"### {data.capitalize()}: mean over {len(names)} unequal cells ({', '.join(names)})"
            parts += [heading, table(_rows(scores, names, list(METHODS)))]
        for head in ("all", "novel") if done else ():
            rows = [row for cell, methods in done.items() for row in _cell_rows(scores, cell.name, methods, head)]
            parts += [f"### {data.capitalize()}: gain in {head} over `uniform`, cell by cell", table(rows)]
    return "\n\n".join(parts) + "\n"


def _complete(scores: ScoresByRun, cell: Cell) -> list[str]:
    """The methods that have run with every prior and seed."""
    return [m for m in METHODS if all((cell.name, m, p, s) in scores for p in PRIORS for s in SEEDS)]


def _by_seed(scores: ScoresByRun, cells: Sequence[str], method: str, prior: str, score: str) -> dict[int, float]:
    """The mean over cells, seed by seed."""
    return {seed: float(np.mean([scores[cell, method, prior, seed][score] for cell in cells])) for seed in SEEDS}


def _gains(
    scores: ScoresByRun, cells: Sequence[str], methods: Sequence[str], score: str
) -> dict[tuple[str, str], Difference]:
    """The gain over `uniform` of every method and prior, corrected together (Holm)."""
    gains: dict[tuple[str, str], Difference] = {}
    for method in methods:
        for prior in PRIORS[1:]:
            pair = (_by_seed(scores, cells, method, which, score) for which in (prior, PRIORS[0]))
            gains[method, prior] = differences.compare_samples(*pair)
    return differences.correct_for_multiplicity(gains)


def _cell_rows(scores: ScoresByRun, cell: str, methods: Sequence[str], head: str) -> list[dict]:
    """A row a method: its score with `uniform`, and the gain of every other prior."""
    score = f"accuracy/{head}"
    gains = _gains(scores, [cell], methods, score)
    return [
        {"cell": cell, "method": method}
        | {"uniform": _spread(list(_by_seed(scores, [cell], method, PRIORS[0], score).values()))}
        | {prior: _gain(gains[method, prior]) for prior in PRIORS[1:]}
        for method in methods
    ]


def _rows(scores: ScoresByRun, cells: Sequence[str], methods: Sequence[str]) -> list[dict]:
    """A row a method and prior: means, and the gain over `uniform`."""
    gains = {head: _gains(scores, cells, methods, f"accuracy/{head}") for head in ("all", "novel", "balanced")}
    rows = []
    for method in methods:
        for prior in PRIORS:
            values = {
                head: _spread(list(_by_seed(scores, cells, method, prior, name).values()))
                for head, name in zip(HEADS, SCORES)
            }
            row = {"method": method, "prior": prior} | values
            rows.append(row | {f"gain, {head}": _gain(of_head.get((method, prior))) for head, of_head in gains.items()})
    return rows


def _gain(difference: Difference | None) -> str:
    if difference is None:
        return ""
    text = differences.format_difference(difference).replace("[", r"\[").replace("]", r"\]")
    return f"**{text}**" if difference.has_interval and difference.is_distinguishable else text


def _spread(values: Sequence[float]) -> str:
    if np.isnan(values).any():
        return "-"
    return f"{100 * np.mean(values):.1f} ± {100 * np.std(values, ddof=1):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.priors", description=__doc__)
    parser.add_argument("--run", action="store_true", help="train what is missing")
    parser.add_argument("--cells", nargs="+", choices=[cell.name for cell in PLAN], help="without it all")
    parser.add_argument("--pictures", type=Path, help="the natural pictures, an .npz file")
    parser.add_argument("--scores", type=Path, help="a .csv file of scores, read and completed")
    parser.add_argument("--runs", type=Path, default=Path(os.environ.get("LPS_RUNS") or "runs"))
    asked = parser.parse_args()
    cells = [cell for cell in PLAN if not asked.cells or cell.name in asked.cells]
    finished_scores = finished(asked.runs)
    scores = read_scores(asked.scores) if asked.scores and asked.scores.exists() else {}
    for name, config in planned(cells, asked.pictures and asked.pictures.absolute()):
        key = key_of(config)
        if asked.run and key not in finished_scores and name not in scores:
            print(*name, flush=True)
            finished_scores[key] = last_scores(train_here(asked.runs, config, f"{name[0]}, {name[1]}, {name[2]}"))
        if key in finished_scores:
            scores[name] = finished_scores[key]
    if asked.scores:
        write_scores(asked.scores, scores)
    print(tables(scores), end="")


if __name__ == "__main__":
    main()
