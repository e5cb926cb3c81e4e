"""The report of a run, or of a comparison, as one HTML file: numbers, charts, settings, how to reproduce it.

A report names no machine, person or folder. Texts of runs are shown literally.
"""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from lps.analysis import clusters, differences, labels, naming, run_groups, run_index, run_scores, score_tables
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts import class_bars, confusion, group_tables, line_charts
from lps.charts.event_log import EventLog, History
from lps.charts.group_tables import SCORE_COLUMNS, Scoring
from lps.charts.palette import LIGHT
from lps.data.split import Split
from lps.errors import UserError, shorten
from lps.files.atomic import clean_line
from lps.report import documents
from lps.report.documents import Block, ChartBlock, Code, Facts, Paragraphs, Section, Table
from lps.scores.measurement_names import MEASUREMENT_NAMES, measurement_name
from lps.scores.protocols import PROTOCOLS
from lps.settings import backbone_names, catalog, given_prior
from lps.settings.config import Config, protocol_parameters
from lps.store import provenance, snapshots, titles
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.wording import capitalized, counted

_BASELINES = {f"accuracy/{name}": f"baseline/kmeans/{name}" for name in ("seen", "novel", "all")}
_BASELINES["nmi/novel"] = "baseline/kmeans/nmi"
_CURVES = ("accuracy/novel", "accuracy/seen", "accuracy/all", "kl")
_ABOUT_CURVES = (
    "Each line is the mean of n runs at each epoch. The band is the range from the lowest run to the highest. The "
    "values were recorded during training under the default protocol. Seen accuracy is raw or "
    "matched, depending on the method."
)
_MISSING = "–"
_FOOTER = "Made by LPS Studio. This file is complete and works offline."
_ORACLE = "the best epoch by accuracy on all unlabeled images (an oracle: it uses hidden labels)"
_WITHHELD = "the best epoch by accuracy on labeled images whose label was withheld from training"


def encode_report(text: str) -> bytes:
    """Encode a report as the bytes of its file."""
    return text.encode("utf-8", "replace")


def render_report(title: str, subtitle: Sequence[str], sections: Sequence[Section]) -> str:
    """Render a report as HTML."""
    return documents.render(title, subtitle, sections, _FOOTER)


def check_name(name: str) -> None:
    """Raise `UserError` if the name of a file does not end in .html or .htm."""
    ending = name.lower().rpartition(".")[2] if "." in name else ""
    if ending in ("tex", "ltx"):
        reason = "reports are HTML files; for LaTeX tables use compare --format latex, and save the charts as SVG"
        raise UserError("to", f"{shorten(name)}: {reason}")
    if ending not in ("html", "htm"):
        raise UserError("to", f"{shorten(name)} is not a report file; expected a name that ends in .html")


def render_run_report(runs: Sequence[Run], scoring: Scoring, now: datetime | None = None) -> str:
    """Render the report of one run or a comparison; raises `UserError` if none of several runs can be scored."""
    if len(runs) == 1:
        return report_of_run(runs[0], now)
    scored, left_out = run_scores.score_all(runs, scoring.protocol, scoring.select, scoring.seen, scoring.images)
    if not scored:
        raise UserError("report", f"none of the {len(runs)} runs can be scored; {left_out[0][1]}")
    return report_of_comparison(scored, left_out, scoring, now)


def written_on(now: datetime | None) -> str:
    return f"Written {(now or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


# ---------------------------------------------------------------------------------------------------- one run


def report_of_run(run: Run, now: datetime | None = None) -> str:
    """Render the report of a run from its records so far; raises `UserError` for settings that cannot be read."""
    config, history, summary = run.config(), EventLog(run.events).read_history(), summarize(run)
    method = catalog.method_info(config.method)
    sections = [
        Section("Setup", [Facts(_facts(run, config, history)), *_notes(run)]),
        Section("Numbers", _number_table(run, history, summary)),
        Section("Pace", _pace_charts(config, history)),
        Section("Classes", _class_charts(run, history)),
        Section("Loss and pseudo-labels", _loss_charts(config, history)),
        Section(
            "How to reproduce it",
            _reproduction([config], provenance.shareable_settings(config), threads=history.start.get("threads")),
        ),
    ]
    subtitle = [f"{method.title} on {config.dataset}, seed {config.seed} · {run.id}", written_on(now)]
    return render_report(titles.run_title(run), subtitle, sections)


