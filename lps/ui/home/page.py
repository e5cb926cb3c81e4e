"""The page Home: what LPS Studio is, the demo, and the list of runs with their actions."""

import time
from calendar import timegm
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import streamlit as st

from lps.charts import drawings, event_log
from lps.cluster import executors
from lps.errors import UserError
from lps.scheduler import costs, queue, run_actions
from lps.settings.config import configure
from lps.store import titles
from lps.store.run_folders import TRASH_DAYS, delete_run, recorded_runs
from lps.store.run_progress import read_progress
from lps.store.runs import RUN_ID, Run, State
from lps.ui.forms import demo, start_runs
from lps.ui.home import recordings_gallery
from lps.ui.server import routing
from lps.ui.shared import click_errors, escape, live_part, recordings, select, theme, time_estimates
from lps.ui.shared import history as shared_history
from lps.ui.shared.run_actions import LABELS, action_label, ask_name
from lps.wording import ago, counted

_ABOUT = (
    "Some classes have pictures with labels: these classes are :blue[**seen**]. Other classes appear only in pictures "
    "without labels: these classes are :orange[**novel**]. LPS Studio trains models that recognize the seen classes "
    "and discover the novel ones. You can watch how quickly a model learns both kinds."
)
_FOR_TEACHERS = (
    "Two short runs learn to sort digits. One run uses the margin of LPS, which holds back classes that the model "
    "guesses too often. The other run has no margin. You see how the margin helps novel classes to keep up."
)
_FOR_PICTURES = (
    "Add a folder in which some pictures have labels. The model sorts the other pictures into your classes and into "
    "new groups, called clusters. You name the clusters, and then the model can sort new pictures."
)
_FOR_RESEARCH = (
    "Train any of thirteen methods on the same data and change one setting at a time. You get tables, figures, and "
    "differences with confidence intervals."
)
_PER_PAGE = 8
_PAGES_WIDTH = 280  # pixels of the page buttons; by its content alone, Streamlit leaves out the numbers of 2 or 3 pages
_SPARKLINE, _NUMBER = 120, 44  # pixels


@dataclass(frozen=True)
class _ListedRun:
    """What the list shows of a run. Accuracies are fractions by epoch, None if there are none."""

    run: Run
    state: State
    name: str  # that of menus
    subject: str  # its title without its name; "" if its settings cannot be read
    age: str
    seen: list[float | None]
    novel: list[float | None]
    accuracy: dict[str, float | None]  # seen, novel, all: the newest
    epochs: int  # planned
    phase_share: float | None  # share of the phase, while the run is alive
    progress: str


def _read_row(run: Run, name: str) -> _ListedRun:
    """Return the row of a run, whatever the condition of its folder."""
    state = run.state()
    config = run.config_if_readable()
    if config is None:
        return _ListedRun(run, state, name, "", _describe_age(run), [], [], {}, 0, None, "")
    history = shared_history.read_history(run)
    phase_share, progress = _describe_progress(run, state, config.epochs, history.last_epoch)
    return _ListedRun(
        run=run,
        state=state,
        name=name,
        subject=titles.run_subject(run) if RUN_ID.fullmatch(run.id) else run.id,
        age=_describe_age(run, history.last_time if state.is_over else None),
        seen=_epoch_series(history, "accuracy/seen"),
        novel=_epoch_series(history, "accuracy/novel"),
        accuracy={group: history.last(f"accuracy/{group}") for group in ("seen", "novel", "all")},
        epochs=config.epochs,
        phase_share=phase_share,
        progress=progress,
    )


def main() -> None:
    """Draw the page."""
    _start_demo()
    text_column, picture_column = st.columns([5, 6], gap="large", vertical_alignment="center")
    with text_column:
        st.title("Watch a model discover classes that have no labels", anchor=False)
        st.markdown(_ABOUT)
    with picture_column:
        recordings_gallery.show_pace()
    _show_ways_to_begin()
    st.space("medium")
    _show_question()
    has_runs = bool(select.own_runs())
    if has_runs:
        _show_list()
        st.space("small")
    st.subheader("Recorded runs", anchor=False)
    recordings_gallery.show_gallery(is_brief=has_runs)
    if not has_runs:
        _show_list()
    theme.redraw_on_change()


def _start_demo() -> None:
    """Start the runs of the demo and open their race, if the button requested it."""
    visit = start_runs.take_request("home")
    if not visit:
        return
    started = []
    try:
        for name, changed in demo.RUNS.items():
            started += start_runs.start_runs("home", visit, (configure(demo.SETTINGS | changed),), name)
    except UserError as error:
        st.error(f"The demo could not be started. {escape.sentence(error)}", icon=":material/error:")
    else:
        routing.turn_to("pace", run=started)


