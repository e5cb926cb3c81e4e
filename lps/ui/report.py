"""A run, or a comparison, as one HTML file to keep and to hand on: numbers, charts, settings, how to make it again.

What a report tells names no machine, no person and no folder. Text of runs is shown as it is written.
"""

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np
import streamlit as st

from lps import catalog, clusters, compare, hardware, labels, naming, provenance, snapshots
from lps.compare import Group, Scored
from lps.config import Config
from lps.files import clean_line
from lps.parameters import ConfigError, shorten
from lps.protocols import PROTOCOLS
from lps.runs import Run
from lps.split import Split
from lps.summary import summarize
from lps.ui import charts, comparison, confusion, documents, latex_documents, select, shelf, style
from lps.ui.comparison import HEADS, Scoring
from lps.ui.documents import Block, Chart, Code, Facts, Section, Table, Words
from lps.ui.live import EventLog, History
from lps.ui.style import LIGHT

MEASURES = {
    "accuracy/seen": "Seen accuracy, %",
    "accuracy/novel": "Novel accuracy, %",
    "accuracy/all": "Accuracy on all, %",
    "accuracy/gap": "Gap, seen minus novel, points",
    "accuracy/conflict": "Conflict of the matchings, points",
    "accuracy/validation": "Accuracy on withheld labels, %",
    "nmi/novel": "NMI of novel images, %",
    "nmi/all": "NMI of all images, %",
    "ari/novel": "ARI of novel images, %",
    "test/accuracy/seen": "Test images: seen, %",
    "test/accuracy/novel": "Test images: novel, %",
    "test/accuracy/all": "Test images: all, %",
    "kl": "KL of the estimated class distribution",
}
BASELINES = {f"accuracy/{name}": f"baseline/kmeans/{name}" for name in ("seen", "novel", "all")}
BASELINES["nmi/novel"] = "baseline/kmeans/nmi"
CURVES = ("accuracy/novel", "accuracy/seen", "accuracy/all", "kl")
ABOUT_CURVES = (
    "Each line is the mean of n runs at each epoch, its band goes from the lowest to the highest. As recorded while "
    "training: protocol orca, seen accuracy by method."
)
MISSING = "–"
FORMS = ("html", "latex")
ENDINGS = {"html": "html", "htm": "html", "tex": "latex", "ltx": "latex"}
FOOTER = "Made by LPS Studio. This file holds everything that it shows and asks for nothing from elsewhere."
ORACLE = "the best epoch by accuracy on all unlabeled images, an oracle: it looks at truth that nobody has in use"
WITHHELD = "the best epoch by accuracy on labeled images whose label was withheld from training"


def offer(make: Callable[[], str], name: str) -> None:
    """A button that makes the report when it is pressed, and not before."""
    st.download_button(
        "Report",
        lambda: as_bytes(make()),
        file_name=f"{name}.html",
        mime="text/html",
        key="report",
        on_click="ignore",
        icon=":material/summarize:",
        help="One HTML file with numbers, charts, settings and how to make it again; it opens without a network.",
    )


def as_bytes(text: str) -> bytes:
    """The file of a report."""
    return text.encode("utf-8", "replace")


def written(title: str, about: Sequence[str], sections: Sequence[Section], form: str) -> str:
    """The file in one of `FORMS`."""
    render = {"html": documents.render, "latex": latex_documents.render}[form]
    return render(title, about, sections, FOOTER)


def form_of(name: str) -> str:
    """Which of `FORMS` a file of that name has; raises `ConfigError` for one that no report is written as."""
    ending = name.lower().rpartition(".")[2] if "." in name else ""
    if ending not in ENDINGS:
        raise ConfigError("to", f"{shorten(name)} does not end as a report does; choices: .html, .tex")
    return ENDINGS[ending]


def of(runs: Sequence[Run], scoring: Scoring, now: datetime | None = None, form: str = "html") -> str:
    """The report of one run, or of several compared; raises `ConfigError` where none of several can be scored."""
    if len(runs) == 1:
        return of_run(runs[0], now, form)
    scored, left_out = compare.score_all(runs, scoring.protocol, scoring.select, scoring.seen, scoring.images)
    if not scored:
        raise ConfigError("report", f"none of the {len(runs)} runs can be scored; {left_out[0][1]}")
    return of_comparison(scored, left_out, scoring, now, form)


def date(now: datetime | None) -> str:
    return f"Written {(now or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


# ---------------------------------------------------------------------------------------------------- one run


