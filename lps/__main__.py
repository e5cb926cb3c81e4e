"""The command line: `python -m lps COMMAND`. Parsing and printing, nothing else."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from lps import catalog
from lps.config import Config, configure, parse_settings
from lps.parameters import ConfigError
from lps.runs import Run, create_run, delete_run, find_run, list_runs, recorded_runs


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        return options.act(options) or 0
    except ConfigError as error:
        print(f"lps: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def parser() -> Parser:
    top = Parser(prog="python -m lps", description="Open-world semi-supervised learning, from the command line.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    def command(name: str, act, help: str, *, run=False, as_json=False, settings=False) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        sub.set_defaults(act=act)
        sub.add_argument(
            "--runs", type=Path, default=Path(os.environ.get("LPS_RUNS", "runs")), help="folder of the runs"
        )
        if run:
            sub.add_argument("run", help="id of a run, the end of it, or its folder")
        if as_json:
            sub.add_argument("--json", action="store_true", help="as JSON")
        if settings:
            _add_settings(sub)
        return sub

    methods = command("methods", list_methods, "what can be trained", as_json=True)
    methods.add_argument("method", nargs="?", help="one of them: its objective, citation and deviations too")
    sets = command("datasets", list_datasets, "what it can be trained on", as_json=True)
    sets.add_argument("--fetch", metavar="NAME", help="download this one, where that is possible")
    train = command("train", train_here, "train in the foreground; the last line is the run folder", settings=True)
    train.add_argument("--run", dest="folder", type=Path, help=argparse.SUPPRESS)  # how the runner starts the trainer
    command("launch", launch_run, "train in the background; prints the run folder", settings=True)
    _add_layout(command("sweep", sweep, "many runs in the background; prints their folders", as_json=True))
    command("pretrain", pretrain, "only the SimCLR start of such a run, kept for later runs", settings=True)
    count = command("count-classes", count_classes, "how many classes the images may have", as_json=True, settings=True)
    count.add_argument("--most", type=int, help="the largest number that is tried")
    listing = command("list", list_all, "all runs", as_json=True)
    listing.add_argument("--recorded", action="store_true", help="the recordings that come with the program instead")
    command("show", show, "one run", run=True, as_json=True)
    command("stop", stop, "end a run after a checkpoint; it can be resumed", run=True).add_argument(
        "--kill", action="store_true", help="at once, without a checkpoint of the current epoch"
    )
    command("resume", resume, "go on from the last checkpoint", run=True)
    command("rename", rename, "give a run a name", run=True).add_argument("name")
    command("delete", delete, "move a run to the trash folder", run=True)
    command("restore", restore, "bring a run back from the trash folder", run=True)
    tags = command("tag", tag, "give a run tags with +NAME, take them with -NAME; prints what it has", run=True)
    tags.add_argument("changes", nargs=argparse.REMAINDER, metavar="+NAME|-NAME", help="as many as needed")
    command("note", note, "write a note to a run; an empty one removes it", run=True).add_argument("text")
    project = command("project", make_projection, "2-D map of a run's features", run=True)
    project.add_argument("--method", choices=("pca", "umap", "tsne"), default="umap")
    project.add_argument("--epoch", type=int, help="epoch of the snapshot; the last one without it")
    export = command("export", export_labels, "the label of every image, as a table or a folder of pictures", run=True)
    export.add_argument("--to", type=Path, required=True, help="a file that ends in .csv, or a folder to be made")
    export.add_argument("--epoch", type=int, help="epoch whose clusters count; without it the last one with names")
    export.add_argument("--links", action="store_true", help="links to the picture files in place of copies")
    recorder = command("record", record_runs, "small read-only copies of finished runs, to look at elsewhere")
    recorder.add_argument("ids", nargs="+", metavar="RUN", help="finished runs")
    recorder.add_argument("--to", type=Path, required=True, help="folder of the recordings")
    recorder.add_argument("--name", default="", help="how people call the one run; without it as it is called now")
    compare = command("compare", compare_runs, "runs side by side, mean and spread over seeds")
    compare.add_argument("--format", choices=("markdown", "latex", "csv", "json"), default="markdown")
    report = command("report", write_report, "one HTML file: numbers, charts, settings, and how to make them again")
    report.add_argument("--to", type=Path, required=True, help="the file, such as report.html")
    for sub in (compare, report):
        _add_scoring(sub)
    return top


def _add_scoring(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("ids", nargs="*", metavar="RUN", help="runs to compare; all finished ones without it")
    sub.add_argument("--tag", help="the finished runs with this tag, such as sweep:NAME, instead of named ones")
    sub.add_argument("--protocol", default="orca", help="orca, gcd_v1, gcd_v2, gcd_v2_balanced or strict")
    sub.add_argument("--seen", default="default", help="seen accuracy: default, raw or matched")
    sub.add_argument("--images", default="unlabeled", help="scored images: unlabeled or test")
    sub.add_argument(
        "--select", default="last", help="epoch: last, validation (best on withheld labels) or oracle (best by truth)"
    )


def _add_settings(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dataset", default="digits", help="see `datasets`")
    sub.add_argument("--method", default="lps", help="see `methods`")
    sub.add_argument("--seed", default="0", help="seed of the run")
    sub.add_argument("--name", default="", help="a name for people")
    sub.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="any setting, as often as needed",
    )


def _add_layout(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dataset", default="digits", help="one or several, comma-separated")
    sub.add_argument("--method", default="lps", help="one or several, comma-separated, or all")
    sub.add_argument("--seeds", default="0", help="seeds of every combination, comma-separated")
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings", help="for all runs")
    sub.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=V1,V2",
        dest="varied",
        help="values to try, as often as needed; V1|V2 where values hold commas",
    )
    sub.add_argument("--mode", default="grid", help="grid: all combinations; list: k-th values together; random")
    sub.add_argument("--samples", type=int, help="how many combinations --mode random draws")
    sub.add_argument("--sample-seed", type=int, default=0, help="seed of the drawing")
    sub.add_argument("--name", default="", help="name of the sweep; its runs carry the tag sweep:NAME")
    sub.add_argument("--dry-run", action="store_true", help="only say what would be run")
    sub.add_argument("--wait", action="store_true", help="until all are over; Ctrl-C leaves them going")


def list_methods(options) -> None:
    names = [options.method] if options.method else catalog.method_names()
    infos = [catalog.method_info(name) for name in names]
    if options.json:
        _print_json([{"name": i.name, "title": i.title, "summary": i.summary, "sections": i.sections,
                      "parameters": [asdict(p) for p in i.parameters.values()]} for i in infos])  # fmt: skip
        return
    for info in infos:
        print(f"{info.name:12} {info.summary}")
        for parameter in info.parameters.values():
            print(f"    {parameter.name}={parameter.default}  {parameter.help} ({parameter.expectation()})")
        for title, text in info.sections.items() if options.method else ():
            print(f"\n{title}\n" + "\n".join(f"    {line}".rstrip() for line in text.splitlines()))


def list_datasets(options) -> None:
    if options.fetch:
        from lps import datasets

        datasets.fetch(options.fetch)
        return
    infos = [catalog.dataset_info(name) for name in catalog.dataset_names()]
    if options.json:
        _print_json([asdict(info) for info in infos])
        return
    for info in infos:
        print(f"{info.name:14} {info.summary}")


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
    from lps import launch
    from lps.follow import follow

    run = _create(options)
    launch.launch(run)
    state = follow(run)
    _say(f"{state.name}{': ' + state.reason if state.reason else ''}")
    print(run.folder)
    return 0 if state.name in ("finished", "stopped") else 1


def launch_run(options) -> None:
    from lps import launch

    run = _create(options)
    launch.launch(run)
    print(run.folder)


def sweep(options) -> int:
    from lps import start_check, sweeps

    how = {"mode": options.mode, "samples": options.samples, "sample_seed": options.sample_seed}
    texts = (options.dataset, options.method, options.seeds, options.settings, options.varied)
    wanted = sweeps.plan(sweeps.read_layout(*texts, **how), options.runs, options.name)
    for config in {(item.config.dataset, _start_of(item.config)): item.config for item in wanted.items}.values():
        start_check.check(config)
    estimate = sweeps.estimate(wanted, options.runs)
    _say(_sweep_in_words(wanted, estimate))
    code = 0
    if not options.dry_run:
        wanted = sweeps.start(wanted, options.runs)
        code = _await(wanted.items) if options.wait else 0
    if options.json:
        items = [_item_as_json(item) for item in wanted.items]
        _print_json({"name": wanted.name, "tag": wanted.tag, "estimate": asdict(estimate), "runs": items})
        return code
    for item in wanted.items:
        known = f"  {item.run.id}, {item.state.name}" if item.run else ""
        print(f"{item.action:8} {item.label}{known}" if options.dry_run else item.run.folder)
    return code


def _sweep_in_words(wanted, estimate) -> str:
    """Two lines: how many runs there are and what becomes of them; what they will cost."""
    from lps.costs import in_words, size_in_words

    counts = ", ".join(f"{wanted.count(a)} {a}" for a in ("new", "exists", "resumed") if wanted.count(a))
    lines = [f"{wanted.tag}: {len(wanted.items)} runs ({counts})"]
    known = estimate.runs - estimate.missing
    if known:
        cost = f"about {in_words(estimate.seconds)} one after another and {size_in_words(estimate.bytes)}"
        lines.append(f"{known} of {estimate.runs} to do: {cost}, by finished runs")
    if estimate.missing:
        lines.append(f"time and disk unknown: no finished run of {', '.join(estimate.unknown)} yet")
    return "\n".join(lines)


def _await(items) -> int:
    """Say how every run ended as it ends; 1 where one did not finish, 130 after Ctrl-C."""
    from lps import sweeps
    from lps.summary import summarize

    ended = []
    try:
        for item in sweeps.watch(items):
            ended.append(item)
            score = summarize(item.run)["last"].get("accuracy/all")
            words = f", all {score:.2f}" if isinstance(score, float) else ""
            reason = f": {item.state.reason}" if item.state.reason else ""
            _say(f"[{len(ended)}/{len(items)}] {item.label}: {item.state.name}{reason}{words}")
    except KeyboardInterrupt:
        _say(f"not waiting any more; {len(items) - len(ended)} runs go on or wait for their turn (see list, stop)")
        return 130
    return 1 if any(item.state.name != "finished" for item in ended) else 0


def _item_as_json(item) -> dict:
    run = {"run": str(item.run.folder), "state": item.run.state().name} if item.run else {"run": None, "state": None}
    return {"label": item.label, "action": item.action, **run, "config": item.config.flat()}


def pretrain(options) -> int:
    from lps.pretrain import pretrain_alone

    path = pretrain_alone(_config(options), options.runs / ".pretrained", _say)
    print(path)
    return 0


def count_classes(options) -> None:
    from lps.class_search import search

    config = _config(options, {"split.num_novel": 1})
    found = search(config, options.runs, options.most, lambda line: print(line, file=sys.stderr, flush=True))
    if options.json:
        _print_json(asdict(found) | {"novel": found.novel})
        return
    print("classes  accuracy on labels  silhouette")
    for number, accuracy, silhouette in zip(found.numbers, found.accuracy, found.silhouette):
        chosen = "  <- chosen" if number == found.total else ""
        print(f"{number:7}  {accuracy:18.3f}  {silhouette:10.3f}{chosen}")
    print(f"{found.total} classes, {found.novel} of them novel: --set split.num_novel={found.novel}")


def list_all(options) -> None:
    from lps.summary import summarize

    rows = []
    for run in recorded_runs() if options.recorded else list_runs(options.runs):
        state, summary = run.state(), summarize(run)
        scores = {key: summary["last"].get(f"accuracy/{key}") for key in ("seen", "novel", "all")}
        row = {"id": run.id, "name": run.meta()["name"], "state": state.name, "reason": state.reason}
        rows.append(row | {"epochs": summary["epochs"]} | scores)
    if options.json:
        _print_json(rows)
        return
    if not rows and not options.recorded:
        _say(f"no runs in {options.runs}; start one with: python -m lps train")
    for row in rows:
        scores = " ".join(f"{key} {row[key]:.3f}" for key in ("seen", "novel", "all") if row[key] is not None)
        print(
            f"{row['id']}  {row['state']:10} epoch {row['epochs']:<4} {scores}  {row['name']}  {row['reason']}".rstrip()
        )


def show(options) -> None:
    from lps.summary import summarize

    run = find_run(options.runs, options.run)
    state = run.state()
    config = {} if state.name == "unreadable" else run.config().flat()
    shown = {
        "id": run.id,
        "state": state.name,
        "reason": state.reason,
        **run.meta(),
        "config": config,
        **summarize(run),
    }
    if options.json:
        _print_json(shown)
        return
    print(f"{run.id}  {shown['name']}\n{state.name}, {shown['epochs']} epochs{': ' * bool(state.reason)}{state.reason}")
    for title in ("last", "best"):
        print(f"\n{title}")
        for key, value in shown[title].items():
            print(f"    {key} = {value}" if not isinstance(value, list) else f"    {key} = {_shorten(value)}")
    print("\nconfig")
    for key, value in config.items():
        print(f"    {key} = {value}")


def stop(options) -> None:
    from lps import launch

    launch.stop(find_run(options.runs, options.run), kill=options.kill)


def resume(options) -> None:
    from lps import launch

    run = find_run(options.runs, options.run)
    launch.resume(run)
    print(run.folder)


def rename(options) -> None:
    find_run(options.runs, options.run).write_meta(name=options.name)


def delete(options) -> None:
    delete_run(find_run(options.runs, options.run))


def restore(options) -> None:
    from lps.trash import restore_run

    print(restore_run(options.runs, options.run).folder)


def tag(options) -> None:
    run, changes = find_run(options.runs, options.run), options.changes
    wrong = next((change for change in changes if change[:1] not in ("+", "-") or len(change) < 2), None)
    if wrong is not None:
        raise ConfigError("tag", f"{wrong!r} is not +NAME or -NAME")
    if changes:
        run.write_meta(
            add=[change[1:] for change in changes if change[0] == "+"],
            drop=[change[1:] for change in changes if change[0] == "-"],
        )
    print("\n".join(run.meta()["tags"]), end="\n" * bool(run.meta()["tags"]))


def note(options) -> None:
    find_run(options.runs, options.run).write_meta(notes=options.text)


def make_projection(options) -> None:
    from lps.projection import project

    print(project(find_run(options.runs, options.run), options.method, options.epoch))


def export_labels(options) -> None:
    from lps.exports import export

    labels = export(find_run(options.runs, options.run), options.to, options.epoch, options.links)
    _say(f"labels of epoch {labels.epoch}")
    print(options.to)


def record_runs(options) -> None:
    from lps.recording import record

    if options.name and len(options.ids) > 1:
        raise ConfigError("name", f"{options.name!r} is one name for {len(options.ids)} runs; record them one by one")
    for run in [find_run(options.runs, text) for text in options.ids]:
        print(record(run, options.to, options.name).folder)


def compare_runs(options) -> None:
    from lps.compare import group_runs, score_all, table

    scored, left_out = score_all(_chosen(options), options.protocol, options.select, options.seen, options.images)
    for run, reason in left_out:
        _say(f"left out: {run.id}: {reason}")
    if not scored:
        raise ConfigError("compare", "none of these runs can be scored in this way")
    print(table(group_runs(scored), options.format), end="")


def write_report(options) -> None:
    """The one command that needs the dashboard's libraries; where they are missing it says so."""
    try:
        from lps.ui import report
    except ModuleNotFoundError as error:
        needed = "plotly pandas streamlit jinja2"
        raise ConfigError("report", f"needs {error.name}, which is not installed: pip install {needed}") from None
    from lps.files import write_whole

    runs = _chosen(options)
    text = report.of(runs, report.Scoring(options.protocol, options.select, options.seen, options.images))
    try:
        write_whole(options.to, report.as_bytes(text))
    except OSError as error:
        raise ConfigError("to", f"{str(options.to)!r} cannot be written ({error.strerror})") from None
    _say(f"{len(runs)} run{'s' * (len(runs) > 1)}, {options.to.stat().st_size / 1e6:.1f} MB")
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
        _say(f"{len(runs) - len(finished)} of {len(runs)} runs are not finished and left out")
    return finished


