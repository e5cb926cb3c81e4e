"""Predict the classes of new pictures with a trained run: `predict`."""

import argparse
import math
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lps.cli._parser import Commands, add_sharing, print_note
from lps.errors import UserError, shown
from lps.inference.prediction_columns import describe_columns
from lps.machine import processes
from lps.store.run_folders import blocked_by, find_run
from lps.store.runs import Run
from lps.wording import counted

if TYPE_CHECKING:
    from lps.inference.prediction_result import PredictionResult

_SHORTEST_S, _LONGEST_S = 0.1, 86_400.0  # limits of --every
_LISTED = 5  # printed names of files left out


def add(commands: Commands) -> None:
    help_text = (
        'predict the classes of new pictures, mark pictures of no known class as "none of these", and list the most '
        "similar training images"
    )
    sub = commands.add("predict", _predict, help_text, run=True, has_shared_output=True)
    sub.formatter_class = argparse.RawDescriptionHelpFormatter  # keeps the lines of the columns
    sub.description, sub.epilog = textwrap.fill(help_text), _explain_columns()
    sub.add_argument(
        "pictures", metavar="PICTURES", help="a folder (with its sub-folders), shards, or an .npz file with x"
    )
    sub.add_argument("--to", type=Path, help="a .csv file, or a new folder for copies sorted by class")
    sub.add_argument(
        "--keep",
        type=float,
        metavar="SHARE",
        help="share of the pictures of known classes that should get a class (default: 0.95). It sets a limit for the "
        'distance from the training images; every picture beyond the limit is "none of these". 1: every picture gets '
        "a class",
    )
    add_sharing(sub, "on the same run and pictures, on this machine or others")
    sub.add_argument("--watch", action="store_true", help="keep watching a folder for new pictures")
    sub.add_argument(
        "--every", type=float, default=10.0, metavar="SECONDS", help="seconds between two checks of --watch (10)"
    )
    sub.add_argument("--result", type=Path, help=argparse.SUPPRESS)  # for a page: the whole result as arrays


def _explain_columns() -> str:
    lines = [
        textwrap.fill(f"{name:<12}{meaning}", initial_indent="  ", subsequent_indent=" " * 14)
        for name, meaning in describe_columns().items()
    ]
    return "\n".join(["columns of the table:", *lines])


def _predict(options) -> int | None:
    from lps.inference import new_pictures, prediction_files
    from lps.inference.prediction import predict
    from lps.inference.prediction_result import check_share
    from lps.inference.shared_prediction import predict_together
    from lps.settings import nouns

    check_share(options.keep)
    processes.check_workers(options.workers)
    to, is_table = options.to, options.to is not None and options.to.suffix.lower() == ".csv"
    if to is not None:
        _check_place(to, is_table)
    pictures = options.pictures or ""  # argparse of Python 3.11 turns "--" behind "--" into a list
    new_pictures.check_source(pictures)
    run = find_run(options.runs, options.run)
    if options.result is not None:
        return _predict_for_a_page(run, pictures, options.result)
    is_shared = options.join or options.workers > 1
    if options.watch and is_shared:
        raise UserError("watch", "is for one process; leave out --workers and --join")
    if options.watch:
        return _watch_folder(run, pictures, options)
    prediction = _stored_result(run, Path(pictures))
    try:
        with closing(_Bar()) as bar:
            if prediction is None and is_shared:
                prediction = predict_together(run, pictures, bar, options.workers)
            elif prediction is None:
                prediction = predict(run, pictures, bar)
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            print_note(note)
        raise
    threshold = prediction.threshold(options.keep)
    _print_summary(prediction, threshold, nouns.of_dataset(run.config().dataset))
    if to is None:
        return
    if is_table:
        prediction_files.write_csv(to, prediction, threshold, _training_files(run))
    else:
        prediction_files.write_folder(to, prediction, threshold, _pixels(run, pictures), _training_files(run))
    print(to)


def _stored_result(run: Run, pictures: Path) -> "PredictionResult | None":
    """Return the result of the same files, weights and names if a page or several processes have made one."""
    from lps.inference import prediction_files, prediction_job

    path = prediction_job.prediction_path(run, pictures) if pictures.is_dir() else None
    prediction = path and prediction_files.read_if_sound(path)
    if prediction is not None:
        print_note("using the stored result of these pictures")
    return prediction


