"""Official numbers beside ours: `ledger`."""

from pathlib import Path

from lps.cli._parser import Commands, say
from lps.errors import UserError, shorten
from lps.store.run_folders import find_run, list_runs
from lps.wording import counted


def add(commands: Commands) -> None:
    about = "what others report of every method, beside what finished runs gave, and whether the two compare"
    ledger = commands.add("ledger", _write, about, is_taken_away=True)
    ledger.add_argument("ids", nargs="*", metavar="RUN", help="runs; all finished ones without it")
    ledger.add_argument("--format", choices=("markdown", "csv"), default="markdown")
    ledger.add_argument("--to", type=Path, help="the file, such as ledger.md; without it the terminal")


def _write(options) -> None:
    from lps.analysis import ledger
    from lps.analysis.run_groups import group_runs
    from lps.analysis.run_scores import score_all
    from lps.files.atomic import PUBLIC, as_user_error, write_whole

    if options.to is not None and not options.to.parent.is_dir():
        raise UserError("to", f"{shorten(str(options.to), 200)} cannot be written (its folder does not exist)")
    runs = [find_run(options.runs, text) for text in options.ids]
    runs = runs or [run for run in list_runs(options.runs) if run.state().name == "finished"]
    scored, left_out = score_all(runs)
    for run, reason in left_out:
        say(f"left out: {run.id}: {reason}")
    found = ledger.lines(group_runs(scored))
    text = {"markdown": ledger.markdown, "csv": ledger.csv_text}[options.format](found)
    if options.to is None:
        print(text, end="")
        return
    with as_user_error("to", f"{shorten(str(options.to), 200)} cannot be written"):
        write_whole(options.to, text.encode(), PUBLIC)
    say(counted(len(found), "line"))
    print(options.to)
