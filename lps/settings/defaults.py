"""Count how many settings of a config differ from the defaults, and sort values."""

import math
from collections.abc import Callable

from lps.settings.config import Config


def count_unusual(config: Config, is_counted: Callable[[str], bool] = lambda key: True) -> int:
    """Return how many of the settings that `is_counted` accepts differ from the defaults."""
    flat, default = config.flat(), config.defaults()
    return sum(flat[key] != default.get(key) for key in filter(is_counted, flat))


def sort_key(value: object) -> tuple[int, float, str]:
    """Sort None first, then finite numbers (also written as text), then text without regard to case."""
    if value is None:
        return 0, 0.0, ""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    return (1, number, "") if math.isfinite(number) else (2, 0.0, str(value).casefold())
