"""Tables for other programs: CSV without spreadsheet formulas, and escaped LaTeX."""

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TextIO

_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "†": r"\dag{}",
    "‡": r"\ddag{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}",
    "·": r"$\cdot$", **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def csv_text(rows: Iterable[Sequence]) -> str:
    """Rows as comma-separated values; texts of people must have gone through `escape_cell`."""
    out = io.StringIO()
    write_csv(out, rows)
    return out.getvalue()


def write_csv(file: TextIO, rows: Iterable[Sequence]) -> None:
    """The same into a file that is open, one row after another."""
    csv.writer(file, lineterminator="\n").writerows(rows)


def escape_cell(text: str) -> str:
    """Escape text so that no spreadsheet takes it for a formula: put an apostrophe before what would begin one.

    Signs that are not seen, such as a byte order mark, do not hide a beginning; wide forms of a sign count as the sign.
    """
    if text[:1].isascii() and text[:1].isalnum() and text.isascii():
        return text  # fast path: nearly all of up to a million cells
    text = text.encode("utf-8", "replace").decode()
    first = next((c for c in text if c.isprintable() and not c.isspace()), "")
    is_formula = unicodedata.normalize("NFKC", first) in ("=", "+", "-", "@")
    return "'" + text if is_formula or text[:1] in ("\t", "\r", "\n") else text


def line_cell(text: str) -> str:
    """Text on one line, as `escape_cell` gives it."""
    return escape_cell(" ".join(text.split()))


def file_cell(name: str) -> str:
    """The name of a file as `escape_cell` gives it."""
    return escape_cell(file_text(name))


def file_text(name: str) -> str:
    """The name of a file; bytes in it that are no UTF-8 stand as \\xe9."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def escape_latex(text: str, replacement: Callable[[str], str] = str) -> str:
    """Return text that LaTeX prints as it is, on one line. replacement: for a sign that means nothing to it."""
    return "".join(_LATEX[c] if c in _LATEX else replacement(c) for c in " ".join(text.split()))


def latex_row(cells: Iterable[str]) -> str:
    """Cells, escaped already, as a line of a table."""
    return " & ".join(cells) + r" \\"


def latex_span(words: str, width: int, place: str = "c") -> str:
    """A cell, escaped already, over several columns."""
    return f"\\multicolumn{{{width}}}{{{place}}}{{{words}}}"


def latex_rules(above: Sequence[tuple[str, int]]) -> str:
    """The lines below (words, width) of a head over several columns; none where there are no words."""
    ends = accumulate(width for _, width in above)
    return " ".join(f"\\cmidrule(lr){{{end - width + 1}-{end}}}" for end, (words, width) in zip(ends, above) if words)


def latex_table(columns: str, heads: Iterable[str], *parts: Iterable[str]) -> list[str]:
    """The lines of a table that needs booktabs alone; a rule goes before each of the parts."""
    body = [line for part in parts for line in (r"\midrule", *part)]
    return [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", *heads, *body, r"\bottomrule", r"\end{tabular}"]
