"""How many classes there may be, as a file that pages read: the score of every number that was tried, and the choice.

`class_search` makes the file; `begin` starts that in the background.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lps import background
from lps.config import Config, configure
from lps.files import write_json
from lps.parameters import ConfigError, text_of

MATTERS = ("dataset", "dataset.", "split.", "network.", "pretrain.", "seed", "views")  # prefixes of settings


@dataclass(frozen=True)
class ClassCount:
    """Scores by number of clusters, ascending, and what follows from them.

    accuracy: matched accuracy of the clusters on labeled images. silhouette: how far clusters keep apart, in [-1, 1].
    tolerance: standard error of the best accuracy; `total` is the largest number within it.
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


def searched(config: Config) -> Config:
    """`config` as far as the search looks at it: how many novel classes are asked for does not matter."""
    flat = config.flat()
    kept = {key: value for key, value in flat.items() if key.startswith(MATTERS)}
    return configure(kept | {"split.num_novel": 1})


def path_of(config: Config, root: Path) -> Path:
    """Where the count for `config` is kept below the folder of the runs."""
    text = json.dumps(searched(config).flat(), sort_keys=True)
    return Path(root) / ".counts" / f"{config.dataset}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def read(path: Path) -> ClassCount | None:
    """The stored count, None where there is none; raises `ConfigError` where it is damaged."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return ClassCount(**{key: tuple(v) if isinstance(v, list) else v for key, v in stored.items()})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigError(path.name, f"is damaged ({error})") from None


def write(path: Path, count: ClassCount) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(path, asdict(count))


def begin(config: Config, root: Path) -> None:
    """Search in the background; does nothing where that is done or under way."""
    asked = [f"--set={key}={text_of(value)}" for key, value in _asked(config).items()]
    names = ["--dataset", config.dataset, "--method", config.method, "--seed", str(config.seed)]
    background.begin(
        path_of(config, root), background.lps_command("count-classes", "--runs", str(root.resolve()), *names, *asked)
    )


def _asked(config: Config) -> dict[str, object]:
    flat, plain = config.flat(), configure({"dataset": config.dataset, "split.num_novel": 1}).flat()
    skipped = ("dataset", "method", "seed", "split.num_novel")
    return {
        key: flat[key] for key in flat if key.startswith(MATTERS) and key not in skipped and flat[key] != plain[key]
    }
