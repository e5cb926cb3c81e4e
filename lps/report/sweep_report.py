"""The report of a sweep as one file: its table in the paper's layout, all runs, hardware, cost, how to reproduce it.

A report names no machine, person or folder.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lps.analysis import run_scores, score_tables
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import REPEATED, Scored
from lps.charts import group_tables, sweep_charts
from lps.charts.event_log import EventLog
from lps.charts.group_tables import Scoring
from lps.charts.palette import LIGHT
from lps.errors import UserError, shorten
from lps.files import disk
from lps.report import run_report
from lps.report.documents import Block, ChartBlock, Code, Facts, Paragraphs, Section, Table
from lps.scheduler import costs
from lps.scores.measurement_names import COSTS, cost_text
from lps.scores.protocols import PROTOCOLS
from lps.settings import catalog, cli_args
from lps.settings.config import Config
from lps.settings.parameters import text_of
from lps.store import provenance
from lps.store.runs import Run, State
from lps.studies import preset_tables, sweeps
from lps.studies.preset_tables import Grid
from lps.studies.presets import PaperTable
from lps.studies.sweep_records import SweepRecord
from lps.wording import counted, data_size, estimated

_MISSING = "–"
_SHOWN_COSTS = ("throughput/images_per_s", "memory/host_gb", "memory/device_gb")
_MACHINE_FACTS = {"device": "Device", "torch": "PyTorch", "python": "Python", "lps": "LPS Studio", "commit": "Commit"}


@dataclass(frozen=True)
class _RunFacts:
    """One run of the sweep with its facts for the report. seconds: of its processes, None while unknown."""

    label: str
    config: Config | None
    run: Run | None
    state: State
    machine: dict
    seconds: float | None
    scored: Scored | None


def render_sweep_report(sweep: SweepRecord, root: Path, scoring: Scoring, now: datetime | None = None) -> str:
    """Render the report of a sweep; its unfinished runs are listed."""
    request = sweeps.from_record(sweep.request)
    items = sweeps.plan_unchecked_sweep(request, root, sweep.name).items if request else sweeps.tagged_items(sweep.runs)
    finished = [item.run for item in items if item.state.name == "finished"]
    scored, left_out = run_scores.score_all(finished, scoring.protocol, scoring.select, scoring.seen, scoring.images)
    score_by_run = {member.run.id: member for member in scored}
    item_facts = [_run_facts(item, score_by_run) for item in items]
    groups = group_tables.sorted_groups(scored, [item.config for item in items if item.config])
    paper_table = sweep_charts.paper_table_of(request)
    numbers = run_report.number_tables(groups) if groups else [Paragraphs(["No run has finished yet."])]
    sections = [
        Section("Setup", [Facts(_facts(sweep, item_facts, groups, scoring))]),
        *([_paper_section(paper_table, scored, scoring)] if paper_table else []),
        Section("Groups of runs" if paper_table else "Numbers", numbers),
        Section("Curves", run_report.curve_charts(groups) if groups else []),
        Section("Settings", _settings([item.config for item in item_facts if item.config])),
        Section("Hardware, time and cost", _cost(item_facts)),
        Section("Every run", [_run_table(item_facts), *run_report.left_out_table(left_out)]),
        Section("How to reproduce it", _reproduction(request, sweep, item_facts)),
    ]
    title = (
        f"{paper_table.preset.title} ({paper_table.preset.paper_location}), {request.scale} scale"
        if paper_table
        else f"Sweep {sweep.name}"
    )
    subtitle = [f"{sweep.name} · {counted(len(items), 'run')}, {len(finished)} finished", run_report.written_on(now)]
    return run_report.render_report(title, subtitle, sections)


def _run_facts(item: sweeps.Item, score_by_run: dict[str, Scored]) -> _RunFacts:
    if item.run is None:
        return _RunFacts(item.label, item.config, None, State("missing"), {}, None, None)
    return _RunFacts(
        item.label,
        item.config,
        item.run,
        item.state,
        provenance.machine_of(item.run),
        costs.run_seconds(item.run),
        score_by_run.get(item.run.id),
    )


# ---------------------------------------------------------------------------------------------------- what, numbers


def _facts(
    sweep: SweepRecord, item_facts: Sequence[_RunFacts], groups: Sequence[Group], scoring: Scoring
) -> list[tuple[str, str]]:
    configs = [item.config for item in item_facts if item.config]
    sets = dict.fromkeys(config.dataset for config in configs)
    methods = dict.fromkeys(config.method for config in configs)
    states = Counter(item.state.name for item in item_facts)
    splits = sorted({member.split for group in groups for member in group.members})
    return [
        ("Sweep", sweep.name),
        ("Data set", "; ".join(catalog.dataset_info(name).summary for name in sets)),
        ("Methods", ", ".join(catalog.method_info(name).title for name in methods)),
        ("Seeds", ", ".join(map(str, sorted({config.seed for config in configs})))),
        ("Runs", ", ".join(f"{count} {name}" for name, count in states.items())),
        ("Splits", ", ".join(splits) or _MISSING),
        ("Protocol", f"{scoring.protocol}: {PROTOCOLS[scoring.protocol]}"),
        ("Scored", f"{run_scores.IMAGES[scoring.images]}, at {run_scores.SELECTIONS[scoring.select]}"),
    ]


def _paper_section(paper_table: PaperTable, scored: Sequence[Scored], scoring: Scoring) -> Section:
    """Return the table in the paper's layout, and its curves."""
    groups = preset_tables.fill_table(paper_table, scored)
    grid = preset_tables.build_grid(paper_table, groups, (scoring.protocol, scoring.select, scoring.images))
    blocks: list[Block] = _grid_tables(grid)
    blocks += [Paragraphs([run_report.sentence(remark) for remark in grid.notes])]
    blocks += [
        ChartBlock(title, figure, alt) for title, figure, alt in sweep_charts.figures(paper_table, groups, LIGHT)
    ]
    blocks.append(Code("LaTeX", preset_tables.latex_of_grid(grid, paper_table.request.command()), True))
    return Section(f"{paper_table.preset.paper_location} of the paper, filled with these runs", blocks)


