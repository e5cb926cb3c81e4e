"""The launch form: every kind of field, good and bad; copies and links; one click, one run per seed."""

import base64
import json
import time

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from lps.data import sources
from lps.data.class_shares import ADVISED
from lps.errors import UserError
from lps.machine import detached_jobs
from lps.scheduler import background_jobs, class_count, launcher
from lps.scheduler.costs import Span
from lps.settings import edit_log
from lps.settings.backbone_names import ABOUT_LABELS
from lps.settings.config import configure
from lps.store.run_folders import list_runs
from lps.studies import audit_files
from lps.studies.audit_files import KINDS, Audited, Doubt
from lps.ui.forms import data_check, form
from lps.ui.launch import splits
from tests import sample_runs
from tests.broken_files import DATASETS, METHODS, folders
from tests.visiting import charts_of, visit, whole_form, words_of


@pytest.fixture(autouse=True)
def no_process_is_started(monkeypatch):
    monkeypatch.setattr(launcher, "launch", lambda run: None)


def texts(at: AppTest) -> str:
    return "\n".join(element.value for element in [*at.markdown, *at.caption])


def start(at: AppTest):
    return at.button(key="launch_start")


def type_into(at: AppTest, key: str, text: str) -> AppTest:
    at.text_input(key=key).set_value(text).run()
    assert not at.exception
    return at


def test_the_form_opens_with_the_defaults_and_can_be_launched(root):
    at = whole_form()
    assert at.text_input(key="set:margin_scale").value == "10" and at.text_input(key="set:epochs").value == "40"
    assert "465 labeled" in texts(at) and "436 unlabeled" in texts(at) and "896 unlabeled" in texts(at)
    assert at.code[0].value == "python -m lps launch --dataset digits --method lps --seed 0"
    assert not start(at).disabled and "**One run** · digits · LPS · 40 epochs + 20 epochs of pretraining" in texts(at)
    assert at.latex and "B\\. Ye" not in texts(at) and "IJCAI 2024" in texts(at)
    assert not root.exists(), "looking at the form writes nothing"


@pytest.mark.slow
def test_weights_that_know_imagenets_classes_are_told_in_the_open_below_their_choice(root):
    at = whole_form()
    assert ABOUT_LABELS not in texts(at)
    type_into(at, "set:network.name", "efficientnet_lite0")
    assert ABOUT_LABELS in texts(at)
    assert not any(ABOUT_LABELS in caption.value for box in at.expander for caption in box.caption), "it is not hidden"
    at.button(key="reset:network.name").click().run()
    at.segmented_control(key="set:features").set_value("stored").run()
    assert ABOUT_LABELS in texts(at)


def test_the_simple_view_asks_for_a_handful_and_shows_what_else_is_set(root):
    at = visit("launch")
    asked = {w.key for kind in ("selectbox", "text_input", "slider", "toggle") for w in at.main.get(kind)}
    split = {"set:split.num_seen", "set:split.labeled_ratio"}
    assert asked == {"form:dataset", "form:method", "set:epochs", "form:seeds", "form:name"} | split
    assert not start(at).disabled and "Other changed settings" not in [head.value for head in at.subheader]
    at = visit("launch", set=["margin_scale=abc", "split.seed=7"], seeds="1,2")
    assert at.text_input(key="set:split.seed").value == "7" and at.text_input(key="form:seeds").value == "1,2"
    assert "'abc' is not a number" in texts(at).replace("\\", "") and start(at).disabled
    at.button(key="reset:margin_scale").click().run()
    start(at).click().run()
    assert sorted(run.config().seed for run in list_runs(root)) == [1, 2]


