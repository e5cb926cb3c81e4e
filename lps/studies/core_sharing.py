"""Let the runs of a sweep or a search on the CPU train side by side: one thread each, unless the user says otherwise.

Runs of several threads on a busy machine mostly wait for each other, and the queue trains as many runs at a time as
their threads leave cores for.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lps.errors import UserError
from lps.machine import devices
from lps.scheduler import run_slots
from lps.settings.config import Config, configure
from lps.studies import presets, search, sweeps
from lps.studies.sweep_layout import SweepSpec

_ONE_THREAD = {"threads": "1"}


def sweep_on_cores(
    request: SweepSpec | presets.PresetRequest, root: Path, name: str = "", is_here: bool = True
) -> tuple[SweepSpec | presets.PresetRequest, str]:
    """Return the request with one thread for each run, and the name; both unchanged where this does not apply.

    It applies on the CPU, if the request does not say a number of threads, unless at least half of the runs exist
    without one. is_here: False if the runs are for another machine; then it only goes on with a sweep that has one
    thread for each run. Raises `UserError`.
    """
    if "threads" in request.fixed or "threads" in getattr(request, "varied", ()):
        return request, name
    sweep, shared = sweeps.lay_out_sweep(request, name), replace(request, fixed={**request.fixed, **_ONE_THREAD})
    if is_here:
        can_share = _can_share_cores([item.config for item in sweep.items])
        applies = can_share and 2 * _count_existing(sweep, root) < len(sweep.items)
    else:
        applies = _count_existing(sweeps.lay_out_sweep(shared, name), root) > _count_existing(sweep, root)
    if not applies:
        return request, name
    return shared, name or (sweep.name if isinstance(request, presets.PresetRequest) else "")


def _count_existing(sweep: sweeps.Sweep, root: Path) -> int:
    return sum(item.action != "new" for item in sweeps.match_existing(sweep.items, root))


def search_on_cores(request: search.Request, root: Path, settings: Sequence[str], is_named: bool) -> search.Request:
    """Return the request with one thread for each run, under the conditions of `sweep_on_cores`.

    settings: what the user has set, as NAME=VALUE. is_named: whether the user has named the search.
    """
    is_set = any(text.partition("=")[0].strip() == "threads" for text in settings)
    if is_set or not _can_share_cores([request.base]):
        return request
    try:
        if search.find_search(root, request.name).request().base.threads is None:
            return request
    except UserError:  # no search has this name
        pass
    changed = replace(request, base=configure(request.base.flat() | {"threads": 1}))
    return changed if is_named else search.with_usual_name(changed)


def sharing_in_words(configs: Sequence[Config], root: Path) -> str:
    """Return "Each run uses 1 thread, so 8 runs train at a time."; "" if runs do not share the cores."""
    if not configs or not all(config.threads == 1 and run_slots.is_on_cpu(config) for config in configs):
        return ""
    number = run_slots.num_parallel_runs(configs, root)
    return f"Each run uses 1 thread; {number} train at a time." if number > 1 else "Each run uses 1 thread."


def _can_share_cores(configs: Sequence[Config]) -> bool:
    is_local = all(run_slots.is_on_cpu(config) and config.processes == 1 for config in configs)
    return is_local and devices.available_cores() > 1
