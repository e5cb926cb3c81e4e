"""Read the results of a search: trials, the best one, the importance of settings, and their uncertainty."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lps.files.locks import is_held
from lps.settings import cli_args
from lps.store.runs import clean_text
from lps.studies.search import Request, Search, load_optuna, open_study
from lps.studies.search_objective import OBJECTIVES, Objective
from lps.wording import counted

_FEW_TRIALS = 10  # finished trials a setting below which shares of importance are guesses
MIN_TRIALS = 4  # finished trials that importance takes at all


@dataclass(frozen=True)
class Trial:
    """One point of the space. state: running, complete, pruned or failed.

    values: the searched settings. runs: ids, one a seed, as far as they were begun. value: of a pruned one that at its
    end. scores: (step, value) by which it was judged on the way; steps count the epochs of all its runs.
    """

    number: int
    state: str
    values: Mapping[str, object]
    value: float | None
    runs: tuple[str, ...] = ()
    reason: str = ""
    scores: tuple[tuple[int, float], ...] = ()
    is_default: bool = False  # the settings that were searched around


@dataclass(frozen=True)
class SearchResult:
    """Results of a search. state: new, running, stopping, stopped, interrupted, finished.

    importance: setting -> share, largest first; empty if there are too few finished trials.
    """

    request: Request
    state: str
    trials: tuple[Trial, ...]
    importance: Mapping[str, float] = field(default_factory=dict)

    def count(self, *states: str) -> int:
        return sum(trial.state in states for trial in self.trials)

    @property
    def num_ended(self) -> int:
        return self.count("complete", "pruned", "failed")

    @property
    def best(self) -> Trial | None:
        """Return the finished trial with the largest value, the first one of equal ones."""
        return max(self.complete_trials, key=lambda trial: (trial.value, -trial.number), default=None)

    @property
    def complete_trials(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.state == "complete"]

    @property
    def objective(self) -> Objective:
        return OBJECTIVES[self.request.objective]


def read_results(search: Search, with_importance: bool = True) -> SearchResult:
    """Read the state and results of a search; raises `UserError` if its files are damaged or Optuna is missing."""
    request = search.request()
    is_running = is_held(search.lock)
    study = open_study(search)
    trials = tuple(_read_trial(frozen) for frozen in study.get_trials(deepcopy=False)) if study else ()
    result = SearchResult(request, "new", tuple(trial for trial in trials if trial.state != "waiting"))
    shares = _importance(study, result) if study and with_importance else {}
    return replace(result, state=_state(search, result, is_running), importance=shares)


def _read_trial(frozen) -> Trial:
    """Convert a trial of Optuna."""
    attributes = frozen.user_attrs
    runs, reason, shown_error = attributes.get("runs", []), attributes.get("reason", ""), attributes.get("failed")
    names = {"RUNNING": "running", "COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "WAITING": "waiting"}
    state = "failed" if shown_error else names[frozen.state.name]
    scores = tuple(sorted(frozen.intermediate_values.items()))
    value = frozen.value if frozen.values and math.isfinite(frozen.value) else None
    if state == "running" and scores:
        value = scores[-1][1]
    return Trial(
        frozen.number,
        state,
        dict(frozen.params),
        None if state == "failed" else value,
        tuple(str(run) for run in runs),
        clean_text(str(reason)),
        scores,
        bool(attributes.get("usual")),
    )


def _state(search: Search, result: SearchResult, is_running: bool) -> str:
    if is_running:
        return "stopping" if search.is_stopping() else "running"
    if result.num_ended >= result.request.trials:
        return "finished"
    if search.is_stopping():
        return "stopped"
    return "interrupted" if search.journal.exists() else "new"


def read_importance(search: Search, result: SearchResult) -> dict[str, float]:
    """Compute the `SearchResult.importance` that a result lacks; raises `UserError` as `read_results` does."""
    study = open_study(search)
    return _importance(study, result) if study else {}


def _importance(study, result: SearchResult) -> dict[str, float]:
    """Return the share of each searched setting in the variance of the finished trials, largest first; sums to 1.

    fANOVA (Hutter, Hoos, Leyton-Brown, ICML 2014) by Optuna with a fixed seed: a forest is fitted to the finished
    trials and its variance over the space taken apart. Empty below `MIN_TRIALS` trials and where all values are the
    same.
    """
    values = {trial.value for trial in result.complete_trials}
    if len(result.complete_trials) < MIN_TRIALS or len(values) < 2:
        return {}
    optuna = load_optuna()
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    try:
        importance = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (ValueError, RuntimeError, ImportError):
        return {}
    return {name: float(share) for name, share in importance.items() if math.isfinite(share)}


def importance_caution(result: SearchResult) -> str:
    """Return one sentence on the basis of the shares of importance."""
    trials, settings = len(result.complete_trials), len(result.request.space)
    basis = f"{counted(trials, 'finished trial')}; trials that were stopped early are left out"
    if trials < MIN_TRIALS:
        return f"Importance needs at least {MIN_TRIALS} finished trials; there are {trials}."
    if trials < _FEW_TRIALS * settings:
        return f"From {basis}. For {counted(settings, 'setting')} this is only a rough estimate."
    return f"From {basis}."


def best_so_far(trials: Sequence[Trial]) -> list[float]:
    """Return the largest value of a finished trial up to each of `trials`, NaN before the first one."""
    best, best_values = math.nan, []
    for trial in trials:
        if trial.state == "complete" and not best >= trial.value:
            best = trial.value
        best_values.append(best)
    return best_values


def settings_of(request: Request, trial: Trial) -> dict[str, object]:
    """Return the settings of a trial's runs that differ from the defaults, including seed and withheld labels."""
    config = request.config(trial.values, request.seeds[0])
    return cli_args.differing_settings(config.flat(), config.defaults())


def sweep_name(request: Request) -> str:
    """Return the name of the sweep of the best settings with several seeds; it shows if hidden labels chose them."""
    prefix = "oracle-best-of" if OBJECTIVES[request.objective].hidden else "best-of"
    return f"{prefix}-{request.name}"[:32]


def sweep_command(request: Request, trial: Trial, seeds: Sequence[int] = (0, 1, 2)) -> str:
    """Return the command that runs a trial's settings with several seeds."""
    options = {"dataset": request.base.dataset, "method": request.base.method, "seeds": cli_args.join_values(seeds)}
    settings = {"threads": None} | settings_of(request, trial)  # a sweep that names no number uses one thread
    return cli_args.format_command("sweep", **options, name=sweep_name(request), set=settings)