def _config(options, usual: Mapping[str, object] = MappingProxyType({})) -> Config:
    """The checked config of the options, before anything is written. usual: settings where nobody says otherwise."""
    from lps import datasets, preflight, start_check

    for text in options.settings:
        name = text.partition("=")[0].strip()
        if name in ("dataset", "method"):
            raise ConfigError(name, f"cannot be set by --set; use --{name}")
    own = parse_settings([f"seed={options.seed}"], "lps") | {"dataset": options.dataset, "method": options.method}
    config = configure(dict(usual) | own | parse_settings(options.settings, options.method))
    datasets.fetch(config.dataset, config.dataset_path)
    preflight.check(config)
    start_check.check(config)
    _tell_skipped(config)
    return config


def _start_of(config: Config) -> tuple:
    return tuple(value for key, value in config.flat().items() if key.startswith("network."))


def _tell_skipped(config: Config) -> None:
    """Which files of a data set could not be used."""
    from lps import datasets

    skipped = datasets.of(config).skipped
    if skipped:
        named = "; ".join(f"{name} {reason}" for name, reason in skipped[:3])
        rest = f"; and {len(skipped) - 3} more, listed on the page Launch" if len(skipped) > 3 else ""
        _say(f"{len(skipped)} files left out: {named}{rest}")


def _create(options) -> Run:
    return create_run(options.runs, _config(options), options.name)


def _shorten(values: list, limit: int = 8) -> str:
    shown = ", ".join("null" if v is None else f"{v:.4g}" for v in values[:limit])
    return f"[{shown}{', ...' if len(values) > limit else ''}]"


def _print_json(value) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
