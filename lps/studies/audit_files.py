"""Store the findings about the pictures of a data set as a file that pages read, and the user's decisions about them.

`lps.studies.picture_audit` creates the file; `start_audit` starts it as a background job with the same progress records
as a class count. Pictures are identified by their keys in decisions, so that added or removed files move nothing.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lps.data import sources
from lps.errors import UserError, shorten, shown
from lps.files.atomic import disk_error_in_words, open_regular, write_json
from lps.files.journal import in_effect
from lps.scheduler import background_jobs
from lps.settings import cli_args, edit_log
from lps.settings.config import Config, configure
from lps.settings.edit_log import Decisions, Key
from lps.wording import counted, first_of

FOLDER = ".audits"
# The most harmful kind first: a wrong label teaches its class wrongly, a near duplicate mostly wastes time.
KINDS = {"label": "Labels that differ from their neighbours", "stranger": "Outliers", "duplicate": "Near duplicates"}
_COLOURED = ("cifar", "imagenet", "gcd")  # views of coloured pictures
_SHIPPED = {
    "features": "stored",
    "network.name": "efficientnet_lite0",
    "network.start": "published",
    "network.freeze_until": "none",
    "network.image_size": 128,
}
_LARGEST = 32 << 20  # bytes of a result
_LARGEST_SCORE = 1e9


@dataclass(frozen=True)
class Doubt:
    """Something that may be wrong. kind: of `KINDS`; parts: those of the data set that the pictures lie in.

    score: distance of the farthest pair, robust standard deviations, or share of the neighbours. label: the name that a
    denied picture has; other: the one that its neighbours have.
    """

    kind: str
    pictures: tuple[Key, ...]
    score: float
    parts: tuple[str, ...] = ()
    label: str = ""
    other: str = ""
    labels: int = 0  # different ones of duplicates

    @property
    def in_words(self) -> str:
        """Describe the finding for a user."""
        if self.kind == "stranger":
            return f"the distance from other pictures is {self.score:.1f} standard deviations above the average"
        if self.kind == "label":
            share = f"{100 * self.score:.0f} %"
            return (
                f"labeled {self.label}; of the nearest labeled pictures, {share} are {self.other} and none is "
                f"{self.label}"
            )
        across = f", across {' and '.join(self.parts)}" if len(self.parts) > 1 else ""
        return f"{len(self.pictures)} similar pictures{across}{', with different labels' if self.labels > 1 else ''}"


@dataclass(frozen=True)
class Audited:
    """Findings about pictures. count: checked pictures. findings: the most serious of each kind first.

    total: number by kind, including findings beyond the stored ones. recall: share of the nearest neighbours that the
    search found, None if it was exact.
    """

    count: int
    findings: tuple[Doubt, ...]
    total: dict[str, int]
    recall: float | None = None


def undecided_config(config: Config) -> Config:
    """Return `config` for checking its pictures: as their files say, without decisions.

    Coloured pictures without start weights are checked with the included backbone.
    """
    settings = background_jobs.config_of_job(config).flat() | {edit_log.SETTING: edit_log.NOTHING}
    has_none = config.network_start in ("simclr", "random")
    return configure(settings | (_SHIPPED if has_none and config.views in _COLOURED else {}))


def audit_path(config: Config, root: Path) -> Path:
    """Return the path of the findings below the runs folder; it changes with the files of the data set."""
    undecided = undecided_config(config)
    stamp = sources.stamp(undecided.dataset, undecided.dataset_path)
    text = background_jobs.settings_text(undecided) + repr(stamp)
    return Path(root) / FOLDER / f"{undecided.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def start_audit(config: Config, root: Path) -> None:
    """Start the check in the background unless it is done or in progress; raises `UserError`."""
    undecided = undecided_config(config)
    search_options = cli_args.option_words(seed=undecided.seed, set=background_jobs.settings_of_job(undecided))
    arguments = (undecided.dataset, "--runs", str(root.resolve()), *search_options)
    background_jobs.start_job(
        audit_path(config, root), background_jobs.subject_of(undecided), "audit", "--begun", *arguments
    )


def read_findings(path: Path) -> Audited | None:
    """Return the stored findings, None before the first check; raises `UserError` if the file is damaged."""
    try:
        with open_regular(path) as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError(f"larger than {_LARGEST >> 20} MiB")
        stored = json.loads(data)
        findings = tuple(map(_read_finding, stored["findings"]))
        if len({(finding.kind, finding.pictures[0]) for finding in findings}) < len(findings):
            raise ValueError("one is listed twice")
        total, recall = {kind: int(stored["total"][kind]) for kind in KINDS}, stored.get("recall")
        if recall is not None and not (type(recall) in (int, float) and 0 <= recall <= 1):
            raise ValueError("recall is not a share")
        return Audited(int(stored["count"]), findings, total, recall)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = disk_error_in_words(error) if isinstance(error, OSError) else shorten(str(error))
        raise UserError(
            path.name, f"the findings are damaged ({reason}); delete {shown(path)} and check again"
        ) from None


def _read_finding(stored: dict) -> Doubt:
    """Read one stored finding; raises `ValueError` or similar for an invalid one."""
    finding = Doubt(**stored | {"pictures": tuple(stored["pictures"]), "parts": tuple(stored["parts"])})
    texts = (finding.label, finding.other, *finding.parts)
    is_whole = finding.pictures and all(type(key) in (str, int) for key in finding.pictures)
    if finding.kind not in KINDS or not is_whole or not all(isinstance(text, str) for text in texts):
        raise ValueError("not a finding")
    is_number = type(finding.score) in (int, float) and abs(finding.score) < _LARGEST_SCORE
    if not is_number or type(finding.labels) is not int:
        raise ValueError("not a number")
    return finding


def write(path: Path, audited: Audited) -> None:
    background_jobs.make_folder(path.parent)
    write_json(path, asdict(audited))


# ---------------------------------------------------------------------------------------------------- decisions


def decisions_of(config: Config) -> Decisions:
    """Return the valid decisions on the data set of `config`; raises `UserError` if their file is damaged."""
    return edit_log.combine_entries(edit_log.read_entries(_file(config)))


def list_entries(config: Config) -> list[tuple[int, dict]]:
    """Return the valid decisions by number, newest first."""
    return in_effect(edit_log.read_entries(_file(config)))[::-1]


def _file(config: Config) -> Path:
    return edit_log.log_path(config.dataset, config.dataset_path)


def remaining_pictures(finding: Doubt) -> Key:
    """Return the picture of a group of duplicates that stays: a test picture if there is one, else the first."""
    return finding.pictures[-1 if "test" in finding.parts else 0]


def is_undecided(finding: Doubt, decisions: Decisions) -> bool:
    """Return whether no decision answers the finding yet."""
    if all((finding.kind, key) in decisions.ignored for key in finding.pictures):
        return False
    kept_pictures = [key for key in finding.pictures if key not in decisions.left_out]
    if finding.kind == "label" and kept_pictures and finding.pictures[0] in decisions.labels:
        return False
    return len(kept_pictures) > (1 if finding.kind == "duplicate" else 0)


def record_finding_decision(
    config: Config, do: str, pictures: Sequence[Key], *, label: str = "", why: str = ""
) -> Decisions:
    """Record a decision about pictures of `config`; raises `UserError` for unknown pictures and labels."""
    undecided = undecided_config(config)
    keys, dataset_name = sources.original_keys(undecided)
    images = sources.images_of(undecided)
    known_pictures = set(keys)
    if lost := [key for key in pictures if key not in known_pictures]:
        named = keys[0] if images.file_names else "the number of an image"
        expected = f"{len(keys):,} pictures; expected one such as {named}"
        raise UserError("pictures", f"{shorten(lost[0])} is not one of its {expected}")
    if do == "relabel" and label not in (*images.class_names, edit_log.UNKNOWN):
        raise UserError(
            "label", f"{shorten(label)} is not one of its classes; choices: {_first_names(images.class_names)}"
        )
    tests = set(keys[len(keys) - images.num_test :])
    if do == "relabel" and label == edit_log.UNKNOWN and tests & set(pictures):
        raise UserError("label", "of a test picture cannot be unknown; leave out the picture instead")
    remaining = known_pictures - decisions_of(config).left_out
    if do == "leave out" and not remaining - set(pictures):
        raise UserError(
            "pictures",
            f"cannot all be left out; {counted(len(remaining), 'picture')} would be removed and none would be left",
        )
    source, different = (undecided.dataset, undecided.dataset_path), list(dict.fromkeys(pictures))
    return edit_log.record_decision(*source, do, different, label=label, why=why, of=dataset_name)


def undo_finding_decision(config: Config, number: int) -> Decisions:
    """Take back a decision; raises `UserError`."""
    return edit_log.undo_decision(config.dataset, config.dataset_path, number)


def _first_names(names: Sequence[str]) -> str:
    return first_of([shorten(name, 40).strip("'\"") for name in names], 20)
