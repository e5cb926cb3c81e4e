"""Fields of a form stand in the page's address, and come back from it."""

import time
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from lps.ui.shared import url_fields
from tests.visiting import visit

pytestmark = pytest.mark.usefixtures("root")


def one(at, name):
    """The words of the address under `name`."""
    found = at.query_params.get(name, [])
    return [found] if isinstance(found, str) else list(found)


def test_every_kind_of_field_is_written_and_read_back():
    at = visit("search")
    at.text_input(key="search_seeds").set_value(" 3, 4 ").run()
    at.number_input(key="search_trials").set_value(7).run()
    at.toggle(key="search_prune").set_value(False).run()
    at.multiselect(key="search_space_lps").set_value(["lr", "use_margin"]).run()
    at.pills(key="search_use_margin").set_value(["false"]).run()
    at.toggle(key="search_lr_log").set_value(False).run()
    query = {name: one(at, name) for name in at.query_params}
    assert query["search_space_lps"] == ["lr", "use_margin"] and query["search_trials"] == ["7"]
    assert query["search_prune"] == query["search_lr_log"] == query["search_use_margin"] == ["false"]
    again = visit("search", **query)
    assert again.text_input(key="search_seeds").value.strip() == "3, 4"
    assert again.number_input(key="search_trials").value == 7
    assert again.pills(key="search_use_margin").value == ["false"]
    assert not again.toggle(key="search_prune").value and not again.toggle(key="search_lr_log").value


def test_one_option_of_a_segmented_control_stays_chosen():
    choices = [each for each in visit("sweeps").segmented_control if each.key.startswith("picked_")]
    assert len(choices) == 2 and all(choice.proto.required for choice in choices)


def test_a_change_outlives_a_click_with_the_address_from_before_it(monkeypatch):
    """As a busy browser sends it; later, the address counts, as after the browser's Back button."""
    at = visit("search", search_trials="7")
    at.number_input(key="search_trials").set_value(9).run()
    at.query_params["search_trials"] = "7"
    at.toggle(key="search_prune").set_value(False).run()
    assert at.number_input(key="search_trials").value == 9 and one(at, "search_trials") == ["9"]
    assert one(at, "search_prune") == ["false"]
    at.query_params["search_trials"] = "7"
    now = time.monotonic()
    monkeypatch.setattr(url_fields.time, "monotonic", lambda: now + 4)
    assert at.run().number_input(key="search_trials").value == 7


def test_a_usual_value_leaves_the_address_and_an_emptied_box_does_not():
    at = visit("search", search_trials="7", search_parallel="2")
    at.number_input(key="search_trials").set_value(20).run()
    at.number_input(key="search_parallel").set_value(None).run()
    at.multiselect(key="search_space_lps").set_value([]).run()
    assert one(at, "search_trials") == one(at, "search_parallel") == []
    assert one(at, "search_space_lps") == [""] and at.multiselect(key="search_space_lps").value == []
    assert visit("search", search_space_lps="").multiselect(key="search_space_lps").value == []


def test_addresses_of_older_versions_have_the_words_of_a_choice():
    at = visit("sweeps", kind="own", sweep_methods=["LPS", "ORCA"], sweep_datasets="CIFAR-10")
    assert at.multiselect(key="sweep_methods").value == ["lps", "orca"]
    assert at.multiselect(key="sweep_datasets").value == ["cifar10"]
    assert at.segmented_control(key="picked_kind").proto.wrap, "every option is in sight on a phone"
    assert at.multiselect(key="sweep_methods").proto.wrap, "and every chosen one"


def test_chosen_options_show_a_new_text_of_theirs_and_nothing_moves_without(monkeypatch):
    """The browser sends the texts that it shows; an old one would be read as an unknown option."""
    state, texts = {}, {"a": "a · running"}
    monkeypatch.setattr(
        url_fields, "st", SimpleNamespace(session_state=state, segmented_control=None, multiselect=None)
    )
    monkeypatch.setattr(url_fields, "_page", lambda: "page")

    def drawn() -> list:
        url_fields.draw_field(lambda *_, **__: None, "runs", ["a"], lambda _: None, format_func=texts.__getitem__)
        return state["runs"]

    first = drawn()
    assert drawn() is first
    texts["a"] = "a · novel 96.1 %"
    assert drawn() is not first


