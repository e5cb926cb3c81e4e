"""The LPS paper's results, which run is comparable with which of them, and which numbers are inconsistent.

The numbers are in `paper_tables.csv`: B. Ye et al., IJCAI 2024, every table, accuracies and NMI in percent, means of
three runs without standard deviations.
"""

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from lps.settings import catalog
from lps.settings.config import Config, configure, protocol_parameters
from lps.wording import counted

DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet100": "ImageNet-100"}
_MATCHED = ("DTC", "RankStats", "SimCLR", "GCD")  # the paper matches the seen classes of these
_EXPLAINED_SETTINGS = {  # settings whose difference has its own text
    "split.labeled_ratio", "split.validation_ratio", "split.num_novel", "split.num_seen", "split.seen_classes",
    "network.name", "network.start", "network.freeze_until", "epochs", "batch_size", "pretrain.epochs",
}  # fmt: skip
_OWN = {  # settings of place and ownership, or without a published value
    "dataset", "method", "seed", "device", "threads", "processes", "dataset.path",
    "network.checkpoint", "pretrain.batch_size", "pretrain.optimizer", "pretrain.lr", "pretrain.weight_decay",
    "pretrain.warmup_steps", "pretrain.temperature", "pretrain.projector_width", "pretrain.projector_outputs",
    "pretrain.seed", "snapshot.images",
}  # fmt: skip
_FINE_TUNED = ("table3_finetune_backbone", "supp_finetune_backbone_10")
_ABLATIONS = {
    ("use_margin", False): "w/o L_AM",
    ("margin_scale", 0.0): "w/o L_AM",
    ("pseudo_label_weight", 0.0): "w/o L_PC",
    ("unsupervised_weight", 0.0): "w/o L_UC",
    ("entropy_weight", 0.0): "w/o R_Entropy",
}
SWEEPS = {
    "margin_scale": "C",
    "temperature": "tau",
    "threshold_novel_end": "lambda_novel_final",
    "pseudo_label_weight": "eta1",
    "unsupervised_weight": "eta2",
}
_SLACK = 0.3  # points that rounding and random split sizes may explain


@dataclass(frozen=True)
class Row:
    """One line of a table; numbers in percent, None if the paper has none."""

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
def paper_rows() -> tuple[Row, ...]:
    """Return every line of every table of the paper."""
    with open(Path(__file__).with_name("paper_tables.csv"), newline="", encoding="utf-8") as file:
        return tuple(_row(line) for line in csv.DictReader(file))


def main_row(dataset: str, labeled_ratio: float, method: str) -> Row | None:
    """Return the line of Table 1; dataset and method by the paper's names (case does not matter)."""
    wanted = ("table1_main", dataset.lower(), labeled_ratio, method.lower())
    for row in paper_rows():
        if (row.table, row.dataset.lower(), row.labeled_ratio, row.method.lower()) == wanted:
            return row
    return None


def matching_row(
    config: Config,
    protocol: str = "orca",
    select: str = "last",
    seen_is_matched: bool | None = None,
    images: str = "unlabeled",
) -> tuple[Row | None, list[str]]:
    """Return the line that a run of `config`, scored in this way, reproduces, or None with every reason against one.

    seen_is_matched: None if it is as in the paper. Each reason completes "not comparable with the paper: ...".
    """
    dataset = DATASETS.get(config.dataset)
    reasons = [] if dataset else [f"it has no results on {config.dataset}"]
    reasons += [reason for is_met, reason in _requirements(config, dataset) if not is_met]
    reasons += [reason for is_met, reason in _scoring(config, protocol, select, seen_is_matched, images) if not is_met]
    row, reason = _line_of(config, dataset) if dataset else (None, "")
    reasons += [reason] if reason else []
    return (None, reasons) if reasons else (row, [])


def _requirements(config: Config, dataset: str | None) -> list[tuple[bool, str]]:
    """Return (whether it is as in the paper, its value otherwise) for every setting that affects a number."""
    halves = (None, {"CIFAR-10": 5}.get(dataset, 50))
    defaults = configure({"dataset": config.dataset, "method": config.method}).flat() if dataset else {}
    defaults = {key: value for key, value in defaults.items() if key in protocol_parameters()}
    flat = config.flat()
    return [
        (config.split_labeled_ratio in (0.1, 0.5), f"{100 * config.split_labeled_ratio:g} % labels"),
        (not config.split_validation_ratio, f"{100 * config.split_validation_ratio:g} % of the labels withheld"),
        (config.split_num_novel is None, f"{config.split_num_novel} novel classes looked for"),
        (config.split_num_seen in halves, f"{config.split_num_seen} seen classes"),
        (config.split_seen_classes == "first", f"seen classes {config.split_seen_classes}"),
        (config.network_name == defaults.get("network.name"), f"network {config.network_name}"),
        (config.network_start == "simclr" and config.pretrain_epochs > 0, "no SimCLR start"),
        (not config.rests_on_labels, "start weights trained with ImageNet's labels"),
        (config.network_freeze_until in ("layer3", "none"), f"frozen until {config.network_freeze_until}"),
        (config.epochs == defaults.get("epochs"), counted(config.epochs, "epoch")),
        (config.batch_size == defaults.get("batch_size"), f"batch size {config.batch_size}"),
        (config.pretrain_epochs >= defaults.get("pretrain.epochs", 0), counted(config.pretrain_epochs, "SimCLR epoch")),
        *(
            (flat[key] == defaults[key], f"{key}={flat[key]}")
            for key in defaults
            if key not in _EXPLAINED_SETTINGS | _OWN
        ),
    ]


