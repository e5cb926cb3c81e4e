"""Runs from scripts and notebooks, without a browser: `run = lps.launch(epochs=5); run.wait(); run.events()`.

The API uses the same run folders and settings as the command line and the dashboard; docs/api.md has examples. Only
`predict` needs torch in this process: training runs in separate processes, which continue when this one ends. Invalid
input raises a `ConfigError` with a message of one sentence.
"""

import json
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lps.analysis import run_index
from lps.analysis.labels import label_all, load_pictures
from lps.cluster import executors
from lps.cluster.job_options import Options
from lps.errors import UserError, check_choice, shorten
from lps.files.atomic import open_regular
from lps.files.user_folders import runs_folder
from lps.scheduler import launcher, preflight, start_check, submit
from lps.settings import config as settings_of
from lps.store import run_folders
from lps.store import runs as folders
from lps.store.events import read_events, read_history
from lps.store.snapshots import Snapshot, read_snapshot, read_split, stored_epochs
from lps.store.summary import summarize
from lps.tables import run_filter

__all__ = (
    "ConfigError", "Run", "compare_runs", "export_runs", "find_run", "launch", "list_runs", "predict", "replay",
    "train_on",
)  # fmt: skip
ConfigError = UserError  # the name by which scripts know it

POLL_S = 0.5  # between two reads of an active run's state


