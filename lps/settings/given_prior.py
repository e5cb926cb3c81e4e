"""Check and normalize the class shares of a prior given by the user as a line of numbers or a file."""

import errno
import math
import os
from collections.abc import Sequence
from contextlib import suppress

from lps.errors import shorten
from lps.files.atomic import SMALL_FILE, open_regular
from lps.settings.parameters import BadSetting

SHARES = "prior.shares"
ABOUT_ORACLE = (  # of a run with prior=oracle
    "This run uses the oracle prior: the true class shares, known from hidden labels. Its scores show what a perfect "
    "prior would give. Do not report them as a result."
)
EXPECTED = "a share for each class, seen classes first, such as 0.5 0.3 0.2, or a text file of them"
LONGEST = 100_000  # characters: about 10,000 classes
_TOLERANCE = 0.01  # allowed distance of the sum from 1, since users round shares


def as_text(shares: object) -> str | None:
    """Return a list, tuple or array of numbers as "0.5 0.25 0.25", and a text unchanged; raises `BadSetting`."""
    if shares is None or isinstance(shares, str):
        return shares
    values = shares.tolist() if hasattr(shares, "tolist") else shares
    if isinstance(values, list | tuple):
        with suppress(TypeError, ValueError):
            return " ".join(f"{float(value):.9g}" for value in values)
    raise BadSetting(SHARES, f"{shorten(shares)} is not {EXPECTED}; a list of numbers is possible in Python")


def read_shares(text: str) -> str:
    """Return the shares in `text`, or in the file that it names, as "0.5 0.25 0.25"; raises `BadSetting`.

    Numbers are separated by commas, blanks or line ends. They must be finite, at least 0, and add up to 1 within 0.01;
    `shares_of` divides them by their sum. The config stores the numbers, so a run does not depend on the file.
    """
    if not text.strip():
        raise BadSetting(SHARES, f"is empty; expected {EXPECTED}")
    words = _split_shares(text)
    if _first_misfit(words) is not None:
        words = _split_shares(_content(text))
        misfit = _first_misfit(words)
        if misfit is not None or not words:
            problem = "is empty" if misfit is None else f"has {shorten(misfit)}, which is not a number"
            raise BadSetting(SHARES, f"the file {shorten(text, 120)} {problem}; expected shares such as 0.5 0.3 0.2")
    return " ".join(f"{share:.9g}" for share in _checked([float(word) for word in words]))


def check_stored(shares: object) -> None:
    """Raise `BadSetting` if a stored config has the name of a file: it must not depend on a file elsewhere."""
    if isinstance(shares, str) and _first_misfit(_split_shares(shares)) is not None:
        raise BadSetting(
            SHARES, f"{shorten(shares, 120)} is not a list of numbers; expected shares such as 0.5 0.3 0.2"
        )


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


def _first_misfit(words: Sequence[str]) -> str | None:
    for word in words:
        try:
            float(word)
        except ValueError:
            return word
    return None


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
        with open_regular(os.path.expanduser(path), follows_links=True) as file:
            content = file.read(SMALL_FILE + 1)
        if len(content) > SMALL_FILE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        word = _first_misfit(_split_shares(path))
        misfit = "" if word == path.strip() else f" ({shorten(word)} is not a number)"
        raise BadSetting(
            SHARES,
            f"{shorten(path, 120)} is not a list of shares such as 0.5 0.3 0.2{misfit}, and "
            f"cannot be read as a file ({reason})",
        ) from None