def _grid_tables(grid: Grid) -> list[Block]:
    """Return a table for each section of the grid."""
    heads = [grid.first, *(column for _, columns in grid.heads for column in columns)]
    above = [("", 1), *((title, len(columns)) for title, columns in grid.heads)]
    blocks: list[Block] = []
    for section in dict.fromkeys(section for section, _, _ in grid.rows):
        positions = [position for position, row in enumerate(grid.rows) if row[0] == section]
        rows = [[grid.rows[position][1], *grid.rows[position][2]] for position in positions]
        bold = frozenset((positions.index(row), cell + 1) for row, cell in grid.bold if row in positions)
        blocks.append(Table(section, heads, rows, bold=bold, above=above))
    return blocks


# ---------------------------------------------------------------------------------------------------- settings


def _settings(configs: Sequence[Config]) -> list[Block]:
    """Return tables of the settings that differ and of those that all runs share."""
    if not configs:
        return []
    settings = [provenance.shareable_settings(config) for config in configs]
    shared, differing = _shared_and_differing(settings)
    blocks: list[Block] = []
    if differing:
        texts = [tuple(_text(settings_of_run, key) for key in differing) for settings_of_run in settings]
        rows = [list(row) for row in dict.fromkeys(texts)]
        notes = ["– means that a method has no such setting."]
        blocks.append(Table("Settings that differ", differing, rows, notes, words=len(differing)))
    rows = [[key, text_of(value)] for key, value in shared.items()]
    return [*blocks, Table("Settings that all runs share", ["Setting", "Value"], rows, words=2)]


def _shared_and_differing(settings: Sequence[dict]) -> tuple[dict[str, object], list[str]]:
    """Return (shared settings, keys of the differing ones); keys of `REPEATED`, such as the seed, are neither."""
    keys = [
        key
        for key in dict.fromkeys(key for settings_of_run in settings for key in settings_of_run)
        if key not in REPEATED
    ]
    shared = [
        key
        for key in keys
        if all(key in settings_of_run and settings_of_run[key] == settings[0].get(key) for settings_of_run in settings)
    ]
    return {key: settings[0][key] for key in shared}, [key for key in keys if key not in shared]


def _text(settings: dict, key: str) -> str:
    return text_of(settings[key]) if key in settings else _MISSING


# ---------------------------------------------------------------------------------------------------- cost


