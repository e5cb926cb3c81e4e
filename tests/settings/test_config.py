"""Settings: one set of names in Python, JSON and on the command line; every bad value is one sentence."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lps.errors import UserError
from lps.settings import catalog
from lps.settings.config import Config, configure, parameters, parse_settings, protocol_parameters
from lps.settings.parameters import Parameter

OF_LPS = parameters("lps")


def test_a_config_survives_its_own_json():
    config = configure({"seed": 3, "margin_scale": 5, "split.seen_classes": "3,1", "split.num_seen": None})
    assert Config.from_json(config.to_json()) == config
    assert json.loads(config.to_json())["margin_scale"] == 5.0 and config.split_seen_classes == "3,1"


def test_a_config_is_made_again_from_its_values_without_checks():
    config = configure({"seed": 3, "margin_scale": 5, "split.seen_classes": "3,1"})
    assert Config.from_flat(config.flat()) == config and "margin_scale" in config.changed
    changes = {"seed": 4, "margin_scale": 1.0, "split.num_seen": 2, "split.seen_classes": "3,1"}
    changed = config.with_values(changes)
    assert changed == configure(config.flat() | changes) and list(changed.flat()) == list(config.flat())
    assert changed.changed == configure(config.flat() | changes).changed and config.seed == 3
    assert config.with_values({"seed": 4}).hyperparameters == config.hyperparameters


def test_recipe_of_the_data_set_stands_between_defaults_and_wishes():
    assert protocol_parameters()["epochs"].default == 200
    assert configure({"dataset": "digits"}).epochs == 40
    assert configure({"dataset": "digits", "epochs": 7}).epochs == 7


@pytest.mark.parametrize("dataset", catalog.dataset_names())
def test_every_recipe_passes_the_checks_of_its_settings(dataset):
    """A value equal to the usual one is not checked again, so the usual ones have to be sound."""
    known = protocol_parameters()
    for key, value in catalog.dataset_info(dataset).recipe.items():
        checked = known[key].check(value)
        assert type(checked) is type(value) and checked == value, key


def test_paths_become_absolute_because_the_trainer_works_elsewhere():
    assert configure({"dataset.path": "images"}).dataset_path.startswith("/")


def test_several_processes_where_method_and_device_allow_it():
    assert configure({"processes": 2, "device": "cuda"}).processes == 2
    with pytest.raises(UserError, match="^processes: 2 is not possible with DS3L; choose 1$"):
        configure({"processes": 2, "method": "ds3l"})
    with pytest.raises(
        UserError, match="^device: cuda:1 is a single GPU, but 2 processes need one each; choose auto, cuda or cpu$"
    ):
        configure({"processes": 2, "device": "cuda:1"})


def test_no_method_shadows_a_setting_of_the_protocol():
    for name in catalog.method_names():
        assert not set(catalog.method_info(name).parameters) & set(protocol_parameters()), name


def test_every_default_passes_its_own_check():
    for method in catalog.method_names():
        for parameter in parameters(method).values():
            assert parameter.check(parameter.default) == parameter.default
            assert parameter.help and parameter.help[0] != " "


@pytest.mark.parametrize("text", ["", "null", "[]", '"x"', "{", '{"a":', "\x00", "[" * 100_000])
def test_a_damaged_config_is_one_sentence(text):
    with pytest.raises(UserError) as caught:
        Config.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_LPS)
@settings(deadline=None, max_examples=100)
@given(
    value=st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()), st.just(10**5000)
    )
)
def test_any_value_is_taken_or_named(name, value):
    parameter = OF_LPS[name]
    try:
        taken = parameter.check(value)
    except UserError as error:
        assert str(error).startswith(f"{name}: ") and "\n" not in str(error) and len(str(error)) < 700
    else:
        assert parameter.check(taken) == taken


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_LPS)
@settings(deadline=None, max_examples=100)
@given(text=st.text(max_size=40))
def test_any_typed_text_is_taken_or_named(name, text):
    try:
        configure(parse_settings([f"{name}={text}"], "lps"))
    except UserError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "texts, words",
    [
        (["lr"], "'lr' is not of the form name=value"),
        (["speed=1"], "speed: is not a setting of lps; choices: dataset, method"),
        (["epochs=1.5"], "epochs: '1.5' is not a whole number from 1 to 100000"),
        (["lr=nan"], "lr: nan is not a number from 1e-08 to 100"),
        (["use_margin=perhaps"], "use_margin: 'perhaps' is not true or false"),
        (["kl_direction=left"], "'left' is not one of uniform_to_est, est_to_uniform"),
        (["device=gpu"], "'gpu' is not auto, cpu, cuda or cuda:N"),
        (["split.seen_classes=0,0"], "has a class twice"),
        (["split.seen_classes=0,1", "split.num_seen=3"], "3 does not match the 2 classes"),
        (["split.num_seen=10"], "10 of 10 classes seen; expected 1 to 9"),
    ],
)
def test_messages(texts, words):
    with pytest.raises(UserError) as caught:
        configure(parse_settings(texts, "lps"))
    assert words in str(caught.value)


def test_the_catalog_reads_what_the_class_really_takes():
    """The signature read from source equals the one Python sees."""
    import inspect
    from importlib import import_module

    for name in catalog.method_names():
        info = catalog.method_info(name)
        kinds = [v for v in vars(import_module(f"lps.methods.{name}")).values() if inspect.isclass(v)]
        (kind,) = [k for k in kinds if k.__module__ == f"lps.methods.{name}"]
        taken = [p for above in kind.mro()[:-1] for p in inspect.signature(above.__init__).parameters.values()]
        real = {p.name: p.default for p in taken if p.kind is p.KEYWORD_ONLY}
        assert {p.name: p.default for p in info.parameters.values()} == real
        assert {"Citation", "Objective", "Deviations"} <= set(info.sections)


def test_an_expectation_reads_like_a_sentence():
    assert Parameter("n", "int", 1, "", minimum=1).expectation() == "a whole number of at least 1"
    assert Parameter("x", "float", None, "", optional=True).expectation() == 'a number or "none"'


@pytest.mark.parametrize(
    "network, start, expected",
    [
        ("efficientnet_lite0", "published", True),
        ("resnet50", "torchvision", True),
        ("torchvision:efficientnet_b0", "published", True),
        ("timm:resnet18", "published", True),
        ("timm:vit_base_patch16_224.augreg_in21k", "published", True),
        ("timm:hiera_base_224.mae_in1k_ft_in1k", "published", True),
        ("timm:vit_small_patch14_dinov2", "published", False),
        ("timm:vit_small_patch14_dinov2.lvd142m", "published", False),
        ("timm:vit_base_patch16_clip_224.openai", "published", False),
        ("timm:eva02_tiny_patch14_224.mim_in22k", "published", False),
        ("efficientnet_lite0", "random", False),
        ("cifar_resnet18", "simclr", False),
    ],
)
def test_which_start_weights_know_imagenets_classes(network, start, expected):
    assert configure({"network.name": network, "network.start": start}).rests_on_labels == expected
