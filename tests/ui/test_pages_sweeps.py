"""The page Sweep: empty, a form that lays out, one sweep in every condition; clicks that start once."""

import csv
import io
import json
import time
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
from streamlit.runtime.state.query_params import QueryParams

from lps.analysis.alarms import Alarm
from lps.charts import palette, sweep_charts
from lps.charts.group_tables import Scoring
from lps.cluster.executors import slurm
from lps.files.atomic import write_json
from lps.report import sweep_report
from lps.scheduler import queue, run_slots
from lps.scheduler.costs import NO_ESTIMATE, Cost, KnownCosts, RunSpeed, Span
from lps.scores.protocols import ABOUT_LOW_ALL
from lps.settings.config import configure
from lps.store.run_folders import list_runs
from lps.store.runs import State
from lps.studies import core_sharing, preset_tables, presets, sweep_records, sweeps
from lps.studies.sweep_layout import SweepSpec
from lps.ui.shared import escape, export_buttons, notices, scores, time_estimates
from lps.ui.sweeps import form, page
from lps.ui.sweeps import table as sweep_tables
from tests.report.test_report import NOW, Page
from tests.sample_runs import held, make_run
from tests.visiting import visit

ASKED = presets.PresetRequest("ablation", fixed={"epochs": "2"})


def fill(root, asked, states):
    """Sample runs of what was asked for, in these states, kept as a sweep."""
    made = []
    for (config, label), state in zip(presets.build_paper_table(asked).labeled_configs(), states):
        flat = config.flat()
        names = {*asked.fixed, *(key for line in presets.PRESETS[asked.preset].lines for key in line.settings)}
        own = {key: flat[key] for key in names - {"epochs"}}
        more = {"written": 1} if state not in ("finished", "queued") else {}
        run = make_run(root, state, epochs=2, seed=config.seed, settings=own, name=label, **more)
        assert run.config() == config
        run.write_meta(tags=[f"sweep:{asked.name}"])
        made.append(run)
    sweep_records.write_sweep_record(root, asked.name, asked.as_record())
    return made


def texts(at) -> str:
    return "\n".join(e.value for kind in (at.markdown, at.caption, at.error, at.warning, at.subheader) for e in kind)


def progress(at) -> str:
    """What stands above the bar."""
    return "\n".join(element.proto.text for element in at.get("progress"))


def plain(at) -> str:
    return texts(at).replace("\\", "").replace("\u2060", "")


def test_an_empty_page_lays_out_the_ablation_and_starts_nothing(root):
    at = visit("sweeps")
    assert "15 runs: 15 new" in plain(at) and "No sweep has been started yet" in plain(at)
    preview, table = (frame.value for frame in at.dataframe)
    assert len(preview) == 15 and set(preview["Status"]) == {"new"}
    assert table.loc["w/o R_Entropy", ("Paper: CIFAR-10", "Novel")] == "55.4"
    (command,) = at.code  # no other command beside that of the form
    assert "--preset ablation --scale demo --seeds 0,1,2" in command.value
    assert not list_runs(root) and not (root / ".sweeps").exists()


@pytest.mark.slow
def test_what_waits_on_this_machine_is_not_said_to_be_handed_over(root, monkeypatch):
    monkeypatch.setattr(slurm, "is_here", lambda: True)
    monkeypatch.setattr(slurm, "partitions", lambda: ["low"])
    fill(root, core_sharing.sweep_on_cores(ASKED, root)[0], ["queued"] * 2)
    for run in list_runs(root):
        write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": 1.0})
    at = visit("sweeps")
    at.multiselect(key="sweep_fixed").set_value(["epochs"]).run()
    at.text_input(key="fix:epochs").set_value("2").run()
    assert "2 exist already" in plain(at) and not at.info
    at.segmented_control(key="place:on").set_value("slurm").run()
    (said,) = at.info
    assert said.value.startswith("2 runs already wait on this machine and stay there; to move them, stop them")


@pytest.mark.slow
def test_every_preset_can_be_chosen_at_both_scales(root):
    for name in presets.PRESETS:
        for scale in presets.SCALES:
            at = visit("sweeps", preset=name, scale=scale)
            count = len(presets.build_paper_table(presets.PresetRequest(name, scale)).labeled_configs())
            assert f"{count} runs: {count} new" in plain(at), (name, scale)
            if scale == "paper":  # the data are not here: it says so, and there is nothing to click
                assert "not on this machine" in plain(at) or "dataset.path" in plain(at)
                assert not [button for button in at.button if button.key == "sweep_start"]
        if name == "ablation":
            assert len(at.dataframe[0].value) == 30


