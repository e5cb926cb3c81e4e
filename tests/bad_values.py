"""Invalid values for settings, at least 100 of every kind, the same every time.

A kind is the type of a setting: whole number, number, switch, choice, line of text. Every list is made of the same
stock (words, hostile names, numbers of all forms) without valid values, and of the edges of the range.
"""

import json
import math
from collections.abc import Iterable

from lps.settings.parameters import Parameter
from tests.hostile_ids import IDS

ENOUGH = 100
# What cannot be shown on a line: control characters, directions of writing, joiners, halves of characters.
UNPRINTABLE = [chr(code) for code in (*range(32), *range(127, 160), *range(0x200B, 0x2010), *range(0x202A, 0x202F))]
UNPRINTABLE += [chr(code) for code in (*range(0x2060, 0x2070), 0xAD, 0xFEFF, 0xD800, 0xDFFF, 0xE000, 0x2028, 0x2029)]
NUMBERS = (
    "nan NaN -nan inf -inf Infinity 1e999 -1e999 0x10 0b1 0o7 1_0 1_000.5 1,5 1.2.3 1e 1e+ e5 .e1 -- +- +-1 5% 1/2 "
    "10**9 1;2 ½ ² ⅷ ٣ ٣.٥ １２ 一 ൩ 1٠ −1 ∞ 1e5e5 NULL nil undefined None! (1) [1] {1} '1' 1L 1f $1 €5 1h 1kb 1k #1 ~1"
).split()
HUGE = ["9" * 5000, "-" + "9" * 5000, "1" + "0" * 4400, "9" * 4299, "-" + "9" * 4299]
WORDS = (
    "yes no on off y n t f oui ja truee fals tru e 2 -1 10 01 0.0 1.0 True! !true maybe perhaps auto default".split()
)
SHAPES = ["", " ", "\t", "a", "A" * 4097, "é" * 5000, "a b", "a,b", "a=b", "a:b", "a|b", "🙂", "Ω", "{}", "%d", "{0!r}"]
STOCK = list(dict.fromkeys([*NUMBERS, *HUGE, *WORDS, *SHAPES, *IDS]))


def typed(parameter: Parameter) -> list[str]:
    """Return texts that a user could type into the field of `parameter` and that are no values of it."""
    if parameter.choices:
        near = [choice + mark for choice in parameter.choices for mark in ("x", ".", ",", "\0", " x")]
        found = [*near, *(choice.swapcase() for choice in parameter.choices), *STOCK]
        return _without(found, lambda text: text.strip() in parameter.choices or _is_none(text, parameter))
    if parameter.kind == "bool":
        return _without(STOCK, lambda text: text.strip().lower() in ("true", "false", "0", "1"))
    if parameter.kind in ("int", "float"):
        found = [*STOCK, *_beyond(parameter), *(f"1{mark}2" for mark in UNPRINTABLE[:40])]
        return _without(found, lambda text: _is_number(text, parameter) or _is_none(text, parameter))
    marked = [f"a{mark}b" for mark in UNPRINTABLE]
    longest = int(parameter.maximum or 4096)
    return [*marked, "a" * (longest + 1), "é" * (longest + 1), "a" * (2 * longest)]


def stored(parameter: Parameter) -> list[str]:
    """Return JSON values that could stand in `config.json` and are no values of `parameter`."""
    texts = typed(parameter) if parameter.kind == "str" else STOCK
    plain = ["true", "false", "NaN", "Infinity", "-Infinity", "1e999", "1.5", "-1.5", "0.1", *HUGE, "1e30", "-1e30"]
    plain += ["null", "[]", "{}", "[[]]", '{"a": 1}', "[1]", "[null]", '["a"]', "[0.5, 1]", '[{"a": []}]', "[[[1]]]"]
    plain += [str(number) for number in (2**31, 2**53, 2**63, 2**64, -(2**31), -(2**53), -(2**63), 10**30, -(10**30))]
    return [text for text in [*plain, *map(json.dumps, texts)] if not _is_stored(text, parameter)]


def _is_stored(text: str, parameter: Parameter) -> bool:
    """Return whether JSON of this form is a value of the parameter; written independently of the code under test."""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    if value is None:
        return parameter.optional
    if parameter.kind == "bool" or isinstance(value, bool):
        return parameter.kind == "bool" and isinstance(value, bool)
    if parameter.kind == "str":
        return isinstance(value, str) and (value in parameter.choices or not parameter.choices and value.isprintable())
    kinds = (int,) if parameter.kind == "int" else (int, float)
    return isinstance(value, kinds) and _within(value, parameter)


def _beyond(parameter: Parameter) -> list[str]:
    """Return numbers just outside the range and far from it, and fractions if only whole numbers are valid."""
    found = ["1.5", "-0.5", "1e-3", "1e30", "-1e30", str(2**31), str(2**53 + 1), str(-(2**63)), "5.0", "1e3"]
    for edge, way in ((parameter.minimum, -1), (parameter.maximum, 1)):
        if edge is not None:
            found += [str(edge + way * step) for step in (1, 2, 10, 1000, 10**9)]
            found += [repr(math.nextafter(edge, way * math.inf)), repr(edge + way * 0.5)]
    return found


def _is_number(text: str, parameter: Parameter) -> bool:
    text = text.strip()
    if not text.isascii() or "_" in text or len(text) > 4000:
        return False
    try:
        value = int(text) if parameter.kind == "int" else float(text)
    except ValueError:
        return False
    return _within(value, parameter)


def _within(value: float, parameter: Parameter) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False
    low = -math.inf if parameter.minimum is None else parameter.minimum
    return low <= value <= (math.inf if parameter.maximum is None else parameter.maximum)


def _is_none(text: str, parameter: Parameter) -> bool:
    return parameter.optional and text.strip().lower() in ("", "none", "null")


def _without(texts: Iterable[str], is_good) -> list[str]:
    return [text for text in dict.fromkeys(texts) if not is_good(text)]
