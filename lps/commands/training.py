"""Start one run, or what comes before it: `train`, `launch`, `pretrain`, `count-classes`."""

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from lps.commands import Commands, add_place, add_settings, add_task, any_whole, place, print_json, say
from lps.config import Config, configure, parse_settings
from lps.parameters import ConfigError
from lps.runs import Run, create_run


def add(commands: Commands) -> None:
    train = commands.add("train", train_here, "train in the foreground; the last line is the run folder")
    train.add_argument("--run", dest="folder", type=Path, help=argparse.SUPPRESS)  # how the runner starts the trainer
    launch = commands.add("launch", launch_run, "train in the background; prints the run folder")
    alone = commands.add("pretrain", pretrain, "only the SimCLR start of such a run, kept for later runs")
    count = commands.add("count-classes", count_classes, "how many classes the images may have", as_json=True)
    count.add_argument("--most", type=int, help="the largest number that is tried")
    launch.register("type", int, any_whole)
    launch.add_argument(
        "--retries", type=int, metavar="N", help="start a crashed run again by itself, N times (0 to 3)"
    )
    launch.add_argument("--priority", type=int, metavar="N", help="a higher one goes before all others that wait")
    add_place(launch)
    for sub in (train, launch, alone, count):
        add_task(sub)
        sub.add_argument("--light", action="store_true", help="smaller pictures and network, for a CPU")
        sub.add_argument("--seed", default="0", help="seed of the run")
        sub.add_argument("--name", default="", help="a name for people")
        add_settings(sub, "any setting, as often as needed")


def train_here(options) -> int:
    if options.folder:  # the training process itself, started by the runner
        # Threads that spin while they wait made a run 2.5 times slower on two busy cores; with a browser open they are.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from lps import ranks

        run = Run(options.folder)
        if processes := ranks.wanted(run):
            return ranks.carry_out(run, processes)
        from lps.train import train

        return train(run)
    from lps import launcher
    from lps.follow import follow

    run = _create(options)
    launcher.launch(run)
    state = follow(run)
    say(f"{state.name}{': ' + state.reason if state.reason else ''}")
    print(run.folder)
    return 0 if state.name in ("finished", "stopped") else 1


def launch_run(options) -> None:
    from lps import launcher

    launcher.check_wish(options.retries, options.priority)
    on = place(options)
    launcher.check_wish(options.retries, options.priority, on)
    run = _create(options, here=on is None)
    launcher.launch(run, retries=options.retries, priority=options.priority, on=on)
    print(run.folder)


def pretrain(options) -> int:
    config = _config(options)  # before torch is imported, which takes seconds
    from lps.pretrain import pretrain_alone

    path = pretrain_alone(config, options.runs / ".pretrained", say)
    print(path)
    return 0


def count_classes(options) -> None:
    config = _config(options, {"split.num_novel": 1})
    from lps.class_search import search

    found = search(config, options.runs, options.most, lambda line: print(line, file=sys.stderr, flush=True))
    if options.json:
        print_json(asdict(found) | {"novel": found.novel})
        return
    print("classes  accuracy on labels  silhouette")
    for number, accuracy, silhouette in zip(found.numbers, found.accuracy, found.silhouette):
        chosen = "  <- chosen" if number == found.total else ""
        print(f"{number:7}  {accuracy:18.3f}  {silhouette:10.3f}{chosen}")
    print(f"{found.total} classes, {found.novel} of them novel: --set split.num_novel={found.novel}")


def _create(options, here: bool = True) -> Run:
    from lps.preflight import shortage

    config = _config(options, here=here)
    if words := shortage([config], options.runs):
        say(words)
    return create_run(options.runs, config, options.name)


def _config(options, usual: Mapping[str, object] = MappingProxyType({}), here: bool = True) -> Config:
    """The checked config of the options, before anything is written. usual: settings where nobody says otherwise.

    here: whether the run is for this machine.
    """
    from lps import datasets, light, preflight, start_check

    for text in options.settings:
        name = text.partition("=")[0].strip()
        if name in ("dataset", "method"):
            raise ConfigError(name, f"cannot be set by --set; use --{name}")
    own = parse_settings([f"seed={options.seed}"], "lps") | {"dataset": options.dataset, "method": options.method}
    lighter = light.settings(options.dataset) if options.light else {}
    config = configure(dict(usual) | lighter | own | parse_settings(options.settings, options.method))
    datasets.fetch(config.dataset, config.dataset_path)
    preflight.check(config, here)
    start_check.check(config)
    _tell_skipped(config)
    return config


def _tell_skipped(config: Config) -> None:
    """Which files of a data set could not be used, and what else a person may not expect of it."""
    from lps import datasets, preflight

    for line in preflight.notices(config):
        say(line)

    skipped = datasets.of(config).skipped
    if skipped:
        named = "; ".join(f"{name} {reason}" for name, reason in skipped[:3])
        rest = f"; and {len(skipped) - 3} more, listed on the page Launch" if len(skipped) > 3 else ""
        say(f"{len(skipped)} files left out: {named}{rest}")
