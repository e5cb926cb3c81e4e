"""Export runs for other programs and machines, and import runs from there: `project`, `export`, `record`, `import`."""

import argparse
import sys
from pathlib import Path

from lps.cli._parser import Commands, print_json, print_note
from lps.errors import UserError, shorten, shown
from lps.store.run_folders import blocked_by, find_run, list_runs
from lps.store.runs import Run

_MAX_GB = 1_000_000
_FORMS = {  # the formats of `lps export --to`; also in lps/api.py and lps/interop/event_tables.py
    "tensorboard": "scalars, histograms, hyperparameters and the projector's embeddings, one folder per run",
    "csv": "all numbers as tables",
    "parquet": "all numbers as tables for pandas, R and databases",
    "archive": "one .zip per run, for `import` on another machine",
    "model": "one folder per run with model.onnx, its labels, a model card and an example that only needs onnxruntime",
}


def add(commands: Commands) -> None:
    project = commands.add("project", _make_projection, "compute a 2-D map of a run's features", run=True)
    project.add_argument("--method", choices=("pca", "umap", "tsne"), default="umap")
    project.add_argument(
        "--epoch", type=int, help="epoch of the snapshot; with --all, the epoch to begin with; default: the last one"
    )
    project.add_argument(
        "--all", action="store_true", help="maps of up to 24 epochs; each starts from the map of the nearest epoch"
    )
    forms = "; ".join(f"{name}: {meaning}" for name, meaning in _FORMS.items())
    help_text = f"export runs for other programs. {forms}; FILE.csv, FILE.parquet or FOLDER: labels"
    export = commands.add("export", _export_runs, help_text, has_shared_output=True)
    export.add_argument(
        "ids", nargs="*", metavar="RUN", help="runs; default: all that have started; labels need exactly one"
    )
    export.add_argument(
        "--to",
        required=True,
        metavar="WHAT",
        help=f"{', '.join(_FORMS)}; for the labels of all images, a .csv or .parquet file or a new folder",
    )
    export.add_argument(
        "--into",
        type=Path,
        help="folder to write to; default: exports/ and the format, such as exports/csv; labels are written to --to",
    )
    export.add_argument("--follow", action="store_true", help="tensorboard: go on while the runs do; Ctrl-C ends it")
    export.add_argument(
        "--light", action="store_true", help="archive: without checkpoints, so the runs cannot be resumed"
    )
    export.add_argument("--epoch", type=int, help="labels: epoch whose clusters count; tensorboard: of the features")
    export.add_argument("--result", type=Path, help=argparse.SUPPRESS)  # for a page: the .zip file of the model
    export.add_argument("--links", action="store_true", help="labels: links to the picture files instead of copies")
    help_text = "make small read-only copies of finished runs to show elsewhere"
    recorder = commands.add("record", _record_runs, help_text, has_shared_output=True)
    recorder.add_argument("ids", nargs="+", metavar="RUN", help="finished runs")
    recorder.add_argument("--to", type=Path, required=True, help="folder of the recordings")
    recorder.add_argument("--name", default="", help="name of the recording; default: the run's name")
    help_text = "include small copies of its pictures, for viewers who do not have the data set"
    recorder.add_argument("--thumbnails", action="store_true", help=help_text)
    help_text = "import runs of another machine: check and copy them; prints their folders"
    sub = commands.add("import", _import_paths, help_text, as_json=True)
    help_text = "a run's folder, a folder of runs, a .zip or a .tar"
    sub.add_argument("paths", nargs="+", type=Path, metavar="PATH", help=help_text)
    sub.add_argument("--dataset-path", metavar="PATH", help="path of these runs' data set on this machine")
    sub.add_argument(
        "--most-gb", type=float, default=16, help="reject archives that are larger than this when unpacked"
    )


def _make_projection(options) -> None:
    from lps.analysis.projection import compute_all_maps, compute_map, end_when_cancelled

    arguments = find_run(options.runs, options.run), options.method, options.epoch
    end_when_cancelled(*arguments, options.all)
    for path in compute_all_maps(*arguments) if options.all else [compute_map(*arguments)]:
        print(path)


def _export_runs(options) -> None:
    _check_export(options)
    if options.to not in _FORMS:
        return _export_labels(options)
    runs = [find_run(options.runs, text) for text in options.ids]
    into = options.into or Path("exports") / options.to
    if options.to == "model":
        return _export_models(runs, into, options.result)
    if options.follow:
        return _follow_to_tensorboard(runs, options.runs, into)
    runs = runs or [run for run in list_runs(options.runs) if run.state().name not in ("queued", "unreadable")]
    if not runs:
        raise UserError("export", f"no run has started in {shown(options.runs)}")
    if options.to == "tensorboard":
        _export_to_tensorboard(runs, into, options.epoch)
    else:
        for path in _write_files(runs, into, options):
            print(path)