@pytest.mark.slow
def test_the_view_is_kept_in_the_address_and_for_the_visit(root):
    at = visit("launch")
    at.segmented_control(key="form:view").set_value("everything").run()
    assert at.query_params["view"] == "everything" and at.text_input(key="set:margin_scale").value == "10"
    type_into(at, "set:margin_scale", "5")
    assert at.query_params["view"] == "everything" and at.query_params["set"] == "margin_scale=5"
    at.switch_page("pages/queue.py").run()
    at.switch_page("pages/launch.py").run()
    assert at.text_input(key="set:margin_scale").value == "5", "as it was left"
    at.segmented_control(key="form:view").set_value("simple").run()
    assert "view" not in at.query_params and at.text_input(key="set:margin_scale").value == "5", "it is also set"


@pytest.mark.slow
def test_settings_have_symbol_range_and_words(root):
    at = whole_form()
    plain = words_of(at)
    assert "η1: weight of the pseudo" in plain and "10; tried 1 to 20" in plain
    assert at.selectbox(key="set:kl_direction").options[0] == "prior ‖ estimate (authors' code)"
    at.selectbox(key="set:kl_direction").set_value("est_to_uniform").run()
    start(at).click().run()
    assert list_runs(root)[0].config().hyperparameters["kl_direction"] == "est_to_uniform", "stored as ever"


def test_every_setting_of_a_method_stands_below_its_heading():
    at = whole_form(method="openncd")
    said = [element.value for element in at.main if element.type in ("markdown", "caption")]
    turns = (
        "**Prototypes**",
        "Outputs of the",
        "**Groups**",
        "Number of nearest",
        "**Labels**",
        "w: weight of",
        "**Variants",
    )
    places = [next(i for i, words in enumerate(said) if words.startswith(turn)) for turn in turns]
    assert places == sorted(places) and "**More settings of this method**" not in said


def test_formulas_are_shown_on_demand_as_the_settings_have_them(root):
    assert not visit("launch", view="everything").latex
    said = texts(whole_form(set=["margin_scale=3", "kl_direction=est_to_uniform"]))
    assert r"\delta_k=3\cdot\mathrm{KL}(\hat\pi\,\|\,\pi)" in said


@pytest.mark.slow
def test_one_click_makes_one_run_with_what_was_typed(root):
    at = type_into(whole_form(set="margin_scale=5"), "set:margin_scale", "2.5")
    at.query_params["set"] = "margin_scale=5"  # as a busy browser still sends it with the next change or click
    at.toggle(key="set:use_margin").set_value(False).run()
    at.segmented_control(key="set:schedule").set_value("constant").run()
    type_into(at, "form:name", "my *run*")
    at.query_params["set"] = "margin_scale=5"
    start(at).click().run()
    (run,) = list_runs(root)
    assert run.config() == configure({"margin_scale": 2.5, "use_margin": False, "schedule": "constant"})
    assert run.meta()["name"] == "my *run*"
    assert at.title[0].value == "Live" and at.query_params["run"] == run.id


@pytest.mark.slow
def test_clicks_of_one_visit_make_one_run_per_seed(root):
    at = type_into(whole_form(), "form:seeds", "0 1")
    assert start(at).label == "Launch 2 runs" and len(at.code[0].value.splitlines()) == 2
    asked = at.session_state["launch_visit"]
    start(at).click().run()
    assert sorted(at.query_params["run"]) == sorted(run.id for run in list_runs(root))
    for _ in range(2):  # the clicks that were on their way when the first one was answered
        at.session_state["launch_asked"] = asked
        at.switch_page("pages/launch.py").run()
        assert at.title[0].value == "Live"
    assert len(list_runs(root)) == 2
    at.switch_page("pages/launch.py").run().run()  # the second one as when the browser answers
    assert at.text_input(key="form:seeds").value == "0 1", "the form is as it was left"
    start(at).click().run()
    assert len(list_runs(root)) == 4, "a click of another visit is meant"


