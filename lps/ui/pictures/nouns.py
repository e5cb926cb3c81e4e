"""What a page calls an item of a run: see `lps.settings.nouns`."""

from collections.abc import Callable

from lps.settings.nouns import PICTURE, of_dataset, replace_noun
from lps.store.runs import Run

__all__ = ["PICTURE", "of", "of_dataset", "replace_noun"]


def of(run: Run) -> Callable[[str], str]:
    """What puts the noun of a run's data set into a sentence; pictures leave it as it is."""
    config = run.config_if_readable()
    return of_dataset(config.dataset if config else "")
