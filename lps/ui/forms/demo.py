"""The demo: two short runs on digits that differ only in the margin, with the settings of the recordings.

They use one thread, as the recordings do: another order of summation changes the result, by many points if the entropy
term is weak.
"""

SETTINGS = {"epochs": 20, "entropy_weight": 0.5, "threads": 1}  # beside the usual ones
RUNS = {"Demo": {}, "Demo without the margin": {"use_margin": False}}  # name: what else is set


def setting_texts(**changes: str) -> dict[str, str]:
    """Return the settings as typed into the launch form, and any others."""
    return {key: str(value) for key, value in SETTINGS.items()} | changes
