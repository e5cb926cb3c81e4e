"""The demo: two short runs on digits that differ in nothing but the margin, by the command that recorded them.

On one thread, as the recordings: a sum in another order leads to another end, by many points where the entropy term is
weak.
"""

SETTINGS = {"epochs": 20, "entropy_weight": 0.5, "threads": 1}  # beside the usual ones
RUNS = {"Demo": {}, "Demo without the margin": {"use_margin": False}}  # name: what else is set


def texts(**more: str) -> dict[str, str]:
    """The settings as they are typed into the form of Launch, and more of them."""
    return {key: str(value) for key, value in SETTINGS.items()} | more