def of_run(run: Run, now: datetime | None = None, form: str = "html") -> str:
    """The report of a run, of as much as it has recorded; raises `ConfigError` for settings that cannot be read."""
    config, past, found = run.config(), EventLog(run.events).read(), summarize(run)
    method = catalog.method_info(config.method)
    sections = [
        Section("What was run", [Facts(_facts(run, config, past)), *_notes(run)]),
        Section("Numbers", _numbers(run, past, found)),
        Section("Pace", _pace(config, past)),
        Section("Classes", _classes(run, past)),
        Section("Loss and pseudo-labels", _losses(config, past)),
        Section(
            "How to make it again", _again([config], provenance.shareable(config), threads=past.start.get("threads"))
        ),
    ]
    about = [f"{method.title} on {config.dataset}, seed {config.seed} · {run.id}", date(now)]
    return written(select.title(run), about, sections, form)


def _facts(run: Run, config: Config, past: History) -> list[tuple[str, str]]:
    state, start = run.state(), past.start
    seconds = compare.training_seconds(run)
    rows = [
        ("Method", catalog.method_info(config.method).summary),
        ("Data set", catalog.dataset_info(config.dataset).summary),
        ("Split", _split_in_words(config, start)),
        ("Images", _images_in_words(start)),
        ("Seeds", _seeds_in_words(config)),
        ("Training", f"{past.last_epoch} of {config.epochs} epochs, batches of {config.batch_size}"),
        ("Start", _start_in_words(config)),
        ("Network", f"{config.network_name}, {_count(start.get('parameters'), 'parameters')}"),
        ("Machine", _machine_in_words(run, config, past)),
        ("Trained with", _hardware_in_words(run)),
        ("Time", f"{seconds:.0f} s of training and evaluation, without pretraining" if seconds else MISSING),
        ("State", f"{state.name}{': ' if state.reason else ''}{state.reason}"),
        *_alarms(run),
    ]
    return [*rows, *([("Tags", ", ".join(run.meta()["tags"]))] if run.meta()["tags"] else [])]


def _alarms(run: Run) -> list[tuple[str, str]]:
    """What is wrong at the newest epoch, as on the page of the run."""
    found = [f"{alarm.title} at epoch {alarm.epoch}: {alarm.words}." for alarm in shelf.measure(run).alarms]
    return [("Alarms", " ".join(found))] if found else []


def _split_in_words(config: Config, start: dict) -> str:
    seen, total = start.get("classes/seen"), start.get("classes/total")
    counts = f"{seen:.0f} of {total:.0f} classes seen" if seen and total else "seen classes"
    share = compare.setting_in_words("split.labeled_ratio", config.split_labeled_ratio)
    return f"{counts} ({config.split_seen_classes}), {share} ({config.split_rule}), split seed {config.split_seed}"


def _images_in_words(start: dict) -> str:
    words = {
        "labeled": "labeled",
        "unlabeled": "unlabeled",
        "validation": "with a withheld label",
        "test": "for testing",
    }
    counts = [(start.get(f"images/{name}"), word) for name, word in words.items()]
    return ", ".join(f"{count:,.0f} {word}" for count, word in counts if count) or MISSING


def _seeds_in_words(config: Config) -> str:
    own = config.seed if config.pretrain_seed is None else config.pretrain_seed
    return f"run {config.seed}, pretraining {own}, split {config.split_seed}"


def _start_in_words(config: Config) -> str:
    if config.network_start == "simclr":
        return f"{config.pretrain_epochs} epochs of SimCLR" if config.pretrain_epochs else "random weights"
    return {"checkpoint": "weights of a file", "torchvision": "published weights"}.get(
        config.network_start, "random weights"
    )


def _machine_in_words(run: Run, config: Config, past: History) -> str:
    """Device, threads, speed and memory, as far as they were recorded."""
    slots = [slot for slot in str(run.read_json("process.json").get("slot") or "").split(",") if slot]
    gpus = sum(slot.startswith("cuda") for slot in slots)
    words = [f"{gpus} GPU{'s' * (gpus > 1)}" if gpus else "CPU" if slots else f"device {config.device}"]
    words += [_count(past.start["threads"], "threads")] if past.start.get("threads") else []
    words += [f"{config.processes} processes"] if config.processes > 1 else []
    speed = past.column("throughput/images_per_s")
    words += [f"{speed.median():,.0f} images/s"] if len(speed) else []
    for name, word in (("host", "memory"), ("device", "GPU memory")):
        used = past.column(f"memory/{name}_gb")
        words += [f"{used.max():.2f} GB {word}"] if len(used) and used.max() > 0 else []
    return ", ".join(words)