def _export_models(runs: list[Run], into: Path, result: Path | None) -> None:
    from lps.inference import model_folder
    from lps.scheduler import background_jobs

    if result is not None:
        background_jobs.end_when_cancelled(result)
        background_jobs.progress_of(result).report("export")
        return model_folder.write_zip(runs[0], result)
    for run in runs:
        print(model_folder.write_model_folder(run, into / run.id), flush=True)


def _check_export(options) -> None:
    """Raise `UserError` for an option that has no effect with this `--to`."""
    if options.to == "model" and not options.ids:
        raise UserError("to", "'model' needs the ids of the runs to export: python -m lps export RUN --to model")
    labels = options.to not in _FORMS
    if labels and len(options.ids) != 1:
        forms = ", ".join(_FORMS)
        raise UserError(
            "to", f"{shorten(options.to)} can hold the labels of one run only; give one run or another format: {forms}"
        )
    allowed = {
        "into": not labels,
        "follow": options.to == "tensorboard" and options.epoch is None,
        "light": options.to == "archive",
        "epoch": labels or options.to == "tensorboard",
        "links": labels,
        "result": options.to == "model" and len(options.ids) == 1,
    }
    for name, is_allowed in allowed.items():
        if not is_allowed and getattr(options, name) not in (None, False):
            given_options = shown(options.to) + " with --epoch" * (name == "follow")
            raise UserError(name, f"cannot be used with --to {given_options}")


def _export_labels(options) -> None:
    from lps.interop.label_files import export
    from lps.settings.backbone_names import ABOUT_LABELS

    to = Path(options.to)
    run = find_run(options.runs, options.ids[0])
    labels = export(run, to, options.epoch, options.links)
    print_note(f"labels of epoch {labels.epoch}")
    if run.config().rests_on_labels:
        print_note(f"{ABOUT_LABELS}.")
    print(to)


def _export_to_tensorboard(runs: list[Run], into: Path, epoch: int | None) -> None:
    from lps.interop import tensorboard

    for folder, missing in tensorboard.export(runs, into, epoch).items():
        if missing:
            print_note(f"{folder.name}: the projector shows no images, because {missing}")
        print(folder)
    print_note(f"view it with: tensorboard --logdir {shown(into)}")


def _follow_to_tensorboard(runs: list[Run], root: Path, into: Path) -> None:
    from lps.interop import tensorboard

    print_note(f"press Ctrl-C to end; view it with: tensorboard --logdir {shown(into)}")
    for bridge in tensorboard.follow(runs, root, into):
        print(bridge.folder, flush=True)


def _write_files(runs: list[Run], into: Path, options) -> list[Path]:
    if options.to == "archive":
        from lps.interop import archives

        return [archives.pack_run(run, into, options.light) for run in runs]
    from lps.interop import event_tables

    return event_tables.export(runs, into, options.to)


def _record_runs(options) -> None:
    from lps.interop.recording import record_run

    if options.name and len(options.ids) > 1:
        many = f"cannot name {len(options.ids)} recordings; record the runs one by one"
        raise UserError("name", f"{shorten(options.name)} {many}")
    if reason := blocked_by(options.to):
        raise UserError("to", reason)
    for run in [find_run(options.runs, text) for text in options.ids]:
        print(record_run(run, options.to, options.name, options.thumbnails).folder)


def _import_paths(options) -> int:
    from lps.interop.imports import as_json, import_runs

    if not 0 < options.most_gb <= _MAX_GB:
        raise UserError("most-gb", f"{options.most_gb:g} is not a number above 0, up to {_MAX_GB}")
    imported, code = [], 0
    for path in options.paths:
        try:
            imported += import_runs(path, options.runs, options.dataset_path, int(options.most_gb * 1e9))
        except UserError as error:  # the others may still be fine
            print(f"lps: {shorten(str(path), 200)}: {error}", file=sys.stderr)
            code = 2
    if options.json:
        print_json([as_json(item) for item in imported])
        return code
    for item in imported:
        for notice in item.notes:
            print_note(f"{item.run.id}: {notice}")
        if not item.is_new:
            print_note(f"{item.run.id}: already here, with the same results")
        print(item.run.folder)
    return code
