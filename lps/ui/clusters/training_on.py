"""Train again with cluster names: which pictures become labeled, a preview, and the start."""

import secrets
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st

from lps.analysis import naming, run_index
from lps.analysis.clusters import FLAGS, Cluster
from lps.analysis.run_index import RunRow
from lps.errors import UserError
from lps.inference import continued_training
from lps.inference.continued_training import TrainingPlan
from lps.scheduler import start_check, submit
from lps.settings import cli_args
from lps.store import inherited_files, titles
from lps.store.runs import Run
from lps.ui.pictures import nouns
from lps.ui.pictures.predictions import PredictionView
from lps.ui.server import page_visit, routing
from lps.ui.shared import data_table, escape, select
from lps.ui.shared.data_table import Column
from lps.wording import counted

_RULES = {"all": "All", "confident": "Confident", "looked-at": "Assigned by you"}
_STARTS = {"weights": "The trained model", "afresh": "The beginning"}
_ABOUT_LABELED = "Pictures that get this name as their label in the new run"
_ABOUT_MERGED = "Clusters that you merged into this one"
_KEEP, _DISSOLVE, _MERGE = "Keep as novel class", "Not a class", "Merge into"
_VISIT = "train_on_visit"
_ASKED = "continue"  # in the address, then in the session: the dialog opens at once


def follow_link() -> None:
    """Open the dialog when the page is drawn if the link that opened the page says so."""
    if page_visit.take_from_link(_ASKED):
        st.session_state[_ASKED] = True


def show_training_on(view: PredictionView, entries: Sequence[Mapping]) -> None:
    """Show the bar that leads from names to the next run; it stays in sight while the user names clusters."""
    if view.run.is_recorded:
        return
    is_asked = st.session_state.pop(_ASKED, False)
    unnamed = continued_training.without_name(view.ids.tolist(), view.defaults, view.decisions)
    unnamed_count = sum(c.size > 0 and c.id in unnamed and c.id not in view.decisions.rejected for c in view.clusters)
    with st.bottom, st.container(horizontal=True, gap="small", vertical_alignment="center"):
        is_ready = not view.decisions.gives_no_label
        rejected = view.decisions.rejected & set(view.ids.tolist())
        counts = [f"{counted(len(view.named_ids), 'cluster')} with a name", f"{unnamed_count} without"]
        counts += [f"{len(rejected)} marked as not a class"] * bool(rejected)
        for ids, noun in ((view.decisions.parents, "merged cluster"), (view.decisions.confirmed, "assigned picture")):
            counts += [counted(len(ids), noun)] * bool(ids)
        classless = len(view.decisions.classless_images)
        counts += [f"{classless:,} none of these"] * bool(classless)
        say = nouns.of(view.run)
        st.markdown(f":small[{say(', '.join(counts) if is_ready else continued_training.FIRST_STEP)}]", width="stretch")
        continuing = _newest_continuing_run(view)
        if continuing:
            icon, address = ":material/arrow_forward:", {"run": continuing.run.id}
            label = f"Continued by: {escape.markdown(titles.run_title(continuing.run))}"
            st.page_link("pages/live.py", label=label, icon=icon, query_params=address)
        is_new = _gives_labels(view) and not (continuing and _knows_decisions(continuing, view, entries))
        is_pressed = st.button(
            "Train again with these names",
            key="train_on",
            type="primary" if is_new else "secondary",
            icon=":material/model_training:",
            disabled=not is_ready,
            help="Starts a new run that also uses the names of your clusters as labels.",
        )
    if is_pressed or is_asked and is_ready:
        st.session_state[_VISIT] = secrets.token_hex(8)
        _ask_next_run(view)


def _newest_continuing_run(view: PredictionView) -> RunRow | None:
    """Return the newest run that continues this one and has not failed."""
    rows = [row for row in run_index.read_rows(select.own_runs()) if row.state.name not in ("failed", "crashed")]
    parents = run_index.parents_of(rows)
    return next((row for row in rows if parents.get(row.run.id) == view.run.id), None)


