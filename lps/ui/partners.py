"""Which runs may stand side by side: those that saw the same images with the same labels; and which to begin with."""

from collections.abc import Sequence

import numpy as np

from lps.config import Config, configure
from lps.parameters import ConfigError, text_of
from lps.runs import RUN_ID, Run
from lps.ui import points, select

MOST = 4  # runs beside each other
USUAL = 3  # of them without a choice
DATA = ("dataset", "dataset.path", "dataset.images_per_class")  # settings that say which images there are
UNTOLD = (  # settings that say nothing about what a run shows, or that its title has
    *("dataset", "method", "seed", "device", "threads", "processes", "precision", "snapshot.images", "dataset.path"),
)
MOST_LETTERS = 24  # of a value
DAMAGED = "its settings cannot be read"


def usual_choice(runs: list[Run]) -> list[Run]:
    """The newest finished LPS run and its best partners; without one the newest finished run, else the latest."""
    own = select.preferred(runs)
    first = next(filter(_is_usual_lps, own), None) or next(filter(_is_finished, own), None) or select.latest(own)
    return [first, *partners(first, runs, same_seed=True)][:USUAL]


def partners(first: Run, runs: list[Run], same_seed: bool = False) -> list[Run]:
    """Finished runs of the split of `first`, the most telling first, one for every method and its settings.

    ORCA, then LPS without its margin, then other methods, then other settings of the same method; among equals those
    with the seed of `first`, then the newest.
    """
    known = first.config_if_readable()
    if known is None:
        return []
    found: dict[tuple, tuple[tuple, Run]] = {}
    for run in runs:
        settings = run.config_if_readable()
        if settings is None or run.id == first.id or _differing(known, settings) or not _is_finished(run):
            continue
        if same_seed and settings.seed != known.seed:
            continue
        kind, rank = _kind(settings), (_interest(known, settings), settings.seed != known.seed)
        if kind != _kind(known) and (kind not in found or rank < found[kind][0]):
            found[kind] = (rank, run)
    return [run for _, run in sorted(found.values(), key=lambda pair: pair[0])]


def changes(run: Run, beside: Sequence[Run] = (), most: int = 3) -> list[str]:
    """The settings of a run that are not the usual ones of its method and data set, in words, the method's own first.

    What every run `beside` it has as well is left out, so that two runs of one title can be told apart.
    """
    settings = run.config_if_readable()
    if settings is None:
        return []
    mine, usual = settings.flat(), configure({"dataset": settings.dataset, "method": settings.method}).flat()
    others = [known.flat() for other in beside if other.id != run.id and (known := other.config_if_readable())]
    names = [name for name in mine if mine[name] != usual[name] and name not in UNTOLD]
    told = [name for name in names if not others or any(other.get(name) != mine[name] for other in others)]
    told.sort(key=lambda name: (name not in settings.hyperparameters, not name.startswith("split.")))
    return [_in_words(name, mine[name]) for name in told[:most]] + ["…"] * (len(told) > most)


def kl_is_mixed(runs: Sequence[Run]) -> bool:
    """Whether the margins of some runs use KL in the other direction, so that their curves are of two measures."""
    known = [settings for run in runs if (settings := run.config_if_readable())]
    return len({settings.hyperparameters.get("kl_direction", "uniform_to_est") for settings in known}) > 1


def _in_words(name: str, value) -> str:
    words = (name if name == "split.seed" else name.removeprefix("split.")).replace("_", " ").replace(".", " ")
    if isinstance(value, bool):
        return f"{'with' if value else 'without'} {words.removeprefix('use ')}"
    text = text_of(value)
    return f"{words} {text if len(text) <= MOST_LETTERS else '…' + text[-MOST_LETTERS:]}"


def split_difference(first: Run, other: Run) -> str:
    """Why the images or labels of two runs are not the same, in words; "" where they are the same.

    Where both splits are stored they decide, so that a default and the same value written out are no difference.
    """
    known, settings = first.config_if_readable(), other.config_if_readable()
    same = _same_split(first, other)
    if same:
        return ""
    if known is None or settings is None:
        return DAMAGED
    differing = _differing(known, settings)
    if differing:
        name = differing[0]
        return f"{name} is {text_of(settings.flat()[name])} there and {text_of(known.flat()[name])} here"
    return "" if same is None else "the images of the data set have changed between the two"


def _same_split(first: Run, other: Run) -> bool | None:
    """Whether the stored splits are equal; None where one of them cannot be read."""
    try:
        one, two = points.partition(first), points.partition(other)
    except ConfigError:
        return None
    pairs = [(getattr(one.split, name), getattr(two.split, name)) for name in ("labeled", "unlabeled")]
    pairs.append((one.targets, two.targets))
    return one.split.classes == two.split.classes and all(np.array_equal(left, right) for left, right in pairs)


def _differing(known: Config, settings: Config) -> list[str]:
    """The settings of data set and split that two runs do not share, the data set first."""
    mine, other = known.flat(), settings.flat()
    names = [*DATA, *(name for name in mine if name.startswith("split."))]
    return [name for name in names if mine[name] != other[name]]


def _kind(settings: Config) -> tuple:
    return settings.method, tuple(sorted((name, str(value)) for name, value in settings.hyperparameters.items()))


def _interest(known: Config, settings: Config) -> int:
    if settings.method == "orca" != known.method:
        return 0
    if settings.method == "lps" and settings.hyperparameters.get("use_margin") is False:
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
