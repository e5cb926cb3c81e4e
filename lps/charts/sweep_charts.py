"""Curves of a sweep over its varied setting."""

from collections.abc import Mapping

from lps.charts import effect_charts
from lps.charts.chart import Chart
from lps.charts.effect_charts import Axis
from lps.charts.palette import Palette
from lps.studies import preset_tables, presets
from lps.studies.presets import PaperTable

_AXES = {"split.num_seen": "Novel classes", "split.labeled_ratio": "Labeled, percent"}


def figures(table: PaperTable, groups: Mapping, colors: Palette) -> list[tuple[str, Chart, str]]:
    """Return (title, chart, alternative text) of every block of a preset that is a curve and has values."""
    setting = table.preset.setting
    charts = []
    for k, block in enumerate(table.blocks if setting else ()):
        our_runs, paper_rows = preset_tables.preset_curve(table, groups, k)
        values = sorted({*our_runs, *paper_rows, *preset_tables.curve_positions(table)})
        axis = Axis.from_values(_AXES.get(setting, setting), values)
        if not our_runs and not paper_rows:
            continue
        figure = effect_charts.curves(axis, values, our_runs, paper_rows, colors)
        title = f"{block.title}, dotted: the paper's {block.published}"
        charts.append((title, figure, f"Accuracy on seen, novel and all classes of {block.title} by {axis.setting}"))
    return charts


def paper_table_of(request) -> PaperTable | None:
    """Return the paper's table of a request for a preset, None for other requests."""
    return presets.build_paper_table(request) if isinstance(request, presets.PresetRequest) else None
