"""What can be done with the chosen runs of the Runs page: look at them, name, tag, hide, stop, resume, delete, undo."""

import math
import time
from collections.abc import Callable, Sequence

import streamlit as st

from lps import launcher
from lps.parameters import ConfigError
from lps.runs import RUN_ID, Run, delete_run
from lps.trash import deleted_runs, restore_run
from lps.ui import dialogs, escape, home, partners, select, shelf
from lps.ui.shelf import Entry

MOST_IN_TRASH = 20  # deleted runs that the page lists
SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


# ---------------------------------------------------------------------------------------------------- bar


def show_bar(chosen: Sequence[Entry], total: int) -> None:
    """How many are chosen, where they can be opened, and what can be done with them."""
    if not chosen:
        st.caption(f"{_count(total)}. Tick rows to open, name, tag, hide, stop, resume or delete them.")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="shelf_bar"):
        st.markdown(f"**{len(chosen)} chosen**", width="content")
        _show_links(chosen)
        for action, runs in possible(chosen).items():
            _show_button(action, runs, len(chosen))
        with st.popover("Link", icon=":material/link:", type="tertiary"):
            st.caption("This table with these rows chosen")
            st.code(link(), language=None, wrap_lines=True)


def _show_links(chosen: Sequence[Entry]) -> None:
    readable = [entry.run.id for entry in chosen if entry.state.name != "unreadable"]
    pages = {"live": ("Live", 1, 99), "pace": ("Pace", 2, partners.MOST), "compare": ("Compare", 1, 99)}
    for page, (label, least, most) in (pages | {"clusters": ("Clusters", 1, 1)}).items():
        if least <= len(readable) <= most:
            st.page_link(f"pages/{page}.py", label=label, query_params={"run": readable})


LABELS = {
    "rename": ("Rename", ":material/edit:"),
    "note": ("Note", ":material/notes:"),
    "tag": ("Tags", ":material/sell:"),
    "copy": ("Launch a copy", ":material/content_copy:"),
    "hide": ("Hide", ":material/visibility_off:"),
    "unhide": ("Show again", ":material/visibility:"),
    "stop": ("Stop", ":material/stop_circle:"),
    "resume": ("Resume", ":material/play_circle:"),
    "delete": ("Delete", ":material/delete:"),
}


