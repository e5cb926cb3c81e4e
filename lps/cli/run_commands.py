"""Show and manage runs: `list`, `show`, `stop`, `resume`, `rename`, `tag`, `note`, `delete`, `restore`."""

import argparse

from lps.cli._parser import Commands, add_filter, filter_runs, print_json, print_note
from lps.errors import UserError, shorten, shown
from lps.store.run_folders import TRASH_DAYS, delete_run, find_run, list_runs, recorded_runs, restore_run
from lps.wording import counted, step_in_words

_SHOWN = 8  # printed numbers of a list


def add(commands: Commands) -> None:
    listing = commands.add("list", list_all, "list all runs", as_json=True)
    listing.add_argument(
        "--recorded", action="store_true", help="list the recordings that come with the program instead"
    )
    add_filter(listing)
    commands.add("show", _show_run, "show one run", run=True, as_json=True)
    commands.add("stop", stop, "stop a run after a checkpoint; you can resume it later", run=True).add_argument(
        "--kill", action="store_true", help="stop now, without a checkpoint of the current epoch"
    )
    commands.add("resume", _resume, "continue from the last checkpoint", run=True)
    commands.add("rename", _rename, "give a run a name", run=True).add_argument("name")
    commands.add("delete", _delete, f"move a run to the trash, where it stays for {TRASH_DAYS} days", run=True)
    commands.add("restore", _restore, "restore a run from the trash", run=True)
    tags = commands.add("tag", _tag, "add tags to a run with +NAME, remove them with -NAME; prints its tags", run=True)
    tags.add_argument("changes", nargs=argparse.REMAINDER, metavar="+NAME|-NAME", help="may be repeated")
    commands.add("note", _write_note, "write a note to a run; an empty note removes it", run=True).add_argument("text")


def list_all(options) -> None:
    from lps.scheduler import launcher
    from lps.store.events_tail import read_recent

    launcher.ensure_daemon(options.runs)
    rows, runs = [], recorded_runs() if options.recorded else list_runs(options.runs)
    for run in filter_runs(runs, options.filter):
        state, recent = run.state(), read_recent(run.events, epochs=1)
        scores = {key: recent.number(f"accuracy/{key}") for key in ("seen", "novel", "all")}
        row = {"id": run.id, "name": run.meta()["name"], "state": state.name, "reason": state.reason}
        rows.append(row | {"damages": run.damages()} | {"epochs": recent.epoch} | scores)
    if options.json:
        print_json(rows)
        return
    if not runs and not options.recorded:
        print_note(f"no runs in {shown(options.runs)}; start one with: python -m lps train")
    for row in rows:
        scores = " ".join(f"{key} {row[key]:.3f}" for key in ("seen", "novel", "all") if row[key] is not None)
        reasons = "; ".join(text for text in (row["reason"], *row["damages"]) if text)
        print(f"{row['id']}  {row['state']:10} epoch {row['epochs']:<4} {scores}  {row['name']}  {reasons}".rstrip())


def _show_run(options) -> None:
    from lps.scheduler import launcher
    from lps.store.summary import summarize

    launcher.ensure_daemon(options.runs)
    run = find_run(options.runs, options.run)
    state = run.state()
    config = {} if state.name == "unreadable" else run.config().flat()
    values = {
        "id": run.id,
        "state": state.name,
        "reason": state.reason,
        "damages": run.damages(),
        "advice": _advice(run, state),
        **run.meta(),
        "config": config,
        **summarize(run),
    }
    if options.json:
        print_json(values)
        return
    status_line = f"{state.name}, {counted(values['epochs'], 'epoch')}"
    print(f"{run.id}  {values['name']}\n{status_line}{': ' * bool(state.reason)}{state.reason}")
    for line in (*values["damages"], *values["advice"].values()):
        print(f"    {line}")
    if step_words := step_in_words(values["last"]):
        print(f"    {step_words}")
    for title in ("last", "best"):
        print(f"\n{title}")
        for key, value in values[title].items():
            print(f"    {key} = {value}" if not isinstance(value, list) else f"    {key} = {_list_text(value)}")
    print("\nconfig")
    for key, value in config.items():
        print(f"    {key} = {value}")


def _advice(run, state) -> dict[str, str]:
    """Return likely cause, remedy and command for a run that failed or crashed."""
    from lps.scheduler import failures

    if state.name not in ("failed", "crashed"):
        return {}
    advice = failures.advise(state.kind)
    config = run.config()
    return {"cause": advice.cause, "remedy": advice.remedy, "command": failures.retry_command(run.id, advice, config)}


def _list_text(values: list) -> str:
    text = ", ".join("null" if v is None else f"{v:.4g}" for v in values[:_SHOWN])
    return f"[{text}{', ...' if len(values) > _SHOWN else ''}]"


def stop(options) -> None:
    from lps.scheduler import launcher

    run = find_run(options.runs, options.run)
    before = run.state()
    after = launcher.stop(run, kill=options.kill)
    if before.is_over and after.is_over:
        print_note(f"{run.id} is already {before.name}; there is nothing to stop")
    if after.reason and after.name == "stopping":
        print_note(f"{run.id}: {after.reason}; python -m lps stop --kill {run.id} ends it now")


def _resume(options) -> None:
    from lps.scheduler import launcher

    run = find_run(options.runs, options.run)
    launcher.resume(run)
    print(run.folder)


def _rename(options) -> None:
    find_run(options.runs, options.run).write_meta(name=options.name)


def _delete(options) -> None:
    run = find_run(options.runs, options.run)
    delete_run(run)
    print_note(f"{run.id} is in the trash. For {TRASH_DAYS} days, python -m lps restore {run.id} brings it back")


def _restore(options) -> None:
    print(restore_run(options.runs, options.run).folder)


def _tag(options) -> None:
    run, changes = find_run(options.runs, options.run), options.changes
    invalid = next((change for change in changes if change[:1] not in ("+", "-") or len(change) < 2), None)
    if invalid is not None:
        raise UserError("tag", f"{shorten(invalid)} is not +NAME or -NAME")
    if changes:
        run.write_meta(
            add=[change[1:] for change in changes if change[0] == "+"],
            drop=[change[1:] for change in changes if change[0] == "-"],
        )
    print("\n".join(run.meta()["tags"]), end="\n" * bool(run.meta()["tags"]))


def _write_note(options) -> None:
    find_run(options.runs, options.run).write_meta(notes=options.text)
