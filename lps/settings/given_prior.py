"""Check and normalize the class shares of a prior given by the user as a line of numbers or a file."""

import math
import os
from collections.abc import Sequence

from lps.errors import shorten
from lps.files.atomic import read_small
from lps.settings.parameters import BadSetting

SHARES = "prior.shares"
ABOUT_ORACLE = (  # of a run with prior=oracle
    "This run uses the oracle prior: the true class shares, known from hidden labels. Its scores show what a perfect "
    "prior would give. Do not report them as a result."
)
LONGEST = 100_000  # characters: about 10,000 classes
_TOLERANCE = 0.01  # allowed distance of the sum from 1, since users round shares


def read_shares(text: str) -> str:
    """Return the shares in `text`, or in the file that it names, as "0.5 0.25 0.25"; raises `BadSetting`.

    Numbers are separated by commas, blanks or line ends. They must be finite, at least 0, and add up to 1 within 0.01;
    `shares_of` divides them by their sum. The config stores the numbers, so a run does not depend on the file.
    """
    words = _split_shares(text)
    if not _are_numbers(words):
        words = _split_shares(_content(text))
        if not _are_numbers(words):
            raise BadSetting(SHARES, f"the file {shorten(text, 120)} is empty or has values that are not numbers")
    return " ".join(f"{share:.9g}" for share in _checked([float(word) for word in words]))


def shares_of(text: str) -> list[float]:
    """Return the numbers of a text from `read_shares`, divided by their sum."""
    shares = [float(word) for word in _split_shares(text)]
    return [share / sum(shares) for share in shares]


def check_count(count: int, classes: int) -> None:
    """Raise `BadSetting` unless there is one share per class."""
    if count != classes:
        raise BadSetting(SHARES, f"has {count} shares for {classes} classes; expected one for each, seen classes first")


def _split_shares(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _are_numbers(words: Sequence[str]) -> bool:
    try:
        return bool([float(word) for word in words])
    except ValueError:
        return False


def _checked(shares: list[float]) -> list[float]:
    for share in shares:
        if not math.isfinite(share):
            raise BadSetting(SHARES, f"{share} is not a finite number; expected shares from 0 to 1")
        if share < 0:
            raise BadSetting(SHARES, f"{share:g} is negative; expected shares from 0 to 1")
    if abs(sum(shares) - 1) > _TOLERANCE:
        raise BadSetting(SHARES, f"the shares add up to {sum(shares):.6g}; expected 1")
    return shares


def _content(path: str) -> str:
    try:
        return read_small(os.path.expanduser(path)).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadSetting(
            SHARES, f"{shorten(path, 120)} is neither shares such as 0.5 0.3 0.2 nor a file that can be read ({reason})"
        ) from None