def possible(chosen: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Which actions make sense, and for which of the chosen runs; recordings and foreign folders stay as they are."""
    offered = {entry.run.id: home.actions(entry.run, entry.state) for entry in chosen}
    own = [entry for entry in chosen if not entry.run.is_recorded and RUN_ID.fullmatch(entry.run.id)]
    found = {
        "rename": own if len(chosen) == 1 else [],
        "note": own if len(chosen) == 1 else [],
        "tag": own,
        "copy": [entry for entry in chosen if "copy" in offered[entry.run.id]] if len(chosen) == 1 else [],
        "hide": [entry for entry in own if not entry.hidden],
        "unhide": [entry for entry in own if entry.hidden],
        **{name: [entry for entry in chosen if name in offered[entry.run.id]] for name in ("stop", "resume", "delete")},
    }
    return {name: runs for name, runs in found.items() if runs}


def _show_button(action: str, runs: list[Entry], chosen: int) -> None:
    label, icon = LABELS[action]
    words = label if len(runs) == chosen else f"{label} {len(runs)}"
    if st.button(words, icon=icon, type="tertiary", key=f"shelf_{action}"):
        ids = [entry.run.id for entry in runs]
        if action == "copy":
            st.switch_page("pages/launch.py", query_params={"clone": ids[0]})
        elif action in ("rename", "note", "tag"):
            st.session_state["shelf_question"] = action, ids
        else:
            CHANGES[action](runs)
        st.rerun()


def link() -> str:
    """The address of the page as it is: boxes and chosen rows."""
    pairs = []
    for key in st.query_params:
        pairs += [f"{_quoted(key)}={_quoted(value)}" for value in st.query_params.get_all(key)]
    return f"{(st.context.url or '').partition('?')[0]}{'?' * bool(pairs)}{'&'.join(pairs)}"


def _quoted(text: str) -> str:
    return "".join(chr(byte) if byte in SAFE else f"%{byte:02X}" for byte in text.encode())


# ---------------------------------------------------------------------------------------------------- changes


def _hide(entries: list[Entry], hidden: bool = True) -> None:
    _for_each(entries, lambda run: run.write_meta(hidden=hidden))


def _stop(entries: list[Entry]) -> None:
    _for_each(entries, launcher.stop)


def _resume(entries: list[Entry]) -> None:
    _for_each(entries, launcher.resume)


def resume(entry: Entry) -> None:
    """Let a run go on, or say why not, and draw the page anew."""
    _resume([entry])
    st.rerun()


def _delete(entries: list[Entry]) -> None:
    deleted = _for_each(entries, delete_run)
    if deleted:
        st.session_state["shelf_undo"] = [run.id for run in deleted]
    shelf.forget_choice()


CHANGES = {
    "hide": _hide,
    "unhide": lambda entries: _hide(entries, False),
    "stop": _stop,
    "resume": _resume,
    "delete": _delete,
}


def _for_each(entries: list[Entry], change: Callable[[Run], object]) -> list[Run]:
    """Make the change with every run, and say which refused and why. Returns the others."""
    done = []
    for entry in entries:
        try:
            change(entry.run)
            done.append(entry.run)
        except (ConfigError, OSError) as error:
            st.session_state.setdefault("shelf_refusals", []).append(str(error))
    return done


def show_outcome() -> None:
    """What the last action could not do, and the way back from a deletion."""
    for words in st.session_state.pop("shelf_refusals", []):
        st.error(escape.markdown(words), icon=":material/error:")
    ids = st.session_state.get("shelf_undo", [])
    if not ids:
        return
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="shelf_undone"):
        st.markdown(f":material/delete: {_count(len(ids))} moved to the trash.", width="content")
        if st.button("Undo", icon=":material/undo:", key="shelf_undo_button"):
            del st.session_state["shelf_undo"]
            _restore(ids)
            st.rerun()


def _restore(ids: Sequence[str]) -> None:
    for name in ids:
        try:
            restore_run(select.runs_root(), name)
        except (ConfigError, OSError) as error:
            st.session_state.setdefault("shelf_refusals", []).append(str(error))


# ---------------------------------------------------------------------------------------------------- dialogs


def show_question() -> None:
    """The dialog that an action asked for, once."""
    action, ids = st.session_state.pop("shelf_question", (None, []))
    runs = [run for run in select.own_runs() if run.id in ids]
    if action and runs:
        if action == "tag":
            _ask_tags(runs)
        elif action == "rename":
            dialogs.ask_name(runs[0])
        else:
            _ask_note(runs[0], runs[0].meta())


@st.dialog("Note", width="medium")
def _ask_note(run: Run, meta: dict) -> None:
    """meta: as it was when the dialog opened, so that a note of somebody else's is not overwritten unseen."""
    notes = st.text_area("Note", meta["notes"], max_chars=20_000, height=220, key="shelf_notes")
    if st.button("Save", type="primary"):
        dialogs.try_change(lambda: run.write_meta(notes=notes, rev=meta["rev"]))


@st.dialog("Tags")
def _ask_tags(runs: list[Run]) -> None:
    """Tags that all have stand in the box; what is added is added to all, what is taken out is taken from all."""
    tags = [set(run.meta()["tags"]) for run in runs]
    common, known = set.intersection(*tags), {tag for run in select.own_runs() for tag in run.meta()["tags"]}
    some = sorted(set.union(*tags) - common)
    chosen = st.multiselect(
        f"Tags of {'the run' if len(runs) == 1 else f'all {len(runs)} runs'}",
        sorted(known),
        sorted(common),
        accept_new_options=True,
        placeholder="Choose or type",
        key="shelf_tags",
    )
    dropped = st.multiselect("Take from those that have it", some, key="shelf_some") if some else []
    if st.button("Save", type="primary"):
        change = {"add": set(chosen) - common, "drop": (common - set(chosen)) | set(dropped)}
        dialogs.try_change(lambda: [run.write_meta(**change) for run in runs])


# ---------------------------------------------------------------------------------------------------- trash


def show_trash() -> None:
    """Deleted runs, how long they can be had back, and the button that does it."""
    found = deleted_runs(select.runs_root())
    if not found:
        return
    with st.expander(f"Trash ({len(found)})", icon=":material/delete:"):
        for item in found[:MOST_IN_TRASH]:
            with st.container(horizontal=True, vertical_alignment="center", key=f"trash-{item.folder.name}"):
                name = escape.markdown(item.name or item.id)
                st.markdown(f"{name}  \n:small[:gray[{_ending(item.days_left(time.time()))}]]")
                if st.button("Restore", icon=":material/undo:", type="tertiary", key=f"restore-{item.folder.name}"):
                    st.session_state.pop("shelf_undo", None)
                    _restore([item.id])
                    st.rerun()
        if len(found) > MOST_IN_TRASH:
            st.caption(f"And {len(found) - MOST_IN_TRASH} more: `python -m lps restore RUN` brings back any of them.")


def _ending(days: float) -> str:
    """How long a deleted run is still there, in words."""
    return f"{math.ceil(days)} days left" if days > 1 else "less than a day left"


def _count(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"
