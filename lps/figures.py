"""Draw every chart of the dashboard as a plotly figure: `figures.pace("runs/20260101-...").show()`. Needs no browser.

Each function takes runs as `lps.Run`, folder or path and draws the same chart as the page. dark: use the colours of the
dark theme. scoring: protocol, select, seen and images, as in `lps.compare_runs`. If there is nothing to draw, a
`ConfigError` says why in one sentence. The button "Python" of a chart shows the call that draws it.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import plotly.graph_objects as go

from lps.analysis import clusters, differences, effects, labels, naming, projection, run_diff, run_index, run_scores
from lps.analysis.clusters import Assignment
from lps.analysis.effects import Background
from lps.analysis.main_effects import main_effects as main_effects_of
from lps.analysis.run_scores import Scored
from lps.charts import (
    board_charts,
    class_bars,
    difference_charts,
    effect_charts,
    explain_charts,
    group_tables,
    line_charts,
    maps,
    measurements,
    pace_charts,
    palette,
    search_charts,
    sweep_charts,
)
from lps.charts import confusion as confusion_charts
from lps.charts.effect_charts import Axis
from lps.charts.event_log import EventLog, History, planned_epochs
from lps.charts.palette import DARK, LIGHT, Palette
from lps.data.split import Split
from lps.errors import UserError, check_choice, shorten
from lps.files.user_folders import runs_folder
from lps.store import run_folders
from lps.store.runs import Run
from lps.store.snapshots import read_snapshot, read_split, snapshot_epochs
from lps.studies import preset_tables, search, search_results, sweep_records, sweeps
from lps.tables import boards, run_filter

# ---------------------------------------------------------------------------------------------------- over epochs


def pace(run, *, dark: bool = False) -> go.Figure:
    """Draw seen and novel accuracy with their gap, KL, mean margins and confidence thresholds over the epochs.

    For a run without truth: accuracy on withheld labels, cluster sizes, confident shares and mean margins.
    """
    run, history = _run_and_history(run)
    epochs, colors = planned_epochs(run, history), _palette(dark)
    if not history.is_blind:
        return line_charts.pace(history, epochs, colors).figure()
    split, _ = read_split(run.folder)
    shares = group_tables.cluster_shares(run, split)
    return line_charts.blind_pace(history, shares, labels.cluster_names(run, split), epochs, colors).figure()


def pace_of_runs(runs: Sequence, *, pinned: Mapping[str, str] | None = None, dark: bool = False) -> go.Figure:
    """Draw novel and seen accuracy, KL and the mean margin of seen classes of several runs over the epochs.

    pinned: the hex colour by run id, as of `chart`.
    """
    histories = [_run_and_history(run) for run in runs]
    names = run_diff.short_labels([run for run, _ in histories], in_symbols=True)
    run_histories = {name: history for name, (_, history) in zip(names, histories) if len(history.epochs)}
    epochs = max((planned_epochs(run, history) for run, history in histories), default=1)
    ids = {name: run.id for name, (run, _) in zip(names, histories)}
    color_by_name = palette.colors_of_runs(ids, _palette(dark), pinned or {})
    return line_charts.pace_of_runs(run_histories, epochs, _palette(dark), color_by_name).figure()


def losses(run, *, dark: bool = False) -> go.Figure:
    """Draw the weighted terms of the loss over the epochs."""
    run, history = _run_and_history(run)
    return line_charts.losses(history, planned_epochs(run, history), _palette(dark)).figure()


def pseudo_labels(run, *, dark: bool = False) -> go.Figure:
    """Draw the share of images with a pseudo-label and the confidence of these labels over the epochs."""
    run, history = _run_and_history(run)
    return line_charts.pseudo_labels(history, planned_epochs(run, history), _palette(dark)).figure()


def pretraining(run, *, dark: bool = False) -> go.Figure:
    """Draw SimCLR's loss and the quality of its features over the epochs of pretraining."""
    run, history = _run_and_history(run)
    return line_charts.pretraining(history, planned_epochs(run, history, pretraining=True), _palette(dark)).figure()


def measurement(run, name: str, *, dark: bool = False) -> go.Figure:
    """Draw a measurement (docs/formats.md) over the epochs; of one value per class, the means over seen and novel."""
    run, history = _run_and_history(run)
    if name not in history.epochs and name not in history.vectors:
        raise UserError("name", f"{shorten(name)} was not measured by {run.id}")
    return measurements.other_measurement(history, name, planned_epochs(run, history), _palette(dark)).figure()


