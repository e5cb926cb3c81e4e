"""Tables of groups as Markdown, LaTeX, CSV and JSON, beside the paper's numbers, with the notes they need."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

from lps.analysis import differences, paper_results
from lps.analysis.differences import Difference, GroupComparison
from lps.analysis.run_groups import Group, differing_settings
from lps.analysis.run_scores import ABOUT_CLUSTERED_APART, COLUMNS, IMAGES, REPEATED, SELECTIONS
from lps.errors import UserError
from lps.files import tables
from lps.scores.estimates import INTERVAL
from lps.scores.protocols import PROTOCOLS
from lps.settings import backbone_names, catalog
from lps.settings.config import Config, seen_class_ids
from lps.settings.parameters import text_of
from lps.store import titles
from lps.store.events import RESOLVED

FORMATS = ("markdown", "latex", "csv", "json")
_DIFFERENCE_HEADS = ("method", "against", "seen", "novel", "all", "NMI", "gap", "seeds")
DIFFERENCE_CSV = ("difference", "low", "high", "distinguishable", "seeds_needed")
SCORE_TABLE_HEADS = ("method", "seen", "novel", "all", "NMI", "gap", "conflict", "time, s", "n", "paper")
_SPLIT = ("split.labeled_ratio", "split.num_seen", "split.seen_classes", "split.seed")
_EXPERIMENT = ("dataset", "epochs", *_SPLIT)
_ABOUT_COLUMNS = (
    "NMI: agreement of clusters and classes on novel images, at most 100; gap: seen minus novel; conflict: how far All "
    "is below the weighted mean of seen and novel, because one matching must serve all images; time: training and "
    "evaluation, without pretraining; n: runs, one per seed"
)
ABOUT_PAPER_CELL = "accuracy on seen, novel and all classes in the same experiment of the LPS paper"


# ---------------------------------------------------------------------------------------------------- notes


def table_notes(groups: Sequence[Group], scoring: bool = True) -> list[str]:
    """Return notes for the reader of the table: scoring, omissions, remarks on the paper.

    scoring: False if units, protocol and choice of epoch are shown elsewhere.
    """
    lines = [*(_notes_on_scoring(groups) if scoring else []), _ABOUT_COLUMNS]
    raw = [group for group in groups if not group.seen_is_matched]
    nameless = [g.label for g in raw if not catalog.method_info(g.config.method).seen_is_aligned]
    if nameless:
        lines.append(f"{' · '.join(nameless)}: ids are not tied to classes, so raw seen accuracy is at chance level")
    if any(group.seen_is_matched for group in groups):
        lines.append(
            "* seen accuracy after ids were matched with classes; without a star, an image is correct if its "
            "predicted id is the id of its class"
        )
    if any(group.is_clustered_apart for group in groups):
        lines.append(ABOUT_CLUSTERED_APART)
    for group in groups:
        lines += [f"{group.label}: {note}" for note in _notes_on_members(group)]
    return lines + notes_on_paper(groups)


def _notes_on_scoring(groups: Sequence[Group]) -> list[str]:
    """Return the units and the spread of the numbers, the protocol, the scored images and epochs."""
    if not groups:
        return []
    first, members = groups[0].members[0], [member for group in groups for member in group.members]
    num_seeds = _span_in_words([len(group.members) for group in groups])
    spread = f"mean ± sample standard deviation over n = {num_seeds} seeds"
    if num_seeds == "1":
        spread = "one seed per row, so no spread"
    epochs = _span_in_words([member.epoch for member in members])
    noun = "epoch" if epochs.isdigit() else "epochs"
    return [
        f"accuracies and NMI in percent, gap and conflict in points, time in seconds: {spread}",
        f"protocol {first.protocol}: {PROTOCOLS[first.protocol]}",
        f"scored: {IMAGES[first.images]}, at {SELECTIONS[first.select]}; {noun} {epochs}",
    ]


def _span_in_words(numbers: Sequence[int]) -> str:
    """Format the smallest and the largest number: "2 to 3"; one of them if they are equal."""
    return " to ".join(map(str, dict.fromkeys([min(numbers), max(numbers)])))


def _notes_on_members(group: Group) -> list[str]:
    lines = [
        f"seed {member.config.seed} ended early, scored at epoch {member.epoch} of {member.config.epochs}"
        for member in group.members
        if not member.is_complete and member.epoch < member.config.epochs
    ]
    recorded_seeds = [str(member.config.seed) for member in group.members if member.is_told]
    if recorded_seeds:
        lines.append(
            f"seed {', '.join(recorded_seeds)}: scores as recorded during training; the predictions were deleted"
        )
    complete = {member.config.seed: member.is_complete for member in group.members}
    for seed in dict.fromkeys(member.config.seed for member in group.replaced):
        counts = "newest finished run" if complete[seed] else "newest run"
        lines.append(f"seed {seed} was run more than once; its {counts} is used")
    return lines


def notes_on_settings(groups: Sequence[Group]) -> list[str]:
    """Return the settings as after `--set`: of all rows, of all rows of a method, and of a row beyond its label."""
    words_by_row = [
        titles.without_paths([titles.setting_in_words(key, value) for key, value in settings.items()])
        for settings in _settings(groups)
    ]
    rows_by_name: dict[str, list[int]] = {"all rows": [*range(len(groups))]} if groups else {}
    for row, group in enumerate(groups):
        rows_by_name.setdefault(titles.method_title(group.config.method), []).append(row)
    told, lines = [set(group.label.split(", ")) if len(groups) > 1 else set() for group in groups], []
    for name, rows in [*rows_by_name.items(), *((group.label, [row]) for row, group in enumerate(groups))]:
        shared = [word for word in words_by_row[rows[0]] if all(word in words_by_row[row] for row in rows)]
        if new_words := [word for word in shared if word not in told[rows[0]]]:
            lines.append(f"{name}: {', '.join(new_words)}")
        for row in rows:
            told[row].update(shared)
    return lines


def _settings(groups: Sequence[Group]) -> list[dict[str, object]]:
    """Return the settings of each row by key: of the experiment, what differs or is no default, and of its method."""
    notable, rows = [*differing_settings([group.config for group in groups])], []
    for group in groups:
        with suppress(UserError):  # the data set is gone
            notable += group.config.changed
    shared_keys = [*_EXPERIMENT, *(key for key in notable if key not in (*titles.NOT_NAMED, *REPEATED))]
    for group in groups:
        flat = _flat(group.config)
        rows.append({key: flat[key] for key in (*shared_keys, *group.config.hyperparameters) if key in flat})
    return rows


def _flat(config: Config) -> dict[str, object]:
    """Return the settings of a run, without the number of seen classes if it is unknown."""
    flat = config.flat() | {"split.num_seen": _num_seen(config)}
    return {key: value for key, value in flat.items() if value is not None or key != "split.num_seen"}


def split_in_words(configs: Sequence[Config]) -> str:
    """Return the settings of the split that all `configs` share; "" if there are none."""
    flats, keys = list(map(_flat, configs)), [*_SPLIT]
    for config in configs:
        with suppress(UserError):  # the data set is gone
            keys += [key for key in config.changed if key.startswith("split.")]
    shared_keys = [key for key in dict.fromkeys(keys) if len({flat.get(key, ...) for flat in flats}) == 1]
    return ", ".join(titles.setting_in_words(key, flats[0][key]) for key in shared_keys if key in flats[0])


def _num_seen(config: Config) -> int | None:
    """Return the number of seen classes; None if it depends on the data."""
    if config.split_num_seen or config.split_index_files:
        return config.split_num_seen
    if seen_ids := seen_class_ids(config.split_seen_classes):
        return len(seen_ids)
    with suppress(UserError):  # the data set is gone
        num_classes = catalog.dataset_info(config.dataset).classes
        return num_classes and num_classes // 2
    return None


def notes_on_paper(groups: Sequence[Group]) -> list[str]:
    """Return why rows have no counterpart in the paper, common reasons once, and doubts about the paper's numbers."""
    missing = {group.label: group.paper[1] for group in groups if group.paper[0] is None}
    shared = [
        reason for reason in next(iter(missing.values()), []) if all(reason in reasons for reasons in missing.values())
    ]
    label_notes = notes_on_labels({group.label: group.config for group in groups})
    if shared and len(missing) == len(groups):
        return [f"not comparable with the paper: {'; '.join(shared)}", *label_notes]
    by_reason: dict[str, list[str]] = {}
    for label, reasons in missing.items():
        by_reason.setdefault("; ".join(reasons), []).append(label)
    lines = [f"{' · '.join(labels)}: not comparable with the paper: {reason}" for reason, labels in by_reason.items()]
    for group in groups:
        lines += [
            f"† {group.label}, paper: {doubt}"
            for doubt in (paper_results.find_inconsistencies(group.paper[0]) if group.paper[0] else [])
        ]
    return lines + label_notes


