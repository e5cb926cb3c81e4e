"""Define a search for good settings: its request, its files, and the process that runs it.

    runs/.searches/NAME/search.json    the request; written by the process that creates or extends it
                        trials.jsonl   Optuna's journal, one JSON line per operation; written only by the driver
                        want.json      {"want": run | stop}, written by pages and command line
                        lock           under a kernel flock while a driver (lps.studies.search_driver) works
                        log.txt        output of a driver in the background

Every trial is an ordinary run, tagged search:NAME (one run per seed). Optuna is imported when a journal is opened.
"""

import hashlib
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lps.errors import UserError, check_whole, shorten, shown
from lps.files import disk, versions
from lps.files.atomic import disk_error_in_words, open_regular, read_json, read_small, write_json
from lps.files.locks import folder_lock, try_lock
from lps.machine.detached_jobs import detach, lps_command
from lps.scheduler import costs, run_slots, submit
from lps.settings.config import Config, configure, configure_stored, parse_settings, protocol_parameters
from lps.store.desired_state import stored_number
from lps.store.run_folders import blocked_by, subfolders
from lps.studies.search_objective import find_objective, with_withheld_labels
from lps.studies.search_space import Dimension, read_space

FOLDER = ".searches"
_PREFIX = "search:"  # of the tag with the search's name
PRUNED = "pruned"  # the tag of a run that was stopped because it was hopeless
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
MAX_TRIALS, MAX_PARALLEL, _MAX_SEEDS = 2000, 64, 16
_MISSING = "optuna is not installed; install it with: pip install optuna"


@dataclass(frozen=True)
class Request:
    """The request of a search. base: all settings not searched, withheld labels included. seeds: the runs of a trial.

    prune: whether hopeless trials are stopped. sampler_seed: of Optuna's draws. parallel: trials at a time; None: one
    per slot of the machine.
    """

    name: str
    base: Config
    space: tuple[Dimension, ...]
    seeds: tuple[int, ...] = (0,)
    objective: str = "balanced"
    trials: int = 20
    prune: bool = True
    sampler_seed: int = 0
    parallel: int | None = None

    def config(self, values: Mapping[str, object], seed: int) -> Config:
        """Return the settings of one run of a trial; raises `UserError` if the values do not fit together."""
        return configure(self.base.flat() | dict(values) | {"seed": seed})

    def as_json(self) -> dict:
        fields = {"name": self.name, "objective": self.objective, "space": [item.text for item in self.space]}
        fields |= {"seeds": list(self.seeds), "trials": self.trials, "prune": self.prune}
        return fields | {"sampler_seed": self.sampler_seed, "parallel": self.parallel, "base": self.base.flat()}


