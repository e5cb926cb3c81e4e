"""What a page calls an item of a data set. Sentences say image or picture; `of` puts in the data set's own noun."""

import re
from collections.abc import Callable

from lps.errors import UserError
from lps.settings import catalog
from lps.store.runs import Run
from lps.wording import capitalized

PICTURE = "picture"
_NOUN = re.compile(r"\b(an? )?(?:image|picture)(s?)\b", re.IGNORECASE)


def of(run: Run) -> Callable[[str], str]:
    """What puts the noun of a run's data set into a sentence; pictures leave it as it is."""
    config = run.config_if_readable()
    return of_dataset(config.dataset if config else "")


def of_dataset(name: str) -> Callable[[str], str]:
    """The same for a data set, which may be gone."""
    try:
        noun = catalog.dataset_info(name).noun
    except UserError:
        noun = PICTURE
    return (lambda text: text) if noun == PICTURE else lambda text: named(text, noun)


def named(text: str, noun: str) -> str:
    """The sentence with `noun` for each image and picture, in the same number and case, with its article."""

    def replaced(match: re.Match) -> str:
        article = (("an " if noun[0] in "aeiou" else "a ") if match[1] else "") + noun + match[2]
        return capitalized(article) if match[0][0].isupper() else article

    return _NOUN.sub(replaced, text)
