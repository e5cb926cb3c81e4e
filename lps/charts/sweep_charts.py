"""Curves of a sweep along what it varied."""

from collections.abc import Mapping

from lps.charts import effect_charts
from lps.charts.chart import Chart
from lps.charts.effect_charts import Axis
from lps.charts.palette import Palette
from lps.studies import preset_tables, presets
from lps.studies.presets import PaperTable

_AXES = {"split.num_seen": "Novel classes", "split.labeled_ratio": "Labeled, percent"}


def figures(sheet: PaperTable, groups: Mapping, colors: Palette) -> list[tuple[str, Chart, str]]:
    """(words above, figure, what it shows) of every block of a preset that is a curve; empty while there is nothing."""
    setting = sheet.preset.setting
    figures_found = []
    for k, block in enumerate(sheet.blocks if setting else ()):
        our_runs, theirs = preset_tables.preset_curve(sheet, groups, k)
        values = sorted({*our_runs, *theirs, *preset_tables.curve_positions(sheet)})
        axis = Axis.from_values(_AXES.get(setting, setting), values)
        if not our_runs and not theirs:
            continue
        figure = effect_charts.curves(axis, values, our_runs, theirs, colors)
        words = f"{block.title}, dotted: the paper's {block.published}"
        figures_found.append((words, figure, f"Seen, novel and all accuracy on {block.title} by {axis.setting}"))
    return figures_found


def sheet_of(request) -> PaperTable | None:
    """The table of what was asked for, where that is a preset."""
    return presets.build_paper_table(request) if isinstance(request, presets.PresetRequest) else None