@dataclass(frozen=True)
class Search:
    """The folder of one search. Making the object touches no file."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def root(self) -> Path:
        """Return the runs folder."""
        return self.folder.parent.parent

    @property
    def tag(self) -> str:
        return _PREFIX + self.name

    @property
    def journal(self) -> Path:
        return self.folder / "trials.jsonl"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def request(self) -> Request:
        """Read the request; raises `UserError` if the file is missing or damaged."""
        try:
            stored = json.loads(read_small(self.folder / "search.json"))
            versions.check_version("search.json", stored.get("version"))
            base = configure_stored(stored["base"])
            fields = {key: stored[key] for key in ("objective", "trials", "prune", "sampler_seed", "parallel")}
            space = read_space(stored["space"], base.method)
            return check_whole_request(Request(self.name, base, space, tuple(stored["seeds"]), **fields))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UserError("search", f"{self.name} cannot be read ({str(error)[:200]})") from None

    @property
    def identity(self) -> str:
        """Return an id that differs from that of a later search with the same name; "" if the file is damaged."""
        return str(read_json(self.folder / "search.json").get("id", ""))

    def is_stopping(self) -> bool:
        """Return whether a stop was requested."""
        return read_json(self.folder / "want.json").get("want") == "stop"


# ---------------------------------------------------------------------------------------------------- ask


def read_request(
    dataset: str,
    method: str,
    space: Sequence[str],
    fixed: Sequence[str] = (),
    seeds: str = "0",
    objective: str = "balanced",
    name: str = "",
    **more,
) -> Request:
    """Parse a typed request; more: trials, prune, sampler_seed, parallel. Raises `UserError`.

    Without a name, the search is named after its request, so that the same command means the same search.
    """
    search_objective, seed = find_objective(objective), protocol_parameters()["seed"]
    fixed_settings = parse_settings(list(fixed), method)
    numbers = tuple(dict.fromkeys(seed.parse(text) for text in seeds.replace(",", " ").split()))
    for key in ("dataset", "method", "seed"):
        if key in fixed_settings:
            raise UserError(key, f"cannot be set by --set; use --{'seeds' if key == 'seed' else key}")
    base = configure(fixed_settings | {"dataset": dataset, "method": method, "seed": numbers[0] if numbers else 0})
    base = with_withheld_labels(base, search_objective, "split.validation_ratio" in fixed_settings)
    dimensions = read_space(space, method)
    duplicate = next((dimension.name for dimension in dimensions if dimension.name in fixed_settings), None)
    if duplicate:
        raise UserError(duplicate, "is both set and searched; choose one")
    request = Request(name, base, dimensions, numbers, objective, **more)
    return check_whole_request(request if name else with_usual_name(request))


def with_usual_name(request: Request) -> Request:
    """Return the request with the name that it has without a typed one.

    It is a digest that does not depend on the numbers of trials and parallel runs.
    """
    question = request.as_json() | {"base": request.base.identifying()}
    question = {key: value for key, value in question.items() if key not in ("name", "trials", "parallel")}
    text = json.dumps(question, sort_keys=True)
    return replace(request, name=hashlib.sha256(text.encode()).hexdigest()[:6])


def check_whole_request(request: Request) -> Request:
    """Return the request if its parts fit together; raises `UserError`."""
    find_objective(request.objective)
    if not NAME.fullmatch(request.name):
        raise UserError("name", f"{shorten(request.name)} is not 1 to 32 letters, digits, dots, dashes, underscores")
    check_whole("trials", request.trials, 1, MAX_TRIALS)
    check_whole("sampler-seed", request.sampler_seed, 0, 2**31 - 1)
    if request.parallel is not None:
        check_whole("parallel", request.parallel, 1, MAX_PARALLEL)
    seeds = {seed for seed in request.seeds if type(seed) is int}
    if not 1 <= len(seeds) == len(request.seeds) <= _MAX_SEEDS:
        raise UserError(
            "seeds",
            f"{shorten(list(request.seeds))} are not seeds; expected at most {_MAX_SEEDS} different whole numbers",
        )
    if request.prune and any(dimension.name == "epochs" for dimension in request.space):
        raise UserError(
            "epochs",
            "cannot be searched together with early stopping of poor trials, because early stopping compares trials at "
            "the same epoch",
        )
    return request


def check_request(request: Request, check_start: Callable[[Config], None] | None = None) -> None:
    """Check the slots, and the shared settings of its runs as in `submit.check_configs`; raises `UserError`."""
    run_slots.cpu_slots_from_environment()
    submit.check_configs([request.base], check_start=check_start)


def estimate_search(request: Request, root: Path) -> costs.Span | None:
    """Estimate the duration of all runs, one after another, from finished and running runs; None if unknown."""
    cost = costs.known_costs(root, {costs.cost_kind(request.base)}).estimate(request.base)
    return None if cost is None else cost.span.times(request.trials * len(request.seeds))


# ---------------------------------------------------------------------------------------------------- folders


def list_searches(root: Path) -> list[Search]:
    """Return the searches in the runs folder `root`, newest first; raises `UserError` as `list_runs` does."""
    searches = [Search(root / FOLDER / name) for name in subfolders(root / FOLDER) if NAME.fullmatch(name)]
    return sorted(filter(_start_time, searches), key=lambda search: (-_start_time(search), search.name))


def find_search(root: Path, name: str) -> Search:
    """Return the search called `name`; raises `UserError`."""
    searches = list_searches(root)
    search = next((search for search in searches if search.name == name), None)
    if search is None:
        names = ", ".join(search.name for search in searches[:20]) or "none yet"
        raise UserError("search", f"{shorten(name)} is not a search in {shown(root)}; choices: {names}")
    return search


def _start_time(search: Search) -> float:
    """Return the unix seconds of the first request; 0 if there is none."""
    start = stored_number(read_json(search.folder / "search.json").get("begun"))
    try:
        return os.stat(search.folder / "search.json").st_mtime if start is None else start
    except OSError:
        return 0.0


def create_search(request: Request, root: Path) -> Search:
    """Store the request, or find it stored; starts nothing. The same request may ask for more trials.

    Raises `UserError` if a search of this name asks something else.
    """
    subfolders(Path(root))  # raises where something else is in its place
    search = Search(Path(root).resolve() / FOLDER / check_whole_request(request).name)
    try:
        search.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk.make_folder(search.folder.parent)
        disk.make_folder(search.folder)
        with folder_lock(search.folder):
            identity_fields = {"id": os.urandom(6).hex(), "begun": round(time.time(), 3)}
            if (search.folder / "search.json").exists():
                _check_same(search.request(), request)
                identity_fields = {"id": search.identity, "begun": _start_time(search)}
            stored_request = versions.with_version("search.json", identity_fields | request.as_json())
            write_json(search.folder / "search.json", stored_request)
    except OSError as error:
        message = blocked_by(search.root) or f"{shorten(str(root))} cannot store a search ({error.strerror})"
        raise UserError("runs", message) from None
    return search


def _check_same(stored: Request, request: Request) -> None:
    """Raise `UserError` unless both requests differ only in the numbers of trials and parallel trials."""
    old_request, new_request = stored.as_json(), request.as_json()
    for key in ("objective", "space", "seeds", "prune", "sampler_seed"):
        if old_request[key] != new_request[key]:
            field_name = key.replace("_", " ")
            raise UserError(
                "name", f"{request.name} is an existing search with another {field_name}; choose another name"
            )
    changed_key = next(
        (key for key in old_request["base"] if old_request["base"][key] != new_request["base"].get(key)), None
    )
    if changed_key:
        raise UserError("name", f"{request.name} is an existing search with another {changed_key}; choose another name")


def extend_search(search: Search, trials: int | None = None, parallel: int | None = None) -> Request:
    """Change the number of trials in total or in parallel; return the new request. Raises `UserError`."""
    request = search.request()
    request = replace(request, trials=trials or request.trials, parallel=parallel or request.parallel)
    create_search(check_whole_request(request), search.root)
    return request


def request_state(search: Search, action: str) -> None:
    """Ask the driver to `run` or to `stop`; it follows within a second or two."""
    write_json(search.folder / "want.json", {"want": action, "time": round(time.time(), 3)})


def start_driver(search: Search) -> bool:
    """Start or resume the search in a separate process; False if a driver is already working.

    Raises `UserError` if Optuna is missing or no process can be started.
    """
    load_optuna()
    lock = None
    try:
        lock = try_lock(search.lock, patience=0)
        if lock is None:
            return False
        request_state(search, "run")
        command = lps_command("search", search.name, "--resume", "--runs", str(search.root), "--lock", str(lock))
        detach(command, search.log, lock)
    except OSError as error:
        raise UserError("search", f"{search.name} cannot be started ({disk_error_in_words(error)})") from None
    finally:
        if lock is not None:
            os.close(lock)
    return True


# ---------------------------------------------------------------------------------------------------- journal


def load_optuna():
    """Import Optuna without its log messages; raises `UserError` if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise UserError("search", _MISSING) from None
    optuna.logging.set_verbosity(logging.ERROR)
    return optuna


