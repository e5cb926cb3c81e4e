"""The Runs page: none, one of each, hundreds; what is found, what is chosen, what is done with it, what is noticed."""

import os
import re
import shutil
import time
from pathlib import Path

import pytest

import lps
from lps.analysis import naming, run_index
from lps.errors import UserError
from lps.files import folder_cache
from lps.files.atomic import write_json
from lps.inference import continued_training
from lps.scheduler import failures, launcher
from lps.scores.protocols import ABOUT_LOW_ALL
from lps.store.run_folders import delete_run, deleted_runs, list_runs, recorded_runs
from lps.store.runs import RECORDED_FILE, Run
from lps.tables import grouping, run_names
from lps.tables.run_names import Vocabulary
from lps.ui.runs import grouped_rows, run_filters, table
from lps.ui.runs.run_filters import RunFilters
from lps.ui.server import run_toasts
from lps.ui.shared import data_table
from tests import sample_runs
from tests.shares import in_turn
from tests.visiting import PAGES, visit, words_of

COUNTED = "runs epochs images classes clusters groups trials threads files points seeds exist".split()
RECORDED = Path(lps.__file__).parent / "recorded"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty folder of runs; no process is started."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def recordings(monkeypatch):
    """Those that come with the program, which tests of pages do not see by themselves (conftest.py)."""
    monkeypatch.setattr("lps.store.run_folders.RECORDED", RECORDED)
    return recorded_runs()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs that tests copy, since making one takes longer than copying it."""
    root = tmp_path_factory.mktemp("made")
    return {
        "finished": sample_runs.make_run(root, "finished", name="LPS, defaults"),
        "unlucky": sample_runs.make_run(
            root, "finished", name="swallowed", settings={"use_margin": False}, lucky=False
        ),
        "failed": sample_runs.make_run(root, "failed"),
        "stopped": sample_runs.make_run(root, "stopped", seed=3),
    }


@pytest.fixture
def runs_by_name(root, made):
    """A copy of each of `made` among the runs."""
    return {name: copy(run, root) for name, run in made.items()}


def copy(run: Run, root) -> Run:
    return Run(shutil.copytree(run.folder, root / run.id))


def shown(at) -> list[str]:
    """Names in the table, from top to bottom."""
    return [name for name in (at.dataframe[0].value["Name"] if len(at.dataframe) else [])]


def buttons(at) -> list[str]:
    return [button.label for button in at.button if (button.key or "").startswith("runs_")]


def texts(at) -> str:
    return "\n".join(element.value for element in [*at.markdown, *at.caption, *at.text])


def test_without_runs_it_says_what_to_do_and_shows_the_recordings(root, monkeypatch):
    at = visit("runs")
    assert at.info[0].value == "There are no runs of your own yet." and not len(at.dataframe)
    monkeypatch.setattr("lps.store.run_folders.RECORDED", RECORDED)
    at = visit("runs")
    assert "There are no runs of your own yet; the ones below are recordings." in at.info[0].value
    assert sorted(shown(at)) == sorted(run.meta()["name"] for run in recorded_runs())


@pytest.mark.slow
def test_the_table_says_what_the_records_say(root, runs_by_name, recordings):
    table = visit("runs").dataframe[0].value.set_index("Name")
    row = table.loc["LPS, defaults"]
    last = run_index.read_recent(runs_by_name["finished"].events).newest_values
    for head, name in (("Seen", "accuracy/seen"), ("Novel", "accuracy/novel"), ("All", "accuracy/all")):
        assert row[head] == pytest.approx(100 * last[name], abs=0.051)
    assert row["Gap"] == pytest.approx(row["Seen"] - row["Novel"], abs=0.11)
    heads = ["Epochs", "Planned epochs", "Method", "Data set", "Seed"]
    assert row[heads].tolist() == [20, 20, "LPS", "digits", 0]
    assert list(row["State"]) == ["Finished"] and list(row["Alarms"]) == []
    failed = table.loc["LPS, epochs=20 on digits, seed 0"]
    assert list(failed["State"]) == ["Failed"] and list(failed["Alarms"]) == []
    assert list(table.loc["LPS without entropy"]["State"]) == ["Recorded"]


@pytest.mark.parametrize(
    "by, low, is_own",
    [((), True, True), ((), False, True), (("method",), True, True), ((), True, False), (("method",), True, False)],
)
def test_all_below_seen_and_novel_is_explained_where_a_row_of_an_own_run_shows_it(root, by, low, is_own):
    numbers = {"accuracy/seen": 0.6, "accuracy/novel": 0.5, "accuracy/all": 0.4 if low else 0.55}
    run = sample_runs.make_run(root, epochs=2)
    sample_runs.rewritten(run, lambda _, values: values | {key: numbers[key] for key in numbers if key in values})
    if not is_own:
        (run.folder / RECORDED_FILE).write_text("{}")
    at = visit("runs", by=list(by))
    assert [caption.value for caption in at.caption].count(f"{ABOUT_LOW_ALL}.") == (low and is_own)
    assert ABOUT_LOW_ALL in table.make_column(Vocabulary().find("accuracy/all"), [], [], False).config["help"]


@pytest.mark.parametrize("length, width", [(20, 152), (26, 190), (44, 190)])
def test_a_column_of_names_leaves_room_for_two_scores_but_cuts_no_two_names_alike(length, width):
    assert data_table.label_width(["a" * length, "b" * length]) == width
    assert data_table.label_width(["a" * 44 + "1", "a" * 44 + "2"]) == 312 and data_table.label_width([]) == 70


def test_the_column_of_names_explains_the_symbols_of_sweeps(root):
    named = sample_runs.make_run(root, name="margin_scale=10, lps seed 0")
    entry = run_index.read_run_row(named)
    assert "C=10" in table.name_of(entry)
    column = table.make_column(run_names.FIELDS["name"], [entry], [table.name_of(entry)], True)
    assert "C = margin_scale" in column.config["help"]


@pytest.mark.slow
def test_every_state_has_a_row_and_nothing_breaks(root, recordings):
    runs = sample_runs.make_one_of_each(root)
    with sample_runs.held(*(runs[name] for name in sample_runs.ALIVE)):
        table = visit("runs").dataframe[0].value
    states = {state for row in table["State"] for state in row}
    assert states >= {"Queued", "Starting", "Running", "Stopping", "Finished", "Stopped", "Failed", "Crashed"}
    assert {"Unreadable", "Recorded"} <= states and len(table) == len(runs) + len(recordings)


def test_filters_and_search_are_in_the_address(root, runs_by_name, recordings):
    assert shown(visit("runs", find="swallowed")) == ["swallowed"]
    assert shown(visit("runs", states=["stopped"])) == ["LPS, epochs=20 on digits, seed 3"]
    assert shown(visit("runs", methods=["orca"])) == ["ORCA"]
    at = visit("runs", find="no such run")
    assert at.info[0].value.startswith("No runs match") and not len(at.dataframe)
    at = visit("runs", find="lrr>0.1 and method=lps")
    assert "'lrr' at position 1" in at.error[0].value.replace("\\", "") and len(shown(at)) > len(runs_by_name)
    runs_by_name["unlucky"].write_meta(tags=["bad", "look"])
    assert shown(visit("runs", tags=["look"])) == ["swallowed"]


def list_of(at, parameter) -> list[str]:
    """What the address says of it: an `AppTest` gives one value by itself."""
    found = at.query_params[parameter]
    return [found] if isinstance(found, str) else found


def heads(at, table=0) -> list[str]:
    return list(at.dataframe[table].value)


def test_settings_that_vary_are_columns_and_any_column_can_be_chosen_moved_and_pinned(root, runs_by_name):
    at = visit("runs")
    assert "Use margin" in heads(at) and heads(at).index("Use margin") < heads(at).index("Epochs")
    at.multiselect(key="shown_columns").set_value(["lr", "kl", "accuracy/novel"]).run()
    assert heads(at) == ["Name", "Learning rate", "KL", "Novel"]
    assert list_of(at, "columns") == ["lr", "kl", "accuracy/novel"]
    at.selectbox(key="moved_column").set_value("kl").run()
    at.button(key="column_left").click().run()
    at.button(key="column_pin").click().run()
    assert heads(at) == ["Name", "KL", "Learning rate", "Novel"] and list_of(at, "pinned") == ["kl"]
    next(button for button in at.button if button.label == "Default columns").click().run()
    assert "State" in heads(at) and "columns" not in at.query_params and not at.exception
    at = visit("runs", columns=["no such", "novel", "seen", "novel - seen", "state - seen"])
    assert heads(at) == ["Name", "Novel", "Seen", "Novel − Seen"] and not at.exception
    rows = at.dataframe[0].value.dropna()
    assert len(rows) and list(rows["Novel − Seen"]) == pytest.approx(list(rows["Novel"] - rows["Seen"]), abs=0.1001)


def test_a_column_of_a_setting_has_its_label_and_says_its_key():
    assert run_filters.column_heading("split.num_novel") == "Novel classes"
    assert run_filters.column_heading("network.name") == "Network name"
    assert run_filters.column_heading("epochs") == "Planned epochs"
    assert run_filters.column_heading("pretrain.epochs") == "Pretrain epochs"
    assert run_filters.column_heading("memory/device_gb") == "Peak GPU memory, GB"
    assert run_filters.column_heading("accuracy/novel - accuracy/seen") == "Novel − Seen"
    vocabulary = Vocabulary()
    heads = [run_filters.column_heading(key) for key in vocabulary.settings]
    assert len(set(heads)) == len(heads)
    assert "(network.name)" in table.make_column(vocabulary.find("network.name"), [], [], False).config["help"]


def test_sorting_by_any_column(root, made):
    for name in ("unlucky", "stopped", "finished"):
        copy(made[name], root)
    assert shown(visit("runs", sort="-seed"))[0] == "LPS, epochs=20 on digits, seed 3"
    assert shown(visit("runs", sort="use_margin"))[0] == "swallowed"
    assert len(shown(visit("runs", sort="no such column"))) == 3


def test_a_view_is_kept_opened_and_deleted(root, runs_by_name):
    at = visit("runs", find="state=stopped", columns=["lr"])
    at.text_input(key="view_name").set_value("usual").run()
    at.button(key="keep_view").click().run()
    assert not at.exception and not at.error
    opened = visit("runs")
    assert shown(opened) == ["LPS, epochs=20 on digits, seed 3"] and heads(opened) == ["Name", "Learning rate"]
    opened.button(key="drop_usual").click().run()
    assert len(shown(visit("runs"))) == len(runs_by_name)


def grouped(root, made, **query):
    """Three runs, put together by whether they use the margin: false has one, true has two."""
    for name in ("unlucky", "finished", "stopped"):
        if not (root / made[name].id).exists():
            copy(made[name], root)
    return visit("runs", by=["use_margin"], columns=["accuracy/novel", "seed"], **query)


def rows_of(at) -> list[str]:
    """The names of groups and runs, from top to bottom."""
    return [name.strip() for name in at.dataframe[0].value["Group"]]


def group_ids(root) -> dict[str, str]:
    found = grouping.group_runs(
        [run_index.read_run_row(run) for run in list_runs(root)], [Vocabulary().find("use_margin")]
    )
    return {group.values[0]: group.id for group in found}


FALSE, TRUE = "use_margin=false", "use_margin=true"


def test_groups_have_mean_and_spread_and_are_held_against_one(root, made):
    at = grouped(root, made)
    groups = at.dataframe[0].value
    assert rows_of(at) == [f"► {FALSE}", f"► {TRUE}"]
    assert list(groups["n"]) == [1, 2] and list(groups["Finished"]) == [1, 1]
    novel = [
        100 * run_index.read_run_row(made[name]).measured.recent.number("accuracy/novel")
        for name in ("finished", "stopped")
    ]
    assert groups["Novel"][1] == pytest.approx(sum(novel) / 2, abs=0.06)
    assert groups["± Novel"][1] == pytest.approx(abs(novel[0] - novel[1]) / 2**0.5, abs=0.08)
    one = group_ids(root)["false"]
    ticked = grouped(root, made, group=[one])
    ticked.button(key="hold").click().run()
    assert list_of(ticked, "held") == [one] and "the baseline" in list(ticked.dataframe[0].value["Δ Novel"])


def test_a_group_opens_in_place_by_link_and_by_button_and_closes(root, made):
    at = grouped(root, made)
    ids = group_ids(root)
    inside = [f"► {FALSE}", f"▼ {TRUE}", "seed 3", "LPS, defaults"]
    at = grouped(root, made, open=[ids["true"]])
    table = at.dataframe[0].value
    assert rows_of(at) == inside and list(table["n"].fillna(0)) == [1, 2, 0, 0]
    assert list(table["Seed"].fillna(-1)) == [0, -1, 3, 0], "a group says what all its runs say"
    assert table["Novel"][1] == pytest.approx((table["Novel"][2] + table["Novel"][3]) / 2, abs=0.06)
    at.button(key="open_groups").click().run()
    assert rows_of(at) == [f"▼ {FALSE}", "swallowed", *inside[1:]] and set(list_of(at, "open")) == set(ids.values())
    at.button(key="open_groups").click().run()
    assert rows_of(at) == [f"► {FALSE}", f"► {TRUE}"] and not at.exception


def test_runs_of_groups_are_chosen_one_by_one_or_all_at_once(root, made):
    at = grouped(root, made)
    ids, one = group_ids(root), made["stopped"].id
    at = grouped(root, made, open=[ids["true"]], run=[one])
    assert "**1 chosen**" in texts(at) and "Resume" in buttons(at)
    at = grouped(root, made, group=[ids["true"]])
    assert "**2 chosen**" in texts(at) and buttons(at) == ["Tags", "Hide", "Resume 1", "Delete"]
    at.button(key="open_groups").click().run()
    assert list_of(at, "open") == [ids["true"]] and len(rows_of(at)) == 4 and "**2 chosen**" in texts(at)
    at.button(key="runs_delete").click().run()
    assert [run.id for run in list_runs(root)] == [made["unlucky"].id] and "group" not in at.query_params


def test_a_tick_at_a_group_is_for_all_its_runs():
    drawn = [("g", frozenset("ab")), ("g/a", frozenset("a")), ("g/b", frozenset("b")), ("h", frozenset("c"))]
    after = grouped_rows.update_choice
    assert after(drawn, set(), {"g"}, set()) == set("ab")
    assert after(drawn, {"g", "g/a", "g/b"}, {"g", "g/a"}, set("ab")) == set("a"), "one of them is taken back"
    assert after(drawn, {"g", "g/a", "g/b"}, {"g/a", "g/b"}, set("abc")) == set("c")
    assert after(drawn, set(), {"g/b"}, set("x")) == set("bx"), "what is chosen in closed groups stays"


def test_one_run_can_be_what_the_others_are_held_against(root, runs_by_name):
    at = visit("runs", run=[runs_by_name["finished"].id], columns=["accuracy/novel"])
    at.button(key="hold_run").click().run()
    table = at.dataframe[0].value.set_index("Name")
    assert table.loc["LPS, defaults", "Δ Novel"] == 0
    difference = table.loc["swallowed", "Novel"] - table.loc["LPS, defaults", "Novel"]
    assert table.loc["swallowed", "Δ Novel"] == pytest.approx(difference, abs=0.051)
    at.button(key="against_back").click().run()
    assert heads(at) == ["Name", "Novel"] and "against" not in at.query_params


def test_two_chosen_runs_stand_beside_one_another(root, runs_by_name):
    at = visit("runs", run=[runs_by_name["finished"].id, runs_by_name["unlucky"].id])
    table = at.dataframe[1].value
    assert list(table["Setting or fact"]) == ["use_margin"] and sorted(table.iloc[0, 2:4]) == ["false", "true"]
    numbers = at.dataframe[2].value.set_index("Measurement")
    first, second, difference = numbers.loc["Novel accuracy"]
    assert difference == pytest.approx(second - first) and abs(difference) > 5
    at.toggle(key="beside_all").set_value(True).run()
    assert len(at.dataframe[1].value) > 60 and not at.exception


def test_what_lacks_the_number_comes_last_and_equal_ones_keep_their_order(made):
    entries = [run_index.read_run_row(made[name]) for name in ("failed", "unlucky", "finished")]
    bare = run_filters.replace(entries[0], measured=run_index.Measured())
    for sort in run_filters.SORTS:
        assert len(run_filters.sort_entries([bare, *entries], sort)) == 4
    for sort in ("seen", "novel", "all", "gap"):
        assert run_filters.sort_entries([bare, *entries], sort)[-1] is bare
    for sort in ("seen", "novel", "all"):
        found = [e.measured.recent.number(f"accuracy/{sort}") for e in run_filters.sort_entries(entries, sort)]
        assert found == sorted(found, reverse=True)
    gaps = [abs(entry.measured.gap) for entry in run_filters.sort_entries(entries, "gap")]
    names = [entry.name.casefold() for entry in run_filters.sort_entries(entries, "name")]
    assert gaps == sorted(gaps) and names == sorted(names)


def test_finding_needs_every_word_anywhere(made):
    entry = run_index.read_run_row(made["finished"])
    entry = run_filters.replace(entry, notes="Warm start", tags=("paper",))
    for text in ("paper", "WARM lps", "digits start", made["finished"].id[-6:], "finished"):
        assert run_filters.filter_entries([entry], RunFilters(filter_text=text)) == [entry]
    assert run_filters.filter_entries([entry], RunFilters(filter_text="warm orca")) == []
    assert run_filters.filter_entries([entry], RunFilters(tags=("paper", "other"))) == []


@pytest.mark.slow
def test_hundreds_of_runs_in_one_table(root, made):
    for number in range(300):
        stamp = f"{number // 60:04d}{number % 60:02d}"
        folder = root / f"20260101-{stamp}-digits-lps-s{number}-aaaaaa"
        folder.mkdir()
        for name in ("config.json", "events.jsonl", "exit.json", "process.json", "want.json", "lock"):
            os.link(made["finished"].folder / name, folder / name)
        write_json(folder / "meta.json", {"name": f"run {number}", "notes": "", "tags": [], "rev": 1})
    at = visit("runs")
    assert shown(at) == [f"run {number}" for number in reversed(range(300))]


def test_a_chosen_run_tells_what_it_costs_and_what_is_wrong(root, runs_by_name):
    at = visit("runs", run=[runs_by_name["failed"].id])
    assert {m.label: m.value for m in at.metric} == {
        "Peak memory": "0.70 GB", "Throughput": "2,700 images/s", "Time per step": "0.047 s",
    }  # fmt: skip
    assert "the loss is not finite" in at.error[0].value.replace("\\", "")
    folder, command = [block.value for block in at.code][-2:]
    assert folder == str(runs_by_name["failed"].folder) and command.startswith("python -m lps launch --dataset digits")
    assert buttons(at)[:-1] == ["Rename", "Note", "Tags", "Launch a copy", "Hide", "Resume"]
    assert at.query_params["run"] == [runs_by_name["failed"].id] or at.query_params["run"] == runs_by_name["failed"].id


def test_the_link_carries_choices_and_rows(root, runs_by_name):
    at = visit("runs", run=[runs_by_name["failed"].id, runs_by_name["finished"].id], find="l p&s")
    assert not shown(at)
    at = visit("runs", run=[runs_by_name["failed"].id, runs_by_name["finished"].id], find="lps digits")
    address = next(code.value for code in at.code if "?" in code.value)
    assert "find=lps%20digits" in address and address.count("run=") == 2 and "**2 chosen**" in texts(at)


def test_the_runs_that_a_chosen_run_goes_on_from_are_a_graph(tmp_path, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    first = sample_runs.make_run(tmp_path, epochs=2, name='a "first" \\ run')
    naming.record_steps(first, 2, [{"do": "name", "id": 7, "name": "seven"}])
    monkeypatch.setattr(continued_training.submit.launcher, "launch", lambda run, *rest, **wish: run.state())
    second = continued_training.start_continued_training(
        continued_training.plan_continued_training(first, rule="all", from_weights=False)
    )
    sample_runs.make_run(tmp_path, epochs=2, seed=1)
    for chosen in (first, second):
        (graph,) = visit("runs", run=[chosen.id]).get("graphviz_chart")
        dot = graph.proto.spec
        assert f'"{first.id}" -> "{second.id}"' in dot and dot.count("->") == 1 and dot.count("[label=") == 2
        assert f'URL="live?run={second.id}"' in dot and r'label="a \"first\" \\ run' in dot
        assert dot.count("penwidth") == 1
    alone = sample_runs.make_run(tmp_path, epochs=2, seed=2)
    assert not visit("runs", run=[alone.id]).get("graphviz_chart")


def test_recordings_can_be_opened_and_copied_only(root, recordings):
    recorded = recordings[0]
    at = visit("runs", run=[recorded.id])
    assert buttons(at) == ["Launch a copy"] and "A recording is read-only" in texts(at)
    at.button(key="runs_copy").click().run()
    assert not at.exception and at.title[0].value == "Launch"


def test_actions_name_how_many_they_are_for(root, runs_by_name, recordings):
    at = visit("runs", run=[run.id for run in runs_by_name.values()])
    assert buttons(at) == ["Tags", "Hide", "Resume 2", "Delete"]
    both = [runs_by_name["stopped"].id, recordings[0].id]
    assert buttons(visit("runs", run=both)) == ["Tags 1", "Hide 1", "Resume 1", "Delete 1"]


def test_delete_and_undo_many(root, runs_by_name):
    ids = [runs_by_name["failed"].id, runs_by_name["finished"].id]
    at = visit("runs", run=ids)
    at.button(key="runs_delete").click().run()
    assert not at.exception and not {run.id for run in list_runs(root)} & set(ids)
    assert "2 runs moved to the trash. Deleted runs can be restored for 7 days" in texts(at)
    assert "run" not in at.query_params
    at.button(key="runs_undo_button").click().run()
    assert not at.exception and {run.id for run in list_runs(root)} >= set(ids) and deleted_runs(root) == []
    assert "moved to the trash" not in texts(at)


def test_restore_from_the_trash(root, runs_by_name):
    run = runs_by_name["finished"]
    delete_run(run)
    at = visit("runs")
    assert "7 days left" in texts(at) and at.expander[-1].label == "Trash (1)"
    next(button for button in at.button if button.label == "Restore").click().run()
    assert not at.exception and run.folder.is_dir() and "LPS, defaults" in shown(at)


def test_hidden_runs_are_left_out_until_asked_for(root, runs_by_name):
    at = visit("runs", run=[runs_by_name["unlucky"].id])
    at.button(key="runs_hide").click().run()
    assert not at.exception and runs_by_name["unlucky"].meta()["hidden"] and "swallowed" not in shown(at)
    at.toggle(key="hidden").set_value(True).run()
    assert "swallowed (hidden)" in shown(at)
    at = visit("runs", run=[runs_by_name["unlucky"].id], hidden="true")
    at.button(key="runs_unhide").click().run()
    assert not runs_by_name["unlucky"].meta()["hidden"]


def test_stop_and_resume_reach_those_they_are_for(root, runs_by_name, monkeypatch):
    asked = []
    monkeypatch.setattr(launcher, "resume", lambda run: asked.append(run.id))
    at = visit("runs", run=[run.id for run in runs_by_name.values()])
    at.button(key="runs_resume").click().run()
    assert sorted(asked) == sorted([runs_by_name["failed"].id, runs_by_name["stopped"].id])


def test_a_refusal_is_a_sentence(root, runs_by_name, monkeypatch):
    def refuse(run):
        raise UserError("device", "cuda:0 is not available")

    monkeypatch.setattr(launcher, "resume", refuse)
    at = visit("runs", run=[runs_by_name["stopped"].id])
    at.button(key="runs_resume").click().run()
    assert not at.exception and "is not available" in at.error[0].value


def ask(at, question, run_ids, button="Save"):
    """Press a dialog's button. An `AppTest` draws the whole page for it, so the dialog has to be asked for again."""
    next(b for b in at.button if b.label == button).click()
    at.session_state["runs_question"] = (question, run_ids)
    at.run()
    assert not at.exception


