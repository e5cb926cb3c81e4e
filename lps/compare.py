"""Runs side by side: scores under any protocol from stored predictions, mean and spread over seeds, tables."""

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from lps import catalog, metrics, paper, protocols, score_cache, snapshots
from lps import split as split_module
from lps.config import Config, configure, protocol_parameters
from lps.events import read_history
from lps.metrics import agreement
from lps.parameters import ConfigError, shorten, text_of
from lps.protocols import PROTOCOLS, Scores, score
from lps.runs import Run
from lps.split import Split

KEPT = ("snapshot.images",)  # what a run keeps for looking at
REPEATED = ("seed", "pretrain.seed", "device", "threads", "processes", "precision", *KEPT)  # may differ within a group
TOLD = ("split.labeled_ratio", "split.num_seen", "split.seen_classes", "split.seed")  # in labels, where they differ
COLUMNS = ("seen", "novel", "all", "nmi", "gap", "conflict", "time")
HIGHER_IS_BETTER = ("seen", "novel", "all", "nmi")
SELECTIONS = {
    "last": "the last epoch",
    "validation": "the epoch with the best accuracy on labeled images whose label was withheld from training",
    "oracle": "the epoch with the best accuracy on the scored truth (an oracle)",
}
IMAGES = {"unlabeled": "the unlabeled training images", "test": "the test images, which no model has trained on"}
SEEN = ("default", "raw", "matched")
FORMATS = ("markdown", "latex", "csv", "json")
HEADS = ("method", "seen", "novel", "all", "NMI", "gap", "conflict", "time, s", "n", "paper")
MOST_IDS = 1000  # predicted ids beyond this, and beyond twice the classes, are damage


@dataclass(frozen=True)
class Scored:
    """One run at one epoch.

    time: seconds of training and evaluation. split: `split_digest`. is_complete: the run has reached its end.
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

    def value(self, column: str) -> float:
        return self.time if column == "time" else getattr(self.scores, column)

    @property
    def seeds(self) -> tuple[int, int]:
        """Of the run and of its pretraining: two runs of a group with equal ones are the same experiment."""
        own = self.config.pretrain_seed
        return self.config.seed, self.config.seed if own is None else own


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed, one a seed. label: the method and what tells it from the others.

    replaced: older runs of seeds that were run again.
    """

    label: str
    members: tuple[Scored, ...]
    replaced: tuple[Scored, ...] = ()

    @property
    def config(self) -> Config:
        return self.members[0].config

    @property
    def seen_is_matched(self) -> bool:
        return self.members[0].scores.seen_is_matched

    def mean(self, column: str) -> float:
        return float(np.mean([member.value(column) for member in self.members]))

    def std(self, column: str) -> float:
        """Sample standard deviation; NaN for one run."""
        values = [member.value(column) for member in self.members]
        return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan

    @cached_property
    def paper(self) -> tuple[paper.Row | None, list[str]]:
        """The paper's numbers for the same experiment, else every reason why there are none."""
        first = self.members[0]
        return paper.counterpart(first.config, first.protocol, first.select, self.seen_is_matched, first.images)


# ---------------------------------------------------------------------------------------------------- scores


def score_run(
    run: Run, protocol: str = "orca", select: str = "last", seen: str = "default", images: str = "unlabeled"
) -> Scored:
    """The scores of a run from its stored predictions; raises `ConfigError` where that cannot be done."""
    check_scoring(protocol, select, seen, images)
    how = (protocol, select, seen, images)
    try:
        aligned = catalog.method_info(run.config().method).seen_is_aligned
        stamp = score_cache.stamp(run, f"{_code()} {aligned}")
        kept = _kept(run, stamp, how)
        if kept is None:
            kept = _score(run, *how)
            if run.state().is_over:
                score_cache.keep(run, stamp, how, _to_keep(kept))
        return kept
    except ConfigError as error:
        raise ConfigError(run.id, str(error)) from None


def check_scoring(protocol: str, select: str, seen: str, images: str) -> None:
    """Raises `ConfigError` where there is no such way to score."""
    for name, value, choices in (
        ("protocol", protocol, PROTOCOLS),
        ("select", select, SELECTIONS),
        ("seen", seen, SEEN),
        ("images", images, IMAGES),
    ):
        if value not in choices:
            raise ConfigError(name, f"{shorten(value)} is not one of {', '.join(choices)}")


