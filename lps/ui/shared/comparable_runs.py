"""Find runs that can be compared because they saw the same images with the same labels, and choose some by default."""

from itertools import islice

import numpy as np

from lps.analysis import run_diff
from lps.data.split import Split
from lps.errors import UserError
from lps.settings.config import Config
from lps.store import titles
from lps.store.runs import RUN_ID, Run
from lps.ui.pictures import points
from lps.ui.shared import select
from lps.ui.shared.history import read_history

MAX_RUNS = 4  # runs side by side
NUM_DEFAULT_RUNS = 3  # runs side by side until the user chooses
NUM_SEARCHED = 20  # newest runs whose partner is searched
_MAX_NAMED = 2  # differences in a menu
_EQUAL = ("dataset", "dataset.path", "dataset.images_per_class", "seed", "epochs")  # in comparable runs


def split_difference(first: Run, other: Run) -> str:
    """Compare two splits like `run_diff.split_difference`, from the splits that pages keep in memory."""
    return run_diff.split_difference(first, other, _split_of)


def _split_of(run: Run) -> tuple[Split, np.ndarray]:
    partition = points.read_partition(run)
    return partition.split, partition.targets


def default_candidates(runs: list[Run]) -> list[Run]:
    """Return the newest pair with and without the margin, otherwise the newest LPS run and its partners.

    A run of the pair trains or has finished, and so does the LPS run. Without an LPS run of known accuracies, the
    newest finished run is the first one, otherwise the latest.
    """
    candidates = select.default_runs(runs)
    if pair := newest_margin_pair(candidates):
        return pair
    lps_runs = (run for run in candidates if _is_lps(run) and not read_history(run).is_blind)
    first_run = next(lps_runs, None) or next(filter(_is_finished, candidates), None) or select.latest_run(candidates)
    partners = find_partners(first_run, runs, same_seed=True, includes_alive=True)
    is_pair = partners and _rank_partner(first_run.config(), partners[0].config()) == 0
    return [first_run, *partners[:1]] if is_pair else [first_run, *partners]


def describe_difference(first: Run, other: Run) -> str:
    """Return "" if `other` can be compared with `first`, else what differs: "differs in seed, epochs".

    Comparable runs have the same data, split, seed and epochs, and differ in at most one other setting.
    """
    first_settings, settings = first.config_if_readable(), other.config_if_readable()
    if first_settings is None or settings is None:
        return run_diff.DAMAGED
    names = _differing_settings(first_settings, settings)
    if not names or (len(names) == 1 and names[0] not in _EQUAL and not names[0].startswith("split.")):
        return ""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"differs in {', '.join(names[:_MAX_NAMED])}{more}"


def _differing_settings(first: Config, other: Config) -> list[str]:
    """Return the settings that differ: those of `_EQUAL` if any, else all; of another method, not its defaults."""
    if names := [name for name in _EQUAL if first.get(name) != other.get(name)]:
        return names
    first_values, values = first.flat(), other.flat()
    names = [name for name in first_values if name in values and first_values[name] != values[name]]
    if "method" in names:
        changed = {"method", *_changed_settings(first), *_changed_settings(other)}
        names = [name for name in names if name in changed]
    return [name for name in names if name == "method" or name not in titles.NOT_NAMED]


def _changed_settings(config: Config) -> tuple[str, ...]:
    try:
        return config.changed
    except UserError:  # its data set or method is gone or broken
        return ()


def find_partners(first: Run, runs: list[Run], same_seed: bool = False, includes_alive: bool = False) -> list[Run]:
    """Return finished runs of the same split as `first`, the most informative first, one for each setup.

    Comparable runs (`describe_difference`) come first. Among them: LPS without its margin, then ORCA, then other
    methods, then other settings of the same method. Ties are broken by the seed of `first`, then by age.
    includes_alive: also runs that train now.
    """
    first_settings = first.config_if_readable()
    if first_settings is None:
        return []
    best_by_setup: dict[tuple, tuple[tuple, Run]] = {}
    for run in runs:
        settings = run.config_if_readable()
        if (
            settings is None
            or run.id == first.id
            or run_diff.differing_settings(first_settings, settings)
            or not (_is_finished(run) or (includes_alive and run.state().is_alive))
            or (same_seed and settings.seed != first_settings.seed)
        ):
            continue
        is_incomparable, has_other_seed = bool(describe_difference(first, run)), settings.seed != first_settings.seed
        rank = is_incomparable, _rank_partner(first_settings, settings), has_other_seed
        setup = _setup_of(settings)
        if setup != _setup_of(first_settings) and (setup not in best_by_setup or rank < best_by_setup[setup][0]):
            best_by_setup[setup] = (rank, run)
    return [run for _, run in sorted(best_by_setup.values(), key=lambda pair: pair[0])]


def newest_margin_pair(runs: list[Run]) -> list[Run]:
    """Return the newest two runs as of `find_margin_pair` whose accuracies are known; [] if there are none."""
    without_margin = (run for run in runs if _is_lps(run, use_margin=False))
    pairs = (find_margin_pair(run, runs) for run in islice(without_margin, NUM_SEARCHED))
    return next((pair for pair in pairs if pair and not read_history(pair[0]).is_blind), [])


def find_margin_pair(run: Run, runs: list[Run]) -> list[Run]:
    """Return two runs of LPS that differ only in the margin, the one with it first, if `run` is one; else none.

    Both train now or have finished.
    """
    settings = run.config_if_readable()
    if settings is None or settings.method != "lps" or not (_is_finished(run) or run.state().is_alive):
        return []
    for partner in find_partners(run, runs, same_seed=True, includes_alive=True):
        has_margin = partner.config().hyperparameters.get("use_margin")
        if {has_margin, settings.hyperparameters.get("use_margin")} == {True, False}:
            return [] if describe_difference(run, partner) else [partner, run] if has_margin else [run, partner]
    return []


def _setup_of(settings: Config) -> tuple:
    return settings.method, tuple(sorted((name, str(value)) for name, value in settings.hyperparameters.items()))


def _rank_partner(first_settings: Config, settings: Config) -> int:
    if settings.method == "lps" and settings.hyperparameters.get("use_margin") is False:
        return 0
    if settings.method == "orca" != first_settings.method:
        return 1
    return 2 if settings.method != first_settings.method else 3


def _is_lps(run: Run, use_margin: bool = True) -> bool:
    """Return whether a run of LPS with its margin, or without it, trains or has finished."""
    if not RUN_ID.fullmatch(run.id) or run.id.split("-")[3] != "lps":
        return False
    if not (_is_finished(run) or run.state().is_alive):
        return False
    settings = run.config_if_readable()
    return settings is not None and (settings.hyperparameters.get("use_margin") is not False) == use_margin


def _is_finished(run: Run) -> bool:
    return run.state().name == "finished"
