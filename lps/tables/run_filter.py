"""Parse and apply the filter of runs, one line: `lr>0.05 and method=lps`, `name~"abl.*"`, `not tag=old`,
`accuracy/novel>=80`.

    filter      parts, joined by `and` or by spaces; `or`, `not`, brackets
    part        a word or "several words", searched in names, ids, notes, tags, states; or NAME OPERATOR VALUE
    NAME        a name of lps.tables.run_names: field, setting, measurement
    OPERATOR    = != < <= > >=, ~ (matches a regular expression), !~
    VALUE       a word, or "several words"; lps|orca is either; accuracies are in percent

A run without the compared value does not match; `a!=b` is `not a=b`. Case is ignored. A text that matches no run as a
filter is searched in the displayed names (`select_runs`). Filters also come from untrusted
addresses, so length, depth and expressions are limited.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from lps.analysis import run_diff
from lps.analysis.run_index import RunRow
from lps.errors import UserError, shorten
from lps.settings.parameters import text_of
from lps.tables import columns
from lps.tables.run_names import Name, Vocabulary, day_bounds

LONGEST = 500  # characters of a filter
_DEEPEST = 20  # nested brackets
_MAX_S = 3.0  # seconds for expressions over all runs
_MAX_WAYS = 170_000  # ways in which an expression may match one text from one position: under a second
_TEXT = (100, 2000)  # least and most characters of a text in which an expression is searched
_TOKEN = re.compile(r"""\s*(?:(?P<text>"[^"]*"|'[^']*')|(?P<operator>!=|!~|>=|<=|==|[=<>~])|(?P<bracket>[()])|"""
                    r"""(?P<word>[^\s()=<>!~"']+)|(?P<wrong>\S))""")  # fmt: skip
_COMPARED = {
    "<": lambda value, low, high: value < low,
    "<=": lambda value, low, high: value < high or value == low,
    ">": lambda value, low, high: value >= high and value != low,
    ">=": lambda value, low, high: value >= low,
    "=": lambda value, low, high: low <= value < high or value == low,
}
Test = Callable[[RunRow], bool]
Key = TypeVar("Key")


@dataclass(frozen=True)
class _Token:
    kind: str  # text, operator, bracket, word, wrong, end
    text: str
    at: int  # from 1


@dataclass(frozen=True)
class Filter:
    """A parsed filter. is_slow: it has regular expressions, which are given up after `_MAX_S`."""

    text: str
    fits: Test
    is_slow: bool = False

    def select(self, entries: Iterable[RunRow]) -> list[RunRow]:
        """Return the matching runs in their order; raises `UserError` if expressions take too long."""
        if not self.is_slow:
            return [entry for entry in entries if self.fits(entry)]
        end, selected = time.monotonic() + _MAX_S, []
        for entry in entries:
            if time.monotonic() > end:
                raise UserError("filter", f"its regular expressions take more than {_MAX_S:.0f} s; use simpler ones")
            if self.fits(entry):
                selected.append(entry)
        return selected


def select_runs(entries: Sequence[RunRow], text: str, candidates: Sequence[RunRow] | None = None) -> list[RunRow]:
    """Return the candidates (default: all entries) that match a filter; raises `UserError`.

    If none matches, return those whose displayed name has the text: "C=5, w=0.25, LPS seed 1" is not a condition.
    """
    candidates = entries if candidates is None else candidates
    problem, selected = None, []
    try:
        selected = _parse_filter(text, Vocabulary(entries)).select(candidates)
    except UserError as error:
        problem = error
    if not selected and len(text) <= LONGEST:
        selected = _find_by_name(candidates, text, columns.varying_settings(entries))
    if problem and not selected:
        raise problem
    return selected


def _find_by_name(entries: Sequence[RunRow], text: str, varied: Sequence[str]) -> list[RunRow]:
    """Return the entries whose name has all words of the text; if there are none, those whose name contains it.

    Names are those of tables and menus, the labels of charts, and those that are stored.
    """
    chart_labels = run_diff.short_labels([entry.run for entry in entries], in_symbols=True)
    names = {
        i: f"{columns.displayed_name(entry, varied)} · {label} · {entry.name}"
        for i, (entry, label) in enumerate(zip(entries, chart_labels))
    }
    searched = text.strip().casefold()
    found = find_by_words(names, text) or [i for i, name in names.items() if searched in name.casefold()]
    return [entries[i] for i in found]


def find_by_words(labels: Mapping[Key, str], text: str) -> list[Key]:
    """Return the keys of the labels that have all words of `text`, whole ones; letters alone may begin a word."""

    def has_word(words: list[str], searched: str) -> bool:
        return any(word.startswith(searched) if searched.isalpha() else word == searched for word in words)

    searched_words = _split_words(text)
    split_labels = {key: _split_words(label) for key, label in labels.items()}
    return [key for key, words in split_labels.items() if all(has_word(words, word) for word in searched_words)]