def test_what_is_typed_just_before_the_click_counts_and_a_misfit_launches_nothing(root):
    at = whole_form()
    at.text_input(key="set:margin_scale").set_value("lots")
    start(at).click().run()
    assert at.title[0].value == "Launch" and "'lots' is not a number" in texts(at).replace("\\", "")
    assert not root.exists()
    at.text_input(key="set:margin_scale").set_value("7")
    at.run()
    start(at).click().run()
    assert list_runs(root)[0].config().hyperparameters["margin_scale"] == 7.0


def test_starting_over_empties_the_form(root):
    at = whole_form(seeds="3", set=["margin_scale=5"])
    next(button for button in at.button if button.label == "Start over").click().run()
    assert at.text_input(key="set:margin_scale").value == "10" and at.text_input(key="form:seeds").value == "0"
    assert "set" not in at.query_params and "seeds" not in at.query_params


@pytest.mark.slow
def test_the_split_is_designed_by_count_by_chance_and_by_hand(root):
    at = whole_form()
    at.slider(key="set:split.num_seen").set_value(3).run()
    assert "**3 seen**" in texts(at) and "**7 novel**" in texts(at)
    at.segmented_control(key="split_mode").set_value("random").run()
    assert "split.seen_classes=random" in at.code[0].value and "split.num_seen=3" in at.code[0].value
    at.segmented_control(key="split_mode").set_value(splits.BY_HAND).run()
    assert len(at.pills(key="split_picks").value) == 3, "picking by hand begins with what was seen"
    at.pills(key="split_picks").set_value([8, 1]).run()
    assert "**2 seen**" in texts(at) and "--set split.seen_classes=1,8" in at.code[0].value
    at.slider(key="set:split.labeled_ratio").set_value(10).run()
    at.selectbox(key="set:split.rule").set_value("stratified").run()
    config = configure({"split.seen_classes": "1,8", "split.labeled_ratio": 0.1, "split.rule": "stratified"})
    assert f"{splits.preview_split(config).labeled} labeled" in texts(at)
    start(at).click().run()
    assert list_runs(root)[0].config() == config


@pytest.mark.slow
def test_class_sizes_are_asked_for_and_shown_as_bars(root):
    at = whole_form(set=["split.rule=stratified"])
    assert "class_counts" not in charts_of(at)
    type_into(at, "set:split.imbalance", "10")
    at.selectbox(key="set:split.imbalance_order").set_value("novel").run()
    type_into(at, "set:split.labeled_imbalance", "3")
    config = configure(
        {"split.rule": "stratified", "split.imbalance": 10.0, "split.imbalance_order": "novel",
         "split.labeled_imbalance": 3.0}
    )  # fmt: skip
    expected = splits.preview_split(config)
    heights = [
        np.frombuffer(base64.b64decode(bar["y"]["bdata"]), bar["y"]["dtype"]).astype(int).tolist()
        for bar in charts_of(at)["class_counts"]["data"]
    ]
    assert heights[0] + heights[1] == list(expected.training_by_class)
    assert heights[2] == list(expected.labeled_by_class)
    assert f"{expected.left_out:,} training images" in texts(at)
    assert "--set split.imbalance_order=novel" in at.code[0].value
    start(at).click().run()
    assert list_runs(root)[0].config() == config


def test_unequal_labels_are_told_and_a_button_sets_the_advised_prior(root):
    at = visit("launch")
    assert not at.info
    at = visit("launch", set=["split.imbalance=20", "split.rule=stratified"])
    assert [info.value for info in at.info if "as many labels" in info.value and ADVISED in info.value]
    at.button(key="prior_evidence").click().run()
    assert "What it does on digits" in words_of(at)
    at.button(key="use_prior").click().run()
    assert not at.exception and not at.info
    assert at.selectbox(key="set:prior").value == ADVISED, "it is also set"
    start(at).click().run()
    assert list_runs(root)[0].config().prior == ADVISED


