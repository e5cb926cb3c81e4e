"""The pieces of the Compare page: which runs, scored how; their table, curves, settings; the table to take away.

Every choice stands in the page's address. What cannot be read is named and left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from lps import catalog, compare, paper
from lps.compare import Group, Scored
from lps.config import Config
from lps.files import looks
from lps.parameters import text_of
from lps.protocols import PROTOCOLS
from lps.runs import RUN_ID, Run
from lps.ui import charts, escape, select, style
from lps.ui.live import History, history
from lps.ui.plot import plot

MOST = 48  # runs that are compared without a choice: eleven methods with four seeds fit
SCORED_FILES = ("config.json", "split.npz", "events.jsonl", "exit.json", "snapshots")  # what a score depends on
PROTOCOL_WORDS = {
    "orca": "ORCA, the default",
    "gcd_v1": "GCD v1",
    "gcd_v2": "GCD v2",
    "gcd_v2_balanced": "GCD v2, balanced",
    "strict": "Strict (TRSSL, OpenLDN)",
}
SEEN_WORDS = {"default": "By method", "raw": "Raw", "matched": "Matched"}
SELECT_WORDS = {"last": "Last", "validation": "Validation best", "oracle": "Oracle best"}
IMAGES_WORDS = {"unlabeled": "Unlabeled", "test": "Test"}
BAND_WORDS = {"range": "Min to max", "std": "± std", "none": "None"}
EVERYTHING = "everything"
MEASURES = {
    "accuracy/novel": "Novel accuracy",
    "accuracy/seen": "Seen accuracy",
    "accuracy/all": "Accuracy on all",
    "accuracy/gap": "Gap, seen minus novel",
    "accuracy/conflict": "Conflict of the matchings",
    "nmi/novel": "NMI of novel images",
    "nmi/all": "NMI of all images",
    "kl": "KL of the estimated class distribution",
}
FRACTIONS = ("accuracy/", "nmi/", "ari/", "pseudo_label/", "threshold/")
HEADS = {
    "seen": ("Seen", "Accuracy on images of seen classes, percent. *: after matching ids to classes"),
    "novel": ("Novel", "Accuracy on images of novel classes after their best matching, percent"),
    "all": ("All", "Accuracy on all unlabeled images with one matching, percent"),
    "nmi": ("NMI", "Normalized mutual information on images of novel classes, percent"),
    "gap": ("Gap", "Seen minus novel, points"),
    "conflict": ("Conflict", "Weighted mean of seen and novel minus all, points: what the matchings disagree about"),
    "time": ("Time, s", "Seconds of training and evaluation, without pretraining"),
}
FILES = {"latex": ("LaTeX", "tex"), "markdown": ("Markdown", "md"), "csv": ("CSV", "csv")}


@dataclass(frozen=True)
class Scoring:
    """How predictions become numbers: the words of `compare.score_run`."""

    protocol: str
    select: str
    seen: str
    images: str = "unlabeled"


# ---------------------------------------------------------------------------------------------------- choices


def pick_runs(runs: list[Run]) -> list[Run]:
    """A box for any number of runs; empty means `usual_choice`."""
    by_id = {run.id: run for run in runs}
    states = {run.id: run.state().name for run in runs}
    usual = usual_choice(runs, states)
    chosen = select.picked(runs)
    select.agree("compared_runs", [run.id for run in chosen])
    about = f"The {len(usual)} newest finished runs of one split" if len(usual) > 1 else "The one finished run"
    with st.container(horizontal=True, gap="small"):
        st.multiselect(
            "Runs",
            list(by_id),
            format_func=lambda name: f"{select.label(by_id[name])} · {states[name]}",
            key="compared_runs",
            on_change=_remember_runs,
            placeholder=f"{about}. Choose by name or state to compare others" if usual else "Choose runs",
            label_visibility="collapsed",
        )
        st.button("", icon=":material/refresh:", key="refresh", help="Read the runs again")
    return chosen or usual


def usual_choice(runs: list[Run], states: dict[str, str]) -> list[Run]:
    """The finished runs that have the split settings of the newest finished one: whole groups, at most `MOST` runs."""
    finished = select.comparable([run for run in runs if states[run.id] == "finished"])
    settings = {run: config.flat() for run in finished if (config := run.config_if_readable())}
    groups: dict[str, list[Run]] = {}
    for run, flat in settings.items():
        if _split_settings(flat) == _split_settings(next(iter(settings.values()))):
            alike = {key: value for key, value in flat.items() if key not in compare.REPEATED}
            groups.setdefault(str(alike), []).append(run)
    chosen: list[Run] = []
    for group in groups.values():
        if not chosen or len(chosen) + len(group) <= MOST:
            chosen += group[:MOST]
    return chosen


def _split_settings(flat: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in flat.items() if key.startswith(("dataset", "split."))}


def pick_scoring() -> Scoring:
    """Protocol, images, epoch and kind of seen accuracy, with what the protocol means."""
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        protocol = select.choose(st.selectbox, "protocol", "Protocol", PROTOCOL_WORDS, width=240)
        images = select.choose(
            st.segmented_control,
            "images",
            "Images",
            IMAGES_WORDS,
            required=True,
            help="Unlabeled: those of the training images, as in the papers. Test: images that no model has trained on",
        )
        chosen = select.choose(st.segmented_control, "select", "Epoch", SELECT_WORDS, required=True)
        defined = protocol.startswith("gcd")
        why = "This protocol defines it: matched" if defined else "Raw: ids agree with classes. Matched: best matching"
        seen = select.choose(
            st.segmented_control, "seen", "Seen accuracy", SEEN_WORDS, required=True, disabled=defined, help=why
        )
    said = [f"{PROTOCOLS[protocol]}."[:1].upper() + f"{PROTOCOLS[protocol]}."[1:]]
    if chosen == "oracle":
        said.append(":orange[An oracle chose the epoch: best accuracy on truth that nobody has in use.]")
    if chosen == "validation":
        said.append("The epoch is the best on labeled images whose label was withheld from training.")
    st.caption(" ".join(said))
    return Scoring(protocol, chosen, seen, images)


def _remember_runs() -> None:
    st.query_params["run"] = st.session_state["compared_runs"]


# ---------------------------------------------------------------------------------------------------- scores


def score_all(runs: Sequence[Run], scoring: Scoring) -> tuple[list[Scored], list[tuple[Run, str]]]:
    """(the runs that have scores, the others with the reason)."""
    return compare.score_all(runs, scorer=lambda run: _scored(str(run.folder), _stamp(run), scoring))


@st.cache_resource(max_entries=2048, show_spinner="Scoring the stored predictions")
def _scored(folder: str, stamp: tuple, scoring: Scoring) -> Scored:
    """One run's scores while its files are those of `stamp`."""
    return compare.score_run(Run(Path(folder)), scoring.protocol, scoring.select, scoring.seen, scoring.images)


