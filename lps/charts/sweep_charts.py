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
    found = []
    for k, block in enumerate(sheet.blocks if setting else ()):
        ours, theirs = preset_tables.curve(sheet, groups, k)
        values = sorted({*ours, *theirs, *preset_tables.positions(sheet)})
        axis = Axis.of(_AXES.get(setting, setting), values)
        if not ours and not theirs:
            continue
        figure = effect_charts.curves(axis, values, ours, theirs, colors)
        words = f"{block.title}, dotted: the paper's {block.published}"
        found.append((words, figure, f"Seen, novel and all accuracy on {block.title} by {axis.setting}"))
    return found


def sheet_of(asked) -> PaperTable | None:
    """The table of what was asked for, where that is a preset."""
    return presets.sheet(asked) if isinstance(asked, presets.PresetRequest) else None