def _show_ways_to_begin() -> None:
    """Show a card for each of the three kinds of users, with what LPS Studio does for them and a button."""
    teacher, practitioner, researcher = st.columns([6, 5, 5])  # the first has two buttons
    with teacher, _draw_card("See how it works", _FOR_TEACHERS + _demo_duration()):
        start_runs.show_start_button("Start the demo", "home", type="primary", icon=":material/play_arrow:")
        if recordings.has_story():
            st.page_link("pages/story.py", label="Read the story", icon=":material/auto_stories:")
    with practitioner, _draw_card("Sort your pictures", _FOR_PICTURES):
        st.page_link("pages/own.py", label="Add pictures", icon=":material/add_photo_alternate:")
    with researcher, _draw_card("Run experiments", _FOR_RESEARCH):
        st.page_link("pages/launch.py", label="New run", icon=":material/tune:")


@contextmanager
def _draw_card(title: str, text: str) -> Iterator[None]:
    """Return a card with a title and words; what is drawn inside is in one row at its lower edge."""
    with st.container(border=True, height="stretch", vertical_alignment="distribute"):
        with st.container(gap="xsmall"):
            st.markdown(f"**{escape.markdown(title)}**")
            st.caption(text)
        with st.container(horizontal=True, vertical_alignment="center", key=f"way-{title}".replace(" ", "-")):
            yield  # page.css makes its links as high as buttons


def _demo_duration() -> str:
    with suppress(UserError):  # a click on the button shows the error
        duration = time_estimates.estimate_run(configure(demo.SETTINGS))
        if duration and not costs.is_unknown(duration):
            return f" Each run takes about {costs.span_in_words(duration)}{costs.wide_reason(duration)}."
    return " In a test on two cores, both runs together took about a minute."  # README.md has the measurement


def _show_list() -> None:
    """Show the page of the list that the URL names; it refreshes itself while one of its runs changes."""
    all_own_runs = select.own_runs()
    runs = [run for run in all_own_runs if not run.meta()["hidden"]]
    if not runs:
        _show_nothing(hidden=len(all_own_runs))
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Runs", anchor=False)
        pages = -(-len(runs) // _PER_PAGE)
        options = {"width": _PAGES_WIDTH, "key": "page", "bind": "query-params"}
        page_number = min(st.pagination(pages, **options), pages) if pages > 1 else 1
    shown_runs = runs[(page_number - 1) * _PER_PAGE : page_number * _PER_PAGE]
    show_rows = partial(_show_rows, select.run_names([*runs, *recorded_runs()]))
    live_part.follow_changes(lambda: shown_runs, select.any_moves, show_rows, interval_s=2)


def _show_nothing(hidden: int = 0) -> None:
    """Show what replaces the list if there are no runs or all are hidden."""
    st.subheader("Runs", anchor=False)
    if hidden:
        st.caption("All runs are hidden. Open the page Runs to see them.")
    else:
        st.caption("No runs yet. Press **Start the demo** or **New run**. Your runs will be listed here.")


def _show_question() -> None:
    """Show the dialog that an action of the list requested, once."""
    action, run_id = st.session_state.pop("home_question", (None, None))
    if action is None:
        return
    with click_errors.toast_errors():
        run = select.find_run(run_id)
        {"rename": ask_name, "delete": _ask_delete}[action](run)


def _show_rows(names: Mapping[str, str], runs: list[Run]) -> None:
    for run in runs:
        _show_row(_read_row(run, names[run.id]))


def _show_row(listed_run: _ListedRun) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"row-{listed_run.run.id}"):
        with st.container(gap="xxsmall", width="stretch"):
            st.markdown(f"**{escape.markdown(listed_run.name)}**")
            st.markdown(_describe_row(listed_run))
            if listed_run.state.reason and listed_run.state.name in ("failed", "crashed", "unknown", "unreadable"):
                st.markdown(f":small[:red[{escape.markdown(listed_run.state.reason)}]]")
            if listed_run.phase_share is not None:
                st.progress(listed_run.phase_share)
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            if listed_run.subject:
                has_accuracy = any(value is not None for value in listed_run.accuracy.values())
                if has_accuracy or listed_run.phase_share is not None:
                    _show_accuracies(listed_run)  # of a run that is over without truth there are none
                st.page_link("pages/live.py", label="Open", query_params={"run": listed_run.run.id})
            _show_menu(listed_run)


