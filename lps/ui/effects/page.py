"""The page Effects: choose and score runs; show main effects, one setting, all runs and the ablation.

Every choice is in the page's URL. Only finished runs of one split and one method are compared; the others are named.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from lps.analysis import effects, run_groups, run_scores, score_tables
from lps.analysis.effects import Background
from lps.analysis.main_effects import MainEffect, main_effects
from lps.analysis.run_groups import Group
from lps.analysis.run_scores import Scored
from lps.charts import effect_charts
from lps.charts.effect_charts import COLUMNS, MEASURES, NAMES, Axis
from lps.charts.group_tables import Scoring
from lps.errors import UserError
from lps.settings import catalog, cli_args
from lps.settings.config import Config
from lps.settings.parameters import text_of
from lps.store import titles
from lps.store.runs import Run, State
from lps.studies import sweep_records
from lps.ui.effects import ablations, matrix, missing_runs
from lps.ui.effects.backgrounds import describe_fixed_settings, pick_background
from lps.ui.shared import (
    data_table,
    escape,
    group_differences,
    live_part,
    page_head,
    scores,
    select,
    theme,
    url_fields,
)
from lps.ui.shared.data_table import Column
from lps.ui.shared.plot import plot
from lps.wording import counted, percent

_EXAMPLE = "margin_scale=0,2,5,10,20"  # of a sweep worth looking at
_MAX_ASSOCIATED = 3  # pairs of settings that are named
_EFFECT_DIGITS = 2  # of a score: effects that are equal in whole points are not ranked
_TICK_S = 5.0  # while a run waits or trains
_MAX_BARS = 8  # settings in the chart of main effects
MAX_AXES = 7  # side by side with names that can be read


@dataclass(frozen=True)
class _SplitRuns:
    """The runs to analyse. finished, others: runs of one split and method, with their settings."""

    method: str
    measure: str  # of `MEASURES`
    finished: dict[Run, Config]
    unfinished: dict[Run, tuple[Config, State]]

    @property
    def runs(self) -> list[Run]:
        return [*self.finished, *self.unfinished]

    @property
    def waiting(self) -> list[Config]:
        """Return the runs that will finish without action by the user."""
        return [config for config, state in self.unfinished.values() if state.is_moving]


def main() -> None:
    """Draw the page."""
    page_head.show_title("Effects")
    missing_runs.start_requested()
    runs = _requested_runs() or _runs_of_newest_sweep() or select.default_group(select.open_runs())
    missing_runs.show_started()
    if active := [run for run in runs if run.state().is_moving]:
        live_part.restart_on_change(lambda: [run.state().name for run in active], _TICK_S)
    selection = _pick_split(runs)
    if selection is None:
        _show_empty(runs)
        return
    page_head.link_sweeps(selection.runs)
    scoring = _pick_scoring()
    scored = _score_runs(selection, scoring)
    if not scored:
        message = (
            'With your choices under "How the runs are scored", no finished run can be scored. The reasons are above.'
        )
        st.info(message, icon=":material/tune:")
        return
    varied = effects.varied_settings(member.config for member in scored)
    if not varied:
        _show_unvaried(scored)
        ablations.show_ablation(scored, selection.waiting)
        return
    effect_list = main_effects(scored, selection.measure)
    _show_main_effects(scored, effect_list, varied, selection)
    st.space("small")
    view = url_fields.choose_one(st.segmented_control, "view", "More", _list_views(), label_visibility="collapsed")
    if view == "lines":
        _show_all(scored, varied, selection.measure)
    elif view == "ablation":
        ablations.show_ablation(scored, selection.waiting)
    else:
        _show_setting(scored, effect_list, varied, selection)


def _requested_runs() -> list[Run]:
    """Return the runs that the URL names, as the link of a sweep does; none if it names fewer than two."""
    named = st.query_params.get_all("run")
    runs = [run for run in select.open_runs() if run.id in named]
    if len(runs) < 2:
        return []
    select.offer_all_runs(len(runs))
    return runs


def _runs_of_newest_sweep() -> list[Run]:
    """Return the runs of the newest sweep with finished runs of two setups, and those started here to complete it.

    Empty if all runs are asked for, or if there is no such sweep.
    """
    if select.wants_all_runs():
        return []
    open_runs = select.open_runs()
    visible = {*open_runs}
    runs_by_sweep = {sweep.name: sweep.runs for sweep in sweep_records.list_sweeps(select.runs_root())}
    started_here = runs_by_sweep.pop(missing_runs.NAME, ())
    for name, sweep_runs in runs_by_sweep.items():
        if _varies_settings([run for run in sweep_runs if run in visible]):
            chosen = {*sweep_runs, *(run for run in started_here if run.id > sweep_runs[-1].id)}
            runs = [run for run in open_runs if run in chosen]
            if len(runs) < len(select.default_group(open_runs)):
                select.offer_all_runs(len(runs), name)
            return runs
    return []


def _varies_settings(runs: Sequence[Run]) -> bool:
    """Return whether finished runs of one split and method differ in more than the seed."""
    finished = (run.config_if_readable() for run in runs if run.state().name == "finished")
    setups = {effects.rest_of(config, ()): (_split_key(config), config.method) for config in finished if config}
    return len(set(setups.values())) < len(setups)


def _list_views() -> dict[str, str]:
    """Return the tabs below the main effects; an older link that names an ablation opens that tab."""
    views = {"setting": "One setting", "lines": "All runs", "ablation": "Ablation"}
    return {"ablation": "Ablation"} | views if "full" in st.query_params else views


# ---------------------------------------------------------------------------------------------------- main effects


def _show_main_effects(
    scored: Sequence[Scored], effect_list: Sequence[MainEffect], varied: Mapping[str, list], selection: _SplitRuns
) -> None:
    """Show which settings matter: a sentence, a bar for each setting, and a matrix of two settings."""
    text = "No two runs differ in exactly one setting."
    if effect_list:
        text = group_differences.describe_effects(scored, selection.measure)
    st.markdown(f"{_explain_waiting(selection)} {text}".strip())
    if len(varied) < 2:
        return
    bars, cells = st.columns([5, 6], gap="large")
    with bars:
        if len(effect_list) > 1:
            st.subheader("Main effects", anchor=False)
            _show_bars(scored, effect_list[:_MAX_BARS], selection.measure)
    with cells:
        matrix.show_matrix(scored, varied, selection.waiting, selection.measure)


def _explain_waiting(selection: _SplitRuns) -> str:
    """Say how many runs are still to finish, because effects may then come from different seeds; "" if none."""
    finished, waiting = len(selection.finished), len(selection.waiting)
    if not waiting:
        return ""
    return f"**{finished} of {counted(finished + waiting, 'run')} have finished**; these numbers may change."


def _show_bars(scored: Sequence[Scored], effect_list: Sequence[MainEffect], measure: str) -> None:
    alt = "; ".join(f"{item.setting} {effect_charts.effect_in_points(item)}" for item in effect_list)
    figure = effect_charts.main_effects(effect_list, theme.current_palette())
    code = group_differences.code_of_scored("main_effects", scored, measure)
    plot(figure, "effect_main", f"Main effects: {alt}", code=code)
    seeds = sorted({item.seeds for item in effect_list})
    number = "–".join(map(str, dict.fromkeys([seeds[0], seeds[-1]])))
    st.caption(
        f"{MEASURES[measure]}: a bar shows how it changes if only this setting changes (mean over pairs of runs, "
        f"n = {number} {'seed' if seeds[-1] == 1 else 'seeds'}). For a setting with several values, the pair with the "
        "largest difference is shown. The interval in brackets is corrected for the number of pairs."
    )


# ---------------------------------------------------------------------------------------------------- choices


def _pick_split(runs: Sequence[Run]) -> _SplitRuns | None:
    """Return the chosen split and method; None if no run has finished."""
    configs = {run: config for run in runs if (config := run.config_if_readable())}
    states = {run: run.state() for run in configs}
    splits: dict[str, list[Run]] = {}
    for run, config in configs.items():
        splits.setdefault(_split_key(config), []).append(run)
    finished_runs = {
        key: [run for run in split_runs if states[run].name == "finished"] for key, split_runs in splits.items()
    }
    keys = sorted(
        filter(finished_runs.get, finished_runs),
        key=lambda key: -_count_setups([configs[run] for run in finished_runs[key]]),
    )
    if not keys:
        return None
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        split_names = _name_splits([configs[finished_runs[key][0]] for key in keys])
        ids = {hashlib.sha256(key.encode()).hexdigest()[:6]: key for key in keys}
        named = {
            short: f"{text} · {counted(len(finished_runs[ids[short]]), 'run')}" for short, text in zip(ids, split_names)
        }
        key = ids[url_fields.choose_one(st.selectbox, "split", "Split", named, width=330)]
        configs_by_method: dict[str, list[Config]] = {}
        for run in finished_runs[key]:
            configs_by_method.setdefault(configs[run].method, []).append(configs[run])
        usual = sorted(
            configs_by_method, key=lambda name: (-_count_setups(configs_by_method[name]), name != "lps", name)
        )
        named = {
            name: f"{catalog.method_info(name).title} · {counted(len(configs_by_method[name]), 'run')}"
            for name in usual
        }
        method = url_fields.choose_one(st.selectbox, "method", "Method", named, width=200)
        measure = url_fields.choose_one(st.selectbox, "measure", "Measurement", MEASURES, width=220)
    method_runs = [run for run in splits[key] if configs[run].method == method]
    finished = {run: configs[run] for run in method_runs if states[run].name == "finished"}
    unfinished = {run: (configs[run], states[run]) for run in method_runs if states[run].name != "finished"}
    return _SplitRuns(method, measure, finished, unfinished)


def _split_key(config: Config) -> str:
    """Return a key that is equal for runs with the same data and split settings."""
    return json.dumps(config.split_settings())


def _count_setups(configs: Sequence[Config]) -> int:
    """Return the number of different configurations, ignoring seeds."""
    return len({effects.rest_of(config, ()) for config in configs})


def _name_splits(configs: Sequence[Config]) -> list[str]:
    """Describe each split by data set, share of labels and other differences: "Digits, 50 % labeled"."""
    different = [key for key in run_groups.differing_settings(configs) if key.startswith(("dataset.", "split."))]
    keys = [key for key in different if key != "split.labeled_ratio"]
    dataset_titles = catalog.dataset_titles()
    names = []
    for config in configs:
        flat, usual = config.flat(), config.defaults()
        differences = [titles.setting_in_words(key, flat[key]) for key in keys if flat[key] != usual[key]]
        labels = f"{100 * config.split_labeled_ratio:g} % labeled"
        names.append(", ".join([dataset_titles.get(config.dataset, config.dataset), labels, *differences]))
    return names


def _pick_scoring() -> Scoring:
    """Show how predictions are scored, as on the page Compare."""
    with st.expander("How the runs are scored", icon=":material/straighten:"):
        return scores.pick_scoring()


def _score_runs(selection: _SplitRuns, scoring: Scoring) -> list[Scored]:
    """Score the finished runs of one split; runs that cannot be scored are named with the reason."""
    with st.spinner("Computing scores from the stored predictions"):
        scored, left_out = scores.score_all(list(selection.finished), scoring)
    same_split, other_split = effects.one_split(scored)
    left_out += [(member.run, f"its split is {member.split}, not {same_split[0].split}") for member in other_split]
    replaced = set(member.run.id for member in same_split) - set(
        m.run.id for m in run_groups.newest_of_seeds(same_split)[0]
    )
    left_out += [(m.run, "not used: another run has the same seed") for m in same_split if m.run.id in replaced]
    left_out += [(run, _explain_exclusion(state)) for run, (_, state) in selection.unfinished.items()]
    scores.show_left_out(left_out)
    return same_split


def _explain_exclusion(state: State) -> str:
    reason = "it is included once it has finished" if state.is_moving else "only finished runs are included"
    return f"{state.name}; {reason}"


# ---------------------------------------------------------------------------------------------------- nothing to see


def _show_empty(runs: Sequence[Run]) -> None:
    """Say what to do if no run has finished yet."""
    message = "No run has finished yet; come back in a minute." if runs else "There are no runs yet."
    message += " To measure the effect of a setting, you need runs with different values of it."
    page_head.offer_launch(message, ":material/tune:", "Launch the first ones")
    _show_command({}, None)


def _show_command(fixed: Mapping[str, object], config: Config | None) -> None:
    dataset, method = (config.dataset, config.method) if config else ("digits", "lps")
    options = {"dataset": dataset != "digits" and dataset, "method": method != "lps" and method}
    st.caption("A useful set of runs, from the command line")
    line = cli_args.format_command("sweep", **options, vary=example_values(method), seeds="0,1,2", set=fixed)
    st.code(line, language="bash", wrap_lines=True)


def example_values(method: str) -> str:
    """Return a setting of the method with values for a sweep."""
    if method == "lps":
        return _EXAMPLE
    info = catalog.method_info(method)
    numbers = [p for p in info.parameters.values() if p.kind == "float" and p.default and _is_valid(p, 2 * p.default)]
    fallback = ("lr", 0.1) if info.trains else ("pretrain.epochs", 20)
    name, usual = (numbers[0].name, numbers[0].default) if numbers else fallback
    return f"{name}={','.join(f'{factor * usual:g}' for factor in (0.25, 0.5, 1, 2))}"


def _is_valid(parameter, value: float) -> bool:
    try:
        return parameter.check(value) is not None
    except UserError:
        return False


def _show_unvaried(scored: Sequence[Scored]) -> None:
    """Say what to do if all runs have the same settings."""
    is_single = len(scored) == 1
    message = "There is one run" if is_single else f"All {len(scored)} runs differ in nothing but the seed"
    message += ". Vary a setting to see its effect."
    page_head.offer_launch(message, ":material/tune:", "Launch a run with another value")
    config = scored[0].config
    flat, usual = config.flat(), config.defaults()
    changed = [key for key in flat if key not in run_scores.REPEATED and flat[key] != usual.get(key)]
    _show_command({key: flat[key] for key in changed}, config)


# ---------------------------------------------------------------------------------------------------- one setting


def _show_setting(
    scored: Sequence[Scored],
    effect_list: Sequence[MainEffect],
    varied: Mapping[str, list],
    selection: _SplitRuns,
) -> None:
    """Plot the effect of one setting within one background, by default the largest, and offer missing runs."""
    measure = selection.measure
    st.subheader("One setting", anchor=False)
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        configs = [member.config for member in scored]
        by_cells = sorted(varied, key=lambda key: -effects.most_cells(configs, [key], varied))
        order = [*(item.setting for item in effect_list), *by_cells]
        labels = {key: f"{key} · {len(varied[key])} values" for key in order}
        setting = url_fields.choose_one(st.selectbox, "setting", "Setting", labels, width=300)
        backgrounds = effects.find_backgrounds(scored, [setting])
        backgrounds.sort(key=lambda background: -round(background.spread(measure), _EFFECT_DIGITS))
        background = pick_background(backgrounds, "background")
    groups = {values[0]: group for values, group in background.groups.items()}
    if answer_sentence := group_differences.name_best_value(
        setting, groups, measure, describe_fixed_settings(background, varied)
    ):
        st.markdown(answer_sentence)
    axis = Axis.from_values(setting, varied[setting])
    published, reasons = effects.paper_curve(background.members[0], setting)
    axis_with_paper = Axis.from_values(setting, effects.sort_values({*axis.values, *published}))
    figure = effect_charts.curves(axis_with_paper, axis.values, groups, published, theme.current_palette())
    alt = f"Accuracy on seen, novel and all classes, and the gap, for {len(groups)} values of {setting}"
    if len(groups) > 1:
        code = group_differences.code_of_scored("setting_curves", background.members, setting)
        plot(figure, "effect_curves", alt, code=code, view=f"{setting} {background.id}")
    st.caption(" ".join(_explain_curves(axis, axis_with_paper, groups, len(backgrounds), reasons)))
    with st.expander("Table of these numbers"):
        data_table.show_data_table(_curve_columns(setting), list(groups.items()), f"{alt}, in numbers")
    named = {
        value: replace(group, label=run_groups.setting_in_words(setting, value)) for value, group in groups.items()
    }
    usual = named.get(background.config.defaults().get(setting))
    group_differences.show_differences(list(named.values()), "against", usual, selection.runs)
    lacking = [(value,) for value in varied[setting] if value not in groups]
    _offer_missing_runs(background, lacking)


def _explain_curves(
    axis: Axis,
    axis_with_paper: Axis,
    groups: Mapping[object, Group],
    num_backgrounds: int,
    reasons: Sequence[str],
) -> list[str]:
    """Explain points, bars and gaps, and whether the paper's curve is shown."""
    counts = sorted({len(group.members) for group in groups.values()})
    number = "–".join(map(str, dict.fromkeys([counts[0], counts[-1]])))
    spread = f"Each point is the mean of n = {number} seeds, each bar ± one standard deviation, each small dot one run."
    sentences = [spread if counts[-1] > 1 else "Each point is one run, so the spread is unknown."]
    if len(groups) == 1:
        sentences.append("No two runs differ only in this setting, so there is no effect to see yet.")
    lacking = [value for value in axis.values if value not in groups]
    if lacking:
        values = escape.markdown(", ".join(map(effect_charts.shorten_value, lacking)))
        sentences.append(
            f"With the other settings as chosen above, no run has the value {values}. The line has a gap there."
        )
    if num_backgrounds > 1:
        sentences.append("Runs that differ in other settings are not included; choose them above.")
    if axis_with_paper.kind == "places":
        sentences.append("The axis is not to scale: the values are evenly spaced.")
    elif axis_with_paper.kind == "log":
        sentences.append("The axis is logarithmic.")
    if reasons:
        sentences.append(escape.markdown(f"Not comparable with the paper: {'; '.join(reasons)}."))
    return sentences