def notes_on_labels(configs: Mapping[str, Config]) -> list[str]:
    """Return the row labels whose start weights were trained with the labels of ImageNet; nothing if there are none."""
    labeled_runs = [label for label, config in configs.items() if config.rests_on_labels]
    if not labeled_runs:
        return []
    subject = "" if len(labeled_runs) == len(configs) else f"{' · '.join(labeled_runs)}: "
    return [subject + backbone_names.ABOUT_LABELS]


# ---------------------------------------------------------------------------------------------------- tables


def format_table(groups: Sequence[Group], form: str, against: Group | None = None) -> str:
    """Format the comparison in one of `FORMATS`; fractions as percent except in csv and json.

    against: the group that the others are compared with (`differences.compare_groups`).
    """
    comparison = differences.compare_groups(groups, against)
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "json": _json}[form](groups, comparison)


def format_cell(group: Group, column: str) -> str:
    """Format mean ± standard deviation: percent, points or seconds; "-" if nothing was measured."""
    scale, digits = (1, 0) if column == "time" else (100, 1)
    mean, std = group.mean(column) * scale, group.std(column) * scale
    if math.isnan(mean):
        return "-"
    star = "*" if column == "seen" and group.seen_is_matched else ""
    star += "‡" if column not in ("time", "gap", "conflict") and group.is_clustered_apart else ""
    mean = round(mean, digits) + 0.0  # no -0.0
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}") + star


