"""What a job may ask of the place that carries it out: the options of `--slurm NAME=VALUE` and their like, checked."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lps.errors import UserError, shorten
from lps.settings.parameters import Parameter


@dataclass(frozen=True)
class Option:
    """One thing that may be asked for. argument: of the submitting command, before the value; None: said elsewhere.

    label: what a form calls it, where that is not its name. check: raises `UserError` for what the pattern lets
    through.
    is_list: it may be given more than once, and adds up.
    """

    parameter: Parameter
    argument: str | None
    pattern: str
    example: str
    label: str = ""
    check: Callable[[str], None] = str
    is_list: bool = False

    def parse(self, text: str):
        """The checked value; raises `UserError`."""
        parameter = self.parameter
        value = parameter.parse(text)
        if not re.fullmatch(self.pattern, str(value) if parameter.kind == "str" else text, re.ASCII):
            raise UserError(parameter.name, f"{shorten(text)} is not of the form {self.example}")
        self.check(text)
        return value


def option(name: str, kind: str, argument: str | None, help: str, pattern: str, example: str, **more) -> Option:
    """An option; more: its label, check and is_list, and for a number its minimum and maximum."""
    field_options = {key: more.pop(key) for key in ("label", "check", "is_list") if key in more}
    return Option(Parameter(name, kind, None, help, **more), argument, pattern, example, **field_options)


@dataclass(frozen=True)
class Options:
    """What a job asks for. place: the name of its executor; given: only what was said, of a list a tuple."""

    place: str
    given: tuple[tuple[Option, object], ...] = ()

    def get(self, name: str):
        return next((value for option, value in self.given if option.parameter.name == name), None)

    @property
    def nodes(self) -> int:
        return self.get("nodes") or 1

    @property
    def parts(self) -> int:
        """Into how many parts a run is divided, each a task of its job."""
        return self.get("tasks") or self.nodes

    @property
    def gpus(self) -> int:
        """How many were asked for, on all nodes together; 0 if nothing was said."""
        return self.nodes * int(str(self.get("gpus") or 0).rpartition(":")[2])

    def arguments(self) -> list[str]:
        """For the submitting command, one argument an option: no shell and no script reads them."""
        return [f"{option.argument}{value}" for option, value in self._each() if option.argument is not None]

    def texts(self) -> list[str]:
        """NAME=VALUE for every option: `read_options` gives the options back, also from a file."""
        return [f"{option.parameter.name}={value}" for option, value in self._each()]

    def _each(self) -> list[tuple[Option, object]]:
        return [
            (option, single_value)
            for option, value in self.given
            for single_value in (value if option.is_list else [value])
        ]


def read_options(place: str, table: Mapping[str, Option], texts: Sequence[str]) -> Options:
    """The options in texts NAME=VALUE; a later one replaces an earlier one. Raises `UserError`."""
    values = {}
    for text in texts:
        name, equals, value = str(text).partition("=")
        name = name.strip()
        if not equals:
            example = next((f"{key}={option.example.partition(' or ')[0]}" for key, option in table.items()), "a=b")
            raise UserError(place, f"{shorten(text)} is not of the form NAME=VALUE, such as {example}")
        if name not in table:
            raise UserError(place, f"{shorten(name)} is not an option; choices: {', '.join(table)}")
        try:
            value = table[name].parse(value.strip())
        except UserError as error:
            raise UserError(f"{place} {name}", str(error).removeprefix(f"{name}: ")) from None
        values[name] = (*values.get(name, ()), value) if table[name].is_list else value
    lists_last = sorted(values, key=lambda name: table[name].is_list)
    return Options(place, tuple((table[name], values[name]) for name in lists_last))
