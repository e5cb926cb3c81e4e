"""Check the pictures of a data set before training, and decide about them: `audit`."""

import argparse
import os
import time

from lps.cli._parser import LIGHT, Commands, add_settings, print_json, print_note
from lps.cli.training import checked_config, wait_without_spinning
from lps.errors import UserError, shorten
from lps.files.atomic import clean_line
from lps.settings import catalog
from lps.wording import ago, counted, first_of

_SHOWN = 20  # printed findings of each kind


def add(commands: Commands) -> None:
    sub = commands.add(
        "audit", _audit, "find near duplicates, outliers and doubtful labels among the pictures", as_json=True
    )
    sub.add_argument(
        "what", metavar="DATASET", help="a folder, an .npz file, a file of vectors, or the name of a data set"
    )
    sub.add_argument("--leave-out", action="append", default=[], metavar="PICTURE", help="may be repeated")
    sub.add_argument(
        "--relabel", action="append", default=[], metavar="PICTURE=CLASS", help="leave CLASS empty for unknown"
    )
    sub.add_argument("--ignore", action="append", default=[], metavar="PICTURE", help="keep it as it is")
    sub.add_argument("--undo", type=int, metavar="N", help="undo a decision, by its number")
    sub.add_argument("--decided", action="store_true", help="list the current decisions")
    sub.add_argument("--light", action="store_true", help=LIGHT)
    sub.add_argument("--seed", default="0", help="seed of the start weights")
    sub.add_argument("--begun", action="store_true", help=argparse.SUPPRESS)  # by a page, which took the lock for it
    add_settings(sub, "any setting, may be repeated")


def _audit(options) -> int | None:
    wait_without_spinning()
    options.dataset, settings = _dataset(options.what)
    options.method, options.settings = "lps", [*settings, *options.settings]
    config = checked_config(options, {"split.num_novel": 1})
    if options.decided or options.undo is not None or options.leave_out or options.relabel or options.ignore:
        return _decide(options, config)
    from lps.cli._follow import CountBar
    from lps.scheduler import background_jobs
    from lps.studies import audit_files
    from lps.studies.picture_audit import audit_pictures

    background_jobs.end_when_cancelled(audit_files.audit_path(config, options.runs))
    try:
        audited = audit_pictures(
            config, options.runs, options.begun, background_jobs.ignore_progress if options.begun else CountBar()
        )
    except background_jobs.Cancelled as error:
        print_note(str(error))
        return 130
    _print_findings(options, config, audited)


def _dataset(target: str) -> tuple[str, list[str]]:
    """Return (data set, settings) for a data set's name, a folder, or a file with arrays or vectors."""
    from lps.data import sources
    from lps.datasets.readers.vector_files import is_vector_file

    if target in catalog.dataset_names():
        return target, []
    if os.path.isdir(target) or is_vector_file(target):
        return sources.data_set_of(target), [f"dataset.path={target}"]
    names = ", ".join(catalog.dataset_names())
    raise UserError(
        "dataset", f"{shorten(target)} is not a data set, folder, or file of arrays or vectors; data sets: {names}"
    )


def _decide(options, config) -> None:
    from lps.settings.edit_log import entry_in_words
    from lps.studies import audit_files

    if options.undo is not None:
        audit_files.undo_finding_decision(config, options.undo)
    for do, texts in (("leave out", options.leave_out), ("ignore", options.ignore)):
        if texts:
            kinds = audit_files.KINDS if do == "ignore" else [""]
            for kind in kinds:
                audit_files.record_finding_decision(
                    config, do, [_picture_key(config, text) for text in texts], why=kind
                )
    for text in options.relabel:
        picture, equals, label = text.rpartition("=")
        if not equals:
            raise UserError("relabel", f"{shorten(text)} is not of the form PICTURE=CLASS")
        audit_files.record_finding_decision(config, "relabel", [_picture_key(config, picture)], label=label)
    entries = audit_files.list_entries(config)
    if options.json:
        print_json([{"number": number, **entry} for number, entry in entries])
        return
    for number, entry in entries:
        print(f"{number:4}  {ago(max(0.0, time.time() - entry.get('time', 0.0))):>12}  {entry_in_words(entry)}")
    state = audit_files.decisions_of(config).state
    print(f"the next runs have dataset.decisions={state}" if state else "the next runs use all pictures unchanged")


def _picture_key(config, text: str):
    """Return the key of a picture in decisions: its file, or its number if pictures are not files."""
    from lps.data import sources

    keys, _ = sources.original_keys(config)
    is_number = isinstance(keys[0], int) and text.isascii() and text.isdigit() and len(text) < 16
    return int(text) if is_number else text


def _print_findings(options, config, audited) -> None:
    from lps.scores.neighbours import recall_in_words
    from lps.studies import audit_files

    decisions = audit_files.decisions_of(config)
    open_findings = [finding for finding in audited.findings if audit_files.is_undecided(finding, decisions)]
    if options.json:
        rows = [{"words": finding.in_words, **vars(finding)} for finding in open_findings]
        print_json({"pictures": audited.count, "total": audited.total, "open": rows, "recall": audited.recall})
        return
    for kind, title in audit_files.KINDS.items():
        of_kind = [finding for finding in open_findings if finding.kind == kind]
        print(f"{title}: {len(of_kind)}")
        for finding in of_kind[:_SHOWN]:
            named = first_of([clean_line(str(key)) for key in finding.pictures], 4)
            print(f"  {named}  {clean_line(finding.in_words, 200)}")
        if len(of_kind) > _SHOWN:
            print(f"  and {len(of_kind) - _SHOWN} more; --json lists all")
    if audited.recall is not None:
        print(recall_in_words(audited.recall))
    decided = len(audited.findings) - len(open_findings)
    note = f", {counted(decided, 'finding')} decided" if decided else ""
    print(f"{counted(audited.count, 'picture')} checked{note}; decide with --leave-out, --relabel and --ignore")
