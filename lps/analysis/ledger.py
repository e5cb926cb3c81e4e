"""The ledger: published numbers of every method, the results of runs here, and whether the two are comparable.

A line is a method on a data set with a share of labels. Official numbers are those of the LPS paper's tables
(`paper_tables.csv`), where all methods share a protocol, and of `published.csv`, where a later method reports its own
under other conditions. Numbers under different conditions are not compared: the line lists the differences instead.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from lps.analysis import paper_results, score_tables
from lps.analysis.run_groups import Group
from lps.files import tables
from lps.scores import estimates
from lps.settings import catalog, cli_args
from lps.store import provenance
from lps.wording import counted

REPRODUCED, OPEN, BELOW = "reproduced", "not distinguishable", "below"
OTHERWISE, MISSING = "not comparable", "not run"
_CLOSE = 2.0  # points of accuracy on all: the verdict needs an interval of at most this on either side of the mean
_VERDICTS = {
    REPRODUCED: f"our {estimates.INTERVAL} contains the published number and is at most {2 * _CLOSE:g} points wide, or "
    "the whole interval is above the published number",
    OPEN: f"our interval contains the published number but is more than {2 * _CLOSE:g} points wide; or we have no "
    "interval, because there is only one seed or all seeds give the same number",
    BELOW: "our whole interval is below the published number",
    OTHERWISE: "the experiments differ; the last column says how",
    MISSING: "we have no run of this experiment",
}
CLAIM_HEAD = ("method", "data", "labels", "official", "source", "ours", "n", "verdict", "what differs", "made by", "on")


@dataclass(frozen=True)
class Official:
    """A published number, in percent. terms: differences from the protocol of runs here, "" for none."""

    dataset: str
    labeled_ratio: float
    method: str
    seen: float | None
    novel: float | None
    all: float | None
    source: str
    terms: str = ""

    @property
    def key(self) -> tuple[str, float, str]:
        return self.dataset, self.labeled_ratio, self.method


@dataclass(frozen=True)
class Claim:
    """An official number, a group of runs, or both. differences: why the two are not comparable."""

    dataset: str
    labeled_ratio: float
    method: str
    official: Official | None
    group: Group | None
    verdict: str
    differences: tuple[str, ...] = ()

    @property
    def data(self) -> tuple[str, float]:
        return self.dataset, self.labeled_ratio

    def cells(self) -> dict[str, str]:
        """Return one text per column of `CLAIM_HEAD`."""
        dataset_cells = catalog.dataset_titles().get(self.dataset, self.dataset), f"{100 * self.labeled_ratio:g} %"
        method = _label(self.group) if self.group else catalog.method_titles().get(self.method, self.method)
        official_cells = [_numbers(self.official), self.official.source] if self.official else ["-", "-"]
        own_cells = [_ours(self.group), str(len(self.group.members))] if self.group else ["-", "0"]
        origin_cells = [_reproduce_command(self.group), _hardware(self.group)] if self.group else ["", ""]
        verdict_cells = [self.verdict, "; ".join(self.differences)]
        cells = [method, *dataset_cells, *official_cells, *own_cells, *verdict_cells, *origin_cells]
        return dict(zip(CLAIM_HEAD, cells))


@cache
def published_numbers() -> tuple[Official, ...]:
    """Return every published number of a method here, Table 1 of the LPS paper first."""
    methods = {name.casefold(): name for name in catalog.method_names()}
    datasets = {title: key for key, title in paper_results.DATASETS.items()}
    officials = [
        _of_paper((datasets[row.dataset], row.labeled_ratio, methods[row.method.casefold()]), row)
        for row in paper_results.paper_rows()
        if row.table == "table1_main" and row.method.casefold() in methods
    ]
    with open(Path(__file__).with_name("published.csv"), newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            numbers = {key: float(line[key]) for key in ("labeled_ratio", "seen", "novel", "all")}
            officials.append(Official(**line | numbers))
    return tuple(officials)


def _of_paper(key: tuple[str, float, str], row: paper_results.Row) -> Official:
    """Return what a line of the LPS paper reports for this data set, share of labels and method."""
    source = "LPS, Table 1" if row.table == "table1_main" else f"LPS, {row.table.replace('_', ' ')}"
    return Official(*key, row.seen, row.novel, row.all, source)


def ledger_claims(groups: Sequence[Group]) -> list[Claim]:
    """Return the ledger: a line per group, then one for every official number without a group."""
    claims = [_claim_of(group) for group in groups]
    run = {line.official.key for line in claims if line.official}
    claims += [
        Claim(*official.key, official, None, MISSING, (official.terms,) if official.terms else ())
        for official in published_numbers()
        if official.key not in run
    ]
    order = {
        key: number for number, key in enumerate(dict.fromkeys(official.key[:2] for official in published_numbers()))
    }
    return sorted(claims, key=lambda line: (line.group is None, order.get(line.data, len(order))))


def _claim_of(group: Group) -> Claim:
    config = group.config
    key = config.dataset, config.split_labeled_ratio, config.method
    row, reasons = group.paper
    if row is not None:
        return Claim(
            *key, _of_paper(key, row), group, verdict(group, row.all), tuple(paper_results.find_inconsistencies(row))
        )
    official = next((official for official in published_numbers() if official.key == key), None)
    if official is None:
        return Claim(*key, None, group, OTHERWISE, ("no published number",))
    reasons = reasons if not official.terms else [official.terms]
    return Claim(*key, official, group, OTHERWISE, tuple(reasons))


def verdict(group: Group, official: float | None) -> str:
    """Compare the group's accuracy on all with an official one in percent, by Student's interval over its seeds."""
    values = 100 * np.array([member.value("all") for member in group.members])
    if official is None or not np.isfinite(values).all():
        return OTHERWISE
    if len(values) < 2:
        return OPEN
    estimate = estimates.of_mean(values)
    width = float(estimate.half_width)
    if math.isnan(width):  # identical results of all seeds say nothing about their spread
        return OPEN
    if estimate.mean + width < official:
        return BELOW
    return REPRODUCED if width <= _CLOSE or estimate.mean - width > official else OPEN


def _reproduce_command(group: Group) -> str:
    """Return the command that reproduces the group."""
    config = group.config
    changed = cli_args.differing_settings(config.flat(), config.defaults())
    changed = {key: value for key, value in changed.items() if key not in ("dataset.decisions", "pretrain.seed")}
    changed = {key: Path(str(v)).name if key in provenance.PATHS and v else v for key, v in changed.items()}
    seeds = cli_args.join_values(sorted({member.config.seed for member in group.members}))
    return cli_args.format_command("sweep", dataset=config.dataset, method=config.method, seeds=seeds, set=changed)


def _label(group: Group) -> str:
    """Return the group's label without local folders."""
    label = group.label
    for key in provenance.PATHS:
        if setting_value := group.config.flat()[key]:
            label = label.replace(str(setting_value), Path(str(setting_value)).name)
    return label


