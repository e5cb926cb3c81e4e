"""Print the results: sections of rows as Markdown tables, or everything as one JSON object."""

import json
import math


def table(rows: list[dict]) -> str:
    """Markdown; the columns are the keys of all rows in the order in which they first appear."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---" if isinstance(rows[0].get(column), str) else "---:" for column in columns]]
    lines += [[shown(row.get(column)) for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: object) -> str:
    """Three significant digits of a fraction; whole numbers and texts as they are."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def section(title: str, note: str, rows: list[dict]) -> str:
    return f"\n## {title}\n\n{note}\n\n{table(rows)}"


def as_json(sections: dict[str, list[dict]]) -> str:
    return json.dumps(sections, indent=1)
