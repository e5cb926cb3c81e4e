"""docs/reliability.md: every row of every table names a test, and every named test exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def sources() -> dict[str, str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    return {path.relative_to(ROOT / "tests").as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_every_test_that_is_named_exists():
    known = sources()
    files = set(re.findall(r"`((?:[a-z]+/)?test_\w+\.py)", PAGE))
    functions = set(re.findall(r"::(test_\w+)", PAGE))
    assert len(files) > 5 and len(functions) > 10
    assert files - set(known) == set()
    together = "\n".join(known.values())
    assert [name for name in functions if f"def {name}(" not in together] == []


def test_every_row_names_one():
    """In the tables that have a column for it."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        head, _, *rows = table.splitlines()
        if head.endswith("| Test |"):
            assert [row for row in rows if "test_" not in row] == []
