"""Run a search: ask Optuna for settings, queue their runs, read their measurements, stop hopeless trials.

All state is in the search's journal and the run folders, so the driver may be killed at any time: the next one
continues the active trials. The run of a trial is found by its token, which follows from search, trial and seed; the
draw of a trial depends only on its number and the trials before it.
"""

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lps.errors import UserError, shorten
from lps.files.locks import try_lock
from lps.scheduler import launcher, queue, run_slots, submit
from lps.settings.config import Config
from lps.settings.parameters import short_text
from lps.store.events import drop_repeated, end_of_events, read_events
from lps.store.run_folders import list_runs
from lps.store.runs import Run, State
from lps.studies.search import PRUNED, Request, Search, load_optuna, open_study, request_state
from lps.studies.search_objective import ORACLE_TAG, Objective, find_objective, objective_value
from lps.studies.search_space import Dimension, default_point
from lps.wording import counted

_PAUSE_S = 1.0  # between two looks at the runs
STARTUP_TRIALS = 5  # drawn at random before the sampler learns; finished before the first one is pruned
_WARM_UP = 1 / 3  # share of the epochs of a run in which none is pruned: novel classes are learned late
_ATTEMPTS = 3  # starts of a run whose processes were killed
_MAX_FAILURES = 5  # failed trials in a row after which the search gives up
_HOPELESS = ("diverged", "out_of_memory")  # failures that say something about the settings, which others do not


def run_search(
    search: Search,
    report: Callable[[str], None] = print,
    lock: int | None = None,
    trainer=launcher.TRAINER,
    pause_s: float = _PAUSE_S,
) -> str:
    """Run until all trials have ended or a stop is requested; return "finished" or "stopped".

    lock: descriptor of the search's lock if the starting process holds it already. Raises `UserError` if another driver
    is working, the files are damaged, or one trial after another fails.
    """
    load_optuna()
    lock_fd = lock if lock is not None else try_lock(search.lock)
    if lock_fd is None:
        raise UserError("search", f"{search.name} is already running in another process")
    try:
        request = search.request()
        if search.journal.exists():  # a killed driver or a full disk may leave a torn last line
            os.truncate(search.journal, end_of_events(search.journal))
        return Driver(search, request, open_study(search, create=True), report, trainer).drive(pause_s)
    except OSError as error:
        raise UserError("search", f"{search.name} cannot continue ({error.strerror or error})") from None
    finally:
        os.close(lock_fd)


def start_search(search: Search, report: Callable[[str], None], lock: int | None = None) -> str:
    """Request and run the search in this process, see `run_search`."""
    if lock is None:
        request_state(search, "run")
    return run_search(search, report, lock)


@dataclass
class ActiveTrial:
    """A trial under way. trial: Optuna's. values: its settings. finished: value of every seed that is through."""

    trial: object
    values: dict[str, object]
    finished: list[float] = field(default_factory=list)
    run: Run | None = None
    is_own_run: bool = True  # the run was made for it
    reported_step: int = -1  # the last step that the sampler and the pruner know
    events: list[dict] = field(default_factory=list)
    offset: int = 0

    @property
    def number(self) -> int:
        return self.trial.number

    def follow(self, run: Run, is_own: bool) -> None:
        """Follow this run from its first event."""
        self.run, self.is_own_run, self.events, self.offset = run, is_own, [], 0

    def evaluations(self) -> list[tuple[int, Mapping]]:
        """Return (epoch, values) of all measurements so far, without those that a later attempt repeated."""
        new_events, offset = read_events(self.run.events, self.offset)
        self.events = new_events if offset < self.offset else self.events + new_events
        self.offset = offset
        return [(event["epoch"], event["values"]) for event in drop_repeated(self.events) if event["kind"] == "eval"]


