"""A preset's table in the paper's layout: our means and spreads as they come, the paper's numbers beside them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lps.analysis import differences, effects, paper_results, run_groups, run_scores, score_tables
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.files import tables
from lps.scores.protocols import ABOUT_LOW_ALL, has_low_all
from lps.studies.presets import Cell, PaperTable, cell_key
from lps.wording import counted


def fill_table(sheet: PaperTable, scored: Iterable[Scored]) -> dict[tuple[int, int], Group]:
    """Return the runs of each (line, block), one per seed; runs that belong to no cell are ignored.

    Only runs of one split are averaged: that of most runs of the cell.
    """
    runs_by_cell: dict[tuple[int, int], list[Scored]] = {}
    for member in scored:
        cell = sheet.cell_by_key.get(cell_key(member.config))
        if cell is not None:
            runs_by_cell.setdefault(cell, []).append(member)
    return {
        cell: Group(sheet.lines[cell[0]].label, *run_groups.newest_of_seeds(effects.one_split(members)[0]))
        for cell, members in sorted(runs_by_cell.items())
    }


@dataclass(frozen=True)
class Grid:
    """The table in the paper's layout as text, our numbers and the paper's beside each other.

    heads: (words above columns that belong together, the columns). rows: (section, label, cells). bold: (row, cell).
    """

    first: str
    heads: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    bold: frozenset
    notes: tuple[str, ...]


_NAMES = {"seen": "Seen", "novel": "Novel", "all": "All", "nmi": "NMI"}
_NOTHING = "–"


def build_grid(
    sheet: PaperTable, groups: Mapping[tuple[int, int], Group], scoring: tuple[str, ...] = ("orca", "last")
) -> Grid:
    """Return the results in the cells of the table. scoring: protocol, select and, unless unlabeled, images."""
    measures = sheet.preset.measures
    columns = tuple(_NAMES[measure] for measure in measures)
    heads = []
    for block in sheet.blocks:
        ratio = block.settings.get("split.labeled_ratio")
        paper_heading = f"Paper: {block.published}" + (f", {100 * ratio:g} % labels" if ratio else "")
        heads += [(block.title, (*columns, "n")), (paper_heading, columns)]
    rows = []
    for i, line in enumerate(sheet.lines):
        texts: list[str] = []
        for k in range(len(sheet.blocks)):
            texts += [*_own_cells(groups.get((i, k)), measures, len(sheet.request.seeds))]
            texts += _paper_cells(sheet.cells[i][k].row, measures)
        rows.append((line.section, line.label, tuple(texts)))
    first = {"split.num_seen": "Novel classes", "split.labeled_ratio": "Labels"}.get(
        sheet.preset.setting, sheet.preset.setting or "Method"
    )
    return Grid(first, tuple(heads), tuple(rows), _bold(sheet, groups), tuple(grid_notes(sheet, groups, scoring)))


def _own_cells(group: Group | None, measures: Sequence[str], num_seeds: int) -> list[str]:
    if group is None:
        return [_NOTHING] * len(measures) + [f"0/{num_seeds}"]
    finished = len(group.members)
    return [score_tables.format_cell(group, measure) for measure in measures] + [
        str(finished) if finished >= num_seeds else f"{finished}/{num_seeds}"
    ]


def _paper_cells(row: paper_results.Row | None, measures: Sequence[str]) -> list[str]:
    values = [None if row is None else getattr(row, measure) for measure in measures]
    doubt = " †" if row is not None and paper_results.find_inconsistencies(row) else ""
    return [_NOTHING if value is None else f"{value:g}{doubt}" for value in values]


def named_groups(sheet: PaperTable, groups: Mapping[tuple[int, int], Group]) -> list[Group]:
    """Return the groups of all cells, named by line, section and block if there are several."""
    sections, blocks = len({line.section for line in sheet.lines}) > 1, len(sheet.blocks) > 1
    cell_groups = []
    for (i, k), group in groups.items():
        parts = [group.label, sheet.lines[i].section * sections, sheet.blocks[k].title * blocks]
        cell_groups.append(replace(group, label=", ".join(filter(None, parts))))
    return cell_groups


def _bold(sheet: PaperTable, groups: Mapping[tuple[int, int], Group]) -> frozenset:
    """Return the (row, cell) that `differences.best_cells` finds among our numbers within a section."""
    measures, bold_cells = sheet.preset.measures, set()
    width = 2 * len(measures) + 1
    for section in dict.fromkeys(line.section for line in sheet.lines):
        for k in range(len(sheet.blocks)):
            rows = [i for i, line in enumerate(sheet.lines) if line.section == section and (i, k) in groups]
            winners = differences.best_cells([groups[i, k] for i in rows])
            bold_cells |= {(rows[i], k * width + measures.index(m)) for i, m in winners if m in measures}
    return frozenset(bold_cells)


def grid_notes(sheet: PaperTable, groups: Mapping, scoring: Sequence[str] = ("orca", "last")) -> list[str]:
    """Return notes on the table: how much is filled in, and what can be compared with the paper."""
    seeds = len(sheet.request.seeds)
    num_finished = sum(len(group.members) for group in groups.values())
    runs = counted(len(sheet.all_cells) * seeds, "run")
    lines = [f"mean ± sample standard deviation over n seeds, percent; {num_finished} of {runs}"]
    if len(groups) > 1:
        lines.append(differences.about_bold([*groups.values()], bool(_bold(sheet, groups))))
    if any(group.seen_is_matched for group in groups.values()) and "seen" in sheet.preset.measures:
        lines.append(
            "* seen accuracy after matching ids to classes; without a star, a prediction is correct "
            "if it is the id of the class"
        )
    if any(group.is_clustered_apart for group in groups.values()):
        lines.append(run_scores.ABOUT_CLUSTERED_APART)
    measures = ("seen", "novel", "all")
    own_rows = [tuple(100 * group.mean(measure) for measure in measures) for group in groups.values()]
    if set(measures) <= set(sheet.preset.measures) and has_low_all(own_rows):
        lines.append(ABOUT_LOW_ALL)
    lines.append("the paper's numbers are means of three runs without standard deviations")
    lines += _incomparable(sheet, scoring)
    lines += score_tables.notes_on_labels({_name(cell): cell.config for cell in sheet.all_cells})
    if any(cell.row is not None and paper_results.find_inconsistencies(cell.row) for cell in sheet.all_cells):
        lines.append(
            "† the paper's three numbers contradict each other, or are the same with 10 % and 50 % labels (see Compare)"
        )
    return lines


def _name(cell: Cell) -> str:
    return f"{cell.line.section} {cell.line.label}".strip() + f" {cell.block.title}"


def _incomparable(sheet: PaperTable, scoring: Sequence[str]) -> list[str]:
    """Explain why our numbers cannot be compared with the paper's: common reasons once, then those of single cells."""
    reasons: dict[str, list[str]] = {}
    for cell in sheet.all_cells:
        if cell.row is not None:
            protocol, select, *images = scoring
            _, why = paper_results.matching_row(
                cell.config, protocol, select, images=images[0] if images else "unlabeled"
            )
            reasons[_name(cell)] = why
    distinct = [why for why in reasons.values() if why]
    if not distinct:
        return []
    shared = [reason for reason in distinct[0] if all(reason in why for why in distinct)]
    if len(distinct) == len(reasons) and shared:
        return [f"not comparable with the paper ({'; '.join(shared)}); its numbers are only shown for orientation"]
    by_reason: dict[str, list[str]] = {}
    for label, why in reasons.items():
        if why:
            by_reason.setdefault("; ".join(why), []).append(label)
    return [f"not comparable with the paper: {' · '.join(labels)}: {reason}" for reason, labels in by_reason.items()]


