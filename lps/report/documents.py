"""One self-contained HTML file of facts, tables, charts and code: it opens offline, prints, and has no links.

The template escapes every text. The page's policy allows only its own two scripts and fetches nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from lps.charts import chart, palette
from lps.report import offline

_HERE = Path(__file__).parent
_OWN_BYTES = 50_000  # of a report of a few runs, without plotly.js


@dataclass(frozen=True)
class Facts:
    """Lines of (name, value)."""

    kind: ClassVar = "facts"
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Cells as text; the first `words` columns hold text, the others numbers. bold: (row, column).

    above: (title, number of columns) of the heads over several columns; covers all columns, or is empty.
    """

    kind: ClassVar = "table"
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    bold: frozenset = frozenset()
    words: int = 1
    above: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class ChartBlock:
    """A figure in the light palette, with a height in pixels. alt: text for screen readers."""

    kind: ClassVar = "chart"
    title: str
    figure: chart.Chart
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Code:
    """Text to copy; collapsed if `is_folded`."""

    kind: ClassVar = "code"
    title: str
    text: str
    is_folded: bool = False


@dataclass(frozen=True)
class Paragraphs:
    """Paragraphs."""

    kind: ClassVar = "words"
    lines: Sequence[str]


Block = Facts | Table | ChartBlock | Code | Paragraphs


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def usual_size() -> int:
    """Return the approximate bytes of a file with charts; nearly all of it is plotly.js, which is included once."""
    return chart.LIBRARY.stat().st_size + _OWN_BYTES


def render(title: str, subtitle: Sequence[str], sections: Sequence[Section], footer: str) -> str:
    """Render the whole file. subtitle: lines below the title. Sections without blocks are left out."""
    filled = [section for section in sections if section.blocks]
    figures = [block.figure for section in filled for block in section.blocks if block.kind == "chart"]
    sources = (chart.read_library(), (_HERE / "document.js").read_bytes()) if figures else ()
    return offline.page(
        _HERE / "document.html.j2",
        list(map(offline.as_script, sources)),
        (_HERE / "document.css").read_text(encoding="utf-8"),
        title=title,
        subtitle=subtitle,
        sections=filled,
        footer=footer,
        figures=[offline.inside_script(figure.to_json()) for figure in figures],
        colors=offline.inside_script(json.dumps(palette.color_pairs())),
    )
