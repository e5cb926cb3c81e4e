"""Tables of groups of runs: their curves, varied settings, titles of measurements, and the command."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd

from lps.analysis import clusters, projection, run_groups, run_scores
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts import line_charts, palette
from lps.charts.event_log import History
from lps.charts.palette import Palette
from lps.data.split import Split
from lps.errors import UserError
from lps.scores import estimates
from lps.scores.measurement_names import measurement_name
from lps.scores.protocols import ABOUT_LOW_ALL
from lps.settings import catalog, cli_args
from lps.settings.config import Config
from lps.settings.parameters import text_of
from lps.store import snapshots
from lps.store.runs import Run
from lps.store.titles import settings_in_symbols, short_id

PROTOCOL_LABELS = {
    "orca": "As in ORCA's paper (default)",
    "gcd_v1": "GCD v1",
    "gcd_v2": "GCD v2",
    "gcd_v2_balanced": "GCD v2, balanced",
    "strict": "Strict (TRSSL, OpenLDN)",
}
SEEN_LABELS = {"default": "By method", "raw": "Raw", "matched": "Matched"}
SELECT_WORDS = {"last": "Last", "validation": "Validation best", "oracle": "Oracle best"}
IMAGES_WORDS = {"unlabeled": "Unlabeled", "test": "Test"}
_EVERYTHING = "everything"
_MAX_SIZES = 60  # epochs whose cluster sizes are read
_COMMON = (
    "accuracy/novel", "accuracy/seen", "accuracy/all", "accuracy/gap",
    "accuracy/conflict", "nmi/novel", "nmi/all", "kl",
)  # fmt: skip
FRACTIONS = ("accuracy/", "nmi/", "ari/", "pseudo_label/", "threshold/")
SCORE_COLUMNS = {
    "seen": ("Seen", "Accuracy on images of seen classes, percent. *: after matching ids to classes"),
    "novel": ("Novel", "Accuracy on images of novel classes after their best matching, percent"),
    "all": ("All", f"Accuracy on all unlabeled images, percent. {ABOUT_LOW_ALL}"),
    "nmi": ("NMI", "Normalized mutual information: agreement of clusters and classes on novel images, percent"),
    "gap": ("Gap", "Seen accuracy minus novel accuracy, points"),
    "conflict": (
        "Conflict",
        "(Weighted mean of seen and novel) − all, points: the accuracy lost when one matching must serve all images",
    ),
    "time": ("Time, s", "Seconds of training and evaluation, without pretraining"),
}


@dataclass(frozen=True)
class Scoring:
    """How predictions are scored: the arguments of `lps.analysis.run_scores.score_run`."""

    protocol: str
    select: str
    seen: str
    images: str = "unlabeled"


def sorted_groups(scored: Sequence[Scored], planned: Sequence[Config] = ()) -> list[Group]:
    """Return groups of runs that differ only in their seed, sorted by accuracy on all, the best first.

    planned: as in `run_groups.group_runs`.
    """
    return sorted(run_groups.group_runs(scored, planned), key=lambda group: -np.nan_to_num(group.mean("all"), nan=-1))


def group_label(group: Group) -> str:
    """Return the label of a group with symbols of settings: "LPS, C=5"."""
    return settings_in_symbols(group.label, group.config)


def list_measurements(histories: Sequence[History]) -> dict[str, str]:
    """Return the measurements that at least one run recorded by epoch: name -> title, common ones first."""
    recorded = {name for history in histories for name in history.epochs if history.epochs[name].notna().any()}
    unusual = sorted(recorded - set(_COMMON) - {"eta_s"})
    return {name: measurement_name(name) for name in (*_COMMON, *unusual) if name in recorded}


def list_groupings(configs: Sequence[Config]) -> dict[str, str]:
    """Return the options for averaging curves: everything but the seed, the method, each varied setting."""
    keys = [key for key in run_groups.differing_settings(configs) if key != "method"]
    return {_EVERYTHING: "Settings (mean over seeds)", "method": "Method"} | {key: key for key in keys}


def cluster_shares(run: Run, split: Split, read_assignment: Callable = clusters.read_assignment) -> pd.DataFrame:
    """Return the share of the unlabeled images in each cluster by epoch; of many epochs evenly spread ones.

    Epochs with an unreadable snapshot are left out. read_assignment(run, epoch, split): the assignment of an epoch.
    """
    total, shares_by_epoch = split.classes.total, {}
    for epoch in projection.spread_epochs(snapshots.snapshot_epochs(run.snapshots), _MAX_SIZES):
        with suppress(UserError):
            predicted = read_assignment(run, epoch, split).predicted
            shares_by_epoch[epoch] = np.bincount(predicted, minlength=total)[:total] / max(1, len(predicted))
    return pd.DataFrame.from_dict(shares_by_epoch, orient="index", columns=range(total), dtype=float)


def curve_groups(scored: Sequence[Scored], by: str) -> dict[str, tuple[Scored, ...]]:
    """Return the runs of every curve by label: one run per seed and setting, all of one split."""
    if by == _EVERYTHING:
        return {group_label(group): group.members for group in sorted_groups(scored)}
    runs_by_curve: dict[tuple[str, str], list[Scored]] = {}
    for member in scored:
        runs_by_curve.setdefault((_value_label(member.config, by), member.split), []).append(member)
    split_labels = _split_labels(scored, without=by)
    newest_runs = {key: run_groups.newest_of_seeds(members)[0] for key, members in runs_by_curve.items()}
    return {
        ", ".join(filter(None, [value, split_labels[split]])): newest_runs[value, split]
        for value, split in sorted(newest_runs)
    }


def curve_colors(
    members: Mapping[str, Sequence[Scored]],
    scored: Sequence[Scored],
    colors: Palette,
    pinned: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the colour of every curve of `members` (`curve_groups` of `scored`), as of its oldest run on Charts.

    pinned: id of a run -> its colour on a light ground.
    """
    oldest_runs = {label: min(member.run.id for member in curve) for label, curve in members.items()}
    keys = {run_id: run_id for run_id in oldest_runs.values()}
    color_by_run = palette.assign_colors(keys, [member.run.id for member in scored], colors, pinned)
    return {label: color_by_run[run_id] for label, run_id in oldest_runs.items()}


