"""Run background jobs, which outlive the page or command that starts them: class counts, data checks, predictions,
exports.

A job has a result file. Beside it, a kernel lock shows that the job is working, `NAME.progress.json` holds its
progress, and `NAME.stop` asks it to end. Jobs take no slot and give way to runs (`lps.machine.detached_jobs`).

Two kinds of work are not jobs. A map (`lps.analysis.projection`) starts in the same way but is in the folder of its run
and deleted with it, so no list of jobs would find it without opening every run. A search (`lps.studies.search`) is a
study of many runs: these take slots, are listed and stopped as runs, and the study can be resumed; its result is not
one file.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lps.errors import UserError, shorten, shown
from lps.files import disk
from lps.files.atomic import as_user_error, clean_line, read_json, write_json
from lps.files.locks import try_lock
from lps.machine import detached_jobs
from lps.scheduler.costs import Span
from lps.settings import cli_args
from lps.settings.config import Config, configure
from lps.store.desired_state import stored_number

_KINDS = {  # folder beside the runs -> title of its jobs, and suffix of their results
    ".counts": ("Search for the number of classes", ".json"),
    ".audits": ("Data check", ".json"),
    ".predictions": ("Prediction", ".npz"),
    ".models": ("Model export", ".zip"),
}
_PROGRESS = ".progress.json"
_NOTHING_REMAINS = "the next one starts from the beginning"
_RECENT_S = 86_400.0  # a job that ended longer ago is not listed
_PATIENCE_S = 10.0  # between the request to end and the kill
_TICK_S = 1.0  # between two records of progress
_ENDS = ("left_s", "least_s", "most_s")  # of a record of progress: the fields of the time left, a `Span`
_PHASES = {
    "prepare": "loading libraries and data (up to a minute)",
    "pretrain": "pretraining",
    "features": "reading pictures",
    "count": "clustering",
    "compare": "comparing pictures",
    "model": "loading the model",
    "predict": "predicting",
    "export": "writing the model",
}
_RELEVANT_PREFIXES = (  # prefixes of the settings that affect the result of a job
    "dataset", "dataset.", "split.", "network.", "features", "pretrain.", "seed", "views",
)  # fmt: skip


def settings_text(config: Config) -> str:
    """Return all settings as text, for names of stored results."""
    return json.dumps(config.identifying(), sort_keys=True)


def config_of_job(config: Config) -> Config:
    """Return `config` without the settings that do not affect jobs, such as the number of novel classes."""
    relevant = {key: value for key, value in config.flat().items() if key.startswith(_RELEVANT_PREFIXES)}
    return configure(relevant | {"split.num_novel": 1})


def settings_of_job(config: Config) -> dict[str, object]:
    """Return the settings that affect a job and differ from the defaults."""
    default_by_key = configure({"dataset": config.dataset, "split.num_novel": 1}).flat()
    changed = cli_args.differing_settings(config.flat(), default_by_key)
    return {
        key: value for key, value in changed.items() if key.startswith(_RELEVANT_PREFIXES) and key != "split.num_novel"
    }


def make_folder(folder: Path) -> None:
    """Make the folder of jobs, private to this user; raises `UserError`, also if a link has that name."""
    with as_user_error("job", f"{shorten(str(folder))} cannot be used"):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk.make_folder(folder)


@dataclass(frozen=True)
class JobSubject:
    """The subject of a job. name: the last part of its title; settings: those that Launch can open; remains: what
    remains after the job is cancelled, in words."""

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    remains: str = _NOTHING_REMAINS


def subject_of(config: Config) -> JobSubject:
    """Return the subject of a job that reads the pictures of `config`."""
    settings = {"dataset": config.dataset, "seed": config.seed} | settings_of_job(config)
    return JobSubject(_subject_name(settings), settings, remains_in_words(config))


def _subject_name(settings: Mapping[str, object]) -> str:
    name = Path(str(settings.get("dataset.path") or settings.get("dataset") or "pictures")).name
    return f"{name}, seed {settings.get('seed', 0)}"


def start_job(path: Path, subject: JobSubject, command: str, *arguments: str) -> None:
    """Start `python -m lps COMMAND WORDS` in the background to make the result `path`. Raises `UserError`."""
    with _usable(path):
        if detached_jobs.job_state(path).state in ("absent", "failed", "cancelled"):
            make_folder(path.parent)
            JobProgress(path, subject).report("prepare")  # the process writes its first record only seconds later
        detached_jobs.start_job(path, detached_jobs.lps_command(command, *arguments))


def _usable(path: Path) -> AbstractContextManager:
    """Raise `UserError` inside the block if a file of the job at `path` is a link, a pipe or a folder."""
    return as_user_error("job", f"the files {shown(path.with_suffix(''))}.* cannot be used")


ReportPhase = Callable[[str, float | None, Span | None], None]  # phase in words, its completed share, total time left


def ignore_progress(phase: str, share: float | None, time_left: Span | None) -> None:
    """Ignore the progress."""


class Cancelled(Exception):
    """Raised when a user cancelled the job."""


@dataclass(frozen=True)
class BackgroundJob:
    """A job that is working, or ended within a day. state: see `detached_jobs.JobState`.

    phase, share, time_left, done: of a working job. share: completed share of its phase, None if unknown. done: the
    same in words, "12 of 300 pictures". started: unix seconds. remains: what remains if it is cancelled, in words.
    """

    path: Path
    state: str
    title: str
    settings: Mapping[str, object]
    phase: str = ""
    share: float | None = None
    time_left: Span | None = None
    started: float | None = None
    message: str = ""
    remains: str = ""
    done: str = ""

    @property
    def id(self) -> str:
        return self.path.stem

    @property
    def is_working(self) -> bool:
        return self.state == "working"

    @property
    def left_s(self) -> float | None:
        return None if self.time_left is None else self.time_left.likely

    @property
    def phase_in_words(self) -> str:
        return ", ".join(filter(None, [_PHASES.get(self.phase, _PHASES["prepare"]), self.done]))


def remains_in_words(config: Config) -> str:
    """Describe what a cancelled job on `config` leaves: never its result, but maybe intermediate files."""
    if config.features == "stored":
        return "the features computed so far are saved"
    if config.network_start == "simclr" and config.pretrain_epochs:
        return "the pretraining so far is saved"
    return _NOTHING_REMAINS


def list_jobs(root: Path, now: float | None = None) -> list[BackgroundJob]:
    """Return the jobs of the runs folder `root`: working ones first, then those that ended within a day."""
    now, found_jobs = time.time() if now is None else now, []
    for folder, (_, suffix) in _KINDS.items():
        with suppress(OSError):
            names = sorted(name for name in os.listdir(Path(root) / folder) if name.endswith(_PROGRESS))
            found_jobs += [
                job_at(Path(root) / folder / f"{name.removesuffix(_PROGRESS)}{suffix}", now) for name in names
            ]
    return sorted(filter(None, found_jobs), key=lambda job: (not job.is_working, -(job.started or 0.0), job.id))


def files_beside(path: Path) -> list[Path]:
    """Return the files that a job leaves beside its result."""
    return [path.with_suffix(suffix) for suffix in (".log", ".lock", detached_jobs.STOP, _PROGRESS)]


def find_job(root: Path, name: str) -> BackgroundJob | None:
    """Return the job with this name, or whose name ends with `name`."""
    matches = [job for job in list_jobs(root) if job.id == name or (len(name) >= 3 and job.id.endswith(name))]
    return matches[0] if len(matches) == 1 else None


def cancel_job(job: BackgroundJob) -> None:
    """Cancel a working job; its `remains` says what remains. Raises `UserError` if the job is over."""
    if not job.is_working:
        raise UserError("job", f"{shorten(job.id)} has already ended")
    detached_jobs.cancel_job(job.path)


def job_at(path: Path, now: float) -> BackgroundJob | None:
    """Return the job with the result `path`; None if there is none or it ended more than a day ago."""
    progress, job_state = read_json(path.with_suffix(_PROGRESS)), detached_jobs.job_state(path)
    subject = _subject_in(progress)
    started, written = (stored_number(progress.get(key)) for key in ("began", "time"))
    if job_state.state == "absent" or job_state.state != "working" and not 0 <= now - (written or 0.0) < _RECENT_S:
        return None
    kind, _ = _KINDS.get(path.parent.name, ("Job", ""))
    title = clean_line(f"{kind} of {subject.name}")
    if job_state.state != "working":
        return BackgroundJob(path, job_state.state, title, subject.settings, started=started, message=job_state.message)
    share, phase = stored_number(progress.get("share")), progress.get("phase")
    phase = phase if phase in list(_PHASES) else "prepare"
    share = None if share is None else min(1.0, max(0.0, share))
    ends = [stored_number(progress.get(key)) for key in _ENDS]
    has_estimate = None not in ends and written is not None
    time_left = Span(*ends).after(max(0.0, now - written)) if has_estimate else None
    texts = {"remains": clean_line(subject.remains), "done": clean_line(progress.get("done") or "", 80)}
    return BackgroundJob(path, "working", title, subject.settings, phase, share, time_left, started, **texts)


def _subject_in(stored: dict) -> JobSubject:
    """Return the subject in a progress file; earlier versions stored only the settings."""
    settings = _settings(stored.get("settings"))
    name, remains = (value if isinstance(value := stored.get(key), str) else "" for key in ("what", "kept"))
    return JobSubject(name or _subject_name(settings), settings, remains)


def _settings(stored) -> dict[str, object]:
    """Return the valid entries of stored settings: names with texts, numbers and switches."""
    fields = stored.items() if isinstance(stored, dict) else ()
    return {key: value for key, value in fields if type(value) in (str, int, float, bool) and len(str(value)) < 4096}


class JobProgress:
    """Write `NAME.progress.json` at most once a second and check whether the job was cancelled."""

    def __init__(
        self, path: Path, subject: JobSubject, show: ReportPhase = ignore_progress, started: float | None = None
    ):
        self._path, self._subject, self._show = path, subject, show
        self._started = time.time() if started is None else started
        self._written, self._phase = 0.0, ""

    def report(self, phase: str, share: float | None = None, time_left: Span | None = None, done: str = "") -> None:
        """Record the progress. share: of the phase; time_left: of the whole job; done: see `BackgroundJob`."""
        self._show(_PHASES[phase], share, time_left)
        if phase == self._phase and time.monotonic() - self._written < _TICK_S:
            return
        self._written, self._phase = time.monotonic(), phase
        record = {"phase": phase, "share": share, "done": done, "time": time.time(), "began": self._started}
        ends = dict(zip(_ENDS, time_left or ()))
        subject = {"what": self._subject.name, "kept": self._subject.remains, "settings": dict(self._subject.settings)}
        write_json(self._path.with_suffix(_PROGRESS), record | ends | subject)

    def should_stop(self) -> bool:
        return detached_jobs.is_cancelled(self._path)

    def check(self) -> None:
        """Raise `Cancelled` if the job was cancelled."""
        if self.should_stop():
            raise Cancelled(f"{self._path.stem} was cancelled; {self._subject.remains}")


def progress_of(path: Path) -> JobProgress:
    """Return the progress of the job of this process; the file already holds the subject."""
    record = read_json(path.with_suffix(_PROGRESS))
    return JobProgress(path, _subject_in(record), started=_started_in(record))


def _started_in(record: dict) -> float | None:
    """Return when the page started the job: the process itself starts some seconds later."""
    return stored_number(record.get("began"))


@contextmanager
def working_on(
    config: Config, path: Path, is_begun: bool, show: ReportPhase = ignore_progress
) -> Iterator[JobProgress]:
    """Lock the result `path` for this process and publish its progress. Raises `UserError` if it is locked already.

    is_begun: a page started this process, which already holds the lock.
    """
    make_folder(path.parent)
    with _usable(path):
        lock = None if is_begun else try_lock(path.with_suffix(".lock"))
    if lock is None and not is_begun:
        raise UserError("job", f"{path.stem} is already running; show or cancel it with python -m lps queue")
    try:
        with _usable(path):
            if not is_begun:
                path.with_suffix(detached_jobs.STOP).unlink(missing_ok=True)
                path.with_suffix(".log").unlink(missing_ok=True)
                detached_jobs.note_worker(lock, os.getpid())
            record = read_json(path.with_suffix(_PROGRESS)) if is_begun else {}
            progress = JobProgress(path, subject_of(config), show, _started_in(record))
            progress.report("prepare")
        yield progress
    finally:
        if lock is not None:
            os.close(lock)


def end_when_cancelled(path: Path) -> None:
    """End this process `_PATIENCE_S` after its job was cancelled, even in the middle of a long step."""

    def watch() -> None:
        while not detached_jobs.is_cancelled(path):
            time.sleep(_TICK_S)
        time.sleep(_PATIENCE_S)
        os._exit(130)

    threading.Thread(target=watch, name="end of the job", daemon=True).start()