@pytest.mark.parametrize("number", ["0", "9" * 12, "²"])
def test_a_number_outside_its_range_is_the_usual_one(number):
    assert visit("search", search_trials=number).number_input(key="search_trials").value == 20


@pytest.mark.slow
def test_a_form_comes_back_as_it_was_left_but_never_over_a_link():
    at = visit("sweeps", kind="own")
    at.text_input(key="sweep_seeds").set_value("5").run()
    at.query_params.clear()
    at.switch_page("pages/queue.py").run()
    at.switch_page("pages/sweeps.py").run()
    assert not at.query_params, "the browser still has the path of the queue"
    at.run()  # as when the browser answers
    assert one(at, "kind") == ["own"] and at.text_input(key="sweep_seeds").value == "5"
    at.query_params.clear()  # as the browser's Back button does
    at.run()
    at.switch_page("pages/queue.py").run()
    at.switch_page("pages/sweeps.py").run().run()
    assert at.text_input(key="sweep_seeds").value == "5", "the way back is no choice"
    at.text_input(key="sweep_seeds").set_value("0, 1, 2").run()
    at.segmented_control(key="picked_kind").set_value("preset").run()
    assert not at.query_params and at.text_input(key="sweep_seeds").value == "0, 1, 2", "the usual form stays usual"
    at.text_input(key="sweep_seeds").set_value("6").run()
    at.switch_page("pages/queue.py").run()
    at.query_params.clear()
    at.query_params["kind"] = "own"
    at.switch_page("pages/sweeps.py").run()
    assert at.text_input(key="sweep_seeds").value == "0, 1, 2"


def test_fields_send_their_values_again_if_the_browser_may_not_have_them():
    at = visit("launch")
    at.session_state["visit"].began -= 10
    at.run()
    slider = "set:split.num_seen"
    assert not at.slider(key=slider).proto.set_value, "the browser has it"
    at.session_state["visit"].was_drawn = False  # as after a click that interrupted the run
    at.run()
    assert at.slider(key=slider).proto.set_value and at.slider(key=slider).value == 5
    at.run()
    assert not at.slider(key=slider).proto.set_value
    at.session_state["visit"].began += 10  # as at the second click of a double click on a link
    at.run()
    assert at.slider(key=slider).proto.set_value


def test_a_setting_of_all_runs_is_the_field_that_launch_has():
    at = visit("sweeps", kind="own", sweep_fixed=["use_margin", "schedule", "threads"], **{"fix:use_margin": "false"})
    assert at.toggle(key="fix:use_margin").value is False and at.text_input(key="fix:threads").value == ""
    assert "--set use_margin=false" in at.code[0].value
    at.segmented_control(key="fix:schedule").set_value("constant").run()
    at.text_input(key="fix:threads").set_value("2").run()
    assert one(at, "fix:schedule") == ["constant"] and one(at, "fix:threads") == ["2"]
    assert "--set schedule=constant --set threads=2" in at.code[0].value
    at.text_input(key="fix:threads").set_value("").run()
    assert "--set threads=none" in at.code[0].value and not at.exception
    odd = visit("sweeps", kind="own", sweep_fixed=["use_margin"], **{"fix:use_margin": "perhaps"})
    assert odd.toggle(key="fix:use_margin").value is True


def test_a_menu_whose_texts_change_shows_the_new_text():
    """Streamlit sends a value again only if it is set; without that, a browser keeps the old text of the same value."""

    def script():
        import streamlit as st

        from lps.ui.shared import url_fields

        count = st.session_state.get("count", 3)
        url_fields.choose_one(st.selectbox, "class", "Class", {"all": f"All ({count})", "cat": "cat (1)"})

    at = AppTest.from_function(script, default_timeout=30).run()
    assert not at.run().selectbox[0].proto.set_value  # nothing changed
    at.session_state["count"] = 40
    box = at.run().selectbox[0]
    assert box.value == "all" and box.options[0] == "All (40)" and box.proto.set_value