@pytest.mark.slow
def test_a_click_starts_the_sweep_once(root, monkeypatch):
    at = visit("sweeps")
    at.multiselect(key="sweep_fixed").set_value(["epochs"]).run()
    at.text_input(key="fix:epochs").set_value("2").run()
    assert "15 runs: 15 new" in plain(at)
    asked, _ = core_sharing.sweep_on_cores(ASKED, root)
    at.button(key="sweep_start").click().run()
    assert not at.exception and at.query_params["sweep"] in (ASKED.name, [ASKED.name])
    runs = list_runs(root)
    assert len(runs) == 15 and all(run.meta()["tags"] == [f"sweep:{ASKED.name}"] for run in runs)
    assert {run.state().name for run in runs} == {"queued"}
    assert {run.config().to_json() for run in runs} == {
        c.to_json() for c, _ in presets.build_paper_table(asked).labeled_configs()
    }
    (known,) = sweep_records.list_sweeps(root)
    assert sweeps.from_record(known.request) == asked
    at.session_state["sweep_asked"] = (asked.as_record(), ASKED.name, 0, form.THIS_MACHINE)  # the second click of two
    at.run()
    assert not at.exception and len(list_runs(root)) == 15


def test_an_own_layout_is_a_grid_a_list_or_a_draw(root):
    at = visit("sweeps", kind="own")
    assert "3 runs: 3 new · 40 epochs each + 20 epochs of pretraining each" in plain(at)
    at.multiselect(key="sweep_vary").set_value(["margin_scale", "use_margin"]).run()
    at.text_input(key="vary:margin_scale").set_value("1, 5, 10").run()
    assert "18 runs: 18 new" in plain(at)
    assert "--vary margin_scale=1,5,10 --vary use_margin=true,false" in at.code[0].value
    assert "use_margin=false do not use margin_scale" in plain(at)
    at.segmented_control(key="picked_mode").set_value("list").run()
    assert "combines values in order" in plain(at)
    at.segmented_control(key="picked_mode").set_value("random").run()
    at.number_input(key="sweep_samples").set_value(4).run()
    assert "12 runs: 12 new" in plain(at) and "--mode random --samples 4" in at.code[0].value
    at.text_input(key="vary:margin_scale").set_value("1, x").run()
    assert "'x' is not a number" in plain(at)
    assert not at.exception


@pytest.mark.parametrize("most, is_known", [(60.0, True), (600.0, False)])
def test_the_preview_gives_times_only_where_its_sentence_does(most, is_known):
    cost = Cost(Span(60.0, 20.0, most), Span(60.0, 20.0, most), 2, ())
    estimate = sweeps.Estimate(cost.span.times(2), 1000, 2, 0, ())
    assert (NO_ESTIMATE not in form._cost_in_words(estimate, [cost] * 2, 1)) == is_known
    assert bool(form._times_in_words(["a", "b"], [cost] * 2, estimate)) == is_known


def test_the_preview_and_launch_estimate_a_run_alike(root, monkeypatch):
    """Launch had no estimate for a run of which the sweep gave one."""
    config = configure({"epochs": 2})
    monkeypatch.setattr(time_estimates, "known_costs", lambda: KnownCosts([RunSpeed(config, 100.0, 0.0, 0.0)]))
    (cost,), *_ = form._estimate(str(root), (config.to_json(),), [config])
    assert cost.span == time_estimates.estimate_run(config) and cost.span.likely == 200


def test_a_value_that_was_typed_just_before_the_click_is_the_one_that_starts(root, monkeypatch):
    """Three epochs were typed, and fourteen runs of 40 began."""
    monkeypatch.setattr(sweeps, "start_sweep", lambda sweep, *args, **more: made.append(sweep) or sweep)
    made = []
    at = visit("sweeps", kind="own", sweep_fixed="epochs")
    at.text_input(key="fix:epochs").set_value("3")
    at.button(key="sweep_start").click().run()
    assert {item.config.epochs for item in made[0].items} == {3} and not at.exception