def _hardware_in_words(run: Run) -> str:
    """What the training process said of its device and programs."""
    told = hardware.of(run)
    words = [
        told.get("device"),
        *(f"{name} {told[name]}" for name in ("torch", "python", "lps", "commit") if name in told),
    ]
    return ", ".join(filter(None, words)) or MISSING


def _count(value, noun: str) -> str:
    return f"{value:,.0f} {noun.removesuffix('s') if value == 1 else noun}" if value else f"{noun} not recorded"


def _notes(run: Run) -> list[Block]:
    lines = [clean_line(line, 2000) for line in run.meta()["notes"].split("\n")]
    return [Words([f"Notes: {lines[0]}", *lines[1:]])] if any(lines) else []


def _numbers(run: Run, past: History, found: dict) -> list[Block]:
    if not found["epochs"]:
        return [Words(["No epoch has been evaluated yet."])]
    best, last = found["best"], found["last"]
    names = [name for name in MEASURES if _is_number(last.get(name)) or _is_number(past.start.get(BASELINES.get(name)))]
    rows = [
        [MEASURES[name], *(_number(name, value) for value in (last.get(name), best.get(name), _baseline(past, name)))]
        for name in names
    ]
    heads = ["", f"Last, epoch {past.last_epoch}", f"Best, epoch {best['epoch']}" if best else "Best", "k-means before"]
    notes = ["On the unlabeled images, under the default protocol.", f"Best: {_best_in_words(found['best_by'])}."]
    notes.append("k-means before: of the start features, before training.")
    return [Table("", heads, rows, [*notes, *_paper(run)])]


def _best_in_words(best_by: str) -> str:
    return WITHHELD if best_by == "accuracy/validation" else ORACLE


def _baseline(past: History, name: str):
    return past.start.get(BASELINES.get(name))


def _number(name: str, value) -> str:
    """A measurement as people read it: percent and points to a tenth, others to a thousandth."""
    if not _is_number(value):
        return MISSING
    return f"{value:.3f}" if name == "kl" else f"{round(100 * value, 1) + 0.0:.1f}"


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _paper(run: Run) -> list[str]:
    """What the paper has for the same experiment, or why it has nothing."""
    try:
        groups = compare.group_runs([compare.score_run(run)])
    except ConfigError:
        return []
    cell = compare.paper_cell(groups[0])
    published = [f"The paper's seen / novel / all: {cell}."] if cell != "-" else []
    return published + [sentence(note) for note in compare.notes_on_paper(groups)]


def sentence(note: str) -> str:
    return note[:1].upper() + note[1:] + "."


def _epochs(config: Config, past: History) -> int:
    return max(config.epochs, past.last_epoch)


def _pace(config: Config, past: History) -> list[Block]:
    blocks: list[Block] = []
    if len(past.epochs):
        alt = "Seen and novel accuracy with the gap between them, KL, mean margins and thresholds over the epochs"
        figure = charts.pace(past, _epochs(config, past), LIGHT)
        blocks.append(
            Chart(
                "Accuracy, KL, margins and thresholds",
                figure,
                alt,
                "The band is the gap between seen and novel accuracy.",
            )
        )
    if len(past.pretrain) > 1:
        epochs = max(config.pretrain_epochs, int(past.pretrain.index[-1]))
        alt = "SimCLR loss and quality of the features over the epochs of pretraining"
        blocks.append(Chart("Pretraining", charts.pretraining(past, epochs, LIGHT), alt))
    return blocks


def _losses(config: Config, past: History) -> list[Block]:
    epochs, blocks = _epochs(config, past), []
    if any(name.startswith("loss/") for name in past.epochs):
        figure = charts.losses(past, epochs, LIGHT)
        blocks.append(Chart("Loss terms", figure, "The terms of the loss over the epochs", "As they enter the sum."))
    if any(name.startswith("pseudo_label/") for name in past.epochs):
        alt = "Share and confidence of confident pseudo-labels over the epochs"
        blocks.append(Chart("Pseudo-labels", charts.pseudo_labels(past, epochs, LIGHT), alt, "Share and confidence."))
    return blocks


# ---------------------------------------------------------------------------------------------------- classes