def _scoring(
    config: Config, protocol: str, select: str, seen_is_matched: bool | None, images: str
) -> list[tuple[bool, str]]:
    """Return the same as `_requirements` for the way in which a run was scored."""
    matches = config.method in (name.lower() for name in _MATCHED)
    kinds = ("matched", "raw") if seen_is_matched else ("raw", "matched")
    return [
        (protocol == "orca", f"protocol {protocol}"),
        (select == "last", f"epoch chosen by {'an oracle' if select == 'oracle' else select}"),
        (images == "unlabeled", f"{images} images"),
        (seen_is_matched in (None, matches), f"seen accuracy {kinds[0]}, not {kinds[1]}"),
    ]


def find_inconsistencies(row: Row) -> list[str]:
    """Return the inconsistencies of a line of Table 1, from arithmetic alone."""
    if row.table != "table1_main":
        return []
    doubts = []
    share = (1 - row.labeled_ratio) / (2 - row.labeled_ratio)  # of seen images among the unlabeled, half of all seen
    weighted_mean = share * row.seen + (1 - share) * row.novel
    if row.method in _MATCHED and row.all > weighted_mean + _SLACK:
        doubts.append(
            f'the accuracy "All" is {row.all - weighted_mean:.1f} points above the weighted mean of "Seen" and '
            '"Novel", which is impossible if each of them uses its best matching'
        )
    other_row = main_row(row.dataset, 0.1, row.method) if row.labeled_ratio == 0.5 else None
    if other_row and (other_row.seen, other_row.novel, other_row.all) == (row.seen, row.novel, row.all):
        doubts.append("the table has the same three numbers at 10 % labels")
    return doubts


def _line_of(config: Config, dataset: str) -> tuple[Row | None, str]:
    """Return the line of any table for the method with its changed settings, or the reason why there is none."""
    info = catalog.method_info(config.method)
    settings = config.hyperparameters
    changed = {
        key: settings[key]
        for key, parameter in info.parameters.items()
        if key in settings and settings[key] != parameter.default
    }
    changed.pop("test_clusters", None)  # the paper has no test images
    tuned = config.network_freeze_until == "none"
    for row in paper_rows():
        wanted_key = (row.dataset, row.labeled_ratio) == (dataset, config.split_labeled_ratio)
        if wanted_key and _reports(row, config.method, changed, tuned):
            return _with_nmi(row), ""
    deviations = [f"{key}={str(value).lower()}" for key, value in changed.items()] + ["nothing frozen"] * tuned
    reported = any(row.method.lower() == config.method for row in paper_rows())
    return None, ", ".join(deviations) or ("" if reported else f"it has no results of {info.title}")


def _reports(row: Row, method: str, changed: dict[str, object], tuned: bool) -> bool:
    """Return whether a line is for `method` with these settings; tuned: whether all layers were trained."""
    if row.table == "table1_main" or row.table in _FINE_TUNED:
        return not changed and tuned == (row.table in _FINE_TUNED) and row.method.lower() == method
    if method != "lps" or tuned or len(changed) != 1:
        return False
    ((key, value),) = changed.items()
    if row.table == "table4_ablation":
        return row.method == _ABLATIONS.get((key, value))
    return bool(row.parameter) and row.parameter == SWEEPS.get(key) and float(row.value) == value


def _with_nmi(row: Row) -> Row:
    """Return the line with the NMI of Table 2 for the same experiment."""
    nmi_rows = (other for other in paper_rows() if other.table == "table2_nmi_novel")
    matches = [other for other in nmi_rows if _experiment_of(other) == _experiment_of(row)]
    return replace(row, nmi=matches[0].nmi) if matches and row.table == "table1_main" else row


def _experiment_of(row: Row) -> tuple[str, float, str]:
    return row.dataset, row.labeled_ratio, row.method


def _row(line: dict[str, str]) -> Row:
    numbers = {key: float(line[key]) if line[key] else None for key in ("seen", "novel", "all", "nmi")}
    texts = {key: line[key] for key in ("table", "dataset", "parameter", "value")}
    return Row(**texts, **numbers, method=line["method_or_setting"], labeled_ratio=float(line["labeled_ratio"]))
