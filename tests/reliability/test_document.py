"""The written fault model: every row of its tables names a test, and every test that it names is there."""

import re

import pytest

from tests.reliability.processes import ROOT

TEXT = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def sections():
    """(title, rows) of every table whose last column is called Test."""
    for part in re.split(r"^#+ ", TEXT, flags=re.MULTILINE):
        rows = [line for line in part.splitlines() if line.startswith("|")]
        if rows and rows[0].rstrip("| ").endswith("Test"):
            yield part.partition("\n")[0], rows[2:]


@pytest.mark.parametrize("title, rows", list(sections()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_row_names_a_test(title, rows):
    assert rows and not [row for row in rows if not NAMED.search(row)]


def test_every_named_test_is_there():
    assert len(list(sections())) >= 3
    for file, name in NAMED.findall(TEXT):
        path = ROOT / "tests" / file
        assert path.is_file(), file
        assert re.search(rf"^\s*def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE), f"{file}::{name}"
