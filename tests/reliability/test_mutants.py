"""The trials bite: a broken variant of the store, another one every day, is found out by those that are named for it.

`python -m tests.reliability mutants` tries all of them.
"""

import pytest

from tests.reliability.mutants import MUTANTS, hunt
from tests.reliability.trials import Workshop
from tests.shares import OFFSET, share


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broken_store_is_found_out(tmp_path):
    workshop = Workshop(tmp_path)
    for mutant in share(MUTANTS, OFFSET, len(MUTANTS)):
        found = any(wrong for _, wrong in hunt(workshop, mutant))
        assert found, f"no trial noticed {mutant.break_it.__name__}; again by: LPS_OFFSET={OFFSET}"
