"""Define what a search may vary: a range or some choices of a setting, as users type them, and check them.

margin_scale=1..10    lr=1e-4..1e-1:log    batch_size=128..512    use_margin=true,false    temperature=0.2,0.4,0.8
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lps.errors import UserError, shorten
from lps.settings.config import Config, parameters
from lps.settings.parameters import Parameter, text_of

_HELP = "expected LOW..HIGH, LOW..HIGH:log, or choices such as true,false"
_MAX_DIMENSIONS, _MAX_CHOICES = 12, 32
_DECADES = 100.0  # ratio of the ends from which a range is searched on a logarithmic scale
# These decide the data, split or machine of a result: values under different ones cannot be compared.
_FIXED = ("dataset", "method", "seed", "device", "processes", "threads", "precision", "views")
_FIXED_GROUPS = ("dataset.", "split.", "snapshot.")


@dataclass(frozen=True)
class Dimension:
    """One setting that is searched: from low to high, both included, or one of `choices` if there are any."""

    name: str
    kind: str  # of the parameter: int, float, bool or str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple = ()

    @property
    def text(self) -> str:
        """Return the dimension as typed; `read_dimension` reads it back."""
        if self.choices:
            return f"{self.name}={','.join(text_of(choice) for choice in self.choices)}"
        return f"{self.name}={text_of(self.low)}..{text_of(self.high)}{':log' * self.log}"

    def contains(self, value) -> bool:
        """Return whether the search could try `value`."""
        if self.choices:
            return any(value == choice and type(value) is type(choice) for choice in self.choices)
        return type(value) in (int, float) and self.low <= value <= self.high


def can_be_searched(name: str) -> bool:
    """Return whether runs that differ in this setting can be compared by one number."""
    return name not in _FIXED and not name.startswith(_FIXED_GROUPS)


def read_space(texts: Sequence[str], method: str) -> tuple[Dimension, ...]:
    """Parse dimensions NAME=...; raises `UserError`."""
    dimensions = tuple(read_dimension(text, method) for text in texts)
    names = [dimension.name for dimension in dimensions]
    if not dimensions:
        raise UserError("space", f"is empty; {_HELP}, as in margin_scale=1..10")
    if len(dimensions) > _MAX_DIMENSIONS:
        raise UserError("space", f"{len(dimensions)} settings are more than {_MAX_DIMENSIONS}; remove some")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserError(twice, "is searched twice; choose one range")
    return dimensions


def read_dimension(text: str, method: str) -> Dimension:
    """Parse the dimension `text`; raises `UserError` if the setting or its values do not fit the method."""
    name, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise UserError("--space", f"{shorten(text)} is not of the form NAME=VALUES; {_HELP}")
    parameter = _searched(name, method)
    if ".." not in values:
        return _of_choices(parameter, values)
    if parameter.kind not in ("int", "float") or parameter.choices:
        expected = parameter.expectation()
        raise UserError(name, f"{shorten(values)} is a range, but the setting must be {expected}; list the values")
    return _of_range(parameter, values)


def _searched(name: str, method: str) -> Parameter:
    searchable = {key: parameter for key, parameter in parameters(method).items() if can_be_searched(key)}
    if name in searchable:
        return searchable[name]
    if name in parameters(method):
        raise UserError(name, "cannot be searched: runs that differ in it do not compare; use --set")
    raise UserError(shorten(name).strip("'\""), f"is not a setting of {method}; choices: {', '.join(searchable)}")


def _of_choices(parameter: Parameter, values: str) -> Dimension:
    texts = [part.strip() for part in values.split(",")]
    choices = tuple(dict.fromkeys(parameter.parse(text) for text in texts if text))
    if not all(texts) or not 2 <= len(choices) <= _MAX_CHOICES:
        least = f"2 to {_MAX_CHOICES} different choices, or a range LOW..HIGH"
        raise UserError(parameter.name, f"{shorten(values)} is too few or too many choices; expected {least}")
    return Dimension(parameter.name, parameter.kind, choices=choices)


def _of_range(parameter: Parameter, values: str) -> Dimension:
    ends, colon, scale = values.partition(":")
    low, _, high = (part.strip() for part in ends.partition(".."))
    if colon and scale.strip() != "log":
        raise UserError(parameter.name, f"{shorten(scale)} is not a scale; choices: log, or nothing after the range")
    low, high = parameter.parse(low), parameter.parse(high)
    if low is None or high is None or not low < high:
        raise UserError(parameter.name, f"{shorten(values)} is empty; expected LOW..HIGH with LOW below HIGH")
    if colon and low <= 0:
        raise UserError(parameter.name, f"{shorten(values)} cannot be logarithmic; log needs LOW above 0")
    return Dimension(parameter.name, parameter.kind, low, high, bool(colon))


def suggested(parameter: Parameter, value) -> Dimension | None:
    """Suggest a range for a setting, around its value and within its limits. None if there is nothing to vary.

    value: that of the run on which the search is based.
    """
    if parameter.kind == "bool":
        return Dimension(parameter.name, "bool", choices=(True, False))
    if parameter.choices:
        return Dimension(parameter.name, parameter.kind, choices=parameter.choices) if parameter.choices[1:] else None
    if parameter.kind not in ("int", "float") or value is None:
        return None
    low, high = _range_around(parameter, value)
    log = low > 0 and high >= _DECADES * low
    return Dimension(parameter.name, parameter.kind, low, high, log) if low < high else None


def _range_around(parameter: Parameter, value: float) -> tuple[float, float]:
    """Return the range from a third to three times `value`; a tenth to ten times up to 0.1; 0 to 1 for 0."""
    factor = 10 if 0 < value <= 0.1 else 3
    low, high = (value / factor, value * factor) if value else (0, 1)
    if parameter.kind == "int":
        low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    else:
        low, high = float(f"{low:.2g}"), float(f"{high:.2g}")
    least = -math.inf if parameter.minimum is None else parameter.minimum
    most = math.inf if parameter.maximum is None else parameter.maximum
    kind = int if parameter.kind == "int" else float
    return kind(max(low, least)), kind(min(high, most))


def default_point(space: Sequence[Dimension], base: Config) -> dict[str, object] | None:
    """Return the settings of `base` as a point of the space; None if it is outside."""
    flat = base.flat()
    values = {dimension.name: flat[dimension.name] for dimension in space}
    return values if all(dimension.contains(values[dimension.name]) for dimension in space) else None