@pytest.mark.slow
def test_no_class_or_every_class_seen_is_no_split(root):
    at = whole_form(set=["split.seen_classes=1,2"])
    at.pills(key="split_picks").set_value([]).run()
    assert "Choose at least one class" in texts(at) and start(at).disabled
    at.pills(key="split_picks").set_value(list(range(10))).run()
    assert "so that at least one class is novel" in texts(at).replace("\\", "") and start(at).disabled


@pytest.mark.slow
def test_numbers_that_a_slider_does_not_have_are_typed(root):
    at = whole_form(set=["split.num_seen=77", "split.labeled_ratio=0.123"])
    assert at.text_input(key="set:split.num_seen").value == "77" and start(at).disabled
    type_into(at, "set:split.num_seen", "4")
    assert at.slider(key="set:split.num_seen").value == 4 and not start(at).disabled
    type_into(at, "set:split.labeled_ratio", "2")
    assert "2.0 is not a number from" in texts(at).replace("\\", "") and start(at).disabled


@pytest.mark.slow
def test_a_copy_of_a_run_is_filled_in(root):
    run = sample_runs.make_run(
        root, "finished", name="first", seed=3, settings={"margin_scale": 3.0, "split.seen_classes": "0,9"}
    )
    at = whole_form(clone=run.id)
    assert at.text_input(key="set:margin_scale").value == "3" and at.pills(key="split_picks").value == [0, 9]
    assert at.text_input(key="form:seeds").value == "3" and at.text_input(key="form:name").value == "first"
    assert at.query_params["clone"] == run.id, "another entry in the history would make the way back longer"
    assert " · about " in texts(at), "the run it copies says what it cost"
    start(at).click().run()
    copies = [other for other in list_runs(root) if other.id != run.id]
    assert [copy.config() for copy in copies] == [run.config()]


def test_a_copy_with_other_seeds_has_no_name_of_a_sweep(root):
    runs = [
        sample_runs.make_run(root, name=name, settings={"margin_scale": 3.0})
        for name in ("margin_scale=3, lps seed 0", "mine")
    ]
    forms = [visit("launch", clone=run.id, set=["seed=1, 2"]) for run in runs]
    assert [at.text_input(key="form:seeds").value for at in forms] == ["1, 2"] * 2
    assert [at.text_input(key="form:name").value for at in forms] == ["", "mine"]
    assert "margin_scale=3" in texts(forms[0]).replace("\\", "")
    assert visit("launch", clone=runs[0].id).text_input(key="form:name").value == "margin_scale=3, lps seed 0"


@pytest.mark.parametrize("name", ["20200101-000000-digits-lps-s0-abcdef", "../../etc"])
def test_a_run_that_is_not_there_cannot_be_copied(root, name):
    at = whole_form(clone=name)
    assert "This run cannot be copied" in at.warning[0].value and not start(at).disabled
    if name == "../../etc":
        at = whole_form(clone=sample_runs.make_unreadable(root).id)
        assert "is not JSON" in at.warning[0].value


@pytest.mark.slow
def test_a_link_fills_the_form_and_the_form_writes_the_link(root):
    at = whole_form(seeds="4", set=["margin_scale=5", "nonsense=1"])
    assert at.text_input(key="set:margin_scale").value == "5" and "nonsense" in at.warning[0].value
    type_into(at, "set:lr", "0.2")
    assert sorted(at.query_params["set"]) == ["lr=0.2", "margin_scale=5"] and at.query_params["seeds"] == "4"


@pytest.mark.slow
def test_a_launch_that_fails_is_a_sentence_and_can_be_tried_again(root, monkeypatch):
    def refuse(run):
        raise UserError("runs", "no process can be started")

    at = whole_form()
    monkeypatch.setattr(launcher, "launch", refuse)
    start(at).click().run()
    assert at.title[0].value == "Launch" and "no process can be started" in texts(at)
    monkeypatch.setattr(launcher, "launch", lambda run: None)
    start(at).click().run()
    assert at.title[0].value == "Live" and len(list_runs(root)) == 1


