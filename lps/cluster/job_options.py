"""Define and check the options of a job, such as `--slurm NAME=VALUE`."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lps.errors import UserError, shorten
from lps.settings.parameters import Parameter


@dataclass(frozen=True)
class Option:
    """One option of a job. argument: of the submitting command, before the value; None if it is passed otherwise.

    label: name in forms, if it differs from the option's. check: raises `UserError` for values that the pattern
    accepts. is_list: it may be given several times, and values add up.
    """

    parameter: Parameter
    argument: str | None
    pattern: str
    example: str
    label: str = ""
    check: Callable[[str], None] = str
    is_list: bool = False

    def parse(self, text: str):
        """Return the checked value of a text; raises `UserError`."""
        parameter = self.parameter
        value = parameter.parse(text)
        if not re.fullmatch(self.pattern, str(value) if parameter.kind == "str" else text, re.ASCII):
            raise UserError(parameter.name, f"{shorten(text)} is not of the form {self.example}")
        self.check(text)
        return value


def option(name: str, kind: str, argument: str | None, help: str, pattern: str, example: str, **more) -> Option:
    """Make an option; more: its label, check and is_list, and for a number its minimum and maximum."""
    field_options = {key: more.pop(key) for key in ("label", "check", "is_list") if key in more}
    return Option(Parameter(name, kind, None, help, **more), argument, pattern, example, **field_options)


@dataclass(frozen=True)
class Options:
    """Options of a job. executor: its name; given: only the options that were set, a tuple for a list."""

    executor: str
    given: tuple[tuple[Option, object], ...] = ()

    def get(self, name: str):
        return next((value for option, value in self.given if option.parameter.name == name), None)

    @property
    def nodes(self) -> int:
        return self.get("nodes") or 1

    @property
    def parts(self) -> int:
        """Number of parts of a run, each a task of its job."""
        return self.get("tasks") or self.nodes

    @property
    def gpus(self) -> int:
        """Number of GPUs on all nodes together; 0 if not set."""
        return self.nodes * int(str(self.get("gpus") or 0).rpartition(":")[2])

    def arguments(self) -> list[str]:
        """Return the arguments for the submitting command, one per option; neither a shell nor a script reads them."""
        return [f"{option.argument}{value}" for option, value in self._each() if option.argument is not None]

    def texts(self) -> list[str]:
        """Return NAME=VALUE for every option; `read_options` reads them back, also from a file."""
        return [f"{option.parameter.name}={value}" for option, value in self._each()]

    def _each(self) -> list[tuple[Option, object]]:
        return [(option, one) for option, value in self.given for one in (value if option.is_list else [value])]


def read_options(executor: str, table: Mapping[str, Option], texts: Sequence[str]) -> Options:
    """Return the options in texts NAME=VALUE; a later one replaces an earlier one. Raises `UserError`."""
    values = {}
    for text in texts:
        name, equals, value = str(text).partition("=")
        name = name.strip()
        if not equals:
            example = next((f"{key}={option.example.partition(' or ')[0]}" for key, option in table.items()), "a=b")
            raise UserError(executor, f"{shorten(text)} is not of the form NAME=VALUE, such as {example}")
        if name not in table:
            raise UserError(executor, f"{shorten(name)} is not an option; choices: {', '.join(table)}")
        try:
            value = table[name].parse(value.strip())
        except UserError as error:
            raise UserError(f"{executor} {name}", str(error).removeprefix(f"{name}: ")) from None
        values[name] = (*values.get(name, ()), value) if table[name].is_list else value
    lists_last = sorted(values, key=lambda name: table[name].is_list)
    return Options(executor, tuple((table[name], values[name]) for name in lists_last))
