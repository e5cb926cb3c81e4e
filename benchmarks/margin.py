"""python -m benchmarks.margin: when the margin helps; the runs and the tables of docs/when-the-margin-helps.md.

--run starts the sweeps of the plans one after the other, in their order, and waits; existing runs are reused.
--make-pictures writes the natural pictures that some of them need. Without either: the tables of the finished runs.
"""

import argparse
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import lps.__main__
from lps.analysis import differences
from lps.analysis.run_scores import score_run
from lps.data import sources
from lps.settings import catalog
from lps.settings.recipes import LOWER_THRESHOLDS
from lps.store.events import read_history
from lps.store.run_folders import list_runs
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, snapshot_epochs

TAG = "margin"
SEEDS = "0,1,2,3,4"
GAP = 0.05  # of seen and novel accuracy, below which the novel classes have caught up
PER_CLASS = 200  # pictures, unless asked for otherwise


@dataclass(frozen=True)
class Sweep:
    """One sweep of a plan. options: of `lps sweep`; data: digits, or natural pictures of 10 or 100 classes."""

    name: str
    options: str
    data: Literal["digits", "pictures", "hundred"] = "digits"

    def words(self, pictures: Path, hundred: Path) -> list[str]:
        """The arguments of `python -m lps`. pictures, hundred: files with the natural pictures."""
        data = "--dataset digits"
        if self.data != "digits":
            path = pictures if self.data == "pictures" else hundred
            data = f"--dataset arrays --set dataset.path={shlex.quote(str(path))} --set features=stored"
        if self.data == "pictures":
            data += " --set network.image_size=128"
            if "margin_scale" not in self.options:
                data += " --set margin_scale=10"  # whatever is usual for stored features
        shared = f"--seeds {SEEDS} --set epochs=20 --set threads=1 --name {TAG}-{self.name} --wait"
        return shlex.split(f"sweep {data} {self.options} {shared}")


_EIGHT = "--set batch_size=64 --set split.num_seen=8"  # of ten natural classes: two are left to be swallowed


def _weighed(weight: float, more: str = "") -> str:
    """LPS with the margin and without it at a weight of the entropy term."""
    return f"--method lps --set entropy_weight={weight:g} --vary use_margin=true,false {more}".strip()


PLAN = (
    Sweep("pictures-quarter", _weighed(0.25, _EIGHT), data="pictures"),
    Sweep("digits-half", _weighed(0.5)),
    Sweep("pictures-others", f"--method orca,fixmatch {_EIGHT}", data="pictures"),
    Sweep("pictures-none", _weighed(0, _EIGHT), data="pictures"),
    Sweep("pictures-whole", _weighed(1, _EIGHT), data="pictures"),
    Sweep("digits-whole", _weighed(1)),
    Sweep("pictures-five-seen", _weighed(0.25, "--set batch_size=64"), data="pictures"),
    Sweep("pictures-two-seen", _weighed(0.25, "--set batch_size=64 --set split.num_seen=2"), data="pictures"),
    Sweep("pictures-half", _weighed(0.5, _EIGHT), data="pictures"),
    Sweep("pictures-labels", _weighed(0.25, f"{_EIGHT} --set split.labeled_ratio=0.1"), data="pictures"),
    Sweep("digits-quarter", _weighed(0.25)),
    Sweep(
        "pictures-scale",
        f"--method lps --set entropy_weight=0.25 --vary margin_scale=5,20,40 {_EIGHT}",
        data="pictures",
    ),
    Sweep("digits-others", "--method orca,fixmatch"),
    Sweep("digits-none", _weighed(0)),
    Sweep("digits-scale", "--method lps --set entropy_weight=0.5 --vary margin_scale=5,20,40"),
)
_LOWER = " ".join(f"--set {key}={value:g}" for key, value in LOWER_THRESHOLDS.items())
HUNDRED = tuple(  # the plan for 100 classes, 50 of which are seen
    Sweep(
        f"hundred-{weight:g}-{name}",
        f"--method lps --set split.num_seen=50 --set entropy_weight={weight:g} {_LOWER} {options}",
        data="hundred",
    )
    for name, options, weights in (
        ("pair", "--set margin_scale=10 --vary use_margin=true,false", (2, 0.5)),
        ("scale", "--vary margin_scale=2,20", (2,)),  # 2 is the default for stored features
        ("pair", "--set margin_scale=10 --vary use_margin=true,false", (0, 1)),
        ("scale", "--vary margin_scale=2,20", (0.5, 0, 1)),
    )
    for weight in weights
)


