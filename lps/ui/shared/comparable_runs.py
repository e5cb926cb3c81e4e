"""Which runs may stand side by side: those that saw the same images with the same labels; and which to begin with."""

import numpy as np

from lps.analysis import run_diff
from lps.data.split import Split
from lps.settings.config import Config
from lps.store.runs import RUN_ID, Run
from lps.ui.pictures import points
from lps.ui.shared import select
from lps.ui.shared.history import read_history

MOST = 4  # runs beside each other
_USUAL = 3  # of them without a choice


def split_difference(first: Run, other: Run) -> str:
    """As `run_diff.split_difference`, from the splits that pages keep in memory."""
    return run_diff.split_difference(first, other, _split_of)


def _split_of(run: Run) -> tuple[Split, np.ndarray]:
    known = points.read_partition(run)
    return known.split, known.targets


def usual_choice(runs: list[Run]) -> list[Run]:
    """The newest finished LPS run beside one without the margin; where there is none, beside its best partners.

    Without a run of LPS whose accuracies are known the newest finished run, else the latest.
    """
    own = select.default_runs(runs)
    known = (
        run for run in own if _is_usual_lps(run) and not read_history(run).is_blind
    )  # its accuracies are what is shown
    first = next(known, None) or next(filter(_is_finished, own), None) or select.latest_run(own)
    found = find_partners(first, runs, same_seed=True)
    is_pair = found and _rank_partner(first.config(), found[0].config()) == 0
    return [first, *found][: 2 if is_pair else _USUAL]


def find_partners(first: Run, runs: list[Run], same_seed: bool = False) -> list[Run]:
    """Finished runs of the split of `first`, the most telling first, one for every method and its settings.

    LPS without its margin, then ORCA, then other methods, then other settings of the same method; among equals those
    with the seed of `first`, then the newest.
    """
    known = first.config_if_readable()
    if known is None:
        return []
    found: dict[tuple, tuple[tuple, Run]] = {}
    for run in runs:
        settings = run.config_if_readable()
        if (
            settings is None
            or run.id == first.id
            or run_diff.differing_settings(known, settings)
            or not _is_finished(run)
        ):
            continue
        if same_seed and settings.seed != known.seed:
            continue
        kind, rank = _setup_of(settings), (_rank_partner(known, settings), settings.seed != known.seed)
        if kind != _setup_of(known) and (kind not in found or rank < found[kind][0]):
            found[kind] = (rank, run)
    return [run for _, run in sorted(found.values(), key=lambda pair: pair[0])]


def _setup_of(settings: Config) -> tuple:
    return settings.method, tuple(sorted((name, str(value)) for name, value in settings.hyperparameters.items()))


def _rank_partner(known: Config, settings: Config) -> int:
    if settings.method == "lps" and settings.hyperparameters.get("use_margin") is False:
        return 0
    if settings.method == "orca" != known.method:
        return 1
    return 2 if settings.method != known.method else 3


def _is_usual_lps(run: Run) -> bool:
    """Whether a run is a finished one of LPS with its margin."""
    if not RUN_ID.fullmatch(run.id) or run.id.split("-")[3] != "lps" or not _is_finished(run):
        return False
    settings = run.config_if_readable()
    return settings is not None and settings.hyperparameters.get("use_margin") is not False


def _is_finished(run: Run) -> bool:
    return run.state().name == "finished"