def _offer_missing_runs(background: Background, cells: Sequence[tuple]) -> None:
    """Offer to start runs for the values that have none in this background."""
    seeds = effects.usual_seeds(background.groups.values())
    configs = [config for values in cells for config in effects.missing_configs(background, values, seeds)]
    if configs:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            help_text = f"{background.settings[0]}={', '.join(text_of(values[0]) for values in cells)}"
            missing_runs.offer_runs("curve", help_text, configs, primary=False)


def _curve_columns(setting: str) -> list[Column]:
    """Return the columns of (value, group): mean ± standard deviation in percent or points, and the seeds."""
    return [
        Column(setting, lambda row: text_of(row[0])),
        *(
            Column(NAMES[measure], lambda row, measure=measure: score_tables.format_cell(row[1], measure))
            for measure in COLUMNS
        ),
        Column("n", lambda row: len(row[1].members)),
        Column("Seeds", lambda row: ", ".join(str(member.config.seed) for member in row[1].members)),
    ]


# ---------------------------------------------------------------------------------------------------- all settings


def _show_all(scored: Sequence[Scored], varied: Mapping[str, list], measure: str) -> None:
    """Plot every run as a line through its settings, and each setting's share of the variance."""
    st.subheader("All settings", anchor=False)
    try:
        importances, left_out = effects.setting_importance(scored, measure)
        trouble = None
    except UserError as error:
        importances, left_out, trouble = [], {}, error
    _show_lines(scored, varied, measure, [name for item in importances for name in item.setting.split(", ")])
    st.markdown(f"**Settings associated with {MEASURES[measure].lower()}**")
    if trouble:
        st.caption(escape.markdown(f"Importance {str(trouble).removeprefix('importance: ')}."))
        return
    if importances:
        alt = ", ".join(f"{item.setting} {percent(item.share)}" for item in importances)
        figure = effect_charts.importance(importances, theme.current_palette())
        code = group_differences.code_of_scored("setting_importance", scored, measure)
        plot(figure, "effect_importance", f"Share of variance: {alt}", code=code)
    st.caption("  \n".join(_explain_importance(scored, left_out)))