class Driver:
    """A process that works on a search, whose lock it holds."""

    def __init__(self, search: Search, request: Request, study, report: Callable[[str], None], trainer):
        self.optuna = load_optuna()
        self.search, self.request, self.study, self.report, self.trainer = search, request, study, report, trainer
        self.objective: Objective = find_objective(request.objective)
        self.root = search.root
        self.parallel = request.parallel or run_slots.num_parallel_runs([request.base], self.root)
        self.failures, self.last_failure = 0, ""  # failures in a row
        self.study.pruner = _pruner(request)

    def drive(self, pause_s: float) -> str:
        """Run the search, see `run_search`."""
        if self.objective.hidden:
            self.report(self.objective.description)
        active_trials = self._resume_trials()
        while True:
            active_trials = [course for course in active_trials if not self._advance(course)]
            if self.failures >= _MAX_FAILURES:
                message = f"{self.failures} trials failed in a row; the last one: {self.last_failure}"
                raise UserError("search", message)
            if self.search.is_stopping():
                self._pause_trials(active_trials)
                return "stopped"
            num_started = self._count_started()
            for _ in range(min(self.parallel - len(active_trials), self.request.trials - num_started)):
                course = self._next_trial()
                if not self._advance(course):
                    active_trials.append(course)
            if not active_trials and num_started >= self.request.trials:
                return "finished"
            launcher.dispatch(self.root, self.trainer)  # the runner that should have started the next run may be gone
            time.sleep(pause_s)

    # ------------------------------------------------------------------------------------------------ trials

    def _count_started(self) -> int:
        return sum(trial.state.name != "WAITING" for trial in self.study.get_trials(deepcopy=False))

    def _resume_trials(self) -> list[ActiveTrial]:
        """Return the trials that an earlier driver left unfinished."""
        running_trials = [trial for trial in self.study.get_trials(deepcopy=False) if trial.state.name == "RUNNING"]
        if running_trials:
            self.report(f"resuming {counted(len(running_trials), 'unfinished trial')}")
        return [self._active_trial(self._reopen_trial(frozen)) for frozen in running_trials]

    def _next_trial(self) -> ActiveTrial:
        """Start a new trial: first the default settings if the space contains them, then draws of the sampler."""
        if not self.study.get_trials(deepcopy=False):
            base_point = default_point(self.request.space, self.request.base)
            if base_point is not None:
                self.study.enqueue_trial(base_point, user_attrs={"usual": True})
        self.study.sampler = _sampler(self.request, self._count_started())
        return self._active_trial(self.study.ask())

    def _reopen_trial(self, frozen):
        """Return a trial of the journal as one that can be reported to; some of its values may not be drawn yet."""
        self.study.sampler = _sampler(self.request, frozen.number)
        return self.optuna.trial.Trial(self.study, frozen._trial_id)

    def _active_trial(self, trial) -> ActiveTrial:
        values = {dimension.name: _suggest(trial, dimension) for dimension in self.request.space}
        steps = self._stored_trial(trial).intermediate_values
        return ActiveTrial(trial, values, reported_step=max(steps, default=-1))

    def _stored_trial(self, trial):
        return self.study.get_trials(deepcopy=False)[trial.number]

    def _advance(self, active: ActiveTrial) -> bool:
        """Check the run of a trial and do the next step; True once the trial has ended."""
        try:
            if active.run is None:
                self._begin_run(active)
            return self._follow_run(active)
        except UserError as error:
            return self._fail_trial(active, str(error))

    # ------------------------------------------------------------------------------------------------ runs

    def _begin_run(self, active: ActiveTrial) -> None:
        """Find or create the run of the trial's next seed, and queue it."""
        seed_index = len(active.finished)
        config = self.request.config(active.values, self.request.seeds[seed_index])
        recorded_runs = self._stored_trial(active.trial).user_attrs.get("runs", [])
        if seed_index < len(recorded_runs) and not (self.root / recorded_runs[seed_index]).is_dir():
            raise UserError("run", f"{recorded_runs[seed_index]} was deleted")
        run = Run(self.root / recorded_runs[seed_index]) if seed_index < len(recorded_runs) else self._equal_run(config)
        is_own = run is None or self.search.tag in run.meta()["tags"]
        token = f"{self.search.identity}/{self.search.name}/{active.number}/{config.seed}"

        def tag_first_run(runs: list[Run]) -> None:
            runs[0].write_meta(add=[self.search.tag, *([ORACLE_TAG] if self.objective.hidden else [])])
            if seed_index >= len(recorded_runs):
                active.trial.set_user_attr("runs", [*recorded_runs, runs[0].id])
            active.follow(runs[0], is_own)

        run_request = submit.RunRequest(config, self._title(active, config), token, run)
        submit.create_runs(self.root, [run_request], self.trainer, on_created=tag_first_run, retries=_ATTEMPTS - 1)

    def _equal_run(self, config: Config) -> Run | None:
        """Return a usable run with exactly these settings: a finished one, or an unfinished one of this search."""
        wanted_json = config.to_json()
        for run in list_runs(self.root):
            config = run.config_if_readable()
            if config is None or config.to_json() != wanted_json:
                continue
            state = run.state().name
            if state == "finished" or (self.search.tag in run.meta()["tags"] and state not in ("failed", "crashed")):
                return run
        return None

    def _title(self, active: ActiveTrial, config: Config) -> str:
        seed = f", seed {config.seed}" if len(self.request.seeds) > 1 else ""
        return f"{self.search.name} {active.number}: {in_words(active.values)}{seed}"

    def _follow_run(self, active: ActiveTrial) -> bool:
        state = active.run.state()  # read before the events, since a run that is over has written all of them
        if state.name == "unreadable" or not active.run.folder.is_dir():
            return self._fail_trial(active, f"{active.run.id} is unreadable or was deleted")
        measured = active.evaluations()
        if state.name == "finished":
            return self._finish_run(active, measured)
        is_pruned = PRUNED in active.run.meta()["tags"]
        if not is_pruned and self._report_values(active, measured):
            active.run.write_meta(add=[PRUNED])
            is_pruned = True
        if is_pruned:
            return self._stop_pruned(active, state)
        return state.is_over and self._recover_run(active, state)

    def _finish_run(self, active: ActiveTrial, measured: list[tuple[int, Mapping]]) -> bool:
        """Use the value of the last epoch; the trial ends after its last seed."""
        self._report_values(active, measured)
        if PRUNED in active.run.meta()["tags"]:  # it was through before it could be stopped
            active.run.write_meta(drop=[PRUNED])
        value = objective_value(self.objective, active.run, *measured[-1]) if measured else None
        if value is None:
            return self._fail_trial(active, f"{active.run.id} finished without a value of {self.objective.title}")
        active.finished.append(value)
        if len(active.finished) < len(self.request.seeds):
            active.run = None
            return self._advance(active)
        self._end_trial(active, sum(active.finished) / len(active.finished))
        return True

    def _report_values(self, active: ActiveTrial, measured: list[tuple[int, Mapping]]) -> bool:
        """Report new values epoch by epoch; True once the trial is hopeless compared with the others."""
        epochs = int(self.request.config(active.values, self.request.seeds[0]).epochs)
        num_finished = len(active.finished)
        is_hopeless = False
        for epoch, values in measured:
            step = num_finished * epochs + epoch
            if step <= active.reported_step:
                is_hopeless = step == active.reported_step and self._is_hopeless(active, epoch, epochs)
            elif (value := objective_value(self.objective, active.run, epoch, values)) is not None:
                active.trial.report((sum(active.finished) + value) / (num_finished + 1), step)
                active.reported_step = step
                is_hopeless = self._is_hopeless(active, epoch, epochs)
            if is_hopeless:
                return True
        return False

    def _is_hopeless(self, active: ActiveTrial, epoch: int, epochs: int) -> bool:
        """Return whether the pruner would stop the trial; never after a run's last epoch, nor for a run of others."""
        if not self.request.prune or epoch >= epochs or not active.is_own_run:
            return False
        return self.study.pruner.prune(self.study, self._stored_trial(active.trial))

    def _stop_pruned(self, active: ActiveTrial, state: State) -> bool:
        """Stop a hopeless run; the trial ends once the run is over."""
        if not state.is_over:
            launcher.stop(active.run)
            return False
        epochs = active.evaluations()[-1:]
        reason = f"stopped after epoch {epochs[0][0]}: " if epochs else ""
        self._end_trial(active, None, f"{reason}worse than the median of the finished trials at that epoch")
        return True

    def _recover_run(self, active: ActiveTrial, state: State) -> bool:
        """Resume a run that ended unfinished, or give the trial up."""
        paused = self._stored_trial(active.trial).user_attrs.get("paused")
        was_killed = state.name == "crashed" or state.kind in ("killed", queue.PREEMPTED)
        if queue.is_due(active.run, state):  # the queue will retry it
            return False
        if (state.name == "stopped" and paused) or (was_killed and state.attempt < _ATTEMPTS):
            launcher.resume(active.run, self.trainer)
            if paused:
                active.trial.set_user_attr("paused", False)
            return False
        if state.name == "failed" and state.kind in _HOPELESS:
            active.trial.set_user_attr("failed", state.kind)
            self._end_trial(active, None, state.reason)
            return True
        by_hand = state.name == "stopped" and not state.kind
        return self._fail_trial(active, "its run was stopped" if by_hand else state.reason)

    # ------------------------------------------------------------------------------------------------ ends

    def _end_trial(self, active: ActiveTrial, value: float | None, reason: str = "") -> None:
        """Tell Optuna how a trial ended: with a value, or pruned. The journal accepts nothing of it afterwards."""
        states = self.optuna.trial.TrialState
        if reason:
            active.trial.set_user_attr("reason", reason)
        if value is None:
            self.study.tell(active.trial, state=states.PRUNED)
        else:
            self.study.tell(active.trial, value)
        self.failures = 0
        self._report_end(active, "pruned" if value is None else f"{value:.4f}", reason)

    def _fail_trial(self, active: ActiveTrial, reason: str) -> bool:
        """Give a trial up; return True."""
        reason = reason[:500]
        active.trial.set_user_attr("reason", reason)
        self.study.tell(active.trial, state=self.optuna.trial.TrialState.FAIL)
        self._report_end(active, "failed", reason)
        self.failures += 1
        self.last_failure = reason
        return True

    def _report_end(self, active: ActiveTrial, outcome: str, reason: str) -> None:
        trials = self.study.get_trials(deepcopy=False)
        num_ended = sum(trial.state.is_finished() for trial in trials)
        complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
        best = max(complete, key=lambda trial: (trial.value, -trial.number), default=None)
        best_text = f", best {best.value:.4f} in trial {best.number}" if best else ""
        reason_text = f" ({shorten(reason, 160)[1:-1]})" if reason else ""
        prefix = f"[{num_ended}/{self.request.trials}] trial {active.number}: {in_words(active.values)}"
        self.report(f"{prefix}: {outcome}{reason_text}{best_text}")

    def _pause_trials(self, active_trials: list[ActiveTrial]) -> None:
        """Stop the runs under way, with a mark by which the next driver resumes them."""
        for active in active_trials:
            if active.run is not None and active.is_own_run and not active.run.state().is_over:
                active.trial.set_user_attr("paused", True)
                launcher.stop(active.run)
        num_running = f"{counted(len(active_trials), 'trial')} running"
        self.report(f"stopped with {num_running}; start the same search again to continue")


