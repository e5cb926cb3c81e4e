"""Runs side by side: scores under any protocol from stored predictions, mean and spread over seeds, tables for papers."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lps import catalog, paper, snapshots
from lps.config import Config
from lps.events import read_events, rewind
from lps.parameters import ConfigError
from lps.protocols import PROTOCOLS, Scores, score
from lps.runs import Run

NOT_AVERAGED = ("seed", "pretrain.seed", "device", "threads", "precision")  # what may differ within a group
COLUMNS = ("seen", "novel", "all", "nmi", "gap", "conflict", "time")
SELECTIONS = {"last": "the last epoch", "oracle": "the epoch with the best accuracy on the unlabeled truth (an oracle)"}
SEEN = ("default", "raw", "matched")
FORMATS = ("markdown", "latex", "csv", "json")


@dataclass(frozen=True)
class Scored:
    """One run at one epoch. time: seconds of training and evaluation."""

    run: Run
    config: Config
    epoch: int
    scores: Scores
    time: float

    def value(self, column: str) -> float:
        return self.time if column == "time" else getattr(self.scores, column)


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed. label: the method and what tells this group from the others."""

    label: str
    config: Config
    members: tuple[Scored, ...]

    @property
    def seen_is_matched(self) -> bool:
        return self.members[0].scores.seen_is_matched

    def mean(self, column: str) -> float:
        return float(np.mean([member.value(column) for member in self.members]))

    def std(self, column: str) -> float:
        """Sample standard deviation; NaN for one run."""
        values = [member.value(column) for member in self.members]
        return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def score_run(run: Run, protocol: str = "orca", select: str = "last", seen: str = "default") -> Scored:
    """The scores of a run from its stored predictions; raises `ConfigError` where there are none or a word is unknown."""
    for name, value, choices in (("protocol", protocol, PROTOCOLS), ("select", select, SELECTIONS), ("seen", seen, SEEN)):
        if value not in choices:
            raise ConfigError(name, f"{value!r} is not one of {', '.join(choices)}")
    config = run.config()
    split, truth = snapshots.read_split(run.folder)
    aligned = catalog.method_info(config.method).seen_is_aligned
    matched = not aligned if seen == "default" else seen == "matched"
    epochs = snapshots.snapshot_epochs(run.snapshots)
    if not epochs:
        raise ConfigError("run", f"{run.id} has no evaluated epoch yet")

    def at(epoch: int) -> Scores:
        predicted = snapshots.read_snapshot(run.snapshots, epoch).predicted
        return score(predicted, truth[split.unlabeled], split.classes, protocol, matched)

    epoch = epochs[-1] if select == "last" else max(epochs, key=lambda number: (at(number).all, number))
    return Scored(run, config, epoch, at(epoch), training_seconds(run))


def training_seconds(run: Run) -> float:
    """Seconds in training steps and evaluations, every epoch counted once; pretraining is not in it."""
    seconds, step = 0.0, 0
    for event in rewind(read_events(run.events)[0]):
        if event["kind"] == "train":
            seconds += (event["values"].get("time/step_s") or 0) * (event["step"] - step)
            step = event["step"]
        elif event["kind"] == "eval":
            seconds += event["values"].get("time/eval_s") or 0
    return seconds


def group_runs(scored: Sequence[Scored]) -> list[Group]:
    """Runs that differ only in `NOT_AVERAGED` together; never over different splits."""
    groups: dict[str, list[Scored]] = {}
    for member in scored:
        groups.setdefault(_group_key(member.config), []).append(member)
    configs = [members[0].config for members in groups.values()]
    differing = differences(configs)
    return [Group(_label(members[0].config, differing), members[0].config, tuple(members)) for members in groups.values()]


def differences(configs: Sequence[Config]) -> dict[str, list]:
    """The settings in which the configs differ, by key; None where a config does not have it."""
    flats = [config.flat() for config in configs]
    keys = dict.fromkeys(key for flat in flats for key in flat)
    columns = {key: [flat.get(key) for flat in flats] for key in keys if key not in NOT_AVERAGED}
    return {key: values for key, values in columns.items() if any(value != values[0] for value in values)}


def table(groups: Sequence[Group], form: str) -> str:
    """The comparison as text in one of `FORMATS`; fractions as percent except in csv and json."""
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "json": _json}[form](groups)