def _show_lines(
    scored: Sequence[Scored], varied: Mapping[str, list], measure: str, names_by_importance: Sequence[str]
) -> None:
    """Plot parallel coordinates; of many settings, by default those that matter most."""
    measured_runs = [member for member in scored if not math.isnan(member.value(measure))]
    if not measured_runs:
        return
    axes = _pick_axes(varied, names_by_importance)
    figure = effect_charts.parallel(measured_runs, axes, measure, theme.current_palette())
    alt = f"{len(measured_runs)} runs as lines through {len(axes)} settings, by {MEASURES[measure].lower()}"
    code = group_differences.code_of_scored("setting_lines", measured_runs, list(axes), measure)
    plot(figure, "effect_parallel", alt, code=code, view=f"{' '.join(axes)} {measure}")
    st.caption(
        f"One line per run; the stronger its colour, the higher its {MEASURES[measure].lower()}. Drag along an axis "
        "to filter runs; drag a name to move its axis."
    )


def _pick_axes(varied: Mapping[str, list], names_by_importance: Sequence[str]) -> dict[str, list]:
    """Return the settings that get an axis, with their values."""
    if len(varied) <= MAX_AXES:
        return dict(varied)
    usual = list(dict.fromkeys([*names_by_importance, *varied]))[:MAX_AXES]
    selected = st.multiselect(
        f"Axes ({len(varied)} settings differ)",
        list(varied),
        [setting for setting in varied if setting in usual],
        key=f"effect_axes_{' '.join(varied)}",
        placeholder="Choose at least one",
    )
    return {setting: varied[setting] for setting in selected or usual}