def _stamp(run: Run) -> tuple:
    """Changes when one of the files does from which the scores follow."""
    return tuple(looks(run.folder / name) for name in SCORED_FILES)


def show_left_out(left_out: Sequence[tuple[Run, str]]) -> None:
    """The runs that are not in the comparison, and why."""
    if not left_out:
        return
    words = f"{_count(len(left_out), 'run')} {'is' if len(left_out) == 1 else 'are'} left out"
    with st.expander(words, icon=":material/visibility_off:", expanded=len(left_out) <= 3):
        lines = [f"**{escape.markdown(select.label(run))}** · {escape.markdown(why)}" for run, why in left_out]
        st.caption("  \n".join(lines))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sorted_groups(scored: Sequence[Scored]) -> list[Group]:
    """Groups of runs that differ in their seed alone, the best in accuracy on all first."""
    return sorted(compare.group_runs(scored), key=lambda group: -np.nan_to_num(group.mean("all"), nan=-1))


# ---------------------------------------------------------------------------------------------------- table


def show_table(groups: list[Group]) -> None:
    """One row a group, what has to be said about it, and every single run behind it."""
    helps = {head: st.column_config.Column(help=words) for head, words in HEADS.values()}
    words = "Method, and what tells it from the other rows"
    helps["Group"] = st.column_config.TextColumn(pinned=True, width=_width(groups), help=words)
    helps["n"] = st.column_config.NumberColumn(
        width=40, help="Runs: one a seed, the newest finished one where it was run again"
    )
    words = "Seen / novel / all of the same experiment in the LPS paper. †: its arithmetic is in doubt"
    helps["Paper"] = st.column_config.TextColumn(help=words)
    alt = "Mean and standard deviation of every group of runs"
    st.dataframe(styled(groups), width="stretch", height="content", hide_index=True, column_config=helps, alt=alt)
    said = [escape.markdown(note[:1].upper() + note[1:] + ".") for note in compare.notes(groups, scoring=False)]
    runs = _count(sum(len(group.members) for group in groups), "run")
    several = any(len(group.members) > 1 for group in groups)
    spread = "mean ± sample standard deviation over n seeds" if several else "one run each, so no spread"
    bold = "; bold: best of a column" if compare.best(groups) else ""
    st.caption("  \n".join([f"{runs} in {_count(len(groups), 'group')}: {spread}{bold}.", *said]))


