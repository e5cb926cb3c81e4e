"""A few lines of Python that draw what scores of runs show, from `lps`: differences, settings and what goes with them.

scoring: protocol, select, seen and images, as `lps.compare_runs` is told. measure: seen, novel, all or gap.
"""

from collections.abc import Mapping, Sequence

from lps.analysis.paper import Row
from lps.bench.drawing_code import PANDAS, PLOTLY, listed, text

_CURVES = ("seen", "novel", "all")  # that the paper's tables have, too
# One run with its scores; of several, `lps.compare_runs` would keep those of another precision apart.
_SCORES = "lps.compare_runs([run], **how)[0]"


def of_differences(folders: Sequence[str], against: str, column: str, scoring: Mapping[str, str]) -> str:
    """Every group of equal runs minus that of the run `against`, in points, with the 95 % interval."""
    lines = ["import lps", PLOTLY, "", _how(scoring), *_runs(folders)]
    lines += [f"groups = lps.compare_runs(runs, against=lps.Run({against!r}), **how)"]
    lines += ["figure = go.Figure()", "for group in groups:", f"    found = group['differences'].get({column!r})"]
    lines += ["    if found is None:", "        continue", "    mean, high = found['difference'], found['high']"]
    lines += ["    bar = None if high is None else {'array': [100 * (high - mean)]}"]
    lines += ["    figure.add_scatter(x=[100 * mean], y=[group['label']], error_x=bar, name=group['label'])"]
    return text([*lines, f"figure.update_layout(xaxis_title={f'{column}, points'!r})", "figure.show()"])


def of_values(
    groups: Mapping[object, Sequence[str]],
    setting: str,
    scoring: Mapping[str, str],
    published: Mapping[float, Row] | None = None,
) -> str:
    """Mean and spread of accuracies by the value of a setting, their gap in points below.

    groups: value -> folders of its runs. published: the paper's line of a value.
    """
    lines = ["import lps", PANDAS, "from plotly.subplots import make_subplots", "", _how(scoring), "groups = {"]
    lines += [f"    {value!r}: {listed(folders)}," for value, folders in groups.items()]
    lines += ["}", *_paper(published or {})]
    lines += [f"scores = [[{_SCORES} for run in runs] for runs in groups.values()]"]
    lines += ["figure = make_subplots(rows=2, shared_xaxes=True)"]
    lines += ["for name, row, unit in (('seen', 1, 1), ('novel', 1, 1), ('all', 1, 1), ('gap', 2, 100)):"]
    lines += ["    own = [unit * pd.Series([one[name]['mean'] for one in runs], dtype=float) for runs in scores]"]
    lines += ["    means, spread = [one.mean(skipna=False) for one in own], {'array': [one.std() for one in own]}"]
    lines += ["    figure.add_scatter(x=list(groups), y=means, error_y=spread, name=name, row=row, col=1)"]
    if published:
        lines += ["for name, shares in paper.items():", "    x, y = list(shares), list(shares.values())"]
        lines += ["    figure.add_scatter(x=x, y=y, name=f'{name}, paper', line_dash='dot', row=1, col=1)"]
    return text([*lines, f"figure.update_xaxes(title={setting!r})", "figure.show()"])


def of_cells(
    cells: Mapping[tuple, Sequence[str]], axes: Mapping[str, Sequence], measure: str, scoring: Mapping[str, str]
) -> str:
    """A cell a pair of values of two settings: mean and spread of a measure, and how many runs.

    cells: (value of the rows' setting, value of the columns') -> folders of its runs. axes: the two settings, that of
    the rows first, with their values in order.
    """
    (down, rows), (across, columns) = axes.items()
    lines = ["import lps", PANDAS, PLOTLY, "", _how(scoring), f"rows, columns = {list(rows)!r}, {list(columns)!r}"]
    lines += [f"cells = {{  # {down!r}, {across!r}"]
    lines += [f"    {pair!r}: {listed(folders)}," for pair, folders in cells.items()]
    lines += ["}", "means, words = ([[None for _ in columns] for _ in rows] for _ in range(2))"]
    lines += ["for (row, column), runs in cells.items():"]
    lines += [f"    scores = [{_SCORES}[{measure!r}]['mean'] for run in runs]"]
    lines += ["    scores, y, x = pd.Series(scores, dtype=float), rows.index(row), columns.index(column)"]
    lines += ["    means[y][x] = scores.mean(skipna=False)"]
    lines += ["    spread = f' ± {100 * scores.std():.1f}' if len(scores) > 1 else ''"]
    lines += ["    words[y][x] = f'{100 * means[y][x]:.1f}{spread}<br>n = {len(scores)}'"]
    lines += ["figure = go.Figure(go.Heatmap(z=means, text=words, texttemplate='%{text}'))"]
    for axis, name, setting in (("x", "columns", across), ("y", "rows", down)):
        ticks = f"tickvals=list(range(len({name}))), ticktext=[str(one) for one in {name}]"
        lines += [f"figure.update_{axis}axes(title={setting!r}, {ticks})"]
    return text([*lines, "figure.show()"])


