"""The Compare page in every state, through app.py, without a browser; its curves, tables and colours on their own."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lps.analysis import differences, paper_results, run_groups, run_index, run_scores, score_tables
from lps.charts import board_charts, group_tables, line_charts
from lps.charts import palette as style
from lps.charts.event_log import History
from lps.charts.palette import DARK, LIGHT
from lps.store.runs import Run
from lps.store.summary import summarize
from lps.tables.boards import BoardChart
from lps.ui.compare import page
from lps.ui.shared import data_table, escape, export_buttons, group_differences, scores
from lps.ui.shared.history import read_history
from lps.wording import with_minus
from tests.sample_runs import (
    ALIVE,
    RunWriter,
    held,
    make_damaged,
    make_foreign,
    make_one_of_each,
    make_run,
    make_unreadable,
)
from tests.shares import in_turn
from tests.visiting import charts_of, words_of

PAGE = "compare"

# What eyes without one kind of cones see (Machado et al. 2009, severity 1), linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def style_table(groups):
    return data_table.table_data(scores.score_columns(groups), groups)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three seeds of LPS, two of it without the margin, two of GCD, one with fewer labels, one that was stopped."""
    root = tmp_path_factory.mktemp("runs")
    runs = {f"lps {seed}": make_run(root, epochs=4, seed=seed) for seed in (0, 1, 2)}
    runs |= {f"plain {s}": make_run(root, epochs=4, seed=s, settings={"use_margin": False}) for s in (0, 1)}
    few = {"split.labeled_ratio": 0.1}
    runs["few"] = older(make_run(root, epochs=4, settings=few))
    runs |= {f"gcd {seed}": make_run(root, epochs=4, seed=seed, settings={"method": "gcd"}) for seed in (0, 1)}
    runs["stopped"] = make_run(root, "stopped", epochs=4, written=2, seed=3)
    return runs


def older(run: Run) -> Run:
    """The run as if it had been made years ago; the others of a test are made within the same second."""
    return Run(run.folder.rename(run.root / f"20200101-000000{run.id[15:]}"))


def root_of(made):
    return made["few"].root


def ids(made, *names):
    return [made[name].id for name in names]


def tables(app) -> list[pd.DataFrame]:
    return [element.value for element in app.dataframe]


def numbers(app) -> pd.DataFrame:
    return next(table for table in tables(app) if "Conflict" in table)


def legend(app) -> set[str]:
    return {trace["name"] for trace in charts_of(app)["curves_of_groups"]["data"] if trace.get("showlegend")}


def scored_of(*runs) -> list[run_scores.Scored]:
    return [run_scores.score_run(run) for run in runs]


def test_no_runs(open_page, tmp_path):
    app = open_page(tmp_path / "nothing")
    assert "no runs to compare" in words_of(app) and not app.dataframe


def test_one_run(open_page, tmp_path):
    run = make_run(tmp_path, epochs=3)
    app = open_page(tmp_path)
    assert list(numbers(app)["Group"]) == ["LPS, digits, epochs=3"] and "1 run in 1 group: " in words_of(app)
    assert "one run each, so no spread" in words_of(app) and "only one group" in words_of(app)
    assert legend(app) == {"LPS, digits, epochs=3 (n = 1)"}
    assert run.id[-6:] in [block.value for block in app.code][-1]


def test_no_run_with_an_evaluated_epoch(open_page, tmp_path):
    queued = make_run(tmp_path, "queued")
    app = open_page(tmp_path)
    assert "No run has finished yet" in words_of(app)
    app = open_page(tmp_path, run=[queued.id])
    assert "None of these runs has an evaluated epoch" in words_of(app)
    assert "no epoch has been evaluated yet" in words_of(app) and "1 run is left out" in words_of(app)


def test_the_page_restarts_when_a_run_ends_or_a_chosen_one_has_evaluated_another_epoch(
    open_page, tmp_path, monkeypatch
):
    watched = []
    monkeypatch.setattr(
        page.live_part, "wait_for_end", lambda read, is_same, _: watched.append(lambda: is_same(read()))
    )
    writer = RunWriter(tmp_path, epochs=3)
    writer.begin("running", 1)
    with held(writer.run):
        open_page(tmp_path, run=[writer.run.id])
        open_page(tmp_path)
        assert [is_same() for is_same in watched] == [True, True]
        writer.write_epoch(2)
        assert [is_same() for is_same in watched] == [False, True]
    writer.end("finished")
    assert [is_same() for is_same in watched] == [False, False]


