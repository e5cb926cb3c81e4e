"""Name the clusters of a run, and train on with the names: `name`, `train-on`."""

from lps.cli._parser import Commands, add_settings, print_json, print_note
from lps.errors import UserError, shorten
from lps.settings import cli_args
from lps.settings.config import parse_settings
from lps.store.run_folders import find_run
from lps.wording import counted, first_of

_RULES = ("all", "confident", "looked-at")
_DIGITS = 9  # most digits of a cluster's number


def add(commands: Commands) -> None:
    help_text = "name a run's clusters; prints the resulting names"
    names = commands.add("name", _name, help_text, run=True, as_json=True)
    names.add_argument(
        "names", nargs="*", metavar="CLUSTER=NAME", help="may be repeated; without it, the clusters are listed"
    )
    names.add_argument(
        "--epoch", type=int, help="epoch of the clusters; default: the newest with names, otherwise the last epoch"
    )
    names.add_argument("--merge", nargs=2, type=int, metavar=("CLUSTER", "INTO"), action="append", default=[])
    names.add_argument(
        "--reject", type=int, metavar="CLUSTER", action="append", default=[], help="mark the cluster as not a class"
    )
    names.add_argument("--undo", action="store_true", help="undo the last change at this epoch")
    help_text = "start a run in the background that uses the names of clusters as labels; prints its folder"
    on = commands.add("train-on", _train_on, help_text, run=True, as_json=True)
    on.add_argument("--epoch", type=int, help="epoch of the clusters; default: the newest with names")
    on.add_argument(
        "--labels", choices=_RULES, default="confident", help="which pictures of a named cluster become labeled"
    )
    on.add_argument(
        "--confidence", type=float, default=0.9, help="minimum confidence for --labels confident, from 0 to 1"
    )
    help_text = "dissolve an unnamed cluster: it is not a class of the new run, and its pictures stay unlabeled"
    on.add_argument("--dissolve", type=int, metavar="CLUSTER", action="append", default=[], help=help_text)
    start = on.add_mutually_exclusive_group()
    start.add_argument("--from-weights", action="store_true", help="start from the run's weights (the default)")
    start.add_argument("--afresh", action="store_true", help="start from the same start weights as the run")
    on.add_argument("--name", default="", help="display name")
    on.add_argument("--dry-run", action="store_true", help="only print what would be started")
    on.add_argument("--wait", action="store_true", help="wait until the run ends")
    add_settings(on, "change a training setting of the run, such as epochs=20")


def _name(options) -> None:
    from lps.analysis import labels, naming

    run = find_run(options.runs, options.run)
    clusters = labels.read_clusters(run, options.epoch)
    steps = [{"do": "merge", "id": cluster, "into": target} for cluster, target in options.merge]
    steps += [_parse_name(text, clusters) for text in options.names]
    steps += [{"do": "reject", "id": cluster} for cluster in options.reject]
    for step in steps:
        if (cluster := step["id"]) not in clusters.ids:
            some_ids = first_of(clusters.ids, 20)
            raise UserError("cluster", f"{cluster} is not a cluster of epoch {clusters.epoch}; choices: {some_ids}")
    if options.undo:
        decisions = naming.undo_last(run, clusters.epoch)
        print_note(f"undone: {decisions}" if decisions else "nothing to undo")
    if steps:
        naming.record_steps(run, clusters.epoch, steps, labels.digest_of_predictions(clusters.network.predicted))
    _print_clusters(labels.read_clusters(run, clusters.epoch), options.json)


def _parse_name(text: str, clusters) -> dict:
    from lps.analysis import naming

    number, equals, name = text.partition("=")
    if not equals or not (number.isascii() and number.isdigit() and len(number) <= _DIGITS):
        raise UserError("name", f"{shorten(text)} is not CLUSTER=NAME, such as 7=zebra")
    naming.check_name(name, int(number), clusters.decisions, clusters.defaults)
    return {"do": "name", "id": int(number), "name": naming.clean_name(name)}


def _print_clusters(clusters, as_json: bool) -> None:
    rows = [
        {"cluster": cluster, "images": clusters.size(cluster), "name": clusters.name(cluster)}
        for cluster in clusters.ids
    ]
    if as_json:
        print_json({"epoch": clusters.epoch, "clusters": rows})
        return
    print(f"epoch {clusters.epoch}\ncluster  unlabeled  name")
    for row in rows:
        print(f"{row['cluster']:7}  {row['images']:9}  {row['name']}".rstrip())


def _train_on(options) -> int | None:
    from lps.inference import continued_training
    from lps.scheduler import start_check, submit

    run = find_run(options.runs, options.run)
    plan = continued_training.plan_continued_training(
        run,
        options.epoch,
        rule=options.labels,
        threshold=options.confidence,
        from_weights=not options.afresh,
        changes=parse_settings(options.settings, run.config().method),
        unnamed=dict.fromkeys(options.dissolve),
    )
    counts = [f"  {name}: {counted(count, 'picture')}" for name, count in plan.labeled.items()]
    settings = [f"  {setting}" for setting in cli_args.format_settings(plan.switched_off)]
    print_note("\n".join([plan.in_words(), plan.classes_in_words, *counts, *plan.notices(), *settings]))
    if options.dry_run:
        return None
    submit.check_configs([plan.config], check_start=start_check.check_start)
    new_run = continued_training.start_continued_training(plan, name=options.name)
    if options.wait:
        from lps.cli._follow import follow

        state = follow(new_run)
        print_note(f"{state.name}{': ' + state.reason if state.reason else ''}")
    if options.json:
        confirmed = plan.confirmed
        result = {"run": str(new_run.folder), "names": confirmed.named, "pictures": confirmed.pictures}
        summary = {"new_classes": list(plan.new_classes), "novel": plan.looked_for, "labeled": dict(plan.labeled)}
        print_json(result | summary)
    else:
        print(new_run.folder)
    return 1 if options.wait and new_run.state().name not in ("finished", "stopped") else None
