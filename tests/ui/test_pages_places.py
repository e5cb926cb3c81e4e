"""Where runs go, as the pages ask for it: nothing to choose without a cluster, and what a job asks for with one."""

import shlex

import pytest

from lps.cli._parser import parser, target_options
from lps.cluster.executors import slurm
from lps.cluster.jobs import JOB_FILE
from lps.errors import UserError
from lps.files.atomic import write_json
from lps.scheduler import launcher
from lps.settings.config import configure
from lps.store.run_folders import create_run, list_runs
from lps.ui.forms import execution_target
from lps.ui.shared import escape
from tests.visiting import visit, whole_form


@pytest.fixture(autouse=True)
def no_process_is_started(monkeypatch):
    monkeypatch.setattr(launcher, "launch", lambda run: None)


@pytest.fixture
def handed_over(monkeypatch):
    """A cluster that takes every job: what it was asked for."""
    asked = []
    execution_target._known_values.clear()
    monkeypatch.setattr(slurm, "is_here", lambda: True)
    monkeypatch.setattr(slurm, "partitions", lambda: ["low", "gpu"])
    monkeypatch.setattr(slurm, "check", lambda options: None)
    monkeypatch.setattr(launcher, "launch_all", lambda runs, *_, on, name, **more: asked.append((runs, on, name)))
    return asked


def texts(at) -> str:
    said = "\n".join(element.value for element in [*at.markdown, *at.caption])
    return said.replace("\\", "").replace(escape.WORD_JOINER, "")


def choose_slurm(**query):
    at = whole_form(**query)
    at.segmented_control(key="place:on").set_value("slurm").run()
    assert not at.exception
    return at


def test_without_a_cluster_there_is_nothing_to_choose(root, monkeypatch):
    monkeypatch.setattr(slurm, "is_here", lambda: False)
    at = whole_form()
    assert all(control.key != "place:on" for control in at.segmented_control) and "--on" not in at.code[0].value


def test_a_field_that_two_pages_have_shows_its_value_on_the_second(root, handed_over):
    at = whole_form()
    at.switch_page("pages/sweeps.py").run()
    assert at.segmented_control(key="place:on").value == "here" and not at.exception


@pytest.mark.slow
def test_a_run_is_handed_over_with_what_was_typed(root, handed_over):
    at = choose_slurm()
    at.selectbox(key="place:partition").set_value("gpu").run()
    at.text_input(key="place:time").set_value("2:00:00").run()
    at.text_area(key="place:extra").set_value("--constraint=a100&b\n\n--exclusive").run()
    expected = ["partition=gpu", "time=2:00:00", "extra=--constraint=a100&b", "extra=--exclusive"]
    assert "place:at_once" not in [field.key for field in at.text_input], "one run is no sweep"
    words = shlex.split(at.code[0].value)
    options = parser().parse_args(words[3:])
    assert target_options(options) == slurm.read_options(expected), "the command that is shown does the same"
    at.button(key="launch_start").click().run()
    ((runs, on, _),) = handed_over
    assert on.texts() == expected and runs == list_runs(root) and at.title[0].value == "Live"


@pytest.mark.slow
def test_several_seeds_are_one_array(root, handed_over):
    at = choose_slurm(seeds="0 1 2")
    at.text_input(key="place:at_once").set_value("2").run()
    assert at.code[0].value.count("--slurm at_once=2") == 3
    at.button(key="launch_start").click().run()
    ((runs, on, _),) = handed_over
    assert len(runs) == 3 and on.get("at_once") == 2


@pytest.mark.slow
def test_a_misfit_is_a_sentence_beside_its_field_and_nothing_is_handed_over(root, handed_over):
    at = choose_slurm()
    at.text_input(key="place:time").set_value("soon").run()
    assert texts(at).count("'soon' is not of the form 90, 2:00:00, 1-12") == 2 and "--on" not in at.code[0].value
    assert at.button(key="launch_start").disabled
    at.session_state["launch_asked"] = at.session_state["launch_visit"]  # a click that no browser would let through
    at.run()
    assert at.title[0].value == "Launch" and not root.exists() and not handed_over