@pytest.mark.slow
def test_rename_and_note(root, runs_by_name):
    run = runs_by_name["finished"]
    at = visit("runs", run=[run.id])
    at.button(key="runs_rename").click().run()
    at.text_input(key="new_name").set_value("after *all*")
    ask(at, "rename", [run.id])
    assert run.meta()["name"] == "after *all*" and "after *all*" in shown(at)
    at.button(key="runs_note").click().run()
    at.text_area(key="runs_notes").set_value("two\nlines")
    ask(at, "note", [run.id])
    assert run.meta()["notes"] == "two\nlines" and "two\nlines" in texts(at)


def test_tags_of_many_keep_what_only_some_have(root, runs_by_name):
    first, second = runs_by_name["finished"], runs_by_name["failed"]
    first.write_meta(tags=["both", "mine"])
    second.write_meta(tags=["both"])
    ids = [first.id, second.id]
    at = visit("runs", run=ids)
    at.button(key="runs_tag").click().run()
    assert at.multiselect(key="runs_tags").value == ["both"] and at.multiselect(key="runs_some").options == ["mine"]
    at.multiselect(key="runs_tags").set_value([])
    ask(at, "tag", ids)
    assert first.meta()["tags"] == ["mine"] and second.meta()["tags"] == []


@pytest.mark.slow
def test_live_has_a_line_for_an_alarm_and_none_without(root, runs_by_name):
    run = sample_runs.rewritten(
        runs_by_name["stopped"],
        lambda kind, values: values | ({"class/count_predicted": [*[90] * 9, 0]} if kind == "eval" else {}),
    )
    (warning,) = visit("live", run=run.id).warning
    assert warning.value.replace("\\", "").startswith("Empty classes at epoch 8: 1 novel class has had no image")
    assert not len(visit("live", run=runs_by_name["failed"].id).warning), "its failure is said once"