@pytest.mark.slow
def test_the_reason_why_there_is_no_gpu_is_shown(root, monkeypatch):
    from lps.machine import devices

    found = [devices.Device("cpu", "CPU, 2 cores"), devices.Device("cuda:0", "GPU", False, "no NVIDIA driver found")]
    monkeypatch.setattr(devices, "list_devices", lambda: found)
    at = whole_form()
    assert "no NVIDIA driver found" in texts(at)
    assert at.selectbox(key="set:device").options == ["Automatic", "CPU, 2 cores"]
    at = whole_form(set=["device=cuda:0"])
    assert start(at).disabled and "not available" in texts(at)


def test_a_box_of_settings_stays_open_when_one_is_changed_and_the_bar_names_it(root):
    at = visit("launch", ("group:training",), view="everything")
    at.opened = ()
    labels = [box.label for box in at.expander]
    type_into(at, "set:lr", "0.5")
    assert [box.label for box in at.expander] == labels, "a box with another label is another one, closed"
    assert at.text_input(key="set:lr").value == "0.5" and "**1 changed**" in texts(at)
    assert "· changed: lr=0.5" in texts(at).replace("\\", "")


def test_the_bar_names_a_few_changed_settings_and_counts_the_others():
    draft = form.Draft()
    for key in ("epochs", "lr", "margin_scale", "temperature", "batch_size"):
        draft = draft.with_text(key, "2")
    said = form.summarize_launch(draft, form.read_draft(draft)).replace("\\", "")
    assert "changed: epochs=2, lr=2, margin_scale=2, temperature=2 and 1 more" in said


@pytest.mark.slow
def test_half_labeled_pictures_ask_first_how_many_kinds_they_may_be(root, tmp_path):
    digits = sources.load("digits")
    labels = np.where(digits.labels[:200] < 2, digits.labels[:200], -1)
    np.savez(tmp_path / "half.npz", x_train=digits.pixels[:200], y_train=labels)
    at = whole_form(dataset="arrays", set=[f"dataset.path={tmp_path / 'half.npz'}"])
    (more,) = [box for box in at.expander if box.label.startswith("More")]
    inside = {field.key for field in more.text_input}
    assert "set:split.num_novel" not in inside and "set:split.seed" in inside
    assert "expected the number of novel classes" in texts(at) and start(at).disabled
    type_into(at, "set:split.num_novel", "3")
    assert not start(at).disabled and "**3 novel classes**" in texts(at)
    assert "2 seen" in texts(at) and "in 160 unlabeled pictures whose class is not known" in texts(at)


@pytest.mark.slow
def test_the_number_of_novel_classes_is_searched_and_taken_over(root, monkeypatch):
    asked = []
    monkeypatch.setattr(detached_jobs, "start_job", lambda result, command: asked.append((result, command)))
    at = whole_form()
    next(button for button in at.button if button.label == "Search").click().run()
    ((path, command),) = asked
    assert command[3:7] == ["count-classes", "--begun", "--runs", str(root)] and path.parent == root / ".counts"
    class_count.write_class_count(
        path, class_count.ClassCount((6, 7, 8), (0.8, 0.95, 0.9), (0.1, 0.2, 0.1), 0.01, 7, 5)
    )
    at.run()
    assert not at.exception and "7 classes, 2 of them novel; plausible: 6 to 8 classes, 1 to 3 novel" in texts(at)
    next(button for button in at.button if button.label == "Look for 3 novel classes").click().run()
    assert at.text_input(key="set:split.num_novel").value == "3"
    assert "split.num_novel=3" in at.code[0].value
    type_into(at, "form:seeds", "x")
    assert "needs valid settings" in texts(at)


