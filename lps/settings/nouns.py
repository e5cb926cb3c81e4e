"""Replace "image" and "picture" in sentences by the noun for an item of a data set."""

import re
from collections.abc import Callable

from lps.errors import UserError
from lps.settings import catalog
from lps.wording import capitalized

PICTURE = "picture"
_NOUN = re.compile(r"\b(an? )?(?:image|picture)(s?)\b", re.IGNORECASE)


def of_dataset(name: str) -> Callable[[str], str]:
    """Return a function that puts the noun of a data set (which may be gone) into a sentence."""
    try:
        info = catalog.dataset_info(name)
    except UserError:
        return lambda text: text
    is_unchanged = info.noun == PICTURE and not info.is_own  # what a user brings has one noun on all pages
    return (lambda text: text) if is_unchanged else lambda text: replace_noun(text, info.noun)


def replace_noun(text: str, noun: str) -> str:
    """Return the sentence with `noun` for each image and picture, in the same number and case, with its article."""

    def replaced(match: re.Match) -> str:
        article = (("an " if noun[0] in "aeiou" else "a ") if match[1] else "") + noun + match[2]
        return capitalized(article) if match[0][0].isupper() else article

    return _NOUN.sub(replaced, text)