@cache
def _code() -> str:
    """A name of the code that scores: scores of another version do not count."""
    others = (protocols, metrics, split_module, snapshots)
    return score_cache.digest_of(Path(__file__), *(Path(module.__file__) for module in others))


def _to_keep(scored: Scored) -> dict[str, object]:
    """NaN as JSON's own word for nothing."""
    scores = {name: None if value != value else value for name, value in asdict(scored.scores).items()}
    return {"epoch": scored.epoch, "scores": scores, "time": scored.time, "split": scored.split}


def _kept(run: Run, stamp: str, how: tuple[str, ...]) -> Scored | None:
    """What `_score` would give, from the file in the run's folder; None where that does not have it."""
    kept = score_cache.read(run, stamp, how)
    if kept is None:
        return None
    try:
        forms = {"seen_is_matched": bool}
        values = {field.name: forms.get(field.name, _or_nan)(kept["scores"][field.name]) for field in fields(Scores)}
        epoch, time, split = int(kept["epoch"]), float(kept["time"]), str(kept["split"])
    except (KeyError, TypeError, ValueError):
        return None
    protocol, select, _, images = how
    complete = run.state().name == "finished"
    return Scored(run, run.config(), epoch, Scores(**values), time, protocol, select, images, split, complete)


def _or_nan(value) -> float:
    return math.nan if value is None else float(value)


def score_all(
    runs: Iterable[Run], *how: str, scorer: Callable[..., Scored] | None = None
) -> tuple[list[Scored], list[tuple[Run, str]]]:
    """(the runs that can be scored, the others with the reason).

    how: what `scorer`, without another one `score_run`, is told after the run.
    """
    scorer, scored, left_out = scorer or score_run, [], []
    for run in runs:
        try:
            scored.append(scorer(run, *how))
        except (ConfigError, OSError) as error:
            left_out.append((run, str(error).removeprefix(f"{run.id}: ")))
    return scored, left_out


def _score(run: Run, protocol: str, select: str, seen: str, images: str) -> Scored:
    config = run.config()
    epochs = snapshots.snapshot_epochs(run.snapshots)
    if not epochs:
        raise ConfigError("snapshots", "no epoch has been evaluated yet")
    split, truth = snapshots.read_split(run.folder)
    aligned = catalog.method_info(config.method).seen_is_aligned
    matched = not aligned if seen == "default" else seen == "matched"
    judged = truth[split.test] if images == "test" else split.judged(truth)
    if len(judged) == 0:
        raise ConfigError("split", "has no test images; split.test_ratio sets some aside")
    if select == "validation" and len(split.validation) == 0:
        raise ConfigError("split", "withholds no labels to choose an epoch by; split.validation_ratio does")

    def at(epoch: int) -> Scores:
        predicted = _predictions(run, epoch, split, images)
        try:
            return score(predicted, judged, split.classes, protocol, matched)
        except (ValueError, IndexError):
            raise ConfigError("split.npz", f"does not fit the predictions of epoch {epoch}") from None

    def on_validation(epoch: int) -> float:
        predicted = _predictions(run, epoch, split)[split.validation_rows]
        return agreement(predicted, truth[split.validation], seen_is_aligned=aligned)

    if select == "last":
        epoch = epochs[-1]
    elif select == "validation":
        epoch = max(epochs, key=lambda epoch: (on_validation(epoch), epoch))
    else:
        epoch = max(epochs, key=lambda epoch: (np.nan_to_num(at(epoch).all), epoch))
    digest, complete = split_digest(split, truth), run.state().name == "finished"
    return Scored(run, config, epoch, at(epoch), training_seconds(run), protocol, select, images, digest, complete)


def _predictions(run: Run, epoch: int, split: Split, images: str = "unlabeled") -> np.ndarray:
    """The predicted id of every unlabeled image, or of every test image."""
    name, key = f"epoch-{epoch:04d}.npz", "test_predicted" if images == "test" else "predicted"
    predicted = snapshots.read_arrays(run.snapshots / name, (key,))[key]
    ids = split.test if images == "test" else split.unlabeled
    if predicted.shape != ids.shape or predicted.dtype.kind not in "iu":
        raise ConfigError(name, f"does not hold one class id for each of the {len(ids)} {images} images")
    if len(predicted) and not 0 <= predicted.min() <= predicted.max() < max(MOST_IDS, 2 * split.classes.total):
        raise ConfigError(name, f"holds class ids from {predicted.min()} to {predicted.max()}")
    return predicted