def _split_words(text: str) -> list[str]:
    return re.split(r"[\s,·()]+", text.casefold().strip(" ,"))


def _parse_filter(text: str, names: Vocabulary) -> Filter:
    """Parse a filter; raises `UserError` with the position of the mistake."""
    if len(text) > LONGEST:
        raise UserError("filter", f"{len(text):,} characters are more than {LONGEST}")
    reader = _Reader(text, names)
    return Filter(text, reader.parse(), reader.has_expressions)


def _searchable_text(entry: RunRow) -> str:
    """Return the text in which words are searched."""
    seed = "" if entry.seed is None else f"seed {entry.seed}"
    texts = (entry.run.id, entry.name, entry.method, entry.method_title, entry.dataset, seed)
    more = (entry.shown_state, entry.state.reason, entry.notes, *entry.tags, *entry.troubles)
    return " ".join([*texts, *more]).casefold()


# ---------------------------------------------------------------------------------------------------- reading


class _Reader:
    """A recursive-descent parser of a filter; every method consumes its part and returns the test for it."""

    def __init__(self, text: str, names: Vocabulary):
        tokens = ((token.lastgroup, token) for token in _TOKEN.finditer(text) if token.lastgroup)
        self._tokens = [_Token(kind, token[kind], token.start(kind) + 1) for kind, token in tokens]
        self._tokens.append(_Token("end", "", len(text) + 1))
        self._names, self._position, self._depth = names, 0, 0
        self.has_expressions = False

    def parse(self) -> Test:
        if self._next.kind == "end":
            return lambda entry: True
        test = self._parse_or()
        if self._next.kind != "end":
            self._refuse("and, or, or the end")
        return test

    def _parse_or(self) -> Test:
        tests = [self._parse_and()]
        while self._accept_keyword("or"):
            tests.append(self._parse_and())
        return tests[0] if len(tests) == 1 else lambda entry: any(test(entry) for test in tests)

    def _parse_and(self) -> Test:
        tests = [self._parse_not()]
        while self._accept_keyword("and") or self._begins_part():
            tests.append(self._parse_not())
        return tests[0] if len(tests) == 1 else lambda entry: all(test(entry) for test in tests)

    def _parse_not(self) -> Test:
        is_not = False
        while self._accept_keyword("not"):
            is_not = not is_not
        test = self._parse_part()
        return (lambda entry: not test(entry)) if is_not else test

    def _parse_part(self) -> Test:
        token = self._next
        if token.text == "(" and token.kind == "bracket":
            return self._parse_brackets()
        if not self._begins_part() or _keyword(token):
            self._refuse("a name, a word or (")
        self._position += 1
        if token.kind == "word" and self._next.kind == "operator":
            return self._parse_comparison(token)
        word = _unquoted(token).casefold()
        return lambda entry: word in _searchable_text(entry)

    def _parse_brackets(self) -> Test:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UserError("filter", f"more than {_DEEPEST} nested brackets at position {self._next.at}")
        self._position += 1
        test = self._parse_or()
        if self._next.text != ")":
            self._refuse("and, or, or )")
        self._position += 1
        self._depth -= 1
        return test

    def _parse_comparison(self, token: _Token) -> Test:
        try:
            name = self._names.find(token.text)
        except UserError as error:
            problem = str(error).partition(": ")[2]
            raise UserError("filter", f"{shorten(token.text)} at position {token.at} is {problem}") from None
        operator = self._next
        self._position += 1
        value = self._next
        if value.kind not in ("word", "text"):
            self._refuse(f"a value to compare {name.key} with")
        self._position += 1
        sign = operator.text.replace("==", "=")
        if "~" in sign:
            test = self._parse_expression(name, value)
        else:
            test = _comparison_test(name, sign.replace("!=", "="), value)
        return (lambda entry: not test(entry)) if sign.startswith("!") else test

    def _parse_expression(self, name: Name, value: _Token) -> Test:
        self.has_expressions = True
        pattern, length = _pattern(value)

        def test(entry: RunRow) -> bool:
            field_value = name.read_value(entry)
            texts = field_value if isinstance(field_value, tuple) else (name.value_text(entry),)
            return any(pattern.search(text[:length]) for text in texts)

        return test

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _accept_keyword(self, word: str) -> bool:
        if _keyword(self._next) != word:
            return False
        self._position += 1
        return True

    def _begins_part(self) -> bool:
        token = self._next
        return (token.kind in ("word", "text") and _keyword(token) not in ("and", "or")) or token.text == "("

    def _refuse(self, expected: str) -> NoReturn:
        token = self._next
        problem = f"{shorten(token.text) if token.text else 'the filter ends'} at position {token.at}"
        if token.kind == "wrong" and token.text in "\"'":
            raise UserError("filter", f"the text at position {token.at} has no closing {token.text}")
        raise UserError("filter", f"{problem}; expected {expected}")


