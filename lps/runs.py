"""A run is a folder: what its files are called, how they are written and read, and the state they add up to.

Standard library only. Every file has one writer; whole files are replaced atomically, `events.jsonl` is appended to.

    config.json   what was asked; written once                  writer: whoever creates the run
    meta.json     name, notes, tags, hidden, rev                writer: pages and command line
    want.json     what is asked of the run and its place in the queue (lps.wishes)   writers, under the folder's lock:
                  pages and command line, and whoever asks for a crashed run again
    lock          an empty file under a kernel flock while the run is alive; never unlinked
    job.json      of a run on a cluster: its job, what it asks for   writer: whoever hands it over, then its runner
    process.json  attempt, host, boot id, pids, slot            writer: runner
    log.txt       what the trainer printed                      writer: runner
    exit.json     how the attempt ended                         writer: runner, its last act before the lock is free
    events.jsonl  one JSON line per event                       writer: trainer
    progress.json phase, epoch, step, steps, eta_s, time        writer: trainer, at most once a second
    split.npz, checkpoints/, snapshots/                         writer: trainer
    projections/  2-D maps                                      writer: `python -m lps project`

    recorded.json what a recording was made from: the folder is for looking at only; writer: `python -m lps record`

Beside the runs: `.trash/` (deleted runs, for a week), `.incoming/` (folders in the making), `.slots/`, `.sched.lock`,
`.waker.lock`, `.sweeps.lock`, `.queue.json` (lps.queue), `.slurm/` (what batch scripts printed). Recordings that come
with the program are in `RECORDED`.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from lps import disk, schema, slurm, wishes
from lps.config import Config
from lps.events import check_version
from lps.files import clean_line, read_small, refusal, sweep, write_json, write_whole
from lps.locks import boot_id, claim, is_held, locked
from lps.parameters import ConfigError, shorten
from lps.wishes import Wish, whole

ALIVE = ("starting", "running", "stopping", "unknown")  # unknown: on a cluster that does not answer
OVER = ("finished", "stopped", "failed", "crashed")
STATES = ("queued", *ALIVE, *OVER, "unreadable")
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9_]+-[a-z0-9_]+-s[0-9]+-[a-z0-9]{6}")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
TRASH_S = 7 * 86_400  # how long a deleted run stays in .trash
NOTES_LIMIT, TAG_LIMIT = 20_000, 40  # characters
RECORDED = Path(__file__).resolve().parent / "recorded"
RECORDED_FILE = "recorded.json"
NO_SPACE = 1 << 16  # bytes; with fewer, not even a record of the end could be written
INCOMING_S = 3600  # after this time a half-made folder has no maker any more


@dataclass(frozen=True)
class State:
    """Where a run stands, derived on every read. `kind` and `reason` explain a failure, a crash or a damage.

    is_settled: it follows from the run's files, whether or not its lock is held.
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
    def is_over(self) -> bool:
        return self.name in OVER


