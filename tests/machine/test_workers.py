"""Processes that share work on one machine."""

import os
import sys

import pytest

from lps.errors import UserError
from lps.machine import processes


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be assigned here")
def test_workers_share_the_cores(tmp_path):
    code = "import os, sys; open(sys.argv[1], 'w').write(str(len(os.sched_getaffinity(0))))"
    cores = len(os.sched_getaffinity(0))
    with processes.workers(1, [sys.executable, "-c", code, str(tmp_path / "cores")]) as (worker,):
        assert len(os.sched_getaffinity(0)) == max(1, cores // 2)
        assert worker.wait(60) == 0
    assert len(os.sched_getaffinity(0)) == cores
    assert (tmp_path / "cores").read_text() == str(max(1, cores // 2))


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "2", processes.MAX_WORKERS + 1])
def test_a_wrong_number_of_workers_is_one_sentence(count):
    with pytest.raises(UserError, match="is not a whole number from 1 to"):
        processes.check_workers(count)