def _width(groups: Sequence[Group]) -> int:
    """Pixels for the labels, within reason."""
    return min(300, max(70, 24 + 7 * max(len(group.label) for group in groups)))


def styled(groups: list[Group]):
    """The table of numbers that are shown as "mean ± std" and sorted as numbers; the best of a column is bold."""
    table = pd.DataFrame(_row(group) for group in groups)
    look = table.style
    winners = compare.best(groups)
    for row, group in enumerate(groups):
        for column, (head, _) in HEADS.items():
            here = pd.IndexSlice[row, [head]]
            look = look.format(partial(_always, compare.cell(group, column)), subset=here)
            if (row, column) in winners:
                look = look.set_properties(here, **{"font-weight": "650"})
    return look


def _always(text: str, _value: float) -> str:
    """A formatter that knows its cell's text."""
    return text


def _row(group: Group) -> dict[str, object]:
    scale = {column: 1 if column == "time" else 100 for column in HEADS}
    numbers = {head: group.mean(column) * scale[column] for column, (head, _) in HEADS.items()}
    return {"Group": group.label} | numbers | {"n": len(group.members), "Paper": compare.paper_cell(group)}


def show_runs(groups: list[Group]) -> None:
    """Every run of every group, with a link to its own page."""
    rows = [_run_row(group.label, member, "") for group in groups for member in group.members]
    rows += [
        _run_row(group.label, member, "another run of the seed counts") for group in groups for member in group.replaced
    ]
    with st.expander(f"Every run ({len(rows)})"):
        boxes = {head: st.column_config.NumberColumn(format="%.1f") for head, _ in HEADS.values()}
        boxes["Run"] = st.column_config.LinkColumn(display_text=r"run=(.*)$", help="Opens the run's own page")
        st.dataframe(pd.DataFrame(rows), width="stretch", hide_index=True, column_config=boxes)


def _run_row(label: str, member: Scored, standing: str) -> dict[str, object]:
    about = {"Run": f"live?run={member.run.id}", "Group": label, "Seed": member.config.seed, "Epoch": member.epoch}
    numbers = {head: round(member.value(c) * (1 if c == "time" else 100), 4) + 0.0 for c, (head, _) in HEADS.items()}
    state = standing or ("" if member.is_complete else "did not reach its end")
    return about | numbers | {"Remark": state}


# ---------------------------------------------------------------------------------------------------- curves


def show_curves(scored: Sequence[Scored]) -> None:
    """One measurement over the epochs: the mean of every group and its band."""
    st.subheader("Curves", anchor=False)
    histories = {member.run.id: history(member.run) for member in scored}
    measures = measurements(list(histories.values()))
    if not measures:
        st.caption("No run has recorded a measurement.")
        return
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        name = select.choose(st.selectbox, "curve", "Measurement", measures, width=270)
        by = select.choose(st.selectbox, "by", "One curve for each", groupings([m.config for m in scored]), width=230)
        band = select.choose(st.segmented_control, "band", "Band", BAND_WORDS, required=True)
    members = curve_groups(scored, by)
    tables = {label: curve_table([histories[m.run.id] for m in own], name, band) for label, own in members.items()}
    curves = [charts.GroupCurve(label, table) for label, table in tables.items() if len(table)]
    if curves:
        epochs = max(int(curve.table.index[-1]) for curve in curves)
        figure = charts.curves_of_groups(curves, epochs, tick_format(name, curves), style.palette())
        figure.update_layout(uirevision=f"{name} {by} {' '.join(histories)}")
        plot(figure, "curves_of_groups", f"{measures[name]} of {len(curves)} groups of runs over the epochs")
    st.caption(" ".join(_about_curves(name, members, tables, band)))


