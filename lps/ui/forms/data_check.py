"""The data check: near duplicates, outliers and doubtful labels, and decisions about each.

Decisions apply to the next runs and can be undone; the pictures are never changed.
"""

import time
from collections.abc import Callable, Sequence

import streamlit as st

from lps.data import sources
from lps.datasets import Images
from lps.errors import UserError
from lps.machine import detached_jobs
from lps.scheduler import background_jobs
from lps.settings import edit_log
from lps.settings.config import Config
from lps.settings.edit_log import Decisions, Key
from lps.studies import audit_files
from lps.studies.audit_files import KINDS, Audited, Doubt
from lps.ui.forms import background_work, fields, form
from lps.ui.pictures import frames, nouns
from lps.ui.pictures.frames import Frame
from lps.ui.shared import click_errors, escape, select
from lps.wording import ago, capitalized, counted

_PER_CLICK = 5  # findings of a kind that are shown at first, and that each click adds
_MAX_PICTURES = 6  # pictures of a finding
_MAX_DECISIONS = 20  # decisions that are listed
_SIZE = 72  # pixels
_LONGEST = 22  # characters below a picture


def show_data_check(config: Config | None) -> None:
    """Show the data check: its button, its progress, or its findings with the decisions made so far."""
    if config is None:
        return
    try:
        decisions = audit_files.decisions_of(config)
        path = audit_files.audit_path(config, select.runs_root())
        job = detached_jobs.job_state(path)
        findings = audit_files.read_findings(path) if job.state == "done" else None
    except UserError as error:
        fields.show_error_or_help(form.error_sentence(error))
        return
    say = nouns.of_dataset(config.dataset)
    _show_effect(decisions, say)
    open_findings = (
        [finding for finding in findings.findings if audit_files.is_undecided(finding, decisions)] if findings else []
    )
    outcome = "working" if job.state == "working" else _count_findings(open_findings)
    title = say("Is something wrong with the pictures?") + f" · {outcome}" * bool(outcome)
    with st.expander(title, key="checks"):
        click_errors.show_errors("check")
        if job.state == "working":
            background_work.wait_for_work(path, "The check continues after you close this page.")
        elif findings is None:
            _offer_check(config, job)
        else:
            _show_findings(config, findings, open_findings)
        _show_decisions(config)


def _count_findings(open_findings: Sequence[Doubt]) -> str:
    """Count findings by kind: "54 near duplicates, 10 outliers"."""
    counts = {kind: sum(finding.kind == kind for finding in open_findings) for kind in KINDS}
    return ", ".join(f"{KINDS[kind].lower()}: {count:,}" for kind, count in counts.items() if count)


def _show_effect(decisions: Decisions, say: Callable[[str], str]) -> None:
    """Show how the next runs differ from the files."""
    effects = [f"leave out {counted(len(decisions.left_out), 'picture')}"] if decisions.left_out else []
    effects += [f"relabel {counted(len(decisions.labels), 'picture')}"] if decisions.labels else []
    if effects:
        st.caption(say(f":material/rule: With your decisions below, the next runs {' and '.join(effects)}."))


def _offer_check(config: Config, job: detached_jobs.JobState) -> None:
    say = nouns.of_dataset(config.dataset)
    explanation = say(
        "Finds near duplicates (also between the training and the test set), outliers (unusual pictures), and labels "
        "that differ from the labels of all similar pictures. Nothing changes until you decide, and your files never "
        "change."
    )
    remains = background_jobs.remains_in_words(audit_files.undecided_config(config))
    background_work.offer_work(
        "check", job, f"The check was cancelled. {capitalized(remains)}.", explanation, say("Check the pictures"),
        ":material/troubleshoot:", lambda: audit_files.start_audit(config, select.runs_root()),
    )  # fmt: skip


def _show_findings(config: Config, audited: Audited, open_findings: Sequence[Doubt]) -> None:
    if audited.recall is not None:
        from lps.scores.neighbours import recall_in_words  # imports scikit-learn

        st.caption(nouns.of_dataset(config.dataset)(capitalized(recall_in_words(audited.recall))) + ".")
    if not open_findings:
        among = f"among {counted(audited.count, nouns.of_dataset(config.dataset)('picture'))}"
        decided_text = f"You have decided on everything that was found {among}."
        st.caption(decided_text if audited.findings else f"Nothing unusual was found {among}.")
        return
    findings_by_kind = {kind: [finding for finding in open_findings if finding.kind == kind] for kind in KINDS}
    kinds = [kind for kind in KINDS if findings_by_kind[kind]]
    if st.session_state.get("check_kind") not in kinds:
        st.session_state["check_kind"] = kinds[0]
    kind = st.segmented_control(
        "What was found", kinds, format_func=lambda kind: f"{KINDS[kind]} ({len(findings_by_kind[kind])})",
        key="check_kind", label_visibility="collapsed", required=True,
    )  # fmt: skip
    try:
        undecided = audit_files.undecided_config(config)
        images, keys = sources.images_of(undecided), sources.original_keys(undecided)[0]
    except UserError as error:
        fields.show_error_or_help(form.error_sentence(error))
        return
    rows = dict(zip(keys, range(len(keys))))
    shown_count = st.session_state.get(f"check_shown:{kind}", _PER_CLICK)
    for finding in findings_by_kind[kind][:shown_count]:
        _show_finding(config, finding, images, rows)
    if len(findings_by_kind[kind]) > shown_count:
        next_count = min(_PER_CLICK, len(findings_by_kind[kind]) - shown_count)
        st.button(f"Show {next_count} more", icon=":material/expand_more:", type="tertiary", key="check_more",
                  on_click=_show_more, args=(kind, shown_count + next_count))  # fmt: skip


