"""Hostile names, notes, tags and class names in what is taken away: tables, reports, pictures, the terminal."""

import csv
import io
import re
import stat
from html.parser import HTMLParser

import numpy as np
import pytest

from lps.__main__ import main
from lps.analysis import run_groups, run_scores, score_tables
from lps.charts.group_tables import Scoring
from lps.files import tables
from lps.interop import event_tables
from lps.report import run_report
from lps.ui.pictures import frames
from tests.hostile_runs import STRANGER, TEXTS, make_data, make_runs

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
SCORING = Scoring("orca", "last", "default")
COMMANDS_OF_TABLES = {  # what our own tables and reports are made of
    "begin", "end", "toprule", "midrule", "bottomrule", "cmidrule", "multicolumn", "textbf", "emph", "textbackslash",
    "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "pm", "cdot", "dag",
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    data = make_data(tmp_path_factory.mktemp("data") / "hostile.npz")
    return make_runs(tmp_path_factory.mktemp("hostile") / "runs", data)


def dangerous(text: str) -> list[list[str]]:
    """Rows of a CSV file with a cell that a spreadsheet would compute; numbers are what they are."""
    number = re.compile(r"[+-]?[0-9.]+(e[+-]?[0-9]+)?")
    rows = list(csv.reader(io.StringIO(text)))
    return [row for row in rows for cell in row if cell.lstrip()[:1] in FORMULA and cell and not number.fullmatch(cell)]


def test_a_cell_is_never_a_formula():
    formulas = ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", " =1", "\r=1", "\n=1", *TEXTS]
    for make in (tables.escape_cell, tables.line_cell, tables.file_cell):
        assert dangerous(_csv([[make(text)] for text in formulas])) == []
    assert tables.file_cell("a.tar/1\n=1\u2028é\udce9.png") == r"a.tar/1\n=1\u2028é\xe9.png"  # on one line
    assert dangerous(_csv([["=1+1"]])) and dangerous(_csv([[" @x"]])) and not dangerous(_csv([["-1.5", "+2e-3"]]))


@pytest.mark.parametrize("first", ["\ufeff=", "\u200b=", "\ufeff\u2066 @", "\uff1d", "\uff0b", "\uff20", "\x00+"])
def test_a_sign_that_is_not_seen_or_wide_hides_no_formula(first):
    """A byte order mark at the beginning of a file is dropped by a spreadsheet, which then sees what follows."""
    for make in (tables.escape_cell, tables.file_cell):
        assert make(f"{first}1+1.png")[0] in "'\\"  # a file's name has \\x00 for the character
    for text in ("\ufeffcat", "caf\u00e9", "1=1", "", "\u200b", "(-1)"):
        assert tables.escape_cell(text) == text


@pytest.mark.slow
def test_a_row_of_a_million_cells_is_written_and_read_whole():
    row = [tables.escape_cell(f"={number}") for number in range(1_000_000)]
    csv.field_size_limit(1 << 20)
    assert next(csv.reader(io.StringIO(tables.csv_text([row])))) == row


def _csv(rows) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def test_tables_of_runs(runs, tmp_path):
    for path in event_tables.export(runs, tmp_path / "out", "csv"):
        assert dangerous(path.read_bytes().decode()) == []
    texts = (tmp_path / "out" / "runs.csv").read_text()
    assert STRANGER in texts


@pytest.mark.parametrize("form", ["csv", "latex", "markdown", "json"])
def test_comparisons(runs, form):
    scored, _ = run_scores.score_all([runs[0], runs[3]], SCORING.protocol, SCORING.select, SCORING.seen, SCORING.images)
    text = score_tables.format_table(run_groups.group_runs(scored), form)
    if form == "csv":
        assert dangerous(text) == []
    if form == "latex":
        assert commands(text) <= COMMANDS_OF_TABLES
    assert "\x1b" not in text and "\u202e" not in text


def commands(text: str) -> set[str]:
    """The LaTeX commands in a file: a hostile text that became one would be among them."""
    lines = [re.sub(r"(?<!\\)%.*", "", line) for line in text.splitlines()]
    return set(re.findall(r"\\([A-Za-z]+)", "\n".join(lines)))


@pytest.mark.parametrize("text", TEXTS)
def test_latex_prints_a_text_as_it_stands(text):
    escaped = tables.escape_latex(text)
    assert commands(escaped) <= COMMANDS_OF_TABLES
    assert not re.search(r"(?<!\\)(?:\\\\)*[&%#_$]", escaped.replace(r"$\pm$", "").replace(r"$\cdot$", ""))
    assert "\n" not in escaped


class Tags(HTMLParser):
    """Elements of a document with their attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.mark.parametrize("count", [1, 2])
def test_reports_in_html_have_no_element_of_a_text(runs, count):
    found = Tags(run_report.render_run_report([runs[0], runs[3]][:count], SCORING)).found
    for tag, attributes in found:
        assert tag not in ("iframe", "object", "embed", "form", "base", "link")
        assert not [name for name in attributes if name.startswith("on")], attributes
        for name in ("src", "href", "data", "action", "srcset"):
            assert STRANGER not in (attributes.get(name) or ""), (tag, attributes)
    assert [attributes for tag, attributes in found if tag == "meta" and "http-equiv" in attributes]


@pytest.mark.parametrize("text", TEXTS)
def test_pictures_in_frames_have_no_element_of_a_text(text):
    frame = frames.Frame(np.zeros((4, 4, 1), np.uint8), (4, 4), "seen", alt=text, caption=text)
    found = Tags(frames._render_row(text, [frame], 40)).found
    assert [tag for tag, _ in found] == ["div", "p", "figure", "img", "figcaption"]
    image = next(attributes for tag, attributes in found if tag == "img")
    assert set(image) == {"src", "width", "height", "alt"} and image["src"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("command", ["list", "show", "tag", "compare"])
def test_the_terminal_shows_no_codes(runs, capsys, command):
    ids = {"list": [], "compare": [runs[0].id, runs[3].id]}.get(command, [runs[1].id])
    assert main([command, "--runs", str(runs[0].root), *ids]) in (0, 2)
    said = capsys.readouterr()
    shown = said.out + said.err
    assert not [c for c in shown if not c.isprintable() and c != "\n"] and shown


def test_runs_are_private(runs):
    """Whatever the umask of who writes: nobody else reads settings, notes or records."""
    root = runs[0].root
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    for run in runs:
        assert stat.S_IMODE(run.folder.stat().st_mode) == 0o700
        for name in ("config.json", "meta.json", "lock", "exit.json", "names.json", "split.npz"):
            path = run.folder / name
            assert not path.exists() or stat.S_IMODE(path.stat().st_mode) == 0o600, name
