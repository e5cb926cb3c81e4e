"""LPS Studio: watch a model learn the classes it has labels for, and discover the ones it has not."""

__version__ = "0.3.0"
API = (
    "ConfigError",
    "Run",
    "compare_runs",
    "export_runs",
    "find_run",
    "launch",
    "list_runs",
    "predict",
    "replay",
    "train_on",
)  # of lps.api, read when asked for


def __getattr__(name: str):
    if name in API:
        from lps import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *API})