def test_a_default_is_called_redundant_once_its_field_was_changed(root):
    at = visit("sweeps", kind="own", sweep_vary="margin_scale", sweep_fixed="epochs")
    remark = "epochs=40 is the default"
    assert at.text_input(key="fix:epochs").value == "40" and remark not in plain(at)
    at.text_input(key="fix:epochs").set_value("30").run()
    assert remark not in plain(at)
    at.text_input(key="fix:epochs").set_value("40").run()
    assert remark in plain(at)


def test_a_setting_of_several_methods_says_what_it_means_in_each(root):
    one = visit("sweeps", kind="own", sweep_methods=["lps", "orca"], sweep_vary="margin_scale", sweep_fixed="epochs")
    notes = [caption.value for caption in one.caption]
    (both,) = [note.replace("\\", "") for note in notes if "**LPS**: C:" in note and "**ORCA**: C:" in note]
    assert both.count("In the paper: 10") == both.count("In the authors' code: 10") == 1
    assert sum(note.startswith("Passes over the labeled data") for note in notes) == 1


def test_existing_runs_are_recognised_before_anything_starts(root):
    make_run(root, epochs=2, seed=0)
    make_run(root, "stopped", epochs=2, seed=1, written=1)
    at = visit("sweeps", kind="own")
    at.multiselect(key="sweep_fixed").set_value(["epochs"]).run()
    at.text_input(key="fix:epochs").set_value("2").run()
    assert "3 runs: 1 new, 1 exists already, 1 continues where it stopped" in plain(at)
    told = at.dataframe[0].value["Status"].tolist()
    assert told == ["exists (finished), not run again", "stopped, is resumed", "new"]


@pytest.mark.parametrize("tags", [["sweep:mine"], []])
def test_a_started_sweep_of_which_all_runs_exist_is_a_link(root, tags):
    layout = SweepSpec(seeds=(0,), fixed={"epochs": "2"})
    make_run(root, epochs=2).write_meta(tags=tags)
    sweep_records.write_sweep_record(root, "mine", layout.as_record())
    query = {"sweep_seeds": "0", "sweep_fixed": "epochs", "fix:epochs": "2", "sweep_name": "mine"}
    at = visit("sweeps", kind="own", **query)
    label = "Open the sweep (all runs exist)"
    links = [link.proto for link in at.get("page_link") if link.proto.label == label]
    buttons = [button.icon for button in at.button if button.label == label]
    assert [link.query_string for link in links] == ["sweep=mine"] * len(tags)
    assert buttons == [":material/arrow_forward:"] * (not tags)


def test_one_sweep_in_the_middle(root):
    states = ["finished"] * 7 + ["running", "queued", "failed", "stopped"]
    runs = fill(root, ASKED, states)
    with held(runs[7]):
        at = visit("sweeps", sweep=ASKED.name)
        said = plain(at)
        for words in ("7 of 15 finished", "1 running", "1 queued", "1 failed", "1 stopped", "4 missing"):
            assert words in progress(at), words
        assert "left" in said and "7 of 15 runs" in said
        table = at.dataframe[0].value
        assert table.loc["w/o L_AM", ("digits", "n")] == "2/3" and table.loc["LPS", ("digits", "n")] == "1/3"
        labels = {button.label for button in at.button}
        assert {"Stop all", "Resume 6"} <= labels
        downloads = {element.proto.label for element in at.get("download_button")}
        assert downloads == {f"Report ({export_buttons.explain_report()})", "Table, LaTeX", "Table, CSV"}


def test_stop_all_takes_back_what_waits(root):
    runs = fill(root, ASKED, ["finished", "queued", "queued"])
    at = visit("sweeps", sweep=ASKED.name)
    links = {link.proto.label: link.proto for link in at.get("page_link")}
    assert "New sweep or another one" in links
    assert links["Charts of these runs"].query_string == f"run={runs[0].id}", "those that have something to draw"
    link = links["Which setting matters"]
    assert link.query_string.count("run=") == 3, "Effects says how many are still to finish"
    assert "Open the queue" not in links
    queue.set_paused(root, True)
    assert "Open the queue" in {link.proto.label for link in at.run().get("page_link")}
    at.button(key="sweep_stop").click().run()
    assert not at.exception
    assert [run.state().name for run in runs] == ["finished", "stopped", "stopped"]


def test_going_on_starts_what_is_missing_and_what_broke_off(root):
    fill(root, ASKED, ["finished", "stopped", "failed"])
    at = visit("sweeps", sweep=ASKED.name)
    at.button(key="sweep_resume").click().run()
    assert not at.exception
    states = [run.state().name for run in list_runs(root)]
    assert len(states) == 15 and states.count("queued") == 14


