"""Files made from a run: `project`, `export`, `record`."""

from pathlib import Path

from lps.commands import Commands, say
from lps.parameters import ConfigError
from lps.runs import find_run


def add(commands: Commands) -> None:
    project = commands.add("project", make_projection, "2-D map of a run's features", run=True)
    project.add_argument("--method", choices=("pca", "umap", "tsne"), default="umap")
    project.add_argument("--epoch", type=int, help="epoch of the snapshot; the last one without it")
    export = commands.add(
        "export", export_labels, "the label of every image, as a table or a folder of pictures", run=True
    )
    export.add_argument("--to", type=Path, required=True, help="a file that ends in .csv, or a folder to be made")
    export.add_argument("--epoch", type=int, help="epoch whose clusters count; without it the last one with names")
    export.add_argument("--links", action="store_true", help="links to the picture files in place of copies")
    recorder = commands.add("record", record_runs, "small read-only copies of finished runs, to look at elsewhere")
    recorder.add_argument("ids", nargs="+", metavar="RUN", help="finished runs")
    recorder.add_argument("--to", type=Path, required=True, help="folder of the recordings")
    recorder.add_argument("--name", default="", help="how people call the one run; without it as it is called now")


def make_projection(options) -> None:
    from lps.projection import project

    print(project(find_run(options.runs, options.run), options.method, options.epoch))


def export_labels(options) -> None:
    from lps.exports import export

    labels = export(find_run(options.runs, options.run), options.to, options.epoch, options.links)
    say(f"labels of epoch {labels.epoch}")
    print(options.to)


def record_runs(options) -> None:
    from lps.recording import record

    if options.name and len(options.ids) > 1:
        raise ConfigError("name", f"{options.name!r} is one name for {len(options.ids)} runs; record them one by one")
    for run in [find_run(options.runs, text) for text in options.ids]:
        print(record(run, options.to, options.name).folder)