def split_digest(split: Split, truth: np.ndarray) -> str:
    """A short name of what was labeled, what was not, and what the truth is; equal splits have equal names."""
    found = hashlib.sha256()
    for array in (split.labeled, split.unlabeled, split.class_order, truth, np.array(split.classes.seen)):
        found.update(np.ascontiguousarray(array, np.int64).tobytes() + b"|")
    return found.hexdigest()[:6]


def training_seconds(run: Run) -> float:
    """Seconds in training steps and evaluations, every epoch counted once; pretraining is not in it."""
    seconds, step = 0.0, 0
    for event in read_history(run.events):
        if event["kind"] == "train":
            seconds += _number(event["values"].get("time/step_s")) * (event["step"] - step)
            step = event["step"]
        elif event["kind"] == "eval":
            seconds += _number(event["values"].get("time/eval_s"))
    return seconds


def _number(value) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


# ---------------------------------------------------------------------------------------------------- groups


def group_runs(scored: Sequence[Scored]) -> list[Group]:
    """Runs that differ only in `REPEATED` together, one of every seed; never over different splits."""
    found: dict[str, list[Scored]] = {}
    for member in scored:
        found.setdefault(identity(member), []).append(member)
    labels = label_all([members[0] for members in found.values()])
    return [Group(label, *newest_of_seeds(members)) for label, members in zip(labels, found.values())]


def identity(member: Scored) -> str:
    """What a run has in common with the runs that it may be averaged with."""
    same = {key: value for key, value in member.config.flat().items() if key not in REPEATED}
    return json.dumps([same, member.split], sort_keys=True)


def newest_of_seeds(members: Sequence[Scored]) -> tuple[tuple[Scored, ...], tuple[Scored, ...]]:
    """(one run of every seed, the newest that reached its end, else the newest; the others). Ids begin with a time."""
    newest: dict[tuple[str, tuple[int, int]], Scored] = {}
    for member in sorted(members, key=lambda member: (member.is_complete, member.run.id)):
        newest[identity(member), member.seeds] = member
    kept = tuple(sorted(newest.values(), key=lambda member: (*member.seeds, member.run.id)))
    return kept, tuple(member for member in members if member not in kept)


def differences(configs: Sequence[Config]) -> dict[str, list]:
    """The settings, by key, that are not the same everywhere; of methods' own settings those that somebody has changed.

    One value per config; None where a config does not have the setting.
    """
    flats = [config.flat() for config in configs]
    found = {}
    for key in dict.fromkeys(key for flat in flats for key in flat if key not in REPEATED):
        same = all(key in flat and flat[key] == flats[0].get(key) for flat in flats)
        if not same and (key in protocol_parameters() or any(_is_changed(config, key) for config in configs)):
            found[key] = [flat.get(key) for flat in flats]
    return found


def _is_changed(config: Config, key: str) -> bool:
    own = catalog.method_info(config.method).parameters
    return key in own and config.hyperparameters[key] != own[key].default


def usual(config: Config) -> dict[str, object]:
    """The settings that a run of the same method on the same data set has by default."""
    return configure({"dataset": config.dataset, "method": config.method}).flat()


def label_all(members: Sequence[Scored]) -> list[str]:
    """For every one, its method and what tells it from the others, in the words of `--set`."""
    configs = [member.config for member in members]
    differing = differences(configs)
    labels = [_label(config, differing) for config in configs]
    twice = {label for label in labels if labels.count(label) > 1}
    return [f"{label}, split {m.split}" if label in twice else label for label, m in zip(labels, members)]


def _label(config: Config, differing: dict[str, list]) -> str:
    flat, default = config.flat(), usual(config)
    words = [config.dataset] if "dataset" in differing else []
    for key in differing:
        told = key in flat and (key in TOLD or flat[key] != default[key])
        if told and key not in ("method", "dataset"):
            words.append(setting_in_words(key, flat[key]))
    return ", ".join([catalog.method_info(config.method).title, *words])


def setting_in_words(key: str, value) -> str:
    """`split.labeled_ratio` 0.5 is "50 % labels", everything else is written as after `--set`."""
    if key == "split.labeled_ratio":
        return f"{100 * value:g} % labels"
    return f"{key}={text_of(value)}"


