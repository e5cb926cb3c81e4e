"""Describe one setting (type, default, range, meaning) and check values against it.

The fields of `config.Config` and the keyword-only arguments of every method become `Parameter`s, so the command line,
the launch form and validation describe a setting in the same words.
"""

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

from lps.errors import UserError, shorten

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega".split()
)
_UNICODE = {"lambda": "lamda"}  # letters that Unicode spells in its own way
_MAX_LENGTH = 8  # characters of a float in a name
_SYMBOL = re.compile(rf"({'|'.join(_GREEK)}|[A-Za-z])(?:_?(\d+|(?<=_)[a-z]+))?: ")


class BadSetting(UserError):
    """An invalid value of a setting; `name` is the setting, as after `--set`."""


@dataclass(frozen=True)
class ParameterDocs:
    """Documentation of a setting beside its meaning.

    group: heading in forms. larger: what a larger value does. paper: the paper's value, and the values it tried. words:
    display text of each choice. needs: the switch without which the setting has no effect. before: the value of runs
    stored before the setting existed, if that is not the default.
    """

    group: str = ""
    larger: str = ""
    paper: str = ""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    needs: str = ""
    before: str | float | None = None


Told = ParameterDocs  # name up to 0.3.0, which method files of users may import


@dataclass(frozen=True)
class Parameter:
    """A named setting. kind: int, float, bool or str; optional: None (typed as "none") is allowed.

    maximum: of a str, the most characters, 4096 for None. help: may begin with the setting's symbol in formulas: "eta1:
    weight of ...".
    """

    name: str
    kind: str
    default: object
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    told: ParameterDocs = ParameterDocs()

    @property
    def symbol(self) -> str:
        r"""The setting in formulas, as LaTeX, such as \eta_{1}; "" if it has no symbol."""
        match = _SYMBOL.match(self.help)
        if not match:
            return ""
        letter, index = match.groups()
        index = index and (index if len(index) == 1 or index.isdigit() else rf"\mathrm{{{index}}}")
        return ("\\" * (letter in _GREEK)) + letter + (f"_{{{index}}}" if index else "")

    @property
    def plain_symbol(self) -> str:
        """The symbol as plain text: "C", "η1", "λ_seen"; "" if the setting has none."""
        match = _SYMBOL.match(self.help)
        letter, index = match.groups("") if match else ("", "")
        greek = letter in _GREEK and unicodedata.lookup(f"GREEK SMALL LETTER {_UNICODE.get(letter, letter).upper()}")
        return f"{greek or letter}{'_' if index and not index.isdigit() else ''}{index}"

    @property
    def sign(self) -> str:
        """`plain_symbol` for short labels: "" if its index is a word."""
        return "" if "_" in self.plain_symbol else self.plain_symbol

    @property
    def meaning(self) -> str:
        """`help` without the symbol."""
        return _SYMBOL.sub("", self.help, count=1) if self.symbol else self.help

    def shown(self, choice: str) -> str:
        """Return the display text of a choice."""
        return self.told.words.get(choice, choice.replace("_", " "))

    def parse(self, text: str):
        """Return the checked value of a typed text; raises `BadSetting`."""
        text = text.strip()
        if self.optional and text.lower() in ("", "none", "null"):
            return None
        if self.kind == "bool":
            return self.check({"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text))
        if self.kind in ("int", "float"):
            return self.check(_number(text, self.kind))
        return self.check(text)

    def check(self, value):
        """Return `value` in this parameter's own type; raises `BadSetting` if it is invalid."""
        if value is None and self.optional:
            return None
        if self.kind == "float" and type(value) is int and abs(value) < 2**53:
            value = float(value)
        if type(value).__name__ != self.kind:
            raise self.error(value)
        if self.choices and value not in self.choices:
            raise self.error(value)
        if self.kind == "float" and not math.isfinite(value):
            raise self.error(value)
        if self.kind in ("int", "float") and not self._in_range(value):
            raise self.error(value)
        if self.kind == "str" and (len(value) > (self.maximum or 4096) or not value.isprintable()):
            raise self.error(value)
        return value

    def error(self, value) -> BadSetting:
        """Return the error that names the value and what was expected."""
        return BadSetting(self.name, f"{shorten(value)} is not {self.expectation()}")

    def expectation(self) -> str:
        """Return what a value must be, in words: "a whole number from 1 to 100"."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        noun = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a line of text"}
        text = noun[self.kind] + (self._range_in_words() if self.kind in ("int", "float") else "")
        return text + (' or "none"' if self.optional else "")

    def _in_range(self, value) -> bool:
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return low <= value <= high

    def _range_in_words(self) -> str:
        if self.minimum is not None and self.maximum is not None:
            return f" from {_plain(self.minimum)} to {_plain(self.maximum)}"
        if self.minimum is not None:
            return f" of at least {_plain(self.minimum)}"
        if self.maximum is not None:
            return f" of at most {_plain(self.maximum)}"
        return ""


def text_of(value) -> str:
    """Return a value as it is typed; `Parameter.parse` reads it back."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def short_text(value) -> str:
    """Return a value for a name or an axis: as it is typed; of a float with many digits, such as a search's, four."""
    text = text_of(value)
    return f"{value:.4g}" if isinstance(value, float) and len(text) > _MAX_LENGTH else text


def _plain(limit: float) -> str:
    """Format a limit; whole numbers in full."""
    return str(limit) if isinstance(limit, int) else f"{limit:g}"


def _number(text: str, kind: str):
    """Return `text` as a number of `kind`, or unchanged if it is none, so that the check can name it."""
    if not text.isascii() or "_" in text:  # int() would accept 1_0 and the digits of every script
        return text
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        return text