def _facts(run: Run, config: Config, history: History) -> list[tuple[str, str]]:
    state, start = run.state(), history.start
    course = run_scores.read_course(run)
    seconds = course.seconds
    pretrain_seed = config.seed if config.pretrain_seed is None else config.pretrain_seed
    rows = [
        ("Method", catalog.method_info(config.method).summary),
        ("Data set", catalog.dataset_info(config.dataset).summary),
        ("Split", _split_in_words(config, start)),
        ("Images", _images_in_words(start)),
        *_prior_facts(config),
        ("Seeds", f"run {config.seed}, pretraining {pretrain_seed}, split {config.split_seed}"),
        (
            "Training",
            f"{history.last_epoch} of {counted(config.epochs, 'epoch')}, batches of {config.batch_size}, "
            f"{course.precision(config)}",
        ),
        ("Start", _start_in_words(config)),
        ("Network", f"{config.network_name}, {_count(start.get('parameters'), 'parameter')}"),
        ("Machine", _machine_in_words(run, config, history)),
        ("Trained with", _hardware_in_words(run)),
        ("Time", f"{seconds:.0f} s of training and evaluation, without pretraining" if seconds else _MISSING),
        ("State", f"{state.name}{': ' if state.reason else ''}{state.reason}"),
        *_alarm_facts(run),
    ]
    return [*rows, *([("Tags", ", ".join(run.meta()["tags"]))] if run.meta()["tags"] else [])]


def _prior_facts(config: Config) -> list[tuple[str, str]]:
    """Return the prior unless it is the uniform one of the papers."""
    if config.prior == "uniform":
        return []
    text = protocol_parameters()["prior"].shown(config.prior)
    return [("Prior", f"{text}. {given_prior.ABOUT_ORACLE}" if config.uses_hidden_labels else text)]


def _alarm_facts(run: Run) -> list[tuple[str, str]]:
    """Return the alarms of the newest epoch, as on the page of the run."""
    alarm_lines = [
        f"{alarm.title} at epoch {alarm.epoch}: {alarm.words}." for alarm in run_index.measure_run(run).alarms
    ]
    return [("Alarms", " ".join(alarm_lines))] if alarm_lines else []


def _split_in_words(config: Config, start: dict) -> str:
    seen, total = start.get("classes/seen"), start.get("classes/total")
    counts = f"{seen:.0f} of {counted(total, 'class')} seen" if seen and total else "seen classes"
    if config.split_index_files:
        return f"{counts}, index files of {shorten(config.split_index_files, 120)}"
    share = run_groups.setting_in_words("split.labeled_ratio", config.split_labeled_ratio)
    sentence = f"{counts} ({config.split_seen_classes}), {share} ({config.split_rule}), split seed {config.split_seed}"
    if config.split_imbalance > 1:
        sentence += f", class sizes {config.split_imbalance:g} to 1 ({config.split_imbalance_order})"
    if config.split_labeled_imbalance > 1:
        sentence += f", labels per class {config.split_labeled_imbalance:g} to 1"
    return sentence


def _images_in_words(start: dict) -> str:
    labels = {
        "labeled": "labeled",
        "unlabeled": "unlabeled",
        "validation": "with a withheld label",
        "test": "for testing",
    }
    counts = [(start.get(f"images/{name}"), label) for name, label in labels.items()]
    return ", ".join(f"{count:,.0f} {label}" for count, label in counts if count) or _MISSING


def _start_in_words(config: Config) -> str:
    if config.network_start == "simclr":
        return f"{counted(config.pretrain_epochs, 'epoch')} of SimCLR" if config.pretrain_epochs else "random weights"
    if config.rests_on_labels:
        return f"published weights. {backbone_names.ABOUT_LABELS}."
    published = dict.fromkeys(("published", "torchvision"), "published weights")
    return ({"checkpoint": "weights of a file"} | published).get(config.network_start, "random weights")


def _machine_in_words(run: Run, config: Config, history: History) -> str:
    """Describe device, threads, speed and memory, as far as they were recorded."""
    slots = [slot for slot in str(run.read_json("process.json").get("slot") or "").split(",") if slot]
    gpus = sum(slot.startswith("cuda") for slot in slots)
    parts = [counted(gpus, "GPU") if gpus else "CPU" if slots else f"device {config.device}"]
    parts += [_count(history.start["threads"], "thread")] if history.start.get("threads") else []
    parts += [f"{config.processes} processes"] if config.processes > 1 else []
    speed = history.column("throughput/images_per_s")
    parts += [f"{speed.median():,.0f} images/s"] if len(speed) else []
    for name, label in (("host", "memory"), ("device", "GPU memory")):
        used = history.column(f"memory/{name}_gb")
        parts += [f"{used.max():.2f} GB {label}"] if len(used) and used.max() > 0 else []
    return ", ".join(parts)