class Run:
    """A run, that is, its folder. Every access reads the folder again; this object caches nothing."""

    def __init__(self, folder: Path | str):
        self._run = folders.Run(Path(folder))

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.state}, epoch {self.summary()['epochs']}>"

    def __eq__(self, other) -> bool:
        return isinstance(other, Run) and self.folder.resolve() == other.folder.resolve()

    def __hash__(self) -> int:
        return hash(self.folder.resolve())

    @property
    def id(self) -> str:
        return self._run.id

    @property
    def folder(self) -> Path:
        return self._run.folder

    @property
    def name(self) -> str:
        """The name that the user gave the run; "" without one."""
        return self._run.meta()["name"]

    @property
    def state(self) -> str:
        """queued, starting, running, stopping, unknown, finished, stopped, failed, crashed or unreadable."""
        return self._run.state().name

    @property
    def reason(self) -> str:
        """One sentence on why the run stopped, failed or crashed; "" for every other state."""
        return self._run.state().reason

    @property
    def config(self) -> dict[str, object]:
        """All settings by key, as in config.json."""
        return self._run.config().flat()

    # ------------------------------------------------------------------------------------------------ control

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the run has ended and return its state; raises `TimeoutError` after `timeout` seconds."""
        state = launcher.wait_for_end(self._run, timeout)
        if not state.is_over and state.name != "unreadable":
            raise TimeoutError(f"{self.id} is still {state.name} after {timeout:g} s; wait longer or stop it")
        return state.name

    def follow(self) -> Iterator[dict]:
        """Yield all events from the first one on, then new ones until the run ends.

        Epochs that are repeated after a resume are yielded again.
        """
        offset = 0
        while True:
            state = self._run.state()
            is_last = state.is_over or state.name == "unreadable"
            events, offset = read_events(self._run.events, offset)
            yield from events
            if is_last:
                return
            time.sleep(POLL_S)

    def stop(self, kill: bool = False) -> None:
        """Ask the run to write a checkpoint and end, or with `kill` to end at once. Returns immediately; see `wait`."""
        launcher.stop(self._run, kill)

    def resume(self) -> None:
        """Resume a stopped, failed or crashed run from its newest checkpoint."""
        launcher.resume(self._run)

    # ------------------------------------------------------------------------------------------------ results

    def events(self, kind: str | None = None) -> list[dict]:
        """Return the events so far, all or of one kind ("train", "eval", ...), without epochs that were repeated later.

        Each is {"kind", "step", "epoch", "time", "values": {name: number, list or None}}; names: docs/formats.md.
        """
        return [event for event in read_history(self._run.events) if kind in (None, event["kind"])]

    def curve(self, name: str, over: str = "epoch") -> tuple[list, list]:
        """Return (x, values) of a measurement such as "accuracy/novel": `plt.plot(*run.curve("kl"))`.

        over: what x is: "epoch", "step", "time" (hours since the first event), or a measurement of the same epochs.
        """
        events = list(read_history(self._run.events))
        events_with_value = [(event, event["values"][name]) for event in events if name in event["values"]]
        places = {
            "epoch": lambda event: event["epoch"],
            "step": lambda event: event["step"],
            "time": lambda event: (event["time"] - events[0]["time"]) / 3600,
        }
        if over in places:
            return [places[over](event) for event, _ in events_with_value], [value for _, value in events_with_value]
        x_values = {(e["kind"] == "pretrain", e["epoch"]): e["values"][over] for e in events if over in e["values"]}
        points = [(x_values.get((e["kind"] == "pretrain", e["epoch"])), value) for e, value in events_with_value]
        return [x for x, _ in points if x is not None], [value for x, value in points if x is not None]

    def summary(self) -> dict:
        """Return {"last": newest value by name, "best": values of the best epoch, "best_by": name, "epochs": count}."""
        return summarize(self._run)

    def classes(self) -> list[dict]:
        """Return {"class", "name", "group"} per class id, seen classes first; raises `UserError` before the split."""
        split, _ = read_split(self.folder)
        named = enumerate(split.class_names[: split.classes.total])
        return [{"class": k, "name": name, "group": "seen" if k < split.classes.seen else "novel"} for k, name in named]

    def labels(self, epoch: int | None = None) -> list[dict]:
        """Return one dict per training image: image, file, truth, predicted, cluster, name, confidence, group, source.

        epoch: by default the newest epoch with names that the user gave, else the last one. truth: name of the true
        class. truth, file, predicted, cluster and confidence are None where they are unknown.
        """
        checked = label_all(self._run, epoch)
        split, targets = read_split(self.folder)
        try:
            files = load_pictures(self._run, split, targets).file_names
        except UserError:  # the data set is missing now
            files = ()
        columns = zip(
            checked.images.tolist(), checked.predicted.tolist(), checked.cluster.tolist(), checked.confidence.tolist(),
            checked.names, checked.groups, checked.sources,
        )  # fmt: skip
        return [
            {
                "image": image, "file": files[image] if files else None,
                "truth": split.class_names[targets[image]] if targets[image] >= 0 else None,
                "predicted": predicted if predicted >= 0 else None, "cluster": cluster if cluster >= 0 else None,
                "name": name, "confidence": sure if sure == sure else None, "group": group, "source": source,
            }
            for image, predicted, cluster, sure, name, group, source in columns
        ]  # fmt: skip

    def snapshot(self, epoch: int | None = None) -> Snapshot:
        """Return predictions, confidences and features after an epoch (default: the last stored one) as arrays."""
        epochs = stored_epochs(self._run)
        return read_snapshot(self._run.snapshots, epochs[-1] if epoch is None else epoch)

    def log(self) -> str:
        """Return the output of the training process."""
        try:
            with open_regular(self._run.log) as file:
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""


def launch(
    dataset: str = "digits",
    method: str = "lps",
    seed: int = 0,
    *,
    name: str = "",
    light: bool = False,
    runs: Path | str | None = None,
    on: Mapping[str, object] | None = None,
    **settings,
) -> Run:
    """Start a run in the background and return it; raises `ConfigError` before anything is written.

    settings: any setting under its name after --set, with an underscore for the dot: `split_labeled_ratio=0.1`,
    `margin_scale=5`. light: use defaults that train in minutes without a GPU (`lps.settings.recipes`). runs: the folder
    of the runs; default: LPS_RUNS, else `runs`. on: run on SLURM with these options, named as after --slurm:
    `{"partition": "gpu", "time": "4:00:00"}`, or `{}` for the cluster's defaults; `extra` may be a list, and
    `job_options` names another executor than "slurm". Warns of what a launch on the command line warns of, and if the
    labels look so unequal that another prior is advised.
    """
    settings_by_key = _by_key(method, settings)
    lighter = submit.light_settings(dataset, settings_by_key, on is None) if light else {}
    config = settings_of.configure({"dataset": dataset, "method": method, "seed": seed} | lighter | settings_by_key)
    job_options = None if on is None else _options(on)
    submit.check_configs([config], job_options is None, fetch=True, check_start=start_check.check_start_in_subprocess)
    advice = preflight.prior_advice(config)
    for sentence in [*preflight.start_warnings(config), *([advice.words] if advice else [])]:
        warnings.warn(sentence, stacklevel=2)
    return Run(submit.create_runs(_root(runs), [submit.RunRequest(config, name)], on=job_options)[0].folder)


def train_on(
    run: Run,
    epoch: int | None = None,
    *,
    labels: str = "confident",
    confidence: float = 0.9,
    from_weights: bool = True,
    dissolve: Iterable[int] = (),
    name: str = "",
    **settings,
) -> Run:
    """Start a run that continues `run` with the cluster names that the user gave; return it. Raises `ConfigError`.

    epoch: the epoch whose names are used; default: the newest one with names. labels: the pictures of a named cluster
    that become labeled: "all", "confident" (at least `confidence`) or "looked-at". from_weights: start from the weights
    of `run`. dissolve: ids of unnamed clusters that do not stay a novel class. settings: training settings that differ
    from those of `run`, as in `launch`.
    """
    from lps.inference import continued_training

    changes = _by_key(run._run.config().method, settings)
    how = {"rule": labels, "threshold": confidence, "from_weights": from_weights, "changes": changes}
    planned = continued_training.plan_continued_training(run._run, epoch, **how, unnamed=dict.fromkeys(dissolve))
    submit.check_configs([planned.config], check_start=start_check.check_start_in_subprocess)
    for sentence in planned.notices():
        warnings.warn(sentence, stacklevel=2)
    return Run(continued_training.start_continued_training(planned, name=name).folder)


def _options(given: Mapping[str, object]) -> Options:
    """Parse the options of an executor and ask it whether it accepts such a job; raises `UserError`."""
    if not isinstance(given, Mapping):
        raise UserError("on", f"{shorten(given)} is not a dictionary of options such as {{'partition': 'gpu'}}")
    on, texts = str(given.get("place", "slurm")), []
    if on not in executors.EXECUTORS:
        raise UserError("on", f"{shorten(on)} is not a known cluster system; choices: {', '.join(executors.EXECUTORS)}")
    for name, value in given.items():
        if name == "place":
            continue
        texts += [f"{name}={item}" for item in (value if isinstance(value, (list, tuple)) else [value])]
    options = executors.EXECUTORS[on].read_options(texts)
    executors.EXECUTORS[on].check(options)
    return options


def _by_key(method: str, settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings by key: a keyword `split_num_novel` stands for `split.num_novel`."""
    key_by_name = {key.replace(".", "_"): key for key in settings_of.parameters(method)}
    return {key_by_name.get(key, key): value for key, value in settings.items()}