def measurements(histories: Sequence[History]) -> dict[str, str]:
    """What at least one run has recorded by epoch: name -> words, the usual ones first."""
    found = {name for past in histories for name in past.epochs if past.epochs[name].notna().any()}
    others = sorted(found - set(MEASURES) - {"eta_s"})
    words = {name: name.replace("_", " ").replace("/", ", ") for name in others}
    return {name: text for name, text in MEASURES.items() if name in found} | {
        name: text[:1].upper() + text[1:] for name, text in words.items()
    }


def groupings(configs: Sequence[Config]) -> dict[str, str]:
    """What curves can be averaged by: everything but the seed, the method, or one of the settings that differ."""
    keys = [key for key in compare.differences(configs) if key != "method"]
    return {EVERYTHING: "Everything but the seed", "method": "Method"} | {key: key for key in keys}


def curve_groups(scored: Sequence[Scored], by: str) -> dict[str, tuple[Scored, ...]]:
    """The runs of every curve by label: one a seed and setting, never of two splits."""
    if by == EVERYTHING:
        return {group.label: group.members for group in sorted_groups(scored)}
    found: dict[tuple[str, str], list[Scored]] = {}
    for member in scored:
        found.setdefault((_value_words(member.config, by), member.split), []).append(member)
    words = _split_words(scored, without=by)
    kept = {key: compare.newest_of_seeds(members)[0] for key, members in found.items()}
    return {", ".join(filter(None, [value, words[split]])): kept[value, split] for value, split in sorted(kept)}


def _value_words(config: Config, by: str) -> str:
    if by == "method":
        return catalog.method_info(config.method).title
    flat = config.flat()
    return compare.setting_in_words(by, flat[by]) if by in flat else f"no {by}"


def _split_words(scored: Sequence[Scored], without: str) -> dict[str, str]:
    """What tells each split from the others, nothing where there is one; `without` is said already."""
    first = {member.split: member.config for member in reversed(scored)}
    if len(first) == 1:
        return dict.fromkeys(first, "")
    keys = [key for key in compare.differences(list(first.values())) if key.startswith(("dataset", "split."))]
    words = {
        split: {key: compare.setting_in_words(key, config.flat()[key]) for key in keys}
        for split, config in first.items()
    }
    told = list(words.values())
    return {
        split: ", ".join(
            [text for key, text in own.items() if key != without] + [f"split {split}"] * (told.count(own) > 1)
        )
        for split, own in words.items()
    }


def curve_table(histories: Sequence[History], name: str, band: str) -> pd.DataFrame:
    """mean, low, high and count of runs by epoch, over the runs that have recorded the epoch; nothing in between.

    low and high are NaN where fewer than two runs are, and everywhere for the band "none".
    """
    values = pd.concat([past.column(name) for past in histories], axis=1).sort_index()
    mean, count = values.mean(axis=1), values.count(axis=1)
    if band == "range":
        low, high = values.min(axis=1), values.max(axis=1)
    else:
        spread = values.std(axis=1, ddof=1) if band == "std" else np.nan
        low, high = mean - spread, mean + spread
    table = pd.DataFrame({"mean": mean, "low": low.where(count > 1), "high": high.where(count > 1), "count": count})
    return table[table["count"] > 0]


def tick_format(name: str, curves: Sequence[charts.GroupCurve]) -> str:
    """Percent for fractions, with a digit more where the curves lie within a few points."""
    if not name.startswith(FRACTIONS):
        return ""
    values = pd.concat([curve.table[["mean", "low", "high"]] for curve in curves])
    span = float(np.nanmax(values.to_numpy()) - np.nanmin(values.to_numpy()))
    return ".0%" if span > 0.05 else ".1%"


def _about_curves(name: str, members: dict, tables: dict[str, pd.DataFrame], band: str) -> list[str]:
    """What the lines and bands are, and where they are not what they seem."""
    words = {"range": "The band goes from the lowest to the highest.", "std": "The band is ± one standard deviation."}
    said = ["Each line is the mean of n runs at each epoch.", words.get(band, "")]
    if name.startswith(("accuracy/", "nmi/", "ari/")):
        said.append("As recorded while training: protocol orca, seen accuracy by method.")
    pooled = [label for label, own in members.items() if len({compare.identity(member) for member in own}) > 1]
    if pooled:
        said.append(f"Different settings are averaged in {escape.markdown(' · '.join(pooled))}.")
    silent = [label for label, table in tables.items() if not len(table)]
    if silent:
        said.append(f"Not recorded by {escape.markdown(' · '.join(silent))}.")
    fewer = [label for label, table in tables.items() if len(table) and table["count"].min() < len(members[label])]
    if fewer:
        said.append(f"Not every epoch has all runs of {escape.markdown(' · '.join(fewer))}.")
    return list(filter(None, said))