def _hardware_in_words(run: Run) -> str:
    """Describe the device and the versions that the training process recorded."""
    machine = provenance.machine_of(run)
    parts = [
        machine.get("device"),
        *(f"{name} {machine[name]}" for name in ("torch", "python", "lps", "commit") if name in machine),
    ]
    return ", ".join(filter(None, parts)) or _MISSING


def _count(value, noun: str) -> str:
    return counted(value, noun) if value else f"{noun}s not recorded"


def _notes(run: Run) -> list[Block]:
    lines = [clean_line(line, 2000) for line in run.meta()["notes"].split("\n")]
    return [Paragraphs([f"Notes: {lines[0]}", *lines[1:]])] if any(lines) else []


def _number_table(run: Run, history: History, summary: dict) -> list[Block]:
    if not summary["epochs"]:
        return [Paragraphs(["No epoch has been evaluated yet."])]
    best, last = summary["best"], summary["last"]
    best_by = _WITHHELD if summary["best_by"] == "accuracy/validation" else _ORACLE
    baseline = {name: history.start.get(start) for name, start in _BASELINES.items()}
    names = [name for name in MEASUREMENT_NAMES if _is_number(last.get(name)) or _is_number(baseline.get(name))]
    rows = [
        [_with_unit(name), *(_number(name, values.get(name)) for values in (last, best, baseline))] for name in names
    ]
    heads = [
        "",
        f"Last, epoch {history.last_epoch}",
        f"Best, epoch {best['epoch']}" if best else "Best",
        "k-means before",
    ]
    notes = ["On the unlabeled images, under the default protocol.", f"Best: {best_by}."]
    notes.append("The last column shows k-means on the features of the start weights, before training.")
    if (
        any(name.startswith("test/") for name in names)
        and run_scores.read_course(run).test_clusters(run.config()) == "test"
    ):
        rows = [[f"{row[0]}‡" if row[0].startswith("Test images") else row[0], *row[1:]] for row in rows]
        notes.append(sentence(run_scores.ABOUT_CLUSTERED_APART))
    return [Table("", heads, rows, [*notes, *_paper_notes(run)])]


def _with_unit(name: str) -> str:
    unit = {"kl": "", "accuracy/gap": ", points", "accuracy/conflict": ", points"}.get(name, ", %")
    return f"{measurement_name(name)}{unit}"


def _number(name: str, value) -> str:
    """Format a measurement: percent and points with one decimal, KL with three."""
    if not _is_number(value):
        return _MISSING
    return f"{value:.3f}" if name == "kl" else f"{round(100 * value, 1) + 0.0:.1f}"


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _paper_notes(run: Run) -> list[str]:
    """Return the paper's numbers of the same experiment, or why there are none."""
    try:
        groups = run_groups.group_runs([run_scores.score_run(run)])
    except UserError:
        return []
    cell = score_tables.paper_cell(groups[0])
    published = [f"The paper's seen / novel / all: {cell}."] if cell != "-" else []
    return published + [sentence(remark) for remark in score_tables.notes_on_paper(groups)]


def sentence(text: str) -> str:
    return capitalized(text) + "."


def _axis_end(config: Config, history: History) -> int:
    return max(config.epochs, history.last_epoch)


def _pace_charts(config: Config, history: History) -> list[Block]:
    blocks: list[Block] = []
    if len(history.epochs):
        alt = "Seen and novel accuracy with the gap between them, KL, mean margins and thresholds over the epochs"
        figure = line_charts.pace(history, _axis_end(config, history), LIGHT)
        note = "The band is the gap between seen and novel accuracy."
        blocks.append(ChartBlock("Accuracy, KL, margins and thresholds", figure, alt, note))
    if len(history.pretrain) > 1:
        epochs = max(config.pretrain_epochs, int(history.pretrain.index[-1]))
        alt = "SimCLR loss and quality of the features over the epochs of pretraining"
        blocks.append(ChartBlock("Pretraining", line_charts.pretraining(history, epochs, LIGHT), alt))
    return blocks