def test_a_run_whose_snapshots_are_gone_is_compared_by_what_it_recorded(open_page, tmp_path):
    run = make_run(tmp_path, epochs=3)
    shutil.rmtree(run.snapshots)
    app = open_page(tmp_path, run=[run.id])
    accuracy = 100 * summarize(run)["last"]["accuracy/all"]
    assert numbers(app)["All"].tolist() == pytest.approx([accuracy])
    assert "the predictions were deleted" in words_of(app) and "evaluated yet" not in words_of(app)
    app = open_page(tmp_path, run=[run.id], protocol="strict")
    assert "predictions: were not found" in words_of(app) and "evaluated yet" not in words_of(app)


@pytest.mark.slow
def test_every_state_at_once(open_page, tmp_path):
    runs = make_one_of_each(tmp_path) | {"another": make_run(tmp_path, "stopped", seed=5)}
    with held(*(runs[name] for name in ALIVE)):
        app = open_page(tmp_path, run=[run.id for run in runs.values()])
        said = words_of(app)
        assert "config.json: is not JSON" in said and "config.json: is missing" in said
        assert "no epoch has been evaluated yet" in said and "ended early, scored at epoch 8 of 20" in said
        assert "seed 0 was run more than once" in said
        assert len(app.multiselect(key="compared_runs").value) == len(runs)


def test_damage_is_named_and_left_out(open_page, tmp_path):
    good = make_run(tmp_path, epochs=3)
    damaged = [make_damaged(tmp_path), make_unreadable(tmp_path), make_foreign(tmp_path)]
    app = open_page(tmp_path, run=[good.id, *(run.id for run in damaged)], select="oracle")
    assert "3 runs are left out" in words_of(app)
    assert "epoch-0007.npz: is damaged" in words_of(app) and "**bold** <b>tag</b>" in words_of(app)
    assert numbers(app)["n"].tolist() == [1]


@pytest.mark.slow
def test_without_a_choice_the_finished_runs_of_the_newest_split_in_every_format(open_page, made):
    app = open_page(root_of(made))
    assert app.multiselect(key="compared_runs").value == []
    assert "Nothing chosen: the 7 newest finished runs of one split are shown." in words_of(app)
    table = numbers(app).set_index("Group")
    assert table["n"].to_dict() == {"LPS, use_margin=true": 3, "LPS, use_margin=false": 2, "GCD": 2}
    assert "7 runs in 3 groups" in words_of(app) and "sorted by All" in words_of(app)
    reasons = "it has no results on digits; network digits_resnet; 4 epochs"
    assert f"Not comparable with the paper: {reasons}" in words_of(app)
    assert [tab.label for tab in app.tabs] == ["LaTeX", "Markdown", "CSV"]
    texts = [block.value for block in app.code]
    assert texts[1].startswith("| method |") and "\\toprule" in texts[0] and texts[2].startswith("method,protocol,")
    report = f"Report ({export_buttons.explain_report()})"
    labels = {button.label for button in app.get("download_button")}
    assert labels == {"Download Markdown", "Download LaTeX", "Download CSV", report}
    table = differing(app).set_index("Group")
    assert set(table.index) == {"GCD", "LPS, use_margin=false"}
    groups = groups_of(made)
    mine = differences.of_groups(groups["LPS, use_margin=false"], groups["LPS, use_margin=true"], "novel")
    assert table.loc["LPS, use_margin=false", "Novel"] == with_minus(differences.format_difference(mine))
    assert table.loc["LPS, use_margin=false", "Seeds"] == "0, 1 (2 of 3)" and table.loc["GCD", "Seen"] == "-"
    assert table.loc["LPS, use_margin=false", "Novel: result"].lower() == differences.verdict(mine)
    assert "Are the differences significant?" in words_of(app) and "nothing is bold" in words_of(app)
    assert charts_of(app)["against_intervals"]["alt"].startswith(
        "Novel: difference from LPS, use_margin=true, with 95 % intervals"
    )


