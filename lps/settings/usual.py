"""Default settings, how far a config is from them, and the order of values."""

import math
from collections.abc import Callable

from lps.settings.config import Config, configure, following


def usual(config: Config) -> dict[str, object]:
    """The settings that a run of the same method on the same data set has by default.

    What follows from its features and its network counts as default, these two themselves do not: whoever sets what
    differs from here gets `config` again.
    """
    plain = configure({"dataset": config.dataset, "method": config.method}).flat()
    return following(plain, config.method, config.flat()) | {"features": plain["features"]}


def count_unusual(config: Config, is_counted: Callable[[str], bool] = lambda key: True) -> int:
    """How many of the settings that count differ from `usual`."""
    flat, default = config.flat(), usual(config)
    return sum(flat[key] != default.get(key) for key in filter(is_counted, flat))


def sort_key(value: object) -> tuple[int, float, str]:
    """Sorts None first, then finite numbers (also written as text), then text without regard to case."""
    if value is None:
        return 0, 0.0, ""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    return (1, number, "") if math.isfinite(number) else (2, 0.0, str(value).casefold())
