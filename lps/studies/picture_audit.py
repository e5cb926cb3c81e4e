"""Check the pictures of a data set before training, in the features that a run would start from."""

from pathlib import Path

from lps.analysis.audit import Audit, audit_features, check_count, parts_of
from lps.data import sources
from lps.scheduler import preflight
from lps.scheduler.background_jobs import ReportPhase, ignore_progress, working_on
from lps.settings.config import Config
from lps.settings.edit_log import Key
from lps.studies import audit_files
from lps.studies.audit_files import Audited, Doubt
from lps.studies.start_features import start_features

_MAX_FINDINGS = 500  # findings of a kind
_MEMBERS = 1000  # pictures of one


def audit_pictures(
    config: Config, root: Path, is_begun: bool = False, show_progress: ReportPhase = ignore_progress
) -> Audited:
    """Check the pictures of `config`, without decisions, and store the findings for pages.

    Other processes see the progress and may cancel. is_begun: see `working_on`. Raises `UserError`, and `Cancelled` if
    the user cancels.
    """
    path, config = audit_files.audit_path(config, root), audit_files.undecided_config(config)
    images = sources.images_of(config)
    check_count(len(images.labels))
    preflight.check_config(config)
    with working_on(config, path, is_begun, show_progress) as progress:
        features, _ = start_features(config, root, progress, "compare", None)

        def report_share(share: float) -> None:
            progress.report("compare", share)
            progress.check()

        pixels = images.pixels if images.vectors is None else None  # similar titles are no duplicates
        result = audit_features(features, images.labels, parts_of(images.labels, images.num_test), pixels, report_share)
        audited = _with_names(result, sources.original_keys(config)[0], images.class_names)
        audit_files.write(path, audited)
    return audited


def _with_names(audited: Audit, keys: list[Key], names: tuple[str, ...]) -> Audited:
    """Return the findings with the keys of their pictures and names of classes."""

    def keys_of(rows) -> tuple[Key, ...]:
        return tuple(keys[row] for row in rows[:_MEMBERS])

    findings = [
        Doubt("duplicate", keys_of(one.pictures), one.worst, one.across, labels=one.labels)
        for one in audited.duplicates[:_MAX_FINDINGS]
    ]
    findings += [Doubt("stranger", keys_of([one.picture]), one.score) for one in audited.strangers[:_MAX_FINDINGS]]
    findings += [
        Doubt("label", keys_of([one.picture]), one.share, label=names[one.label], other=names[one.others])
        for one in audited.denied[:_MAX_FINDINGS]
    ]
    kinds = {"duplicate": audited.duplicates, "stranger": audited.strangers, "label": audited.denied}
    return Audited(audited.count, tuple(findings), {kind: len(ones) for kind, ones in kinds.items()}, audited.recall)