def find_run(text: str, runs: Path | str | None = None) -> Run:
    """Return the run with this id, end of an id, or folder; raises `UserError`."""
    return Run(run_folders.find_run(_root(runs), str(text)).folder)


def list_runs(
    runs: Path | str | None = None, state: str | None = None, tag: str | None = None, filter: str = ""
) -> list[Run]:
    """Return all runs, newest first, or those with a state, a tag such as "sweep:NAME", or a matching filter.

    filter: for example 'lr>0.05 and method=lps', in the syntax of the page Runs (`lps.tables.run_filter`).
    """
    selected_runs = [run for run in run_folders.list_runs(_root(runs)) if tag is None or tag in run.meta()["tags"]]
    if filter.strip():
        selected_runs = [entry.run for entry in run_filter.select_runs(run_index.read_rows(selected_runs), filter)]
    return [Run(run.folder) for run in selected_runs if state is None or run.state().name == state]


def compare_runs(
    compared: Iterable[Run],
    form: str | None = None,
    *,
    protocol: str = "orca",
    select: str = "last",
    seen: str = "default",
    images: str = "unlabeled",
    against: Run | None = None,
) -> list[dict] | str:
    """Return mean and standard deviation over the seeds of runs with equal settings, as a list or a table.

    form: markdown, latex or csv; without it, a list with one dict per group. protocol, select, seen, images: as in
    `python -m lps compare`. against: a run of the reference group; default: as on the page Compare. Raises `UserError`
    if a run cannot be scored in this way.
    """
    from lps.analysis.run_groups import group_runs
    from lps.analysis.run_scores import score_all
    from lps.analysis.score_tables import format_table  # scikit-learn takes seconds to import

    if form is not None:
        check_choice("form", form, ("markdown", "latex", "csv"))
    scored, left_out = score_all([run._run for run in compared], protocol, select, seen, images)
    if left_out:
        run, reason = left_out[0]
        raise UserError("compared", f"{run.id} cannot be scored: {reason}")
    if not scored:
        raise UserError("compared", "has no run")
    groups = group_runs(scored)
    reference = next(
        (group for group in groups if against and any(m.run.id == against.id for m in group.members)), None
    )
    if against and reference is None:
        raise UserError("against", f"{against.id} is not one of the compared runs")
    text = format_table(groups, form or "json", reference)
    return text if form else json.loads(text)