# ---------------------------------------------------------------------------------------------------- one run


@dataclass(frozen=True)
class Outcome:
    """What a run came to at its last epoch; fractions, but for `kl` and `caught_up`.

    strict: novel pictures that are under a novel name, the matched one. swallowed: novel pictures predicted as seen.
    caught_up: the first epoch whose gap is below `GAP`, infinite where there is none.
    """

    settings: Mapping[str, object]
    classes: int
    seen: float
    novel: float
    all: float
    strict: float
    swallowed: float
    kl: float
    caught_up: float


def outcome(run: Run) -> Outcome:
    """Raises `UserError` where the run cannot be scored."""
    (split, targets), epoch = read_split(run.folder), snapshot_epochs(run.snapshots)[-1]
    truth, predicted = targets[split.unlabeled], read_snapshot(run.snapshots, epoch).predicted
    usual, strict = (score_run(run, protocol).scores for protocol in ("orca", "strict"))
    swallowed = float((predicted[truth >= split.classes.seen] < split.classes.seen).mean())
    past = list(read_history(run.events))
    gaps = {event["epoch"]: event["values"]["accuracy/gap"] for event in past if event["kind"] == "eval"}
    kl = [event["values"].get("kl", math.nan) for event in past if event["kind"] == "train"][-1]
    caught_up = min((epoch for epoch, gap in gaps.items() if gap < GAP), default=math.inf)
    accuracies = usual.seen, usual.novel, usual.all, strict.novel
    return Outcome(run.config().flat(), split.classes.total, *accuracies, swallowed, kl, caught_up)


def outcomes(root: Path) -> list[Outcome]:
    """Of every finished run of the plans."""
    tags = {f"sweep:{TAG}-{sweep.name}" for sweep in (*PLAN, *HUNDRED)}
    return [
        outcome(run) for run in list_runs(root) if tags & set(run.meta()["tags"]) and run.state().name == "finished"
    ]


# ---------------------------------------------------------------------------------------------------- tables

NAMES = {"seen": "seen", "novel": "novel", "all": "all", "strict": "novel, strictly", "swallowed": "swallowed"}
_HEADS = (*NAMES.values(), "KL", "caught up")


def tables(found: Sequence[Outcome]) -> str:
    """Every setting with the margin and without it, and the paired differences; Markdown.

    Differences of novel accuracy that are distinguishable after Holm's correction within their table are bold.
    """
    parts = []
    for title, rows in _by_data(found).items():
        levels = {name: _level(group) for name, group in rows.items()}
        parts += [f"### {title}", _table(("", *_HEADS, "n"), [(name, *cells) for name, cells in levels.items()])]
        gains = [(name, *cells) for name, cells in _gains(rows).items()]
        parts += ["With the margin minus without it, seed by seed:", _table(("", *NAMES.values(), "pairs"), gains)]
    return "\n\n".join(parts) + "\n"


def _by_data(found: Sequence[Outcome]) -> dict[str, dict[str, list[Outcome]]]:
    """Title of a table -> name of a row -> its runs, by seed."""
    groups: dict[str, dict[str, list[Outcome]]] = {}
    for one in sorted(found, key=lambda one: (_title(one), _order(one.settings), one.settings["seed"])):
        groups.setdefault(_title(one), {}).setdefault(_name(one.settings), []).append(one)
    return groups


def _title(one: Outcome) -> str:
    settings = one.settings
    seen, labeled = settings["split.num_seen"] or 5, 100 * settings["split.labeled_ratio"]
    data = "Digits" if settings["dataset"] == "digits" else "Natural pictures"
    return f"{data}, {seen} of {one.classes} classes seen, {labeled:g} % of their images labeled"


def _order(settings: Mapping[str, object]) -> tuple:
    rank = ("lps", "orca", "fixmatch").index(settings["method"])
    return rank, -settings.get("entropy_weight", 0), not settings.get("use_margin"), settings.get("margin_scale", 0)


def _name(settings: Mapping[str, object]) -> str:
    if settings["method"] != "lps":
        return catalog.method_info(settings["method"]).title
    margin = f"margin, C = {settings['margin_scale']:g}" if settings["use_margin"] else "no margin"
    return f"entropy weight {settings['entropy_weight']:g}, {margin}"


