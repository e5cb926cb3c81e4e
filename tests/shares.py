"""Give every test of a kind a share of its cases, so that the cases are spread over tests and days.

Expensive tests of one kind take turns instead: the marker `turn(number, of)` (tests/conftest.py).

`LPS_TRIALS=all`, which `python -m tests.reliability cases` sets, makes every test use all cases. `OFFSET` changes every
day, so that over weeks every case is used; `LPS_OFFSET=N` repeats the cases of a day.
"""

import os
import time
from collections.abc import Sequence

import pytest

ALL = os.environ.get("LPS_TRIALS") == "all"
OFFSET = int(os.environ.get("LPS_OFFSET", time.time() // 86_400))


def share(cases: Sequence, number: int, of: int) -> Sequence:
    """Return every `of`-th case from the one at `number` on; all cases if the environment asks for them."""
    return cases if ALL else cases[number % of :: of]


def in_turn(cases: Sequence, of: int) -> list:
    """Return expensive cases for `parametrize`, values or tuples of them, of which every `of`-th runs on one day."""
    each = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*values, marks=pytest.mark.turn(number, of)) for number, values in enumerate(each)]


def has_turn(number: int, of: int) -> bool:
    """Return whether the `number`-th of `of` tests runs today."""
    return ALL or (number + OFFSET) % of == 0
