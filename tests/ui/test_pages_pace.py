"""The Race page through app.py, without a browser: which runs, what the race is given, what each run measures."""

import base64
import json

import numpy as np
import pytest

from lps.charts import palette
from lps.store import titles
from lps.ui.shared import comparable_runs
from tests.sample_runs import RunWriter, held, make_foreign, make_run, without
from tests.visiting import charts_of, visit, words_of


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    orca = make_run(root, settings={"method": "orca"}, lucky=False)
    return {
        "orca": without(orca, "kl", "margin", "threshold/"),
        "short": make_run(root, settings={"method": "nach", "epochs": 8}, epochs=8),
        "other split": make_run(root, epochs=3, written=3, settings={"method": "simgcd", "split.labeled_ratio": 0.3}),
        "empty": make_run(root, "queued"),
        "lps": make_run(root),
    }


@pytest.fixture
def opened(made, monkeypatch):
    """opened("lps", "orca", at="3") -> the page with these runs in its address."""

    def open_page(*names, **query):
        monkeypatch.setenv("LPS_RUNS", str(made["lps"].root))
        runs = {"run": [made[name].id for name in names]} if names else {}
        return visit("pace", **runs, **query)

    return open_page


def values(array) -> np.ndarray:
    """An array of a figure as plotly writes it."""
    if isinstance(array, dict):
        return np.frombuffer(base64.b64decode(array["bdata"]), array["dtype"])
    return np.array(array)


def raced(app) -> dict:
    """What the race of the page was given."""
    (element,) = [e for e in app.get("bidi_component") if not e.proto.bytes and "race" in json.loads(e.proto.json)]
    return json.loads(element.proto.json)


def said(app, letter: str) -> list[str]:
    notes = charts_of(app)[f"pace-{letter}"]["layout"]["annotations"]
    return [note["text"] for note in notes]


def test_only_a_foreign_folder(tmp_path, monkeypatch):
    make_foreign(tmp_path)
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    assert "No epoch of training has been recorded yet." in words_of(visit("pace"))


def test_begins_with_lps_and_other_methods_of_its_split(opened, made):
    app = opened()
    assert app.multiselect(key="twin_runs").value == [made[name].id for name in ("lps", "orca", "short")]
    assert not app.warning
    assert {"pace-A", "pace-B", "pace-C", "difference-novel", "difference-gap"} <= set(charts_of(app))


def test_a_run_of_another_split_is_refused_in_a_sentence(opened):
    app = opened("lps", "other split", "orca")
    (warning,) = app.warning
    assert "split.labeled_ratio is 0.3 in one and 0.5 in the other." in warning.value.replace("\\", "").replace(
        "\u2060", ""
    )
    drawn = charts_of(app)
    assert "ORCA" in drawn["pace-B"]["alt"] and "pace-C" not in drawn


def test_one_run_alone_suggests_a_partner(opened, made):
    app = opened("lps")
    options = app.multiselect(key="twin_runs").options
    differences = [option.partition(" · ")[2] for option in options]
    assert differences == ["", "", "", "differs in epochs", "differs in epochs"], "comparable runs come first"
    assert {option.split(",")[0].split(" ")[0] for option in options[:3]} == {"LPS", "ORCA"}
    assert {"pace-A"} == {key for key in charts_of(app) if key.startswith(("pace", "difference"))}
    app.button(key=f"beside-{made['orca'].id}").click().run()
    assert not app.exception
    assert app.query_params["run"] == [made["lps"].id, made["orca"].id]
    assert "pace-B" in charts_of(app)


def test_a_recorded_race_leads_back_to_the_own_runs(opened, made, monkeypatch, tmp_path):
    recorded = make_run(tmp_path / "recorded", epochs=2, name="shown")
    (recorded.folder / "recorded.json").write_text("{}")
    monkeypatch.setattr("lps.store.run_folders.RECORDED", tmp_path / "recorded")
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "own"))
    make_run(tmp_path / "own", "failed", epochs=2, written=0, name="mine", settings={"use_margin": False})
    (button,) = [one for one in visit("pace", run=recorded.id).button if one.key == "own_race"]
    assert button.label.endswith("Your own runs\\: mine"), "without the recording of the same split"
    app = opened()
    assert "own_race" not in {button.key for button in app.button}
    app = visit("pace", run=recorded.id)
    app.button(key="own_race").click().run()
    assert app.query_params["run"] == [made[name].id for name in ("lps", "orca", "short")]
    pair = [made["lps"], made["short"]]
    monkeypatch.setattr(comparable_runs, "newest_margin_pair", lambda runs: pair)
    app = visit("pace", run=recorded.id)
    app.button(key="own_race").click().run()
    assert app.query_params["run"] == [run.id for run in pair]


def test_a_run_without_a_partner_says_so(opened):
    assert "No finished run of another method" in words_of(opened("other split"))


def test_choosing_runs_writes_the_address_and_forgets_the_epoch(opened, made):
    app = opened("lps", "orca", epoch="3", view="epochs")
    app.multiselect(key="twin_runs").set_value([made["orca"].id]).run()
    assert app.query_params["run"] in (made["orca"].id, [made["orca"].id])
    assert not {"epoch", "view", "at"} & set(app.query_params) and raced(app)["runs"] == [made["orca"].id]


def test_a_shorter_run_stays_at_its_end_and_says_so(opened):
    app = opened("lps", "short")
    drawn = charts_of(app)
    assert "ended at epoch 8" in said(app, "B") and "ended at epoch 20" not in said(app, "A")
    difference = drawn["difference-novel"]["data"][0]
    assert values(difference["x"]).tolist() == list(range(1, 9))