def _knows_decisions(continuing: RunRow, view: PredictionView, entries: Sequence[Mapping]) -> bool:
    """Return whether the decisions at this epoch were the same when the continuing run was created."""
    confirmed = inherited_files.read_confirmed_or_none(continuing.run)
    earlier = [entry for entry in entries if int(entry.get("time", 0)) <= (continuing.launched or 0)]
    is_same_epoch = confirmed is not None and confirmed.epoch == view.epoch
    return is_same_epoch and naming.naming_of_epoch(earlier, view.epoch) == view.decisions


def _gives_labels(view: PredictionView) -> bool:
    """Return whether a picture can get a new label: it is in a named cluster, or was put in a seen class."""
    decisions = view.decisions
    in_named = np.isin(view.assigned, [*view.named_ids])
    in_seen = np.isin(view.assigned, [*(view.defaults.keys() - decisions.rejected)])
    is_put_there = (view.assigned != view.network.predicted) | np.isin(view.split.unlabeled, [*decisions.confirmed])
    is_usable = ~np.isin(view.split.unlabeled, [*decisions.unlabeled, *view.split.validation])
    return bool(((in_named | in_seen & is_put_there) & is_usable).any())


@st.dialog("Train again with these names", width="medium")
def _ask_next_run(view: PredictionView) -> None:
    """Show the dialog: which pictures become labeled, what happens to unnamed clusters, start weights, preview."""
    run, epoch, say = view.run, view.epoch, nouns.of(view.run)
    left_column, right_column = st.columns(2, gap="medium")
    rule = left_column.segmented_control(
        say("Which pictures get the name of their cluster as label"),
        list(_RULES),
        format_func=_RULES.get,
        key="train_on_labels",
        default="confident",
        required=True,
    )
    start = right_column.segmented_control(
        "Start from",
        list(_STARTS),
        format_func=_STARTS.get,
        key="train_on_start",
        default="weights",
        required=True,
        help="From the beginning, the new run trains as this run did, and forgets what this run has learned.",
    )
    left_column.caption(say(f"{continued_training.RULES[rule].capitalize()}."))
    threshold = continued_training.CONFIDENCE
    if rule == "confident":
        percent = st.slider("Minimum confidence, %", 0, 100, round(100 * threshold), key="train_on_confidence")
        threshold = percent / 100
    unnamed = _ask_unnamed(view)
    options = {"rule": rule, "threshold": threshold, "from_weights": start == "weights", "unnamed": unnamed}
    try:
        planned = continued_training.plan_continued_training(run, epoch, **options)
    except UserError as error:
        st.warning(escape.sentence(error), icon=":material/block:")
        st.button("Start", disabled=True, icon=":material/play_arrow:", key="train_on_go")
        return
    _show_named(view, planned)
    st.markdown(escape.markdown(planned.classes_in_words))
    settings = f"Settings of the new run: {', '.join(cli_args.format_settings(planned.switched_off))}."
    for notice_text in planned.notices():
        help_text = settings if notice_text == planned.without_terms else None
        st.caption(escape.markdown(notice_text), help=help_text)
    if not any(target is not None for target in unnamed.values()):  # the command merges by `lps name`
        with st.expander("The same on the command line"):
            st.code(_train_on_command(run, epoch, rule, threshold, start, list(unnamed)), "bash", wrap_lines=True)
    with st.container(key="train_on_bar", gap="small"):  # page.css keeps it in sight at the lower edge
        st.markdown(f"**{escape.markdown(planned.in_words())}.**")
        if st.button("Start", type="primary", icon=":material/play_arrow:", key="train_on_go"):
            _start_run(planned)


