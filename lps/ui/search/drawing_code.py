"""A few lines of Python that draw what a search has found, from `lps`: its trials are runs, their values are measured.

root: the folder of the runs. objective: what was measured. trials: those with a value: number, state as of
`lps.studies.search_results.Trial`, and its runs with the epoch up to which each counts.
"""

import math
from collections.abc import Mapping, Sequence

from lps.bench.drawing_code import PANDAS, PLOTLY, text
from lps.studies.search_objective import Objective
from lps.studies.search_space import Dimension

Trials = Sequence[tuple[int, str, Mapping[str, int]]]
_EVENNESS = (  # `lps.studies.search_objective.value_of`
    "    names = [one['name'] for one in run.classes()]",
    "    rows = run.labels(epoch)",
    "    found = [row['truth'] if row['predicted'] is None else names[row['predicted']] for row in rows]",
    "    shares = pd.Series(found).value_counts(normalize=True)",
    "    return accuracy * math.exp(-sum(share * math.log(share) for share in shares)) / len(names)",
)


def of_history(root: str, objective: Objective, trials: Trials) -> str:
    """The value of every trial in their order, and the best finished one so far."""
    lines = [*_table(root, objective, trials), *_states("trial")]
    lines += ["best = table['value'].where(table['state'] == 'complete').astype(float).cummax().ffill()"]
    lines += ["figure.add_scatter(x=table['trial'], y=best, line_shape='hv', name='best so far')"]
    return _whole([*lines, "figure.update_xaxes(title='trial')", "figure.show()"])


def of_setting(root: str, objective: Objective, trials: Trials, dimension: Dimension) -> str:
    """The value of every trial over one searched setting, whatever the others were."""
    axis = f"title={dimension.name!r}" + ", type='log'" * dimension.log
    lines = _table(root, objective, trials)
    if dimension.choices:
        lines += [f"choices = {list(dimension.choices)!r}"]
        lines += [f"table[{dimension.name!r}] = [choices.index(one) for one in table[{dimension.name!r}]]"]
        axis += ", tickvals=list(range(len(choices))), ticktext=[str(one) for one in choices]"
    return _whole([*lines, *_states(dimension.name), f"figure.update_xaxes({axis})", "figure.show()"])


def of_lines(root: str, objective: Objective, trials: Trials, space: Sequence[Dimension]) -> str:
    """One line a finished trial through its settings to its value."""
    lines = [*_table(root, objective, trials), "table = table[table['state'] == 'complete']"]
    lines += ["values = table['value'].astype(float)", "dimensions = ["]
    lines += [f"    {{{_axis(dimension)}}}," for dimension in space]
    lines += ["    {'label': 'value', 'values': values},", "]"]
    return _whole(
        [*lines, "figure = go.Figure(go.Parcoords(dimensions=dimensions, line_color=values))", "figure.show()"]
    )


def _whole(lines: Sequence[str]) -> str:
    return text(["import math", "", *lines] if any("math." in line for line in lines) else lines)


def _table(root: str, objective: Objective, trials: Trials) -> list[str]:
    """A row a trial: number, state, value, and the settings of its first run."""
    accuracy = "accuracy/all" if objective.hidden else "accuracy/validation"
    ending = _EVENNESS if objective.name == "balanced" else ("    return accuracy",)
    return [
        "import lps", PANDAS, PLOTLY, "", "trials = [  # number, state, runs: up to which epoch",
        *(f"    {(number, state, dict(runs))!r}," for number, state, runs in trials), "]", "", "def value(run, until):",
        f"    epoch, accuracy = [pair for pair in zip(*run.curve({accuracy!r})) if pair[0] <= until][-1]", *ending, "",
        "rows = []", "for number, state, epochs in trials:",
        f"    runs = [lps.Run({f'{root}/'!r} + one) for one in epochs]",
        "    values = [value(run, until) for run, until in zip(runs, epochs.values())]",
        "    rows.append(runs[0].config | {'trial': number, 'state': state, 'value': sum(values) / len(values)})",
        "table = pd.DataFrame(rows, dtype=object)  # keeps None, which a setting may be",
    ]  # fmt: skip


def _states(across: str) -> list[str]:
    return [
        "figure = go.Figure()",
        "for state, own in table.groupby('state'):",
        f"    figure.add_scatter(x=own[{across!r}], y=own['value'], mode='markers', name=state)",
    ]


def _axis(dimension: Dimension) -> str:
    """An axis of parallel coordinates, from one end of what was searched to the other."""
    name = dimension.name
    if dimension.choices:
        values = f"[{list(dimension.choices)!r}.index(one) for one in table[{name!r}]]"
        ticks = [str(one) for one in dimension.choices]
        return f"'label': {name!r}, 'values': {values}, 'tickvals': {list(range(len(ticks)))}, 'ticktext': {ticks!r}"
    ends = [dimension.low, dimension.high]
    if dimension.log:
        values = f"[math.log10(one) for one in table[{name!r}]]"
        return f"'label': {f'log10 of {name}'!r}, 'values': {values}, 'range': {[math.log10(end) for end in ends]!r}"
    return f"'label': {name!r}, 'values': table[{name!r}], 'range': {ends!r}"