def _classes(run: Run, past: History) -> list[Block]:
    """Estimated shares, accuracy by class and the confusion matrix at the last epoch, as far as they are stored."""
    try:
        split, targets = snapshots.read_split(run.folder)
    except ConfigError:
        return []
    names = [clean_line(name) for name in split.class_names]
    blocks: list[Block] = []
    epoch, seen = past.last_epoch, split.classes.seen
    estimated, accuracy = past.vector("pi_hat", epoch), past.vector("class/accuracy", epoch)
    if estimated is not None and len(estimated) == len(names):
        figure = charts.class_distribution(estimated, seen, names, LIGHT, float(np.nanmax(estimated)))
        alt = f"Estimated class distribution at epoch {epoch}, beside the prior"
        blocks.append(Chart("Estimated class distribution", figure, alt, f"Epoch {epoch}; dashed: the prior."))
    if accuracy is not None and len(accuracy) == len(names):
        figure = charts.class_accuracy(accuracy, seen, names, LIGHT)
        alt = f"Accuracy of every class at epoch {epoch}"
        blocks.append(Chart("Accuracy by class", figure, alt, f"Epoch {epoch}, after matching."))
    return blocks + _confusion(run, split, targets, names)


def _confusion(run: Run, split: Split, targets: np.ndarray, names: list[str]) -> list[Block]:
    epochs = snapshots.snapshot_epochs(run.snapshots)
    try:
        network = clusters.read_assignment(run, epochs[-1], split)
        said = naming.at(naming.read_entries(run), epochs[-1])
        defaults = labels.default_names(run, split)
    except (ConfigError, IndexError):
        return []
    assigned = labels.clusters_of(said, network.predicted, split.unlabeled)
    ids = labels.cluster_ids(said, network.predicted, split.classes.total)
    counts = clusters.confusion(assigned, targets[split.unlabeled], ids, len(names))
    if not counts.any():
        return []
    matched = clusters.matching(counts)
    order = sorted(range(len(ids)), key=lambda i: (matched[i] < 0, matched[i], ids[i]))
    rows = [
        clean_line(_cluster_title(int(ids[i]), said.names.get(int(ids[i])) or defaults.get(int(ids[i])))) for i in order
    ]
    figure = confusion.figure(counts[order], rows, names, split.classes.seen, LIGHT)
    alt = f"How many images of every class each cluster holds at epoch {epochs[-1]}"
    note = f"Epoch {epochs[-1]}; clusters by their matched class, as a person has merged and named them."
    return [Chart("Confusion matrix", figure, alt, note)]


def _cluster_title(cluster: int, name: str | None) -> str:
    return f"{cluster} · {name}" if name and name != str(cluster) else str(cluster)


# ---------------------------------------------------------------------------------------------------- comparison


def of_comparison(
    scored: Sequence[Scored],
    left_out: Sequence[tuple[Run, str]],
    scoring: Scoring,
    now: datetime | None = None,
    form: str = "html",
) -> str:
    """The report of runs that have scores. left_out: runs without, and why."""
    groups = comparison.sorted_groups(scored)
    members = [member for group in groups for member in (*group.members, *group.replaced)]
    methods = list(dict.fromkeys(catalog.method_info(group.config.method).title for group in groups))
    sets = list(dict.fromkeys(group.config.dataset for group in groups))
    settings = {group.label: provenance.shareable(group.config) for group in groups}  # the commands tell the seeds
    table = Code("The table, where these runs are", comparison.command(groups, scoring))
    sections = [
        Section("What was compared", [Facts(_about_comparison(groups, members, scoring))]),
        Section("Numbers", [group_table(groups), Code("LaTeX", compare.table(groups, "latex"), True)]),
        Section("Curves", curves(groups)),
        Section("Settings that differ", _differences(groups)),
        Section("Every run", [_run_table(groups), *left_out_table(left_out)]),
        Section("How to make it again", _again([m.config for m in members], settings, [table])),
    ]
    names = ", ".join(methods) if len(methods) <= 4 else f"{len(methods)} methods"
    about = [f"{len(members)} runs in {len(groups)} groups", date(now)]
    return written(f"{names} on {', '.join(sets)}", about, sections, form)


def _about_comparison(groups: Sequence[Group], members: Sequence[Scored], scoring: Scoring) -> list[tuple[str, str]]:
    sets = dict.fromkeys(group.config.dataset for group in groups)
    seeds = sorted({member.config.seed for member in members})
    splits = sorted({member.split for member in members})
    seconds = sum(member.time for member in members)
    return [
        ("Data set", "; ".join(catalog.dataset_info(name).summary for name in sets)),
        ("Methods", ", ".join(dict.fromkeys(catalog.method_info(group.config.method).title for group in groups))),
        ("Seeds", ", ".join(map(str, seeds))),
        ("Splits", ", ".join(splits) + "; numbers of different splits do not compare" * (len(splits) > 1)),
        ("Protocol", f"{scoring.protocol}: {PROTOCOLS[scoring.protocol]}"),
        ("Scored", f"{compare.IMAGES[scoring.images]}, at {compare.SELECTIONS[scoring.select]}"),
        ("Seen accuracy", comparison.SEEN_WORDS[scoring.seen].lower()),
        ("Time", f"{seconds:,.0f} s of training and evaluation in all, without pretraining"),
    ]


