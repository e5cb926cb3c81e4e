"""Scores of runs under any protocol from stored predictions; mean and spread over seeds; tables."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from lps.data import split as split_module
from lps.data.split import Split
from lps.errors import UserError, check_choice
from lps.scores import metrics, protocols
from lps.scores.metrics import agreement
from lps.scores.protocols import PROTOCOLS, Scores, score
from lps.settings import catalog
from lps.settings.config import Config
from lps.store import score_cache, snapshots
from lps.store.event_follower import EventFollower
from lps.store.events import RESOLVED, resolved_settings
from lps.store.runs import Run

_KEPT = ("snapshot.images",)  # settings of what a run stores for display
REPEATED = ("seed", "pretrain.seed", "device", "threads", "processes", "precision", *_KEPT)  # may differ within a group
TOLD = ("split.labeled_ratio", "split.num_seen", "split.seen_classes", "split.seed")  # shown in labels if they differ
COLUMNS = ("seen", "novel", "all", "nmi", "gap", "conflict", "time")
HIGHER_IS_BETTER = ("seen", "novel", "all", "nmi")
SELECTIONS = {
    "last": "the last epoch",
    "validation": "the epoch with the best accuracy on labeled images whose label was withheld from training",
    "oracle": "the epoch with the best accuracy on the true classes of the scored images (an oracle)",
}
IMAGES = {"unlabeled": "the unlabeled training images", "test": "the test images, which no model was trained on"}
_SEEN = ("default", "raw", "matched")
_TOLD_SCORING = ("orca", "default", "unlabeled")  # protocol, seen and images of scores recorded in training
_TOLD_NAMES = ("accuracy/seen", "accuracy/novel", "accuracy/all", "nmi/novel", "ari/novel", "accuracy/conflict")
CLUSTERED_APART = "test images clustered separately"
ABOUT_CLUSTERED_APART = (
    "‡ k-means was fitted to the test images; without ‡, test images are assigned to clusters of the training images"
)


@dataclass(frozen=True)
class Scored:
    """One run at one epoch.

    time: seconds of training and evaluation. split: `_split_digest`. is_complete: the run has reached its end.
    is_told: the scores are those that the run recorded itself, since its predictions are gone.
    precision: fp32 or bf16, of its training steps. test_clusters: the images that k-means was fitted to if clusters
    are scored: "training" or the "test" images themselves.
    """

    run: Run
    config: Config
    epoch: int
    scores: Scores
    time: float
    protocol: str = "orca"
    select: str = "last"
    images: str = "unlabeled"
    split: str = ""
    is_complete: bool = True
    is_told: bool = False
    precision: str = "fp32"
    test_clusters: str = "training"

    def value(self, column: str) -> float:
        return self.time if column == "time" else getattr(self.scores, column)

    @property
    def seeds(self) -> tuple[int, int]:
        """Return the seeds of the run and of its pretraining: runs of a group with equal seeds repeat an experiment."""
        pretrain_seed = self.config.pretrain_seed
        return self.config.seed, self.config.seed if pretrain_seed is None else pretrain_seed


# ---------------------------------------------------------------------------------------------------- scores


def score_run(
    run: Run, protocol: str = "orca", select: str = "last", seen: str = "default", images: str = "unlabeled"
) -> Scored:
    """Score a run from its stored predictions; raises `UserError` if that is not possible."""
    check_scoring(protocol, select, seen, images)
    scoring = (protocol, select, seen, images)
    try:
        aligned = catalog.method_info(run.config().method).seen_is_aligned
        stamp = score_cache.source_stamp(run, f"{_code()} {aligned}")
        scored = _stored_scores(run, stamp, scoring)
        if scored is None:
            scored = _score(run, *scoring)
            if run.state().is_over:
                score_cache.store_scores(run, stamp, scoring, _to_keep(scored))
        return scored
    except UserError as error:
        raise UserError(run.id, str(error)) from None


def check_scoring(protocol: str, select: str, seen: str, images: str) -> None:
    """Raise `UserError` if the way of scoring does not exist."""
    for name, value, choices in (
        ("protocol", protocol, PROTOCOLS),
        ("select", select, SELECTIONS),
        ("seen", seen, _SEEN),
        ("images", images, IMAGES),
    ):
        check_choice(name, value, choices)


@cache
def _code() -> str:
    """Return an identifier of the scoring code: cached scores of another version do not count."""
    modules = (protocols, metrics, split_module, snapshots)
    return score_cache.digest_of(Path(__file__), *(Path(module.__file__) for module in modules))


def _to_keep(scored: Scored) -> dict[str, object]:
    """Return the scores for JSON, with None for NaN."""
    scores = {name: None if value != value else value for name, value in asdict(scored.scores).items()}
    stored_values = {name: getattr(scored, name) for name in ("epoch", "time", "split", "is_told", *RESOLVED)}
    return stored_values | {"scores": scores}


def _stored_scores(run: Run, stamp: str, scoring: tuple[str, ...]) -> Scored | None:
    """Return the cached result of `_score` from the run's folder; None if there is none."""
    stored_scores = score_cache.read_scores(run, stamp, scoring)
    if stored_scores is None:
        return None
    try:
        forms = {"seen_is_matched": bool}
        values = {
            field.name: forms.get(field.name, _or_nan)(stored_scores["scores"][field.name]) for field in fields(Scores)
        }
        epoch, time, split = int(stored_scores["epoch"]), float(stored_scores["time"]), str(stored_scores["split"])
        resolved_texts = {"is_told": bool(stored_scores["is_told"])} | {
            name: str(stored_scores[name]) for name in RESOLVED
        }
    except (KeyError, TypeError, ValueError):
        return None
    protocol, select, _, images = scoring
    complete = run.state().name == "finished"
    return Scored(
        run, run.config(), epoch, Scores(**values), time, protocol, select, images, split, complete, **resolved_texts
    )