def test_news_are_told_once(root, made, monkeypatch):
    run = copy(made["finished"], root)
    ending = (run.folder / "exit.json").read_bytes()
    (run.folder / "exit.json").unlink()
    watched = run_toasts.Watched()
    with sample_runs.held(run):
        assert run_toasts.list_news(watched, [run]) == [] and run_toasts.list_news(watched, [run]) == []
    (run.folder / "exit.json").write_bytes(ending)
    (said,) = run_toasts.list_news(watched, [run])
    scores = r"has finished\. Accuracy: all [\d.]+ %, seen [\d.]+ %, novel [\d.]+ %\. "
    assert re.search(scores + re.escape(f"[Open the run](/live?run={run.id})") + "$", said[0])
    assert run_toasts.list_news(watched, [run]) == []
    assert run_toasts.list_news(run_toasts.Watched(), [run]) == [], "another session was not there when it happened"
    monkeypatch.setattr(folder_cache, "_SETTLED_NS", 0)  # as of a run that ended before
    assert run_toasts.list_news(watched, [run]) == []
    (run.folder / "exit.json").write_bytes(ending.replace(b"finished", b"failed"))  # in place, as `cp -r` writes
    assert f"** has failed. [Open the run](/live?run={run.id})" in run_toasts.list_news(watched, [run])[0][0]
    (run.folder / "exit.json").write_text('{"state": "failed", "reason": "No room.", "attempt": 1}')
    assert "** has failed: No room. [Open" in run_toasts.list_news(watched, [run])[0][0]