def best(groups: Sequence[Group]) -> set[tuple[int, str]]:
    """(row, column) of the highest means, to a tenth of a point, among groups with the same split.

    A matched seen accuracy is best only where all are matched: matching never makes it lower.
    """
    found = set()
    for column in HIGHER_IS_BETTER:
        rivals: dict[str, dict[int, float]] = {}
        for row, group in enumerate(groups):
            if not math.isnan(group.mean(column)):
                rivals.setdefault(group.members[0].split, {})[row] = round(group.mean(column), 3)
        for means in rivals.values():
            top = [row for row, mean in means.items() if mean == max(means.values()) and len(means) > 1]
            mixed = column == "seen" and len({groups[row].seen_is_matched for row in means}) > 1
            found |= {(row, column) for row in top if not (mixed and groups[row].seen_is_matched)}
    return found


# ---------------------------------------------------------------------------------------------------- notes


def notes(groups: Sequence[Group], scoring: bool = True) -> list[str]:
    """What a reader of the table must know: how it was scored, what was left out, what the paper says of it.

    scoring: False where protocol and choice of epoch stand elsewhere.
    """
    lines = _notes_on_scoring(groups) if scoring else []
    raw = [group for group in groups if not group.seen_is_matched]
    nameless = [g.label for g in raw if not catalog.method_info(g.config.method).seen_is_aligned]
    if nameless:
        lines.append(f"ids mean nothing to {' · '.join(nameless)}: raw seen accuracy there is chance")
    if any(group.seen_is_matched for group in groups):
        lines.append("* seen accuracy after matching ids to classes; without a star it is plain agreement")
    for group in groups:
        lines += [f"{group.label}: {words}" for words in _notes_on_members(group)]
    return lines + notes_on_paper(groups)


def _notes_on_scoring(groups: Sequence[Group]) -> list[str]:
    first = groups[0].members[0] if groups else None
    lines = []
    if first and first.protocol != "orca":
        lines.append(f"protocol {first.protocol}: {PROTOCOLS[first.protocol]}")
    if first and first.images == "test":
        lines.append("scored on the test images, which no model has trained on")
    if first and first.select == "oracle":
        lines.append("oracle: of every run the epoch that scores best on the truth, which nobody knows in use")
    if first and first.select == "validation":
        lines.append("of every run the epoch that scores best on labeled images whose label was withheld")
    return lines


def _notes_on_members(group: Group) -> list[str]:
    lines = [
        f"seed {member.config.seed} did not reach its end, scored at epoch {member.epoch} of {member.config.epochs}"
        for member in group.members
        if not member.is_complete and member.epoch < member.config.epochs
    ]
    complete = {member.config.seed: member.is_complete for member in group.members}
    for seed in dict.fromkeys(member.config.seed for member in group.replaced):
        counts = "newest finished run" if complete[seed] else "newest run"
        lines.append(f"seed {seed} was run more than once, its {counts} counts")
    return lines


def notes_on_paper(groups: Sequence[Group]) -> list[str]:
    """Why rows have no counterpart in the paper, what all share said once; and what the audit doubts of the others."""
    missing = {group.label: group.paper[1] for group in groups if group.paper[0] is None}
    shared = [reason for reason in next(iter(missing.values()), []) if all(reason in rest for rest in missing.values())]
    if shared and len(missing) == len(groups):
        return [f"not comparable with the paper: {'; '.join(shared)}"]
    by_reason: dict[str, list[str]] = {}
    for label, reasons in missing.items():
        by_reason.setdefault("; ".join(reasons), []).append(label)
    lines = [f"{' · '.join(labels)}: not comparable with the paper: {words}" for words, labels in by_reason.items()]
    for group in groups:
        lines += [
            f"† {group.label}, paper: {doubt}" for doubt in (paper.doubts(group.paper[0]) if group.paper[0] else [])
        ]
    return lines


# ---------------------------------------------------------------------------------------------------- tables


def table(groups: Sequence[Group], form: str) -> str:
    """The comparison as text in one of `FORMATS`; fractions as percent except in csv and json."""
    return {"markdown": _markdown, "latex": _latex, "csv": _csv, "json": _json}[form](groups)


def cell(group: Group, column: str) -> str:
    """Mean ± standard deviation as people read it: percent, points or seconds; "-" where nothing was measured."""
    scale, digits = (1, 0) if column == "time" else (100, 1)
    mean, std = group.mean(column) * scale, group.std(column) * scale
    if math.isnan(mean):
        return "-"
    star = "*" if column == "seen" and group.seen_is_matched else ""
    mean = round(mean, digits) + 0.0  # no -0.0
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}") + star