def run_differences(first, others: Sequence, name: str = "accuracy/novel", *, dark: bool = False) -> go.Figure:
    """Draw a measurement of the first run minus that of each other run, in points.

    Of the gap, absolute values are subtracted."""
    _, history = _run_and_history(first)
    histories = [_run_and_history(run)[1] for run in others]
    columns = {
        f"A − {letter}": pace_charts.difference(history, other_history, name, absolute=name == "accuracy/gap")
        for letter, other_history in zip("BCDEFGHIJKLMNOPQRSTUVWXYZ", histories)
    }
    epochs = max([1, history.last_epoch, *(other_history.last_epoch for other_history in histories)])
    return pace_charts.differences(columns, epochs, _palette(dark)).figure()


def chart(
    text: str,
    runs: Sequence = (),
    *,
    filter: str = "",
    root=None,
    hidden: Collection[str] = (),
    pinned: Mapping[str, str] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw a chart of the page Charts. text: as in its address, "y=accuracy/novel;x=epoch;smooth=0.6;by=margin_scale".

    runs: those to draw; without them the runs in `root` (`LPS_RUNS` or ./runs) that fit `filter`, newest first.
    hidden: ids of runs that are left out; the others keep their colours. pinned: the hex colour by run id.
    """
    board_chart = boards.read_chart(text)
    selected = [_run(run) for run in runs] or run_folders.list_runs(Path(root or runs_folder()))
    entries = run_index.read_rows(selected)
    entries = [entry for entry in run_filter.select_runs(entries, filter) if entry.config is not None]
    histories = [_history(entry.run) for entry in entries]
    titles = board_charts.list_measurements(histories)
    lines = board_charts.lines_of_runs(board_chart, entries, histories, _palette(dark), pinned or {})
    lines = [line for line in lines if line.key not in hidden]
    return board_charts.figure(lines, board_chart, titles.get(board_chart.y, board_chart.y), _palette(dark)).figure()


def class_sizes(run, *, dark: bool = False) -> go.Figure:
    """Draw the accuracy of large, medium and small classes over the epochs, and the error of the prior."""
    run, history = _run_and_history(run)
    return line_charts.class_sizes(history, planned_epochs(run, history), _palette(dark)).figure()


# ---------------------------------------------------------------------------------------------------- one epoch


def class_distribution(run, epoch: int, *, dark: bool = False) -> go.Figure:
    """Draw the estimated class distribution (pi_hat) after an epoch as bars, beside the prior."""
    run, history = _run_and_history(run)
    top = float(np.nanmax(history.vectors["pi_hat"].to_numpy())) if "pi_hat" in history.vectors else 0.0
    return class_bars.class_distribution(
        _by_class(run, history, "pi_hat", epoch),
        history.seen,
        _class_names(run, history),
        _palette(dark),
        top,
        history.vector("class/prior", epoch),
    ).figure()


def guessed_shares(run, epoch: int, *, dark: bool = False) -> go.Figure:
    """Draw the estimated class distribution as the page Explain does, sorted if there are many classes."""
    run, history = _run_and_history(run)
    shares = _by_class(run, history, "pi_hat", epoch).astype(np.float64)
    prior = history.vector("class/prior", epoch)
    return explain_charts.shares(
        shares / shares.sum(), history.seen, _class_names(run, history), _palette(dark), prior=prior
    ).figure()


def class_accuracy(run, epoch: int, *, dark: bool = False) -> go.Figure:
    """Draw the accuracy of every class after an epoch, after matching."""
    run, history = _run_and_history(run)
    accuracy = _by_class(run, history, "class/accuracy", epoch)
    return class_bars.class_accuracy(accuracy, history.seen, _class_names(run, history), _palette(dark)).figure()


def cluster_sizes(run, epoch: int, *, dark: bool = False) -> go.Figure:
    """Draw the share of the unlabeled images in every cluster after an epoch, beside equal shares."""
    run, history = _run_and_history(run)
    table = group_tables.cluster_shares(run, read_split(run.folder)[0])
    if epoch not in table.index:
        raise UserError("epoch", f"{epoch} has no stored predictions; choices: {', '.join(map(str, table.index))}")
    top, shares = float(table.to_numpy().max()), table.loc[epoch].to_numpy()
    return class_bars.class_distribution(shares, history.seen, _class_names(run, history), _palette(dark), top).figure()


def confusion(run, epoch: int, *, dark: bool = False) -> go.Figure:
    """Draw the number of images of every true class in every cluster after an epoch.

    The user's merges and splits of clusters apply."""
    run = _run(run)
    split, targets = read_split(run.folder)
    network = clusters.read_assignment(run, epoch, split)
    decisions = naming.naming_of_epoch(naming.read_entries(run), epoch)
    assigned = labels.clusters_of(decisions, network.predicted, split.unlabeled)
    ids = labels.cluster_ids(decisions, network.predicted, split.classes.total)
    truth = targets[split.unlabeled]
    if not (truth >= 0).any():
        raise UserError("run", f"{run.id} has no unlabeled image of known class")
    described = clusters.describe_clusters(assigned, network.confidence, truth, ids, len(split.class_names))
    width = max(split.classes.seen, int(truth.max()) + 1)
    counts, order = clusters.confusion_counts(assigned, truth, ids, width), confusion_charts.row_order(described)
    defaults = labels.default_names(run, split)
    rows = [labels.title_of(described[row].id, decisions, defaults) for row in order]
    seen, names = split.classes.seen, split.class_names[:width]
    return confusion_charts.figure(counts[order], rows, names, seen, _palette(dark)).figure()


def image_confidence(run, image: int, *, dark: bool = False) -> go.Figure:
    """Draw the confidence of an unlabeled image after each stored epoch, with the confidence thresholds."""
    run, history = _run_and_history(run)
    split, _ = read_split(run.folder)
    (rows,) = np.nonzero(split.unlabeled == image)
    if not len(rows):
        raise UserError("image", f"{image} is not an unlabeled image of {run.id}")
    stored = _assignments(run, split)
    last = max(stored)
    decisions, defaults = naming.naming_of_epoch(naming.read_entries(run), last), labels.default_names(run, split)
    now = labels.clusters_of(decisions, stored[last].predicted, split.unlabeled)
    heirs = {epoch: clusters.successors(assignment.predicted, now) for epoch, assignment in stored.items()}
    moments = clusters.prediction_history(int(rows[0]), stored, heirs)
    names = {int(cluster): labels.title_of(int(cluster), decisions, defaults) for cluster in np.unique(now)}
    thresholds = {group: history.column(f"threshold/{group}") for group in ("seen", "novel")}
    return line_charts.image_confidence(moments, int(now[rows[0]]), thresholds, names, _palette(dark)).figure()


def map_of_features(
    run, epoch: int, method: str = "pca", color: str = "group", *, height: int = 560, dark: bool = False
) -> go.Figure:
    """Draw the features of the unlabeled images after an epoch on a plane.

    method: pca, tsne or umap; a map of the latter two has to be stored (`python -m lps project`). color: group (seen
    and novel), truth, predicted, confidence or right. height: pixels; a low map shows fewer points.
    """
    run, (split, targets) = _run(run), read_split(_run(run).folder)
    snapshot, stored = read_snapshot(run.snapshots, epoch, thinned=True), snapshot_epochs(run.snapshots)
    stored_map = projection.read_map(run, method, epoch)
    if stored_map is not None:
        points, index = stored_map.points, stored_map.index
    elif method == "pca":
        ends = [read_snapshot(run.snapshots, epoch_at, thinned=True) for epoch_at in (stored[0], stored[-1])]
        plane = projection.shared_plane(ends[0], stored[0], ends[1], stored[-1])
        points, index = maps.project_points(plane, snapshot, epoch), snapshot.feature_index
    else:
        raise UserError(
            "method", f"there is no {shorten(method)} map of epoch {epoch}; compute one with python -m lps project"
        )
    table = maps.point_table(points, index, split, targets, snapshot)
    seen, names = split.classes.seen, _class_names(run, _history(run))
    return maps.projection(table, color, _palette(dark), seen, names, height=height).figure()


# ---------------------------------------------------------------------------------------------------- groups of runs


def curves(
    runs: Sequence,
    name: str = "accuracy/novel",
    by: str = "everything",
    band: str = "std",
    *,
    pinned: Mapping[str, str] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw the mean of a measurement over the epochs for each group of runs, with a band.

    by: everything (but the seed), method or a setting. band: range, std, interval (confidence) or none. pinned: as of
    `chart`; a group has the colour of its oldest run.
    """
    check_choice("band", band, ("range", "std", "interval", "none"))
    scored = _scored(runs)
    members = group_tables.curve_groups(scored, by)
    tables = {
        label: group_tables.curve_table([_history(member.run) for member in group_runs], name, band)
        for label, group_runs in members.items()
    }
    group_curves = [line_charts.GroupCurve(label, table) for label, table in tables.items() if len(table)]
    epochs = max((int(curve.table.index[-1]) for curve in group_curves), default=1)
    tick_format = group_tables.tick_format(name, group_curves)
    color_by_curve = group_tables.curve_colors(members, scored, _palette(dark), pinned or {})
    return line_charts.curves_of_groups(group_curves, epochs, tick_format, _palette(dark), color_by_curve).figure()


def intervals(runs: Sequence, against, column: str = "novel", *, dark: bool = False, **scoring: str) -> go.Figure:
    """Draw every group of equal runs minus the group of the run `against`, in points, with confidence intervals.

    column: seen, novel, all, nmi, gap, conflict or time.
    """
    groups, name = group_tables.sorted_groups(_scored(runs, scoring)), _run(against).id
    chosen = next((group for group in groups if any(member.run.id == name for member in group.members)), None)
    if chosen is None:
        raise UserError("against", f"{name} is not one of the runs")
    return difference_charts.intervals(differences.compare_groups(groups, chosen), column, _palette(dark)).figure()


def setting_curves(runs: Sequence, setting: str, *, dark: bool = False, **scoring: str) -> go.Figure:
    """Draw mean and standard deviation of accuracies by the value of a setting, the gap, and the paper's curve if any.

    All other settings must be equal; if they are not, the group of equal ones with most values is drawn.
    """
    background = _background(_scored(runs, scoring), [setting])
    groups = {values[0]: group for values, group in background.groups.items()}
    published, _ = effects.paper_curve(background.members[0], setting)
    values = background.values(setting)
    axis = Axis.from_values(setting, effects.sort_values({*values, *published}))
    return effect_charts.curves(axis, values, groups, published, _palette(dark)).figure()


def setting_matrix(
    runs: Sequence, rows: str, columns: str, measure: str = "novel", *, dark: bool = False, **scoring: str
) -> go.Figure:
    """Draw a heat map of two settings: mean, standard deviation, number of runs. measure: novel, seen, all, gap."""
    background = _background(_scored(runs, scoring), [rows, columns])
    row_axis, column_axis = (Axis.from_values(setting, background.values(setting)) for setting in (rows, columns))
    return effect_charts.matrix(row_axis, column_axis, background.groups, set(), measure, _palette(dark), None).figure()


def setting_lines(
    runs: Sequence, settings: Sequence[str] = (), measure: str = "novel", *, dark: bool = False, **scoring: str
) -> go.Figure:
    """Draw one line per run through its settings to a measure (parallel coordinates). settings: default all varied."""
    scored = [member for member in _scored(runs, scoring) if not np.isnan(member.value(measure))]
    varied = effects.varied_settings([member.config for member in scored])
    chosen = {name: varied[name] for name in settings or varied}
    return effect_charts.parallel(scored, chosen, measure, _palette(dark)).figure()


def main_effects(runs: Sequence, measure: str = "novel", *, dark: bool = False, **scoring: str) -> go.Figure:
    """Draw how far a score moves when one setting changes: the mean over all others, with confidence intervals."""
    effect_by_setting = main_effects_of(_scored(runs, scoring), measure)
    return effect_charts.main_effects(effect_by_setting, _palette(dark)).figure()


def setting_importance(runs: Sequence, measure: str = "novel", *, dark: bool = False, **scoring: str) -> go.Figure:
    """Draw how much of the variance between setups each setting adds to all others (type III shares)."""
    importances, _ = effects.setting_importance(_scored(runs, scoring), measure)
    return effect_charts.importance(importances, _palette(dark)).figure()


def sweep_curve(name: str, block: str = "", *, root=None, dark: bool = False) -> go.Figure:
    """Draw the curve of a sweep of a preset, beside the paper's. block: its title, such as CIFAR-10."""
    root = Path(root or runs_folder())
    record = next((entry for entry in sweep_records.list_sweeps(root) if entry.name == name), None)
    request = sweeps.from_record(record.request) if record else None
    sheet = sweep_charts.paper_table_of(request)
    if sheet is None:
        raise UserError("name", f"{shorten(name)} is not a sweep of a preset in {root}")
    items = sweeps.plan_unchecked_sweep(request, root, name).items
    scored, _ = run_scores.score_all(
        [item.run for item in items if item.state.name == "finished"], "orca", "last", "default"
    )
    block_figures = sweep_charts.figures(sheet, preset_tables.fill_table(sheet, scored), _palette(dark))
    figure = next((figure for title, figure, _ in block_figures if title.startswith(block)), None)
    if figure is None:
        raise UserError("block", f"{shorten(block)} has no curve in {shorten(name)}")
    return figure.figure()


# ---------------------------------------------------------------------------------------------------- searches


def search_history(name: str, *, root=None, dark: bool = False) -> go.Figure:
    """Draw the value of every trial of a search, and the best so far."""
    return search_charts.history(_search(name, root)[1], _palette(dark)).figure()


def search_setting(name: str, setting: str, *, root=None, dark: bool = False) -> go.Figure:
    """Draw the values of the trials of a search over one of its settings."""
    result = _search(name, root)[1]
    dimension = next((item for item in result.request.space if item.name == setting), None)
    if dimension is None:
        choices = ", ".join(item.name for item in result.request.space)
        raise UserError("setting", f"{shorten(setting)} was not searched; choices: {choices}")
    return search_charts.setting_slice(result, dimension, _palette(dark)).figure()


def search_lines(name: str, *, root=None, dark: bool = False) -> go.Figure:
    """Draw one line per finished trial of a search through its settings to its value (parallel coordinates)."""
    return search_charts.parallel(_search(name, root)[1], _palette(dark)).figure()


def search_importance(name: str, *, root=None, dark: bool = False) -> go.Figure:
    """Draw the share of the variance between finished trials that each setting of a search explains (fANOVA)."""
    return search_charts.importance(search_results.read_importance(*_search(name, root)), _palette(dark)).figure()


# ---------------------------------------------------------------------------------------------------- parts


def _run(run) -> Run:
    """Return the run that an `lps.Run`, a folder or a path stands for."""
    folder_run = Run(Path(getattr(run, "folder", run)))
    if not folder_run.folder.is_dir():
        raise UserError("run", f"{shorten(str(folder_run.folder), 120)} is not a folder")
    return folder_run


def _run_and_history(run) -> tuple[Run, History]:
    run = _run(run)
    return run, _history(run)


def _history(run: Run) -> History:
    return EventLog(run.events).read_history()


def _palette(dark: bool) -> Palette:
    return DARK if dark else LIGHT


def _class_names(run: Run, history: History) -> list[str]:
    """Return the name of every class id; without true labels, an id is a cluster, which the user may have named."""
    try:
        split, _ = read_split(run.folder)
        return labels.cluster_names(run, split) if history.is_blind else list(split.class_names)
    except UserError:
        return [str(class_id) for class_id in range(int(history.start.get("classes/total") or 0))]


def _by_class(run: Run, history: History, name: str, epoch: int) -> np.ndarray:
    values = history.vector(name, epoch)
    if values is None:
        raise UserError("epoch", f"{epoch} of {run.id} has no {name}")
    return values


def _assignments(run: Run, split: Split) -> dict[int, Assignment]:
    """Return the predictions of all readable stored epochs, at least one; raises `UserError`."""
    assignments = {}
    for epoch in snapshot_epochs(run.snapshots):
        try:
            assignments[epoch] = clusters.read_assignment(run, epoch, split)
        except UserError:
            continue
    if not assignments:
        raise UserError("run", f"{run.id} has no stored predictions")
    return assignments


def _scored(runs: Sequence, scoring: dict[str, str] | None = None) -> list[Scored]:
    """Return the scores of runs; raises `UserError` if one cannot be scored."""
    how = {"protocol": "orca", "select": "last", "seen": "default", "images": "unlabeled"}
    unknown = set(scoring or {}) - set(how)
    if unknown:
        raise UserError("scoring", f"{', '.join(sorted(unknown))} is not one of {', '.join(how)}")
    scored, left_out = run_scores.score_all([_run(run) for run in runs], *(how | (scoring or {})).values())
    if left_out or not scored:
        raise UserError(
            "runs", f"{left_out[0][0].id} cannot be scored: {left_out[0][1]}" if left_out else "have no run"
        )
    return scored


def _background(scored: Sequence[Scored], settings: Sequence[str]) -> Background:
    """Return the runs that differ only in these settings and the seed; of several sets, the one with most values."""
    for setting in settings:
        if not any(setting in member.config.flat() for member in scored):
            raise UserError("setting", f"{shorten(setting)} is not a setting of these runs")
    return effects.find_backgrounds(scored, settings)[0]


def _search(name: str, root) -> tuple[search.Search, search_results.SearchResult]:
    named_search = search.find_search(Path(root or runs_folder()), name)
    return named_search, search_results.read_results(named_search)