def test_a_run_without_records_leaves_the_others_alone(opened):
    app = opened("lps", "empty")
    assert "B waits in the queue." in words_of(app)
    assert "pace-A" in charts_of(app) and "pace-B" not in charts_of(app)


def test_a_running_run_grows(tmp_path, monkeypatch):
    writer = RunWriter(tmp_path)
    writer.begin("running", 3)
    partner = make_run(tmp_path, epochs=5, written=5, settings={"method": "orca"})
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    with held(writer.run):
        app = visit("pace", run=[writer.run.id, partner.id])
        assert raced(app)["race"]["epochs"] == [1, 2, 3, 4, 5] and raced(app)["race"]["runs"][0]["last"] == 3
        writer.write_epoch(4)
        app.run()
        assert raced(app)["race"]["runs"][0]["last"] == 4 and "ended at epoch 5" in said(app, "B")


def test_runs_that_train_are_compared_at_the_last_epoch_that_both_have(tmp_path, monkeypatch):
    first, second = RunWriter(tmp_path), RunWriter(tmp_path, settings={"use_margin": False})
    first.begin("running", 3)
    second.begin("running", 1)
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    with held(first.run), held(second.run):
        race = raced(visit("pace", run=[first.run.id, second.run.id]))["race"]
    assert race["epochs"] == [1] and [run["last"] for run in race["runs"]] == [1, 1]
    assert [len(run["novel"]) for run in race["runs"]] == [1, 1]


def test_live_links_to_the_runs_side_by_side(made, monkeypatch):
    monkeypatch.setenv("LPS_RUNS", str(made["lps"].root))
    links = visit("live", run=[made["lps"].id, made["orca"].id]).get("page_link")
    (link,) = (link.proto for link in links if "Side by side" in link.proto.label)
    assert made["lps"].id in str(link) and made["orca"].id in str(link)


def test_the_page_opens_with_the_race_of_its_runs(opened, made):
    app = opened("lps", "orca")
    given = raced(app)
    assert given["runs"] == [made["lps"].id, made["orca"].id] and given["start"] == {}
    assert [run["letter"] for run in given["race"]["runs"]] == ["A", "B"]
    drawn = charts_of(app)
    assert given["clock"] == "pace" and {"pace-A", "pace-B"} <= set(drawn)
    first, second = (drawn[f"pace-{letter}"]["layout"] for letter in "AB")
    assert first["xaxis"]["range"] == second["xaxis"]["range"] == [0, 20.4]
    assert first["yaxis"]["range"] == second["yaxis"]["range"]
    assert all(chart["alt"] for chart in drawn.values() if "alt" in chart)
    colors = {trace["name"]: trace["line"].get("color") for trace in drawn["pace-A"]["data"] if "line" in trace}
    assert (colors["Seen"], colors["Novel"]) == (palette.LIGHT.seen, palette.LIGHT.novel)
    assert said(app, "B").count("not measured by ORCA") == 3, "what a method does not measure is said"
    assert not [text for text in said(app, "A") if "not measured" in text]
    assert [second[f"yaxis{row}"].get("visible", True) for row in ("", 2, 3, 4)] == [True, False, False, False]
    elements = list(app.main)
    (save,) = [i for i, one in enumerate(elements) if one.type == "download_button"]
    texts = {i: one.value for i, one in enumerate(elements) if one.type == "markdown"}
    (curves,) = [i for i, text in texts.items() if text.startswith("**All epochs**")]
    assert elements[save].proto.label.startswith("Save as a file") and save < curves


@pytest.mark.parametrize(
    "query, start",
    [({"at": "3.5", "speed": "2"}, {"at": "3.5", "speed": "2"})]
    + [({"view": "epochs", "epoch": epoch}, {"at": epoch}) for epoch in ("19", "x")],  # of earlier versions
)
def test_a_link_tells_the_race_where_to_stand(opened, query, start):
    assert raced(opened("lps", "orca", **query))["start"] == start


def test_a_fourth_run_has_no_lane_and_is_named_and_of_more_four_are_shown(monkeypatch, tmp_path):
    runs = [make_run(tmp_path, epochs=1, written=1, seed=seed, name=f"number {seed}") for seed in range(5)]
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    app = visit("pace", run=[run.id for run in runs])
    said, drawn = words_of(app), charts_of(app)
    assert "first 4 are shown" in said and "pace-D" in drawn and "pace-E" not in drawn
    assert len(raced(app)["race"]["runs"]) == 3
    assert "3 of 4 runs are shown; a race has at most 3 runs." in said
    assert f"{titles.run_label(runs[3])} is only in the curves below.".replace("\\", "") in said


def test_runs_without_a_lane_are_counted_without_a_choice(monkeypatch, tmp_path):
    for scale in (5.0, 10.0, 20.0, 40.0):
        make_run(tmp_path, epochs=1, written=1, settings={"margin_scale": scale, "epochs": 1})
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    app = visit("pace")
    assert len(raced(app)["race"]["runs"]) == 3
    assert "3 of 4 runs are shown; a race has at most 3 runs." in words_of(app)


def test_a_race_whose_runs_have_begun_says_what_it_waits_for(tmp_path, monkeypatch):
    writer = RunWriter(tmp_path)
    writer.begin("running", 0)
    monkeypatch.setenv("LPS_RUNS", str(tmp_path))
    with held(writer.run):
        words = words_of(visit("pace", run=[writer.run.id]))
    assert "The race begins after the first epoch of training." in words and "No epoch" not in words


def test_a_race_without_an_epoch_says_so(opened):
    app = opened("empty")
    assert "No epoch of training has been recorded yet." in words_of(app)
    assert not [e for e in app.get("bidi_component") if not e.proto.bytes]
