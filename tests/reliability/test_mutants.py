"""The trials bite: every broken variant of the store is found out by those that are named for it."""

import pytest

from tests.reliability.mutants import MUTANTS, hunt
from tests.reliability.trials import Workshop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.break_it.__name__)
def test_a_broken_store_is_found_out(workshop, mutant):
    assert any(wrong for _, wrong in hunt(workshop, mutant)), "no trial noticed it"