def export_runs(exported: Sequence[Run], to: str, into: Path | str) -> list[Path]:
    """Export runs; returns the new files and folders. to: tensorboard, csv, parquet or archive."""
    from lps.interop import archives, event_tables, tensorboard

    inner_runs, into = [run._run for run in exported], Path(into)
    if to == "tensorboard":
        return list(tensorboard.export(inner_runs, into))
    if to == "archive":
        return [archives.pack_run(run, into) for run in inner_runs]
    if to in event_tables.FORMS:
        return event_tables.export(inner_runs, into, to)
    raise UserError("to", f"{shorten(to)} is not one of tensorboard, csv, parquet, archive")


def predict(
    run: Run, pictures, *, keep: float | None = None, to: Path | str | None = None, workers: int = 1, join: bool = False
) -> list[dict]:
    """Predict new pictures: a folder, an .npz with `x`, or an array uint8 (n, height, width[, 3]); raises `UserError`.

    Returns one dict per picture: file, name (None: none of the classes), guess, confidence, cluster, group, distance,
    nearest (ids of the most similar training images). keep: share of the pictures of known classes to accept
    (default 0.95); with 1, every picture gets a class. to: also write this .csv file. workers: number of processes that
    share a folder. join: share it with all processes that predict the same folder with the same run, also on other
    machines.
    """
    from lps.inference import prediction_files
    from lps.inference.prediction import predict
    from lps.inference.prediction_result import check_share
    from lps.inference.shared_prediction import predict_together

    check_share(keep)
    is_shared = join or workers != 1
    prediction = predict_together(run._run, pictures, workers=workers) if is_shared else predict(run._run, pictures)
    threshold = prediction.threshold(keep)
    if to is not None:
        prediction_files.write_csv(Path(to), prediction, threshold)
    columns = (prediction.confidence, prediction.cluster, prediction.distance, prediction.nearest)
    return [
        {
            "file": file, "name": None if is_none else guess, "guess": guess, "confidence": sure, "cluster": cluster,
            "group": prediction.groups[cluster], "distance": away, "nearest": near,
        }
        for file, guess, is_none, sure, cluster, away, near in zip(
            prediction.files, prediction.names(), prediction.is_none(threshold).tolist(),
            *(column.tolist() for column in columns),
        )
    ]  # fmt: skip


def replay(raced: Sequence[Run], to: Path | str) -> Path:
    """Write the race of one to three runs of one split as an HTML file that opens offline; returns its path."""
    try:
        from lps.race import race_document  # pandas and jinja2, which training does without
    except ModuleNotFoundError as error:
        raise UserError("replay", f"needs {error.name}, which is not installed: pip install pandas jinja2") from None

    return race_document.write([run._run for run in raced], Path(to))


def _root(runs: Path | str | None) -> Path:
    return Path(runs if runs is not None else runs_folder())
