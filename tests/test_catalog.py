"""Methods as their files tell them: without a constructor, with annotated facts, and ones that cannot be read."""

import pytest

from lps import catalog, config
from lps.parameters import ConfigError

FILE = '''r"""TOY: {title}

Citation:
    nobody
"""

from lps.methods import Method


class Toy(Method):
{body}
'''
INIT = "    def __init__(self, network, classes, *, {name}: Annotated[float, 'why', (0, 1)] = 0.5): ..."


def described(tmp_path, body, title="a toy."):
    path = tmp_path / "toy.py"
    path.write_text(FILE.format(title=title, body=body))
    return catalog._read_method(path)


def test_a_method_without_a_constructor_has_no_hyperparameters(tmp_path):
    info = described(tmp_path, "    views = ('weak',)")
    assert (info.title, info.parameters, info.seen_is_aligned, info.distributes) == ("TOY", {}, True, True)


def test_facts_may_be_annotated(tmp_path):
    info = described(tmp_path, "    seen_is_aligned: bool = False\n    distributes = False")
    assert (info.seen_is_aligned, info.distributes) == (False, False)


@pytest.mark.parametrize(
    "body",
    [
        "    def __init__(self",
        "    def __init__(self, *, weight=1.0): ...",
        "    def __init__(self, *, weight: float = 1): ...",
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, body):
    with pytest.raises(ConfigError, match=r"method: toy\.py is not written as"):
        described(tmp_path, body)


def test_a_hyperparameter_may_not_take_the_name_of_a_shared_setting(tmp_path, monkeypatch):
    info = described(tmp_path, INIT.format(name="momentum"))
    monkeypatch.setattr(catalog, "method_info", lambda name: info)
    with pytest.raises(ConfigError, match="method: toy has momentum of its own"):
        config.parameters("toy")
    fine = described(tmp_path / ".." / tmp_path.name, INIT.format(name="weight"))
    assert fine.parameters["weight"].default == 0.5