def _pairs(rows: Mapping[str, list[Outcome]]) -> Iterator[tuple[str, list[Outcome], list[Outcome]]]:
    """Every row with the margin, and the one that differs in nothing but that it has none."""
    for name, group in rows.items():
        without = rows.get(f"{name.partition(', ')[0]}, no margin")
        if without and without is not group:
            yield name, group, without


def _level(group: Sequence[Outcome]) -> list[str]:
    cells = [_spread([100 * getattr(one, column) for one in group], 1) for column in NAMES]
    caught = [one.caught_up for one in group if math.isfinite(one.caught_up)]
    said = f"{len(caught)} of {len(group)}" + (f", epoch {np.median(caught):g}" if caught else "")
    return [*cells, _spread([one.kl for one in group], 2), said, str(len(group))]


def _gains(rows: Mapping[str, list[Outcome]]) -> dict[str, list[str]]:
    """Name of a row with the margin -> its differences from the row without, and the number of pairs."""
    found = {name: _differences(group, without) for name, group, without in _pairs(rows)}
    corrected = differences.correct_for_multiplicity({name: gain["novel"] for name, gain in found.items()})
    texts = {}
    for name, gain in found.items():
        cells = {column: differences.format_difference(one) for column, one in gain.items()}
        if corrected[name].has_interval and corrected[name].is_distinguishable:
            cells["novel"] = f"**{cells['novel']}**"
        texts[name] = [*cells.values(), str(gain["novel"].pairs)]
    return texts


def _differences(group: Sequence[Outcome], without: Sequence[Outcome]) -> dict[str, differences.Difference]:
    """By column, paired by seed."""
    mine, theirs = ({one.settings["seed"]: one for one in side} for side in (group, without))
    return {
        column: differences.compare_samples(
            *({seed: getattr(one, column) for seed, one in side.items()} for side in (mine, theirs))
        )
        for column in NAMES
    }


def _spread(values: Sequence[float], digits: int) -> str:
    if np.isnan(values).any():
        return "-"
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean} ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else mean


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# ---------------------------------------------------------------------------------------------------- the program


def make_pictures(
    path: Path,
    per_class: int = PER_CLASS,
    dataset: str = "cifar10",
    source: str | None = None,
    part: Literal["training", "test"] = "test",
) -> None:
    """Write the first pictures of every class of a part of a data set, which has to be here. source: its dataset.path.

    Training pictures come before test pictures in a data set.
    """
    images = sources.load(dataset, source)
    first_test = len(images.labels) - images.num_test
    those = np.arange(first_test) if part == "training" else np.arange(first_test, len(images.labels))
    ids = np.sort(np.concatenate([those[images.labels[those] == k][:per_class] for k in range(images.num_classes)]))
    np.savez(path, x_train=images.pixels[ids], y_train=images.labels[ids], class_names=np.array(images.class_names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="start what is missing of the plans, and wait")
    parser.add_argument("--commands", action="store_true", help="only say the commands of the plans")
    parser.add_argument("--classes", type=int, choices=[10, 100], help="only the plan for so many classes")
    parser.add_argument("--pictures", type=Path, default=Path("cifar10-2000.npz"), help="the natural pictures")
    parser.add_argument("--hundred", type=Path, default=Path("photographs100.npz"), help="those of 100 classes")
    parser.add_argument("--make-pictures", action="store_true", help="write them")
    parser.add_argument("--dataset", default="cifar10", help="that has the pictures")
    parser.add_argument("--part", choices=["training", "test"], default="test", help="of the data set")
    parser.add_argument("--dataset-path", help="its folder or file, if it is not in the cache folder")
    parser.add_argument("--each", type=int, default=PER_CLASS, help="so many of every class")
    parser.add_argument(
        "--runs", type=Path, default=Path(os.environ.get("LPS_RUNS") or "runs"), help="folder of the runs"
    )
    options = parser.parse_args()
    if options.make_pictures:
        make_pictures(options.pictures, options.each, options.dataset, options.dataset_path, options.part)
    plans = {10: PLAN, 100: HUNDRED, None: (*PLAN, *HUNDRED)}
    for sweep in plans[options.classes] if options.run or options.commands else ():
        words = sweep.words(options.pictures, options.hundred)
        print(shlex.join(["python", "-m", "lps", *words]), flush=True)
        if options.run and lps.__main__.main([*words, "--runs", str(options.runs)]):
            # As where a method diverges; the next one goes on
            print(f"{sweep.name}: not all runs finished", flush=True)
    if not (options.commands or options.make_pictures):
        print(tables(outcomes(options.runs)), end="")


if __name__ == "__main__":
    main()
