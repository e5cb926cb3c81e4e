"""Write tables for other programs: CSV without spreadsheet formulas, and escaped LaTeX."""

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TextIO

_NOT_IN_LINE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "†": r"\dag{}",
    "‡": r"\ddag{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}",
    "·": r"$\cdot$", **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def csv_text(rows: Iterable[Sequence]) -> str:
    """Return rows as comma-separated values; pass texts of users through `escape_cell` before."""
    out = io.StringIO()
    write_csv(out, rows)
    return out.getvalue()


def write_csv(file: TextIO, rows: Iterable[Sequence]) -> None:
    """Write rows as comma-separated values into an open file, one after another."""
    csv.writer(file, lineterminator="\n").writerows(rows)


def escape_cell(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would read as a formula.

    Invisible characters, such as a byte order mark, do not hide the first sign; wide forms of a sign count as the sign.
    """
    if text[:1].isascii() and text[:1].isalnum() and text.isascii():
        return text  # fast path: nearly all of up to a million cells
    text = text.encode("utf-8", "replace").decode()
    first = next((c for c in text if c.isprintable() and not c.isspace()), "")
    is_formula = unicodedata.normalize("NFKC", first) in ("=", "+", "-", "@")
    return "'" + text if is_formula or text[:1] in ("\t", "\r", "\n") else text


def line_cell(text: str) -> str:
    """Return text on one line, escaped as by `escape_cell`."""
    return escape_cell(" ".join(text.split()))


def file_cell(name: str) -> str:
    """Return a file's name, escaped as by `escape_cell`."""
    return escape_cell(file_text(name))


def file_text(name: str) -> str:
    r"""Return a file's name on one line: bytes that are not UTF-8 as \xe9, control characters and line ends as \n."""
    if name.isascii() and name.isprintable():
        return name
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return _NOT_IN_LINE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def escape_latex(text: str, replacement: Callable[[str], str] = str) -> str:
    """Return text that LaTeX prints as it is, on one line. replacement: maps every other character."""
    return "".join(_LATEX[c] if c in _LATEX else replacement(c) for c in " ".join(text.split()))


def latex_row(cells: Iterable[str]) -> str:
    """Return escaped cells as a line of a table."""
    return " & ".join(cells) + r" \\"


def latex_span(text: str, width: int, alignment: str = "c") -> str:
    """Return an escaped cell over several columns."""
    return f"\\multicolumn{{{width}}}{{{alignment}}}{{{text}}}"


def latex_rules(headings: Sequence[tuple[str, int]]) -> str:
    """Return the rules below headings (heading, width) over several columns; none below an empty heading."""
    ends = accumulate(width for _, width in headings)
    return " ".join(
        f"\\cmidrule(lr){{{end - width + 1}-{end}}}" for end, (heading, width) in zip(ends, headings) if heading
    )


def latex_table(columns: str, heads: Iterable[str], *parts: Iterable[str]) -> list[str]:
    """Return the lines of a table that only needs booktabs, with a rule before each of the parts."""
    body = [line for part in parts for line in (r"\midrule", *part)]
    return [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", *heads, *body, r"\bottomrule", r"\end{tabular}"]