def paper_cell(group: Group) -> str:
    """The paper's seen, novel and all; † where its arithmetic is in doubt; "-" where it has no such experiment."""
    row, _ = group.paper
    if row is None:
        return "-"
    numbers = " / ".join("-" if value is None else f"{value:g}" for value in (row.seen, row.novel, row.all))
    return numbers + (" †" if paper.doubts(row) else "")


def _rows(groups: Sequence[Group], escape, bold) -> list[list[str]]:
    """The cells of every group: escaped, the best ones bold."""
    winners = best(groups)
    rows = []
    for i, group in enumerate(groups):
        cells = [escape(cell(group, column)) for column in COLUMNS]
        cells = [bold(text) if (i, column) in winners else text for column, text in zip(COLUMNS, cells)]
        rows.append([escape(group.label), *cells, str(len(group.members)), escape(paper_cell(group))])
    return rows


def _markdown(groups: Sequence[Group]) -> str:
    rows = [HEADS, ["---"] + ["---:"] * (len(HEADS) - 1), *_rows(groups, markdown, "**{}**".format)]
    body = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return body + "".join(f"\n\n{markdown(note)}" for note in notes(groups)) + "\n"


def markdown(text: str) -> str:
    """Text that Markdown shows as it stands, inside a table too; `use_margin` stays readable."""
    return re.sub(r"[\\`*<\[\]|~$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(text.split()))


def _latex(groups: Sequence[Group]) -> str:
    body = "".join(" & ".join(row) + " \\\\\n" for row in _rows(groups, latex, r"\textbf{{{}}}".format))
    head = " & ".join(latex(head) for head in HEADS)
    comment = "".join(f"% {' '.join(note.split())}\n" for note in notes(groups))
    columns = "l" + "r" * (len(HEADS) - 1)
    return (
        f"{comment}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head} \\\\\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "†": r"\dag{}",
}
LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "·": r"$\cdot$"}
LATEX |= {c: f"\\{c}" for c in "&%$#_{}"}


def latex(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(LATEX.get(c, c) for c in " ".join(text.split()))


def _csv(groups: Sequence[Group]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    measured = [f"{column}_{kind}" for column in COLUMNS for kind in ("mean", "std")]
    published = ["paper_seen", "paper_novel", "paper_all", "not_comparable"]
    writer.writerow(["method", "protocol", "images", "select", "seen_is_matched", "n", "seeds", *measured, *published])
    for group in groups:
        first, (row, reasons) = group.members[0], group.paper
        numbers = [number for column in COLUMNS for number in (group.mean(column), group.std(column))]
        seeds = " ".join(str(member.config.seed) for member in group.members)
        how = [first.protocol, first.images, first.select, group.seen_is_matched]
        about = [plain(group.label), *how, len(group.members), seeds]
        shown = ["" if math.isnan(number) else f"{number:.6g}" for number in numbers]
        writer.writerow([*about, *shown, *_paper_fractions(row), plain("; ".join(reasons))])
    return out.getvalue()


def _paper_fractions(row: paper.Row | None) -> list[str]:
    percent = (row.seen, row.novel, row.all) if row else (None, None, None)
    return ["" if value is None else f"{value / 100:.6g}" for value in percent]


def plain(text: str) -> str:
    """A cell on one line that no spreadsheet takes for a formula."""
    line = " ".join(text.split())
    return "'" + line if line[:1] in ("=", "+", "-", "@") else line


def _json(groups: Sequence[Group]) -> str:
    return json.dumps([_as_json(group) for group in groups], indent=2, allow_nan=False) + "\n"


def _as_json(group: Group) -> dict:
    def number(value: float) -> float | None:
        return None if math.isnan(value) else value

    row, reasons = group.paper
    first = group.members[0]
    return {
        "label": group.label,
        "config": group.config.flat(),
        "protocol": first.protocol,
        "images": first.images,
        "select": first.select,
        "n": len(group.members),
        "seen_is_matched": group.seen_is_matched,
        "runs": [member.run.id for member in group.members],
        "seeds": [member.config.seed for member in group.members],
        "epochs": [member.epoch for member in group.members],
        **{c: {"mean": number(group.mean(c)), "std": number(group.std(c))} for c in COLUMNS},
        "paper": asdict(row) if row else None,
        "doubts": paper.doubts(row) if row else [],
        "not_comparable": reasons,
    }
