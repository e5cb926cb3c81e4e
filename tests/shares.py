"""Every test of a kind takes a share of its cases, so that each case is met several times; the whole is a command.

`LPS_TRIALS=all`, which `python -m tests.reliability cases` sets, makes every test take all of them. `OFFSET` is another
number every day, so that over weeks every case has its turn; `LPS_OFFSET=N` repeats the trials of a day.
"""

import os
import time
from collections.abc import Sequence

ALL = os.environ.get("LPS_TRIALS") == "all"
OFFSET = int(os.environ.get("LPS_OFFSET", time.time() // 86_400))


def share(cases: Sequence, number: int, of: int) -> Sequence:
    """Every `of`-th case, from the one at `number`; all of them where the environment asks for them."""
    return cases if ALL else cases[number % of :: of]