def preset_curve(sheet: PaperTable, groups: Mapping[tuple[int, int], Group], block: int) -> tuple[dict, dict]:
    """Return (value -> runs, value -> the paper's line) of a preset with a `setting`, in one block."""
    our_runs, paper_values = {}, {}
    for i, value in enumerate(curve_positions(sheet)):
        row = sheet.cells[i][block].row
        if (i, block) in groups:
            our_runs[value] = groups[i, block]
        if row is not None:
            paper_values[value] = row
    return our_runs, paper_values


def curve_positions(sheet: PaperTable) -> list[float]:
    """Return the x positions of a curve's lines: their values, or labels of splits such as novel classes."""
    setting = sheet.preset.setting
    if setting.startswith("split."):
        return [float(line.label.removesuffix(" %")) for line in sheet.lines]
    return [line.settings[setting] for line in sheet.lines] if setting else []


# ---------------------------------------------------------------------------------------------------- to take away


def latex_of_grid(grid: Grid, caption: str = "") -> str:
    """Return the table for the LaTeX package booktabs. caption: a comment above it."""
    heads, rows = [("", 1), *((tables.escape_latex(title), len(columns)) for title, columns in grid.heads)], {}
    for row, (section, label, cells) in enumerate(grid.rows):
        texts = [tables.escape_latex(text) for text in cells]
        texts = [f"\\textbf{{{text}}}" if (row, k) in grid.bold else text for k, text in enumerate(texts)]
        rows.setdefault(section, []).append(tables.latex_row([tables.escape_latex(label), *texts]))
    width = sum(width for _, width in heads)
    for section in filter(None, rows):
        over_all = tables.latex_span(f"\\emph{{{tables.escape_latex(section)}}}", width, "l")
        rows[section].insert(0, tables.latex_row([over_all]))
    names = [
        tables.escape_latex(name) for name in (grid.first, *(name for _, columns in grid.heads for name in columns))
    ]
    tops = ["", *(tables.latex_span(*head) for head in heads[1:])]
    lines = [f"% {' '.join(text.split())}" for text in filter(None, [caption, *grid.notes])]
    top = [tables.latex_row(tops), tables.latex_rules(heads), tables.latex_row(names)]
    lines += tables.latex_table("l" + "c" * (width - 1), top, *rows.values())
    return "\n".join(lines).replace("–", "--") + "\n"