# ---------------------------------------------------------------------------------------------------- Optuna


def _sampler(request: Request, number: int):
    """Return TPE for trial `number`: its random numbers depend only on the request's seed and this number."""
    digest = hashlib.sha256(f"{request.sampler_seed}/{number}".encode()).digest()
    seed = int.from_bytes(digest[:4])
    return load_optuna().samplers.TPESampler(n_startup_trials=STARTUP_TRIALS, seed=seed)


def _pruner(request: Request):
    """Return the pruner: it stops a trial whose best value is below the median of finished ones at the same step."""
    pruners = load_optuna().pruners
    if not request.prune:
        return pruners.NopPruner()
    warm_up = max(1, round(_WARM_UP * request.base.epochs))
    return pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=warm_up)


def _suggest(trial, dimension: Dimension):
    """Return the value of a setting in a trial, drawn if it is not drawn yet."""
    if dimension.choices:
        return trial.suggest_categorical(dimension.name, dimension.choices)
    if dimension.kind == "int":
        return trial.suggest_int(dimension.name, dimension.low, dimension.high, log=dimension.log)
    return trial.suggest_float(dimension.name, dimension.low, dimension.high, log=dimension.log)


def in_words(values: Mapping[str, object]) -> str:
    """Return values as "lr=0.0123, use_margin=true"."""
    return ", ".join(f"{name}={short_text(value)}" for name, value in values.items())