@pytest.mark.slow
def test_a_finished_sweep_and_a_list_of_several(root):
    fill(root, ASKED, ["finished"] * 15)
    run = make_run(root, epochs=2, seed=9)
    run.write_meta(tags=["sweep:old **one**"])
    at = visit("sweeps")
    assert "15 of 15 finished" in plain(at) and "1 of 1 finished" in plain(at)
    at = visit("sweeps", sweep=ASKED.name)
    assert not [b for b in at.button if b.key in ("sweep_stop", "sweep_resume")]
    at = visit("sweeps", sweep="old **one**")
    assert "only its runs" in plain(at) and len(at.dataframe) == 2


def test_started_sweeps_are_above_the_form_and_lead_to_pages_that_begin_at_the_top(root, monkeypatch):
    """A user who came back to see a sweep took the filled form for all that the page has; a sweep that was opened from
    there was in sight from its end, and the browser kept the address of the form: a reload showed the form again."""
    sent, parts = [], []
    monkeypatch.setattr(QueryParams, "_send_query_param_msg", lambda self: sent.append(self.to_dict()))
    fill(root, ASKED, ["finished"])
    at = visit("sweeps")
    assert [head.value for head in at.subheader] == ["Started", "New sweep", "Preview"]
    label = f"**{escape.markdown(ASKED.name)}**"
    link = next(link.proto for link in at.get("page_link") if link.proto.label == label)
    assert parse_qs(link.query_string) == {"sweep": [ASKED.name]} and "1 of 1 finished" in plain(at)
    sent.clear()
    for page_of in at, visit("sweeps", sweep=ASKED.name):
        elements = [element.proto for element in page_of.get("bidi_component")]
        (top,) = [element for element in elements if element.component_name == "lps_page_top"]
        parts.append(json.loads(top.json))
    assert parts == ["sweep", f"sweep {ASKED.name}"] and sent == [{"sweep": ASKED.name}]
    assert "No sweep is called no such" in plain(visit("sweeps", sweep="no such"))


@pytest.mark.parametrize("total, is_low", [(0.1, True), (0.92, False)])
def test_all_below_seen_and_novel_is_explained_below_the_table(root, total, is_low, monkeypatch):
    fill(root, ASKED, ["finished"])
    scored = page.finished_scores(page.read_course(sweep_records.list_sweeps(root)[0]))
    scored = [replace(one, scores=replace(one.scores, seen=0.9, novel=0.95, all=total)) for one in scored]
    sheet, captions = presets.build_paper_table(ASKED), []
    assert (ABOUT_LOW_ALL in preset_tables.grid_notes(sheet, preset_tables.fill_table(sheet, scored))) == is_low
    grid = preset_tables.build_grid(sheet, {})
    about_all = sweep_tables._explain_columns(grid)[1 + grid.heads[0][1].index("All")]["help"]
    assert ABOUT_LOW_ALL in about_all
    monkeypatch.setattr(scores.st, "caption", captions.append)
    sweep_tables.show_groups(scored, [])
    assert captions.count(f"{ABOUT_LOW_ALL}.") == is_low


def test_a_curve_is_drawn_beside_the_papers(root):
    asked = presets.PresetRequest("C", seeds=(0, 1), fixed={"epochs": "2"})
    fill(root, asked, ["finished"] * 6)
    at = visit("sweeps", sweep=asked.name)
    assert "dotted: the paper's CIFAR-10" in plain(at) and not at.exception
    sheet = presets.build_paper_table(asked)
    scored = page.finished_scores(page.read_course(sweep_records.list_sweeps(root)[0]))
    ((_, figure, _),) = sweep_charts.figures(sheet, preset_tables.fill_table(sheet, scored), palette.LIGHT)
    by_name = {trace.name: trace for trace in figure.figure().data}
    assert list(by_name["Novel, paper"].x) == [1, 5, 10, 15, 20]
    assert [round(100 * y, 1) for y in by_name["Novel, paper"].y] == [90.6, 91.9, 93.4, 93.3, 91.9]
    groups = preset_tables.fill_table(sheet, scored)
    assert list(by_name["Novel"].y[:3]) == [groups[i, 0].mean("novel") for i in range(3)]