def _value_label(config: Config, by: str) -> str:
    if by == "method":
        return catalog.method_info(config.method).title
    flat = config.flat()
    return run_groups.setting_in_words(by, flat[by]) if by in flat else f"no {by}"


def _split_labels(scored: Sequence[Scored], without: str) -> dict[str, str]:
    """Return the label of each split from its differing settings except `without`; empty for a single split."""
    first = {member.split: member.config for member in reversed(scored)}
    if len(first) == 1:
        return dict.fromkeys(first, "")
    keys = [key for key in run_groups.differing_settings(list(first.values())) if key.startswith(("dataset", "split."))]
    split_settings = {
        split: {key: run_groups.setting_in_words(key, config.flat()[key]) for key in keys}
        for split, config in first.items()
    }
    all_settings = list(split_settings.values())
    return {
        split: ", ".join(
            [text for key, text in settings.items() if key != without]
            + [f"split {split}"] * (all_settings.count(settings) > 1)
        )
        for split, settings in split_settings.items()
    }


def curve_table(histories: Sequence[History], name: str, band: str) -> pd.DataFrame:
    """Return mean, low, high and count by epoch, over the runs that recorded the epoch; nothing is interpolated.

    low and high are NaN for fewer than two runs, and everywhere for the band "none".
    """
    values = pd.concat([history.column(name) for history in histories], axis=1).sort_index()
    mean, count = values.mean(axis=1), values.count(axis=1)
    if band == "range":
        low, high = values.min(axis=1), values.max(axis=1)
    else:
        reach = _band_half_width(values, band)
        low, high = mean - reach, mean + reach
    table = pd.DataFrame({"mean": mean, "low": low.where(count > 1), "high": high.where(count > 1), "count": count})
    return table[table["count"] > 0]


def _band_half_width(values: pd.DataFrame, band: str) -> pd.Series | float:
    """Return the half width of a band per row: a standard deviation, the mean's confidence interval, or NaN."""
    spread, count = values.std(axis=1, ddof=1), values.count(axis=1)
    if band == "interval":
        return estimates.t_quantile(np.maximum(count - 1, 1)) * spread / np.sqrt(count)
    return spread if band == "std" else np.nan


def tick_format(name: str, curves: Sequence[line_charts.GroupCurve]) -> str:
    """Return the tick format: percent for fractions, with a decimal if the curves are within a few points."""
    if not name.startswith(FRACTIONS):
        return ""
    values = pd.concat([curve.table[["mean", "low", "high"]] for curve in curves])
    span = float(np.nanmax(values.to_numpy()) - np.nanmin(values.to_numpy()))
    return ".0%" if span > 0.05 else ".1%"


def settings_table(groups: Sequence[Group]) -> pd.DataFrame:
    """Return a row per group and a column per varied setting, and for seeds if they differ; "–" without the setting."""
    keys = [key for key in run_groups.differing_settings([group.config for group in groups]) if key != "method"]
    resolved = run_scores.resolved_differences([group.members[0] for group in groups])
    keys += [key for key in resolved if key not in keys]
    rows = []
    for i, group in enumerate(groups):
        flat = group.config.flat() | {key: values[i] for key, values in resolved.items()}
        seeds = ", ".join(str(member.config.seed) for member in group.members)
        values = {key: text_of(flat[key]) if key in flat else "–" for key in keys}
        rows.append({"Group": group.label} | values | {"seeds": seeds})
    table = pd.DataFrame(rows)
    return table if table["seeds"].nunique() > 1 else table.drop(columns="seeds")


def compare_command(groups: Sequence[Group], scoring: Scoring) -> str:
    """The command that prints this table."""
    ids = [member.run.id for group in groups for member in (*group.members, *group.replaced)]
    options = {name: getattr(scoring, name) for name in ("protocol", "images", "select", "seen")}
    usual = ("orca", "unlabeled", "last", "default")
    changed_options = {name: value for name, value in options.items() if value not in usual}
    return cli_args.format_command("compare", *map(short_id, ids), **changed_options, format="latex")