@pytest.mark.slow
def test_a_count_under_way_is_seen_after_a_reload_with_its_time_left_and_can_be_cancelled(root):
    config = background_jobs.config_of_job(configure({"dataset": "digits"}))
    with background_jobs.working_on(config, class_count.class_count_path(config, root), is_begun=False) as progress:
        progress.report("count", 0.4, Span.about(180.0))
        for page in ("launch", "queue"):
            at = whole_form() if page == "launch" else visit(page)
            (bar,) = [bar.proto for bar in at.get("progress") if "number of classes" in bar.proto.text]
            assert bar.value == 40 and "clustering" in bar.text and "about 3 min left" in bar.text, page
            assert "accuracy on labels" not in texts(at)
        at = whole_form(seeds="3")
        assert [link for link in at.get("page_link") if link.proto.label.endswith("classes: 1")]
        at = visit("queue")
        next(button for button in at.button if button.label == "Cancel").click().run()
        assert progress.should_stop() and not at.exception
        assert [button for button in visit("queue").button if button.label == "Ending"]
    assert "The search was cancelled. The pretraining so far is saved" in texts(whole_form())
    assert "cancelled" in texts(visit("queue"))
    class_count.write_class_count(
        class_count.class_count_path(config, root), class_count.ClassCount((6, 7), (0.8, 0.9), (0.1, 0.2), 0.01, 7, 5)
    )
    assert "2 of them novel" in texts(visit("queue"))


@pytest.mark.parametrize("page", ["launch", "search", "sweeps"])
def test_broken_files_stop_no_form_and_launch_names_them(root, tmp_path, monkeypatch, page):
    with folders(tmp_path, monkeypatch):
        at = visit(page)
        assert not at.exception
    if page == "launch":
        told = texts(at).replace("\\", "")
        assert all(f"{name}.py does not follow the form" in told.lower() for name in [*DATASETS, *METHODS])


def test_where_the_usual_data_set_and_method_are_broken_the_form_begins_with_others(root, tmp_path, monkeypatch):
    with folders(tmp_path, monkeypatch):
        (tmp_path / "datasets" / "digits.py").unlink()
        (tmp_path / "methods" / "lps.py").unlink()
        at = whole_form()
    assert at.selectbox(key="form:method").value == "bacon" and at.selectbox(key="form:dataset").value == "folder"


@pytest.fixture
def found(root, tmp_path, monkeypatch):
    """Digits that were looked at: a copy, a stranger and a doubtful label."""
    monkeypatch.setenv("LPS_DECISIONS", str(tmp_path / "decisions"))
    config = configure({"dataset": "digits", "split.num_novel": 1})
    findings = (
        Doubt("duplicate", (3, 10), 0.1, ("labeled",)),
        Doubt("stranger", (7,), 3.0),
        Doubt("label", (4,), 0.9, label="4", other="9"),
    )
    audit_files.write(audit_files.audit_path(config, root), Audited(1797, findings, dict.fromkeys(KINDS, 1)))
    return config


def said(at: AppTest) -> str:
    return texts(at).replace("\\", "")


def press(at: AppTest, label: str) -> AppTest:
    next(button for button in at.button if button.label == label).click().run()
    assert not at.exception
    return at


@pytest.mark.slow
def test_the_pictures_are_checked_in_the_background(root, monkeypatch):
    asked = []
    monkeypatch.setattr(detached_jobs, "start_job", lambda result, command: asked.append((result, command)))
    press(whole_form(), "Check the pictures")
    ((path, command),) = asked
    assert command[3:6] == ["audit", "--begun", "digits"] and path.parent == root / ".audits"


def test_the_button_for_copies_says_which_picture_stays():
    long, unlabeled = "labeled/cats/the first one.png", "unlabeled/b.png"
    for parts, pictures, label in (
        (("labeled", "unlabeled"), (long, unlabeled), f"Leave out {unlabeled} and keep …/the first one.png"),
        (("labeled", "unlabeled"), ("a" * 30, unlabeled), f"Leave out {unlabeled} and keep …{'a' * 21}"),
        (("labeled", "test"), (3, 10), "Leave out 3 and keep 10"),
        (("labeled",), (3, 10, 12), "Leave out 2 copies and keep 3"),
    ):
        finding = Doubt("duplicate", pictures, 0.1, parts)
        assert data_check._list_choices(finding, pictures)[0][0] == label


