"""Home's pieces: the picture that explains, and the list of runs with what can be done from there."""

import time
from calendar import timegm
from dataclasses import dataclass

import streamlit as st

from lps import launcher, queue
from lps.parameters import ConfigError
from lps.runs import RUN_ID, Run, State, delete_run, find_run
from lps.ui import dialogs, drawings, escape, live, select, style

PER_PAGE = 8
SPARKLINE, NUMBER = 120, 44  # pixels
PHASES = {"prepare": "Preparing", "pretrain": "Pretraining", "train": "Training"}
ACTIONS = {
    "rename": ":material/edit: Rename",
    "copy": ":material/content_copy: Launch a copy",
    "stop": ":material/stop_circle: Stop",
    "kill": ":material/cancel: End at once",
    "resume": ":material/play_circle: Resume",
    "delete": ":material/delete: Delete",
}


show_pace = st.components.v2.component("lps_pace", html=drawings.pace(), isolate_styles=False)


@dataclass(frozen=True)
class Row:
    """What the list says about a run. Accuracies are fractions by epoch, None where there is none."""

    run: Run
    state: State
    about: str  # data set, method, seed
    age: str
    seen: list[float | None]
    novel: list[float | None]
    accuracy: dict[str, float | None]  # seen, novel, all: the newest
    epochs: int  # planned
    done: float | None  # share of the phase, while the run is alive
    progress: str


def row(run: Run) -> Row:
    """The row of a run in whatever condition its folder is."""
    state = run.state()
    try:
        config = run.config()
        about = select.about(config.method, config.dataset, config.seed)
    except ConfigError:
        return Row(run, state, "", _age(run), [], [], {}, 0, None, "")
    history = live.history(run)
    done, progress = _progress(run, state, config.epochs, history.last_epoch)
    return Row(
        run=run,
        state=state,
        about=about,
        age=_age(run),
        seen=_series(history, "accuracy/seen"),
        novel=_series(history, "accuracy/novel"),
        accuracy={group: history.last(f"accuracy/{group}") for group in ("seen", "novel", "all")},
        epochs=config.epochs,
        done=done,
        progress=progress,
    )


def actions(run: Run, state: State) -> list[str]:
    """What can be done with a run in this state; nothing with a folder that is none of ours."""
    if run.is_recorded:
        return ["copy"]
    if state.name == "unreadable":
        return ["delete"] if RUN_ID.fullmatch(run.id) else []
    also = {
        "queued": ["stop"],
        "starting": ["stop"],
        "running": ["stop"],
        "stopping": ["kill"],
        "finished": ["delete"],
    }
    return ["rename", "copy", *also.get(state.name, ["resume", "delete"])]


def moving(runs: list[Run]) -> bool:
    """Whether any of these runs changes by itself."""
    return any(state.is_alive or state.name == "queued" for state in (run.state() for run in runs))


def show_list() -> None:
    """The page of the list that the URL asks for; goes on refreshing itself while one of its runs moves."""
    everything = select.own_runs()
    runs = [run for run in everything if not run.meta()["hidden"]]
    if not runs:
        show_nothing(hidden=len(everything))
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Runs", anchor=False)
        pages = -(-len(runs) // PER_PAGE)
        number = min(st.pagination(pages, key="page", bind="query-params"), pages) if pages > 1 else 1
    shown = runs[(number - 1) * PER_PAGE : number * PER_PAGE]
    is_moving = moving(shown)
    st.fragment(_show_rows, run_every=2 if is_moving else None)(shown, is_moving)


def show_nothing(hidden: int = 0) -> None:
    """What stands in the place of the list before the first run, or where all are hidden."""
    st.subheader("Runs", anchor=False)
    if hidden:
        st.caption("All are hidden; the page Runs shows them.")
    else:
        st.caption("None yet. The demo takes about a minute on two CPU cores; its run will be listed here.")


def show_question() -> None:
    """The dialog that an action of the list asked for, once."""
    action, run_id = st.session_state.pop("home_question", (None, None))
    if action is None:
        return
    try:
        run = find_run(select.runs_root(), run_id, by_path=False)
    except ConfigError as error:
        st.toast(escape.markdown(str(error)), icon=":material/error:")
        return
    {"rename": dialogs.ask_name, "delete": _ask_delete}[action](run)


def _show_rows(runs: list[Run], was_moving: bool) -> None:
    if was_moving:
        start_waiting()
    for run in runs:
        _show_row(row(run))
    if was_moving and not moving(runs):
        st.rerun()  # without the timer


def start_waiting() -> None:
    """Let the next queued run begin where a slot is free."""
    try:
        launcher.pump(select.runs_root())
    except (ConfigError, OSError) as error:
        st.error(escape.markdown(str(error)), icon=":material/error:")


def _show_row(found: Row) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"row-{found.run.id}"):
        with st.container(gap="xxsmall", width="stretch"):
            st.markdown(f"**{escape.markdown(_title(found))}**")
            st.markdown(_standing(found))
            if found.state.reason and found.state.name in ("failed", "crashed", "unknown", "unreadable"):
                st.markdown(f":small[:red[{escape.markdown(found.state.reason)}]]")
            if found.done is not None:
                st.progress(found.done)
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            if found.about:
                _show_accuracies(found)
                st.page_link("pages/live.py", label="Open", query_params={"run": found.run.id})
            _show_menu(found)


