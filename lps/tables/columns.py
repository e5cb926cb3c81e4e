"""Choose the columns of a table of runs: default columns, settings that vary, and the order of rows."""

from collections.abc import Iterable, Sequence

from lps.analysis.run_index import RunRow
from lps.analysis.run_scores import REPEATED
from lps.errors import UserError
from lps.settings.config import Config
from lps.settings.defaults import sort_key
from lps.store.titles import name_in_symbols
from lps.tables.run_names import Name, Vocabulary

NUMBERS = ("accuracy/seen", "accuracy/novel", "accuracy/all", "accuracy/gap")
# The default columns of the Runs table. A measurement can be one, too: "memory/device_gb" (peak GPU memory). Their
# headings are `RUN_COLUMN_HEADS` in lps/ui/runs/run_filters.py.
_COLUMNS_BEFORE_SETTINGS = (*NUMBERS, "state")  # a phone shows two columns beside the name
_COLUMNS_AFTER_SETTINGS = ("epoch", "epochs", "alarm", "method", "dataset", "seed", "tag", "id", "launched", "note")
_MAX_VARYING = 6  # settings that a table shows by default
# Settings that have their own column, or are not part of the experiment.
_NEVER = ("method", "dataset", "split.confirmed", "network.continues", *REPEATED)
_varying_cache: list[tuple[dict[int, Config | None], list[str]]] = []  # the last configs by id, and what varies in them


def default_columns(entries: Sequence[RunRow]) -> list[str]:
    """Return the columns shown by default: accuracies and state, a few settings that vary, then the rest."""
    varies = [key for key in varying_settings(entries) if key not in _COLUMNS_AFTER_SETTINGS]
    return [*_COLUMNS_BEFORE_SETTINGS, *varies[:_MAX_VARYING], *_COLUMNS_AFTER_SETTINGS]


def varying_settings(entries: Sequence[RunRow]) -> list[str]:
    """Return the settings that were varied: runs of one method on one data set differ in them.

    In the order of settings; settings in which only recordings differ come last.
    """
    configs = {id(entry.config): entry.config for entry in entries}
    for cached_configs, ordered in _varying_cache[:]:  # a copy, since other threads change it
        if cached_configs.keys() == configs.keys():
            return ordered
    first: dict[tuple[str, str], Config] = {}
    own = {id(entry.config): entry.config for entry in entries if entry.shown_state != "recorded"}
    varied_by_user, order = _differing(own.values(), first), Vocabulary().settings
    others = (config for key, config in configs.items() if key not in own)
    differing = (varied_by_user | _differing(others, first)) - set(_NEVER)
    ordered = sorted(differing, key=lambda key: (key not in varied_by_user, order.index(key)))
    _varying_cache[:] = [(configs, ordered)]
    return ordered


def _differing(configs: Iterable[Config | None], first: dict[tuple[str, str], Config]) -> set[str]:
    """Return the settings in which configs differ from the first of their method and data set, which `first` gets."""
    differing: set[str] = set()
    for config in filter(None, configs):
        differing.update(config.differences(first.setdefault((config.method, config.dataset), config)))
    return differing


def displayed_name(entry: RunRow, varied: Sequence[str] = ()) -> str:
    """Return the name of a run in tables and menus: "C=10, w=1, LPS seed 0". varied: `varying_settings`."""
    return name_in_symbols(entry.name, entry.config, varied) if entry.config else entry.name


def sort_rows(entries: Sequence[RunRow], name: Name, falling: bool) -> list[RunRow]:
    """Sort rows by a column, numbers before texts; equal rows keep their order, rows without a value come last."""
    with_value = [entry for entry in entries if name.read_value(entry) not in ((), None)]
    sorted_ids = {id(entry) for entry in with_value}
    ordered = sorted(with_value, key=lambda entry: sort_key(name.display_value(entry)), reverse=falling)
    return ordered + [entry for entry in entries if id(entry) not in sorted_ids]


def known_columns(keys: Sequence[str], vocabulary: Vocabulary) -> list[Name]:
    """Return the names of columns that an address asks for, without unknown ones."""
    columns = []
    for key in dict.fromkeys(keys):
        try:
            columns.append(vocabulary.find(key))
        except UserError:
            continue
    return columns