def test_whole_groups_up_to_a_limit(made, monkeypatch):
    runs = sorted(made.values(), key=lambda run: run.id, reverse=True)
    states = {run.id: run.state().name for run in runs}
    monkeypatch.setattr(page, "MAX_RUNS", 5)
    chosen = {run.id for run in page.default_runs(runs, states)}
    groups = [ids(made, "gcd 0", "gcd 1"), ids(made, "plain 0", "plain 1"), ids(made, "lps 0", "lps 1", "lps 2")]
    assert sum(chosen >= set(group) for group in groups) == 2 and len(chosen) in (4, 5)
    monkeypatch.setattr(page, "MAX_RUNS", 1)
    assert len(page.default_runs(runs, states)) == 1
    assert page.default_runs([], {}) == []
    assert page._describe_usual(1) == "Nothing chosen: the newest finished run is shown."


def test_a_link_restores_everything(open_page, made):
    query = {"protocol": "strict", "select": "oracle", "seen": "matched", "curve": "kl", "by": "method", "band": "std"}
    app = open_page(root_of(made), run=ids(made, "lps 0", "few"), **query)
    assert app.multiselect(key="compared_runs").value == ids(made, "lps 0", "few")
    assert "Nothing chosen" not in words_of(app)
    assert app.selectbox(key="picked_protocol").value == "strict"
    assert app.selectbox(key="picked_curve").value == "kl" and app.selectbox(key="picked_by").value == "method"
    assert "An oracle chose the epoch" in words_of(app)
    assert list(numbers(app)["Group"]) and "* seen accuracy after ids" in words_of(app)
    assert app.code[-1].value.endswith("--protocol strict --select oracle --seen matched --format latex")


@pytest.mark.slow
def test_choices_are_written_into_the_address(open_page, made):
    app = open_page(root_of(made))
    app.selectbox(key="picked_protocol").set_value("gcd_v2").run()
    app.multiselect(key="compared_runs").set_value(ids(made, "few", "lps 1")).run()
    app.selectbox(key="picked_by").set_value("split.labeled_ratio").run()
    assert not app.exception
    assert "average over different settings" not in words_of(app)
    assert app.query_params["protocol"] in ("gcd_v2", ["gcd_v2"]) and app.query_params["run"] == ids(
        made, "few", "lps 1"
    )
    assert legend(app) == {"10 % labels (n = 1)", "50 % labels (n = 1)"}
    app.selectbox(key="picked_protocol").set_value("orca").run()
    assert "protocol" not in app.query_params


def test_curves_over_different_settings_say_so(open_page, made):
    assert "Groups that average over different settings: LPS." in words_of(open_page(root_of(made), by="method"))


@pytest.mark.parametrize("protocol", in_turn([*run_scores.PROTOCOLS], 3))
def test_every_protocol(open_page, made, protocol):
    app = open_page(root_of(made), protocol=protocol)
    assert numbers(app)["All"].between(0, 100).all()


def test_strange_links_mean_the_usual(open_page, made):
    app = open_page(root_of(made), protocol="x", curve="../etc", by="rm", band="?")
    assert len(numbers(app)) == 3 and legend(app)


def test_a_link_to_no_run_shows_no_other(open_page, made):
    app = open_page(root_of(made), run=["../../etc"])
    assert not tables(app)
    assert [box.value for box in app.warning] == [f"Run {escape.markdown('../../etc')} was not found."]


def test_the_table_is_sorted_as_numbers_and_shows_mean_and_spread(made):
    groups = group_tables.sorted_groups(scored_of(*[made[n] for n in ("lps 0", "lps 1", "plain 0", "gcd 0")]))
    look = style_table(groups)
    assert look.data["All"].is_monotonic_decreasing and look.data["All"].dtype == float
    html = look.to_html()
    assert " ± " in html and "font-weight: 650" not in html and "*</td>" in html  # equal, so nothing is best
    assert score_tables.format_cell(groups[0], "all") in html


def test_a_negative_gap_has_a_minus_sign(made):
    members = scored_of(made["lps 0"], made["lps 1"])
    low = [replace(m, scores=replace(m.scores, seen=0.1, novel=0.2)) for m in members]
    html = style_table(run_groups.group_runs(low)).to_html()
    assert "−10.0 ± 0.0" in html and ">-10.0" not in html