def paper_cell(group: Group) -> str:
    """Format the paper's seen, novel and all; † if its arithmetic is in doubt; "-" if it has no such experiment."""
    row, _ = group.paper
    if row is None:
        return "-"
    numbers = " / ".join("-" if value is None else f"{value:g}" for value in (row.seen, row.novel, row.all))
    return numbers + (" †" if paper_results.find_inconsistencies(row) else "")


def has_paper(groups: Sequence[Group]) -> bool:
    """Return whether the paper has numbers for any of the groups; a table without them has no column for the paper."""
    return any(group.paper[0] is not None for group in groups)


def _heads(groups: Sequence[Group]) -> tuple[str, ...]:
    return SCORE_TABLE_HEADS if has_paper(groups) else SCORE_TABLE_HEADS[:-1]


def _rows(groups: Sequence[Group], escape, bold) -> list[list[str]]:
    """Return the cells of every group: escaped, the best ones bold (`differences.best_cells`)."""
    winners = differences.best_cells(groups)
    rows = []
    for i, group in enumerate(groups):
        cells = [escape(format_cell(group, column)) for column in COLUMNS]
        cells = [bold(text) if (i, column) in winners else text for column, text in zip(COLUMNS, cells)]
        published = [escape(paper_cell(group))] if has_paper(groups) else []
        rows.append([escape(group.label), *cells, str(len(group.members)), *published])
    return rows


def about_marks(groups: Sequence[Group]) -> list[str]:
    """Explain bold in a table of the groups; nothing if there is no comparison."""
    return [differences.about_bold(groups, bool(differences.best_cells(groups)))] if len(groups) > 1 else []


