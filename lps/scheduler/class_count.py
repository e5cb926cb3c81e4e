"""The estimated number of classes, as a file that pages read: the score of every number tried, and the choice.

`class_search` makes the file; `start_class_count` starts that as a background job.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lps.errors import UserError, shorten, shown
from lps.files.atomic import disk_error_in_words, read_small, write_json
from lps.scheduler import background_jobs
from lps.settings import cli_args
from lps.settings.config import Config
from lps.wording import counted

FOLDER = ".counts"
_LARGEST = 10**6  # classes of a count that can be drawn
_NEAR = 4  # tolerances
_SPARE = 1  # clusters that the suggestion adds, see `ClassCount.suggested`
ADVICE = (
    "Start with the larger number; after training, merge clusters of the same class and take a mixed cluster apart "
    "with Find similar."
)


@dataclass(frozen=True)
class ClassCount:
    """Scores by number of clusters, ascending, and the choice derived from them.

    accuracy: matched accuracy of the clusters on labeled images. silhouette: how far clusters keep apart, in [-1, 1].
    tolerance: standard error of the best accuracy; of the numbers within it, `total` has the best silhouette.
    """

    numbers: tuple[int, ...]
    accuracy: tuple[float, ...]
    silhouette: tuple[float, ...]
    tolerance: float
    total: int
    seen: int

    @property
    def novel(self) -> int:
        return self.total - self.seen

    @property
    def suggested(self) -> int:
        """How many novel classes to look for: one more than fit best, because one too few costs more.

        In 10 searches on digits the best fit was 1 to 4 classes too small in 5 and 1 to 4 too large in 3. With equal
        classes, LPS loses 25 points with two too few and 1 with two too many, once the clusters are named.
        """
        return self.novel + _SPARE

    @property
    def suggestion_in_words(self) -> str:
        """ "3 novel classes fit best, beside the 5 classes with labels; 4 leaves one to spare"."""
        fit = f"{counted(self.novel, 'novel class')} {'fits' if self.novel == 1 else 'fit'} best"
        labeled = f"beside the {counted(self.seen, 'class')} with labels"
        return f"{fit}, {labeled}; {self.suggested} leaves one to spare"

    @property
    def plausible(self) -> tuple[int, int]:
        """Smallest and largest number tried whose accuracy is near the best, and one number more on each side.

        Near: `_NEAR` tolerances. k-means often misses the best clusters of a number, so its neighbours may be as good.
        In 16 folders of 600 CIFAR-10 pictures with 4 labeled and 4 novel classes, searched with two seeds each, the
        true number was in this range in 30 of 32 searches, and in 25 without the neighbours.
        """
        least_accuracy = max(self.accuracy) - _NEAR * self.tolerance
        places = [place for place, accuracy in enumerate(self.accuracy) if accuracy >= least_accuracy]
        return self.numbers[max(places[0] - 1, 0)], self.numbers[min(places[-1] + 1, len(self.numbers) - 1)]

    @property
    def in_words(self) -> str:
        least, most = self.plausible
        counts_text = f"{self.total} classes, {self.novel} of them novel"
        if least == most:
            return counts_text
        return f"{counts_text}; plausible: {least} to {most} classes, {least - self.seen} to {most - self.seen} novel"


def class_count_path(config: Config, root: Path) -> Path:
    """Return the path of the count for `config` below the folder of the runs."""
    text = background_jobs.settings_text(background_jobs.config_of_job(config))
    return Path(root) / FOLDER / f"{config.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def read_class_count(path: Path) -> ClassCount | None:
    """Return the stored count, None if there is none; raises `UserError` if it is damaged."""
    try:
        stored = json.loads(read_small(path))
        if not _is_count(stored):
            raise ValueError("it is not a class count")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        reason = disk_error_in_words(error) if isinstance(error, OSError) else shorten(str(error))
        raise UserError(path.name, f"is damaged ({reason}); delete {shown(path)} and count again") from None
    silhouette = tuple(math.nan if value is None else value for value in stored["silhouette"])
    lists = {"numbers": tuple(stored["numbers"]), "accuracy": tuple(stored["accuracy"]), "silhouette": silhouette}
    return ClassCount(**stored | lists)


def _is_count(stored: object) -> bool:
    """Return whether the fields form a `ClassCount`: lists of equal length, with values that can be drawn."""
    if not isinstance(stored, dict) or stored.keys() != {field.name for field in fields(ClassCount)}:
        return False
    lists = [stored[key] for key in ("numbers", "accuracy", "silhouette")]
    if not all(isinstance(values, list) and len(values) == len(lists[0]) > 0 for values in lists):
        return False
    counts, shares = [*lists[0], stored["total"], stored["seen"]], [*lists[1], stored["tolerance"]]
    silhouettes = [value for value in lists[2] if value is not None]
    is_whole = all(type(value) is int and 0 < value <= _LARGEST for value in counts)
    return is_whole and all(type(value) in (int, float) and -1 <= value <= 1 for value in [*shares, *silhouettes])


def write_class_count(path: Path, count: ClassCount) -> None:
    background_jobs.make_folder(path.parent)
    write_json(path, as_json(count))


def as_json(count: ClassCount) -> dict[str, object]:
    """Return its fields; NaN becomes null, such as the silhouette if all clusters but one are empty."""
    return asdict(count) | {"silhouette": [None if math.isnan(value) else value for value in count.silhouette]}


def start_class_count(config: Config, root: Path) -> None:
    """Start the search in the background, unless it is done or running. Raises `UserError` without a folder."""
    search_options = cli_args.option_words(**cli_args.task_options(config), set=background_jobs.settings_of_job(config))
    arguments = "--runs", str(root.resolve()), *search_options
    subject = background_jobs.subject_of(background_jobs.config_of_job(config))
    background_jobs.start_job(class_count_path(config, root), subject, "count-classes", "--begun", *arguments)