_CSV_HEAD = ("preset", "scale", "section", "line", "dataset", "labeled_ratio", "measure", "mean", "std", "n", "seeds")


def csv_rows(sheet: PaperTable, groups: Mapping[tuple[int, int], Group]) -> list[list[str]]:
    """Return one row per number (fractions), beside the number of the paper; the header first."""
    rows = [[*_CSV_HEAD, "paper_dataset", "paper", "against", "pairs", *score_tables.DIFFERENCE_CSV]]
    comparison, cells = differences.compare_groups(named_groups(sheet, groups)), list(groups)
    for i, line in enumerate(sheet.lines):
        for k, block in enumerate(sheet.blocks):
            cell, group = sheet.cells[i][k], groups.get((i, k))
            for measure in sheet.preset.measures:
                facts = [sheet.preset.name, sheet.request.scale, line.section, line.label, block.dataset]
                facts += [f"{cell.config.split_labeled_ratio:g}", measure]
                numbers = [group.mean(measure), group.std(measure)] if group else [math.nan, math.nan]
                seeds = [member.config.seed for member in group.members] if group else []
                paper_values = getattr(cell.row, measure) if cell.row is not None else None
                values = ["" if math.isnan(number) else f"{number:.6g}" for number in numbers]
                published = "" if paper_values is None else f"{paper_values / 100:.6g}"
                more = [str(len(seeds)), " ".join(map(str, seeds)), block.published, published]
                difference = comparison.differences.get((cells.index((i, k)), measure)) if group else None
                reference = ["", ""]
                if difference:
                    reference = [comparison.references[cells.index((i, k))].label, str(difference.pairs)]
                more += [tables.line_cell(text) for text in reference] + score_tables.difference_csv(difference)
                rows.append([tables.line_cell(text) for text in facts] + values + more)
    return rows
