"""The Live and Projection pages in every state, through app.py, without a browser."""

import json
from pathlib import Path
from urllib.parse import parse_qsl

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from lps.analysis import projection
from lps.charts.event_log import History
from lps.files.atomic import write_json
from lps.machine import detached_jobs
from lps.scheduler import costs
from lps.scheduler.costs import Span
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import configure
from lps.store import titles
from lps.store.run_folders import create_run, delete_run, restore_run
from lps.store.runs import Run, State
from lps.ui.live import epoch_player, sections
from lps.ui.server import routing, run_toasts
from lps.ui.shared import epoch_choice, time_estimates
from tests.sample_runs import ALIVE, RunWriter, held, make_foreign, make_one_of_each, make_run, rewritten
from tests.shares import in_turn
from tests.visiting import APP, charts_of, maps_of, words_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    runs = make_one_of_each(tmp_path_factory.mktemp("runs"))
    with held(*(runs[name] for name in ALIVE)):
        yield runs


@pytest.fixture
def visit(monkeypatch):
    """visit(root, "live", run=[...]) -> the page after its first run; it must show no exception.

    AppTest takes every run for the first of a server; beginning again with app.py would lose what was pressed.
    """
    monkeypatch.setattr(routing, "through_app", lambda: None)
    monkeypatch.setattr(sections.launcher, "dispatch", lambda root: [])  # a queued sample run stays queued

    def open_page(root: Path, page: str, **query) -> AppTest:
        monkeypatch.setenv("LPS_RUNS", str(root))
        app = AppTest.from_file(str(APP), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception
        return app

    return open_page


@pytest.mark.parametrize("page", ["live", "projection"])
def test_only_a_foreign_folder(visit, tmp_path, page):
    make_foreign(tmp_path)
    visit(tmp_path, page)


@pytest.mark.parametrize(
    ("name", "state", "says", "button"),
    [
        ("finished", "Finished", "uses one matching", ""),
        ("no margin", "Finished", "seed 0 · use_margin=false", ""),
        ("stopped", "Stopped", "stopped by request after epoch 8", "Resume"),
        ("failed", "Failed", "Training diverged: the loss is not finite at epoch 8", "Resume"),
        ("crashed", "Crashed", "the run's processes were killed", "Resume"),
        ("queued", "Queued", "Waiting for a free slot", "Cancel"),
        ("starting", "Starting", "", "Stop"),
        ("stopping", "Stopping", "", ""),
        ("pretraining", "Running", "", "Stop"),
        ("running", "Running", "", "Stop"),
        ("damaged", "Finished", "**bold** <b>tag</b> $x$ :fire:", ""),
        ("unreadable", "Unreadable", "This folder cannot be read as a run. config.json", ""),
        ("foreign", "Unreadable", "holiday-pictures", ""),
    ],
)
def test_every_state_is_told_and_has_its_button(visit, made, name, state, says, button):
    app = visit(made[name].root, "live", run=[made[name].id])
    assert state in words_of(app) and says in words_of(app)
    assert {"Stop", "Resume", "Cancel"} & {each.label for each in app.button} == {button} - {""}
    assert ("Open the queue" in [link.label for link in app.page_link]) == (name == "queued")
    drawn = charts_of(app)
    if name in ("finished", "no margin", "stopped", "failed", "crashed", "running", "damaged"):
        assert {"pace", "pi_hat", "class_accuracy", "points", "losses", "pseudo_labels"} <= set(drawn)
    elif name == "pretraining":
        assert set(drawn) == {"pretraining"}
    else:
        assert not set(drawn) & {"pace", "pretraining"} or name == "stopping"


def test_a_run_has_no_panel_of_what_its_method_does_not_measure(visit, tmp_path):
    unmeasured = ("pseudo_label/", "threshold/")

    def drop(_, values: dict) -> dict:
        return {name: value for name, value in values.items() if not name.startswith(unmeasured)}

    app = visit(tmp_path, "live", run=rewritten(make_run(tmp_path, epochs=3, settings={"method": "orca"}), drop).id)
    drawn = charts_of(app)
    assert {"pace", "losses"} <= set(drawn) and "pseudo_labels" not in drawn
    assert "Pseudo-labels" not in words_of(app) and "Confidence threshold" not in str(drawn["pace"]["layout"])


def test_a_stop_that_takes_long_is_explained_and_can_be_cut_short(visit, tmp_path):
    run = make_run(tmp_path, "stopping")
    write_json(run.folder / "progress.json", run.read_json("progress.json") | {"stop_s": 70})
    with held(run):
        app = visit(tmp_path, "live", run=[run.id])
        said = "waiting for the current step to finish (up to 70 s); after 210 s, the run is killed"
        assert f"stopping after a checkpoint: {said}" in app.get("progress")[0].proto.text.replace("\\", "")
        button = next(button for button in app.button if button.label == "End now")
        app = button.click().run()
        assert run.desired().want == "kill" and not app.exception
        assert "End now" not in [button.label for button in app.button]


def test_a_measurement_that_nobody_has_heard_of_shows_up(visit, tmp_path):
    own = {"surprise/of *mine*": 1.0}
    run = rewritten(make_run(tmp_path, epochs=3), lambda kind, values: values | (own if kind == "train" else {}))
    app = visit(tmp_path, "live", run=[run.id])
    (box,) = [box for box in app.expander if box.label == "Other measurements"]
    assert "other:surprise/of *mine*" not in charts_of(app)  # drawn once somebody opens the place
    app.session_state[f"others:{run.id}"] = True
    drawn = charts_of(app.run())["other:surprise/of *mine*"]
    assert drawn["alt"] == "surprise/of *mine* over the epochs" and drawn["data"]


def test_the_first_record_of_pretraining_is_shown(visit, tmp_path):
    run = make_run(tmp_path, "running", written=0, pretrain=1)
    with held(run):
        assert set(charts_of(visit(tmp_path, "live", run=[run.id]))) == {"pretraining"}


def test_a_run_that_looks_in_own_pictures_is_described_without_settings_unless_it_is_of_a_sweep(tmp_path, monkeypatch):
    own = {"dataset": "folder", "dataset.path": "/pictures of mine", "split.num_novel": 4, "entropy_weight": 0.0}
    config = configure(own | {"epochs": 50})
    named, swept = (create_run(tmp_path, config, name) for name in ("mine", "entropy_weight=0, lps seed 0"))
    described = ["pictures of mine", "looks for 4 novel classes"]
    assert sections._describe_run(named, State("running")) == [*described, "50 epochs"]
    assert sections._describe_run(named, State("finished")) == described
    monkeypatch.setattr(sections.inherited_files, "keeps_class_free", lambda run: True)
    assert sections._describe_run(named, State("finished"))[1].startswith("1 novel class, kept free for ")
    assert {"seed 0", "w=0"} <= set(sections._describe_run(swept, State("running")))


def test_weights_that_know_imagenets_classes_are_told_in_a_short_line_with_a_help(visit, made, tmp_path):
    run = make_run(tmp_path, epochs=1, settings={"features": "stored"})
    notices = [one for one in visit(tmp_path, "live", run=[run.id]).caption if "ImageNet's labels" in one.value]
    assert [ABOUT_LABELS in one.help for one in notices] == [True] and len(notices[0].value) < 70
    assert "ImageNet's labels" not in words_of(visit(made["finished"].root, "live", run=[made["finished"].id]))


def test_a_run_that_is_over_has_kept_no_log(visit, tmp_path):
    run = make_run(tmp_path)
    run.log.unlink(missing_ok=True)
    assert "This run has no log." in words_of(visit(tmp_path, "live", run=[run.id]))
    queued = make_run(tmp_path, "queued")
    assert "The run has not started, so it has no log yet." in words_of(visit(tmp_path, "live", run=[queued.id]))


def test_stop_writes_the_wish(visit, tmp_path):
    run = make_run(tmp_path, "running")
    with held(run):
        app = visit(tmp_path, "live", run=[run.id])
        next(button for button in app.button if button.label == "Stop").click().run()
        assert not app.exception
        assert run.read_json("want.json")["want"] == "stop"
        assert "Stopping" in words_of(app)


def test_a_refusal_is_a_sentence(visit, tmp_path, monkeypatch):
    run = make_run(tmp_path, "stopped")
    app = visit(tmp_path, "live", run=[run.id])

    def refuse(run):
        raise sections.UserError("device", "'cuda' is not there")

    monkeypatch.setattr(sections.launcher, "resume", refuse)
    next(button for button in app.button if button.label == "Resume").click().run()
    assert "device: 'cuda' is not there" in words_of(app)


@pytest.mark.slow
def test_scrubber_drives_three_charts(visit, made):
    app = visit(made["finished"].root, "live", run=[made["finished"].id], epoch="3")
    for key in ("pi_hat", "class_accuracy", "points"):
        assert "epoch 3" in charts_of(app)[key]["alt"]
    app.button(key="forward").click().run()
    assert all("epoch 4" in charts_of(app)[key]["alt"] for key in ("pi_hat", "class_accuracy", "points"))
    app.slider[0].set_value(9).run()
    assert all("epoch 9" in charts_of(app)[key]["alt"] for key in ("pi_hat", "class_accuracy", "points"))
    assert app.query_params["epoch"] in ("9", ["9"])
    app.slider[0].set_value(20).run()
    assert "epoch" not in app.query_params  # the newest epoch is not a place: a growing run is followed


@pytest.mark.parametrize(("page", "chart"), [("live", "pi_hat"), ("projection", "map")])
def test_an_address_that_lags_behind_does_not_throw_the_slider_back(visit, made, monkeypatch, page, chart):
    monkeypatch.setattr(epoch_choice, "SETTLE_S", 600)
    app = visit(made["finished"].root, page, run=[made["finished"].id], epoch="3")
    slider = app.slider[0] if page == "live" else app.select_slider(key="map_epoch")
    slider.set_value(9).run()
    app.query_params["epoch"] = "3"  # as the browser still says
    app.run()
    assert "epoch 9" in charts_of(app)[chart]["alt"]
    monkeypatch.setattr(epoch_choice, "SETTLE_S", 0)
    app.query_params["epoch"] = "3"  # as a person says, later
    app.run()
    assert "epoch 3" in charts_of(app)[chart]["alt"] and not app.exception


def test_the_scrubber_rests_while_it_plays(visit, made):
    app = visit(made["finished"].root, "live", run=[made["finished"].id], epoch="3")
    app.button(key="play").click().run()
    assert app.slider[0].disabled
    app.button(key="pause").click().run()
    shown = app.slider[0].value
    assert not app.slider[0].disabled and shown > 3 and app.query_params["epoch"] in (str(shown), [str(shown)])
    app.slider[0].set_value(3).run()
    assert app.slider[0].value == 3


@pytest.mark.slow
def test_only_a_person_chooses_an_epoch_of_a_growing_run(visit, tmp_path, monkeypatch):
    monkeypatch.setattr(epoch_player, "LATE_S", 600)  # on a busy machine five seconds pass between two lines
    writer = RunWriter(tmp_path)
    writer.begin("running", 3)
    with held(writer.run):
        app = visit(tmp_path, "live", run=[writer.run.id])
        asked_before = app._tree.get_widget_states()  # as a timer of the browser asks, which sees epoch 3
        writer.write_epoch(4)
        app.run()
        assert "epoch 4" in charts_of(app)["pi_hat"]["alt"]
        app._run(asked_before)  # but is answered late
        assert "epoch" not in app.query_params and "epoch 4" in charts_of(app)["pi_hat"]["alt"]
        app.run()
        assert "newest" not in [button.key for button in app.button]
        app.slider[0].set_value(2).run()
        writer.write_epoch(5)
        app.run()
        app._run(asked_before)
        assert "epoch 2" in charts_of(app)["pi_hat"]["alt"] and app.query_params["epoch"] in ("2", ["2"])
        app.button(key="newest").click().run()
        assert "epoch" not in app.query_params and "epoch 5" in charts_of(app)["pi_hat"]["alt"]


@pytest.mark.slow
def test_an_epoch_that_was_the_newest_can_be_chosen_later(visit, tmp_path, monkeypatch):
    monkeypatch.setattr(epoch_player, "LATE_S", 0)
    writer = RunWriter(tmp_path)
    writer.begin("running", 3)
    with held(writer.run):
        app = visit(tmp_path, "live", run=[writer.run.id])
        writer.write_epoch(4)
        app.run()
        app.slider[0].set_value(3).run()
        assert app.query_params["epoch"] in ("3", ["3"]) and "epoch 3" in charts_of(app)["pi_hat"]["alt"]


def test_going_back_in_the_browser_outweighs_a_choice(visit, made, monkeypatch):
    app = visit(made["finished"].root, "live", run=[made["finished"].id], epoch="3")
    app.button(key="forward").click().run()
    assert "epoch 4" in charts_of(app)["pi_hat"]["alt"]
    app.query_params["epoch"] = "3"
    monkeypatch.setattr(epoch_choice, "_goes_back", lambda: True)
    app.run()
    monkeypatch.setattr(epoch_choice, "_goes_back", lambda: False)
    app.run()
    assert "epoch 3" in charts_of(app)["pi_hat"]["alt"]


def test_the_epoch_that_is_shown_can_be_explained(visit, made):
    app = visit(made["finished"].root, "live", run=[made["finished"].id], epoch="3")
    link = next(link.proto for link in app.get("page_link") if link.proto.label == "Explain this epoch")
    query = dict(parse_qsl(link.query_string))
    assert query == {"run": made["finished"].id, "epoch": "3"}
    explained = visit(made["finished"].root, "explain", **query)
    assert explained.slider(key="epoch_top").value == 3 and made["finished"].id == explained.selectbox[0].value


@pytest.mark.parametrize("epoch", ["-4", "999", "٣"])
def test_a_strange_epoch_in_a_link_is_no_accident(visit, made, epoch):
    app = visit(made["finished"].root, "live", run=[made["finished"].id], epoch=epoch)
    assert "epoch 20" in charts_of(app)["pi_hat"]["alt"]


def test_runs_of_a_sweep_link_back_to_its_result(visit, tmp_path):
    runs = [make_run(tmp_path, epochs=2, seed=seed) for seed in range(3)]
    for run in runs[:2]:
        run.write_meta(tags=["sweep:two *seeds*", "other", "sweep:"])
    choices = [("live", chosen, count) for chosen, count in (([0], 1), ([0, 1], 1), ([2], 0), ([0, 2], 0))]
    for page, chosen, count in [*choices, ("runs", [0], 1), ("charts", [0, 1], 1), ("effects", [0, 1], 1)]:
        app = visit(tmp_path, page, run=[runs[k].id for k in chosen])
        links = [link.proto for link in app.get("page_link") if link.proto.label.startswith("Sweep ")]
        assert [dict(parse_qsl(link.query_string)) for link in links] == [{"sweep": "two *seeds*"}] * count


def test_several_runs_share_a_figure(visit, made):
    ids = [made[name].id for name in ("finished", "no margin", "failed", "queued")]
    app = visit(made["finished"].root, "live", run=["../../etc", *ids, "nothing"])
    names = {trace["name"] for trace in charts_of(app)["pace_of_runs"]["data"]}
    assert len(names) == 3  # the queued one has nothing to show
    assert app.multiselect(key="picked_runs").value == ids


def test_runs_have_the_colours_of_charts(visit, made):
    ids = [made[name].id for name in ("no margin", "failed", "finished", "queued")]
    root, pin = made["finished"].root, f"{ids[2]}:b3265e"
    live = charts_of(visit(root, "live", run=ids, pin=pin))["pace_of_runs"]["data"]
    board = charts_of(visit(root, "charts", run=ids, pin=pin))["board_0"]["data"]
    lines = {trace["name"]: trace["line"]["color"] for trace in live if trace.get("showlegend")}
    ends = {trace["meta"]["end"]: trace["line"]["color"] for trace in board if "end" in (trace.get("meta") or ())}
    assert lines == ends and "#b3265e" in lines.values() and len(set(lines.values())) == 3


def test_the_latest_is_followed_without_a_choice(visit, made):
    app = visit(made["finished"].root, "live")
    assert app.multiselect(key="picked_runs").value == []
    assert "Running" in words_of(app) or "Starting" in words_of(app) or "Stopping" in words_of(app)
    app.multiselect(key="picked_runs").set_value([made["seed 1"].id]).run()
    assert app.query_params["run"] in (made["seed 1"].id, [made["seed 1"].id]) and "seed 1" in words_of(app)


def test_settings_show_what_differs(made):
    table = sections.table_of_settings(made["no margin"].config())
    assert set(table["Setting"][table["Changed"]]) == {"use_margin", "epochs"}
    assert table["Changed"][:2].all() and not table["Changed"][2:].any()
    has_rule = [
        "split.rule" in set(sections.table_of_settings(configure({"split.labeled_ratio": ratio}))["Setting"])
        for ratio in (0.5, 1.0)
    ]
    assert has_rule == [True, False], "nothing is drawn if every label is used"


@pytest.mark.parametrize("coloring", in_turn(["group", "truth", "predicted", "right", "confidence"], 3))
def test_projection_by_every_colour(visit, made, coloring):
    app = visit(made["finished"].root, "projection", run=made["finished"].id, color=coloring)
    assert "1,000 unlabeled images at epoch 20" in maps_of(app)["map"]["alt"]
    assert "Showing 1,000 of 1,332 unlabeled images" in words_of(app)


def test_projection_shows_the_image_of_the_link(visit, made):
    image = int(projection.read_snapshot(made["finished"].snapshots, 20).feature_index[0])
    app = visit(made["finished"].root, "projection", run=made["finished"].id, image=str(image))
    assert f"Image {image}" in words_of(app) and maps_of(app)["map"]["image"] == image
    assert "Correct" in words_of(app) or "Wrong" in words_of(app)


def test_projection_of_a_damaged_snapshot_is_a_sentence(visit, made):
    app = visit(made["damaged"].root, "projection", run=made["damaged"].id, epoch="7")
    assert "epoch-0007.npz: is damaged" in words_of(app)


@pytest.mark.parametrize("method", ["umap", "tsne"])
def test_a_map_has_to_be_asked_for(visit, made, monkeypatch, method):
    asked = []
    monkeypatch.setattr(projection, "start_map", lambda run, method, epoch: asked.append((run.id, method, epoch)))
    app = visit(made["finished"].root, "projection", run=made["finished"].id, map=method)
    assert not charts_of(app)
    app.button[0].click().run()
    assert asked == [(made["finished"].id, method, 20)]


def test_a_map_that_failed_says_why(visit, made, monkeypatch):
    failed = detached_jobs.JobState("failed", "umap needs the package umap-learn")
    monkeypatch.setattr(projection, "map_progress", lambda run, method, epoch: failed)
    app = visit(made["finished"].root, "projection", run=made["finished"].id, map="umap")
    assert "umap needs the package umap-learn" in words_of(app)
    assert app.button[0].label == "Try again"


IN_THE_SIXTH = {"epoch": 5, "step": 50, "steps": 200, "eta_s": 90}
FINISHING = "Finishing · 20 epochs done · evaluating and saving"


@pytest.mark.parametrize(
    "progress, recorded, share, words",
    [
        (IN_THE_SIXTH, None, 0.25, "Training, 5 of 20 epochs · about 80 s left"),
        (IN_THE_SIXTH, 6, 0.25, "Training, 6 of 20 epochs"),
        ({"epoch": 20, "step": 200, "steps": 200}, None, 1, FINISHING),
        ({"epoch": 19, "eta_s": 5}, 20, 1, FINISHING),
        ({"phase": ["x"], "epoch": "many", "step": float("inf"), "steps": None}, None, 0, "Starting"),
    ],
)
def test_progress_in_words(tmp_path, progress, recorded, share, words):
    told = {"phase": "train", "epochs": 20, "time": 100} | progress
    (tmp_path / "progress.json").write_text(json.dumps(told).replace("Infinity", "1e999"))
    (tmp_path / "process.json").write_text('{"attempt": 1}')
    epochs = {"epochs": pd.DataFrame({"kl": [0.1]}, index=[recorded])} if recorded else {}
    past = History(last_time=95, **epochs)
    found = time_estimates.describe_progress(Run(tmp_path), State("running", attempt=1), past, now=110)
    assert found[0] == share and found[1].startswith(words)
    assert found[1].endswith("last record 15 s ago") == (share > 0)


@pytest.mark.parametrize(
    "settings, phase, words",
    [
        ({}, "pretrain", "Step 1 of 2: pretraining, 4 of 20 epochs"),
        ({}, "train", "Step 2 of 2: training, 4 of 20 epochs"),
        ({"features": "stored", "network.start": "random"}, "features", "Step 1 of 2: computing features"),
        ({"network.start": "random"}, "train", "Training, 4 of 20 epochs"),
        ({}, "wait", "Waiting for the pretraining of another run, which this run shares"),
        ({"method": "simclr"}, "pretrain", "Pretraining, 4 of 20 epochs"),
        ({}, "prepare", "Preparing"),
    ],
)
def test_progress_names_the_step_of_runs_that_have_two(tmp_path, settings, phase, words):
    run = make_run(tmp_path, "queued", settings=settings)
    progress = {"phase": phase, "epoch": 4, "epochs": 20, "time": 100}
    (run.folder / "progress.json").write_text(json.dumps(progress))
    (run.folder / "process.json").write_text('{"attempt": 1}')
    _, found = time_estimates.describe_progress(run, State("running", attempt=1), History(), now=110)
    assert found.split(" · ")[0] == words and (found == words) == (phase == "wait")


def test_views_are_explained_where_their_features_are_computed(tmp_path):
    run = make_run(tmp_path, "queued", settings={"features": "stored", "features.weak_views": 2})
    num_views = 3 + run.config().features_strong_views
    expected = f" ({num_views} views, changed copies, of each of 600 pictures)"
    assert time_estimates._explain_views(run, 600 * num_views) == expected
    assert time_estimates._explain_views(run, 600 * num_views + 1) == "", "a total of other settings"


def test_the_epochs_of_planned_runs_count_each_pretraining_once():
    known = costs.KnownCosts([costs.RunSpeed(configure({"seed": 9}), 1.0)])
    for settings, words in (
        ([{}], "40 epochs + 20 epochs of pretraining"),
        ([{"seed": 9, "epochs": 1}], "1 epoch"),
        ([{"seed": seed} for seed in (0, 1)], "40 epochs each + 20 epochs of pretraining each"),
        ([{"epochs": epochs} for epochs in (30, 40)], "30 to 40 epochs each + 20 epochs of pretraining in 1 of them"),
        ([{"seed": seed} for seed in (0, 9)], "40 epochs each + 20 epochs of pretraining in 1 of them"),
        ([{"method": "simclr"}], "20 epochs of pretraining"),
        ([{}, {"method": "simclr"}], "40 epochs in 1 of them + 20 epochs of pretraining in 1 of them"),
        ([{"features": "stored", "epochs": 30}], "30 epochs"),
    ):
        assert time_estimates.describe_epochs([configure(changes) for changes in settings], known) == words


def test_a_range_over_an_order_of_magnitude_is_called_no_estimate():
    words = [time_estimates.describe_duration(Span(100, 50, most), 3) for most in (60, 740, 1980)]
    assert words[0] == " · about 2 min each" and words[1].startswith(" · about 50 s to 12 min each (wide range: ")
    assert words[2].startswith(f" · {costs.NO_ESTIMATE}: ") and time_estimates.describe_duration(None, 3) == ""


def test_labels_are_unique(made):
    labels = [titles.run_label(run) for run in made.values()]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("written", [0, 3])
def test_a_run_whose_start_weights_were_there_says_so_and_draws_no_empty_chart(visit, tmp_path, written):
    run = make_run(tmp_path, "running", written=0, pretrain=0)
    values = {"pretrain/reused": 1, "pretrain/knn_accuracy": 0.951, "pretrain/kmeans_accuracy": 0.9}
    with run.events.open("a") as file:
        file.write(json.dumps({"kind": "pretrain", "step": 0, "epoch": 20, "time": 1.0, "values": values}) + "\n")
        for epoch in range(1, written + 1):
            event = {"kind": "eval", "step": epoch, "epoch": epoch, "time": 2.0, "values": {"accuracy/all": 0.9}}
            file.write(json.dumps(event) + "\n")
    with held(run):
        app = visit(tmp_path, "live", run=[run.id])
    said = "skipped pretraining. Quality of the features: k nearest neighbours 95.1 %, k-means 90.0 %."
    assert said in words_of(app)
    assert "pretraining" not in charts_of(app)


@pytest.mark.parametrize("page", in_turn(["live", "pace", "explain", "compare", "clusters", "review", "projection"], 3))
def test_a_deleted_run_is_in_the_trash_and_no_other_stands_under_its_address(visit, tmp_path, page):
    gone, other = make_run(tmp_path, epochs=2, name="mine"), make_run(tmp_path, epochs=2, name="the other", seed=1)
    delete_run(gone)
    app = visit(tmp_path, page, run=[gone.id])
    assert f"mine ({gone.id[-6:]}) was deleted and is in the trash: 7 days left." in words_of(app)
    assert "the other" not in words_of(app) and not charts_of(app)
    assert "Resume" not in [button.label for button in app.button]
    app.button(key=f"restore-{gone.id}").click().run()
    assert not app.exception and gone.folder.is_dir() and other.folder.is_dir()
    assert "in the trash" not in words_of(app)


def test_a_deleted_run_beside_one_that_is_there_is_only_said(visit, tmp_path):
    gone, other = make_run(tmp_path, epochs=2), make_run(tmp_path, epochs=2, name="the other", seed=1)
    delete_run(gone)
    app = visit(tmp_path, "live", run=[gone.id, other.id])
    assert "is in the trash" in words_of(app) and "the other" in words_of(app)


def test_a_page_that_shows_a_run_notices_that_it_was_deleted_and_restored(monkeypatch, tmp_path):
    run, begun = make_run(tmp_path, epochs=1), []
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    monkeypatch.setattr(run_toasts.st, "session_state", {})
    monkeypatch.setattr(run_toasts.st, "rerun", lambda: begun.append(run.id))
    named = frozenset([run.id, "a-recording"])
    run_toasts._show_news(named, frozenset([run.id]), frozenset())
    assert not begun
    delete_run(run)
    run_toasts._show_news(named, frozenset([run.id]), frozenset())
    assert begun
    restore_run(tmp_path, run.id)
    begun.clear()
    run_toasts._show_news(named, frozenset(), frozenset())
    assert begun