def _loss_charts(config: Config, history: History) -> list[Block]:
    epochs, blocks = _axis_end(config, history), []
    if any(name.startswith("loss/") for name in history.epochs):
        figure = line_charts.losses(history, epochs, LIGHT)
        blocks.append(
            ChartBlock("Loss terms", figure, "The terms of the loss over the epochs", "Weighted as in the total loss.")
        )
    if any(name.startswith("pseudo_label/") for name in history.epochs):
        alt = "Share of images with a pseudo-label, and the confidence of these pseudo-labels, over the epochs"
        blocks.append(
            ChartBlock("Pseudo-labels", line_charts.pseudo_labels(history, epochs, LIGHT), alt, "Share and confidence.")
        )
    return blocks


# ---------------------------------------------------------------------------------------------------- classes


def _class_charts(run: Run, history: History) -> list[Block]:
    """Draw estimated shares, accuracy by class and the confusion matrix of the last epoch, if they are stored."""
    try:
        split, targets = snapshots.read_split(run.folder)
    except UserError:
        return []
    names = [clean_line(name) for name in split.class_names]
    blocks: list[Block] = []
    epoch, seen = history.last_epoch, split.classes.seen
    estimated, accuracy = history.vector("pi_hat", epoch), history.vector("class/accuracy", epoch)
    if estimated is not None and len(estimated) == len(names):
        top, prior = float(np.nanmax(estimated)), history.vector("class/prior", epoch)
        figure = class_bars.class_distribution(estimated, seen, names, LIGHT, top, prior)
        alt = f"Estimated class distribution at epoch {epoch}, compared with the prior"
        blocks.append(ChartBlock("Estimated class distribution", figure, alt, f"Epoch {epoch}; dashed: the prior."))
    if accuracy is not None and len(accuracy) == len(names):
        figure = class_bars.class_accuracy(accuracy, seen, names, LIGHT)
        alt = f"Accuracy of every class at epoch {epoch}"
        blocks.append(ChartBlock("Accuracy by class", figure, alt, f"Epoch {epoch}, after matching."))
    return blocks + _confusion_chart(run, split, targets, names)


def _confusion_chart(run: Run, split: Split, targets: np.ndarray, names: list[str]) -> list[Block]:
    epochs = snapshots.snapshot_epochs(run.snapshots)
    try:
        network = clusters.read_assignment(run, epochs[-1], split)
        decisions = naming.naming_of_epoch(naming.read_entries(run), epochs[-1])
        defaults = labels.default_names(run, split)
    except (UserError, IndexError):
        return []
    assigned = labels.clusters_of(decisions, network.predicted, split.unlabeled)
    ids = labels.cluster_ids(decisions, network.predicted, split.classes.total)
    counts = clusters.confusion_counts(assigned, targets[split.unlabeled], ids, len(names))
    if not counts.any():
        return []
    matched = clusters.match_classes(counts)
    order = sorted(range(len(ids)), key=lambda i: (matched[i] < 0, matched[i], ids[i]))
    rows = [clean_line(labels.title_of(int(ids[i]), decisions, defaults)) for i in order]
    figure = confusion.figure(counts[order], rows, names, split.classes.seen, LIGHT)
    alt = f"Images of every class in each cluster at epoch {epochs[-1]}"
    caption = f"Epoch {epochs[-1]}. Clusters are sorted by their matched class.{_describe_user_changes(decisions)}"
    return [ChartBlock("Confusion matrix", figure, alt, caption)]


def _describe_user_changes(decisions: naming.Naming) -> str:
    """Describe a user's changes to the clusters; empty without any."""
    decisions_by_verb = {
        "named": decisions.names,
        "merged": decisions.parents,
        "split": decisions.created_clusters,
        "corrected": decisions.moved or decisions.wrong_clusters or decisions.classless_images or decisions.rejected,
    }
    verbs = [verb for verb, changed in decisions_by_verb.items() if changed]
    return f" A user has {' and '.join(verbs)} clusters." if verbs else ""


# ---------------------------------------------------------------------------------------------------- comparison