def test_remaining_time_is_what_runs_say_and_finished_ones_took(root, monkeypatch):
    runs = fill(root, ASKED, ["finished", "finished", "running", "queued"])
    config = runs[0].config()
    usual = KnownCosts([RunSpeed(config, 100.0 / config.epochs, 0.0, 0.0)])
    monkeypatch.setattr(page.time_estimates, "known_costs", lambda: usual)
    progress = {"phase": "train", "eta_s": 40, "time": time.time()}
    (runs[2].folder / "progress.json").write_text(json.dumps(progress))
    with held(runs[2]):
        now = page.read_course(sweep_records.list_sweeps(root)[0])
        assert page.remaining_in_words(now) == "About 2 min left with 2 at a time."  # the longer one: 100 s
        other = make_run(root, "queued", epochs=2)
        queue.put_first(other)
        not_counted = ", not counting 1 other run ahead"
        assert page.remaining_in_words(now) == f"About 2 min left with 2 at a time{not_counted}."
        queue.set_paused(root, True)
        assert page.remaining_in_words(now).replace("\\", "").startswith("Waiting: the queue is paused.")
        passed = {"phase": "train", "eta_s": 40, "time": 1000.0, "step": 3, "steps": 4}
        (runs[2].folder / "progress.json").write_text(json.dumps(passed))
        process = json.loads((runs[2].folder / "process.json").read_text()) | {"started": 940.0}
        (runs[2].folder / "process.json").write_text(json.dumps(process))
        assert page.completed_share(now, 1000.0) == pytest.approx((2 + 0.6) / 15)  # 60 of its 100 s are over


@pytest.mark.parametrize(
    "states, awaited",
    [
        (["running", "queued"], "the first run has finished"),
        (["finished", "running"], "more epochs are done"),
        (["finished", "queued"], "a run like the remaining ones has finished"),
    ],
)
def test_what_the_remaining_time_awaits_has_not_happened_yet(root, monkeypatch, states, awaited):
    monkeypatch.setattr(page.time_estimates, "known_costs", lambda: KnownCosts([]))
    monkeypatch.setattr(KnownCosts, "time_left", lambda *_: None)
    monkeypatch.setattr(KnownCosts, "estimate", lambda *_: None)
    monkeypatch.setattr(run_slots, "slot_holders", lambda _: [None, None])
    runs = fill(root, ASKED, states)
    with held(*(run for run, state in zip(runs, states) if state == "running")):
        now = page.read_course(sweep_records.list_sweeps(root)[0])
        said = page.remaining_in_words(now).replace("\\", "")
        waits = "Waiting for a free slot. Slots are taken by 2 runs. " * ("running" not in states)
        assert said.startswith(waits) and said.endswith(f"The remaining time can be estimated once {awaited}.")


def test_a_sweep_whose_cluster_does_not_answer_is_followed():
    item = sweeps.Item(configure(), "", state=State("unknown"))
    assert page.SweepCourse(None, None, (item,)).is_moving


@pytest.mark.slow
def test_the_report_of_a_sweep_tells_table_hardware_cost_and_commands(root):
    fill(root, ASKED, ["finished"] * 10 + ["failed"])
    (known,) = sweep_records.list_sweeps(root)
    scoring = Scoring("orca", "last", "default")
    shown = Page(sweep_report.render_sweep_report(known, root, scoring, NOW))
    full = shown.row("LPS")
    assert full[4:] == ["2/3", "90.2", "93.4", "92.4"] and "±" in full[2]
    assert "10 finished, 1 failed, 4 missing" in shown.text and "not recorded" in shown.text
    assert ASKED.command(known.name) in shown.text and f"compare --tag {known.tag}" in shown.text
    shared = {row[0]: row[1] for row in shown.rows if len(row) == 2}
    assert shared["epochs"] == "2" and shared["temperature"] == "0.4" and "entropy_weight" not in shared
    (head,) = [row for row in shown.rows if row[:1] == ["use_margin"]]
    assert set(head) == {"use_margin", "pseudo_label_weight", "unsupervised_weight", "entropy_weight"}
    assert "w/o L\\_AM & " in shown.text and "90.2 & 93.4 & 92.4" in shown.text, "the table as LaTeX"
    assert str(root) not in shown.text


