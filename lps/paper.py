"""What the LPS paper reports, which run it may be compared with, and which of its numbers do not add up.

The numbers stand in `paper_tables.csv`: B. Ye et al., IJCAI 2024, every table, accuracies and NMI in percent, means of
three runs without standard deviations.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lps.config import Config

DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet100": "ImageNet-100"}
MATCHED = ("DTC", "RankStats", "SimCLR", "GCD")  # the paper matches their seen classes
SLACK = 0.3  # points that rounding and random split sizes may explain


@dataclass(frozen=True)
class Row:
    """One line of a table; numbers in percent, None where the paper has none."""

    table: str
    dataset: str
    labeled_ratio: float
    method: str
    parameter: str
    value: str
    seen: float | None
    novel: float | None
    all: float | None
    nmi: float | None


@cache
def rows() -> tuple[Row, ...]:
    """Every line of every table of the paper."""
    with open(Path(__file__).with_name("paper_tables.csv"), newline="", encoding="utf-8") as file:
        return tuple(_row(line) for line in csv.DictReader(file))


def main_row(dataset: str, labeled_ratio: float, method: str) -> Row | None:
    """The line of Table 1; dataset and method by the paper's names (case does not matter)."""
    for row in rows():
        same = (row.table, row.dataset.lower(), row.labeled_ratio) == ("table1_main", dataset.lower(), labeled_ratio)
        if same and row.method.lower() == method.lower():
            return row
    return None


def counterpart(
    config: Config, protocol: str = "orca", select: str = "last", seen_is_matched: bool | None = None
) -> tuple[Row | None, list[str]]:
    """The line that a run of `config`, scored in this way, reproduces, else None and every reason why there is none.

    seen_is_matched: None where it is as in the paper. Each reason completes "not comparable with the paper: ...".
    """
    dataset = DATASETS.get(config.dataset)
    reasons = [] if dataset else [f"it has no {config.dataset}"]
    reasons += [words for fits, words in _requirements(config, dataset) if not fits]
    reasons += [words for fits, words in _scoring(config, protocol, select, seen_is_matched) if not fits]
    row, reason = _line_of(config, dataset or "")
    reasons += [reason] if reason else []
    return (None, reasons) if reasons else (row, [])


def _requirements(config: Config, dataset: str | None) -> list[tuple[bool, str]]:
    """(whether it is as in the paper, what it is instead) of every setting that a number depends on."""
    halves = (None, {"CIFAR-10": 5}.get(dataset, 50))
    return [
        (config.split_labeled_ratio in (0.1, 0.5), f"{100 * config.split_labeled_ratio:g} % labels"),
        (config.split_num_seen in halves, f"{config.split_num_seen} seen classes"),
        (config.split_seen_classes == "first", f"seen classes {config.split_seen_classes}"),
        (config.network_name in NETWORKS, f"network {config.network_name}"),
        (config.pretrain_epochs > 0, "no SimCLR start"),
        (config.network_freeze_until in ("layer3", "none"), f"frozen until {config.network_freeze_until}"),
        (config.epochs == (90 if dataset == "ImageNet-100" else 200), f"{config.epochs} epochs"),
        (config.batch_size == 512, f"batch size {config.batch_size}"),
    ]


def _scoring(config: Config, protocol: str, select: str, seen_is_matched: bool | None) -> list[tuple[bool, str]]:
    """The same of the way in which a run was scored."""
    matches = config.method in (name.lower() for name in MATCHED)
    kinds = ("matched", "raw") if seen_is_matched else ("raw", "matched")
    return [
        (protocol == "orca", f"protocol {protocol}"),
        (select == "last", "epoch chosen by an oracle"),
        (seen_is_matched in (None, matches), f"seen accuracy {kinds[0]}, not {kinds[1]}"),
    ]


def _line_of(config: Config, dataset: str) -> tuple[Row | None, str]:
    """The line of the paper for the method, its one changed setting and whether all of the network is trained."""
    info = catalog.method_info(config.method)
    flat = dict(config.hyperparameters)
    changed = {key: flat[key] for key, about in info.parameters.items() if flat.get(key) != about.default}
    words = ", ".join(f"{key}={str(value).lower()}" for key, value in changed.items())
    if config.network_freeze_until == "none":
        tables, parameter, value, method = FINE_TUNED, "", "", info.title
        words = ", ".join(filter(None, ["nothing frozen", words]))
    elif changed:
        tables, parameter, value, method = _variant(*next(iter(changed.items())))
    else:
        return main_row(dataset, config.split_labeled_ratio, config.method), f"its Table 1 has no {info.title}"
    return None, words


def _row(line: dict[str, str]) -> Row:
    numbers = {key: float(line[key]) if line[key] else None for key in ("seen", "novel", "all", "nmi")}
    return Row(
        line["table"],
        line["dataset"],
        float(line["labeled_ratio"]),
        line["method_or_setting"],
        line["parameter"],
        line["value"],
        **numbers,
    )
