"""A person names the clusters: the controls beside the contact sheet, and what was said at other epochs."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from functools import partial

import streamlit as st

from lps.analysis import labels, naming
from lps.analysis.clusters import FLAGS
from lps.datasets import Images
from lps.store.runs import Run
from lps.ui.clusters import assign_cluster, naming_wizard, single_pictures, split_cluster
from lps.ui.pictures import name_field, predictions
from lps.ui.pictures.predictions import View
from lps.ui.shared import epoch_choice, error_toasts, escape, run_actions, url_fields

_NOTE = "naming_note"  # what the last action had to say


def short(text: str) -> str:
    """A text of any length as a few characters."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def show_notices(here: View, entries: Sequence[Mapping]) -> None:
    """What the last action said, names of other epochs, and predictions that are not those that were named."""
    error_toasts.show_errors("naming")
    if note := st.session_state.pop(_NOTE, ""):
        st.info(escape.markdown(note), icon=":material/info:")
    standing = naming.standing(entries, here.epoch)
    if any(entry.get("snapshot") not in ("", None, labels.digest(here.network.predicted)) for entry in standing):
        st.warning(
            "The predictions of this epoch were recomputed after you named the clusters. Check the names.",
            icon=":material/history:",
        )
    others = [epoch for epoch in naming.named_epochs(entries) if epoch != here.epoch]
    if others and not standing:
        _show_other_names(here, others[-1])


def _show_other_names(here: View, epoch: int) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"You named clusters at epoch {epoch}, but not at this one.", width="stretch")
        go, take = (here.run, epoch), (here, epoch)
        st.button(f"Go to epoch {epoch}", key="go_to_names", on_click=_go, args=go, icon=":material/arrow_back:")
        words = "Gives each name to the cluster that has most of its images at this epoch"
        st.button("Copy the names", key="carry_names", on_click=_carry, args=take, icon=":material/redo:", help=words)


def _go(run: Run, epoch: int) -> None:
    epoch_choice.choose(epoch_choice.place_of("clusters", run), epoch)


def _carry(here: View, epoch: int) -> None:
    with error_toasts.kept("naming"):
        said = naming.naming_of_epoch(naming.read_entries(here.run), epoch)
        then = predictions.assignment(here.run, epoch).predicted
        total, images = here.split.classes.total, here.split.unlabeled
        steps, lost = labels.carry(said, then, here.network.predicted, images, total)
        if steps:
            name_field.record(here, steps)
        if lost:
            words = f"No cluster of this epoch matches {', '.join(lost)}. Open epoch {epoch} to see it."
            st.session_state[_NOTE] = words


# ---------------------------------------------------------------------------------------------------- one cluster


def show_naming(
    here: View, entries: Sequence[Mapping], cluster: int, ticked: tuple[int, ...], images: Images | None = None
) -> None:
    """Name a cluster, merge it, say that it is no class, split or move images, take the last thing back."""
    _show_flags(here, cluster)
    if here.run.is_recorded:
        run_actions.offer_copy(here.run, "name clusters")
        return
    with st.container(key="naming", gap="small"):
        name_field.ask(here, cluster, partial(_open_next, here, cluster))
        if naming_wizard.is_on() or next_unnamed(here, cluster) is not None:  # the last one's name is still to come
            naming_wizard.offer(cluster)
    _ask_merge(here, cluster, version=len(entries))
    _show_verdicts(here, cluster, ticked)
    if ticked:
        assign_cluster.ask(here, ticked, f"place {len(entries)} {cluster}", without=cluster)
        single_pictures.ask(here, cluster, ticked, _say)
    split_cluster.offer(here, cluster, ticked, images, len(entries))
    _show_steps(here, cluster, entries)


def _open_next(here: View, cluster: int) -> None:
    following = next_unnamed(here, cluster)
    if naming_wizard.is_on() and following is not None:
        _open(following)


def _ask_merge(here: View, cluster: int, version: int) -> None:
    """A choice that starts afresh with every `version`: once something was said."""
    others = {c.id: here.title(c.id) for c in here.clusters if c.id != cluster}
    st.selectbox(
        "Merge into",
        list(others),
        index=None,
        format_func=lambda other: others.get(other, str(other)),
        key=f"merge {version} {cluster}",
        placeholder="Choose a cluster",
        on_change=_merge,
        args=(here, cluster, f"merge {version} {cluster}"),
    )