# ---------------------------------------------------------------------------------------------------- settings


def show_differences(groups: list[Group]) -> None:
    """The settings in which the groups differ, and no others."""
    st.subheader("Settings that differ", anchor=False)
    if len(groups) == 1:
        st.caption("There is one group: its runs differ in nothing but the seed.")
        return
    table = settings_table(groups)
    boxes = {"Group": st.column_config.TextColumn(pinned=True, width=_width(groups))}
    st.dataframe(table, width="stretch", height="content", hide_index=True, column_config=boxes)
    st.caption("A setting that only some methods have is listed where a run has changed it.")


def settings_table(groups: Sequence[Group]) -> pd.DataFrame:
    """One row a group, one column a setting that differs; "–" where a method does not have it."""
    keys = [key for key in compare.differences([group.config for group in groups]) if key != "method"]
    rows = []
    for group in groups:
        flat = group.config.flat()
        seeds = ", ".join(str(member.config.seed) for member in group.members)
        values = {key: text_of(flat[key]) if key in flat else "–" for key in keys}
        rows.append({"Group": group.label} | values | {"seeds": seeds})
    return pd.DataFrame(rows)


# ---------------------------------------------------------------------------------------------------- to take away


def show_downloads(groups: list[Group]) -> None:
    """The table as a file of each form."""
    with st.container(horizontal=True, gap="small"):
        for form, (word, ending) in FILES.items():
            st.download_button(
                f"Download {word}",
                compare.table(groups, form),
                file_name=f"comparison.{ending}",
                mime="text/csv" if form == "csv" else "text/plain",
                key=f"download_{form}",
                on_click="ignore",
                icon=":material/download:",
            )


def show_texts(groups: list[Group], scoring: Scoring) -> None:
    """The table in each form, and the command that prints it, to copy."""
    st.subheader("To copy", anchor=False)
    for tab, form in zip(st.tabs([word for word, _ in FILES.values()]), FILES):
        text = compare.table(groups, form)
        tab.code(text, language=None, height=min(360, 60 + 21 * text.count("\n")))
    st.caption("The same on the command line")
    st.code(command(groups, scoring), language="bash", wrap_lines=True)


def command(groups: Sequence[Group], scoring: Scoring) -> str:
    """The command that prints this table."""
    ids = [member.run.id for group in groups for member in (*group.members, *group.replaced)]
    words = ["python -m lps compare", *(name[-6:] if RUN_ID.fullmatch(name) else name for name in ids)]
    for name in ("protocol", "images", "select", "seen"):
        if getattr(scoring, name) not in ("orca", "unlabeled", "last", "default"):
            words.append(f"--{name} {getattr(scoring, name)}")
    return " ".join([*words, "--format latex"])


def show_published() -> None:
    """Table 1 of the paper with what speaks against its numbers."""
    with st.expander("What the paper reports"):
        boxes = {head: st.column_config.NumberColumn(format="%.1f") for head in ("Seen", "Novel", "All")}
        st.dataframe(published(), width="stretch", hide_index=True, column_config=boxes)
        st.caption(
            "Table 1 of the LPS paper, means of three runs. Where seen accuracy is matched, All cannot exceed the "
            "weighted mean of seen and novel; the last column says where it does."
        )


def published() -> pd.DataFrame:
    """Table 1, one row a line, doubtful ones first."""
    rows = [row for row in paper.rows() if row.table == "table1_main"]
    table = pd.DataFrame(
        {
            "Data set": row.dataset,
            "Labels": f"{100 * row.labeled_ratio:g} %",
            "Method": row.method,
            "Seen": row.seen,
            "Novel": row.novel,
            "All": row.all,
            "In doubt": "; ".join(paper.doubts(row)),
        }
        for row in rows
    )
    return table.sort_values("In doubt", key=lambda doubts: doubts == "", kind="stable", ignore_index=True)