def test_an_open_page_says_what_ended_in_toasts_but_not_in_a_flood(root, made):
    runs = [
        Run(shutil.copytree(made["finished"].folder, root / f"20260101-00000{n}-digits-lps-s0-aaaaaa"))
        for n in range(5)
    ]
    endings = [run.folder / "exit.json" for run in runs]
    texts = [path.read_bytes() for path in endings]
    for path in endings:
        path.unlink()
    with sample_runs.held(*runs):
        at = visit("home")
        assert not len(at.toast)
    for path, text in zip(endings, texts, strict=True):
        path.write_bytes(text)
    at.run()
    assert ["Accuracy" in toast.value for toast in at.toast] == [True, True, True, False]
    assert at.toast[3].value.startswith("And 2 more")
    at.run()
    assert not len(at.toast)


def test_a_death_without_a_record_is_noticed(root, made):
    run = copy(made["stopped"], root)
    (run.folder / "exit.json").unlink()
    watched = run_toasts.Watched()
    with sample_runs.held(run):
        run_toasts.list_news(watched, [run])
    (said,) = run_toasts.list_news(watched, [run])
    assert "has crashed" in said[0]


def test_a_run_of_a_sweep_has_a_short_name_in_toasts(root):
    run = sample_runs.make_run(
        root, epochs=2, settings={"margin_scale": 5.0, "entropy_weight": 0.25}, name="margin_scale=5, lps seed 0"
    )
    assert run_toasts._short_name(run).replace("\\", "") == "C=5, LPS seed 0"