def difference_rows(comparison: GroupComparison, escape=str, bold=str) -> list[list[str]]:
    """Return the cells of every row of `_DIFFERENCE_HEADS`: escaped, distinguishable differences bold."""
    rows = []
    for row in comparison.rows:
        cells = [
            escape(differences.format_difference(comparison.differences.get((row, column))))
            for column in differences.COLUMNS
        ]
        cells = [bold(text) if (row, c) in comparison.bold else text for c, text in zip(differences.COLUMNS, cells)]
        labels = [escape(comparison.groups[row].label), escape(comparison.references[row].label)]
        rows.append([*labels, *cells, escape(comparison.seeds(row))])
    return rows


def _markdown(groups: Sequence[Group], comparison: GroupComparison) -> str:
    text = markdown_table(_heads(groups), _rows(groups, escape_markdown, "**{}**".format), 1)
    text += _markdown_notes(_notes_on_scores(groups))
    if comparison.differences:
        rows = difference_rows(comparison, escape_markdown, "**{}**".format)
        text += "\n" + markdown_table(_DIFFERENCE_HEADS, rows, 2) + _markdown_notes(_notes_on_differences(comparison))
    return text


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> str:
    """Format a Markdown table. text_columns: how many of the first columns are text."""
    lines = [heads, ["---"] * text_columns + ["---:"] * (len(heads) - text_columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _markdown_notes(notes: Sequence[str]) -> str:
    return "".join(f"\n{escape_markdown(note)}\n" for note in notes)


def escape_markdown(text: str) -> str:
    """Escape text for Markdown, inside a table too; `use_margin` stays readable."""
    return re.sub(r"[\\`*<\[\]|~$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(text.split()))


def _latex(groups: Sequence[Group], comparison: GroupComparison) -> str:
    rows = _rows(groups, tables.escape_latex, r"\textbf{{{}}}".format)
    text = _latex_table(_heads(groups), rows, 1, _notes_on_scores(groups))
    return "\n".join(filter(None, [text, latex_differences(comparison)]))


def latex_differences(comparison: GroupComparison) -> str:
    """Format the table of differences alone, "" if there are none."""
    if not comparison.differences:
        return ""
    rows = difference_rows(comparison, tables.escape_latex, r"\textbf{{{}}}".format)
    return _latex_table(_DIFFERENCE_HEADS, rows, 2, _notes_on_differences(comparison))


def _notes_on_scores(groups: Sequence[Group]) -> list[str]:
    return [*table_notes(groups), *about_marks(groups), *notes_on_settings(groups)]


def _notes_on_differences(comparison: GroupComparison) -> list[str]:
    return [
        f"differences in percent points, with {INTERVAL}s in brackets",
        *differences.explain_differences(comparison),
        *differences.undecided_in_words(comparison),
    ]


def _latex_table(heads: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int, notes: Sequence[str]) -> str:
    """Format a LaTeX table. text_columns: how many of the first columns are text. notes: comments above."""
    comment = "".join(f"% {' '.join(note.split())}\n" for note in notes)
    head = tables.latex_row(map(tables.escape_latex, heads))
    columns = "l" * text_columns + "r" * (len(heads) - text_columns)
    return comment + "\n".join(tables.latex_table(columns, [head], map(tables.latex_row, rows))) + "\n"


def _csv(groups: Sequence[Group], comparison: GroupComparison) -> str:
    measured = [f"{column}_{kind}" for column in COLUMNS for kind in ("mean", "std")]
    published = ["paper_seen", "paper_novel", "paper_all", "not_comparable"]
    settings = _settings(groups)
    keys = [key for key in dict.fromkeys(key for own in settings for key in own) if key not in RESOLVED]
    compared = [f"{column}_{kind}" for column in differences.COLUMNS for kind in DIFFERENCE_CSV]
    head = [
        "method",
        "protocol",
        "images",
        "select",
        "seen_is_matched",
        *RESOLVED,
        "n",
        "seeds",
        "scored_epochs",
        *measured,
        *published,
    ]
    rows = [[*head, "against", "pairs", "paired_seeds", *compared, *keys]]
    for i, group in enumerate(groups):
        first, (row, reasons) = group.members[0], group.paper
        numbers = [number for column in COLUMNS for number in (group.mean(column), group.std(column))]
        seeds, epochs = zip(*((str(member.config.seed), str(member.epoch)) for member in group.members))
        scoring = [first.protocol, first.images, first.select, group.seen_is_matched]
        resolved = [first.precision, first.test_clusters]
        facts = [
            tables.line_cell(group.label),
            *scoring,
            *resolved,
            len(group.members),
            " ".join(seeds),
            " ".join(epochs),
        ]
        texts = ["" if math.isnan(number) else f"{number:.6g}" for number in numbers]
        percent = (row.seen, row.novel, row.all) if row else (None, None, None)
        fractions = ["" if value is None else f"{value / 100:.6g}" for value in percent]
        values = [tables.line_cell(text_of(settings[i][key])) if key in settings[i] else "" for key in keys]
        reason = tables.line_cell("; ".join(reasons))
        rows.append([*facts, *texts, *fractions, reason, *_difference_cells(comparison, i), *values])
    return tables.csv_text(rows)


def _difference_cells(comparison: GroupComparison, row: int) -> list[str]:
    """Return the reference of the row, its pairs, their seeds, and `DIFFERENCE_CSV` of every column; fractions."""
    row_differences = [comparison.differences.get((row, column)) for column in differences.COLUMNS]
    cells = ["", "", ""]
    if row in comparison.rows:
        seeds = comparison.paired_seeds(row)
        cells = [tables.line_cell(comparison.references[row].label), str(len(seeds)), " ".join(map(str, seeds))]
    return cells + [text for difference in row_differences for text in difference_csv(difference)]


def difference_csv(difference: Difference | None) -> list[str]:
    """Return the cells of `DIFFERENCE_CSV`, fractions; empty if unknown."""
    values = _difference_values(difference)
    return ["" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]


def _difference_values(difference: Difference | None) -> list[float | int | bool | None]:
    """Return the values of `DIFFERENCE_CSV`; None if unknown."""
    if difference is None:
        return [None] * len(DIFFERENCE_CSV)
    numbers = [None if math.isnan(v) else v for v in (difference.mean, difference.low, difference.high)]
    lacking = difference.seeds_needed if differences.seeds_needed_in_words(difference) else None
    return [*numbers, difference.is_distinguishable, lacking]


def _json(groups: Sequence[Group], comparison: GroupComparison) -> str:
    groups_as_json = [_as_json(group) | _differences_as_json(comparison, i) for i, group in enumerate(groups)]
    return json.dumps(groups_as_json, indent=2, allow_nan=False) + "\n"


def _differences_as_json(comparison: GroupComparison, row: int) -> dict:
    facts = {}
    for column in differences.COLUMNS:
        if difference := comparison.differences.get((row, column)):
            facts[column] = dict(zip(DIFFERENCE_CSV, _difference_values(difference))) | {"pairs": difference.pairs}
    return {
        "against": comparison.references[row].label if facts else None,
        "paired_seeds": comparison.paired_seeds(row) if facts else [],
        "differences": facts,
    }


def _as_json(group: Group) -> dict:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    row, reasons = group.paper
    first = group.members[0]
    return {
        "label": group.label,
        "config": group.config.flat(),
        "protocol": first.protocol,
        "images": first.images,
        "select": first.select,
        "n": len(group.members),
        "seen_is_matched": group.seen_is_matched,
        **{name: getattr(first, name) for name in RESOLVED},
        "runs": [member.run.id for member in group.members],
        "seeds": [member.config.seed for member in group.members],
        "epochs": [member.epoch for member in group.members],
        **{c: {"mean": number(group.mean(c)), "std": number(group.std(c))} for c in COLUMNS},
        "paper": asdict(row) if row else None,
        "doubts": paper_results.find_inconsistencies(row) if row else [],
        "not_comparable": reasons,
    }