def of_lines(
    folders: Sequence[str], axes: Mapping[str, Sequence | None], measure: str, scoring: Mapping[str, str]
) -> str:
    """One line a run through its settings to a measure.

    axes: setting -> its values, which stand at equal distances; None where numbers stand where they are.
    """
    lines = ["import lps", PLOTLY, "", _how(scoring), *_runs(folders), "axes = {"]
    lines += [f"    {setting!r}: {None if values is None else list(values)!r}," for setting, values in axes.items()]
    unit, title = ("100 * ", "gap, points") if measure == "gap" else ("", measure)  # as a gap is told
    lines += ["}", f"scores = [{unit}{_SCORES}[{measure!r}]['mean'] for run in runs]", "dimensions = []"]
    lines += ["for setting, values in axes.items():", "    own = [run.config[setting] for run in runs]"]
    lines += ["    line = {'label': setting, 'values': own}", "    if values is not None:"]
    lines += ["        line['values'] = [values.index(one) for one in own]"]
    lines += ["        line |= {'tickvals': list(range(len(values))), 'ticktext': [str(one) for one in values]}"]
    lines += ["    dimensions.append(line)", f"dimensions.append({{'label': {title!r}, 'values': scores}})"]
    return text([*lines, "figure = go.Figure(go.Parcoords(dimensions=dimensions, line_color=scores))", "figure.show()"])


def of_importance(
    folders: Sequence[str], settings: Sequence[str], beside: Sequence[str], measure: str, scoring: Mapping[str, str]
) -> str:
    """What each setting adds to all others (type III shares of the variance between setups); `beside`: not shown."""
    lines = ["import lps", "import numpy as np", PANDAS, PLOTLY, "", _how(scoring), *_runs(folders)]
    lines += ["groups = lps.compare_runs(runs, **how)  # each of runs that differ in the seed alone"]
    lines += [f"rows = [group['config'] | {{'mean of seeds': group[{measure!r}]['mean']}} for group in groups]"]
    lines += ["setups = pd.DataFrame(rows).dropna(subset=['mean of seeds'])", "score = setups['mean of seeds']"]
    lines += [f"settings, beside = {list(settings)!r}, {list(beside)!r}", "", "def unexplained(names):"]
    lines += ["    terms = [pd.get_dummies(setups[name].astype(str)).to_numpy(float) for name in names]"]
    lines += ["    model = np.column_stack([np.ones(len(setups)), *terms])"]
    lines += ["    return ((score - model @ np.linalg.lstsq(model, score)[0]) ** 2).sum()", ""]
    lines += ["total, left = ((score - score.mean()) ** 2).sum(), unexplained(settings + beside)"]
    lines += ["others = [[name for name in settings + beside if name != setting] for setting in settings]"]
    lines += ["shares = [(unexplained(names) - left) / total for names in others]"]
    lines += ["values = [setups[setting].astype(str).nunique() for setting in settings]"]
    lines += ["chance = [(count - 1) / (len(setups) - 1) for count in values]  # on average if nothing has an effect"]
    lines += ["figure = go.Figure(go.Bar(x=shares, y=settings, orientation='h', name='share'))"]
    lines += ["figure.add_scatter(x=chance, y=settings, mode='markers', name='chance')"]
    return text([*lines, "figure.update_yaxes(autorange='reversed')", "figure.show()"])


def _runs(folders: Sequence[str]) -> list[str]:
    return ["runs = [", *(f"    lps.Run({folder!r})," for folder in folders), "]"]


def _how(scoring: Mapping[str, str]) -> str:
    return f"how = {dict(scoring)!r}"


def _paper(published: Mapping[float, Row]) -> list[str]:
    """The paper's shares by value, which are no run's."""
    if not published:
        return []
    numbers = {name: {value: getattr(row, name) for value, row in sorted(published.items())} for name in _CURVES}
    shares = {name: {v: n if n is None else round(n / 100, 4) for v, n in own.items()} for name, own in numbers.items()}
    return ["paper = {", *(f"    {name!r}: {own!r}," for name, own in shares.items()), "}"]