def _show_more(kind: str, count: int) -> None:
    st.session_state[f"check_shown:{kind}"] = count


def _show_finding(config: Config, finding: Doubt, images: Images, rows: dict[Key, int]) -> None:
    """Show the pictures of a finding, what is wrong with them, and the buttons."""
    with st.container(border=True, gap="small"):
        st.markdown(escape.markdown(capitalized(finding.in_words)) + ".")
        say = nouns.of_dataset(config.dataset)
        keys = [key for key in finding.pictures if key in rows]
        frames.show_frames([("", [_make_frame(images, key, rows[key], say) for key in keys[:_MAX_PICTURES]])], _SIZE)
        if len(keys) > _MAX_PICTURES:
            st.caption(f"and {len(keys) - _MAX_PICTURES:,} more")
        with st.container(horizontal=True, gap="small"):
            for label, icon, do, pictures, new_label in _list_choices(finding, keys):
                st.button(
                    escape.markdown(label),
                    icon=icon,
                    key=f"check:{finding.kind}:{finding.pictures[0]}:{label}",
                    on_click=_record_decision,
                    args=(config, do, pictures, new_label, finding.kind),
                )


def _make_frame(images: Images, key: Key, row: int, say: Callable[[str], str]) -> Frame:
    label = images.labels[row]
    name = images.class_names[label] if label >= 0 else "unlabeled"
    text, short = str(key), _shorten_key(key)
    is_test = row >= len(images.labels) - images.num_test
    caption = f"{short}" if images.file_names else f"{short}: {name}"
    return Frame(
        images.pixels[row], images.sides(row), "", f"{say('Picture')} {text}, {name}", f"{caption}{' (test)' * is_test}"
    )


def _shorten_key(key: Key) -> str:
    """Return the end of a long path, from a folder on: "…/airplane_23.jpg"."""
    text = str(key)
    if len(text) <= _LONGEST:
        return text
    start = len(text) + 1 - _LONGEST
    return f"…{text[max(start, text.find('/', start)) :]}"


def _list_choices(finding: Doubt, keys: Sequence[Key]) -> list[tuple[str, str, str, list[Key], str]]:
    """Return (label, icon, action, its pictures, the new label) for every button."""
    ignore = ("Keep as it is", ":material/check:", "ignore", list(finding.pictures), "")
    if finding.kind == "duplicate":
        remaining_key = audit_files.remaining_pictures(finding)
        copies = [key for key in keys if key != remaining_key]
        copies_text = _shorten_key(copies[0]) if len(copies) == 1 else f"{len(copies)} copies"
        label = f"Leave out {copies_text} and keep {_shorten_key(remaining_key)}"
        return [(label, ":material/block:", "leave out", copies, ""), ignore]
    leave_out = ("Leave it out", ":material/block:", "leave out", list(finding.pictures), "")
    if finding.kind == "label":
        relabel = (f"Label it {finding.other}", ":material/label:", "relabel", list(finding.pictures), finding.other)
        return [relabel, leave_out, ignore]
    return [leave_out, ignore]


def _record_decision(config: Config, action: str, pictures: list[Key], label: str, reason: str) -> None:
    """Record a decision (callback)."""
    with click_errors.keep_errors("check"):
        audit_files.record_finding_decision(config, action, pictures, label=label, why=reason)


def _undo_decision(config: Config, number: int) -> None:
    with click_errors.keep_errors("check"):
        audit_files.undo_finding_decision(config, number)


def _show_decisions(config: Config) -> None:
    """List the current decisions, newest first, each with an undo button."""
    log_entries = audit_files.list_entries(config)
    if not log_entries:
        return
    st.markdown(f"**{counted(len(log_entries), 'decision')}**")
    for number, entry in log_entries[:_MAX_DECISIONS]:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            age = ago(max(0.0, time.time() - entry.get("time", time.time())))
            st.markdown(f":small[{escape.markdown(edit_log.entry_in_words(entry))} :gray[· {age}]]", width="stretch")
            st.button("Undo", key=f"check_undo:{number}", icon=":material/undo:", type="tertiary",
                      on_click=_undo_decision, args=(config, number))  # fmt: skip
    if len(log_entries) > _MAX_DECISIONS:
        st.caption(
            f"and {counted(len(log_entries) - _MAX_DECISIONS, 'older decision')}. To list them, run "
            f"python -m lps audit {config.dataset} --decided"
        )