def test_tables_to_take_away(root):
    fill(root, ASKED, ["finished"] * 5)
    now = page.read_course(sweep_records.list_sweeps(root)[0])
    sheet, scored = sweep_charts.paper_table_of(now.request), page.finished_scores(now)
    rows = list(csv.DictReader(io.StringIO(sweep_tables.as_csv(sheet, scored, ()))))
    assert len(rows) == 15 and {row["n"] for row in rows} == {"1"}
    assert "\\begin{tabular}" in sweep_tables.as_latex(sheet, scored, (), "x")
    assert "\\begin{tabular}" in sweep_tables.as_latex(None, scored, (), "x") and sweep_tables.as_csv(None, scored, ())
    assert sweep_tables.as_latex(None, [], (), "x") == sweep_tables.as_csv(None, [], ()) == ""


def test_the_command_writes_the_file(root, tmp_path, capsys):
    from lps.__main__ import main

    fill(root, ASKED, ["finished"] * 2)
    to = tmp_path / "r.html"
    assert main(["report", "--tag", f"sweep:{ASKED.name}", "--runs", str(root), "--to", str(to)]) == 0
    assert to.read_text().startswith("<!doctype html>") and capsys.readouterr().out == f"{to}\n"
    assert main(["report", "--tag", "sweep:x", "--runs", str(root), "--to", str(tmp_path / "x.html")]) == 2
    assert f"choices: sweep:{ASKED.name}" in capsys.readouterr().err and not (tmp_path / "x.html").exists()


def test_an_own_layout_is_kept_with_its_sweep(root):
    layout = SweepSpec(seeds=(0,), fixed={"epochs": "2"}, varied={"margin_scale": ("1", "5")})
    run = make_run(root, epochs=2, settings={"margin_scale": 5.0})
    run.write_meta(tags=["sweep:own"])
    sweep_records.write_sweep_record(root, "own", layout.as_record())
    at = visit("sweeps", sweep="own")
    assert "LPS · Handwritten digits · Margin scale" in plain(at) and "1 missing" in progress(at)
    assert run.config() == configure({"epochs": 2, "margin_scale": 5.0})
    assert [button.label for button in at.button if button.key == "sweep_resume"] == ["Start the missing 1"]


@pytest.mark.parametrize("alarms", ["Empty classes (1 of 2)", None])
def test_the_table_of_a_sweep_marks_groups_with_an_alarm(root, monkeypatch, alarms):
    runs = [make_run(root, epochs=2, seed=seed) for seed in range(2)]
    alarm = Alarm("empty", 2, "2 novel classes have had no image for 5 epochs")
    monkeypatch.setattr(notices, "list_alarms", lambda run: [alarm] * (run == runs[0] and bool(alarms)))
    layout = SweepSpec(seeds=(0, 1), fixed={"epochs": "2"})
    for run in runs:
        run.write_meta(tags=["sweep:own"])
    sweep_records.write_sweep_record(root, "own", layout.as_record())
    at = visit("sweeps", sweep="own")
    groups, every_run = (frame.value for frame in at.dataframe)
    assert list(groups.get("Alarms", [None])) == [alarms]
    assert list(every_run.get("Alarms", [None]))[0] == ("Empty classes" if alarms else None)
    assert bool(alarms) == any(alarm.words in caption.value for caption in at.caption)


def test_a_finished_grid_says_above_its_table_which_setting_matters(root, monkeypatch):
    monkeypatch.setattr(page.group_differences, "describe_reversal", lambda _: "It depends on another setting.")
    layout = SweepSpec(seeds=(0,), fixed={"epochs": "2"}, varied={"margin_scale": ("5", "10"), "temperature": ("0.2",)})
    root.mkdir()
    sweep_records.write_sweep_record(root, "own", layout.as_record())
    for scale in (5.0, 10.0):
        settings = {"margin_scale": scale, "temperature": 0.2}
        run = make_run(root, epochs=2, settings=settings, lucky=scale > 5)
        run.write_meta(tags=["sweep:own"])
        at = visit("sweeps", sweep="own")
        groups = list(at.dataframe[0].value.iloc[:, 0])
        assert f"LPS, C={scale:g}" in groups, "named by the plan, also with one finished run"
        assert ("Largest effects on novel accuracy" in plain(at)) == (scale > 5)
        assert ("It depends on another setting." in plain(at)) == (scale > 5)
        for kind in ("csv", "tex", "html"):
            assert f"margin{chr(92) * (kind == 'tex')}_scale={scale:g}" in page._render_file("own", kind), kind
        (link,) = [link.proto for link in at.get("page_link") if link.proto.label == "Which setting matters"]
        assert "setting=" not in link.query_string, "Effects opens on the setting with the largest effect"
