"""Methods as their files tell them: without a constructor, with annotated facts, and ones that cannot be read."""

import re

import pytest

from lps.errors import UserError
from lps.settings import catalog, config
from lps.settings.parameters import Parameter, ParameterDocs
from lps.studies import presets

FILE = '''r"""TOY: {title}

Citation:
    nobody
"""

from lps.methods import Method


class Toy(Method):
{body}
'''
INIT = "    def __init__(self, network, classes, *, {name}: Annotated[float, 'why', (0, 1)] = 0.5): ..."


@pytest.fixture
def described(tmp_path, monkeypatch):
    """Gives what the catalog says of a method with this body."""
    folder = tmp_path / "methods"
    folder.mkdir()
    monkeypatch.setattr(catalog, "METHODS", folder)

    def describe(body, title="a toy."):
        (folder / "toy.py").write_text(FILE.format(title=title, body=body))
        return catalog.method_info("toy")

    return describe


def test_a_method_without_a_constructor_has_no_hyperparameters(described):
    info = described("    views = ('weak',)")
    assert (info.title, info.parameters, info.seen_is_aligned, info.distributes) == ("TOY", {}, True, True)


def test_facts_may_be_annotated(described):
    info = described("    seen_is_aligned: bool = False\n    distributes = False")
    assert (info.seen_is_aligned, info.distributes) == (False, False)


@pytest.mark.parametrize(
    "body",
    [
        "    def __init__(self",
        "    def __init__(self, *, weight=1.0): ...",
        "    def __init__(self, *, weight: float = 1): ...",
    ],
)
def test_a_file_that_cannot_be_read_is_named(described, body):
    with pytest.raises(UserError, match=r"method: toy\.py does not follow the form"):
        described(body)


def test_a_hyperparameter_may_not_take_the_name_of_a_shared_setting(described, monkeypatch):
    info = described(INIT.format(name="momentum"))
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "method_info", lambda name: info)
        with pytest.raises(UserError, match="method: toy defines momentum"):
            config.parameters("toy")
    fine = described(INIT.format(name="weight"))
    assert fine.parameters["weight"].default == 0.5


TOLD = """    def __init__(self, network, classes, *,
        weight: Annotated[float, "eta1: of a term", (0, 1), Told("Terms", larger="more of it")] = 0.5,
        side: Annotated[Literal["in", "out_of"], "where", Told(words={"in": "inside"})] = "in"): ..."""


def test_what_people_are_told_of_a_setting_stands_in_its_annotation(described):
    weight, side = described(TOLD).parameters.values()
    assert weight.told == ParameterDocs("Terms", larger="more of it") and (weight.minimum, weight.maximum) == (0, 1)
    assert (weight.symbol, weight.meaning) == (r"\eta_{1}", "of a term")
    assert (side.shown("in"), side.shown("out_of"), side.choices) == ("inside", "out of", ("in", "out_of"))
    assert hash(side) and (side.symbol, side.meaning) == ("", "where")


def test_a_fact_that_nobody_can_be_told_is_named(described):
    with pytest.raises(UserError, match="weight"):
        described(TOLD.replace("larger=", "greater="))


@pytest.mark.parametrize(
    "help, plain, sign", [("C: x", "C", "C"), ("eta1: x", "η1", "η1"), ("lambda_seen: x", "λ_seen", ""), ("no", "", "")]
)
def test_a_symbol_is_plain_text_and_a_label_has_it_without_words(help, plain, sign):
    parameter = Parameter("a", "float", 0.0, help)
    assert (parameter.plain_symbol, parameter.sign) == (plain, sign)


@pytest.mark.parametrize(
    "help, symbol",
    [
        ("C: factor", "C"),
        ("tau_r: what divides", r"\tau_{r}"),
        ("lambda_novel: confidence", r"\lambda_{\mathrm{novel}}"),
        ("PI: two views agree", ""),
        ("TE, TEP: share", ""),
        ("live: the network sees pictures", ""),
    ],
)
def test_a_meaning_may_begin_with_a_symbol(help, symbol):
    assert Parameter("x", "float", 1.0, help).symbol == symbol


def test_what_is_told_of_the_paper_is_what_its_presets_vary():
    own = catalog.method_info("lps").parameters
    varied = {preset.setting: preset for preset in presets.PRESETS.values() if preset.setting in own}
    assert {"margin_scale", "temperature", "threshold_novel_end"} <= varied.keys()
    for name, preset in varied.items():
        values = sorted(float(line.value) for line in preset.lines)
        usual, first, last = map(float, re.findall(r"[\d.]+", own[name].told.paper))
        assert (usual, first, last) == (own[name].default, values[0], values[-1]), name


def test_choices_are_told_for_what_is_stored_alone():
    for method in catalog.method_names():
        for parameter in config.parameters(method).values():
            assert parameter.told.words.keys() <= set(parameter.choices), parameter.name


@pytest.mark.parametrize("method", catalog.method_names())
def test_every_setting_of_a_method_has_a_heading_what_larger_does_and_words_for_its_choices(method):
    own = catalog.method_info(method).parameters
    switches = {parameter.name for parameter in own.values() if parameter.kind == "bool"}
    for parameter in own.values():
        told = parameter.told
        assert told.group, parameter.name
        assert told.larger or parameter.kind not in ("int", "float"), parameter.name
        assert list(told.words) == list(parameter.choices), parameter.name
        assert not told.needs or told.needs in switches, parameter.name