class _NoLock:
    """No-op lock for Optuna: the writer already holds the search lock, which the kernel frees on exit."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def open_study(search: Search, *, create: bool = False):
    """Return the study in the journal; None if there is none yet. Only the driver, which holds the lock, may create it.

    Raises `UserError` for a damaged journal.
    """
    optuna = load_optuna()
    from optuna.storages.journal import JournalFileBackend

    if not create and not search.journal.exists():
        return None
    try:
        if os.path.lexists(search.journal):
            open_regular(search.journal).close()  # raises for a link, which Optuna would write through
        backend = JournalFileBackend(str(search.journal), lock_obj=_NoLock())
        storage = optuna.storages.JournalStorage(backend)
        if create:
            study = optuna.create_study(
                storage=storage, study_name=search.name, direction="maximize", load_if_exists=True
            )
        else:
            study = optuna.load_study(storage=storage, study_name=search.name) if storage.get_all_studies() else None
        _check_trials(study)
        return study
    except OSError as error:
        raise UserError("search", f"{search.journal.name} cannot be read ({error.strerror})") from None
    except Exception as error:  # Optuna takes every line for its own, and may stumble over anything in one
        reason = str(error)[:200] or "one line is not from Optuna"
        raise UserError("search", f"{search.journal.name} of {search.name} is damaged ({reason})") from None


def _check_trials(study) -> None:
    """Raise `ValueError` for a trial that no driver has written."""
    for trial in study.get_trials(deepcopy=False) if study else ():
        runs, numbers = trial.user_attrs.get("runs", []), [*trial.intermediate_values.values()]
        if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
            raise ValueError(f"trial {trial.number} has runs {shorten(runs)}; expected a list of run ids")
        numbers += [trial.value] if trial.state.name == "COMPLETE" else []
        if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
            raise ValueError(f"a value of trial {trial.number} is not a number")