def _show_named(view: PredictionView, planned: TrainingPlan) -> None:
    """Show how many pictures each class with new labels gets, and a warning if a named cluster looks mixed."""
    labeled = {name.casefold(): count for name, count in planned.labeled.items()}
    shown = [
        c
        for c in view.clusters
        if c.id not in view.decisions.rejected
        and (c.id in view.decisions.names or view.name(c.id).casefold() in labeled)
    ]
    shown.sort(key=lambda c: c.id not in view.decisions.names)
    if mixed := [view.name(c.id) for c in shown if c.id in view.decisions.names and "mixed" in c.flags]:
        verb = "looks" if len(mixed) == 1 else "look"
        sentence = f"{', '.join(mixed)} {verb} mixed: the new run would learn several classes under one name. "
        st.warning(escape.markdown(f"{sentence}Close this window and split the cluster, or remove its name."))
    say = nouns.of(view.run)
    columns = [
        Column("Name", lambda c: view.name(c.id)),
        Column(
            "Get the label", lambda c: labeled.get(view.name(c.id).casefold(), 0), "number", help=say(_ABOUT_LABELED)
        ),
        Column(say("Pictures"), lambda c: c.size, "number", help=say("Pictures of the cluster that have no label")),
        Column(
            "Merged in", lambda c: ", ".join(map(str, view.decisions.parts(c.id))), help=_ABOUT_MERGED, optional=True
        ),
        Column("Flags", lambda c: ", ".join(FLAGS[flag].text for flag in c.flags), optional=True),
    ]
    alt = say("For each name, the number of pictures that get it as label")
    data_table.show_data_table(columns, shown, alt, max_rows=6)
    st.caption(say("A cluster without a flag can still be mixed: look at its pictures."))


def _ask_unnamed(view: PredictionView) -> dict[int, int | None]:
    """Return what happens to the clusters without a name, see `continued_training.plan_continued_training`.

    By default, those that look mixed are not a class of the new run: trained as one class, a cluster of leftovers grows
    and the model becomes confident of it.
    """
    unnamed_ids = continued_training.without_name(view.ids.tolist(), view.defaults, view.decisions)
    unnamed = [c for c in view.clusters if c.id in unnamed_ids and c.size]
    if not unnamed:
        return {}
    say = nouns.of(view.run)
    named = [
        c.id
        for c in view.clusters
        if c.id not in {other.id for other in unnamed} and c.id not in view.decisions.rejected
    ]
    targets = {f"{_MERGE} {view.title(cluster)}": cluster for cluster in named}
    table = pd.DataFrame(
        {
            "Cluster": [str(c.id) for c in unnamed],
            say("Pictures"): [c.size for c in unnamed],
            "Mixed": ["yes" if "mixed" in c.flags else "" for c in unnamed],
            "In the new run": [_default_fate(view, c) for c in unnamed],
        }
    )
    st.markdown("Clusters without a name")
    answers = st.data_editor(
        table,
        hide_index=True,
        width="stretch",
        disabled=["Cluster", say("Pictures"), "Mixed"],
        column_config={
            "In the new run": st.column_config.SelectboxColumn(options=[_KEEP, _DISSOLVE, *targets], required=True)
        },
        key=f"train_on_unnamed_{view.run.id}_{view.epoch}",
    )["In the new run"]
    st.caption(
        say(
            "If a cluster is not a class, its pictures stay unlabeled and can join any class. This is the default for "
            "clusters that look mixed or that you marked as not a class."
        )
    )
    return {c.id: targets.get(answer) for c, answer in zip(unnamed, answers) if answer != _KEEP}


def _default_fate(view: PredictionView, cluster: Cluster) -> str:
    return _DISSOLVE if "mixed" in cluster.flags or cluster.id in view.decisions.rejected else _KEEP


def _start_run(planned: TrainingPlan) -> None:
    """Start the run once per opened dialog and turn to it, or show why that is not possible."""
    try:
        submit.check_configs([planned.config], check_start=start_check.check_start_in_subprocess)
        run = continued_training.start_continued_training(planned, select.runs_root(), token=st.session_state[_VISIT])
    except (UserError, OSError) as error:
        st.error(escape.sentence(error), icon=":material/error:")
    else:
        routing.turn_to("live", run=run.id)


def _train_on_command(run: Run, epoch: int, rule: str, threshold: float, start: str, dissolve: list[int]) -> str:
    confidence = f"{threshold:g}" if rule == "confident" else None
    options = {
        "labels": rule,
        "confidence": confidence,
        "afresh": start == "afresh",
        "dissolve": list(map(str, dissolve)),
    }
    return cli_args.format_command("train-on", titles.short_id(run.id), epoch=epoch, **options)
