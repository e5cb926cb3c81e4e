"""Convert shares of a run to epochs, and compute weights that grow with the epochs."""

import math


def epochs_of(share: float, epochs: int) -> int:
    """Return the whole number of epochs nearest to a share in [0, 1] of `epochs`, halves upwards."""
    return math.floor(share * epochs + 0.5)


def ramp_up(done: float, length: float) -> float:
    """Return exp(-5 (1 - min(done, length) / length)^2): from 0.007 to 1 within `length`, 1 if the length is 0.

    The sigmoid ramp of temporal ensembling (Laine, Aila 2017), as DTC and RankStats use it.
    """
    return 1.0 if length <= 0 else math.exp(-5 * (1 - min(done, length) / length) ** 2)