def _describe_row(listed_run: _ListedRun) -> str:
    """Return state, subject, progress and age of a run as one line of markdown."""
    state_label, color, icon = theme.BADGES["recorded" if listed_run.run.is_recorded else listed_run.state.name]
    subject = escape.markdown(listed_run.subject) if titles.given_name(listed_run.run) else ""
    details = " · ".join(filter(None, [subject, listed_run.progress, listed_run.age]))
    badge = f":{color}-badge[{icon} {state_label}]"
    return f"{badge} :small[:gray[{details}]]" if details else badge


def _show_accuracies(listed_run: _ListedRun) -> None:
    colors = theme.current_palette()
    picture = drawings.sparkline(listed_run.seen, listed_run.novel, listed_run.epochs, colors)
    st.image(picture, width=_SPARKLINE, alt="Seen and novel accuracy over the epochs")
    for group, color in (("seen", "blue"), ("novel", "orange"), ("all", "gray")):
        value = listed_run.accuracy[group]
        text = f"{100 * value:.1f}" if value is not None else "–"
        st.markdown(f":small[:gray[{group.capitalize()}]]  \n:{color}[**{text}**]", width=_NUMBER)


def _show_menu(listed_run: _ListedRun) -> None:
    possible = run_actions.possible_actions(listed_run.run, listed_run.state)
    if not possible:
        return
    labels = {action: f"{LABELS[action][1]} {action_label(action, listed_run.state)}" for action in possible}
    chosen_action = st.menu_button(
        "More", possible, format_func=labels.get, type="tertiary", key=f"menu-{listed_run.run.id}"
    )
    if chosen_action:
        _run_action(chosen_action, listed_run.run)


def _run_action(action: str, run: Run) -> None:
    """Carry out the chosen action on `run`, or ask first; then draw the page again."""
    if action == "copy":
        routing.turn_to("launch", clone=run.id)
    if action in ("rename", "delete"):
        st.session_state["home_question"] = (action, run.id)
        st.rerun()
    with click_errors.toast_errors():
        run_actions.ACTS[action](run)
        st.rerun()


@st.dialog("Delete run")
def _ask_delete(run: Run) -> None:
    name = escape.markdown(titles.run_label(run))
    st.markdown(f"**{name}** moves to the trash. You can restore it on the page Runs for {TRASH_DAYS} days.")
    if st.button("Delete", type="primary", icon=":material/delete:"):
        click_errors.try_change(lambda: delete_run(run))


def _epoch_series(history: event_log.History, name: str) -> list[float | None]:
    """Return a measurement at every epoch from the first to the newest."""
    column = history.column(name)
    return [float(column[epoch]) if epoch in column.index else None for epoch in range(1, history.last_epoch + 1)]


def _describe_progress(run: Run, state: State, epochs: int, last_epoch: int) -> tuple[float | None, str]:
    """Return the completed share of the phase, and the position of the run in words."""
    if state.name == "queued" and run.desired().on:
        return None, f"in the queue of {executors.executor_title(run.desired().on)}"
    if state.name == "queued":
        num_ahead = queue.queue_position(run)
        return None, f"{counted(num_ahead, 'run')} ahead" if num_ahead else "next" if num_ahead == 0 else "not launched"
    if not state.is_alive:
        planned_epochs = counted(epochs, "epoch")
        return None, planned_epochs if last_epoch == epochs else f"{last_epoch} of {planned_epochs}"
    progress = read_progress(run, state)
    if time_estimates.is_finishing(progress) and state.name == "running":
        return 1.0, "Finishing: evaluating and saving"
    phase = time_estimates.PHASES.get(progress.phase, "Preparing")
    position = f", {progress.epoch or 0:.0f} of {counted(progress.epochs, 'epoch')}" if progress.epochs else ""
    is_timed = state.name == "running" and progress.phase != "wait"
    time_left = f", {time_estimates.describe_time_left(run, state)}" if is_timed else ""
    return progress.share or 0.0, f"{phase}{position}{time_left}"


def _describe_age(run: Run, end_time: float | None = None) -> str:
    """Return how long ago the run ended or was created, from its id; "" for a folder without a date."""
    if end_time:
        return f"ended {ago(time.time() - end_time)}"
    if not RUN_ID.fullmatch(run.id):
        return ""
    try:
        created_at = timegm(time.strptime(run.id[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return ""
    return f"created {ago(time.time() - created_at)}"