@pytest.mark.slow
def test_what_the_cluster_refuses_is_said_before_a_folder_is_made(root, handed_over, monkeypatch):
    def refuse(options):
        raise UserError("slurm", "the cluster does not accept such a job: no <b>such</b> account")

    monkeypatch.setattr(slurm, "check", refuse)
    at = choose_slurm()
    at.button(key="launch_start").click().run()
    assert at.title[0].value == "Launch" and "no <b>such</b> account" in texts(at) and not root.exists()


@pytest.mark.slow
def test_the_choice_is_kept_while_other_pages_are_visited(root, handed_over):
    at = choose_slurm()
    at.text_input(key="place:cpus").set_value("4").run()
    at.switch_page("pages/queue.py").run()
    at.switch_page("pages/launch.py").run()
    assert at.text_input(key="place:cpus").value == "4" and "--slurm cpus=4" in at.code[0].value


@pytest.mark.slow
def test_a_device_that_this_machine_lacks_is_no_obstacle_there(root, handed_over):
    assert whole_form(set=["device=cuda"]).button(key="launch_start").disabled
    assert not choose_slurm(set=["device=cuda"]).button(key="launch_start").disabled


@pytest.mark.parametrize(
    "answer, badge, words",
    [
        (
            slurm.SlurmJob("7", "PENDING", "Resources"),
            "Queued",
            "Job 7 waits in SLURM: the nodes are busy (Resources).",
        ),
        (
            slurm.BackendUnavailable("squeue did not respond within 5 s"),
            "Unknown",
            "squeue did not respond within 5 s; no record",
        ),
    ],
)
def test_the_live_page_says_what_the_cluster_says(root, monkeypatch, answer, badge, words):
    run = create_run(root, configure())
    write_json(run.folder / "want.json", {"want": "run", "attempt": 1, "time": 1.0, "on": "slurm"})
    write_json(run.folder / JOB_FILE, {"job": "7", "token": "t"})

    def job_of(about):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(slurm, "job_of", job_of)
    at = visit("live", run=run.id)
    said = "\n".join(element.value for element in [*at.markdown, *at.info, *at.warning]).replace("\\", "")
    assert badge in said and words in said


@pytest.mark.slow
def test_a_node_of_the_cluster_has_devices_of_its_own(root, handed_over):
    at = whole_form()
    assert "cuda" not in at.selectbox(key="set:device").options
    assert "GPU of the node" not in at.selectbox(key="set:device").options
    at = choose_slurm()
    box = at.selectbox(key="set:device")
    assert box.options == ["Automatic", "CPU of the node", "GPU of the node"]
    box.set_value("cuda").run()
    at.button(key="launch_start").click().run()
    ((runs, _, _),) = handed_over
    assert runs[0].config().device == "cuda" and not at.exception


def test_a_sweep_on_a_cluster_asks_for_no_retries_of_this_machine(root, handed_over):
    """The refusal of both together cannot be met any more."""
    at = visit("sweeps")
    at.number_input(key="sweep_retries").set_value(2).run()
    at.segmented_control(key="place:on").set_value("slurm").run()
    box = at.number_input(key="sweep_retries")
    assert box.disabled and box.value == 0 and "cluster" in box.help
    at.button(key="sweep_start").click().run()
    assert not at.exception and not at.error
    ((runs, on, _),) = handed_over
    assert runs and on is not None


def test_a_search_says_that_it_asks_no_cluster(root, handed_over, monkeypatch):
    assert "not a cluster" in texts(visit("search"))
    monkeypatch.setattr(slurm, "is_here", lambda: False)
    assert "not a cluster" not in texts(visit("search"))
