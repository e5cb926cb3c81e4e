"""Name clusters: the controls beside the pictures of a cluster, and decisions made at other epochs."""

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from lps.analysis import clusters, labels, naming
from lps.scores import class_changes
from lps.store import titles
from lps.store.runs import Run
from lps.ui.clusters import assign_cluster, compare_clusters, naming_wizard, outcome, single_pictures, split_cluster
from lps.ui.pictures import name_field, nouns, predictions
from lps.ui.pictures.predictions import PredictionView
from lps.ui.shared import click_errors, epoch_choice, escape, run_actions, url_fields
from lps.wording import counted

_REJECTED_AT = "rejected_at"  # in the session: when a cluster was marked as not a class
_DOUBLE_CLICK_S = 1.0
_RESULT_NOTE = "naming_note"  # what the last action had to say


def short_hash(text: str) -> str:
    """Shorten a text to a few characters."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def show_notices(view: PredictionView, entries: Sequence[Mapping]) -> None:
    """Show the result of the last action, what happened to classes and predictions since, and names of other epochs."""
    click_errors.show_errors("naming")
    if note := st.session_state.pop(_RESULT_NOTE, ""):
        st.info(escape.markdown(note), icon=":material/info:")
    parent = predictions.read_parent(view)
    if parent and (grown := class_changes.growth_in_words(parent.sizes_by_name(), view.sizes_by_name())):
        sentence = f"Since {titles.run_label(parent.run)}, which this run continues: {nouns.of(view.run)(grown)}. "
        sentence += "Labeled ones are counted, too. Look at the least confident ones: they may be of another class."
        st.info(escape.markdown(sentence), icon=":material/trending_up:")
    current = naming.entries_in_effect(entries, view.epoch)
    if any(
        entry.get("snapshot") not in ("", None, labels.digest_of_predictions(view.network.predicted))
        for entry in current
    ):
        st.warning(
            "The predictions of this epoch were recomputed after you named the clusters. Check the names.",
            icon=":material/history:",
        )
    other_epochs = [epoch for epoch in naming.named_epochs(entries) if epoch != view.epoch]
    if other_epochs and not current:
        _show_other_names(view, other_epochs[-1])


def _show_other_names(view: PredictionView, epoch: int) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"You named clusters at epoch {epoch}, but not at this one.", width="stretch")
        go_arguments, copy_arguments = (view.run, epoch), (view, epoch)
        st.button(
            f"Go to epoch {epoch}",
            key="go_to_names",
            on_click=_open_epoch,
            args=go_arguments,
            icon=":material/arrow_back:",
        )
        help_text = (
            f"If most images of a cluster were in one named cluster at epoch {epoch}, the cluster gets this name"
        )
        st.button(
            "Copy the names",
            key="carry_names",
            on_click=_copy_names,
            args=copy_arguments,
            icon=":material/redo:",
            help=nouns.of(view.run)(help_text),
        )


def _open_epoch(run: Run, epoch: int) -> None:
    epoch_choice.set_epoch(epoch_choice.view_name_of("clusters", run), epoch)


def _copy_names(view: PredictionView, epoch: int) -> None:
    with click_errors.keep_errors("naming"):
        decisions = naming.naming_of_epoch(naming.read_entries(view.run), epoch)
        old_predictions = predictions.read_assignment(view.run, epoch).predicted
        total, images = view.split.classes.total, view.split.unlabeled
        steps, lost = labels.transfer_decisions(decisions, old_predictions, view.network.predicted, images, total)
        if steps:
            name_field.record_steps(view, steps)
        if lost:
            sentence = (
                f"Your decisions on {', '.join(lost)} could not be copied: the images of each of these clusters are "
                "spread over several clusters of this epoch. "
            )
            sentence += f"Open epoch {epoch} to see the decisions."
            st.session_state[_RESULT_NOTE] = sentence


# ---------------------------------------------------------------------------------------------------- one cluster


def show_naming(
    view: PredictionView,
    entries: Sequence[Mapping],
    cluster: int,
    ticked: tuple[int, ...],
    where_to_choose: str = "",
) -> None:
    """Show the controls of a cluster: name, merge, reject, split, move images, undo.

    where_to_choose: where images are chosen while others replace those of the cluster.
    """
    if view.run.is_recorded:
        _show_flags(view, cluster)
        run_actions.offer_copy(view.run, "name clusters")
        return
    with st.container(key="naming", gap="small"):
        open_next, merge = partial(_open_next, view, cluster), partial(merge_clusters, view, cluster)
        name_field.ask_name(view, cluster, open_next, merge=merge)
        is_in_turn = is_naming_in_turn(view)
        if is_in_turn or _next_unnamed_cluster(view, cluster) is not None:  # the last one's name is still to come
            naming_wizard.offer_wizard(partial(_open_first_unnamed, view, cluster))
        naming_wizard.find_name_field(cluster, is_in_turn)
    _show_flags(view, cluster)  # not above the name, whose field would move from cluster to cluster
    _ask_merge(view, cluster, version=len(entries))
    _show_verdicts(view, cluster, ticked, where_to_choose)
    if ticked:
        assign_cluster.ask_target_cluster(view, ticked, f"place {len(entries)} {cluster}", cluster)
        single_pictures.ask_verdict(view, cluster, ticked, _record_steps)
    split_cluster.offer_split(view, cluster, len(entries))
    _show_steps(view, cluster, entries)


def is_naming_in_turn(view: PredictionView) -> bool:
    """Return whether clusters are named one by one: the switch is on, and a cluster is left to name."""
    return naming_wizard.is_on() and _next_unnamed_cluster(view, -1) is not None


def _open_next(view: PredictionView, cluster: int) -> None:
    next_cluster = _next_unnamed_cluster(view, cluster)
    if naming_wizard.is_on() and next_cluster is not None:
        _open_cluster(next_cluster)


def _open_first_unnamed(view: PredictionView, cluster: int) -> None:
    """Leave a cluster that has a name when the wizard is switched on."""
    first = _next_unnamed_cluster(view, -1)
    has_name = cluster in {*view.decisions.names, *view.decisions.rejected, *view.defaults}
    if has_name and naming_wizard.is_on() and first is not None:
        _open_cluster(first)


def _ask_merge(view: PredictionView, cluster: int, version: int) -> None:
    """Show the merge menu; it is reset with every `version`, after each decision."""
    choices = {i: text for i, text in view.choices.items() if i != cluster}
    st.selectbox(
        "Merge into",
        list(choices),
        index=None,
        format_func=lambda target: choices.get(target, str(target)),
        key=f"merge {version} {cluster}",
        placeholder="Choose a cluster",
        on_change=_merge_cluster,
        args=(view, cluster, f"merge {version} {cluster}"),
    )


def _show_verdicts(view: PredictionView, cluster: int, ticked: tuple[int, ...], where_to_choose: str) -> None:
    """Show the buttons that reject the cluster or some of its images."""
    say, is_rejected = nouns.of(view.run), cluster in view.decisions.rejected
    with st.container(horizontal=True, gap="small"):
        if is_rejected:
            label, icon, help_text = "Mark as a class", ":material/undo:", "You can then name the cluster again"
        else:
            label, icon = "Mark as not a class", ":material/block:"
            help_text = say("The images of the cluster stay unlabeled")
        options = {"icon": icon, "help": help_text, "on_click": _change_rejection, "args": (view, cluster)}
        st.button(label, key="reject", **options)
        if not where_to_choose:
            count = counted(len(ticked), "chosen image") if ticked else "chosen images"
            st.button(
                say(f"Split off {count}"),
                key="split",
                icon=":material/call_split:",
                disabled=not ticked,
                help=say(f"Moves the chosen images to the new cluster {view.next_id()}"),
                on_click=_split_off,
                args=(view, cluster, ticked),
            )
            split_cluster.offer_similar(view, cluster, ticked)
    if is_rejected:
        st.caption(say("You marked this cluster as not a class, so its images stay unlabeled."))
    elif not ticked:
        st.caption(say("If you mark the cluster as not a class, its images stay unlabeled."))
    if where_to_choose:
        st.caption(say(where_to_choose))
    elif not ticked:
        hint = "To choose images, click the circle in their top right corner; hold Shift to choose several in a row. "
        hint += "Choose three of one class, and **Find similar** proposes more. "
        st.caption(say(f"{hint}You can then also move them to another cluster."))


def _show_steps(view: PredictionView, cluster: int, entries: Sequence[Mapping]) -> None:
    """Show the buttons for undo, for earlier states and for the next cluster."""
    current, decisions = naming.entries_in_effect(entries, view.epoch), naming.entries_of_epoch(entries, view.epoch)
    with st.container(horizontal=True, gap="small"):
        last_decision = outcome.describe_entries(view, current[-1:])[0] if current else ""
        st.button(
            "Undo",
            key="undo",
            type="tertiary",
            icon=":material/undo:",
            disabled=not current,
            help=escape.markdown(f"Undoes: {last_decision}") if last_decision else "Nothing to undo at this epoch",
            on_click=outcome.undo_last,
            args=(view, len(decisions)),
        )
        if decisions:
            _offer_states(view, decisions)
        next_cluster = _next_unnamed_cluster(view, cluster)
        if next_cluster is not None:
            st.button(
                "Next unnamed cluster",
                key="next_unnamed",
                type="tertiary",
                icon=":material/arrow_forward:",
                on_click=_open_from_top,
                args=(next_cluster,),
            )


def _show_flags(view: PredictionView, cluster: int) -> None:
    about = next(c for c in view.clusters if c.id == cluster)
    flags = () if cluster in view.decisions.rejected else clusters.marks_of(about)
    explanations = [clusters.explain_flag(flag, "below") for flag in flags]
    if explanations:
        st.caption("  \n".join(explanations))
    compare_clusters.offer_comparison(view, cluster)


def _next_unnamed_cluster(view: PredictionView, cluster: int) -> int | None:
    """Return the next cluster with images that is neither named nor rejected, wrapping around; None without one."""
    named = {*view.decisions.names, *view.decisions.rejected, *view.defaults, cluster}
    waiting = [c.id for c in view.clusters if c.size and c.id not in named]
    return next((i for i in waiting if i > cluster), waiting[0] if waiting else None)


def _merge_cluster(view: PredictionView, cluster: int, key: str) -> None:
    into = st.session_state[key]
    if into is not None:
        merge_clusters(view, cluster, into)


def merge_clusters(view: PredictionView, cluster: int, into: int) -> None:
    """Make a cluster a part of another one, and open that one or the next without a name."""
    if _record_steps(view, naming.merge_steps(view.decisions, cluster, into, view.defaults)):
        outcome.keep_outcome(view, f"Cluster {view.title(cluster)} merged into cluster {view.title(into)}.", cluster)
        naming_wizard.request_scroll(naming_wizard.CLUSTER)
        _open_cluster(into)
        if into in view.decisions.names or into in view.defaults:
            _open_next(view, cluster)


def _change_rejection(view: PredictionView, cluster: int) -> None:
    """Reject the cluster and go on as after a name, or take the rejection back.

    The second click of a double click would meet the button of the next cluster, and does nothing.
    """
    if time.monotonic() - st.session_state.get(_REJECTED_AT, -math.inf) < _DOUBLE_CLICK_S:
        return
    is_rejected = cluster in view.decisions.rejected
    if _record_steps(view, [{"do": "accept" if is_rejected else "reject", "id": cluster}]) and not is_rejected:
        st.session_state[_REJECTED_AT] = time.monotonic()
        sentence = f"Cluster {view.title(cluster)} is not a class; its images stay unlabeled."
        outcome.keep_outcome(view, sentence, cluster)
        if is_naming_in_turn(view):
            naming_wizard.request_scroll(naming_wizard.CLUSTER)
        _open_next(view, cluster)


def _split_off(view: PredictionView, cluster: int, ticked: tuple[int, ...]) -> None:
    new_id = view.next_id()
    if _record_steps(view, [{"do": "split", "images": list(ticked), "new": new_id}]):
        outcome.keep_outcome(view, f"{counted(len(ticked), 'image')} moved to cluster {new_id}.", cluster, ticked)
        naming_wizard.request_scroll(naming_wizard.CLUSTER)
        _open_cluster(new_id)


def _open_from_top(cluster: int) -> None:
    outcome.forget_outcome()
    _open_cluster(cluster)
    naming_wizard.request_scroll(naming_wizard.CLUSTER)


def open_new_cluster(cluster: int) -> None:
    """Open a cluster that was split off; its name field is far above the button that made it."""
    _open_cluster(cluster)
    naming_wizard.request_scroll()


def _offer_states(view: PredictionView, log_entries: Sequence[Mapping]) -> None:
    """List every earlier state, newest first, with its last decision and a button that restores it."""
    states, current = {0: "0 · no changes yet"}, len(log_entries)
    for number, (entry, text) in enumerate(zip(log_entries, outcome.describe_entries(view, log_entries)), start=1):
        time_text = time.strftime("%d %b %H:%M", time.localtime(entry.get("time", 0)))
        states[number] = f"{number} · {time_text} · {text}"
    states[current] = f"Current: {states[current]}"
    with st.popover("History", icon=":material/history:", type="tertiary", help="Restore any earlier state"):
        number = st.selectbox(
            "State after the change",
            [*states][::-1],
            format_func=lambda number: states.get(number, str(number)),
            key=f"state {current}",
        )
        options = {"icon": ":material/restore:", "disabled": number == current}
        arguments = (view, number, current)
        st.button("Restore this state", key="restore", on_click=outcome.restore_state, args=arguments, **options)
        st.caption("Later states stay in this list, so you can return to them.")


def _record_steps(view: PredictionView, steps: list[dict]) -> bool:
    """Record decisions; returns False and shows the reason if that fails."""
    name_field.forget_refusal()
    with click_errors.keep_errors("naming"):
        name_field.record_steps(view, steps)
        return True
    return False


def _open_cluster(cluster: int) -> None:
    url_fields.set_numbers(cluster=cluster, truth=None)
