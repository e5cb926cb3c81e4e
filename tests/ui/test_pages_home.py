"""Home in every state: nothing, one, many, alive, over and damaged runs; the demo; what can be done with a run."""

import os

import pytest
from streamlit.testing.v1 import AppTest

from lps.errors import UserError
from lps.files import disk
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run, list_runs
from lps.ui.home import page
from lps.ui.shared import select
from tests import sample_runs
from tests.visiting import visit


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty folder of runs; no process is started."""
    monkeypatch.setenv("LPS_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(launcher, "launch", lambda run: None)
    monkeypatch.setattr(launcher, "dispatch", lambda root: [])
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory):
    """One run in every state, made once; tests that change them take a copy."""
    root = tmp_path_factory.mktemp("each")
    return root, sample_runs.make_one_of_each(root)


def texts(at: AppTest) -> str:
    return "\n".join(element.value for element in [*at.markdown, *at.caption])


def menu(at: AppTest, run):
    return at.menu_button(key=f"menu-{run.id}")


def press(at: AppTest, label: str, question: str, run) -> None:
    """Press a button of a dialog. An `AppTest` draws the whole page for it, so the dialog has to be asked for again."""
    next(button for button in at.button if button.label == label).click()
    at.session_state["home_question"] = (question, run.id)
    at.run()
    assert not at.exception


def test_without_runs_it_says_what_to_do(root):
    at = visit()
    assert "No runs yet." in texts(at) and "both runs together took about a minute" in texts(at)
    assert [button.label for button in at.button] == ["Start the demo"]
    assert list(root.iterdir()) == []
    root.rmdir()
    assert "No runs yet" in texts(visit())


def test_clicks_of_one_visit_make_two_runs_and_turn_to_their_race_and_another_visit_makes_others(root):
    at = visit()
    asked = at.session_state["home_visit"]
    at.button(key="home_start").click().run()
    assert not at.exception
    runs = {run.config().hyperparameters["use_margin"]: run for run in list_runs(root)}
    assert len(list_runs(root)) == 2
    shared = {"dataset": "digits", "method": "lps", "seed": 0, "epochs": 20, "entropy_weight": 0.5, "threads": 1}
    for use_margin, run in runs.items():
        assert run.config() == configure(shared | {"use_margin": use_margin})
    assert at.title[0].value == "Race" and at.query_params["run"] == [runs[True].id, runs[False].id]
    for _ in range(2):  # the clicks that were on their way when the first one was answered
        at.session_state["home_asked"] = asked
        at.switch_page("pages/home.py").run()
        assert at.title[0].value == "Race"
    assert len(list_runs(root)) == 2
    at.switch_page("pages/home.py").run()
    assert at.title[0].value != "Race"
    at.button(key="home_start").click().run()
    assert len(list_runs(root)) == 4


def test_a_folder_that_cannot_be_written_is_a_sentence(root, monkeypatch):
    at = visit()
    monkeypatch.setattr(disk, "make_folder", lambda path: os.mkdir("/proc/nothing/here"))
    at.button(key="home_start").click().run()
    assert not at.exception
    assert "The demo could not be started" in at.error[0].value


@pytest.mark.slow
def test_every_state_has_its_row(root, one_of_each, monkeypatch):
    folder, runs = one_of_each
    monkeypatch.setenv("LPS_RUNS", str(folder))
    with sample_runs.held(*(runs[name] for name in ("running", "pretraining", "starting", "stopping"))):
        shown = texts(visit()) + texts(visit(page="2"))
    for word in ("Finished", "Stopped", "Failed", "Crashed", "Queued", "Starting", "Stopping", "Running", "Unreadable"):
        assert word in shown
    assert "Pretraining, 9 of 20" in shown and "Training, 8 of 20" in shown and "8 of 20 epochs" in shown
    assert r"the loss is not finite at epoch 8" in shown
    assert "is not JSON" in shown and "is missing" in shown and r"holiday\-pictures" in shown
    assert r"\*\*bold\*\* \<b\>tag\<\/b\> \$x\$" in shown, "a name is shown as it is written"


def test_runs_on_own_pictures_show_what_they_look_for_and_what_varies(root):
    own = {"dataset": "folder", "dataset.path": "/home/me/shells", "split.num_novel": 3, "epochs": 12, "threads": 1}
    runs = [create_run(root, configure(own | {"lr": lr})) for lr in (0.1, 0.123456789012345)]
    assert select.run_names(runs[:1])[runs[0].id] == "LPS, 3 novel classes on shells, seed 0"
    names = select.run_names(runs)
    assert names[runs[1].id] == "lr=0.1235, LPS seed 0 on shells"
    assert page._read_row(runs[1], names[runs[1].id]).subject == "LPS, 3 novel classes on shells, seed 0"
    assert r"**lr\=0\.1235\, LPS seed 0 on shells**" in texts(visit())


def test_the_age_of_a_run_counts_from_its_end(root):
    stopped, queued = (sample_runs.make_run(root, state) for state in ("stopped", "queued"))
    assert page._read_row(stopped, "").age == "ended 9 min ago", "made just now, with records that are older"
    assert page._read_row(queued, "").age.startswith("created ")


def test_a_finished_run_shows_its_last_accuracies(root):
    run = sample_runs.make_run(root, "finished", name="LPS, defaults")
    at = visit()
    assert r"**LPS\, defaults**" in texts(at) and "20 epochs" in texts(at)
    last = [line for line in texts(at).splitlines() if line.startswith((":blue[**", ":orange[**", ":gray[**"))]
    assert len(last) == 3 and all(0 < float(line.split("**")[1]) <= 100 for line in last)
    opened = next(link for link in at.page_link if link.label == "Open")
    assert run.id in opened.proto.query_string


@pytest.mark.parametrize(
    "state, possible",
    [
        ("finished", ["Rename", "Launch a copy", "Delete"]),
        ("stopped", ["Rename", "Launch a copy", "Resume", "Delete"]),
        ("failed", ["Rename", "Launch a copy", "Resume", "Delete"]),
        ("queued", ["Rename", "Launch a copy", "Cancel"]),
    ],
)
def test_only_what_makes_sense_is_offered(root, state, possible):
    run = sample_runs.make_run(root, state)
    assert [option.split(": ")[1] for option in menu(visit(), run).options] == possible


def test_alive_runs_can_be_stopped_and_foreign_folders_be_left_alone(root):
    foreign, run = sample_runs.make_foreign(root), sample_runs.make_run(root, "running")
    with sample_runs.held(run):
        at = visit()
    assert ":material/stop_circle: Stop" in menu(at, run).options
    assert f"menu-{foreign.id}" not in [button.key for button in at.menu_button]


def test_stop_and_resume_are_passed_on(root, monkeypatch):
    asked = []
    monkeypatch.setattr(launcher, "stop", lambda run, kill=False: asked.append(("stop", run.id, kill)))
    monkeypatch.setattr(launcher, "resume", lambda run: asked.append(("resume", run.id)))
    alive, over = sample_runs.make_run(root, "running"), sample_runs.make_run(root, "stopped")
    with sample_runs.held(alive):
        menu(visit(), alive).click("stop").run()
        menu(visit(), over).click("resume").run()
    assert asked == [("stop", alive.id, False), ("resume", over.id)]


def test_what_cannot_be_done_is_a_sentence(root, monkeypatch):
    def refuse(run):
        raise UserError("device", "cuda:0 is not available")

    monkeypatch.setattr(launcher, "resume", refuse)
    run = sample_runs.make_run(root, "stopped")
    at = visit()
    menu(at, run).click("resume").run()
    assert not at.exception and r"cuda\:0 is not available" in at.toast[0].value.replace("\u2060", "")


def test_rename(root):
    run = sample_runs.make_run(root, "finished", name="before")
    at = visit()
    menu(at, run).click("rename").run()
    at.text_input(key="new_name").set_value("after *all*")
    press(at, "Save", "rename", run)
    assert run.meta()["name"] == "after *all*"
    assert r"**after \*all\***" in texts(at)


def test_delete_asks_first_and_moves_to_the_trash(root):
    run = sample_runs.make_run(root, "finished")
    at = visit()
    menu(at, run).click("delete").run()
    assert run.folder.exists() and "trash" in texts(at)
    press(at, "Delete", "delete", run)
    assert not run.folder.exists() and len(list((root / ".trash").iterdir())) == 1
    assert "No runs yet" in texts(at)


def test_a_copy_opens_the_form(root):
    run = sample_runs.make_run(root, "finished", settings={"margin_scale": 3.0})
    at = visit()
    menu(at, run).click("copy").run()
    assert at.title[0].value == "Launch" and at.text_input(key="set:margin_scale").value == "3"


def test_many_runs_are_shown_page_by_page(root):
    runs = [sample_runs.make_run(root, "queued", seed=seed) for seed in range(10)]
    first, second = visit(), visit(page="2")
    assert len(first.menu_button) == 8 and len(second.menu_button) == 2
    shown = {button.key for button in [*first.menu_button, *second.menu_button]}
    assert shown == {f"menu-{run.id}" for run in runs}
    assert len(visit(page="77").menu_button) in (2, 8)
