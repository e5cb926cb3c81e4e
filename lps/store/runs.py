"""Define a run as a folder: the names of its files, how they are written and read, and the state derived from them.

Standard library only. Every file has one writer; whole files are replaced atomically, `events.jsonl` is appended to.

    config.json   settings; written once                        writer: the process that creates the run
    meta.json     name, notes, tags, hidden, rev                writer: pages and command line
    want.json     the request for the run and its place in the queue (lps.store.desired_state)
                  writers, under the folder's lock: pages, command line, and the dispatcher that retries a crashed run
    lock          an empty file under a kernel flock while the run is alive; never unlinked
    job.json      of a run on a cluster: its job and options    writer: the submitting process, then its runner
    process.json  attempt, host, boot id, pids, slot            writer: runner
    log.txt       output of the trainer                         writer: runner
    exit.json     how the attempt ended                         writer: runner, its last act before the lock is free
    events.jsonl  one JSON line per event                       writer: trainer
    progress.json phase, epoch, step, steps, eta_s, stop_s, time   writer: trainer, at most once a second
    split.npz, checkpoints/, snapshots/                         writer: trainer
    projections/  2-D maps                                      writer: `python -m lps project`
    recorded.json origin of a recording, which is read-only     writer: `python -m lps record`

Beside the runs: `.trash/` (deleted runs), `.incoming/` (unfinished folders), `.slots/`, `.sched.lock`, `.waker.lock`,
`.sweeps.lock`, `.queue.json` (lps.scheduler.queue), `.slurm/` (output of jobs). Recordings that come with the program
are in `RECORDED` (lps.store.run_folders).
"""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from lps.cluster import executors
from lps.cluster.jobs import JOB_FILE, BackendUnavailable, state_from_job
from lps.errors import UserError, shorten
from lps.files import disk, versions
from lps.files.atomic import clean_line, disk_error_in_words, read_json, read_small, remove_abandoned, write_json
from lps.files.folder_cache import FolderCache
from lps.files.locks import boot_id, folder_lock, is_held, is_own_file
from lps.settings.config import Config
from lps.store import desired_state
from lps.store.desired_state import DesiredState, positive_integer
from lps.store.events import check_version
from lps.wording import ago

ALIVE = ("starting", "running", "stopping", "unknown")  # unknown: SLURM, or another executor, does not answer
OVER = ("finished", "stopped", "failed", "crashed")
STATES = ("queued", *ALIVE, *OVER, "unreadable")
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9_]+-[a-z0-9_]+-s[0-9]+-[a-z0-9]{6}")
NOTES_LIMIT, TAG_LIMIT = 20_000, 40  # characters
RECORDED_FILE = "recorded.json"
_NO_SPACE = 1 << 16  # bytes; with fewer, not even a record of the end could be written
_GRACE_S = 60.0  # least time between a stop request and the kill; LPS_STOP_GRACE changes it
_SLACK, _LONGEST_GRACE_S = 3.0, 3600.0  # grace of slow steps: multiple of the step time, and its maximum


@dataclass(frozen=True)
class State:
    """The state of a run, derived on every read. `kind` and `reason` explain a failure, a crash or damage.

    is_settled: whether it follows from the run's files alone, without its lock.
    """

    name: str
    reason: str = ""
    kind: str = ""
    attempt: int = 0
    is_settled: bool = field(default=False, compare=False)

    @property
    def is_alive(self) -> bool:
        return self.name in ALIVE

    @property
    def is_moving(self) -> bool:
        """Return whether the state changes without the user: active or queued."""
        return self.is_alive or self.name == "queued"

    @property
    def is_over(self) -> bool:
        return self.name in OVER


STATE_FILES = ("want.json", "process.json", "exit.json")  # from which the state of a run that is over follows
# States that this process has derived, so that the queue reads no files.
settled_states: FolderCache[State] = FolderCache(*STATE_FILES)