def notes(groups: Sequence[Group]) -> list[str]:
    """What a reader of the table must know: matched seen accuracies, and what cannot be held against the paper."""
    lines = []
    if any(group.seen_is_matched for group in groups):
        lines.append("* seen accuracy after matching, since these ids are not aligned with the seen classes")
    for group in groups:
        row, reasons = paper.counterpart(group.config)
        if row is None:
            lines.append(f"{group.label}: not comparable with the paper because of {', '.join(reasons)}")
        lines += [f"{group.label}, paper: {doubt}" for doubt in (paper.doubts(row) if row else [])]
    return lines


def _group_key(config: Config) -> str:
    return json.dumps({k: v for k, v in config.flat().items() if k not in NOT_AVERAGED}, sort_keys=True)


def _label(config: Config, differing: dict) -> str:
    own = catalog.method_info(config.method)
    flat = config.flat()
    told = [f"{key}={flat[key]}" for key in differing if key not in ("method", "dataset") and _tells(key, flat, own)]
    words = [own.title] + ([config.dataset] if "dataset" in differing else []) + told
    return " ".join(words)


def _tells(key: str, flat: dict, own: catalog.MethodInfo) -> bool:
    """Whether a differing setting is worth a word: hyperparameters only where they are not the default."""
    if key in own.parameters:
        return flat[key] != own.parameters[key].default
    return key in flat


def _cell(group: Group, column: str, sign: str) -> str:
    scale, digits = (1, 0) if column == "time" else (100, 1)
    mean, std = group.mean(column) * scale, group.std(column) * scale
    if math.isnan(mean):
        return "-"
    star = "*" if column == "seen" and group.seen_is_matched else ""
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f" {sign} {std:.{digits}f}") + star


def _paper_cell(group: Group) -> str:
    row, _ = paper.counterpart(group.config)
    return f"{row.seen} / {row.novel} / {row.all}" if row else "-"


def _lines(groups: Sequence[Group], sign: str) -> list[list[str]]:
    return [
        [group.label, *(_cell(group, column, sign) for column in COLUMNS), str(len(group.members)), _paper_cell(group)]
        for group in groups
    ]


HEADS = ("method", "seen", "novel", "all", "NMI", "gap", "conflict", "time, s", "n", "paper")


def _markdown(groups: Sequence[Group]) -> str:
    rows = [HEADS, ["---"] + ["---:"] * (len(HEADS) - 1), *_lines(groups, "±")]
    escape = str.maketrans({"|": "\\|", "\n": " "})
    body = "\n".join("| " + " | ".join(str(cell).translate(escape) for cell in row) + " |" for row in rows)
    return body + "".join(f"\n\n{note}" for note in notes(groups)) + "\n"


def _latex(groups: Sequence[Group]) -> str:
    lines = [[latex(cell) for cell in row] for row in _lines(groups, "PLUSMINUS")]
    body = " \\\\\n".join(" & ".join(row).replace("PLUSMINUS", r"$\pm$") for row in lines)
    head = " & ".join(latex(head) for head in HEADS)
    comment = "".join(f"% {note}\n" for note in notes(groups))
    columns = "l" + "r" * (len(HEADS) - 1)
    return (
        f"{comment}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head} \\\\\n\\midrule\n{body} \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def latex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {c: f"\\{c}" for c in "&%$#_{}"}
    return "".join(special.get(c, c) for c in text.replace("\n", " "))


def _csv(groups: Sequence[Group]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["method", "seen_is_matched", "n", *(f"{c}_{kind}" for c in COLUMNS for kind in ("mean", "std"))])
    for group in groups:
        numbers = [number for c in COLUMNS for number in (group.mean(c), group.std(c))]
        shown = ["" if math.isnan(number) else f"{number:.6g}" for number in numbers]
        writer.writerow([plain(group.label), group.seen_is_matched, len(group.members), *shown])
    return out.getvalue()


def plain(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _json(groups: Sequence[Group]) -> str:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    return json.dumps(
        [
            {
                "label": group.label,
                "config": group.config.flat(),
                "n": len(group.members),
                "seen_is_matched": group.seen_is_matched,
                "runs": [member.run.id for member in group.members],
                "epochs": [member.epoch for member in group.members],
                **{c: {"mean": number(group.mean(c)), "std": number(group.std(c))} for c in COLUMNS},
                "paper": asdict(row) if (row := paper.counterpart(group.config)[0]) else None,
                "not_comparable": paper.counterpart(group.config)[1],
            }
            for group in groups
        ],
        indent=2,
    ) + "\n"