def _show_verdicts(here: View, cluster: int, ticked: tuple[int, ...]) -> None:
    """It is no class, or not all of it is."""
    with st.container(horizontal=True, gap="small"):
        rejected = cluster in here.said.rejected
        st.button(
            "Mark as a class" if rejected else "Mark as not a class",
            key="reject",
            icon=":material/undo:" if rejected else ":material/block:",
            help="Images of a cluster that is not a class get no label",
            on_click=_say,
            args=(here, [{"do": "accept" if rejected else "reject", "id": cluster}]),
        )
        count = f"{len(ticked)} chosen" if ticked else "chosen"
        st.button(
            f"Split off {count}",
            key="split",
            icon=":material/call_split:",
            disabled=not ticked,
            help="Moves the ticked images to a new cluster",
            on_click=_split,
            args=(here, ticked),
        )


def _show_steps(here: View, cluster: int, entries: Sequence[Mapping]) -> None:
    """One step back, any earlier state, and on to the next cluster."""
    standing, said = naming.standing(entries, here.epoch), naming.said_of(entries, here.epoch)
    with st.container(horizontal=True, gap="small"):
        last = naming.words(standing[-1]) if standing else ""
        st.button(
            "Undo",
            key="undo",
            type="tertiary",
            icon=":material/undo:",
            disabled=not standing,
            help=escape.markdown(f"Undoes: {last}") if last else "Nothing to undo at this epoch",
            on_click=_undo,
            args=(here, len(said)),
        )
        if said:
            _offer_states(here, said)
        following = next_unnamed(here, cluster)
        if following is not None:
            st.button(
                "Next unnamed cluster",
                key="next_unnamed",
                type="tertiary",
                icon=":material/arrow_forward:",
                on_click=_open,
                args=(following,),
            )


def _show_flags(here: View, cluster: int) -> None:
    about = next(c for c in here.clusters if c.id == cluster)
    words = [f"**{FLAGS[flag][0].capitalize()}**: {FLAGS[flag][1]}." for flag in about.flags]
    if words:
        st.caption("  \n".join(words))


def next_unnamed(here: View, cluster: int) -> int | None:
    """The next cluster with images that has no name and was not rejected, round the end; None where there is none."""
    named = {*here.said.names, *here.said.rejected, *here.defaults, cluster}
    waiting = [c.id for c in here.clusters if c.size and c.id not in named]
    return next((i for i in waiting if i > cluster), waiting[0] if waiting else None)


def _merge(here: View, cluster: int, key: str) -> None:
    into = st.session_state[key]
    if into is not None and _say(here, naming.merge(here.said, cluster, into, here.defaults)):
        _open(into)


def _split(here: View, ticked: tuple[int, ...]) -> None:
    new = assign_cluster.next_id(here, here.said)
    if _say(here, [{"do": "split", "images": list(ticked), "new": new}]):
        _open(new)


def _offer_states(here: View, said: Sequence[Mapping]) -> None:
    """Every state since the beginning, the newest first: what was said last in it, and the way back to it."""
    states = {0: "No changes yet"}
    for number, entry in enumerate(said, start=1):
        when = time.strftime("%d %b %H:%M", time.localtime(entry.get("time", 0)))
        states[number] = f"{number} · {when} · {naming.words(entry)}"
    with st.popover("History", icon=":material/history:", type="tertiary", help="Restore any earlier state"):
        key = f"state {len(said)}"
        st.selectbox(
            "State after",
            [*states][-2::-1],
            format_func=lambda number: states.get(number, str(number)),
            key=key,
        )
        st.button("Restore this state", key="restore", icon=":material/restore:", on_click=_restore, args=(here, key))
        st.caption("The current state stays in this list, so you can return to it.")


def _restore(here: View, key: str) -> None:
    name_field.forget_refusal()
    with error_toasts.kept("naming"):
        naming.restore(here.run, here.epoch, st.session_state[key], seen=int(key.removeprefix("state ")))


def _undo(here: View, seen: int) -> None:
    name_field.forget_refusal()
    with error_toasts.kept("naming"):
        naming.undo(here.run, here.epoch, seen)


def _say(here: View, steps: list[dict]) -> bool:
    """Whether it could be recorded; if not, the page says why."""
    name_field.forget_refusal()
    with error_toasts.kept("naming"):
        name_field.record(here, steps)
        return True
    return False


def _open(cluster: int) -> None:
    url_fields.set_number("cluster", cluster)
    url_fields.set_number("truth", None)