@dataclass(frozen=True)
class Run:
    """The folder of one run. Creating the object touches no file."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def root(self) -> Path:
        return self.folder.parent

    @property
    def events(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def snapshots(self) -> Path:
        return self.folder / "snapshots"

    @property
    def projections(self) -> Path:
        return self.folder / "projections"

    @property
    def is_recorded(self) -> bool:
        """Return whether the run is a recording (lps.interop.recording), which is read-only."""
        return os.path.lexists(f"{self.folder}/{RECORDED_FILE}")

    def check_writable(self) -> None:
        """Raise `UserError` for a recording."""
        if self.is_recorded:
            raise UserError("run", f"{self.title} is a recording and read-only; launch a copy to get your own run")

    def config(self) -> Config:
        """Return the settings; raises `UserError` if the file is missing, damaged or from a newer program."""
        path = f"{self.folder}/config.json"
        try:
            status = os.stat(path)
            config = _read_config(path, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            check_version(self.events)
            return config
        except FileNotFoundError:
            if not os.path.isdir(self.folder):
                raise UserError("run", f"{clean_line(self.id)} was deleted in the meantime") from None
            raise UserError("config.json", "is missing: this folder is not a run") from None
        except OSError as error:
            raise UserError("config.json", f"cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise UserError("config.json", "is not UTF-8 text") from None

    def meta(self) -> dict:
        """Return name, notes, tags, hidden (lists leave the run out) and revision; empty if missing or damaged."""
        stored = self.read_json("meta.json")
        name, notes, tags = (stored.get(key) for key in ("name", "notes", "tags"))
        tags = tags if isinstance(tags, list) else []
        return {
            "name": clean_line(name) if isinstance(name, str) else "",
            "notes": clean_text(notes) if isinstance(notes, str) else "",
            "tags": [clean_line(tag, TAG_LIMIT) for tag in tags if isinstance(tag, str)],
            "hidden": stored.get("hidden") is True,
            "rev": positive_integer(stored.get("rev")),
        }

    def config_if_readable(self) -> Config | None:
        """Return the settings; None if they cannot be read."""
        try:
            return self.config()
        except UserError:
            return None

    def damages(self) -> list[str]:
        """Return warnings about `meta.json` and `want.json` that cannot be read and count as empty, one sentence each.

        The state does not depend on them: the run continues or can be resumed.
        """
        damage_by_name = {name: self._damage_to(name) for name in ("meta.json", "want.json")}
        if not is_own_file(self.lock):
            damage_by_name["lock"] = "is not a regular file; the run cannot be changed until you remove this file"
        return [f"{name} {damage}" for name, damage in damage_by_name.items() if damage]

    def _damage_to(self, name: str) -> str:
        """Describe the damage to `meta.json` or `want.json`; "" if the file is sound or missing."""
        if not os.path.lexists(self.folder / name):
            return ""
        stored = self.read_json(name)
        if name == "want.json":
            is_sound = desired_state.is_sound(stored)
            return "" if is_sound else "is damaged: the last request (start, stop, resume) is unknown"
        try:
            versions.check_version(name, stored.get("version"), name)
        except UserError as error:
            return str(error).partition(": ")[2]
        return "" if _is_sound_meta(stored) else "is damaged: name, note or tags cannot be read"

    def keep_damaged(self, name: str) -> None:
        """Give a damaged `meta.json` or `want.json` a second name before it is replaced; raises `OSError`.

        Nothing is lost: a user can still read what the program cannot.
        """
        path = self.folder / name
        if self._damage_to(name) and not path.is_dir():
            backup = self.folder / f"damaged-{path.stem}-{path.lstat().st_mtime_ns}.json"
            if not os.path.lexists(backup):
                disk.link(path, backup)
                disk.sync_folder(self.folder)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Lock the run's `want.json` and `meta.json` for one writer; raises `UserError` for disk errors."""
        try:
            with folder_lock(self.folder):
                remove_abandoned(self.folder, below=False)
                yield
        except OSError as error:
            if not self.folder.is_dir():
                raise UserError("run", f"{self.id} no longer exists") from None
            raise UserError("run", f"{self.id} cannot be changed ({disk_error_in_words(error)})") from None

    def write_meta(
        self, *, name=None, notes=None, tags=None, add=(), drop=(), hidden: bool | None = None, rev: int | None = None
    ) -> None:
        """Replace some of name (text), notes (text), tags (texts), hidden.

        add, drop: tags to add and to remove; other tags that were set meanwhile stay.
        rev: the revision that the user was editing; raises `UserError` if another one was saved meanwhile.
        """
        self.check_writable()
        with self.changing():
            version = self.read_json("meta.json").get("version")
            if versions.is_newer("meta.json", version):
                versions.check_version("meta.json", version)
            meta = self.meta()
            if rev not in (None, meta["rev"]):
                raise UserError(
                    "rev",
                    "the name, note or tags were changed in the meantime "
                    f"(revision {meta['rev']}, not {shorten(rev)}); reload",
                )
            if name is not None:
                meta["name"] = clean_line(name)
            if notes is not None:
                meta["notes"] = clean_text(str(notes))[:NOTES_LIMIT]
            if tags is not None or add or drop:
                dropped = {clean_line(tag, TAG_LIMIT) for tag in drop}
                cleaned_tags = [clean_line(tag, TAG_LIMIT) for tag in [*(meta["tags"] if tags is None else tags), *add]]
                meta["tags"] = [tag for tag in dict.fromkeys(cleaned_tags) if tag and tag not in dropped]
            if hidden is not None:
                meta["hidden"] = bool(hidden)
            self.keep_damaged("meta.json")
            write_meta(self.folder, meta | {"rev": meta["rev"] + 1})

    @property
    def title(self) -> str:
        """Return the name that a user gave the run, else its id."""
        return self.meta()["name"] or clean_line(self.id)

    def read_json(self, name: str) -> dict:
        """Return the object in one of the run's small files; empty if it is missing or damaged."""
        return read_json(f"{self.folder}/{name}")

    def state(self) -> State:
        """Derive the state from the lock and the records; it is never stored.

        The order of reading matters: if process.json has an attempt and the lock is free *afterwards*, this attempt is
        over, and its exit record, written before the lock was released, can be read.
        """
        begun_attempt = self.begun_attempt()
        is_locked = is_held(self.lock)
        exit_record, desired = self.read_json("exit.json"), self.desired()
        ended_attempt, requested_attempt = positive_integer(exit_record.get("attempt")), desired.attempt
        begun_attempt = max(begun_attempt, ended_attempt)
        if is_locked and (requested_attempt > begun_attempt or ended_attempt < begun_attempt or not begun_attempt):
            state = _active_state(begun_attempt, requested_attempt, desired.want)
            is_requested_stop = state.name == "stopping" and desired.want == "stop"
            return replace(state, reason=self._delay_in_words()) if is_requested_stop else state
        try:
            self.config()
        except UserError as error:
            return State("unreadable", str(error), "config")
        if desired.on:
            return self._state_on_cluster(desired, begun_attempt, _recorded_state(exit_record))
        if requested_attempt > begun_attempt:
            if desired.want != "run":
                return _cancelled_state(requested_attempt)
            return State("queued", desired_state.waiting_reason(desired), attempt=requested_attempt)
        if ended_attempt and ended_attempt == begun_attempt:
            return replace(_recorded_state(exit_record), is_settled=True)
        if begun_attempt:
            return State("crashed", self._crash_reason(), "killed", begun_attempt)
        return State("queued", "not launched yet", attempt=1)

    def waiting_attempt(self) -> int:
        """Return the attempt that this machine's queue will begin; 0 for none. Checks no lock."""
        desired = self.desired()
        if desired.want != "run" or desired.on or desired.attempt <= self.begun_attempt():
            return 0
        return desired.attempt if desired.attempt > self.ended_attempt() else 0

    def desired(self) -> DesiredState:
        """Return the newest request in `want.json`."""
        return desired_state.parse_desired_state(self.read_json("want.json"))

    def ended_attempt(self) -> int:
        """Return the newest attempt that has a record of its end; 0 without any."""
        return positive_integer(self.read_json("exit.json").get("attempt"))

    def begun_attempt(self) -> int:
        """Return the attempt in process.json; a damaged file counts as the newest, so that no attempt begins twice."""
        process = self.read_json("process.json")
        if not process and os.path.lexists(self.folder / "process.json"):
            return max(1, self.desired().attempt)
        return positive_integer(process.get("attempt"))

    def stop_s(self) -> float:
        """Return the seconds between two checks for a stop request, as the trainer measured them; 0 if unknown."""
        return max(0.0, desired_state.stored_number(self.read_json("progress.json").get("stop_s"), 0.0))

    def grace_s(self) -> float:
        """Return the seconds that the trainer has between a stop request and the kill, more if its steps are slow."""
        return max(_least_grace_s(), min(_SLACK * self.stop_s(), _LONGEST_GRACE_S))

    def _delay_in_words(self) -> str:
        """Explain why a stop takes longer than usual, and its latest end; "" if it does not."""
        step, grace = self.stop_s(), self.grace_s()
        if _SLACK * step <= _least_grace_s():
            return ""
        return f"waiting for the current step to finish (up to {step:.0f} s); after {grace:.0f} s, the run is killed"

    def _state_on_cluster(self, desired: DesiredState, started: int, recorded_state: State) -> State:
        """Return the state of a run whose lock is not held on this machine: from its records, then from its executor.

        If the executor (SLURM) says that the job is over, its end is already written, so the record is read again.
        If SLURM does not answer, the state is unknown.
        """
        if started and recorded_state.attempt == started and desired.attempt <= started:
            return replace(recorded_state, is_settled=True)
        if desired.attempt > started and desired.want != "run":
            return _cancelled_state(desired.attempt)
        submission, attempt = self.read_json(JOB_FILE), max(desired.attempt, started)
        try:
            job = executors.executor_named(desired.on).job_of(submission)
        except BackendUnavailable as error:
            return State("unknown", f"{error.in_words()}; {self._last_news()}", attempt=attempt)
        if job.is_over:
            record = self.read_json("exit.json")
            if positive_integer(record.get("attempt")) >= max(self.begun_attempt(), desired.attempt):
                return _recorded_state(record)
        has_begun = started >= desired.attempt
        name, reason, kind = state_from_job(job, has_begun, submission.get("time"))
        if name == "queued" and has_begun:  # its node failed, and the executor requeued it
            return State("stopping" if desired.want != "run" else "queued", reason, kind, started + 1)
        return State("stopping" if name == "running" and desired.want != "run" else name, reason, kind, attempt)

    def _last_news(self) -> str:
        """Describe when the run wrote its newest record."""
        times = []
        for path in (self.events, self.log, self.folder / "progress.json"):
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime)
        return f"last record {ago(time.time() - max(times))}" if times else "no record from the run yet"

    def _crash_reason(self) -> str:
        recorded = self.read_json("process.json").get("boot_id")
        if recorded and recorded != boot_id():
            return "the machine restarted while the run was active"
        if disk.free_bytes(self.folder) < _NO_SPACE:
            return "it ended without a record and the disk is full; free some space and resume"
        return "the run's processes were killed"


