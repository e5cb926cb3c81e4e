"""The launch form's logic: what is typed becomes the same settings that the command line would have."""

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lps.cli._parser import parser
from lps.errors import UserError
from lps.settings.config import configure, parameters, parse_settings
from lps.settings.parameters import text_of
from lps.ui.forms import fields, form
from lps.ui.forms.form import Draft


def test_an_untouched_form_asks_for_the_recipe_of_the_data_set():
    reading = form.read_draft(Draft())
    assert reading.errors == {} and reading.values == {}
    assert reading.configs == (configure({"dataset": "digits", "method": "lps"}),)


def test_every_default_survives_being_shown_as_text():
    for key, parameter in parameters("lps").items():
        if key not in ("dataset", "method"):
            default = form.default_settings("digits", "lps", {})[key]
            assert parameter.parse(text_of(default)) == default, key


def test_only_what_differs_from_the_defaults_is_kept():
    draft = Draft().with_text("margin_scale", "5").with_text("epochs", "40")
    assert dict(draft.texts) == {"margin_scale": "5"}, "40 epochs are the recipe of digits"
    assert draft.with_text("margin_scale", " 10 ").texts == {}
    assert draft.without(["margin_scale"]) == Draft()


def test_seeds_are_runs_that_differ_in_nothing_else():
    configs = form.read_draft(Draft(seeds="3, 1 2", texts={"lr": "0.2"})).configs
    assert [config.seed for config in configs] == [3, 1, 2]
    assert len({replace(config, seed=0).to_json() for config in configs}) == 1
    assert configs[0].lr == 0.2