def _standing(found: Row) -> str:
    """State, what it is about, how far it is and how old, as one line of markdown."""
    word, color, icon = style.BADGES["recorded" if found.run.is_recorded else found.state.name]
    about = escape.markdown(found.about) if _title(found) != found.about else ""
    rest = " · ".join(filter(None, [about, found.progress, found.age]))
    return f":{color}-badge[{icon} {word}] :small[:gray[{rest}]]" if rest else f":{color}-badge[{icon} {word}]"


def _title(found: Row) -> str:
    """The name that a person gave the run, else what it is about, else the folder."""
    return found.run.meta()["name"] or found.about or found.run.id


def _show_accuracies(found: Row) -> None:
    colors = style.palette()
    picture = drawings.sparkline(found.seen, found.novel, found.epochs, colors)
    st.image(picture, width=SPARKLINE, alt="Seen and novel accuracy over the epochs")
    for group, color in (("seen", "blue"), ("novel", "orange"), ("all", "gray")):
        value = found.accuracy[group]
        number = f"{100 * value:.1f}" if value is not None else "–"
        st.markdown(f":small[:gray[{group.capitalize()}]]  \n:{color}[**{number}**]", width=NUMBER)


def _show_menu(found: Row) -> None:
    possible = actions(found.run, found.state)
    if not possible:
        return
    key = f"menu-{found.run.id}"
    chosen = st.menu_button("More", possible, format_func=ACTIONS.get, type="tertiary", key=key)
    if chosen:
        _act(chosen, found.run)


def _act(action: str, run: Run) -> None:
    """Do what was chosen for `run`, or ask first; then draw the page anew."""
    if action == "copy":
        st.switch_page("pages/launch.py", query_params={"clone": run.id})
    if action in ("rename", "delete"):
        st.session_state["home_question"] = (action, run.id)
        st.rerun()
    try:
        if action == "resume":
            launcher.resume(run)
        else:
            launcher.stop(run, kill=action == "kill")
    except (ConfigError, OSError) as error:
        st.toast(escape.markdown(str(error)), icon=":material/error:")
        return
    st.rerun()


@st.dialog("Delete run")
def _ask_delete(run: Run) -> None:
    st.markdown(
        f"**{escape.markdown(run.title)}** moves to the folder `.trash` beside the runs and stays there for a week."
    )
    if st.button("Delete", type="primary", icon=":material/delete:"):
        dialogs.try_change(lambda: delete_run(run))


def _series(history: live.History, name: str) -> list[float | None]:
    """A measurement at every epoch from the first to the newest."""
    column = history.column(name)
    return [float(column[epoch]) if epoch in column.index else None for epoch in range(1, history.last_epoch + 1)]


def _progress(run: Run, state: State, epochs: int, last_epoch: int) -> tuple[float | None, str]:
    """Share of the present phase, and where the run is, in words."""
    if state.name == "queued" and run.wish().on:
        return None, "in SLURM's queue"
    if state.name == "queued":
        before = queue.position(run)
        return None, f"{before} before it" if before else "next" if before == 0 else "not launched"
    if not state.is_alive:
        return None, f"{last_epoch} epochs" if last_epoch == epochs else f"{last_epoch} of {epochs} epochs"
    found = run.read_json("progress.json")
    step, steps = found.get("step"), found.get("steps")
    whole = isinstance(step, int) and isinstance(steps, int) and steps > 0
    phase = PHASES.get(found.get("phase"), "Preparing")
    where = f" {found['epoch']} of {found['epochs']}" if whole and "epoch" in found and "epochs" in found else ""
    return (min(max(step / steps, 0.0), 1.0) if whole else 0.0), f"{phase}{where}"


def _age(run: Run) -> str:
    """How long ago the run was made, from its id; nothing for a folder without a date."""
    if not RUN_ID.fullmatch(run.id):
        return ""
    try:
        made = timegm(time.strptime(run.id[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return ""
    return ago(time.time() - made)


def ago(seconds: float) -> str:
    """A span of time as people say it."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return "just now"