def _least_grace_s() -> float:
    """Return the seconds that every training process has between a stop request and the kill."""
    try:
        return max(0.0, float(os.environ["LPS_STOP_GRACE"]))
    except (KeyError, ValueError):
        return _GRACE_S


def clean_text(text: str) -> str:
    """Return a text of any number of lines; half characters, which UTF-8 cannot store, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _active_state(begun_attempt: int, requested_attempt: int, want) -> State:
    """Return the state of a run whose lock is held."""
    attempt = max(begun_attempt, requested_attempt, 1)
    if want in ("stop", "kill") and requested_attempt >= begun_attempt:
        return State("stopping", attempt=attempt)
    return State("starting" if requested_attempt > begun_attempt or not begun_attempt else "running", attempt=attempt)


def _cancelled_state(attempt: int) -> State:
    return State("stopped", "cancelled before it started", attempt=attempt)


def _recorded_state(record: dict) -> State:
    """Return the state in an exit record."""
    name = record.get("state")
    reason, kind = clean_line(record.get("reason") or "", 500), clean_line(record.get("kind") or "")
    if name not in OVER:
        return State("crashed", "exit.json is damaged", "killed", positive_integer(record.get("attempt")))
    return State(name, reason, kind, positive_integer(record.get("attempt")))


@lru_cache(maxsize=16_384)
def _read_config(path: str, mtime_ns: int, ctime_ns: int, size: int, inode: int) -> Config:
    """Read the settings; the other arguments identify the version of the file for the cache."""
    return Config.from_json(read_small(path).decode("utf-8"))


def _is_sound_meta(stored: dict) -> bool:
    """Return whether all fields of a `meta.json` have the right type; older files have fewer fields."""
    kinds = {"name": str, "notes": str, "tags": list, "hidden": bool, "rev": int}
    values = {key: stored[key] for key in kinds if key in stored}
    is_typed = all(type(value) is kinds[key] for key, value in values.items())
    return bool(values) and is_typed and all(isinstance(tag, str) for tag in values.get("tags", []))


def write_meta(folder: Path, meta: dict) -> None:
    write_json(folder / "meta.json", versions.with_version("meta.json", meta))
