"""docs/reliability.md: every row of a table of faults names a test, and every named test exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_every_row_names_a_test():
    """In the tables whose last column is called Test."""
    tables = [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)]
    of_faults = [rows for head, _, *rows in tables if head.endswith("| Test |")]
    assert len(of_faults) >= 3 and all(of_faults)
    assert [row for rows in of_faults for row in rows if not NAMED.search(row)] == []


def test_every_named_test_exists():
    for file in re.findall(r"`((?:[a-z]+/)?test_\w+\.py)", PAGE):
        assert (ROOT / "tests" / file).is_file(), file
    for file, name in NAMED.findall(PAGE):
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^\s*def {name}\(", text, re.MULTILINE), f"{file}::{name}"
    assert [name for name in re.findall(r"::(test_\w+)", PAGE) if f"::{name}`" not in PAGE] == []