def _keyword(token: _Token) -> str:
    """Return and, or, not; "" for everything else, also for quoted words."""
    word = token.text.casefold()
    return word if token.kind == "word" and word in ("and", "or", "not") else ""


def _unquoted(token: _Token) -> str:
    return token.text[1:-1] if token.kind == "text" else token.text


# ---------------------------------------------------------------------------------------------------- comparing


def _comparison_test(name: Name, sign: str, value: _Token) -> Test:
    """Return the test that compares the name's value with `value`, or with each of several that | separates."""
    texts = value.text.split("|") if value.kind == "word" and sign == "=" else [_unquoted(value)]
    tests = [_value_test(name, sign, text, value.at) for text in texts]
    return tests[0] if len(tests) == 1 else lambda entry: any(test(entry) for test in tests)


def _value_test(name: Name, sign: str, text: str, at: int) -> Test:
    if name.kind in ("text", "flag"):
        return _text_test(name, sign, text, at)
    if text.casefold() == "none" and sign == "=":
        return lambda entry: name.read_value(entry) is None
    low, high = _span(name, text, at)
    compare = _COMPARED[sign]

    def test(entry: RunRow) -> bool:
        value = name.read_value(entry)
        return isinstance(value, int | float) and compare(value, low, high)

    return test


def _text_test(name: Name, sign: str, text: str, at: int) -> Test:
    """Return the test of a text: one of several values is enough, and `tag=` matches runs without tags."""
    if sign != "=":
        problem = f"{name.key} is not a number, so it cannot be compared with {sign} (before position {at})"
        raise UserError("filter", f"{problem}; choices: = != ~ !~")
    wanted_text = text.casefold()
    choices = ("true", "false") if name.kind == "flag" else name.choices
    if choices and wanted_text not in (*(choice.casefold() for choice in choices), "none"):
        raise UserError(
            "filter", f"{shorten(text)} at position {at} is not a {name.key}; choices: {', '.join(choices)}"
        )

    def test(entry: RunRow) -> bool:
        values = name.read_value(entry)
        if isinstance(values, tuple):
            return any(value.casefold() == wanted_text for value in values) or not (wanted_text or values)
        return text_of(values).casefold() == wanted_text

    return test


def _span(name: Name, text: str, at: int) -> tuple[float, float]:
    """Return (value, beginning of the next one): a day has 24 hours, a number no length. Percent become fractions."""
    try:
        if name.kind == "date":
            return day_bounds(text)
        number = float(text.removesuffix("%")) if text.isascii() and "_" not in text else float("nan")
    except ValueError:
        number = float("nan")
    if number != number:
        expectation = "a day such as 2026-11-22" if name.kind == "date" else "a number"
        raise UserError("filter", f"{shorten(text)} at position {at} is not {expectation}; {name.key} needs one")
    if name.kind != "percent":
        return number, number
    if 0 < abs(number) < 1 and "%" not in text:
        problem = f"{text} at position {at} can be read in two ways, because {name.key} is in percent"
        raise UserError("filter", f"{problem}: use {100 * number:g} or {text}%")
    return number / 100, number / 100


def _pattern(token: _Token) -> tuple[re.Pattern, int]:
    """Return the expression, and how many characters of a text it can search in acceptable time; raises `UserError`."""
    text = _unquoted(token)
    where = f"the expression {shorten(text)} at position {token.at}"
    simple = re.sub(r"\\[^1-9]|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", text)  # escapes and classes are one letter each
    if re.search(r"\(\?|\\[1-9]|\)[*+{]", simple):
        raise UserError(
            "filter", f"{where} uses a construct that is not supported; use only . [] | * + ? {{}} and plain groups"
        )
    length = _longest_text(simple)
    if length < _TEXT[0]:
        raise UserError("filter", f"{where} can match in too many ways; use fewer of * + ? {{}} |")
    try:
        return re.compile(text, re.IGNORECASE), length
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError("filter", f"{where} is not a regular expression ({error})") from None


def _longest_text(simple: str) -> int:
    """Return the longest text that it matches in at most `_MAX_WAYS`: n repetitions split k letters in k^n / n! ways,
    | in two.
    """
    repetitions, forks = (len(re.findall(signs, simple)) for signs in (r"[*+{]", r"[|?]"))
    ways = _MAX_WAYS / 2.0**forks
    most_text = min(_TEXT[1], int(60 * ways))  # a match may begin at any letter
    return min(most_text, int((ways * math.factorial(repetitions)) ** (1 / repetitions))) if repetitions else most_text
