"""Compare results of several runs: `compare`, `report`, `replay`, `diff` and `ledger`."""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lps.cli._parser import Commands, add_filter, filter_runs, print_json, print_note
from lps.errors import UserError, shorten, shown
from lps.files.atomic import PUBLIC, as_user_error, write_whole
from lps.store.run_folders import find_run, list_runs
from lps.store.runs import Run
from lps.store.titles import run_label
from lps.wording import counted, data_size

if TYPE_CHECKING:
    from lps.analysis.run_groups import Group


def add(commands: Commands) -> None:
    compare = commands.add("compare", _compare_runs, "compare runs: mean and spread over seeds")
    compare.add_argument("--format", choices=("markdown", "latex", "csv", "json"), default="markdown")
    help_text = (
        "the row that the others are held against: its name in the table, or a run of it; without it the usual LPS"
    )
    compare.add_argument("--against", metavar="ROW", help=help_text)
    help_text = "write one HTML file with numbers, charts, settings, and the commands to repeat the runs"
    report = commands.add("report", _write_report, help_text, has_shared_output=True)
    report.add_argument("--to", type=Path, required=True, help="the file, such as report.html")
    for sub in (compare, report):
        _add_scoring(sub)
    help_text = "write a race of one to three runs as one HTML file that works offline"
    replay = commands.add("replay", _write_replay, help_text, has_shared_output=True)
    replay.add_argument("ids", nargs="+", metavar="RUN", help="runs of the same split")
    replay.add_argument("--to", type=Path, required=True, help="the file, such as replay.html")
    help_text = "compare two runs: differences in settings, program, hardware, data and split, then their numbers"
    diff = commands.add("diff", _show_differences, help_text, as_json=True)
    diff.add_argument("first", metavar="RUN", help="id of a run, the end of the id, or its folder")
    diff.add_argument("second", metavar="RUN", help="the other run")
    diff.add_argument("--all", action="store_true", help="show equal settings too")
    help_text = (
        "compare published results of every method with those of finished runs, and say if the two are comparable"
    )
    official = commands.add("ledger", _write_ledger, help_text, has_shared_output=True)
    official.add_argument("ids", nargs="*", metavar="RUN", help="runs; default: all finished runs")
    official.add_argument("--format", choices=("markdown", "csv"), default="markdown")
    official.add_argument("--to", type=Path, help="the file, such as ledger.md; default: print to the terminal")


def _add_scoring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("ids", nargs="*", metavar="RUN", help="runs to compare; default: all finished runs")
    sub.add_argument("--tag", help="compare the finished runs with this tag, such as sweep:NAME")
    add_filter(sub)
    sub.add_argument("--protocol", default="orca", help="orca, gcd_v1, gcd_v2, gcd_v2_balanced or strict")
    sub.add_argument("--seen", default="default", help="seen accuracy: default, raw or matched")
    sub.add_argument("--images", default="unlabeled", help="scored images: unlabeled or test")
    sub.add_argument(
        "--select",
        default="last",
        help="epoch: last, validation (best on withheld labels) or oracle (best on true classes)",
    )


def _compare_runs(options) -> None:
    from lps.analysis.run_groups import group_runs
    from lps.analysis.run_scores import check_scoring
    from lps.analysis.score_tables import format_table

    check_scoring(options.protocol, options.select, options.seen, options.images)
    scored = _score_runs(_chosen_runs(options), options.protocol, options.select, options.seen, options.images)
    if not scored:
        raise UserError("compare", "none of these runs can be scored this way")
    groups = group_runs(scored)
    print(format_table(groups, options.format, _reference(groups, options)), end="")


def _score_runs(runs: list[Run], *scoring: str) -> list:
    """Return the scores of the runs that have some; print why others have none."""
    from lps.analysis.run_scores import score_all

    scored, left_out = score_all(runs, *scoring)
    for run, reason in left_out:
        print_note(f"left out: {run.id}: {reason}")
    return scored


def _reference(groups: "Sequence[Group]", options) -> "Group | None":
    """Return the group that `--against` names; None without the option."""
    reference = options.against
    if reference is None:
        return None
    for group in groups:
        if reference.strip().casefold() in (group.label.casefold(), group.short_label.casefold()):
            return group
    with suppress(UserError):
        run = find_run(options.runs, reference)
        for group in groups:
            if any(member.run.id == run.id for member in (*group.members, *group.replaced)):
                return group
    choices = "; ".join(group.label for group in groups)
    raise UserError("against", f"{shorten(reference)} is not a row or a run of this table; choices: {choices}")