def test_what_is_distinguishable_is_bold(made):
    members = scored_of(*[made[n] for n in ("lps 0", "lps 1", "plain 0", "plain 1")])
    low = [replace(m, scores=replace(m.scores, all=0.1 + 0.01 * i)) for i, m in enumerate(members[2:])]
    assert style_table(run_groups.group_runs([*members[:2], *low])).to_html().count("font-weight: 650") == 1


def groups_of(made) -> dict[str, run_groups.Group]:
    """The groups that the page shows without a choice, by label."""
    runs = [run for name, run in made.items() if name not in ("few", "stopped")]
    return {group.label: group for group in run_groups.group_runs(scored_of(*runs))}


def differing(app) -> pd.DataFrame:
    return next(table for table in tables(app) if "Seeds" in table)


def test_the_column_of_groups_has_symbols_so_that_a_phone_has_room_for_scores(tmp_path):
    pair = [
        make_run(tmp_path, epochs=1, settings={"margin_scale": scale, "entropy_weight": 0.5}, seed=seed)
        for seed, scale in enumerate((2.0, 10.0))
    ]
    column = scores.label_column(run_groups.group_runs(scored_of(*pair)))
    assert column.cells == ["LPS, C=2", "LPS, C=10"] and "C = margin_scale" in column.config["help"]


@pytest.mark.slow
def test_a_row_has_one_name_in_table_baseline_and_charts(open_page, tmp_path):
    for scale in (2.0, 10.0):
        make_run(tmp_path, epochs=2, settings={"margin_scale": scale})
    app = open_page(tmp_path)
    names = {"LPS, C=2", "LPS, C=10"}
    assert set(numbers(app)["Group"]) == names == set(app.selectbox(key="picked_against").options)
    assert legend(app) == {f"{name} (n = 1)" for name in names} and "C = margin_scale." in words_of(app)
    assert charts_of(app)["against_intervals"]["layout"]["yaxis"]["ticktext"][0] in {name[5:] for name in names} | names


@pytest.mark.slow
def test_what_is_held_against_what_stands_in_the_address_and_in_the_files(open_page, made):
    app = open_page(root_of(made))
    gcd = groups_of(made)["GCD"]
    app.selectbox(key="picked_against").set_value(group_differences.id_of_group(gcd)).run()
    assert set(differing(app)["Group"]) == {"LPS, use_margin=true", "LPS, use_margin=false"}
    assert app.query_params["against"] == group_differences.id_of_group(gcd)
    assert any("| LPS, use_margin=true | GCD |" in block.value for block in app.code)


def test_the_chosen_difference_comes_first_and_nothing_but_seeds_comes_after_the_last(open_page, made):
    app = open_page(root_of(made), against_of="gap")
    assert list(differing(app)) == ["Group", "Gap", "Gap: result", "Seen", "Novel", "All", "NMI", "Seeds"]


def seed_links(app) -> dict[str, str]:
    """The links below the table of differences: label -> query."""
    links = [link.proto for link in app.get("page_link")]
    return {link.label.replace("\\", ""): link.query_string for link in links if "seed" in link.label}


def test_a_row_with_fewer_seeds_than_its_baseline_has_a_link_that_fills_the_form(open_page, made):
    app = open_page(root_of(made))
    links = seed_links(app)
    assert set(links) == {"GCD: seed 2", "LPS, use_margin=false: seed 2"}
    assert links["GCD: seed 2"] == f"clone={made['gcd 0'].id}&set=seed%3D2"


def test_a_seed_that_waits_is_not_offered_again(open_page, tmp_path):
    make_run(tmp_path, epochs=2)
    make_run(tmp_path, epochs=2, settings={"margin_scale": 2.0})
    make_run(tmp_path, "queued", epochs=2, seed=1, settings={"margin_scale": 2.0})
    assert list(seed_links(open_page(tmp_path))) == ["LPS, C=10: seed 1"]


def test_a_finished_run_of_a_missing_seed_is_added_to_the_choice_and_not_trained_again(open_page, made):
    chosen = ids(made, "lps 0", "lps 1", "plain 0")
    app = open_page(root_of(made), run=chosen)
    assert not seed_links(app)
    offers = [button for button in app.button if button.key.startswith("add_finished_")]
    assert [button.label.replace("\\", "") for button in offers] == ["LPS, use_margin=false: seed 1"]
    offers[0].click().run()
    assert app.query_params["run"] == [*chosen, made["plain 1"].id]
    assert not seed_links(app) and not [button for button in app.button if button.key.startswith("add_finished_")]


