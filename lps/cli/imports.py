"""Runs from elsewhere: `import`."""

import sys
from pathlib import Path

from lps.cli._parser import Commands, print_json, say
from lps.errors import UserError, shorten

_MOST_GB = 1_000_000


def add(commands: Commands) -> None:
    sub = commands.add(
        "import", _import_paths, "runs of another machine, checked and copied; prints their folders", as_json=True
    )
    sub.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a run's folder, a folder of runs, a .zip or a .tar",
    )
    sub.add_argument("--dataset-path", metavar="PATH", help="where the data set of these runs lies on this machine")
    sub.add_argument("--most-gb", type=float, default=16, help="refuse archives that unpack to more")


def _import_paths(options) -> int:
    from lps.interop.imports import as_json, import_runs

    if not 0 < options.most_gb <= _MOST_GB:
        raise UserError("most-gb", f"{options.most_gb:g} is not a number above 0, up to {_MOST_GB}")
    found, code = [], 0
    for path in options.paths:
        try:
            found += import_runs(path, options.runs, options.dataset_path, int(options.most_gb * 1e9))
        except UserError as error:  # the others may still be fine
            print(f"lps: {shorten(str(path), 200)}: {error}", file=sys.stderr)
            code = 2
    if options.json:
        print_json([as_json(item) for item in found])
        return code
    for item in found:
        for note in item.notes:
            say(f"{item.run.id}: {note}")
        if not item.is_new:
            say(f"{item.run.id}: there already, with the same results")
        print(item.run.folder)
    return code