def _or_nan(value) -> float:
    return math.nan if value is None else float(value)


def score_all(
    runs: Iterable[Run], *scoring: str, scorer: Callable[..., Scored] | None = None
) -> tuple[list[Scored], list[tuple[Run, str]]]:
    """Return (the runs that can be scored, the others with the reason).

    how: arguments for `scorer`, by default `score_run`, after the run.
    """
    scorer, scored, left_out = scorer or score_run, [], []
    for run in runs:
        try:
            score = scorer(run, *scoring)
            catalog.method_info(score.config.method)  # cached scores outlive a method's file, but groups need it
            scored.append(score)
        except (UserError, OSError) as error:
            left_out.append((run, str(error).removeprefix(f"{run.id}: ")))
    return scored, left_out


def _score(run: Run, protocol: str, select: str, seen: str, images: str) -> Scored:
    config = run.config()
    try:
        epochs = snapshots.stored_epochs(run)
    except UserError:
        if (protocol, seen, images) != _TOLD_SCORING:
            raise
        return _told_scores(run, select)
    split, truth = snapshots.read_split(run.folder)
    aligned = catalog.method_info(config.method).seen_is_aligned
    matched = not aligned if seen == "default" else seen == "matched"
    visible_truth = truth[split.test] if images == "test" else split.judged(truth)
    if len(visible_truth) == 0:
        raise UserError("split", "has no test images; set some aside with split.test_ratio")
    _check_choice(select, split)

    def at(epoch: int) -> Scores:
        predicted = _predictions(run, epoch, split, images)
        try:
            return score(predicted, visible_truth, split.classes, protocol, matched)
        except (ValueError, IndexError):
            raise UserError("split.npz", f"does not match the predictions of epoch {epoch}") from None

    def on_validation(epoch: int) -> float:
        predicted = _predictions(run, epoch, split)[split.validation_rows]
        return agreement(predicted, truth[split.validation], seen_is_aligned=aligned)

    if select == "last":
        epoch = epochs[-1]
    elif select == "validation":
        epoch = max(epochs, key=lambda epoch: (on_validation(epoch), epoch))
    else:
        epoch = max(epochs, key=lambda epoch: (np.nan_to_num(at(epoch).all), epoch))
    digest, complete = _split_digest(split, truth), run.state().name == "finished"
    past = read_course(run)
    facts = {"precision": past.precision(config), "is_complete": complete}
    facts |= {"test_clusters": past.test_clusters(config)} if images == "test" else {}
    return Scored(run, config, epoch, at(epoch), past.seconds, protocol, select, images, digest, **facts)