@pytest.mark.slow
def test_what_was_found_is_decided_by_a_click_and_taken_back(root, found):
    at = whole_form()
    assert any("near duplicates: 1" in one.label.lower() for one in at.expander)
    assert at.segmented_control(key="check_kind").value == "label"  # the most harmful kind is shown first
    press(at, "Label it 9")
    assert "the next runs relabel 1 picture" in said(at) and "3.0 standard deviations" in said(at)
    press(at, "Keep as it is")
    assert "2 similar pictures" in said(at)
    assert [one.label for one in at.button if one.label.startswith("Leave")] == ["Leave out 10 and keep 3"]
    press(at, "Leave out 10 and keep 3")
    assert "leave out 1 picture and relabel 1 picture" in said(at) and "1 picture left out: 10" in said(at)
    assert "decided on everything that was found among 1,797 pictures" in said(at)
    start(at).click().run()
    (run,) = list_runs(root)
    labels = sources.images_of(run.config()).labels
    assert len(labels) == 1796 and labels[4] == 9 and run.config().dataset_decisions
    at = whole_form()
    for _ in range(3):
        press(at, "Undo")
    assert "next runs" not in said(at)
    at = whole_form()
    assert "Labeled 4; of the nearest labeled pictures, 90 % are 9 and none is 4" in said(at)
    assert len(sources.images_of(run.config()).labels) == 1796


@pytest.mark.slow
def test_a_check_under_way_shows_how_far_it_is_and_is_cancelled(root, found):
    path = audit_files.audit_path(found, root)
    path.unlink()
    with background_jobs.working_on(audit_files.undecided_config(found), path, is_begun=False) as progress:
        progress.report("features", 0.4, Span.about(180.0))
        at = whole_form()
        (button,) = [button for button in at.button if button.label == "Cancel"]
        assert button.help == "The pretraining so far is saved"  # pictures without colours need pretraining
        (bar,) = [bar.proto for bar in at.get("progress") if "Data check" in bar.proto.text]
        assert bar.value == 40 and "reading pictures" in bar.text and "about 3 min left" in bar.text
        press(at, "Cancel")
        assert progress.should_stop()
    assert "The check was cancelled. The pretraining so far is saved" in texts(whole_form())


def test_a_check_of_coloured_pictures_keeps_features_where_it_is_cancelled(root):
    """It pretrains nothing, so that nothing pretrained is promised."""
    config = audit_files.undecided_config(configure({"dataset": "cifar10"}))
    path = root / audit_files.FOLDER / "cifar10-0.json"
    with background_jobs.working_on(config, path, is_begun=False):
        work = background_jobs.job_at(path, time.time())
    assert work.remains == background_jobs.remains_in_words(config) == "the features computed so far are saved"
    random = configure({"network.start": "random"})
    assert background_jobs.remains_in_words(random) == "the next one starts from the beginning"


@pytest.mark.slow
def test_damaged_findings_and_decisions_are_said_on_the_page(root, found):
    path = audit_files.audit_path(found, root)
    whole = json.loads(path.read_text())
    twice = whole | {"findings": [*whole["findings"], whole["findings"][0]]}
    beyond = whole | {"findings": [whole["findings"][0] | {"score": 10**400}]}
    for text in ("{", json.dumps(twice), json.dumps(beyond)):
        path.write_text(text)
        assert "the findings are damaged" in texts(whole_form()).lower()
    path.unlink()
    edit_log.decisions_folder().mkdir()
    edit_log.log_path("digits", None).write_text("{")
    at = whole_form()
    assert not at.exception and "s damaged and was not changed" in texts(at) and start(at).disabled
