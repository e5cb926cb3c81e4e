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


def counterpart(config: Config) -> tuple[Row | None, list[str]]:
    """The line of Table 1 that a run of `config` reproduces, else None and every reason why it does not."""
    reasons = []
    dataset = DATASETS.get(config.dataset)
    if dataset is None:
        reasons.append(f"the paper has no {config.dataset}")
    expected = {
        "labeled_ratio": (config.split_labeled_ratio in (0.1, 0.5), f"labeled ratio {config.split_labeled_ratio:g}"),
        "num_seen": (config.split_num_seen is None, f"{config.split_num_seen} seen classes"),
        "seen_classes": (config.split_seen_classes == "first", f"{config.split_seen_classes} classes seen"),
        "network": (config.network_name in ("cifar_resnet18", "resnet50"), f"network {config.network_name}"),
        "freeze": (config.network_freeze_until == "layer3", f"frozen until {config.network_freeze_until}"),
        "epochs": (config.epochs == (90 if dataset == "ImageNet-100" else 200), f"{config.epochs} epochs"),
        "batch_size": (config.batch_size == 512, f"batch size {config.batch_size}"),
    }
    reasons += [words for fits, words in expected.values() if not fits]
    row = main_row(dataset or "", config.split_labeled_ratio, config.method)
    if not reasons and row is None:
        reasons.append(f"the paper's Table 1 has no {config.method}")
    return (None, reasons) if reasons else (row, [])


def doubts(row: Row) -> list[str]:
    """What speaks against a line of Table 1, from arithmetic alone."""
    found = []
    share = (1 - row.labeled_ratio) / (2 - row.labeled_ratio)  # of seen images among the unlabeled, half the classes seen
    bound = share * row.seen + (1 - share) * row.novel
    if row.method in MATCHED and row.all > bound + SLACK:
        found.append(f"All is {row.all - bound:.1f} points above the weighted mean, the most that matched parts allow")
    twin = main_row(row.dataset, 0.1, row.method) if row.labeled_ratio == 0.5 else None
    if twin and (twin.seen, twin.novel, twin.all) == (row.seen, row.novel, row.all):
        found.append("the same three numbers stand at 10 % labels")
    return found


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