def test_the_papers_value_stands_beside_a_run_that_is_comparable(open_page, tmp_path, monkeypatch):
    monkeypatch.setattr(paper_results, "DATASETS", {"digits": "CIFAR-10"})
    settings = {"network.freeze_until": "layer3"}
    make_run(tmp_path, epochs=40, written=2, settings=settings)
    make_run(tmp_path, epochs=40, written=2, settings=settings | {"method": "gcd"})
    app = open_page(tmp_path)
    assert set(numbers(app)["Paper"]) == {"90.2 / 93.4 / 92.4", "78.4 / 79.7 / 79.1 †"}
    assert "† GCD, paper: the table has the same three numbers at 10 % labels" in words_of(app)
    monkeypatch.setattr(paper_results, "DATASETS", {})
    assert "Paper" not in numbers(open_page(tmp_path))


def test_table_1_has_the_doubtful_lines_first():
    doubts = [paper_results.find_inconsistencies(row) for row in page.published_rows()]
    assert len(doubts) == 60 and all(doubts[:5]) and not any(doubts[5:])


def test_settings_that_differ_and_no_others(made):
    groups = group_tables.sorted_groups(
        scored_of(*[made[name] for name in ("lps 0", "lps 1", "plain 0", "few", "gcd 0")])
    )
    table = group_tables.settings_table(groups).set_index("Group")
    assert list(table.columns) == ["split.labeled_ratio", "use_margin", "seeds"]
    assert table.loc["GCD, 50 % labels", "use_margin"] == "–"
    assert table.loc["LPS, 50 % labels, use_margin=true", "seeds"] == "0, 1"
    equal = group_tables.sorted_groups(scored_of(made["lps 0"], made["plain 0"]))
    assert list(group_tables.settings_table(equal)) == ["Group", "use_margin"]


def past(**values) -> History:
    """past(kl={1: 0.5, 2: 0.4}): what was recorded at which epoch."""
    return History(epochs=pd.DataFrame({name: pd.Series(column) for name, column in values.items()}))


def test_a_mean_is_over_the_runs_that_have_the_epoch_and_nothing_is_interpolated():
    histories = [past(kl={1: 1.0, 3: 3.0}), past(kl={1: 2.0, 2: 8.0, 3: 5.0}), past(lr={1: 0.1})]
    table = group_tables.curve_table(histories, "kl", "range")
    assert table.index.tolist() == [1, 2, 3]
    assert table["mean"].tolist() == [1.5, 8.0, 4.0] and table["count"].tolist() == [2, 1, 2]
    assert table["low"].tolist()[::2] == [1.0, 3.0] and table["high"].tolist()[::2] == [2.0, 5.0]
    assert np.isnan(table["low"][2])  # one run has no spread
    spread = group_tables.curve_table(histories, "kl", "std")
    assert spread["high"][3] - spread["mean"][3] == pytest.approx(np.std([3, 5], ddof=1))
    interval = group_tables.curve_table(histories, "kl", "interval")
    assert interval["high"][3] - interval["mean"][3] == pytest.approx(np.tan(0.475 * np.pi) * 1.0)  # of 3 and 5
    assert group_tables.curve_table(histories, "kl", "none")["low"].isna().all()
    assert group_tables.curve_table(histories, "nothing", "std").empty


def test_curves_have_the_colours_of_their_runs_on_charts(made):
    scored = scored_of(*[made[name] for name in ("few", "lps 0", "gcd 0")])
    members = group_tables.curve_groups(scored, "everything")
    pinned = {made["gcd 0"].id: "#123456"}
    colors = group_tables.curve_colors(members, scored, DARK, pinned)
    board = board_charts.lines_of_runs(
        BoardChart(), run_index.read_rows([m.run for m in scored]), [read_history(m.run) for m in scored], DARK, pinned
    )
    assert {curve[0].run.id: colors[label] for label, curve in members.items()} == {
        line.key: line.color for line in board
    }


