"""Start one run, or work that precedes it: `train`, `launch`, `pretrain`, `count-classes`."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from lps.cli._parser import (
    LIGHT,
    Commands,
    add_place,
    add_settings,
    add_task,
    any_whole,
    print_json,
    print_note,
    target_options,
)
from lps.errors import UserError, shown
from lps.settings.config import Config, configure, parse_settings, protocol_parameters
from lps.store.runs import Run
from lps.wording import counted


def add(commands: Commands) -> None:
    train = commands.add(
        "train", _train_here, "train in the foreground; the last line of the output is the path of the run folder"
    )
    # Used by the runner, which starts the trainer
    train.add_argument("--run", dest="folder", type=Path, help=argparse.SUPPRESS)
    launch = commands.add("launch", _launch_run, "train in the background; prints the run folder")
    pretrain_command = commands.add(
        "pretrain", pretrain, "only run SimCLR pretraining and store its weights for later runs"
    )
    count = commands.add("count-classes", _count_classes, "estimate the number of classes", as_json=True)
    count.add_argument("--most", type=int, help="the largest number to try")
    # Used by a page, which holds the lock for it
    count.add_argument("--begun", action="store_true", help=argparse.SUPPRESS)
    launch.register("type", int, any_whole)
    launch.add_argument("--retries", type=int, metavar="N", help="restart a crashed run up to N times (0 to 3)")
    launch.add_argument("--priority", type=int, metavar="N", help="waiting runs with a higher priority start first")
    add_place(launch)
    for sub in (train, launch, pretrain_command, count):
        add_task(sub)
        sub.add_argument("--light", action="store_true", help=LIGHT)
        sub.add_argument("--seed", default="0", help="seed of the run")
        sub.add_argument("--name", default="", help="display name")
        add_settings(sub, "any setting, may be repeated")


def _train_here(options) -> int:
    if options.folder:  # the training process itself, started by the runner
        wait_without_spinning()
        from lps.training import ranks

        run = Run(options.folder)
        if not run.folder.is_dir():
            raise UserError("run", f"{shown(run.folder)} is not a folder of a run")
        if processes := ranks.ranks_to_start(run):
            return ranks.carry_out(run, processes)
        from lps.training.loop import train

        return train(run)
    from lps.cli._follow import follow

    run = _create_run(options)
    state = follow(run)
    print_note(f"{state.name}{': ' + state.reason if state.reason else ''}")
    print(run.folder)
    return 0 if state.name in ("finished", "stopped") else 1


def _launch_run(options) -> None:
    from lps.scheduler import launcher

    launcher.check_request(options.retries, options.priority)
    on = target_options(options)
    launcher.check_request(options.retries, options.priority, on)
    print(_create_run(options, retries=options.retries, priority=options.priority, on=on).folder)


def pretrain(options) -> int:
    wait_without_spinning()
    config = checked_config(options, {"features": "live"})  # before torch is imported, which takes seconds
    from lps.training.pretrain import pretrain_alone

    path = pretrain_alone(config, options.runs / ".pretrained", print_note)
    print(path)
    return 0


def _count_classes(options) -> int | None:
    wait_without_spinning()
    config = checked_config(options, {"split.num_novel": 1})
    from lps.cli._follow import CountBar
    from lps.scheduler import background_jobs, class_count
    from lps.studies.class_search import search_count

    background_jobs.end_when_cancelled(class_count.class_count_path(config, options.runs))
    show_progress = background_jobs.ignore_progress if options.begun else CountBar()
    try:
        count = search_count(config, options.runs, options.most, print_note, options.begun, show_progress)
    except background_jobs.Cancelled as error:
        print_note(str(error))
        return 130
    if options.json:
        advice = {"novel": count.novel, "suggested": count.suggested, "plausible": count.plausible}
        print_json(class_count.as_json(count) | advice)
        return
    print("classes  accuracy on labels  silhouette")
    for number, accuracy, silhouette in zip(count.numbers, count.accuracy, count.silhouette):
        mark = "  <- chosen" if number == count.total else ""
        print(f"{number:7}  {accuracy:18.3f}  {silhouette:10.3f}{mark}")
    print(f"{count.in_words}. Suggested: --set split.num_novel={count.suggested}")
    print(f"{count.suggestion_in_words}. {class_count.ADVICE}")


def wait_without_spinning() -> None:
    """Limit how long OpenMP threads spin while they wait. Call it before torch is imported.

    Spinning threads made a run 2.5 times slower on two busy cores, as with a browser open. Threads that never spin made
    the small steps on stored features 1.4 times slower on two idle cores. This count takes some ten microseconds,
    longer than most waits and shorter than the system's time slice.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")


def _create_run(options, **start_options) -> Run:
    from lps.scheduler import submit
    from lps.scheduler.preflight import disk_warning, memory_warnings, prior_advice
    from lps.settings.backbone_names import ABOUT_LABELS

    on_this_machine = start_options.get("on") is None
    config = checked_config(options, on_this_machine=on_this_machine)
    for note in (disk_warning([config], options.runs), *(memory_warnings([config]) if on_this_machine else ())):
        if note:
            print_note(note)
    if config.rests_on_labels:
        print_note(f"{ABOUT_LABELS}.")
    if advice := prior_advice(config):
        print_note(f"{advice.words} Evidence: docs/concepts/priors.md")
    return submit.create_runs(options.runs, [submit.RunRequest(config, options.name)], **start_options)[0]


def checked_config(
    options, defaults: Mapping[str, object] = MappingProxyType({}), on_this_machine: bool = True
) -> Config:
    """Return the checked config of the options, before anything is written.

    defaults: settings unless the options set them. on_this_machine: whether the run is for this machine.
    """
    from lps.scheduler import start_check, submit

    for text in options.settings:
        name = text.partition("=")[0].strip()
        if name in ("dataset", "method"):
            raise UserError(name, f"cannot be set with --set; use --{name}")
    base = {"dataset": options.dataset, "method": options.method}
    base["seed"] = protocol_parameters()["seed"].parse(options.seed)
    settings = parse_settings(options.settings, options.method)
    lighter = (
        submit.light_settings(options.dataset, dict(defaults) | settings, on_this_machine) if options.light else {}
    )
    config = configure(lighter | dict(defaults) | base | settings)
    submit.check_configs([config], on_this_machine, fetch=True, check_start=start_check.check_start)
    _print_warnings(config)
    return config


def _print_warnings(config: Config) -> None:
    """Print warnings about the start and files of the data set that cannot be used."""
    from lps.data import sources
    from lps.scheduler import preflight

    for line in preflight.start_warnings(config):
        print_note(line)

    skipped = sources.images_of(config).skipped
    if skipped:
        named = "; ".join(f"{name} {reason}" for name, reason in skipped[:3])
        remainder = f"; and {len(skipped) - 3} more, listed on the page Launch" if len(skipped) > 3 else ""
        print_note(f"{counted(len(skipped), 'file')} left out: {named}{remainder}")
