"""Define what can be queried of a run by name: fields such as `state`, settings, and measurements at the newest epoch.

Accuracies, NMI and ARI are stored as fractions and are percent in filters and tables.
"""

from calendar import timegm
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache, cached_property
from time import struct_time

from lps.analysis.run_index import RunRow
from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import parameters, protocol_parameters
from lps.settings.parameters import Parameter, text_of
from lps.store.runs import STATES

PERCENT = ("accuracy/", "nmi/", "ari/")  # prefixes of measurements that are shown in percent
SHORT = {name: f"accuracy/{name}" for name in ("seen", "novel", "all", "gap")} | {
    "tags": "tag", "notes": "note", "alarms": "alarm", "data": "dataset",
}  # fmt: skip
MINUS = " - "  # between the two names of a difference
_COMMON = ("accuracy/seen", "accuracy/novel", "accuracy/all", "accuracy/gap", "nmi/novel", "nmi/all", "kl")


@dataclass(frozen=True)
class Name:
    """A named value that every run may have. kind: text, number, percent, flag or date.

    read_value: the value in a row, several for tags and alarms; `()` if the run has no such field, None if it is set to
    none. choices: all possible values, if they are known.
    """

    key: str
    kind: str
    read_value: Callable[[RunRow], object]
    choices: tuple[str, ...] = ()
    help: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether runs record it, unlike their settings."""
        return self.kind == "percent" or self.help.startswith("At the newest epoch")

    def display_value(self, entry: RunRow) -> object:
        """Return the value as users read it: percent for fractions, one text for several; None without one."""
        return self.displayed(self.read_value(entry))

    def displayed(self, value: object) -> object:
        """Return what `read_value` returned as users read it."""
        if isinstance(value, tuple):
            return ", ".join(map(str, value)) or None
        if self.kind == "percent" and value is not None:
            return round(100 * value, 1) + 0.0
        return value

    def value_text(self, entry: RunRow) -> str:
        """Return the value as text, a setting as after `--set`; "–" if the run has none."""
        value = self.read_value(entry)
        return "–" if value == () else self.as_text(value)

    def as_text(self, value: object) -> str:
        """Return what `read_value` returned as text."""
        value = self.displayed(value)
        return value if isinstance(value, str) else text_of(value)


_FIELDS = (
    Name("name", "text", lambda e: e.name),
    Name("id", "text", lambda e: e.run.id),
    Name("state", "text", lambda e: e.shown_state, (*STATES, "recorded")),
    Name("tag", "text", lambda e: e.tags),
    Name("note", "text", lambda e: e.notes),
    Name("alarm", "text", lambda e: tuple(e.troubles)),
    Name("epoch", "number", lambda e: e.measured.recent.epoch),
    Name("launched", "date", lambda e: () if e.launched is None else e.launched),
)
FIELDS = {name.key: name for name in _FIELDS}


class Vocabulary:
    """All names that can be queried of some runs."""

    def __init__(self, entries: Sequence[RunRow] = ()):
        self._settings = _settings(tuple(catalog.method_names()))
        self._entries = entries

    @cached_property
    def _measurement_names(self) -> set[str]:
        return set(_COMMON).union(*(entry.measured.recent.newest_values for entry in self._entries))

    @property
    def settings(self) -> list[str]:
        """The keys of all settings, shared ones first."""
        return list(self._settings)

    @property
    def measurements(self) -> list[str]:
        return sorted(self._measurement_names)

    def find(self, text: str) -> Name:
        """Return the name for `text`: key, short form, unique end of a key, or difference; raises `UserError`.

        "novel - seen" is the difference of two numbers of the same kind.
        """
        text = text.casefold()
        first, minus, second = text.partition(MINUS)
        if minus:
            return _difference(self.find(first.strip()), self.find(second.strip()))
        if match := self._exact(SHORT.get(text, text)):
            return match
        matching_keys = [key for key in self._settings if key.endswith(f".{text}")]
        if len(matching_keys) == 1:
            return self._exact(matching_keys[0])
        close = matching_keys or get_close_matches(
            text, {*FIELDS, *SHORT, *self._settings, *self._measurement_names}, 3
        )
        guess = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UserError("name", f"not a field ({', '.join(FIELDS)}), setting or measurement{guess}")

    def _exact(self, key: str) -> Name | None:
        if key in FIELDS:
            return FIELDS[key]
        if key in self._settings:
            several = self._settings[key]
            return Name(key, *_kind_of(several), _choices_of(key, several), several[0].help)
        if key in self._measurement_names:
            kind, unit = ("percent", ", percent") if key.startswith(PERCENT) else ("number", "")
            return Name(key, kind, lambda entry: _measured_value(entry, key), help=f"At the newest epoch{unit}")
        return None


def _difference(first: Name, second: Name) -> Name:
    if first.kind != second.kind or first.kind not in ("number", "percent"):
        raise UserError("name", f"{first.key} is a {first.kind} and {second.key} a {second.kind}; expected two numbers")

    def read_difference(entry: RunRow) -> object:
        values = first.read_value(entry), second.read_value(entry)
        return values[0] - values[1] if all(isinstance(value, int | float) for value in values) else ()

    unit = ", points" if first.kind == "percent" else ""
    return Name(
        f"{first.key}{MINUS}{second.key}", first.kind, read_difference, help=f"At the newest epoch: a difference{unit}"
    )


@cache
def _settings(methods: tuple[str, ...]) -> dict[str, tuple[Parameter, ...]]:
    """Return every setting with its parameter in each method that has it."""
    parameters_by_key = {key: [parameter] for key, parameter in protocol_parameters().items()}
    for method in methods:
        for key, parameter in parameters(method).items():
            if key not in protocol_parameters():
                parameters_by_key.setdefault(key, []).append(parameter)
    return {key: tuple(several) for key, several in parameters_by_key.items()}


def _kind_of(several: tuple[Parameter, ...]) -> tuple[str, Callable]:
    kinds = {{"int": "number", "float": "number", "bool": "flag"}.get(parameter.kind, "text") for parameter in several}
    key, switches = several[0].name, {parameter.told.needs for parameter in several} - {""}
    return kinds.pop() if len(kinds) == 1 else "text", lambda entry: _setting_value(entry, key, switches)


def _choices_of(key: str, several: tuple[Parameter, ...]) -> tuple[str, ...]:
    if key in ("method", "dataset"):  # runs of earlier programs may have others
        return ()
    choices = {choice for parameter in several for choice in parameter.choices}
    return tuple(sorted(choices)) if all(parameter.choices for parameter in several) else ()


def _setting_value(entry: RunRow, key: str, switches: Collection[str]) -> object:
    """Return the setting of a run; `()` if its method has no such setting, or one of its `switches` is off."""
    if entry.config is None or not all(entry.config.get(switch, True) for switch in switches):
        return ()
    return entry.config.get(key, ())


def _measured_value(entry: RunRow, key: str) -> object:
    value = entry.measured.recent.number(key)
    return () if value is None else value


def day_bounds(text: str) -> tuple[float, float]:
    """Return (first second, first of the next) of "2026-11-22" or "2026-11-22T14:05", UTC; raises `ValueError`."""
    for form, length in (("%Y-%m-%d", 86_400), ("%Y-%m-%dT%H:%M", 60)):
        try:
            at = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        first = timegm(struct_time(at.timetuple()))
        return first, first + length
    raise ValueError(text)