def _predict_for_a_page(run, pictures: str, result: Path) -> int | None:
    from lps.inference import prediction_files
    from lps.inference.prediction import predict
    from lps.scheduler import background_jobs
    from lps.settings import nouns

    progress, say = background_jobs.progress_of(result), nouns.of_dataset(run.config().dataset)
    if any(file.exists() for file in background_jobs.files_beside(result)):  # a page started this: see `start_job`
        progress.report("model")

    def tell(done: int, total: int | None) -> None:
        counts = f"{done:,} of {counted(total, 'picture')}" if total else counted(done, "picture")
        progress.report("predict", done / total if total else None, done=say(counts))
        progress.check()

    try:
        prediction = predict(run, pictures, tell)
    except background_jobs.Cancelled:
        return 130
    prediction_files.write(result, prediction)


def _watch_folder(run, pictures: str, options) -> int:
    """Check a folder until the user ends it; write the table again whenever pictures arrive."""
    from lps.inference import prediction_files
    from lps.inference.folder_watch import FolderWatch
    from lps.interop import notifications

    if not _SHORTEST_S <= options.every <= _LONGEST_S:
        raise UserError("every", f"{options.every:g} is not between {_SHORTEST_S:g} and {_LONGEST_S:g} seconds")
    if options.to is not None and options.to.suffix.lower() != ".csv":
        raise UserError("to", f"{shown(options.to)} is not a .csv file; --watch needs a table")
    notifications.receivers()
    watch, files, is_first = FolderWatch(run, Path(pictures)), _training_files(run), True
    print_note(f"checking every {options.every:g} s; press Ctrl-C to end")
    while True:
        arrivals = watch.check(is_first)
        is_first = False
        if arrivals is not None:
            threshold = arrivals.prediction.threshold(options.keep)
            for line in arrivals.in_words(threshold):
                print(f"{time.strftime('%H:%M:%S')}  {shown(line, 500)}", flush=True)
            if options.to is not None:
                prediction_files.write_csv(options.to, arrivals.prediction, threshold, files)
            for message in arrivals.messages():
                notifications.send_message(run.root, message)
        time.sleep(options.every)


def _check_place(to: Path, is_table: bool) -> None:
    """Raise `UserError` if nothing can be written later."""
    from lps.files.atomic_folder import refuse_existing

    if not is_table:
        refuse_existing(to)
    if reason := blocked_by(to.absolute().parent):
        raise UserError("to", reason)


def _print_summary(prediction, threshold: float, say: Callable[[str], str]) -> None:
    """Print the predicted classes, the rule of rejection, and what was left out. say: puts in the noun of an item."""
    from lps.inference.prediction_result import NONE

    none = prediction.is_none(threshold)
    counts = Counter(name for name, is_none in zip(prediction.names(), none.tolist()) if not is_none)
    for name, count in [*counts.most_common(), (NONE, int(none.sum()))]:
        print(f"{count:>7,}  {shown(name)}", flush=True)
    rule = f'a picture is "{NONE}" if its distance from the training images is larger than {threshold:.3f}. '
    rule += f"{prediction.trade_off.in_words(threshold)} {prediction.trade_off.basis}"
    if not math.isfinite(threshold):
        rule = f'only pictures in clusters that you marked as not a class are "{NONE}"'
    print_note(say(rule))
    for kind in prediction.kinds:
        description, bracket, files = prediction.kind_in_words(kind).partition(" (")  # files keep their names
        print_note(shown(say(description) + bracket + files, 500))
    if prediction.lost:
        print_note(f"names without a matching cluster at epoch {prediction.epoch}: {', '.join(prediction.lost)}")
    if prediction.skipped:
        print_note(f"{counted(len(prediction.skipped), 'file')} left out")
        for name, reason in prediction.skipped[:_LISTED]:
            print_note(f"  {shown(name)} {reason}")


def _training_files(run) -> tuple[str, ...]:
    """Return the files of the run's own pictures; () if they are not files."""
    from lps.data import sources

    return sources.images_of(run.config()).file_names


def _pixels(run, pictures: str) -> Iterator[np.ndarray]:
    """Yield the pictures again, prepared as for the run."""
    from lps.inference import new_pictures, trained_model

    for images in new_pictures.open_pictures(pictures, trained_model.picture_form(run.config())).pieces():
        yield from images.pixels


class _Bar:
    """A progress bar of predicted pictures, only on a terminal."""

    def __init__(self):
        self._bar = None

    def __call__(self, done: int, total: int | None) -> None:
        if self._bar is None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit=" pictures", desc="predict", file=sys.stderr)
        if self._bar is not None:
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