def _cost(item_facts: Sequence[_RunFacts]) -> list[Block]:
    """Return hardware, time and disk space of the runs."""
    run_seconds = [item.seconds for item in item_facts if item.seconds is not None]
    training_seconds = sum(item.scored.time for item in item_facts if item.scored)
    rows = [(title, _counted(item_facts, key)) for key, title in _MACHINE_FACTS.items()]
    total = f"{estimated(sum(run_seconds))} in {counted(len(run_seconds), 'run')}, pretraining included; "
    total += "summed over runs, even if some ran at the same time"
    training = f"{estimated(training_seconds)} of training and evaluation in finished runs"
    size = sum(disk.folder_bytes(item.run.folder) for item in item_facts if item.run)
    rows += [("Time of the runs", total if run_seconds else _MISSING)]
    rows += [("Training", training if training_seconds else _MISSING), ("Disk", data_size(size))]
    return [Facts([*rows, *_speeds(item_facts)])]


def _counted(item_facts: Sequence[_RunFacts], key: str) -> str:
    """Return every value with its number of runs; "not recorded" for older runs."""
    counts = Counter(str(item.machine.get(key) or "not recorded") for item in item_facts if item.run)
    if len(counts) <= 1:
        return next(iter(counts), _MISSING)
    return ", ".join(f"{value} ({counted(count, 'run')})" for value, count in counts.most_common())


def _speeds(item_facts: Sequence[_RunFacts]) -> list[tuple[str, str]]:
    histories = [EventLog(item.run.events).read_history() for item in item_facts if item.scored]
    rows = []
    for name in _SHOWN_COSTS:
        values = sorted(history.column(name).max() for history in histories if len(history.column(name)))
        if values and values[-1] > 0:
            texts = dict.fromkeys(cost_text(name, value) for value in (values[0], values[-1]))
            rows.append((COSTS[name][0], " to ".join(texts)))
    return rows


def _run_table(item_facts: Sequence[_RunFacts]) -> Table:
    heads = [
        "Run",
        "Seed",
        "State",
        "Epoch",
        *(head for head, _ in group_tables.SCORE_COLUMNS.values()),
        "Whole run, s",
        "Id",
    ]
    return Table("", heads, [_run_row(item) for item in item_facts], words=1)


def _run_row(item: _RunFacts) -> list[str]:
    member = item.scored
    columns = list(group_tables.SCORE_COLUMNS)
    numbers = (
        [score_tables.format_cell(Group("", (member,)), c) for c in columns] if member else [_MISSING] * len(columns)
    )
    cells = [item.label, str(item.config.seed) if item.config else _MISSING, item.state.name]
    seconds_text = _MISSING if item.seconds is None else f"{item.seconds:.0f}"
    return [
        *cells,
        str(member.epoch) if member else _MISSING,
        *numbers,
        seconds_text,
        item.run.id[-6:] if item.run else _MISSING,
    ]


# ---------------------------------------------------------------------------------------------------- made again


def _reproduction(request, sweep: SweepRecord, item_facts: Sequence[_RunFacts]) -> list[Block]:
    """Return the command of the sweep, those of single runs, versions and settings."""
    configs = [item.config for item in item_facts if item.config]
    blocks: list[Block] = []
    if request is not None:
        blocks.append(Code("The whole sweep", _shareable_command(request.command(sweep.name), configs)))
    blocks.append(Code("Its table", cli_args.format_command("compare", tag=sweep.tag)))
    single = "\n".join(dict.fromkeys(map(provenance.train_command, configs)))
    blocks.append(Code("Single runs", single, is_folded=request is not None))
    settings = {item.label: provenance.shareable_settings(item.config) for item in item_facts if item.config}
    return [*blocks, *run_report.versions_and_settings(settings)]


def _shareable_command(command: str, configs: Sequence[Config]) -> str:
    """Return the command with paths of this machine replaced by /path/to/."""
    for config in configs:
        for key in provenance.PATHS:
            path = config.flat().get(key)
            if path:
                command = command.replace(str(path), f"/path/to/{Path(str(path)).name}")
    return command


def find_sweep(sweep_records_of_root: Sequence[SweepRecord], tag: str) -> SweepRecord:
    """Return the sweep with a tag; raises `UserError` if there is none."""
    for sweep in sweep_records_of_root:
        if sweep.tag == tag:
            return sweep
    names = ", ".join(sweep.tag for sweep in sweep_records_of_root[:20]) or "none yet"
    raise UserError("tag", f"{shorten(tag)} has no runs here; choices: {names}")