@dataclass(frozen=True)
class Run:
    """The folder of one run. Making the object touches no file."""

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
        """Whether it is a recording (lps.recording), which nothing may change."""
        return os.path.lexists(f"{self.folder}/{RECORDED_FILE}")

    def check_writable(self) -> None:
        """Raises `ConfigError` for a recording."""
        if self.is_recorded:
            raise ConfigError("run", f"{self.title} is a recording and stays as it is; launch a copy to have your own")

    def config(self) -> Config:
        """What was asked; raises `ConfigError` where the file is missing or damaged, or the run of a newer program."""
        path = f"{self.folder}/config.json"
        try:
            about = os.stat(path)
            config = _read_config(path, about.st_mtime_ns, about.st_size, about.st_ino)
            check_version(self.events)
            return config
        except FileNotFoundError:
            if not os.path.isdir(self.folder):
                raise ConfigError("run", f"{clean_line(self.id)} was deleted meanwhile") from None
            raise ConfigError("config.json", "is missing: this folder is no run") from None
        except OSError as error:
            raise ConfigError("config.json", f"cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ConfigError("config.json", "is not UTF-8 text") from None

    def meta(self) -> dict:
        """Name, notes, tags, hidden (lists leave the run out), revision; empty where the file is missing or damaged."""
        stored = self.read_json("meta.json")
        name, notes, tags = (stored.get(key) for key in ("name", "notes", "tags"))
        tags = tags if isinstance(tags, list) else []
        return {
            "name": clean_line(name) if isinstance(name, str) else "",
            "notes": clean_text(notes) if isinstance(notes, str) else "",
            "tags": [clean_line(tag, TAG_LIMIT) for tag in tags if isinstance(tag, str)],
            "hidden": stored.get("hidden") is True,
            "rev": whole(stored.get("rev")),
        }

    def config_if_readable(self) -> Config | None:
        """The settings; None where they cannot be read."""
        try:
            return self.config()
        except ConfigError:
            return None

    def damages(self) -> list[str]:
        """What a person should know of texts and wishes that cannot be read and count as none, a sentence each.

        The state does not depend on them: the run goes on, or can be resumed, all the same.
        """
        found = {name: self._damage_to(name) for name in ("meta.json", "want.json")}
        return [f"{name} {words}" for name, words in found.items() if words]

    def _damage_to(self, name: str) -> str:
        """What is wrong with a file of people's texts or wishes; "" for nothing, and where there is none."""
        if not os.path.lexists(self.folder / name):
            return ""
        stored = self.read_json(name)
        if name == "want.json":
            return "" if wishes.is_sound(stored) else "is damaged: what was last asked of the run is not known"
        try:
            schema.check(name, stored.get("version"), name)
        except ConfigError as error:
            return str(error).partition(": ")[2]
        return "" if _is_sound_meta(stored) else "is damaged: name, note and tags cannot all be read"

    def keep_damaged(self, name: str) -> None:
        """Give a damaged `meta.json` or `want.json` a second name, before it is replaced; raises `OSError`.

        Nothing is lost that way: a person may still read in it what the program cannot.
        """
        path = self.folder / name
        if self._damage_to(name) and not path.is_dir():
            kept = self.folder / f"damaged-{path.stem}-{path.lstat().st_mtime_ns}.json"
            if not os.path.lexists(kept):
                disk.link(path, kept)
                disk.sync_folder(self.folder)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """One writer of the run's wishes and texts at a time; raises `ConfigError` for whatever the disk refuses."""
        try:
            with locked(self.folder):
                sweep(self.folder, below=False)
                yield
        except OSError as error:
            if not self.folder.is_dir():
                raise ConfigError("run", f"{self.id} is not there any more") from None
            raise ConfigError("run", f"{self.id} cannot be changed ({refusal(error)})") from None

    def write_meta(
        self, *, name=None, notes=None, tags=None, add=(), drop=(), hidden: bool | None = None, rev: int | None = None
    ) -> None:
        """Replace some of name (text), notes (text), tags (texts), hidden.

        add, drop: tags that the run has, or has not, afterwards; whatever else somebody tags meanwhile stays.
        rev: the revision that the person was looking at; `ConfigError` where somebody has saved another one meanwhile.
        """
        self.check_writable()
        with self.changing():
            version = self.read_json("meta.json").get("version")
            if schema.is_newer("meta.json", version):
                schema.check("meta.json", version)
            meta = self.meta()
            if rev not in (None, meta["rev"]):
                raise ConfigError("rev", f"{shorten(rev)} is not {meta['rev']}: somebody saved other texts meanwhile")
            if name is not None:
                meta["name"] = clean_line(name)
            if notes is not None:
                meta["notes"] = clean_text(str(notes))[:NOTES_LIMIT]
            if tags is not None or add or drop:
                dropped = {clean_line(tag, TAG_LIMIT) for tag in drop}
                wanted = [clean_line(tag, TAG_LIMIT) for tag in [*(meta["tags"] if tags is None else tags), *add]]
                meta["tags"] = [tag for tag in dict.fromkeys(wanted) if tag and tag not in dropped]
            if hidden is not None:
                meta["hidden"] = bool(hidden)
            self.keep_damaged("meta.json")
            _write_meta(self.folder, meta | {"rev": meta["rev"] + 1})

    @property
    def title(self) -> str:
        """The name a person gave the run, else its id."""
        return self.meta()["name"] or clean_line(self.id)

    def read_json(self, name: str) -> dict:
        """The object in one of the run's small files; empty where it is missing or damaged."""
        try:
            value = json.loads(str(read_small(f"{self.folder}/{name}"), "utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def state(self) -> State:
        """The state that the lock and the records add up to (design: derived, never stored).

        The order of reading matters: an attempt in process.json and a lock found free *after* it mean that this attempt
        is over, and its exit record, written before the lock was let go, can be read by then.
        """
        started = self.begun_attempt()
        held = is_held(self.lock)
        ended, wish = self.read_json("exit.json"), self.wish()
        over, wanted = whole(ended.get("attempt")), wish.attempt
        started = max(started, over)
        if held and (wanted > started or over < started or not started):
            return _alive(started, wanted, wish.want)
        try:
            self.config()
        except ConfigError as error:
            return State("unreadable", str(error), "config")
        if wish.on:
            return self._state_on_cluster(wish, started, _ended(ended))
        if wanted > started:
            return State("queued", wishes.in_words(wish), attempt=wanted) if wish.want == "run" else _cancelled(wanted)
        if over and over == started:
            return replace(_ended(ended), is_settled=True)
        if started:
            return State("crashed", self._crash_reason(), "killed", started)
        return State("queued", "not launched yet", attempt=1)

    def waiting_attempt(self) -> int:
        """The attempt that this machine's queue shall begin; 0 where there is none. Looks at no lock."""
        wish = self.wish()
        if wish.want != "run" or wish.on or wish.attempt <= self.begun_attempt():
            return 0
        return wish.attempt if wish.attempt > self.ended_attempt() else 0

    def wish(self) -> Wish:
        """What somebody last asked of the run."""
        return wishes.read(self.read_json("want.json"))

    def ended_attempt(self) -> int:
        """The newest attempt that has a record of its end; 0 without any."""
        return whole(self.read_json("exit.json").get("attempt"))

    def begun_attempt(self) -> int:
        """The attempt in process.json; a damaged one counts as the newest, so that no attempt is begun twice."""
        process = self.read_json("process.json")
        if not process and os.path.lexists(self.folder / "process.json"):
            return max(1, self.wish().attempt)
        return whole(process.get("attempt"))

    def _state_on_cluster(self, wish: Wish, started: int, ended: State) -> State:
        """The state of a run whose lock is not held as far as can be seen from here: its own records, then the cluster.

        A record that is there when the cluster says that the job is over was written before, so it is read once more.
        """
        if started and ended.attempt == started and wish.attempt <= started:
            return ended
        if wish.attempt > started and wish.want != "run":
            return _cancelled(wish.attempt)
        about, attempt = self.read_json(slurm.RECORD), max(wish.attempt, started)
        try:
            job = slurm.job_of(about)
        except slurm.Silence as silence:
            return State("unknown", f"{slurm.silence_in_words(silence)}; {self._last_news()}", attempt=attempt)
        if job.is_over:
            record = self.read_json("exit.json")
            if whole(record.get("attempt")) >= max(self.begun_attempt(), wish.attempt):
                return _ended(record)
        begun = started >= wish.attempt
        name, reason, kind = slurm.standing(job, begun, about.get("time"))
        if name == "queued" and begun:  # its node failed, and the cluster puts it back
            return State("stopping" if wish.want != "run" else "queued", reason, kind, started + 1)
        return State("stopping" if name == "running" and wish.want != "run" else name, reason, kind, attempt)

    def _last_news(self) -> str:
        """When the run itself was last heard of."""
        times = []
        for path in (self.events, self.log, self.folder / "progress.json"):
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime)
        return f"last news {slurm.ago(time.time() - max(times))}" if times else "no news from the run yet"

    def _crash_reason(self) -> str:
        recorded = self.read_json("process.json").get("boot_id")
        if recorded and recorded != boot_id():
            return "the machine was restarted while the run was going"
        if disk.free(self.folder) < NO_SPACE:
            return "it ended without a record, and the disk is full: free some space and resume"
        return "the run's processes were killed"


def clean_text(text: str) -> str:
    """A text of any number of lines; halves of characters, which no UTF-8 file can hold, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _alive(started: int, wanted: int, word) -> State:
    """The state of a run whose lock is held."""
    attempt = max(started, wanted, 1)
    if word in ("stop", "kill") and wanted >= started:
        return State("stopping", attempt=attempt)
    return State("starting" if wanted > started or not started else "running", attempt=attempt)


def _cancelled(attempt: int) -> State:
    return State("stopped", "cancelled before it began", attempt=attempt)


def _ended(record: dict) -> State:
    """The state that an exit record states."""
    name = record.get("state")
    reason, kind = clean_line(record.get("reason") or "", 500), clean_line(record.get("kind") or "")
    if name not in OVER:
        return State("crashed", "exit.json is damaged", "killed", whole(record.get("attempt")))
    return State(name, reason, kind, whole(record.get("attempt")))


@lru_cache(maxsize=16_384)
def _read_config(path: str, mtime_ns: int, size: int, inode: int) -> Config:
    """The settings in the version of the file that the other arguments name."""
    return Config.from_json(read_small(path).decode("utf-8"))


def create_run(root: Path, config: Config, name: str = "", token: str | None = None) -> Run:
    """A new run folder with `config.json` and `meta.json`, complete from the moment it can be seen; nothing is started.

    `token` (a form's one-time key) makes the call idempotent: the same token and settings give the same folder, however
    many servers and threads ask at once. Raises `ConfigError` where `root` cannot be written to.
    """
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        tail = _tail(f"{token}\n{config.to_json()}" if token else secrets.token_hex())
        with locked(root):
            _sweep_drafts(root)
            made = [run for run in list_runs(root) if token and run.id.endswith(f"-s{config.seed}-{tail}")]
            return made[0] if made else _make_folder(root, config, name, tail)
    except OSError as error:
        said = obstacle(root) or f"{shorten(str(root))} cannot hold a new run ({refusal(error)})"
        raise ConfigError("runs", said) from None


def _make_folder(root: Path, config: Config, name: str, tail: str) -> Run:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    run = Run(root / f"{stamp}-{config.dataset}-{config.method}-s{config.seed}-{tail}")
    draft = root / ".incoming" / f"{run.id}.{secrets.token_hex(4)}"
    disk.make_folder(draft.parent)
    try:
        disk.make_folder(draft)
        os.close(disk.create(draft / "lock"))
        _write_meta(draft, {"name": clean_line(name), "notes": "", "tags": [], "rev": 1})
        write_whole(draft / "config.json", config.to_json().encode())
        disk.rename(draft, run.folder)
    except BaseException:
        disk.remove_folder(draft)
        raise
    disk.sync_folder(root)
    return run


def _is_sound_meta(stored: dict) -> bool:
    """Whether everything in a `meta.json` is of its kind; what is missing is so in older ones."""
    kinds = {"name": str, "notes": str, "tags": list, "hidden": bool, "rev": int}
    found = {key: stored[key] for key in kinds if key in stored}
    is_typed = all(type(value) is kinds[key] for key, value in found.items())
    return bool(found) and is_typed and all(isinstance(tag, str) for tag in found.get("tags", []))


def _write_meta(folder: Path, meta: dict) -> None:
    write_json(folder / "meta.json", schema.stamped("meta.json", meta))


def _sweep_drafts(root: Path) -> None:
    """Remove what killed makers of runs left; the caller holds the lock under which runs are made."""
    for path in (root / ".incoming").glob("*"):
        if RUN_ID.fullmatch(path.stem):
            disk.remove_folder(path)


def _tail(text: str) -> str:
    """Six letters and digits that follow from `text`."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return "".join(LETTERS[number // len(LETTERS) ** place % len(LETTERS)] for place in range(6))


def list_runs(root: Path) -> list[Run]:
    """Every folder under `root` that is or could be a run, newest first, foreign ones last; no hidden ones or links.

    None where `root` is not there yet; raises `ConfigError` where it cannot be read.
    """
    names = [name for name in subfolders(root) if not name.startswith(".")]
    names.sort(key=lambda name: (bool(RUN_ID.fullmatch(name)), name), reverse=True)
    return [Run(root / name) for name in names]


def subfolders(folder: Path) -> list[str]:
    """Names of the folders in `folder`, no links; none where it is not there yet. Raises `ConfigError`."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        said = obstacle(folder)
        if isinstance(error, FileNotFoundError) and not said:
            return []
        said = said or f"{shorten(str(folder), 200)} cannot be read ({refusal(error)})"
        raise ConfigError("runs", said) from None


def obstacle(folder: Path) -> str:
    """What stands where a folder should be, or one that it is to lie in: a file or a broken link; "" for neither."""
    folder = folder.absolute()
    place = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if os.path.isdir(place):
        return ""
    what = "a file, where a folder should be" if os.path.exists(place) else "a broken link"
    return f"{shorten(str(place), 200)} is {what}"


def recorded_runs() -> list[Run]:
    """The recordings that come with the program, in the order of their ids, which is the order they were made in."""
    return [run for run in reversed(list_runs(RECORDED)) if run.is_recorded]


def find_run(root: Path, text: str, by_path: bool = True) -> Run:
    """The run called `text`: its id, the end of its id, or the path of its folder; raises `ConfigError`.

    Recordings are found where no run in `root` is called so. by_path: False for text that came over the network, which
    only picks among the runs that are listed.
    """
    if by_path and "/" in text and RUN_ID.fullmatch(Path(text).name) and os.path.isdir(text):
        return Run(Path(text))
    runs = list_runs(root)
    found = _called(text, runs) or _called(text, recorded_runs())
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError("run", f"{shorten(text)} fits {len(found)} runs: {', '.join(run.id for run in found[:5])}")
    some = ", ".join(run.id for run in runs[:3]) or "none yet"
    raise ConfigError("run", f"{shorten(text)} is not in {root}; newest runs: {some}")


def _called(text: str, runs: list[Run]) -> list[Run]:
    exact = [run for run in runs if run.id == text]
    return exact or [run for run in runs if len(text) >= 3 and run.id.endswith(text)]


def delete_run(run: Run) -> None:
    """Move a run to `.trash/` (one rename, kept for a week); raises `ConfigError` while it is alive, or a recording."""
    run.check_writable()
    state = run.state()
    try:
        descriptor = None if state.is_alive else claim(run.lock)
        if descriptor is None:
            raise ConfigError("run", f"{run.id} is {_presence(run)}")
        try:
            trash = run.root / ".trash"
            disk.make_folder(trash)
            disk.rename(run.folder, trash / f"{run.id}.{secrets.token_hex(4)}")
            disk.sync_folder(run.root)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError("run", f"{run.id} cannot be deleted ({refusal(error)})") from None
    _purge(trash, TRASH_S)
    _purge(run.root / ".incoming", INCOMING_S)


def _presence(run: Run) -> str:
    """Why the lock of a run could not be had, as the end of a sentence."""
    return f"{run.state().name}; stop it before you delete it" if run.folder.is_dir() else "already deleted"


def _purge(folder: Path, age_s: float) -> None:
    """Remove what came into `folder` more than `age_s` seconds ago (a rename sets an entry's change time)."""
    for path in folder.glob("*"):
        if time.time() - path.lstat().st_ctime > age_s:
            shutil.rmtree(path, ignore_errors=True)
