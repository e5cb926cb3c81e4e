"""The columns of a table of runs: those it has without being asked, the settings that vary, the order of rows."""

from collections.abc import Sequence

from lps.analysis.run_index import RunRow
from lps.analysis.run_scores import REPEATED
from lps.errors import UserError
from lps.settings.config import Config
from lps.settings.defaults import sort_key
from lps.tables.run_names import Name, Vocabulary

NUMBERS = ("accuracy/seen", "accuracy/novel", "accuracy/all", "accuracy/gap")
# The default columns of the page Runs; their headings are `HEADS` in lps/ui/runs/run_filters.py.
_BEFORE = ("state", *NUMBERS)
_AFTER = ("epoch", "epochs", "alarm", "method", "dataset", "seed", "tag", "id", "launched", "note")
_MOST_VARYING = 6  # settings that a table shows by itself
_NEVER = (
    "method",
    "dataset",
    "split.confirmed",
    "network.continues",
    *REPEATED,
)  # have a column of their own, or say nothing of the experiment
_varying_cache: list[
    tuple[list[Config | None], list[str]]
] = []  # the configs that were looked at last, and what varies


def default_columns(entries: Sequence[RunRow]) -> list[str]:
    """Return the columns shown by default: state and accuracies, a few settings that vary, then the rest."""
    varies = [key for key in varying_settings(entries) if key not in _AFTER]
    return [*_BEFORE, *varies[:_MOST_VARYING], *_AFTER]


def varying_settings(entries: Sequence[RunRow]) -> list[str]:
    """The settings that somebody has varied: runs of one method on one data set differ in them.

    In their order; those come last in which only recordings differ from other runs.
    """
    configs = [entry.config for entry in entries]
    for looked_at, ordered in _varying_cache[:]:  # a copy: others ask at the same time
        if len(looked_at) == len(configs) and all(a is b for a, b in zip(looked_at, configs)):
            return ordered
    by_own, order = _differing([entry.config for entry in entries if not entry.run.is_recorded]), Vocabulary().settings
    ordered = sorted(_differing(configs) - set(_NEVER), key=lambda key: (key not in by_own, order.index(key)))
    _varying_cache[:] = [(configs, ordered)]
    return ordered


def _differing(configs: Sequence[Config | None]) -> set[str]:
    """The settings in which configs of one method on one data set differ."""
    differing: set[str] = set()
    first: dict[tuple[str, str], dict[str, object]] = {}
    for config in filter(None, configs):
        flat = config.flat()
        first_settings = first.setdefault((config.method, config.dataset), flat)
        differing.update(key for key, value in flat.items() if value != first_settings[key])
    return differing


def in_order(entries: Sequence[RunRow], name: Name, falling: bool) -> list[RunRow]:
    """Sorted by a column, numbers before texts; equal ones keep their order, those without a value come last."""
    have = [entry for entry in entries if name.read_value(entry) not in ((), None)]
    order = {id(entry) for entry in have}
    ordered = sorted(have, key=lambda entry: sort_key(name.display_value(entry)), reverse=falling)
    return ordered + [entry for entry in entries if id(entry) not in order]


def known_columns(keys: Sequence[str], vocabulary: Vocabulary) -> list[Name]:
    """Return the names of columns that an address asks for, without unknown ones."""
    columns = []
    for key in dict.fromkeys(keys):
        try:
            columns.append(vocabulary.find(key))
        except UserError:
            continue
    return columns