def _check_choice(select: str, split: Split) -> None:
    if select == "validation" and len(split.validation) == 0:
        raise UserError(
            "split", "withholds no labels, so it cannot choose the epoch; withhold some with split.validation_ratio"
        )


def _told_scores(run: Run, select: str) -> Scored:
    """Return the scores that a run without predictions recorded itself; raises `UserError` if there are none."""
    events = EventFollower(run.events).history()
    values_by_epoch = {event["epoch"]: event["values"] for event in events if event["kind"] == "eval"}
    if not values_by_epoch:
        raise UserError("predictions", snapshots.NO_EPOCH_YET)
    config, (split, truth) = run.config(), snapshots.read_split(run.folder)
    _check_choice(select, split)
    by = {"validation": "accuracy/validation", "oracle": "accuracy/all"}.get(select)
    epoch = max(values_by_epoch, key=lambda epoch: (_number(values_by_epoch[epoch].get(by)), epoch))
    matched = not catalog.method_info(config.method).seen_is_aligned
    values = [values_by_epoch[epoch].get(name) for name in _TOLD_NAMES]
    scores = Scores(*(float(value) if is_number(value) else math.nan for value in values), matched)
    digest, complete = _split_digest(split, truth), run.state().name == "finished"
    past = read_course(run)
    facts = {"select": select, "split": digest, "is_complete": complete, "is_told": True}
    return Scored(run, config, epoch, scores, past.seconds, precision=past.precision(config), **facts)


def _predictions(run: Run, epoch: int, split: Split, images: str = "unlabeled") -> np.ndarray:
    """Return the predicted id of every unlabeled image, or of every test image."""
    name, key = f"epoch-{epoch:04d}.npz", "test_predicted" if images == "test" else "predicted"
    predicted = snapshots.read_arrays(run.snapshots / name, (key,))[key]
    ids = split.test if images == "test" else split.unlabeled
    snapshots.check_ids(name, predicted, ids, split.classes, images)
    return predicted


def _split_digest(split: Split, truth: np.ndarray) -> str:
    """Return an identifier of the labeled and unlabeled images and the truth; equal splits have equal identifiers."""
    checksum = hashlib.sha256()
    for array in (split.labeled, split.unlabeled, split.class_order, truth, np.array(split.classes.seen)):
        checksum.update(np.ascontiguousarray(array, np.int64).tobytes() + b"|")
    return checksum.hexdigest()[:6]


@dataclass(frozen=True)
class EventFacts:
    """Facts from a run's events.

    seconds: in training steps and evaluations, every epoch counted once; pretraining is not in it. start: the newest
    `start` event. on_gpu: whether steps took memory of a GPU.
    """

    seconds: float
    start: Mapping[str, object]
    on_gpu: bool

    def precision(self, config: Config) -> str:
        """Return fp32 or bf16; for older runs without this entry, what `precision` meant on their hardware."""
        precision = config.precision if config.precision != "auto" else "bf16" if self.on_gpu else "fp32"
        return resolved_settings(self.start).get("precision", precision)

    def test_clusters(self, config: Config) -> str:
        """Return `Scored.test_clusters`; runs older than this entry in `start` fitted k-means to the test images."""
        if "test_clusters" not in config.hyperparameters:
            return "training"
        return resolved_settings(self.start).get("test_clusters", "test")


def read_course(run: Run) -> EventFacts:
    """Read the run's events once; of a file that is too long for a page, only its end."""
    seconds, step, start, on_gpu = 0.0, 0, {}, False
    for event in EventFollower(run.events).history():
        if event["kind"] == "start":
            start = event
        elif event["kind"] == "train":
            seconds += _number(event["values"].get("time/step_s")) * (event["step"] - step)
            step = event["step"]
            on_gpu = on_gpu or _number(event["values"].get("memory/device_gb")) > 0
        elif event["kind"] == "eval":
            seconds += _number(event["values"].get("time/eval_s"))
    return EventFacts(seconds, start, on_gpu)


def is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value) -> float:
    return float(value) if is_number(value) else 0.0


def resolved_differences(members: Sequence[Scored]) -> dict[str, list[str]]:
    """Return `differences` in values that the runs resolved: training precision, clustering of test images."""
    values_by_name = {"precision": [m.precision for m in members], "test_clusters": [m.test_clusters for m in members]}
    return {key: values for key, values in values_by_name.items() if len(set(values)) > 1}