def _write_report(options) -> None:
    """Write a report. Only this command needs the dashboard's libraries; an error names a missing one."""
    try:
        from lps.report import run_report, sweep_report
    except ModuleNotFoundError as error:
        needed = "plotly pandas jinja2"
        raise UserError("report", f"needs {error.name}, which is not installed: pip install {needed}") from None
    from lps.analysis import run_scores
    from lps.studies import sweep_records
    from lps.studies.sweep_records import PREFIX

    run_scores.check_scoring(options.protocol, options.select, options.seen, options.images)
    _check_folder(options.to)
    scoring = run_report.Scoring(options.protocol, options.select, options.seen, options.images)
    run_report.check_name(options.to.name)
    if options.tag and options.tag.startswith(PREFIX) and not options.ids and not options.filter:
        sweep = sweep_report.find_sweep(sweep_records.list_sweeps(options.runs), options.tag)
        runs, text = sweep.runs, sweep_report.render_sweep_report(sweep, options.runs, scoring)
    else:
        runs = _chosen_runs(options)
        text = run_report.render_run_report(runs, scoring)
    _write(options.to, run_report.encode_report(text))
    print_note(f"{counted(len(runs), 'run')}, {data_size(options.to.stat().st_size)}")
    print(options.to)


def _check_folder(to: Path) -> None:
    if not to.parent.is_dir():
        raise UserError("to", f"{shorten(str(to), 200)} cannot be written (its folder does not exist)")


def _write(to: Path, content: bytes) -> None:
    with as_user_error("to", f"{shorten(str(to), 200)} cannot be written"):
        write_whole(to, content, PUBLIC)


def _write_ledger(options) -> None:
    from lps.analysis import ledger
    from lps.analysis.run_groups import group_runs

    if options.to is not None:
        _check_folder(options.to)
    runs = [find_run(options.runs, text) for text in options.ids] or _finished_runs(options.runs)
    claims = ledger.ledger_claims(group_runs(_score_runs(runs)))
    text = {"markdown": ledger.ledger_page, "csv": ledger.csv_text}[options.format](claims)
    if options.to is None:
        print(text, end="")
        return
    _write(options.to, text.encode())
    print_note(counted(len(claims), "line"))
    print(options.to)


def _finished_runs(root: Path) -> list[Run]:
    return [run for run in list_runs(root) if run.state().name == "finished"]


def _chosen_runs(options) -> list[Run]:
    """Return the runs that were named or tagged, else all finished ones, that match the filter."""
    runs = [find_run(options.runs, text) for text in options.ids] + _tagged_runs(options) or _finished_runs(
        options.runs
    )
    if not runs:
        raise UserError(options.command, f"there are no finished runs in {shown(options.runs)}")
    if not (fitting := filter_runs(runs, options.filter)):
        raise UserError("filter", f"{shorten(options.filter)} matches none of {counted(len(runs), 'run')}")
    return fitting


def _tagged_runs(options) -> list[Run]:
    """Return the finished runs with the requested tag; print how many others have it."""
    from lps.studies.sweeps import runs_with_tag

    if not options.tag:
        return []
    if options.ids:
        raise UserError("tag", "cannot be combined with names of runs; give one or the other")
    runs = runs_with_tag(options.runs, options.tag)
    finished = [run for run in runs if run.state().name == "finished"]
    if not finished:
        raise UserError("tag", f"{shorten(options.tag)} matches {counted(len(runs), 'run')}, but none has finished")
    if len(finished) < len(runs):
        print_note(f"left out because not finished: {len(runs) - len(finished)} of {len(runs)} runs")
    return finished


def _write_replay(options) -> None:
    try:
        from lps.race import race_document
    except ModuleNotFoundError as error:
        raise UserError("replay", f"needs {error.name}, which is not installed: pip install pandas jinja2") from None
    runs = [find_run(options.runs, text) for text in options.ids]
    path = race_document.write(runs, options.to)
    print_note(f"{counted(len(runs), 'run')}, {path.stat().st_size / 1000:.0f} kB")
    print(path)


def _show_differences(options) -> None:
    from lps.tables.side_by_side import compare_two_runs

    pair = find_run(options.runs, options.first), find_run(options.runs, options.second)
    comparison = compare_two_runs(*pair)
    sections = comparison.sections if options.all else comparison.differing()
    if options.json:
        numbers = {name: [asdict(number) for number in getattr(comparison, name)] for name in ("last", "best")}
        rows = {title: [asdict(row) for row in rows] for title, rows in sections.items()}
        print_json({"first": pair[0].id, "second": pair[1].id, "sections": rows, **numbers})
        return
    for run, summary in zip(pair, comparison.epoch_summaries):
        print(f"{run_label(run)}: {summary}")
    for title, rows in sections.items():
        print(f"\n{title}: {sum(row.same for row in comparison.sections[title])} equal")
        marks = ["differs" if options.all and not row.same else "" for row in rows]
        _print_rows([(row.what, row.first, row.second, mark) for row, mark in zip(rows, marks)])
    for title in ("last", "best"):
        print(f"\nNumbers, {title} epoch (accuracies, NMI, ARI in percent)")
        numbers = getattr(comparison, title)
        _print_rows(
            [(n.name, _number_text(n.first), _number_text(n.second), _number_text(n.difference, "+")) for n in numbers]
        )


def _print_rows(rows: list[tuple[str, ...]]) -> None:
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        print(("    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))).rstrip())


def _number_text(value: float | None, sign: str = "") -> str:
    return "–" if value is None else f"{value:{sign}.5g}"