def test_curves_are_never_averaged_over_splits(made):
    scored = scored_of(*[made[name] for name in ("lps 0", "lps 1", "plain 0", "few", "gcd 0")])
    groups = group_tables.curve_groups(scored, "method")
    assert {label: len(runs) for label, runs in groups.items()} == {
        "LPS, 50 % labels": 3,
        "LPS, 10 % labels": 1,
        "GCD, 50 % labels": 1,
    }
    by_margin = group_tables.curve_groups(scored[:3] + scored[4:], "use_margin")
    assert {label: len(runs) for label, runs in by_margin.items()} == {
        "use_margin=true": 2,
        "use_margin=false": 1,
        "no use_margin": 1,
    }
    assert all(len({run.split for run in runs}) == 1 for runs in (*groups.values(), *by_margin.values()))


def test_what_curves_can_be_grouped_by(made):
    configs = [made[name].config() for name in ("lps 0", "plain 0", "few", "gcd 0")]
    assert list(group_tables.list_groupings(configs)) == ["everything", "method", "split.labeled_ratio", "use_margin"]


def test_measurements_put_the_usual_ones_first(made):
    found = list(group_tables.list_measurements([read_history(made["lps 0"])]))
    assert found[0] == "accuracy/novel" and "loss/total" in found and "eta_s" not in found


def curve(label: str, mean, low=None, count=None) -> line_charts.GroupCurve:
    mean = pd.Series(mean, index=range(1, len(mean) + 1), dtype=float)
    low = mean - 0.1 if low is None else pd.Series(low, index=mean.index)
    table = pd.DataFrame({"mean": mean, "low": low, "high": 2 * mean - low, "count": count or [2] * len(mean)})
    return line_charts.GroupCurve(label, table)


def test_a_figure_has_a_line_and_a_band_a_group_and_its_legend_the_order_of_the_ends():
    figure = line_charts.curves_of_groups(
        [curve("<b>low", [0.1, 0.2]), curve("high", [0.1, 0.9])],
        2,
        ".0%",
        LIGHT,
        {"<b>low": "#000000", "high": "#ffffff"},
    ).figure()
    assert [trace.name for trace in figure.data if trace.showlegend] == ["high (n = 2)", "&lt;b&gt;low (n = 2)"]
    assert len(figure.data) == 4 and figure.layout.height


def test_a_band_has_a_hole_where_there_is_no_spread():
    found = curve("a", [0.5] * 5, [0.4, 0.4, np.nan, 0.4, 0.4], [2, 2, 1, 2, 2])
    band = line_charts.curves_of_groups([found], 5, "", LIGHT, {"a": "#000000"}).figure().data[0]
    assert np.isnan(np.array(band.x, float)).sum() == 2  # two polygons
    assert found.name == "a (n = 1–2)"
    alone = curve("b", [0.5, 0.6], [np.nan, np.nan], [1, 1])
    assert len(line_charts.curves_of_groups([alone], 2, "", LIGHT, {"b": "#000000"}).figure().data) == 1


def test_ticks_fit_the_span():
    assert group_tables.tick_format("accuracy/all", [curve("a", [0.1, 0.9])]) == ".0%"
    assert group_tables.tick_format("accuracy/all", [curve("a", [0.91, 0.92], [0.91, 0.92])]) == ".1%"
    assert group_tables.tick_format("kl", [curve("a", [1, 2])]) == ""


def _seen_by(eye: str, colors) -> np.ndarray:
    """OKLab coordinates of hex colours as an eye sees them."""
    rgb = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in colors])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(EYES[eye]).T, 0, 1)
    to_lms = [[0.41222, 0.53633, 0.05145], [0.2119, 0.6807, 0.1074], [0.0883, 0.28172, 0.62998]]
    to_lab = [[0.21045, 0.79362, -0.00407], [1.978, -2.42859, 0.45059], [0.0259, 0.78277, -0.80868]]
    return np.cbrt(linear @ np.array(to_lms).T) @ np.array(to_lab).T


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_of_groups_stay_apart_for_every_eye(palette, eye):
    def closest(colors):
        lab = _seen_by(eye, colors)
        return np.linalg.norm(lab[:, None] - lab, axis=2)[np.triu_indices(len(lab), 1)].min()

    assert closest(palette.groups) > 0.1
    assert min(closest(p.terms) for p in (LIGHT, DARK)) < 0.1  # the control: the colours of runs do not


def test_colours_of_groups_are_all_different():
    assert len(set(style.many_colors(24, LIGHT))) == 24 and len(style.many_colors(60, LIGHT)) == 60