def report_of_comparison(
    scored: Sequence[Scored], left_out: Sequence[tuple[Run, str]], scoring: Scoring, now: datetime | None = None
) -> str:
    """Render the report of scored runs. left_out: runs without scores and the reason."""
    groups = group_tables.sorted_groups(scored)
    members = [member for group in groups for member in (*group.members, *group.replaced)]
    methods = list(dict.fromkeys(catalog.method_info(group.config.method).title for group in groups))
    sets = list(dict.fromkeys(group.config.dataset for group in groups))
    # The commands tell the seeds
    settings = {group.label: provenance.shareable_settings(group.config) for group in groups}
    table = Code("The table, on the machine of these runs", group_tables.compare_command(groups, scoring))
    sections = [
        Section("Compared runs", [Facts(_about_comparison(groups, members, scoring))]),
        Section("Numbers", number_tables(groups)),
        Section("Curves", curve_charts(groups)),
        Section("Settings that differ", _differing_settings(groups)),
        Section("Every run", [_run_table(groups), *left_out_table(left_out)]),
        Section("How to reproduce it", _reproduction([m.config for m in members], settings, [table])),
    ]
    names = ", ".join(methods) if len(methods) <= 4 else f"{len(methods)} methods"
    subtitle = [f"{counted(len(members), 'run')} in {counted(len(groups), 'group')}", written_on(now)]
    return render_report(f"{names} on {', '.join(sets)}", subtitle, sections)


def _about_comparison(groups: Sequence[Group], members: Sequence[Scored], scoring: Scoring) -> list[tuple[str, str]]:
    sets = dict.fromkeys(group.config.dataset for group in groups)
    seeds = sorted({member.config.seed for member in members})
    splits = sorted({member.split for member in members})
    seconds = sum(member.time for member in members)
    return [
        ("Data set", "; ".join(catalog.dataset_info(name).summary for name in sets)),
        ("Methods", ", ".join(dict.fromkeys(catalog.method_info(group.config.method).title for group in groups))),
        ("Seeds", ", ".join(map(str, seeds))),
        ("Splits", ", ".join(splits) + "; numbers of different splits cannot be compared" * (len(splits) > 1)),
        ("Protocol", f"{scoring.protocol}: {PROTOCOLS[scoring.protocol]}"),
        ("Scored", f"{run_scores.IMAGES[scoring.images]}, at {run_scores.SELECTIONS[scoring.select]}"),
        ("Seen accuracy", group_tables.SEEN_LABELS[scoring.seen].lower()),
        ("Time", f"{seconds:,.0f} s of training and evaluation in all, without pretraining"),
    ]


def number_tables(groups: Sequence[Group]) -> list[Block]:
    """Return the table of groups, their differences, and the table as LaTeX."""
    return [
        _group_table(groups),
        *_difference_table(groups),
        Code("LaTeX", score_tables.format_table(groups, "latex"), True),
    ]


def _group_table(groups: Sequence[Group]) -> Table:
    """Return the table of the Compare page."""
    has_paper = score_tables.has_paper(groups)
    heads = ["Group", *(head for head, _ in SCORE_COLUMNS.values()), "n", *["Paper"] * has_paper]
    rows = [
        [
            g.label,
            *(score_tables.format_cell(g, column) for column in SCORE_COLUMNS),
            str(len(g.members)),
            *[score_tables.paper_cell(g)] * has_paper,
        ]
        for g in groups
    ]
    column_numbers = {column: i for i, column in enumerate(SCORE_COLUMNS, 1)}
    bold = frozenset((row, column_numbers[column]) for row, column in differences.best_cells(groups))
    caption = "Mean ± sample standard deviation over n seeds; percent, points and seconds."
    published = f"Paper: {score_tables.ABOUT_PAPER_CELL}."
    marks = map(sentence, score_tables.about_marks(groups))
    notes = [caption, *marks, *[published] * has_paper, *map(sentence, score_tables.table_notes(groups, scoring=False))]
    labels = map(group_tables.group_label, groups)
    if symbols := titles.explain_symbols(labels, (group.config.method for group in groups)):
        notes.append(f"The page Compare writes settings as symbols: {symbols}.")
    return Table("", heads, rows, notes, bold)


def _difference_table(groups: Sequence[Group]) -> list[Block]:
    """Return the differences of every group from its baseline, with notes; empty if no groups are comparable."""
    comparison = differences.compare_groups(groups)
    if not comparison.differences:
        return []
    columns = list(differences.COLUMNS)
    position_by_row = {row: position for position, row in enumerate(comparison.rows)}
    bold = frozenset((position_by_row[row], columns.index(column) + 2) for row, column in comparison.bold)
    notes = [
        sentence(remark)
        for remark in [*differences.explain_differences(comparison), *differences.undecided_in_words(comparison)]
    ]
    heads = ["Group", "Baseline", *(SCORE_COLUMNS[column][0] for column in columns), "Seeds"]
    return [Table("Differences, points", heads, score_tables.difference_rows(comparison), notes, bold, words=2)]