def test_a_collapse_is_told_when_it_begins_and_not_again(root, made):
    run = copy(made["stopped"], root)
    watched = run_toasts.Watched()

    def write(epochs, counts):
        with run.events.open("a") as file:
            for epoch in epochs:
                values = f'{{"class/count_predicted": {counts}}}'
                file.write(f'{{"kind":"eval","step":{epoch},"epoch":{epoch},"time":{time.time()},"values":{values}}}\n')

    with sample_runs.held(run):
        assert run_toasts.list_news(watched, [run]) == []
        write(range(9, 14), [1000] + [10] * 9)
        (said,) = run_toasts.list_news(watched, [run])
        text = said[0].replace("\\", "")
        assert "** Collapse: one class holds 92" in text, "the name has its own line, the next one begins with a word"
        write([14], [1000] + [10] * 9)
        assert run_toasts.list_news(watched, [run]) == [], "it has been said"
        write(range(15, 21), [100] * 10)
        assert run_toasts.list_news(watched, [run]) == []
        write(range(21, 27), [1000] + [10] * 9)
        assert len(run_toasts.list_news(watched, [run])) == 1, "it had recovered"


@pytest.mark.parametrize("name", ["failed", "finished"])
def test_a_failed_run_that_is_picked_says_what_to_do_and_does_it(root, runs_by_name, name, monkeypatch):
    asked = []
    monkeypatch.setattr(launcher, "resume", asked.append)
    run = runs_by_name[name]
    at = visit("runs", run=run.id)
    advice = [button.label for button in at.button if button.key in (f"{run.id}-action", f"{run.id}-copy")]
    reasons = [error.value.replace("\\", "") for error in at.error]
    assert bool(advice) == bool(reasons) == (name == "failed")
    if advice:
        assert "Resume" in advice and run.state().reason in reasons[0]
        assert failures.advise(run.state().kind).remedy in "".join(caption.value for caption in at.caption)
        at.button(key=f"{run.id}-action").click().run()
        assert asked == [run]


@pytest.mark.parametrize("page", in_turn(PAGES, 3))
def test_one_of_a_thing_is_said_in_the_singular(root, page):
    run = sample_runs.make_run(root, epochs=1)
    plural = re.compile(rf"(?<![\d.,–])1 (?:\w+ )?(?:{'|'.join(COUNTED)})\b")
    assert not plural.findall(words_of(visit(page, run=[run.id])))


def test_the_column_that_is_sorted_by_stands_first():
    names = [Vocabulary().find(key) for key in ("state", "accuracy/seen", "accuracy/novel")]
    for sort, first in (("novel", "accuracy/novel"), ("-accuracy/seen", "accuracy/seen"), ("newest", "state")):
        assert table.move_sorted_first(names, sort)[0].key == first