@pytest.mark.parametrize(
    "text, seeds", [("0", [0]), ("0,1,2", [0, 1, 2]), ("4 2", [4, 2]), ("0-3", [0, 1, 2, 3]), ("7, 1-2", [7, 1, 2])]
)
def test_seeds_are_read_as_people_write_them(text, seeds):
    assert form.parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "key, text, words",
    [
        ("margin_scale", "abc", "'abc' is not a number from 0 to 1000"),
        ("use_margin", "perhaps", "'perhaps' is not true or false"),
        ("schedule", "linear", "'linear' is not one of cosine, constant"),
        ("threads", "many", 'or "none"'),
        ("dataset.path", "a\x00b", "is not a line of text"),
        ("split.seen_classes", "0,0", "has a class twice"),
        ("device", "tpu", "'tpu' is not auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_value_that_does_not_fit_is_a_sentence_at_its_field(key, text, words):
    reading = form.read_draft(Draft().with_text(key, text))
    assert reading.configs == () and list(reading.errors) == [key]
    assert words in reading.errors[key] and not reading.errors[key].startswith(key)


def test_all_misfits_are_reported_at_once():
    draft = Draft(seeds="x").with_text("lr", "fast").with_text("temperature", "0")
    assert set(form.read_draft(draft).errors) == {"seed", "lr", "temperature"}
    assert "and 2 more" in form.blocked_by(form.read_draft(draft).errors)


def test_data_and_devices_are_looked_at_before_a_launch():
    for key, text in (("split.seen_classes", "0,77"), ("split.num_seen", "10"), ("device", "cuda:31")):
        reading = form.check_reading(form.read_draft(Draft().with_text(key, text)))
        assert reading.configs == () and list(reading.errors) == [key]


def test_the_split_can_be_shown_while_another_field_is_wrong():
    draft = Draft().with_text("margin_scale", "abc").with_text("split.num_seen", "3")
    assert form.split_config(draft).split_num_seen == 3
    with pytest.raises(UserError):
        form.split_config(draft.with_text("split.seed", "abc"))


def test_a_copy_of_a_run_asks_for_the_same_config():
    settings = {
        "seed": 4,
        "margin_scale": 2.5,
        "use_margin": False,
        "split.seen_classes": "1,3,9",
        "threads": 2,
        "lr": 1e-3,
    }
    config = configure(settings)
    draft = form.draft_from_config(config, "a name")
    assert form.read_draft(draft).configs == (config,) and draft.name == "a name"
    assert set(draft.texts) == set(settings) - {"seed"}


def test_a_link_brings_the_form_back():
    draft = Draft(seeds="0, 1", name="x y=z", texts={"margin_scale": "abc", "split.seen_classes": "0,1", "lr": "0.2"})
    query = {key: value if isinstance(value, list) else [value] for key, value in form.link_to_draft(draft).items()}
    assert form.draft_from_link(query) == (draft, [])
    assert form.link_to_draft(Draft()) == {}


def test_data_set_method_and_seed_among_the_settings_of_a_link_choose_these():
    parts = ["split.num_novel=3", "seed=4", "method=orca", "dataset=cifar10", "network.name=resnet50"]
    draft, notices = form.draft_from_link({"set": parts, "dataset": ["digits"]})
    assert notices == [] and (draft.dataset, draft.method, draft.seeds) == ("cifar10", "orca", "4")
    assert draft.texts == {"split.num_novel": "3", "network.name": "resnet50"}
    assert (
        form.read_draft(draft).configs
        == form.read_draft(form.draft_from_config(form.read_draft(draft).configs[0])).configs
    )
    assert form.draft_from_link(
        {key: value if isinstance(value, list) else [value] for key, value in form.link_to_draft(draft).items()}
    ) == (draft, [])


@pytest.mark.parametrize(
    "query, words",
    [
        ({"set": ["dataset=cats"]}, "'cats' is not a dataset"),
        ({"set": ["method=../lps"]}, "is not a method"),
        ({"dataset": ["cats"]}, "'cats' is not a dataset"),
        ({"method": ["../lps"]}, "is not a method"),
        ({"set": ["nonsense=1"]}, "is not a setting"),
        ({"set": ["nonsense"]}, "is not a setting"),
        ({"set": ["schedule=linear"]}, "is not a setting"),
        ({"set": ["use_margin=maybe"]}, "is not a setting"),
    ],
)
def test_a_link_that_means_nothing_is_said_and_left_out(query, words):
    draft, notices = form.draft_from_link(query)
    assert draft == Draft() and len(notices) == 1 and words in notices[0]


def test_the_command_line_does_the_same():
    draft = Draft(
        seeds="0, 5", name="it's $HOME `x`", texts={"split.seen_classes": "0,3", "use_margin": "false", "lr": "1e-3"}
    )
    reading = form.read_draft(draft)
    for line, config in zip(form.launch_commands(draft, reading).splitlines(), reading.configs, strict=True):
        words = shlex.split(line)
        assert words[:3] == ["python", "-m", "lps"]
        options = parser().parse_args(words[3:])
        settings = parse_settings(options.settings, options.method)
        assert configure(settings | {"seed": int(options.seed), "dataset": "digits", "method": "lps"}) == config
        assert options.name == draft.name


@given(st.text(max_size=80), st.sampled_from(sorted(parameters("lps"))))
def test_no_text_in_any_field_ends_in_anything_but_a_config_or_a_sentence(text, key):
    if key in ("dataset", "method", "seed"):
        return
    draft = Draft(texts={key: text})
    reading = form.read_draft(draft)
    assert bool(reading.configs) != bool(reading.errors)
    if reading.configs:
        assert form.read_draft(form.draft_from_config(reading.configs[0])).configs == reading.configs


def test_every_setting_has_one_place_in_the_form():
    groups = form.group_settings("lps")
    placed = [parameter.name for members in groups.values() for parameter in members]
    assert sorted([*placed, *form.OWN_PLACE]) == sorted(parameters("lps"))
    assert next(iter(groups)) == "method"


def test_labels_and_formulas_are_made_for_people():
    assert form.setting_label("split.labeled_ratio") == "Labeled ratio"
    assert form.setting_label("lr") == "Learning rate" and form.setting_label("kl_direction") == "KL direction"
    assert form.split_formulas("$$a,\n  \\qquad b$$") == ["a", "b"]
    assert form.split_formulas("no formula") == [] and form.split_formulas("$$a,$$\n $$b$$") == ["a,", "b"]


def shown(draft, key):
    return form.text_in_field(parameters("lps")[key], draft.text(key))


def test_no_value_is_an_empty_field():
    draft = Draft().with_text("threads", "4")
    assert shown(Draft(), "threads") == "" and shown(draft, "threads") == "4"
    assert draft.with_text("threads", " ") == Draft() and form.read_draft(Draft()).configs[0].threads is None
    assert shown(Draft().with_text("lr", ""), "lr") == "", "what needs a value keeps the misfit that was typed"
    assert "lr" in form.read_draft(Draft().with_text("lr", "")).errors


def test_another_data_set_begins_with_its_own_images_and_split():
    draft = Draft().with_text("split.labeled_ratio", "0.1").with_text("dataset.image_size", "16").with_text("seed", "1")
    assert dict(draft.with_choice(dataset="folder").with_text("margin_scale", "5").texts) == {
        "seed": "1",
        "margin_scale": "5",
    }
    assert draft.with_choice(method="orca").text("split.labeled_ratio") == "0.1"


def test_on_stored_features_a_form_shows_and_asks_for_what_they_change():
    """`folder` has 100 epochs, a head on stored features 50: both can be asked for, and each is a default once."""
    live = form.Draft("folder", "lps")
    stored = live.with_text("features", "stored")
    assert (live.text("epochs"), stored.text("epochs")) == ("100", "50")
    assert stored.text("network.name") == "efficientnet_lite0" and stored.text("entropy_weight") == "2"
    typed = stored.with_text("epochs", "100")
    (config,) = form.read_draft(typed).configs
    assert config.epochs == 100
    assert form.read_draft(stored.with_text("epochs", "50")).configs == form.read_draft(stored).configs
    assert form.read_draft(form.draft_from_config(config)).configs == (config,)
    query = {key: value if isinstance(value, list) else [value] for key, value in form.link_to_draft(typed).items()}
    assert form.read_draft(form.draft_from_link(query)[0]).configs == (config,)
    assert typed.with_text("features", "live").text("epochs") == "100"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("10", "In the paper: 10"),
        ("1 (authors' code; the paper gives no value)", "In the authors' code: 1; the paper gives no value"),
        ("0.35 (SimGCD's code)", "In SimGCD's code: 0.35"),
        ("10 (authors' code), 1 (paper)", "In the paper: 10 (authors' code), 1 (paper)"),
    ],
)
def test_a_value_of_code_is_not_said_to_be_in_the_paper(value, sentence):
    assert fields._describe_published(value) == sentence
