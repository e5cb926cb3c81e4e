"""Disk errors in words, permissions of new files, and descriptors that stay open."""

import errno
import os

import pytest

from lps.files import disk
from lps.files.atomic import disk_error_in_words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (OSError(errno.ENOSPC, "x"), "the disk is full"),
        (OSError("out of order"), "out of order"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_is_told_by_the_first_words_that_it_has(error, words):
    assert disk_error_in_words(error) == words


def test_a_new_folder_is_for_its_owner_alone_and_a_flushed_one_is_closed(tmp_path):
    before, mask = os.listdir("/proc/self/fd"), os.umask(0)
    try:
        disk.make_folder(tmp_path / "new")
        disk.sync_folder(tmp_path / "new")
    finally:
        os.umask(mask)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert os.listdir("/proc/self/fd") == before