def _explain_importance(scored: Sequence[Scored], left_out: Mapping[str, str]) -> list[str]:
    """Explain what the bars mean and what they do not."""
    associated = effects.setting_associations(scored)
    sentences = [
        "Runs that differ only in the seed are averaged. A bar shows how much of the variance between these averages "
        "is explained by this setting and by no other. To compute it, we fit a linear statistical model with main "
        "effects only (type III sum of squares). The black mark shows how long the bar would be on average if no "
        "setting had an effect. Interactions between settings are not shown. The shares describe only these runs."
    ]
    if not associated and not left_out:
        sentences.append(
            "The settings were varied independently: if a bar is much longer than its mark, the setting has an effect "
            "in these runs."
        )
    for first, second, strength in associated[:_MAX_ASSOCIATED]:
        pair = f"{escape.markdown(first)} and {escape.markdown(second)}"
        sentences.append(
            f"{pair} were varied together (Cramer's V {strength:.2f}). The effect that they share is in neither bar, "
            f"so even a setting with a short bar may have an effect."
        )
    for settings in effects.changed_together([member.config for member in scored]):
        sentences.append(f"Always changed together, so they count as one: {escape.markdown(', '.join(settings))}.")
    sentences += [
        f"Left out: {escape.markdown(setting)}, {escape.markdown(reason)}." for setting, reason in left_out.items()
    ]
    return sentences
