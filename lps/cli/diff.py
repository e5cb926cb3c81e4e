"""Two runs beside one another: `diff`."""

from dataclasses import asdict

from lps.cli._parser import Commands, print_json
from lps.store.run_folders import find_run
from lps.store.titles import label


def add(commands: Commands) -> None:
    about = "two runs: in which settings, program, hardware, data and split they differ, then their numbers"
    diff = commands.add("diff", _show, about, as_json=True)
    diff.add_argument("first", metavar="RUN", help="id of a run, the end of it, or its folder")
    diff.add_argument("second", metavar="RUN", help="the other one")
    diff.add_argument("--all", action="store_true", help="also what is the same in both")


def _show(options) -> None:
    from lps.bench.side_by_side import beside

    pair = find_run(options.runs, options.first), find_run(options.runs, options.second)
    found = beside(*pair)
    sections = found.sections if options.all else found.differing()
    if options.json:
        numbers = {name: [asdict(one) for one in getattr(found, name)] for name in ("last", "best")}
        rows = {title: [asdict(row) for row in rows] for title, rows in sections.items()}
        print_json({"first": pair[0].id, "second": pair[1].id, "sections": rows, **numbers})
        return
    print(f"{label(pair[0])}: {found.about[0]}\n{label(pair[1])}: {found.about[1]}")
    for title, rows in sections.items():
        print(f"\n{title}: {sum(row.same for row in found.sections[title])} the same")
        marks = ["differs" if options.all and not row.same else "" for row in rows]
        _print_rows([(row.what, row.first, row.second, mark) for row, mark in zip(rows, marks)])
    for title in ("last", "best"):
        print(f"\nNumbers, {title} epoch (accuracies, NMI, ARI in percent)")
        numbers = getattr(found, title)
        _print_rows([(one.name, *map(_plain, (one.first, one.second)), _plain(one.difference, "+")) for one in numbers])


def _print_rows(rows: list[tuple[str, ...]]) -> None:
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(4)]
    for row in rows:
        print(("    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))).rstrip())


def _plain(value: float | None, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign}.5g}"