def curve_charts(groups: Sequence[Group]) -> list[Block]:
    """Draw one chart per measurement; a group has the same colour in all of them."""
    histories = [[EventLog(member.run.events).read_history() for member in group.members] for group in groups]
    members = {clean_line(group.label): group.members for group in groups}
    scored = [member for group in groups for member in (*group.members, *group.replaced)]
    color_by_curve = group_tables.curve_colors(members, scored, LIGHT)
    blocks: list[Block] = []
    for name in _CURVES:
        tables = [group_tables.curve_table(group_histories, name, "range") for group_histories in histories]
        curves = [line_charts.GroupCurve(label, table) for label, table in zip(members, tables) if len(table)]
        if not curves:
            continue
        epochs = max(int(curve.table.index[-1]) for curve in curves)
        tick_format = group_tables.tick_format(name, curves)
        figure = line_charts.curves_of_groups(curves, epochs, tick_format, LIGHT, color_by_curve)
        title = measurement_name(name)
        blocks.append(ChartBlock(title, figure, f"{title} of {counted(len(curves), 'group')} of runs over the epochs"))
    return [*blocks, Paragraphs([_ABOUT_CURVES])] if blocks else []


def _differing_settings(groups: Sequence[Group]) -> list[Block]:
    if len(groups) == 1:
        return [Paragraphs(["There is only one group: its runs differ only in the seed."])]
    table = group_tables.settings_table(groups)
    rows = table.astype(str).to_numpy().tolist()
    notes = ["A setting that only some methods have is listed if a run has changed it."]
    return [Table("", list(table), rows, notes, words=len(table.columns))]


def _run_table(groups: Sequence[Group]) -> Table:
    heads = ["Run", "Group", "Seed", "Epoch", *(head for head, _ in SCORE_COLUMNS.values()), "Remark"]
    rows = []
    for group in groups:
        rows += [_run_row(group.label, m, "" if m.is_complete else "ended early") for m in group.members]
        rows += [_run_row(group.label, m, "not used: another run has the same seed") for m in group.replaced]
    return Table("", heads, rows, words=2)


def _run_row(label: str, member: Scored, remark: str) -> list[str]:
    single = Group(label, (member,))
    number_tables = [score_tables.format_cell(single, column) for column in SCORE_COLUMNS]
    return [titles.run_label(member.run), label, str(member.config.seed), str(member.epoch), *number_tables, remark]


def left_out_table(left_out: Sequence[tuple[Run, str]]) -> list[Block]:
    rows = [[titles.run_label(run), reason] for run, reason in left_out]
    return [Table("Left out", ["Run", "Reason"], rows, words=2)] if rows else []


# ---------------------------------------------------------------------------------------------------- reproduction


def _reproduction(
    configs: Sequence[Config], settings: dict, further_blocks: Sequence[Block] = (), threads=None
) -> list[Block]:
    """Return commands, further blocks, versions and all settings."""
    commands = "\n".join(dict.fromkeys(map(provenance.train_command, configs)))
    blocks = []
    if threads and configs[0].threads is None:
        blocks.append(
            f"The run used {_count(threads, 'thread')}; a different number gives slightly different results "
            "(--set threads=N)."
        )
    if any(config.flat()[key] for config in configs for key in provenance.PATHS):
        blocks.append("/path/to/ stands for folders of the training machine.")
    return [
        Code("Commands" if "\n" in commands else "Command", commands),
        *([Paragraphs(blocks)] if blocks else []),
        *further_blocks,
        *versions_and_settings(settings),
    ]


def versions_and_settings(settings: dict) -> list[Block]:
    """Return the versions of programs on this machine, and the settings."""
    versions = provenance.package_versions() | (
        {"commit": program_commit} if (program_commit := provenance.git_commit()) else {}
    )
    return [
        Code("Versions on the machine of this report", "\n".join(f"{name} {text}" for name, text in versions.items())),
        Code("All settings as JSON", json.dumps(settings, indent=2, allow_nan=False), is_folded=True),
    ]