def group_table(groups: Sequence[Group]) -> Table:
    """The table of the Compare page."""
    heads = ["Group", *(head for head, _ in HEADS.values()), "n", "Paper"]
    rows = [
        [g.label, *(compare.cell(g, column) for column in HEADS), str(len(g.members)), compare.paper_cell(g)]
        for g in groups
    ]
    places = {column: i for i, column in enumerate(HEADS, 1)}
    bold = frozenset((row, places[column]) for row, column in compare.best(groups))
    about = "Mean ± sample standard deviation over n seeds; percent, points and seconds." + " Bold: best." * bool(bold)
    paper = "Paper: seen / novel / all of the same experiment in the LPS paper."
    notes = [about, paper, *map(sentence, compare.notes(groups, scoring=False))]
    return Table("", heads, rows, notes, bold)


def curves(groups: Sequence[Group]) -> list[Block]:
    """One chart a measurement, every group in the same colour in all of them."""
    pasts = [[EventLog(member.run.events).read() for member in group.members] for group in groups]
    looks = style.group_styles(len(groups), LIGHT)
    blocks: list[Block] = []
    for name in CURVES:
        tables = [comparison.curve_table(own, name, "range") for own in pasts]
        drawn = [i for i, table in enumerate(tables) if len(table)]
        if not drawn:
            continue
        curves = [charts.GroupCurve(clean_line(groups[i].label), tables[i]) for i in drawn]
        epochs = max(int(curve.table.index[-1]) for curve in curves)
        shape = comparison.tick_format(name, curves)
        figure = charts.curves_of_groups(curves, epochs, shape, LIGHT, [looks[i] for i in drawn])
        title = comparison.MEASURES[name]
        blocks.append(Chart(title, figure, f"{title} of {len(curves)} groups of runs over the epochs"))
    return [*blocks, Words([ABOUT_CURVES])] if blocks else []


def _differences(groups: Sequence[Group]) -> list[Block]:
    if len(groups) == 1:
        return [Words(["There is one group: its runs differ in nothing but the seed."])]
    table = comparison.settings_table(groups)
    rows = table.astype(str).to_numpy().tolist()
    notes = ["A setting that only some methods have is listed where a run has changed it."]
    return [Table("", list(table), rows, notes, words=len(table.columns))]


def _run_table(groups: Sequence[Group]) -> Table:
    heads = ["Run", "Group", "Seed", "Epoch", *(head for head, _ in HEADS.values()), "Remark"]
    rows = []
    for group in groups:
        rows += [_run_row(group.label, m, "" if m.is_complete else "did not reach its end") for m in group.members]
        rows += [_run_row(group.label, m, "another run of the seed counts") for m in group.replaced]
    return Table("", heads, rows, words=2)


def _run_row(label: str, member: Scored, remark: str) -> list[str]:
    one = Group(label, (member,))
    numbers = [compare.cell(one, column) for column in HEADS]
    return [select.label(member.run), label, str(member.config.seed), str(member.epoch), *numbers, remark]


def left_out_table(left_out: Sequence[tuple[Run, str]]) -> list[Block]:
    rows = [[select.label(run), why] for run, why in left_out]
    return [Table("Left out", ["Run", "Reason"], rows, words=2)] if rows else []


# ---------------------------------------------------------------------------------------------------- made again


def _again(configs: Sequence[Config], settings: dict, more: Sequence[Block] = (), threads=None) -> list[Block]:
    """Commands, versions and all settings as they are to be shown; more: what comes after the commands."""
    commands = "\n".join(dict.fromkeys(map(provenance.train_command, configs)))
    said = []
    if threads and configs[0].threads is None:
        said.append(f"The run used {_count(threads, 'threads')}; another number rounds differently (--set threads=N).")
    if any(config.flat()[key] for config in configs for key in provenance.PATHS):
        said.append("/path/to/ stands for folders of the machine that trained.")
    about = provenance.versions() | ({"commit": found} if (found := provenance.commit()) else {})
    return [
        Code("Commands" if "\n" in commands else "Command", commands),
        *([Words(said)] if said else []),
        *more,
        Code("Versions where this report was written", "\n".join(f"{name} {text}" for name, text in about.items())),
        Code("All settings as JSON", json.dumps(settings, indent=2, allow_nan=False), is_folded=True),
    ]
