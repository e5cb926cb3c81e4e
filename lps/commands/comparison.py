"""Results of several runs: `compare` and `report`."""

import argparse
from pathlib import Path

from lps.commands import Commands, say
from lps.parameters import ConfigError, shorten
from lps.runs import Run, find_run, list_runs


def add(commands: Commands) -> None:
    compare = commands.add("compare", compare_runs, "runs side by side, mean and spread over seeds")
    compare.add_argument("--format", choices=("markdown", "latex", "csv", "json"), default="markdown")
    about = "one HTML or LaTeX file: numbers, charts, settings, and how to make them again"
    report = commands.add("report", write_report, about, is_taken_away=True)
    report.add_argument("--to", type=Path, required=True, help="the file, such as report.html or report.tex")
    for sub in (compare, report):
        _add_scoring(sub)


def _add_scoring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("ids", nargs="*", metavar="RUN", help="runs to compare; all finished ones without it")
    sub.add_argument("--tag", help="the finished runs with this tag, such as sweep:NAME, instead of named ones")
    sub.add_argument("--protocol", default="orca", help="orca, gcd_v1, gcd_v2, gcd_v2_balanced or strict")
    sub.add_argument("--seen", default="default", help="seen accuracy: default, raw or matched")
    sub.add_argument("--images", default="unlabeled", help="scored images: unlabeled or test")
    sub.add_argument(
        "--select", default="last", help="epoch: last, validation (best on withheld labels) or oracle (best by truth)"
    )


def compare_runs(options) -> None:
    from lps.compare import check_scoring, group_runs, score_all, table

    check_scoring(options.protocol, options.select, options.seen, options.images)
    scored, left_out = score_all(_chosen(options), options.protocol, options.select, options.seen, options.images)
    for run, reason in left_out:
        say(f"left out: {run.id}: {reason}")
    if not scored:
        raise ConfigError("compare", "none of these runs can be scored in this way")
    print(table(group_runs(scored), options.format), end="")


def write_report(options) -> None:
    """The one command that needs the dashboard's libraries; where they are missing it says so."""
    try:
        from lps.ui import report, sweep_report
    except ModuleNotFoundError as error:
        needed = "plotly pandas streamlit jinja2"
        raise ConfigError("report", f"needs {error.name}, which is not installed: pip install {needed}") from None
    from lps import compare, sweep_records
    from lps.costs import size_in_words
    from lps.files import PUBLIC, write_whole
    from lps.sweep_records import PREFIX

    compare.check_scoring(options.protocol, options.select, options.seen, options.images)
    if not options.to.parent.is_dir():
        raise ConfigError("to", f"{shorten(str(options.to), 200)} cannot be written (its folder does not exist)")
    scoring = report.Scoring(options.protocol, options.select, options.seen, options.images)
    form = report.form_of(options.to.name)
    if options.tag and options.tag.startswith(PREFIX) and not options.ids:
        known = sweep_report.find(sweep_records.known(options.runs), options.tag)
        runs, text = known.runs, sweep_report.of(known, options.runs, scoring, form=form)
    else:
        runs = _chosen(options)
        text = report.of(runs, scoring, form=form)
    try:
        write_whole(options.to, report.as_bytes(text), PUBLIC)
    except OSError as error:
        raise ConfigError("to", f"{str(options.to)!r} cannot be written ({error.strerror})") from None
    say(f"{len(runs)} run{'s' * (len(runs) > 1)}, {size_in_words(options.to.stat().st_size)}")
    print(options.to)


def _chosen(options) -> list[Run]:
    """The runs that were named or tagged, else all finished ones."""
    runs = [find_run(options.runs, text) for text in options.ids] + _tagged(options)
    runs = runs or [run for run in list_runs(options.runs) if run.state().name == "finished"]
    if not runs:
        raise ConfigError(options.command, f"there are no finished runs in {options.runs}")
    return runs


def _tagged(options) -> list[Run]:
    """The finished runs with the tag that was asked for; says how many others have it."""
    from lps.sweeps import tagged

    if not options.tag:
        return []
    if options.ids:
        raise ConfigError("tag", "stands for the names of the runs; give one or the other")
    runs = tagged(options.runs, options.tag)
    finished = [run for run in runs if run.state().name == "finished"]
    if not finished:
        raise ConfigError("tag", f"{options.tag!r} is on {len(runs)} runs, none of them finished")
    if len(finished) < len(runs):
        say(f"{len(runs) - len(finished)} of {len(runs)} runs are not finished and left out")
    return finished