def _hardware(group: Group) -> str:
    """Return the hardware that the group was trained on, each once."""
    machines = [provenance.machine_of(member.run) for member in group.members]
    named = [
        f"{machine['device']}, {counted(machine.get('cores', 0), 'core')}"
        for machine in machines
        if machine.get("device")
    ]
    return "; ".join(dict.fromkeys(named))


def _numbers(official: Official) -> str:
    return " / ".join(
        "-" if value is None else f"{value:.1f}" for value in (official.seen, official.novel, official.all)
    )


def _ours(group: Group) -> str:
    return " / ".join(score_tables.format_cell(group, column) for column in ("seen", "novel", "all"))


# ---------------------------------------------------------------------------------------------------- to take away


def ledger_page(claims: Sequence[Claim]) -> str:
    """Return the ledger as a page of `docs/`: introduction, how verdicts are made, the table, a command per group."""
    verdict_lines = [f"- **{name}**: {explanation}." for name, explanation in _VERDICTS.items()]
    counts = ", ".join(f"{sum(line.verdict == name for line in claims)} {name}" for name in _VERDICTS)
    heads = [head for head in CLAIM_HEAD if head not in ("made by", "on")]
    cells = [line.cells() for line in claims]
    rows = [[score_tables.escape_markdown(line[head]) for head in heads] for line in cells]
    commands = [
        f"- {score_tables.escape_markdown(c['method'])} ({c['on']}): `{c['made by']}`" for c in cells if c["made by"]
    ]
    return "\n".join(
        [
            "# The ledger",
            "",
            "This page compares published results with ours: accuracy on seen, novel and all unlabeled images, in",
            "percent, mean ± standard deviation over n seeds. `python -m lps ledger` writes it.",
            "",
            *verdict_lines,
            "",
            f"{counted(len(claims), 'line')}: {counts}.",
            "",
            score_tables.markdown_table(heads, rows, len(heads)),
            *(["How the runs were made:", "", *commands, ""] if commands else []),
        ]
    )


def csv_text(claims: Sequence[Claim]) -> str:
    """Return the ledger as CSV."""
    return tables.csv_text(
        [CLAIM_HEAD, *([tables.escape_cell(text) for text in line.cells().values()] for line in claims)]
    )
